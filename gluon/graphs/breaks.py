"""Hybridized blocks whose forward asks for a number: graph breaks, their causes, and which blocks run imperatively.

A forward that looks at numbers (``if x.sum() > 0``, ``np.nonzero(x)``) cannot be recorded as a graph. Its recording is
given up and leaves nothing behind, and the blocks between the one that was called and the one that asks run
imperatively from then on. The blocks in them, and beside them, are still recorded each by itself. `breaks_of` tells
what was found; who needs a graph of the whole (an exporter) gets a `GraphBreak` that names it.
"""

from __future__ import annotations

import linecache
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from mxjax import errors, settings
from mxjax.array.ndarray import NDArray
from mxjax.autograd import Function
from mxjax.core import ReadWhileRecording, local, record, stats
from mxjax.ops import TABLE

from ..parameter import Layout

if TYPE_CHECKING:
    from ..hybrid_block import HybridBlock

# Frames in these folders are not the user's: ours, and those of libraries through which numbers are asked for.
_OURS = tuple(
    f"{folder}{os.sep}"
    for folder in (
        Path(settings.__file__).resolve().parents[1],
        *(
            Path(__file__).resolve().parents[1] / wing
            for wing in ("gluon", "kvstore", "memonger", "profiler")
        ),
    )
)
_LIBRARIES = tuple(f"{Path(str(module.__file__)).resolve().parent}{os.sep}" for module in (np, jax))
# What the methods that Python calls are in the user's code.
_WORDS = {
    "__bool__": "bool()", "__int__": "int()", "__index__": "an index", "__float__": "float()",
    "__getitem__": "indexing with a mask", "__setitem__": "assigning through a mask", "__contains__": "in",
    "__repr__": "printing", "__str__": "printing", "__format__": "printing", "__array__": "a NumPy array of it",
}  # fmt: skip


# By what numbers leave the graph for Python; else an operator asks whose result is as long as the numbers say.
_TO_PYTHON = frozenset({
    "bool()", "int()", "an index", "float()", "in", "printing", "a NumPy array of it", "asnumpy", "asscalar", "item",
    "tolist",
})  # fmt: skip


_FUNCTION = "autograd.Function"  # Python that runs at each call: nothing wrong with it, but no part of a graph


class Break(NamedTuple):
    """What kept a block from being one graph: the place in its forward that asks for a number."""

    block: str  # the class of the innermost block around it
    scope: str  # the names of the blocks around it, "net/0"
    asks: str  # what asks, as in the code: "bool()", "nonzero", "asnumpy"
    file: str
    line: int

    def __str__(self) -> str:
        code = linecache.getline(self.file, self.line).strip()
        quoted = f": `{code}`" if code else ""
        return f"{self.file}:{self.line}{quoted}, {self.asks}"


class GraphBreak(errors.MXNetError):
    """The forward of a block cannot be recorded as one graph, for it asks for a number."""

    def __init__(self, cause: Break, path: list[HybridBlock]):
        self.cause = cause
        self.path = path  # from the block that was recorded to the one that asks
        name = type(path[0]).__name__
        where = (
            "its forward"
            if len(path) == 1
            else f"the forward of {cause.block} in it ({cause.scope})"
        )
        if cause.asks == _FUNCTION:
            super().__init__(
                f"{name} cannot be one graph: {where} calls an autograd.Function, whose Python runs at each call "
                f"({cause})"
            )
            return
        super().__init__(
            f"{name} cannot be one graph: {where} reads an array's value, which a graph that is recorded "
            f"does not have ({cause}). Choose by value and keep shapes, as np.where(mask, x, 0) does, or compute it "
            "outside of the block"
        )


_FOLLOWS = TABLE["_found"].bind()


