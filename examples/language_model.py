"""An LSTM that learns a text by its letters, with truncated backpropagation through time and clipped gradients."""

import numpy as np

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.gluon import nn, rnn

TEXT = "the quick brown fox jumps over the lazy dog and the dog sleeps on. " * 40
STEPS, BATCH = 20, 8


class Model(gluon.Block):
    def __init__(self, letters, units=64):
        super().__init__()
        self.embed = nn.Embedding(letters, 16)
        self.lstm = rnn.LSTM(units, num_layers=1, input_size=16)
        self.out = nn.Dense(letters, flatten=False, in_units=units)

    def forward(self, x, state):
        y, state = self.lstm(self.embed(x), state)
        return self.out(y), state


def main():
    mx.random.seed(0)
    letters = sorted(set(TEXT))
    codes = np.array([letters.index(c) for c in TEXT], "int32")
    length = (len(codes) - 1) // BATCH
    inputs = codes[: BATCH * length].reshape(BATCH, length).T
    targets = codes[1 : BATCH * length + 1].reshape(BATCH, length).T
    net = Model(len(letters))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    for epoch in range(8):
        state, total, count = net.lstm.begin_state(BATCH), 0.0, 0
        for start in range(0, length - STEPS, STEPS):
            x = mx.np.array(inputs[start : start + STEPS], dtype="int32")
            y = mx.np.array(targets[start : start + STEPS], dtype="int32")
            state = [s.detach() for s in state]
            with autograd.record():
                out, state = net(x, state)
                loss = loss_of(out, y).mean()
            loss.backward()
            grads = [p.grad() for p in net.collect_params().values()]
            gluon.utils.clip_global_norm(grads, 1.0)
            trainer.step(1)
            total, count = total + loss.item(), count + 1
        print(f"epoch {epoch}: perplexity {np.exp(total / count):.2f}")
    state, x, written = (
        net.lstm.begin_state(1),
        mx.np.array([[letters.index("t")]], dtype="int32"),
        "t",
    )
    for _ in range(40):
        out, state = net(x, state)
        x = out.argmax(axis=-1).astype("int32")
        written += letters[x.item()]
    print(written)
    assert np.exp(total / count) < 2.0 and "the" in written


if __name__ == "__main__":
    main()
