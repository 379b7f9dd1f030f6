"""ResNet, versions 1 and 2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mxjax import errors, npx

from ... import nn
from ...hybrid_block import HybridBlock
from .._network import FeatureNetwork, called, scope_of, takes_ctx, unnamed, variant
from ..model_store import load_pretrained

__all__ = [
    "BasicBlockV1", "BasicBlockV2", "BottleneckV1", "BottleneckV2", "ResNetV1", "ResNetV2", "get_resnet",
    "resnet18_v1", "resnet18_v2", "resnet34_v1", "resnet34_v2", "resnet50_v1", "resnet50_v2", "resnet101_v1",
    "resnet101_v2", "resnet152_v1", "resnet152_v2", "BottleneckV1b", "resnet50_v1b", "resnet101_v1b", "resnet152_v1b",
]  # fmt: skip


def _conv3x3(channels: int, stride: int, in_channels: int) -> nn.Conv2D:
    return nn.Conv2D(channels, 3, stride, 1, use_bias=False, in_channels=in_channels)


class _Block(HybridBlock):
    """A residual block: its own layers, and what brings the input to the output's shape where they differ.

    Args:
      channels: of the output.
      stride: of the first convolution (of version 2's bottleneck: the second).
      downsample: the input is brought to the output's shape by a convolution.
      in_channels: found at the first call when it is 0.
    """

    def __init__(self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0):
        super().__init__()
        self._build(channels, stride, in_channels)
        self.downsample: Any = None
        if downsample:
            self.downsample = self._shrink(
                nn.Conv2D(channels, 1, stride, use_bias=False, in_channels=in_channels)
            )

    def _build(self, channels: int, stride: int, in_channels: int) -> None:
        raise NotImplementedError

    def _shrink(self, conv: nn.Conv2D) -> Any:
        return conv


class _BlockV1(_Block):
    """A residual block of version 1: ``relu(body(x) + x)``, the latter by a convolution where it must shrink."""

    body: Any

    def _shrink(self, conv: nn.Conv2D) -> Any:
        made = unnamed()
        made.add(conv, nn.BatchNorm())
        return made

    def forward(self, x: Any) -> Any:
        residual = x if self.downsample is None else self.downsample(x)
        return npx.activation(self.body(x) + residual, act_type="relu")


class BasicBlockV1(_BlockV1):
    """Two convolutions of 3 x 3 (https://arxiv.org/abs/1512.03385); called with (channels, stride, downsample).

    Args:
      channels: the number of output channels.
      stride: the distance of windows of the first convolution.
      downsample: whether the shortcut has a convolution of its own.
      in_channels: the number of input channels; found at the first call if it is 0.
    """

    def _build(self, channels: int, stride: int, in_channels: int) -> None:
        self.body = unnamed()
        self.body.add(
            _conv3x3(channels, stride, in_channels), nn.BatchNorm(), nn.Activation("relu"),
            _conv3x3(channels, 1, channels), nn.BatchNorm(),
        )  # fmt: skip


class BottleneckV1(_BlockV1):
    """Convolutions of 1 x 1, 3 x 3 with a quarter of the channels, and 1 x 1 (https://arxiv.org/abs/1512.03385).

    Args:
      stride: the distance of windows of the first convolution.
      downsample: whether the shortcut has a convolution of its own.
      in_channels: the number of input channels; found at the first call if it is 0.
    """

    def _build(self, channels: int, stride: int, in_channels: int) -> None:
        inner = channels // 4
        self.body = unnamed()
        self.body.add(
            nn.Conv2D(inner, 1, stride), nn.BatchNorm(), nn.Activation("relu"),
            _conv3x3(inner, 1, inner), nn.BatchNorm(), nn.Activation("relu"),
            nn.Conv2D(channels, 1, 1), nn.BatchNorm(),
        )  # fmt: skip


class BottleneckV1b(_BlockV1):
    """`BottleneckV1` as torchvision has it: the 3 x 3 convolution has the stride, and none has a bias.

    Args:
      channels: the number of output channels.
      stride: the distance of windows of the first convolution.
      downsample: whether the shortcut has a convolution of its own.
      in_channels: the number of input channels; found at the first call if it is 0.
    """

    def _build(self, channels: int, stride: int, in_channels: int) -> None:
        inner = channels // 4
        self.body = unnamed()
        self.body.add(
            nn.Conv2D(inner, 1, use_bias=False, in_channels=in_channels), nn.BatchNorm(), nn.Activation("relu"),
            _conv3x3(inner, stride, inner), nn.BatchNorm(), nn.Activation("relu"),
            nn.Conv2D(channels, 1, use_bias=False, in_channels=inner), nn.BatchNorm(),
        )  # fmt: skip


class _BlockV2(_Block):
    """A residual block of version 2: normalization and activation come before each convolution."""

    #: How many convolutions, each with its normalization: ``bn1``, ``conv1``, ...
    _depth = 2

    def forward(self, x: Any) -> Any:
        residual = x
        for k in range(1, self._depth + 1):
            x = npx.activation(getattr(self, f"bn{k}")(x), act_type="relu")
            if k == 1 and self.downsample is not None:
                residual = self.downsample(x)
            x = getattr(self, f"conv{k}")(x)
        return x + residual


class BasicBlockV2(_BlockV2):
    """Two convolutions of 3 x 3 (https://arxiv.org/abs/1603.05027); called with (channels, stride, downsample).

    Args:
      channels: the number of output channels.
      stride: the distance of windows of the first convolution.
      downsample: whether the shortcut has a convolution of its own.
      in_channels: the number of input channels; found at the first call if it is 0.
    """

    def _build(self, channels: int, stride: int, in_channels: int) -> None:
        self.bn1 = nn.BatchNorm()
        self.conv1 = _conv3x3(channels, stride, in_channels)
        self.bn2 = nn.BatchNorm()
        self.conv2 = _conv3x3(channels, 1, channels)


class BottleneckV2(_BlockV2):
    """Convolutions of 1 x 1, 3 x 3 with a quarter of the channels, and 1 x 1 (https://arxiv.org/abs/1603.05027).

    Args:
      stride: the distance of windows of the first convolution.
      downsample: whether the shortcut has a convolution of its own.
      in_channels: the number of input channels; found at the first call if it is 0.
    """

    _depth = 3

    def _build(self, channels: int, stride: int, in_channels: int) -> None:
        inner = channels // 4
        self.bn1 = nn.BatchNorm()
        self.conv1 = nn.Conv2D(inner, 1, 1, use_bias=False)
        self.bn2 = nn.BatchNorm()
        self.conv2 = _conv3x3(inner, stride, inner)
        self.bn3 = nn.BatchNorm()
        self.conv3 = nn.Conv2D(channels, 1, 1, use_bias=False)


class _ResNet(FeatureNetwork):
    """What both versions share."""

    def _start(self, layers: Sequence[int], channels: Sequence[int], thumbnail: bool) -> None:
        if len(layers) != len(channels) - 1:
            raise errors.MXNetAssertionError(
                f"channels has one number more than layers, got {len(channels)} and {len(layers)}"
            )
        if thumbnail:
            self.features.add(_conv3x3(channels[0], 1, 0))
        else:
            self.features.add(
                nn.Conv2D(channels[0], 7, 2, 3, use_bias=False), nn.BatchNorm(), nn.Activation("relu"),
                nn.MaxPool2D(3, 2, 1),
            )  # fmt: skip

    def _stages(
        self, block: Callable[..., HybridBlock], layers: Sequence[int], channels: Sequence[int]
    ) -> None:
        for i, count in enumerate(layers):
            stride = 2 if i else 1
            self.features.add(
                self._make_layer(block, count, channels[i + 1], stride, i + 1, channels[i])
            )

    def _make_layer(
        self,
        block: Callable[..., HybridBlock],
        layers: int,
        channels: int,
        stride: int,
        stage_index: int,
        in_channels: int = 0,
    ) -> HybridBlock:
        """One stage; subclasses call it, or put another in its place."""
        stage = called(f"stage{stage_index}_")
        first = (stride, channels != in_channels, in_channels)
        with scope_of(stage):
            for k in range(layers):
                step, downsample, before = (1, False, channels) if k else first
                stage.add(
                    unnamed(
                        block,
                        channels=channels,
                        stride=step,
                        downsample=downsample,
                        in_channels=before,
                    )
                )
        return stage


class ResNetV1(_ResNet):
    """ResNet (https://arxiv.org/abs/1512.03385).

    Args:
      block: BasicBlockV1 or BottleneckV1.
      layers: blocks of each stage.
      channels: of the first convolution and of each stage.
      classes: of the output.
      thumbnail: for small images: the first convolution keeps their size, and there is no pooling.

    Raises:
      AssertionError: ``channels`` has not one number more than ``layers``.

    >>> from mxjax.gluon.model_zoo import vision
    >>> net = vision.ResNetV1(vision.BasicBlockV1, [1, 1], [8, 8, 16], classes=10, thumbnail=True)
    >>> len(net.features)
    4
    """

    def __init__(
        self,
        block: Callable[..., HybridBlock],
        layers: Sequence[int],
        channels: Sequence[int],
        classes: int = 1000,
        thumbnail: bool = False,
    ):
        super().__init__()
        self.features = unnamed()
        self._start(layers, channels, thumbnail)
        self._stages(block, layers, channels)
        self.features.add(nn.GlobalAvgPool2D())
        self.output = nn.Dense(classes, in_units=channels[-1])


class ResNetV2(_ResNet):
    """ResNet version 2 (https://arxiv.org/abs/1603.05027).

    Args:
      block: BasicBlockV2 or BottleneckV2.
      layers: blocks of each stage.
      channels: of the first convolution and of each stage.
      classes: of the output.
      thumbnail: for small images: the first convolution keeps their size, and there is no pooling.

    Raises:
      AssertionError: ``channels`` has not one number more than ``layers``.
    """

    def __init__(
        self,
        block: Callable[..., HybridBlock],
        layers: Sequence[int],
        channels: Sequence[int],
        classes: int = 1000,
        thumbnail: bool = False,
    ):
        super().__init__()
        self.features = unnamed()
        self.features.add(nn.BatchNorm(scale=False, center=False))
        self._start(layers, channels, thumbnail)
        self._stages(block, layers, channels)
        self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Flatten())
        self.output = nn.Dense(classes, in_units=channels[-1])


_BASIC, _WIDE = [64, 64, 128, 256, 512], [64, 256, 512, 1024, 2048]
resnet_spec = {
    18: ("basic_block", [2, 2, 2, 2], _BASIC),
    34: ("basic_block", [3, 4, 6, 3], _BASIC),
    50: ("bottle_neck", [3, 4, 6, 3], _WIDE),
    101: ("bottle_neck", [3, 4, 23, 3], _WIDE),
    152: ("bottle_neck", [3, 8, 36, 3], _WIDE),
}
resnet_net_versions: list[Any] = [ResNetV1, ResNetV2]
resnet_block_versions: list[Any] = [
    {"basic_block": BasicBlockV1, "bottle_neck": BottleneckV1},
    {"basic_block": BasicBlockV2, "bottle_neck": BottleneckV2},
]


@takes_ctx
def get_resnet(
    version: int,
    num_layers: int,
    pretrained: bool | str = False,
    device: Any = None,
    root: str | None = None,
    **kwargs: Any,
) -> Any:
    """ResNet of version 1 or 2 with 18, 34, 50, 101 or 152 layers, with trained weights if ``pretrained``.

    Args:
      version: which edition of the architecture.
      num_layers: the number of layers.
      pretrained: whether weights are loaded, from `root`.
      device: where the result lies; the current device if it is left out.
      root: the folder where files lie, or are kept.

    Returns:
      HybridBlock: the network, with weights if they were asked for.

    Raises:
      AssertionError: another version or number of layers.
    """
    if num_layers not in resnet_spec:
        raise errors.MXNetAssertionError(
            f"Invalid number of layers: {num_layers}. Options are {', '.join(map(str, resnet_spec))}"
        )
    if version not in (1, 2):
        raise errors.MXNetAssertionError(f"Invalid resnet version: {version}. Options are 1 and 2.")
    kind, layers, channels = resnet_spec[num_layers]
    net = resnet_net_versions[version - 1](
        resnet_block_versions[version - 1][kind], layers, channels, **kwargs
    )
    return load_pretrained(net, pretrained, f"resnet{num_layers}_v{version}", root, device)


@takes_ctx
def get_resnet_v1b(
    num_layers: int,
    pretrained: bool | str = False,
    device: Any = None,
    root: str | None = None,
    **kwargs: Any,
) -> ResNetV1:
    """ResNet of version 1 with 50, 101 or 152 layers as torchvision has it (`BottleneckV1b`).

    ``pretrained`` is a file of such weights, or ``owner/name`` of Hugging Face; MXNet published none.
    """
    _, layers, channels = resnet_spec[num_layers]
    net = ResNetV1(BottleneckV1b, layers, channels, **kwargs)
    return load_pretrained(net, pretrained, f"resnet{num_layers}_v1b", root, device)  # type: ignore[no-any-return]


resnet50_v1b = variant(
    "resnet50_v1b", get_resnet_v1b, "ResNet with 50 layers as torchvision has it", 50
)
resnet101_v1b = variant(
    "resnet101_v1b", get_resnet_v1b, "ResNet with 101 layers as torchvision has it", 101
)
resnet152_v1b = variant(
    "resnet152_v1b", get_resnet_v1b, "ResNet with 152 layers as torchvision has it", 152
)
resnet18_v1 = variant("resnet18_v1", get_resnet, "ResNet with 18 layers", 1, 18)
resnet34_v1 = variant("resnet34_v1", get_resnet, "ResNet with 34 layers", 1, 34)
resnet50_v1 = variant("resnet50_v1", get_resnet, "ResNet with 50 layers", 1, 50)
resnet101_v1 = variant("resnet101_v1", get_resnet, "ResNet with 101 layers", 1, 101)
resnet152_v1 = variant("resnet152_v1", get_resnet, "ResNet with 152 layers", 1, 152)
resnet18_v2 = variant("resnet18_v2", get_resnet, "ResNet v2 with 18 layers", 2, 18)
resnet34_v2 = variant("resnet34_v2", get_resnet, "ResNet v2 with 34 layers", 2, 34)
resnet50_v2 = variant("resnet50_v2", get_resnet, "ResNet v2 with 50 layers", 2, 50)
resnet101_v2 = variant("resnet101_v2", get_resnet, "ResNet v2 with 101 layers", 2, 101)
resnet152_v2 = variant("resnet152_v2", get_resnet, "ResNet v2 with 152 layers", 2, 152)
