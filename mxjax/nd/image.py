"""Image operators as `mx.nd.image` has them."""

from __future__ import annotations

from ..array.classes import NDArray
from ..array.frontend import fill

__all__ = [*fill(globals(), "npx.image", NDArray)]
