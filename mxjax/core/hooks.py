"""What may hang on the core: lists that it looks at, each of a protocol; they are empty while nobody uses them.

The core reads a list where the thing happens, so that one that is empty costs a look at its length. Observers and
listeners of calls come and go through `core.observe`, `core.unobserve`, `core.note_calls` and `core.end_note`, which
also tell the threads; all others are appended to and removed from here.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from .calls.call import Call
    from .calls.segment import Step
    from .calls.state import Modes
    from .calls.value import Value
    from .graph.graph import Graph
    from .graph.tape import Node
    from .run.work import Work

T = TypeVar("T")

# ---- recording -----------------------------------------------------------------------------------------


class CallListener(Protocol):
    """Hears of every call that is recorded, in all threads (`core.note_calls`)."""

    def __call__(self, call: Call, inputs: Sequence[Any], results: Sequence[Value], /) -> None: ...


class TapeWriter(Protocol):
    """Puts a recorded call on the tape, while autograd records; the core's own tape is the only one."""

    def __call__(
        self, call: Call, inputs: Sequence[Any], results: Sequence[Value], many: bool, /
    ) -> None: ...


class Mover(Protocol):
    """Brings a value to another device; differentiable. The core's own (`run/sync.py`) is the only one."""

    def __call__(self, v: Value, device: Any, /) -> Value: ...


class Recorded(Protocol):
    """Tells which calls are recorded anywhere; the core's tree of steps is the only one that holds some."""

    def __call__(self) -> Set[Call]: ...


class TransferListener(Protocol):
    """Told of each value that was moved to another device, and of the one that it became."""

    def __call__(self, value: Value, moved: Value, /) -> None: ...


class ThreadModes(Protocol):
    """Says how segments of a new thread grow; the settings stand behind it (engine)."""

    def __call__(self) -> Modes: ...


class StepListener(Protocol):
    """Hears when a trainer's step is done."""

    def __call__(self) -> None: ...


class GraphListener(Protocol):
    """Hears of the graph that a hybridized block was recorded as, and of those values that its arrays hold.

    Gives the orders of axes in memory (`core.memory.laid_out`) that some of these arrays shall have from then on.
    """

    def __call__(
        self, graph: Graph, values: Iterable[Value], device: Any, /
    ) -> Mapping[Value, tuple[int, ...]]: ...


class RowListener(Protocol):
    """Hears that operators compute something else than before (`Row.become`): graphs of them are of no use."""

    def __call__(self) -> None: ...


call_listeners: list[CallListener] = []
row_listeners: list[RowListener] = []
tape_writers: list[TapeWriter] = []
movers: list[Mover] = []
recorded: list[Recorded] = []
transfer_listeners: list[TransferListener] = []
modes_of_thread: list[ThreadModes] = []
step_listeners: list[StepListener] = []
graph_listeners: list[GraphListener] = []


def tell_step() -> None:
    """A training step is recorded, or has run: whoever listens hears of it."""
    for hear in step_listeners:
        hear()


# ---- running ---------------------------------------------------------------------------------------------


class SegmentObserver(Protocol):
    """Sees what the engine does; the profiler is one. Times are ``time.time_ns()``.

    A class that derives from this one defines what it wants to see alone.

    An observer may also have ``on_program(program, results, start, stop)``, which it is then told instead of
    ``on_run`` where the engine ran a `Program` (a wing's own programs are no such),
    ``on_span(category, name, start, stop, args)``: a stretch of the host's time that a wing named
    (`core.span`), ``on_interpreted(step, start, stop)``: NumPy computed a call (`engine.cold`), and
    ``on_calls(step, times, thread)``: the calls that lead to this step were recorded
    by the thread of this name. ``times`` has the end of each in turn (0 where nobody looked), and before it,
    as a negative number, the begin of the first and of those that took long: the others began when the one
    before was done. It comes when a segment runs: for an operator nothing is called, so that observing it
    costs one look at the clock.
    """

    def on_run(self, name: str, steps: Sequence[Step], start: int, stop: int) -> None:
        """One program was handed to the device."""
        return

    def on_compile(self, name: str, reason: str, start: int, stop: int) -> None:
        """One program was compiled, and why."""
        return

    def on_sync(self, name: str, start: int, stop: int) -> None:
        """The host waited for a result."""
        return

    def on_python(self, name: str, start: int, stop: int) -> None:
        """The Python code of a custom operator ran."""
        return


