"""A word language model: truncated backpropagation, detached states, clipped gradients, a decaying learning rate."""

import math

import mxnet as mx
import numpy
import pace
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn, rnn

mx.random.seed(0)
rng = numpy.random.RandomState(0)
vocabulary, batch, bptt = 200, 10, 15
follow = rng.randint(0, vocabulary, (vocabulary, 3))
stream = [0]
for _ in range(batch * bptt * 24):
    stream.append(int(follow[stream[-1], rng.randint(0, 3)]))


def batchify(data, size):
    count = len(data) // size
    return nd.array(data[: count * size]).reshape((size, count)).T


class RNNModel(gluon.Block):
    def __init__(self, words, embed, hidden, layers, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.drop = nn.Dropout(dropout)
            self.encoder = nn.Embedding(words, embed)
            self.rnn = rnn.LSTM(hidden, layers, dropout=dropout, input_size=embed)
            self.decoder = nn.Dense(words, in_units=hidden)
            self.hidden = hidden

    def forward(self, inputs, state):
        output, state = self.rnn(self.drop(self.encoder(inputs)), state)
        decoded = self.decoder(self.drop(output).reshape((-1, self.hidden)))
        return decoded, state

    def begin_state(self, *args, **kwargs):
        return self.rnn.begin_state(*args, **kwargs)


def detach(state):
    return [detach(s) for s in state] if isinstance(state, (tuple, list)) else state.detach()


train, valid = batchify(stream[:-1800], batch), batchify(stream[-1800:], batch)
model = RNNModel(vocabulary, 32, 48, 2, 0.2)
model.initialize(pace.Drawn())
trainer = gluon.Trainer(
    model.collect_params(), "sgd", {"learning_rate": 5.0, "momentum": 0, "wd": 0}
)
loss_of = gluon.loss.SoftmaxCrossEntropyLoss()


def get_batch(source, i):
    length = min(bptt, source.shape[0] - 1 - i)
    return source[i : i + length], source[i + 1 : i + 1 + length].reshape((-1,))


def evaluate(source):
    total, count = 0.0, 0
    state = model.begin_state(func=nd.zeros, batch_size=batch)
    for i in range(0, source.shape[0] - 1, bptt):
        data, target = get_batch(source, i)
        output, state = model(data, state)
        loss = loss_of(output, target)
        total += nd.sum(loss).asscalar()
        count += loss.size
        pace.step()
    return total / count


best = float("inf")
for epoch in range(4):
    total = 0.0
    state = model.begin_state(func=nd.zeros, batch_size=batch)
    for k, i in enumerate(range(0, train.shape[0] - 1, bptt)):
        data, target = get_batch(train, i)
        state = detach(state)
        with autograd.record():
            output, state = model(data, state)
            loss = nd.sum(loss_of(output, target)) / (bptt * batch)
        loss.backward()
        grads = [p.grad(data.context) for p in model.collect_params().values()]
        gluon.utils.clip_global_norm(grads, 0.5)
        trainer.step(1)
        total += loss.asscalar()
        pace.step()
    found = evaluate(valid)
    print(epoch, math.exp(total / (k + 1)), math.exp(found))
    if found < best:
        best = found
    else:
        trainer.set_learning_rate(trainer.learning_rate * 0.25)
pace.end(train=total / (k + 1), valid=best)
