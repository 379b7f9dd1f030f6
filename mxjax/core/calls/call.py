"""Calls: rows of the table bound to their attributes."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import convert_element_type_p

from ... import errors
from ..compile.compiler import for_platform, platform_of, wide_types
from ..graph.jaxprs import cotangent, differentiable, pullback, wanting, whole_gradients
from ..graph.tracing import keeps_loops, run_inlined, shapes_of
from ..hooks import operator_wrappers, recorded
from ..interpret.direct import Rules, directly
from ..interpret.symbolic import trace
from ..run.interrupts import shielded
from ..stats import stats
from .aval import SCALARS as SCALARS
from .aval import Aval, NamedDevice, aval
from .varying import takes_operand

Attrs = tuple[tuple[str, Any], ...]
Varying = tuple[str | int, ...]


class Row:
    """What calls are calls of: a pure function of arrays under a name; the table's rows are such.

    ``fn`` takes arrays, and attributes as keywords. ``display`` is what traces and errors call it. ``effect`` marks
    calls that must run although nobody reads them. ``operator`` is False for what the engine itself needs (slices,
    sums of gradients, updates): settings of operators leave it alone.
    ``numbers`` are the numeric arguments, names of attributes and positions among the arrays, that may come as
    operands (`bind`): ``fn`` gets them as scalars that take the dtypes of the arrays they meet, as Python numbers
    do, and the attributes that ``settled(attributes)`` makes of them besides (a length).
    ``takes_numbers``: an attribute that comes as an operand reaches ``fn`` as it is. ``ragged`` is False where operands
    keep their shapes (weights), so that no trace for all sizes is tried.
    ``wholes=False``: the gradients of integers are zeros, instead of the formula's.
    ``restates`` are attributes that say once more how long an operand is (``num_hidden``), with its position and axis;
    ``lengths`` those that say how long results are (``shape``), with the type of one: an int, or a named tuple that
    begins with it. A trace serves all of their values.
    ``loops=False``: ``fn`` has none (``lax.scan``, ``while_loop``), so it is traced without ``jit``, under which JAX
    traces each function of jnp apart, and without which it would unroll them.
    ``python`` runs a call that is Python code of the user's (`Call.python`); ``inferred`` gives the shapes and dtypes
    of its tuple of results, by the call and the avals of its operands. ``direct``: how NumPy computes a call without a
    trace of it.

    >>> scale = Row("scale", lambda x, *, by: x * by)
    >>> scale.bind((("by", 2),))
    scale(by=2)
    """

    __slots__ = (
        "calls", "differentiable", "direct", "display", "effect", "first", "fn", "inferred", "lasting", "lengths",
        "loops", "most", "name", "numbers", "operator", "python", "ragged", "restates", "settled", "takes_numbers",
        "tries", "wholes",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        fn: Callable[..., Any],
        *,
        display: str | None = None,
        effect: bool = False,
        differentiable: bool = True,
        operator: bool = False,
        numbers: Varying = (),
        settled: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        takes_numbers: bool = False,
        ragged: bool = True,
        wholes: bool = True,
        restates: dict[str, tuple[int, int]] | None = None,
        lengths: dict[str, type] | None = None,
        loops: bool = True,
        python: Callable[..., Sequence[Any]] | None = None,
        inferred: Callable[..., tuple[tuple[tuple[int, ...], Any], ...]] | None = None,
        direct: Rules | None = None,
    ):
        self.name = name
        self.fn = fn
        self.display = display or name.partition("@")[0]
        self.effect = effect
        self.differentiable = differentiable
        self.operator = operator
        self.numbers = numbers
        self.settled = settled
        self.takes_numbers = takes_numbers
        self.ragged = ragged
        self.wholes = wholes
        self.restates = restates or {}
        self.lengths = lengths or {}
        self.loops = loops
        self.python = python
        self.inferred = inferred
        self.direct = direct
        self.first: tuple[Callable[..., Any], Any, bool] | None = (
            None  # before `become`: what it was
        )
        self.lasting = False  # it stands in the table, and means the same in every process
        self.calls: dict[Any, Call] = {}
        self.tries: dict[tuple[bool, str], list[int]] = {}  # kinds of traces (symbolic.py)
        self.most = CALLS

    def __repr__(self) -> str:
        return f"<{'operator' if self.operator else 'row'} {self.name}>"

    def admits(self, numbers: Sequence[tuple[Any, Any]]) -> bool:
        """Whether the row has looked at these numbers of a call, by name or position, and refuses none of them.

        Raises:
          Postponed: it refuses one.
        """
        return False

    def advice(self, attrs: Attrs, shapes: Sequence[Any], text: str) -> tuple[str, bool]:
        """Why a call failed, which was told as ``text``, and whether that is because shapes do not fit together."""
        return text, "incompatible shapes for broadcasting" in text

    def bind(
        self,
        attrs: Attrs = (),
        constants: tuple[tuple[int, Any], ...] = (),
        varying: Varying = (),
    ) -> Call:
        """The one Call of this row with these attributes (hashable values).

        ``constants`` are (position, value) of operands that are a Python number or nothing; ``varying`` names the
        attributes, and gives the positions of numbers in the place of arrays, that come as operands, after the
        arrays. Values that compare equal but are not the same to an
        operator (``1``, ``1.0`` and ``True``; ``0.0`` and ``-0.0``) are told apart.
        """
        key = (attrs, kinds(attrs), constants, kinds(constants), varying)
        found = self.calls.get(key)
        if found is None:
            if len(self.calls) > self.most:
                self._forget()
            found = self.calls.setdefault(key, Call(self, attrs, constants, varying))
        return found

    def bound(self, attrs: Attrs, constants: tuple[tuple[int, Any], ...]) -> Call | None:
        """The call that `bind` gave for these before, if it did."""
        return self.calls.get((attrs, kinds(attrs), constants, kinds(constants), ()))

    def bind_moving(
        self,
        attrs: Attrs,
        constants: tuple[tuple[int, Any], ...],
        moving: Varying,
        varying: Varying = (),
    ) -> Call:
        """The call in which these of the attributes and constants come as operands, after those of ``varying``."""
        kept = tuple([pair for pair in attrs if pair[0] not in moving])
        if self.settled is not None and not varying:  # else they are there
            kept = (*kept, *self.settled(dict(attrs)).items())
        rest = tuple([pair for pair in constants if pair[0] not in moving])
        return self.bind(kept, rest, (*varying, *moving))

    def become(self, fn: Callable[..., Any]) -> None:
        """Compute something else from now on, dtypes of results included, or what it did at first; so do its calls.

        What was recorded and compiled with them must go (`core.drop_programs`), and graphs (`hooks.row_listeners`).
        """
        if self.first is None:
            self.first = self.fn, self.direct, self.lasting
        again = fn is self.first[0]
        self.fn = fn
        self.direct, self.lasting = self.first[1:] if again else (None, False)
        for call in self.calls.values():
            call.fn = _assembled(self, call.attrs, call.constants, call.varying)
            call.loosened = None
            for cache in (call.infer_cache, call.vjps, call.traces):
                cache.clear()

    def _forget(self) -> None:
        """Attributes that never repeat must not pile up: but for the newest, those go that are recorded nowhere."""
        used = {call for of in recorded for call in of()}
        for key, call in list(self.calls.items())[: -self.most // 4]:
            if (
                call not in used
            ):  # others would be other calls when they come again, with programs of their own
                self.calls.pop(key, None)
        self.most = max(CALLS, 2 * len(self.calls))


CALLS = 2_000  # so many of one row are remembered, and more where they are recorded
INFERRED = 256  # and so many results of inference of one call, which steps in the tree have as well


def bounded(cache: dict[Any, Any], most: int) -> None:
    """Forget the older half of what is beyond so many."""
    if len(cache) > most:
        for key in list(cache)[: most // 2]:
            cache.pop(key, None)


def _runs_python(attrs: Attrs) -> bool:
    """Whether a call of a row that may be Python is: of a loop or branch, whether a graph in it calls some."""
    graphs = [v for _, v in attrs if hasattr(v, "steps")]
    return not graphs or any(s.call.python is not None for g in graphs for s in g.steps)


def kinds(pairs: Iterable[tuple[Any, Any]]) -> tuple[Any, ...]:
    """The types of the values, also of those in tuples, and the signs of zeros."""
    return tuple([kind_of(v) for _, v in pairs])


def kind_of(v: Any) -> Any:
    """The type of a value, of those in a tuple, or the sign of a zero: what equal values differ by."""
    if type(v) is float:
        return float if v else math.copysign(1.0, v)
    if type(v) is not tuple:
        return type(v)
    inside = tuple(map(type, v))
    return tuple(map(kind_of, v)) if tuple in inside or float in inside else inside


# The rows whose calls can be read back from a graph's text, by name.
ROWS: dict[str, Row] = {}


def row(name: str, fn: Callable[..., Any], **facts: Any) -> Row:
    """Enter a row of the engine's own, with the facts that :class:`Row` takes."""
    return enter(Row(name, fn, **facts))


