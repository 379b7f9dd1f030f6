"""One operator call traced once for all sizes: shapes of its results without JAX, and its numbers by NumPy.

A call is traced by its operands' ranks and dtypes. Dimensions of 0 and 1 are constants, each other one is a symbol of
its own. Where JAX cannot decide something then, equal sizes share a symbol (this is tried first where several operands
have sizes); then small ones and those that the attributes name are constants, and the others have bounds (powers of
two); then all that has not changed yet is a constant; at last the shapes are traced as they are. A form that never
served a row is not tried for its later calls. What a trace took for granted is asked of each size (`dims.Layout.true`):
that symbols are unequal, and which is larger for the sizes it was made of.
"""

from __future__ import annotations

import contextlib
import functools
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ..calls.aval import SCALARS, Aval
from ..compile.compiler import for_platform, platform_of, wide_types
from ..graph.jaxprs import bodies
from ..graph.tracing import jaxpr_of
from ..hooks import operator_wrappers
from ..run.interrupts import shielded
from ..run.price import Size, size_of
from . import dims, kept_traces
from .direct import Direct, directly
from .numpy_blocks import LARGE
from .numpy_code import Code
from .numpy_pairs import Halves, halves
from .numpy_rules import NotHere as NotHere
from .trace_bytes import Kept, packed, unpacked

if TYPE_CHECKING:
    from ..calls.call import Call

Shape = tuple[tuple[int, ...], np.dtype]

#: Traces and shapes that one call may have.
_MOST = 4096
# Where another JAX has other parameters.
_OF_ANOTHER_JAX: tuple[type[BaseException], ...] = (
    *(AttributeError, LookupError, TypeError, ValueError),
    *dims.UNDECIDED,
)
_LATEST = 16  # that are found by their operands alone
#: Sizes that are constants where two symbols do not do: axes of channels, kernels, coordinates.
_SMALL = 4
_ANY = (2, dims.LONGEST)
#: Kinds of forms of which a trace serves sizes of which more are equal, or constants.
_SHARED = frozenset({"equal", "named"})
_KEY = (2,)  # of two uint32: a random key


class Trace:
    """A call's jaxpr for shapes of one form."""

    __slots__ = (
        "_bound",
        "_closed",
        "_code",
        "_granted",
        "_layout",
        "_noted",
        "_outs",
        "_symbols",
        "_true",
        "dtypes",
        "keep",
        "lengths",
        "many",
        "size",
        "why",
    )

    def __init__(self, closed: Any, many: bool, symbols: Sequence[Any], noted: dims.Noted):
        self._closed = closed
        self._noted: Any = noted
        self._symbols: Any = symbols
        self.many = many
        outs = tuple([(tuple(a.shape), np.dtype(a.dtype)) for a in closed.out_avals])
        granted = dims.granted(noted, _reshaped(closed.jaxpr) if symbols else ())
        self._set(outs, size_of(closed.jaxpr), granted, len(symbols))

    def _set(self, outs: Sequence[Shape], size: Size, granted: dims.Granted, symbols: int) -> None:
        self._bound: Bound | None = (
            None  # the last one: a loop asks for the same sizes again and again
        )
        self._code: Code | None = None
        self._outs = outs
        self._granted: dims.Granted | None = granted
        self.size = size
        self.why = ""  # NumPy does not compute it
        self.keep: Callable[[bytes], None] | None = None  # for the next process
        self.dtypes = [dtype for _, dtype in outs]
        self._layout = layout = dims.Layout(symbols)
        self.lengths = layout.getter(tuple([shape for shape, _ in outs]))
        self._true = layout.true(granted)

    @classmethod
    def read(cls, data: bytes, bounds: Sequence[tuple[int, int]]) -> Trace:
        """A trace that was kept, whose symbols have these bounds."""
        kept = unpacked(data, bounds)
        made = cls.__new__(cls)
        made._closed, made._noted, made._symbols = kept.closed, None, bounds
        made.many = kept.many
        made._set(kept.outs, Size(*kept.size), kept.granted, len(bounds))
        if isinstance(kept.closed, str):
            made.why = kept.closed
        else:
            with contextlib.suppress(NotHere):  # anything else is raised: JAX traces again
                made._code = made._written()
        return made

    def holds(self, sizes: Sequence[int]) -> bool:
        """Whether it is right for these sizes."""
        return self._true is None or self._true(self._layout.values(sizes))

    def at(self, sizes: tuple[int, ...]) -> Bound:
        found = self._bound
        if found is None or found.sizes != sizes:
            found = self._bound = Bound(self, sizes)
        return found

    def shapes(self, sizes: Sequence[int]) -> tuple[Shape, ...]:
        return tuple(zip(self.lengths(self._layout.values(sizes)), self.dtypes, strict=True))

    def code(self) -> Code:
        """The jaxpr for NumPy; raises :class:`NotHere`."""
        if self._code is None:
            if not self.why:
                try:
                    self._code = self._written()
                except NotHere as error:
                    self.why = str(error) or "NumPy computes it otherwise"
                except _OF_ANOTHER_JAX as error:
                    self.why = f"{type(error).__name__}: {error}"
                self.finish()
            self._closed = self._noted = self._symbols = self._granted = None
            if self._code is None:
                raise NotHere(self.why)
        return self._code

    def _written(self) -> Code:
        noted = self._noted
        taken = 0 if noted is None else len(noted)
        made = Code(self._closed, len(self._symbols), tracing=self._tracing)
        if noted is not None and len(noted) > taken:
            raise NotHere("its parts take more for granted than its shapes do")
        return made

    def _tracing(self) -> Any:
        return dims.noting(self._symbols, again=self._noted)

    def finish(self) -> None:
        """Keep it for the next process, where that is wanted and it can be told in bytes."""
        keep, self.keep = self.keep, None
        if keep is None:
            return
        kept = Kept(
            self.many, tuple(self._outs), tuple(self.size), self._granted, self.why or self._closed
        )
        with contextlib.suppress(Exception):  # what is not known there
            keep(packed(kept, self._symbols, self._tracing))


