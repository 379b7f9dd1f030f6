"""From the device's events back to the statements that asked for them, and why programs compile."""

import inspect
import json

import pytest

import mxjax as mx
from mxjax import core, gluon, profiler
from mxjax.gluon import nn
from mxjax.profiler._statements import Statements

pytestmark = pytest.mark.programs


class Nested(gluon.HybridBlock):
    """Its blocks have the names that JAX gives to parts of loops."""

    def __init__(self):
        super().__init__()
        self.body, self.cond = nn.HybridSequential(), nn.Dense(8)
        self.body.add(nn.Dense(8), nn.Dense(8))

    def forward(self, x):
        return self.cond(self.body(x))


class Twice(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(8, flatten=False)

    def forward(self, x):
        y = mx.np.sin(self.dense(x))
        return mx.np.sin(mx.np.dot(y, y))


LINES, FIRST = inspect.getsourcelines(Twice.forward)


@pytest.fixture
def traced(tmp_path):
    """Profiles a function of a warm step; the events of the trace."""

    def run(step, **options):
        step()
        step()
        mx.npx.waitall()
        path = str(tmp_path / "trace.json")
        profiler.set_config(
            profile_all=True, continuous_dump=False, aggregate_stats=True, filename=path, **options
        )
        profiler.set_state("run")
        step()
        mx.npx.waitall()
        profiler.set_state("stop")
        profiler.dump(finished=False)
        with open(path) as file:
            return json.load(file)["traceEvents"]

    return run


@pytest.mark.parametrize("hybridized", [False, True])
def test_events_name_the_statement(traced, hybridized):
    net = Twice()
    net.initialize()
    if hybridized:
        net.hybridize()
    x = mx.np.ones((8, 8))
    events = traced(lambda: net(x).wait_to_read())
    device = [e for e in events if e.get("cat") == "operator"]
    sources = {e["args"]["source"] for e in device}
    assert sources <= {f"{__file__}:{FIRST + k}" for k in range(len(LINES))}
    (dot,) = [e for e in device if e["args"]["operator"] == "dot"]
    assert dot["args"]["source"] == f"{__file__}:{FIRST + 2}"
    assert dot["args"]["shapes"] == "float32[8,8], float32[8,8] -> float32[8,8]"
    assert dot["args"]["block"] == "twice"
    assert dot["args"]["flops"] == 2 * 8**3 and dot["args"]["result"] == "f32[8,8]"
    assert dot["args"]["bytes"] == 2 * 8 * 8 * 4  # y twice is read once
    # An arrow leads to it from what the host recorded: the operator, or the call of the block.
    (end,) = [e for e in events if e["ph"] == "f" and (e["pid"], e["tid"], e["ts"]) == _place(dot)]
    (begin,) = [e for e in events if e["ph"] == "s" and e["id"] == end["id"]]
    (record,) = [e for e in events if e["ph"] == "X" and _place(e) == _place(begin)]
    assert record["cat"] == "dispatch" and record["name"] == ("twice" if hybridized else "dot")
    assert record["ts"] + record["dur"] <= dot["ts"]
    # The lines of the table are those of the program.
    by_line = json.loads(profiler.dumps(format="json", group_by="source"))["Time"]["source"]
    assert by_line[f"{__file__}:{FIRST + 1}"]["Count"] == 2  # dense, sin
    assert by_line[f"{__file__}:{FIRST + 2}"]["Count"] == 2  # dot, sin
    by_block = json.loads(profiler.dumps(format="json", group_by="block"))["Time"]["block"]
    assert by_block["twice"]["Count"] == 3 and by_block["twice/dense"]["Count"] == 1
    by_shape = json.loads(profiler.dumps(format="json", group_by="shape"))["Time"]["shape"]
    assert by_shape["dot float32[8,8], float32[8,8] -> float32[8,8]"]["Count"] == 1
    with pytest.raises(AssertionError, match="group_by"):
        profiler.dumps(group_by="colour")


def _place(e):
    return e["pid"], e["tid"], e["ts"]


def test_calls_of_one_operator_in_one_place_are_told_apart():
    x = mx.np.ones((4,))
    y = mx.np.sin(x)
    z = mx.np.sin(y)
    steps = z._value().seg.step.path()
    found = Statements(steps)
    one, two = found.find(["sin"]), found.find(["sin#1"])
    assert one is not two and two.step.site[1] == one.step.site[1] + 1
    assert found.find(["cos"]) is None
    assert two.shapes == "float32[4] -> float32[4]"


def _why():
    """The reasons for what is compiled in a call."""

    class Watch:
        def __init__(self):
            self.reasons = []

        def on_compile(self, name, reason, start, stop):
            self.reasons.append(reason)

        on_run = on_sync = on_python = lambda *_: None

    return Watch()


def test_reasons_for_compiling():
    def step(shape, dtype="float32", axis=0):
        x = mx.np.ones(shape, dtype=dtype)
        for _ in range(2):  # what came back may be followed by another program
            x.wait_to_read()
            mx.np.concatenate([mx.np.sin(x), x], axis=axis).asnumpy()

    step((2, 3))
    watch = _why()
    core.observe(watch)
    try:
        for arguments, expected in (
            (((4, 3),), "float32[4, 3] instead of float32[2, 3]"),
            (((2, 3), "float64"), "float64[2, 3] instead of float32["),
            (((2, 3), "float32", 1), "axis of concat: 1 instead of 0"),
        ):
            del watch.reasons[:]
            step(*arguments)
            assert any(expected in reason for reason in watch.reasons), (expected, watch.reasons)
        x = mx.np.ones((5, 7))
        x.wait_to_read()
        del watch.reasons[:]
        mx.np.tan(x).asnumpy()
        assert watch.reasons == ["a new segment"]
    finally:
        core.unobserve(watch)


def test_reasons_tell_of_other_results():
    kept = []

    def twice(x):
        y = mx.np.arctan(x)
        kept.append(y)
        return mx.np.tanh(y)

    x = mx.np.ones((3, 7))
    x.wait_to_read()
    for _ in range(2):
        mx.np.tanh(mx.np.arctan(x)).wait_to_read()
    watch = _why()
    core.observe(watch)
    try:
        twice(x).wait_to_read()
    finally:
        core.unobserve(watch)
    assert watch.reasons == ["another set of results or donations: now held: arctan"]


def test_reasons_tell_of_an_option():
    x = mx.np.ones((3, 5))
    x.wait_to_read()
    mx.np.arctan(mx.np.exp(x)).wait_to_read()
    watch = _why()
    core.observe(watch)
    try:
        mx.config.set("compiler.options", {"xla_cpu_enable_fast_math": False})
        mx.np.arctan(mx.np.exp(x)).wait_to_read()
    finally:
        core.unobserve(watch)
    assert any("xla_cpu_enable_fast_math" in reason for reason in watch.reasons), watch.reasons


@pytest.mark.observes
@pytest.mark.parametrize("training", [False, True])
def test_without_bulks_each_operator_has_events_of_its_own(traced, training):
    """MXNET_EXEC_BULK_EXEC_INFERENCE=0 and _TRAIN=0, as the tutorial promises."""
    x = mx.np.ones((4, 4))
    x.attach_grad()

    def step():
        with mx.autograd.record(train_mode=training):
            mx.np.exp(mx.np.sin(mx.np.cos(x))).wait_to_read()

    with mx.config.scope(engine_bulk_infer=False, engine_bulk_train=False):
        events = traced(step)
    device = [e for e in events if e.get("cat") == "operator"]
    assert sorted({e["name"] for e in device}) == ["cos", "exp", "sin"]
    assert len({e["args"]["run_id"] for e in device}) == 3
    assert {e["args"]["attribution"] for e in device} == {"exact"}


def test_blocks_inside_a_hybridized_one_have_their_paths_once(traced):
    net = Nested()
    net.initialize()
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    x = mx.np.ones((2, 8))

    def step():
        with mx.autograd.record():
            loss = net(x).sum()
        loss.backward()
        trainer.step(1)

    traced(step)
    rows = json.loads(profiler.dumps(format="json", group_by="block"))["Time"]["block"]
    dense = {"nested/body/dense0", "nested/body/dense1", "nested/cond"}
    assert dense <= set(rows)
    assert set(rows) <= dense | {"(no block)", "nested"}
    assert all(rows[name]["Count"] == 2 for name in dense)  # forward and backward