RowType = TypeVar("RowType", bound=Row)


def enter(made: RowType) -> RowType:
    """Enter a row under its name, which must be new."""
    if made.name in ROWS:
        raise errors.MXNetValueError(f"the operator {made.name!r} is in the table already")
    ROWS[made.name] = made
    made.lasting = True
    return made


class Call:
    """A row with its attributes; interned by :meth:`Row.bind`, so that equality is identity.

    ``attrs``, ``constants`` and ``varying`` are all there is to know: ``fn``, which takes the varying operands and
    returns an array or a tuple of arrays, is made of them. ``effect`` marks calls that must run although nobody
    reads them and that may fail at run time: their place in the user's code is kept with every record.
    ``from_host`` are the operands that ``fn`` takes from the host's memory itself, where they wait there.
    """

    __slots__ = (
        "__weakref__",
        "attrs",
        "constants",
        "effect",
        "fn",
        "forward",
        "from_host",
        "graph",
        "infer_cache",
        "loosened",
        "name",
        "op",
        "pairs",
        "places",
        "policy",
        "python",
        "row",
        "traces",
        "varying",
        "vjps",
    )

    def __init__(
        self,
        row: Row,
        attrs: Attrs = (),
        constants: tuple[tuple[int, Any], ...] = (),
        varying: Varying = (),
    ):
        self.row = row
        self.attrs = attrs
        self.constants = constants
        self.varying = varying
        self.name = row.display
        self.fn = _assembled(row, attrs, constants, varying)
        self.effect = row.effect
        self.policy: Any = None  # the rematerialisation its program must be compiled for
        self.op = row if row.operator else None
        # What runs it in the caller's thread, where it is Python code of the user's (cut.py): a function of the call,
        # its operands, the arrays that hold those, and the place.
        self.python: Callable[..., Sequence[Any]] | None = None
        if row.python is not None and _runs_python(attrs):
            self.python = row.python
        self.forward: Call | None = None  # of a backward: the call it is the derivative of
        self.from_host: frozenset[int] = frozenset()
        self.graph: Any = None  # the Graph of which this is a call, or half a call
        self.places: list[Any] | None = (
            None  # where it was recorded, of a call that will end (Tree.forget)
        )
        self.infer_cache: dict[tuple[Any, ...], tuple[tuple[Aval, ...], bool]] = {}
        self.vjps: dict[Any, Call] = {}
        self.pairs: dict[Any, Any] = {}  # its halves, by what wants gradients (graph.record_pair)
        self.traces: dict[Any, Any] = {}  # by the form of the operands (symbolic.py)
        self.loosened: tuple[Call, int, tuple[float | int, ...]] | None = None

    def __repr__(self) -> str:
        inner = ", ".join(f"{k}={v!r}" for k, v in self.attrs)
        return f"{self.name}({inner})"

    def __call__(self, *arrays: Any) -> Any:
        return self.fn(*arrays)

    def unjitted(self, *arrays: Any) -> Any:
        """The same, to be traced: without ``jit``, which is quicker (`tracing.run_inlined`)."""
        return run_inlined(self.fn, arrays, (self.forward or self).row.loops)

    def infer(
        self, avals: tuple[Any, ...], device: Any, traced: bool = False
    ) -> tuple[tuple[Aval, ...], bool]:
        """Output avals for input avals (scalars stand as their kind), and whether ``fn`` gives a tuple.

        ``traced``: by a trace for all shapes (`symbolic.py`) already the first time, since one is needed anyway.
        """
        key = (avals, device)
        found = self.infer_cache.get(key)
        if found is None:
            if type(device) is NamedDevice:
                there = tuple(a if type(a) is str else a.at(device.physical) for a in avals)
                outs, many = self.infer(there, device.physical, traced)
                found = self.infer_cache[key] = tuple(a.at(device) for a in outs), many
                return found
            stats.inferred += 1
            shapes, many = self._shapes(avals, device, traced)
            outs = tuple([aval(shape, dtype, device) for shape, dtype in shapes])
            bounded(self.infer_cache, INFERRED)
            found = self.infer_cache[key] = (outs, many)
        return found

    @shielded
    def _shapes(
        self, avals: tuple[Any, ...], device: Any, traced: bool
    ) -> tuple[tuple[tuple[tuple[int, ...], Any], ...], bool]:
        """Shapes and dtypes of the results, and whether there is a tuple of them.

        From the second shape on a trace for all shapes says them, of what can be traced so.
        """
        if self.row.inferred is not None:
            return self.row.inferred(self, avals), True
        known = directly(self, avals)
        if known is not None:
            return known.shapes(), known.many
        # The first time with its numbers in it, unless the row has looked at them: they may be refused. Then the trace
        # serves that has them as operands, if it is made without jit, whose caches would take these sizes' results for
        # those of all.
        jitted = (self.forward or self).row.loops and not keeps_loops()
        call, before, own = (self, -1, ()) if jitted else self.loose()
        fine = not own or self.row.admits(
            [pair for pair in (*self.attrs, *self.constants) if pair[0] in self.row.numbers]
        )
        traced = bool(self.infer_cache) or (
            fine and (traced or bool(call.general(avals)[0].traces))
        )
        if traced and not self.effect and self.graph is None and not operator_wrappers:
            if own:
                before = len(avals) if before < 0 else before
                avals = (
                    *avals[:before],
                    *["d" if type(n) is float else "q" for n in own],
                    *avals[before:],
                )
            found = trace(call, avals, device)
            return found.shapes(), found.many
        structs = [SCALARS[a] if type(a) is str else a.struct for a in avals]
        with wide_types(), for_platform(platform_of(device)):
            quick = not self.effect and self.graph is None
            quick = quick and (type(self) is Call or self.forward is not None)  # no graph's
            outs, many = shapes_of(self.unjitted, structs, quick=quick)
        return tuple((tuple(o.shape), np.dtype(o.dtype)) for o in outs), many

    def general(self, avals: Sequence[Any]) -> tuple[Call, tuple[int, ...]]:
        """The call that keeps the traces of this one for operands like these, and its own lengths, those above 1.

        Of it are all calls that differ in lengths (`Row.lengths`, `Row.restates`) alone; it is not for running.
        """
        told, lengths = self.row.restates, self.row.lengths
        if not told and not lengths:
            return self, ()
        own: list[int] = []

        def opened(value: Any, kind: Any) -> Any:
            if type(value) is tuple:
                return tuple([opened(v, kind) for v in value])
            length = value if kind is int else value[0] if type(value) is kind else 0
            if type(length) is not int or length < 2:
                return value
            own.append(length)
            return LENGTH if kind is int else kind(LENGTH, *value[1:])

        attrs = []
        for name, value in self.attrs:
            if name in lengths:
                attrs.append((name, opened(value, lengths[name])))
            elif name in told:
                position, axis = told[name]
                shape = getattr(avals[position], "shape", ()) if position < len(avals) else ()
                if axis >= len(shape) or shape[axis] != value:
                    attrs.append((name, value))
            else:
                attrs.append((name, value))
        if not own and len(attrs) == len(self.attrs):
            return self, ()
        return self.row.bind(tuple(attrs), self.constants, self.varying), tuple(own)

    def of_lengths(self, lengths: Iterator[Any]) -> Call:
        """The call of a general one with these lengths, which may be symbols."""

        def filled(value: Any) -> Any:
            if type(value) is tuple:
                return tuple([filled(v) for v in value])
            if isinstance(value, tuple) and value[0] is LENGTH:
                return type(value)(next(lengths), *value[1:])
            return next(lengths) if value is LENGTH else value

        attrs = tuple([(name, filled(value)) for name, value in self.attrs])
        return Call(self.row, attrs, self.constants, self.varying)

    def loose(self) -> tuple[Call, int, tuple[float | int, ...]]:
        """The call that takes its numbers as operands, after how many others they come, and these numbers.

        One program of it serves all of them. Numbers that mean structure, such as an exponent of 2, stay.
        """
        found = self.loosened
        if found is None:
            found = self.loosened = self._loose()
        return found

    def _loose(self) -> tuple[Call, int, tuple[float | int, ...]]:
        def moves(pair: tuple[Any, Any]) -> bool:
            return (
                pair[0] in self.row.numbers and takes_operand(pair[1]) and pair[1] not in _STRUCTURE
            )

        given: list[tuple[Any, Any]] = [*self.attrs, *self.constants]
        moving = [pair for pair in given if moves(pair)]
        if not moving:
            return self, -1, ()
        names = tuple([name for name, _ in moving])
        call = self.row.bind_moving(self.attrs, self.constants, names, self.varying)
        return call, -1, tuple([number for _, number in moving])

    def vjp(self, wants: tuple[bool, ...], has: tuple[bool, ...], many: bool) -> Call:
        """The call computing the gradients of the wanted inputs from (inputs, given cotangents)."""
        key = (wants, has)
        found = self.vjps.get(key)
        if found is None:
            found = self.vjps.setdefault(key, Derivative(self, wants, has, many))
        return found