def _reshaped(jaxpr: Any) -> Iterator[tuple[Any, Any]]:
    """The numbers of elements before and after each reshape: of symbols JAX does not compare them."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "reshape":
            yield math.prod(eqn.invars[0].aval.shape), math.prod(eqn.params["new_sizes"])
        for inner in bodies(eqn.params):
            yield from _reshaped(inner)


class Bound:
    """A call for operands of certain shapes.

    ``many``: whether the call's function gives a tuple. ``cost``: what NumPy does for it, once somebody has reckoned it
    (`by_call.work_of`).
    """

    __slots__ = ("_fn", "_halves", "_trace", "_values", "cost", "many", "sizes")

    def __init__(self, trace: Trace, sizes: tuple[int, ...]):
        self._trace = trace
        self._fn: Any = None
        self._values: Any = ()
        self._halves: dict[Bound, Halves | None] = {}
        self.cost: Any = None
        self.sizes = sizes
        self.many = trace.many

    def shapes(self) -> tuple[Shape, ...]:
        """Shape and dtype of each result."""
        return self._trace.shapes(self.sizes)

    @property
    def runs(self) -> bool:
        """Whether NumPy knows all of its primitives."""
        try:
            self._trace.code()
        except NotHere:
            return False
        return True

    @property
    def why(self) -> str:
        """Why NumPy does not compute it; empty where it does."""
        return "" if self.runs else self._trace.why

    @property
    def size(self) -> Size:
        """What of it a compiler works for (its numbers where lengths are symbols: none)."""
        return self._trace.size

    def work(self) -> int:
        """Roughly the picoseconds that NumPy works on its numbers, libraries aside; raises :class:`NotHere`."""
        code = self._trace.code()
        return code.work(code.layout.values(self.sizes))

    def library(self) -> int:
        """Roughly the picoseconds of its products and convolutions; raises :class:`NotHere`."""
        code = self._trace.code()
        return code.library(code.layout.values(self.sizes))

    def patches(self) -> int:
        """Roughly the picoseconds of its convolutions beside these products; raises :class:`NotHere`."""
        code = self._trace.code()
        return code.patches(code.layout.values(self.sizes))

    def steps(self) -> int:
        """How many calls of NumPy it takes, by `numpy_code` where a loop's numbers decide; raises :class:`NotHere`."""
        code = self._trace.code()
        return code.steps(code.layout.values(self.sizes))

    def after(self, call: Bound) -> Halves | None:
        """The call before, and this as its derivative on the same operands, where they have something in common."""
        if call not in self._halves:
            mine, its = self._trace.code(), call._trace.code()
            self._halves[call] = halves(
                *(its, its.layout.values(call.sizes)), *(mine, mine.layout.values(self.sizes))
            )
        return self._halves[call]

    def run(self, operands: Sequence[Any], scalars: Sequence[Any] = ()) -> list[np.ndarray]:
        """The results, computed by NumPy; none of them shares memory with an operand.

        The caller sees to `np.errstate`: to enter it takes as long as a small call.

        Args:
          operands: NumPy arrays, of the shapes that this was bound to.
          scalars: the numbers of dynamic scalars, in NumPy's dtypes (`call.SCALARS`), after them.

        Raises:
          NotHere: NumPy does not compute this call, or not these numbers.
        """
        fn = self._fn
        if fn is None:
            code = self._trace.code()
            self._values, fn = code.layout.values(self.sizes), code.fn
            if all(np.size(a) < LARGE for a in operands):  # and so are those of later runs
                fn = getattr(fn, "small", fn)
            self._fn = fn
        found = fn(self._values, *operands, *scalars)
        return [own(a, operands) for a in found]


