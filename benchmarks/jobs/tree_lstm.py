"""A child-sum tree LSTM on random trees: every tree has a shape of its own, so every step is another program."""

import mxnet as mx
import numpy
import pace
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

mx.random.seed(0)
rng = numpy.random.RandomState(0)


class Tree:
    def __init__(self, word, children):
        self.word, self.children = word, children


def grow(depth):
    count = rng.randint(depth > 2, 4) if depth else 0  # the root has children
    return Tree(rng.randint(0, 40), [grow(depth - 1) for _ in range(count)])


def words(tree):
    return [tree.word, *(w for c in tree.children for w in words(c))]


class ChildSumLSTMCell(gluon.Block):
    def __init__(self, hidden, inputs, **kwargs):
        super().__init__(**kwargs)
        self.hidden = hidden
        with self.name_scope():
            self.i2h = self.params.get("i2h_weight", shape=(4 * hidden, inputs))
            self.hs2h = self.params.get("hs2h_weight", shape=(3 * hidden, hidden))
            self.hc2h = self.params.get("hc2h_weight", shape=(hidden, hidden))
            self.bias = self.params.get("i2h_bias", shape=(4 * hidden,), init="zeros")

    def forward(self, embedded, tree):
        children = [self.forward(embedded, c) for c in tree.children]
        x = embedded(nd.array([tree.word]))
        gates = nd.FullyConnected(x, self.i2h.data(), self.bias.data(), num_hidden=4 * self.hidden)
        i, f, u, o = nd.split(gates, num_outputs=4, axis=1)
        if children:
            hs = nd.add_n(*[h for h, _ in children])
            held = nd.FullyConnected(hs, self.hs2h.data(), no_bias=True, num_hidden=3 * self.hidden)
            hi, hu, ho = nd.split(held, num_outputs=3, axis=1)
            i, u, o = i + hi, u + hu, o + ho
        c = nd.sigmoid(i) * nd.tanh(u)
        for h, kept in children:
            gate = nd.FullyConnected(h, self.hc2h.data(), no_bias=True, num_hidden=self.hidden)
            c = c + nd.sigmoid(f + gate) * kept
        return nd.sigmoid(o) * nd.tanh(c), c


class Net(gluon.Block):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.embed = nn.Embedding(40, 16)
            self.cell = ChildSumLSTMCell(24, 16)
            self.out = nn.Dense(2)

    def forward(self, tree):
        return self.out(self.cell(self.embed, tree)[0])


trees = [grow(3) for _ in range(40)]
labels = [float(numpy.mean(words(t)) > 20) for t in trees]
net = Net()
net.initialize(pace.Drawn())
trainer = gluon.Trainer(net.collect_params(), "adagrad", {"learning_rate": 0.05, "wd": 1e-5})
loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
for epoch in range(3):
    total, right = 0.0, 0
    for k, (tree, label) in enumerate(zip(trees, labels)):
        with autograd.record():
            scores = net(tree)
            loss = loss_of(scores, nd.array([label]))
        loss.backward()
        total += loss.asscalar()
        right += int(scores.argmax(axis=1).asscalar() == label)
        trainer.step(1)
        pace.step()
    print(epoch, total / len(trees), right / len(trees))
pace.end(loss=total / len(trees), right=right / len(trees))
