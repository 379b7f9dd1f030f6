"""How an operator call runs: value, segment, program, scheduler, tape, graph (see README.md)."""

from __future__ import annotations

from collections.abc import Callable

from . import hooks
from .calls import rng, varying
from .calls.aval import Aval, MeshDevice, aval, physical
from .calls.aval import NamedDevice as NamedDevice
from .calls.aval import aval_of as aval_of
from .calls.call import ROWS as ROWS
from .calls.call import SCALARS, Call, Row, dressed, row
from .calls.call import Derivative as Derivative
from .calls.call import enter as enter
from .calls.reading import ReadWhileRecording
from .calls.record import changing as changing
from .calls.record import record, record2, record_known
from .calls.record import record1 as record1
from .calls.record import record_handed as record_handed
from .calls.record import record_on as record_on
from .calls.record import record_refused as record_refused
from .calls.record import record_scalar as record_scalar
from .calls.record import untaped_record as untaped_record
from .calls.segment import SCALAR, Step, Tree, mirroring, user_site
from .calls.segment import Mirroring as Mirroring
from .calls.spares import offer_spares as offer_spares
from .calls.state import local, span, states
from .calls.value import (
    TRACED,
    Dynamic,
    Evicted,
    Failure,
    Value,
    concrete,
    failed,
    host,
    movable,
    pending,
    place,
    placed,
    renamed,
    traced,
)
from .compile import compiler, images
from .compile.compiler import platform_of
from .compile.compiler_options import keep_barriers
from .compile.donations import match_donations
from .compile.in_flight import in_flight
from .compile.program import compile_function, needed, pack, unpack
from .graph import jaxprs, primitives
from .graph.cut import Cut, calls_python, is_traced
from .graph.cut import Places as Places
from .graph.cut import cut_of as cut_of
from .graph.graph import Graph, apart, is_recording, outside, recording
from .graph.pairs import GraphCall, record_pair, wants_of
from .graph.pairs import record_paired as record_paired
from .graph.tape import Leaf, Node
from .graph.tape import attach_python as attach_python
from .graph.tape import backward as backward
from .graph.tape import gradients as gradients
from .hooks import call_listeners, observers
from .placement import ahead as ahead
from .placement import holders, memory
from .placement.devices import default_device
from .placement.mesh import lay, relaid
from .placement.mesh import mesh_device as mesh_device
from .placement.mesh import spread as spread
from .run import callback
from .run.cold import goes_by_call, hold
from .run.cold import way_of as way_of
from .run.interrupts import is_asynchronous, shielded
from .run.rehearsal import rehearsal
from .run.scheduler import drop_programs as drop_programs
from .run.scheduler import flush, flush_all, flush_thread, read, wait_all
from .run.tiers import repeating
from .run.work import Work
from .stats import stats

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
    "dressed",
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
    "primitives",
    "keep_barriers",
    "lay",
    "local",
    "match_donations",
    "memory",
    "mirroring",
    "movable",
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
    "record_known",
    "record_pair",
    "recording",
    "rehearsal",
    "relaid",
    "renamed",
    "repeating",
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
