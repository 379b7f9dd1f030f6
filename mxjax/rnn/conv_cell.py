"""Recurrent cells of images: convolutions in the place of products (Shi et al. 2015)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ..errors import MXNetAssertionError, MXNetNotImplementedError
from .rnn_cell import BaseRNNCell, RNNParams, _gru, _lstm, symbol

__all__ = ["BaseConvRNNCell", "ConvGRUCell", "ConvLSTMCell", "ConvRNNCell"]

Pair = tuple[int, int]
_LEAKY = functools.partial(symbol.LeakyReLU, act_type="leaky", slope=0.2)


class BaseConvRNNCell(BaseRNNCell):
    """The base of cells whose inputs and states are images.

    Args:
      input_shape: of the input, batch included.
      num_hidden: channels of the states.
      h2h_kernel, h2h_dilate: of the convolution of the state, whose size it keeps; odd.
      i2h_kernel, i2h_stride, i2h_pad, i2h_dilate: of the convolution of the input.
      i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer: of the parameters.
      activation: a name, or a function of symbols.
      prefix, params: as in `BaseRNNCell`.
      conv_layout: the axes of images.
    """

    def __init__(
        self, input_shape: Sequence[int], num_hidden: int, h2h_kernel: Pair, h2h_dilate: Pair, i2h_kernel: Pair,
        i2h_stride: Pair, i2h_pad: Pair, i2h_dilate: Pair, i2h_weight_initializer: Any, h2h_weight_initializer: Any,
        i2h_bias_initializer: Any, h2h_bias_initializer: Any, activation: Any, prefix: str = "",
        params: RNNParams | None = None, conv_layout: str = "NCHW",
    ):  # fmt: skip
        super().__init__(prefix=prefix, params=params)
        if any(length % 2 == 0 for length in h2h_kernel):
            raise MXNetAssertionError(f"Only support odd number, get h2h_kernel= {h2h_kernel}")
        self._num_hidden = num_hidden
        self._input_shape = input_shape
        self._conv_layout = conv_layout
        self._activation = activation
        self._of_input: dict[str, Any] = {
            "kernel": i2h_kernel, "stride": i2h_stride, "pad": i2h_pad, "dilate": i2h_dilate, "layout": conv_layout,
        }  # fmt: skip
        pad = tuple(d * (k - 1) // 2 for d, k in zip(h2h_dilate, h2h_kernel, strict=True))
        self._of_state: dict[str, Any] = {
            "kernel": h2h_kernel, "stride": (1, 1), "pad": pad, "dilate": h2h_dilate, "layout": conv_layout,
        }  # fmt: skip
        made = symbol.Convolution(
            data=symbol.Variable("data"), num_filter=num_hidden, **self._of_input
        )
        self._state_shape = (0, *made.infer_shape(data=tuple(input_shape))[1][0][1:])
        self._iW = self.params.get("i2h_weight", init=i2h_weight_initializer)
        self._hW = self.params.get("h2h_weight", init=h2h_weight_initializer)
        self._iB = self.params.get("i2h_bias", init=i2h_bias_initializer)
        self._hB = self.params.get("h2h_bias", init=h2h_bias_initializer)

    @property
    def _num_gates(self) -> int:
        return len(self._gate_names)

    @property
    def state_info(self) -> list[Any]:
        return [{"shape": self._state_shape, "__layout__": self._conv_layout} for _ in range(2)]

    def _conv_forward(self, inputs: Any, states: Sequence[Any], name: str) -> tuple[Any, Any]:
        channels = self._num_hidden * self._num_gates
        i2h = symbol.Convolution(
            data=inputs,
            weight=self._iW,
            bias=self._iB,
            num_filter=channels,
            name=f"{name}i2h",
            **self._of_input,
        )
        h2h = symbol.Convolution(
            data=states[0],
            weight=self._hW,
            bias=self._hB,
            num_filter=channels,
            name=f"{name}h2h",
            **self._of_state,
        )
        return i2h, h2h

    def _activate(self, inputs: Any, **kwargs: Any) -> Any:
        return self._get_activation(inputs, self._activation, **kwargs)

    def __call__(self, inputs: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        raise MXNetNotImplementedError("BaseConvRNNCell is abstract class for convolutional RNN")


class _Usual(BaseConvRNNCell):
    """The defaults that all three have."""

    _usual_prefix = ""

    def __init__(
        self, input_shape: Sequence[int], num_hidden: int, h2h_kernel: Pair = (3, 3), h2h_dilate: Pair = (1, 1),
        i2h_kernel: Pair = (3, 3), i2h_stride: Pair = (1, 1), i2h_pad: Pair = (1, 1), i2h_dilate: Pair = (1, 1),
        i2h_weight_initializer: Any = None, h2h_weight_initializer: Any = None, i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros", activation: Any = _LEAKY, prefix: str | None = None,
        params: RNNParams | None = None, conv_layout: str = "NCHW",
    ):  # fmt: skip
        super().__init__(
            input_shape, num_hidden, h2h_kernel, h2h_dilate, i2h_kernel, i2h_stride, i2h_pad, i2h_dilate,
            i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer, activation,
            self._usual_prefix if prefix is None else prefix, params, conv_layout,
        )  # fmt: skip


class ConvRNNCell(_Usual):
    """`RNNCell` of images; the arguments are those of `BaseConvRNNCell`."""

    _usual_prefix = "ConvRNN_"

    @property
    def state_info(self) -> list[Any]:
        return super().state_info[:1]

    @property
    def _gate_names(self) -> Sequence[str]:
        return ("",)

    def __call__(self, inputs: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        name = self._step_name()
        i2h, h2h = self._conv_forward(inputs, states, name)
        output = self._activate(i2h + h2h, name=f"{name}out")
        return output, [output]


class ConvLSTMCell(_Usual):
    """`LSTMCell` of images; the arguments are those of `BaseConvRNNCell`."""

    _usual_prefix = "ConvLSTM_"

    @property
    def _gate_names(self) -> Sequence[str]:
        return ["_i", "_f", "_c", "_o"]

    def __call__(self, inputs: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        name = self._step_name()
        i2h, h2h = self._conv_forward(inputs, states, name)
        return _lstm(i2h + h2h, states[1], self._activate, name, self._conv_layout.find("C"))


class ConvGRUCell(_Usual):
    """`GRUCell` of images; the arguments are those of `BaseConvRNNCell`."""

    _usual_prefix = "ConvGRU_"

    @property
    def state_info(self) -> list[Any]:
        return super().state_info[:1]

    @property
    def _gate_names(self) -> Sequence[str]:
        return ["_r", "_z", "_o"]

    def __call__(self, inputs: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        name = self._step_name()
        i2h, h2h = self._conv_forward(inputs, states, name)
        return _gru(i2h, h2h, states[0], self._activate, name, self._conv_layout.find("C"))
