"""What MXNet 1.x had and 2.x has no more: large-batch SGD, and old names."""

from __future__ import annotations

from typing import Any

from mxjax import nd
from mxjax.nd import abs as NDabs  # noqa: N812  # MXNet 1's name of it here

from .optimizer import Optimizer, register
from .rows import plain
from .sgd import SGD

__all__ = ["LBSGD", "NDabs", "ccSGD"]


@register
class ccSGD(SGD):  # noqa: N801  # MXNet's name
    """`SGD` under the name that MXNet's implementation in C++ had.

    Args:
      learning_rate: the learning rate, unless a scheduler has one.
      momentum: how much of the former direction, or statistic, is kept.
      lazy_update: whether rows without a gradient stay as they are, where the gradient is row_sparse.
      multi_precision: whether 16-bit weights have float32 copies that are updated.
      use_fused_step: taken for compatibility; a step is one program in any case.
      aggregate_num: taken for compatibility; a step is one call for all weights in any case.

    >>> ccSGD(momentum=0.9).momentum
    0.9
    """


@register
class LBSGD(Optimizer):
    """SGD for large batches: gradients are gathered over `batch_scale` steps, and the rate grows during a warm-up.

    Args:
      momentum: of the update.
      multi_precision: keep float32 copies of 16-bit weights.
      warmup_strategy: how the rate grows to `batch_scale` times itself: ``'linear'``, ``'power2'`` or ``'sqrt'``;
        or ``'lars'``, a factor for each weight (https://arxiv.org/abs/1708.03888), between 0.01 and 100.
      warmup_epochs, updates_per_epoch: how long it grows.
      batch_scale: how many steps make one update.
      begin_epoch: the epoch to start from.
      num_epochs: kept, as in MXNet.

    >>> LBSGD(batch_scale=4, warmup_epochs=1, updates_per_epoch=8)._get_lbmult(4)
    2.5
    """

    def __init__(
        self, momentum: float = 0.0, multi_precision: bool = False, warmup_strategy: str = "linear",
        warmup_epochs: int = 5, batch_scale: int = 1, updates_per_epoch: int = 32, begin_epoch: int = 0,
        num_epochs: int = 60, **kwargs: Any,
    ):  # fmt: skip
        super().__init__(multi_precision=multi_precision, **kwargs)
        self.momentum = momentum
        self.warmup_strategy = warmup_strategy
        self.warmup_epochs = warmup_epochs
        self.batch_scale = batch_scale
        self.updates_per_epoch = updates_per_epoch
        self.init_updates = begin_epoch * updates_per_epoch
        self.num_epochs = num_epochs
        #: By index: `cum_grad`, the gradients gathered so far, and `num_cums`, the steps (from `init_updates` on).
        self.cumgrads: dict[Any, dict[str, Any]] = {}

    def create_state(self, index: Any, weight: Any) -> Any:
        return weight.zeros_like() if self.momentum else None

    def _get_lbmult(self, nup: int) -> float:
        """The factor on the rate after so many steps."""
        length = self.warmup_epochs * self.updates_per_epoch
        if nup >= length:
            return float(self.batch_scale)
        powers = {"linear": 1.0, "power2": 2.0, "sqrt": 0.5}
        if length <= 1 or self.warmup_strategy not in powers:
            return 1.0
        return 1.0 + (self.batch_scale - 1) * (nup / length) ** powers[self.warmup_strategy]

    def _get_lars(self, weight: Any, g: Any, wd: float) -> Any:
        """The factor for a weight that LARS gives; an array, so that nothing waits for it."""
        size, slope = self._l2norm(weight), self._l2norm(g)
        return ((size / (slope + wd * size + 1e-18)) ** 0.5).clip(0.01, 100)

    def _l2norm(self, v: Any) -> Any:
        return (v * v).sum()

    def _get_cum_gradient(self, index: Any) -> dict[str, Any]:
        return vars(self).setdefault("cumgrads", {}).get(index, {})  # type: ignore[no-any-return]

    def _put_cum_gradient(self, index: Any, cgrad: dict[str, Any]) -> None:
        # An optimizer that a file brought back has none.
        vars(self).setdefault("cumgrads", {})[index] = cgrad

    def _reset_cum_gradient(self, index: Any) -> None:
        self.cumgrads[index]["cum_grad"] = 0

    def _cumulate_gradient(self, grad: Any, index: Any) -> dict[str, Any]:
        """Add a gradient to those gathered for a weight: the sum, and how many steps there were."""
        held = self._get_cum_gradient(index)
        gathered = held.get("cum_grad", 0)
        cgrad = {
            "cum_grad": gathered + grad if isinstance(gathered, nd.NDArray) else grad.copy(),
            "num_cums": held.get("num_cums", self.init_updates) + 1,
        }
        self._put_cum_gradient(index, cgrad)
        return cgrad

    def step(self, indices: Any, weights: Any, grads: Any, states: Any) -> None:
        for index, weight, grad, mom in zip(indices, weights, grads, states, strict=True):
            lr, wd = self._get_lr(index), self._get_wd(index)
            self._update_count(index)
            gathered = self._cumulate_gradient(grad, index)
            total, steps = gathered["cum_grad"], gathered["num_cums"]
            if steps % self.batch_scale:
                continue
            grad = total / self.batch_scale
            by_lars = self.warmup_strategy == "lars"
            lr = lr * (self._get_lars(weight, grad, wd) if by_lars else self._get_lbmult(steps))
            grad = grad * self.rescale_grad
            if self.clip_gradient:
                grad = grad.clip(-self.clip_gradient, self.clip_gradient)
            change = -lr * (grad + wd * weight)
            if mom is not None:
                change = self.momentum * mom + change
            new = weight + change
            if total.stype == "row_sparse":
                touched = nd.zeros(weight.shape[:1], ctx=weight.ctx)
                touched[total.indices] = 1  # the other rows stay, and so does their momentum
                new = nd.where(touched, new, plain(weight))
                change = change if mom is None else nd.where(touched, change, mom)
            if mom is not None:
                mom[:] = change
            weight[:] = new
            self._reset_cum_gradient(index)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "cumgrads": {}}  # a part of a batch is not kept
