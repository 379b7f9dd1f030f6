"""Arrays of NumPy with one element that are numbers to Python, whatever their axes, as they were before NumPy 2.4.

MXNet 1 has no numbers without an axis, and its programs write `float(loss.mean().asnumpy())`.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class array(np.ndarray):  # noqa: N801  # it shows as NumPy's own: array([1.])
    """An array of NumPy, of another class only so that `float`, `int` and `%` take one element.

    >>> float(np.ones((1, 1)).view(array))
    1.0
    """

    def __float__(self) -> float:
        return float(self._number())

    def __int__(self) -> int:
        return int(self._number())

    def __complex__(self) -> complex:
        return complex(self._number())

    def _number(self) -> Any:
        if self.size != 1:
            raise TypeError("only size-1 arrays can be converted to Python scalars")
        return self.item()

    def __array_wrap__(self, made: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return made[()] if return_scalar else made.view(array)

    def __reduce__(self) -> Any:
        return self.view(np.ndarray).__reduce__()


def _is_refused() -> bool:
    try:
        float(np.ones(1))
    except (TypeError, DeprecationWarning):
        return True
    return False


#: Whether NumPy takes an array of one element with axes for no number.
REFUSED = _is_refused()