class Derivative(Call):
    """The call computing the gradients of a call's wanted inputs from (inputs, given cotangents).

    ``wants`` and ``has`` tell which inputs are wanted and which results have a cotangent, ``many`` whether the call
    gives a tuple. ``forward`` names a row's call, or its derivative, for these stay; a graph is not held by its own.
    """

    __slots__ = ("has", "many", "wants")

    def __init__(self, of: Call, wants: tuple[bool, ...], has: tuple[bool, ...], many: bool):
        fn = _make_vjp(of, wants, has, many)
        super().__init__(
            Row("_backward_" + of.name, fn, operator=of.op is not None, loops=of.row.loops)
        )
        self.wants = wants
        self.has = has
        self.many = many
        if ROWS.get(of.row.name) is of.row or of.forward is not None:
            self.forward = of

    def general(self, avals: Sequence[Any]) -> tuple[Call, tuple[int, ...]]:
        forward = self.forward
        if forward is None:
            return self, ()
        found, own = forward.general(avals[: len(self.wants)])
        return (self if found is forward else found.vjp(self.wants, self.has, self.many)), own

    def of_lengths(self, lengths: Iterator[Any]) -> Call:
        assert self.forward is not None
        return Derivative(self.forward.of_lengths(lengths), self.wants, self.has, self.many)

    def _loose(self) -> tuple[Call, int, tuple[float | int, ...]]:
        if self.forward is None:
            return self, -1, ()
        forward, before, numbers = self.forward.loose()
        if not numbers:
            return self, -1, ()
        if before < 0:
            before = len(self.wants)
        wants = (*self.wants[:before], *[False] * len(numbers), *self.wants[before:])
        return forward.vjp(wants, self.has, self.many), before, numbers


