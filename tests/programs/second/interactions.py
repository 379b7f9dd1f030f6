"""Recommenders: factors of users and items, a network beside them that ranks pairs, and factors of fields under a network."""

import numpy as onp
from common import fill, normal
from mxnet import autograd, gluon, np, npx
from mxnet.gluon import nn

npx.set_np()
USERS, ITEMS, FIELDS = 5, 7, [4, 5, 6]


class Factors(nn.Block):
    def __init__(self, size):
        super().__init__()
        self.users, self.items = nn.Embedding(USERS, size), nn.Embedding(ITEMS, size)
        self.user_bias, self.item_bias = nn.Embedding(USERS, 1), nn.Embedding(ITEMS, 1)

    def forward(self, user, item):
        together = (self.users(user) * self.items(item)).sum(axis=1)
        return together + np.squeeze(self.user_bias(user)) + np.squeeze(self.item_bias(item))


class Ranker(nn.Block):
    def __init__(self, size, layers):
        super().__init__()
        self.tables = nn.Sequential()
        for rows in (USERS, ITEMS, USERS, ITEMS):
            self.tables.add(nn.Embedding(rows, size))
        self.mlp = nn.Sequential()
        for units in layers:
            self.mlp.add(nn.Dense(units, activation="relu"))
        self.score = nn.Dense(1, activation="sigmoid", use_bias=False)

    def forward(self, user, item):
        p, q, u, v = (table(x) for table, x in zip(self.tables, (user, item, user, item)))
        deep = self.mlp(np.concatenate([u, v], axis=1))
        return self.score(np.concatenate([p * q, deep], axis=1))


class Ranking(gluon.loss.Loss):
    def __init__(self, weight=None, batch_axis=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)

    def forward(self, better, worse):
        return -np.sum(np.log(npx.sigmoid(better - worse)), axis=0, keepdims=True)


class Fields(nn.Block):
    def __init__(self, size, layers):
        super().__init__()
        self.table, self.first = nn.Embedding(sum(FIELDS), size), nn.Embedding(sum(FIELDS), 1)
        self.linear, self.mlp = nn.Dense(1, use_bias=True), nn.Sequential()
        for units in layers:
            self.mlp.add(nn.Dense(units, "relu"), nn.Dropout(0.0))
        self.mlp.add(nn.Dense(1))

    def forward(self, x):
        embedded = self.table(x)
        pairs = np.sum(embedded, axis=1) ** 2 - np.sum(embedded**2, axis=1)
        deep = self.mlp(embedded.reshape(x.shape[0], -1))
        return self.linear(self.first(x).sum(1)) + 0.5 * pairs.sum(1, keepdims=True) + deep


def train(net, inputs, loss_of, optimizer, rate, **more):
    """The losses of some steps, by sample."""
    net.initialize(force_reinit=True)
    net(*inputs)
    fill(net, 3)
    trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": rate, **more})
    for _ in range(5):
        with autograd.record():
            loss = loss_of(net)
        loss.backward()
        trainer.step(8)
        yield from loss.asnumpy().reshape(-1)


def main():
    user, item = np.array(onp.arange(8) % USERS), np.array(onp.arange(8) % ITEMS)
    rating = np.array(normal(1, 8))
    squares, binary, ranking = gluon.loss.L2Loss(), gluon.loss.SigmoidBCELoss(), Ranking()
    other = np.array((onp.arange(8) + 1) % ITEMS)
    starts = onp.cumsum([0, *FIELDS[:-1]])
    x = np.array(onp.random.RandomState(0).randint(0, 4, (8, 3)) + starts)
    return [
        *train(
            Factors(3),
            (user, item),
            lambda net: squares(net(user, item), rating),
            "adam",
            0.02,
            wd=1e-5,
        ),
        *train(
            Ranker(3, [6, 4]),
            (user, item),
            lambda net: ranking(net(user, item), net(user, other)),
            "adam",
            0.05,
        ),
        *train(Fields(4, [8, 4]), (x,), lambda net: binary(net(x), rating > 0), "adam", 0.01),
    ]
