"""Sequence to sequence with GRUs: an encoder, a decoder with attention, masked losses, greedy decoding."""

import mxnet as mx
import numpy
import pace
from mxnet import autograd, gluon, np, npx
from mxnet.gluon import nn, rnn

npx.set_np()
mx.np.random.seed(0)
rng = numpy.random.RandomState(0)
words, steps, batch = 30, 9, 20
source = numpy.zeros((200, steps), "int64")
lengths = rng.randint(3, steps, 200)
for row, n in enumerate(lengths):
    source[row, :n] = rng.randint(3, words, n)
    source[row, n] = 2
target = numpy.where(source > 2, (source - 3 + 5) % (words - 3) + 3, source)


class Encoder(nn.Block):
    def __init__(self):
        super().__init__()
        self.embedding, self.rnn = nn.Embedding(words, 24), rnn.GRU(32, 2)

    def forward(self, X):
        X = self.embedding(X).swapaxes(0, 1)
        state = self.rnn.begin_state(batch_size=X.shape[1], ctx=X.ctx)
        return self.rnn(X, state)


class Decoder(nn.Block):
    def __init__(self):
        super().__init__()
        self.embedding, self.rnn, self.dense = (
            nn.Embedding(words, 24),
            rnn.GRU(32, 2),
            nn.Dense(words, flatten=False),
        )

    def forward(self, X, context, valid, state):
        outputs, weights = [], []
        X = self.embedding(X).swapaxes(0, 1)
        for x in X:
            query = np.expand_dims(state[0][-1], axis=1)
            scores = npx.batch_dot(query, context, transpose_b=True)
            scores = npx.sequence_mask(
                scores.reshape(-1, scores.shape[-1]), valid, True, value=-1e6, axis=1
            )
            weight = np.expand_dims(npx.softmax(scores), 1)
            found = npx.batch_dot(weight, context)
            x = np.concatenate((found, np.expand_dims(x, axis=1)), axis=-1)
            out, state = self.rnn(x.swapaxes(0, 1), state)
            outputs.append(out)
            weights.append(weight)
        return self.dense(np.concatenate(outputs, axis=0)).swapaxes(0, 1), state


class MaskedLoss(gluon.loss.SoftmaxCELoss):
    def forward(self, pred, label, valid):
        weights = np.expand_dims(np.ones_like(label), axis=-1)
        weights = npx.sequence_mask(weights, valid, True, axis=1)
        return super().forward(pred, label, weights)


encoder, decoder = Encoder(), Decoder()
for net in (encoder, decoder):
    net.initialize(pace.Drawn())
trainers = [
    gluon.Trainer(n.collect_params(), "adam", {"learning_rate": 0.01}) for n in (encoder, decoder)
]
loss_of = MaskedLoss()
for epoch in range(4):
    total, count = 0.0, 0
    for k in range(0, 200, batch):
        X, Y = np.array(source[k : k + batch]), np.array(target[k : k + batch])
        valid = np.array(lengths[k : k + batch] + 1)
        with autograd.record():
            begin = np.array([1] * batch).reshape(-1, 1)
            given = np.concatenate([begin, Y[:, :-1]], 1)
            outputs, state = encoder(X)
            pred, _ = decoder(given, outputs.swapaxes(0, 1), valid, state)
            loss = loss_of(pred, Y, valid)
        loss.backward()
        for t, net in zip(trainers, (encoder, decoder)):
            grads = [p.grad() for p in net.collect_params().values()]
            norm = float(np.sqrt(sum((g**2).sum() for g in grads)))
            if norm > 1:
                for g in grads:
                    g[:] *= 1 / norm
            t.step(int(valid.sum()) / batch)
        total += float(loss.sum())
        count += int(valid.sum())
        pace.step()
    print(epoch, total / 200)


def translate(row):
    X = np.array(source[row : row + 1])
    outputs, state = encoder(X)
    word, found = np.array([[1]]), []
    for _ in range(steps):
        pred, state = decoder(
            word, outputs.swapaxes(0, 1), np.array(lengths[row : row + 1] + 1), state
        )
        word = pred.argmax(axis=2)
        if int(word.item()) == 2:
            break
        found.append(int(word.item()))
    return found


for row in range(3):
    print(translate(row))
    pace.step()
pace.end(loss=total / 200)
