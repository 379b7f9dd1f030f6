"""Random numbers as `mx.sym.random` has them: with symbols for parameters a draw for each of their elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..display.wording import worded
from ..errors import MXNetValueError
from ..errors import explain_names as _explain_names
from ..modes import generation, is_np_shape
from ..ops.random import is_of_one
from ..ops.table import TABLE
from .compose import compose
from .front import fill as _fill
from .symbol import Symbol


def _draw(name: str, params: dict[str, Any], shape: Any, dtype: Any, kwargs: dict[str, Any]) -> Any:
    symbols = [v for v in params.values() if isinstance(v, Symbol)]
    shaped = {"dtype": None if dtype in (None, "None", "_Null") else dtype, **kwargs}
    if symbols and len(symbols) == len(params):
        drawn = f"_sample_{name}"
        return compose(
            TABLE[drawn], Symbol, drawn, tuple(params.values()), {"shape": shape or (), **shaped}
        )
    if symbols:
        raise MXNetValueError(
            "Distribution parameters must all have the same type, but got "
            f"{', '.join(type(v).__name__ for v in params.values())}"
        )
    # MXNet draws with an operator without arrays here, which looks at no symbol; where shapes are those of MXNet 1, one
    # that is not given follows from what is around.
    shaped = {k: v for k, v in shaped.items() if not isinstance(v, Symbol)}
    if shape is None:
        shape = (1,) if is_np_shape() else ()
    attrs = {**params, "shape": shape, **shaped}
    return compose(TABLE[f"_random_{name}"], Symbol, f"_random_{name}", (), attrs)


@worded("random")
def uniform(
    low: Any = 0, high: Any = 1, shape: Any = None, dtype: Any = None, **kwargs: Any
) -> Any:
    """Uniform over [low, high)."""
    return _draw("uniform", {"low": low, "high": high}, shape, dtype, kwargs)


@worded("random")
def normal(
    loc: Any = 0, scale: Any = 1, shape: Any = None, dtype: Any = None, **kwargs: Any
) -> Any:
    """The normal distribution."""
    return _draw("normal", {"loc": loc, "scale": scale}, shape, dtype, kwargs)


@worded("random")
def randn(*shape: int, loc: Any = 0, scale: Any = 1, dtype: Any = None, **kwargs: Any) -> Any:
    """The normal distribution, with a shape given number by number.

    Returns:
      ndarray, NDArray or Symbol: of this shape, float32 by default.
    """
    return _draw("normal", {"loc": loc, "scale": scale}, shape or None, dtype, kwargs)


@worded("random")
def gamma(
    alpha: Any = 1, beta: Any = 1, shape: Any = None, dtype: Any = None, **kwargs: Any
) -> Any:
    """The gamma distribution with scale ``beta``."""
    return _draw("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, kwargs)


@worded("random")
def exponential(scale: Any = 1, shape: Any = None, dtype: Any = None, **kwargs: Any) -> Any:
    """The exponential distribution with mean ``scale``.

    Args:
      scale: the mean, positive.
    """
    return _draw("exponential", {"lam": 1.0 / scale}, shape, dtype, kwargs)


@worded("random")
def poisson(lam: Any = 1, shape: Any = None, dtype: Any = None, **kwargs: Any) -> Any:
    """The Poisson distribution."""
    return _draw("poisson", {"lam": lam}, shape, dtype, kwargs)


@worded("random")
def binomial(n: Any = 1, p: Any = 1, shape: Any = None, dtype: Any = None, **kwargs: Any) -> Any:
    """The binomial distribution."""
    return _draw("binomial", {"n": n, "p": p}, shape, dtype, kwargs)


@worded("random")
def negative_binomial(
    k: Any = 1, p: Any = 1, shape: Any = None, dtype: Any = None, **kwargs: Any
) -> Any:
    """The negative binomial distribution."""
    return _draw("negative_binomial", {"k": k, "p": p}, shape, dtype, kwargs)


@worded("random")
def generalized_negative_binomial(
    mu: Any = 1, alpha: Any = 1, shape: Any = None, dtype: Any = None, **kwargs: Any
) -> Any:
    """The negative binomial distribution by mean and dispersion.

    Args:
      alpha: the dispersion, positive.
    """
    return _draw("generalized_negative_binomial", {"mu": mu, "alpha": alpha}, shape, dtype, kwargs)


@worded("random")
def randint(low: int, high: int, shape: Any = None, dtype: Any = None, **kwargs: Any) -> Any:
    """Integers from ``low`` to below ``high``, int32."""
    return _draw("randint", {"low": low, "high": high}, shape, dtype, kwargs)


@worded("random")
def shuffle(data: Any, **kwargs: Any) -> Any:
    """The rows in random order.

    Returns:
      NDArray or Symbol: of the input's shape and dtype.
    """
    return compose(TABLE["shuffle"], Symbol, "_shuffle", (data,), kwargs)


@worded("random")
def categorical(
    data: Any, shape: Any = None, get_prob: bool = False, dtype: Any = "int32", **kwargs: Any
) -> Any:
    """Outcomes drawn from rows of probabilities.

    Args:
      get_prob: whether the logarithms of probabilities are given, too.

    Returns:
      Symbol: the outcomes, int32.
    """
    attrs = {"shape": shape or (), "get_prob": get_prob, "dtype": dtype, **kwargs}
    hint = "_sample_multinomial" if generation() == 1 else "_sample_categorical"
    return compose(TABLE["categorical"], Symbol, hint, (data,), attrs)


def multinomial(*args: Any, **kwargs: Any) -> Any:
    """`multinomial(data, shape, get_prob, dtype)` of MXNet 1, `multinomial(n, p, shape, dtype)` of MXNet 2.

    Returns:
      ndarray, NDArray or Symbol: the counts, or the outcomes, in the last axes.
    """
    if is_of_one(args, kwargs, Symbol):
        return categorical(
            **dict(zip(("data", "shape", "get_prob", "dtype"), args, strict=False)), **kwargs
        )
    return _trials(*args, **kwargs)


def _trials(n: Any, p: Any, shape: Any = None, dtype: Any = "float32", **kwargs: Any) -> Any:
    attrs = {"shape": shape or (), "dtype": dtype, **kwargs}
    return compose(TABLE["_sample_multinomial"], Symbol, "_sample_multinomial", (n, p), attrs)


__all__ = [
    "binomial",
    "categorical",
    "exponential",
    "gamma",
    "generalized_negative_binomial",
    "multinomial",
    "negative_binomial",
    "normal",
    "poisson",
    "randint",
    "randn",
    "shuffle",
    "uniform",
    *_fill(globals(), "nd.random", Symbol),
]

if TYPE_CHECKING:  # what the table makes

    def __getattr__(name: str) -> Callable[..., Symbol]: ...


_explain_names(__name__)
