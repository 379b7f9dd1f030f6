"""The pages that show how to leave and to join: their examples run, one after the other."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


def test_what_the_page_of_calls_shows_holds():
    names = {}
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "how_a_call_lives.md").read_text(), re.S)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, "docs/how_a_call_lives.md", "exec"), names)


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_links_of_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target


@pytest.mark.slow  # a large network of the zoo
def test_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for page in ("leaving", "joining"):  # what the first writes, the second reads
        names = {}
        blocks = re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(), re.S)
        assert len(blocks) >= 4
        for block in blocks:
            exec(compile(block, f"docs/{page}.md", "exec"), names)
    assert {"net.onnx", "net.safetensors", "net.stablehlo", "net-symbol.json"} <= {p.name for p in tmp_path.iterdir()}
