"""The works of `make bench-gpu` in PyTorch: fused optimizers, TF32, autocast to bf16, channels last.

    python benchmarks/gpu_torch.py [--tiny] [--compile] [PICTURES]

With ``--compile`` networks and losses go through `torch.compile`. PICTURES: a folder of JPEG files.
"""

from __future__ import annotations

import io
import random
import sys
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from gpu_work import (
    FULL,
    TINY,
    WORKS,
    Made,
    Work,
    cold,
    data,
    expression,
    predicted,
    serve,
    stages,
    weights,
)
from torch import nn

SIZE = TINY if "--tiny" in sys.argv else FULL
MEAN, STD = (123.68, 116.78, 103.94), (58.4, 57.1, 57.4)
COMPILE = "--compile" in sys.argv
CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda" if CUDA else "cpu")
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
torch.backends.cudnn.benchmark = True


def lenet() -> Any:
    return nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(800, 512), nn.ReLU(), nn.Linear(512, 10),
    )  # fmt: skip


class LSTM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        n = SIZE.lstm_units
        self.embedding, self.rnn = nn.Embedding(SIZE.lstm_words, n), nn.LSTM(n, n, 2)
        self.out = nn.Linear(n, SIZE.lstm_words)

    def forward(self, x: Any) -> Any:
        return self.out(self.rnn(self.embedding(x))[0])


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        n = SIZE.units
        self.into, self.out, self.norm = nn.Linear(n, 3 * n), nn.Linear(n, n), nn.LayerNorm(n)
        self.wide, self.narrow, self.last = (
            nn.Linear(n, 4 * n),
            nn.Linear(4 * n, n),
            nn.LayerNorm(n),
        )

    def forward(self, x: Any) -> Any:
        n, length, units = x.shape
        q, k, v = (
            a.view(n, length, SIZE.heads, -1).transpose(1, 2) for a in self.into(x).chunk(3, -1)
        )
        read = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, length, units)
        x = self.norm(x + self.out(read))
        return self.last(x + self.narrow(F.gelu(self.wide(x))))


class BERT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        n = SIZE.units
        self.words, self.places = nn.Embedding(SIZE.words, n), nn.Embedding(max(SIZE.lengths), n)
        self.norm = nn.LayerNorm(n)
        self.layers = nn.Sequential(*(Layer() for _ in range(SIZE.layers)))
        self.head, self.head_norm, self.out = (
            nn.Linear(n, n),
            nn.LayerNorm(n),
            nn.Linear(n, SIZE.words),
        )

    def forward(self, tokens: Any) -> Any:
        length = tokens.shape[1]
        x = self.layers(self.norm(self.words(tokens) + self.places.weight[:length]))
        return self.out(self.head_norm(F.gelu(self.head(x[:, : predicted(length)]))))


def normed(before: int, channels: int, k: int, stride: int, relu: bool = True) -> list[Any]:
    conv = nn.Conv2d(before, channels, k, stride, k // 2, bias=False)
    return [conv, nn.BatchNorm2d(channels), *([nn.ReLU(inplace=True)] if relu else [])]


class Bottleneck(nn.Module):
    def __init__(self, before: int, inner: int, stride: int):
        super().__init__()
        parts = (
            normed(before, inner, 1, 1), normed(inner, inner, 3, stride), normed(inner, 4 * inner, 1, 1, False)
        )  # fmt: skip
        self.body = nn.Sequential(*(layer for part in parts for layer in part))
        aside = stride == 2 or before != 4 * inner
        self.side = nn.Sequential(*(normed(before, 4 * inner, 1, stride, False) if aside else []))

    def forward(self, x: Any) -> Any:
        return F.relu(self.body(x) + self.side(x), inplace=True)


def resnet() -> Any:
    parts = [
        *normed(3, SIZE.width, 7, 2),
        nn.MaxPool2d(3, 2, 1),
        *(Bottleneck(*stage) for stage in stages(SIZE)),
    ]
    return nn.Sequential(
        *parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32 * SIZE.width, SIZE.classes)
    )


NETS: dict[str, Any] = {"lenet": lenet, "lstm": LSTM, "bert": BERT, "resnet": resnet}


