"""Transforms of images with boxes."""

from __future__ import annotations

from mxjax.errors import explain_names as _explain_names

from . import bbox
from .bbox import utils

__all__ = ["bbox", "utils"]

_explain_names(__name__)
