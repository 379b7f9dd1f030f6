"""Arrays of JAX, and tracers of its transformations, as arguments of blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax

from mxjax import errors
from mxjax.array.classes import NDArray, ndarray
from mxjax.array.handle import to_value
from mxjax.core import Value, default_device, placed, traced
from mxjax.modes import array_class

from ..legacy.symbols import is_symbol

if TYPE_CHECKING:
    from ..block import Block

#: What need not be looked at.
OURS = frozenset((ndarray, NDArray))
_foreign: dict[type, bool] = {}


def is_foreign(a: Any) -> bool:
    """Whether it is an array of JAX or a tracer."""
    kind = type(a)
    found = _foreign.get(kind)
    if found is None:
        found = _foreign[kind] = issubclass(kind, (jax.Array, jax.core.Tracer))
    return found


def admitted(block: Block, given: Any) -> Any:
    """The arguments of a block, also in lists, tuples and dictionaries, with arrays of mxjax in the place of JAX's."""
    kind = type(given)
    if kind in OURS or (kind not in (list, tuple, dict) and not is_foreign(given)):
        return given
    if kind is dict:
        made: Any = {k: admitted(block, v) for k, v in given.items()}
        return made if any(made[k] is not given[k] for k in given) else given
    if kind in (list, tuple):
        parts = [admitted(block, a) for a in given]
        if all(a is b for a, b in zip(parts, given, strict=True)):
            return given
        return parts if kind is list else tuple(parts)
    of, device = home(block)
    return of._wrap(
        traced(given, device) if isinstance(given, jax.core.Tracer) else at_home(given, device)
    )


#: Where the layers are that compute with their first argument.
OF_ARRAYS = "mxjax.gluon.nn."
_PASS_ON = {
    "Concatenate",
    "HybridConcatenate",
    "HybridLambda",
    "HybridSequential",
    "Identity",
    "Lambda",
    "Sequential",
}


def check_array(block: Block, args: Any) -> None:
    """Refuse what is no array where a layer of ours is to compute with it."""
    given = args[0] if args else None
    if (
        given is None
        or isinstance(given, NDArray)
        or is_symbol(given)
        or type(block).__name__ in _PASS_ON
    ):
        return
    kind = type(given)
    if isinstance(given, (list, tuple)):
        what = f"a {kind.__name__} of {len(given)}"
    elif hasattr(given, "shape"):
        what = f"an array of another library ({kind.__module__.partition('.')[0]}, shape {tuple(given.shape)})"
    else:
        what = f"{given!r} ({kind.__name__})"
    raise errors.MXNetValueError(
        f"{type(block).__name__} takes an array of mxjax, got {what}: mx.np.array(...) makes one of "
        "numbers in lists and of other libraries' arrays (in MXNet's words: there must be one NDArray in the input)"
    )


def at_home(array: Any, device: Any) -> Value:
    """A JAX array as a value: where it is, or on this device, if JAX would move it, too (it is not ``committed``)."""
    v = to_value(array)
    return v if array.committed or v.aval.device is device else placed(array, device, shared=True)


def home(block: Block) -> tuple[Any, Any]:
    """The kind of a block's arrays, and where they are: those of its first parameter."""
    for _, p in block._walk(""):
        arrays = p._arrays
        if arrays and len(arrays) == 1:
            (first,) = arrays.values()
            if p._stype == "default":
                return first._front, first._value().aval.device
    return array_class(), default_device()
