"""Recurrent cells whose products are convolutions."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from mxjax import errors, npx
from mxjax.display.type_texts import Text

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


class _ConvCell(WeightedCell):
    """A cell whose states are images: (N, hidden_channels, ...) or (N, ..., hidden_channels), as the layout says.

    A class with ``dims=n`` is one for users: its signature and its text get the n axes.
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
            ]
        )

    def __init__(
        self, input_shape: Sequence[int], hidden_channels: int, i2h_kernel: Size, h2h_kernel: Size, i2h_pad: Size = 0,
        i2h_dilate: Size = 1, h2h_dilate: Size = 1, i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None, i2h_bias_initializer: Any = "zeros", h2h_bias_initializer: Any = "zeros",
        conv_layout: str | None = None, activation: Any = "tanh",
    ):  # fmt: skip
        super().__init__()
        conv_layout = conv_layout or "NC" + "DHW"[-self._dims :]
        self._hidden_channels = hidden_channels
        self._input_shape = tuple(input_shape)
        self._conv_layout = conv_layout
        self._activation = activation
        self._channel_axis = conv_layout.find("C")
        self._i2h_kernel, self._i2h_pad = self._sizes(i2h_kernel), self._sizes(i2h_pad)
        self._i2h_dilate, self._h2h_dilate = self._sizes(i2h_dilate), self._sizes(h2h_dilate)
        self._h2h_kernel = self._sizes(h2h_kernel)
        if not all(k % 2 for k in self._h2h_kernel):
            raise errors.MXNetAssertionError(
                f"Only support odd number, get h2h_kernel= {h2h_kernel}"
            )
        # A state keeps its size: the padding is half of what the kernel covers.
        self._h2h_pad = tuple(
            [d * (k - 1) // 2 for d, k in zip(self._h2h_dilate, self._h2h_kernel, strict=True)]
        )
        first = self._channel_axis == 1
        space = self._input_shape[1:] if first else self._input_shape[:-1]
        self._in_channels = self._input_shape[0 if first else -1]
        space = tuple([
            n + 2 * p - d * (k - 1) if n else 0
            for n, p, d, k in zip(space, self._i2h_pad, self._i2h_dilate, self._i2h_kernel, strict=True)
        ])  # fmt: skip
        self._state_shape = (hidden_channels, *space) if first else (*space, hidden_channels)
        rows = hidden_channels * len(self._gate_names)

        def shape(channels: int, kernel: tuple[int, ...]) -> tuple[int, ...]:
            return (rows, channels, *kernel) if first else (rows, *kernel, channels)

        inits = (
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
        )
        self._weights(
            shape(self._in_channels, self._i2h_kernel),
            shape(hidden_channels, self._h2h_kernel),
            inits,
        )

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

    def _project(self, inputs: Any) -> Any:
        d = inputs.device
        return npx.convolution(
            inputs, self.i2h_weight.data(d), self.i2h_bias.data(d), kernel=self._i2h_kernel, pad=self._i2h_pad,
            dilate=self._i2h_dilate, stride=(1,) * self._dims, num_filter=self._rows, layout=self._conv_layout,
        )  # fmt: skip

    def _project_all(self, sequence: Any) -> Any:
        steps, n = sequence.shape[:2]
        out = self._project(sequence.reshape((steps * n, *sequence.shape[2:])))
        return out.reshape((steps, n, *out.shape[1:]))

    def _from_state(self, state: Any, device: Any) -> Any:
        return npx.convolution(
            state.to_device(device), self.h2h_weight.data(device), self.h2h_bias.data(device),
            kernel=self._h2h_kernel, pad=self._h2h_pad, dilate=self._h2h_dilate, stride=(1,) * self._dims,
            num_filter=self._rows, layout=self._conv_layout,
        )  # fmt: skip

    def __repr__(self) -> str:
        shape = self.i2h_weight.shape or ()
        width = shape[1 if self._channel_axis == 1 else -1]
        arrow = f"{width or None} -> {shape[0]}"
        return f"{type(self).__name__}({arrow}, {self._activation}, {self._conv_layout})"


class _ConvRNNCell(_ConvCell):
    _step_on_symbols = "conv_rnn"

    def _alias(self) -> str:
        return "conv_rnn"

    def _recur(self, projected: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        out = self._get_activation(
            projected + self._from_state(states[0], projected.device), self._activation
        )
        return out, [out]


class _ConvLSTMCell(_ConvCell):
    _step_on_symbols = "conv_lstm"
    _states = 2
    _gate_names = ["_i", "_f", "_c", "_o"]

    def _alias(self) -> str:
        return "conv_lstm"

    def _recur(self, projected: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        d = projected.device
        gates = projected + self._from_state(states[0], d)
        parts = npx.slice_channel(gates, num_outputs=4, axis=self._channel_axis)
        i, f, o = (npx.sigmoid(parts[k]) for k in (0, 1, 3))
        memory = f * states[1].to_device(d) + i * self._get_activation(parts[2], self._activation)
        out = o * self._get_activation(memory, self._activation)
        return out, [out, memory]


class _ConvGRUCell(_ConvCell):
    _step_on_symbols = "conv_gru"
    _gate_names = ["_r", "_z", "_o"]

    def _alias(self) -> str:
        return "conv_gru"

    def _recur(self, projected: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        d = projected.device
        before = states[0].to_device(d)
        axis = self._channel_axis
        x_r, x_z, x_n = npx.slice_channel(projected, num_outputs=3, axis=axis)
        h_r, h_z, h_n = npx.slice_channel(self._from_state(before, d), num_outputs=3, axis=axis)
        r, z = npx.sigmoid(x_r + h_r), npx.sigmoid(x_z + h_z)
        new = self._get_activation(x_n + r * h_n, self._activation)
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
