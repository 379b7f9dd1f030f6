"""VGG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mxjax import errors
from mxjax.initializer import Xavier

from ... import nn
from .._network import FeatureNetwork, takes_ctx, unnamed, variant
from ..model_store import load_pretrained

__all__ = [
    "VGG", "get_vgg", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn",
]  # fmt: skip


class VGG(FeatureNetwork):
    """VGG (https://arxiv.org/abs/1409.1556), for images of 224.

    Args:
      layers: convolutions of each block.
      filters: their channels.
      classes: of the output.
      batch_norm: normalize behind each convolution.

    Raises:
      AssertionError: ``layers`` and ``filters`` of different lengths.
    """

    def __init__(
        self,
        layers: Sequence[int],
        filters: Sequence[int],
        classes: int = 1000,
        batch_norm: bool = False,
    ):
        super().__init__()
        if len(layers) != len(filters):
            raise errors.MXNetAssertionError(
                f"{len(layers)} blocks of layers and {len(filters)} of filters"
            )
        self.features = self._make_features(layers, filters, batch_norm)
        for _ in range(2):
            self.features.add(
                nn.Dense(4096, activation="relu", weight_initializer="normal"), nn.Dropout(0.5)
            )
        self.output = nn.Dense(classes, weight_initializer="normal")

    def _make_features(
        self, layers: Sequence[int], filters: Sequence[int], batch_norm: bool
    ) -> nn.HybridSequential:
        """The convolutions; subclasses call it, or put others in their place."""
        features = unnamed()
        for count, channels in zip(layers, filters, strict=True):
            for _ in range(count):
                init = Xavier(rnd_type="gaussian", factor_type="out", magnitude=2)
                features.add(nn.Conv2D(channels, 3, padding=1, weight_initializer=init))
                if batch_norm:
                    features.add(nn.BatchNorm())
                features.add(nn.Activation("relu"))
            features.add(nn.MaxPool2D(strides=2))
        return features


_FILTERS = [64, 128, 256, 512, 512]
vgg_spec = {
    11: ([1, 1, 2, 2, 2], _FILTERS),
    13: ([2, 2, 2, 2, 2], _FILTERS),
    16: ([2, 2, 3, 3, 3], _FILTERS),
    19: ([2, 2, 4, 4, 4], _FILTERS),
}


@takes_ctx
def get_vgg(
    num_layers: int,
    pretrained: bool | str = False,
    device: Any = None,
    root: str | None = None,
    **kwargs: Any,
) -> VGG:
    """VGG with 11, 13, 16 or 19 layers, with trained weights if ``pretrained``.

    Args:
      num_layers: the number of layers.
      pretrained: whether weights are loaded, from `root`.
      device: where the result lies; the current device if it is left out.
      root: the folder where files lie, or are kept.

    Returns:
      HybridBlock: the network, with weights if they were asked for.
    """
    name = f"vgg{num_layers}{'_bn' if kwargs.get('batch_norm') else ''}"
    net = VGG(*vgg_spec[num_layers], **kwargs)
    return load_pretrained(net, pretrained, name, root, device)  # type: ignore[no-any-return]


vgg11 = variant("vgg11", get_vgg, "VGG with 11 layers", 11)
vgg13 = variant("vgg13", get_vgg, "VGG with 13 layers", 13)
vgg16 = variant("vgg16", get_vgg, "VGG with 16 layers", 16)
vgg19 = variant("vgg19", get_vgg, "VGG with 19 layers", 19)
vgg11_bn = variant(
    "vgg11_bn", get_vgg, "VGG with 11 layers and batch normalization", 11, batch_norm=True
)
vgg13_bn = variant(
    "vgg13_bn", get_vgg, "VGG with 13 layers and batch normalization", 13, batch_norm=True
)
vgg16_bn = variant(
    "vgg16_bn", get_vgg, "VGG with 16 layers and batch normalization", 16, batch_norm=True
)
vgg19_bn = variant(
    "vgg19_bn", get_vgg, "VGG with 19 layers and batch normalization", 19, batch_norm=True
)
