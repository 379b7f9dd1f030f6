"""The works of `make bench-gpu` in JAX by hand: functions, channels last, one donated `jax.jit` a step.

python benchmarks/gpu_jax.py [--tiny] [--kernels]
"""

from __future__ import annotations

import functools
import sys
import time
from typing import Any

import gpu_kernels
import jax
import jax.numpy as jnp
import optax
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

SIZE = TINY if "--tiny" in sys.argv else FULL
GPU = jax.default_backend() == "gpu"
LAYOUT = ("NHWC", "HWIO", "NHWC")


def conv(x: Any, w: Any, stride: int = 1, pad: int | None = None) -> Any:
    pad = w.shape[0] // 2 if pad is None else pad
    return jax.lax.conv_general_dilated(
        x, w, (stride, stride), [(pad, pad)] * 2, dimension_numbers=LAYOUT
    )


def pool(x: Any, k: int, stride: int, pad: int = 0) -> Any:
    around = ((0, 0), (pad, pad), (pad, pad), (0, 0))
    return jax.lax.reduce_window(
        x, -jnp.inf, jax.lax.max, (1, k, k, 1), (1, stride, stride, 1), around
    )


def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    wide = x.astype("float32")
    mean = wide.mean(-1, keepdims=True)
    var = jnp.square(wide).mean(-1, keepdims=True) - jnp.square(mean)
    return ((wide - mean) * jax.lax.rsqrt(var + 1e-5) * scale + shift).astype(x.dtype)


def lenet(params: Any, state: Any, x: Any) -> Any:
    w = iter(params)
    for _ in range(2):
        x = pool(jax.nn.relu(conv(x, next(w), pad=0) + next(w)), 2, 2)
    x = x.transpose(0, 3, 1, 2).reshape(x.shape[0], -1)
    x = jax.nn.relu(x @ next(w).T + next(w))
    return x @ next(w).T + next(w), state


def lstm(params: Any, state: Any, x: Any) -> Any:
    w = iter(params)
    x = next(w)[x]
    for _ in range(2):
        into, back, b_into, b_back = (next(w) for _ in range(4))
        zero = jnp.zeros((x.shape[1], back.shape[1]))

        def at(carry: Any, now: Any, back: Any = back) -> Any:
            h, cell = carry
            i, f, g, o = jnp.split(now + h @ back.T, 4, -1)
            cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(cell)
            return (h, cell), h

        x = jax.lax.scan(at, (zero, zero), x @ into.T + (b_into + b_back))[1]
    return x @ next(w).T + next(w), state


def bert(params: Any, state: Any, tokens: Any) -> Any:
    w = iter(params)
    n, length = tokens.shape
    heads = SIZE.heads

    def dense(x: Any) -> Any:
        return x @ next(w).T + next(w)

    x = next(w)[tokens] + next(w)[:length]
    x = layer_norm(x, next(w), next(w))
    for _ in range(SIZE.layers):
        q, k, v = (a.reshape(n, length, heads, -1) for a in jnp.split(dense(x), 3, -1))
        read = jax.nn.dot_product_attention(q, k, v, implementation="cudnn" if GPU else "xla")
        x = layer_norm(x + dense(read.reshape(x.shape)), next(w), next(w))
        x = layer_norm(x + dense(jax.nn.gelu(dense(x), approximate=False)), next(w), next(w))
    x = layer_norm(
        jax.nn.gelu(dense(x[:, : predicted(length)]), approximate=False), next(w), next(w)
    )
    return dense(x), state