def own(array: Any, operands: Sequence[Any]) -> np.ndarray:
    """The array, or a copy where its memory is another's or does not lie in rows."""
    if type(array) is not np.ndarray:
        return np.asarray(array)
    base = array.base
    if base is None:
        owner = array
    elif type(base) is np.ndarray and base.nbytes == array.nbytes:
        owner = base
    else:
        return np.array(array, order="C")
    for a in operands:
        if a is owner or a.base is owner:
            return np.array(array, order="C")
    return array if array.flags.carray else np.array(array, order="C")


# ---- tracing ----------------------------------------------------------------------------


def trace(call: Call, avals: Sequence[Aval | str], device: Any) -> Bound | Direct:
    """The call for operands like these; a kind (:data:`call.SCALARS`) stands for a dynamic scalar.

    Raises:
      NotHere: operators have wrappers.
      Whatever the call's function raises for these shapes.
    """
    if operator_wrappers:
        raise NotHere("operators are wrapped")
    # Who asked for the shapes asks for the numbers next, and layers of an unrolled network take turns.
    latest = call.traces.get("latest")
    if latest is None:
        latest = call.traces["latest"] = {}
    asked = (device, *avals)
    bound = latest.get(asked)
    if bound is None:
        bound = directly(call, avals) or _bound(call, avals, device)
        if len(latest) >= _LATEST:
            latest.clear()
        latest[asked] = bound
    return bound


def _bound(call: Call, avals: Sequence[Aval | str], device: Any) -> Bound:
    call, own = call.general(avals)
    platform = platform_of(device)
    sizes: list[int] = []
    form: list[Any] = [platform]
    for a in avals:
        if type(a) is str:
            form.append(a)
            continue
        form.append(a.dtype)  # type: ignore[union-attr]
        shape = a.shape  # type: ignore[union-attr]
        if shape == _KEY and a.dtype == np.uint32:  # type: ignore[union-attr]
            form.append(shape)
            continue
        pattern = []
        for n in shape:
            if n < 2:
                pattern.append(n)
            else:
                pattern.append(-1)
                sizes.append(n)
        form.append(tuple(pattern))
    sizes += own
    traces = call.traces
    key: Any = tuple(form)
    given = tuple(sizes)
    found = traces.get(key, traces)  # the first form: it serves most calls
    if found is not None and found is not traces and found.holds(given):
        return found.at(given)  # type: ignore[no-any-return]
    for kind, labels, bounds in _forms(call, key, given):
        this = (labels, bounds, key) if labels else key
        found = traces.get(this, traces)
        known = given
        if labels:
            of = {label: n for n, label in zip(given, labels, strict=True) if label >= 0}
            known = tuple(of.values())  # labels count up from their first sizes on
        if found is traces and kind in _SHARED:
            bound = _of_fewer(traces.get((kind, key), ()), given)
            if bound is not None:
                return bound
        if found is traces:
            if len(traces) > _MOST:
                traces.clear()
            # What it asks may not be known, or the shapes are wrong: then the last form raises, too.
            if bounds and _is_hopeless(call, kind):
                continue
            found = _made(call, avals, platform, key, labels, bounds, known)
            if bounds:
                _served(call, kind)[found is not None] += 1
            traces[this] = found
            if kind in _SHARED and found is not None:
                traces.setdefault((kind, key), []).append((labels, found))
        if found is not None and found.holds(known):
            return found.at(known)  # type: ignore[no-any-return]
    raise NotHere("no form of trace holds")


