"""What each thread keeps: its segments and its modes."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from ..hooks import call_listeners, modes_of_thread, observers
from .known import Known
from .segment import Segment, Step


class Limits(NamedTuple):
    """How long segments may grow: at ``hard`` one runs; from ``soft`` on it runs where a loop closes."""

    hard: int
    soft: int


class Modes(NamedTuple):
    """The limits outside and inside of training, and whether each call is waited for."""

    infer: Limits = Limits(4096, 128)
    train: Limits = Limits(4096, 128)
    naive: bool = False


class Churn:
    """How a thread fares whose segments keep changing.

    ``streak`` counts segments that had to run operator by operator; when there are too many, the next
    ``direct`` calls are not gathered into segments at all. Each time that period doubles.
    """

    __slots__ = ("direct", "period", "streak")

    def __init__(self) -> None:
        self.streak = 0
        self.direct = 0
        self.period = 256

    def fell_back(self) -> bool:
        """A segment ran operator by operator; whether to stop gathering for a while."""
        self.streak += 1
        if self.streak < 16:
            return False
        self.streak = 12  # after the pause four segments in a row decide again
        self.direct = self.period
        self.period = min(2 * self.period, 8192)
        return True

    def came_back(self) -> None:
        """A segment's program was there already."""
        self.streak = max(0, self.streak - 8)
        self.period = max(256, self.period // 2)


def tell_calls(seg: Segment, step: Step) -> None:
    """Tell the observers when the calls of a segment, up to this step, were recorded."""
    times = seg.times
    seg.times = [] if seg.state.timed else None
    if times and any(times):
        for o in observers:
            on_calls = getattr(o, "on_calls", None)
            if on_calls is not None:
                on_calls(step, times, seg.state.thread)


class ThreadState:
    """The recording state of one thread.

    ``slow`` is true while a call needs more than recording (the tape, or somebody notes the operands), so
    that the hot path tests one flag.
    """

    __slots__ = (
        "__weakref__",
        "aside",
        "coming",
        "churn",
        "device",
        "differentiating",
        "known",
        "limit",
        "lock",
        "modes",
        "on_read",
        "own_limit",
        "rehearsing",
        "scope",
        "seg",
        "segs",
        "slow",
        "soft",
        "steady",
        "taped_around",
        "taping",
        "thread",
        "timed",
        "training",
    )

    def __init__(self) -> None:
        self.lock = threading.RLock()  # of whoever runs a segment of this thread
        self.taping = False
        self.taped_around = False  # the tape was on where the graph that is being recorded began
        self.training = False
        self.differentiating = False
        self.steady = False  # what runs now is a training step: it will come back
        # How many batches a loop of the library's (`Module.fit`) has left after this one; None: nobody knows.
        self.coming: int | None = None
        # Hears of a number that is asked for of a graph which this thread records, before that is an error.
        self.on_read: Callable[[Segment], None] | None = None
        self.rehearsing: Any = None  # a Rehearsal: programs are compiled and do not run
        self.thread = threading.current_thread().name
        self.timed = False  # an observer wants to know when calls were recorded
        self.own_limit: int | None = None  # engine.bulk
        self.churn = Churn()
        self.modes: Modes = modes_of_thread[0]() if modes_of_thread else Modes()
        self.timed = any(hasattr(o, "on_calls") for o in observers)
        self.refresh()
        self.scope = ""
        self.device: Any = None  # the device scope; None is the default device
        # A segment of no device takes nothing in: the first call finds its device and switches.
        self.seg: Segment = Segment(self, None)
        self.segs: dict[Any, Segment] = {}
        self.aside: dict[Any, Segment] = {}  # those of calls apart from the others (`graph.apart`)
        self.known = Known(self)
        states.add(self)

    def switch(self, device: Any) -> Segment:
        """Make the segment of this device the current one."""
        seg = self.segs.get(device)
        if seg is None or seg.closed:
            seg = self._begin(device)
        self.seg = seg
        return seg

    def put_aside(self, device: Any) -> None:
        """Begin a new segment of this device without running the one there is: it waits until its values are asked for.

        Values of it, and of deferred work that says it is patient (`hooks.Deferred`), may enter later segments.
        """
        seg = self.segs.get(device)
        if seg is not None and not seg.closed and seg.step.depth:
            seg.patient = True
            fresh = self._begin(device)
            if self.seg is seg:
                self.seg = fresh

    def _begin(self, device: Any) -> Segment:
        seg = self.segs[device] = Segment(self, device)
        seg.once = self.segs is self.aside
        return seg

    def renew(self, seg: Segment) -> None:
        """Replace a segment that ran."""
        fresh = self.segs.get(seg.device)
        if fresh is None or fresh is seg or fresh.closed:
            fresh = self._begin(seg.device)
        if self.seg is seg:
            self.seg = fresh

    def watch(self) -> None:
        """Heed who observes calls now; those who did have been told of those so far (`tell_calls`)."""
        self.timed = any(hasattr(o, "on_calls") for o in observers)
        for seg in self.open():
            seg.times = [0] * seg.step.depth if self.timed else None
        self.refresh()

    def tell_calls(self) -> None:
        """Tell the observers of the calls that wait to be run."""
        for seg in self.open():
            tell_calls(seg, seg.step)

    def open(self) -> list[Segment]:
        """The segments that this thread may record into."""
        return list({id(seg): seg for seg in (self.seg, *self.segments())}.values())

    def segments(self) -> list[Segment]:
        """Those that have a device."""
        return [*list(self.aside.values()), *list(self.segs.values())]

    def refresh(self) -> None:
        """Bring the flags of the hot path up to date after a change of modes."""
        self.slow = self.taping or bool(call_listeners)
        if self.churn.direct:
            self.limit = self.soft = 1
        elif self.own_limit is not None:
            self.limit = self.soft = self.own_limit
        else:
            training = self.taping or self.differentiating
            self.limit, self.soft = self.modes.train if training else self.modes.infer


class Rules:
    """What the settings say about every run; the engine module keeps it up to date.

    ``catch``: errors of programs wait until a result is read. ``donate``: programs may overwrite inputs that
    nobody holds. ``queue``: so many programs may run ahead of the host before it waits for the oldest.
    """

    __slots__ = ("catch", "donate", "queue")

    def __init__(self) -> None:
        self.catch = True
        self.donate = True
        self.queue = 1 << 30


rules = Rules()


class span:
    """Around a stretch of the host's time that profiles show: waiting for a batch, an exchange of gradients.

    Nobody pays for it but observers that have ``on_span``.

    >>> with span("input", "DataLoader"):
    ...     pass
    """

    __slots__ = ("args", "category", "name", "start")

    def __init__(self, category: str, name: str, **args: Any):
        self.category = category
        self.name = name
        self.args = args
        self.start = 0

    def __enter__(self) -> span:
        self.start = time.time_ns() if observers else 0
        return self

    def __exit__(self, *_: object) -> None:
        if self.start:
            stop = time.time_ns()
            for o in observers:
                on_span = getattr(o, "on_span", None)
                if on_span is not None:
                    on_span(self.category, self.name, self.start, stop, self.args)


class _Local(threading.local):
    def __init__(self) -> None:
        self.st = ThreadState()


states: weakref.WeakSet[ThreadState] = weakref.WeakSet()
local = _Local()
