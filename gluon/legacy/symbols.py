"""Blocks on symbols: a graph of the network, as MXNet 1.x gets one by `net(mx.sym.var("data"))`."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from mxjax import errors, name
from mxjax.array.ndarray import NDArray

from .forward import Handed, writes_hybrid_forward


def is_symbol(x: Any) -> bool:
    """Whether a block's argument is a symbol."""
    if isinstance(x, NDArray):  # at every call of a loss
        return False
    from mxjax.symbol import Symbol

    return isinstance(x, Symbol)


def has_symbols(args: Any) -> bool:
    """Whether there are symbols among arguments, in nested lists too."""
    return any(is_symbol(a) or (isinstance(a, (list, tuple)) and has_symbols(a)) for a in args)


def _leaves(args: Any) -> Iterator[Any]:
    for a in args:
        if isinstance(a, (list, tuple)):
            yield from _leaves(a)
        else:
            yield a


class _LayerNames(name.NameManager):
    """What the operators of these layers are called: ``dense0_fwd``, further ones after their kind."""

    def __init__(self, others: name.NameManager):
        super().__init__()
        self._others = others
        self._first = True

    def get(self, name: str | None, hint: str) -> str:
        if name is None and self._first:
            self._first, name = False, "fwd"
        return self._others.get(name, hint)


def run_on_symbols(
    block: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] = MappingProxyType({})
) -> Any:
    """A block's results for symbols; its parameters are variables of their long names.

    Raises:
      ValueError: arrays among the arguments.
    """
    if not hasattr(type(block), "hybrid_forward"):  # a plain block
        return block.forward(*args, **kwargs)
    if any(isinstance(a, NDArray) for a in _leaves(args)):
        raise errors.MXNetValueError(
            "In HybridBlock, we do not support mixed NDArrays and Symbols types for the input. Please check the type "
            "of the args."
        )
    first = next(a for a in _leaves(args) if hasattr(a, "list_arguments"))
    variables = {
        attribute: _of_kind(p.variable(block._names.full(p)), first)
        for attribute, p in block._reg_params.items()
    }
    manager = name.current()
    if not block._names.empty:
        manager = name.Prefix(block.prefix)
    if block._operator_is_fwd:
        manager = _LayerNames(manager)
    with manager:
        if writes_hybrid_forward(block):
            from mxjax import symbol

            if hasattr(block, "_counter"):
                block._counter += 1  # a recurrent cell counts its steps, whose numbers are in names
            return block.hybrid_forward(symbol, *args, **kwargs, **variables)
        compose = getattr(block, "_compose", None)  # a recurrent cell, or layer
        made = None if compose is None else compose(variables, *args, **kwargs)
        if made is not None:
            return made
        if variables:
            block = copy.copy(block)  # with variables in the parameters' places
            for attribute, variable in variables.items():
                vars(block)[attribute] = Handed(block._reg_params[attribute], variable)
        return block.forward(*args, **kwargs)


def _of_kind(variable: Any, like: Any) -> Any:
    made = variable.as_np_ndarray()
    return made if type(made) is type(like) else variable.as_nd_ndarray()


def infer_shapes(block: Any, args: tuple[Any, ...]) -> None:
    """Give the parameters of a block with `hybrid_forward` the shapes that its inputs' shapes demand.

    Raises:
      ValueError: the inputs do not determine them, or what it computes cannot be composed of symbols.
    """
    from mxjax import symbol

    given: dict[str, Any] = {}

    def variable(a: Any) -> Any:
        if isinstance(a, (list, tuple)):
            return type(a)(variable(x) for x in a)
        if not isinstance(a, NDArray):
            return a
        made = symbol.var(f"_input{len(given)}")
        given[str(made.name)] = a.shape
        return made.as_np_ndarray() if a._front is not NDArray else made

    try:
        out = run_on_symbols(block, tuple(variable(a) for a in args))
        whole = symbol.Group(list(_leaves([out])))
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what is not determined is said in a warning
            arguments, _, states = whole.infer_shape(**given)
    except (errors.MXNetError, TypeError, AttributeError, UserWarning) as error:
        raise errors.MXNetValueError(
            f"Deferred initialization failed because shape cannot be inferred. {error}. Give {type(block).__name__}'s "
            "parameters their whole shapes, or let it define infer_shape(self, *inputs)"
        ) from error
    found = dict(zip(whole.list_arguments(), arguments, strict=True))
    found.update(zip(whole.list_auxiliary_states(), states, strict=True))
    for _, p in block._long_walk():
        if p.variable_name in found:
            p.shape = found[p.variable_name]