class MemoryManager(Protocol):
    """Runs segments within a limit of memory, gives arrays up and brings them back; DTR is one.

    It is asked where a program runs and never where an operator is recorded.
    """

    def run(self, work: Work) -> None:
        """Run a segment: each of ``work.outs`` is given to ``work.fill``, or an error raised."""

    def admit(self, value: Value) -> None:
        """An array from outside has become a value; raises where there is no room for it."""

    def restore(self, value: Value) -> Any:
        """The array of a value whose ``arr`` is :class:`Evicted`."""

    def drop(self, value: Value) -> bool:
        """Give up one array because the user said so; whether it could be."""

    def saved(self, node: Node, made: Sequence[Value]) -> None:
        """The forward of ``node.saved`` was recorded and gave ``made``."""

    def retire(self, node: Node) -> None:
        """The backward of a node is recorded: release it as soon as it has run."""

    def settle(self) -> None:
        """A backward pass was recorded, and its nodes retired."""


class Deferred(Protocol):
    """Work put off that stands in ``Value.seg`` of its results, where a segment would; the kvstore gathers so.

    Listed in `deferred`, it is run by ``wait_all`` too.
    """

    graph: bool  # False: it is no part of a graph being recorded
    step: Step  # one without a program of its own, which ``read`` asks for
    # Where it has `patient = True` its values may be operands before it has run, and run then with what they are
    # operands of; others run as soon as they are.

    def run(self) -> None:
        """Make the results concrete, or failures; once."""


class Deadline(Protocol):
    """Does what the host waits for, and raises once that takes longer than an option (``timeout.read``) allows."""

    def __call__(self, work: Callable[[], T], what: str, option: str, /) -> T: ...


observers: list[SegmentObserver] = []
memory_managers: list[MemoryManager] = []  # at most one
deferred: weakref.WeakSet[Deferred] = weakref.WeakSet()
deadlines: list[Deadline] = []  # at most one


# ---- programs --------------------------------------------------------------------------------------------


class ProgramRewriter(Protocol):
    """Gives steps of a program that is about to be traced another function each, with its operands."""

    def __call__(
        self, steps: Sequence[Step], /
    ) -> Mapping[Step, tuple[Callable[..., Any], tuple[int, ...]]]: ...


class ProgramRun(Protocol):
    """What a program computes, while it is traced: results by their numbers."""

    def __call__(self, inputs: Sequence[Any], scalars: Sequence[Any], /) -> Mapping[int, Any]: ...


class ProgramRoller(Protocol):
    """Finds steps that come again and again, and gives a function that computes the live results with a loop."""

    def __call__(self, steps: Sequence[Step], live: Sequence[int], /) -> ProgramRun | None: ...


class OperatorWrapper(Protocol):
    """Puts another function in an operator's place while a program is traced: of equal shapes and dtypes."""

    def __call__(self, call: Call, fn: Callable[..., Any], /) -> Callable[..., Any]: ...


class TraceWatcher(Protocol):
    """Sees each step with its operands and results while a program is traced."""

    def __call__(self, step: Step, operands: Sequence[Any], results: Any, /) -> None: ...


class OptionContributor(Protocol):
    """Says which compiler options a program of these calls gets on a platform: ``cpu``, ``gpu`` or ``tpu``."""

    def __call__(self, platform: str, calls: Sequence[Any], /) -> dict[str, Any]: ...


class CompileListener(Protocol):
    """Hears of every compiled program, with its options."""

    def __call__(
        self, name: str, device: Any, compiled: Any, options: dict[str, Any], /
    ) -> None: ...


program_rewriters: list[ProgramRewriter] = []
program_rollers: list[ProgramRoller] = []
operator_wrappers: list[OperatorWrapper] = []
trace_watchers: list[TraceWatcher] = []
option_contributors: list[OptionContributor] = []
compile_listeners: list[CompileListener] = []
forked_children: list[
    Callable[[], None]
] = []  # called as a child begins in which no program runs (`forks.py`)


# ---- reports ---------------------------------------------------------------------------------------------


class ArrayNamer(Protocol):
    """Names (a parameter's) of values that it knows among these objects, by their ``id``."""

    def __call__(self, objects: Iterable[Any], /) -> dict[int, str]: ...


array_namers: list[ArrayNamer] = []


# ---- handed to the core, in no list ------------------------------------------------------------------------


class RematPolicy(Protocol):
    """Decides what a graph's backward pass keeps and what it computes again; memonger is one.

    One with an attribute ``whole = True`` is made for a graph as a whole, and does not fit the pieces of one that calls
    Python (`cut.py`).
    """

    def lower(self, graph: Graph) -> Callable[..., Any]:
        """A function equal to ``graph.run`` that carries the rematerialisation in it.

        It may have a method ``wanting(wants)``: the same function in the form for its derivative by those
        of its inputs.
        """

    def compiler_options(self, platform: str) -> dict[str, Any]:
        """Options without which the compiler would undo it."""

    def key(self) -> Any:
        """Hashable: graphs lowered under equal keys are the same program."""


class Collective(Protocol):
    """Combines values that live on several devices; the kvstore offers one."""

    def all_reduce(self, groups: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """For each group (one value per device) the sum, on each of its devices."""
