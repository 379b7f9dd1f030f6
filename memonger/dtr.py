"""Dynamic tensor rematerialisation for imperative code: ``mx.dtr``.

The tape knows how each result was computed. Where live arrays would go over a limit, those are given up
that are large, cheap to compute again and not needed for long; they are computed again when somebody
looks. The limit is a limit: where it cannot be kept there is a ``MemoryError`` that says what holds it.

>>> import mxjax as mx
>>> mx.dtr.enable()
>>> mx.dtr.eviction_threshold = "2GB"
>>> mx.dtr.eviction_threshold
2147483648
>>> mx.dtr.disable(); mx.dtr.eviction_threshold = 0

Source: Kirisame et al., ICLR 2021; names and score as in MegEngine's ``megengine.dtr``.
"""

from __future__ import annotations

import sys
import threading
from types import ModuleType
from typing import Any

from mxjax import core, errors, settings

from .dynamic.eviction import Counts
from .dynamic.manager import Manager

__all__ = ["disable", "drop", "enable", "enabled", "stats", "swap"]

_manager = Manager()
_switching = threading.RLock()


def enable() -> None:
    """Keep live bytes within ``eviction_threshold``; the setting ``memory.dtr_auto_drop``.

    With a threshold of 0 arrays are given up only when the device has no room left.

    >>> import mxjax as mx
    >>> mx.dtr.enable()
    >>> mx.dtr.enabled()
    True
    >>> mx.dtr.disable()
    """
    settings.set("memory.dtr_auto_drop", True)


def disable() -> None:
    """End :func:`enable`: everything that was given up is computed again, without a limit.

    Raises:
      MXNetMemoryError: the device has no room for it.
    """
    settings.set("memory.dtr_auto_drop", False)


def enabled() -> bool:
    """Whether arrays are given up by themselves."""
    return _manager.automatic


def drop(x: Any) -> bool:
    """Give up an array's numbers now; they are computed again when somebody looks.

    Args:
      x: an array computed under ``autograd.record()`` whose backward has not run.

    Returns:
      Whether it was given up. With DTR off nothing happens. What nothing on the tape computes
      (variables, results outside of ``record()``), and what somebody outside sees, stays.

    >>> import mxjax as mx
    >>> mx.dtr.enable()
    >>> x = mx.np.ones((4, 4)); x.attach_grad()
    >>> with mx.autograd.record():
    ...     y = x * 2
    >>> mx.dtr.drop(y), float(y.sum())
    (True, 32.0)
    >>> mx.dtr.disable()
    """
    return bool(_array(x)._drop())


def swap(x: Any) -> bool:
    """Move an array to the host's pinned memory until somebody looks.

    Any array may be moved that nobody outside sees, also one that cannot be computed again.

    Raises:
      MXNetNotImplementedError: the device's memory is the host's (CPU), where it would save nothing.
    """
    v = _array(x)._value()
    if not settings.get("memory.dtr_swap"):
        return False
    if v.seg is not None:
        core.flush(v.seg)
    _refuse_swap(core.physical(v.aval.device))
    return _manager.swap(v)


def stats(reset: bool = False) -> dict[str, Any]:
    """What DTR did since the last reset.

    Args:
      reset: set the counts to zero afterwards, and the peak to what is live.

    Returns:
      ``evictions``, ``drops`` (those asked for by hand), ``swaps``, ``recomputations``,
      ``recomputed_seconds`` and ``recomputed_flops``, ``operator_seconds`` of all operators that ran,
      recomputations included (seconds are estimated from XLA's counts, so they repeat), and
      ``live_bytes`` and ``peak_bytes`` of the device that holds most; the peak includes results and
      temporaries of the programs while they ran.

    >>> import mxjax as mx
    >>> mx.dtr.stats(reset=True)["evictions"] >= 0
    True
    """
    with _manager.lock:
        ledger = _manager.ledger
        ledger.drain()
        found = dict(vars(_manager.counts))
        found["live_bytes"] = max(ledger.live.values(), default=0)
        found["peak_bytes"] = max(ledger.peak.values(), default=0)
        if reset:
            _manager.counts = Counts()
            ledger.peak = dict(ledger.live)
    return found


def _array(x: Any) -> Any:
    if not hasattr(x, "_drop"):
        raise errors.MXNetTypeError(f"an array of mxjax is expected, got {type(x).__name__}")
    return x


def _refuse_swap(device: Any) -> None:
    if core.platform_of(device) == "cpu":
        raise errors.MXNetNotImplementedError(
            "mx.dtr.swap: on CPU the device's memory is the host's, so moving an array there would free "
            "nothing. Use mx.dtr.drop(x), or a GPU or TPU"
        )


def _apply(_: object = None) -> None:
    """Bring the manager in line with the settings."""
    with _switching:
        automatic = settings.get("memory.dtr_auto_drop")
        swapping = settings.get("memory.dtr_swap")
        wanted = automatic or swapping or settings.get("memory.dtr_drop")
        with _manager.lock:
            _manager.automatic = automatic
            _manager.swapping = swapping
        if wanted and not core.hooks.memory_managers:
            core.flush_all()
            core.hooks.memory_managers.append(_manager)
        elif not wanted and core.hooks.memory_managers:
            core.flush_all()
            with _manager.lock:
                _manager.bring_all_back()
                core.hooks.memory_managers.remove(_manager)


def _threshold(name: str) -> property:
    def get(self: object) -> int:
        return int(settings.get(name))

    def put(self: object, value: int | str) -> None:
        settings.set(name, value)

    return property(get, put, doc=settings.explain(name).doc)


class _Module(ModuleType):
    """The module, with MegEngine's attributes that are settings; a misspelt one is refused."""

    eviction_threshold = _threshold("memory.dtr_eviction_threshold")
    evictee_minimum_size = _threshold("memory.dtr_evictee_minimum_size")

    def __setattr__(self, name: str, value: object) -> None:
        if not hasattr(self, name) and not name.startswith("_"):
            known = ("eviction_threshold", "evictee_minimum_size")
            raise errors.MXNetAttributeError(
                f"mx.dtr has nothing to set that is called {name!r}{errors.did_you_mean(name, known)}; "
                f"it has: {', '.join(known)}"
            )
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Module
for _name in ("auto_drop", "drop", "swap"):
    settings.on_change(f"memory.dtr_{_name}", _apply)
_apply()
