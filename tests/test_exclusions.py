"""docs/exclusions.md: what is listed there is indeed not here, and says why."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import mxjax

TEXT = (Path(__file__).parents[1] / "docs" / "exclusions.md").read_text()
ROWS = [line.strip("| ").split(" | ") for line in TEXT.splitlines() if line.startswith("| `")]
NAMES = [name for names, _ in ROWS for name in re.findall(r"`mx\.([\w.]+)`", names)]


def found(name):
    """What a name means; None for none."""
    here = mxjax
    for part in name.split("."):
        try:
            here = getattr(here, part)
        except AttributeError:
            try:
                here = importlib.import_module(f"{here.__name__}.{part}")
            except (ImportError, AttributeError):
                return None
    return here


@pytest.mark.parametrize("name", NAMES)
def test_what_is_excluded_is_not_there(name):
    parent, _, last = name.rpartition(".")
    assert found(name) is None, f"mx.{name} is there now: take it out of docs/exclusions.md"
    assert not parent or found(parent) is not None, (
        f"mx.{parent} is missing: list that instead of mx.{name}"
    )


def test_each_is_listed_once_and_says_why():
    assert len(NAMES) == len(set(NAMES)) > 30
    assert all(len(row) == 2 and len(row[1].split()) > 3 for row in ROWS)
