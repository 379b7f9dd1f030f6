"""Sentences of all lengths through a bidirectional LSTM, padded batch by batch, gradients clipped."""

import collections

import mxnet as mx
import numpy
import pace
from mxnet import autograd, gluon, nd
from mxnet.contrib import text
from mxnet.gluon import nn, rnn

mx.random.seed(0)
rng = numpy.random.RandomState(0)
kinds = ["lovely superb bright".split(), "dull poor sorry".split()]
filler = "the of a to and in is it we you film plot scene music story".split()
sentences, labels = [], []
for k in range(200):
    tokens = list(rng.choice(filler, rng.randint(4, 36)))
    tokens.insert(rng.randint(len(tokens)), rng.choice(kinds[k % 2]))
    sentences.append(" ".join(tokens))
    labels.append(k % 2)
counter = collections.Counter()
for s in sentences:
    counter.update(text.utils.count_tokens_from_str(s))
vocabulary = text.vocab.Vocabulary(counter, min_freq=1, reserved_tokens=["<pad>"])
ids = [vocabulary.to_indices(s.split()) for s in sentences]


class Net(gluon.Block):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.embedding = nn.Embedding(len(vocabulary), 16)
            self.lstm = rnn.LSTM(16, bidirectional=True)
            self.out = nn.Dense(2)

    def forward(self, x, length):
        h = self.lstm(self.embedding(x.T))
        h = nd.SequenceMask(h, length, use_sequence_length=True, value=-1e9).max(axis=0)
        return self.out(h)


net = Net()
net.initialize(pace.Drawn())
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
loss_of = gluon.loss.SoftmaxCELoss()
order = numpy.argsort([len(i) for i in ids], kind="stable")
batches = [order[i : i + 10] for i in range(0, 200, 10)]


def collate(batch):
    longest = max(len(ids[i]) for i in batch)
    padded = numpy.ones((len(batch), longest), "float32")
    for row, i in enumerate(batch):
        padded[row, : len(ids[i])] = ids[i]
    return (
        nd.array(padded),
        nd.array([len(ids[i]) for i in batch]),
        nd.array([labels[i] for i in batch]),
    )


for epoch in range(4):
    total, right = 0.0, 0
    for batch in batches:
        x, lengths, y = collate(batch)
        with autograd.record():
            scores = net(x, lengths)
            loss = loss_of(scores, y)
        loss.backward()
        gluon.utils.clip_global_norm([p.grad() for p in net.collect_params().values()], 1.0)
        trainer.step(len(batch))
        total += loss.sum().asscalar()
        right += (scores.argmax(1) == y).sum().asscalar()
        pace.step()
    print(epoch, total / 200, right / 200)
pace.end(loss=total / 200, right=right / 200)
