"""A transducer of sequences: two LSTMs, a joint network over time and labels, its loss by dynamic programming."""

import json

import mxnet as mx
from common import fill, normal
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn, rnn


class Transducer(gluon.Block):
    def __init__(self, vocabulary, units, **kwargs):
        super(Transducer, self).__init__(**kwargs)
        with self.name_scope():
            self.encoder = rnn.LSTM(units, bidirectional=True, input_size=4)
            self.embed = nn.Embedding(vocabulary, 4, weight_initializer=mx.initializer.Constant(0))
            self.decoder = rnn.LSTM(units, input_size=4)
            self.fc1 = nn.Dense(units, flatten=False, in_units=3 * units)
            self.fc2 = nn.Dense(vocabulary, flatten=False, in_units=units)

    def joint(self, f, g):
        f, g = nd.expand_dims(f, axis=2), nd.expand_dims(g, axis=1)
        both = nd.concat(
            nd.broadcast_axis(f, axis=2, size=g.shape[2]),
            nd.broadcast_axis(g, axis=1, size=f.shape[1]),
            dim=3,
        )
        return nd.log_softmax(self.fc2(nd.tanh(self.fc1(both))), axis=-1)

    def forward(self, xs, ys):
        f = self.encoder(xs).swapaxes(0, 1)
        before = self.embed(nd.concat(nd.zeros((ys.shape[0], 1)), ys, dim=1)).swapaxes(0, 1)
        return self.joint(f, self.decoder(before).swapaxes(0, 1))


def either(a, b):
    most = nd.maximum(a, b)
    return most + nd.log(nd.exp(a - most) + nd.exp(b - most))


def loss_of(scores, labels):
    _, steps, places, _ = scores.shape
    alpha = {}
    for t in range(steps):
        for u in range(places):
            ways = []
            if t:
                ways.append(alpha[t - 1, u] + scores[:, t - 1, u, 0])
            if u:
                step = nd.pick(scores[:, t, u - 1], labels[:, u - 1], axis=1)
                ways.append(alpha[t, u - 1] + step)
            alpha[t, u] = (
                either(*ways) if len(ways) == 2 else ways[0] if ways else 0 * scores[:, 0, 0, 0]
            )
    return -(alpha[steps - 1, places - 1] + scores[:, -1, -1, 0])


def main():
    net = Transducer(5, 6)
    net.initialize()
    fill(net)
    xs, ys = nd.array(normal(0, 5, 2, 4)), nd.array([[1, 2, 3], [2, 4, 1]])
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.2, "momentum": 0.9})
    losses = []
    for _ in range(10):
        with autograd.record():
            loss = loss_of(net(xs, ys), ys)
        loss.backward()
        gluon.utils.clip_global_norm([p.grad() for p in net.collect_params().values()], 5.0)
        trainer.step(2)
        losses += loss.asnumpy().tolist()
    return losses


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
