"""Tests on a card. Where there is none, one test says so in the place of all (test_there_is_one.py).

``MXJAX_TEST_GPU=needed`` (`make test-gpu`) makes that a failure; ``MXJAX_TEST_GPU=cpu`` has them run on a CPU in the
card's place, which shows whether they run at all: those that only a card can pass say so and are skipped. For cards
that are lent by the minute ``MXJAX_TEST_SECONDS`` is how long tests begin.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import has_card

ASKED = os.environ.get("MXJAX_TEST_GPU", "")
STANDS_IN = ASKED == "cpu"
HERE = STANDS_IN or has_card()
SECONDS = float(os.environ.get("MXJAX_TEST_SECONDS", "inf"))
BEGAN = time.monotonic()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Without a card there is one test to skip, not hundreds."""
    if (
        not HERE
        and collection_path.name.startswith("test_")
        and collection_path.name != "test_there_is_one.py"
    ):
        return True
    return None


@pytest.fixture(autouse=True)
def in_time() -> None:
    """No test begins after the time that the user gave."""
    if time.monotonic() - BEGAN > SECONDS:
        pytest.skip(f"the {SECONDS:g} s of MXJAX_TEST_SECONDS are over")


@pytest.fixture
def card() -> Iterator[Any]:
    """The device of these tests, which is the current one.

    Kernels are chosen by rule: trials take most of the time of compiling (`measured`).
    """
    import mxjax as mx

    if not HERE:
        if ASKED:
            pytest.fail(
                "there is no GPU: /dev/nvidia0 and one of JAX's plugins for CUDA are needed"
            )
        pytest.skip("there is no GPU in this machine")
    device = mx.cpu(0) if STANDS_IN else mx.gpu(0)
    if not STANDS_IN:
        mx.config.set(compiler_autotune="off")
    with device:
        yield device


@pytest.fixture
def real_card(card: Any) -> Any:
    """The device, where it is a card."""
    if STANDS_IN:
        pytest.skip("a CPU stands in for the card (MXJAX_TEST_GPU=cpu)")
    return card


@pytest.fixture
def measured(card: Any) -> None:
    """XLA tries which kernel is quickest, as it does for users."""
    import mxjax as mx

    mx.config.reset("compiler.autotune")
