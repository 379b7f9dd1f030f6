"""The five seams at which the wings hang on the core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .graph import Graph
    from .scheduler import Work
    from .segment import Step
    from .tape import Node
    from .value import Value


class SegmentObserver(Protocol):
    """Sees what the engine does; the profiler is one. Times are ``time.time_ns()``.

    An observer may also have ``on_program(program, results, start, stop)``, which it is then told instead of
    ``on_run`` where the engine ran a `Program` (a wing's own programs are no such),
    ``on_span(category, name, start, stop, args)``: a stretch of the host's time that a wing named
    (`state.span`), and ``on_calls(step, times, thread)``: the calls that lead to this step were recorded
    by the thread of this name. ``times`` has the end of each in turn (0 where nobody looked), and before it,
    as a negative number, the begin of the first and of those that took long: the others began when the one
    before was done. It comes when a segment runs: for an operator nothing is called, so that observing it
    costs one look at the clock.
    """

    def on_run(self, name: str, steps: Sequence[Step], start: int, stop: int) -> None:
        """One program was handed to the device."""

    def on_compile(self, name: str, reason: str, start: int, stop: int) -> None:
        """One program was compiled, and why."""

    def on_sync(self, name: str, start: int, stop: int) -> None:
        """The host waited for a result."""

    def on_python(self, name: str, start: int, stop: int) -> None:
        """The Python code of a custom operator ran."""


class RematPolicy(Protocol):
    """Decides what a graph's backward pass keeps and what it computes again; memonger is one."""

    def lower(self, graph: Graph) -> Callable[..., Any]:
        """A function equal to ``graph.run`` that carries the rematerialisation in it.

        It may have a method ``wanting(wants)``: the same function in the form for its derivative by those
        of its inputs. That form may have a method ``backward(fn, own, residuals)``: the backward pass ``fn`` in a
        form of its own, where the operands ``own`` exist for it alone, and the first so many are no gradients.
        """

    def compiler_options(self, platform: str) -> dict[str, Any]:
        """Options without which the compiler would undo it."""

    def key(self) -> Any:
        """Hashable: graphs lowered under equal keys are the same program."""


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


class Collective(Protocol):
    """Combines values that live on several devices; the kvstore offers one."""

    def all_reduce(self, groups: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """For each group (one value per device) the sum, on each of its devices."""


class Deferred(Protocol):
    """Work put off that stands in ``Value.seg`` of its results, where a segment would; the kvstore gathers so.

    Listed in ``scheduler.deferred``, it is run by ``wait_all`` too.
    """

    graph: bool  # False: it is no part of a graph being recorded
    step: Step  # one without a program of its own, which ``read`` asks for

    def run(self) -> None:
        """Make the results concrete, or failures; once."""
