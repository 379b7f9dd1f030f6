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
