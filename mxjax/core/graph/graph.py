"""Graphs: recorded segments with symbolic inputs, the one form behind hybridize, export and Symbol.

A graph prints itself and is read back (``graph_text.py``), and is recorded anew by :meth:`Graph.replay`, for other
shapes or with other steps.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ... import errors
from ...scopes import scope, undone
from ..calls import rng
from ..calls.aval import Aval, aval, physical
from ..calls.call import Call
from ..calls.record import record
from ..calls.segment import SCALAR, Elsewhere, Mirroring, Segment, Step, Tree, Written, stretch
from ..calls.state import local, tell_calls
from ..calls.value import Dynamic, Value
from ..compile import images
from ..compile.program import needed, run_steps
from ..placement.devices import default_device, shown
from .graph_text import Text, parse, write
from .tape import Leaf
from .wholes import go_through_integers


class Graph:
    """A function of arrays as a list of steps.

    ``avals`` are the inputs (placeholders first, then the values the recording captured), ``outputs``
    the numbers of the results; a negative number names an input that is returned as it is. ``inputs`` and
    ``results`` are the names of both: an argument's, a parameter's. ``fmt`` gives
    the kinds of the dynamic scalars, which follow the arrays as 0-d inputs. ``written`` are the inputs (as
    operands) of which a backward pass makes a new gradient, as far as the captured values tell.
    """

    __slots__ = (
        "__weakref__", "_by_steps", "_lines", "_reached", "avals", "captured", "constants", "fmt", "inputs", "name",
        "outputs", "results", "scalars", "steps", "trial", "written",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        steps: Sequence[Step],
        avals: Sequence[Aval],
        outputs: Sequence[int],
        fmt: str,
        captured: Sequence[Value] = (),
        scalars: Sequence[float | int] = (),
        inputs: Sequence[str] = (),
        results: Sequence[str] = (),
    ):
        self.name = _name(name)
        self.trial: Any = None  # what its runs operator by operator have cost (cold.py)
        self.inputs = _names(inputs, "in", len(avals))
        self.results = _names(results, "output", len(outputs))
        self.steps = needed(steps, [k for k in outputs if k >= 0])
        self.avals = tuple(avals)
        self.outputs = tuple(outputs)
        self._reached: dict[tuple[bool, ...], frozenset[int] | None] = {}
        self._by_steps: dict[tuple[Any, ...], bool] = {}
        self.fmt = fmt
        self._lines: Lines | None = None
        self.captured = tuple(captured)
        self.constants: dict[
            str, Value
        ] = {}  # captured values that nobody named, by the names they got
        self.scalars = tuple(scalars)
        first = len(self.avals) - len(self.captured)
        self.written = tuple(
            -1 - i
            for i, v in enumerate(self.captured, first)
            if isinstance(v.tape, Leaf) and v.tape.req == "write"
        )

    def run(self, *arrays: Any) -> tuple[Any, ...]:
        """Run on arrays or tracers: the inputs, then the dynamic scalars."""
        n = len(self.avals)
        inputs, scalars = arrays[:n], arrays[n:]
        env = run_steps(self.steps, inputs, scalars, arranged=True)
        return tuple(images.array(env[k]) if k >= 0 else inputs[-1 - k] for k in self.outputs)

    def __repr__(self) -> str:
        return write(self)

    def onto(
        self,
        values: Sequence[Any],
        visit: Visit | None = None,
        scalars: Sequence[Any] | None = None,
    ) -> list[Value]:
        """Record the steps again, on these values (and these numbers, if others than the graph's); the results.

        ``visit(step, operands)`` records each, or something else in its place, and gives its results; `again` does so
        with the step's own call. Recorded are the calls of the segment or graph that is at hand.
        """
        scalars = self.scalars if scalars is None else scalars
        if visit is None and not local.st.seg.graph:
            return self._straight(values, scalars)
        visit = visit or again
        env: dict[int, Value] = {-1 - k: v for k, v in enumerate(values)}
        st, outer = local.st, local.st.scope
        device = None
        for v in values:  # no generator, in whose end Python would swallow a Ctrl-C
            if type(v) is Value:
                device = v.aval.device
                break
        try:
            for step in self.steps:
                if not step.args and device is not None and not st.seg.graph:
                    st.switch(
                        getattr(device, "compute", device)
                    )  # where its results meet the others
                operands = [
                    Dynamic(scalars[i - SCALAR]) if i >= SCALAR else env[i] for i in step.args
                ]
                st.scope = step.scope
                with stretch(step.mirroring):
                    made = visit(step, tuple(operands))
                results = (made,) if isinstance(made, Value) else tuple(made)
                if len(results) != len(step.avals):
                    raise errors.MXNetValueError(
                        f"{step.label} has {len(step.avals)} results, and what took its place gave {len(results)}"
                    )
                env.update(zip(range(step.first, step.first + len(results)), results, strict=True))
        except BaseException:
            st.scope = outer
            raise
        st.scope = outer
        return [env[k] for k in self.outputs]

    def _straight(self, values: Sequence[Any], scalars: Sequence[Any]) -> list[Value]:
        """`onto` where the calls themselves are recorded, and into no graph: networks that run operator by operator."""
        if self._lines is None:
            self._lines = [
                (s.call, s.args, s.scope, s.first, len(s.avals), max(s.args, default=0) >= SCALAR)  # type: ignore[misc]
                for s in self.steps
            ]
        env: dict[int, Any] = {-1 - k: v for k, v in enumerate(values)}
        st, outer = local.st, local.st.scope
        # No generator that ends early: an interrupt in one that is thrown away comes later, to somebody else.
        devices = [v.aval.device for v in values if type(v) is Value]
        device = devices[0] if devices else None
        try:
            for call, args, scope, first, count, numbers in self._lines:
                if not args and device is not None:
                    st.switch(getattr(device, "compute", device))
                st.scope = scope
                if numbers:
                    given = [Dynamic(scalars[i - SCALAR]) if i >= SCALAR else env[i] for i in args]
                else:
                    given = [env[i] for i in args]
                made = record(call, given)
                if count == 1:
                    env[first] = made[0]
                else:
                    for k, v in enumerate(made, first):
                        env[k] = v
            st.scope = outer
        except BaseException:
            st.scope = outer
            raise
        return [env[k] for k in self.outputs]

    def floats(self) -> list[bool]:
        """Of which outputs there is a derivative."""
        avals = {s.first + k: a for s in self.steps for k, a in enumerate(s.avals)}
        return [(avals[k] if k >= 0 else self.avals[-1 - k]).differentiable for k in self.outputs]

    def has_gradient_of_steps(self, wants: Sequence[bool], results: int) -> bool:
        """Whether the derivative of these first results has to be made of the steps' own.

        So where integers are wanted, or all that there is, or on the way: each call has a rule for them, and their
        composition by JAX has none.
        """
        key = tuple(wants[: len(self.avals)]), results
        found = self._by_steps.get(key)
        if found is None:
            found = self._by_steps[key] = (
                not any(key[0])
                or not any(self.floats()[:results])
                or go_through_integers(self, key[0])
            )
        return found

    def reached(self, has: tuple[bool, ...]) -> frozenset[int] | None:
        """The numbers of the inputs on which the results depend that are marked so; None where these are all."""
        if has not in self._reached:
            wanted = [k for k, is_one in zip(self.outputs, has, strict=True) if is_one]
            read = [i for s in needed(self.steps, [k for k in wanted if k >= 0]) for i in s.args]
            found = frozenset([-1 - i for i in (*read, *wanted) if i < 0])
            self._reached[has] = None if len(found) == len(self.avals) else found
        return self._reached[has]

    def replay(self, visit: Visit | None = None, avals: Sequence[Aval] | None = None) -> Graph:
        """The graph that :meth:`onto` records: for inputs of other shapes (``avals``), or with other steps.

        >>> import mxjax as mx
        >>> net = mx.gluon.nn.Dense(2, in_units=3)
        >>> net.initialize()
        >>> graph = net.graph(mx.np.ones((4, 3)))
        >>> graph.replay().steps[0].avals[0].shape
        (4, 2)
        """
        avals = self.avals if avals is None else avals
        device = avals[0].device if avals else default_device()
        with recording(self.name, device) as rec:
            given = [rec.placeholder(a, name) for a, name in zip(avals, self.inputs, strict=True)]
            return rec.finish(self.onto(given, visit), self.results)

    @classmethod
    def read(cls, text: str, device: Any = None) -> Graph:
        """The graph of a text (`repr` writes it), on a JAX device, by default the current one.

        Raises:
          ValueError: the text is not a graph's; the line is told.
        """
        where = default_device() if device is None else device
        return parse(text, lambda found, inside: _recorded(found, inside, where))  # type: ignore[no-any-return]


#: Of each step: its call, operands and scope, its first result and how many, whether numbers are among the operands.
Lines = list[tuple[Call, tuple[int, ...], str, int, int, bool]]
Visit = Callable[[Step, tuple[Any, ...]], Value | Sequence[Value]]


def again(step: Step, operands: tuple[Any, ...]) -> tuple[Value, ...]:
    """Record a step's own call on these operands."""
    return record(step.call, operands)  # type: ignore[arg-type]


def _recorded(found: Text, inside: bool, device: Any) -> Graph:
    with recording(found.name, device) as rec:
        env: dict[str, Any] = {
            name: rec.placeholder(aval(shape, dtype, device), name)
            for name, dtype, shape in found.inputs
        }
        env.update({f"${k}": Dynamic(s) for k, s in enumerate(found.scalars)})
        stretches = {
            line.mirroring: Mirroring(line.mirroring[0]) for line in found.lines if line.mirroring
        }
        st = local.st
        outer = st.scope
        try:
            for line in found.lines:
                st.scope = line.scope
                says = None if line.mirroring is None else stretches[line.mirroring]
                with stretch(says):
                    made = record(line.call, [env[name] for name in line.operands])
                if len(made) != len(line.results):
                    raise errors.MXNetValueError(
                        f"{line.call!r} has {len(made)} results, the text of {found.name!r} names {len(line.results)}"
                    )
                env.update({f"%{k}": v for k, v in zip(line.results, made, strict=True)})
        finally:
            st.scope = outer
        results = [env[name] for _, name in found.outputs]
        return (
            rec.subgraph(results)[0]
            if inside
            else rec.finish(results, [name for name, _ in found.outputs])
        )


_PLAIN = re.compile(r"[^\w./:-]+")


def _name(name: str) -> str:
    """A name without the characters that mean something in a graph's text."""
    return _PLAIN.sub("_", name) or "_"


def _names(given: Sequence[str], prefix: str, count: int) -> tuple[str, ...]:
    """So many names, each once, none of which reads like a number."""
    made: dict[str, None] = {}
    for k in range(count):
        name = _name(given[k]) if k < len(given) and given[k] else f"{prefix}{k}"
        if not any(c.isalpha() for c in name) or name in _LITERALS:
            name = f"{prefix}_{name}"
        while name in made:
            name += "_"
        made[name] = None
    return tuple(made)


_LITERALS = frozenset({"inf", "nan", "None", "True", "False"})


class Recording:
    """A graph being recorded; made by :func:`recording`."""

    def __init__(self, seg: Segment, name: str):
        self._seg = seg
        self._name = name
        self._placeholders = 0
        self._names: list[str] = []

    def placeholder(self, aval: Aval, name: str = "") -> Value:
        """A symbolic input. All are made before the first call is recorded."""
        seg = self._seg
        v = Value.__new__(Value)
        v.seg = seg
        v.idx = -1 - len(seg.slots)
        v.aval = aval
        v.tape = None
        v.shared = True
        seg.slots[v] = v.idx
        self._placeholders += 1
        self._names.append(name)
        if seg.step.n_ins < self._placeholders:
            seg.step.n_ins = self._placeholders
        return v

    def of_symbols(self, parameters: Mapping[Value, Any]) -> None:
        """Let the program's arrays be Symbols, as MXNet 1 hands them to `hybrid_forward`: ``x[0]`` is x."""
        self._seg.symbols = parameters

    def owns(self, v: Value) -> bool:
        """Whether this recording made the value."""
        return v.seg is self._seg

    def written(self) -> list[Written]:
        """The arrays from outside that were written to; the caller gives them their values back."""
        return list(self._seg.written.values())

    def number(self, v: Value) -> int:
        """A value as an operand: a result, or an input, which one from outside becomes."""
        seg = self._seg
        if v.seg is seg:
            return v.idx
        try:
            found = seg.enter(v)
        except Elsewhere:
            raise errors.DeviceError(
                f"{self._name} gives back an array on {shown(v.aval.device)} while it runs on "
                f"{shown(seg.device)}. Move it to one device with the inputs: x.to_device(device)"
            ) from None
        return (
            found if isinstance(found, int) else seg.slots[v]
        )  # a constant nobody computed with entered just now

    def finish(
        self,
        outputs: Sequence[Value],
        results: Sequence[str] = (),
        called: Mapping[Value, str] | None = None,
    ) -> Graph:
        """The graph that computes these values, which may be values from outside; to be asked for once.

        ``results`` are their names, ``called`` those of captured values.
        """
        seg = self._seg
        numbers = [self.number(v) for v in outputs]
        inputs = list(seg.slots)
        seg.slots.clear()  # values refer to their segment: it must not hold them in turn
        captured = inputs[self._placeholders :]
        called = called or {}
        graph = Graph(
            self._name,
            seg.step.path(),
            [v.aval for v in inputs],
            numbers,
            seg.step.fmt,
            captured,
            seg.scalars[: len(seg.step.fmt)],
            [*self._names, *(called.get(v, f"constant{k}") for k, v in enumerate(captured))],
            results,
        )
        graph.constants = {
            name: v
            for name, v in zip(graph.inputs[self._placeholders :], captured, strict=True)
            if v not in called
        }
        return graph

    def subgraph(self, outputs: Sequence[Value]) -> tuple[Graph, list[Value | Dynamic]]:
        """The graph that computes these values as an attribute of a call, and what it captured: values, then numbers.

        The graph holds none of these. Equal recordings give one graph, so that a call with it is one call.
        """
        graph = self.finish(outputs)
        taken: list[Value | Dynamic] = list(graph.captured)
        taken += map(Dynamic, graph.scalars)
        graph.captured = graph.scalars = graph.written = ()
        graph.constants = {}
        return intern(graph), taken


_interned: weakref.WeakValueDictionary[Any, Graph] = weakref.WeakValueDictionary()


def intern(graph: Graph) -> Graph:
    """The one graph of this structure: sub-graphs are compared by identity, as calls are."""
    steps = tuple([(s.call, s.args, s.first) for s in graph.steps])
    avals = tuple(
        [a.at(physical(a.device)) for a in graph.avals]
    )  # one graph for all names of a device
    return _interned.setdefault(
        (graph.name, avals, graph.inputs, graph.fmt, graph.outputs, steps), graph
    )


@scope
def recording(
    name: str, device: Any, inputs: Sequence[Aval] | None = None, *, tracers: bool = False
) -> Iterator[Recording]:
    """Record this thread's calls into a new graph instead of running them.

    Inside another recording the graph captures what it takes of the graph around it. ``inputs``: of a body that is
    recorded again and again, the avals of the placeholders that will be made; ``tracers``: it captures those
    of a surrounding JAX transformation as well.
    """
    st = local.st
    before = st.seg, st.taping, st.taped_around
    root = None if inputs is None else Tree.body(device, tuple(inputs))
    seg = Segment(st, device, graph=True, root=root, tracers=tracers)
    seg.symbols = before[0].symbols

    def undo() -> None:
        st.seg, st.taping, st.taped_around = before
        st.refresh()
        seg.closed = True
        seg.outs = []
        tell_calls(seg, seg.step)

    try:
        st.seg = seg
        st.taped_around = st.taping or st.taped_around
        st.taping = False
        st.refresh()
        yield Recording(seg, name)
        undo()
    except BaseException:
        undo()
        raise


@scope
def outside() -> Iterator[None]:
    """Run this thread's calls although a graph is being recorded: parameters that are initialized in a forward."""
    st = local.st
    before = st.seg
    if not before.graph:
        yield
        return

    def undo() -> None:
        st.seg = before

    with rng.suspended():
        st.seg = Segment(st, None)
        yield from undone(undo)


@scope
def apart() -> Iterator[None]:
    """This thread's calls go to segments of their own: what happens once must not be part of what comes back.

    So the first training step, in which weights and states of an optimizer are made, is the program of all later ones.
    """
    st = local.st
    before, segs = st.seg, st.segs
    if before.graph or st.own_limit is not None or segs is st.aside:
        yield
        return

    def undo() -> None:
        st.segs = segs
        if before.closed:
            st.renew(before)
        st.seg = segs[before.device] if before.closed else before

    try:
        st.segs = st.aside
        st.seg = Segment(st, None)
        yield
        undo()
    except BaseException:
        undo()
        raise


def is_recording() -> bool:
    """Whether this thread is recording a graph."""
    return local.st.seg.graph
