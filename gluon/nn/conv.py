"""Convolution and pooling layers."""

from __future__ import annotations

from typing import Any

import numpy as onp

from mxjax import errors, np, npx
from mxjax.display.wording import worded
from mxjax.modes import generation

from ..graphs.shapes import infer, parameter_shapes
from ..hybrid_block import HybridBlock
from ..layer import Layer
from ..parameter import Parameter
from ._windows import Size, _tuple, check_layout, described
from .activations import activation_in


class _Conv(Layer):
    """What all convolutions share. Users' layers are made of it, too, with MXNet's arguments: there `kernel_size` is a
    tuple, `op_name` "Convolution" or "Deconvolution", and `adj` the latter's output padding."""

    _operator_is_fwd = True
    _dims = 0
    _transposed = False

    def __init__(
        self,
        channels: int,
        kernel_size: Size,
        strides: Size,
        padding: Size,
        dilation: Size,
        groups: int,
        layout: str,
        in_channels: int = 0,
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        op_name: str = "Convolution",
        adj: Size | None = None,
        dtype: Any = onp.float32,
    ):
        super().__init__()
        self._transposed = self._transposed or op_name.lower() == "deconvolution"
        n = self._dims or len(kernel_size)  # type: ignore[arg-type]
        check_layout(layout, n)
        self._channels = channels
        self._in_channels = in_channels
        self._groups = groups
        self._layout = layout
        self._kernel = self._kernel_size = _tuple(kernel_size, n, "kernel_size")
        self._kwargs: dict[str, Any] = {
            "kernel": self._kernel,
            "stride": _tuple(strides, n, "strides"),
            "dilate": _tuple(dilation, n, "dilation"),
            "pad": _tuple(padding, n, "padding"),
            "num_filter": channels,
            "num_group": groups,
            "no_bias": not use_bias,
            "layout": layout,
        }
        if self._transposed:
            self._kwargs["adj"] = _tuple(0 if adj is None else adj, n, "output_padding")
        self.weight = Parameter(
            "weight",
            shape=self.pre_infer(),
            dtype=dtype,
            init=weight_initializer,
            allow_deferred_init=True,
        )
        self.bias = (
            Parameter(
                "bias",
                shape=(channels,),
                dtype=dtype,
                init=bias_initializer,
                allow_deferred_init=True,
            )
            if use_bias
            else None
        )
        self.act = activation_in(self, activation)

    def _alias(self) -> str:
        return "conv"

    def pre_infer(self) -> tuple[int, ...]:
        """The weight's shape as far as it is known before there is an input."""
        known = self._in_channels if self._in_channels > 0 or self._transposed else -1
        images = tuple(known if axis == "C" else 1 for axis in self._layout)
        return parameter_shapes(self._operator, images, **self._kwargs)["weight"]

    @property
    def _op_name(self) -> str:
        """The operator's name in this generation of MXNet."""
        return self._operator.capitalize() if generation() == 1 else self._operator

    @property
    def outpad(self) -> Any:
        """The output padding of a transposed convolution.

        Raises:
          AttributeError: a convolution has none.
        """
        if not self._transposed:
            raise errors.MXNetAttributeError(f"{type(self).__name__} has no output padding")
        return self._kwargs["adj"]

    @property
    def _operator(self) -> str:
        return "deconvolution" if self._transposed else "convolution"

    def infer_shape(self, x: Any, *args: Any) -> None:
        infer(self, self._operator, x.shape, **self._kwargs)

    def forward(self, x: Any) -> Any:
        d = x.device
        bias = self.bias
        operator = npx.deconvolution if self._transposed else npx.convolution
        out = operator(
            x, self.weight.data(d), None if bias is None else bias.data(d), **self._kwargs
        )
        return out if self.act is None else self.act(out)

    def __repr__(self) -> str:
        shape = self.weight.shape or ()
        second = shape[-1] if self._layout.endswith("C") else shape[1]
        # As in MXNet: the weight's own two lengths, which count one group.
        if generation() == 1:
            arrow = f"{second or None} -> {shape[0]}"
        else:
            arrow = f"{shape[0]} -> {second}" if self._transposed else f"{second} -> {shape[0]}"
        return described(self, arrow, self.bias)


