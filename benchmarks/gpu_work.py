"""The works of `make bench-gpu`: their sizes, weights and data, the same for every framework, and how one is measured.

`gpu_ours.py`, `gpu_jax.py` and `gpu_torch.py` build them and are the processes that `gpu.py` starts and gives turns.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

STEPS = 6  # whose losses are compared
TURN = 0.02 if "--tiny" in sys.argv else 0.3  # seconds that a turn lasts at least
COLD_SHAPES = 20


class Sizes(NamedTuple):
    """What there is of each work."""

    images: int  # in a batch of ResNet-50
    side: int
    width: int  # channels of its first convolution
    blocks: tuple[int, ...]
    classes: int
    words: int  # of BERT
    units: int
    heads: int
    layers: int
    tokens: int  # in a batch
    lengths: tuple[int, int]
    lstm_words: int
    lstm_units: int
    lstm_batch: int
    lstm_length: int
    lenet: int
    pictures: int  # JPEG files of the pipeline
    workers: int


FULL = Sizes(
    128,
    224,
    64,
    (3, 4, 6, 3),
    1000,
    30522,
    768,
    12,
    12,
    8192,
    (128, 512),
    10000,
    650,
    64,
    35,
    64,
    2048,
    14,
)
TINY = Sizes(4, 32, 8, (1, 1, 1, 1), 10, 97, 16, 2, 2, 64, (8, 16), 50, 8, 3, 5, 4, 16, 2)


class Work(NamedTuple):
    """A network, the numbers it computes with, and its optimizer."""

    net: str
    bf16: bool
    rule: str
    rate: float
    length: int = 0  # which of `Sizes.lengths`


WORKS = {
    "lenet": Work("lenet", False, "adam", 1e-3),
    "lstm": Work("lstm", False, "sgd", 0.5),
    "bert_128": Work("bert", True, "adam", 1e-4),
    "bert_512": Work("bert", True, "adam", 1e-4, 1),
    "resnet_bf16": Work("resnet", True, "momentum", 0.02),
    "resnet_tf32": Work("resnet", False, "momentum", 0.02),
    "pipeline": Work("resnet", True, "momentum", 0.02),
}


def stages(size: Sizes) -> list[tuple[int, int, int]]:
    """(channels before, inner channels, stride) of ResNet-50's blocks; a block gives four times its inner ones."""
    found, before = [], size.width
    for k, times in enumerate(size.blocks):
        for n in range(times):
            inner = size.width << k
            found.append((before, inner, 2 if k and not n else 1))
            before = 4 * inner
    return found


def shapes(net: str, size: Sizes) -> list[tuple[str, tuple[int, ...]]]:
    """The trained weights in the order in which every framework makes them: what they begin as, and shapes as PyTorch
    and MXNet have them."""
    found: list[tuple[str, tuple[int, ...]]] = []

    def dense(out: int, into: int) -> None:
        found.extend([("normal", (out, into)), ("zeros", (out,))])

    def norm(n: int) -> None:
        found.extend([("ones", (n,)), ("zeros", (n,))])

    def conv(out: int, into: int, k: int) -> None:
        found.append(("normal", (out, into, k, k)))
        norm(out)

    if net == "lenet":
        for shape in ((20, 1, 5, 5), (50, 20, 5, 5)):
            found.extend([("normal", shape), ("zeros", shape[:1])])
        dense(512, 800)
        dense(10, 512)
    elif net == "lstm":
        n = size.lstm_units
        found.append(("normal", (size.lstm_words, n)))
        for _ in range(2):
            found.extend([("normal", (4 * n, n))] * 2 + [("zeros", (4 * n,))] * 2)
        dense(size.lstm_words, n)
    elif net == "bert":
        n = size.units
        found.extend([("small", (size.words, n)), ("small", (max(size.lengths), n))])
        norm(n)
        for _ in range(size.layers):
            dense(3 * n, n)
            dense(n, n)
            norm(n)
            dense(4 * n, n)
            dense(n, 4 * n)
            norm(n)
        dense(n, n)
        norm(n)
        dense(size.words, n)
    else:
        conv(size.width, 3, 7)
        for before, inner, stride in stages(size):
            conv(inner, before, 1)
            conv(inner, inner, 3)
            conv(4 * inner, inner, 1)
            if stride == 2 or before != 4 * inner:
                conv(4 * inner, before, 1)
        dense(size.classes, size.width * 32)
    return found


