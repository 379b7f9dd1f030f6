"""The hand-written JAX + optax LeNet step that the bench compares with; prints one JSON object.

    OMP_NUM_THREADS=1 taskset -c 1 python benchmarks/lenet_jax.py [repeats]

Forward, backward and update are one donated `jax.jit`; pooling is a maximum of strided slices
(XLA's own gradient of reduce_window is many times slower on a CPU). Milliseconds, the least of
several repeats; ``cpu`` is process CPU time, ``wall`` wall time.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
if "xla_cpu_multi_thread_eigen" not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = (
        os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
    ).strip()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import optax  # noqa: E402
from jax import lax  # noqa: E402


def conv(x: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
    out = lax.conv_general_dilated(
        x, w, (1, 1), "VALID", dimension_numbers=("NCHW", "OIHW", "NCHW")
    )
    return out + b[:, None, None]


def pool(x: jax.Array) -> jax.Array:
    a, b = x[:, :, 0::2, 0::2], x[:, :, 1::2, 0::2]
    c, d = x[:, :, 0::2, 1::2], x[:, :, 1::2, 1::2]
    return jnp.maximum(jnp.maximum(a, b), jnp.maximum(c, d))


def loss_fn(params: list[jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
    w1, b1, w2, b2, w3, b3, w4, b4 = params
    h = pool(jax.nn.relu(conv(x, w1, b1)))
    h = pool(jax.nn.relu(conv(h, w2, b2))).reshape(x.shape[0], -1)
    h = jax.nn.relu(h @ w3.T + b3)
    logits = h @ w4.T + b4
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def parameters(seed: int = 0) -> list[jax.Array]:
    shapes = [(20, 1, 5, 5), (50, 20, 5, 5), (512, 800), (10, 512)]
    keys = jax.random.split(jax.random.key(seed), len(shapes))
    pairs = [
        (jax.random.normal(k, s) * 0.05, jnp.zeros(s[0])) for k, s in zip(keys, shapes, strict=True)
    ]
    return [a for pair in pairs for a in pair]


def lenet(batch: int, optimizer: str) -> tuple[Callable[[], None], Callable[[], Any]]:
    """(one step, wait for all steps) of LeNet training at this batch size."""
    rule = {"adam": optax.adam, "sgd": optax.sgd}[optimizer](1e-3)
    params = parameters()
    state = rule.init(params)
    x = jax.random.uniform(jax.random.key(1), (batch, 1, 28, 28))
    y = jnp.zeros(batch, jnp.int32)

    def train(params, state, x, y):
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        updates, state = rule.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss

    compiled = jax.jit(train, donate_argnums=(0, 1))

    def step() -> None:
        nonlocal params, state
        params, state, _ = compiled(params, state, x, y)

    return step, lambda: jax.block_until_ready(params)


def chain_of(x: jax.Array) -> jax.Array:
    for _ in range(10):
        x = jnp.tanh(x * 1.01 + 0.1)
    return x


def best_of(
    step: Callable[[], Any], sync: Callable[[], Any], calls: int, repeats: int
) -> dict[str, float]:
    """Least milliseconds per call, by CPU and by wall clock, over `repeats` rounds of `calls`."""
    for _ in range(3):
        step()
    sync()
    cpu = wall = float("inf")
    for _ in range(repeats):
        c, w = time.process_time(), time.perf_counter()
        for _ in range(calls):
            step()
        sync()
        cpu = min(cpu, (time.process_time() - c) / calls)
        wall = min(wall, (time.perf_counter() - w) / calls)
    return {"cpu": cpu * 1e3, "wall": wall * 1e3}


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    out: dict[str, Any] = {"framework": "jax " + jax.__version__}
    for optimizer in ("adam", "sgd"):
        for batch, calls in ((64, 10), (4, 40)):
            out[f"lenet_{optimizer}_{batch}"] = best_of(*lenet(batch, optimizer), calls, repeats)
    small, million = jnp.full(16, 0.5), jnp.full(1_000_000, 0.5)
    jitted, one = jax.jit(chain_of), jax.jit(jnp.multiply)
    square = jnp.ones((8, 8))

    def nothing() -> None:
        return None

    for key, work, calls in (
        ("chain_30_small_eager", lambda: chain_of(small).block_until_ready(), 100),
        ("chain_30_small_jit", lambda: jitted(small).block_until_ready(), 300),
        ("chain_30_million_jit", lambda: jitted(million).block_until_ready(), 3),
        ("one_operator_sync_jit", lambda: one(square, square).block_until_ready(), 500),
    ):
        out[key] = best_of(work, nothing, calls, repeats)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
