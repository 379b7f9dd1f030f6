"""Sequence to sequence with attention over lists, and a beam search with Python's lists."""

import json

import numpy as np
from common import fill
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn, rnn

BOS, EOS = 0, 1


class Seq2Seq(gluon.Block):
    def __init__(self, vocab, hidden, **kwargs):
        super(Seq2Seq, self).__init__(**kwargs)
        with self.name_scope():
            self.embed = nn.Embedding(vocab, hidden)
            self.encoder = rnn.GRUCell(hidden, input_size=hidden)
            self.decoder = rnn.LSTMCell(hidden, input_size=2 * hidden)
            self.out = nn.Dense(vocab, in_units=hidden)

    def encode(self, source):
        outputs, state = self.encoder.unroll(
            source.shape[1], self.embed(source), layout="NTC", merge_outputs=True
        )
        return outputs, [state[0], nd.zeros_like(state[0])]

    def step(self, word, states, memory):
        scores = nd.batch_dot(memory, states[0].expand_dims(2)).softmax(axis=1)
        context = (memory * scores).sum(axis=1)
        output, states = self.decoder(nd.concat(self.embed(word), context, dim=1), states)
        return self.out(output), states


def beam_search(net, source, size=3, length=5):
    memory, states = net.encode(source)
    beams = [([BOS], 0.0, states)]
    for _ in range(length):
        grown = []
        for words, score, states in beams:
            if words[-1] == EOS:
                grown.append((words, score, states))
                continue
            out, new = net.step(nd.array([words[-1]]), states, memory)
            logp = nd.log_softmax(out)[0]
            for k in logp.topk(k=size).asnumpy().astype(int):
                grown.append((words + [int(k)], score + logp[int(k)].asscalar(), new))
        beams = sorted(grown, key=lambda b: -b[1])[:size]
    return beams


def main():
    rng = np.random.RandomState(11)
    source, target = rng.randint(2, 12, (6, 5)), rng.randint(2, 12, (6, 4))
    target[:, -1] = EOS
    net = Seq2Seq(12, 16)
    net.initialize()
    fill(net, 12)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.02})
    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
    losses = []
    for _ in range(20):
        with autograd.record():
            memory, states = net.encode(nd.array(source))
            word, loss = nd.full((6,), BOS), 0
            for t in range(4):
                out, states = net.step(word, states, memory)
                word = nd.array(target[:, t])
                loss = loss + loss_fn(out, word)
        loss.backward()
        trainer.step(6)
        losses.append(loss.mean().asscalar())
    return losses + [score for _, score, _ in beam_search(net, nd.array(source[:1]))]


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
