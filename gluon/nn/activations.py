"""Activations as layers."""

from __future__ import annotations

from typing import Any

from mxjax import errors, initializer, npx
from mxjax.ops.activation import ACTIVATIONS

from ..hybrid_block import HybridBlock
from ..layer import Layer
from ..parameter import Parameter


class Activation(Layer):
    """An element-wise function by name: relu, sigmoid, log_sigmoid, mish, tanh, softrelu or softsign.

    Args:
      activation: the function that follows, by its name in `npx.activation`; none without.

    Raises:
      MXNetValueError: there is no such function.
    """

    _operator_is_fwd = True

    def __init__(self, activation: str):
        self._act_type = activation
        super().__init__()
        if activation not in ACTIVATIONS:
            raise errors.MXNetValueError(
                f"unknown activation {activation!r}{errors.did_you_mean(str(activation), ACTIVATIONS)}; "
                f"{', '.join(ACTIVATIONS)} exist"
            )
        self._name = activation

    def _alias(self) -> str:
        return str(self._act_type)

    def forward(self, x: Any) -> Any:
        return npx.activation(x, act_type=self._act_type)

    def __repr__(self) -> str:
        return f"Activation({self._act_type})"


def activation_in(layer: HybridBlock, activation: str | None) -> Activation | None:
    """The activation at the end of a layer, called after it (``dense0_relu_``); None where there is none."""
    if activation is None:
        return None
    with layer._names.inside():
        return Activation(activation, prefix=f"{activation}_")  # type: ignore[call-arg]


class LeakyReLU(Layer):
    """``x`` where positive, ``alpha * x`` elsewhere.

    Args:
      alpha: the slope of negative numbers.
    """

    _operator_is_fwd = True

    def __init__(self, alpha: float):
        super().__init__()
        if alpha < 0:
            raise errors.MXNetAssertionError(
                f"Slope coefficient for LeakyReLU must be no less than 0, got {alpha}"
            )
        self._alpha = alpha

    def forward(self, x: Any) -> Any:
        return npx.leaky_relu(x, act_type="leaky", slope=self._alpha)

    def __repr__(self) -> str:
        return f"LeakyReLU({self._alpha})"


class PReLU(Layer):
    """A leaky ReLU whose slope is learned, one for each of ``in_channels`` (or one for all). He et al. 2015.

    Args:
      alpha_initializer: fills the slopes.
      in_channels: the number of input channels; found at the first call if it is 0.
    """

    _operator_is_fwd = True

    def __init__(self, alpha_initializer: Any = None, in_channels: int = 1):
        super().__init__()
        init = initializer.Constant(0.25) if alpha_initializer is None else alpha_initializer
        self.alpha = Parameter("alpha", shape=(in_channels,), init=init)

    def forward(self, x: Any) -> Any:
        return npx.leaky_relu(x, gamma=self.alpha.data(x.device), act_type="prelu")


class ELU(Layer):
    """``x`` where positive, ``alpha * (exp(x) - 1)`` elsewhere. Clevert et al. 2016.

    Args:
      alpha: the limit of very negative numbers, with its sign turned.
    """

    def __init__(self, alpha: float = 1.0):
        super().__init__()
        self._alpha = alpha

    def forward(self, x: Any) -> Any:
        return npx.leaky_relu(x, act_type="elu", slope=self._alpha)


class SELU(Layer):
    """The self-normalizing ELU. Klambauer et al. 2017.

    Args:
      prefix: the beginning of names.
      params: parameters to share, or the arrays of parameters by name.
    """

    _operator_is_fwd = True

    def forward(self, x: Any) -> Any:
        return npx.leaky_relu(x, act_type="selu")


class GELU(Layer):
    """``x`` times the normal distribution function of ``x`` (``approximation='tanh'``: the usual
    approximation of it). Hendrycks and Gimpel 2016.

    Args:
      approximation: "erf" (exact) or "tanh".
    """

    _operator_is_fwd = True

    def __init__(self, approximation: str = "erf"):
        super().__init__()
        if approximation not in ("erf", "tanh"):
            raise errors.MXNetValueError(
                f"Unsupported approximation! Supported values are 'erf' and 'tanh', but got '{approximation}'"
            )
        self._act_type = "gelu" if approximation == "erf" else "gelu_tanh"

    def forward(self, x: Any) -> Any:
        return npx.leaky_relu(x, act_type=self._act_type)


class Swish(Layer):
    """``x * sigmoid(beta * x)``. Ramachandran et al. 2017.

    Args:
      beta: the factor of x in the sigmoid.
    """

    _operator_is_fwd = True

    def __init__(self, beta: float = 1.0):
        super().__init__()
        self._beta = beta

    def forward(self, x: Any) -> Any:
        return x * npx.sigmoid(self._beta * x)


class SiLU(Layer):
    """``x * sigmoid(x)``. Elfwing et al. 2018.

    Args:
      prefix: the beginning of names.
      params: parameters to share, or the arrays of parameters by name.
    """

    def forward(self, x: Any) -> Any:
        return x * npx.sigmoid(x)
