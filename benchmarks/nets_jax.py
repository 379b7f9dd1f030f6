"""Some networks of `make bench-nets` in JAX by hand: one work in a process (see `nets_turns.py`).

python benchmarks/nets_jax.py WORK
"""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from language_model import jax_step
from nets_turns import serve

DRAW = np.random.RandomState(0)
LAYOUT = ("NHWC", "HWIO", "NHWC")


def weight(*shape: int) -> Any:
    return jnp.asarray(DRAW.normal(0, 1 / np.sqrt(np.prod(shape[:-1])), shape).astype("f"))


def stages() -> list[tuple[int, int, int]]:
    """(channels before, channels, stride) of the residual blocks."""
    found, before = [], 64
    for c, first in ((64, 1), (128, 2), (256, 2), (512, 2)):
        for stride in (first, 1):
            found.append((before, c, stride))
            before = c
    return found


def resnet_weights() -> Any:
    def normed(*shape: int) -> Any:
        return weight(*shape), jnp.ones(shape[-1]), jnp.zeros(shape[-1])

    blocks = [
        (normed(3, 3, a, c), normed(3, 3, c, c), normed(1, 1, a, c) if stride == 2 else None)
        for a, c, stride in stages()
    ]
    return normed(7, 7, 3, 64), blocks, weight(512, 1000)


def resnet(params: Any, x: Any, train: bool) -> Any:
    first, blocks, last = params

    def conv(x: Any, p: Any, stride: int) -> Any:
        w, scale, shift = p
        pad = w.shape[0] // 2
        x = jax.lax.conv_general_dilated(
            x, w, (stride, stride), [(pad, pad)] * 2, dimension_numbers=LAYOUT
        )
        if train:
            mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
            return (x - mean) * jax.lax.rsqrt(var + 1e-5) * scale + shift
        return x * scale + shift

    x = jax.nn.relu(conv(x, first, 2))
    around = ((0, 0), (1, 1), (1, 1), (0, 0))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), around)
    for (one, two, side), (_, _, stride) in zip(blocks, stages(), strict=True):
        y = conv(jax.nn.relu(conv(x, one, stride)), two, 1)
        x = jax.nn.relu(y + (x if side is None else conv(x, side, stride)))
    return x.mean((1, 2)) @ last


def encoder(params: Any, x: Any) -> Any:
    def normed(x: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)

    for into, out, wide, narrow in params:
        q, k, v = (a.reshape(8, 64, 4, 64) for a in jnp.split(x @ into, 3, -1))
        weights = jax.nn.softmax(jnp.einsum("nqhd,nkhd->nhqk", q, k) / 8, -1)
        x = normed(x + jnp.einsum("nhqk,nkhd->nqhd", weights, v).reshape(8, 64, 256) @ out)
        x = normed(x + jax.nn.relu(x @ wide) @ narrow)
    return x


def training(loss: Any, params: Any) -> tuple[Any, Any]:
    """A step of sgd with momentum."""

    def update(params: Any, moving: Any) -> Any:
        moving = jax.tree_util.tree_map(
            lambda m, g: 0.9 * m - 1e-3 * g, moving, jax.grad(loss)(params)
        )
        return jax.tree_util.tree_map(jnp.add, params, moving), moving

    run = jax.jit(update, donate_argnums=(0, 1))
    state = params, jax.tree_util.tree_map(jnp.zeros_like, params)

    def step() -> None:
        nonlocal state
        state = run(*state)

    return step, lambda: jax.block_until_ready(state)


def classifier() -> tuple[Any, Any]:
    x = jnp.asarray(DRAW.rand(8, 224, 224, 3).astype("f"))
    return training(
        lambda p: -jax.nn.log_softmax(resnet(p, x, True))[:, 0].mean(), resnet_weights()
    )


def serving(batch: int) -> tuple[Any, Any]:
    x, params = jnp.asarray(DRAW.rand(batch, 224, 224, 3).astype("f")), resnet_weights()
    run = jax.jit(lambda p, x: resnet(p, x, False))
    return lambda: run(params, x).block_until_ready(), lambda: None


def encoding() -> tuple[Any, Any]:
    x, y = (jnp.asarray(DRAW.normal(size=(8, 64, 256)).astype("f")) for _ in range(2))
    params = [
        (weight(256, 768), weight(256, 256), weight(256, 1024), weight(1024, 256)) for _ in range(4)
    ]
    return training(lambda p: ((encoder(p, x) - y) ** 2).mean(), params)


WORKS: dict[str, Any] = {
    "resnet18": classifier,
    "resnet18_serve_1": lambda: serving(1),
    "resnet18_serve_8": lambda: serving(8),
    "encoder": encoding,
    "language_model": jax_step,
}

if __name__ == "__main__":
    step, sync = WORKS[sys.argv[1]]()
    serve({"framework": f"jax {jax.__version__}"}, step, sync)
