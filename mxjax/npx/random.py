"""Random numbers as `mx.npx.random` has them."""

from __future__ import annotations

from typing import Any

from ..array.classes import ndarray
from ..array.frontend import fill
from ..errors import explain_names as _explain_names
from ..random import seed


def multinomial(
    n: int, p: Any, shape: Any = None, ctx: Any = None, dtype: Any = None, out: Any = None, name: str | None = None
) -> ndarray:
    """How often each outcome comes in ``n`` trials with probabilities ``p``."""
    from ..np.random import multinomial as draw

    made = draw(n, p, size=shape, device=ctx)
    made = made if dtype is None else made.astype(dtype)
    return made if out is None else made.copyto(out)


__all__ = ["multinomial", "seed", *fill(globals(), "npx.random", ndarray)]

_explain_names(__name__)
