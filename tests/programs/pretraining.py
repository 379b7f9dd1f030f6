"""A language network's first training: masked attention, a decoder that shares the words' table, two losses, gradients that
add up over two batches, weights that do not decay."""

import numpy as np
from common import fill
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

WORDS, UNITS, HEADS, LENGTH = 30, 8, 2, 9


class Attention(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super(Attention, self).__init__(**kwargs)
        with self.name_scope():
            self.query = nn.Dense(UNITS, flatten=False, prefix="query_")
            self.key = nn.Dense(UNITS, flatten=False, prefix="key_")
            self.value = nn.Dense(UNITS, flatten=False, prefix="value_")

    def _split(self, F, x):
        x = F.transpose(F.reshape(x, shape=(0, 0, HEADS, -1)), axes=(0, 2, 1, 3))
        return F.reshape(x, shape=(-1, 0, 0), reverse=True)

    def hybrid_forward(self, F, x, mask):
        query, key, value = (self._split(F, f(x)) for f in (self.query, self.key, self.value))
        scores = F.batch_dot(F.contrib.div_sqrt_dim(query), key, transpose_b=True)
        mask = F.broadcast_axis(F.expand_dims(mask, axis=1), axis=1, size=HEADS)
        mask = mask.reshape(shape=(-1, 0, 0), reverse=True)
        scores = F.where(mask, scores, F.ones_like(scores) * -1e18)
        weights = F.broadcast_mul(F.softmax(scores, axis=-1), mask)
        out = F.batch_dot(weights, value).reshape(shape=(-1, HEADS, 0, 0), reverse=True)
        return F.reshape(F.transpose(out, axes=(0, 2, 1, 3)), shape=(0, 0, -1))


class Layer(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super(Layer, self).__init__(**kwargs)
        with self.name_scope():
            self.attention = Attention(prefix="attention_")
            self.proj = nn.Dense(UNITS, flatten=False, prefix="proj_")
            self.ffn1 = nn.Dense(2 * UNITS, flatten=False, prefix="ffn1_")
            self.ffn2 = nn.Dense(UNITS, flatten=False, prefix="ffn2_")
            self.act, self.ln1, self.ln2 = nn.GELU(), nn.LayerNorm(epsilon=1e-12), nn.LayerNorm()

    def hybrid_forward(self, F, x, mask):
        x = self.ln1(x + self.proj(self.attention(x, mask)))
        return self.ln2(x + self.ffn2(self.act(self.ffn1(x))))


class Network(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super(Network, self).__init__(**kwargs)
        with self.name_scope():
            self.words = nn.HybridSequential(prefix="words_")
            with self.words.name_scope():
                self.words.add(nn.Embedding(WORDS, UNITS))
            self.segments = nn.Embedding(2, UNITS, prefix="segments_")
            self.positions = self.params.get("positions", shape=(12, UNITS))
            self.norm = nn.LayerNorm(in_channels=UNITS)
            self.layers = nn.HybridSequential()
            for number in range(2):
                self.layers.add(Layer(prefix="layer%d_" % number))
            self.pooler = nn.Dense(UNITS, activation="tanh", prefix="pooler_")
            self.follows = nn.Dense(2, prefix="follows_")
            self.decoder = nn.HybridSequential(prefix="decoder_")
            with self.decoder.name_scope():
                self.decoder.add(nn.Dense(UNITS, flatten=False), nn.GELU(), nn.LayerNorm())
                shared = self.words[0].collect_params()
                self.decoder.add(nn.Dense(WORDS, flatten=False, params=shared))

    def hybrid_forward(self, F, tokens, segments, lengths, places, positions):
        x = self.words(tokens) + self.segments(segments)
        steps = F.contrib.arange_like(x, axis=1)
        x = self.norm(
            F.broadcast_add(x, F.expand_dims(F.Embedding(steps, positions, 12, UNITS), 0))
        )
        there = F.broadcast_lesser(F.reshape(steps, (1, -1)), F.reshape(lengths, (-1, 1)))
        mask = F.broadcast_mul(F.expand_dims(there, 1), F.expand_dims(there, 2))
        for layer in self.layers._children.values():
            x = layer(x, mask)
        x = F.SequenceMask(x, lengths, use_sequence_length=True, axis=1)
        first = F.slice_axis(x, axis=1, begin=0, end=1).reshape((0, -1))
        batch = F.broadcast_like(F.contrib.arange_like(places, axis=0).expand_dims(1), places)
        masked = F.gather_nd(x, F.stack(batch.reshape((-1,)), places.reshape((-1,))))
        return self.follows(self.pooler(first)), self.decoder(masked.reshape((-4, -1, 3, 0)))


def main():
    rng = np.random.RandomState(1)
    tokens, segments = (nd.array(rng.randint(0, n, (4, LENGTH))) for n in (WORDS, 2))
    lengths, places = nd.array([9, 5, 7, 3]), nd.array(rng.randint(0, 3, (4, 3)))
    follows, masked = nd.array([0, 1, 1, 0]), nd.array(rng.randint(0, WORDS, (4, 3)))
    net = Network(prefix="net_")
    net.initialize()
    net(tokens, segments, lengths, places)
    fill(net, 2)
    for parameter in net.collect_params(".*beta|.*gamma|.*bias").values():
        parameter.wd_mult = 0.0
    parameters = net.collect_params()
    for parameter in parameters.values():
        parameter.grad_req = "add"
    trainer = gluon.Trainer(
        parameters, "adam", {"learning_rate": 0.01, "wd": 0.01, "epsilon": 1e-6}, update_on_kvstore=False
    )  # fmt: skip
    entropy, found = gluon.loss.SoftmaxCELoss(), []
    for step in range(8):
        if step == 4:
            net.hybridize(static_alloc=True, static_shape=True)
        parameters.zero_grad()
        for half in (slice(0, 2), slice(2, 4)):
            with autograd.record():
                first, second = net(tokens[half], segments[half], lengths[half], places[half])
                weight = nd.array([[1]] * 5 + [[0]])
                loss = entropy(second.reshape((-1, WORDS)), masked[half].reshape((-1,)), weight)
                loss = (entropy(first, follows[half]).mean() + loss.mean()) / 2
            loss.backward()
            found.append(loss.asscalar())
        trainer.allreduce_grads()
        grads = [p.grad() for p in parameters.values()]
        found.append(gluon.utils.clip_global_norm(grads, 0.5))
        trainer.update(1)
    return found
