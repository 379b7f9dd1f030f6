"""A language model with tied weights whose LSTMs drop connections: parameters that stand for others, states that are
detached from batch to batch, two regularizers of activations, gradients clipped by their global norm."""

import json

import mxnet as mx
import numpy as np
from common import fill
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn, rnn


class Dropped(gluon.Parameter):
    """Shares all that another parameter holds."""

    def __init__(self, other, rate):
        super(Dropped, self).__init__(
            name=other.name, grad_req=other.grad_req, shape=other._shape, dtype=other.dtype,
            lr_mult=other.lr_mult, wd_mult=other.wd_mult, init=other.init,
        )  # fmt: skip
        self._rate = rate
        self._var, self._data, self._grad = other._var, other._data, other._grad
        self._ctx_list, self._ctx_map = other._ctx_list, other._ctx_map
        self._trainer = other._trainer

    def data(self, ctx=None):
        data = self._check_and_get(self._data, ctx)
        return nd.Dropout(data, self._rate, "training") if self._rate else data


def drop_weights(block, ending, rate):
    for name, parameter in list(block._reg_params.items()):
        if name.endswith(ending):
            block.__dict__[name] = block._reg_params[name] = Dropped(parameter, rate)
    for child in block._children.values():
        drop_weights(child, ending, rate)


class Model(gluon.Block):
    def __init__(self, vocabulary, units, **kwargs):
        super(Model, self).__init__(**kwargs)
        with self.name_scope():
            self.embedding = nn.Embedding(vocabulary, units)
            self.encoder = nn.HybridSequential()
            with self.encoder.name_scope():
                for _ in range(2):
                    self.encoder.add(rnn.LSTM(units, input_size=units))
            self.decoder = nn.Dense(vocabulary, flatten=False, params=self.embedding.params)

    def begin_state(self, *args, **kwargs):
        return [layer.begin_state(*args, **kwargs) for layer in self.encoder]

    def forward(self, x, states):
        x, found, outs = self.embedding(x), [], []
        for layer, state in zip(self.encoder, states):
            x, state = layer(x, state)
            found.append(state)
            outs.append(x)
        return self.decoder(x), found, outs


def detached(states):
    return [detached(s) if isinstance(s, (list, tuple)) else s.detach() for s in states]


def main():
    net = Model(12, 6, prefix="awd_")
    net.initialize(mx.init.Xavier())
    fill(net)
    drop_weights(net.encoder, "h2h_weight", 0.0)
    entropy = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 2.0, "wd": 1.2e-6})
    data = nd.array(np.random.RandomState(0).randint(0, 12, (70, 4)))
    states, losses, at, k = net.begin_state(batch_size=4, func=nd.zeros), [], 0, 0
    while at + 9 < 70:
        length = 8 if k % 2 else 5
        x, y = data[at : at + length], data[at + 1 : at + 1 + length]
        states = detached(states)
        with autograd.record():
            out, states, outs = net(x, states)
            loss = entropy(out.reshape((-3, -1)), y.reshape((-1,))).mean()
            loss = (
                loss + 2 * outs[-1].square().mean() + (outs[-1][1:] - outs[-1][:-1]).square().mean()
            )
        loss.backward()
        grads = [p.grad() for p in net.collect_params().values()]
        norm = gluon.utils.clip_global_norm(grads, 0.25)
        trainer.step(1)
        losses += [loss.asscalar(), norm]
        at, k = at + length, k + 1
    drop_weights(net.encoder, "h2h_weight", 0.5)
    with autograd.train_mode():
        many = {
            net(data[:4], net.begin_state(batch_size=4))[0].asnumpy().tobytes() for _ in range(6)
        }
    kept = net(data[:4], net.begin_state(batch_size=4))[0]
    return losses + [len(many) > 1, kept.abs().mean().asscalar()]


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
