"""Deep Q learning of a cart with a pole: a replay buffer, a target network, one number read a step."""

import random
from collections import deque

import mxnet as mx
import numpy
import pace
from mxnet import autograd, gluon, np, npx
from mxnet.gluon import nn

npx.set_np()
mx.np.random.seed(0)
random.seed(0)


class CartPole:
    """The usual equations, so that no other package is needed."""

    def __init__(self, seed=0):
        self.rng = numpy.random.RandomState(seed)

    def reset(self):
        self.state = self.rng.uniform(-0.05, 0.05, 4)
        self.count = 0
        return self.state.copy()

    def step(self, action):
        x, v, a, w = self.state
        force = 10.0 if action else -10.0
        cos, sin = numpy.cos(a), numpy.sin(a)
        push = (force + 0.05 * w * w * sin) / 1.1
        turn = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos * cos / 1.1))
        gain = push - 0.05 * turn * cos / 1.1
        self.state = numpy.array([x + 0.02 * v, v + 0.02 * gain, a + 0.02 * w, w + 0.02 * turn])
        self.count += 1
        done = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21 or self.count >= 200
        return self.state.copy(), 1.0, bool(done)


def network():
    net = nn.Sequential()
    net.add(nn.Dense(32, activation="relu"), nn.Dense(32, activation="relu"), nn.Dense(2))
    net.initialize(pace.Drawn())
    net(np.zeros((1, 4)))
    return net


def copy(source, target):
    for name, p in source.collect_params().items():
        target.collect_params()[name].set_data(p.data())


online, target = network(), network()
copy(online, target)
trainer = gluon.Trainer(online.collect_params(), "adam", {"learning_rate": 1e-3})
loss_of = gluon.loss.HuberLoss()
memory = deque(maxlen=1000)
env, epsilon, steps, returns = CartPole(), 1.0, 0, []
for episode in range(30):
    state, total, done = env.reset(), 0.0, False
    while not done:
        if random.random() < epsilon:
            action = random.randrange(2)
        else:
            action = int(online(np.array(state[None], dtype="float32")).argmax(axis=1).item())
        after, reward, done = env.step(action)
        memory.append((state, action, reward, after, done))
        state, total, steps = after, total + reward, steps + 1
        if len(memory) >= 64 and steps % 2 == 0:
            rows = random.sample(memory, 32)
            s, a, r, n, d = (np.array(numpy.array(c), dtype="float32") for c in zip(*rows))
            best = target(n).max(axis=1)
            goal = r + 0.95 * best * (1 - d)
            with autograd.record():
                q = npx.pick(online(s), a, axis=1)
                loss = loss_of(q, goal)
            loss.backward()
            trainer.step(32)
        if steps % 100 == 0:
            copy(online, target)
    epsilon = max(0.1, epsilon * 0.9)
    returns.append(total)
    pace.step()
print(returns)
pace.end(episodes=len(returns), finite=float(np.isfinite(loss).all()))
