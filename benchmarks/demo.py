"""Trains a LeNet on handwritten digits in four ways, and shows what each of them costs.

    python benchmarks/demo.py [--epochs N] [--ways NAME,...] [--out FOLDER]

The ways: imperatively; hybridized; hybridized with mirroring (cheap results are computed again in the
backward pass instead of being kept); data-parallel on four virtual CPU devices. The digits are MNIST's
where its files lie in MXNET_HOME, else the 1,797 images that come with scikit-learn, enlarged to 28x28.
Ends with status 1 if one of the ways reads fewer than 97 % of the test images.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DEVICES = 4
# XLA reads this when JAX is imported.
if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}"
    os.environ["XLA_FLAGS"] = flags.strip()

import numpy as np  # noqa: E402
from python_time import python_seconds  # noqa: E402

import mxjax as mx  # noqa: E402
from mxjax import autograd, gluon, profiler  # noqa: E402
from mxjax.gluon import nn  # noqa: E402

BATCH = 64
SHIFT = 2  # images are moved by up to so many pixels in training
WANTED = 0.97  # of the test images
RUNS = 30  # steps that are looked at after the training


@dataclass
class Digits:
    """Images (n, 1, 28, 28) in float32, and labels in int32."""

    name: str
    images: np.ndarray
    labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray
    epochs: int

    def __post_init__(self) -> None:
        mean, deviation = self.images.mean(), self.images.std()
        self.images = (self.images - mean) / deviation
        self.test_images = (self.test_images - mean) / deviation


def mnist(train: int = 12_000, test: int = 4_000) -> Digits:
    """The first images of MNIST.

    Raises:
      OSError: its files are not under MXNET_HOME.
    """
    parts = []
    for is_train, count in ((True, train), (False, test)):
        images, labels = gluon.data.vision.MNIST(train=is_train)[:count]
        parts.append(images.asnumpy().transpose(0, 3, 1, 2).astype(np.float32) / 255)
        parts.append(np.asarray(labels).astype(np.int32))
    return Digits("MNIST", parts[0], parts[1], parts[2], parts[3], epochs=3)


def mnist_is_here() -> bool:
    folder = Path(str(mx.config.get("data.home"))).expanduser() / "datasets" / "mnist"
    names = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
    names += ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    return all((folder / f"{n}.gz").is_file() or (folder / n).is_file() for n in names)


def sklearn_digits() -> Digits:
    """The digits that come with scikit-learn, 8x8, enlarged to 28x28; every fifth is for the test."""
    from sklearn.datasets import load_digits

    small, labels = load_digits(return_X_y=True)
    images = enlarge(small.reshape(-1, 8, 8).astype(np.float32) / 16, 28)[:, None]
    labels = labels.astype(np.int32)
    order = np.random.RandomState(7).permutation(len(labels))
    test, train = order[::5], np.delete(order, np.s_[::5])
    name = "scikit-learn's digits"
    return Digits(name, images[train], labels[train], images[test], labels[test], epochs=6)


def enlarge(images: np.ndarray, size: int) -> np.ndarray:
    """Bilinear interpolation of (n, h, w) to (n, size, size)."""
    old = images.shape[1]
    at = (np.arange(size) + 0.5) * old / size - 0.5
    weights = np.maximum(0, 1 - np.abs(at[:, None] - np.arange(old)[None])).astype(np.float32)
    weights /= weights.sum(axis=1, keepdims=True)
    return np.einsum("ih,nhw,jw->nij", weights, images, weights)


def lenet() -> Any:
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(channels=20, kernel_size=5, activation="relu"),
        nn.MaxPool2D(pool_size=2, strides=2),
        nn.Conv2D(channels=50, kernel_size=5),
        nn.MaxPool2D(pool_size=2, strides=2),
        nn.Flatten(),
        nn.Dense(512, activation="relu"),
        nn.Dense(10),
    )
    return net


@dataclass
class Way:
    """One way of training, and what came of it."""

    name: str
    devices: list[Any]
    prepare: Callable[[Any], None] = lambda net: None
    accuracy: float = 0.0
    steps_per_second: float = 0.0
    compiled: int = 0
    per_step: float = 0.0
    temp_bytes: int = 0
    python_us: float = 0.0
    losses: list[float] = field(default_factory=list)

    def train(self, digits: Digits, epochs: int, out: Path | None) -> None:
        """Train for some epochs, then measure; with ``out``, leave a profile there."""
        from tqdm import tqdm

        mx.random.seed(1)
        mx.engine.reset()
        net = lenet()
        net.initialize(mx.init.Xavier(), device=self.devices)
        self.prepare(net)
        steps = len(digits.labels) // BATCH
        schedule = mx.lr_scheduler.CosineScheduler(epochs * steps, base_lr=2e-3, final_lr=1e-4)
        options = {"learning_rate": 2e-3, "lr_scheduler": schedule}
        trainer = gluon.Trainer(net.collect_params(), "adam", options)
        loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()

        def step(images: Any, labels: Any) -> Any:
            # The tutorial's loop, over parts of the batch where there are several devices.
            with autograd.record():
                losses = [
                    loss_fn(net(x), y)
                    for x, y in zip(self.load(images), self.load(labels), strict=True)
                ]
            autograd.backward(losses)
            trainer.step(BATCH)
            return losses

        bar = tqdm(total=epochs * steps, desc=f"{self.name:<13}", unit="step", file=sys.stderr)
        shuffle = np.random.RandomState(3)
        rates = []
        for _ in range(epochs):
            start = time.perf_counter()
            seen = []
            for images, labels in batches(digits, shuffle):
                seen.append(step(images, labels))
                bar.update()
            mx.npx.waitall()
            rates.append(steps / (time.perf_counter() - start))
            means = [float(np.mean([part.asnumpy() for part in losses])) for losses in seen]
            self.losses += means
            bar.set_postfix(loss=f"{np.mean(means):.4f}")
        bar.close()
        self.steps_per_second = max(rates)
        self.accuracy = self.test(net, digits)

        batch = next(batches(digits, shuffle))
        self.compiled = mx.engine.stats()["compiled"]
        mx.config.set("engine.cold", "compile")  # what a step costs once it is a program
        step(*batch)
        step(*batch)
        mx.npx.waitall()
        mx.engine.reset()
        self.python_us = python_seconds(lambda: step(*batch), RUNS) * 1e6
        self.per_step = mx.engine.stats()["programs"] / RUNS
        self.temp_bytes = mx.memonger.measure(step, *batch).temp_bytes
        if out is not None:
            profile(lambda: step(*batch), out)
        mx.config.set("engine.cold", "auto")

    def load(self, array: np.ndarray) -> list[Any]:
        if len(self.devices) == 1:
            return [mx.np.array(array, device=self.devices[0], dtype=array.dtype)]
        whole = mx.np.array(array, dtype=array.dtype)
        return gluon.utils.split_and_load(whole, self.devices)

    def test(self, net: Any, digits: Digits) -> float:
        """The share of test images that are read rightly."""
        metric = gluon.metric.Accuracy()
        device = self.devices[0]
        parts = len(digits.test_labels) // 90  # of equal length: one program serves all
        for part in range(parts):
            images = mx.np.array(digits.test_images[part::parts], device=device)
            labels = mx.np.array(digits.test_labels[part::parts], device=device, dtype="int32")
            metric.update([labels], [net(images)])
        return float(metric.get()[1])


def batches(digits: Digits, shuffle: np.random.RandomState) -> Iterator[tuple[Any, Any]]:
    """An epoch's full batches, in random order, moved a little."""
    order = shuffle.permutation(len(digits.labels))
    for at in range(0, len(order) - BATCH + 1, BATCH):
        chosen = order[at : at + BATCH]
        by = tuple(shuffle.randint(-SHIFT, SHIFT + 1, 2))
        yield np.roll(digits.images[chosen], by, (2, 3)), digits.labels[chosen]


