"""A translation model of a book's kind: attention, encoder and decoder written out, masks by lengths, a beam search."""

import json
import math

import numpy as onp
from common import fill
from mxnet import autograd, gluon, np, npx
from mxnet.gluon import nn

npx.set_np()


def masked_softmax(scores, lengths):
    shape = scores.shape
    lengths = lengths.repeat(shape[1]) if lengths.ndim == 1 else lengths.reshape(-1)
    scores = npx.sequence_mask(scores.reshape(-1, shape[-1]), lengths, True, value=-1e6, axis=1)
    return npx.softmax(scores).reshape(shape)


class Attention(nn.Block):
    def __init__(self, units, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (
            nn.Dense(units, use_bias=False, flatten=False) for _ in range(4)
        )

    def split(self, x):
        x = x.reshape(x.shape[0], x.shape[1], self.heads, -1).transpose(0, 2, 1, 3)
        return x.reshape(-1, x.shape[2], x.shape[3])

    def forward(self, queries, keys, lengths):
        q, k, v = (
            self.split(self.query(queries)),
            self.split(self.key(keys)),
            self.split(self.value(keys)),
        )
        scores = npx.batch_dot(q, k, transpose_b=True) / math.sqrt(q.shape[-1])
        self.weights = npx.softmax(scores)
        if lengths is not None:
            self.weights = masked_softmax(scores, lengths.repeat(self.heads, axis=0))
        out = npx.batch_dot(self.weights, v)
        out = out.reshape(-1, self.heads, out.shape[1], out.shape[2]).transpose(0, 2, 1, 3)
        return self.out(out.reshape(out.shape[0], out.shape[1], -1))


class Block(nn.Block):
    def __init__(self, units, heads, crosses):
        super().__init__()
        self.attention, self.norm = Attention(units, heads), nn.LayerNorm()
        self.crosses = crosses
        if crosses:
            self.cross, self.cross_norm = Attention(units, heads), nn.LayerNorm()
        self.wide = nn.Dense(2 * units, flatten=False, activation="relu")
        self.narrow, self.last_norm = nn.Dense(units, flatten=False), nn.LayerNorm()

    def forward(self, x, keys, lengths, memory=None, memory_lengths=None):
        x = self.norm(x + self.attention(x, keys, lengths))
        if self.crosses:
            x = self.cross_norm(x + self.cross(x, memory, memory_lengths))
        return self.last_norm(x + self.narrow(self.wide(x)))


class Translator(nn.Block):
    def __init__(self, words, units, heads):
        super().__init__()
        self.units = units
        self.source, self.target = nn.Embedding(words, units), nn.Embedding(words, units)
        self.encoder, self.decoder = Block(units, heads, False), Block(units, heads, True)
        self.words = nn.Dense(words, flatten=False)
        places = np.arange(20).reshape(-1, 1) / np.power(10000, np.arange(0, units, 2) / units)
        self.places = np.zeros((1, 20, units))
        self.places[:, :, 0::2] = np.sin(places)
        self.places[:, :, 1::2] = np.cos(places)

    def placed(self, x):
        return x * math.sqrt(self.units) + self.places[:, : x.shape[1], :]

    def encode(self, x, lengths):
        x = self.placed(self.source(x))
        return self.encoder(x, x, lengths)

    def decode(self, y, memory, lengths):
        y = self.placed(self.target(y))
        seen = np.tile(np.arange(1, y.shape[1] + 1), (y.shape[0], 1))
        return self.words(self.decoder(y, y, seen, memory, lengths))

    def forward(self, x, lengths, y):
        return self.decode(y, self.encode(x, lengths), lengths)


def clip(net, most):
    grads = [p.grad() for p in net.collect_params().values()]
    norm = math.sqrt(sum((g**2).sum() for g in grads))
    if norm > most:
        for g in grads:
            g[:] *= most / norm
    return norm


def search(net, x, lengths, width, steps):
    memory = net.encode(x, lengths)
    beams = [([1], 0.0)]
    for _ in range(steps):
        grown = []
        for words, score in beams:
            scores = npx.log_softmax(
                net.decode(np.array([words], dtype="int32"), memory, lengths)[0, -1]
            )
            for value, word in zip(*npx.topk(scores, k=width, ret_typ="both")):
                grown.append(([*words, int(word)], score + float(value)))
        beams = sorted(grown, key=lambda beam: -beam[1])[:width]
    return beams


def main():
    rng = onp.random.RandomState(3)
    x = np.array(rng.randint(0, 11, (4, 5)), dtype="int32")
    y = np.array(rng.randint(0, 11, (4, 6)), dtype="int32")
    lengths, wanted = np.array([5, 3, 4, 2]), np.array([5, 4, 3, 5])
    net = Translator(11, 8, 2)
    net.initialize()
    net(x, lengths, y)
    fill(net, 1)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    loss = gluon.loss.SoftmaxCELoss()
    weights = npx.sequence_mask(np.ones((4, 5, 1)), wanted, True, axis=1)
    numbers = []
    for _ in range(10):
        with autograd.record():
            lost = loss(net(x, lengths, y[:, :-1]), y[:, 1:], weights)
        lost.backward()
        numbers += [clip(net, 1)]
        trainer.step(4)
        numbers += [float(lost.sum())]
    for words, score in search(net, x[:1], lengths[:1], 3, 4):
        numbers += [score, *words]
    return numbers + [float(n) for n in net.encoder.attention.weights[0, 0].round(2)]


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
