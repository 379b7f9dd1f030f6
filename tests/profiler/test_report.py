"""Steps, pictures, pages and comparisons."""

import html.parser
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import mxjax as mx
from mxjax import autograd, gluon, profiler
from mxjax.errors import MXNetError
from mxjax.gluon import nn
from mxjax.profiler import _chrome, _steps, verify
from mxjax.profiler.__main__ import main as profiler_main
from mxjax.profiler._recorder import Recorder, Run, Span
from mxjax.profiler._recording import Recording, Wanted

pytestmark = pytest.mark.programs

MS = 1_000_000


def recording(spans, runs=(), compiles=()):
    made = Recorder(
        spans=[Span("host", "main", c, c, a * MS, b * MS) for c, a, b in spans],
        runs=[Run("run", (), None, a * MS, b * MS, "main") for a, b in runs],
        compiles=[("program", "new", a * MS, b * MS, "main") for a, b in compiles],
    )
    return Recording(made, Wanted())


def test_a_step_is_divided_without_counting_twice():
    one = recording(
        [
            ("input", 0, 10),
            ("collective", 25, 35),
            ("step", 30, 40),
            ("input", 45, 50),
            ("step", 60, 70),
        ],
        runs=[(8, 20), (52, 54)],
        compiles=[(15, 30)],
    )
    first, second = _steps.steps([one])
    assert first.number == 1 and first.total == 40 and second.total == 30
    # What several have is the first kind's: a collective, then a compilation, then the input.
    assert first.parts == {
        "device": 0, "collective": 10, "compile": 10, "input": 10, "dispatch": 5, "idle": 5,
    }  # fmt: skip
    assert second.parts["input"] == 5 and second.parts["dispatch"] == 2
    assert second.parts["idle"] == 30 - 5 - 2
    for step in (first, second):
        assert sum(step.parts.values()) == pytest.approx(step.total)
    table = _steps.table([first, second])
    assert "mean" in table and f"{35:>12.3f}" in table


def test_without_the_end_of_a_step_all_is_one():
    (one,) = _steps.steps([recording([("input", 5, 10)], runs=[(12, 20)])])
    assert one.total == 15 and one.parts["idle"] == 2
    assert _steps.steps([recording([])]) == []


def test_many_steps_show_the_first_and_the_last():
    many = recording([("step", i, i + 1) for i in range(50)], runs=[(0, 50)])
    lines = _steps.table(_steps.steps([many])).splitlines()
    assert sum(line.strip() == "..." for line in lines) == 1 and len(lines) < 30


