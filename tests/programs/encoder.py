"""A BERT-like encoder: sparse gradients of its embedding, attention over heads, masked words."""

import json

import numpy as np
from common import fill
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn


class Layer(gluon.HybridBlock):
    def __init__(self, units, heads, **kwargs):
        super(Layer, self).__init__(**kwargs)
        self._heads = heads
        with self.name_scope():
            self.qkv = nn.Dense(3 * units, flatten=False, in_units=units)
            self.out = nn.Dense(units, flatten=False, in_units=units)
            self.ffn1 = nn.Dense(2 * units, flatten=False, in_units=units)
            self.ffn2 = nn.Dense(units, flatten=False, in_units=2 * units)
            self.ln1, self.ln2 = nn.LayerNorm(in_channels=units), nn.LayerNorm(in_channels=units)

    def hybrid_forward(self, F, x, mask):
        qkv = self.qkv(x)
        scores = F.contrib.interleaved_matmul_selfatt_qk(qkv, heads=self._heads)
        scores = F.broadcast_add(scores, mask)
        att = F.softmax(scores, axis=-1)
        mixed = F.contrib.interleaved_matmul_selfatt_valatt(qkv, att, heads=self._heads)
        x = self.ln1(x + self.out(mixed))
        return self.ln2(x + self.ffn2(F.LeakyReLU(self.ffn1(x), act_type="gelu")))


class Encoder(gluon.Block):
    def __init__(self, vocab, units=16, heads=2, layers=2):
        super(Encoder, self).__init__()
        with self.name_scope():
            self.word = nn.Embedding(vocab, units, sparse_grad=True)
            self.position = self.params.get("position", shape=(8, 1, units))
            self.layers = nn.HybridSequential()
            self.cells = [Layer(units, heads) for _ in range(layers)]
            for cell in self.cells:
                self.register_child(cell)
            self.decode = nn.Dense(vocab, flatten=False, in_units=units)

    def forward(self, tokens, mask):
        x = self.word(tokens).transpose((1, 0, 2)) + self.position.data()
        for cell in self.cells:
            x = cell(x, mask)
        return self.decode(x).transpose((1, 0, 2))


def main():
    rng = np.random.RandomState(9)
    net = Encoder(50)
    net.initialize()
    fill(net, 10, 0.2)
    for cell in net.cells:
        cell.hybridize()
    tokens = rng.randint(0, 50, (4, 8))
    hidden = rng.uniform(size=(4, 8)) < 0.3
    lengths = np.array([8, 6, 5, 7])
    pad = np.where(np.arange(8) < lengths[:, None], 0, -1e4).repeat(2, 0)[:, None, :]
    x, mask = nd.array(np.where(hidden, 1, tokens)), nd.array(pad)
    loss_fn = gluon.loss.SoftmaxCELoss()
    trainer = gluon.Trainer(
        net.collect_params(), "adam", {"learning_rate": 0.01, "lazy_update": True}
    )
    losses = []
    for _ in range(20):
        with autograd.record():
            loss = loss_fn(net(x, mask), nd.array(tokens), nd.array(hidden).expand_dims(2))
        loss.backward()
        trainer.allreduce_grads()
        gluon.utils.clip_global_norm(
            [
                p.grad()
                for p in net.collect_params().values()
                if p.grad_req != "null" and p._grad_stype == "default"
            ],
            1.0,
        )
        trainer.update(4)
        losses.append(loss.sum().asscalar())
    return losses


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
