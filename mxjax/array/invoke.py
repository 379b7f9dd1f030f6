"""From the arguments of a front-end function to a recorded call, and back to arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import errors, settings
from ..core import (
    changing,
    record,
    record1,
    record2,
    record_handed,
    record_on,
    record_paired,
    record_refused,
    record_scalar,
    rng,
)
from ..core.calls.state import local
from ..core.calls.value import TRACED, Dynamic, Value, seen
from ..core.calls.varying import Handed
from ..core.run import cold
from ..core.run.failures import Postponed
from ..device import Device
from ..ops import help
from ..ops.table import Op, hashable
from ..ops.texts import parsed
from .at_once import at_once
from .handle import assign, dense, numbers, store
from .indexing import check_write, refuse_open, shapes_of_1x
from .ndarray import NDArray, to_value
from .protocol import default_dtype
from .ufunc_options import refuse_options

_new = object.__new__
_version = settings.snapshot("compat.version")
_NUMBERS = (bool, int, float)
_OPERANDS = (int, float)
# Attributes that say where a result goes; they are no part of the operator.
_PLACES = ("device", "ctx")
_STORAGE = ("stype", "forward_stype")  # the storage type of a result
_NOT_ATTRIBUTES = frozenset(("out", "name", *_PLACES))

#: What NumPy calls a sequence of arrays, which may be one array of one axis more.
_SEQUENCES = ("arrays", "seq", "tup")
_ALONE = ([True], [True, False])

#: What composes a call one of whose arguments is a symbol, and gives None for others; mx.sym puts it here.
symbolic: list[Callable[[Op, Sequence[Any], dict[str, Any]], Any]] = []

#: What computes a call with a sparse array among its arguments or results, and gives NotImplemented for others; the
#: first sparse array puts it here (`sparse/dispatch.py`).
stored: list[Callable[[Op, type[NDArray], Sequence[Any], dict[str, Any]], Any]] = []


def wrap(cls: type[NDArray], v: Value) -> Any:
    """A new array on a value."""
    h = _new(cls)
    h._v = v
    h._var = None
    return h


def call(op: Op, cls: type[NDArray], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Invoke an operator with the arguments a user gave; ``out=`` receives the result if given."""
    if stored:
        answer = stored[0](op, cls, args, kwargs)
        if answer is not NotImplemented:
            return answer
    in_graph = local.st.seg.graph
    key = _key_of(op, cls, args, kwargs) if op.plain and not in_graph else None
    if key is not None:
        try:
            bound = op.fast.get(key)
        except (TypeError, NotImplementedError):  # a list or an array among the arguments
            bound = key = None
        if bound is not None:
            values = [a._v or a._value() for a in args[: op.n_arrays] if a is not None]
            outs: Any = record(bound, values)
            if len(outs) == 1 and not op.listed:
                return wrap(cls, outs[0])
            return tuple([wrap(cls, v) for v in outs]) if op.tupled else [wrap(cls, v) for v in outs]
    if symbolic:
        composed = symbolic[0](op, args, kwargs)
        if composed is not None:
            return composed
    before, given = args, dict(kwargs)
    if len(args) > op.n_arrays and not (op.legacy or op.variadic or op.attr_params or kwargs):
        if isinstance(args[-1], NDArray):  # np.exp(x, out)
            args, kwargs = args[: op.n_arrays], {"out": args[-1]}
    elif cls._legacy and not op.variadic and len(args) > op.n_arrays + len(op.attr_params):
        args = _without_out(args, op.n_arrays + len(op.attr_params), kwargs)
    out = kwargs.pop("out", None) if kwargs else None
    device = None
    if kwargs:
        kwargs.pop("name", None)
        for place in _PLACES:
            if place in kwargs:
                device = kwargs.pop(place) or device
    if not op.array_params and any(isinstance(a, Device) for a in args):
        # nd.zeros(shape, ctx, dtype): the place may stand among the arguments.
        device = next(a for a in args if isinstance(a, Device))
        args = tuple(a for a in args if not isinstance(a, Device))
    texts = cls._legacy or _version() == "1.9"
    if kwargs and cls._legacy and not op.attr_params:  # MXNet looks at no argument of an operator that has none
        kwargs = {k: v for k, v in kwargs.items() if k in op.array_params}
    arrays, attrs = split(op, args, kwargs, texts)
    if shapes_of_1x and (not op.array_params or op.internal == "tile") and shapes_of_1x[0]():
        refuse_open(op.display, op.name, attrs)
    for name, value in attrs:
        if name in _STORAGE and value not in (None, "default") and not in_graph:  # in a graph all are dense
            from .sparse.dispatch import in_storage

            return in_storage(op, cls, before, given, value)
    if op.wide and default_dtype[0].itemsize == 8 and "dtype" not in op.attr_params:
        arrays = _widened(arrays, op.wide)
    elif op.wide and default_dtype[0].itemsize == 8 and all(k != "dtype" or v is None for k, v in attrs):
        attrs = (*[pair for pair in attrs if pair[0] != "dtype"], ("dtype", op.wide))
    if op.modal:
        training = local.st.training
        attrs = (*attrs, ("is_train", training))
    values = []
    holes: list[tuple[int, Any]] = []
    inputs: list[Any] = []
    like = next((a for a in arrays if isinstance(a, NDArray)), None)
    if like is not None:
        cls = like._front  # the results are of the inputs' kind, whichever front end was asked
    for at, a in enumerate(arrays):
        if isinstance(a, NDArray):
            values.append(a._v or a._value())
            inputs.append(a)
        elif a is None or isinstance(a, _NUMBERS):
            holes.append((at, a))
        elif isinstance(a, np.generic):
            holes.append((at, a.item()))
        else:
            values.append(to_value(_listed(dense(a, op.display), like), like))
            inputs.append(None)
    if not values and op.array_params and not op.keyed and any(a is not None for _, a in holes):
        return _of_numbers(op, cls, arrays, attrs, out)
    if op.host and not in_graph and device is None and (v := at_once(op, values, attrs)) is not None:
        return deliver(cls, (v,), out, single=True)
    refused = _look(op, arrays, attrs) if op.looks is not None and not in_graph else None
    if holes and not op.variadic:
        for at, constant in holes:
            if constant is None and at < len(op.array_params) and op.array_params[at] not in op.defaults:
                raise errors.MXNetTypeError(
                    f"{op.name}: an array is expected for {op.array_params[at]!r}, got None; "
                    f"it takes {signature_text(op)}"
                )
    while holes and holes[-1][0] == len(arrays) - 1 and holes[-1][1] is None and not op.variadic:
        arrays = arrays[:-1]  # trailing optional inputs are simply not passed
        holes.pop()
    if op.scalars is not None and len(values) == 1 and len(holes) == 1 and holes[0][1] is not None:
        position, number = holes[0]
        beside = op.scalars[0] if position == 1 else op.scalars[1]
        outs = ((record_handed if type(number) is Handed else record_scalar)(beside, values[0], number),)
    else:
        if holes and op.keyed:  # the key's three operands come first
            holes = [(at + 3, constant) for at, constant in holes]
        moving: list[tuple[Any, Any]] = []
        numeric: list[tuple[Any, Any]] = []
        bound = None
        if op.varying:
            moving = [(k, n) for k, n in attrs if k in op.varying and isinstance(n, _NUMBERS)]
        # While no number of this operator changes anywhere, those that came before need not be looked at.
        if op.numbers and not op.moved and not in_graph and not moving:
            bound = op.bound(attrs, tuple(holes))
        if op.numbers and bound is None:
            if in_graph:
                moving += [(k, n) for k, n in (*attrs, *holes) if type(n) is Handed and k in op.numbers]
            numeric = [(k, n) for k, n in (*attrs, *holes) if k in op.numbers and type(n) in _OPERANDS]
            if moving and in_graph and op.check is not None:
                _check_later(op, numeric, moving)
            if numeric:
                moving += _changing(op, numeric, values)
        if in_graph:  # other numbers that were handed to the block stay numbers
            attrs, holes = _asked(attrs, moving), list(_asked(holes, moving))
        if moving:
            bound = op.bind_moving(attrs, tuple(holes), tuple([k for k, _ in moving]))
        elif bound is None:
            bound = op.bind(attrs, tuple(holes))
        if texts and key is not None and _were_texts(before, given, attrs):
            key = None  # np's functions take none
        if key is not None and not holes and not moving and not (op.moved and numeric):
            if len(op.fast) > 10_000:
                op.fast.clear()
            op.fast[key] = bound
        if op.keyed:
            where = values[0].aval.device if values else _target(device)
            values[:0] = rng.operands(where, 1, op.draws, attrs)
        here = bool(values) and device is None
        values += [Dynamic(n) for _, n in moving]
        if refused is not None:
            outs = record_refused(bound, values, refused)
        elif here:
            paired = op.paired and local.st.taping and op.count_outputs(dict(attrs)) != 1
            # NumPy has one trace of a call for all lengths, and none of a half of it.
            paired = paired and not cold.is_for_numpy(values[0].aval.device)
            outs = (record_paired if paired else record)(bound, values)
        else:
            outs = record_on(_target(device), bound, values)
    if op.aux and (not op.modal or training):
        outs = _write_back(op.aux(dict(attrs)) if callable(op.aux) else op.aux, inputs, outs)
    made = deliver(cls, outs, out, single=len(outs) == 1 and not op.listed)
    return tuple(made) if op.tupled and type(made) is list else made


