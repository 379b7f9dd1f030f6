"""Keys and the arrays that belong to each, as users give them, checked."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mxjax import errors
from mxjax.array.ndarray import NDArray


def check_shapes(key: Any, shape: tuple[int, ...], arrays: Sequence[NDArray]) -> None:
    for a in arrays:
        if a.shape != shape:
            raise errors.MXNetValueError(
                f"key {key} holds an array of shape {shape}, got one of shape {a.shape}"
            )


def urgency(priority: Any) -> int:
    try:
        return operator.index(priority)
    except TypeError:
        raise errors.MXNetTypeError(
            f"priority must be an integer, got {priority!r}; larger ones come first"
        ) from None


def paired(key: Any, value: Any, name: str) -> Iterable[tuple[Any, list[NDArray]]]:
    """Each key with its list of arrays."""
    # Scripts have loops over keys: what each turn costs counts hundreds of times in a step.
    if isinstance(value, NDArray) and isinstance(key, (int, str)):
        return ((key, [value]),)
    return _all_pairs(key, value, name)


def _all_pairs(key: Any, value: Any, name: str) -> Iterator[tuple[Any, list[NDArray]]]:
    if isinstance(key, (list, tuple)):
        if not isinstance(value, (list, tuple)) or len(value) != len(key):
            raise errors.MXNetAssertionError(
                f"{len(key)} keys need as many entries in {name}, got "
                f"{len(value) if isinstance(value, (list, tuple)) else type(value).__name__}"
            )
        for k, v in zip(key, value, strict=True):
            yield from paired(k, v, name)
        return
    if not isinstance(key, (int, str)):
        raise errors.MXNetTypeError(f"keys are integers or strings, got {key!r}")
    arrays = list(value) if isinstance(value, (list, tuple)) else [value]
    for a in arrays:
        if not isinstance(a, NDArray):
            raise errors.MXNetTypeError(
                f"{name} of key {key!r} holds {type(a).__name__}, not an array"
            )
    if not arrays:
        raise errors.MXNetValueError(f"{name} of key {key!r} is an empty list")
    yield key, arrays
