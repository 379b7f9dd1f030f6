"""The networks of `make bench-nets` in Gluon, for MXNet 2 and for mxjax: one work in a process (see `nets_turns.py`).

python benchmarks/nets_gluon.py ours|mxnet WORK
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")

from language_model import gluon_step  # noqa: E402
from nets_turns import serve  # noqa: E402

WHICH, WORK = sys.argv[1:3]
mx = importlib.import_module({"ours": "mxjax", "mxnet": "mxnet"}[WHICH])
mx.npx.set_np()
autograd, gluon, nn, np, npx = mx.autograd, mx.gluon, mx.gluon.nn, mx.np, mx.npx
HybridBlock: Any = gluon.HybridBlock


def images(*shape: int) -> Any:
    return np.random.uniform(size=shape)


def classes(*shape: int, of: int) -> Any:
    return np.random.randint(0, of, shape).astype("int32")


def ready(net: Any, hybrid: bool = True) -> Any:
    net.initialize(mx.init.Xavier())
    if hybrid:
        net.hybridize(static_alloc=True, static_shape=True)
    return net


def training(net: Any, x: Any, y: Any, loss_fn: Any, hybrid: bool = True, **rule: Any) -> Any:
    """A step of sgd with momentum."""
    ready(net, hybrid)
    if hybrid:
        loss_fn.hybridize()
    net(x)
    trainer = gluon.Trainer(
        net.collect_params(), "sgd", {"learning_rate": 1e-3, "momentum": 0.9, **rule}
    )

    def step() -> None:
        with autograd.record():
            loss = loss_fn(net(x), y)
        loss.backward()
        trainer.step(len(x))

    return step


def classifier(name: str, hybrid: bool = True) -> Any:
    net = getattr(gluon.model_zoo.vision, name)()
    return training(
        net,
        images(8, 3, 224, 224),
        classes(8, of=1000),
        gluon.loss.SoftmaxCrossEntropyLoss(),
        hybrid,
    )


def serving(name: str, batch: int) -> Any:
    net, x = ready(getattr(gluon.model_zoo.vision, name)()), images(batch, 3, 224, 224)
    return lambda: net(x).wait_to_read()


def groups(k: int) -> Any:
    """Value and both gradients."""
    net, x = ready(nn.Conv2D(32, 3, padding=1, groups=k, in_channels=32)), images(8, 32, 56, 56)
    x.attach_grad()

    def step() -> None:
        with autograd.record():
            y = net(x)
        y.backward()
        for a in (y, x.grad, net.weight.grad()):
            a.wait_to_read()  # what nobody reads is not computed

    return step


class Layer(HybridBlock):  # type: ignore[misc]
    """One layer of an encoder: attention of 4 heads and two dense layers, each normalised after it."""

    def __init__(self, units: int = 256, heads: int = 4):
        super().__init__()
        self.heads, self.width = heads, units // heads
        self.into = nn.Dense(3 * units, flatten=False, in_units=units)
        self.out = nn.Dense(units, flatten=False, in_units=units)
        self.wide = nn.Dense(4 * units, flatten=False, in_units=units, activation="relu")
        self.narrow = nn.Dense(units, flatten=False, in_units=4 * units)
        self.norms = [nn.LayerNorm(in_channels=units), nn.LayerNorm(in_channels=units)]
        for k, norm in enumerate(self.norms):
            self.register_child(norm, f"norm{k}")

    def split(self, a: Any) -> Any:
        """(batch * heads, length, width)"""
        return (
            a.reshape(8, 64, self.heads, self.width)
            .transpose(0, 2, 1, 3)
            .reshape(-1, 64, self.width)
        )

    def forward(self, x: Any) -> Any:
        q, k, v = (self.split(a) for a in np.split(self.into(x), 3, axis=-1))
        weights = npx.softmax(npx.batch_dot(q, k, transpose_b=True) / self.width**0.5, axis=-1)
        read = (
            npx.batch_dot(weights, v)
            .reshape(8, self.heads, 64, self.width)
            .transpose(0, 2, 1, 3)
            .reshape(8, 64, -1)
        )
        x = self.norms[0](x + self.out(read))
        return self.norms[1](x + self.narrow(self.wide(x)))


def encoder(hybrid: bool) -> Any:
    net = nn.HybridSequential()
    net.add(*(Layer() for _ in range(4)))
    x = np.random.normal(size=(8, 64, 256))
    return training(net, x, np.random.normal(size=x.shape), gluon.loss.L2Loss(), hybrid)


def twice(channels: int, dims: int = 2) -> Any:
    """Two convolutions, each with relu, and of images with BatchNorm (that of volumes fails in MXNet 2.0.0b1)."""
    block = nn.HybridSequential()
    for _ in range(2):
        if dims == 2:
            block.add(nn.Conv2D(channels, 3, padding=1, use_bias=False), nn.BatchNorm())
        else:
            block.add(nn.Conv3D(channels, 3, padding=1))
        block.add(nn.Activation("relu"))
    return block


class UNet(HybridBlock):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.down = [twice(c) for c in (16, 32, 64)]
        self.up = [nn.Conv2DTranspose(c, 2, strides=2) for c in (32, 16)]
        self.after = [twice(c) for c in (32, 16)]
        self.pool, self.last = nn.MaxPool2D(), nn.Conv2D(2, 1)
        for k, block in enumerate([*self.down, *self.up, *self.after]):
            self.register_child(block, f"part{k}")

    def forward(self, x: Any) -> Any:
        kept = []
        for block in self.down[:-1]:
            kept.append(block(x))
            x = self.pool(kept[-1])
        x = self.down[-1](x)
        for up, after in zip(self.up, self.after):  # noqa: B905
            x = after(np.concatenate([kept.pop(), up(x)], axis=1))
        return self.last(x)


def unet() -> Any:
    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss(axis=1)
    return training(UNet(), images(4, 1, 128, 128), classes(4, 128, 128, of=2), loss_fn)


def dcgan() -> Any:
    """One step of the critic (on true and on made images), and one of the generator."""
    made, critic = nn.HybridSequential(), nn.HybridSequential()
    for c, stride, pad in ((128, 1, 0), (64, 2, 1), (32, 2, 1)):
        made.add(
            nn.Conv2DTranspose(c, 4, stride, pad, use_bias=False),
            nn.BatchNorm(),
            nn.Activation("relu"),
        )
    made.add(nn.Conv2DTranspose(3, 4, 2, 1, use_bias=False), nn.Activation("tanh"))
    for c in (32, 64, 128):
        critic.add(nn.Conv2D(c, 4, 2, 1, use_bias=False), nn.BatchNorm(), nn.LeakyReLU(0.2))
    critic.add(nn.Conv2D(1, 4, 1, 0, use_bias=False), nn.Flatten())
    loss_fn = gluon.loss.SigmoidBinaryCrossEntropyLoss()
    loss_fn.hybridize()
    rule = {"learning_rate": 2e-4, "beta1": 0.5}
    trainers = [gluon.Trainer(ready(net).collect_params(), "adam", rule) for net in (made, critic)]
    true, noise = images(16, 3, 32, 32), np.random.normal(size=(16, 64, 1, 1))
    ones, zeros = np.ones((16, 1)), np.zeros((16, 1))
    critic(made(noise))

    def step() -> None:
        with autograd.record():
            found = made(noise)
            loss = loss_fn(critic(true), ones) + loss_fn(critic(found.detach()), zeros)
        loss.backward()
        trainers[1].step(16)
        with autograd.record():
            loss = loss_fn(critic(made(noise)), ones)
        loss.backward()
        trainers[0].step(16)

    return step


class SSD(HybridBlock):  # type: ignore[misc]
    """Boxes and classes of three sizes of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.body = [twice(c) for c in (16, 32, 64, 128, 128)]
        self.named = [nn.Conv2D(4 * 3, 3, padding=1) for _ in range(3)]
        self.boxes = [nn.Conv2D(4 * 4, 3, padding=1) for _ in range(3)]
        self.pool = nn.MaxPool2D()
        for k, block in enumerate([*self.body, *self.named, *self.boxes]):
            self.register_child(block, f"part{k}")

    def forward(self, x: Any) -> Any:
        anchors, named, boxes = [], [], []
        for k, block in enumerate(self.body):
            x = self.pool(block(x))
            if k >= 2:
                size = 0.2 + 0.25 * (k - 2)
                anchors.append(npx.multibox_prior(x, sizes=(size, size * 1.3), ratios=(1, 2, 0.5)))
                for part, found in ((self.named, named), (self.boxes, boxes)):
                    found.append(npx.batch_flatten(part[k - 2](x).transpose(0, 2, 3, 1)))
        named = np.concatenate(named, axis=1)
        return (
            np.concatenate(anchors, axis=1),
            named.reshape(4, -1, 3),
            np.concatenate(boxes, axis=1),
        )


