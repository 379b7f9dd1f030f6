"""Calls with a sparse array among their arguments or results: by the row's sparse form, else on dense arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import errors
from ...core import attach_python, default_device, record
from ...core.calls.state import local
from ...core.calls.value import Value
from ...core.graph.graph import again
from ...ops.table import Op
from .. import invoke
from ..arguments import destination, split
from ..handle import dense, to_value
from ..indexing import check_write
from ..invoke import call
from ..ndarray import NDArray, element_type, place
from ..storage import report
from .classes import CLASSES, BaseSparseNDArray, wrap
from .forms import forms_of, wanted_stype
from .updates import is_lazy, update
from .value import Stored, beginnings, in_stype, known_stype, nothing

_NUMBERS = (bool, int, float, np.generic)


_KINDS = frozenset(CLASSES.values())
_LISTS = frozenset((list, tuple))


def dispatch(op: Op, cls: type[NDArray], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The results of a call, or NotImplemented where it has nothing to do with sparse arrays.

    Every call asks here once there are sparse arrays, so it looks at types alone.
    """
    for a in args:
        kind = type(a)
        if kind in _KINDS or (kind in _LISTS and _holds(a)):
            return _answer(op, cls, args, kwargs)
    for a in kwargs.values() if kwargs else ():
        kind = type(a)
        if kind in _KINDS or (kind in _LISTS and _holds(a)):
            return _answer(op, cls, args, kwargs)
    if op.sparse is not None and local.st.taping and _wants_rows(args, kwargs):
        return _answer(op, cls, args, kwargs, stored=False)
    return NotImplemented


def _holds(items: Sequence[Any]) -> bool:
    return any(type(x) in _KINDS for x in items)


def in_storage(
    op: Op, cls: type[NDArray], args: Sequence[Any], kwargs: dict[str, Any], stype: str
) -> Any:
    """The result of a call that was asked for in a storage type."""
    known_stype(stype)
    if op.sparse is not None:
        return _answer(op, cls, args, kwargs)
    args, rest, out, device = destination(op, cls, args, dict(kwargs))
    name = next(n for n in ("stype", "forward_stype") if n in op.attr_params)
    _, pairs = split(op, args, rest, cls._legacy)
    attrs = {k: v for k, v in pairs if k != name}
    where = default_device() if device is None else place(device)
    if op.display == "zeros" and not op.array_params:
        shape = attrs["shape"]
        dims = shape if isinstance(shape, tuple) else (shape,)
        made: Any = nothing(stype, dims, element_type(attrs.get("dtype") or "float32"), where)
    else:
        made = in_stype(call(op, cls, (), {**attrs, "ctx": device})._value(), stype)
    return _delivered(NDArray, made, out)


def _answer(
    op: Op, cls: type[NDArray], args: Sequence[Any], kwargs: dict[str, Any], stored: bool = True
) -> Any:
    rest = dict(kwargs)
    out = rest.pop("out", None)
    for name in ("name", "device", "ctx"):
        rest.pop(name, None)
    places: dict[str, Any] = {k: kwargs[k] for k in ("device", "ctx") if k in kwargs}
    arrays, pairs = split(op, args, dict(rest), cls._legacy)
    attrs = dict(pairs)
    like = next((a for a in arrays if isinstance(a, NDArray)), None)
    if like is not None and op.sparse is not None and not op.keyed:
        values = [_value(a, like) for a in arrays]
        found = forms_of(op, values, attrs)
        if found is not None:
            made, pull = found
            if local.st.taping and pull is not False:
                _attach(op, values, attrs, made, pull)
            return _delivered(like._front, made, out)
    if not stored:  # dense arrays alone, and no form that leaves rows: a call as any other
        return NotImplemented
    if is_lazy(op, arrays, attrs):
        return _delivered(NDArray, update(op, arrays, attrs), out)
    return _on_dense(op, cls, arrays, attrs, out, places)


def step_in_rows(step: Any, operands: tuple[Any, ...]) -> tuple[Value, ...]:
    """A step of a graph on these values (a visitor of `Graph.onto`): gradients that are to be row_sparse are so."""
    op, attrs = step.call.row, dict(step.call.attrs)
    rows = [v for v in operands if isinstance(v, Value) and wanted_stype(v) == "row_sparse"]
    if rows and getattr(op, "sparse", None) is not None and not step.call.constants:
        found = forms_of(op, operands, attrs)
        if found is not None:
            made, pull = found
            _attach(op, list(operands), attrs, made, pull)
            return (made,)
    return again(step, operands)


