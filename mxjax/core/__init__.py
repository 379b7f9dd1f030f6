"""How an operator call runs: value, segment, program, scheduler, tape, graph (see README.md)."""

from __future__ import annotations

from collections.abc import Callable

from . import callback, compiler, holders, hooks, images, memory, rng
from .aval import Aval, MeshDevice, aval, aval_of
from .call import ROWS, SCALARS, Call, Derivative, Row, enter, row
from .compiler import platform_of
from .compiler_options import keep_barriers
from .graph import Graph, GraphCall, is_recording, outside, record_paired, recording
from .hooks import call_listeners, observers
from .jaxprs import AGAIN, INLINED, bound, cotangent, differentiable, evaluate, held, once, pullback
from .mesh import in_flight, lay, mesh_device, relaid, spread
from .program import compile_function, match_donations, needed, pack, unpack
from .record import default_device, record, record1, record2, record_on, record_scalar
from .rehearsal import Abstract, Rehearsal, rehearsal
from .scheduler import Work, drop_programs, flush, flush_all, flush_thread, read, wait_all
from .segment import SCALAR, Mirroring, Step, Tree, mirroring, user_site
from .state import ThreadState, local, span, states
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
    "Derivative",
    "Dynamic",
    "Evicted",
    "Failure",
    "Graph",
    "GraphCall",
    "Leaf",
    "MeshDevice",
    "Mirroring",
    "Node",
    "ROWS",
    "Rehearsal",
    "Row",
    "Step",
    "ThreadState",
    "Tree",
    "Value",
    "Work",
    "attach_python",
    "aval",
    "aval_of",
    "backward",
    "bound",
    "callback",
    "compile_function",
    "compiler",
    "concrete",
    "cotangent",
    "failed",
    "default_device",
    "differentiable",
    "drop_programs",
    "end_note",
    "enter",
    "evaluate",
    "flush",
    "flush_all",
    "flush_thread",
    "gradients",
    "held",
    "holders",
    "hooks",
    "host",
    "images",
    "is_recording",
    "keep_barriers",
    "local",
    "match_donations",
    "in_flight",
    "lay",
    "mesh_device",
    "needed",
    "note_calls",
    "memory",
    "mirroring",
    "observe",
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
    "row",
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


def observe(observer: hooks.SegmentObserver) -> None:
    """Let an observer (``core.hooks.SegmentObserver``) see what the engine does, in all threads."""
    _tell()
    observers.append(observer)
    _refresh()


def unobserve(observer: hooks.SegmentObserver) -> None:
    """End :func:`observe`."""
    _tell()
    if observer in observers:
        observers.remove(observer)
    _refresh()


def note_calls(note: Callable[..., None]) -> None:
    """Tell a function of every call that is recorded: ``note(call, inputs, results)``, in all threads."""
    if note not in call_listeners:
        call_listeners.append(note)
    _modes()


def end_note(note: Callable[..., None]) -> None:
    """End :func:`note_calls`."""
    if note in call_listeners:
        call_listeners.remove(note)
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
