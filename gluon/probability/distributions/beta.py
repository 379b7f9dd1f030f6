"""The beta distribution."""

from __future__ import annotations

from typing import Any

from mxjax import np

from .constraint import Positive, UnitInterval
from .exp_family import ExponentialFamily
from .utils import _clip_prob, digamma, gammaln

__all__ = ["Beta"]


class Beta(ExponentialFamily):
    """The beta distribution. Samples are differentiable (implicitly, as JAX does it).

    Args:
      alpha: the first shape parameter, positive.
      beta: the second shape parameter, positive.
      validate_args: whether parameters are checked for what the distribution allows.
    """

    has_grad = True
    support = UnitInterval()
    arg_constraints = {"alpha": Positive(), "beta": Positive()}

    def __init__(self, alpha: Any, beta: Any, validate_args: bool | None = None):
        self.alpha = alpha
        self.beta = beta
        super().__init__(event_dim=0, validate_args=validate_args)

    def _draw(self, shape: tuple[int, ...]) -> Any:
        x, y = np.random.gamma(self.alpha, 1, shape), np.random.gamma(self.beta, 1, shape)
        return _clip_prob(x / (x + y))

    @property
    def mean(self) -> Any:
        return self.alpha / (self.alpha + self.beta)

    @property
    def variance(self) -> Any:
        total = self.alpha + self.beta
        return self.alpha * self.beta / (total**2 * (total + 1))

    def _log_beta(self) -> Any:
        lgamma = gammaln()
        return lgamma(self.alpha) + lgamma(self.beta) - lgamma(self.alpha + self.beta)

    def log_prob(self, value: Any) -> Any:
        value = self._checked(value)
        return (
            (self.alpha - 1) * np.log(value) + (self.beta - 1) * np.log1p(-value) - self._log_beta()
        )

    def entropy(self) -> Any:
        a, b = self.alpha, self.beta
        psi = digamma()
        return self._log_beta() - (a - 1) * psi(a) - (b - 1) * psi(b) + (a + b - 2) * psi(a + b)
