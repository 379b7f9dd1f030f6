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

    __slots__ = ("index", "key", "old", "priority", "results", "values")

    def __init__(self, key: Any, values: list[Value], priority: int):
        self.key = key
        self.values = values
        self.priority = priority
        self.index = 0  # in the order of the calls
        self.results: dict[Any, list[Value]] = {}  # by device; aliases of one array
        self.old: dict[Any, Value] = {}  # by device: the weight that is to be updated


class Gathered:
    """Requests that run together, when somebody needs a result of one of them.

    It stands in ``Value.seg`` of the results, as a segment does (``core.hooks.Deferred``).

    Args:
      work: called once with the requests in the order of their priorities (larger first, then in the order
        of the calls) and with `under`; gives, for each request, the resulting value by device.
      under: what must be the same for all requests.
    """

    graph = False
    closed = False
    step = core.Step()

    def __init__(
        self, work: Callable[[Sequence[Request], Any], list[dict[Any, Value]]], under: Any = None
    ):
        self._work = work
        self.under = under
        self.requests: list[Request] = []
        self.keys: set[Any] = set()
        self.bytes = 0
        self.lock = threading.RLock()
        core.hooks.deferred.add(self)

    def add(self, request: Request, shapes: dict[Any, Any]) -> dict[Any, Value]:
        """Take a request in; its pending results by device, which have these avals."""
        request.index = len(self.requests)
        self.requests.append(request)
        self.keys.add(request.key)
        pending = {device: self._pending(aval, request) for device, aval in shapes.items()}
        for device, value in pending.items():
            request.results[device] = [value]
        for v in request.values:
            self.bytes += v.aval.nbytes
        return pending

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
        """Do the work; an error goes to whoever reads a result."""
        with self.lock:
            if self.closed:
                return
            self.closed = True
            core.hooks.deferred.discard(self)
            order = sorted(self.requests, key=lambda r: -r.priority)
            try:
                for request, found in zip(order, self._work(order, self.under), strict=True):
                    request.values, request.old = [], {}
                    for device, values in request.results.items():
                        source = found[device]
                        array = source.arr if source.seg is None else core.read(source)
                        for v in values:
                            v.arr = array
                            v.shared = v.shared or source.shared
                            v.seg = None
            except BaseException as error:
                made = (v for request in order for values in request.results.values() for v in values)
                core.failed([v for v in made if v.seg is not None], error)
            finally:
                self.requests = []


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