class Listening:
    """Around the forward that is being recorded: what it asks for, and undoing what it left if it is given up.

    Raises (when left):
      GraphBreak: the forward asked for a number, whether or not it caught the error.
    """

    def __init__(self, block: HybridBlock, ends: Any):
        self._block = block
        self._ends = ends  # the code of the function that records
        self._entered = False
        # What else is to be undone. CPython 3.12 and 3.13 leave the end of a comprehension out of the `try` around it.
        self.undo: Callable[[], None] = lambda: None
        self._own: tuple[Break, list[HybridBlock]] | None = None
        self._last: tuple[Break, list[HybridBlock]] | None = None

    def __enter__(self) -> Listening:
        st = local.st
        self._seg = st.seg
        self._kept = _Kept(self._block)
        self._outer = st.on_read
        self._entered = True
        st.on_read = self._hear
        return self

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Around the scope and what it stands in: whatever breaks it off, nothing of the recording is left."""
        try:
            yield
        except BaseException:
            if self._entered:
                local.st.on_read = self._outer
                self._kept.restore(self._seg)
                self.undo()
            raise

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        local.st.on_read = self._outer
        found = self._own  # whatever came after it went wrong for that reason
        if found is None and isinstance(error, ReadWhileRecording):
            found = self._last
        if found is not None or error is not None:
            self._kept.restore(self._seg)
        if found is not None and (error is None or isinstance(error, Exception)):
            stats.breaks += 1
            raise GraphBreak(*found) from error

    def _hear(self, seg: Any) -> None:
        # The values of a graph inside this one may be asked for by one who knows what to do then.
        if self._own is None:
            self._last = self._look()
            if seg is self._seg:
                self._own = self._last

    def _look(self) -> tuple[Break, list[HybridBlock]]:
        """Who asks, in which line of the user's, and the blocks around it: all by the frames that run."""
        frame: FrameType | None = sys._getframe(2)
        asks, site, path = "", None, []
        inside = True
        while frame is not None and (inside or site is None):
            code = frame.f_code
            if code is self._ends:
                inside = False
            elif (
                inside
                and code.co_name == "_run_forward"
                and hasattr(type(frame.f_locals.get("self")), "_is_hybrid_block")
            ):
                path.append(frame.f_locals["self"])
            if site is None:
                if code.co_filename.startswith(_OURS + _LIBRARIES):
                    asks = _name_of(frame)
                else:
                    site = code.co_filename, frame.f_lineno
            frame = frame.f_back
        path = list(dict.fromkeys(reversed(path))) or [self._block]
        return Break(type(path[-1]).__name__, local.st.scope, asks, *(site or ("", 0))), path


def _name_of(frame: FrameType) -> str:
    """What the user calls a function of ours; a wrapper stands for the function or the operator in it."""
    if isinstance(frame.f_locals.get("self"), Function):
        return _FUNCTION
    name = frame.f_code.co_name
    if name in _WORDS or not frame.f_code.co_filename.startswith(_OURS):
        return _WORDS.get(name, name)
    inner = frame.f_locals.get("fn", frame.f_locals.get("op"))
    return getattr(inner, "__name__", None) or getattr(inner, "name", None) or name


class _Kept:
    """What blocks hold beside their parameters, so that a forward that is given up leaves no array without numbers.

    Only arrays of that recording are taken back: other things that a forward does in Python are done twice.
    """

    def __init__(self, block: HybridBlock):
        blocks: list[Any] = []
        block.apply(blocks.append)
        self._attributes = [(b.__dict__, dict(b.__dict__)) for b in blocks]
        self._boxes: list[tuple[Any, Any]] = []
        self._arrays: list[tuple[NDArray, Any]] = []
        for b in blocks:
            for name, value in b.__dict__.items():
                if type(value) in (list, dict) and name not in _NO_USER_DATA:
                    self._boxes.append((value, value.copy()))
                self._arrays += [(a, a._v) for a in _arrays_of(value) if a._v is not None]

    def restore(self, seg: Any) -> None:
        def ours(value: Any) -> bool:
            return any(a._v is not None and a._v.seg is seg for a in _arrays_of(value))

        for a, v in self._arrays:
            if a._v is not None and a._v.seg is seg:
                a._v = v
        for box, before in self._boxes:
            if ours(box):
                box.clear()
                box.extend(before) if type(box) is list else box.update(before)
        for now, before in self._attributes:
            for name in [name for name, value in now.items() if ours(value)]:
                if name in before:
                    now[name] = before[name]
                else:
                    del now[name]


_NO_USER_DATA = frozenset(
    {"_children", "_reg_params", "_graphs", "_forward_hooks", "_forward_pre_hooks"}
)


def _arrays_of(value: Any) -> list[NDArray]:
    if isinstance(value, NDArray):
        return [value]
    if type(value) in (list, tuple, dict):
        items = value.values() if type(value) is dict else value
        return [a for a in items if isinstance(a, NDArray)]
    return []


# ------------------------------------------------------------------------------------------ running imperatively


class Opened:
    """That a block runs imperatively: why, and for which blocks in it that was found."""

    __slots__ = ("args", "blocks", "cause", "version")

    def __init__(self, cause: Break | None, block: HybridBlock):
        self.cause = cause
        self.args: tuple[Any, ...] | None = None  # of the call that found it, for an export
        self.blocks = _inner(block)
        self.version = Layout.version