def rule_of(work: Work, params: Any) -> Any:
    if work.rule == "adam":
        return torch.optim.Adam(params, lr=work.rate, fused=CUDA)
    return torch.optim.SGD(
        params, lr=work.rate, momentum=0.9 if work.rule == "momentum" else 0.0, fused=CUDA
    )


def sync() -> None:
    if CUDA:
        torch.cuda.synchronize()


def made(name: str) -> Made:
    work = WORKS[name]
    net = NETS[work.net]().to(DEVICE)
    with torch.no_grad():
        for p, a in zip(net.parameters(), weights(work, SIZE), strict=True):
            p.copy_(torch.from_numpy(a))
    x, y = (torch.from_numpy(a).to(DEVICE) for a in data(work, SIZE))
    y = y.long()
    if work.net == "resnet":
        net, x = (
            net.to(memory_format=torch.channels_last),
            x.contiguous(memory_format=torch.channels_last),
        )
    rule = rule_of(work, net.parameters())

    def loss_of(x: Any, y: Any) -> Any:
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=work.bf16):
            out = net(x)
        return F.cross_entropy(out.float().flatten(0, -2), y.flatten())

    run = (
        torch.compile(loss_of, mode="reduce-overhead" if name == "lenet" else None)
        if COMPILE
        else loss_of
    )

    def step(x: Any = x, y: Any = y) -> Any:
        rule.zero_grad(set_to_none=True)
        loss = run(x, y)
        loss.backward()
        rule.step()
        return loss.detach()

    if name == "pipeline":
        return pipeline(step)

    def rest() -> dict[str, Any]:
        if not CUDA:
            return {}
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        sync()
        own = sum(t.numel() * t.element_size() for t in (*net.parameters(), *net.buffers(), x, y))
        states = [t for s in rule.state.values() for t in s.values() if isinstance(t, torch.Tensor)]
        own += sum(t.numel() * t.element_size() for t in states)
        return {"bytes": torch.cuda.max_memory_allocated() - before + own}

    return Made(step, sync, rest)


class Pictures(torch.utils.data.Dataset[Any]):
    """JPEG files as bytes of numbers: cut at random, mirrored."""

    def __init__(self, folder: str):
        self.files = sorted(Path(folder).glob("*.jpg"))

    def __len__(self) -> int:
        return SIZE.pictures

    def __getitem__(self, n: int) -> Any:
        import numpy
        from PIL import Image

        a = numpy.asarray(Image.open(io.BytesIO(self.files[n % len(self.files)].read_bytes())))
        top, left = (random.randint(0, s - SIZE.side) for s in a.shape[:2])
        a = a[top : top + SIZE.side, left : left + SIZE.side]
        return torch.from_numpy(
            numpy.ascontiguousarray(a[:, ::-1] if random.random() < 0.5 else a)
        ), n % 10


def pipeline(step: Any) -> Made:
    loader = torch.utils.data.DataLoader(
        Pictures(sys.argv[-1]), SIZE.images, num_workers=SIZE.workers, pin_memory=CUDA, drop_last=True,
        persistent_workers=True, prefetch_factor=4,
    )  # fmt: skip
    mean, std = (torch.tensor(a, device=DEVICE).view(1, 3, 1, 1) for a in (MEAN, STD))

    def batches() -> Any:
        for x, y in loader:
            x = x.to(DEVICE, non_blocking=True).permute(0, 3, 1, 2)  # channels last already
            yield (x.float() - mean) / std, y.to(DEVICE, non_blocking=True)

    def epoch() -> int:
        n = 0
        for x, y in batches():
            step(x, y)
            n += 1
        return n

    x, y = next(iter(batches()))
    return Made(lambda: step(x, y), sync, many=epoch)


def prepare(name: str) -> Any:
    if name == "cold":
        return cold(
            lambda s: float(
                expression(
                    torch.ones(s, device=DEVICE), torch.full(s, 2.0, device=DEVICE), torch.tanh
                )
            )
        )
    return made(name)


if __name__ == "__main__":
    kind = torch.cuda.get_device_name(0) if CUDA else "cpu"
    serve({"framework": f"torch {torch.__version__}", "device": kind}, prepare)
