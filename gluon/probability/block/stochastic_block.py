"""Blocks whose forward collects losses of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from mxjax import errors

from ...block import Block
from ...hybrid_block import HybridBlock

__all__ = ["StochasticBlock", "StochasticSequential"]


class StochasticBlock(HybridBlock):
    """A block whose forward adds losses, such as divergences, by ``add_loss``.

    Decorate the forward by ``collectLoss``; after a call the losses are in ``losses``.

    Raises:
      ValueError (when called): the forward is not decorated.

    >>> import mxjax as mx
    >>> mgp = mx.gluon.probability
    >>> class Noisy(mgp.StochasticBlock):
    ...     @mgp.StochasticBlock.collectLoss
    ...     def forward(self, loc):
    ...         q = mgp.Normal(loc, 1.0)
    ...         self.add_loss(mgp.kl_divergence(q, mgp.Normal(0.0, 1.0)))
    ...         return q.sample()
    >>> net = Noisy()
    >>> net(mx.np.ones((2,))).shape, net.losses[0]
    ((2,), array([0.5, 0.5]))
    """

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self._losses: list[Any] = []
        self._losscache: list[Any] = []

    def add_loss(self, loss: Any) -> None:
        """Collect a loss, inside the forward."""
        self._losscache.append(loss)

    @staticmethod
    def collectLoss(func: Callable[..., Any]) -> Callable[..., Any]:  # noqa: N802
        """The decorator of the forward."""

        @wraps(func)
        def inner(self: StochasticBlock, *args: Any, **kwargs: Any) -> Any:
            self._losscache = []
            out = func(self, *args, **kwargs)
            collected, self._losscache = self._losscache, []
            return out, collected

        inner._collects = True  # type: ignore[attr-defined]
        return inner

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not getattr(self.forward, "_collects", False):
            raise errors.MXNetValueError(
                "The forward function should be decorated by StochasticBlock.collectLoss"
            )
        out, self._losses = super().__call__(*args, **kwargs)
        return out

    @property
    def losses(self) -> list[Any]:
        """The losses of the last call."""
        return self._losses


class StochasticSequential(StochasticBlock):
    """Blocks one after the other; the losses of each are collected."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self._layers: list[Block] = []

    def add(self, *blocks: Any) -> None:
        """Append blocks to the chain."""
        for block in blocks:
            self._layers.append(block)
            self.register_child(block)

    def _shown(self) -> dict[str, Block]:
        return dict(self._children)

    @StochasticBlock.collectLoss
    def forward(self, x: Any, *args: Any) -> Any:
        """The last block's output."""
        for block in self._children.values():
            x = block(x, *args)
            args = ()
            if isinstance(x, (tuple, list)):
                x, args = x[0], tuple(x[1:])
        for block in self._layers:
            if hasattr(block, "_losses"):
                self.add_loss(block._losses)
        return (x, *args) if args else x

    def __getitem__(self, key: Any) -> Any:
        blocks = list(self._children.values())[key]
        if not isinstance(blocks, list):
            return blocks
        net = type(self)()
        net.add(*blocks)
        return net

    def __len__(self) -> int:
        return len(self._children)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._children.values())