LENGTH: Any = object()  # stands for a length in a general call
# Numbers that stay in a call that is run by itself: the compiler does something else with them.
_STRUCTURE = frozenset({-1, 0, 0.5, 1, 2})
place_now = (
    threading.local()
)  # .label: where the step that is traced stands; kept while there are wrappers


def dressed(call: Call, place: str | None = None) -> Callable[..., Any]:
    """The function of an operator as the settings want it, at a place that settings may name; a backward call dresses
    its forward itself."""
    if place is not None:
        place_now.label = place
    fn = call.fn
    if call.op is not None and call.forward is None:
        for dress in operator_wrappers:
            fn = dress(call, fn)
    return fn


def _make_vjp(
    call: Call, wants: tuple[bool, ...], has: tuple[bool, ...], many: bool
) -> Callable[..., Any]:
    n = len(wants)
    plain = wanting(call.fn, wants)
    operator = None if call.op is None else call
    smooth = call.row.differentiable and not getattr(call.row.fn, "constant", False)
    whole, wholes = _of_wholes(call), call.row.wholes
    del call  # a graph must not be held by its derivative

    def backward(*args: Any) -> tuple[Any, ...]:
        if not smooth:
            return tuple(
                [jnp.zeros(a.shape, a.dtype) for a, w in zip(args, wants, strict=False) if w]
            )
        if any(
            not differentiable(a.dtype)
            for a in (*[a for a, w in zip(args, wants, strict=False) if w], *args[n:])
        ):
            if not wholes:
                return tuple(
                    [jnp.zeros(a.shape, a.dtype) for a, w in zip(args, wants, strict=False) if w]
                )
            return whole_gradients(whole, args[:n], wants, has, args[n:])
        fn = dressed(operator) if operator_wrappers and operator is not None else plain
        inputs, given = args[:n], iter(args[n:])
        out, pull = pullback(fn, inputs, wants)
        outs = list(out) if many else [out]
        if wholes and any(
            h and not differentiable(o.dtype) for h, o in zip(has, outs, strict=True)
        ):
            return whole_gradients(whole, inputs, wants, has, args[n:])
        cotangents = [
            cotangent(o, next(given) if h else None) for h, o in zip(has, outs, strict=True)
        ]
        return tuple(pull(type(out)(cotangents) if many else cotangents[0]))

    return backward