def _wants_rows(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether the gradient of one of the arrays, such as a table of rows, is to be row_sparse."""
    for a in (*args, *kwargs.values()):
        if (
            isinstance(a, NDArray)
            and a._var is not None
            and wanted_stype(a._v or a._value()) == "row_sparse"
        ):
            return True
    return False


def _value(a: Any, like: NDArray) -> Any:
    if isinstance(a, BaseSparseNDArray):
        return a._stored
    if isinstance(a, NDArray):
        return a._v or a._value()
    if a is None or isinstance(a, _NUMBERS):
        return a
    return to_value(
        dense(a, "an operator"), like._dense_like() if isinstance(like, BaseSparseNDArray) else like
    )


def _attach(op: Op, values: list[Any], attrs: dict[str, Any], made: Any, pull: Any) -> None:
    """Put a form's call on the tape."""
    inputs: list[Any] = [v for v in values if isinstance(v, (Value, Stored))]
    if all(v.tape is None for v in inputs):
        return
    dense = _dense_pull(op, values, inputs, attrs)

    def either(given: list[Any]) -> list[Any]:
        # A gradient that is itself on the tape is the dense row's, which can be differentiated again.
        found = None if local.st.taping else pull(given)
        return dense(given) if found is None else found

    either.stored = True  # type: ignore[attr-defined]
    attach_python(inputs, (made,), either if pull else dense)


def _dense_pull(op: Op, values: list[Any], inputs: list[Any], attrs: dict[str, Any]) -> Any:
    """The gradients of the dense row, for forms without gradients of their own."""

    def pull(given: list[Any]) -> list[Any]:
        taken = [_plain(v) for v in inputs]
        holes = tuple([(k, v) for k, v in enumerate(values) if not any(v is i for i in inputs)])
        bound = op.bind(tuple(sorted(attrs.items())), holes)
        wants = tuple([v.tape is not None and v.aval.differentiable for v in inputs])
        backward = bound.vjp(wants, (True,), False)
        found = iter(record(backward, (*taken, _plain(given[0]))))
        return [next(found) if w else None for w in wants]

    pull.stored = True  # type: ignore[attr-defined]
    return pull


def _plain(v: Any) -> Value:
    """The dense value, on the tape where that is recorded (for gradients of gradients)."""
    if type(v) is not Stored:
        return v  # type: ignore[no-any-return]
    made = v.dense()
    if local.st.taping:
        made.tape, made.out = v.tape, v.out
    return made


def _delivered(front: type[NDArray], made: Any, out: Any) -> Any:
    if out is None:
        return wrap(made) if type(made) is Stored else front._wrap(made)
    target = out[0] if isinstance(out, (list, tuple)) else out
    _store(target, made)
    return out


def _store(target: Any, made: Any) -> None:
    if not isinstance(target, NDArray):
        raise errors.MXNetTypeError(f"out= takes an array, got {type(target).__name__}")
    if target.shape != made.aval.shape:
        raise errors.MXNetValueError(
            f"out= has shape {target.shape}, the result has {made.aval.shape}"
        )
    if local.st.taping:
        check_write(target, True, None)
    target._assign(made)


def _on_dense(
    op: Op,
    cls: type[NDArray],
    arrays: list[Any],
    attrs: dict[str, Any],
    out: Any,
    places: dict[str, Any],
) -> Any:
    """The call on dense arrays, which is reported; sparse targets get the results in their storage types."""
    given = [a.stype if isinstance(a, NDArray) else None for a in arrays]
    targets = list(out) if isinstance(out, (list, tuple)) else [out]
    report(op.display, given, [t.stype for t in targets if isinstance(t, NDArray)], attrs)
    taken = [a._dense_like() if isinstance(a, BaseSparseNDArray) else a for a in arrays]
    before = [t._v if isinstance(t, NDArray) else None for t in taken]
    plain = out if not any(isinstance(t, BaseSparseNDArray) for t in targets) else None
    attrs = {k: v for k, v in attrs.items() if k not in ("forward_stype",)}
    given_out = {} if plain is None else {"out": plain}
    made = call(op, cls, [taken] if op.variadic else taken, {**attrs, **places, **given_out})
    for a, t, v in zip(arrays, taken, before, strict=True):
        if t is not a and t._v is not v:  # it was updated: moving statistics
            a._assign(t._v)
    if plain is None and out is not None:
        for target, result in zip(targets, made if isinstance(made, list) else [made], strict=True):
            _store(target, result._value())
        return out
    return made


def _begin() -> None:
    invoke.stored.append(dispatch)


beginnings.append(_begin)
