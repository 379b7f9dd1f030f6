"""From the arguments of a front-end function to a recorded call, and back to arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .. import errors, settings
from ..core import (
    changing,
    read,
    record,
    record_handed,
    record_on,
    record_paired,
    record_refused,
    record_scalar,
    rng,
)
from ..core.calls.call import kind_of
from ..core.calls.segment import Segment
from ..core.calls.state import local
from ..core.calls.value import SMALL, TRACED, Dynamic, Value, seen
from ..core.calls.varying import Handed
from ..core.run import cold
from ..core.run.failures import Postponed
from ..device import Device
from ..ops.table import Op
from .arguments import PLACES, destination, signature_text, split, were_texts
from .at_once import at_once
from .handle import assign, dense, numbers, store
from .indexing import check_write, refuse_open, shapes_of_1x
from .ndarray import NDArray, to_value
from .protocol import default_dtype

_new = object.__new__
_version = settings.snapshot("compat.version")
_NUMBERS = (bool, int, float)
_OPERANDS = (int, float)
_STORAGE = ("stype", "forward_stype")  # the storage type of a result
_NOT_ATTRIBUTES = frozenset(("out", "name", *PLACES))

#: Attributes, or constants by position, with their values.
Pairs = tuple[tuple[Any, Any], ...]

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
            return (
                tuple([wrap(cls, v) for v in outs]) if op.tupled else [wrap(cls, v) for v in outs]
            )
    if symbolic:
        composed = symbolic[0](op, args, kwargs)
        if composed is not None:
            return composed
    return _call(op, cls, args, kwargs, key)


def _call(op: Op, cls: type[NDArray], args: Sequence[Any], kwargs: dict[str, Any], key: Any) -> Any:
    """A call that is not known by its ``key``: arguments, operands, numbers, the recorded call, and its results."""
    in_graph = local.st.seg.graph
    before, given = args, dict(kwargs)
    args, kwargs, out, device = destination(op, cls, args, kwargs)
    texts = cls._legacy or _version() == "1.9"
    arrays: Sequence[Any]
    outs: Sequence[Value]
    arrays, attrs = split(op, args, kwargs, texts)
    if shapes_of_1x and (not op.array_params or op.names.internal == "tile") and shapes_of_1x[0]():
        refuse_open(op.display, op.name, attrs)
    for name, value in attrs:
        if (
            name in _STORAGE and value not in (None, "default") and not in_graph
        ):  # in a graph all are dense
            from .sparse.dispatch import in_storage

            return in_storage(op, cls, before, given, value)
    if op.wide or op.modal:
        arrays, attrs = _by_modes(op, arrays, attrs)
    cls, values, inputs, holes = _operands(op, cls, arrays)
    if not values and op.array_params and not op.keyed and any(a is not None for _, a in holes):
        return _of_numbers(op, cls, arrays, attrs, out)
    if (
        op.host
        and not in_graph
        and device is None
        and (v := at_once(op, values, attrs)) is not None
    ):
        return deliver(cls, (v,), out, single=True)
    refused = _look(op, arrays, attrs) if op.looks is not None and not in_graph else None
    if holes and not op.variadic:
        holes = _optional(op, arrays, holes)
    if op.scalars is not None and len(values) == 1 and len(holes) == 1 and holes[0][1] is not None:
        position, number = holes[0]
        beside = op.scalars[0] if position == 1 else op.scalars[1]
        outs = (
            (record_handed if type(number) is Handed else record_scalar)(beside, values[0], number),
        )
    else:
        bound, attrs, moving, fixed = _bind(op, attrs, holes, values, in_graph)
        if (
            key is not None and fixed and not (texts and were_texts(before, given, attrs))
        ):  # np's functions take none
            if len(op.fast) > 10_000:
                op.fast.clear()
            op.fast[key] = bound
        dynamic = [Dynamic(n) for _, n in moving] if moving else moving
        outs = _record(op, bound, values, attrs, dynamic, device, refused)
    if op.aux and (not op.modal or local.st.training):
        outs = _write_back(op.aux(dict(attrs)) if callable(op.aux) else op.aux, inputs, outs)
    made = deliver(cls, outs, out, single=len(outs) == 1 and not op.listed)
    return tuple(made) if op.tupled and type(made) is list else made


def _by_modes(op: Op, arrays: Sequence[Any], attrs: Pairs) -> tuple[Sequence[Any], Pairs]:
    """Arguments as the thread's modes have them: the default dtype, training."""
    if op.wide and default_dtype[0].itemsize == 8 and "dtype" not in op.attr_params:
        arrays = _widened(arrays, op.wide)
    elif op.wide and all(k != "dtype" or v is None for k, v in attrs):
        if dtype := _default_of(op, arrays):
            attrs = (*[pair for pair in attrs if pair[0] != "dtype"], ("dtype", dtype))
    if op.modal:
        attrs = (*attrs, ("is_train", local.st.training))
    return arrays, attrs


