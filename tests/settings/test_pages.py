"""The pages about the settings are those that the table makes."""

import importlib.util
from pathlib import Path

import pytest

from mxjax.settings.rows import OPTIONS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location(
        "settings_pages", ROOT / "tools" / "settings_pages.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_current(tool):
    stale = [
        name
        for name, text in tool.pages().items()
        if (ROOT / "docs" / "settings" / name).read_text(encoding="utf-8") != text
    ]
    assert not stale, "run python tools/settings_pages.py"
    assert tool.main(["--check"]) == 0


def test_every_name_is_on_its_familys_page(tool):
    pages = tool.pages()
    for row in OPTIONS:
        assert f"### {row.name}\n" in pages["options.md"]
        for old in row.legacy:
            assert f"| `{old.name}` | {old.fidelity} |" in pages[f"{tool.family_of(old)}.md"]


def test_a_page_that_is_not_current_fails_the_check(tool, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tool, "FOLDER", tmp_path)
    assert tool.main(["--check"]) == 1
    assert "not current: mxnet.md" in capsys.readouterr().err
    assert tool.main([]) == 0 and tool.main(["--check"]) == 0
    (tmp_path / "ascend.md").write_text("x")
    assert tool.main(["--check"]) == 1
