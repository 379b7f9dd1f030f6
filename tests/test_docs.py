"""The pages under docs/: what they show runs, what they say of errors is so, their links lead somewhere."""

import ast
import re
from pathlib import Path

import pytest

import mxjax as mx
from mxjax._version import __version__

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
#: What needs a large network of the zoo, or many compilations.
SLOW = ("leaving", "joining", "memory")
#: What tests/test_documents.py runs, in a process of its own.
ALONE = ("first_steps",)


def blocks(page):
    return re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(), re.S)


def run(page, names=None):
    names = {} if names is None else names
    for block in blocks(page):
        exec(compile(block, f"docs/{page}.md", "exec"), names)
    return names


@pytest.mark.parametrize(
    "page", [p.stem for p in PAGES if "```python" in p.read_text() and p.stem not in SLOW + ALONE]
)
def test_what_a_page_shows_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        run(page)
        mx.waitall()
    finally:
        mx.amp.amp.end()  # what the page on mixed precision switched on


@pytest.mark.slow
@pytest.mark.parametrize(
    "pages", [("leaving", "joining"), ("memory",)]
)  # what the first writes, the second reads
def test_what_larger_pages_show_runs(pages, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for page in pages:
        assert len(blocks(page)) >= 3
        run(page)
    if "leaving" in pages:
        assert {"net.onnx", "net.safetensors", "net.stablehlo", "net-symbol.json"} <= {
            p.name for p in tmp_path.iterdir()
        }


#: What stands as a comment in a program, and what it would need: nothing else may.
COMMENTED = {
    "joining": {'pretrained="': "a file of another project's, or a network", '"hf://': "a network"},
    "leaving": {"module.": "a module of PyTorch or Flax", "huggingface_hub.": "a network"},
}


def test_programs_leave_out_only_what_cannot_run_here():
    """A line of code that is a comment has a reason; every other line of every page runs."""
    for page in (p.stem for p in PAGES):
        for line in re.findall(r"^\s*# (.*)$", "\n".join(blocks(page)), re.M):
            try:
                calls = any(isinstance(n, ast.Call) for n in ast.walk(ast.parse(line)))
            except SyntaxError:
                continue  # words
            needed = COMMENTED.get(page, {})
            assert not calls or any(start in line for start in needed), f"docs/{page}.md: {line}"


def of_readme(path):
    return re.findall(r"```python\n(.*?)```", (ROOT / path).read_text(), re.S)


#: Other files with programs; the README's, first steps' and CONTRIBUTING's run in test_documents.py.
READMES = ("kvstore/README.md", "memonger/dynamic/README.md", "mxjax/ops/README.md")
NOT_RUN = {
    "kvstore/PROCESSES.md": "parts of a job of several processes, whose calls tests/kvstore makes",
    "tests/fuzz/README.md": "rows of the fuzz's own table, as it has them",
}


def test_every_file_with_a_program_is_run():
    folders = "mxjax gluon kvstore memonger profiler examples benchmarks shim tests tools notebooks".split()
    pages = [*ROOT.glob("*.md"), *(p for folder in folders for p in (ROOT / folder).rglob("*.md"))]
    found = {str(p.relative_to(ROOT)) for p in pages if "```python" in p.read_text()}
    assert found == {*READMES, *NOT_RUN, "README.md", "CONTRIBUTING.md"}


def test_the_stores_and_the_memory_s_programs_run():
    mx.random.seed(0)
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(4, in_units=4))
    net.initialize()
    x, y, batch = mx.np.ones((4, 4)), mx.np.zeros(4), 4
    names = {
        "mx": mx,
        "gluon": mx.gluon,
        "autograd": mx.autograd,
        "net": net,
        "x": x,
        "y": y,
        "batch": batch,
    }
    names["LOSS"] = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    before = net[0].weight.data().asnumpy()
    for block in of_readme("kvstore/README.md"):
        exec(compile(block, "kvstore", "exec"), names)
    assert abs(net[0].weight.data().asnumpy() - before).max() > 0
    names["x"] = mx.np.ones(3) * 2
    try:
        for block in of_readme("memonger/dynamic/README.md"):
            exec(compile(block, "dynamic", "exec"), names)
        assert names["x"].tolist() == [2, 2, 2]
    finally:
        mx.dtr.disable()


def test_the_row_of_the_operators_page_is_one(tmp_path):
    from mxjax.ops import table

    (block,) = of_readme("mxjax/ops/README.md")
    assert "smooth_l1" in table.TABLE and block.startswith("@op(")
    names = {
        "op": lambda **told: lambda fn: (told, fn),
        "case": lambda *a, **k: (a, k),
        "f": lambda *a: a,
    }
    exec(compile(block, "ops", "exec"), names)
    told, fn = names["smooth_l1"]
    assert told["npx"] == told["nd"] == fn.__name__ == "smooth_l1" and fn.__doc__


def rows_of_errors():
    text = (DOCS / "errors.md").read_text().partition("## Warnings")[0]
    return re.findall(r"^\| `([^`]+)` \| (.+?) \| .+? \|$", text, re.M)


def test_errors_say_what_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = rows_of_errors()
    assert len(found) >= 40
    names = run("errors")
    for line, said in found:
        with pytest.raises(Exception) as error:  # noqa: B017 - which it is, its message says
            eval(compile(ast.parse(line, mode="eval"), line, "eval"), names)
            mx.waitall()
        message = " ".join(str(error.value).split())
        for part in said.replace("\\*", "*").split(" ... "):
            assert part in message, f"{line}: {message}"


def test_the_page_on_mxnet_tells_of_every_module():
    page = (DOCS / "coming_from_mxnet.md").read_text()
    rows = re.findall(r"^\| (`mx.*)$", page, re.M)
    named = {name for row in rows for name in re.findall(r"`mx\.([\w.]+)", row)}
    lazy = set(mx._LAZY) - {
        "kv",
        "img",
        "init",
        "mod",
        "mon",
        "opt",
        "rnd",
        "sym",
        "th",
        "viz",
        "contrib",
    }  # short names
    told = {"numpy": "np", "numpy_extension": "npx", "symbol": "sym", "module": "mod", "initializer": "init",
            "kvstore": "kv", "visualization": "viz"}  # fmt: skip
    assert {told.get(name, name) for name in lazy} <= named


def test_the_changelog_is_of_releases():
    text = (ROOT / "CHANGELOG.md").read_text()
    releases = re.findall(r"^## (.*)", text, re.M)
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", release) for release in releases)
    assert releases[0] == __version__ and releases == sorted(releases, reverse=True)


@pytest.mark.parametrize("page", [p.stem for p in PAGES])
def test_code_fits_the_page(page):
    code = re.findall(r"```\w+\n(.*?)```", (DOCS / f"{page}.md").read_text(), re.S)
    assert [line for block in code for line in block.split("\n") if len(line) > 100] == []
