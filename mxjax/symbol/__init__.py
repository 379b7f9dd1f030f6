"""Symbols: graphs composed before any array is there (``mx.sym``)."""

from __future__ import annotations

import sys

from .. import nd as _nd
from ..errors import explain_names as _explain_names
from . import operators as operators
from .cached import CachedOp as _CachedOp
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
from .symbol import Group, Symbol, Variable, var

fromjson = load_json

__all__ = [
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
    "sparse",
    "var",
    "zeros",
    *_fill(globals(), "nd", Symbol),
]

from . import _internal, contrib, image, linalg, numpy, numpy_extension, random, sparse  # noqa: E402

np, npx = numpy, numpy_extension
op = sys.modules[__name__]  # what MXNet calls the module of its generated operators

_nd.CachedOp = _CachedOp  # type: ignore[attr-defined]  # where MXNet has it


_explain_names(__name__)
