"""Traces of calls that serve the next process, in the folder where programs are kept (`../compile/kept.py`).

A trace takes JAX milliseconds; its steps of NumPy are written from the jaxpr in a tenth of them. So a process leaves
what it traced of the table's rows and the engine's own in one file, and the next one reads it before it traces.

- A file stands for all that a trace depends on besides its call: JAX's and mxjax's versions and flags, the settings,
  the processor (lowerings are chosen by it). A trace stands under its call, written out, and the form of its operands.
- What a trace took for granted of sizes goes with it. Where that does not hold for the sizes at hand it is as if it
  were not there: JAX traces, and raises what the user is to see.
- Files are the user's own, as those of programs are; nothing here raises.
"""

from __future__ import annotations

import atexit
import collections
import functools
import hashlib
import os
import struct
import sys
import types
from typing import TYPE_CHECKING, Any

import jax
import jaxlib
import numpy as np

from ... import settings
from ..compile import kept, outline
from ..run.forks import forked

if TYPE_CHECKING:
    from ..calls.call import Call

#: Another number where the bytes of a trace have another form.
_FORM = 3
_WAITING = 1_000
#: Bytes that a file holds at most; what was kept first goes.
_MOST = 8 << 20
#: Whose functions a trace of is known by the versions: a row of anybody else's may be another in the next process.
_OURS = (
    "mxjax.core.",
    "mxjax.ops.",
    "mxjax.optimizer.",
    "jax.",
    "jaxlib.",
    "numpy",
    "optax.",
    "_operator",
    "builtins",
    "math",
)


class File:
    """The traces of one file, and those that join it when the process ends."""

    def __init__(self, path: str, key: bytes):
        self._path = path
        self._key = key
        self._new: dict[bytes, bytes] = {}
        #: Traces that were asked for nothing but shapes; they are kept in the end.
        self.waiting: collections.deque[Any] = collections.deque(maxlen=_WAITING)
        self._found = self._read()
        self._process = os.getpid()

    def _read(self) -> dict[bytes, bytes]:
        data = kept.read(self._path, self._key, kept.TRACES)
        try:
            return {} if data is None else _parted(data)
        except (struct.error, ValueError):  # whatever its digest says
            return {}

    def get(self, name: bytes) -> bytes | None:
        """The bytes of a trace, none of one that JAX refused; None where there is none."""
        return self._found.get(name)

    def put(self, name: bytes, data: bytes) -> None:
        """Keep a trace."""
        self._found[name] = self._new[name] = data

    def write(self) -> None:
        """Let the file have what is new."""
        while self.waiting:
            self.waiting.popleft().finish()
        if not self._new or forked[0] or os.getpid() != self._process:
            return
        whole = {**self._read(), **self._new}
        total = sum(map(len, whole.values()))
        for name in list(whole):
            if total <= _MOST:
                break
            total -= len(whole.pop(name))
        kept.write(self._path, self._key, _joined(whole), kept.TRACES)
        self._new = {}


_HEAD = struct.Struct("<16sI")  # a trace's name, and how many bytes follow


def _joined(traces: dict[bytes, bytes]) -> bytes:
    return b"".join(
        part for name, data in traces.items() for part in (_HEAD.pack(name, len(data)), data)
    )


def _parted(data: bytes) -> dict[bytes, bytes]:
    found, at = {}, 0
    while at < len(data):
        name, size = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        if at + size > len(data):
            raise ValueError("a trace ends behind the file")
        found[name] = data[at : at + size]
        at += size
    return found


_files: dict[tuple[str, bytes], File] = {}
_now: tuple[Any, File | None] | None = None  # by the settings in force


def file() -> File | None:
    """The file that the settings in force lead to; None where nothing is kept."""
    global _now
    values = settings.current()
    now = _now
    if now is not None and now[0] is values:
        return now[1]
    found = None
    try:
        path = kept.folder()
        if path is not None:
            key = _context(values)
            found = _files.get((path, key))
            if found is None:
                found = _files[path, key] = File(path, key)
    except Exception:  # another JAX
        found = None
    _now = values, found
    return found


def _context(values: settings.Values) -> bytes:
    """What a trace depends on besides its call, as 32 bytes."""
    words = [
        _FORM,
        [(name, repr(v)) for name, v in sorted(values.items()) if not name.startswith("cache.")],
        (jax.__version__, jaxlib.__version__, np.__version__, sys.version),
        outline.context(),
        kept.processor(),
        kept.cores(),
        outline.source(),
    ]
    return hashlib.blake2b(repr(words).encode(), digest_size=32).digest()


@atexit.register
def write() -> None:
    """Let the files have what this process traced."""
    for each in list(_files.values()):
        each.write()


# ---- names of traces


def name_of(call: Call, form: Any) -> bytes | None:
    """What stands for the trace of a call of a row of ours by the form of its operands, in every process.

    None for rows of others, and for attributes that cannot be written out.
    """
    words: str | None = call.traces.get("name", "")
    if words == "":
        try:
            words = _named(call)
        except Exception:  # what outline.Words does not know
            words = None
        call.traces["name"] = words
    if words is None:
        return None
    return hashlib.blake2b(f"{words}\0{form!r}".encode(), digest_size=16).digest()


def _named(call: Call) -> str | None:
    of, derived = call, []
    while of.forward is not None:
        derived.append((of.wants, of.has, of.many))  # type: ignore[attr-defined]
        of = of.forward
    row = of.row
    if (
        not row.lasting
        or row.python is not None
        or row.inferred is not None
        or not _is_ours(row.fn)
    ):
        return None
    words = _Words()
    words.value((row.name, of.attrs, of.constants, of.varying))
    for each in derived:
        words.value(each)
    return "\0".join(words.said)


class _Words(outline.Words):
    """Attributes in words; a length that is left open, and an optimizer's rule, too."""

    def value(self, value: Any) -> None:
        if type(value) is object:  # `call.LENGTH`
            self.said.append("a length")
        elif type(value) is types.FunctionType and _is_named(value):
            self.said.append(f"{value.__module__}.{value.__name__}")
        else:
            super().value(value)


def _is_named(fn: types.FunctionType) -> bool:
    """Whether this function of ours is what its name means in its module."""
    return _is_ours(fn) and getattr(sys.modules.get(fn.__module__), fn.__name__, None) is fn


@functools.cache
def _is_ours(fn: Any) -> bool:
    """Whether a function, with those that it was made of, is JAX's or ours."""
    todo, seen = [fn], set()
    while todo:
        fn = todo.pop()
        if id(fn) in seen:
            continue
        seen.add(id(fn))
        if isinstance(fn, functools.partial):
            todo += [fn.func, *[v for v in (*fn.args, *fn.keywords.values()) if callable(v)]]
            continue
        if not (getattr(fn, "__module__", None) or "").startswith(_OURS):
            return False
        if isinstance(fn, types.FunctionType):
            for cell in fn.__closure__ or ():
                inside = cell.cell_contents
                for part in inside if isinstance(inside, tuple | list) else (inside,):
                    if callable(part) and not isinstance(part, type):
                        todo.append(part)
    return True
