"""How long it takes to the end of the third training step, in a process of its own; prints one JSON object.

    python benchmarks/cold_steps.py lenet|resnet18|encoder jax|imperative|hybridized

Seconds of process CPU time from making the network on; importing is not in it. ``jax`` is the same network and
optimizer (SGD with momentum) written in JAX: one donated `jax.jit` of forward, backward and update.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

STEPS = 3
RATE, MOMENTUM = 0.01, 0.9


# -- hand-written JAX ------------------------------------------------------------------------------------


def _networks() -> Any:
    """The module with networks that tests have, too."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from tests.memonger import networks

    return networks


def _normal(*shape: int) -> Any:
    """Random weights drawn by NumPy: drawn by JAX they would be several programs more."""
    import jax

    return jax.device_put(
        (_RANDOM.randn(*shape) * (2 / np.prod(shape[1:])) ** 0.5).astype("float32")
    )


_RANDOM = np.random.RandomState(0)


def _convolve(x: Any, w: Any, stride: int = 1, pad: int = 0) -> Any:
    from jax import lax

    return lax.conv_general_dilated(
        x, w, (stride, stride), ((pad, pad), (pad, pad)), dimension_numbers=("NCHW", "OIHW", "NCHW")
    )


def _batch_norm(x: Any, p: Any, moving: Any) -> tuple[Any, Any]:
    import jax.numpy as jnp

    mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3))
    at = (None, slice(None), None, None)
    y = (x - mean[at]) / jnp.sqrt(var + 1e-5)[at] * p["gamma"][at] + p["beta"][at]
    return y, {"mean": 0.9 * moving["mean"] + 0.1 * mean, "var": 0.9 * moving["var"] + 0.1 * var}


def _cross_entropy(scores: Any, y: Any) -> Any:
    import jax

    return -jax.nn.log_softmax(scores)[np.arange(len(y)), y].mean()


def jax_lenet() -> tuple[Any, Any, Callable[..., Any], Any]:
    """(parameters, moving statistics, loss of them and the batch, the batch)."""
    import jax
    from lenet_jax import pool  # XLA's gradient of reduce_window takes seconds on a CPU

    def loss(p: Any, moving: Any, x: Any, y: Any) -> Any:
        h = pool(jax.nn.relu(_convolve(x, p[0]) + p[1][:, None, None]))
        h = pool(jax.nn.relu(_convolve(h, p[2]) + p[3][:, None, None])).reshape(len(x), -1)
        return _cross_entropy(jax.nn.relu(h @ p[4].T + p[5]) @ p[6].T + p[7], y), moving

    shapes = [(20, 1, 5, 5), (50, 20, 5, 5), (512, 800), (10, 512)]
    params = [a for s in shapes for a in (_normal(*s), jax.numpy.zeros(s[0]))]
    return params, (), loss, (_images(64, 1, 28), np.arange(64) % 10)


def jax_resnet18() -> tuple[Any, Any, Callable[..., Any], Any]:
    import jax
    import jax.numpy as jnp

    widths = [(64 * 2**s, 2 if s and not k else 1) for s in range(4) for k in range(2)]
    convs, norms = [_normal(64, 3, 7, 7)], [64]
    before = 64
    for wide, stride in widths:
        convs += [_normal(wide, before, 3, 3), _normal(wide, wide, 3, 3)]
        norms += [wide, wide]
        if stride > 1:
            convs.append(_normal(wide, before, 1, 1))
            norms.append(wide)
        before = wide
    params = {
        "conv": convs,
        "norm": [{"gamma": jnp.ones(n), "beta": jnp.zeros(n)} for n in norms],
        "dense": (_normal(10, 512), jnp.zeros(10)),
    }
    moving = [{"mean": jnp.zeros(n), "var": jnp.ones(n)} for n in norms]

    def loss(p: Any, moving: Any, x: Any, y: Any) -> Any:
        layers = iter(zip(p["conv"], p["norm"], moving, strict=True))
        moved = []

        def layer(x: Any, stride: int, pad: int) -> Any:
            w, norm, old = next(layers)
            x, new = _batch_norm(_convolve(x, w, stride, pad), norm, old)
            moved.append(new)
            return x

        x = jax.nn.relu(layer(x, 2, 3))
        x = jax.lax.reduce_window(
            x, -np.inf, jax.lax.max, (1, 1, 3, 3), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 1), (1, 1))
        )
        for _, stride in widths:
            around, x = x, layer(jax.nn.relu(layer(x, stride, 1)), 1, 1)
            if stride > 1:
                around = layer(around, stride, 0)
            x = jax.nn.relu(x + around)
        w, b = p["dense"]
        return _cross_entropy(x.mean((2, 3)) @ w.T + b, y), moved

    return params, moving, loss, (_images(8, 3, 224), np.arange(8) % 10)


