"""Mirroring: bytes and arithmetic of a residual network's training step.

    python benchmarks/memory_mirror.py

32 blocks of two 3x3 convolutions with BatchNorm and relu (16 channels, 32x32, batch 8). A step is
forward, loss, backward and SGD: one program. Bytes are XLA's ``temp_size_in_bytes`` of it, found without
running it. Baselines, all with barriers between the blocks and nothing computed again: the network
written in JAX, which keeps what JAX's own differentiation keeps, compiled with XLA's default order of
work and with the order that needs least memory (ours is compiled so); and ours, whose BatchNorm keeps
nothing but its input.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import mxjax as mx
from benchmarks.memory_sublinear import MIB, Step, line, row
from mxjax.memonger._rehearse import COUNTING

BLOCKS, CHANNELS, SIDE, BATCH = 32, 16, 32, 8


def rows(blocks: int = BLOCKS) -> list[dict[str, Any]]:
    """The rows of the table: what, value, goal, and whether it is met (``None``: no goal)."""
    costs = {name: ours(blocks, name) for name in ("none", "barriers", "mirror")}
    written, lean = written_in_jax(blocks), written_in_jax(blocks, lean=True)
    mirror, barriers = costs["mirror"], costs["barriers"]
    kept = f"residual N={blocks}"
    return [
        row(f"{kept} written in JAX, barriers: temp", written / MIB, "MiB"),
        row(f"{kept} written in JAX, barriers, order of least memory: temp", lean / MIB, "MiB"),
        *[row(f"{kept} {name}: temp", c.temp_bytes / MIB, "MiB") for name, c in costs.items()],
        row(f"{kept} mirror: temp / written in JAX", mirror.temp_bytes / written, "x", at_most=0.5),
        row(f"{kept} mirror: temp / written in JAX, least memory", mirror.temp_bytes / lean, "x", at_most=0.5),
        row(f"{kept} mirror: temp / barriers", mirror.temp_bytes / barriers.temp_bytes, "x", at_most=0.5),
        row(f"{kept} mirror: temp / none", mirror.temp_bytes / costs["none"].temp_bytes, "x"),
        row(f"{kept} mirror: flops / barriers", mirror.flops / barriers.flops, "x", at_most=1.03),
    ]


def ours(blocks: int, name: str) -> Any:
    """What our step needs (``memonger.Measured``) under an arrangement, or under ``"none"``."""
    with mx.config.scope(compiler_options=COUNTING):
        return Step("residual", blocks, name != "none" and name).rehearsed()


def written_in_jax(blocks: int, lean: bool = False) -> int:
    """Temporary bytes of the same step in plain JAX, with a barrier after each block."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    from mxjax.core import compiler
    from mxjax.core.compiler_options import default_options, keep_barriers

    def convolution(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"))

    def normal(x: Any, gamma: Any, beta: Any) -> Any:
        mean = x.mean((0, 2, 3), keepdims=True)
        scale = lax.rsqrt(x.var((0, 2, 3), keepdims=True) + 1e-5)
        return (x - mean) * scale * gamma[:, None, None] + beta[:, None, None]

    def block(x: Any, p: Any) -> Any:
        y = jax.nn.relu(normal(convolution(x, p["w0"]), *p["n0"]))
        y = normal(convolution(y, p["w1"]), *p["n1"])
        return lax.optimization_barrier(jax.nn.relu(x + y))

    def loss(params: Any, x: Any, labels: Any) -> Any:
        x = lax.optimization_barrier(convolution(x, params["stem"]))
        for p in params["blocks"]:
            x = block(x, p)
        scores = jax.nn.log_softmax(x.mean((2, 3)) @ params["head"])
        return -jnp.take_along_axis(scores, labels[:, None], 1).mean()

    def step(params: Any, x: Any, labels: Any) -> Any:
        found, grads = jax.value_and_grad(loss)(params, x, labels)
        return found, jax.tree_util.tree_map(lambda p, g: p - 0.01 * g, params, grads)

    def some(*shape: int) -> Any:
        return jax.ShapeDtypeStruct(shape, "float32")

    norm, square = (some(CHANNELS), some(CHANNELS)), some(CHANNELS, CHANNELS, 3, 3)
    each = {"w0": square, "n0": norm, "w1": square, "n1": norm}
    params = {"stem": some(CHANNELS, 3, 3, 3), "blocks": [each] * blocks, "head": some(CHANNELS, 10)}
    x, labels = some(BATCH, 3, SIDE, SIDE), jax.ShapeDtypeStruct((BATCH,), "int32")
    platform = compiler.platform_now()
    options = {**default_options(platform), **COUNTING} if lean else dict(COUNTING)
    compiler.merge(options, keep_barriers(platform))
    compiled = jax.jit(step, donate_argnums=0).lower(params, x, labels).compile(compiler_options=options)
    return int(compiled.memory_analysis().temp_size_in_bytes)


if __name__ == "__main__":
    results = rows()
    print("\n".join(map(line, results)))
    print(json.dumps(results))
