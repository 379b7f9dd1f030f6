"""Numbers that change from step to step go to a far device several steps at once.

To a GPU the transfer of 64 bytes takes the host 60 microseconds, as long as all else that it does for a small network's
step. Numbers that stay the same are sent once; those whose next values can be told, as counts and the rates that follow
from them, go in one array for many steps, which a program on the device takes apart. What was foretold is used where it
is what the step needs, to the bit; otherwise the step's numbers are sent by themselves.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from ..calls.value import quick_put
from ..compile.compiler import wide_types
from ..stats import stats

STEPS = 64  # whose numbers go at once
PROVEN = 4  # so many steps in a row have been told before
_LONGEST = 64  # steps without another try, after several that failed
_INT64 = range(-(1 << 63), 1 << 63)

Later = Callable[[int], Sequence[np.ndarray]]


def is_far(device: Any) -> bool:
    """Whether arrays of the host have to be sent to a device."""
    return isinstance(device, jax.Device) and device.platform != "cpu"


def to(device: Any) -> Ahead | None:
    """What sends the numbers of one kind of step to a device; None where the host's arrays are at hand there."""
    return Ahead(device) if is_far(device) else None


class Again:
    """The numbers of one kind of step where the host's arrays are at hand: an array that comes again is kept as one of
    the device, which a program takes in a quarter of the time of NumPy's.

    Several threads may use it: what it remembers is a pair of the numbers' bits and their array.
    """

    __slots__ = ("_device", "_held")

    def __init__(self, device: Any):
        self._device = device
        self._held: tuple[bytes, Any] = b"", None

    def array(self, now: np.ndarray) -> Any:
        """An array with these numbers: NumPy's where they were others before."""
        bits = now.tobytes()
        held, array = self._held
        if held != bits:
            self._held = bits, None
            return now
        if array is None:
            array = quick_put(now, self._device)
            self._held = bits, array
        return array


class Ahead:
    """The numbers of one kind of step on a device: those of now, and perhaps of the next ones.

    Several threads may use it: what it remembers are pairs of the numbers' bits and their array.
    """

    __slots__ = ("_device", "_held", "_ready", "_rest", "_right", "_wait")

    def __init__(self, device: Any):
        self._device = device
        self._held: tuple[bytes, Any] = b"", None
        self._ready: list[
            tuple[bytes, Any]
        ] = []  # of the next steps, the first one last; no array: a mere guess
        self._right = 0  # guesses that came true, one after another
        self._wait = 0  # steps without a guess after the last one that did not
        self._rest = 0  # of which so many are left

    def array(self, now: np.ndarray, later: Later) -> Any:
        """An array with these numbers on the device; ``later(n)`` tells those of the next ``n`` steps, or of fewer."""
        bits = now.tobytes()
        held, array = self._held
        if held == bits and array is not None:
            return array
        array = self._foretold(bits)
        if array is None:
            array = self._sent(now, later)
        self._held = bits, array
        return array

    def _foretold(self, bits: bytes) -> Any:
        try:
            told, array = self._ready.pop()
        except IndexError:
            return None
        if told == bits:
            self._right += 1
            self._wait = 0
            return array
        self._ready, self._right = [], 0
        self._wait = self._rest = min(_LONGEST, 2 * self._wait + 1)
        return None

    def _sent(self, now: np.ndarray, later: Later) -> Any:
        stats.sent += 1
        if self._rest:
            self._rest -= 1
            return quick_put(now, self._device)
        proven = self._right >= PROVEN
        next_ones = list(later(STEPS - 1 if proven else 1))
        if not proven or len(next_ones) < STEPS - 1:
            self._ready = [(a.tobytes(), None) for a in next_ones[:1]]
            return quick_put(now, self._device)
        rows = [now, *next_ones]
        with wide_types():
            arrays = _taking_apart(self._device, now.shape, now.dtype)(
                quick_put(np.stack(rows), self._device)
            )
        self._ready = [
            (row.tobytes(), a) for row, a in zip(rows[:0:-1], arrays[:0:-1], strict=True)
        ]
        return arrays[0]


@functools.lru_cache(256)
def _taking_apart(device: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """The program that gives the rows of an array; compiled ahead, so that it runs at once while JAX traces, too."""
    struct = jax.ShapeDtypeStruct(
        (STEPS, *shape), dtype, sharding=jax.sharding.SingleDeviceSharding(device)
    )

    def rows(table: Any) -> Any:
        return tuple(table[i] for i in range(STEPS))

    return jax.jit(rows).lower(struct).compile()


def counting_on(
    kinds: str, before: Sequence[float | int], now: Sequence[float | int], n: int
) -> list[list[Any]]:
    """What numbers are in the next steps: integers (``q``) grow as they did, others stay."""
    grows = [b - a if kind == "q" else 0 for kind, a, b in zip(kinds, before, now, strict=True)]
    told = [
        [b + k * g if g else b for b, g in zip(now, grows, strict=True)] for k in range(1, n + 1)
    ]
    return [row for row in told if all(b in _INT64 for b, g in zip(row, grows, strict=True) if g)]
