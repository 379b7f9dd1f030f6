"""NumPy's own functions, run on the host: for what has no row, because its result's shape depends on the
numbers or because nobody needs it fast. The arrays are read, the results are arrays of ours."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import errors
from ..array.classes import ndarray
from ..array.creation import array
from ..array.invoke import call
from ..array.ndarray import NDArray
from ..core import record1
from ..core.calls.state import local
from ..core.graph.tape import attach_python
from ..core.stats import stats
from ..ops.table import TABLE

# Functions that give arrays, under NumPy's names.
ARRAYS = """apply_over_axes histogram histogram2d histogram_bin_edges histogramdd intersect1d
packbits unpackbits poly polyadd polydiv polyfit polyint polymul polysub roots setdiff1d setxor1d trim_zeros
union1d compress extract ix_ diag_indices_from tril_indices_from triu_indices_from genfromtxt argwhere""".split()
# Functions that give Python objects.
OBJECTS = """can_cast promote_types min_scalar_type finfo iinfo set_printoptions""".split()

# What MXNet leaves to NumPy, rows here or not; `__all__` has those that are here.
LEFT = """allclose alltrue apply_along_axis apply_over_axes argpartition argwhere array_equal array_equiv choose
compress corrcoef correlate count_nonzero cov cumprod digitize divmod dtype extract float_power frexp
heaviside histogram2d histogram_bin_edges histogramdd i0 in1d intersect1d isclose isin ix_ lexsort
min_scalar_type modf msort nanargmax nanargmin nancumprod nancumsum nanmax nanmedian nanmin nanpercentile
nanprod nanquantile nanstd nansum nanvar ndim packbits partition piecewise poly polyadd polydiv polyfit
polyint polymul polysub positive promote_types ptp real roots searchsorted select setdiff1d setxor1d signbit
size spacing take_along_axis trapz tril_indices_from trim_zeros union1d unpackbits unwrap vander""".split()


def host(value: Any) -> Any:
    """Arrays (also inside lists and tuples) as NumPy's."""
    if isinstance(value, NDArray):
        return value.asnumpy()
    if isinstance(value, (list, tuple)) and any(
        isinstance(v, (NDArray, list, tuple)) for v in value
    ):
        return type(value)(host(v) for v in value)
    return value


def ours(value: Any) -> Any:
    """NumPy's arrays (also inside lists and tuples) as arrays of their dtype."""
    if isinstance(value, (np.ndarray, np.generic)) and (
        value.dtype.kind in "biuf" or value.dtype.name == "bfloat16"
    ):
        return array(value, dtype=value.dtype)
    if isinstance(value, list):
        return [ours(v) for v in value]
    if isinstance(value, tuple):
        return tuple(ours(v) for v in value)
    return value


def flat(made: Any, *given: Any) -> Any:
    """Results of numbers, with which they do not change: their gradient is zeros, as MXNet has it."""
    inputs = [x._value() for x in given if isinstance(x, NDArray)]
    if local.st.taping and any(v.tape is not None for v in inputs):
        outs = [x._value() for x in (made if isinstance(made, tuple) else (made,))]
        zeros = TABLE["_zeros_like"].bind()
        attach_python(inputs, outs, lambda cotangents: [record1(zeros, v) for v in inputs])
    return made


def refuse_taped(name: str, *given: Any) -> None:
    """Raise where autograd records and would lose the gradient in a function of the host."""
    if not local.st.taping:
        return
    for x in given:
        if isinstance(x, (list, tuple)):
            refuse_taped(name, *x)
        elif isinstance(x, NDArray) and x._value().tape is not None:
            raise errors.MXNetValueError(
                f"np.{name} is computed by NumPy on the host and has no gradient, while autograd records: "
                "call it inside autograd.pause(), or on x.detach()"
            )


