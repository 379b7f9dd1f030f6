"""Private functions of MXNet's Gluon that its users' code imports: trees of arguments, checks, texts."""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mxjax import settings, symbol
from mxjax.array.classes import NDArray, ndarray
from mxjax.errors import MXNetError, MXNetTypeError, MXNetValueError
from mxjax.modes import is_np_array
from mxjax.scopes import Kept
from mxjax.symbol import Symbol

from .names import Names, _around

NpSymbol = type(symbol.var("x").as_np_ndarray())


def _flatten(args: Any, inout_str: str) -> tuple[list[Any], Any]:
    """Nested lists of arrays, symbols and None as one list, and their structure: 0 for one, -1 for None, a list of
    those for a list, and for a symbol the number of its outputs if there are several.

    Raises:
      ValueError: something else is among them; `inout_str` says where.

    >>> import mxjax as mx
    >>> _flatten([mx.np.ones(1), None, [mx.np.ones(1)]], "input")[1]
    [0, -1, [0]]
    """
    if isinstance(args, NDArray):
        return [args], 0
    if isinstance(args, Symbol):
        count = len(args.list_outputs())
        return [args], count if count > 1 else 0
    if args is None:
        return [None], -1
    if not isinstance(args, (list, tuple)):
        raise MXNetValueError(
            f"When hybridized, the input of HybridBlock {inout_str} must be (nested) list of Symbol or NDArray, "
            f"but got {args} of type {type(args)}"
        )
    parts = [_flatten(part, inout_str) for part in args]
    return [leaf for leaves, _ in parts for leaf in leaves], [structure for _, structure in parts]


def _regroup(args: Sequence[Any], fmt: Any) -> Any:
    """The nested lists that `_flatten` made a list of.

    Raises:
      ValueError: None stood where there is an array now, or this is no structure of `_flatten`.
    """
    return _taken(args, fmt)[0]


def _taken(args: Any, fmt: Any) -> tuple[Any, Any]:
    """What a structure takes from the beginning of a list, and the rest."""
    if isinstance(fmt, int):
        if fmt < -1:
            raise MXNetValueError(f"Unsupported encoded format {fmt}.")
        if fmt > 0:
            return args[:fmt], args[fmt:]
        if fmt == -1 and args[0] is not None:
            raise MXNetValueError(
                "We do not support passing types that are not None when the initial HybridBlock has received NoneType "
                f"and has been hybridized. Received arg = {args[0]}, fmt = {fmt}."
            )
        return args[0], args[1:]
    if not isinstance(args, (list, tuple)):
        raise MXNetValueError(
            "When hybridized, the output of HybridBlock must be (nested) list of Symbol or NDArray, but got "
            f"{args} of type {type(args)}"
        )
    found = []
    for each in fmt:
        part, args = _taken(args, each)
        found.append(part)
    return found, args


def _gather_type_device_info(args: Any) -> tuple[bool, bool, set[Any], Any]:
    """Of nested lists: whether there are symbols, whether there are arrays, the devices of these, and the first one."""
    if isinstance(args, NDArray):
        return False, True, {args.device}, args.device
    if isinstance(args, Symbol):
        return True, False, set(), None
    symbols, arrays, first = False, False, None
    devices: set[Any] = set()
    for part in args if isinstance(args, (list, tuple)) else ():
        has_symbols, has_arrays, on, at = _gather_type_device_info(part)
        symbols, arrays, devices = symbols or has_symbols, arrays or has_arrays, devices | on
        first = at if first is None else first
        if symbols and arrays:
            break
    return symbols, arrays, devices, first


_gather_type_ctx_info = _gather_type_device_info


def _common_prefix(names: Sequence[str]) -> str:
    """What all names begin with.

    >>> _common_prefix(["net0_weight", "net0_bias"])
    'net0_'
    """
    return os.path.commonprefix(list(names))


def _infer_param_types(
    in_params: Iterable[Any], out_params: Any, arg_params: Sequence[str], aux_params: Sequence[str],
    default_dtype: Any = np.float32,
) -> tuple[list[Any], list[Any]]:  # fmt: skip
    """The dtypes of arguments and auxiliary states of the symbol `out_params`, from those of its inputs, which are
    variables; `default_dtype` for all of a kind that they do not determine."""
    inputs = {variable.name: variable.infer_type()[0] for variable in in_params}
    found: Any = (None, None, None)
    if all(inputs.values()):
        try:
            found = out_params.infer_type(**{name: types[0] for name, types in inputs.items()})
        except MXNetError:
            pass
    arguments, _, states = found
    return tuple(  # type: ignore[return-value]
        types if types is not None and len(types) == len(names) else [default_dtype] * len(names)
        for types, names in ((arguments, arg_params), (states, aux_params))
    )


