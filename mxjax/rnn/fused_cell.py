"""Layers of recurrent cells as one operator."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from .. import initializer as init
from .. import nd
from ..errors import MXNetAssertionError, MXNetNotImplementedError, MXNetValueError
from .rnn_cell import (
    BaseRNNCell,
    BidirectionalCell,
    DropoutCell,
    GRUCell,
    LSTMCell,
    RNNCell,
    RNNParams,
    SequentialRNNCell,
    _normalize_sequence,
    symbol,
)

__all__ = ["FusedRNNCell"]

_MODES: dict[str, tuple[str, ...]] = {
    "rnn_relu": ("",),
    "rnn_tanh": ("",),
    "lstm": ("_i", "_f", "_c", "_o"),
    "gru": ("_r", "_z", "_o"),
}


class FusedRNNCell(BaseRNNCell):
    """Layers of cells as one operator, `mx.sym.RNN`, with all weights in one array.

    Args:
      num_hidden: the size of the states.
      num_layers: how many layers.
      mode: "rnn_relu", "rnn_tanh", "lstm" or "gru".
      bidirectional: each layer in both directions.
      dropout: between layers.
      get_next_state: give the states after the last step.
      forget_bias: what the forget gates' biases begin with.
      prefix: by default the mode and an underscore.
      params: as in `BaseRNNCell`.
    """

    _no_steps = "Please unfuse first."

    def __init__(
        self, num_hidden: int, num_layers: int = 1, mode: str = "lstm", bidirectional: bool = False,
        dropout: float = 0.0, get_next_state: bool = False, forget_bias: float = 1.0, prefix: str | None = None,
        params: RNNParams | None = None,
    ):  # fmt: skip
        if mode not in _MODES:
            raise MXNetValueError(f"mode must be one of {', '.join(_MODES)}, got {mode!r}")
        super().__init__(prefix=f"{mode}_" if prefix is None else prefix, params=params)
        self._num_hidden = num_hidden
        self._num_layers = num_layers
        self._mode = mode
        self._bidirectional = bidirectional
        self._dropout = dropout
        self._get_next_state = get_next_state
        self._directions = ("l", "r") if bidirectional else ("l",)
        fused = init.FusedRNN(None, num_hidden, num_layers, mode, bidirectional, forget_bias)
        self._parameter = self.params.get("parameters", init=fused)

    @property
    def state_info(self) -> list[Any]:
        shape = (len(self._directions) * self._num_layers, 0, self._num_hidden)
        return [{"shape": shape, "__layout__": "LNC"} for _ in range(1 + (self._mode == "lstm"))]

    @property
    def _gate_names(self) -> Sequence[str]:
        return list(_MODES[self._mode])

    @property
    def _num_gates(self) -> int:
        return len(self._gate_names)

    def _slice_weights(self, arr: Any, li: int, lh: int) -> dict[str, Any]:
        """Views of the weights by name, in the array of all of them, for inputs of so many numbers."""
        parts: dict[str, Any] = {}
        begin = 0
        for name, shape in self._parts(li):
            end = begin + shape[0] * (shape[1] if len(shape) > 1 else 1)
            parts[name] = arr[begin:end].reshape(shape)
            begin = end
        if begin != arr.size:
            raise MXNetAssertionError(
                f"Invalid parameters size for FusedRNNCell: {arr.size}, expected {begin}"
            )
        return parts

    def _parts(self, num_input: int) -> list[tuple[str, tuple[int, ...]]]:
        """Names and shapes of the weights in the order that the operator has them: weights, then biases."""
        size = self._num_hidden
        groups = [
            (f"{self._prefix}{direction}{layer}_{group}", length)
            for layer in range(self._num_layers)
            for direction in self._directions
            for group, length in (
                ("i2h", num_input if layer == 0 else len(self._directions) * size),
                ("h2h", size),
            )
        ]
        weights = [
            (f"{group}{gate}_weight", (size, length))
            for group, length in groups
            for gate in self._gate_names
        ]
        return weights + [
            (f"{group}{gate}_bias", (size,)) for group, _ in groups for gate in self._gate_names
        ]

    def _num_input(self, size: int) -> int:
        """The size of the input from that of the array."""
        directions, hidden, gates = len(self._directions), self._num_hidden, self._num_gates
        later = (self._num_layers - 1) * (hidden + directions * hidden + 2)
        return size // directions // hidden // gates - later - hidden - 2

    def unpack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        args = dict(args)
        whole = args.pop(self._parameter.name)
        parts = self._slice_weights(whole, self._num_input(whole.size), self._num_hidden)
        return {**args, **{name: part.copy() for name, part in parts.items()}}

    def pack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        args = dict(args)
        first = args[f"{self._prefix}l0_i2h{self._gate_names[0]}_weight"]
        parts = [args.pop(name).reshape((-1,)) for name, _ in self._parts(first.shape[1])]
        args[self._parameter.name] = nd.concatenate(parts)
        return args

    def __call__(self, inputs: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        """It has no steps.

        Raises:
          NotImplementedError: always.
        """
        raise MXNetNotImplementedError("FusedRNNCell cannot be stepped. Please use unroll")

    def unroll(
        self, length: int, inputs: Any, begin_state: Any = None, layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:  # fmt: skip
        self.reset()
        inputs, axis = _normalize_sequence(length, inputs, layout, True)
        if axis not in (0, 1):
            raise MXNetAssertionError(f"Unsupported layout {layout}: NTC or TNC")
        if axis == 1:
            warnings.warn(
                "NTC layout detected. Consider using TNC for FusedRNNCell for faster speed",
                stacklevel=2,
            )
            inputs = symbol.swapaxes(inputs, dim1=0, dim2=1)
        begin = self.begin_state() if begin_state is None else begin_state
        made = symbol.RNN(
            data=inputs, parameters=self._parameter, state_size=self._num_hidden, num_layers=self._num_layers,
            bidirectional=self._bidirectional, p=self._dropout, state_outputs=self._get_next_state, mode=self._mode,
            name=f"{self._prefix}rnn", **dict(zip(("state", "state_cell"), begin, strict=False)),
        )  # fmt: skip
        outputs, states = made, []
        if self._get_next_state:
            outputs, *states = (made[place] for place in range(1 + len(begin)))
            for state in states:
                state._set_attr(__layout__="LNC")
        if axis == 1:
            outputs = symbol.swapaxes(outputs, dim1=0, dim2=1)
        outputs, _ = _normalize_sequence(length, outputs, layout, merge_outputs)
        return outputs, states

    def unfuse(self) -> SequentialRNNCell:
        """The same as single cells, which take the weights of `unpack_weights`."""

        def cell(prefix: str) -> BaseRNNCell:
            if self._mode == "lstm":
                return LSTMCell(self._num_hidden, prefix=prefix)
            if self._mode == "gru":
                return GRUCell(self._num_hidden, prefix=prefix)
            return RNNCell(
                self._num_hidden, activation=self._mode.removeprefix("rnn_"), prefix=prefix
            )

        stack = SequentialRNNCell()
        for layer in range(self._num_layers):
            if self._bidirectional:
                there, back = (cell(f"{self._prefix}{direction}{layer}_") for direction in "lr")
                stack.add(
                    BidirectionalCell(there, back, output_prefix=f"{self._prefix}bi_l{layer}_")
                )
            else:
                stack.add(cell(f"{self._prefix}l{layer}_"))
            if self._dropout > 0 and layer != self._num_layers - 1:
                stack.add(DropoutCell(self._dropout, prefix=f"{self._prefix}_dropout{layer}_"))
        return stack
