"""Samplers and transforms of images with boxes."""

from __future__ import annotations

from mxjax.errors import explain_names as _explain_names

from ...data import sampler
from ...data.sampler import IntervalSampler
from . import vision

__all__ = ["IntervalSampler", "sampler", "vision"]

_explain_names(__name__)
