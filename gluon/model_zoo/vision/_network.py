"""What the networks share: features and then an output; constructors that load weights."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...hybrid_block import HybridBlock


class FeatureNetwork(HybridBlock):
    """`features`, then `output`."""

    features: Any
    output: Any

    def forward(self, x: Any) -> Any:
        """Scores (N, classes) of images (N, C, H, W)."""
        return self.output(self.features(x))


def takes_ctx(make: Callable[..., Any]) -> Callable[..., Any]:
    """Let a constructor take 1.x's ``ctx`` for ``device``."""

    @functools.wraps(make)
    def made(*args: Any, **kwargs: Any) -> Any:
        if "ctx" in kwargs:
            kwargs["device"] = kwargs.pop("ctx")
        return make(*args, **kwargs)

    return made


def variant(name: str, make: Callable[..., Any], text: str, *chosen: Any, **options: Any) -> Callable[..., Any]:
    """A constructor ``name(**kwargs)`` of one variant."""

    def made(**kwargs: Any) -> Any:
        return make(*chosen, **{**options, **kwargs})

    made.__name__ = made.__qualname__ = name
    made.__module__ = make.__module__
    made.__doc__ = f"{text}; takes ``classes``, ``pretrained``, ``device`` and ``root``."
    return made
