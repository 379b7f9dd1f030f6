"""A Block as a pure function: the loop is lax.scan, the optimizer optax's, the gradients of each example by vmap."""

import jax
import jax.numpy as jnp
import optax
from images import shapes

import mxjax as mx
from mxjax import gluon
from mxjax.gluon import functional, nn


def main():
    mx.random.seed(0)
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(16, 3, 2, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"),
        nn.Conv2D(32, 3, 2, 1, activation="relu"), nn.Dropout(0.2), nn.Dense(3),
    )  # fmt: skip
    net.initialize(mx.init.Xavier())
    params, state = functional.split(net, (1, 1, 16, 16))
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(3e-3))

    def loss(params, state, key, x, y):
        out, state = functional.call(net, params, state, x, train=True, rng=key)
        return loss_of(out, y).mean(), state

    def step(carry, batch):
        params, state, moments, key = carry
        key, now = jax.random.split(key)
        (value, state), grads = jax.value_and_grad(loss, has_aux=True)(params, state, now, *batch)
        updates, moments = optimizer.update(grads, moments, params)
        return (optax.apply_updates(params, updates), state, moments, key), value.jax

    @jax.jit
    def epoch(carry, pictures, labels):
        return jax.lax.scan(step, carry, (pictures, labels))

    pictures, labels = shapes(1024)
    pictures, labels = pictures.reshape(32, 32, 1, 16, 16), labels.reshape(32, 32)
    carry = params, state, optimizer.init(params), jax.random.key(0)
    for k in range(8):
        carry, values = epoch(carry, pictures, labels)
        print(f"epoch {k}: {values.mean():.3f}")
    params, state, *_ = carry

    def of_one(params, x, y):
        return loss_of(functional.call(net, params, state, x[None])[0], y[None]).sum()

    each = jax.jit(jax.vmap(jax.grad(of_one), (None, 0, 0)))(params, pictures[0], labels[0])
    norms = jnp.sqrt(sum(jnp.sum(g**2, axis=tuple(range(1, g.ndim))) for g in each.values()))
    print("the example that pulls most has a gradient of norm", float(norms.max()))

    functional.merge(net, params, state)  # and on with Gluon
    x, y = shapes(256, seed=1)
    accuracy = (net(mx.np.array(x)).argmax(axis=1) == mx.np.array(y)).mean().item()
    print(f"accuracy {accuracy:.3f}")
    assert accuracy > 0.9


if __name__ == "__main__":
    main()
