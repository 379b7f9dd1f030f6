"""The attention chapters of a textbook: masked softmax, additive and multi-head attention, a transformer encoder."""

import math

import mxnet as mx
import numpy
import pace
from mxnet import autograd, gluon, np, npx
from mxnet.gluon import nn

npx.set_np()
mx.np.random.seed(0)


def masked_softmax(X, valid_lens):
    if valid_lens is None:
        return npx.softmax(X)
    shape = X.shape
    valid_lens = valid_lens.repeat(shape[1]) if valid_lens.ndim == 1 else valid_lens.reshape(-1)
    X = npx.sequence_mask(X.reshape(-1, shape[-1]), valid_lens, True, value=-1e6, axis=1)
    return npx.softmax(X).reshape(shape)


class AdditiveAttention(nn.Block):
    def __init__(self, hidden, **kwargs):
        super().__init__(**kwargs)
        self.W_k = nn.Dense(hidden, use_bias=False, flatten=False)
        self.W_q = nn.Dense(hidden, use_bias=False, flatten=False)
        self.w_v = nn.Dense(1, use_bias=False, flatten=False)

    def forward(self, queries, keys, values, valid_lens):
        queries, keys = self.W_q(queries), self.W_k(keys)
        features = np.tanh(np.expand_dims(queries, axis=2) + np.expand_dims(keys, axis=1))
        scores = np.squeeze(self.w_v(features), axis=-1)
        self.weights = masked_softmax(scores, valid_lens)
        return npx.batch_dot(self.weights, values)


class DotProductAttention(nn.Block):
    def __init__(self, dropout, **kwargs):
        super().__init__(**kwargs)
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries, keys, values, valid_lens=None):
        scores = npx.batch_dot(queries, keys, transpose_b=True) / math.sqrt(queries.shape[-1])
        self.weights = masked_softmax(scores, valid_lens)
        return npx.batch_dot(self.dropout(self.weights), values)


class MultiHeadAttention(nn.Block):
    def __init__(self, hidden, heads, dropout, **kwargs):
        super().__init__(**kwargs)
        self.heads = heads
        self.attention = DotProductAttention(dropout)
        self.W_q, self.W_k, self.W_v, self.W_o = (
            nn.Dense(hidden, use_bias=False, flatten=False) for _ in range(4)
        )

    def split(self, X):
        X = X.reshape(X.shape[0], X.shape[1], self.heads, -1).transpose(0, 2, 1, 3)
        return X.reshape(-1, X.shape[2], X.shape[3])

    def forward(self, queries, keys, values, valid_lens):
        if valid_lens is not None:
            valid_lens = valid_lens.repeat(self.heads, axis=0)
        output = self.attention(
            self.split(self.W_q(queries)),
            self.split(self.W_k(keys)),
            self.split(self.W_v(values)),
            valid_lens,
        )
        X = output.reshape(-1, self.heads, output.shape[1], output.shape[2]).transpose(0, 2, 1, 3)
        return self.W_o(X.reshape(X.shape[0], X.shape[1], -1))


class PositionalEncoding(nn.Block):
    def __init__(self, hidden, longest=200):
        super().__init__()
        self.P = np.zeros((1, longest, hidden))
        X = np.arange(longest).reshape(-1, 1) / np.power(10000, np.arange(0, hidden, 2) / hidden)
        self.P[:, :, 0::2] = np.sin(X)
        self.P[:, :, 1::2] = np.cos(X)

    def forward(self, X):
        return X + self.P[:, : X.shape[1], :].as_in_ctx(X.ctx)


class EncoderBlock(nn.Block):
    def __init__(self, hidden, wide, heads, dropout):
        super().__init__()
        self.attention = MultiHeadAttention(hidden, heads, dropout)
        self.ln1, self.ln2 = nn.LayerNorm(), nn.LayerNorm()
        self.dense1, self.dense2 = (
            nn.Dense(wide, flatten=False, activation="relu"),
            nn.Dense(hidden, flatten=False),
        )

    def forward(self, X, valid_lens):
        Y = self.ln1(X + self.attention(X, X, X, valid_lens))
        return self.ln2(Y + self.dense2(self.dense1(Y)))


class Encoder(nn.Block):
    def __init__(self, words, hidden, wide, heads, layers, dropout):
        super().__init__()
        self.hidden = hidden
        self.embedding, self.position = nn.Embedding(words, hidden), PositionalEncoding(hidden)
        self.blocks = nn.Sequential()
        for _ in range(layers):
            self.blocks.add(EncoderBlock(hidden, wide, heads, dropout))
        self.out = nn.Dense(3)

    def forward(self, X, valid_lens):
        X = self.position(self.embedding(X) * math.sqrt(self.hidden))
        for block in self.blocks:
            X = block(X, valid_lens)
        return self.out(X.mean(axis=1))


queries, keys = np.ones((2, 1, 20)), np.ones((2, 10, 2))
values = np.arange(40).reshape(1, 10, 4).repeat(2, axis=0)
additive = AdditiveAttention(8)
additive.initialize(pace.Drawn())
lengths = np.array([2, 6])
first = additive(queries, keys, values, lengths)
print(first, masked_softmax(np.ones((2, 2, 4)), np.array([[1, 3], [2, 4]])))
pace.step("additive")

rng = numpy.random.RandomState(0)
net = Encoder(50, 32, 64, 4, 2, 0.0)
net.initialize(pace.Drawn())
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.003})
loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
for epoch in range(3):
    total = 0.0
    for k in range(25):
        lens = numpy.random.RandomState(k).randint(4, 13, 16)
        X = numpy.random.RandomState(k).randint(0, 50, (16, 12))
        y = (X[:, 0] % 3).astype("float32")
        with autograd.record():
            loss = loss_of(net(np.array(X), np.array(lens)), np.array(y))
        loss.backward()
        trainer.step(16)
        total += float(loss.mean())
        pace.step()
    print(epoch, total / 25)
pace.end(first=first.mean(), loss=total / 25)
