"""From the arguments of a symbol function to a node."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import attribute, errors, name, settings
from ..array.arguments import by_order, signature_text
from ..ops import help
from ..ops.table import Op, hashable
from ..ops.texts import checked, parsed
from . import attributes
from .node import Entry, Node

if TYPE_CHECKING:
    from .symbol import Symbol

_NUMBERS = (bool, int, float)
_version = settings.snapshot("compat.version")
# What the function takes beside the row's own parameters.
_OWN = ("name", "attr", "out")


def active(op: Op, params: Mapping[str, Any], given: Sequence[str]) -> list[str]:
    """The row's arrays that a call with these attributes takes: those it needs, and those given.

    Of the others one that its column `shapes` has a shape for, or an attribute `use_...` asks for.
    """
    full = {**op.attr_defaults, **params}
    found: set[str] | None = None
    chosen = []
    for array in op.array_params:
        if array not in op.defaults or array in given:
            chosen.append(array)
        elif f"use_{array}" in full:
            if full[f"use_{array}"]:
                chosen.append(array)
        elif op.inference.shapes is not None:
            if found is None:
                found = set(_shaped(op, params))
            if array in found:
                chosen.append(array)
    return chosen


def _shaped(op: Op, params: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return op.infer_shapes((1, 1, 1, 1), params)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise errors.MXNetError(
            f"in operator {op.display}: {error}; it takes {signature_text(op)}"
        ) from None


def required(op: Op, params: Mapping[str, Any]) -> None:
    """An error where an attribute that has no default is missing."""
    missing = [
        p for p in op.attr_params
        if p not in params and (p not in op.attr_defaults or p in op.files.required)
    ]  # fmt: skip
    if missing:
        raise errors.MXNetError(
            f"Required parameter {' '.join(missing)} is not presented, in operator {op.display}: it takes "
            f"{signature_text(op)}"
        )


def variable(name: str, attrs: Mapping[str, str] | None = None) -> Node:
    """A variable's node."""
    return Node(name, attrs=attrs)


def one_entry(symbol: Symbol, what: str) -> Entry:
    """The only result of a symbol."""
    entries = symbol._entries
    if len(entries) != 1:
        raise errors.MXNetError(
            f"{what} is a tuple with {len(entries)} elements, scalar is required: choose one of its outputs, "
            f"as in {what.rpartition(' ')[2]}[0]"
        )
    return entries[0]


