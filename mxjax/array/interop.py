"""Arrays among other libraries: NumPy's protocols and DLPack; transformations.py is about JAX."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import errors
from ..core import read
from ..core.calls.state import local
from ..core.stats import stats
from .handle import Handle


class Interop(Handle):
    """How other libraries see an array."""

    __slots__ = ()

    @property
    def jax(self) -> Any:
        """The array as a ``jax.Array`` (or the tracer it stands for), without a copy."""
        v = self._value()
        array = read(v)
        v.shared = True  # somebody outside holds the buffer now: it is never donated
        return array

    def __jax_array__(self) -> Any:
        return self.jax

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """A NumPy array: a copy, or with ``copy=False`` a read-only look at the host's memory."""
        wanted = None if dtype is None else np.dtype(dtype)
        if copy is not False:
            host = self.asnumpy()  # type: ignore[attr-defined]
            return host if wanted in (None, host.dtype) else host.astype(wanted)
        v = self._value()
        on_host = getattr(v.aval.device, "platform", "") == "cpu"
        if not on_host or wanted not in (None, v.aval.dtype):
            raise errors.MXNetValueError(
                f"an array of {v.aval.dtype} on {v.aval.device} cannot be seen as a NumPy array of "
                f"{wanted or v.aval.dtype} without a copy: use x.asnumpy()"
            )
        return np.asarray(self.jax)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The numbers for Pillow (``Image.fromarray``), in memory of their own.

        NumPy, which would take them before it asks `__array__`, does not get them: that one knows of copies and dtypes.

        Raises ``AttributeError`` for others than Pillow.
        """
        if not sys._getframe(1).f_globals.get("__name__", "").startswith("PIL."):
            raise AttributeError(
                "NumPy's array interface is for Pillow alone: np.asarray(x) or x.asnumpy() otherwise"
            )
        host = self.asnumpy()  # type: ignore[attr-defined]
        return {**host.__array_interface__, "data": host, "strides": host.strides}

    def to_numpy(self) -> np.ndarray:
        """A NumPy copy, by the name that Matplotlib, seaborn and scikit-learn ask for.

        Without it ``plt.hist(x)`` takes each element as a data set of its own: 10,000 of them for minutes.
        """
        return self.asnumpy()  # type: ignore[attr-defined, no-any-return]

    def tobytes(self, order: str = "C") -> bytes:
        """The elements' bytes, in C's order or in Fortran's (``order="F"``)."""
        return self.asnumpy().tobytes(order)  # type: ignore[attr-defined, no-any-return]

    # ---- DLPack ----------------------------------------------------------------------------------

    def __dlpack__(self, **kwargs: Any) -> Any:
        """A DLPack capsule of the array's own memory, to be read: others may lie on it (`to_dlpack_for_write`)."""
        from .lent import only_read

        return only_read(self.jax.__dlpack__(**kwargs))

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.jax.__dlpack_device__()  # type: ignore[no-any-return]

    def to_dlpack_for_read(self) -> Any:
        """A DLPack capsule, to be read by another library."""
        return self.__dlpack__()

    def to_dlpack_for_write(self) -> Any:
        """A DLPack capsule; what the other library writes through it is seen here, and what is written here there.

        On a CPU the array moves to memory of its own, which nobody else's numbers lie on. Elsewhere, and of dtypes
        that NumPy or DLPack lack, the capsule is that of `to_dlpack_for_read`.
        """
        from .lent import given_away

        memory = given_away(self)
        return self.__dlpack__() if memory is None else memory.__dlpack__()


#: The releases of the array API standard that MXNet takes: drafts and release of 2021.
_VERSIONS = tuple([f"2021.{month:02}" for month in range(1, 13)])


