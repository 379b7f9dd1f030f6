"""Blocks with losses of their own."""

from __future__ import annotations

from . import stochastic_block
from .stochastic_block import StochasticBlock, StochasticSequential

__all__ = [
    "StochasticBlock", "StochasticSequential", "stochastic_block",
]  # fmt: skip
