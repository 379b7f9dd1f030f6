"""Segments: calls recorded and not yet run.

A segment does not store its calls. Every thread walks a shared tree whose edges are calls with their
operands: recording a call that was recorded before in the same place is one dictionary look-up, which
yields the shapes of the results as well, and at the end the node reached *is* the structure of the
segment, with the programs compiled for it.
"""

from __future__ import annotations

import functools
import math
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Set
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from ... import errors
from ...scopes import scope, undone
from ..hooks import recorded
from . import varying
from .aval import Aval, NamedDevice
from .call import Call
from .value import TRACED, Dynamic, Failure, Value

# Operands of a step: results are 0, 1, ..., inputs -1, -2, ..., dynamic scalars SCALAR, SCALAR + 1, ...
SCALAR = 1 << 30

_PACKAGE = str(Path(__file__).resolve().parents[2])
_WINGS = tuple(
    str(Path(__file__).resolve().parents[3] / wing)
    for wing in ("gluon", "kvstore", "memonger", "profiler")
)


def came_of(error: BaseException, step: Step) -> None:
    """Note whose call raised an error as it was traced; the first note stays (`failures.located` reads it)."""
    error.mxjax_step = getattr(error, "mxjax_step", step)  # type: ignore[attr-defined]


def user_site(depth: int = 2) -> tuple[str, int]:
    """File and line of the innermost frame that is not ours."""
    frame = sys._getframe(depth)
    last = frame
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_PACKAGE) and not name.startswith(_WINGS):
            return _site(name, frame.f_lineno)
        last, frame = frame, frame.f_back  # type: ignore[assignment]
    return _site(last.f_code.co_filename, last.f_lineno)


@functools.lru_cache(4096)
def _site(file: str, line: int) -> tuple[str, int]:
    """One object for each line: a loop that never comes back records it thousands of times."""
    return file, line


class Mirroring:
    """What a scope says of the calls in it: whether the backward pass computes them again.

    One object for each time that a scope is entered: calls that share it are one stretch.
    """

    __slots__ = ("again",)

    def __init__(self, again: bool):
        self.again = again


# Of the innermost scope that says something (`mx.AttrScope`, `Block.force_mirroring`).
mirroring: ContextVar[Mirroring | None] = ContextVar("mirroring", default=None)


@scope
def stretch(says: Mirroring | None) -> Iterator[None]:
    """Calls in here belong to this stretch."""
    before = mirroring.get()
    mirroring.set(says)
    yield from undone(lambda: mirroring.set(before))


# What a step holds until there is a program for it: most never have one.
NO_PROGRAMS: dict[Any, Any] = {}


