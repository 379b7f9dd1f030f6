"""The page on scaling says what its tool computes, and XLA's programs send what the formulas say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tool() -> Any:
    spec = importlib.util.spec_from_file_location("scaling", ROOT / "tools" / "scaling.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(tool: Any) -> None:
    assert f"{tool.BEGIN}\n{tool.tables()}\n{tool.END}" in tool.PAGE.read_text()


def test_formulas(tool: Any) -> None:
    # By hand: 4 devices, 8 bytes: a ring sends 3 parts of 2 bytes twice; a tree's root sends to 2 children.
    assert tool.ring(4, 8) == tool.shared_optimizer(4, 8) == tool.all_trees(4, 8) == 12
    assert tool.one_tree(4, 8) == 16


def test_bytes_in_a_programs_text(tool: Any) -> None:
    text = """
  %a = (f32[4]{0}, f32[2,2]{1,0}) all-reduce(%x, %y), replica_groups={{0,1}}
  %b = f32[3]{0} reduce-scatter(%z), dimensions={0}
  %c = f32[6]{0} all-gather(%b), dimensions={0}
  %d = f32[5]{0} collective-permute(%c), source_target_pairs={{0,1},{1,0}}
"""
    assert tool.sent(text, 2) == 2 * 32 + 2 * 12 + 24 + 2 * 20


@pytest.mark.slow
def test_programs_send_what_the_formulas_say(tool: Any) -> None:
    for n, row in tool.simulate_all().items():
        for name, (counted, expected) in row.items():
            assert counted == pytest.approx(expected, rel=1e-6), f"{name} on {n} devices"
