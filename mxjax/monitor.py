"""Statistics of what goes through a bound network, for finding where numbers go wrong."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable
from typing import Any

from . import nd
from .array import NDArray
from .base import py_str
from .display.reprs import Shown
from .errors import MXNetTypeError, MXNetValueError

__all__ = ["Monitor"]


def _rms(x: Any) -> Any:
    """The Euclidean norm over the root of the size."""
    return nd.norm(x) / math.sqrt(x.size)


class Monitor(Shown):
    """Collects a statistic of outputs, weights and gradients every `interval` batches.

    Args:
      interval: batches between two reports.
      stat_func: a function of an array that gives an array or a list of arrays; by default the norm over the root
        of the size.
      pattern: a regular expression that the names to be looked at begin with.
      sort: report in the order of the names.
      monitor_all: operators' inputs too, not only outputs.

    >>> monitor = Monitor(1, pattern=".*weight")
    """

    def __init__(
        self, interval: int, stat_func: Callable[[Any], Any] | None = None, pattern: str = ".*", sort: bool = False,
        monitor_all: bool = False,
    ):  # fmt: skip
        if interval < 1:
            raise MXNetValueError(f"interval is a number of batches, 1 or more, got {interval!r}")
        self.stat_func = stat_func or _rms
        self.interval = interval
        self.activated = False
        self.queue: list[tuple[int, str, Any]] = []
        self.step = 0
        self.exes: list[Any] = []
        self.re_prog = re.compile(pattern)
        self.sort = sort
        self.monitor_all = monitor_all

    def stat_helper(self, name: str | bytes, array: Any) -> None:
        """What executors call with each output."""
        if self.activated:
            self._note(py_str(name), array)

    def _note(self, name: str, array: Any) -> None:
        if self.re_prog.match(name):
            self.queue.append((self.step, name, self.stat_func(array)))

    def install(self, exe: Any) -> None:
        """Look at an executor, as `symbol.bind` gives it; several may be looked at."""
        exe.set_monitor_callback(self.stat_helper, self.monitor_all)
        self.exes.append(exe)

    def tic(self) -> None:
        """To be called before each forward pass: begins to collect if it is a batch's turn."""
        if self.step % self.interval == 0:
            self.queue = []
            self.activated = True
        self.step += 1

    def toc(self) -> list[tuple[int, str, str]]:
        """To be called after each batch: (number of the batch, name, statistic as text) of what was collected."""
        if not self.activated:
            return []
        for exe in self.exes:
            for name, array in (*exe.arg_dict.items(), *exe.aux_dict.items()):
                self._note(name, array)
        self.activated = False
        found = sorted(self.queue, key=lambda entry: entry[1]) if self.sort else self.queue
        self.queue = []
        return [(step, name, _text(value)) for step, name, value in found]

    def toc_print(self) -> None:
        """`toc`, written with Python's `logging` at the level INFO."""
        for step, name, text in self.toc():
            logging.info("Batch: %7d %-30s %s", step, name, text)


def _text(value: Any) -> str:
    parts = value if isinstance(value, list) else [value]
    for part in parts:
        if not isinstance(part, NDArray):
            raise MXNetTypeError(
                f"stat_func must give an array of mxjax or a list of them, got {type(part).__name__}; with NumPy use "
                "mx.nd.array(value)"
            )
    # `str` has no more digits than the dtype; a format would make a number of Python first.
    return "".join(
        str(part.asscalar() if part.shape in ((1,), ()) else part.asnumpy()) + "\t"
        for part in parts
    )
