"""The initializers of recurrent layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .base import InitDesc, Initializer, create, register

__all__ = ["LSTMBias", "RNNFused"]


@register
class LSTMBias(Initializer):
    """Zeros, but for the forget gate (the second of four), whose bias is `forget_bias`.

    >>> LSTMBias().forget_bias
    1.0
    """

    def __init__(self, forget_bias: float = 1.0):
        super().__init__(forget_bias=forget_bias)
        self.forget_bias = forget_bias

    def _init_weight(self, name: str, arr: Any) -> None:
        hidden = arr.shape[0] // 4
        filled = np.zeros(arr.shape, "float32")
        filled[hidden : 2 * hidden] = self.forget_bias
        arr[:] = filled


@register
class RNNFused(Initializer):
    """Fills the one vector that holds all weights, then all biases, of a stacked recurrent layer.

    Args:
      mode: "rnn_relu", "rnn_tanh", "lstm" or "gru".
      num_layers, state_size, bidirectional, projection_size: of the layer.
      i2h_weight_initializer, h2h_weight_initializer, h2r_weight_initializer: of the weights from
        input, from state and of the projection.
      i2h_bias_initializer, h2h_bias_initializer: of the biases.

    >>> RNNFused("lstm", num_layers=1, state_size=8).gates
    4
    """

    def __init__(
        self, mode: str, num_layers: int, state_size: int, bidirectional: bool = False,
        projection_size: int | None = None, i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None, i2h_bias_initializer: Any = None,
        h2h_bias_initializer: Any = None, h2r_weight_initializer: Any = None,
    ):  # fmt: skip
        self._parts = {
            "i2h_weight": i2h_weight_initializer,
            "h2h_weight": h2h_weight_initializer,
            "i2h_bias": i2h_bias_initializer,
            "h2h_bias": h2h_bias_initializer,
            "h2r_weight": h2r_weight_initializer,
        }
        super().__init__(
            mode=mode, num_layers=num_layers, state_size=state_size, bidirectional=bidirectional,
            projection_size=projection_size,
            **{f"{part}_initializer": init for part, init in self._parts.items()},
        )  # fmt: skip
        self.gates = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}[mode]
        self.num_layers = num_layers
        self.num_hidden = state_size
        self.dir = 2 if bidirectional else 1
        self.projection_size = projection_size

    def _pieces(self, size: int) -> Iterator[tuple[str, int]]:
        """What lies in a vector of this size: the name and the length of each piece, in order."""
        state = self.projection_size or self.num_hidden
        rows = self.gates * self.num_hidden
        projected = (self.projection_size or 0) * self.num_hidden
        upper = (state * self.dir + state + 2) * rows + projected
        rest = size - self.dir * ((self.num_layers - 1) * upper + projected)
        inputs = rest // (rows * self.dir) - 2 - state
        for kind in ("weight", "bias"):
            for layer in range(self.num_layers):
                for _ in range(self.dir):
                    if kind == "bias":
                        yield "i2h_bias", rows
                        yield "h2h_bias", rows
                        continue
                    yield "i2h_weight", rows * (state * self.dir if layer else inputs)
                    yield "h2h_weight", rows * state
                    if projected:
                        yield "h2r_weight", projected

    def _init_weight(self, name: str, arr: Any) -> None:
        start = 0
        for part, length in self._pieces(arr.shape[0]):
            init = self._parts[part] or ("uniform" if part.endswith("weight") else "zeros")
            create(init)._init_weight(InitDesc(part), arr[start : start + length])
            start += length

    def set_initializer(self, init: Any) -> None:
        """Use `init` for the parts that have no initializer of their own."""
        for part, own in self._parts.items():
            self._parts[part] = own or init
