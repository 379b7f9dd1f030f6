"""Random numbers as `mx.npx.random` has them."""

from __future__ import annotations

from typing import Any

from ..array.classes import ndarray
from ..array.frontend import fill
from ..array.invoke import call
from ..array.ndarray import NDArray
from ..errors import explain_names as _explain_names
from ..ops.table import TABLE
from ..random import seed as _seed


def seed(seed: int, device: Any = "all", ctx: Any = None) -> None:
    """Start all random numbers from ``seed``, on all devices or on one.

    Args:
      seed: the number that the stream begins with.
      device: whose numbers start again; "all" for those of all devices.
      ctx: MXNet 1's name of `device`.
    """
    _seed(seed, device, ctx)


def multinomial(
    n: Any,
    p: Any,
    shape: Any = None,
    ctx: Any = None,
    dtype: Any = None,
    out: Any = None,
    name: str | None = None,
) -> ndarray:
    """How often each outcome comes in ``n`` trials with probabilities ``p``; of arrays, ``shape`` times for each.

    Args:
      n: the number of trials.
      p: the probability, or the probabilities.
      shape: the shape of the result.
      ctx: MXNet 1's name of `device`.
      dtype: the dtype of the result.
      out: an array that the result is written into, and that is given back.
      name: taken as MXNet takes it; arrays have no names.

    Returns:
      ndarray, NDArray or Symbol: the counts, or the outcomes, in the last axes.
    """
    if isinstance(n, NDArray):
        made = call(
            TABLE["_sample_multinomial"], ndarray, (n, p), {"shape": shape or (), "device": ctx}
        )
        return made if out is None else made.copyto(out)
    from ..np.random import multinomial as draw

    made = draw(n, p, size=shape, device=ctx)
    made = made if dtype is None else made.astype(dtype)
    return made if out is None else made.copyto(out)


__all__ = ["multinomial", "seed", *fill(globals(), "npx.random", ndarray)]

_explain_names(__name__)
