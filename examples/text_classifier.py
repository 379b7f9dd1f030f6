"""Sentences of different lengths: samples are dictionaries, batches are padded, a bidirectional GRU reads them."""

import random

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.gluon import nn, rnn
from mxjax.gluon.data.batchify import Pad, Stack

GOOD, BAD = "lovely great fine superb warm".split(), "awful poor dull cold broken".split()
FILLER = "the a film it was and we saw one of very quite day night".split()
WORDS = {word: k + 1 for k, word in enumerate([*GOOD, *BAD, *FILLER, "not"])}  # 0 fills up


class Reviews(gluon.data.Dataset):
    def __init__(self, count, seed):
        draw = random.Random(seed)
        self.rows = []
        for _ in range(count):
            label, negated = draw.random() < 0.5, draw.random() < 0.3
            words = draw.choices(FILLER, k=draw.randint(2, 12))
            said = draw.choice(GOOD if label != negated else BAD)
            words[draw.randrange(len(words)) :] = ["not"] * negated + [said]
            self.rows.append({"text": " ".join(words), "label": int(label)})

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, k):
        return self.rows[k]


def collate(rows):
    codes = [[WORDS[w] for w in row["text"].split()] for row in rows]
    return Pad(val=0, dtype="int32", round_to=4)(codes), Stack()([row["label"] for row in rows])


class Reader(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(len(WORDS) + 1, 16)
        self.gru = rnn.GRU(16, layout="NTC", bidirectional=True)
        self.out = nn.Dense(2)

    def forward(self, codes):
        there = (codes > 0).astype("float32").expand_dims(2)
        states = self.gru(self.embed(codes))
        return self.out((states * there).sum(axis=1) / there.sum(axis=1))


def main():
    mx.random.seed(0)
    net = Reader()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    for _ in range(6):
        for codes, label in gluon.data.DataLoader(
            Reviews(1000, 0), 50, shuffle=True, batchify_fn=collate
        ):
            with autograd.record():
                loss = loss_of(net(codes), label)
            loss.backward()
            trainer.step(len(label))
    accuracy = gluon.metric.Accuracy()
    for codes, label in gluon.data.DataLoader(Reviews(300, 1), 50, batchify_fn=collate):
        accuracy.update(label, net(codes))
    print(f"accuracy {accuracy.get()[1]:.3f}")
    assert accuracy.get()[1] > 0.95


if __name__ == "__main__":
    main()
