"""The networks of `make bench-nets` in eager PyTorch: one work in a process (see `nets_turns.py`).

python benchmarks/nets_torch.py WORK
"""

from __future__ import annotations

import os
import sys
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
from language_model import torch_step  # noqa: E402
from nets_turns import serve  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(1)


def normed(*sizes: int, relu: Any = nn.ReLU, **how: Any) -> list[Any]:
    """A convolution, BatchNorm and, where one is named, an activation."""
    return [
        nn.Conv2d(*sizes, bias=False, **how),
        nn.BatchNorm2d(sizes[1]),
        *([relu()] if relu else []),
    ]


class Residual(nn.Module):
    """The sum of a branch and of what it takes, through ``side`` where shapes differ."""

    def __init__(self, branch: list[Any], side: list[Any] | None = None, after: Any = nn.Identity):
        super().__init__()
        self.branch, self.side = nn.Sequential(*branch), nn.Sequential(*side or [])
        self.after = after()

    def forward(self, x: Any) -> Any:
        return self.after(self.branch(x) + self.side(x))


def resnet18() -> Any:
    parts = [*normed(3, 64, 7, 2, 3), nn.MaxPool2d(3, 2, 1)]
    before = 64
    for c, first in ((64, 1), (128, 2), (256, 2), (512, 2)):
        for stride in (first, 1):
            branch = [*normed(before, c, 3, stride, 1), *normed(c, c, 3, 1, 1, relu=None)]
            parts.append(
                Residual(
                    branch,
                    normed(before, c, 1, stride, relu=None) if stride == 2 else None,
                    nn.ReLU,
                )
            )
            before = c
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


def mobilenet() -> Any:
    """MobileNetV2."""
    parts, before = normed(3, 32, 3, 2, 1, relu=nn.ReLU6), 32
    for wider, c, times, first in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for k in range(times):
            stride, inner = first if k == 0 else 1, before * wider
            branch = normed(before, inner, 1, relu=nn.ReLU6)
            branch += normed(inner, inner, 3, stride, 1, groups=inner, relu=nn.ReLU6) + normed(
                inner, c, 1, relu=None
            )
            parts.append(
                Residual(branch) if stride == 1 and before == c else nn.Sequential(*branch)
            )
            before = c
    parts += normed(before, 1280, 1, relu=nn.ReLU6)
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000))


def training(net: Any, x: Any, y: Any, loss_fn: Any) -> Any:
    rule = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)

    def step() -> None:
        rule.zero_grad()
        loss_fn(net(x), y).backward()
        rule.step()

    return step


def classifier(net: Any) -> Any:
    return training(net, torch.rand(8, 3, 224, 224), torch.zeros(8).long(), nn.CrossEntropyLoss())


def serving(net: Any, batch: int) -> Any:
    net, x = net.eval(), torch.rand(batch, 3, 224, 224)

    def step() -> None:
        with torch.inference_mode():
            net(x)

    return step


def groups(k: int) -> Any:
    net, x = (
        nn.Conv2d(32, 32, 3, padding=1, groups=k),
        torch.rand(8, 32, 56, 56, requires_grad=True),
    )

    def step() -> None:
        x.grad = net.weight.grad = net.bias.grad = None
        net(x).sum().backward()

    return step


def encoder() -> Any:
    layers = [nn.TransformerEncoderLayer(256, 4, 1024, 0.0, batch_first=True) for _ in range(4)]
    return training(
        nn.Sequential(*layers), torch.randn(8, 64, 256), torch.randn(8, 64, 256), nn.MSELoss()
    )


WORKS: dict[str, Any] = {
    "resnet18": lambda: classifier(resnet18()),
    "resnet18_serve_1": lambda: serving(resnet18(), 1),
    "resnet18_serve_8": lambda: serving(resnet18(), 8),
    "mobilenet": lambda: classifier(mobilenet()),
    "mobilenet_serve_8": lambda: serving(mobilenet(), 8),
    "groups_2": lambda: groups(2),
    "groups_16": lambda: groups(16),
    "encoder": encoder,
    "language_model": lambda: torch_step()[0],
}

if __name__ == "__main__":
    serve({"framework": f"torch {torch.__version__}"}, WORKS[sys.argv[1]](), lambda: None)
