"""Positions of iterators that were read from a file: what does not fit is a `FormatError`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..errors import MALFORMED, FormatError

__all__: list[str] = []


@contextlib.contextmanager
def as_position(owner: Any) -> Iterator[None]:
    """Whatever a state of another kind leads to is said as such."""
    try:
        yield
    except MALFORMED as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(
            f"this is no position of this {type(owner).__name__}, as its state_dict gives it: {error!r}"
        ) from None


def in_range(given: Any, most: int, least: int = 0) -> int:
    """An integer that is not outside."""
    number = int(given)
    if not least <= number <= most:
        raise ValueError(f"{number} is not one of {least} ... {most}")
    return number


def permutation(given: Any, count: int) -> np.ndarray:
    """All numbers below `count`, each once, in an order."""
    found = np.asarray(given)
    if (
        found.shape != (count,)
        or found.dtype.kind not in "iu"
        or (np.sort(found) != np.arange(count)).any()
    ):
        raise ValueError(
            f"{count} samples in an order were expected, got an array {found.shape} of {found.dtype}"
        )
    return found.astype(np.int64)
