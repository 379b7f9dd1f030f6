"""A tree network: Python's recursion over trees of every shape, gradients of several trees added up."""

import json

from common import fill
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

TREES = [((1, 2), 3), (4, (5, (6, 1))), ((2, 3), (4, 5)), 6, (((1, 1), 2), (3, 4))]


class Tree(gluon.Block):
    def __init__(self, vocab, hidden):
        super(Tree, self).__init__()
        with self.name_scope():
            self.embed = nn.Embedding(vocab, hidden)
            self.iou = nn.Dense(3 * hidden, in_units=2 * hidden)
            self.forget = nn.Dense(2 * hidden, in_units=2 * hidden)
            self.head = nn.Dense(2, in_units=hidden)

    def node(self, tree):
        if not isinstance(tree, tuple):
            x = self.embed(nd.array([tree]))
            return nd.tanh(x), x
        (h1, c1), (h2, c2) = [self.node(child) for child in tree]
        h = nd.concat(h1, h2, dim=1)
        i, o, u = self.iou(h).split(3, axis=1)
        f1, f2 = self.forget(h).split(2, axis=1)
        c = i.sigmoid() * u.tanh() + f1.sigmoid() * c1 + f2.sigmoid() * c2
        return o.sigmoid() * c.tanh(), c

    def forward(self, tree):
        return self.head(self.node(tree)[0])


def main():
    net = Tree(8, 6)
    net.initialize()
    fill(net, 24, 0.5)
    net.collect_params().setattr("grad_req", "add")
    trainer = gluon.Trainer(net.collect_params(), "adagrad", {"learning_rate": 0.1})
    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
    losses = []
    for _ in range(20):
        net.collect_params().zero_grad()
        total = 0
        for k, tree in enumerate(TREES):
            with autograd.record():
                loss = loss_fn(net(tree), nd.array([k % 2]))
            loss.backward()
            total += loss.asscalar()
        trainer.step(len(TREES), ignore_stale_grad=True)
        losses.append(total)
    return losses


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
