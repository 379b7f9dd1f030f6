"""A recurrent language model: read by type checkers, not run."""

from typing import assert_type

import mxjax as mx
from mxjax import autograd, gluon, np, npx
from mxjax.gluon import nn, rnn


class Model(nn.HybridBlock):
    def __init__(self, words: int, units: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, units)
        self.lstm = rnn.LSTM(units, num_layers=2, dropout=0.2, layout="NTC")
        self.out = nn.Dense(words, flatten=False)

    def forward(
        self, tokens: np.ndarray, state: list[np.ndarray]
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        x = self.embedding(tokens)
        assert_type(x, np.ndarray)
        y, state = self.lstm(x, state)
        return self.out(y), state

    def begin(self, batch: int) -> list[np.ndarray]:
        return self.lstm.begin_state(batch_size=batch)


def step(
    model: Model, trainer: gluon.Trainer, tokens: np.ndarray, state: list[np.ndarray]
) -> list[np.ndarray]:
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    with autograd.record():
        out, state = model(tokens[:, :-1], state)
        loss = loss_of(out, tokens[:, 1:]).mean()
    loss.backward()
    gluon.utils.clip_global_norm([p.grad() for p in model.collect_params().values()], 1.0)
    trainer.step(1)
    return state


def sample(model: Model, start: int, length: int) -> list[int]:
    state = model.begin(1)
    token = np.array([[start]], dtype="int32")
    made: list[int] = []
    for _ in range(length):
        out, state = model(token, state)
        chances = npx.softmax(np.array(out)[0, -1])
        assert_type(chances, np.ndarray)
        token = np.random.choice(chances.size, size=(1, 1), p=chances)
        made.append(int(token[0, 0].item()))
    mx.random.seed(7)
    return made
