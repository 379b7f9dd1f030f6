"""Sparse arrays, and the operators that work on what they keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..array.classes import NDArray
from ..array.frontend import function
from ..array.invoke import call
from ..array.sparse import BaseSparseNDArray, CSRNDArray, RowSparseNDArray
from ..array.sparse.creation import array, csr_matrix, empty, row_sparse_array, zeros
from ..display.wording import told as _told
from ..errors import MXNetError
from ..errors import explain_names as _explain_names
from ..ops.table import FRONT_ENDS, TABLE
from ._steps import of_both as _of_both

_told(BaseSparseNDArray)

#: Rows that have their public name here alone.
_OWN = {"adagrad_update": "_sparse_adagrad_update"}
_ROWS = """
ElementWiseSum Embedding FullyConnected LinearRegressionOutput LogisticRegressionOutput MAERegressionOutput abs
adam_update add_n arccos arccosh arcsin arcsinh arctan arctanh broadcast_add broadcast_div broadcast_minus
broadcast_mul broadcast_plus broadcast_sub cast_storage cbrt ceil clip concat cos cosh degrees digamma dot
elemwise_add elemwise_div elemwise_mul elemwise_sub exp expm1 fix floor ftrl_update gamma gammaln log log10 log1p
log2 log_sigmoid make_loss mean mish negative norm radians relu rint round rsqrt sgd_mom_update sgd_update sigmoid
sign sin sinh slice sqrt square stop_gradient sum tan tanh trunc where zeros_like
""".split()
for _name in _ROWS:
    globals()[_name] = function(FRONT_ENDS["nd"][_name], _name, NDArray, __name__)
for _name, _row in _OWN.items():
    globals()[_name] = function(TABLE[_row], _name, NDArray, __name__)
globals().update(
    _of_both(
        {n: FRONT_ENDS["nd"][n] for n in _ROWS} | {n: TABLE[row] for n, row in _OWN.items()},
        globals(),
    )
)
del _name, _row


def retain(
    data: Any = None, indices: Any = None, out: Any = None, name: str | None = None, **kwargs: Any
) -> Any:
    """The rows of a row_sparse array with the numbers `indices` (k,), in this order; zeros for those it does not keep.

    Args:
      data: the input.
      indices: the numbers of the elements.
      out: an array that the result is written into, and that is given back.
      name: taken as MXNet takes it; arrays have no names.

    Returns:
      RowSparseNDArray: the rows that stay.

    Raises:
      MXNetError: the array is not row_sparse.

    >>> import mxjax as mx
    >>> x = row_sparse_array(([[1, 2], [3, 4]], [1, 4]), shape=(6, 2))
    >>> retain(x, mx.nd.array([4, 5])).data.asnumpy()
    array([[3., 4.],
           [0., 0.]], dtype=float32)
    """
    if isinstance(data, NDArray) and data.stype != "row_sparse":
        raise MXNetError(
            f"retain takes a row_sparse array, got one of the storage type {data.stype!r}"
        )
    given = {"data": data, "indices": indices, "out": out, "name": name, **kwargs}
    return call(
        TABLE["_sparse_retain"], NDArray, (), {k: v for k, v in given.items() if v is not None}
    )


def _arithmetic(
    name: str, equal: str, other: str, operation: Callable[[Any, Any], Any]
) -> Callable[[Any, Any], Any]:
    """A function of arrays or numbers; on arrays of one shape it is the element-wise row."""

    def apply(lhs: Any, rhs: Any) -> Any:
        if isinstance(lhs, NDArray) and isinstance(rhs, NDArray):
            op = FRONT_ENDS["nd"][equal if lhs.shape == rhs.shape else other]
            return call(op, NDArray, (lhs, rhs), {})
        return operation(lhs, rhs)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"""Element-wise {name}, with broadcasting; either may be a number.

    Args:
      lhs: the left operand: an array of any storage type, or a number.
      rhs: the right operand, likewise.

    Returns:
      NDArray: of the shape to which both broadcast; sparse where the result stays so.
    """
    return apply


add = _arithmetic("add", "elemwise_add", "broadcast_add", lambda a, b: a + b)
subtract = _arithmetic("subtract", "elemwise_sub", "broadcast_sub", lambda a, b: a - b)
multiply = _arithmetic("multiply", "elemwise_mul", "broadcast_mul", lambda a, b: a * b)
divide = _arithmetic("divide", "elemwise_div", "broadcast_div", lambda a, b: a / b)

#: The dtypes of the numbers of rows and columns.
_STORAGE_AUX_TYPES = {"row_sparse": [np.int64], "csr": [np.int64, np.int64]}

__all__ = [
    "BaseSparseNDArray",
    "CSRNDArray",
    "RowSparseNDArray",
    "add",
    "array",
    "csr_matrix",
    "divide",
    "empty",
    "multiply",
    "retain",
    "row_sparse_array",
    "subtract",
    "zeros",
    *_ROWS,
    *_OWN,
]

_explain_names(__name__)