def jax_encoder() -> tuple[Any, Any, Callable[..., Any], Any]:
    import jax
    import jax.numpy as jnp

    width, heads, length, batch = ENCODER

    def dense(n: int, m: int) -> Any:
        return _normal(n, m), jnp.zeros(n)

    params = [
        {
            **{name: dense(width, width) for name in ("query", "key", "value", "out")},
            "wide": dense(4 * width, width), "narrow": dense(width, 4 * width),
            **{name: (jnp.ones(width), jnp.zeros(width)) for name in ("norm1", "norm2")},
        }
        for _ in range(4)
    ]  # fmt: skip

    def norm(x: Any, p: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * p[0] + p[1]

    def loss(params: Any, moving: Any, x: Any, y: Any) -> Any:
        for p in params:
            h = norm(x, p["norm1"])
            q, k, v = (
                (h @ p[n][0].T + p[n][1]).reshape(batch, length, heads, -1).transpose(0, 2, 1, 3)
                for n in ("query", "key", "value")
            )
            mixed = jax.nn.softmax(q @ k.transpose(0, 1, 3, 2) * q.shape[-1] ** -0.5) @ v
            mixed = mixed.transpose(0, 2, 1, 3).reshape(batch, length, width)
            x = x + mixed @ p["out"][0].T + p["out"][1]
            h = jax.nn.gelu(norm(x, p["norm2"]) @ p["wide"][0].T + p["wide"][1], approximate=False)
            x = x + h @ p["narrow"][0].T + p["narrow"][1]
        return ((x - y) ** 2).mean(), moving

    x = np.random.RandomState(0).randn(batch, length, width).astype("float32")
    return params, (), loss, (x, np.zeros_like(x))


def in_jax(work: str) -> None:
    import jax

    params, moving, loss, (x, y) = {
        "lenet": jax_lenet,
        "resnet18": jax_resnet18,
        "encoder": jax_encoder,
    }[work]()
    tree = jax.tree_util
    velocity = tree.tree_map(jax.numpy.zeros_like, params)

    def step(params: Any, velocity: Any, moving: Any, x: Any, y: Any) -> Any:
        (found, moving), grads = jax.value_and_grad(loss, has_aux=True)(params, moving, x, y)
        velocity = tree.tree_map(lambda v, g: MOMENTUM * v - RATE * g, velocity, grads)
        return tree.tree_map(lambda p, v: p + v, params, velocity), velocity, moving, found

    compiled = jax.jit(step, donate_argnums=(0, 1, 2))
    x, y = jax.device_put(x), jax.device_put(y)
    for _ in range(STEPS):
        params, velocity, moving, found = compiled(params, velocity, moving, x, y)
        float(found)
    jax.block_until_ready(params)


# -- ours ------------------------------------------------------------------------------------------------


def in_ours(work: str, hybridize: bool) -> None:
    import mxjax as mx
    from mxjax import autograd, gluon
    from mxjax.gluon import nn

    loss_fn: Any = gluon.loss.SoftmaxCrossEntropyLoss()
    if work == "lenet":
        net: Any = nn.HybridSequential()
        net.add(
            nn.Conv2D(20, 5, activation="relu"), nn.MaxPool2D(2, 2), nn.Conv2D(50, 5, activation="relu"),
            nn.MaxPool2D(2, 2), nn.Flatten(), nn.Dense(512, activation="relu"), nn.Dense(10),
        )  # fmt: skip
        net.initialize(mx.init.Xavier())
        x, y = mx.np.array(_images(64, 1, 28)), mx.np.arange(64) % 10
    elif work == "resnet18":
        net, _ = _networks().resnet18(side=224, batch=8)
        x, y = mx.np.array(_images(8, 3, 224)), mx.np.arange(8) % 10
    else:
        width, heads, length, batch = ENCODER
        net, (x,) = _networks().transformer(4, width, heads, length, batch)
        y, loss_fn = mx.np.zeros_like(x), gluon.loss.L2Loss()
    if hybridize:
        net.hybridize()
        loss_fn.hybridize()
    mx.npx.waitall()  # the batch is there, as JAX's is
    how = {"learning_rate": RATE, "momentum": MOMENTUM}
    trainer = gluon.Trainer(net.collect_params(), "sgd", how)
    for _ in range(STEPS):
        with autograd.record():
            loss = loss_fn(net(x), y).mean()
        loss.backward()
        trainer.step(1)
        float(loss)
    mx.npx.waitall()


ENCODER = (256, 4, 128, 4)  # width, heads, length, batch


def _images(batch: int, channels: int, side: int) -> np.ndarray:
    return np.random.RandomState(0).randn(batch, channels, side, side).astype("float32")


def main() -> None:
    work, way = sys.argv[1:]
    if way == "jax":
        import jax

        jax.local_devices()
    else:
        import mxjax as mx

        mx.current_device()
    start = time.process_time()
    if way == "jax":
        in_jax(work)
    else:
        in_ours(work, way == "hybridized")
    found: dict[str, Any] = {f"{work}_{way}": time.process_time() - start}
    if way != "jax":
        found["stats"] = mx.engine.stats()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