def resnet(params: Any, state: Any, x: Any) -> Any:
    w, old = iter(params), iter(state)
    new = []

    def normed(x: Any, stride: int) -> Any:
        x = conv(x, next(w), stride)
        wide = x.astype("float32")
        mean = wide.mean((0, 1, 2))
        var = jnp.square(wide).mean((0, 1, 2)) - jnp.square(mean)
        new.append(0.9 * next(old) + 0.1 * jax.lax.stop_gradient(mean))
        new.append(0.9 * next(old) + 0.1 * jax.lax.stop_gradient(var))
        scale = next(w) * jax.lax.rsqrt(var + 1e-5)
        return ((wide - mean) * scale + next(w)).astype(x.dtype)

    x = pool(jax.nn.relu(normed(x, 2)), 3, 2, 1)
    for before, inner, stride in stages(SIZE):
        y = jax.nn.relu(normed(x, 1))
        y = normed(jax.nn.relu(normed(y, stride)), 1)
        x = jax.nn.relu(y + (normed(x, stride) if stride == 2 or before != 4 * inner else x))
    return x.mean((1, 2)) @ next(w).T + next(w), new


NETS = {"lenet": lenet, "lstm": lstm, "bert": bert, "resnet": resnet}
RULES = {
    "adam": optax.adam,
    "sgd": optax.sgd,
    "momentum": functools.partial(optax.sgd, momentum=0.9),
}


def loss(params: Any, state: Any, x: Any, y: Any, work: Work) -> Any:
    if work.bf16:
        kept = params
        params = [p.astype("bfloat16") for p in params]
        if work.net == "resnet":
            params = [k if k.ndim == 1 else p for k, p in zip(kept, params, strict=True)]
            params[-1] = kept[-1].astype("bfloat16")
            x = x.astype("bfloat16")
    out, state = NETS[work.net](params, state, x)
    return optax.softmax_cross_entropy_with_integer_labels(out.astype("float32"), y).mean(), state


def made(name: str) -> Made:
    work = WORKS[name]
    arrays = weights(work, SIZE)
    params = [jnp.asarray(a.transpose(2, 3, 1, 0) if a.ndim == 4 else a) for a in arrays]
    state = []
    if work.net == "resnet":
        for a in arrays:
            if a.ndim == 4:
                state += [jnp.zeros(a.shape[0]), jnp.ones(a.shape[0])]
    rule = RULES[work.rule](work.rate)
    moments = rule.init(params)
    x, y = (jnp.asarray(a) for a in data(work, SIZE))
    if x.ndim == 4:
        x = x.transpose(0, 2, 3, 1)

    @functools.partial(jax.jit, donate_argnums=(0, 1, 2))
    def train(params: Any, state: Any, moments: Any, x: Any, y: Any) -> Any:
        (value, state), grads = jax.value_and_grad(loss, has_aux=True)(params, state, x, y, work)
        updates, moments = rule.update(grads, moments, params)
        return optax.apply_updates(params, updates), state, moments, value

    held = params, state, moments
    begin = time.perf_counter()
    compiled = train.lower(*held, x, y).compile()
    spent = time.perf_counter() - begin

    def step() -> Any:
        nonlocal held
        *held, value = compiled(*held, x, y)
        return value

    def rest() -> dict[str, Any]:
        found = compiled.memory_analysis()
        peak = found.temp_size_in_bytes + found.argument_size_in_bytes + found.output_size_in_bytes
        gpu_kernels.text(f"jax_{name}", compiled)
        more = {
            **gpu_kernels.kernels(step, sync),
            **(gpu_kernels.transfers() if name == "lenet" else {}),
        }
        return {"first": spent, "bytes": peak - found.alias_size_in_bytes, **more}

    def sync() -> None:
        jax.block_until_ready(held)

    return Made(step, sync, rest)


@jax.jit
def jitted(a: Any, b: Any) -> Any:
    return expression(a, b, jnp.tanh)


def prepare(name: str) -> Any:
    if name == "cold":
        import numpy

        return cold(lambda s: float(jitted(numpy.ones(s, "float32"), numpy.full(s, 2, "float32"))))
    return made(name)


if __name__ == "__main__":
    serve({"framework": f"jax {jax.__version__}", "device": jax.devices()[0].device_kind}, prepare)
