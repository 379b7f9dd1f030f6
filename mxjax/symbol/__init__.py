"""Symbols: graphs composed before any array is there (``mx.sym``)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import nd as _nd
from ..errors import explain_names as _explain_names
from . import operators as operators
from .cached import CachedOp as _CachedOp
from .custom import custom as _custom
from .files import from_json as load_json
from .files import load
from .front import fill as _fill
from .functions import (
    arange,
    eye,
    full,
    hypot,
    linspace,
    maximum,
    minimum,
    ones,
    pow,
    power,
    zeros,
)
from .lists import nd_histogram as histogram
from .symbol import Group, Symbol, Variable, var

fromjson = load_json

__all__ = [
    "Custom",
    "Group",
    "Symbol",
    "Variable",
    "_internal",
    "arange",
    "contrib",
    "eye",
    "fromjson",
    "full",
    "histogram",
    "hypot",
    "image",
    "linalg",
    "linspace",
    "load",
    "load_json",
    "maximum",
    "minimum",
    "numpy",
    "numpy_extension",
    "ones",
    "pow",
    "power",
    "random",
    "sample_multinomial",
    "sparse",
    "var",
    "zeros",
    *_fill(globals(), "nd", Symbol),
]

from . import _internal, contrib, image, linalg, numpy, numpy_extension, random, sparse  # noqa: E402

np, npx = numpy, numpy_extension
op = sys.modules[__name__]  # what MXNet calls the module of its generated operators


def Custom(*data: Any, op_type: str, **kwargs: Any) -> Any:  # noqa: N802  (MXNet's name)
    """A custom operator, written in Python and registered with ``mx.operator.register``.

    Args:
      op_type: the name under which the operator was registered.

    Returns:
      NDArray or Symbol, or a list: what the operator gives.
    """
    return _custom(*data, op_type=op_type, **kwargs)


def sample_multinomial(
    data: Any, shape: Any = (), get_prob: bool = False, dtype: Any = "int32", **kwargs: Any
) -> Any:
    """Outcomes drawn from rows of probabilities (what MXNet 1.x calls so).

    Args:
      data: the input.
      shape: the shape of the result.
      get_prob: whether the logarithms of probabilities are given, too.
      dtype: the dtype of the result.

    Returns:
      NDArray or Symbol: the outcomes, or the counts.
    """
    return random.categorical(data, shape, get_prob, dtype, **kwargs)


_nd.CachedOp = _CachedOp  # type: ignore[attr-defined]  # where MXNet has it


if TYPE_CHECKING:  # what the table makes

    def __getattr__(name: str) -> Callable[..., Symbol]: ...


_explain_names(__name__)