def _of_fewer(
    known: Iterable[tuple[tuple[int, ...], Trace]], sizes: tuple[int, ...]
) -> Bound | None:
    """A call by a trace that takes only some of these sizes for equal, or for constants, where more are.

    A layer may happen to have as many channels as pixels, or as there are images.
    """
    for labels, trace in known:
        of: dict[int, int] = {}
        if all(
            of.setdefault(label, n) == n if label >= 0 else label == -n
            for label, n in zip(labels, sizes, strict=True)
        ):
            given = tuple(of.values())  # labels count up from their first sizes on
            if trace.holds(given):
                return trace.at(given)
    return None


def _made(
    call: Call,
    avals: Sequence[Aval | str],
    platform: str,
    key: Any,
    labels: Sequence[int],
    bounds: Sequence[tuple[int, int]],
    sizes: tuple[int, ...],
) -> Trace | None:
    """The trace of another process, if it holds for these sizes, or a new one; None where JAX refuses these symbols."""
    file = kept_traces.file()
    name = exact = None
    if file is not None:
        # What one process made of other sizes need not hold here: then there is another one, of these.
        name = kept_traces.name_of(call, (key, labels, bounds))
        exact = kept_traces.name_of(call, (key, labels, bounds, sizes))
    if file is not None and name is not None and exact is not None:
        data = file.get(exact)
        if data == b"":
            return None
        with contextlib.suppress(Exception):  # whatever is in it
            if data is not None:
                return Trace.read(data, bounds)
            data = file.get(name)
            if data is not None:
                kept = Trace.read(data, bounds)
                if kept.holds(sizes):
                    return kept
                name = exact
    of = labels or range(len(sizes))
    if not bounds:
        found: Trace | None = _traced(call, avals, platform, of, bounds, sizes)
    else:
        found = _apart(_traced, call, avals, platform, of, bounds, sizes)
    if file is not None and name is not None and exact is not None:
        if found is None:
            file.put(exact, b"")
        else:
            found.keep = functools.partial(file.put, name if found.holds(sizes) else exact)
            file.waiting.append(found)
    return found


@shielded
def _apart(fn: Callable[..., Trace], *args: Any) -> Trace | None:
    """The function's result in a thread of its own, or None where it raises.

    For every symbolic dimension JAX leaves an error behind in a cycle with its frame, until the next collection: frames
    that called it would hold values that nobody else holds (README: reference counts decide).
    """
    found: list[Trace] = []

    def run() -> None:
        with contextlib.suppress(Exception):
            found.append(fn(*args))

    thread = threading.Thread(target=run, name="mxjax symbolic trace", daemon=True)
    thread.start()
    thread.join()
    return found[0] if found else None


#: So many calls of a row must fail before the form is left out, more for each that served; one is enough for its
#: derivatives where it never did.
_FAILURES, _PER_TRACE = 2, 4


def _served(call: Call, kind: str) -> list[int]:
    """How often JAX could not, and could, trace a form of this kind for the row, or for its derivatives."""
    of = call.forward or call
    return of.row.tries.setdefault((of is not call, kind), [0, 0])


def _is_hopeless(call: Call, kind: str) -> bool:
    """Whether JAX hardly ever traced a form of this kind for the row (convolutions: their sizes decide)."""
    failed, traced = _served(call, kind)
    if not traced and call.forward is not None and not failed:
        failed, traced = _served(call.forward, kind)
        failed *= _FAILURES
    return failed >= _FAILURES + _PER_TRACE * traced


#: Its kind, which symbol each size is, and the symbols' bounds.
Form = tuple[str, tuple[int, ...], tuple[tuple[int, int], ...]]


