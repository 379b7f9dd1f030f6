"""How parameters get their first values: `mx.init`.

An initializer is called with a name and an array and fills the array.  What it does goes by the end
of the name (weights by the rule, biases zero, gammas one), unless the name is an `InitDesc` that
carries its own initializer.
"""

from ..errors import explain_names as _explain_names
from .base import InitDesc, Initializer, Load, Mixed, alias, create, register
from .recurrent import FusedRNN, LSTMBias, RNNFused
from .weights import (
    Bilinear,
    Constant,
    MSRAPrelu,
    Normal,
    One,
    Orthogonal,
    Uniform,
    Xavier,
    Zero,
)

__all__ = [
    "Bilinear",
    "Constant",
    "FusedRNN",
    "InitDesc",
    "Initializer",
    "LSTMBias",
    "Load",
    "MSRAPrelu",
    "Mixed",
    "Normal",
    "One",
    "Orthogonal",
    "RNNFused",
    "Uniform",
    "Xavier",
    "Zero",
    "alias",
    "create",
    "register",
]

_explain_names(__name__)