def ssd() -> Any:
    net, x = ready(SSD()), images(4, 3, 128, 128)
    low = np.random.uniform(0, 0.5, (4, 3, 2))
    labels = np.concatenate([np.ones((4, 3, 1)), low, low + 0.3], axis=2)
    of_classes, of_boxes = gluon.loss.SoftmaxCrossEntropyLoss(), gluon.loss.HuberLoss()
    net(x)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1e-3, "momentum": 0.9})

    def step() -> None:
        with autograd.record():
            anchors, named, boxes = net(x)
            with autograd.pause():
                target, mask, kinds = npx.multibox_target(anchors, labels, named.transpose(0, 2, 1))
            loss = of_classes(named, kinds) + of_boxes(boxes * mask, target * mask)
        loss.backward()
        trainer.step(4)

    return step


def volumes() -> Any:
    net = nn.HybridSequential()
    net.add(twice(8, 3), nn.MaxPool3D(), twice(16, 3), nn.GlobalAvgPool3D(), nn.Dense(10))
    return training(
        net, images(2, 1, 16, 64, 64), classes(2, of=10), gluon.loss.SoftmaxCrossEntropyLoss()
    )


WORKS: dict[str, Any] = {
    "resnet18": lambda: classifier("resnet18_v1"),
    "resnet18_imperative": lambda: classifier("resnet18_v1", False),
    "resnet18_serve_1": lambda: serving("resnet18_v1", 1),
    "resnet18_serve_8": lambda: serving("resnet18_v1", 8),
    "mobilenet": lambda: classifier("mobilenet_v2_1_0"),
    "mobilenet_serve_8": lambda: serving("mobilenet_v2_1_0", 8),
    "groups_2": lambda: groups(2),
    "groups_16": lambda: groups(16),
    "encoder": lambda: encoder(True),
    "encoder_imperative": lambda: encoder(False),
    "language_model": lambda: gluon_step(mx)[0],
    "unet": unet,
    "dcgan": dcgan,
    "ssd": ssd,
    "volumes": volumes,
}


def main() -> None:
    facts: dict[str, Any] = {"framework": f"{WHICH} {mx.__version__}"}
    if WHICH == "ours":
        # What runs for long is optimised: here from the start.
        mx.config.set("engine.cold", "compile")
    step = WORKS[WORK]()
    if WHICH == "ours":
        found = mx.memonger.measure(step, warmup=3)
        facts.update(bytes=found.accessed_bytes, flops=found.flops)
    serve(facts, step, npx.waitall)


if __name__ == "__main__":
    main()