class _PlainConv(_Conv):
    _default_layout = "NCHW"

    def __init__(
        self,
        channels: int,
        kernel_size: Size,
        strides: Size = 1,
        padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        layout: str | None = None,
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        dtype: Any = onp.float32,
    ):
        super().__init__(
            channels, kernel_size, strides, padding, dilation, groups, layout or self._default_layout,
            in_channels, activation, use_bias, weight_initializer, bias_initializer, dtype=dtype,
        )  # fmt: skip


class _TransposedConv(_Conv):
    _transposed = True
    _default_layout = "NCHW"

    def __init__(
        self,
        channels: int,
        kernel_size: Size,
        strides: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        layout: str | None = None,
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        dtype: Any = onp.float32,
    ):
        super().__init__(
            channels, kernel_size, strides, padding, dilation, groups, layout or self._default_layout,
            in_channels, activation, use_bias, weight_initializer, bias_initializer, adj=output_padding, dtype=dtype,
        )  # fmt: skip


@worded("convolution")
class Conv1D(_PlainConv):
    """1-d convolution: (N, C, W) gives (N, channels, W')."""

    _dims, _default_layout = 1, "NCW"


@worded("convolution")
class Conv2D(_PlainConv):
    """2-d convolution: (N, C, H, W) gives (N, channels, H', W'); ``layout="NHWC"`` as well."""

    _dims, _default_layout = 2, "NCHW"


@worded("convolution")
class Conv3D(_PlainConv):
    """3-d convolution: (N, C, D, H, W) gives (N, channels, D', H', W')."""

    _dims, _default_layout = 3, "NCDHW"


@worded("convolution")
class Conv1DTranspose(_TransposedConv):
    """The transpose of a 1-d convolution."""

    _dims, _default_layout = 1, "NCW"


@worded("convolution")
class Conv2DTranspose(_TransposedConv):
    """The transpose of a 2-d convolution."""

    _dims, _default_layout = 2, "NCHW"


@worded("convolution")
class Conv3DTranspose(_TransposedConv):
    """The transpose of a 3-d convolution."""

    _dims, _default_layout = 3, "NCDHW"


class _Pool(Layer):
    """What all pooling layers share. Users' layers are made of it, too, with MXNet's arguments: there `pool_size` is a
    tuple."""

    _operator_is_fwd = True
    _dims = 0
    _kind = "max"
    _global = False
    _layouts = {1: "NCW", 2: "NCHW", 3: "NCDHW"}

    def __init__(
        self, pool_size: Size, strides: Size | None, padding: Size, ceil_mode: bool, global_pool: bool, pool_type: str,
        layout: str, count_include_pad: bool | None = None,
    ):  # fmt: skip
        super().__init__()
        self._global, self._kind = global_pool, pool_type
        self._setup(pool_size, strides, padding, ceil_mode, layout, count_include_pad)

    def _setup(
        self,
        pool_size: Size,
        strides: Size | None,
        padding: Size,
        ceil_mode: bool,
        layout: str | None,
        count_include_pad: bool | None = None,
    ) -> None:
        n = self._dims or len(pool_size)  # type: ignore[arg-type]
        layout = layout or self._layouts[n]
        check_layout(layout, n)
        self._kwargs: dict[str, Any] = {
            "kernel": _tuple(pool_size, n, "pool_size"),
            "stride": _tuple(pool_size if strides is None else strides, n, "strides"),
            "pad": _tuple(padding, n, "padding"),
            "global_pool": self._global,
            "pool_type": self._kind,
            "layout": layout,
            "pooling_convention": "full" if ceil_mode else "valid",
        }
        if count_include_pad is not None:
            self._kwargs["count_include_pad"] = count_include_pad

    def _alias(self) -> str:
        return "pool"

    def forward(self, x: Any) -> Any:
        return npx.pooling(x, **self._kwargs)

    def __repr__(self) -> str:
        k = self._kwargs
        ceil = k["pooling_convention"] == "full"
        return (
            f"{type(self).__name__}(size={k['kernel']}, stride={k['stride']}, padding={k['pad']}, "
            f"ceil_mode={ceil}, global_pool={self._global}, pool_type={self._kind}, layout={k['layout']})"
        )