def stays_open(block: HybridBlock) -> bool:
    """Whether a block that gave up its graph goes on without: with other blocks in it, it is tried anew."""
    opened = block._opened
    if opened is not None and opened.version != Layout.version:
        if opened.blocks == _inner(block):
            opened.version = Layout.version
        else:
            opened = None
    if opened is None or (opened.cause is not None and _strict([block], opened.cause)):
        block._opened = None
    return block._opened is not None


def _inner(block: HybridBlock) -> list[Any]:
    found: list[Any] = []
    block.apply(found.append)
    found.pop()  # the block itself, which holds this list
    return found


_on_break = settings.snapshot("engine.graph_breaks")
_lock = threading.Lock()


def _strict(path: list[HybridBlock], cause: Break) -> bool:
    return _on_break() == "error" or (
        cause.asks in _TO_PYTHON and any(b._static_shape for b in path)
    )


def give_up(broken: GraphBreak, args: tuple[Any, ...]) -> None:
    """Let the blocks on the way to what asks for a number run imperatively from now on, and say so once.

    ``args`` are those of the call that found it. They are kept where an operator asks: the numbers in them show what
    an export takes.

    Raises:
      GraphBreak: `hybridize(static_shape=True)` or engine.graph_breaks makes that an error.
      UserWarning: only where warnings are errors.
    """
    cause, path = broken.cause, broken.path
    if _strict(path, cause):
        said = (
            "engine.graph_breaks='error'"
            if _on_break() == "error"
            else "hybridize(static_shape=True)"
        )
        broken.args = (
            f"{broken.args[0]}. {said} makes it an error; otherwise the block runs imperatively",
        )
        raise broken
    with _lock:
        asker = path[-1]
        known = asker._opened is not None
        for block in path:
            block._opened, block._served = Opened(cause, block), None
        if cause.asks not in _TO_PYTHON and path[0]._opened is not None:
            path[0]._opened.args = args
    if known or cause.asks == _FUNCTION or _on_break() == "quiet":
        return
    around = [type(b).__name__ for b in path[:-1]]
    strictly = "hybridize(static_shape=True) or " if cause.asks in _TO_PYTHON else ""
    also = f", and so do the blocks around it ({', '.join(around)})" if around else ""
    warnings.warn_explicit(
        f"{cause.block} ({cause.scope}) reads an array's value in its forward ({cause.asks}), so it runs without a "
        f"graph, imperatively, from now on{also}; other blocks stay compiled. "
        f"{strictly}engine.graph_breaks='error' makes this an error, 'quiet' silences this warning",
        UserWarning,
        cause.file,
        cause.line,
    )


_around: ContextVar[bool] = ContextVar("around", default=False)


def run_opened(block: HybridBlock, args: tuple[Any, ...]) -> Any:
    """The forward of a block that gave up its graph."""
    token = _around.set(True)
    try:
        out = block._run_forward(*args)
    finally:
        _around.reset(token)
    return _held_together(out) if local.st.taping else out


def _held_together(out: Any) -> Any:
    """Results that are all in autograd's graph if one is, as those of a graph are; a new one's gradient is zero."""
    leaves, tree = jax.tree_util.tree_flatten(out, is_leaf=lambda x: isinstance(x, NDArray))
    arrays = [a for a in leaves if isinstance(a, NDArray)]
    taped = next((a for a in arrays if a._value().tape is not None), None)
    if taped is None or all(a._value().tape is not None for a in arrays):
        return out
    for k, a in enumerate(leaves):
        if isinstance(a, NDArray) and a._value().tape is None:
            leaves[k] = a._wrap(record(_FOLLOWS, (a._value(), taped._value()))[0])
    return jax.tree_util.tree_unflatten(tree, leaves)


def in_opened() -> bool:
    """Whether a block around runs imperatively though it is hybridized.

    Nobody asked then for a graph of the blocks in it: one that cannot have a graph runs imperatively too.
    """
    return _around.get()


def breaks_of(block: Any) -> list[Break]:
    """What stands in the way of one graph for a block, as far as its calls have shown; none where it has one."""
    found: dict[Break, None] = {}

    def ask(b: Any) -> None:
        opened = getattr(b, "_opened", None)
        if opened is not None and opened.cause is not None:
            found[opened.cause] = None

    block.apply(ask)
    return list(found)
