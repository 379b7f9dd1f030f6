"""Checks of random generators: their mean, their variance, and how often they hit which bucket."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import MXNetAssertionError, MXNetValueError

Generator = Callable[[int], Any]


def gen_buckets_probs_with_ppf(
    ppf: Callable[[float], float], nbuckets: int
) -> tuple[list[tuple[float, float]], list[float]]:
    """Buckets of equal probability, by the quantile function of a distribution; and their probabilities.

    >>> gen_buckets_probs_with_ppf(lambda q: 2 * q, 2)
    ([(0.0, 1.0), (1.0, 2.0)], [0.5, 0.5])
    """
    if nbuckets < 1:
        raise MXNetValueError(f"nbuckets must be at least 1, got {nbuckets}")
    edges = [ppf(k / float(nbuckets)) for k in range(nbuckets + 1)]
    return list(zip(edges[:-1], edges[1:], strict=True)), [1.0 / nbuckets] * nbuckets


def mean_check(generator: Generator, mu: float, sigma: float, nsamples: int = 1000000) -> bool:
    """Whether the mean of so many numbers is within three standard errors of `mu`."""
    return bool(abs(np.array(generator(nsamples)).mean() - mu) < 3 * sigma / np.sqrt(nsamples))


def var_check(generator: Generator, sigma: float, nsamples: int = 1000000) -> bool:
    """Whether the variance of so many numbers is within three standard errors of `sigma` squared."""
    variance = np.array(generator(nsamples)).var(ddof=1)
    return bool(abs(variance - sigma**2) < 3 * np.sqrt(2 * sigma**4 / (nsamples - 1)))


def chi_square_check(
    generator: Generator, buckets: Sequence[Any], probs: Sequence[float], nsamples: int = 1000000
) -> tuple[float, np.ndarray, np.ndarray]:
    """The p-value of a chi-square test, with the frequencies that were found and those expected.

    Args:
      generator: gives so many numbers.
      buckets: pairs (low, high) in ascending order, or the values of a discrete distribution.
      probs: the probability of each bucket.

    Raises:
      MXNetValueError: buckets that overlap, or whose number is not that of the probabilities.
    """
    from scipy import stats

    if len(probs) != len(buckets):
        raise MXNetValueError(
            f"{len(buckets)} buckets have {len(probs)} probabilities: one for each is expected"
        )
    samples = np.array(generator(nsamples))
    if isinstance(buckets[0], (list, tuple)):
        edges = np.array(buckets, np.float32).reshape(-1)
        if (np.diff(np.array(buckets, np.float64).reshape(-1)) < 0).any():
            raise MXNetValueError(
                f"buckets must be in ascending order and not overlap, got {list(buckets)}"
            )
        places = np.searchsorted(edges, samples, side="right") // 2
        observed = np.array([(places == k).sum() for k in range(len(buckets))], np.int64)
    else:
        observed = np.array([(samples == value).sum() for value in buckets], np.int64)
    expected = (nsamples * np.array(probs, np.float32)).astype(np.int32)
    # SciPy wants equal sums; the rounding of the expected ones is no finding.
    _, p = stats.chisquare(observed, expected * (observed.sum() / expected.sum()))
    return float(p), observed, expected


def verify_generator(
    generator: Generator,
    buckets: Sequence[Any],
    probs: Sequence[float],
    nsamples: int = 1000000,
    nrepeat: int = 5,
    success_rate: float = 0.2,
    alpha: float = 0.05,
) -> list[float]:
    """The p-values of `nrepeat` chi-square tests, of which a part `success_rate` must exceed `alpha`.

    Raises:
      MXNetAssertionError: fewer do; the message shows the frequencies.
    """
    found = [chi_square_check(generator, buckets, probs, nsamples) for _ in range(nrepeat)]
    values = [p for p, _, _ in found]
    if sum(p > alpha for p in values) < nrepeat * success_rate:
        raise MXNetAssertionError(
            f"the generator fails the chi-square test: p={values}, observed frequencies="
            f"{[list(f) for _, f, _ in found]}, expected={list(found[0][2])}, buckets={list(buckets)}, "
            f"probabilities={list(probs)}"
        )
    return values
