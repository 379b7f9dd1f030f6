"""Arrays from other objects."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from .. import errors, settings
from ..core import default_device, record_on
from ..ops.table import TABLE
from . import lent
from .classes import ndarray
from .handle import Handle, numbers, on_device, to_value
from .ndarray import NDArray, element_type, place
from .protocol import default_dtype


def array(object: Any, dtype: Any = None, device: Any = None, ctx: Any = None) -> ndarray:
    """A new array from nested lists, numbers, NumPy arrays or other arrays.

    ``dtype`` defaults to float32 whatever NumPy's would be, except that an array of ours or of JAX
    and a single NumPy scalar keep theirs, and NumPy's arrays as well under MXNet 1.9 and where
    ``npx.set_np(dtype=True)`` asks for NumPy's dtypes.
    It goes to ``device`` (``ctx`` is the same), by default
    the current one. Raises ``TypeError`` for what is no rectangle of numbers.

    Args:
      object: nested lists, numbers, or an array.
      dtype: the dtype of the result.
      device: where the result lies; the current device if it is left out.
      ctx: MXNet 1's name of `device`.

    Returns:
      ndarray (of mx.nd: NDArray): the new array.

    >>> import mxjax as mx
    >>> mx.np.array([[1, 2], [3, 4]]).dtype
    dtype('float32')
    """
    return _make(ndarray, object, dtype, device or ctx)


def asarray(obj: Any, dtype: Any = None, device: Any = None, copy: bool | None = None) -> ndarray:
    """The array itself if it is one of that dtype already, otherwise a new one as :func:`array`
    makes it.

    Args:
      obj: an array of another library, or what an array is made of.
      device: where the result lies; the current device if it is left out.
      copy: whether there is a copy in any case.

    Returns:
      ndarray: the array itself, or a new one.
    """
    if isinstance(obj, ndarray) and not copy:
        same = dtype is None or element_type(dtype) == obj.dtype
        if same and (device is None or place(device) is obj._value().aval.device):
            return obj
    return _make(ndarray, obj, dtype, device)


def nd_array(source_array: Any, ctx: Any = None, dtype: Any = None, device: Any = None) -> NDArray:
    """A new nd array from nested lists, NumPy arrays or other arrays; float32 unless ``dtype`` is
    given.

    Arrays of ours keep their dtype.

    Args:
      source_array: nested lists, numbers, or an array.
      ctx: MXNet 1's name of `device`.
      dtype: the dtype of the result.
      device: where the result lies; the current device if it is left out.

    Returns:
      ndarray (of mx.nd: NDArray): the new array.

    >>> import mxjax as mx
    >>> mx.nd.array([1, 2]).shape
    (2,)
    """
    if getattr(source_array, "stype", "default") != "default" or hasattr(source_array, "nnz"):
        from .sparse.creation import of_sparse

        return of_sparse(source_array, device or ctx, dtype)
    return _make(NDArray, source_array, dtype, device or ctx)


def _make(cls: type[NDArray], obj: Any, dtype: Any, device: Any) -> Any:
    if isinstance(obj, NDArray):
        made = cls._wrap(obj.copy()._value())
        made = made if dtype is None else made.astype(dtype)
        return made if device is None else made.to_device(device)
    if dtype is None:
        keeps = _version() == "1.9" or default_dtype[0] == np.float64  # `npx.set_np(dtype=True)`
        kept = _KEPT_WITH_NUMPYS if keeps else _KEPT
        dtype = obj.dtype if cls is ndarray and isinstance(obj, kept) else default_dtype[0]
    elif dtype is float:
        dtype = default_dtype[0]
    elif type(dtype) is not np.dtype:
        dtype = element_type(dtype)
    if isinstance(obj, jax.Array):
        made = cls._wrap(to_value(obj, dtype=dtype))
        return made if device is None else made.to_device(device)
    target = default_device() if device is None else place(device)
    if type(obj) is np.ndarray and obj.dtype.kind in "biuf":
        # A copy: the caller may change the NumPy array afterwards while XLA still reads it.
        if obj.dtype == dtype:
            return cls._wrap(on_device(copied(obj), target))
        with np.errstate(invalid="ignore"):
            return cls._wrap(on_device(obj.astype(dtype, order="C"), target))
    return cls._wrap(on_device(numbers(obj, dtype), target))


_version = settings.snapshot("compat.version")
_KEPT = (np.generic, jax.Array)  # whose dtype an array of mx.np keeps
_KEPT_WITH_NUMPYS = (*_KEPT, np.ndarray)
_threshold = settings.snapshot("data.copy_threshold")
_threads = settings.snapshot("engine.copy_threads")
#: From so many elements on several threads copy, where only their number is given: MXNet's default.
_LARGE = 200_000


def copied(array: np.ndarray) -> np.ndarray:
    """A copy in C order; of a large array several threads copy a part each."""
    threshold, threads = _threshold(), _threads()
    if threshold is None and threads is not None:
        threshold = _LARGE
    if threshold is None or array.size < threshold:
        return array.copy(order="C")
    from .copying import in_parts

    return in_parts(array, threads or 2)


def empty(
    shape: int | tuple[int, ...],
    dtype: Any = None,
    order: str = "C",
    device: Any = None,
    ctx: Any = None,
) -> ndarray:
    """A new array without given contents (they are zeros); float32 unless ``dtype`` is given.

    Args:
      shape: the shape of the result.
      dtype: the dtype of the result.
      order: only "C".
      device: where the result lies; the current device if it is left out.
      ctx: MXNet 1's name of `device`.

    Returns:
      ndarray (of mx.nd: NDArray): of this shape; its numbers are zeros.
    """
    return _empty(ndarray, shape, dtype, order, device or ctx)


def nd_empty(
    shape: int | tuple[int, ...], ctx: Any = None, dtype: Any = None, stype: str | None = None
) -> NDArray:
    """A new nd array without given contents (they are zeros); float32 unless ``dtype`` is given.

    Args:
      shape: the shape of the result.
      ctx: MXNet 1's name of `device`.
      dtype: the dtype of the result.
      stype: the storage type.

    Returns:
      ndarray (of mx.nd: NDArray): of this shape; its numbers are zeros.
    """
    if stype not in (None, "default"):
        from .sparse import nothing, wrap

        dims = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        kind = default_dtype[0] if dtype is None else element_type(dtype)
        return wrap(nothing(stype, dims, kind, default_device() if ctx is None else place(ctx)))
    return _empty(NDArray, shape, dtype, "C", ctx)


def _empty(cls: type[NDArray], shape: Any, dtype: Any, order: str, device: Any) -> Any:
    if order != "C":
        raise errors.MXNetNotImplementedError(f"only order='C' is there, got order={order!r}")
    dims = (
        tuple(int(n) for n in shape)
        if isinstance(shape, (tuple, list, np.ndarray))
        else (int(shape),)
    )
    if any(n < 0 for n in dims):
        raise errors.MXNetValueError(f"an array of shape {dims} cannot be: lengths are at least 0")
    kind = default_dtype[0] if dtype is None else element_type(dtype)
    call = TABLE["_zeros"].bind((("dtype", kind.name), ("shape", dims)))
    return cls._wrap(record_on(default_device() if device is None else place(device), call)[0])


def from_jax(array: Any) -> ndarray:
    """An array on a ``jax.Array`` (or a tracer), without a copy; the buffer is never overwritten.

    Args:
      array: the array of JAX.

    Returns:
      ndarray (of mx.nd: NDArray): with the same numbers, on the same memory.

    >>> import jax.numpy as jnp, mxjax as mx
    >>> mx.np.from_jax(jnp.arange(3.0)) + 1
    array([1., 2., 3.])
    """
    return _from_jax(ndarray, array)


def nd_from_jax(array: Any) -> NDArray:
    """:func:`from_jax` for nd.

    Args:
      array: the array of JAX.

    Returns:
      ndarray (of mx.nd: NDArray): with the same numbers, on the same memory.
    """
    return _from_jax(NDArray, array)


def _from_jax(cls: type[NDArray], array: Any) -> Any:
    if not isinstance(array, jax.Array):
        raise errors.MXNetTypeError(
            f"from_jax takes a jax.Array, got {type(array).__name__}; mx.np.array takes anything "
            "array-like"
        )
    return cls._wrap(to_value(array))


def from_dlpack(x: Any) -> ndarray:
    """An array on the memory of another library's array (anything with ``__dlpack__``) or of a
    DLPack capsule.

    The memory is shared: what the other library writes is seen here, and on a CPU what is written here there, but for
    memory that is to be read alone (JAX's).

    Args:
      x: the array or the capsule.

    Returns:
      ndarray (of mx.nd: NDArray): on the same memory.
    """
    return lent.from_dlpack(ndarray, x)  # type: ignore[no-any-return]


def nd_from_dlpack(dlpack: Any) -> NDArray:
    """:func:`from_dlpack` for nd.

    Args:
      dlpack: the capsule, or an array that has one.

    Returns:
      ndarray (of mx.nd: NDArray): on the same memory.
    """
    return lent.from_dlpack(NDArray, dlpack)  # type: ignore[no-any-return]


def from_numpy(ndarray: np.ndarray, zero_copy: bool = True) -> Any:
    """An array of the NumPy array's dtype; ``zero_copy`` shares its memory where the device can
    read it: what is written to this array is seen in NumPy's.

    A shared NumPy array becomes read-only, as in MXNet. Raises ``ValueError`` for one that is not
    C-contiguous.

    Args:
      ndarray: the array of NumPy.
      zero_copy: whether the memory is shared: the NumPy array must not be changed any more then.

    Returns:
      ndarray (of mx.nd: NDArray): with the same numbers, on the same memory with `zero_copy`.
    """
    from .classes import ndarray as cls

    return _from_numpy(cls, ndarray, zero_copy)


def nd_from_numpy(
    ndarray: np.ndarray, zero_copy: bool = True, array_cls: type[NDArray] = NDArray
) -> Any:
    """:func:`from_numpy` for nd.

    Args:
      ndarray: the array of NumPy.
      zero_copy: whether the memory is shared: the NumPy array must not be changed any more then.
      array_cls: the class of the result, `mx.nd.NDArray` or `mx.np.ndarray`.

    Returns:
      ndarray (of mx.nd: NDArray): with the same numbers, on the same memory with `zero_copy`.
    """
    return _from_numpy(array_cls, ndarray, zero_copy)


def _from_numpy(cls: type[NDArray], host: np.ndarray, zero_copy: bool) -> Any:
    if not isinstance(host, np.ndarray):
        raise errors.MXNetTypeError(f"from_numpy takes a numpy.ndarray, got {type(host).__name__}")
    if not zero_copy:
        return cls._wrap(to_value(host))
    if not host.flags["C_CONTIGUOUS"]:
        raise errors.MXNetValueError(
            "Only c-contiguous arrays are supported for zero-copy: give "
            "numpy.ascontiguousarray(x), or zero_copy=False"
        )
    device = default_device()
    if getattr(device, "platform", "") != "cpu" or not (
        host.flags["WRITEABLE"] or host.flags["OWNDATA"]
    ):
        return cls._wrap(to_value(host))
    host.flags["WRITEABLE"] = True  # one that was shared before
    memory = host.view()  # which stays writable
    made = lent.lent(cls, memory, device)
    host.flags["WRITEABLE"] = False
    return made


def to_dlpack_for_read(data: Handle) -> Any:
    """A DLPack capsule of an array's memory, for another library to read.

    Args:
      data: the array.

    Returns:
      PyCapsule: the array's memory.
    """
    return data.to_dlpack_for_read()  # type: ignore[attr-defined]


def to_dlpack_for_write(data: Handle) -> Any:
    """A DLPack capsule of an array's memory; what others write is seen here, and what is written here there.

    Args:
      data: the array.

    Returns:
      PyCapsule: the array's memory.
    """
    return data.to_dlpack_for_write()  # type: ignore[attr-defined]
