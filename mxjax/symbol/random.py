"""Random numbers as `mx.sym.random` has them: with symbols for parameters a draw for each of their elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import MXNetValueError
from ..errors import explain_names as _explain_names
from ..modes import is_np_shape
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
        return compose(TABLE[drawn], Symbol, drawn, tuple(params.values()), {"shape": shape or (), **shaped})
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


def uniform(low: Any = 0, high: Any = 1, shape: Any = None, dtype: Any = None, **kwargs: Any) -> Any:
    """Uniform over [low, high).

    Args:
      low: the lower end.
      high: the upper end.
      shape: the shape of the result.
      dtype: the dtype of the result.

    Returns:
      NDArray or Symbol: of the given shape (and a draw for each element of array parameters), in `dtype` or float32
        (randint: int32).
    """
    return _draw("uniform", {"low": low, "high": high}, shape, dtype, kwargs)


def normal(loc: Any = 0, scale: Any = 1, shape: Any = None, dtype: Any = None, **kwargs: Any) -> Any:
    """The normal distribution.

    Args:
      loc: the mean, or the place of the centre.
      scale: the standard deviation, not negative.
      shape: the shape of the result.
      dtype: the dtype of the result.

    Returns:
      NDArray or Symbol: of the given shape (and a draw for each element of array parameters), in `dtype` or float32
        (randint: int32).
    """
    return _draw("normal", {"loc": loc, "scale": scale}, shape, dtype, kwargs)


def randn(*shape: int, loc: Any = 0, scale: Any = 1, dtype: Any = None, **kwargs: Any) -> Any:
    """The normal distribution, with a shape given number by number.

    Args:
      loc: the mean, or the place of the centre.
      scale: the standard deviation, not negative.
      dtype: the dtype of the result.

    Returns:
      ndarray, NDArray or Symbol: of this shape, float32 by default.
    """
    return _draw("normal", {"loc": loc, "scale": scale}, shape or None, dtype, kwargs)


def gamma(alpha: Any = 1, beta: Any = 1, shape: Any = None, dtype: Any = None, **kwargs: Any) -> Any:
    """The gamma distribution with scale ``beta``.

    Args:
      alpha: the shape parameter, positive.
      beta: the scale, positive.
      shape: the shape of the result.
      dtype: the dtype of the result.

    Returns:
      NDArray or Symbol: of the given shape (and a draw for each element of array parameters), in `dtype` or float32
        (randint: int32).
    """
    return _draw("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, kwargs)


def exponential(scale: Any = 1, shape: Any = None, dtype: Any = None, **kwargs: Any) -> Any:
    """The exponential distribution with mean ``scale``.

    Args:
      scale: the mean, positive.
      shape: the shape of the result.
      dtype: the dtype of the result.

    Returns:
      NDArray or Symbol: of the given shape (and a draw for each element of array parameters), in `dtype` or float32
        (randint: int32).
    """
    return _draw("exponential", {"lam": 1.0 / scale}, shape, dtype, kwargs)


def poisson(lam: Any = 1, shape: Any = None, dtype: Any = None, **kwargs: Any) -> Any:
    """The Poisson distribution.

    Args:
      lam: the rate.
      shape: the shape of the result.
      dtype: the dtype of the result.

    Returns:
      NDArray or Symbol: of the given shape (and a draw for each element of array parameters), in `dtype` or float32
        (randint: int32).
    """
    return _draw("poisson", {"lam": lam}, shape, dtype, kwargs)


def binomial(n: Any = 1, p: Any = 1, shape: Any = None, dtype: Any = None, **kwargs: Any) -> Any:
    """The binomial distribution.

    Args:
      n: the number of trials, or of draws.
      p: the probability, or the probabilities.
      shape: the shape of the result.
      dtype: the dtype of the result.

    Returns:
      NDArray or Symbol: of the given shape (and a draw for each element of array parameters), in `dtype` or float32
        (randint: int32).
    """
    return _draw("binomial", {"n": n, "p": p}, shape, dtype, kwargs)


def negative_binomial(k: Any = 1, p: Any = 1, shape: Any = None, dtype: Any = None, **kwargs: Any) -> Any:
    """The negative binomial distribution.

    Args:
      k: the number of failures, positive.
      p: the probability, or the probabilities.
      shape: the shape of the result.
      dtype: the dtype of the result.

    Returns:
      NDArray or Symbol: of the given shape (and a draw for each element of array parameters), in `dtype` or float32
        (randint: int32).
    """
    return _draw("negative_binomial", {"k": k, "p": p}, shape, dtype, kwargs)


def generalized_negative_binomial(
    mu: Any = 1, alpha: Any = 1, shape: Any = None, dtype: Any = None, **kwargs: Any
) -> Any:
    """The negative binomial distribution by mean and dispersion.

    Args:
      mu: the mean.
      alpha: the dispersion, positive.
      shape: the shape of the result.
      dtype: the dtype of the result.

    Returns:
      NDArray or Symbol: of the given shape (and a draw for each element of array parameters), in `dtype` or float32
        (randint: int32).
    """
    return _draw("generalized_negative_binomial", {"mu": mu, "alpha": alpha}, shape, dtype, kwargs)


def randint(low: int, high: int, shape: Any = None, dtype: Any = None, **kwargs: Any) -> Any:
    """Integers from ``low`` to below ``high``, int32.

    Args:
      low: the lower end.
      high: the upper end.
      shape: the shape of the result.
      dtype: the dtype of the result.

    Returns:
      NDArray or Symbol: of the given shape (and a draw for each element of array parameters), in `dtype` or float32
        (randint: int32).
    """
    return _draw("randint", {"low": low, "high": high}, shape, dtype, kwargs)


def shuffle(data: Any, **kwargs: Any) -> Any:
    """The rows in random order.

    Args:
      data: the probabilities, along the last axis, or the array whose rows are shuffled.

    Returns:
      NDArray or Symbol: of the input's shape and dtype.
    """
    return compose(TABLE["shuffle"], Symbol, "_shuffle", (data,), kwargs)


def categorical(data: Any, shape: Any = None, get_prob: bool = False, dtype: Any = "int32", **kwargs: Any) -> Any:
    """Outcomes drawn from rows of probabilities.

    Args:
      data: the probabilities, along the last axis, or the array whose rows are shuffled.
      shape: the shape of the result.
      get_prob: whether the logarithms of probabilities are given, too.
      dtype: the dtype of the result.

    Returns:
      Symbol: the outcomes, int32.
    """
    attrs = {"shape": shape or (), "get_prob": get_prob, "dtype": dtype, **kwargs}
    return compose(TABLE["categorical"], Symbol, "_sample_categorical", (data,), attrs)


def multinomial(*args: Any, **kwargs: Any) -> Any:
    """`multinomial(data, shape, get_prob, dtype)` of MXNet 1, `multinomial(n, p, shape, dtype)` of MXNet 2.

    Returns:
      ndarray, NDArray or Symbol: the counts, or the outcomes, in the last axes.
    """
    if is_of_one(args, kwargs, Symbol):
        return categorical(**dict(zip(("data", "shape", "get_prob", "dtype"), args, strict=False)), **kwargs)
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