def compose(
    op: Op, cls: type[Symbol], hint: str, args: Sequence[Any], kwargs: dict[str, Any]
) -> Symbol:
    """The symbol of an operator's call. Arrays that are missing become variables, `fc1_weight`."""
    from .symbol import Symbol

    kwargs = dict(kwargs)
    if op.names.order if cls._is_np else op.names.nd_order:
        args = by_order(op, not cls._is_np, args, kwargs)
    own = {k: kwargs.pop(k) for k in _OWN if k in kwargs}
    users = attribute.current().get(own.get("attr"))
    arrays, values = _sorted(op, args, kwargs, Symbol)
    params: dict[str, Any] = {}
    texts = not cls._is_np or _version() == "1.9"
    for key, value in values.items():
        key = op.names.once.get(key, key)
        if key in op.attr_params:
            if texts and type(value) is str:
                value = parsed(op, key, value)
            if value is not None or op.attr_defaults.get(key, 0) is not None:
                params[key] = hashable(_plain(value))
                if not cls._is_np:
                    checked(op, key, params[key])
        elif attributes.is_users(key):
            users[key] = str(value)
        elif key in attributes.IDLE:
            continue
        elif (
            not op.attr_params and not cls._is_np
        ):  # MXNet looks at no argument of an operator that has none
            users[key] = str(value)
        else:
            raise errors.MXNetError(
                f"Cannot find argument '{key}', Possible Arguments: {signature_text(op)}"
                f"{errors.did_you_mean(key, [*op.array_params, *op.attr_params])}, in operator {op.display}"
            )
    required(op, params)
    symbols = [a for a in arrays.values() if isinstance(a, Symbol)]
    if op.scalars is not None and len(arrays) == 2 and len(symbols) == 1:
        place, number = next(
            (k, v) for k, v in enumerate(arrays.values()) if isinstance(v, (*_NUMBERS, np.generic))
        )
        if not place and op.scalars[1] is not op.scalars[0] and hint.startswith("_"):
            hint = hint.replace("_", "_r", 1)
        op, arrays, params = (
            op.scalars[0] if place else op.scalars[1],
            {"data": symbols[0]},
            {"scalar": number},
        )
        hint += "_scalar" if cls._is_np else "scalar"
    constants = {k: v for k, v in arrays.items() if isinstance(v, _NUMBERS)}
    arrays = {k: v for k, v in arrays.items() if k not in constants}
    title = name.current().get(own.get("name"), hint.lower())
    attrs = attributes.written(users)
    names = (
        [*arrays, *_wanting(op, params, values.get("num_args"), len(arrays))]
        if op.variadic
        else [n for n in active(op, params, list(arrays)) if n not in constants]
    )
    inputs = [
        one_entry(arrays[n], f"Argument {n}")
        if n in arrays
        else (missing(title, n, attrs, params), 0)
        for n in names
    ]
    for parameter, (given, _) in zip(names, inputs, strict=True):
        init = op.files.initial.get(parameter)  # which no initializer of the user's should choose
        if init is not None and given.is_variable:  # a user's variable learns it, too
            given.attrs.setdefault("__init__", init)
    node = Node(title, op, params, attrs, inputs, names, constants, is_np=cls._is_np)
    if op.variadic and "num_args" in op.attr_params:
        node.params.setdefault("num_args", len(inputs))
    return cls._of([(node, k) for k in range(node.count())])


def _wanting(op: Op, params: Mapping[str, Any], number: Any, given: int) -> list[str]:
    """Of an operator of any number of arrays: those that its attributes or ``num_args`` ask for and nobody gave."""
    known = op.files.slots(dict(params)) if op.files.slots is not None else ()
    count = max(int(number or 0), len(known))
    return [known[k] if k < len(known) else f"arg{k}" for k in range(given, count)]


def missing(title: str, name: str, attrs: Mapping[str, str], params: Mapping[str, Any]) -> Node:
    """The variable of an array that an operator was not given."""
    # As in MXNet it keeps what was said of the operator.
    users = {k: v for k, v in attrs.items() if k.startswith("__")}
    return variable(
        f"{title}_{name}", {**{k: attributes.text(v) for k, v in params.items()}, **users}
    )