class Step:
    """A node of the tree: one call in the place where it was recorded, after all that led there."""

    __slots__ = (
        "__weakref__",
        "args",
        "avals",
        "bound",
        "call",
        "cold",
        "depth",
        "effects",
        "ends",
        "first",
        "fmt",
        "host",
        "home",
        "many",
        "mirroring",
        "n_ins",
        "n_outs",
        "new_ins",
        "next",
        "numbers",
        "one",
        "opening",
        "parent",
        "programs",
        "reach",
        "scope",
        "seen",
        "site",
        "solo",
        "spent",
        "variants",
    )

    def __init__(self) -> None:
        """The root of a tree; other nodes come from :meth:`grow`."""
        self.parent: Step | None = None
        self.call: Call | None = None
        self.args: tuple[int, ...] = ()
        self.avals: tuple[Aval, ...] = ()
        self.one: Aval | None = None  # the only result's aval; None when there are several
        self.many = False
        self.opening: Call | None = None  # the call this path begins with
        self.depth = 0
        self.first = 0  # number of the first result
        self.n_outs = 0
        self.n_ins = 0
        self.new_ins: tuple[Aval, ...] = ()
        self.fmt = ""  # kinds of the dynamic scalars so far
        self.effects = False
        self.ends = False  # the segment ends here: what follows is a program of its own (halves.py)
        self.reach: float = (
            0  # the depth, or endless after an effect or at an end: what the hot path compares
        )
        self.next: dict[Any, Step] = {}
        self.programs = NO_PROGRAMS
        self.solo: Any = None  # the compiled function, where this step alone is a segment
        self.host: Any = (
            None  # how NumPy computes the segment (host_compute.py); False: it does not
        )
        self.bound: Any = None  # how NumPy computes this call (by_call.py); False: it does not
        self.cold: dict[Any, Any] | None = (
            None  # runs call by call so far, by live results (cold.py)
        )
        self.variants: dict[Any, int] | None = (
            None  # how often results and donations without a program were asked for
        )
        self.spent = 0.0  # of a step by itself: what NumPy's runs of it have cost, in microseconds
        self.home: Step | None = None  # of a step on a name: the same on the physical device
        self.seen = 0
        self.numbers: dict[Any, list[Any]] | None = (
            None  # the keys in `next` of calls with a number in them
        )
        self.scope = ""
        self.mirroring: Mirroring | None = None  # of a graph's step: what its scope says
        self.site: tuple[str, int] = ("", 0)

    def grow(
        self,
        key: tuple[Any, ...],
        avals: tuple[Any, ...],
        device: Any,
        scope: str,
        traced: bool = False,
    ) -> Step:
        """The child for a call that was never recorded here; infers the results' shapes (``traced``: `Call.infer`)."""
        outs, many = key[0].infer(avals, device, traced)
        return self._child(key, outs, many, scope, user_site())

    def _child(
        self,
        key: tuple[Any, ...],
        outs: tuple[Aval, ...],
        many: bool,
        scope: str,
        site: tuple[str, int],
    ) -> Step:
        call: Call = key[0]
        child = Step()
        child.parent = self
        child.call = call
        child.avals = outs
        child.many = many
        child.one = outs[0] if len(outs) == 1 else None
        child.depth = self.depth + 1
        child.opening = call if self.opening is None else self.opening
        child.first = self.n_outs
        child.n_outs = self.n_outs + len(outs)
        args: list[int] = []
        n_ins, fmt, new = self.n_ins, self.fmt, []
        for k in key[1:]:
            if type(k) is int:
                args.append(k)
            elif type(k) is str:
                args.append(SCALAR + len(fmt))
                fmt += k
            else:
                n_ins += 1
                args.append(-n_ins)
                new.append(k)
        child.args = tuple(args)
        child.n_ins = n_ins
        child.new_ins = tuple(new)
        child.fmt = fmt
        child.effects = self.effects or call.effect
        child.reach = math.inf if child.effects else child.depth
        child.scope = scope
        child.site = site
        Tree.nodes += 1
        if call.places is not None:
            call.places.append((weakref.ref(self), key))
        return self.next.setdefault(key, child)

    def at_home(self, device: NamedDevice) -> Step:
        """The same steps, recorded on the physical device of the name: programs are kept there, for all its names."""
        todo = []
        step = self
        while step.home is None and step.parent is not None:
            todo.append(step)
            step = step.parent
        found = step.home or Tree.root(device.physical)
        for step in reversed(todo):
            found = step.home = found._twin(step, device.physical)
        return found

    def _twin(self, named: Step, device: Any) -> Step:
        """The child for a named step's call, on this device."""
        key: list[Any] = [named.call]
        new = iter(named.new_ins)
        n_ins = self.n_ins
        for i in named.args:
            if i >= SCALAR:
                key.append(named.fmt[i - SCALAR])
            elif i == -1 - n_ins:
                n_ins += 1
                key.append(next(new).at(device))
            else:
                key.append(i)
        found = self.next.get(tuple(key))
        if found is None:
            outs = tuple(a.at(device) for a in named.avals)
            found = self._child(tuple(key), outs, named.many, named.scope, named.site)
        return found

    def prune(self, stood: Set[int] = frozenset()) -> None:
        """Forget this step, and those before it, as far as they lead nowhere; ``stood``: the ids of some to be left."""
        step = self
        while step.parent is not None and not (
            step.next or step.programs or step.host or id(step) in stood
        ):
            nexts = step.parent.next
            for key in [
                k for k, child in list(nexts.items()) if child is step
            ]:  # a number has a second one
                nexts.pop(key, None)
            Tree.nodes = max(0, Tree.nodes - 1)
            step = step.parent

    def path(self) -> list[Step]:
        """The steps from the first to this one."""
        steps: list[Step] = []
        step: Step | None = self
        while step is not None and step.call is not None:
            steps.append(step)
            step = step.parent
        steps.reverse()
        return steps

    def inputs(self) -> list[Aval]:
        """The avals of all inputs up to this step."""
        return [a for s in self.path() for a in s.new_ins]

    @property
    def label(self) -> str:
        """The name under which device events of this step appear.

        Without ``@``: XLA takes what follows for another kind of name, and leaves it out.
        """
        name = self.call.name if self.call is not None else "segment"
        return (f"{self.scope}/{name}" if self.scope else name).replace("@", "_")

    def __iter__(self) -> Iterator[Step]:
        return iter(self.path())


# Some 50 MB of steps; a step takes about a kilobyte.
LIMIT = 50_000


