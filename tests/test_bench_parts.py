"""Parts of a benchmark: one table of all, whatever becomes of one of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import parts


def _figure(what: str, value: float | None, at_most: float | None, **more: bool) -> dict[str, Any]:
    met = None if at_most is None else value is not None and value <= at_most
    return {
        "what": what,
        "value": value,
        "unit": "x",
        "at_most": at_most,
        "at_least": None,
        "met": met,
        **more,
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the parts of a benchmark named `some` lie."""
    monkeypatch.setattr(parts, "FOLDER", tmp_path)
    monkeypatch.setattr(parts, "OUTPUT", tmp_path / "out")

    def part(name: str, figures: list[dict[str, Any]], then: str = "") -> None:
        text = json.dumps(figures)
        (tmp_path / f"some_{name}.py").write_text(
            f"print('for people')\nprint({text!r})\n{then}\n", encoding="utf-8"
        )

    part("good", [_figure("a", 1.0, 2.0), _figure("no goal", 3.0, None)])
    part("strict", [_figure("s", 3.0, 2.0, stricter=True), _figure("t", 1.0, 2.0, stricter=True)])
    part("slow", [_figure("b", 3.0, 2.0)])
    part("broken", [_figure("c", 1.0, 2.0)], "raise SystemExit(3)")
    return tmp_path


@pytest.mark.parametrize(
    ("asked", "status", "lines"),
    [
        (["good"], 0, ["| a | <= 2 | 1 x | ok |"]),
        (
            ["strict"],
            0,
            [
                "| s | <= 2 | 3 x | miss (stricter than the goal) |",
                "| t | <= 2 | 1 x | ok (stricter than the goal) |",
            ],
        ),
        (["slow", "good"], 1, ["| b | <= 2 | 3 x | miss |", "| a | <= 2 | 1 x | ok |"]),
        (
            ["broken", "good"],
            1,
            [
                "| c | <= 2 | 1 x | ok |",
                "| broken: exit status | <= 0 | 3  | miss |",
                "| a | <= 2 | 1 x | ok |",
            ],
        ),
    ],
)
def test_one_table_and_a_status(
    asked: list[str], status: int, lines: list[str], folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert parts.main("some", ("good", "slow", "broken", "strict"), asked) == status
    printed = capfd.readouterr().out.splitlines()
    assert [x for x in printed if x.startswith("| ")][1:] == lines
    assert printed.count("for people") == len(asked)
    kept = json.loads((folder / "out" / "some.json").read_text(encoding="utf-8"))
    assert {f["what"] for f in kept} >= {x.split(" | ")[0][2:] for x in lines}


def test_an_unknown_part(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert parts.main("some", ("good",), ["godo"]) == 2
    assert "there is no part 'godo'; there are: good" in capsys.readouterr().err
