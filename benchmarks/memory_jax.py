"""Networks of `tests/memonger/networks.py` written in JAX, as its users write them: what ours are compared with.

A step is forward, loss, backward and SGD, compiled as one program, with a barrier after each block and
nothing computed again. The residual chain is in plain JAX, without moving statistics; ResNet-50 is in flax.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cached_property, partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from mxjax.core import compiler
from mxjax.core.compile.compiler_options import default_options, keep_barriers

CHANNELS, SIDE, BATCH, CLASSES = 16, 32, 8, 10


class Written:
    """Training steps of the network with so many blocks, from random weights.

    Args:
      blocks: its depth.
      lean: compiled with the order of work that needs least memory, as our programs are, instead of XLA's own.
      options: further options of the compiler.
      rate: of learning.
    """

    def __init__(
        self,
        blocks: int,
        lean: bool = False,
        options: Mapping[str, Any] | None = None,
        rate: float = 1e-3,
    ):
        self._rate = rate
        self._options = _options(lean, options)
        rng = np.random.RandomState(0)
        self.params = parameters(blocks, rng)
        self.x = rng.randn(BATCH, 3, SIDE, SIDE).astype("float32")
        self.labels = rng.randint(0, CLASSES, BATCH).astype("int32")

    @cached_property
    def _compiled(self) -> Any:
        lowered = jax.jit(partial(step, self._rate), donate_argnums=0).lower(
            self.params, self.x, self.labels
        )
        return lowered.compile(compiler_options=self._options)

    @property
    def temp_bytes(self) -> int:
        """Bytes of temporaries, in XLA's count; compiled, not run."""
        return int(self._compiled.memory_analysis().temp_size_in_bytes)

    def run(self) -> float:
        """One step; its loss."""
        found, self.params = self._compiled(self.params, self.x, self.labels)
        return float(found)

    def timed(self) -> float:
        """CPU seconds of one step."""
        compiled = self._compiled
        start = time.process_time()
        found, self.params = compiled(self.params, self.x, self.labels)
        jax.block_until_ready((found, self.params))
        return time.process_time() - start


def _options(lean: bool, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a program is compiled with, so that its barriers stay."""
    platform = compiler.platform_now()
    found = {**(default_options(platform) if lean else {}), **(options or {})}
    compiler.merge(found, keep_barriers(platform))
    return found


def parameters(blocks: int, rng: np.random.RandomState) -> dict[str, Any]:
    """Random weights, ones and zeros, in the shapes of the network."""

    def some(*shape: int) -> Any:
        return jnp.asarray(
            rng.randn(*shape).astype("float32") * np.float32(2 / np.prod(shape[1:])) ** 0.5
        )

    def normal() -> Any:
        return jnp.ones(CHANNELS), jnp.zeros(CHANNELS)

    square = (CHANNELS, CHANNELS, 3, 3)
    return {
        "stem": (some(CHANNELS, 3, 3, 3), jnp.zeros(CHANNELS)),
        "blocks": [
            {"w0": some(*square), "n0": normal(), "w1": some(*square), "n1": normal()}
            for _ in range(blocks)
        ],
        "head": (some(CLASSES, CHANNELS), jnp.zeros(CLASSES)),
    }


def step(rate: float, params: Any, x: Any, labels: Any) -> tuple[Any, Any]:
    """The loss, and the parameters after a step of SGD."""
    found, grads = jax.value_and_grad(loss)(params, x, labels)
    return found, jax.tree_util.tree_map(lambda p, g: p - rate * g, params, grads)


def loss(params: Any, x: Any, labels: Any) -> Any:
    weight, bias = params["stem"]
    x = lax.optimization_barrier(_convolution(x, weight) + bias[:, None, None])
    for p in params["blocks"]:
        y = jax.nn.relu(_normal(_convolution(x, p["w0"]), *p["n0"]))
        y = _normal(_convolution(y, p["w1"]), *p["n1"])
        x = lax.optimization_barrier(jax.nn.relu(x + y))
    weight, bias = params["head"]
    scores = jax.nn.log_softmax(x.mean((2, 3)) @ weight.T + bias)
    return -jnp.take_along_axis(scores, labels[:, None], 1).mean()


def _convolution(x: Any, w: Any) -> Any:
    return lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW")
    )


def _normal(x: Any, gamma: Any, beta: Any) -> Any:
    mean = x.mean((0, 2, 3), keepdims=True)
    scale = lax.rsqrt(x.var((0, 2, 3), keepdims=True) + 1e-5)
    return (x - mean) * scale * gamma[:, None, None] + beta[:, None, None]


# ---- ResNet-50 -------------------------------------------------------------------------------------------


def resnet_bytes(
    lean: bool = False, options: Mapping[str, Any] | None = None, side: int = 64, batch: int = 8
) -> int:
    """Bytes of temporaries of ResNet-50's step with SGD; compiled, not run.

    Gradients are results of the step, as ours are: they are in no figure.
    """
    net, x = ResNet(), jnp.zeros((batch, side, side, 3))
    variables = jax.eval_shape(net.init, jax.random.key(0), x)
    step = jax.jit(partial(resnet_step, net, 1e-3), donate_argnums=0)
    compiled = step.lower(variables, x).compile(compiler_options=_options(lean, options))
    return int(compiled.memory_analysis().temp_size_in_bytes)


def resnet_step(net: Any, rate: float, variables: Any, x: Any) -> tuple[Any, Any, Any]:
    """The loss, the gradients, and the parameters and moving statistics after a step of SGD."""

    def loss(params: Any) -> tuple[Any, Any]:
        scores, moved = net.apply({**variables, "params": params}, x, mutable=["batch_stats"])
        return jnp.square(scores).mean(), moved

    (found, moved), grads = jax.value_and_grad(loss, has_aux=True)(variables["params"])
    params = jax.tree_util.tree_map(lambda p, g: p - rate * g, variables["params"], grads)
    return found, grads, {"params": params, **moved}


class ResNet(nn.Module):
    """A residual network of bottlenecks, ResNet-50 by default, with a barrier after its stem and each bottleneck."""

    layers: tuple[int, ...] = (3, 4, 6, 3)
    width: int = 64

    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.relu(_flax_normal(nn.Conv(self.width, (7, 7), 2, padding=3, use_bias=False)(x)))
        x = lax.optimization_barrier(nn.max_pool(x, (3, 3), (2, 2), ((1, 1), (1, 1))))
        for stage, count in enumerate(self.layers):
            for k in range(count):
                x = lax.optimization_barrier(
                    Bottleneck(self.width * 2**stage, 2 if stage and not k else 1)(x)
                )
        return nn.Dense(1000)(x.mean((1, 2)))


class Bottleneck(nn.Module):
    narrow: int
    stride: int

    @nn.compact
    def __call__(self, x: Any) -> Any:
        wide = 4 * self.narrow
        y = nn.relu(_flax_normal(nn.Conv(self.narrow, (1, 1), use_bias=False)(x)))
        y = nn.relu(_flax_normal(nn.Conv(self.narrow, (3, 3), self.stride, 1, use_bias=False)(y)))
        y = _flax_normal(nn.Conv(wide, (1, 1), use_bias=False)(y))
        if self.stride > 1 or x.shape[-1] != wide:
            x = _flax_normal(nn.Conv(wide, (1, 1), self.stride, use_bias=False)(x))
        return nn.relu(x + y)


def _flax_normal(x: Any) -> Any:
    return nn.BatchNorm(use_running_average=False, momentum=0.9)(x)