def _sorted(
    op: Op, args: Sequence[Any], kwargs: dict[str, Any], symbol: type[Symbol]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What was given for arrays, in the row's order, and the rest by name."""
    params = op.array_params
    arrays: dict[str, Any] = {}
    rest: list[Any]
    if op.variadic:
        if args and isinstance(args[0], (list, tuple)):
            listed, rest = list(args[0]), list(args[1:])
        else:
            count = 0
            while count < len(args) and (isinstance(args[count], symbol) or not op.attr_params):
                count += 1
            listed, rest = list(args[:count]), list(args[count:])
        first = kwargs.pop(params[-1], None) if params[-1] in kwargs else None
        listed += first if isinstance(first, (list, tuple)) else [] if first is None else [first]
        listed += [kwargs.pop(k) for k in [*kwargs] if isinstance(kwargs[k], symbol)]
        arrays = {f"arg{k}": _array(op, f"arg{k}", a, symbol) for k, a in enumerate(listed)}
    else:
        arrays = dict(zip(params, args, strict=False))
        rest = list(args[len(params) :])
        for key in [k for k in kwargs if k in params]:
            if arrays.get(key) is not None:
                raise errors.MXNetTypeError(f"{op.display} got the argument {key!r} twice")
            arrays[key] = kwargs.pop(key)
        strange = [
            k for k, v in kwargs.items() if isinstance(v, symbol) and k not in op.attr_params
        ]
        if strange:
            raise errors.MXNetError(
                f"{op.display} has no input {strange[0]!r}{errors.did_you_mean(strange[0], params)}: it takes "
                f"{signature_text(op)}"
            )
        arrays = {k: _array(op, k, arrays[k], symbol) for k in params if arrays.get(k) is not None}
    if len(rest) > len(op.attr_params):
        raise errors.MXNetTypeError(
            f"{op.display} got too many arguments: it takes {signature_text(op)}"
        )
    values = dict(zip(op.attr_params, rest, strict=False))
    twice = values.keys() & kwargs.keys()
    if twice:
        raise errors.MXNetTypeError(f"{op.display} got the argument {min(twice)!r} twice")
    return arrays, {**values, **kwargs}


def _array(op: Op, name: str, given: Any, symbol: type[Symbol]) -> Any:
    if isinstance(given, np.generic):
        given = given.item()
    takes = op.scalars is not None or op.name.partition("@")[2] != "nd" or name in op.numbers
    if isinstance(given, symbol) or (takes and isinstance(given, _NUMBERS)):
        return given
    raise errors.MXNetAssertionError(
        f"Argument {name} must be Symbol instances, but got {given!r} ({type(given).__name__}): give a symbol, "
        "mx.sym.var(name) for an array that is bound later"
    )


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.item() if value.ndim == 0 else tuple(value.tolist())
    return value


def function(
    op: Op, name: str, cls: type[Symbol], module: str, *, method: bool = False
) -> Callable[..., Any]:
    """The symbol function of a row, or a method that is one."""

    def symbolic(*args: Any, **kwargs: Any) -> Any:
        return compose(op, cls, name, args, kwargs)

    front = (
        ("sym.np" if cls._is_np else "sym")
        if method
        else _FRONTS.sub(lambda m: _SHORT[m[0]], module)
    )
    symbolic.__name__ = symbolic.__qualname__ = name
    symbolic.__module__ = module
    symbolic.__doc__ = help.text(op, name, front, "Symbol", method=method)
    symbolic.__signature__ = help.Signature(functools.partial(_parameters, op, cls))  # type: ignore[attr-defined]
    symbolic.__wrapped__ = op.fn  # type: ignore[attr-defined]
    return symbolic


_SHORT = {
    "mxjax.symbol": "sym",
    "mxjax.symbol.numpy": "sym.np",
    "mxjax.symbol.numpy_extension": "sym.npx",
}
_FRONTS = re.compile(r"^mxjax\.symbol(\.numpy(_extension)?)?")


def _parameters(op: Op, cls: type[Symbol]) -> tuple[list[inspect.Parameter], Any]:
    """What ``inspect.signature`` shows for a symbol function: parameters, and the result's type."""
    P = inspect.Parameter
    order = op.positions(not cls._is_np)
    params = []
    for n in order:
        kind = P.KEYWORD_ONLY if op.variadic and n in op.attr_params else P.POSITIONAL_OR_KEYWORD
        if op.variadic and n == op.array_params[-1]:
            params.append(P(n, P.VAR_POSITIONAL, annotation=cls))
        else:
            default = op.attr_defaults.get(n)
            params.append(
                P(n, kind, default=default, annotation=help.annotation(op, n, cls, default))
            )
    for n in dict.fromkeys(n for n in (*op.attr_params, *_OWN) if n not in order):
        default = op.attr_defaults.get(n)
        params.append(
            P(n, P.KEYWORD_ONLY, default=default, annotation=help.annotation(op, n, cls, default))
        )
    return [*params, P("kwargs", P.VAR_KEYWORD)], cls


def dumped(init: Any) -> str:
    """An initializer as a variable's attribute ``__init__``."""
    if isinstance(init, str):
        return init
    return str(init.dumps()) if hasattr(init, "dumps") else json.dumps(init)