class _MaxPool(_Pool):
    def __init__(
        self,
        pool_size: Size = 2,
        strides: Size | None = None,
        padding: Size = 0,
        layout: str | None = None,
        ceil_mode: bool = False,
    ):
        HybridBlock.__init__(self)
        self._setup(pool_size, strides, padding, ceil_mode, layout)


class _AvgPool(_Pool):
    _kind = "avg"

    def __init__(
        self,
        pool_size: Size = 2,
        strides: Size | None = None,
        padding: Size = 0,
        layout: str | None = None,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ):
        HybridBlock.__init__(self)
        self._setup(pool_size, strides, padding, ceil_mode, layout, count_include_pad)


class _CeilFirst(_AvgPool):
    """Windows in 2 and 3 dimensions: MXNet takes ceil_mode before the layout there."""

    def __init__(
        self,
        pool_size: Size = 2,
        strides: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        layout: str | None = None,
        count_include_pad: bool = True,
    ):
        super().__init__(pool_size, strides, padding, layout, ceil_mode, count_include_pad)


class _GlobalPool(_Pool):
    _global = True

    def __init__(self, layout: str | None = None):
        HybridBlock.__init__(self)
        self._setup(1, None, 0, True, layout)


@worded("convolution")
class MaxPool1D(_MaxPool):
    """The maximum over windows of the last axis."""

    _dims = 1


@worded("convolution")
class MaxPool2D(_MaxPool):
    """The maximum over 2-d windows."""

    _dims = 2


@worded("convolution")
class MaxPool3D(_MaxPool):
    """The maximum over 3-d windows."""

    _dims = 3

    def __init__(
        self,
        pool_size: Size = 2,
        strides: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,  # before the layout, as in MXNet
        layout: str | None = None,
    ):
        super().__init__(pool_size, strides, padding, layout, ceil_mode)


@worded("convolution")
class AvgPool1D(_AvgPool):
    """The mean over windows of the last axis."""

    _dims = 1


@worded("convolution")
class AvgPool2D(_CeilFirst):
    """The mean over 2-d windows."""

    _dims = 2


@worded("convolution")
class AvgPool3D(_CeilFirst):
    """The mean over 3-d windows."""

    _dims = 3


@worded("convolution")
class GlobalMaxPool1D(_GlobalPool):
    """The maximum over the last axis."""

    _dims = 1


@worded("convolution")
class GlobalMaxPool2D(_GlobalPool):
    """The maximum over both spatial axes."""

    _dims = 2


@worded("convolution")
class GlobalMaxPool3D(_GlobalPool):
    """The maximum over all spatial axes."""

    _dims = 3


@worded("convolution")
class GlobalAvgPool1D(_GlobalPool):
    """The mean over the last axis."""

    _dims, _kind = 1, "avg"


@worded("convolution")
class GlobalAvgPool2D(_GlobalPool):
    """The mean over both spatial axes."""

    _dims, _kind = 2, "avg"


@worded("convolution")
class GlobalAvgPool3D(_GlobalPool):
    """The mean over all spatial axes."""

    _dims, _kind = 3, "avg"


@worded("convolution")
class ReflectionPad2D(Layer):
    """Pads height and width by reflection at the border."""

    def __init__(self, padding: Size = 0):
        super().__init__()
        p = (
            padding
            if not isinstance(padding, int)
            else (0, 0, 0, 0, padding, padding, padding, padding)
        )
        if len(p) != 8:
            raise errors.MXNetAssertionError(
                f"padding is a number or 8 numbers (two an axis), got {padding}"
            )
        self._padding = tuple((p[i], p[i + 1]) for i in range(0, 8, 2))

    def forward(self, x: Any) -> Any:
        return np.pad(x, self._padding, mode="reflect")
