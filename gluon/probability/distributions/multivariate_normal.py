"""The multivariate normal distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as onp

from mxjax import errors, np

from .constraint import LowerCholesky, PositiveDefinite, Real
from .distribution import Distribution
from .utils import cached_property, spread

__all__ = ["MultivariateNormal"]


class MultivariateNormal(Distribution):
    """The normal distribution of vectors, by its covariance, its precision, or a factor ``scale_tril`` of the former.

    Args:
      loc: the mean, or the place of the centre.
      cov: the covariance matrix.
      precision: the inverse of the covariance matrix.
      scale_tril: the Cholesky factor of the covariance matrix.
      validate_args: whether parameters are checked for what the distribution allows.

    Raises:
      ValueError: not one of the three is given.
    """

    has_grad = True
    support = Real()
    arg_constraints = {
        "loc": Real(), "cov": PositiveDefinite(), "precision": PositiveDefinite(), "scale_tril": LowerCholesky(),
    }  # fmt: skip

    def __init__(
        self,
        loc: Any,
        cov: Any = None,
        precision: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ):
        given = {"cov": cov, "precision": precision, "scale_tril": scale_tril}
        given = {name: x for name, x in given.items() if x is not None}
        if len(given) != 1:
            raise errors.MXNetValueError(
                "Exactly one of `cov` or `precision` or `scale_tril` may be specified, got "
                f"{', '.join(given) or 'none'}"
            )
        self.loc = loc
        for name, x in given.items():
            setattr(self, name, x)
        super().__init__(event_dim=1, validate_args=validate_args)

    def _batch_shape(self) -> tuple[int, ...]:
        return onp.broadcast_shapes(self.loc.shape[:-1], self.scale_tril.shape[:-2])

    def broadcast_to(self, batch_shape: Any) -> Any:
        return type(self)(
            spread(self.loc, batch_shape, 1), scale_tril=spread(self.scale_tril, batch_shape, 2)
        )

    @cached_property
    def scale_tril(self) -> Any:
        """The lower triangular factor of the covariance."""
        if "cov" in self.__dict__:
            return np.linalg.cholesky(self.cov)
        # The factor of an inverse, without inverting: of the matrix read backwards.
        factor = np.linalg.cholesky(np.flip(self.precision, (-1, -2)))
        return np.linalg.inv(np.swapaxes(np.flip(factor, (-1, -2)), -1, -2))

    @cached_property
    def cov(self) -> Any:
        """The covariance."""
        if "scale_tril" in self.__dict__:
            return np.matmul(self.scale_tril, np.swapaxes(self.scale_tril, -1, -2))
        return np.linalg.inv(self.precision)

    @cached_property
    def precision(self) -> Any:
        """The inverse of the covariance."""
        if "cov" in self.__dict__:
            return np.linalg.inv(self.cov)
        inverse = np.linalg.inv(self.scale_tril)
        return np.matmul(np.swapaxes(inverse, -1, -2), inverse)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return (self.scale_tril**2).sum(-1)

    def _draw(self, shape: tuple[int, ...]) -> Any:
        noise = np.random.normal(size=(*shape, self.loc.shape[-1]))
        return self.loc + np.einsum("...jk,...k->...j", self.scale_tril, noise)

    def _half_log_det(self) -> Any:
        return np.log(np.diagonal(self.scale_tril, axis1=-2, axis2=-1)).sum(-1)

    def log_prob(self, value: Any) -> Any:
        diff = self._checked(value) - self.loc
        distance = np.einsum(
            "...i,...i->...", diff, np.einsum("...jk,...k->...j", self.precision, diff)
        )
        return (
            -0.5 * distance
            - self._half_log_det()
            - 0.5 * self.loc.shape[-1] * math.log(2 * math.pi)
        )

    def entropy(self) -> Any:
        return self._half_log_det() + 0.5 * self.loc.shape[-1] * math.log(2 * math.pi * math.e)
