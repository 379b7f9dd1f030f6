"""Tests on a card. Where there is none, one test says so in the place of all (test_there_is_one.py).

``MXJAX_TEST_GPU=needed`` (`make test-gpu`) makes that a failure; ``MXJAX_TEST_GPU=cpu`` has them run on a CPU in the
card's place, which shows whether they run at all: those that only a card can pass say so and are skipped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import has_card

ASKED = os.environ.get("MXJAX_TEST_GPU", "")
STANDS_IN = ASKED == "cpu"
HERE = STANDS_IN or has_card()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Without a card there is one test to skip, not hundreds."""
    if not HERE and collection_path.name.startswith("test_") and collection_path.name != "test_there_is_one.py":
        return True
    return None


@pytest.fixture
def card() -> Iterator[Any]:
    """The device of these tests, which is the current one."""
    import mxjax as mx

    if not HERE:
        if ASKED:
            pytest.fail("there is no GPU: /dev/nvidia0 and one of JAX's plugins for CUDA are needed")
        pytest.skip("there is no GPU in this machine")
    device = mx.cpu(0) if STANDS_IN else mx.gpu(0)
    with device:
        yield device


@pytest.fixture
def real_card(card: Any) -> Any:
    """The device, where it is a card."""
    if STANDS_IN:
        pytest.skip("a CPU stands in for the card (MXJAX_TEST_GPU=cpu)")
    return card
