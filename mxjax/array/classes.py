"""The array classes of the front ends."""

from __future__ import annotations

from typing import Any

from .. import ops as ops  # the rows must be there before operators are made from them
from . import converters, methods
from .interop import NumpyDispatch
from .ndarray import NDArray
from .operators import install
from .transformations import register_pytree, take_gradients_of_arrays
from .view import converted


class ndarray(methods.NPMethods, NDArray, NumpyDispatch):  # noqa: N801  (MXNet's name)
    """The array of ``mx.np``: NumPy's interface with MXNet's dtypes, on any device.

    Args:
      value: what holds the numbers.
      writable: of MXNet's own handles; it changes nothing.

    >>> import mxjax as mx
    >>> x = mx.np.arange(6).reshape(2, 3)
    >>> x[1, ::2]
    array([3., 5.])
    """

    __slots__ = ()
    _legacy = False

    @property
    def dtype(self) -> Any:
        """The element type, a ``numpy.dtype``."""
        return (self._v or self._value()).aval.dtype

    def as_in_context(self, context: Any) -> Any:
        """The array on a device; a new array on the same memory, with the same gradient, if it is there already."""
        made = self.to_device(context)
        return converted(self, ndarray) if made is self else made


NDArray._front = NDArray
ndarray._front = ndarray
install(NDArray, "@nd")
install(ndarray)
methods.install_nd(NDArray)
methods.install_np(ndarray)
register_pytree(NDArray)
register_pytree(ndarray)
take_gradients_of_arrays()
converters.install()
