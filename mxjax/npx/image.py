"""Image operators as `mx.npx.image` has them."""

from __future__ import annotations

from ..array.classes import ndarray
from ..array.frontend import fill
from ..errors import explain_names as _explain_names

__all__ = [*fill(globals(), "npx.image", ndarray)]

_explain_names(__name__)
