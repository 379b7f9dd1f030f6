"""Loops of autograd whose shapes never repeat: a policy's episodes, points in clouds, branches on numbers."""

import mxnet as mx
import numpy
import pace
from mxnet import autograd, np, npx

npx.set_np()
mx.np.random.seed(0)
rng = numpy.random.RandomState(0)

w1 = np.array(rng.randn(4, 16).astype("float32") * 0.5)
w2 = np.array(rng.randn(16, 2).astype("float32") * 0.5)
for w in (w1, w2):
    w.attach_grad()
total = 0.0
for episode in range(40):
    states = np.array(rng.randn(10 + episode * 3 % 50, 4).astype("float32"))
    with autograd.record():
        logits = np.dot(np.tanh(np.dot(states, w1)), w2)
        logp = npx.log_softmax(logits, axis=-1)
        actions = np.array(rng.randint(0, 2, len(states)))
        rewards = (states[:, 0] > 0).astype("float32") * 2 - 1
        returns = np.cumsum(rewards[::-1])[::-1]
        loss = -(npx.pick(logp, actions, axis=1) * (returns - returns.mean())).mean()
    loss.backward()
    for w in (w1, w2):
        w -= 0.05 * w.grad
    total += float(loss)
    pace.step()

table = np.array(rng.randn(30, 8).astype("float32"))
table.attach_grad()
norm = 0.0
for k in range(40):
    n = 5 + (k * 7) % 29
    ids = np.array(rng.randint(0, 30, n))
    with autograd.record():
        points = table[ids]
        gaps = ((np.expand_dims(points, 0) - np.expand_dims(points, 1)) ** 2).sum(-1)
        near = np.sort(gaps, axis=1)[:, : min(4, n)]
        loss = near.mean() + np.maximum(0, 1 - gaps).sum() / n
        if float(loss) > 3:
            loss = loss * 0.5
    loss.backward()
    table[:] = table - 0.1 * table.grad
    norm = float(np.linalg.norm(table))
    pace.step()

kernel = np.array(rng.randn(2, 1, 3, 3).astype("float32") * 0.3)
kernel.attach_grad()
for k in range(20):
    x = np.array(rng.randn(1, 1, 12 + k, 14 + (3 * k) % 7).astype("float32"))
    with autograd.record():
        y = npx.convolution(x, kernel, kernel=(3, 3), num_filter=2, no_bias=True)
        y = npx.pooling(npx.relu(y), kernel=(2, 2), stride=(2, 2), pool_type="max")
        loss = (y**2).mean()
    loss.backward()
    kernel -= 0.1 * kernel.grad
    pace.step()
pace.end(policy=total / 40, norm=norm, loss=loss)
