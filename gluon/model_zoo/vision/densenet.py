"""DenseNet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import nn
from .._network import FeatureNetwork, called, scope_of, takes_ctx, unnamed, variant
from ..model_store import load_pretrained

__all__ = ["DenseNet", "densenet121", "densenet161", "densenet169", "densenet201"]


def _make_dense_layer(growth_rate: int, bn_size: int, dropout: float) -> nn.HybridConcatenate:
    """What a layer adds to the features, beside them."""
    new = unnamed()
    new.add(
        nn.BatchNorm(),
        nn.Activation("relu"),
        nn.Conv2D(bn_size * growth_rate, 1, use_bias=False),
        nn.BatchNorm(),
        nn.Activation("relu"),
        nn.Conv2D(growth_rate, 3, padding=1, use_bias=False),
    )
    if dropout:
        new.add(nn.Dropout(dropout))
    both = unnamed(nn.HybridConcatenate, axis=1)
    both.add(nn.Identity(), new)
    return both


def _make_transition(channels: int) -> nn.HybridSequential:
    half = unnamed()
    half.add(
        nn.BatchNorm(),
        nn.Activation("relu"),
        nn.Conv2D(channels, 1, use_bias=False),
        nn.AvgPool2D(2, 2),
    )
    return half


def _make_dense_block(
    num_layers: int, bn_size: int, growth_rate: int, dropout: float, stage_index: int
) -> nn.HybridSequential:
    block = called(f"stage{stage_index}_")
    with scope_of(block):
        block.add(*[_make_dense_layer(growth_rate, bn_size, dropout) for _ in range(num_layers)])
    return block


class DenseNet(FeatureNetwork):
    """DenseNet-BC (https://arxiv.org/abs/1608.06993), for images of 224.

    Args:
      num_init_features: channels of the first convolution.
      growth_rate: channels that each layer adds.
      block_config: layers of each block.
      bn_size: channels inside a layer, over ``growth_rate``.
      dropout: behind each layer.
      classes: of the output.
    """

    def __init__(
        self,
        num_init_features: int,
        growth_rate: int,
        block_config: Sequence[int],
        bn_size: int = 4,
        dropout: float = 0,
        classes: int = 1000,
    ):
        super().__init__()
        self.features = unnamed()
        self.features.add(
            nn.Conv2D(num_init_features, 7, 2, 3, use_bias=False),
            nn.BatchNorm(),
            nn.Activation("relu"),
            nn.MaxPool2D(3, 2, 1),
        )
        channels = num_init_features
        for i, layers in enumerate(block_config):
            self.features.add(_make_dense_block(layers, bn_size, growth_rate, dropout, i + 1))
            channels += layers * growth_rate
            if i != len(block_config) - 1:
                channels //= 2
                self.features.add(_make_transition(channels))
        self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.AvgPool2D(7), nn.Flatten())
        self.output = nn.Dense(classes)


densenet_spec = {
    121: (64, 32, [6, 12, 24, 16]),
    161: (96, 48, [6, 12, 36, 24]),
    169: (64, 32, [6, 12, 32, 32]),
    201: (64, 32, [6, 12, 48, 32]),
}


@takes_ctx
def get_densenet(
    num_layers: int,
    pretrained: bool | str = False,
    device: Any = None,
    root: str | None = None,
    **kwargs: Any,
) -> DenseNet:
    """DenseNet with 121, 161, 169 or 201 layers, with trained weights if ``pretrained``."""
    net = DenseNet(*densenet_spec[num_layers], **kwargs)
    return load_pretrained(net, pretrained, f"densenet{num_layers}", root, device)  # type: ignore[no-any-return]


densenet121 = variant("densenet121", get_densenet, "DenseNet with 121 layers", 121)
densenet161 = variant("densenet161", get_densenet, "DenseNet with 161 layers", 161)
densenet169 = variant("densenet169", get_densenet, "DenseNet with 169 layers", 169)
densenet201 = variant("densenet201", get_densenet, "DenseNet with 201 layers", 201)