def weights(work: Work, size: Sizes) -> list[np.ndarray]:
    """The numbers that training begins with; for bf16 they are numbers of bf16."""
    draw = np.random.RandomState(0)
    made = []
    for kind, shape in shapes(work.net, size):
        if kind in ("zeros", "ones"):
            made.append(getattr(np, kind)(shape, "float32"))
            continue
        into = int(np.prod(shape[1:]))
        scale = 0.02 if kind == "small" else (2.0 if len(shape) == 4 else 1.0) ** 0.5 / into**0.5
        a = draw.standard_normal(shape).astype("float32") * np.float32(scale)
        if work.bf16:
            a = ((a.view(np.uint32) + np.uint32(0x8000)) & np.uint32(0xFFFF0000)).view(np.float32)
        made.append(a)
    return made


def predicted(length: int) -> int:
    """How many words of a sequence BERT predicts: its first ones."""
    return max(1, length * 15 // 100)


def data(work: Work, size: Sizes) -> tuple[np.ndarray, np.ndarray]:
    """A batch, and what it should give."""
    draw = np.random.RandomState(1)
    if work.net == "lenet":
        return draw.rand(size.lenet, 1, 28, 28).astype("float32"), draw.randint(
            0, 10, size.lenet
        ).astype("int32")
    if work.net == "lstm":
        words = draw.randint(0, size.lstm_words, (2, size.lstm_length, size.lstm_batch)).astype(
            "int32"
        )
        return words[0], words[1]
    if work.net == "bert":
        length = size.lengths[work.length]
        words = draw.randint(0, size.words, (2, size.tokens // length, length)).astype("int32")
        return words[0], words[1][:, : predicted(length)].copy()
    x = draw.standard_normal((size.images, 3, size.side, size.side)).astype("float32")
    return x, draw.randint(0, size.classes, size.images).astype("int32")


def expression(a: Any, b: Any, tanh: Callable[[Any], Any]) -> Any:
    """Six small operators: what a user tries in a notebook."""
    return ((tanh(a * b + 0.5) - b) / 3).sum()


def cold_shapes() -> list[tuple[int, int]]:
    return [(3 + n, 5 + 2 * n) for n in range(COLD_SHAPES)]


def cold(run: Callable[[tuple[int, int]], Any]) -> float:
    """Milliseconds of an expression of a shape that is new: the median."""
    spent = []
    for shape in cold_shapes():
        begin = time.perf_counter()
        run(shape)
        spent.append((time.perf_counter() - begin) * 1e3)
    return float(np.median(spent))


class Made(NamedTuple):
    """A work that can be measured.

    ``step`` gives the loss; ``rest`` is called once after the warm-up and gives what else there is to tell; ``many``:
    a whole epoch where that is what is measured, which gives the number of its steps.
    """

    step: Callable[[], Any]
    sync: Callable[[], Any]
    rest: Callable[[], dict[str, Any]] = dict
    many: Callable[[], int] | None = None


class _Turns:
    def __init__(self, made: Made):
        self.made = made
        self.calls = 1

    def warm(self) -> dict[str, Any]:
        step, sync = self.made.step, self.made.sync
        begin = time.perf_counter()
        losses = [float(step())]
        first = time.perf_counter() - begin
        losses += [float(step()) for _ in range(STEPS - 1)]
        warm = time.perf_counter() - begin
        sync()
        for calls in (3, 10):
            one = self.once(calls)["ms"]
        self.calls = max(2, min(1000, int(TURN / max(1e-6, one * 1e-3))))
        return {"losses": losses, "first": first, "warm": warm, **self.made.rest()}

    def once(self, calls: int = 0) -> dict[str, float]:
        """Milliseconds of a step, and of the host's part in it."""
        begin = time.perf_counter()
        if self.made.many is not None:
            calls = self.made.many()
            issued = time.perf_counter()
        else:
            calls = calls or self.calls
            loss = None
            for _ in range(calls):
                loss = self.made.step()
            issued = time.perf_counter()
            del loss
        self.made.sync()
        return {
            "ms": (time.perf_counter() - begin) / calls * 1e3,
            "host": (issued - begin) / calls * 1e3,
        }


def serve(facts: dict[str, Any], prepare: Callable[[str], Made | float]) -> None:
    """Answer each line of stdin, a verb and a work's name, with a line of JSON: ``prepare``, ``turn``, ``drop``.

    ``prepare`` gives a work, or a figure that is measured once.
    """
    print(json.dumps(facts), flush=True)
    ready: dict[str, _Turns] = {}
    for line in sys.stdin:
        verb, name = line.split()
        try:
            if verb == "prepare":
                made = prepare(name)
                if isinstance(made, Made):
                    turns = _Turns(made)
                    answer = turns.warm()
                    ready[name] = turns
                else:
                    answer = {"ms": made}
            elif verb == "turn":
                answer = ready[name].once()
            else:
                ready.pop(name, None)
                answer = {}
        except Exception:
            answer = {"failed": traceback.format_exc()[-2500:]}
        print(json.dumps(answer), flush=True)