def _widened(arrays: Sequence[Any], dtype: str) -> list[Any]:
    """Arrays of integers and bools as floats, where no array is of floats."""
    if any(isinstance(a, NDArray) and np.dtype(a.dtype).kind not in "biu" for a in arrays):
        return list(arrays)
    return [a.astype(dtype) if isinstance(a, NDArray) else a for a in arrays]


def _look(op: Op, arrays: Sequence[Any], attrs: tuple[tuple[str, Any], ...]) -> Postponed | None:
    """Let a row refuse arrays for numbers that are there already; an error for who reads the results is given back."""
    known = {}
    for name, a in zip(op.array_params, arrays, strict=False):
        if isinstance(a, NDArray):
            found = seen(a._v or a._value())
            if found is not None:
                known[name] = found
    if known:
        shapes = {n: np.shape(a) for n, a in zip(op.array_params, arrays, strict=False) if a is not None}
        assert op.looks is not None
        try:
            op.looks(known, shapes, {**op.attr_defaults, **dict(attrs)})
        except Postponed as e:
            return Postponed(f"{op.name}: {e}")
    return None


def _named(op: Op, pairs: Sequence[tuple[Any, Any]]) -> dict[str, Any]:
    """Numbers by the names of their parameters."""
    first = 3 if op.keyed else 0
    return {k if type(k) is str else op.array_params[k - first]: n for k, n in pairs}


