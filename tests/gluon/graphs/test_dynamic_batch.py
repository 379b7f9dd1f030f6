"""Inputs of many lengths: few graphs where rows do not depend on each other, and a word where there are many."""

import logging

import numpy as onp
import pytest

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.gluon import nn, rnn
from mxjax.gluon.graphs import shapes


class Causal(gluon.HybridBlock):
    """Each row is the sum of those up to it: filling up at the end changes no result."""

    def forward(self, x):
        return mx.np.cumsum(x, axis=0)


def test_forty_lengths_by_six_graphs():
    mx.config.set({"engine.cold": "auto"})
    net = Causal()
    net.hybridize(dynamic_batch=[8, 16, 24, 32, 40])
    x = onp.arange(48, dtype="float32").reshape(48, 1)
    for n in range(1, 49):
        onp.testing.assert_allclose(net(mx.np.array(x[:n])).asnumpy(), onp.cumsum(x[:n], axis=0))
    lengths = sorted(g.shapes[0][0] for g in net._graphs.values())
    assert lengths == [8, 16, 24, 32, 40]  # beyond the last none comes back


def test_a_block_says_for_itself():
    net = Causal()
    net.hybridize(dynamic_batch=True)
    for n in (3, 4, 7):
        net(mx.np.ones((n, 1)))
    assert sorted(g.shapes[0][0] for g in net._graphs.values()) == [4, 8]
    net.hybridize(dynamic_batch=False)
    with mx.config.scope(compiler_dynamic_batch="bucket"):
        net(mx.np.ones((3, 1)))
    assert [g.shapes[0][0] for g in net._graphs.values()] == [3]
    with pytest.raises(ValueError, match="above 0"):
        net.hybridize(dynamic_batch=[0, 4])


class LanguageModel(gluon.HybridBlock):
    """The losses of words (T, N), given those before them: (T,)."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.embed, self.lstm = nn.Embedding(11, 5), rnn.LSTM(6, input_size=5)
        self.dropout, self.out = nn.Dropout(dropout), nn.Dense(11, flatten=False, in_units=6)
        self.loss = gluon.loss.SoftmaxCrossEntropyLoss()

    def forward(self, words, following):
        return self.loss(self.out(self.dropout(self.lstm(self.embed(words)))), following)


def language_model(**how):
    net = LanguageModel()
    net.initialize()
    numbers = onp.random.RandomState(0)
    for p in net.collect_params().values():
        p.set_data(mx.np.array(numbers.normal(0, 0.3, p.shape)))
    net.hybridize(**how)
    return net, gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})


def text(n):
    numbers = onp.random.RandomState(n)
    return [mx.np.array(numbers.randint(0, 11, (n, 2)), dtype="int32") for _ in range(2)]


def step(net, trainer, n):
    with autograd.record():
        loss = net(*text(n)).mean()
    loss.backward()
    trainer.step(1)
    return float(loss)


def test_a_language_model_trains_on_forty_lengths_by_six_programs():
    # With engine.cold=compile filling up and cutting off are two programs more for each length.
    mx.config.set({"engine.cold": "auto"})
    net, trainer = language_model(dynamic_batch=[16, 32, 48])
    before = mx.engine.stats()["compiled"]
    found = [step(net, trainer, n) for n in range(9, 49)]
    assert mx.engine.stats()["compiled"] - before <= 6
    assert sorted(g.shapes[0][0] for g in net._graphs.values()) == [16, 32, 48]
    exact, its_trainer = language_model()
    for n in (9, 10, 11):  # what was filled up has no part in losses and gradients
        onp.testing.assert_allclose(step(exact, its_trainer, n), found[n - 9], rtol=1e-5)


def test_gradients_of_inputs_and_of_several_results():
    class Net(gluon.HybridBlock):
        def forward(self, x, y):
            return mx.np.cumsum(x * y, axis=0), mx.np.exp(x), y

    def gradients(**how):
        net = Net()
        net.hybridize(**how)
        x, y = (mx.np.array(onp.random.RandomState(k).randn(5, 2)) for k in range(2))
        x.attach_grad(), y.attach_grad()
        with autograd.record():
            a, b, _ = net(x * 2, y)
            loss = (a * a).sum() + b[1:].sum()
        loss.backward()
        return x.grad.asnumpy(), y.grad.asnumpy()

    for one, other in zip(gradients(dynamic_batch=True), gradients(), strict=True):
        onp.testing.assert_allclose(one, other, rtol=1e-5)


def test_rows_that_depend_on_each_other_are_not_filled_up_in_training():
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=2), nn.BatchNorm(in_channels=3), nn.Dropout(0.5))
    net.initialize(mx.init.One())
    x = onp.random.RandomState(0).randn(5, 2)

    def run(**how):
        net.hybridize(**how)
        net[1].running_mean.set_data(mx.np.zeros(3)), net[1].running_var.set_data(mx.np.ones(3))
        mx.random.seed(3)
        with autograd.record():
            out = net(mx.np.array(x))
        return out.asnumpy(), net[1].running_mean.data().asnumpy(), net(mx.np.array(x)).asnumpy()

    for one, other in zip(run(dynamic_batch=True), run(), strict=True):
        onp.testing.assert_array_equal(one, other)


def test_dropout_does_not_make_rows_depend_on_each_other():
    net = LanguageModel(dropout=0.5)
    net.initialize()
    net.hybridize(dynamic_batch=True)
    for n in (5, 6, 7, 8):
        with autograd.record():
            net(*text(n))
    assert [g.shapes[0][0] for g in net._graphs.values()] == [8]


def test_a_block_that_is_recorded_again_and_again(caplog):
    net = Causal()
    net.hybridize()
    with caplog.at_level(logging.WARNING, "mxjax.gluon"):
        for n in range(1, shapes.MANY_SHAPES + 4):
            net(mx.np.ones((n, 2)))
            net(mx.np.ones((n, 2)))  # it comes back, and has a graph
    assert len(caplog.records) == 1
    assert "axis 0 of input 0 (1, 2, 3, 4, 5, ...)" in caplog.text
    assert "dynamic_batch" in caplog.text
