"""Random numbers as `mx.nd.random` has them: with array parameters a draw for each of their elements."""

from __future__ import annotations

from typing import Any

from ..array.classes import NDArray
from ..array.frontend import fill
from ..array.invoke import call
from ..display.wording import worded
from ..errors import explain_names as _explain_names
from ..ops.random import is_of_one
from ..ops.table import TABLE
from ..random import seed


def _draw(
    name: str,
    params: dict[str, Any],
    shape: Any,
    dtype: Any,
    ctx: Any,
    out: Any,
    kwargs: dict[str, Any],
) -> Any:
    """``kwargs`` go to the row, which refuses what it does not know."""
    given = kwargs.pop("device", None)
    device = ctx if ctx is not None else given
    if any(isinstance(v, NDArray) for v in params.values()):
        like = next(v for v in params.values() if isinstance(v, NDArray))
        arrays = [v if isinstance(v, NDArray) else like * 0 + v for v in params.values()]
        attrs = {"shape": shape or (), "dtype": dtype}
        return call(TABLE[f"_sample_{name}"], NDArray, arrays, {**attrs, "out": out, **kwargs})
    attrs = {**params, "shape": (1,) if shape is None else shape, "dtype": dtype}
    if out is not None and shape is None:
        attrs["shape"] = out.shape
    attrs |= {"device": device, "out": out, **kwargs}
    return call(TABLE[f"_random_{name}"], NDArray, (), attrs)


@worded("random")
def uniform(
    low: Any = 0,
    high: Any = 1,
    shape: Any = None,
    dtype: Any = None,
    ctx: Any = None,
    out: Any = None,
    **kwargs: Any,
) -> NDArray:
    """Uniform over [low, high); of shape (1,) unless ``shape`` is given."""
    return _draw("uniform", {"low": low, "high": high}, shape, dtype, ctx, out, kwargs)


@worded("random")
def normal(
    loc: Any = 0,
    scale: Any = 1,
    shape: Any = None,
    dtype: Any = None,
    ctx: Any = None,
    out: Any = None,
    **kwargs: Any,
) -> NDArray:
    """The normal distribution."""
    return _draw("normal", {"loc": loc, "scale": scale}, shape, dtype, ctx, out, kwargs)


@worded("random")
def randn(
    *shape: int, loc: Any = 0, scale: Any = 1, dtype: Any = None, ctx: Any = None, **kwargs: Any
) -> NDArray:
    """The normal distribution, with a shape given number by number.

    Returns:
      ndarray, NDArray or Symbol: of this shape, float32 by default.
    """
    out = kwargs.pop("out", None)
    return _draw("normal", {"loc": loc, "scale": scale}, shape or None, dtype, ctx, out, kwargs)


