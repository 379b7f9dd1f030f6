"""NumPy's own functions, run on the host: for what has no row, because its result's shape depends on the
numbers or because nobody needs it fast. The arrays are read, the results are arrays of ours."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..array.classes import ndarray
from ..array.creation import array
from ..array.ndarray import NDArray

# Functions that give arrays, under NumPy's names.
ARRAYS = """apply_over_axes histogram histogram2d histogram_bin_edges histogramdd insert intersect1d
packbits unpackbits poly polyadd polydiv polyfit polyint polymul polysub roots setdiff1d setxor1d trim_zeros
union1d compress extract ix_ diag_indices_from tril_indices_from triu_indices_from genfromtxt argwhere
flatnonzero""".split()
# Functions that give Python objects.
OBJECTS = """can_cast promote_types result_type min_scalar_type finfo iinfo set_printoptions""".split()


def host(value: Any) -> Any:
    """Arrays (also inside lists and tuples) as NumPy's."""
    if isinstance(value, NDArray):
        return value.asnumpy()
    if isinstance(value, (list, tuple)) and any(isinstance(v, (NDArray, list, tuple)) for v in value):
        return type(value)(host(v) for v in value)
    return value


def ours(value: Any) -> Any:
    """NumPy's arrays (also inside lists and tuples) as arrays of their dtype."""
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biuf":
        return array(value, dtype=value.dtype)
    if isinstance(value, list):
        return [ours(v) for v in value]
    if isinstance(value, tuple):
        return tuple(ours(v) for v in value)
    return value


def _floats_of(args: Any) -> np.dtype | None:
    """The dtype floating-point results get: that of the first floating-point array among the arguments."""
    for a in args:
        if isinstance(a, NDArray) and np.dtype(a.dtype).kind == "f":
            return np.dtype(a.dtype)
        if isinstance(a, (list, tuple)):
            found = _floats_of(a)
            if found is not None:
                return found
    return None


def _narrow(value: Any, dtype: np.dtype | None) -> Any:
    if dtype is None:
        return value
    if isinstance(value, (list, tuple)):
        return type(value)(_narrow(v, dtype) for v in value)
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype == np.float64:
        return value.astype(dtype)
    return value


def on_host(fn: Callable[..., Any], module: str) -> Callable[..., Any]:
    """A NumPy function that takes and gives arrays of ours; no gradient flows through it."""

    @functools.wraps(fn, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        made = ours(_narrow(fn(*map(host, args), **{k: host(v) for k, v in kwargs.items()}), _floats_of(args)))
        if isinstance(out, ndarray):
            out[...] = made
            return out
        return made

    wrapped.__module__ = module
    return wrapped


def _delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    """The array without some of its elements, rows or columns; places out of range are ignored.

    arr: any shape; obj: an integer, a slice, or integers; axis: None for the flat array.
    """
    arr, obj = host(arr), host(obj)
    if not isinstance(obj, (slice, int, np.integer)):
        at = np.asarray(obj)
        size = arr.size if axis is None else arr.shape[axis]
        obj = at if at.dtype == bool else at[(at >= -size) & (at < size)].astype(np.int64)
    return ours(np.delete(arr, obj, axis))


_delete.__name__ = _delete.__qualname__ = "delete"


def fill(namespace: dict[str, Any]) -> list[str]:
    """Put the functions into a module's namespace; what is there already stays."""
    made = []
    for name in ARRAYS:
        if name not in namespace and hasattr(np, name):
            namespace[name] = on_host(getattr(np, name), namespace["__name__"])
            made.append(name)
    _delete.__module__ = namespace["__name__"]
    namespace["delete"] = _delete
    made.append("delete")
    for name in OBJECTS:
        if name not in namespace:
            namespace[name] = _plain(getattr(np, name))
            made.append(name)
    return made


def _plain(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return fn(*map(host, args), **kwargs)

    return wrapped
