"""The traces of several processes as one, on one time base, with a group of rows per rank."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from mxjax.errors import MXNetTypeError, MXNetValueError

from . import _chrome

_EACH = 1000  # numbers of processes a rank has for itself


def merge(paths: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str]) -> None:
    """Write the traces at `paths` as one to `out`.

    Each holds the epoch time it counts from, so that the ranks of one machine fall into place; of
    several machines the clocks decide.
    """
    if isinstance(paths, (str, os.PathLike)):
        raise MXNetTypeError(
            f"profiler.merge takes a list of paths, got the one path {os.fspath(paths)!r}"
        )
    traces = []
    for path in paths:
        try:
            trace = _chrome.read(os.fspath(path))
            base = int(trace["otherData"]["base_time_ns"])
        except (KeyError, TypeError, ValueError) as error:
            raise MXNetValueError(
                f"{os.fspath(path)!r} is no trace of mxjax's profiler (JSON with otherData.base_time_ns): "
                f"{type(error).__name__}: {error}"
            ) from None
        traces.append((trace, base))
    if not traces:
        raise MXNetValueError("profiler.merge got no traces: give the paths of at least one")
    start = min(base for _, base in traces)
    ranks = _ranks([trace["otherData"] for trace, _ in traces])
    abouts = [trace["otherData"] for trace, _ in traces]
    about = {
        "base_time_ns": str(start),
        "ranks": ranks,
        "operators": all(a.get("operators", True) for a in abouts),
        "xplane": [p for a in abouts for p in a.get("xplane", [])],
        "paused_ns": [],
    }
    events = (
        event
        for k, (trace, base) in enumerate(traces)
        for event in _moved(trace["traceEvents"], base - start, k, ranks[k])
    )
    _chrome.save(os.fspath(out), events, about)


def _ranks(abouts: Sequence[dict[str, Any]]) -> list[int]:
    """The ranks that the traces name; their order where two name the same."""
    found = [int(a.get("rank", k)) for k, a in enumerate(abouts)]
    return found if len(set(found)) == len(found) else list(range(len(found)))


def _moved(events: list[dict[str, Any]], later: int, k: int, rank: int) -> Iterator[dict[str, Any]]:
    for e in events:
        e["pid"] += k * _EACH
        if "ts" in e:
            e["ts"] = (round(e["ts"] * 1000) + later) / 1000
        if "id" in e:
            e["id"] += k << 26
        if e["ph"] == "M" and e["name"] == "process_name":
            e["args"]["name"] = f"rank {rank}: {e['args']['name']}"
        elif e["ph"] == "M" and e["name"] == "process_sort_index":
            e["args"]["sort_index"] += rank * _EACH
        yield e
