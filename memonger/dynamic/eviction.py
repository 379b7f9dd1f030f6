"""Which arrays are alive, which of them are given up when room is needed, and what that costs.

Kirisame et al., "Dynamic Tensor Rematerialization", ICLR 2021; the score is MegEngine's form of h_DTR.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from mxjax import core, settings
from mxjax.core import Evicted, Failure, Node, Value

from .ledger import Holding, Ledger, Recipe, Swapped
from .operators import Operators, bytes_on, devices_of

_REMADE = 1.0001  # what each recomputation adds to a value's weight (MegEngine's default)
# The power of the time since the last read. With 1, as in the paper, an old value with a costly recipe
# goes before a younger one with a cheap one, although a training step reads either once more: 1.094 of
# the work at half of the peak where the root needs 1.078.
_STALE = 0.5
_NOW = 1e-7  # seconds: the least time since a value was read
LINK = 1e10  # bytes a second between the device and the host


@dataclass
class Counts:
    """What happened since the last reset."""

    evictions: int = 0
    drops: int = 0  # evictions asked for by hand
    swaps: int = 0
    recomputations: int = 0
    recomputed_seconds: float = 0.0  # estimated, as operator_seconds
    recomputed_flops: float = 0.0
    operator_seconds: float = 0.0  # all operators, recomputations included


class Room:
    """The values alive within a limit of bytes for each device."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.ledger = Ledger()
        self.operators = Operators()
        self.counts = Counts()
        self.clock = 0.0  # estimated seconds of all work so far: the same in every run of a program
        self.limit = 0
        self.minimum = 0
        self.automatic = False
        self.swapping = False
        self._version = -1
        # Values with recipes until the segment at hand has run.
        self.lent: list[Holding] | None = None
        self.holdings: dict[int, Holding] = {}
        self.evicted: dict[int, Holding] = {}
        self.running: deque[Any] = deque(maxlen=256)  # results that may not be there yet, weakly

    def holding(self, v: Value) -> Holding:
        """What is known of a value."""
        found = self.holdings.get(id(v))
        if found is not None and found.ref() is v:
            return found
        key = id(v)

        def died(ref: Any) -> None:
            h = holdings.get(key)
            if h is not None and h.ref is ref:
                holdings.pop(key, None)

        holdings = self.holdings
        made = holdings[key] = Holding(
            weakref.ref(v, died), bytes_on(v.aval), devices_of(v.aval.device), self.clock
        )
        return made

    def enter(self, v: Value) -> Holding:
        """A value takes part: its bytes count from now on."""
        h = self.holding(v)
        arr = v.arr
        if type(arr) is np.ndarray:
            for d in h.devices:
                self.make_room(d, h.nbytes)  # where that is not enough, the program will say so
            with jax.enable_x64(True):
                arr = v.arr = core.place(arr, v.aval.device)
        if isinstance(arr, jax.Array):
            self.ledger.add(arr, h.devices, h.nbytes)
        return h

    def made(self, v: Value, array: Any, origin: Any) -> Holding:
        """A value has just been computed."""
        h = self.holding(v)
        self.ledger.add(array, h.devices, h.nbytes)
        h.last = self.clock
        if origin is not None:
            h.origin = origin
        return h

    def attempt(self, run: Any, device: Any) -> Any:
        """Run a program; when the device has no room left, evict and try again."""
        while True:
            try:
                return run()
            except Exception as error:
                text = str(error)
                if "RESOURCE_EXHAUSTED" not in text and "out of memory" not in text.lower():
                    raise
                found = self._best(devices_of(device)[0]) if self.automatic else None
                if found is None:
                    raise
            self.wait()
            self.evict(*found)

    def evicted_values(self) -> list[Value]:
        self._bury()
        return [v for h in list(self.evicted.values()) if (v := h.ref()) is not None]

    def _bury(self) -> None:
        """Forget evicted values that nobody holds any more."""
        for key, h in list(self.evicted.items()):
            if h.ref() is None:
                self.unlink(key, h)

    def pinned(self, values: Iterable[Any]) -> Pins:
        """While a call is at hand that needs these values."""
        return Pins([self.holding(v) for v in values])

    def make_room(self, device: Any, need: int) -> bool:
        """Evict until so many bytes more stay within the limit; whether they do."""
        ledger = self.ledger
        ledger.drain()
        if self.limit and self.automatic:
            live = ledger.live.get(device, 0)
            if live + ledger.late.get(device, 0) + need > self.limit:
                self.wait()
            while ledger.live.get(device, 0) + need > self.limit:
                found = self._best(device)
                if found is None:
                    return False
                self.evict(*found)
                ledger.drain()
                ledger.late.clear()
        ledger.note(device, need)
        return True

    def wait(self) -> None:
        """Until nothing runs any more: an array in use is not freed when it is let go."""
        for ref in self.running:
            array = ref()
            if array is not None and not array.is_deleted():
                array.block_until_ready()
        self.running.clear()
        self.ledger.late.clear()

    def evictable(self, h: Holding) -> Value | None:
        """A value, if it may be given up at all."""
        v = h.ref()
        if v is None or v.seg is not None or v.shared or not isinstance(v.arr, jax.Array):
            return None
        return None if h.pins or v.arr.is_deleted() else v

    def _candidates(self, device: Any) -> list[tuple[Holding, Value, Recipe | None]]:
        found = []
        swapping = self._may_swap(device)
        for h in list(self.holdings.values()):
            if h.nbytes < self.minimum or device not in h.devices:
                continue
            v = self.evictable(h)
            recipe = self.recipe(h, v) if v is not None else None
            if v is not None and (recipe is not None or swapping):
                found.append((h, v, recipe))
        return found

    def _best(self, device: Any) -> tuple[Holding, Value, Any] | None:
        """The value that costs least to give up for the bytes it frees."""
        best, least = None, float("inf")
        swapping = self._may_swap(device)
        self._bury()
        for h, v, recipe in self._candidates(device):
            how, score = recipe, float("inf")
            if recipe is not None:
                self._price(h, recipe)
                score = h.weight()  # seconds
            if swapping and 2 * h.nbytes / LINK < score:
                how, score = None, 2 * h.nbytes / LINK
            stale = float("inf") if h.spent else max(self.clock - h.last, _NOW)
            score = score * _REMADE**h.remakes / (h.nbytes * stale**_STALE)
            if score < least:
                best, least = (h, v, how), score
        return best

    def _may_swap(self, device: Any) -> bool:
        if self.swapping and core.platform_of(device) == "cpu":
            self.swapping = False
            warnings.warn(
                "memory.dtr_swap has no effect on CPU, whose memory is the host's: arrays are only "
                "dropped and computed again",
                stacklevel=2,
            )
        return self.swapping

    def _price(self, h: Holding, recipe: Recipe) -> None:
        if h.cost is None:
            op = self.operators.of(recipe.call, recipe.inputs, recipe.device)
            h.cost = op.cost[0]
            h.sources = [
                self.holding(u)
                for u, used in zip(recipe.inputs, op.used, strict=True)
                if used and type(u) is Value
            ]

    def recipe(self, h: Holding, v: Value) -> Recipe | None:
        """How a value can be made again; ``None`` if it cannot."""
        if h.recipe is not None:
            return h.recipe
        node: Any = v.tape
        out = v.out if node is not None else 0
        if type(node) is not Node:
            if node is not None or h.node is None:
                return None
            node, out = h.node(), h.at
            if node is None:
                return None
        inputs, call = node.inputs, node.call
        if inputs is None or call is None or node.pull is not None or call.effect:
            return None
        for u in inputs:
            if type(u) is Value and (u.seg is not None or type(u.arr) is Failure):
                return None
        if node.saved is not None:
            call = node.saved[0].forward
        return Recipe(call, inputs, out, core.physical(v.aval.device))

    def evict(self, h: Holding, v: Value, recipe: Recipe | None) -> None:
        """Give up an array: with a recipe it is dropped, without one it moves to the host."""
        how: Any = recipe
        if recipe is None:
            how = Swapped(_to_host(v))
            self.counts.swaps += 1
        else:
            self.counts.evictions += 1
        self.give_up(h, v, how)

    def give_up(self, h: Holding, v: Value, how: Any) -> None:
        """Put the note of how it comes back in the array's place."""
        if type(how) is Recipe:
            self._price(h, how)
            for s in h.sources or ():
                s.users.add(h)
        if id(v) in self.evicted:  # of a value that lived where this one lives now
            self.unlink(id(v), self.evicted[id(v)])
        self.evicted[id(v)] = h
        h.evicted = True
        v.arr = Evicted(how, self)

    def unlink(self, key: int, h: Holding) -> None:
        """A value is evicted no more."""
        if self.evicted.get(key) is h:
            del self.evicted[key]
        h.evicted = False
        for s in h.sources or ():
            s.users.discard(h)

    def floor(self, device: Any, ins: Sequence[Value]) -> int:
        """Bytes that cannot be given up, besides those of the inputs."""
        self.ledger.drain()
        free = {id(h): h.nbytes for h, _, _ in self._candidates(device)}
        for v in ins:
            h = self.holding(v)
            if isinstance(v.arr, jax.Array) and device in h.devices:
                free[id(h)] = h.nbytes
        return self.ledger.live.get(device, 0) - sum(free.values())

    def configure(self) -> None:
        """Read the settings again where they changed."""
        self.limit = settings.get("memory.dtr_eviction_threshold")
        self.minimum = settings.get("memory.dtr_evictee_minimum_size")


class Pins:
    """Holdings that must stay while a call is at hand."""

    __slots__ = ("_holdings",)

    def __init__(self, holdings: list[Holding]):
        self._holdings = holdings

    def __enter__(self) -> Pins:
        for h in self._holdings:
            h.pins += 1
        return self

    def __exit__(self, *exc: object) -> None:
        for h in self._holdings:
            h.pins -= 1
        self._holdings = []


def _to_host(v: Value) -> Any:
    """A copy of a value's array in the host's pinned memory."""
    sharding = v.aval.sharding.with_memory_kind("pinned_host")
    array = jax.device_put(v.arr, sharding)
    array.block_until_ready()
    return array
