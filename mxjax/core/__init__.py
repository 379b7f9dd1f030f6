"""How an operator call runs: value, segment, program, scheduler, tape, graph (see README.md)."""

from __future__ import annotations

from collections.abc import Callable

from . import callback, compiler, holders, images, memory, rng
from .aval import Aval, MeshDevice, aval, aval_of
from .call import (
    AGAIN,
    INLINED,
    SCALARS,
    Call,
    bind,
    bound,
    cotangent,
    differentiable,
    evaluate,
    held,
    once,
    pullback,
)
from .compiler import platform_of
from .compiler_options import keep_barriers
from .graph import Graph, GraphCall, is_recording, outside, record_paired, recording
from .mesh import in_flight, lay, mesh_device, relaid, spread
from .program import compile_function, match_donations, needed, pack, unpack
from .record import ScalarFamily, default_device, record, record1, record2, record_on, record_scalar
from .rehearsal import Abstract, Rehearsal, rehearsal
from .scheduler import Work, deferred, drop_programs, flush, flush_all, flush_thread, read, wait_all
from .segment import SCALAR, Mirroring, Step, Tree, mirroring, user_site
from .state import ThreadState, local, noting, observers, span, states
from .stats import stats
from .tape import Leaf, Node, attach_python, backward, gradients
from .value import (
    TRACED,
    Dynamic,
    Evicted,
    Failure,
    Value,
    concrete,
    failed,
    host,
    managers,
    pending,
    pending_errors,
    place,
    traced,
)

__all__ = [
    "AGAIN",
    "INLINED",
    "SCALAR",
    "SCALARS",
    "TRACED",
    "Abstract",
    "Aval",
    "Call",
    "Dynamic",
    "Evicted",
    "Failure",
    "Graph",
    "GraphCall",
    "Leaf",
    "MeshDevice",
    "Mirroring",
    "Node",
    "Rehearsal",
    "ScalarFamily",
    "Step",
    "ThreadState",
    "Tree",
    "Value",
    "Work",
    "attach_python",
    "aval",
    "aval_of",
    "backward",
    "bind",
    "bound",
    "callback",
    "compile_function",
    "compiler",
    "concrete",
    "cotangent",
    "failed",
    "default_device",
    "deferred",
    "differentiable",
    "drop_programs",
    "end_note",
    "evaluate",
    "flush",
    "flush_all",
    "flush_thread",
    "gradients",
    "held",
    "holders",
    "host",
    "images",
    "is_recording",
    "keep_barriers",
    "local",
    "match_donations",
    "in_flight",
    "lay",
    "managers",
    "mesh_device",
    "needed",
    "note_calls",
    "memory",
    "mirroring",
    "observe",
    "observers",
    "once",
    "outside",
    "pack",
    "pending",
    "pending_errors",
    "place",
    "pullback",
    "platform_of",
    "read",
    "record",
    "record1",
    "record2",
    "record_on",
    "record_paired",
    "record_scalar",
    "recording",
    "rehearsal",
    "relaid",
    "rng",
    "span",
    "spread",
    "states",
    "stats",
    "traced",
    "unobserve",
    "unpack",
    "user_site",
    "wait_all",
]


def observe(observer: object) -> None:
    """Let an observer (``core.interfaces.SegmentObserver``) see what the engine does, in all threads."""
    _tell()
    observers.append(observer)
    _refresh()


def unobserve(observer: object) -> None:
    """End :func:`observe`."""
    _tell()
    if observer in observers:
        observers.remove(observer)
    _refresh()


def note_calls(note: Callable[..., None]) -> None:
    """Tell a function of every call that is recorded: ``note(call, inputs, results)``, in all threads."""
    if note not in noting:
        noting.append(note)
    _modes()


def end_note(note: Callable[..., None]) -> None:
    """End :func:`note_calls`."""
    if note in noting:
        noting.remove(note)
    _modes()


def _tell() -> None:
    for st in list(states):
        st.tell_calls()


def _refresh() -> None:
    for st in list(states):
        st.watch()


def _modes() -> None:
    for st in list(states):
        st.refresh()
