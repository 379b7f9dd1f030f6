"""Random numbers. Every row takes a JAX key first, which the front end supplies.

Distributions are those of MXNet; the streams of numbers are JAX's. Draws are made of a standard variable
and the parameters, so that gradients reach the parameters where MXNet's do.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core.run.failures import holding, require
from .creation import dtype_of, shape_of
from .lowering.gamma import gamma as draw_gamma
from .lowering.gamma import log_gamma
from .lowering.outcomes import outcomes
from .lowering.poisson import poisson as draw_poisson
from .numbers import Each
from .samples import Given, case, f
from .table import op

jr = jax.random


def _shape(size: Any) -> tuple[int, ...] | None:
    return None if size is None else shape_of(size)


def _draw_shape(size: Any, *params: Any) -> tuple[int, ...]:
    """``size``, or without one (``()`` is none, as in MXNet) the shape of the parameters together."""
    shape, together = _shape(size), jnp.broadcast_shapes(*(np.shape(p) for p in params))
    if not shape:
        return together
    given = [1] * (len(shape) - len(together)) + [*together]
    fits = len(given) == len(shape) and all(n in (1, m) for n, m in zip(given, shape, strict=True))
    if not fits:
        raise ValueError(f"size={shape} does not hold the draws of parameters of shape {together}")
    return shape


def _float(dtype: Any, *params: Any) -> np.dtype:
    made = dtype_of(dtype)
    if not jnp.issubdtype(made, jnp.floating):  # bfloat16 is of no kind of NumPy's
        raise TypeError(f"random numbers of this kind are floating-point, got dtype {made}")
    return made


def _number(v: Any, dtype: Any) -> Any:
    return v.astype(dtype) if hasattr(v, "astype") else np.asarray(v, dtype)


def _not_negative(v: Any, name: str) -> None:
    if isinstance(v, (int, float)):
        require(v >= 0, f"{name} < 0: it must not be negative, got {v}")


def _positive(v: Any, name: str) -> None:
    if isinstance(v, (int, float)):
        require(v > 0, f"expect {name} > 0, got {v}")


def _checks(**checks: Callable[[Any, str], None]) -> Each:
    """The column ``check`` of these for some of a row's numbers."""

    return Each(checks)


def _probability(v: Any, name: str) -> None:
    if isinstance(v, (int, float)):
        require(0 <= v <= 1, f"expect {name} >= 0 and {name} <= 1, got {v}")


# ----------------------------------------------------------------- standard variables and families