def _default_of(op: Op, arrays: Sequence[Any]) -> str | None:
    """The dtype that the modes give a call without one; None: the row's."""
    if _keeps_floats(op) and isinstance(arrays[0], NDArray):
        given = np.dtype(arrays[0].dtype)
        if given.kind not in "biu":
            return given.name
    return op.wide if default_dtype[0].itemsize == 8 else None


def _keeps_floats(op: Op) -> bool:
    return op.precision.keeps_floats and _version() == "1.9"


def _operands(
    op: Op, cls: type[NDArray], arrays: Sequence[Any]
) -> tuple[type[NDArray], list[Any], list[Any], list[tuple[int, Any]]]:
    """The class of the results; the arrays' values, and their handles; and constants by position."""
    values: list[Any] = []
    inputs: list[Any] = []
    holes: list[tuple[int, Any]] = []
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
    return cls, values, inputs, holes


def _optional(op: Op, arrays: Sequence[Any], holes: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """The constants without trailing optional inputs, which are simply not passed; other arrays must be there."""
    for at, constant in holes:
        if (
            constant is None
            and at < len(op.array_params)
            and op.array_params[at] not in op.defaults
        ):
            raise errors.MXNetTypeError(
                f"{op.name}: an array is expected for {op.array_params[at]!r}, got None; "
                f"it takes {signature_text(op)}"
            )
    last = len(arrays) - 1
    while holes and holes[-1][0] == last and holes[-1][1] is None:
        holes, last = holes[:-1], last - 1
    return holes


def _bind(
    op: Op, attrs: Pairs, holes: Sequence[tuple[int, Any]], values: Sequence[Value], in_graph: bool
) -> tuple[Any, Pairs, list[tuple[Any, Any]], bool]:
    """The bound call, its attributes, the numbers that are its operands, and whether it is the same for all numbers."""
    if holes and op.keyed:  # the key's three operands come first
        holes = [(at + 3, constant) for at, constant in holes]
    moving: list[tuple[Any, Any]] = []
    numeric: list[tuple[Any, Any]] = []
    if op.varying:
        moving = [(k, n) for k, n in attrs if k in op.varying and isinstance(n, _NUMBERS)]
    # While no number of this operator changes anywhere, those that came before need not be looked at.
    if op.numbers and not op.moved and not in_graph and not moving:
        bound = op.bound(attrs, tuple(holes))
        if bound is not None:
            return bound, attrs, moving, not holes
    if op.numbers:
        if in_graph:
            moving += [(k, n) for k, n in (*attrs, *holes) if type(n) is Handed and k in op.numbers]
        numeric = [(k, n) for k, n in (*attrs, *holes) if k in op.numbers and type(n) in _OPERANDS]
        if moving and in_graph and op.check is not None:
            _check_later(op, numeric, moving)
        if numeric:
            moving += _changing(op, numeric, values)
    if in_graph:  # other numbers that were handed to the block stay numbers
        attrs, holes = _asked(attrs, moving), _asked(holes, moving)
    if moving:
        bound = op.bind_moving(attrs, tuple(holes), tuple([k for k, _ in moving]))
    else:
        bound = op.bind(attrs, tuple(holes))
    return bound, attrs, moving, not holes and not moving and not (op.moved and numeric)


def _record(
    op: Op,
    bound: Any,
    values: list[Any],
    attrs: Pairs,
    moving: list[Any],
    device: Any,
    refused: Postponed | None,
) -> tuple[Value, ...]:
    """Record the bound call where its arrays are, or on the given device."""
    if op.keyed:
        where = values[0].aval.device if values else _target(device)
        values = [*rng.operands(where, 1, op.draws, attrs), *values]
    here = bool(values) and device is None
    if moving:
        values = values + moving
    if refused is not None:
        return record_refused(bound, values, refused)
    if not here:
        return record_on(_target(device), bound, values)
    # NumPy has one trace of a call for all lengths, and none of a half of it.
    if (
        op.paired
        and local.st.taping
        and op.count_outputs(dict(attrs)) != 1
        and not cold.is_for_numpy(values[0].aval.device)
    ):
        return record_paired(bound, values)
    return record(bound, values)


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
            v = a._v or a._value()
            found = seen(v)
            if found is None and op.keyed and v.seg is not None and not local.st.taping:
                found = _awaited(v)
            if found is not None:
                known[name] = found
    if known:
        shapes = {
            n: np.shape(a) for n, a in zip(op.array_params, arrays, strict=False) if a is not None
        }
        assert op.looks is not None
        try:
            op.looks(known, shapes, {**op.attr_defaults, **dict(attrs)})
        except Postponed as e:
            return Postponed(f"{op.name}: {e}")
    return None


def _awaited(v: Value) -> np.ndarray | None:
    """The numbers of a small array that is not computed yet: parameters of distributions are looked at, as in MXNet.

    Not while autograd records, where the step would no longer be one program.
    """
    if (
        type(v.seg) is not Segment
        or not 0 < v.aval.size <= SMALL
        or v.aval.device.platform != "cpu"
    ):
        return None
    try:
        return np.asarray(read(v))
    except errors.MXNetError:
        return None  # who reads the result hears of it


def _check_later(
    op: Op, numeric: Sequence[tuple[Any, Any]], handed: Sequence[tuple[Any, Any]]
) -> None:
    """Have the numbers that come to the block with later calls checked, too."""
    given, check = op.named([*numeric, *handed]), op.check
    assert check is not None

    def later(numbers: Sequence[Any]) -> None:
        check(**{k: n.compute(numbers) if type(n) is Handed else n for k, n in given.items()})

    handed[0][1].use.checks.append(later)


def _asked(
    pairs: Sequence[tuple[Any, Any]], moving: Sequence[tuple[Any, Any]]
) -> tuple[tuple[Any, Any], ...]:
    """Arguments with the numbers for those that were handed to a block and cannot be operands of a call."""
    names = [k for k, _ in moving]
    return tuple([(k, n.ask() if type(n) is Handed and k not in names else n) for k, n in pairs])


def _changing(
    op: Op, numeric: list[tuple[Any, Any]], values: Sequence[Value]
) -> list[tuple[Any, Any]]:
    """The numbers, by name or position, that are operands of this call, because they change from call to call."""
    found = changing(op, numeric, tuple([v.aval.dtype for v in values]))
    if not found:
        return found
    if not op.moved:
        op.moved = True
        op.fast.clear()  # calls with numbers in them
    if op.check is not None:
        try:
            op.check(**op.named(numeric))
        except (TypeError, ValueError):
            return []  # as part of the call it is refused
    return found


def _key_of(op: Op, cls: type[NDArray], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What the bound call depends on, where all arrays come in order; it may not be hashable."""
    if op.wide and (default_dtype[0].itemsize == 8 or _keeps_floats(op)):
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
    rest = args[n:]
    if not kwargs:
        return (given, rest, *_types(rest)) if rest else (given, rest)
    if not (_NOT_ATTRIBUTES.isdisjoint(kwargs) and op.array_names.isdisjoint(kwargs)):
        return None
    return given, rest, *_types(rest), *kwargs.items(), *_types(kwargs.values())


def _types(values: Iterable[Any]) -> tuple[Any, ...]:
    types = tuple(map(type, values))
    return tuple(map(kind_of, values)) if tuple in types else types


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


#: Functions of NumPy that are none of its ufuncs, and answer numbers with numbers.
_OF_NUMBERS = frozenset(("around", "isneginf", "isposinf", "nan_to_num"))


def _of_numbers(
    op: Op, cls: type[NDArray], arrays: Sequence[Any], attrs: tuple[tuple[str, Any], ...], out: Any
) -> Any:
    """A function of numbers alone: NumPy's answer for its own functions, else that of 0-d arrays."""
    ref = op.tests.ref
    own: Any = ref if isinstance(ref, np.ufunc) else getattr(np, op.name.split("@")[0], None)
    if out is None and cls is not NDArray:
        if op.name in _OF_NUMBERS or (isinstance(own, np.ufunc) and not attrs):
            return own(*arrays, **dict(attrs))
    elif out is None and isinstance(own, np.ufunc) and own.nin == 2:
        found = own(*(np.array(a, object) for a in arrays))  # nd's of two numbers are Python's
        return int(bool(found)) if all(t[-1] in "?O" for t in own.types) else found
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
    aux: tuple[int, ...], inputs: Sequence[Any], outs: Sequence[Value]
) -> Sequence[Value]:
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
