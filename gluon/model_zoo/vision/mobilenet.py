"""MobileNet and MobileNet v2."""

from __future__ import annotations

from typing import Any

from mxjax import np

from ... import nn
from ...hybrid_block import HybridBlock
from .._network import FeatureNetwork, called, scope_of, takes_ctx, unnamed, variant
from ..model_store import load_pretrained

__all__ = [
    "MobileNet", "MobileNetV2", "get_mobilenet", "get_mobilenet_v2", "mobilenet0_5", "mobilenet0_25", "mobilenet0_75",
    "mobilenet1_0", "mobilenet_v2_0_5", "mobilenet_v2_0_25", "mobilenet_v2_0_75", "mobilenet_v2_1_0",
]  # fmt: skip


class RELU6(HybridBlock):
    """``min(max(x, 0), 6)``."""

    def forward(self, x: Any) -> Any:
        return np.clip(x, 0, 6)


def _add_conv(
    out: nn.HybridSequential,
    channels: int = 1,
    kernel: int = 1,
    stride: int = 1,
    pad: int = 0,
    num_group: int = 1,
    active: bool = True,
    relu6: bool = False,
) -> None:
    out.add(
        nn.Conv2D(channels, kernel, stride, pad, groups=num_group, use_bias=False), nn.BatchNorm()
    )
    if active:
        out.add(RELU6() if relu6 else nn.Activation("relu"))


def _add_conv_dw(
    out: nn.HybridSequential, dw_channels: int, channels: int, stride: int, relu6: bool = False
) -> None:
    """A convolution of each channel by itself, and one of 1 x 1."""
    _add_conv(out, dw_channels, 3, stride, 1, num_group=dw_channels, relu6=relu6)
    _add_conv(out, channels, relu6=relu6)


class LinearBottleneck(HybridBlock):
    """The inverted residual of MobileNet v2 (https://arxiv.org/abs/1801.04381).

    Args:
      in_channels, channels: of input and output.
      t: how many times more channels there are between them.
      stride: of the convolution between them.
    """

    def __init__(self, in_channels: int, channels: int, t: int, stride: int):
        super().__init__()
        self.use_shortcut = stride == 1 and in_channels == channels
        inner = in_channels * t
        with scope_of(self):
            self.out = nn.HybridSequential()
            _add_conv(self.out, inner, relu6=True)
            _add_conv(self.out, inner, 3, stride, 1, num_group=inner, relu6=True)
            _add_conv(self.out, channels, active=False)

    def forward(self, x: Any) -> Any:
        out = self.out(x)
        return out + x if self.use_shortcut else out


class MobileNet(FeatureNetwork):
    """MobileNet (https://arxiv.org/abs/1704.04861), with ``multiplier`` times the channels.

    Args:
      multiplier: the factor of the channels.
      classes: the number of classes.
    """

    def __init__(self, multiplier: float = 1.0, classes: int = 1000):
        super().__init__()
        self.features = unnamed()
        _add_conv(self.features, int(32 * multiplier), 3, 2, 1)
        widths = [32, 64, 128, 128, 256, 256, *[512] * 6, 1024, 1024]
        strides = [1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1]
        for before, after, stride in zip(widths, widths[1:], strides, strict=False):
            inner = int(before * multiplier)
            _add_conv_dw(self.features, inner, int(after * multiplier), stride)
        self.features.add(nn.GlobalAvgPool2D(), nn.Flatten())
        self.output = nn.Dense(classes)


class MobileNetV2(FeatureNetwork):
    """MobileNet v2 (https://arxiv.org/abs/1801.04381), with ``multiplier`` times the channels.

    Args:
      multiplier: the factor of the channels.
      classes: the number of classes.
    """

    def __init__(self, multiplier: float = 1.0, classes: int = 1000):
        super().__init__()
        self.features = called("features_")
        widths = [32, 16, *[24] * 2, *[32] * 3, *[64] * 4, *[96] * 3, *[160] * 3, 320]
        widths = [int(n * multiplier) for n in widths]
        strides = [1, 2, 1, 2, 1, 1, 2, *[1] * 6, 2, 1, 1, 1]
        with scope_of(self.features):
            _add_conv(self.features, int(32 * multiplier), 3, 2, 1, relu6=True)
            for k, stride in enumerate(strides):
                self.features.add(LinearBottleneck(widths[k], widths[k + 1], 6 if k else 1, stride))
            _add_conv(
                self.features, int(1280 * multiplier) if multiplier > 1.0 else 1280, relu6=True
            )
            self.features.add(nn.GlobalAvgPool2D())
        self.output = called("output_")
        with scope_of(self.output):
            self.output.add(
                called("pred_", nn.Conv2D, channels=classes, kernel_size=1, use_bias=False),
                nn.Flatten(),
            )


def _label(multiplier: float) -> str:
    """As in the names of published files: 1.0, 0.75, 0.5, 0.25."""
    text = f"{multiplier:.2f}"
    return text[:-1] if text in ("1.00", "0.50") else text


@takes_ctx
def get_mobilenet(
    multiplier: float,
    pretrained: bool | str = False,
    device: Any = None,
    root: str | None = None,
    **kwargs: Any,
) -> MobileNet:
    """MobileNet of a width, with trained weights if ``pretrained``.

    Args:
      multiplier: the factor of the channels.
      pretrained: whether weights are loaded, from `root`.
      device: where the result lies; the current device if it is left out.
      root: the folder where files lie, or are kept.

    Returns:
      HybridBlock: the network, with weights if they were asked for.
    """
    net = MobileNet(multiplier, **kwargs)
    return load_pretrained(net, pretrained, f"mobilenet{_label(multiplier)}", root, device)  # type: ignore[no-any-return]


@takes_ctx
def get_mobilenet_v2(
    multiplier: float,
    pretrained: bool | str = False,
    device: Any = None,
    root: str | None = None,
    **kwargs: Any,
) -> MobileNetV2:
    """MobileNet v2 of a width, with trained weights if ``pretrained``.

    Args:
      multiplier: the factor of the channels.
      pretrained: whether weights are loaded, from `root`.
      device: where the result lies; the current device if it is left out.
      root: the folder where files lie, or are kept.

    Returns:
      HybridBlock: the network, with weights if they were asked for.
    """
    net = MobileNetV2(multiplier, **kwargs)
    return load_pretrained(net, pretrained, f"mobilenetv2_{_label(multiplier)}", root, device)  # type: ignore[no-any-return]


mobilenet1_0 = variant("mobilenet1_0", get_mobilenet, "MobileNet", 1.0)
mobilenet0_75 = variant("mobilenet0_75", get_mobilenet, "MobileNet with 0.75 of the channels", 0.75)
mobilenet0_5 = variant("mobilenet0_5", get_mobilenet, "MobileNet with half the channels", 0.5)
mobilenet0_25 = variant(
    "mobilenet0_25", get_mobilenet, "MobileNet with a quarter of the channels", 0.25
)
mobilenet_v2_1_0 = variant("mobilenet_v2_1_0", get_mobilenet_v2, "MobileNet v2", 1.0)
mobilenet_v2_0_75 = variant(
    "mobilenet_v2_0_75", get_mobilenet_v2, "MobileNet v2 with 0.75 of the channels", 0.75
)
mobilenet_v2_0_5 = variant(
    "mobilenet_v2_0_5", get_mobilenet_v2, "MobileNet v2 with half the channels", 0.5
)
mobilenet_v2_0_25 = variant(
    "mobilenet_v2_0_25", get_mobilenet_v2, "MobileNet v2 with a quarter of the channels", 0.25
)
