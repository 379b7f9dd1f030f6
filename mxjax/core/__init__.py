"""How an operator call runs: value, segment, program, scheduler, tape, graph (see README.md)."""

from __future__ import annotations

from collections.abc import Callable

from . import ahead as ahead
from . import callback, compiler, holders, hooks, images, jaxprs, memory, rng, varying
from .aval import Aval, MeshDevice, aval, physical
from .aval import NamedDevice as NamedDevice
from .aval import aval_of as aval_of
from .call import ROWS as ROWS
from .call import SCALARS, Call, Row, row
from .call import Derivative as Derivative
from .call import enter as enter
from .cold import goes_by_call, hold
from .compiler import platform_of
from .compiler_options import keep_barriers
from .cut import Cut, calls_python, is_traced
from .cut import Places as Places
from .cut import cut_of as cut_of
from .devices import default_device
from .graph import (
    Graph,
    GraphCall,
    apart,
    is_recording,
    outside,
    record_pair,
    recording,
    wants_of,
)
from .graph import record_paired as record_paired
from .hooks import call_listeners, observers
from .interrupts import is_asynchronous, shielded
from .mesh import in_flight, lay, relaid
from .mesh import mesh_device as mesh_device
from .mesh import spread as spread
from .program import compile_function, match_donations, needed, pack, unpack
from .reading import ReadWhileRecording
from .record import changing as changing
from .record import record, record2
from .record import record1 as record1
from .record import record_handed as record_handed
from .record import record_on as record_on
from .record import record_refused as record_refused
from .record import record_scalar as record_scalar
from .record import untaped_record as untaped_record
from .rehearsal import rehearsal
from .scheduler import Work, flush, flush_all, flush_thread, read, wait_all
from .scheduler import drop_programs as drop_programs
from .segment import SCALAR, Step, Tree, mirroring, user_site
from .segment import Mirroring as Mirroring
from .state import local, span, states
from .stats import stats
from .tape import Leaf, Node
from .tape import attach_python as attach_python
from .tape import backward as backward
from .tape import gradients as gradients
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
    place,
    placed,
    renamed,
    traced,
)

#: What the wings use, and nothing else (tests/test_layout.py). The other names shown here (``record1 as record1``) are
#: for the package itself, from ops to the front ends.
__all__ = [
    "goes_by_call",
    "hold",
    "SCALAR",
    "SCALARS",
    "TRACED",
    "Aval",
    "Call",
    "Cut",
    "Dynamic",
    "Evicted",
    "Failure",
    "Graph",
    "GraphCall",
    "Leaf",
    "MeshDevice",
    "Node",
    "ReadWhileRecording",
    "Row",
    "Step",
    "Tree",
    "Value",
    "Work",
    "apart",
    "aval",
    "callback",
    "calls_python",
    "compile_function",
    "compiler",
    "concrete",
    "default_device",
    "end_note",
    "failed",
    "flush",
    "flush_all",
    "flush_thread",
    "holders",
    "hooks",
    "host",
    "images",
    "in_flight",
    "is_asynchronous",
    "is_recording",
    "is_traced",
    "jaxprs",
    "keep_barriers",
    "lay",
    "local",
    "match_donations",
    "memory",
    "mirroring",
    "needed",
    "note_calls",
    "observe",
    "outside",
    "pack",
    "pending",
    "place",
    "physical",
    "placed",
    "platform_of",
    "read",
    "record",
    "record2",
    "record_pair",
    "recording",
    "rehearsal",
    "relaid",
    "renamed",
    "rng",
    "row",
    "shielded",
    "span",
    "stats",
    "traced",
    "unobserve",
    "unpack",
    "user_site",
    "varying",
    "wait_all",
    "wants_of",
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