def _check_later(op: Op, numeric: Sequence[tuple[Any, Any]], handed: Sequence[tuple[Any, Any]]) -> None:
    """Have the numbers that come to the block with later calls checked, too."""
    given, check = _named(op, [*numeric, *handed]), op.check
    assert check is not None

    def later(numbers: Sequence[Any]) -> None:
        check(**{k: n.compute(numbers) if type(n) is Handed else n for k, n in given.items()})

    handed[0][1].use.checks.append(later)


def _asked(pairs: Sequence[tuple[Any, Any]], moving: Sequence[tuple[Any, Any]]) -> tuple[tuple[Any, Any], ...]:
    """Arguments with the numbers for those that were handed to a block and cannot be operands of a call."""
    names = [k for k, _ in moving]
    return tuple([(k, n.ask() if type(n) is Handed and k not in names else n) for k, n in pairs])


def _changing(op: Op, numeric: list[tuple[Any, Any]], values: Sequence[Value]) -> list[tuple[Any, Any]]:
    """The numbers, by name or position, that are operands of this call, because they change from call to call."""
    found = changing(op, numeric, tuple([v.aval.dtype for v in values]))
    if not found:
        return found
    if not op.moved:
        op.moved = True
        op.fast.clear()  # calls with numbers in them
    if op.check is not None:
        try:
            op.check(**_named(op, numeric))
        except (TypeError, ValueError):
            return []  # as part of the call it is refused
    return found


