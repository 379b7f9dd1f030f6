"""Image operators as `mx.npx.image` has them."""

from __future__ import annotations

from ..array.classes import ndarray
from ..array.frontend import fill

__all__ = [*fill(globals(), "npx.image", ndarray)]
