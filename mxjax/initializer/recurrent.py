"""The initializers of recurrent layers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from mxjax.errors import MXNetValueError

from .base import InitDesc, Initializer, create, register

__all__ = ["FusedRNN", "LSTMBias", "RNNFused"]


@register
class LSTMBias(Initializer):
    """Zeros, but for the forget gate (the second of four), whose bias is `forget_bias`.

    Args:
      forget_bias: the bias of the forget gate.

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

    def _pieces(self, size: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """What lies in a vector of this size: the name and the shape of each piece, in order."""
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
                        yield "i2h_bias", (rows,)
                        yield "h2h_bias", (rows,)
                        continue
                    yield "i2h_weight", (rows, state * self.dir if layer else inputs)
                    yield "h2h_weight", (rows, state)
                    if projected:
                        yield "h2r_weight", (projected // self.num_hidden, self.num_hidden)

    def _init_weight(self, name: str, arr: Any) -> None:
        from mxjax.np import zeros

        start = 0
        for part, shape in self._pieces(arr.shape[0]):
            init = self._parts[part] or ("uniform" if part.endswith("weight") else "zeros")
            # As a matrix of its own: initializers that ask for fan-in and fan-out work, too.
            piece = zeros(shape, dtype=arr.dtype, device=arr.device)
            create(init)._init_weight(InitDesc(part), piece)
            arr[start : start + math.prod(shape)] = piece.reshape((-1,))
            start += math.prod(shape)

    def set_initializer(self, init: Any) -> None:
        """Use `init` for the parts that have no initializer of their own."""
        for part, own in self._parts.items():
            self._parts[part] = own or init


@register
class FusedRNN(Initializer):
    """Fills the vector of MXNet 1's fused cells, each gate's weight and bias by itself.

    Args:
      init: for them, or what `dumps` gave; None: the initializer that was to be used for the whole network.
      num_hidden, num_layers, mode, bidirectional: of the cell.
      forget_bias: of the LSTM's forget gates.

    >>> FusedRNN("zeros", num_hidden=8, num_layers=1, mode="lstm").gates
    ('i', 'f', 'c', 'o')
    """

    def __init__(
        self, init: Any, num_hidden: int, num_layers: int, mode: str, bidirectional: bool = False,
        forget_bias: float = 1.0,
    ):  # fmt: skip
        if isinstance(init, str) and init.startswith("["):
            name, options = json.loads(init)
            init = create(name, **options)
        elif init is not None:
            init = create(init)
        super().__init__(
            init=None if init is None else init.dumps(), num_hidden=num_hidden, num_layers=num_layers,
            mode=mode, bidirectional=bidirectional, forget_bias=forget_bias,
        )  # fmt: skip
        self._init = init
        self._layout = RNNFused(mode, num_layers, num_hidden, bidirectional)
        self._forget_bias = forget_bias
        gates = {"lstm": ("i", "f", "c", "o"), "gru": ("r", "z", "o")}
        self.gates = gates.get(mode, ("",))

    def _init_weight(self, name: Any, arr: Any) -> None:
        layout, start = self._layout, 0
        directions = layout.num_layers * layout.dir
        # The pieces come layer by layer and direction by direction, all weights before all biases.
        for number, (part, shape) in enumerate(layout._pieces(arr.shape[0])):
            layer, direction = divmod(number // 2 % directions, layout.dir)
            group, kind = part.split("_")
            each = math.prod(shape) // len(self.gates)
            for gate in self.gates:
                own = f"{'lr'[direction]}{layer}_{group}{gate and '_' + gate}_{kind}"
                piece = arr[start : start + each]
                if kind == "weight":
                    piece = piece.reshape(layout.num_hidden, -1)
                self._fill(
                    InitDesc(own, global_init=getattr(name, "global_init", None)), gate, kind, piece
                )
                start += each

    def _fill(self, desc: InitDesc, gate: str, kind: str, piece: Any) -> None:
        if (gate, kind) == ("f", "bias"):
            piece[:] = self._forget_bias
            return
        init = desc.global_init if self._init is None else self._init
        if init is None or init is self:
            raise MXNetValueError(
                f"FusedRNN(init=None) leaves {desc} to the network's initializer, and there is none here: "
                "give it an init, or initialize the whole network"
            )
        init(desc, piece)
