"""Inputs of many lengths: few graphs where rows do not depend on each other, and a word where there are many."""

import logging

import numpy as onp
import pytest

import mxjax as mx
from mxjax import gluon
from mxjax.gluon import shapes


class Causal(gluon.HybridBlock):
    """Each row is the sum of those up to it: filling up at the end changes no result."""

    def forward(self, x):
        return mx.np.cumsum(x, axis=0)


def test_forty_lengths_by_six_graphs():
    net = Causal()
    net.hybridize(dynamic_batch=[8, 16, 24, 32, 40])
    x = onp.arange(48, dtype="float32").reshape(48, 1)
    for n in range(1, 49):
        onp.testing.assert_allclose(net(mx.np.array(x[:n])).asnumpy(), onp.cumsum(x[:n], axis=0))
    lengths = sorted(g.shapes[0][0] for g in net._graphs.values())
    assert lengths == [8, 16, 24, 32, 40, *range(41, 49)]  # beyond the last, each by itself


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


def test_a_block_that_is_recorded_again_and_again(caplog):
    net = Causal()
    net.hybridize()
    with caplog.at_level(logging.WARNING, "mxjax.gluon"):
        for n in range(1, shapes.MANY_SHAPES + 4):
            net(mx.np.ones((n, 2)))
    assert len(caplog.records) == 1
    assert "axis 0 of input 0 (1, 2, 3, 4, 5, ...)" in caplog.text
    assert "dynamic_batch" in caplog.text