class NumpyDispatch(Handle):
    """NumPy's functions on arrays of ``mx.np`` are ``mx.np``'s functions of the same name."""

    __slots__ = ()

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        """``mx.np``, which has the entry points of the array API standard of 2021.

        Raises ``ValueError`` for another version of the standard.
        """
        if api_version is not None and api_version not in _VERSIONS:
            raise errors.MXNetValueError(
                f"Unrecognized array API version: {api_version!r}; {', '.join(_VERSIONS)} are there"
            )
        return importlib.import_module("mxjax.np")

    def __array_function__(
        self, func: Callable[..., Any], types: Any, args: Any, kwargs: dict[str, Any]
    ) -> Any:
        ours = _counterpart(func.__module__ or "numpy", func.__name__)
        of_objects = func is np.broadcast_arrays and any(
            a is None for a in args
        )  # of None NumPy makes arrays
        if ours is not None and not of_objects:
            try:
                return ours(*args, **kwargs)
            except TypeError as error:  # an argument that only NumPy's has
                if "unexpected keyword argument" not in str(error):
                    raise
        _refuse_taped(func.__name__, (args, kwargs))
        stats.numpy_fallbacks += 1
        return _handed(func(*_plain(args), **_plain(kwargs)))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.get("out")
        ours = _counterpart("numpy", ufunc.__name__) if method == "__call__" else None
        theirs = out is not None and any(not isinstance(o, Handle) for o in out)
        if ours is None or theirs or set(kwargs) - {"out"}:
            _refuse_taped(ufunc.__name__, inputs)
            stats.numpy_fallbacks += 1
            kwargs = {k: v for k, v in kwargs.items() if k != "out"}
            made = getattr(ufunc, method)(*_plain(inputs), **_plain(kwargs))
            return _handed(made) if out is None else _into(out, made)
        if out is not None:
            kwargs["out"] = out[0]
        return ours(*inputs, **kwargs)


def _counterpart(module: str, name: str) -> Any:
    """The function of mx.np that stands for one of NumPy's."""
    here = "mxjax.np"
    for part in module.split(".")[1:]:
        if part in ("linalg", "random", "fft"):
            here = f"{here}.{part}"
    try:
        found = getattr(importlib.import_module(here), name, None)
    except ModuleNotFoundError:
        return None
    return found if callable(found) and not isinstance(found, np.ufunc) else None


def _refuse_taped(name: str, arguments: Any) -> None:
    if local.st.taping and any(a._value().tape is not None for a in _arrays(arguments)):
        raise errors.MXNetError(
            f"numpy.{name} has no counterpart in mx.np, so it runs on the host and has no "
            "gradient: "
            "call it inside autograd.pause(), or on x.detach()"
        )


def _arrays(tree: Any) -> list[Handle]:
    if isinstance(tree, Handle):
        return [tree]
    if isinstance(tree, dict):
        tree = tree.values()
    elif not isinstance(tree, (list, tuple)):
        return []
    return [a for t in tree for a in _arrays(t)]


def _plain(tree: Any) -> Any:
    """Arguments with NumPy arrays in the place of ours."""
    if isinstance(tree, Handle):
        return tree.asnumpy()  # type: ignore[attr-defined]
    if isinstance(tree, (list, tuple)):
        return type(tree)(_plain(t) for t in tree)
    if isinstance(tree, dict):
        return {k: _plain(v) for k, v in tree.items()}
    return tree


def _handed(made: Any) -> Any:
    """What NumPy computed for us: its arrays, also in lists and tuples, as ours, where these have the dtype."""
    if isinstance(made, np.ndarray) and made.dtype.kind in "biuf":
        from .creation import array

        return array(made, dtype=made.dtype)
    if isinstance(made, (list, tuple)):
        parts = [_handed(m) for m in made]
        return made._make(parts) if hasattr(made, "_make") else type(made)(parts)
    return made


def _into(out: tuple[Any, ...], made: Any) -> Any:
    """Store NumPy's results in the arrays given as ``out``."""
    results = made if isinstance(made, tuple) else (made,)
    for o, r in zip(out, results, strict=True):
        o[...] = r
    return out[0] if len(out) == 1 else out
