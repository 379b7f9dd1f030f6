"""Array methods: those that are rows of the table, and those with rules of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import errors
from ..ops.table import FRONT_ENDS, METHODS, Op
from .handle import on_device
from .view import reshaped

if TYPE_CHECKING:
    from .ndarray import NDArray


def install_nd(cls: type[NDArray]) -> None:
    """Give a class the rows that are methods of nd arrays: nd's functions with the array as first argument."""
    for name, op in METHODS["nd"].items():
        _install(cls, name, op)


def install_np(cls: type[NDArray]) -> None:
    """Give a class the rows that are methods of np arrays, those that only nd has in MXNet included."""
    for name, op in METHODS["np"].items():
        _install(cls, name, op)


def _install(cls: type[NDArray], name: str, op: Op) -> None:
    from .frontend import function

    own = (NDMethods,) if cls._legacy else (NDMethods, NPMethods)
    if name not in vars(cls) and not any(name in vars(c) for c in own):
        setattr(cls, name, function(op, name, cls, cls.__module__, method=True))


def row(x: NDArray, name: str, *args: Any, **kwargs: Any) -> Any:
    """Call the row that this kind of array knows under a name."""
    from .invoke import call

    fronts = ("nd", "np", "npx") if x._legacy else ("np", "npx", "nd")
    for front in fronts:
        op = FRONT_ENDS.get(front, {}).get(name)
        if op is not None:
            return call(op, type(x), (x, *args), kwargs)
    raise errors.MXNetAttributeError(f"{type(x).__name__} has no operator {name!r}")


def _numbers(shape: tuple[Any, ...]) -> tuple[int, ...]:
    """The shape out of ``reshape(2, 3)`` or ``reshape((2, 3))``."""
    if len(shape) == 1 and not isinstance(shape[0], (int, np.integer)):
        shape = tuple(shape[0])
    try:
        return tuple(int(n) for n in shape)
    except (TypeError, ValueError):
        raise errors.MXNetTypeError(
            f"a shape is made of integers, as in reshape(2, -1); got {shape!r}"
        ) from None


def _parts(begin: Any, end: Any, step: Any) -> tuple[slice, ...]:
    return tuple(
        [slice(b, e, s) for b, e, s in zip(begin, end, step or (None,) * len(begin), strict=True)]
    )


class NDMethods:
    """Methods of nd arrays with rules of their own."""

    __slots__ = ()

    def reshape(self: Any, *shape: Any, **kwargs: Any) -> Any:
        """The array in another shape, on the same memory.

        In ``shape`` 0 keeps an axis, -1 is inferred, -2 keeps all further axes, -3 joins two and -4
        splits one into the two that follow; ``reverse=True`` reads it from the right.
        """
        reverse = bool(kwargs.pop("reverse", False))
        shape = _numbers(shape or (kwargs.pop("shape"),))
        if kwargs:
            raise errors.MXNetTypeError(f"reshape takes shape and reverse, not {', '.join(kwargs)}")
        return reshaped(self, shape, reverse)

    def transpose(self: Any, *axes: Any, **kwargs: Any) -> Any:
        """The array with its axes in another order: reversed, or as given."""
        axes = kwargs.pop("axes", None) or axes
        if kwargs:
            raise errors.MXNetTypeError(f"transpose takes axes, not {', '.join(kwargs)}")
        if len(axes) == 1 and not isinstance(axes[0], (int, np.integer)):
            axes = axes[0] or ()
        return row(self, "transpose", axes=tuple(axes)) if axes else row(self, "transpose")

    @property
    def T(self: Any) -> Any:  # noqa: N802  (NumPy's name)
        """The array with its axes reversed."""
        return self.transpose()

    def tostype(self: Any, stype: str) -> Any:
        """A copy in a storage type: ``default`` (dense), ``row_sparse``, or ``csr`` of a matrix."""
        from .sparse import cast_storage

        if stype == "csr" and self.ndim != 2:
            raise errors.MXNetValueError(
                f"To convert to a CSR, the NDArray should be 2 Dimensional. Current shape is {self.shape}"
            )
        return cast_storage(self, stype)

    def expand_dims(self: Any, axis: int, inplace: bool = False) -> Any:
        made = row(self, "expand_dims", axis=axis)
        return self.reshape(made.shape) if inplace and self._legacy else made

    def squeeze(self: Any, axis: Any = None, inplace: bool = False) -> Any:
        made = row(self, "squeeze", axis=axis)
        return self.reshape(made.shape) if inplace and self._legacy else made

    def flatten(self: Any, inplace: bool = False) -> Any:
        made = row(self, "flatten")
        return self.reshape(made.shape) if inplace and self._legacy else made

    for _name in (
        "expand_dims",
        "squeeze",
        "flatten",
    ):  # with ``inplace`` a view on the same memory
        vars()[_name].__doc__ = METHODS["nd"][_name].doc
    del _name

    def slice_assign(self: Any, rhs: Any, begin: Any, end: Any, step: Any) -> Any:
        """Write an array to a part of this one, in place."""
        self[_parts(begin, end, step)] = rhs
        return self

    def slice_assign_scalar(self: Any, value: float, begin: Any, end: Any, step: Any) -> Any:
        """Write a number to a part of this array, in place."""
        self[_parts(begin, end, step)] = value
        return self

    def fill(self: Any, value: Any) -> None:
        """Set all elements to a number."""
        self[...] = value


class NPMethods:
    """Methods of np arrays with rules of their own."""

    __slots__ = ()

    def reshape(self: Any, *shape: Any, order: str = "C") -> Any:
        """A copy in another shape; one length may be -1.

        >>> import mxjax as mx
        >>> mx.np.arange(6).reshape(2, -1).shape
        (2, 3)
        """
        if order != "C":
            raise errors.MXNetNotImplementedError(f"only supports C-order, while received {order}")
        return row(self, "reshape", _numbers(shape))

    def reshape_view(self: Any, *shape: Any, **kwargs: Any) -> Any:
        """The array in another shape, on the same memory; nd's codes are understood."""
        shape = _numbers(shape or (kwargs.pop("shape"),))
        return reshaped(self, shape, bool(kwargs.pop("reverse", False)))

    @property
    def mT(self: Any) -> Any:  # noqa: N802  (NumPy's name)
        """The array with its last two axes swapped."""
        if self.ndim < 2:
            raise errors.MXNetValueError(
                f"x must be at least 2-dimensional for matrix_transpose; it has shape {self.shape}"
            )
        return self.swapaxes(-1, -2)

    def flatten(self: Any, order: str = "C") -> Any:
        """A copy with one axis."""
        return self.reshape(-1, order=order)

    ravel = flatten

    def clip(self: Any, min: Any = None, max: Any = None, out: Any = None) -> Any:  # noqa: A002
        """The array with its elements held between ``min`` and ``max``."""
        if min is None and max is None:
            raise errors.MXNetValueError("array_clip: must set either max or min")
        return row(self, "clip", min, max, out=out)

    def nonzero(self: Any) -> tuple[Any, ...]:
        """The positions of the elements that are not zero: one int64 array per axis."""
        device = self._value().aval.device
        found = np.nonzero(np.atleast_1d(self.asnumpy()))
        return tuple(self._wrap(on_device(a.astype(np.int64), device)) for a in found)

    def __round__(self: Any, ndigits: int | None = None) -> Any:
        return row(self, "round", ndigits or 0)

    def __divmod__(self: Any, other: Any) -> Any:
        return self // other, self % other
