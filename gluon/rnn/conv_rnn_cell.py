"""Recurrent cells whose products are convolutions."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from mxjax import errors, nd, npx
from mxjax.display.type_texts import Text
from mxjax.modes import generation

from ._base import HybridRecurrentCell, of_symbols
from ._gated import WeightedCell

__all__ = [
    "Conv1DGRUCell", "Conv1DLSTMCell", "Conv1DRNNCell", "Conv2DGRUCell", "Conv2DLSTMCell", "Conv2DRNNCell",
    "Conv3DGRUCell", "Conv3DLSTMCell", "Conv3DRNNCell",
]  # fmt: skip

Size = int | Sequence[int]

#: The text that the cells share, by their axes.
_TEXT = """
    Inputs: data (N, *input_shape), a list of {states} (N, hidden_channels, {space}). Outputs: as RNNCell.

    Args:
      input_shape: of one row, ({axes}) as ``conv_layout`` says.
      hidden_channels: channels of the states.
      i2h_kernel, i2h_pad, i2h_dilate: of the convolution of the inputs.
      h2h_kernel, h2h_dilate: of the convolution of the state; odd sizes.
      i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer: of the
        parameters of these names.
      conv_layout: "{layout}" or with the channels last.
      activation: a name or a block.
    """


class _BaseConvRNNCell(WeightedCell):
    """A cell whose states are images: (N, hidden_channels, ...) or (N, ..., hidden_channels), as the layout says.

    A class with ``dims=n`` is one for users: its signature and its text get the n axes. Programs' own cells give `dims`
    when they are made, and override `_gate_names`, `_decide_shapes` or `_conv_forward`, as in MXNet.
    """

    _dims = 2
    _states = 1
    _gate_names: Sequence[str] = ("",)

    def __init_subclass__(cls, dims: int = 0, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not dims:
            return
        cls._dims = dims
        layout, states = "NC" + "DHW"[-dims:], "two states" if cls._states == 2 else "one state"
        axes = ", ".join(layout[1:])
        cls.__doc__ = f"{cls.__doc__ or ''}\n" + _TEXT.format(
            layout=layout, axes=axes, space=axes[3:], states=states
        )
        defaults = {
            "i2h_pad": (0,) * dims,
            "i2h_dilate": (1,) * dims,
            "h2h_dilate": (1,) * dims,
            "conv_layout": layout,
        }
        known = list(inspect.signature(cls.__init__).parameters.values())[1:]
        cls.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                p.replace(default=defaults.get(p.name, p.default), annotation=Text(p.annotation))
                for p in known
                if p.name != "dims"
            ]
        )

    def __init__(
        self, input_shape: Sequence[int], hidden_channels: int, i2h_kernel: Size, h2h_kernel: Size, i2h_pad: Size = 0,
        i2h_dilate: Size = 1, h2h_dilate: Size = 1, i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None, i2h_bias_initializer: Any = "zeros", h2h_bias_initializer: Any = "zeros",
        conv_layout: str | None = None, activation: Any = "tanh", dims: int | None = None,
    ):  # fmt: skip
        super().__init__()
        self._dims = dims or self._dims
        conv_layout = conv_layout or "NC" + "DHW"[-self._dims :]
        self._hidden_channels = hidden_channels
        self._input_shape = tuple(input_shape)
        self._conv_layout = conv_layout
        self._activation = activation
        self._stride = (1,) * self._dims
        self._i2h_kernel, self._i2h_pad = self._sizes(i2h_kernel), self._sizes(i2h_pad)
        self._i2h_dilate, self._h2h_dilate = self._sizes(i2h_dilate), self._sizes(h2h_dilate)
        self._h2h_kernel = self._sizes(h2h_kernel)
        if not all(k % 2 for k in self._h2h_kernel):
            raise errors.MXNetAssertionError(
                f"Only support odd number, get h2h_kernel= {h2h_kernel}"
            )
        self._channel_axis, self._in_channels, i2h, h2h, self._h2h_pad, self._state_shape = (
            self._decide_shapes()
        )
        inits = (
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
        )
        self._weights(i2h, h2h, inits)

    @property
    def _num_gates(self) -> int:
        return len(self._gate_names)

    def _decide_shapes(self) -> tuple[Any, ...]:
        """The channels' axis, the inputs' channels, the weights' shapes, the padding and the shape of a state."""
        axis = self._conv_layout.find("C")
        first = axis == 1
        # A state keeps its size: the padding is half of what the kernel covers.
        pad = tuple(
            [d * (k - 1) // 2 for d, k in zip(self._h2h_dilate, self._h2h_kernel, strict=True)]
        )
        channels = self._input_shape[0 if first else -1]
        space = tuple([
            n + 2 * p - d * (k - 1) if n else 0
            for n, p, d, k in zip(
                self._input_shape[1:] if first else self._input_shape[:-1],
                self._i2h_pad, self._i2h_dilate, self._i2h_kernel, strict=True,
            )
        ])  # fmt: skip
        hidden = self._hidden_channels
        rows = hidden * self._num_gates

        def shape(channels: int, kernel: tuple[int, ...]) -> tuple[int, ...]:
            return (rows, channels, *kernel) if first else (rows, *kernel, channels)

        state = (hidden, *space) if first else (*space, hidden)
        i2h, h2h = shape(channels, self._i2h_kernel), shape(hidden, self._h2h_kernel)
        return axis, channels, i2h, h2h, pad, state

    def _sizes(self, given: Size) -> tuple[int, ...]:
        n = self._dims
        if isinstance(given, int):
            return (given,) * n
        if len(given) != n:
            raise errors.MXNetAssertionError(
                f"For {n}D convolution, the convolution settings can only be either int or list/tuple of length {n}, "
                f"got {given}"
            )
        return tuple(given)

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Shape and layout of each state."""
        info = {"shape": (batch_size, *self._state_shape), "__layout__": self._conv_layout}
        return [dict(info) for _ in range(self._states)]

    def infer_shape(self, i: int, x: Any, is_bidirect: bool) -> None:
        """The weight's shape for inputs ``x``."""
        shape = list(self.i2h_weight.shape or ())
        shape[self._channel_axis] = x.shape[-self._dims - 1 :][self._channel_axis - 1]
        self.i2h_weight.shape = tuple(shape)

    @property
    def _of_inputs(self) -> dict[str, Any]:
        """The options of the convolution of the inputs."""
        return {
            "kernel": self._i2h_kernel, "pad": self._i2h_pad, "dilate": self._i2h_dilate, "stride": self._stride,
            "num_filter": self._rows, "layout": self._conv_layout,
        }  # fmt: skip

    @property
    def _of_state(self) -> dict[str, Any]:
        """The options of the convolution of the state."""
        return {
            **self._of_inputs,
            "kernel": self._h2h_kernel,
            "pad": self._h2h_pad,
            "dilate": self._h2h_dilate,
        }

    def _conv_forward(self, *given: Any) -> tuple[Any, Any]:
        """Both convolutions of `inputs, states`; subclasses override it.

        In programs of MXNet 1 it takes `F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias, prefix`.
        """
        if generation() != 1:
            inputs, states = given
            return self._project(inputs), self._from_state(states[0], inputs.device)
        F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias, prefix = given
        if of_symbols(inputs):
            i2h = F.Convolution(
                inputs, i2h_weight, i2h_bias, name=f"{prefix}i2h", **self._of_inputs
            )
            h2h = F.Convolution(
                states[0], h2h_weight, h2h_bias, name=f"{prefix}h2h", **self._of_state
            )
        else:
            i2h = npx.convolution(inputs, i2h_weight, i2h_bias, **self._of_inputs)
            h2h = npx.convolution(states[0], h2h_weight, h2h_bias, **self._of_state)
        return i2h, h2h

    @property
    def _own_convolutions(self) -> bool:
        return type(self)._conv_forward is not _BaseConvRNNCell._conv_forward

    def _step(self, inputs: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        if not self._own_convolutions:
            return super()._step(inputs, states)
        if generation() != 1:
            return self._combine(*self._conv_forward(inputs, states), states)
        d = inputs.device
        weights = [
            p.data(d) for p in (self.i2h_weight, self.h2h_weight, self.i2h_bias, self.h2h_bias)
        ]
        return self._combine(*self._conv_forward(nd, inputs, states, *weights, "t0_"), states)

    def _hoisted(self, sequence: Any) -> Any:
        if self._own_convolutions:
            return HybridRecurrentCell._hoisted(self, sequence)
        return super()._hoisted(sequence)

    def _recur(self, projected: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        return self._combine(projected, self._from_state(states[0], projected.device), states)

    def _combine(self, i2h: Any, h2h: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        """The step from both convolutions."""
        raise NotImplementedError

    def _project(self, inputs: Any) -> Any:
        d = inputs.device
        return npx.convolution(
            inputs, self.i2h_weight.data(d), self.i2h_bias.data(d), **self._of_inputs
        )

    def _project_all(self, sequence: Any) -> Any:
        steps, n = sequence.shape[:2]
        out = self._project(sequence.reshape((steps * n, *sequence.shape[2:])))
        return out.reshape((steps, n, *out.shape[1:]))

    def _from_state(self, state: Any, device: Any) -> Any:
        return npx.convolution(
            state.to_device(device), self.h2h_weight.data(device), self.h2h_bias.data(device),
            **self._of_state,
        )  # fmt: skip

    def __repr__(self) -> str:
        shape = self.i2h_weight.shape or ()
        width = shape[1 if self._channel_axis == 1 else -1]
        arrow = f"{width or None} -> {shape[0]}"
        return f"{type(self).__name__}({arrow}, {self._activation}, {self._conv_layout})"


class _ConvRNNCell(_BaseConvRNNCell):
    _step_on_symbols = "conv_rnn"

    def _alias(self) -> str:
        return "conv_rnn"

    def _combine(self, i2h: Any, h2h: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        out = self._activate(i2h + h2h, self._activation)
        return out, [out]


class _ConvLSTMCell(_BaseConvRNNCell):
    _step_on_symbols = "conv_lstm"
    _states = 2
    _gate_names = ["_i", "_f", "_c", "_o"]

    def _alias(self) -> str:
        return "conv_lstm"

    def _combine(self, i2h: Any, h2h: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        parts = npx.slice_channel(i2h + h2h, num_outputs=4, axis=self._channel_axis)
        i, f, o = (npx.sigmoid(parts[k]) for k in (0, 1, 3))
        memory = f * states[1].to_device(i2h.device) + i * self._activate(
            parts[2], self._activation
        )
        out = o * self._activate(memory, self._activation)
        return out, [out, memory]


class _ConvGRUCell(_BaseConvRNNCell):
    _step_on_symbols = "conv_gru"
    _gate_names = ["_r", "_z", "_o"]

    def _alias(self) -> str:
        return "conv_gru"

    def _combine(self, i2h: Any, h2h: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        before = states[0].to_device(i2h.device)
        axis = self._channel_axis
        x_r, x_z, x_n = npx.slice_channel(i2h, num_outputs=3, axis=axis)
        h_r, h_z, h_n = npx.slice_channel(h2h, num_outputs=3, axis=axis)
        r, z = npx.sigmoid(x_r + h_r), npx.sigmoid(x_z + h_z)
        new = self._activate(x_n + r * h_n, self._activation)
        out = (1 - z) * new + z * before
        return out, [out]


class Conv1DRNNCell(_ConvRNNCell, dims=1):
    """Elman's cell with 1D convolutions."""


class Conv2DRNNCell(_ConvRNNCell, dims=2):
    """Elman's cell with 2D convolutions."""


class Conv3DRNNCell(_ConvRNNCell, dims=3):
    """Elman's cell with 3D convolutions."""


class Conv1DLSTMCell(_ConvLSTMCell, dims=1):
    """LSTM with 1D convolutions (https://arxiv.org/abs/1506.04214)."""


class Conv2DLSTMCell(_ConvLSTMCell, dims=2):
    """LSTM with 2D convolutions (https://arxiv.org/abs/1506.04214)."""


class Conv3DLSTMCell(_ConvLSTMCell, dims=3):
    """LSTM with 3D convolutions (https://arxiv.org/abs/1506.04214)."""


class Conv1DGRUCell(_ConvGRUCell, dims=1):
    """GRU with 1D convolutions."""


class Conv2DGRUCell(_ConvGRUCell, dims=2):
    """GRU with 2D convolutions."""


class Conv3DGRUCell(_ConvGRUCell, dims=3):
    """GRU with 3D convolutions."""