class Tree:
    """The shared tree of steps, one root per device; what leads to no program goes when there are too many."""

    nodes = 0
    limit = LIMIT
    generation = 0  # how often everything was forgotten: what was derived from programs is old then
    roots: dict[Any, Step] = {}

    @classmethod
    def root(cls, device: Any) -> Step:
        if cls.nodes > cls.limit:
            cls.shrink()
        root = cls.roots.get(device)
        if root is None:
            root = cls.roots.setdefault(device, Step())
        return root

    @classmethod
    def body(cls, device: Any, avals: tuple[Aval, ...]) -> Step:
        """The root of the graphs with these inputs that are recorded again and again: bodies of loops.

        So a body that comes back is looked up, and its numbers that change are inputs (`record_scalar`).
        """
        if cls.nodes > cls.limit:
            cls.shrink()
        key = "body", device, avals
        root = cls.roots.get(key)
        if root is None:
            root = Step()
            root.n_ins = len(avals)
            root = cls.roots.setdefault(key, root)
        return root

    @classmethod
    def clear(cls) -> None:
        """Forget every recorded structure and its programs (a setting that shapes programs changed)."""
        cls.roots = {}
        cls.nodes = 0
        varying.of_calls.clear()
        cls.generation += 1

    @classmethod
    def shrink(cls) -> None:
        """Forget the steps that lead to no program; it happens again when there are twice as many as stay."""
        count = 0
        for root in list(cls.roots.values()):
            steps = cls._below(root)
            for step in reversed(steps):  # those after a step come first
                for key, child in list(step.next.items()):
                    there = child if child.home is None else child.home
                    if not (child.next or there.programs):
                        step.next.pop(key, None)
                count += len(set(map(id, step.next.values())))
        cls.nodes = count
        cls.limit = max(LIMIT, 2 * count)

    @classmethod
    def calls(cls) -> set[Call]:
        """Those recorded anywhere, and those that they are the derivatives of."""
        found: set[Call] = set()
        for root in list(cls.roots.values()):
            for step in cls._below(root):
                call = step.call
                while call is not None:
                    found.add(call)
                    call = call.forward
        return found

    @staticmethod
    def _below(root: Step) -> list[Step]:
        """A step and all after it, each after its parent."""
        found, known = [root], {id(root)}
        for step in found:
            for child in list(step.next.values()):
                if id(child) not in known:  # a number has two keys
                    known.add(id(child))
                    found.append(child)
        return found

    @classmethod
    def forget(cls, places: list[Any]) -> None:
        """Forget what was recorded in these places (``Call.places``), with its programs: nobody makes the call again.

        It may run at any time, as objects end: it takes no lock.
        """
        while places:
            where, key = places.pop()
            parent = where()
            todo = [] if parent is None else [parent.next.pop(key, None)]
            while todo:
                step = todo.pop()
                if step is not None:
                    cls.nodes = max(0, cls.nodes - 1)
                    step.programs.clear()  # they hold the step: without this they would wait for the collector
                    step.solo = None
                    todo.extend(list(step.next.values()))


recorded.append(Tree.calls)


class Elsewhere(Exception):
    """An input is not where the current segment runs."""


class TracedInput(Exception):
    """An input is a tracer: the call runs at once."""


class Written:
    """An array from outside that was written to while a graph was recorded.

    ``before`` is the value that it had until then; ``taped`` is false where autograd does not see the
    write (moving statistics).
    """

    __slots__ = ("before", "handle", "taped")

    def __init__(self, handle: Any, before: Value):
        self.handle = handle
        self.before = before
        self.taped = True


def left() -> errors.MXNetError:
    """The error for a value of a graph whose recording has ended."""
    return errors.MXNetError(
        "an array was made while a hybridized block, or the body of a loop or branch (npx.foreach, while_loop, cond), "
        "was recorded, and is used outside of it, where it has no value. Return it from the block, or from the body "
        "as an output or state"
    )