@worded("random")
def gamma(
    alpha: Any = 1,
    beta: Any = 1,
    shape: Any = None,
    dtype: Any = None,
    ctx: Any = None,
    out: Any = None,
    **kwargs: Any,
) -> NDArray:
    """The gamma distribution with scale ``beta``."""
    return _draw("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, ctx, out, kwargs)


@worded("random")
def exponential(
    scale: Any = 1,
    shape: Any = None,
    dtype: Any = None,
    ctx: Any = None,
    out: Any = None,
    **kwargs: Any,
) -> NDArray:
    """The exponential distribution with mean ``scale``.

    Args:
      scale: the mean, positive.
    """
    return _draw("exponential", {"lam": 1.0 / scale}, shape, dtype, ctx, out, kwargs)


@worded("random")
def poisson(
    lam: Any = 1,
    shape: Any = None,
    dtype: Any = None,
    ctx: Any = None,
    out: Any = None,
    **kwargs: Any,
) -> NDArray:
    """The Poisson distribution."""
    return _draw("poisson", {"lam": lam}, shape, dtype, ctx, out, kwargs)


@worded("random")
def binomial(
    n: Any = 1,
    p: Any = 0.5,
    shape: Any = None,
    dtype: Any = None,
    ctx: Any = None,
    out: Any = None,
    **kwargs: Any,
) -> NDArray:
    """The binomial distribution."""
    return _draw("binomial", {"n": n, "p": p}, shape, dtype, ctx, out, kwargs)


@worded("random")
def negative_binomial(
    k: Any = 1,
    p: Any = 1,
    shape: Any = None,
    dtype: Any = None,
    ctx: Any = None,
    out: Any = None,
    **kwargs: Any,
) -> NDArray:
    """The negative binomial distribution."""
    return _draw("negative_binomial", {"k": k, "p": p}, shape, dtype, ctx, out, kwargs)


@worded("random")
def generalized_negative_binomial(
    mu: Any = 1,
    alpha: Any = 1,
    shape: Any = None,
    dtype: Any = None,
    ctx: Any = None,
    out: Any = None,
    **kwargs: Any,
) -> NDArray:
    """The negative binomial distribution by mean and dispersion.

    Args:
      alpha: the dispersion, positive.
    """
    return _draw(
        "generalized_negative_binomial", {"mu": mu, "alpha": alpha}, shape, dtype, ctx, out, kwargs
    )


@worded("random")
def randint(
    low: int,
    high: int,
    shape: Any = None,
    dtype: Any = None,
    ctx: Any = None,
    out: Any = None,
    **kwargs: Any,
) -> NDArray:
    """Integers from ``low`` to below ``high``, int32."""
    return _draw("randint", {"low": low, "high": high}, shape, dtype, ctx, out, kwargs)


@worded("random")
def shuffle(data: NDArray, **kwargs: Any) -> NDArray:
    """The rows in random order.

    Returns:
      NDArray or Symbol: of the input's shape and dtype.
    """
    return call(TABLE["shuffle"], NDArray, (data,), kwargs)


def multinomial(*args: Any, **kwargs: Any) -> Any:
    """`multinomial(data, shape, get_prob, out, dtype)`: outcomes drawn from rows of probabilities, as in MXNet 1.

    `multinomial(n, p, shape, dtype, ctx, out)`: how often each outcome comes in `n` trials with probabilities `p`, as
    in MXNet 2.

    Returns:
      ndarray, NDArray or Symbol: the counts, or the outcomes, in the last axes.

    >>> import mxjax as mx
    >>> mx.nd.random.multinomial(mx.nd.array([0.0, 1.0]), 3).asnumpy().tolist()
    [1, 1, 1]
    """
    if is_of_one(args, kwargs, NDArray):
        given = {
            **dict(zip(("data", "shape", "get_prob", "out", "dtype"), args, strict=False)),
            **kwargs,
        }
        attrs = {"shape": given.pop("shape", None) or (), **given}
        return call(TABLE["categorical"], NDArray, (attrs.pop("data"),), attrs)
    return _trials(*args, **kwargs)


def _trials(
    n: Any = 1,
    p: Any = None,
    shape: Any = None,
    dtype: Any = "float32",
    ctx: Any = None,
    out: Any = None,
    **kwargs: Any,
) -> NDArray:
    """For an array ``n`` with an axis for each of ``p`` but the last: ``shape`` draws for each of its elements."""
    if isinstance(n, NDArray) and isinstance(p, NDArray) and n.shape == p.shape[:-1]:
        return call(
            TABLE["_sample_multinomial"],
            NDArray,
            (n, p),
            {"shape": shape or (), "dtype": dtype, "out": out, **kwargs},
        )
    attrs = {"n": int(n if not isinstance(n, NDArray) else n.asscalar()), "size": shape}
    counts = call(TABLE["random_multinomial"], NDArray, (p,), {**attrs, **kwargs}).astype(dtype)
    return counts if out is None else counts.copyto(out)


__all__ = [
    "binomial",
    "exponential",
    "gamma",
    "generalized_negative_binomial",
    "multinomial",
    "negative_binomial",
    "normal",
    "poisson",
    "randint",
    "randn",
    "seed",
    "shuffle",
    "uniform",
    *fill(globals(), "nd.random", NDArray),
]

_explain_names(__name__)