def profile(step: Callable[[], Any], out: Path) -> None:
    """A few steps under the profiler: ``profile.json`` and the aggregate table."""
    profiler.set_config(
        profile_all=True,
        aggregate_stats=True,
        filename=str(out / "profile.json"),
    )
    profiler.set_state("run")
    for _ in range(5):
        step()
    mx.npx.waitall()
    profiler.set_state("stop")
    (out / "profile.txt").write_text(profiler.dumps())
    profiler.dump()


def draw(ways: list[Way], name: str, file: Path) -> None:
    """The loss curves, averaged over ten steps."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    for way in ways:
        width = min(10, len(way.losses))
        smooth = np.convolve(way.losses, np.ones(width) / width, mode="valid")
        axes.plot(np.arange(len(smooth)) + width, smooth, label=way.name)
    axes.set(xlabel="step", ylabel="loss", yscale="log", title=f"LeNet on {name}")
    axes.legend()
    figure.savefig(file, dpi=120)
    pyplot.close(figure)


def table(ways: list[Way]) -> str:
    heads = ("", "accuracy", "steps/s", "programs", "programs", "temporary", "Python")
    units = ("", "%", "", "compiled", "per step", "MiB", "us/step")
    rows = [
        f"{w.name:<14}{w.accuracy * 100:>10.2f}{w.steps_per_second:>9.1f}{w.compiled:>10}"
        f"{w.per_step:>10.2f}{w.temp_bytes / 2**20:>11.2f}{w.python_us:>9.0f}"
        for w in ways
    ]
    form = "{:<14}{:>10}{:>9}{:>10}{:>10}{:>11}{:>9}"
    return "\n".join([form.format(*heads).rstrip(), form.format(*units).rstrip(), "-" * 73, *rows])


def main() -> int:
    every = {
        "imperative": Way("imperative", [mx.cpu()]),
        "hybridized": Way("hybridized", [mx.cpu()], lambda net: net.hybridize()),
        "mirrored": Way("mirrored", [mx.cpu()], lambda net: net.hybridize(mirror=True)),
        "data-parallel": Way("data-parallel", [mx.cpu(i) for i in range(DEVICES)]),
    }
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--epochs", type=int, help="passes over the images")
    parser.add_argument("--ways", default=",".join(every), help="some of: %(default)s")
    parser.add_argument("--out", type=Path, default=Path("demo_output"), help="%(default)s")
    args = parser.parse_args()
    unknown = set(args.ways.split(",")) - set(every)
    if unknown:
        parser.error(f"no such way: {', '.join(sorted(unknown))}; there are: {', '.join(every)}")
    ways = [every[name] for name in args.ways.split(",")]

    start = time.perf_counter()
    args.out.mkdir(parents=True, exist_ok=True)
    digits = mnist() if mnist_is_here() else sklearn_digits()
    print(
        f"{digits.name}: {len(digits.labels)} images to train with, {len(digits.test_labels)} to "
        f"test; batches of {BATCH}"
    )
    for way in ways:
        way.train(digits, args.epochs or digits.epochs, args.out if way is ways[0] else None)
    draw(ways, digits.name, args.out / "loss.png")

    print(f"\n{table(ways)}\n")
    print(f"loss curves   {args.out / 'loss.png'}")
    print(f"a profile     {args.out / 'profile.json'}: open it in https://ui.perfetto.dev; for")
    print(f"              TensorBoard: tensorboard --logdir {args.out / 'profile_xplane'}")
    print(f"              {args.out / 'profile.txt'}: the same as a table")
    print(f"time          {time.perf_counter() - start:.0f} s")
    bad = [w for w in ways if not w.accuracy >= WANTED]
    for way in bad:
        print(
            f"{way.name} reads {way.accuracy:.2%} of the test images; at least {WANTED:.0%} are "
            "expected",
            file=sys.stderr,
        )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
