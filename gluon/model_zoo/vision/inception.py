"""Inception v3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import nn
from .._network import FeatureNetwork, called, scope_of, takes_ctx, unnamed
from ..model_store import load_pretrained

__all__ = ["Inception3", "inception_v3"]

#: (channels, kernel, strides, padding) of a convolution.
Conv = tuple[Any, ...]


def _make_basic_conv(**kwargs: Any) -> nn.HybridSequential:
    out = unnamed()
    out.add(nn.Conv2D(use_bias=False, **kwargs), nn.BatchNorm(epsilon=0.001), nn.Activation("relu"))
    return out


def _conv(channels: int, kernel: Any, strides: Any = 1, padding: Any = 0) -> nn.HybridSequential:
    return _make_basic_conv(channels=channels, kernel_size=kernel, strides=strides, padding=padding)


def _branch(*convs: Conv, pool: nn.HybridBlock | None = None) -> nn.HybridSequential:
    out = unnamed()
    if pool is not None:
        out.add(pool)
    for conv in convs:
        out.add(_conv(*conv))
    return out


def _make_branch(use_pool: str | None, *conv_settings: Conv) -> nn.HybridSequential:
    """A branch as MXNet's function takes it: 'avg' or 'max' for a pool before it, None for an option left out."""
    pools = {"avg": _average, "max": lambda: nn.MaxPool2D(3, 2)}
    pool = pools[use_pool]() if use_pool in pools else None
    defaults = (None, None, 1, 0)
    convs = [
        tuple(
            default if given is None else given
            for given, default in zip(conv, defaults, strict=False)
        )
        for conv in conv_settings
    ]
    return _branch(*convs, pool=pool)


def _beside(*branches: nn.HybridBlock) -> nn.HybridConcatenate:
    out = unnamed(nn.HybridConcatenate, axis=1)
    out.add(*branches)
    return out  # type: ignore[no-any-return]


def _named(
    prefix: str, make: Callable[..., nn.HybridConcatenate], *options: int
) -> nn.HybridConcatenate:
    """A module of the network, which MXNet 1 calls `A1_`."""
    out = called(prefix, nn.HybridConcatenate, axis=1)
    with scope_of(out):
        out.add(*make(*options)._children.values())
    return out  # type: ignore[no-any-return]


def _average() -> nn.AvgPool2D:
    return nn.AvgPool2D(3, 1, 1)


def _a(pooled: int) -> nn.HybridConcatenate:
    return _beside(
        _branch((64, 1)),
        _branch((48, 1), (64, 5, 1, 2)),
        _branch((64, 1), (96, 3, 1, 1), (96, 3, 1, 1)),
        _branch((pooled, 1), pool=_average()),
    )


def _b() -> nn.HybridConcatenate:
    return _beside(
        _branch((384, 3, 2)),
        _branch((64, 1), (96, 3, 1, 1), (96, 3, 2)),
        _branch(pool=nn.MaxPool2D(3, 2)),
    )


def _c(n: int) -> nn.HybridConcatenate:
    wide, high = ((1, 7), 1, (0, 3)), ((7, 1), 1, (3, 0))
    return _beside(
        _branch((192, 1)),
        _branch((n, 1), (n, *wide), (192, *high)),
        _branch((n, 1), (n, *high), (n, *wide), (n, *high), (192, *wide)),
        _branch((192, 1), pool=_average()),
    )


def _d() -> nn.HybridConcatenate:
    return _beside(
        _branch((192, 1), (320, 3, 2)),
        _branch((192, 1), (192, (1, 7), 1, (0, 3)), (192, (7, 1), 1, (3, 0)), (192, 3, 2)),
        _branch(pool=nn.MaxPool2D(3, 2)),
    )


def _e() -> nn.HybridConcatenate:
    def forked(*convs: Conv) -> nn.HybridSequential:
        out = unnamed()
        out.add(
            _branch(*convs),
            _beside(_branch((384, (1, 3), 1, (0, 1))), _branch((384, (3, 1), 1, (1, 0)))),
        )
        return out

    return _beside(
        _branch((320, 1)),
        forked((384, 1)),
        forked((448, 1), (384, 3, 1, 1)),
        _branch((192, 1), pool=_average()),
    )


def _make_A(pool_features: int, prefix: str) -> nn.HybridConcatenate:  # noqa: N802
    return _named(prefix, _a, pool_features)


def _make_B(prefix: str) -> nn.HybridConcatenate:  # noqa: N802
    return _named(prefix, _b)


def _make_C(channels_7x7: int, prefix: str) -> nn.HybridConcatenate:  # noqa: N802
    return _named(prefix, _c, channels_7x7)


def _make_D(prefix: str) -> nn.HybridConcatenate:  # noqa: N802
    return _named(prefix, _d)


def _make_E(prefix: str) -> nn.HybridConcatenate:  # noqa: N802
    return _named(prefix, _e)


class Inception3(FeatureNetwork):
    """Inception v3 (https://arxiv.org/abs/1512.00567), for images of 299.

    Args:
      classes: the number of classes.
    """

    def __init__(self, classes: int = 1000):
        super().__init__()
        self.features = unnamed()
        self.features.add(
            _conv(32, 3, 2), _conv(32, 3), _conv(64, 3, 1, 1), nn.MaxPool2D(3, 2),
            _conv(80, 1), _conv(192, 3), nn.MaxPool2D(3, 2),
            _named("A1_", _a, 32), _named("A2_", _a, 64), _named("A3_", _a, 64), _named("B_", _b),
            _named("C1_", _c, 128), _named("C2_", _c, 160), _named("C3_", _c, 160), _named("C4_", _c, 192),
            _named("D_", _d), _named("E1_", _e), _named("E2_", _e),
            nn.AvgPool2D(8), nn.Dropout(0.5),
        )  # fmt: skip
        self.output = nn.Dense(classes)


@takes_ctx
def inception_v3(
    pretrained: bool | str = False, device: Any = None, root: str | None = None, **kwargs: Any
) -> Inception3:
    """Inception v3, with trained weights if ``pretrained``.

    Args:
      pretrained: whether weights are loaded, from `root`.
      device: where the result lies; the current device if it is left out.
      root: the folder where files lie, or are kept.

    Returns:
      HybridBlock: the network; images (N, 3, H, W) give scores (N, classes).
    """
    return load_pretrained(Inception3(**kwargs), pretrained, "inceptionv3", root, device)  # type: ignore[no-any-return]


def make_aux(classes: int) -> nn.HybridSequential:
    """The second classifier of the paper, for features of 17 x 17."""
    out = unnamed()
    out.add(nn.AvgPool2D(5, 3), _conv(128, 1), _conv(768, 5), nn.Flatten(), nn.Dense(classes))
    return out
