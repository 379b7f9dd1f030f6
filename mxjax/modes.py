"""The modes of MXNet: NumPy's arrays or those of 1.x, NumPy's shapes or those of 1.x, and the generation.

A mode belongs to a thread (and to an asyncio task); one that nobody set is the generation's: MXNet 2 begins with
NumPy's arrays and shapes in the main thread, MXNet 1 (the setting `compat.version`) without. Other threads begin
without, as there; what works for a thread, as a loader's workers do, takes its modes along (`taken`, `resumed`).
"""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import NamedTuple

from . import settings
from .array.classes import NDArray, ndarray
from .array.indexing import shapes_of_1x
from .errors import MXNetValueError
from .scopes import Scope

__all__ = ["array_class", "generation", "is_np_array", "is_np_shape", "np_array", "np_shape", "set_arrays",
           "set_np_shape"]  # fmt: skip

_version = settings.snapshot("compat.version")


def generation() -> int:
    """1 where code is to meet the defaults of MXNet 1.9, else 2.

    >>> generation()
    2
    """
    return 1 if _version() == "1.9" else 2


_MAIN = threading.main_thread().ident


def _begins_with_numpy() -> bool:
    return generation() == 2 and threading.get_ident() == _MAIN


# None: as the generation begins.
_arrays: ContextVar[bool | None] = ContextVar("np_array", default=None)
_shapes: ContextVar[bool | None] = ContextVar("np_shape", default=None)
_shapes_of_all: list[bool | None] = [None]  # what set_np_shape(2) said for all threads


def is_np_array() -> bool:
    """Whether code here is meant to make mx.np arrays: what parameters, batches and datasets hold.

    Operators and blocks take both kinds whatever it is, and answer in the kind they were given.

    Returns:
      bool: whether blocks make arrays of mx.np.
    """
    mode = _arrays.get()
    return _begins_with_numpy() if mode is None else mode


def array_class() -> type[NDArray]:
    """The class of the arrays that are made here: `mx.np.ndarray`, or `mx.nd.NDArray` where `is_np_array` is False."""
    return ndarray if is_np_array() else NDArray


def set_arrays(active: bool | None) -> bool:
    """Let `is_np_array` be that in this thread (None: as the generation begins); gives what it was."""
    before = is_np_array()
    _arrays.set(active)
    return before


def is_np_shape() -> bool:
    """Whether shapes are meant as NumPy means them: () is a number, 0 an empty axis, -1 what is not known.

    Arrays have NumPy's shapes always; the mode says how unknown lengths of parameters are shown (-1, or 0 in MXNet 1).

    Returns:
      bool: whether shapes are NumPy's.
    """
    mode = _shapes.get()
    if mode is None:
        mode = _shapes_of_all[0]
    return _begins_with_numpy() if mode is None else mode


def _shapes_of_1x() -> bool:
    return not is_np_shape()


shapes_of_1x.append(_shapes_of_1x)


def set_np_shape(active: bool | int = True) -> bool:
    """Let `is_np_shape` be that in this thread, or with 2 in all threads that did not say; gives what it was.

    Raises:
      ValueError: NumPy's arrays are on, and need NumPy's shapes.
    """
    if not active and is_np_array():
        raise MXNetValueError(
            "Deactivating NumPy shape semantics while NumPy array semantics is still active is not allowed. "
            "npx.reset_np() deactivates both"
        )
    before = is_np_shape()
    if active == 2 and active is not True:
        _shapes_of_all[0] = True
        _shapes.set(None)
    else:
        _shapes.set(bool(active))
    return before


def begin() -> None:
    """Forget what was set here: the modes are those that the generation begins with."""
    _arrays.set(None)
    _shapes.set(None)
    _shapes_of_all[0] = None


class Modes(NamedTuple):
    """The modes of a thread, for those that work for it."""

    arrays: bool
    shapes: bool


def taken() -> Modes:
    """What holds in this thread."""
    return Modes(is_np_array(), is_np_shape())


def resumed(modes: Modes) -> None:
    """Let the modes of this thread be those that were taken in another; the generation is the process's."""
    _arrays.set(modes.arrays)
    _shapes.set(modes.shapes)


class _NumpyArrayScope(Scope):
    """The scope that `np_array` gives."""

    def __init__(self, is_np_array: bool):
        self._is_np_array = is_np_array

    def _now(self) -> bool | None:
        return _arrays.get()

    def _set(self) -> _NumpyArrayScope:
        _arrays.set(self._is_np_array)
        return self

    def _give_back(self, before: bool | None, broken: bool) -> None:
        _arrays.set(before)


class _NumpyShapeScope(Scope):
    """The scope that `np_shape` gives."""

    def __init__(self, is_np_shape: bool | int | None):
        self._is_np_shape = is_np_shape

    def _now(self) -> tuple[bool | None, bool | None]:
        return _shapes.get(), _shapes_of_all[0]

    def _set(self) -> _NumpyShapeScope:
        if self._is_np_shape is not None:
            set_np_shape(self._is_np_shape)
        return self

    def _give_back(self, before: tuple[bool | None, bool | None], broken: bool) -> None:
        mine, _shapes_of_all[0] = before
        _shapes.set(mine)


def np_array(active: bool = True) -> _NumpyArrayScope:
    """A scope of this thread in which `is_np_array` is ``active``.

    >>> with np_array(False):
    ...     is_np_array()
    False
    """
    return _NumpyArrayScope(active)


def np_shape(active: bool | int = True) -> _NumpyShapeScope:
    """A scope of this thread in which `is_np_shape` is ``active``.

    >>> with np_array(False), np_shape(False):
    ...     is_np_shape()
    False
    """
    return _NumpyShapeScope(active)
