"""What a store was asked for and has not done yet: the calls of one step become one program."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from mxjax import core
from mxjax.core import Value

# Work of these many bytes begins without waiting for more calls.
LIMIT = 256 << 20


class Request:
    """One key of a push: the values of all devices, and the results that stand for their sum."""

    __slots__ = ("index", "key", "new", "old", "priority", "results", "values")

    def __init__(self, key: Any, values: list[Value], priority: int):
        self.key = key
        self.values = values
        self.priority = priority
        self.index = 0  # in the order of the calls
        self.results: dict[Any, list[Value]] = {}  # by device; aliases of one array
        self.old: dict[Any, Value] = {}  # by device: the weight that is to be updated
        self.new: dict[
            Any, Value
        ] = {}  # by device: what the optimizer made of it, which is not asked twice


class Gathered:
    """Requests that run together, when somebody needs a result of one of them.

    It stands in ``Value.seg`` of the results, as a segment does (``core.hooks.Deferred``).

    Args:
      work: called once with the requests in the order of their priorities (larger first, then in the order
        of the calls) and with `under`; gives, for each request, the resulting value by device.
      under: what must be the same for all requests.
      again: whether work that was broken off may be done again; other processes have perhaps done their part.
    """

    graph = False
    closed = False
    step = core.Step()

    def __init__(
        self, work: Callable[[Sequence[Request], Any], list[dict[Any, Value]]], under: Any = None,
        again: bool = False,
    ):  # fmt: skip
        self._work = work
        self.under = under
        self.requests: list[Request] = []
        self.keys: set[Any] = set()
        self.bytes = 0
        self.lock = threading.RLock()
        self._again = again
        self._begun = False
        self._found: list[dict[Any, Value]] | None = (
            None  # what the work gave, until all results have it
        )
        core.hooks.deferred.add(self)

    def add(self, request: Request, shapes: dict[Any, Any]) -> dict[Any, Value]:
        """Take a request in; its pending results by device, which have these avals."""
        self.keys.add(request.key)  # first: it must not come a second time, however this ends
        request.index = len(self.requests)
        pending = {device: self._pending(aval, request) for device, aval in shapes.items()}
        for device, value in pending.items():
            request.results[device] = [value]
        for v in request.values:
            self.bytes += v.aval.nbytes
        self.requests.append(request)
        return pending

    @core.shielded
    def update(self, entry: Any, request: Request, shapes: dict[Any, Any]) -> None:
        """Take a request in and give the key's entry its result: states are counted on with the weight, or neither."""
        entry.put(self.add(request, shapes))

    def twin(self, value: Value) -> Value:
        """Another value for the same result."""
        request = self.requests[value.idx]
        for values in request.results.values():
            if value in values:
                values.append(self._pending(value.aval, request))
                return values[-1]
        raise AssertionError("no result of this gathering")

    def _pending(self, aval: Any, request: Request) -> Value:
        return core.pending(self, aval, shared=False, idx=request.index)

    def run(self) -> None:
        """Do the work; an error goes to whoever reads a result, and what comes from outside (Ctrl-C) to the caller: the
        work is done when somebody asks again, if it may be."""
        with self.lock:
            if self.closed or self._begun:
                return
            try:
                self._begun = True
                self._run()
                self._begun = False
            except BaseException:
                self._begun = False
                raise

    def _run(self) -> None:
        order = sorted(self.requests, key=lambda r: -r.priority)
        try:
            if self._found is None:
                self._found = self._work(order, self.under)
            for request, found in zip(order, self._found, strict=True):
                for device, values in request.results.items():
                    source = found[device]
                    array = source.arr if source.seg is None else core.read(source)
                    for v in values:
                        v.arr = array
                        v.shared = v.shared or source.shared
                        v.seg = None
        except BaseException as error:
            if core.is_asynchronous(error) and (self._again or self._found is not None):
                raise
            made = (v for request in order for values in request.results.values() for v in values)
            core.failed([v for v in made if v.seg is not None], error)
        self.closed = True
        core.hooks.deferred.discard(self)
        for request in order:
            request.values, request.old, request.new = [], {}, {}
        self.requests, self._found = [], None


def is_gathered(value: Value) -> bool:
    """Whether a value waits for gathered work."""
    return type(value.seg) is Gathered


def alias(value: Value) -> Value:
    """Another value for the same array, for an array of the user that needs a tape of its own.

    Nobody may overwrite the one buffer from then on.
    """
    seg = value.seg
    other = core.concrete(value.arr, shared=True, of=value.aval) if seg is None else seg.twin(value)
    value.shared = other.shared = True
    return other
