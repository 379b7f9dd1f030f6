"""A graph network: a sparse adjacency matrix times dense features, as libraries of graphs wrote it."""

import json

import mxnet as mx
import numpy as np
from common import fill, normal
from mxnet import autograd, gluon, nd


class GraphConv(gluon.Block):
    def __init__(self, in_units, units, activation=None, **kwargs):
        super(GraphConv, self).__init__(**kwargs)
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(in_units, units))
            self.bias = self.params.get("bias", shape=(units,), init=mx.init.Zero())
        self._activation = activation

    def forward(self, adjacency, x):
        x = mx.nd.sparse.dot(adjacency, nd.dot(x, self.weight.data())) + self.bias.data()
        return nd.Activation(x, act_type=self._activation) if self._activation else x


def normalized(n, edges):
    dense = np.eye(n, dtype="float32")
    dense[edges[0], edges[1]] = dense[edges[1], edges[0]] = 1
    d = 1 / np.sqrt(dense.sum(1))
    return nd.sparse.csr_matrix(dense * d[:, None] * d[None])


class Net(gluon.Block):
    def __init__(self):
        super(Net, self).__init__(prefix="gcn_")
        with self.name_scope():
            self.one, self.two = GraphConv(6, 8, "relu"), GraphConv(8, 3)

    def forward(self, adjacency, x):
        return self.two(adjacency, self.one(adjacency, x))


def main():
    rng = np.random.RandomState(21)
    adjacency = normalized(20, rng.randint(0, 20, (2, 40)))
    net = Net()
    net.initialize()
    fill(net, 22)
    x, y = nd.array(normal(23, 20, 6)), nd.array(rng.randint(0, 3, 20))
    mask = nd.array(np.arange(20) < 12)
    loss_fn = gluon.loss.SoftmaxCELoss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05, "wd": 5e-4})
    losses = []
    for _ in range(20):
        with autograd.record():
            loss = (loss_fn(net(adjacency, x), y, mask.expand_dims(1))).sum() / mask.sum()
        loss.backward()
        trainer.step(1)
        losses.append(loss.asscalar())
    return losses


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
