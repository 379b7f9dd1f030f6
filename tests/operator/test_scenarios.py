"""Operators written in Python run as in real MXNet: scenarios.py's programs against their recorded answers."""

import json
from pathlib import Path

import pytest

import mxjax as mx

from . import scenarios

DATA = json.loads((Path(__file__).parent.parent / "data" / "custom_operators.json").read_text())

# A bound symbol has one operator for each node, as in MXNet 1; MXNet 2 makes new ones for each pass.
COUNTS_AS_IN_1 = {"executor_used_by_turns"}


def same(got, want):
    """Equal, floats within rounding."""
    if isinstance(want, list):
        return (
            isinstance(got, (list, tuple))
            and len(got) == len(want)
            and all(same(g, w) for g, w in zip(got, want, strict=True))
        )
    if isinstance(want, float) and isinstance(got, (int, float)):
        return got == pytest.approx(want, rel=1e-4, abs=1e-6)
    return got == want


@pytest.mark.parametrize(("name", "version"), [(n, v) for v, of in DATA.items() for n in of])
def test_scenario(name, version):
    want = DATA["1.9.1" if name in COUNTS_AS_IN_1 else version][name]
    got = scenarios.SCENARIOS[name](scenarios.World(mx, version[0] == "2"))
    assert same(got, want), f"want {want}\n got {got}"