def _key_of(op: Op, cls: type[NDArray], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What the bound call depends on, where all arrays come in order; it may not be hashable."""
    if op.wide and default_dtype[0].itemsize == 8:
        return None
    n = op.n_arrays
    given = 0
    for a in args[:n]:
        if type(a) is cls:
            given += 1
        elif a is not None:
            return None
    if not given or args[given - 1] is None:
        return None
    if not kwargs:
        return given, args[n:]
    if not (_NOT_ATTRIBUTES.isdisjoint(kwargs) and op.array_names.isdisjoint(kwargs)):
        return None
    return given, args[n:], *kwargs.items(), *map(type, kwargs.values())


def _listed(a: Any, like: NDArray | None) -> Any:
    """Lists among the arrays: integers stay integers, floats take the array's float type, or
    float32.
    """
    if not isinstance(a, (list, tuple)):
        return a
    made = numbers(a)
    if made.dtype.kind != "f":
        return made
    beside = np.dtype(np.float32) if like is None else like._value().aval.dtype
    return made.astype(beside if beside.kind in "fV" else np.float32)


def _of_numbers(
    op: Op, cls: type[NDArray], arrays: list[Any], attrs: tuple[tuple[str, Any], ...], out: Any
) -> Any:
    """A function of numbers alone: NumPy's answer for its own functions, else that of 0-d arrays."""
    ufunc = getattr(np, op.name, None)
    if isinstance(ufunc, np.ufunc) and not attrs and out is None and cls is not NDArray:
        return ufunc(*arrays)
    dtype = np.float32 if any(isinstance(a, float) for a in arrays) else None
    full = [a if a is None else wrap(cls, to_value(np.asarray(a, dtype))) for a in arrays]
    return call(op, cls, full, {**dict(attrs), "out": out})


def deliver(cls: type[NDArray], outs: Sequence[Value], out: Any, *, single: bool) -> Any:
    """Wrap results, or put them into ``out``."""
    if out is None:
        return wrap(cls, outs[0]) if single else [wrap(cls, v) for v in outs]
    targets = out if isinstance(out, (list, tuple)) else [out]
    if len(targets) != len(outs):
        raise errors.MXNetValueError(f"out= takes {len(outs)} arrays, got {len(targets)}")
    for target, v in zip(targets, outs, strict=True):
        if not isinstance(target, NDArray):
            raise errors.MXNetTypeError(f"out= takes an array, got {type(target).__name__}")
        if target.shape != v.aval.shape:
            raise errors.MXNetValueError(
                f"out= has shape {target.shape}, the result has {v.aval.shape}"
            )
        kind = target._value().aval.dtype
        if kind != v.aval.dtype:
            raise errors.MXNetTypeError(
                f"Type inconsistent, Provided = {kind}, inferred type = {v.aval.dtype}: the `out` parameter should "
                "have the dtype of the result; without it x[:] = ... converts"
            )
        if local.st.taping:
            check_write(target, True, None)
    assign(targets, outs)
    return out


def _write_back(
    aux: tuple[int, ...], inputs: Sequence[Any], outs: tuple[Value, ...]
) -> tuple[Value, ...]:
    """Give the operator's new values to the inputs it updates (moving statistics)."""
    n = len(aux)
    written = []
    for at, v in zip(aux, outs[-n:], strict=True):
        # A trace of the user's (jax.jit) must leave nothing behind in arrays from outside it.
        given = inputs[at] if at < len(inputs) else None
        if given is not None and (v.seg is not TRACED or given._value().seg is TRACED):
            v.tape = None
            written.append((given, v))
    store([given for given, _ in written], [v for _, v in written])
    seg = local.st.seg
    if seg.graph:
        for given, _ in written:
            seg.wrote(given, given._value(), taped=False)
    return outs[:-n]


def _target(device: Any) -> Any:
    from ..core import default_device
    if device is None:
        return default_device()
    return device.placement if isinstance(device, Device) else Device(device).placement


def _were_texts(args: Sequence[Any], kwargs: dict[str, Any], attrs: tuple[tuple[str, Any], ...]) -> bool:
    """Whether a number or a tuple was given as its text."""
    words = [v for _, v in attrs if type(v) is str]
    return any(type(v) is str and v not in words for v in (*args, *kwargs.values()))


def split(
    op: Op, args: Sequence[Any], kwargs: dict[str, Any], texts: bool = False
) -> tuple[list[Any], tuple[tuple[str, Any], ...]]:
    """Arrays in order and attributes as a hashable tuple; with ``texts`` numbers may have come as texts."""
    params = op.array_params
    if op.variadic:
        if not op.attr_params and len(args) > 1:  # nothing else can be meant
            arrays, rest = list(args), []
        elif args and isinstance(args[0], (list, tuple, Iterator)):
            arrays, rest = list(args[0]), list(args[1:])
        elif params[-1] in _SEQUENCES and "np" in op.names and [isinstance(a, NDArray) for a in args[:2]] in _ALONE:
            arrays, rest = list(args[0]), list(args[1:])  # np.stack(x): of the parts of one array
        else:
            count = len(args)
            while count and not isinstance(args[count - 1], (NDArray, np.ndarray)):
                count -= 1
            arrays, rest = list(args[:count]), list(args[count:])
        if not arrays and params[-1] in kwargs:
            arrays = list(kwargs.pop(params[-1]))
    else:
        arrays, rest = list(args[: len(params)]), list(args[len(params) :])
        if len(arrays) < len(params):
            for name in params[len(arrays) :]:
                if kwargs and name in kwargs:
                    arrays.append(kwargs.pop(name))
                elif name in op.defaults:
                    arrays.append(op.defaults[name])
                else:
                    raise errors.MXNetTypeError(
                        f"{op.name} needs the array {name!r}: it takes {signature_text(op)}"
                    )
    given: dict[str, Any] = {}
    if rest:
        if len(rest) > len(op.attr_params):
            raise errors.MXNetTypeError(
                f"{op.name} got too many arguments: it takes {signature_text(op)}"
            )
        given.update(zip(op.attr_params, rest, strict=False))
    for name, value in kwargs.items():
        if name not in op.attr_params:
            if name in params:
                raise errors.MXNetTypeError(f"{op.name} got the array {name!r} twice")
            raise errors.MXNetTypeError(
                f"{op.name}() got an unexpected keyword argument {name!r}"
                f"{errors.did_you_mean(name, [*params, *op.attr_params])}. "
                f"Cannot find argument {name!r}, Possible Arguments: {signature_text(op)}"
            )
        if name in given:
            raise errors.MXNetTypeError(f"{op.name} got the argument {name!r} twice")
        given[name] = value
    if not given:
        return arrays, ()
    if texts:
        given = {k: parsed(op, k, v) if type(v) is str else v for k, v in given.items()}
    return arrays, tuple([(k, hashable(_plain(v))) for k, v in sorted(given.items())])


def _plain(value: Any) -> Any:
    """Arrays given where a static attribute is expected become their numbers."""
    if isinstance(value, NDArray):
        host = value.asnumpy()
        return host.item() if host.ndim == 0 else tuple(host.tolist())
    if isinstance(value, np.ndarray):
        return value.item() if value.ndim == 0 else tuple(value.tolist())
    return value


def signature_text(op: Op) -> str:
    return f"({', '.join([*op.array_params, *op.attr_params])})"


def _without_out(args: Sequence[Any], count: int, kwargs: dict[str, Any]) -> Sequence[Any]:
    """The operator's own arguments; MXNet's functions of nd take ``out`` and a name behind them."""
    if len(args) <= count + 2 and (args[count] is None or isinstance(args[count], (NDArray, list, tuple))):
        kwargs.setdefault("out", args[count])
        return args[:count]
    return args


def by_order(op: Op, legacy: bool, args: Sequence[Any], kwargs: dict[str, Any]) -> Sequence[Any]:
    """The first arguments, as the row takes them; those that stand elsewhere in a front end's order become keywords."""
    order = op.nd_order if legacy else op.order
    same = 0
    for ours, theirs in zip((*op.array_params, *op.attr_params), order, strict=False):
        if ours != theirs:
            break
        same += 1
    if len(args) <= same:
        return args
    if legacy and len(args) > len(order):
        args = _without_out(args, len(order), kwargs)
    if len(args) > len(order):
        raise errors.MXNetTypeError(f"{op.name} got too many arguments: it takes ({', '.join(order)})")
    for name, value in zip(order[same:], args[same:], strict=False):
        if name in kwargs:
            raise errors.MXNetTypeError(f"{op.name} got the argument {name!r} twice")
        kwargs[name] = value
    return args[:same]


def function(op: Op, name: str, cls: type[NDArray], module: str, *, method: bool = False) -> Callable[..., Any]:
    """The front-end function of a row, or a method that is one."""
    make = _make_general
    general = op.looks or op.wide or op.attr_params or op.aux or op.keyed or op.modal or op.variadic or op.host
    if not general and op.outputs == 1:
        make = {1: _make_unary, 2: _make_binary}.get(len(op.array_params), _make_general)
    if op.nd_order if cls._legacy else op.order:
        make = _make_ordered
    elif op.variadic and op.array_params[-1] in _SEQUENCES and not cls._legacy:
        make = _make_of_one_list
    made = make(op, cls)
    if cls._legacy and make is _make_binary and not name.startswith("broadcast_"):
        if any(n.startswith("broadcast_") for n in op.names.get("nd", ())):
            made = _of_two_alone(made, name)
    made.__name__ = name
    made.__qualname__ = name
    made.__module__ = module
    front = ("nd" if cls._legacy else "np") if method else module.removeprefix("mxjax.")
    made.__doc__ = help.text(op, name, front, cls.__name__, method=method)
    made.__signature__ = help.Signature(functools.partial(help.parameters, op, cls))  # type: ignore[attr-defined]
    made.__wrapped__ = op.fn  # type: ignore[attr-defined]  # what `np.stack??` shows
    return made


def _make_ordered(op: Op, cls: type[NDArray]) -> Callable[..., Any]:
    legacy = cls._legacy

    def ordered(*args: Any, **kwargs: Any) -> Any:
        if len(args) > 1:
            args = tuple(by_order(op, legacy, args, kwargs))
        return call(op, cls, args, kwargs)

    return ordered


def _make_of_one_list(op: Op, cls: type[NDArray]) -> Callable[..., Any]:
    def of_one_list(*args: Any, **kwargs: Any) -> Any:
        if len(args) > 1 and isinstance(args[1], NDArray) and isinstance(args[0], NDArray):
            raise errors.MXNetTypeError(
                f"np.{op.display}(x, y, ...): one list of arrays is expected, np.{op.display}([x, y, ...])"
            )
        return call(op, cls, args, kwargs)

    return of_one_list


def _make_general(op: Op, cls: type[NDArray]) -> Callable[..., Any]:
    def general(*args: Any, **kwargs: Any) -> Any:
        if kwargs and op.wide:
            refuse_options(op, cls, kwargs)
        return call(op, cls, args, kwargs)

    return general


def _make_unary(op: Op, cls: type[NDArray]) -> Callable[..., Any]:
    bound = op.bind()

    def one_input(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs:
            x = args[0]
            if type(x) is cls:
                h = _new(cls)
                h._v = record1(bound, x._v or x._value())
                h._var = None
                return h
        if kwargs:
            refuse_options(op, cls, kwargs)
        return call(op, cls, args, kwargs)

    return one_input


def _make_binary(op: Op, cls: type[NDArray]) -> Callable[..., Any]:
    bound = op.bind()

    def two_inputs(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 2 and not kwargs:
            a, b = args
            if type(a) is cls and type(b) is cls:
                h = _new(cls)
                h._v = record2(bound, a._v or a._value(), b._v or b._value())
                h._var = None
                return h
        if kwargs:
            refuse_options(op, cls, kwargs)
        return call(op, cls, args, kwargs)

    return two_inputs


def _of_two_alone(fn: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A function that MXNet wrote in Python, as nd.maximum: it refuses what broadcast_maximum takes no notice of."""

    def two(lhs: Any, rhs: Any, **kwargs: Any) -> Any:
        if kwargs and kwargs.keys() != {"out"}:
            unknown = next(k for k in kwargs if k != "out")
            raise errors.MXNetTypeError(f"{name}() got an unexpected keyword argument {unknown!r}; it takes two arrays")
        return fn(lhs, rhs, **kwargs)

    return two
