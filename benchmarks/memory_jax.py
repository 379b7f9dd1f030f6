"""The residual network of `memory_networks` written in JAX, as its users write it: what ours is compared with.

A step is forward, loss, backward and SGD, compiled as one program, with a barrier after each block and
nothing computed again. Moving statistics are left out: JAX has no name for them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from mxjax.core import compiler
from mxjax.core.compiler_options import default_options, keep_barriers

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
        self, blocks: int, lean: bool = False, options: Mapping[str, Any] | None = None, rate: float = 1e-3
    ):
        self._rate = rate
        platform = compiler.platform_now()
        self._options = {**(default_options(platform) if lean else {}), **(options or {})}
        compiler.merge(self._options, keep_barriers(platform))
        rng = np.random.RandomState(0)
        self.params = parameters(blocks, rng)
        self.x = rng.randn(BATCH, 3, SIDE, SIDE).astype("float32")
        self.labels = rng.randint(0, CLASSES, BATCH).astype("int32")

    @cached_property
    def _compiled(self) -> Any:
        lowered = jax.jit(partial(step, self._rate), donate_argnums=0).lower(self.params, self.x, self.labels)
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


def parameters(blocks: int, rng: np.random.RandomState) -> dict[str, Any]:
    """Random weights, ones and zeros, in the shapes of the network."""

    def some(*shape: int) -> Any:
        return jnp.asarray(rng.randn(*shape).astype("float32") * np.float32(2 / np.prod(shape[1:])) ** 0.5)

    def normal() -> Any:
        return jnp.ones(CHANNELS), jnp.zeros(CHANNELS)

    square = (CHANNELS, CHANNELS, 3, 3)
    return {
        "stem": (some(CHANNELS, 3, 3, 3), jnp.zeros(CHANNELS)),
        "blocks": [
            {"w0": some(*square), "n0": normal(), "w1": some(*square), "n1": normal()} for _ in range(blocks)
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
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"))


def _normal(x: Any, gamma: Any, beta: Any) -> Any:
    mean = x.mean((0, 2, 3), keepdims=True)
    scale = lax.rsqrt(x.var((0, 2, 3), keepdims=True) + 1e-5)
    return (x - mean) * scale * gamma[:, None, None] + beta[:, None, None]