def _of_wholes(call: Call) -> Callable[..., Any]:
    """A call's function where whole numbers stand as floats: it converts to none."""
    attrs = tuple([(k, "float64" if k == "dtype" and v is not None and np.dtype(v).kind in "biu" else v)
                   for k, v in call.attrs])  # fmt: skip
    return (
        call.fn
        if attrs == call.attrs
        else _assembled(call.row, attrs, call.constants, call.varying)
    )


def _assembled(
    row: Row, attrs: Attrs, constants: tuple[tuple[int, Any], ...], varying: Varying
) -> Callable[..., Any]:
    """The row's function of the varying operands alone."""
    fn = row.fn
    if not (attrs or constants or varying):
        return fn
    given = dict(attrs)

    def of_arrays(*operands: Any, at: Any = (), **numbers: Any) -> Any:
        full = list(operands)
        for position, number in sorted((*constants, *at), key=_position) if at else constants:
            full.insert(position, number)
        return fn(*full, **given, **numbers)

    if not varying:
        return of_arrays

    def of_operands(*operands: Any) -> Any:
        arrays, numbers = operands[: -len(varying)], operands[-len(varying) :]
        if row.takes_numbers:
            return of_arrays(*arrays, **{str(n): v for n, v in zip(varying, numbers, strict=True)})
        free: dict[str, Any] = {}
        fixed: dict[str, Any] = {}
        at = []
        for name, number in zip(varying, numbers, strict=True):
            if type(name) is int:
                at.append((name, _free(number)))
            elif name in row.numbers:
                free[str(name)] = _free(number)
            else:
                fixed[str(name)] = number
        run = functools.partial(of_arrays, at=at, **free)
        if fixed:
            return _with_numbers(run, arrays, tuple(fixed), tuple(fixed.values()))
        return jax.tree.map(
            lambda r: jax.lax.convert_element_type(r, r.dtype), run(*arrays)
        )  # no longer free

    return of_operands


def _position(pair: tuple[int, Any]) -> int:
    return pair[0]


def _free(v: Any) -> Any:
    """A number that takes the dtypes of the arrays it meets, as a Python number does."""
    return convert_element_type_p.bind(
        jnp.asarray(v), new_dtype=v.dtype, weak_type=True, sharding=None
    )


def _with_numbers(fn: Callable[..., Any], arrays: Any, names: tuple[str, ...], numbers: Any) -> Any:
    """The results of a function with these attributes as operands, their dtypes unchanged by them."""
    plain = {n: np.zeros((), v.dtype).item() + 1 for n, v in zip(names, numbers, strict=True)}
    wanted = jax.eval_shape(functools.partial(fn, **plain), *arrays)
    # An operand is of a definite dtype, where a Python number would take the arrays'.
    exact = jnp.result_type(
        jnp.float32, *[a for a in arrays if jnp.issubdtype(a.dtype, jnp.floating)]
    )
    found = fn(*arrays, **{n: v.astype(exact) for n, v in zip(names, numbers, strict=True)})
    return jax.tree.map(lambda r, w: r.astype(w.dtype), found, wanted)