class Page(html.parser.HTMLParser):
    """Collects what a page holds and would load."""

    def __init__(self):
        super().__init__()
        self.tags, self.loads, self.text = [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.loads += [v for k, v in attributes if k in ("src", "href")]

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture
def trained(tmp_path):
    """Two profiled steps of a small network."""
    net = nn.Dense(4)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    loader = gluon.data.DataLoader(
        gluon.data.ArrayDataset(mx.np.ones((4, 3))), batch_size=2, num_workers=0
    )

    def steps():
        for x in loader:
            with autograd.record():
                loss = net(x).sum()
            loss.backward()
            trainer.step(2)
        mx.npx.waitall()

    steps()
    profiler.set_config(
        profile_all=True,
        aggregate_stats=True,
        continuous_dump=False,
        filename=str(tmp_path / "trace.json"),
    )
    profiler.start()
    steps()
    profiler.stop()


def test_report_page_and_notebook(trained, tmp_path):
    path = tmp_path / "report.html"
    text = profiler.report(str(path))
    rows = [line.split() for line in text.splitlines()]
    assert [r[0] for r in rows if r and r[0].isdigit()] == ["1", "2"]
    assert "exact" in text
    page = Page()
    page.feed(path.read_text())
    assert (
        page.loads == [] and "script" not in page.tags
    )  # nothing from elsewhere, nothing that runs
    assert page.tags.count("svg") >= 4
    assert {"FullyConnected", "By source line"} <= set(page.text)
    assert any(text.startswith(__file__) for text in page.text)
    shown = profiler.show()
    drawn = shown._repr_html_()
    for picture in drawn.split("<svg")[1:]:  # pictures are XML by themselves
        root = ElementTree.fromstring("<svg" + picture[: picture.index("</svg>") + 6])
        assert root.tag.endswith("svg")
    assert "FullyConnected" in drawn and "FullyConnected" in repr(shown)
    # Rows of what a step consists of are in the trace.
    profiler.dump(finished=False)
    kinds = {e.get("cat") for e in _chrome.read(str(tmp_path / "trace.json"))["traceEvents"]}
    assert {"step", "input", "dispatch", "run", "operator", "statement"} <= kinds


def test_report_without_a_run():
    with pytest.raises(MXNetError, match="set_state"):
        profiler.report()
    with pytest.raises(MXNetError, match="set_state"):
        profiler.show()


def test_own_loops_mark_their_steps(config, work):
    config()
    profiler.step()  # not running: nothing
    profiler.set_state("run")
    for _ in range(3):
        work()
        profiler.step()
    profiler.set_state("stop")
    text = profiler.report()
    assert sum(line[:8].strip().isdigit() for line in text.splitlines()) == 3


def stats(**times):
    rows = {
        name: {"Count": n, "Total": ms, "Min": 0, "Max": 0, "Avg": 0}
        for name, (n, ms) in times.items()
    }
    return json.dumps({"Time": {"MXNET_C_API": {}, "operator": rows}, "Memory": {}, "Unit": {}})


def test_diff():
    text = profiler.diff(
        stats(dot=(2, 10.0), exp=(1, 3.0), old=(1, 1.0)),
        stats(dot=(2, 25.0), exp=(1, 3.5), new=(4, 2.0)),
    )
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line[0] != "-"}
    assert list(rows)[1:] == ["dot", "new", "old", "exp", "total"]  # the largest change first
    assert rows["dot"] == ["2", "2", "10.0000", "25.0000", "+15.0000", "2.50"]
    assert rows["new"][-1] == "new" and rows["old"][-1] == "gone"
    assert rows["total"][2:5] == ["14.0000", "30.5000", "+16.5000"]


@pytest.mark.parametrize(
    "text",
    [
        "5",
        '{"a": 1}',
        '{"traceEvents": 5}',
        '{"traceEvents": [1]}',
        '{"traceEvents": [{"na',
        "",
        '"a"',
    ],
)
def test_what_is_no_trace_is_refused(text, tmp_path, capsys):
    path = str(tmp_path / "damaged")  # what is named .json is checked when the test ends
    Path(path).write_text(text)
    with pytest.raises(MXNetError, match="takes what"):
        profiler.diff(path, path)
    with pytest.raises(MXNetError, match="no trace"):
        profiler.merge([path], str(tmp_path / "out"))
    for command in ("view", "tensorboard"):
        assert profiler_main([command, path]) == 1
    assert verify.check(path)
    assert "no trace" in capsys.readouterr().err


def test_arguments_of_another_kind_are_refused(tmp_path):
    for wrong in (None, 5, '{"Time": 5}', '{"Time": {"operator": {"a": 1}}}'):
        with pytest.raises(MXNetError, match="takes what"):
            profiler.diff(wrong, wrong)
    with pytest.raises(TypeError, match="a list of paths"):
        profiler.merge("a.json", "b.json")


def test_diff_of_files(tmp_path):
    def trace(name, *spans):
        path = str(tmp_path / name)
        _chrome.write(
            path,
            [
                Span("cpu/0", "t", "operator", n, 0, d, a and {"hlo_op": n, **a})
                for n, d, a in spans
            ],
            [],
            {},
        )
        return path

    task = ("dot", MS, None)  # of a domain of the user's that is called `operator`
    one = trace("a.json", ("dot", 4 * MS, {"result": "f32[]"}), task)
    two = trace("b.json", ("dot", 8 * MS, {"mx_ops": {"net/dot": 0.75, "net/exp": 0.25}}))
    rows = {line.split()[0]: line.split()[1:] for line in profiler.diff(one, two).splitlines()}
    assert rows["dot"][2:4] == ["4.0000", "6.0000"] and rows["exp"][3] == "2.0000"
    for path in (one, two):
        Path(path).unlink()
    with pytest.raises(MXNetError, match="dumps"):
        profiler.diff(one, two)
    with pytest.raises(MXNetError, match="dumps"):
        profiler.diff("{}}", "{}")