class Segment:
    """The calls one thread recorded for one device since the last run.

    Only the owning thread records. Another thread may run the segment: it sets ``closed``, takes the
    results present at that moment, and the owner, which looks at ``closed`` after each call, records a
    call that came too late again in a new segment. So recording takes no lock.
    """

    __slots__ = (
        "closed", "closing", "constants", "device", "graph", "lock", "once", "outs", "ran", "scalars", "sites",
        "slots", "patient", "state", "step", "symbols", "times", "tracers", "waits", "written",
    )  # fmt: skip

    def __init__(
        self,
        state: Any,
        device: Any,
        *,
        graph: bool = False,
        root: Step | None = None,
        tracers: bool = False,
    ):
        self.state = state
        self.device = device
        self.graph = graph
        self.once = (
            graph and root is None
        )  # its calls will not come back; so too those of `graph.apart`
        self.step = (Step() if graph else Tree.root(device)) if root is None else root
        # Of a graph: whether tracers are inputs too, the arrays from outside that were written to, and the
        # constants made while it was recorded, which are not from outside.
        self.tracers = tracers
        # Of a graph whose arrays are Symbols to the program, as in MXNet 1: the parameters' values.
        self.symbols: Mapping[Value, Any] | None = None
        self.written: dict[int, Written] = {}
        self.constants: set[Value] = set()
        self.outs: list[Value] = []
        self.slots: dict[Value, int] = {}
        self.scalars: list[float | int] = []
        self.sites: dict[int, tuple[str, int]] | None = None
        self.closed = False
        self.ran = False  # of a closed one: whether its calls have run, and need not be run again
        # Put aside (`ThreadState.put_aside`): its values are inputs of later segments before it has run, and those run
        # what they wait for first.
        self.patient = False
        self.waits: list[Any] = []
        self.closing: Call | None = (
            None  # the call after which a loop begins again, once that is known
        )
        self.lock = state.lock
        # While an observer wants them: when each call was recorded (0: nobody looked), and as a negative number
        # when one was begun: the first, and those that took long.
        self.times: list[int] | None = [] if state.timed else None

    def follows(self, result: int) -> bool:
        """Whether a result has been made of an input, and not of constants alone."""
        needed, step = {result}, self.step
        while step.parent is not None:
            if not needed.isdisjoint(range(step.first, step.n_outs)):
                needed.update(step.args)
            step = step.parent
        return min(needed) < 0

    def enter(self, v: Any) -> Any:
        """The operand under which a value from outside takes part."""
        seg = v.seg
        if seg is None:
            slot = self.slots.get(v)
            if slot is not None:
                return slot
            if v.aval.device is not self.device:
                raise Elsewhere
            if type(v.arr) is Failure:
                if not self.graph:
                    raise Elsewhere  # what is made of it fails as well, and says so where it is read
                self.rollback()  # inputs of this call that entered before
                v.arr.reach_user()
            self.slots[v] = -1 - len(self.slots)
            return v.aval
        if type(v) is Dynamic:
            self.scalars.append(v.value)
            return v.kind
        if seg is self:
            return v.idx
        if self.graph and (seg is not TRACED or self.tracers):
            return self._capture(v)
        if seg is TRACED:
            raise TracedInput
        if getattr(seg, "patient", False) and v.aval.device is self.device:
            slot = self.slots.get(v)
            if slot is None:
                self.waits.append(seg)
                self.slots[v] = -1 - len(self.slots)
                return v.aval
            return slot
        raise Elsewhere

    def is_ready(self, run: Callable[[Any], None]) -> bool:
        """Run what this segment waits for; False if that failed, and so has all that was recorded of it."""
        waits, self.waits = self.waits, []
        try:
            for other in dict.fromkeys(waits):
                run(other)
        except BaseException:
            self.waits = (
                waits  # it is still to come; what is recorded from now on need not wait for it
            )
            if self.state.segs.get(self.device) is self:
                self.state.put_aside(self.device)
            raise
        failure = next((v.arr for v in self.slots if type(v.arr) is Failure), None)
        if failure is None:
            return True
        for v in self.outs:
            v.arr, v.seg = failure, None
        self.closed = self.ran = True
        self.state.renew(self)
        return False

    def _capture(self, v: Value) -> Any:
        """The operand under which a value of a graph around this one, or a pending one, is an input of this graph."""
        slot = self.slots.get(v)
        if slot is not None:
            return slot
        if v.seg is not TRACED and v.seg.graph and v.seg.closed:
            self.rollback()
            raise left()
        if v.aval.device is not self.device:
            raise Elsewhere
        self.slots[v] = -1 - len(self.slots)
        return v.aval

    def wrote(self, handle: Any, before: Value, taped: bool = True) -> None:
        """Note, while a graph is recorded, that an array gets another value."""
        known = self.written.get(id(handle))
        if known is None and before.seg is not self and before not in self.constants:
            known = self.written[id(handle)] = Written(handle, before)
        if known is not None and not taped:
            known.taped = False

    def mend(self) -> None:
        """Take out what a call has left that was broken off: operands without their step, a step without results.

        `step` says what is recorded: the calls before it are whole.
        """
        step = self.step
        while step.n_outs > len(self.outs) and step.parent is not None:
            step = step.parent
        if step is not self.step:
            self.step = step
        self.rollback()

    def rollback(self) -> None:
        """Forget inputs that entered for a call that was not recorded after all."""
        while len(self.slots) > self.step.n_ins:
            self.slots.popitem()
        del self.scalars[len(self.step.fmt) :]
        while self.times and self.times[-1] < 0:
            self.times.pop()


# A dynamic scalar is told from values by this attribute alone, so that the hot path asks one question.
Dynamic.seg = Dynamic  # type: ignore[attr-defined]
