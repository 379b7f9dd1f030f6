"""`hybrid_forward(self, F, x, **params)`: the forward of MXNet 1.x, with its operators and parameters handed to it."""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from typing import Any

from mxjax import errors, nd
from mxjax.array.ndarray import NDArray
from mxjax.device import Device
from mxjax.modes import generation


def writes_hybrid_forward(block: Any) -> bool:
    """Whether a block's class defines `hybrid_forward`."""
    return type(block).hybrid_forward is not _base(block)


def _base(block: Any) -> Any:
    from ..hybrid_block import HybridBlock

    return HybridBlock.hybrid_forward


def first_array(args: Any) -> NDArray | None:
    """The first array among arguments, in nested lists too."""
    for a in args:
        if isinstance(a, NDArray):
            return a
        if isinstance(a, (list, tuple)):
            found = first_array(a)
            if found is not None:
                return found
    return None


def run_hybrid_forward(block: Any, args: tuple[Any, ...]) -> Any:
    """Call a block's `hybrid_forward` on arrays: F is mx.nd (with F.np and F.npx), parameters are of the arrays' kind.

    Raises:
      ValueError: there is no array among the arguments.
    """
    first = first_array(args)
    if first is None:
        raise errors.MXNetValueError(
            "In HybridBlock, there must be one NDArray or one Symbol in the input. Please check the type of the args."
        )
    where = first.device
    params = {name: _of_kind(p.data(where), first) for name, p in block._reg_params.items()}
    with where if isinstance(where, Device) else nullcontext():
        return block.hybrid_forward(nd, *args, **params)


def takes_operators(function: Any) -> bool:
    """Whether a function is one of MXNet 1, `f(F, x)`: by the name of its first parameter, or by the generation."""
    try:
        params = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a function of C has none
        return False
    P = inspect.Parameter
    if params and params[0].name == "F":
        return True
    needed = [p for p in params if p.kind in (P.POSITIONAL_ONLY, P.POSITIONAL_OR_KEYWORD) and p.default is P.empty]
    return generation() == 1 and len(needed) > 1


def operators_for(x: Any) -> Any:
    """The module that is F for an argument: mx.nd, or mx.sym for a symbol."""
    if isinstance(x, NDArray):
        return nd
    from mxjax import symbol

    return symbol


def _of_kind(x: Any, like: NDArray) -> Any:
    if x._front is like._front:
        return x
    return x.as_np_ndarray() if like._front is not NDArray else x.as_nd_ndarray()