def on_host(fn: Callable[..., Any], module: str) -> Callable[..., Any]:
    """A NumPy function that takes and gives arrays of ours; where a gradient is asked for it raises."""

    @functools.wraps(fn, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        refuse_taped(fn.__name__, args, tuple(kwargs.values()))
        stats.numpy_fallbacks += 1
        made = ours(fn(*map(host, args), **{k: host(v) for k, v in kwargs.items()}))
        if isinstance(out, ndarray):
            out[...] = made
            return out
        return made

    wrapped.__module__ = module
    wrapped.__doc__ = f"{_OF_NUMPY}\n\n{inspect.cleandoc(fn.__doc__ or '')}"
    return wrapped


#: What the help of NumPy's functions begins with.
_OF_NUMPY = """NumPy's function, computed by NumPy on the host.

It takes and gives arrays of mx.np, with the dtypes that NumPy gives, as in MXNet. It has
no gradient, and raises ValueError where autograd would need one. What follows is NumPy's own help, with examples."""


def _normed(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A histogram of NumPy with `normed` before `weights`, as there was until 1.24: an older word for `density`."""
    known = inspect.signature(fn)
    density = known.parameters.get("density")
    if density is None:
        return fn
    named = [
        density.replace(name="normed") if p is density else p for p in known.parameters.values()
    ]
    signature = known.replace(parameters=[*named, density])

    @functools.wraps(fn, updated=())
    def counted(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        normed = given.pop("normed", None)
        if normed is not None:
            if given.get("density") is not None:
                raise errors.MXNetTypeError(
                    f"{fn.__name__} takes density, or its older name normed, not both"
                )
            given["density"] = normed
        return fn(**given)

    counted.__signature__ = signature  # type: ignore[attr-defined]
    return counted


def _refused_as_ours(fn: Callable[..., Any], *args: Any) -> Any:
    """What a function of NumPy gives; its refusal is an error of MXNet's, too."""
    try:
        return fn(*args)
    except (IndexError, ValueError) as error:
        raise errors.like(error, f"np.{fn.__name__}: {error}") from None


def _delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    """The array without some of its elements, rows or columns; of several, those below 0 or beyond the end are ignored.

    Args:
      arr: the array, of any shape.
      obj: an integer, a slice, or integers: which elements go.
      axis: the axis of these; None: the flat array.

    Returns:
      ndarray: shorter on the axis.

    >>> from mxjax import np
    >>> np.delete(np.array([1, 2, 3]), 1)
    array([1., 3.])
    """
    obj = host(obj)
    size = arr.size if axis is None else arr.shape[axis]
    if not isinstance(obj, (slice, int, np.integer)):
        at = np.asarray(obj)
        obj = at if at.dtype == bool else at[(at >= 0) & (at < size)].astype(np.int64)
    left = _refused_as_ours(np.delete, np.arange(size), obj)
    return call(TABLE["take"], ndarray, (arr, array(left, dtype="int64")), {"axis": axis})


_delete.__name__ = _delete.__qualname__ = "delete"


def _insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """The array with values before some of its elements, rows or columns; their gradients flow.

    Args:
      arr: the array, of any shape.
      obj: an integer, a slice, or integers: before which elements.
      values: a number, or an array that can be repeated to what is put in, as in NumPy.
      axis: the axis of these; None: the flat array.

    Returns:
      ndarray: longer on the axis.

    >>> from mxjax import np
    >>> np.insert(np.array([1, 2]), 1, 9)
    array([1., 9., 2.])
    """
    obj = host(obj)
    arr = arr if isinstance(arr, NDArray) else array(arr)
    new = (
        values.astype(arr.dtype)
        if isinstance(values, NDArray)
        else array(values, dtype=arr.dtype, device=arr.device)
    )
    if axis is None:
        arr, axis = arr.reshape(-1), 0
    axis = axis % arr.ndim
    size = arr.shape[axis]
    places = np.arange(size)[obj] if isinstance(obj, slice) else np.asarray(obj)
    if places.size == 1 and places.dtype != bool:  # how many are put in is for the values to say
        new = new.reshape((1,) * (arr.ndim - new.ndim) + new.shape)
        if places.ndim == 0:
            new = call(TABLE["moveaxis"], ndarray, (new,), {"source": 0, "destination": axis})
        count = new.shape[axis]
    else:
        count = int(places.sum()) if places.dtype == bool else places.size
    shape = tuple([count if d == axis else n for d, n in enumerate(arr.shape)])
    new = call(TABLE["broadcast_to"], ndarray, (new,), {"shape": shape})
    both = call(TABLE["concatenate"], ndarray, ([arr, new],), {"axis": axis})
    order = _refused_as_ours(np.insert, np.arange(size), obj, size + np.arange(count))
    return call(TABLE["take"], ndarray, (both, array(order, dtype="int64")), {"axis": axis})


_insert.__name__ = _insert.__qualname__ = "insert"


def fill(namespace: dict[str, Any]) -> list[str]:
    """Put the functions into a module's namespace; what is there already stays."""
    made = []
    for name in ARRAYS:
        if name not in namespace and hasattr(np, name):
            fn = getattr(np, name)
            fn = _normed(fn) if name.startswith("histogram") else fn
            namespace[name] = on_host(fn, namespace["__name__"])
            made.append(name)
    for function in (_delete, _insert):
        function.__module__ = namespace["__name__"]
        namespace[function.__name__] = function
        made.append(function.__name__)
    for name in OBJECTS:
        if name not in namespace:
            namespace[name] = _plain(getattr(np, name))
            made.append(name)
    return made


def _plain(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if fn in (np.finfo, np.iinfo) and not args and "dtype" in kwargs:
            args = (kwargs.pop("dtype"),)  # NumPy takes iinfo's by position alone
        return fn(*map(host, args), **kwargs)

    return wrapped


def __getattr__(name: str) -> Any:
    """MXNet's module of this name holds the functions that it leaves to NumPy: here they are those of `mx.np`."""
    front = sys.modules[__package__]
    if name == "__all__":
        return [n for n in LEFT if n in front.__all__]
    if name in front.__all__:
        return getattr(front, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
