"""Convolutions whose taps are moved by offsets that a second convolution computes."""

from __future__ import annotations

from typing import Any

from mxjax import errors, nd, npx
from mxjax.display.wording import worded

from ..graphs.shapes import shown_width
from ..layer import Layer
from ..parameter import Parameter
from ._windows import Size, _tuple, described
from .activations import Activation

__all__ = ["DeformableConvolution", "ModulatedDeformableConvolution"]


@worded("convolution")
class DeformableConvolution(Layer):
    """A 2-d convolution with learned offsets (https://arxiv.org/abs/1703.06211).

    (N, C, H, W) gives (N, channels, H', W').

    Args:
      num_deformable_group: how many groups of channels have offsets of their own.
      offset_weight_initializer, offset_bias_initializer, offset_use_bias: of the convolution that computes them.
      op_name, adj: accepted from MXNet; they change nothing.

    >>> import mxjax as mx
    >>> layer = mx.gluon.nn.DeformableConvolution(4, kernel_size=3, padding=1)
    >>> layer.initialize()
    >>> layer(mx.np.ones((1, 2, 5, 6))).shape
    (1, 4, 5, 6)
    """

    _per_tap = 2  # y and x
    _offsets_first = True  # among the parameters

    def _alias(self) -> str:
        return "deformable_conv"

    def __init__(
        self,
        channels: int,
        kernel_size: Size = (1, 1),
        strides: Size = (1, 1),
        padding: Size = (0, 0),
        dilation: Size = (1, 1),
        groups: int = 1,
        num_deformable_group: int = 1,
        layout: str = "NCHW",
        use_bias: bool = True,
        in_channels: int = 0,
        activation: str | None = None,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        offset_weight_initializer: Any = "zeros",
        offset_bias_initializer: Any = "zeros",
        offset_use_bias: bool = True,
        op_name: str | None = None,
        adj: Any = None,
    ):
        super().__init__()
        if layout not in ("NCHW", "NHWC"):
            raise errors.MXNetAssertionError(
                f"Only supports 'NCHW' and 'NHWC' layout for now, got {layout}"
            )
        kernel = _tuple(kernel_size, 2, "kernel_size")
        self._layout, self._groups, self._in_channels = layout, groups, in_channels
        self._taps = num_deformable_group * kernel[0] * kernel[1]
        shared: dict[str, Any] = {
            "kernel": kernel, "stride": _tuple(strides, 2, "strides"), "pad": _tuple(padding, 2, "padding"),
            "dilate": _tuple(dilation, 2, "dilation"), "num_group": groups, "layout": layout,
        }  # fmt: skip
        offsets = self._per_tap * self._taps
        self._of_offsets = {**shared, "num_filter": offsets, "no_bias": not offset_use_bias}
        self._kwargs = {
            **shared, "num_filter": channels, "no_bias": not use_bias, "num_deformable_group": num_deformable_group,
        }  # fmt: skip

        def made(name: str, shape: tuple[int, ...], init: Any) -> Parameter:
            return Parameter(name, shape=shape, init=init, allow_deferred_init=True)

        def of_offsets() -> None:
            shape = self._shape(offsets, kernel, in_channels)
            self.offset_weight = made("offset_weight", shape, offset_weight_initializer)
            self.offset_bias = (
                made("offset_bias", (offsets,), offset_bias_initializer)
                if offset_use_bias
                else None
            )

        if self._offsets_first:
            of_offsets()
        self.deformable_conv_weight = made(
            "deformable_conv_weight", self._shape(channels, kernel, in_channels), weight_initializer
        )
        self.deformable_conv_bias = (
            made("deformable_conv_bias", (channels,), bias_initializer) if use_bias else None
        )
        if not self._offsets_first:
            of_offsets()
        self.act = Activation(activation) if activation else None

    def _shape(self, filters: int, kernel: tuple[int, ...], in_channels: int) -> tuple[int, ...]:
        channels = in_channels // self._groups
        return (
            (filters, channels, *kernel) if self._layout == "NCHW" else (filters, *kernel, channels)
        )

    def infer_shape(self, x: Any) -> None:
        """The weights' shapes for inputs ``x``."""
        kernel, channels = self._kwargs["kernel"], x.shape[self._layout.find("C")]
        self.deformable_conv_weight.shape = self._shape(
            self._kwargs["num_filter"], kernel, channels
        )
        self.offset_weight.shape = self._shape(self._of_offsets["num_filter"], kernel, channels)

    def _offsets(self, x: Any) -> Any:
        d, bias = x.device, self.offset_bias
        return npx.convolution(
            x,
            self.offset_weight.data(d),
            None if bias is None else bias.data(d),
            **self._of_offsets,
        )

    def _parameters(self, x: Any) -> tuple[Any, Any]:
        d, bias = x.device, self.deformable_conv_bias
        return self.deformable_conv_weight.data(d), None if bias is None else bias.data(d)

    def forward(self, x: Any) -> Any:
        """The convolution at the offsets that it computes."""
        out = npx.deformable_convolution(x, self._offsets(x), *self._parameters(x), **self._kwargs)
        return out if self.act is None else self.act(out)

    def __repr__(self) -> str:
        shape = self.deformable_conv_weight.shape or ()
        channels = shape[1 if self._layout == "NCHW" else -1]
        return described(self, f"{shown_width(channels)} -> {shape[0]}", self.deformable_conv_bias)


class ModulatedDeformableConvolution(DeformableConvolution):
    """A deformable convolution whose taps are weighed, too (https://arxiv.org/abs/1811.11168).

    Args: those of DeformableConvolution.

    Args:
      channels: the number of output channels.
      kernel_size: the length of the window on each spatial axis, or one number for all.
      strides: the distance of windows on each spatial axis.
      padding: how many zeros are added at both ends of each spatial axis.
      dilation: the distance of a kernel's taps on each spatial axis.
      groups: in how many groups channels are computed apart.
      num_deformable_group: in how many groups of channels offsets are their own.
      layout: the order of the axes, with N, C and the spatial ones D, H, W.
      use_bias: whether a bias is added.
      in_channels: the number of input channels; found at the first call if it is 0.
      activation: the function that follows, by its name in `npx.activation`; none without.
      weight_initializer: fills the weight; the block's own way without.
      bias_initializer: fills the bias.
      offset_weight_initializer: fills the weights of the convolution that gives the offsets.
      offset_bias_initializer: fills the bias of the convolution that gives the offsets.
      offset_use_bias: whether the offsets' convolution has a bias.
      op_name: the operator that computes it.
      adj: how much longer the output is than the smallest possible.
    """

    _per_tap = 3  # y, x and the weight
    _offsets_first = False

    def _alias(self) -> str:
        return "modulated_deformable_conv"

    def forward(self, x: Any) -> Any:
        """The convolution at the offsets, with the weights, that it computes."""
        found = self._offsets(x)
        split = 2 * self._taps
        offsets, mask = [
            nd.slice_axis(found, axis=1, begin=b, end=e) for b, e in ((0, split), (split, None))
        ]
        mask = npx.sigmoid(mask) * 2
        out = npx.modulated_deformable_convolution(
            x, offsets, mask, *self._parameters(x), **self._kwargs
        )
        return out if self.act is None else self.act(out)
