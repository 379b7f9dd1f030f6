"""Where a sparse array becomes dense for an operator's sake: that is counted, and the user is told."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from .. import settings
from ..core.stats import stats

_told: set[tuple[str, str]] = set()


def report(
    what: str, given: Sequence[str | None], made: Sequence[str], attrs: Mapping[str, Any]
) -> None:
    """Count a call that works on dense arrays though sparse ones came or were asked for, and log it once for each kind.

    >>> before = stats.dense_fallbacks
    >>> report("exp", ["csr"], [], {}); stats.dense_fallbacks - before
    1
    """
    stats.dense_fallbacks += 1
    key = what, str((*given, "->", *made))
    if key in _told or not settings.get("debug.log_storage_fallback"):
        return
    _told.add(key)
    shown = ", ".join(f"{k}: {v}" for k, v in attrs.items())
    logging.getLogger("mxjax").warning(
        "storage fallback: operator = %s, input storage types = [%s], output storage types = [%s], params = {%s}: it "
        "has no sparse implementation for these, so inputs are converted to dense arrays for this call, which takes "
        "memory for every zero and changes no number (MXNET_STORAGE_FALLBACK_LOG_VERBOSE=0 ends these lines)",
        what, ", ".join(s for s in given if s), ", ".join(made) or "default", shown,
    )  # fmt: skip


def fallback(what: str, stype: str | None) -> None:
    """Log, once for each operator and storage type, that it is dense all the same (`debug.log_storage_fallback`).

    >>> fallback("zeros", "default")
    """
    what = what.partition("@")[0]
    if stype in (None, "default", "dense"):
        return
    stats.dense_fallbacks += 1
    if (what, str(stype)) not in _told and settings.get("debug.log_storage_fallback"):
        _told.add((what, str(stype)))
        logging.getLogger("mxjax").warning(
            "storage fallback: %s was given the storage type %s and works on a dense array, which takes memory for "
            "every zero (MXNET_STORAGE_FALLBACK_LOG_VERBOSE=0 ends these lines)",
            what,
            stype,
        )
