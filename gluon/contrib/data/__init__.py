"""Samplers, texts, and loaders of images with labels or boxes."""

from __future__ import annotations

from mxjax.errors import explain_names as _explain_names

from ...data import sampler
from ...data.sampler import IntervalSampler
from . import text, vision

__all__ = ["IntervalSampler", "sampler", "text", "vision"]

_explain_names(__name__)
