"""The three seams at which the wings hang on the core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .graph import Graph
    from .segment import Step


class SegmentObserver(Protocol):
    """Sees what the engine does; the profiler is one. Times are ``time.time_ns()``."""

    def on_record(self, name: str, start: int, stop: int) -> None:
        """One operator call was recorded (host time of the dispatch)."""

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
