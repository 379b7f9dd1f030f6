"""The dirichlet distribution."""

from __future__ import annotations

from typing import Any

from mxjax import np

from .constraint import Positive, Simplex
from .exp_family import ExponentialFamily
from .utils import _clip_float_eps, digamma, gammaln

__all__ = ["Dirichlet"]


class Dirichlet(ExponentialFamily):
    """The Dirichlet distribution; the last axis of ``alpha`` is that of an event.

    Args:
      alpha: the concentrations, positive, along the last axis.
      validate_args: whether parameters are checked for what the distribution allows.
    """

    has_grad = True
    support = Simplex()
    arg_constraints = {"alpha": Positive()}
    _of_events = ("alpha",)

    def __init__(self, alpha: Any, validate_args: bool | None = None):
        self.alpha = alpha
        super().__init__(event_dim=1, validate_args=validate_args)

    def _draw(self, shape: tuple[int, ...]) -> Any:
        drawn = np.random.gamma(self.alpha, 1, (*shape, self.alpha.shape[-1]))
        return _clip_float_eps(drawn / drawn.sum(-1, keepdims=True))

    def log_prob(self, value: Any) -> Any:
        lgamma, alpha = gammaln(), self.alpha
        log_beta = lgamma(alpha).sum(-1) - lgamma(alpha.sum(-1))
        return (np.log(self._checked(value)) * (alpha - 1.0)).sum(-1) - log_beta

    @property
    def mean(self) -> Any:
        return self.alpha / self.alpha.sum(-1, keepdims=True)

    @property
    def variance(self) -> Any:
        a = self.alpha
        total = a.sum(-1, keepdims=True)
        return a * (total - a) / ((total + 1) * total**2)

    def entropy(self) -> Any:
        lgamma, psi, alpha = gammaln(), digamma(), self.alpha
        total = alpha.sum(-1)
        log_beta = lgamma(alpha).sum(-1) - lgamma(total)
        return log_beta + (alpha - 1).sum(-1) * psi(total) - ((alpha - 1) * psi(alpha)).sum(-1)
