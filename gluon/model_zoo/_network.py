"""What the networks share: features and then an output; constructors that load weights."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

from mxjax.modes import generation

from .. import nn
from ..hybrid_block import HybridBlock


def unnamed(kind: Callable[..., Any] = nn.HybridSequential, **options: Any) -> Any:
    """A container that leaves names to what is around it: in MXNet 1 the models' own have no prefix."""
    return kind(prefix="", **options) if generation() == 1 else kind(**options)


def called(prefix: str, kind: Callable[..., Any] = nn.HybridSequential, **options: Any) -> Any:
    """A container that MXNet 1 calls so, `stage1_`; its parts are made within `scope_of` it."""
    return kind(prefix=prefix, **options) if generation() == 1 else kind(**options)


def scope_of(block: Any) -> AbstractContextManager[Any]:
    """Where MXNet 1's names begin with the block's prefix."""
    return block.name_scope() if generation() == 1 else nullcontext()  # type: ignore[no-any-return]


class FeatureNetwork(HybridBlock):
    """`features`, then `output`; they are made in the network's own scope of names."""

    features: Any
    output: Any
    _scope_of_init: ExitStack | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        made: Any = vars(cls).get("__init__")
        if made is None:
            return

        @functools.wraps(made)
        def __init__(self: Any, *args: Any, **options: Any) -> None:
            with ExitStack() as scope:
                object.__setattr__(self, "_scope_of_init", scope)
                made(self, *args, **options)
            object.__setattr__(self, "_scope_of_init", None)

        cls.__init__ = __init__  # type: ignore[method-assign]

    def __init__(self) -> None:
        super().__init__()
        if self._scope_of_init is not None:
            self._scope_of_init.enter_context(scope_of(self))

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


#: The last argument of a classifier's constructor, and what it returns, for `variant`.
OF_IMAGES = (
    "classes: the number of classes, 1000 by default.",
    "HybridBlock: the network; images (N, 3, H, W) give scores (N, classes).",
)


def variant(
    name: str,
    make: Callable[..., Any],
    text: str,
    *chosen: Any,
    told: tuple[str, str] = OF_IMAGES,
    **options: Any,
) -> Callable[..., Any]:
    """A constructor ``name(**kwargs)`` of one variant; ``told``: its last argument and its result, in words."""

    def made(**kwargs: Any) -> Any:
        return make(*chosen, **{**options, **kwargs})

    made.__name__ = made.__qualname__ = name
    made.__module__ = make.__module__
    made.__doc__ = f"""{text}.

    Args:
      pretrained: whether weights are loaded, from ``root``; a path is the file itself.
      device, ctx: where its parameters lie.
      root: the folder of the weights' files.
      {told[0]}

    Returns:
      {told[1]}
    """
    return made
