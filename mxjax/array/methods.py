"""Array methods: those that are rows of the table, and those with rules of their own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import errors
from ..core import record1
from ..ops.table import FRONT_ENDS, METHODS, Op
from .handle import on_device
from .view import reshape_call, reshaped

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
    from .invoke import function

    own = (NDMethods,) if cls._legacy else (NDMethods, NPMethods)
    if name not in vars(cls) and not any(name in vars(c) for c in own):
        setattr(cls, name, function(op, name, cls, cls.__module__))


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
    return tuple(int(n) for n in shape)


def new_shape(old: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
    """The shape meant by one with a -1 in it; ``ValueError`` where it does not hold the same
    elements.
    """
    free = [k for k, n in enumerate(wanted) if n == -1]
    if len(free) > 1:
        raise errors.MXNetValueError(f"Can only specify one unknown dimension, got {wanted}")
    size = math.prod(old)
    rest = math.prod(n for n in wanted if n != -1)
    bad = any(n < -1 for n in wanted) or (size != rest if not free else not rest or size % rest)
    if bad:
        raise errors.MXNetValueError(
            f"Cannot reshape array of shape {list(old)} into shape {list(wanted)}"
        )
    return tuple(size // rest if n == -1 else n for n in wanted)


def legacy_shape(
    old: tuple[int, ...], wanted: tuple[int, ...], reverse: bool = False
) -> tuple[int, ...]:
    """The shape meant by nd's codes: 0 keeps an axis, -1 is what remains, -2 keeps all further
    axes, -3 joins two, -4 splits one into the two that follow. ``reverse`` reads from the right."""
    if reverse:
        made = legacy_shape(old[::-1], _reversed_codes(wanted))
        return made[::-1]
    out: list[int] = []
    axis = 0
    codes = iter(wanted)
    try:
        for n in codes:
            if n > 0 or n == -1:
                out.append(n)
                axis += 1
            elif n == 0:
                out.append(old[axis])
                axis += 1
            elif n == -2:
                out += old[axis:]
                axis = len(old)
            elif n == -3:
                out.append(old[axis] * old[axis + 1])
                axis += 2
            elif n == -4:
                first, second = next(codes), next(codes)
                first = old[axis] // second if first == -1 else first
                second = old[axis] // first if second == -1 else second
                if first * second != old[axis]:
                    raise IndexError
                out += [first, second]
                axis += 1
            else:
                raise IndexError
    except (IndexError, StopIteration, ZeroDivisionError):
        raise errors.MXNetValueError(
            f"Cannot reshape array of shape {list(old)} into shape {list(wanted)}: 0 keeps an "
            "axis, -1 is inferred, "
            "-2 keeps the rest, -3 joins two axes, -4 a b splits one"
        ) from None
    return new_shape(old, tuple(out))


def _reversed_codes(wanted: tuple[int, ...]) -> tuple[int, ...]:
    """Codes in reverse order; -4 stays before the two numbers it takes."""
    groups: list[tuple[int, ...]] = []
    k = 0
    while k < len(wanted):
        n = 3 if wanted[k] == -4 else 1
        group = wanted[k : k + n]
        groups.append((-4, *group[:0:-1]) if n == 3 else group)
        k += n
    return tuple(n for group in reversed(groups) for n in group)


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
        return reshaped(self, legacy_shape(self.shape, shape, reverse))

    def transpose(self: Any, *axes: Any, **kwargs: Any) -> Any:
        """The array with its axes in another order: reversed, or as given."""
        axes = kwargs.pop("axes", None) or axes
        if len(axes) == 1 and not isinstance(axes[0], (int, np.integer)):
            axes = axes[0] or ()
        return row(self, "transpose", axes=tuple(axes)) if axes else row(self, "transpose")

    @property
    def T(self: Any) -> Any:  # noqa: N802  (NumPy's name)
        """The array with its axes reversed."""
        return self.transpose()

    def tostype(self: Any, stype: str) -> Any:
        """The array in a storage type; ``default`` (dense) is the only one."""
        if stype != "default":
            raise errors.MXNetNotImplementedError(
                f"storage type {stype!r}: arrays are dense ('default') here"
            )
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
        made = new_shape(self.shape, _numbers(shape))
        return self._wrap(record1(reshape_call(made), self._value()))

    def reshape_view(self: Any, *shape: Any, **kwargs: Any) -> Any:
        """The array in another shape, on the same memory; nd's codes are understood."""
        shape = _numbers(shape or (kwargs.pop("shape"),))
        return reshaped(self, legacy_shape(self.shape, shape, bool(kwargs.pop("reverse", False))))

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
