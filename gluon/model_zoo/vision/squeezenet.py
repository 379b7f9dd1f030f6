"""SqueezeNet."""

from __future__ import annotations

from typing import Any

from mxjax import errors

from ... import nn
from .._network import FeatureNetwork, takes_ctx, unnamed, variant
from ..model_store import load_pretrained

__all__ = ["SqueezeNet", "squeezenet1_0", "squeezenet1_1"]

_POOL = "pool"
#: The squeezed channels of each fire module, and where the features are pooled.
_FIRES: dict[str, list[Any]] = {
    "1.0": [_POOL, 16, 16, 32, _POOL, 32, 48, 48, 64, _POOL, 64],
    "1.1": [_POOL, 16, 16, _POOL, 32, 32, _POOL, 48, 48, 64, 64],
}


def _make_fire_conv(channels: int, kernel_size: int, padding: int = 0) -> nn.HybridSequential:
    out = unnamed()
    out.add(nn.Conv2D(channels, kernel_size, padding=padding), nn.Activation("relu"))
    return out


def _make_fire(
    squeeze_channels: int, expand1x1_channels: int, expand3x3_channels: int
) -> nn.HybridSequential:
    """Few channels, then more of them by each of two kernels."""
    out = unnamed()
    out.add(_make_fire_conv(squeeze_channels, 1))
    paths = unnamed(nn.HybridConcatenate, axis=1)
    paths.add(_make_fire_conv(expand1x1_channels, 1), _make_fire_conv(expand3x3_channels, 3, 1))
    out.add(paths)
    return out


class SqueezeNet(FeatureNetwork):
    """SqueezeNet (https://arxiv.org/abs/1602.07360), version "1.0" or "1.1", for images of 224.

    Args:
      version: which edition of the architecture.
      classes: the number of classes.

    Raises:
      AssertionError: another version.
    """

    def __init__(self, version: str, classes: int = 1000):
        super().__init__()
        if version not in _FIRES:
            raise errors.MXNetAssertionError(
                f"Unsupported SqueezeNet version {version}:1.0 or 1.1 expected"
            )
        self.features = unnamed()
        first = nn.Conv2D(96, 7, 2) if version == "1.0" else nn.Conv2D(64, 3, 2)
        self.features.add(first, nn.Activation("relu"))
        for part in _FIRES[version]:
            pools = part is _POOL
            self.features.add(
                nn.MaxPool2D(3, 2, ceil_mode=True)
                if pools
                else _make_fire(part, 4 * part, 4 * part)
            )
        self.features.add(nn.Dropout(0.5))
        self.output = unnamed()
        self.output.add(
            nn.Conv2D(classes, 1), nn.Activation("relu"), nn.AvgPool2D(13), nn.Flatten()
        )


@takes_ctx
def get_squeezenet(
    version: str,
    pretrained: bool | str = False,
    device: Any = None,
    root: str | None = None,
    **kwargs: Any,
) -> SqueezeNet:
    """SqueezeNet of a version, with trained weights if ``pretrained``."""
    net = SqueezeNet(version, **kwargs)
    return load_pretrained(net, pretrained, f"squeezenet{version}", root, device)  # type: ignore[no-any-return]


squeezenet1_0 = variant("squeezenet1_0", get_squeezenet, "SqueezeNet 1.0", "1.0")
squeezenet1_1 = variant("squeezenet1_1", get_squeezenet, "SqueezeNet 1.1", "1.1")
