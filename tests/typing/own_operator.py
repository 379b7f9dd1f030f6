"""A custom operator, a function with a gradient of its own and a metric: read by type checkers, not run."""

from typing import Any, assert_type

import mxjax as mx
from mxjax import autograd, gluon, np


class Sigmoid(mx.operator.CustomOp):
    def forward(
        self,
        is_train: bool,
        req: list[str],
        in_data: list[Any],
        out_data: list[Any],
        aux: list[Any],
    ) -> None:
        self.assign(out_data[0], req[0], 1 / (1 + np.exp(-in_data[0])))

    def backward(
        self, req: list[str], out_grad: list[Any], in_data: list[Any], out_data: list[Any], in_grad: list[Any],
        aux: list[Any],
    ) -> None:  # fmt: skip
        y = out_data[0]
        self.assign(in_grad[0], req[0], out_grad[0] * y * (1 - y))


@mx.operator.register("typed_sigmoid")
class SigmoidProp(mx.operator.CustomOpProp):
    def list_arguments(self) -> list[str]:
        return ["data"]

    def create_operator(self, ctx: Any, shapes: Any, dtypes: Any) -> Sigmoid:
        return Sigmoid()


class Double(autograd.Function):
    def forward(self, x: np.ndarray) -> np.ndarray:
        return x * 2

    def backward(self, dy: np.ndarray) -> np.ndarray:
        return dy * 2


class Share(gluon.metric.EvalMetric):
    def __init__(self) -> None:
        super().__init__("share")

    def update(self, labels: list[np.ndarray], preds: list[np.ndarray]) -> None:
        for label, pred in zip(labels, preds, strict=True):
            self.sum_metric += float((label == pred).sum().item())
            self.num_inst += label.size


def schedule() -> mx.lr_scheduler.LRScheduler:
    made = mx.lr_scheduler.CosineScheduler(max_update=100, base_lr=0.1, warmup_steps=5)
    assert_type(made(3), float)
    return made


def optimizer() -> mx.optimizer.Optimizer:
    return mx.optimizer.create("adam", learning_rate=1e-3, lr_scheduler=schedule())
