"""Where a sparse storage type was asked for: everything is dense here, and the user is told."""

from __future__ import annotations

import logging

from .. import settings

_told: set[tuple[str, str]] = set()


def fallback(what: str, stype: str | None) -> None:
    """Log, once for each operator and storage type, that it is dense all the same (`debug.log_storage_fallback`).

    >>> fallback("zeros", "default")
    """
    what = what.partition("@")[0]
    if stype in (None, "default", "dense") or (what, str(stype)) in _told:
        return
    if settings.get("debug.log_storage_fallback"):
        _told.add((what, str(stype)))
        logging.getLogger("mxjax").warning(
            "storage fallback: %s was given the storage type %s and works on a dense array, which takes memory for "
            "every zero (MXNET_STORAGE_FALLBACK_LOG_VERBOSE=0 ends these lines)", what, stype)
