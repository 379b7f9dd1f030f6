"""AlexNet."""

from __future__ import annotations

from typing import Any

from ... import nn
from .._network import FeatureNetwork, takes_ctx, unnamed
from ..model_store import load_pretrained

__all__ = ["AlexNet", "alexnet"]


class AlexNet(FeatureNetwork):
    """AlexNet in the form of "One weird trick" (https://arxiv.org/abs/1404.5997), for images of 224.

    Args:
      classes: the number of classes.

    >>> from mxjax.gluon.model_zoo import vision
    >>> sum(p.shape[0] for name, p in vision.AlexNet(classes=10).collect_params("output.*").items())
    20
    """

    def __init__(self, classes: int = 1000):
        super().__init__()
        self.features = unnamed()
        self.features.add(
            nn.Conv2D(64, 11, 4, 2, activation="relu"),
            nn.MaxPool2D(3, 2),
            nn.Conv2D(192, 5, padding=2, activation="relu"),
            nn.MaxPool2D(3, 2),
            nn.Conv2D(384, 3, padding=1, activation="relu"),
            nn.Conv2D(256, 3, padding=1, activation="relu"),
            nn.Conv2D(256, 3, padding=1, activation="relu"),
            nn.MaxPool2D(3, 2),
            nn.Flatten(),
            nn.Dense(4096, activation="relu"),
            nn.Dropout(0.5),
            nn.Dense(4096, activation="relu"),
            nn.Dropout(0.5),
        )
        self.output = nn.Dense(classes)


@takes_ctx
def alexnet(
    pretrained: bool | str = False, device: Any = None, root: str | None = None, **kwargs: Any
) -> AlexNet:
    """AlexNet, with trained weights if ``pretrained``.

    Args:
      pretrained: whether weights are loaded, from `root`.
      device: where the result lies; the current device if it is left out.
      root: the folder where files lie, or are kept.

    Returns:
      HybridBlock: the network; images (N, 3, H, W) give scores (N, classes).
    """
    return load_pretrained(AlexNet(**kwargs), pretrained, "alexnet", root, device)  # type: ignore[no-any-return]
