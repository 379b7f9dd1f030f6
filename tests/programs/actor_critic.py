"""Actor and critic in one network: episodes in Python, returns, advantages, an entropy bonus."""

import json

import numpy as np
from common import fill
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn


class Policy(gluon.Block):
    def __init__(self, **kwargs):
        super(Policy, self).__init__(**kwargs)
        with self.name_scope():
            self.dense = nn.Dense(16, in_units=4, activation="relu")
            self.action = nn.Dense(2, in_units=16)
            self.value = nn.Dense(1, in_units=16)

    def forward(self, x):
        x = self.dense(x)
        return nd.softmax(self.action(x)), self.value(x)


class Cart(object):
    """Something that moves: not a random number in it."""

    def reset(self):
        self.state = np.array([0.1, -0.2, 0.05, 0.1], "float32")
        return self.state

    def step(self, action):
        push = 1.0 if action else -1.0
        a = np.array([[1, 0.1, 0, 0], [0, 1, 0.05, 0], [0, 0, 1, 0.1], [0, 0, 0.2, 1]], "float32")
        self.state = a.dot(self.state) + push * np.array([0, 0.1, 0, -0.15], "float32")
        return self.state, 1.0 - abs(float(self.state[2])), abs(self.state[0]) > 2


def main():
    env, net = Cart(), Policy()
    net.initialize()
    fill(net, 25)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.02})
    smooth, draw = gluon.loss.HuberLoss(), np.random.RandomState(26)
    losses = []
    for _ in range(20):
        state, rewards, values, heads, probs = env.reset(), [], [], [], []
        with autograd.record():
            for _ in range(8):
                p, value = net(nd.array([state]))
                action = int(draw.uniform() < 0.5)
                state, reward, done = env.step(action)
                heads.append(nd.log(p).pick(nd.array([action]), axis=1))
                probs.append((p * nd.log(p)).sum())
                values.append(value)
                rewards.append(reward)
                if done:
                    break
            returns, total = [], 0.0
            for r in rewards[::-1]:
                total = r + 0.9 * total
                returns.insert(0, total)
            returns = (np.array(returns) - np.mean(returns)) / (np.std(returns) + 1e-6)
            loss = sum(-h * float(r - v.asscalar()) for h, r, v in zip(heads, returns, values))
            loss = loss + sum(
                smooth(v.reshape((-1,)), nd.array([r])) for v, r in zip(values, returns)
            )
            loss = loss + 0.01 * nd.add_n(*probs)
        loss.backward()
        trainer.step(len(rewards))
        losses.append(loss.sum().asscalar())
    return losses


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
