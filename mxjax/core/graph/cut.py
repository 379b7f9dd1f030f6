"""Graphs that call Python, cut at those calls: what lies between runs as programs, the Python in the caller's thread.

A program cannot run the user's code: it would run while it is traced alone, or in a callback, which the compiler may
leave out, repeat or move, and which waits for the device that it wants to compute on. So a graph with such calls
(`Call.python`) is run in pieces, and on the tape there is a node for each piece and one for each call of Python.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...scopes import scope
from ..calls.record import record
from ..calls.segment import SCALAR, Segment, Step, Tree, stretch
from ..calls.state import local
from ..calls.value import TRACED, Dynamic, Value
from ..run.cold import goes_by_call, hold
from .graph import Graph, Visit, again, recording
from .pairs import GraphCall, record_pair, wants_of


class Places:
    """What belongs to the places in a graph where it calls Python, such as the operator with its counters.

    An object is lent to one call at a time, until that call's gradient was computed or is given up: a call that comes
    before gets another one, which is kept as well. With ``alone`` there is one for each place whatever comes.
    """

    __slots__ = ("_alone", "_lent", "_lock", "_within")

    def __init__(self, alone: bool = False):
        self._alone = alone
        # Of each place the objects in the order in which they were made, with who has each now.
        self._lent: dict[Any, list[list[Any]]] = {}
        self._lock = threading.Lock()
        self._within: dict[Any, Places] = {}

    def within(self, key: Any) -> Places:
        """The places of a graph at a place of this one: of a branch."""
        return self._within.setdefault(key, Places(self._alone))

    def lend(self, key: Any, make: Callable[[], Any]) -> Loan:
        """The object of this place; the first free one, or a new one."""
        lent = self._lent.setdefault(key, [])
        with self._lock:
            for one in lent:
                if self._alone or one[1]() is None:
                    return Loan(one)
        one = [make(), None]  # Python of the user's: it may take long, or fail
        loan = Loan(one)
        lent.append(one)
        return loan


class Loan:
    """An object of a place, which is free again when this ends, or by `end`.

    ``entry``: the object, and the loan that it has now.
    """

    __slots__ = ("__weakref__", "_entry", "what")

    def __init__(self, entry: list[Any]):
        self._entry = entry
        self.what = entry[0]
        entry[1] = weakref.ref(self)

    def end(self) -> None:
        """Give it back although somebody, such as a traceback, holds this loan."""
        self._entry[1] = _nobody


def _nobody() -> None:
    return None


def calls_python(graph: Graph) -> bool:
    """Whether the graph calls Python, in a loop or branch in it as well."""
    return any(s.call.python is not None for s in graph.steps)  # type: ignore[union-attr]


class Cut:
    """A graph that calls Python, as what it is run in: pieces, and the steps between them.

    >>> import mxjax as mx
    >>> net = mx.gluon.nn.Dense(2, in_units=3)
    >>> net.initialize()
    >>> len(Cut(net.graph(mx.np.ones((4, 3)))).parts)
    1
    """

    __slots__ = ("__weakref__", "_inputs", "_outputs", "parts", "places")

    def __init__(self, graph: Graph, policy: Any = None):
        self._inputs = len(graph.avals)
        self._outputs = graph.outputs
        self.places = Places()
        programs: list[Any] = []  # where calls of the pieces are recorded: they end with this
        weakref.finalize(self, Tree.forget, programs).atexit = False
        # What each part is the last to take need not be kept beyond it.
        self.parts: list[tuple[Step | Piece, tuple[int, ...]]] = []
        runs: list[list[Step]] = [[]]
        for step in graph.steps:
            if step.call.python is None:  # type: ignore[union-attr]
                runs[-1].append(step)
            else:
                runs += [[step], []]
        runs = [steps for steps in runs if steps]
        wanted = set(graph.outputs)
        for steps in reversed(runs):
            taken = {i for s in steps for i in s.args}
            made = {s.first + k for s in steps for k in range(len(s.avals))}
            last = tuple(i for i in taken if i not in wanted and i not in made)
            if steps[0].call.python is None:  # type: ignore[union-attr]
                piece = Piece(
                    graph, steps, [k for k in sorted(made) if k in wanted], policy, programs
                )
                self.parts.append((piece, last))
            else:
                self.parts.append((steps[0], last))
            wanted |= taken
        self.parts.reverse()

    def __call__(
        self,
        values: Sequence[Any],
        handles: Sequence[Any] = (),
        visit: Visit | None = None,
        places: Places | None = None,
    ) -> list[Value]:
        """The results for these values and numbers.

        ``handles`` are the arrays that hold them, where there are such: Python may write to those. ``visit`` records
        the steps of the pieces one by one (`Graph.onto`). ``places`` has what belongs to the calls of Python, where
        that is not this graph's own.
        """
        n = self._inputs
        env: dict[int, Any] = {-1 - k: v for k, v in enumerate(values[:n])}
        env.update(enumerate(values[n:], SCALAR))
        held = {-1 - k: h for k, h in enumerate(handles) if h is not None}
        places = self.places if places is None else places
        st = local.st
        outer = st.scope
        try:
            for at, (part, last) in enumerate(self.parts):
                if type(part) is Piece:
                    part(env, visit)
                else:
                    step: Step = part  # type: ignore[assignment]
                    st.scope = step.scope
                    operands = [env[i] for i in step.args]
                    arrays = [held.get(i) for i in step.args]
                    made = step.call.python(step.call, operands, arrays, places, at)  # type: ignore[union-attr, misc]
                    del operands
                    env.update(enumerate(made, step.first))
                    for i in step.args:
                        if i in held:  # the Python may have written to it
                            env[i] = held[i]._value()
                for i in last:
                    env.pop(i, None)
            st.scope = outer
        except BaseException:
            st.scope = outer
            raise
        return [env[k] for k in self._outputs]


class Piece:
    """Steps of a graph one after the other, as one call with a forward and a backward half."""

    __slots__ = ("args", "call", "fresh", "outs", "steps")

    def __init__(
        self, graph: Graph, steps: list[Step], outs: list[int], policy: Any, programs: list[Any]
    ):
        self.steps = steps
        self.outs = outs
        made = {s.first + k: a for s in steps for k, a in enumerate(s.avals)}
        self.call: GraphCall | None = None
        if len(steps) == 1:
            return  # everybody shares the programs of the operator itself
        self.fresh = policy is None
        avals = {-1 - k: a for k, a in enumerate(graph.avals)}
        avals |= {s.first + k: a for s in graph.steps for k, a in enumerate(s.avals)}
        arrays = [
            i
            for i in dict.fromkeys(i for s in steps for i in s.args)
            if i < SCALAR and i not in made
        ]
        numbers: list[int] = []
        st = local.st
        outer = st.scope
        with recording(
            graph.name, avals[arrays[0]].device if arrays else steps[0].avals[0].device
        ) as rec:
            env: dict[int, Any] = {i: rec.placeholder(avals[i]) for i in arrays}
            for step in steps:
                numbers += [i for i in step.args if i >= SCALAR]
                operands = [
                    _NUMBERS[graph.fmt[i - SCALAR]] if i >= SCALAR else env[i] for i in step.args
                ]
                st.scope = step.scope
                with stretch(step.mirroring):
                    env.update(enumerate(again(step, tuple(operands)), step.first))
            st.scope = outer
            found = rec.finish([env[k] for k in outs])
        self.args = (*arrays, *numbers)
        self.call = GraphCall(found, policy)
        self.call.places = programs

    def __call__(self, env: dict[int, Any], visit: Visit | None) -> None:
        """Record the steps, taking operands out of ``env`` and putting the results there."""
        call = self.call
        if call is None or visit is not None:
            self._by_steps(env, visit or again)
            return
        values = [env[i] for i in self.args]
        st = local.st
        wants = wants_of(values) if st.taping else ()
        graph = call.graph
        by_steps = tried = (
            self.fresh and not st.seg.graph and goes_by_call(graph, st.seg, graph.avals[0].device)
        )
        self.fresh = by_steps
        if st.taping and any([v.tape is not None for v in values]):
            by_steps = by_steps or graph.has_gradient_of_steps(wants, len(self.outs))
        if by_steps:
            self._by_steps(env, again)
            if tried:
                hold(st.seg.step, call.graph)
        elif any(wants):
            env.update(zip(self.outs, record_pair(call, values, wants), strict=True))
        else:
            env.update(zip(self.outs, record(call, values), strict=True))

    def _by_steps(self, env: dict[int, Any], visit: Visit) -> None:
        made: dict[int, Any] = {}
        st = local.st
        for step in self.steps:
            operands = [made[i] if i in made else env[i] for i in step.args]
            st.scope = step.scope
            with stretch(step.mirroring):
                results = visit(step, tuple(operands))
            made.update(
                enumerate((results,) if isinstance(results, Value) else results, step.first)
            )
        env.update((k, made[k]) for k in self.outs)


_NUMBERS = {"d": Dynamic(0.0), "q": Dynamic(0)}  # those of a call come with it

_cuts: weakref.WeakKeyDictionary[Graph, Cut] = weakref.WeakKeyDictionary()


def cut_of(graph: Graph) -> Cut:
    """The one cut of a graph that is an attribute of a call: a loop's body, a branch."""
    found = _cuts.get(graph)
    if found is None:
        found = _cuts.setdefault(graph, Cut(graph))
    return found


@scope
def by_itself() -> Iterator[None]:
    """Around Python that a program runs, or is traced with, maybe in the midst of this thread's segments: its own calls
    go to others."""
    st = local.st
    before = st.seg, st.segs

    def undo() -> None:
        st.seg, st.segs = before

    try:
        st.seg, st.segs = Segment(st, None), {}
        yield
        undo()
    except BaseException:
        undo()
        raise


def is_traced(values: Sequence[Any]) -> bool:
    """Whether one of these values is a tracer of a JAX transformation, in which a graph is one function."""
    return any(type(v) is Value and v.seg is TRACED for v in values)