def _forms(call: Call, key: Any, sizes: tuple[int, ...]) -> Iterator[Form]:
    """The forms to try. A size that is a constant has minus itself for a symbol.

    Symbols stand in the order of their first size; a form without labels has one for each size.
    """
    if call.row.ragged and dims.available() and sizes and max(sizes) <= dims.LONGEST:
        forms: list[Form] = [("own", (), (_ANY,) * len(sizes))]
        labels = _labels(sizes, ())
        if max(labels) + 1 < len(labels):
            forms.append(("equal", labels, (_ANY,) * (max(labels) + 1)))
            if (
                sum(type(k) is tuple and -1 in k for k in key) > 1
            ):  # shapes of several operands mostly have to agree
                forms.reverse()
        yield from forms
        fixed = {*range(_SMALL + 1), *_whole_numbers(call.attrs)}
        labels = _labels(sizes, [n in fixed for n in sizes])
        large = tuple(dict.fromkeys([n for n in sizes if n not in fixed]))
        if large:
            named = _told_apart(call.traces.setdefault(("apart", key), []), sizes, fixed)
            yield "named", named, (_ANY,) * (max(named) + 1)
            yield "bounded", labels, tuple([dims.bucket(n) for n in large])
        # What was the same in all shapes so far stays a constant.
        seen = call.traces.setdefault(("seen", key), list(sizes))
        for k, n in enumerate(sizes):
            if seen[k] != n:
                seen[k] = -1
        labels = _labels(sizes, [n >= 0 for n in seen])
        if max(labels) >= 0:
            yield "seen", labels, (_ANY,) * (max(labels) + 1)
    yield "as it is", tuple([-n for n in sizes]), ()


def _labels(sizes: Sequence[int], constant: Sequence[bool]) -> tuple[int, ...]:
    """A label for each size: equal ones have the same."""
    known: dict[int, int] = {}
    made = []
    for k, n in enumerate(sizes):
        made.append(-n if constant and constant[k] else known.setdefault(n, len(known)))
    return tuple(made)


def _told_apart(known: list[Any], sizes: Sequence[int], fixed: Iterable[int]) -> tuple[int, ...]:
    """A label for each size: those that were equal in all calls so far have the same, those that were one of the
    ``fixed`` numbers in all of them are constants. ``known``: what was learned of the calls before; it is brought up to
    date.

    So sizes that are equal by chance are told apart from those that must be after a call or two.
    """
    if not known:
        known += [(n, n if n in fixed else 0) for n in sizes]
    else:
        groups: dict[Any, int] = {}
        known[:] = [
            (groups.setdefault((group, n), len(groups)), constant if n == constant else 0)
            for (group, constant), n in zip(known, sizes, strict=True)
        ]
    of: dict[int, int] = {}
    return tuple(
        [-constant if constant else of.setdefault(group, len(of)) for group, constant in known]
    )


def _whole_numbers(attrs: Any) -> Iterator[int]:
    if type(attrs) is int:
        yield attrs
    elif isinstance(attrs, tuple):
        for a in attrs:
            yield from _whole_numbers(a)


@shielded
def _traced(
    call: Call,
    avals: Sequence[Aval | str],
    platform: str,
    labels: Sequence[int],
    bounds: Sequence[tuple[int, int]],
    sizes: Sequence[int],
) -> Trace:
    symbols = dims.symbols(bounds)
    at = iter(labels)
    structs = []
    for a in avals:
        if isinstance(a, str):
            structs.append(SCALARS[a])
            continue
        shape: list[Any] = []
        for n in a.shape:
            label = next(at) if n > 1 and not (a.shape == _KEY and a.dtype == np.uint32) else -n
            shape.append(n if label < 0 or n < 2 else symbols[label])
        structs.append(jax.ShapeDtypeStruct(tuple(shape), a.dtype))
    lengths = [-label if label < 0 else symbols[label] for label in at]
    fn_of = (call.of_lengths(iter(lengths)) if lengths else call).unjitted
    many: list[bool] = []

    def fn(*operands: Any) -> Any:
        out = fn_of(*operands)
        many.append(isinstance(out, (tuple, list)))
        return out

    with dims.noting(symbols, sizes) as noted, wide_types(), for_platform(platform):
        closed = jaxpr_of(fn, structs)
    return Trace(closed, many[0], symbols, noted)
