"""A block inside a loop of JAX: read by type checkers, not run."""

from typing import Any

import jax
import jax.numpy as jnp

from mxjax import gluon, np
from mxjax.gluon import functional, nn


def train(x: jax.Array, y: jax.Array) -> nn.Block:
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="tanh"), nn.BatchNorm(), nn.Dense(1))
    net.initialize()
    params, state = functional.split(net, x)

    def loss(params: dict[str, Any], state: dict[str, Any]) -> tuple[jax.Array, dict[str, Any]]:
        out, state = functional.call(net, params, state, x, train=True, rng=jax.random.key(0))
        return jnp.mean((out[:, 0] - y) ** 2), state

    of_both = jax.value_and_grad(loss, has_aux=True)  # pyright: ignore[reportUnknownMemberType]  (JAX's own)
    (value, state), grads = of_both(params, state)
    params = {name: a - 0.1 * grads[name] for name, a in params.items()}
    print(float(value))
    return functional.merge(net, params, state)


def of_ours(a: jax.Array) -> np.ndarray:
    x = np.array(a)
    gluon.utils.check_sha1("file", "0")
    return np.sum(np.tanh(x) ** 2)
