"""Where a loop over a loader is: how it is noted, and how another process finds the place again.

An epoch is known by the state in which NumPy's generator was when it began, because its order follows from that, and
by the number of batches that the loop was given.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mxjax.errors import MALFORMED, FormatError

from .sampler import BatchSampler

__all__ = ["Epoch", "checked", "numpy_restored", "numpy_state", "position_of", "resumed"]


def numpy_state() -> dict[str, Any]:
    """The state of NumPy's global generator."""
    kind, keys, position, has_gauss, gauss = np.random.get_state()
    return {
        "kind": kind,
        "keys": np.array(keys),
        "position": position,
        "has_gauss": has_gauss,
        "gauss": gauss,
    }


def checked(state: dict[str, Any]) -> dict[str, Any]:
    """A state of NumPy's generator that its library takes.

    Raises:
      FormatError: `state` is none of it.
    """
    try:
        keys, position = np.asarray(state["keys"]), int(state["position"])
        if (
            state["kind"] != "MT19937"
            or keys.shape != (624,)
            or keys.dtype.kind != "u"
            or not 0 <= position <= 624
        ):
            raise ValueError("MT19937 with 624 numbers is expected")
        more = {"has_gauss": int(state["has_gauss"]) & 1, "gauss": float(state["gauss"])}
        return {"kind": "MT19937", "keys": keys.astype(np.uint32), "position": position, **more}
    except MALFORMED as error:
        raise FormatError(f"this is no state of NumPy's generator: {error!r}") from None


def numpy_restored(state: dict[str, Any]) -> None:
    """Set NumPy's global generator to a checked state."""
    np.random.set_state(
        tuple(state[name] for name in ("kind", "keys", "position", "has_gauss", "gauss"))
    )


class Epoch:
    """One epoch of a loader: how it began, its lists of indices, and how many batches were given.

    Args:
      sampler: gives the lists; its order is drawn here.
      seed: gives the seed of the epoch's batches, where workers make them.
      saved: an epoch to go on with, as `position_of` noted it.
    """

    def __init__(self, sampler: Any, seed: Callable[[], int] | None, saved: dict[str, Any] | None):
        self.given = 0 if saved is None else saved["given"]
        if saved is None:
            self.begin = numpy_state()
            self.left = _left_in(sampler)
            self.seed = 0 if seed is None else seed()
            self.indices = self._skipping(iter(sampler))
            return
        self.begin, self.left, self.seed = saved["begin"], saved["left"], saved["seed"]
        _leave_in(sampler, self.left)
        now = numpy_state()
        numpy_restored(self.begin)
        try:
            self.indices = self._skipping(iter(sampler))
        finally:
            numpy_restored(now)

    def _skipping(self, lists: Iterator[Any]) -> Iterator[Any]:
        """The lists that are left. One more than were given is asked for at once, so that the order is drawn now."""
        first = list(itertools.islice(lists, self.given + 1))
        return itertools.chain(first[self.given :], lists)


def _left_in(sampler: Any) -> list[int]:
    """The samples that `rollover` has kept for the next epoch."""
    return [int(index) for index in sampler._prev] if isinstance(sampler, BatchSampler) else []


def _leave_in(sampler: Any, left: list[int]) -> None:
    if isinstance(sampler, BatchSampler):
        sampler._prev = list(left)


def position_of(
    epoch: Epoch | None, sampler: Any, last_state: bytes, repeats: int
) -> dict[str, Any]:
    """What `resumed` takes."""
    now = None
    if epoch is not None:
        now = {"begin": epoch.begin, "left": epoch.left, "seed": epoch.seed, "given": epoch.given}
    return {
        "last_state": last_state.hex(),
        "repeats": repeats,
        "left": _left_in(sampler),
        "epoch": now,
    }


def resumed(state: dict[str, Any], sampler: Any) -> tuple[bytes, int, dict[str, Any] | None]:
    """What of a loader a position says: the last epoch's state, how often it came, and the epoch to go on with.

    Raises:
      FormatError: it is no position, or none of a loader with so many batches.
    """
    try:
        last, repeats = bytes.fromhex(state["last_state"]), int(state["repeats"])
        left, epoch = [int(index) for index in state["left"]], state["epoch"]
        if epoch is not None:
            given, seed = int(epoch["given"]), int(epoch["seed"])
            if not 0 <= given <= len(sampler) + 1 or not 0 <= seed < 1 << 32:
                raise ValueError(f"{given} batches were given, the loader has {len(sampler)}")
            begin = checked(epoch["begin"])
            epoch = {
                "begin": begin,
                "left": [int(n) for n in epoch["left"]],
                "seed": seed,
                "given": given,
            }
    except MALFORMED as error:
        raise FormatError(
            f"this is no position of this DataLoader, as state_dict gives it: {error!r}"
        ) from None
    _leave_in(sampler, left)
    return last, repeats, epoch
