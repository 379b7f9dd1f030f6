"""Functions of mx.np that are more than a row: their arguments need sorting out, they read their input, or
they give Python values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as _np

from .. import errors
from ..array.classes import ndarray
from ..array.creation import array
from ..array.invoke import call
from ..array.lent import may_share as _may_share
from ..array.ndarray import NDArray
from ..array.protocol import default_dtype
from ..core import hooks
from ..modes import generation
from ..ops.elementwise import promoted
from ..ops.table import TABLE
from .fallback import flat, host, ours, refuse_taped

__all__ = [
    "allclose",
    "apply_along_axis",
    "array_equal",
    "array_equiv",
    "bincount",
    "choose",
    "count_nonzero",
    "einsum",
    "flatnonzero",
    "full",
    "indices",
    "linspace",
    "may_share_memory",
    "ndim",
    "nonzero",
    "piecewise",
    "result_type",
    "select",
    "shape",
    "shares_memory",
    "size",
    "sometrue",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unravel_index",
    "where",
]


def _row(name: str, *args: Any, **kwargs: Any) -> Any:
    return call(TABLE[name], ndarray, args, kwargs)


def full(
    shape: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "C",
    device: Any = None,
    out: Any = None,
    ctx: Any = None,
) -> ndarray:
    """An array of one number: int64 (in MXNet 1.9 float32), float32 or bool as that is, unless ``dtype`` is given.

    Args:
      shape: the shape of the result.
      fill_value: the number.
      dtype: the dtype of the result.
      order: only "C".
      device: where the result lies; the current device if it is left out.
      out: an array that the result is written into, and that is given back.
      ctx: MXNet 1's name of `device`.

    Returns:
      ndarray or Symbol: of this shape, in `dtype` or that of the number.

    >>> from mxjax import np
    >>> np.full((2,), 7)
    array([7, 7], dtype=int64)
    """
    if isinstance(fill_value, NDArray):
        made = fill_value if dtype is None else fill_value.astype(dtype)
        return _row("broadcast_to", made, shape=shape, out=out)
    if dtype is None and default_dtype[0].itemsize == 8 and isinstance(fill_value, float):
        dtype = "float64"
    if dtype is None and generation() == 1 and not isinstance(fill_value, bool):
        dtype = default_dtype[0]
    return _row(
        "full", shape=shape, fill_value=fill_value, dtype=dtype, device=device or ctx, out=out
    )


def indices(
    dimensions: Any, dtype: Any = None, device: Any = None, ctx: Any = None, out: Any = None
) -> ndarray:
    """The indices of a grid: int64 (in MXNet 1.9 int32) unless ``dtype`` is given.

    Args:
      dimensions: the shape of the grid.
      dtype: the dtype of the result.
      device: where the result lies; the current device if it is left out.
      ctx: MXNet 1's name of `device`.
      out: an array that the result is written into, and that is given back.

    Returns:
      ndarray: for each axis the indices along it, of shape ``(len(dimensions), *dimensions)``.

    >>> from mxjax import np
    >>> np.indices((2, 2)).tolist()
    [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    """
    if dtype is None and generation() == 1:
        dtype = "int32"
    return _row("indices", dimensions=dimensions, dtype=dtype, device=device or ctx, out=out)


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    device: Any = None,
    ctx: Any = None,
) -> Any:
    """``num`` evenly spaced numbers, float32 unless ``dtype`` is given; ``retstep`` adds the distance.

    Args:
      start: the first number.
      stop: the end, which is not among the numbers (linspace: the last number).
      num: how many numbers.
      endpoint: whether the last number is `stop`.
      retstep: whether the distance of the numbers is given, too.
      dtype: the dtype of the result.
      axis: where the axis of the numbers stands, if ends are arrays.
      device: where the result lies; the current device if it is left out.
      ctx: MXNet 1's name of `device`.

    Returns:
      ndarray or Symbol: `num` numbers; with `retstep` a pair with their distance.
    """
    if isinstance(start, NDArray) or isinstance(stop, NDArray):
        start = start if isinstance(start, NDArray) else array(start)
        stop = stop if isinstance(stop, NDArray) else array(stop)
        made = _row(
            "linspace_between", start, stop, num=num, endpoint=endpoint, dtype=dtype, axis=axis
        )
    else:
        where = device or ctx
        made = _row(
            "linspace",
            start=start,
            stop=stop,
            num=num,
            endpoint=endpoint,
            dtype=dtype,
            device=where,
        )
    if retstep:
        return made, (stop - start) / max(num - 1 if endpoint else num, 1)
    return made


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """x where the condition holds, y elsewhere; without them the indices where it holds.

    Args:
      condition: where it holds.
      x: what is taken where the condition holds.
      y: what is taken elsewhere.

    Returns:
      ndarray: of the shape to which all broadcast; without x and y a tuple of the places; x or y itself where the
      condition is a number, as in MXNet.
    """
    if x is None and y is None:
        return nonzero(condition)
    if x is None or y is None:
        raise errors.MXNetValueError("where takes both x and y, or neither")
    if isinstance(condition, (bool, int, float, _np.generic)):
        return x if condition else y
    return _row("where", condition, x, y)


def einsum(subscripts: str, *operands: Any, optimize: Any = False, out: Any = None) -> ndarray:
    """Einstein's summation: ``einsum('ij,jk->ik', a, b)``.

    Args:
      subscripts: which axes are summed, as in "ij,jk->ik".
      optimize: taken for compatibility: the order of products is chosen.
      out: an array that the result is written into, and that is given back.

    Returns:
      ndarray: of the shape that the subscripts say.
    """
    if not isinstance(subscripts, str):
        raise errors.MXNetTypeError(
            f"einsum takes its subscripts as a string first, got {type(subscripts)}"
        )
    return _row("einsum", *operands, subscripts=subscripts, out=out)


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: float = 0) -> ndarray:
    """For each element the choice of the first condition that holds.

    Args:
      condlist: the conditions, a list of arrays of bools.
      choicelist: for each condition what is taken where it holds.
      default: what is given where no condition holds.

    Returns:
      ndarray: of the shape to which all broadcast.
    """
    if len(condlist) != len(choicelist):
        raise errors.MXNetValueError(
            f"select needs one choice for each condition, got {len(condlist)} and {len(choicelist)}"
        )
    return _row("select", *condlist, *choicelist, default=default)


def choose(a: Any, choices: Sequence[Any], out: Any = None, mode: str = "raise") -> ndarray:
    """choices[a[k]][k] for each k.

    Args:
      a: which of the choices is taken, from 0.
      choices: the arrays that are chosen from.
      out: an array that the result is written into, and that is given back.
      mode: what becomes of numbers out of range: "raise", "wrap" or "clip".

    Returns:
      ndarray: of the shape to which the index and the choices broadcast.
    """
    return _row("choose_rows", a, *choices, mode=mode, out=out)


def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Any, ...]:
    """Coordinates of flat indices, one array for each axis.

    Raises ``ValueError`` for a number that is no index into an array of this shape.

    Args:
      indices: the places in the flat array.
      shape: the shape of the array.
      order: only "C".

    Returns:
      tuple of ndarray: the coordinates, one array for each axis, int64.
    """
    if isinstance(indices, (int, _np.integer)):
        return tuple(_np.unravel_index(int(indices), shape, "C" if order == "C" else "F"))
    made = _row("unravel_index", indices, shape=shape, order=order)
    return tuple(made) if isinstance(made, list) else (made,)


def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """How many elements are not zero: a Python int, or an array of them along an axis.

    Args:
      a: the input.
      axis: the axis, or axes; all without.
      keepdims: whether reduced axes stay, with length 1.

    Returns:
      int or ndarray: how many elements are not 0, without the axis.
    """
    made = _row("count_nonzero", a, axis=axis, keepdims=keepdims)
    return made if axis is not None or keepdims else int(made.item())


def sometrue(a: Any, axis: Any = None, keepdims: bool = False, out: Any = None) -> Any:
    """Whether any element is not zero, of all or along axes: `any`, with its parameters in another order.

    Args:
      a: the input.
      axis: the axis, or axes; all without.
      keepdims: whether reduced axes stay, with length 1.
      out: an array that the result is written into, and that is given back.

    Returns:
      ndarray: bool, without the axis.
    """
    return _row("any", a, axis=axis, keepdims=keepdims, out=out)


# ---------------------------------------------------------------- shapes that depend on the numbers


def nonzero(a: Any) -> tuple[Any, ...]:
    """The indices of the elements that are not zero, an int64 array for each axis.

    Args:
      a: the input.

    Returns:
      tuple of ndarray (of mx.npx: an array, a row for each element): the places, int64.
    """
    if hooks.call_listeners and isinstance(a, NDArray) and a.ndim:
        rows = where_nonzero(a)
        return tuple([rows[:, axis] for axis in range(a.ndim)])
    return flat(tuple(ours(x) for x in _np.nonzero(_np.atleast_1d(host(a)))), a)  # type: ignore[no-any-return]


def where_nonzero(a: Any) -> Any:
    """The indices of the elements that are not zero, as rows of an int64 array."""
    return _found(_np.argwhere(_np.atleast_1d(host(a))), a, "_npx_nonzero")


def flatnonzero(a: Any) -> Any:
    """The places of the elements of the flat array that are not zero, int64.

    Args:
      a: the input.

    Returns:
      ndarray: the places in the flat array, int64.
    """
    return _found(_np.flatnonzero(host(a)), a, "_npi_flatnonzero")


def _found(positions: Any, a: Any, registry: str) -> Any:
    """Positions on the host as an array; deferred computation sees the operator that gives them."""
    made = array(positions, dtype="int64")
    if hooks.call_listeners and isinstance(a, NDArray):
        return _row("_found", made, a, registry=registry)
    return flat(made, a)


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
) -> Any:
    """The sorted distinct elements; if asked also where they are first, how they make the array, how many.

    Args:
      ar: the input.
      return_index: whether the places of the first occurrences are given, too.
      return_inverse: whether the places that make the input again are given, too.
      return_counts: whether the numbers of occurrences are given, too.
      axis: the axis whose slices are compared; the elements without.

    Returns:
      ndarray, or a tuple of them: the sorted elements, and what else was asked for.
    """
    given = host(ar)
    made: Any = _np.unique(given, return_index, return_inverse, return_counts, axis)  # type: ignore[call-overload]
    if return_inverse:
        k = 1 + int(return_index)
        made = (*made[:k], made[k].reshape(-1), *made[k + 1 :])
    return flat(ours(made), ar)


class UniqueAll(NamedTuple):
    """What `unique_all` gives."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """What `unique_inverse` gives."""

    values: Any
    inverse_indices: Any


class UniqueCounts(NamedTuple):
    """What `unique_counts` gives."""

    values: Any
    counts: Any


def unique_all(x: Any) -> UniqueAll:
    """(values, first indices, inverse indices, counts).

    Args:
      x: the input.

    Returns:
      named tuple of ndarray: values, indices, inverse_indices, counts.
    """
    return UniqueAll(*unique(x, True, True, True))


def unique_inverse(x: Any) -> UniqueInverse:
    """(values, inverse indices).

    Args:
      x: the input.

    Returns:
      named tuple of ndarray: values, inverse_indices.
    """
    return UniqueInverse(*unique(x, return_inverse=True))


def unique_counts(x: Any) -> UniqueCounts:
    """(values, counts).

    Args:
      x: the input.

    Returns:
      named tuple of ndarray: values, counts.
    """
    return UniqueCounts(*unique(x, return_counts=True))


def unique_values(x: Any) -> Any:
    """The sorted distinct elements.

    Args:
      x: the input.

    Returns:
      ndarray: the sorted elements.
    """
    return unique(x)


def bincount(x: Any, weights: Any = None, minlength: int = 0) -> ndarray:
    """How often each number occurs, in the dtype of the numbers; with ``weights`` their sums.

    Args:
      x: the input.
      weights: what each number counts; 1 without.
      minlength: the smallest number of counts.

    Returns:
      ndarray: how often each number occurs, int64, or the sums of weights.
    """
    given, w = host(x), host(weights)
    try:
        made = _np.bincount(given.astype("int64"), w, minlength)
    except ValueError as error:
        raise errors.like(error, f"np.bincount: {error}") from None
    return flat(ours(made.astype(given.dtype if w is None else w.dtype)), x, weights)  # type: ignore[no-any-return]


# ------------------------------------------------------------------------------- Python's values


def result_type(*arrays_and_dtypes: Any) -> _np.dtype:
    """The dtype in which arrays and dtypes meet: of a float and an integer it is the float's, however wide these are.

    Raises ``TypeError`` for uint64 beside signed integers, which share none in MXNet.

    Returns:
      numpy.dtype: the dtype in which all meet.
    """
    if not arrays_and_dtypes:
        raise errors.MXNetValueError("result_type: at least one array or dtype is required")
    found: Any = None
    for given in arrays_and_dtypes:
        if not isinstance(given, (NDArray, _np.ndarray, _np.dtype)):
            raise errors.MXNetValueError(
                f"Inputs of result_type must be ndarrays or dtypes, got {given!r}"
            )
        dtype = _np.dtype(given if isinstance(given, _np.dtype) else given.dtype)
        try:
            found = dtype if found is None else promoted(found, dtype)
        except TypeError as error:
            raise errors.MXNetTypeError(f"result_type: {error}") from None
    return found  # type: ignore[no-any-return]


def shape(a: Any) -> tuple[int, ...]:
    """The shape.

    Args:
      a: the input.

    Returns:
      tuple of int: the lengths of the axes.
    """
    return a.shape if hasattr(a, "shape") else _np.shape(a)


def ndim(a: Any) -> int:
    """The number of axes.

    Args:
      a: the input.

    Returns:
      int: the number of axes.
    """
    return len(shape(a))


def size(a: Any, axis: int | None = None) -> int:
    """The number of elements, or the length of an axis.

    Args:
      a: the input.
      axis: the axis, or axes; all without.

    Returns:
      int: the number of elements, or the length of the axis.
    """
    dims = shape(a)
    return int(_np.prod(dims)) if axis is None else dims[axis]


def allclose(
    a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether all elements agree within ``atol + rtol * |b|``.

    Args:
      a: the input.
      b: the second input.
      rtol: the difference that is allowed for each unit of size.
      atol: the difference that is always allowed.
      equal_nan: whether NaN equals NaN.

    Returns:
      bool: whether all elements agree.
    """
    return bool(_np.allclose(host(a), host(b), rtol, atol, equal_nan))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Whether two arrays have the same shape and elements.

    Args:
      a1: the first array.
      a2: the second array.
      equal_nan: whether NaN equals NaN.

    Returns:
      bool: whether shapes and elements are equal.
    """
    return bool(_np.array_equal(host(a1), host(a2), equal_nan))


def array_equiv(a1: Any, a2: Any) -> bool:
    """Whether two arrays are equal once repeated to a common shape.

    Args:
      a1: the first array.
      a2: the second array.

    Returns:
      bool: whether they are equal once they are broadcast.
    """
    return bool(_np.array_equiv(host(a1), host(a2)))


def may_share_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """Whether writing to one array, of ours or NumPy's, could be seen in the other.

    Args:
      a: the input.
      b: the second input.
      max_work: taken for compatibility.

    Returns:
      bool: whether they may lie on the same memory.
    """
    return _may_share(a, b)


shares_memory = may_share_memory


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any
) -> Any:
    """``func1d`` of each vector along an axis, a NumPy array as in MXNet.

    Args:
      func1d: the function of a vector.
      axis: the axis of the vectors.
      arr: the input.

    Returns:
      ndarray: the results, in place of the axis.
    """

    refuse_taped("apply_along_axis", arr, args)

    def one(vector: Any) -> Any:
        return host(func1d(vector, *args, **kwargs))

    return ours(_np.apply_along_axis(one, axis, host(arr)))


def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """A function given by pieces: where a condition holds, its function (or number) counts.

    Args:
      x: the input.
      condlist: the conditions, a list of arrays of bools.
      funclist: for each condition the function, or number; one more is for where none holds.

    Returns:
      ndarray: of the shape and dtype of `x`.
    """
    if (
        isinstance(condlist, (NDArray, _np.ndarray)) and condlist.ndim > x.ndim
    ):  # one condition behind the other
        condlist = list(condlist)
    conds = [
        c.astype("bool") for c in (condlist if isinstance(condlist, (list, tuple)) else [condlist])
    ]
    pieces = list(funclist)
    values = [p(x, *args, **kw) if callable(p) else x * 0 + p for p in pieces]
    out = values.pop() if len(pieces) == len(conds) + 1 else x * 0
    for c, v in zip(conds, values, strict=True):
        out = where(c, v, out)
    return out
