"""The initializers for weights of all kinds."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mxjax.errors import MXNetValueError

from .base import Initializer, alias, register

__all__ = [
    "Bilinear",
    "Constant",
    "MSRAPrelu",
    "Normal",
    "One",
    "Orthogonal",
    "Uniform",
    "Xavier",
    "Zero",
]


def fill_uniform(arr: Any, low: float, high: float) -> None:
    from mxjax.np import random

    _fill(arr, random.uniform, low, high)


def fill_normal(arr: Any, sigma: float) -> None:
    from mxjax.np import random

    _fill(arr, random.normal, 0, sigma)


def _fill(arr: Any, draw: Callable[..., Any], *of: float) -> None:
    """Numbers of bfloat16, which the draws do not know, are drawn in float32 and rounded."""
    if str(arr.dtype) == "bfloat16":
        arr[:] = draw(*of, arr.shape, dtype="float32", device=arr.device)
    else:
        draw(*of, arr.shape, dtype=arr.dtype, device=arr.device, out=arr)


@register
@alias("zeros")
class Zero(Initializer):
    """Fills with zeros.

    >>> Zero().dumps()
    '["zero", {}]'
    """

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, name: str, arr: Any) -> None:
        arr[:] = 0


@register
@alias("ones")
class One(Initializer):
    """Fills with ones.

    >>> One().dumps()
    '["one", {}]'
    """

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, name: str, arr: Any) -> None:
        arr[:] = 1


@register
class Constant(Initializer):
    """Fills with one value, or with an array of the parameter's shape.

    Args:
      value: the number, or array.

    >>> Constant(2.5).dumps()
    '["constant", {"value": 2.5}]'
    """

    def __init__(self, value: Any):
        super().__init__(value=value)
        self.value = value

    def _init_weight(self, name: str, arr: Any) -> None:
        arr[:] = self.value

    def dumps(self) -> str:
        value = self._kwargs["value"]
        if hasattr(value, "asnumpy"):
            value = value.asnumpy()
        if isinstance(value, (np.ndarray, np.generic)):
            value = value.tolist()
        return json.dumps([type(self).__name__.lower(), {"value": value}])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self.dumps() == other.dumps()

    __hash__ = object.__hash__


@register
class Uniform(Initializer):
    """Uniform in [-scale, scale].

    Args:
      scale: numbers are drawn from -scale to scale.

    >>> Uniform(0.1).scale
    0.1
    """

    def __init__(self, scale: float = 0.07):
        super().__init__(scale=scale)
        self.scale = scale

    def _init_weight(self, name: str, arr: Any) -> None:
        fill_uniform(arr, -self.scale, self.scale)


@register
class Normal(Initializer):
    """Normal with mean zero.

    Args:
      sigma: the standard deviation.

    >>> Normal(0.02).sigma
    0.02
    """

    def __init__(self, sigma: float = 0.01):
        super().__init__(sigma=sigma)
        self.sigma = sigma

    def _init_weight(self, name: str, arr: Any) -> None:
        fill_normal(arr, self.sigma)


@register
class Orthogonal(Initializer):
    """Orthogonal rows (or columns) of length `scale` (https://arxiv.org/abs/1312.6120).

    Args:
      scale: the length.
      rand_type: "uniform" or "normal", what the matrix is drawn from.

    >>> Orthogonal(rand_type="normal").scale
    1.414
    """

    def __init__(self, scale: float = 1.414, rand_type: str = "uniform"):
        super().__init__(scale=scale, rand_type=rand_type)
        if rand_type not in ("uniform", "normal"):
            raise MXNetValueError(f"rand_type must be 'uniform' or 'normal', got {rand_type!r}")
        self.scale = scale
        self.rand_type = rand_type

    def _init_weight(self, name: str, arr: Any) -> None:
        from mxjax.np import random

        shape = (arr.shape[0], math.prod(arr.shape[1:]))
        draw = random.uniform if self.rand_type == "uniform" else random.normal
        drawn = draw(-1.0 if self.rand_type == "uniform" else 0.0, 1.0, shape).asnumpy()
        u, _, v = np.linalg.svd(drawn, full_matrices=False)
        chosen = u if u.shape == shape else v
        arr[:] = self.scale * chosen.reshape(arr.shape)


@register
class Xavier(Initializer):
    """Keeps the scale of gradients about the same in all layers (Glorot and Bengio 2010).

    The scale is `sqrt(magnitude / factor)`, with the factor the mean of fan-in and fan-out, or one
    of them.  A convolution's window counts in both.

    Args:
      rnd_type: "uniform" in [-scale, scale], or "gaussian" with that standard deviation.
      factor_type: "avg", "in" or "out".
      magnitude: see above.

    Raises:
      ValueError: the array has fewer than two dimensions.

    >>> Xavier(factor_type="in", magnitude=2.34).dumps()
    '["xavier", {"rnd_type": "uniform", "factor_type": "in", "magnitude": 2.34}]'
    """

    def __init__(self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3):
        super().__init__(rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
        self.rnd_type = rnd_type
        self.factor_type = factor_type
        try:
            self.magnitude = float(magnitude)
        except (TypeError, ValueError):
            raise MXNetValueError(
                f"magnitude={magnitude!r}: a number is expected, as in Xavier(magnitude=2.24)"
            ) from None

    def _init_weight(self, name: str, arr: Any) -> None:
        shape = arr.shape
        if len(shape) < 2:
            raise MXNetValueError(
                f"Xavier initializer cannot be applied to vector {name}. It requires at least 2D."
            )
        window = math.prod(shape[2:])
        fan_in, fan_out = shape[1] * window, shape[0] * window
        factors = {"avg": (fan_in + fan_out) / 2.0, "in": fan_in, "out": fan_out}
        if self.factor_type not in factors:
            raise MXNetValueError(
                f"factor_type must be 'avg', 'in' or 'out', got {self.factor_type!r}"
            )
        scale = math.sqrt(self.magnitude / factors[self.factor_type])
        if self.rnd_type == "uniform":
            fill_uniform(arr, -scale, scale)
        elif self.rnd_type == "gaussian":
            fill_normal(arr, scale)
        else:
            raise MXNetValueError(
                f"rnd_type must be 'uniform' or 'gaussian', got {self.rnd_type!r}"
            )


@register
class MSRAPrelu(Xavier):
    """Xavier's for (leaky) rectifiers of this slope (https://arxiv.org/abs/1502.01852).

    Args:
      factor_type: "avg", "in" or "out": which numbers of units count.
      slope: the slope for negative numbers.

    >>> MSRAPrelu(slope=0.0).magnitude
    2.0
    """

    def __init__(self, factor_type: str = "avg", slope: float = 0.25):
        super().__init__("gaussian", factor_type, 2.0 / (1 + slope**2))
        self._kwargs = {"factor_type": factor_type, "slope": slope}


@register
class Bilinear(Initializer):
    """The kernel of a transposed convolution that enlarges bilinearly.

    >>> Bilinear().dumps()
    '["bilinear", {}]'
    """

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, name: str, arr: Any) -> None:
        self._init_bilinear(name, arr)