def _standard(draw: Callable[..., Any]) -> Callable[..., Any]:
    """A standard variable; one of 16 bits is rounded from 32, of which there are more than JAX's thousand steps."""

    def standard(key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        return (
            draw(key, shape, dtype)
            if dtype.itemsize > 2
            else draw(key, shape, np.dtype("float32")).astype(dtype)
        )

    return standard


def _located(draw: Callable[..., Any]) -> Callable[..., Any]:
    """loc + scale * a standard variable."""
    draw = _standard(draw)

    def located(key: Any, loc: Any, scale: Any, size: Any, dtype: Any) -> Any:
        _not_negative(scale, "scale")
        dtype = _float(dtype)
        z = draw(key, _draw_shape(size, loc, scale), dtype)
        return _number(loc, dtype) + _number(scale, dtype) * z

    return located


def _all_fine(**numbers: Any) -> None:
    """The column ``check`` of a row that refuses no numbers."""


def _uniform(key: Any, low: Any, high: Any, size: Any, dtype: Any) -> Any:
    dtype = _float(dtype)
    u = _standard(jr.uniform)(key, _draw_shape(size, low, high), dtype)
    low, high = _number(low, dtype), _number(high, dtype)
    return low + (high - low) * u


_normal = _located(jr.normal)


def _cut_off(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Draws that may be integers, too: they are cut off, as MXNet's are (negative ones wrap around without a sign)."""

    def cut(key: Any, first: Any, second: Any, size: Any, dtype: Any) -> Any:
        made = dtype_of(dtype)
        if made.kind not in "iu":
            return draw(key, first, second, size, dtype)
        bits = 64 if made.itemsize == 8 else 32
        z = draw(key, first, second, size, f"float{bits}")
        return z.astype(f"int{bits}").astype(made)

    return cut


_LOCATED: dict[str, Any] = dict(numbers=("loc", "scale"), check=_checks(scale=_not_negative))
_SHAPE = [case(size=(3, 2)), case(0.0, 1.0, size=4), case(f(3), 2.0)]


@op(
    np_random="uniform",
    wide="float64",
    samples=_SHAPE,
    display="_npi_uniform",
    keyed=True,
    numbers=("low", "high"),
    check=_all_fine,
    written="drawn",
)
def uniform(
    key: Any, low: Any = 0.0, high: Any = 1.0, *, size: Any = None, dtype: Any = None
) -> Any:
    """Uniform over [low, high)."""
    return _cut_off(_uniform)(key, low, high, size, dtype)


@op(
    np_random="normal",
    wide="float64",
    samples=_SHAPE,
    display="_npi_normal",
    keyed=True,
    written="drawn",
    **_LOCATED,
)
def normal(
    key: Any, loc: Any = 0.0, scale: Any = 1.0, *, size: Any = None, dtype: Any = None
) -> Any:
    """The normal distribution with mean ``loc`` and standard deviation ``scale``."""
    return _cut_off(_normal)(key, loc, scale, size, dtype)


for _name, _draw in (("gumbel", jr.gumbel), ("laplace", jr.laplace), ("logistic", jr.logistic)):
    # MXNet looks at no numbers of laplace, whose noise is symmetric.
    _looked = _LOCATED if _draw is not jr.laplace else {"numbers": _LOCATED["numbers"]}
    _family = _cut_off(_located(_draw))

    def _row(family: Any) -> Callable[..., Any]:
        def located(
            key: Any, loc: Any = 0.0, scale: Any = 1.0, *, size: Any = None, dtype: Any = None
        ) -> Any:
            return family(key, loc, scale, size, dtype)

        return located

    op(
        _name,
        np_random=_name,
        samples=_SHAPE,
        keyed=True,
        doc=f"The {_name} distribution.",
        written="drawn",
        **_looked,
    )(_row(_family))


@op(
    np_random="lognormal",
    wide="float64",
    samples=[case(size=3)],
    keyed=True,
    internal=None,
    numbers=("mean", "sigma"),
    check=_checks(sigma=_not_negative),
)
def lognormal(
    key: Any, mean: Any = 0.0, sigma: Any = 1.0, *, size: Any = None, dtype: Any = None
) -> Any:
    """exp of a normal variable."""
    return jnp.exp(_normal(key, mean, sigma, size, dtype))


def _exponential(key: Any, scale: Any, size: Any, dtype: Any) -> Any:
    _not_negative(scale, "scale")
    dtype = _float(dtype)
    return _number(scale, dtype) * _standard(jr.exponential)(key, _draw_shape(size, scale), dtype)


@op(
    np_random="exponential",
    samples=[case(size=3), case(f(3, low=0.5))],
    keyed=True,
    numbers=("scale",),
    check=_checks(scale=_not_negative),
    written="drawn",
)
def exponential(key: Any, scale: Any = 1.0, *, size: Any = None, dtype: Any = None) -> Any:
    """The exponential distribution with mean ``scale``."""
    return _exponential(key, scale, size, dtype)


@op(
    np_random="rayleigh",
    samples=[case(size=3)],
    keyed=True,
    numbers=("scale",),
    check=_checks(scale=_not_negative),
    written="drawn",
)
def rayleigh(key: Any, scale: Any = 1.0, *, size: Any = None, dtype: Any = None) -> Any:
    """The Rayleigh distribution."""
    _not_negative(scale, "scale")
    e = _standard(jr.exponential)(key, _draw_shape(size, scale), _float(dtype))
    return _number(scale, e.dtype) * jnp.sqrt(2 * e)


@op(
    np_random="weibull",
    samples=[case(2.0, size=3)],
    keyed=True,
    numbers=("a",),
    check=_checks(a=_positive),
    written="drawn",
)
def weibull(key: Any, a: Any, *, size: Any = None) -> Any:
    """The Weibull distribution with shape ``a``."""
    _positive(a, "a")
    e = jr.exponential(key, _draw_shape(size, a), np.float32)
    return e ** (1 / _number(a, e.dtype))


@op(
    np_random="pareto",
    samples=[case(2.0, size=3)],
    keyed=True,
    numbers=("a",),
    check=_checks(a=_positive),
    written="drawn",
)
def pareto(key: Any, a: Any, *, size: Any = None) -> Any:
    """The Pareto (Lomax) distribution with shape ``a``."""
    _positive(a, "a")
    e = jr.exponential(key, _draw_shape(size, a), np.float32)
    return jnp.expm1(e / _number(a, e.dtype))


@op(
    "random_power",
    np_random="power",
    samples=[case(2.0, size=3)],
    keyed=True,
    internal="_npi_powerd",
    numbers=("a",),
    check=_checks(a=_positive),
    written="drawn",
)
def power(key: Any, a: Any, *, size: Any = None) -> Any:
    """The power distribution with exponent ``a`` - 1."""
    _positive(a, "a")
    u = jr.uniform(key, _draw_shape(size, a), np.float32)
    return (1 - u) ** (1 / _number(a, u.dtype))


def _gamma(key: Any, shape: Any, scale: Any, size: Any, dtype: Any) -> Any:
    _positive(shape, "shape")
    _positive(scale, "scale")
    dtype = _float(dtype)
    draw_in = dtype if dtype.itemsize >= 4 else np.dtype("float32")
    draw = draw_gamma(key, _number(shape, draw_in), _draw_shape(size, shape, scale), draw_in)
    return (draw * _number(scale, draw_in)).astype(dtype)


@op(
    "random_gamma",
    np_random="gamma",
    wide="float64",
    samples=[case(2.0, size=3)],
    keyed=True,
    smooth=False,
    numbers=("shape", "scale"),
    check=_checks(shape=_positive, scale=_positive),
    written="drawn",
)
def gamma(key: Any, shape: Any, scale: Any = 1.0, *, size: Any = None, dtype: Any = None) -> Any:
    """The gamma distribution."""
    return _gamma(key, shape, scale, size, dtype)


@op(
    np_random="chisquare",
    wide="float64",
    samples=[case(3.0, size=3)],
    keyed=True,
    smooth=False,
    internal="_npi_gamma",
    numbers=("df",),
    check=_checks(df=_positive),
)
def chisquare(key: Any, df: Any, *, size: Any = None, dtype: Any = None) -> Any:
    """The chi-square distribution."""
    return 2 * _gamma(key, df / 2, 1.0, size, dtype)


@op(
    np_random="beta",
    wide="float64",
    samples=[case(2.0, 3.0, size=3)],
    keyed=True,
    smooth=False,
    internal=None,
    numbers=("a", "b"),
    check=_checks(a=_positive, b=_positive),
)
def beta(key: Any, a: Any, b: Any, *, size: Any = None, dtype: Any = None) -> Any:
    """The beta distribution."""
    _positive(a, "a")
    _positive(b, "b")
    dtype = _float(dtype)
    draw_in = dtype if dtype.itemsize >= 4 else np.dtype("float32")
    k1, k2 = jr.split(key)
    shape = _draw_shape(size, a, b)
    one, other = (
        log_gamma(k1, _number(a, draw_in), shape, draw_in),
        log_gamma(k2, _number(b, draw_in), shape, draw_in),
    )
    return jax.nn.sigmoid(one - other).astype(dtype)


@op(
    "random_f",
    np_random="f",
    samples=[case(4.0, 5.0, size=3)],
    keyed=True,
    smooth=False,
    internal=None,
    numbers=("dfnum", "dfden"),
    check=_checks(dfnum=_positive, dfden=_positive),
)
def f_(key: Any, dfnum: Any, dfden: Any, *, size: Any = None) -> Any:
    """The F distribution."""
    k1, k2 = jr.split(key)
    shape = _draw_shape(size, dfnum, dfden)
    return (_gamma(k1, dfnum / 2, 2.0, shape, None) / dfnum) / (
        _gamma(k2, dfden / 2, 2.0, shape, None) / dfden
    )


@op(
    np_random="poisson",
    samples=[case(2.0, size=3)],
    keyed=True,
    smooth=False,
    internal=None,
    numbers=("lam",),
    check=_checks(lam=_not_negative),
)
def poisson(key: Any, lam: Any = 1.0, *, size: Any = None, dtype: Any = None) -> Any:
    """The Poisson distribution."""
    return _poisson(key, lam, size, dtype)


def _poisson(key: Any, lam: Any, size: Any, dtype: Any) -> Any:
    _not_negative(lam, "lam")
    made = draw_poisson(key, _number(lam, np.float32), _draw_shape(size, lam))
    return made.astype(dtype_of(dtype))


@op(
    np_random="multivariate_normal",
    samples=[case(f(2), Given([[2.0, 0.5], [0.5, 1.0]]), size=3)],
    keyed=True,
    smooth=False,
    internal=None,
)
def multivariate_normal(
    key: Any, mean: Any, cov: Any, *, size: Any = None, check_valid: Any = None, tol: Any = None
) -> Any:
    """Normal vectors with a mean and a covariance matrix, or as many of each ``size`` as there are of these."""
    batch = jnp.broadcast_shapes(mean.shape[:-1], cov.shape[:-2])
    z = jr.normal(key, (*(_shape(size) or ()), *batch, *mean.shape[-1:]), mean.dtype)
    factor = jnp.linalg.cholesky(cov.astype(jnp.promote_types(cov.dtype, "float32"))).astype(
        cov.dtype
    )
    at = jnp.diagonal(factor, axis1=-2, axis2=-1)
    factor = holding((at == at).all(), factor, "potrf failed: cov is not positive definite")
    return mean + jnp.einsum("...ij,...j->...i", factor, z)


# --------------------------------------------------------------------------------- integers, sets


def _randint(key: Any, low: Any, high: Any, shape: Any, dtype: Any, default: str) -> Any:
    if high is None:
        low, high = 0, low
    _some_between(low, high)
    low, high = (v.astype("int64") if hasattr(v, "dtype") else int(v) for v in (low, high))
    dtype = dtype_of(dtype, default)
    if dtype.kind not in "iu":
        return jr.randint(key, shape, low, high, "int64").astype(dtype)
    return jr.randint(key, shape, low, high, dtype)


def _some_between(low: Any, high: Any = None) -> None:
    if high is None:
        low, high = 0, low
    if isinstance(low, (int, float)) and isinstance(high, (int, float)):
        require(low < high, f"low >= high: randint draws from [low, high), got [{low}, {high})")


@op(
    np_random="randint",
    samples=[case(low=5, size=(3,)), case(low=-2, high=9, size=2, dtype="int32")],
    keyed=True,
    smooth=False,
    internal="_random_randint",
    numbers=("low", "high"),
    check=_some_between,
)
def randint(
    key: Any, *, low: int, high: int | None = None, size: Any = None, dtype: Any = None
) -> Any:
    """Integers from ``low`` to below ``high`` (0 to below ``low`` without it)."""
    return _randint(key, low, high, _shape(size) or (), dtype, "int64")


@op(
    "random_choice",
    samples=[case(f(5), size=3), case(f(5), size=3, replace=False)],
    keyed=True,
    smooth=False,
    internal="_npi_choice",
)
def choice(key: Any, a: Any, p: Any = None, *, size: Any = None, replace: bool = True) -> Any:
    """Elements drawn from a vector."""
    return jr.choice(key, a, _shape(size) or (), replace, p)


def permuted(key: Any, x: Any) -> Any:
    """`jax.random.permutation`, which refuses symbolic lengths: sorted by random bits, so often that few are equal."""
    if not x.ndim:
        return jr.permutation(key, x)
    n = x.shape[0]
    at = jnp.arange(n) if x.ndim > 1 else x
    for _ in range(1 if n < 1626 else 2 if n < 2_642_246 else 3):
        key, part = jr.split(key)
        _, at = jax.lax.sort_key_val(jr.bits(part, (n,), "uint32"), at)
    return x.at[at].get(mode="promise_in_bounds", unique_indices=True) if x.ndim > 1 else at


@op("random_permutation", samples=[case(f(5))], keyed=True, smooth=False, internal="_shuffle")
def permutation(key: Any, x: Any) -> Any:
    """The rows in random order."""
    return permuted(key, x)


@op(nd="shuffle", samples=[case(f(5, 2))], keyed=True, smooth=False, internal="_shuffle")
def shuffle(key: Any, data: Any) -> Any:
    """The rows in random order."""
    return permuted(key, data)


def is_of_one(args: Any, kwargs: Any, kind: type) -> bool:
    """Whether a call of `multinomial` is MXNet 1's: probabilities (of a front end's `kind`), and no numbers of trials."""
    if "data" in kwargs or "get_prob" in kwargs:
        return True
    second = args[1] if len(args) > 1 else None
    return (
        bool(args)
        and isinstance(args[0], kind)
        and "p" not in kwargs
        and not isinstance(second, (kind, list))
    )


def _at_most_one(known: dict[str, np.ndarray], shapes: Any, attrs: Any) -> None:
    if "pvals" in known:
        total = float(known["pvals"].astype(np.float64).sum())
        require(total <= 1 + 1e-5, f"sum(pvals) > 1: probabilities are expected, got {total:g}")


@op(
    "random_multinomial",
    samples=[case(Given([0.2, 0.3, 0.5]), n=10), case(Given([0.2, 0.3, 0.5]), n=4, size=2)],
    keyed=True,
    smooth=False,
    internal="_npi_multinomial",
    looks=_at_most_one,
)
def multinomial(key: Any, pvals: Any, *, n: int, size: Any = None) -> Any:
    """How often each outcome comes in n trials, int64."""
    shape = _shape(size) or ()
    draws = outcomes(key, pvals, (*shape, int(n)))
    return jax.nn.one_hot(draws, pvals.shape[-1], dtype="int64").sum(-2, dtype="int64")


@op(
    "_sample_multinomial",
    samples=[case(Given([5.0, 7.0]), Given([[0.2, 0.8], [0.5, 0.5]]), shape=3)],
    keyed=True,
    smooth=False,
)
def sample_multinomial(key: Any, n: Any, p: Any, *, shape: Any = (), dtype: Any = None) -> Any:
    """How often each outcome comes in n trials, ``shape`` times for each row of probabilities."""
    more = _shape(shape) or ()
    if n.shape != p.shape[:-1]:
        raise ValueError(
            f"multinomial takes one number of trials for each row of probabilities: p of shape {p.shape} needs n of "
            f"shape {p.shape[:-1]}, got {n.shape}"
        )
    # JAX 0.10 counts the outcomes as part of its argument `shape`, 0.12 does not.
    p = _number(p, np.float32).reshape(n.shape + (1,) * len(more) + p.shape[-1:])
    p = jnp.broadcast_to(p, (*n.shape, *more, p.shape[-1]))
    counts = jr.multinomial(
        key, jnp.broadcast_to(_spread(_number(n, np.float32), more), p.shape[:-1]), p
    )
    return counts.astype(dtype_of(dtype))


@op(
    "random_bernoulli",
    npx_random="bernoulli",
    samples=[case(0.3, size=4), case(None, f(3))],
    keyed=True,
    smooth=False,
    numbers=("prob", "logit"),
    check=_checks(prob=_probability),
)
def bernoulli(
    key: Any, prob: Any = None, logit: Any = None, *, size: Any = None, dtype: Any = None
) -> Any:
    """1 with probability ``prob`` (or sigmoid(logit)), else 0."""
    if (prob is None) == (logit is None):
        raise ValueError("Either `prob` or `logit` must be specified, but not both.")
    _probability(prob, "prob")
    p = _number(prob, np.float32) if logit is None else jax.nn.sigmoid(_number(logit, np.float32))
    return jr.bernoulli(key, p, _draw_shape(size, p)).astype(dtype_of(dtype))


def _batched(draw: Callable[..., Any]) -> Callable[..., Any]:
    def batched(key: Any, a: Any, b: Any, batch_shape: Any, dtype: Any) -> Any:
        shape = (_shape(batch_shape) or ()) + jnp.broadcast_shapes(np.shape(a), np.shape(b))
        return draw(key, a, b, shape, dtype)

    return batched


@op(
    npx_random="uniform_n",
    samples=[case(f(3), 4.0, batch_shape=(2,))],
    keyed=True,
    internal="_npi_uniform",
    numbers=("low", "high"),
)
def uniform_n(
    key: Any, low: Any = 0.0, high: Any = 1.0, *, batch_shape: Any = None, dtype: Any = None
) -> Any:
    """Uniform numbers of shape batch_shape + the shape of the parameters."""
    return _batched(_uniform)(key, low, high, batch_shape, dtype)


@op(
    npx_random="normal_n",
    samples=[case(f(3), 4.0, batch_shape=(2,))],
    keyed=True,
    internal="_npi_normal",
    numbers=("loc", "scale"),
    check=_checks(scale=_not_negative),
)
def normal_n(
    key: Any, loc: Any = 0.0, scale: Any = 1.0, *, batch_shape: Any = None, dtype: Any = None
) -> Any:
    """Normal numbers of shape batch_shape + the shape of the parameters."""
    return _batched(_normal)(key, loc, scale, batch_shape, dtype)


@op(
    npx_random="categorical",
    nd="sample_categorical",
    nd_random="categorical",
    samples=[case(Given([[0.2, 0.8], [0.5, 0.5]]), shape=3), case(Given([0.2, 0.8]))],
    keyed=True,
    smooth=False,
    internal="_sample_categorical",
    outputs=lambda attrs, n: 2 if attrs["get_prob"] else 1,
    nd_order="data shape get_prob out dtype",
)
def categorical(
    key: Any, data: Any, *, shape: Any = (), get_prob: bool = False, dtype: Any = "int32"
) -> Any:
    """Outcomes drawn from rows of probabilities; ``get_prob`` adds the logarithms of their probabilities."""
    more = _shape(shape) or ()
    draws = outcomes(key, data, (*more, *data.shape[:-1]))
    draws = (
        jnp.moveaxis(draws, tuple(range(len(more))), tuple(range(-len(more), 0))) if more else draws
    )
    if not data.shape[:-1] and not more:
        draws = draws.reshape(1)
    if not get_prob:
        return draws.astype(dtype)
    rows = data.reshape(-1, data.shape[-1])
    picked = jnp.take_along_axis(rows, draws.reshape(rows.shape[0], -1), 1)
    # The logarithm of what was drawn alone: that of an impossible outcome would make the gradient NaN.
    return draws.astype(dtype), jnp.log(picked).reshape(draws.shape)


@op(
    "_sample_unique_zipfian",
    samples=[case(range_max=9, shape=(2, 5))],
    keyed=True,
    smooth=False,
    internal="_sample_unique_zipfian",
    outputs=2,
)
def unique_zipfian(key: Any, *, range_max: int, shape: Any) -> Any:
    """Distinct integers below ``range_max``, k with a probability like log(1 + 1 / (k + 1)), and how many draws it took.

    shape: (rows, integers in a row), or of one row; each row is drawn by itself. Both results are int64.
    """
    shape = _shape(shape) or ()
    rows, count = (1, shape[0]) if len(shape) == 1 else shape
    if count > range_max:
        raise ValueError(f"{count} distinct integers below {range_max} cannot be drawn")
    span = np.log(range_max + 1.0)
    at_once = 2 * count + 16  # draws of a row together: one by one they take a millisecond each
    never = np.iinfo(np.int64).max

    def row(key: Any) -> Any:
        def more(state: Any) -> Any:
            return state[2] < count

        def draw(state: Any) -> Any:
            first, found, got, tries = state
            u = jr.uniform(jr.fold_in(key, tries), (at_once,), "float64")
            k = jnp.minimum((jnp.exp(u * span) - 1).astype("int64"), range_max - 1)
            numbers = tries + jnp.arange(at_once)
            first = first.at[k].min(numbers)  # with which draw an integer came
            new = first[k] == numbers
            places = got + jnp.cumsum(new) - 1
            found = found.at[jnp.where(new, places, count)].set(k, mode="drop")
            needed = jnp.sum(places < count - 1) + 1  # up to the one that fills the row
            return first, found, places[-1] + 1, tries + jnp.minimum(needed, at_once)

        start = (
            jnp.full(range_max, never, "int64"),
            jnp.zeros(count, "int64"),
            jnp.zeros((), "int64"),
            jnp.zeros((), "int64"),
        )
        _, found, _, tries = jax.lax.while_loop(more, draw, start)
        return found, tries

    found, tries = jax.lax.map(row, jr.split(key, rows))
    return found.reshape(shape), tries


# ---------------------------------------------------------------------------------- mx.nd, 1.x

# name -> (parameters with their defaults, draw(key, *parameters, shape, dtype), dtype)


def _binomial(key: Any, n: Any, p: Any, shape: Any, dtype: Any) -> Any:
    _not_negative(n, "n")
    _probability(p, "p")
    n, p = _number(n, np.float32), _number(p, np.float32)
    return jr.binomial(key, n, p, shape).astype(dtype)


def _negative_binomial(key: Any, k: Any, p: Any, shape: Any, dtype: Any) -> Any:
    _not_negative(k, "k")
    _not_negative(p, "p")
    k1, k2 = jr.split(key)
    k, p = _number(k, np.float32), _number(p, np.float32)
    lam = draw_gamma(k1, k, shape, np.float32) * (1 - p) / p
    return _poisson(k2, lam, shape, dtype)


def _generalized(key: Any, mu: Any, alpha: Any, shape: Any, dtype: Any) -> Any:
    _not_negative(mu, "mu")
    _not_negative(alpha, "alpha")
    k1, k2 = jr.split(key)
    mu, alpha = _number(mu, np.float32), _number(alpha, np.float32)
    safe = jnp.where(alpha == 0, 1, alpha)
    mixed = draw_gamma(k1, 1 / safe, shape, np.float32) * safe * mu
    return _poisson(k2, jnp.where(alpha == 0, jnp.broadcast_to(mu, shape), mixed), shape, dtype)


def _gamma_nd(key: Any, alpha: Any, beta: Any, shape: Any, dtype: Any) -> Any:
    return _gamma(key, alpha, beta, shape, dtype)


def _ordered(low: Any = 0.0, high: Any = 1.0) -> None:
    if isinstance(low, (int, float)) and isinstance(high, (int, float)):
        require(
            low <= high,
            f"low must be less or equal to high in uniform distribution, got {low} and {high}",
        )


def _uniform_nd(key: Any, low: Any, high: Any, shape: Any, dtype: Any) -> Any:
    _ordered(low, high)
    return _uniform(key, low, high, shape, dtype)


def _normal_nd(key: Any, loc: Any, scale: Any, shape: Any, dtype: Any) -> Any:
    _positive(scale, "scale")
    return _normal(key, loc, scale, shape, dtype)


def _rate(key: Any, lam: Any, shape: Any, dtype: Any) -> Any:
    _positive(lam, "lam")
    return _exponential(key, 1 / _number(lam, np.float32), shape, dtype)


_LEGACY: dict[str, tuple[dict[str, float], Callable[..., Any]]] = {
    "uniform": ({"low": 0.0, "high": 1.0}, _uniform_nd),
    "normal": ({"loc": 0.0, "scale": 1.0}, _normal_nd),
    "gamma": ({"alpha": 1.0, "beta": 1.0}, _gamma_nd),
    "exponential": ({"lam": 1.0}, _rate),
    "poisson": ({"lam": 1.0}, _poisson),
    "binomial": ({"n": 1.0, "p": 0.5}, _binomial),
    "negative_binomial": ({"k": 1.0, "p": 0.5}, _negative_binomial),
    "generalized_negative_binomial": ({"mu": 1.0, "alpha": 1.0}, _generalized),
}
_LEGACY_CHECKS: dict[str, Callable[..., None]] = {
    "uniform": lambda **numbers: _ordered(**numbers),
    "normal": _checks(scale=_positive),
    "gamma": _checks(alpha=_positive, beta=_positive),
    "exponential": _checks(lam=_positive),
    "poisson": _checks(lam=_not_negative),
    "binomial": _checks(n=_not_negative, p=_probability),
    "negative_binomial": _checks(k=_not_negative, p=_not_negative),
    "generalized_negative_binomial": _checks(mu=_not_negative, alpha=_not_negative),
}
_SAMPLED = {"uniform": "low high", "normal": "mu sigma"}


def _legacy_rows(name: str, params: dict[str, float], draw: Callable[..., Any]) -> None:
    names = list(params)
    moving: dict[str, Any] = dict(numbers=tuple(names), check=_LEGACY_CHECKS[name])
    row: dict[str, Any] = dict(keyed=True, smooth=False, doc=f"The {name} distribution.")
    if len(names) == 1:

        def generator(key: Any, *, shape: Any = (1,), dtype: Any = None, **values: Any) -> Any:
            (a,) = {**params, **values}.values()
            return draw(key, a, _shape(shape), dtype_of(dtype))

        def sampler(key: Any, a: Any, *, shape: Any = (), dtype: Any = None) -> Any:
            more = _shape(shape) or ()
            return draw(key, _spread(a, more), a.shape + more, dtype_of(dtype))

        def like(key: Any, data: Any, **values: Any) -> Any:
            (a,) = {**params, **values}.values()
            return draw(key, a, data.shape, data.dtype)
    else:

        def generator(key: Any, *, shape: Any = (1,), dtype: Any = None, **values: Any) -> Any:
            a, b = {**params, **values}.values()
            return draw(key, a, b, _shape(shape), dtype_of(dtype))

        def sampler(key: Any, a: Any, b: Any, *, shape: Any = (), dtype: Any = None) -> Any:  # type: ignore[misc]
            more = _shape(shape) or ()
            return draw(key, _spread(a, more), _spread(b, more), a.shape + more, dtype_of(dtype))

        def like(key: Any, data: Any, **values: Any) -> Any:
            a, b = {**params, **values}.values()
            return draw(key, a, b, data.shape, data.dtype)

    sampled = _SAMPLED.get(name, " ".join(names))
    direct = (f"random_{name}", name) if name in ("uniform", "normal") else (f"random_{name}",)
    positive = f(3, low=0.3, high=0.9)
    op(
        f"_random_{name}",
        nd=direct,
        samples=[case(shape=(2, 3))],
        signature=_signed(params, shape=(1,), dtype=None),
        **moving,
        **row,
    )(generator)
    op(
        f"_sample_{name}", nd=f"sample_{name}", samples=[case(*[positive] * len(names), shape=2)],
        nd_params=sampled,
        shapes=_second_like_first(sampled) if names[1:] else None, dtype="float32", **row,
    )(sampler)  # fmt: skip
    op(
        f"_{name}_like", nd_random=f"{name}_like", samples=[case(f(2, 3))], signature=_signed(params, array="data"), **moving,
        internal=None if name == "binomial" else f"_random_{name}_like", **row,
    )(like)  # fmt: skip


def _second_like_first(params: str) -> Callable[..., Any]:
    return lambda shape, /, **attrs: {params.split()[1]: shape}


def _signed(params: dict[str, float], array: str | None = None, **more: Any) -> Any:
    P = inspect.Parameter
    arrays = [P("key", P.POSITIONAL_OR_KEYWORD)]
    arrays += [P(array, P.POSITIONAL_OR_KEYWORD)] if array else []
    attrs = [P(k, P.KEYWORD_ONLY, default=v) for k, v in {**params, **more}.items()]
    return inspect.Signature([*arrays, *attrs])


def _spread(a: Any, more: tuple[int, ...]) -> Any:
    """Parameters with new axes at the end, for ``more`` draws of each."""
    return a.reshape(a.shape + (1,) * len(more))


for _name, (_params, _fn) in _LEGACY.items():
    _legacy_rows(_name, _params, _fn)


@op(
    "scalar_poisson",
    npx="scalar_poisson",
    samples=[case(lam=2.0, shape=(3,))],
    keyed=True,
    smooth=False,
    internal="_random_poisson",
    numbers=("lam",),
    check=_checks(lam=_not_negative),
)
def scalar_poisson(key: Any, *, lam: float = 1.0, shape: Any = (1,), dtype: Any = None) -> Any:
    """Poisson numbers of one rate."""
    return _poisson(key, lam, shape, dtype)


@op(
    "tensor_poisson",
    npx="tensor_poisson",
    samples=[case(f(3, low=0.5), shape=2)],
    keyed=True,
    smooth=False,
    internal="_sample_poisson",
)
def tensor_poisson(key: Any, lam: Any, *, shape: Any = (), dtype: Any = None) -> Any:
    """Poisson numbers for each rate, ``shape`` of them."""
    more = _shape(shape) or ()
    return _poisson(key, _spread(lam, more), lam.shape + more, dtype)


@op(
    "_random_randint",
    nd="random_randint",
    samples=[case(low=0, high=5, shape=(2, 3))],
    keyed=True,
    dtype="int32",
    smooth=False,
    numbers=("low", "high"),
    check=_some_between,
)
def random_randint(key: Any, *, low: int, high: int, shape: Any = (1,), dtype: Any = None) -> Any:
    """Integers from ``low`` to below ``high``, int32."""
    return _randint(key, low, high, _shape(shape), dtype, "int32")