def _check_same_symbol_type(symbols: Sequence[Any]) -> type:
    """The class of these symbols.

    Raises:
      TypeError: some are mx.np's and some are mx.nd's.
    """
    kinds = {isinstance(each, NpSymbol) for each in symbols}
    if len(kinds) > 1:
        raise MXNetTypeError(
            "Found both classic symbol (mx.sym.Symbol) and numpy symbol (mx.sym.np._Symbol) in outputs, which cannot "
            "be outputs of one graph: convert them to one kind by as_np_ndarray() or as_nd_ndarray()"
        )
    return NpSymbol if kinds == {True} else Symbol


def _check_all_np_ndarrays(out: Any) -> None:
    """Raise a TypeError unless all arrays and symbols in nested lists are mx.np's."""
    if isinstance(out, (NDArray, Symbol)) and not isinstance(out, (ndarray, NpSymbol)):
        raise MXNetTypeError(
            "Block's output ndarrays/symbols must be of type `mxnet.numpy.ndarray` or `mxnet.symbol.numpy._Symbol`, "
            f"while got output type {type(out)}"
        )
    for part in out if isinstance(out, (list, tuple)) else ():
        _check_all_np_ndarrays(part)


def _check_block_input_np_ndarrays(inputs: Any) -> None:
    """Raise a TypeError if there is a symbol, or an array that is not mx.np's, in nested lists."""
    if isinstance(inputs, (NDArray, Symbol)) and not isinstance(inputs, ndarray):
        raise MXNetTypeError(
            f"Block's inputs must be of type `mxnet.numpy.ndarray`, while got output type {type(inputs)}"
        )
    for part in inputs if isinstance(inputs, (list, tuple)) else ():
        _check_block_input_np_ndarrays(part)


def _indent(s_: str, numSpaces: int) -> str:  # noqa: N803
    r"""A text with spaces before each line but the first.

    >>> _indent("Net(\n(0): Dense)", 2)
    'Net(\n  (0): Dense)'
    """
    return s_.replace("\n", "\n" + " " * numSpaces)


def _brief_print_list(lst: Iterable[Any], limit: int = 7) -> str:
    """Names in quotes, those in the middle left out where there are more than `limit`.

    >>> _brief_print_list(range(9), 4)
    "'0', '1', ..., '7', '8'"
    """
    names = [f"'{each}'" for each in lst]
    if len(names) > limit:
        names = [*names[: limit // 2], "...", *names[-limit // 2 :]]
    return ", ".join(names)


def _get_repo_url() -> str:
    """Where datasets and models are downloaded from (the setting `data.repo`), with a slash at its end."""
    return f"{str(settings.get('data.repo')).rstrip('/')}/"


def _reshape_like(F: Any, x: Any, y: Any) -> Any:  # noqa: N803
    """`x` in the shape of `y`; `F` is the module of the functions, `mx.nd` or `mx.sym`."""
    if isinstance(x, Symbol):
        return (F.npx if isinstance(x, NpSymbol) else F).reshape_like(x, y)
    return x.reshape(y.shape)


def _append_return(*args: Any) -> Any:
    """One argument as it is, several as a tuple, none as None."""
    return args if len(args) > 1 else args[0] if args else None


def _infer_weight_shape(op_name: str, data_shape: Any, kwargs: Mapping[str, Any]) -> Any:
    """The shapes of an operator's arguments for data of a shape; what it leaves open is 0, or -1 (`is_np_shape`)."""
    data = symbol.var("data", shape=data_shape)
    if is_np_array():
        return getattr(symbol.npx, op_name)(data.as_np_ndarray(), **kwargs).infer_shape_partial()[0]
    return getattr(symbol, op_name)(data, **kwargs).infer_shape_partial()[0]


class _BlockScope:
    """The scope of a block's names, as `block.name_scope()` gives it."""

    _current = Kept(_around)  # the names of the block whose scope is entered

    def __init__(self, block: Any):
        self._block = block

    @staticmethod
    def create(prefix: str | None, params: Any, hint: str) -> tuple[str, Any]:
        """The prefix and the parameters of a new block, in the scope that is entered.

        >>> _BlockScope.create("net_", None, "net")[0]
        'net_'
        """
        names = Names(prefix, params, hint)
        return names.prefix, names.params

    def __enter__(self) -> _BlockScope:
        self._block.name_scope().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._block.name_scope().__exit__(*error)
