"""Deferred computation: symbols of what ran."""

from __future__ import annotations

import numpy as np
import pytest

import mxjax as mx
import mxjax._deferred_compute as dc


def test_a_symbol_of_what_ran():
    x = mx.np.arange(10.0)
    dc.set_variable(x, mx.sym.var("x").as_np_ndarray())
    with dc.context():
        y = x + mx.np.arange(10)
        z = mx.np.concatenate([y[:5], y[7::-2], y[3:4]]) * 2
        w = z.reshape(5, 2)[1:3, 1] + y[4]
    symbol = dc.get_symbol([y, z, w], sym_cls=mx.sym.np._Symbol)
    assert symbol.list_inputs() == ["x"] and type(symbol) is mx.sym.np._Symbol
    for made in (symbol, mx.sym.load_json(symbol.tojson())):
        for got, want in zip(made.eval(x=mx.np.arange(10.0)), (y, z, w), strict=True):
            assert got.asnumpy().tolist() == want.asnumpy().tolist()
    (other,) = dc.get_symbol(y).eval(x=mx.np.ones(10))
    assert other.asnumpy().tolist() == (np.arange(10) + 1).tolist()


def test_hybridized_blocks_and_random_numbers_are_part_of_it():
    net = mx.gluon.nn.Dense(2, use_bias=False, in_units=3)
    net.initialize(mx.init.One())
    net.hybridize()
    x, w = mx.np.ones((1, 3)), net.weight.data()
    dc.set_variable([x, w], [mx.sym.var("x"), mx.sym.var("w")])
    with dc.context():
        y = net(x) + mx.np.random.uniform(0, 1, (1, 2))
    symbol = dc.get_symbol(y)
    made = symbol.eval(x=mx.np.ones((1, 3)), w=mx.np.ones((2, 3)))[0].asnumpy()
    assert symbol.list_inputs() == ["x", "w"] and ((made >= 3) & (made < 4)).all()


def test_lookups_are_operators():
    x = mx.np.array([0.0, 2, 0, 3])
    mask = x > 1
    dc.set_variable(
        [x, mask], [mx.sym.var("x").as_np_ndarray(), mx.sym.var("mask").as_np_ndarray()]
    )
    with dc.context():
        made = [
            mx.np.flatnonzero(x) + 1,
            mx.npx.nonzero(x),
            mx.np._internal.boolean_mask(x, x),
            x[mask] * 2,
        ]
    symbol = mx.sym.load_json(dc.get_symbol(made, sym_cls=mx.sym.np._Symbol).tojson())
    assert symbol.list_inputs() == ["x", "mask"]
    other = {
        "x": mx.np.array([1.0, 0, 5, 6]),
        "mask": mx.np.array([True, True, True, False], dtype=bool),
    }
    got = [a.asnumpy().tolist() for a in symbol.eval(**other)]
    assert got == [[1, 3, 4], [[0], [2], [3]], [1, 5, 6], [2, 0, 10]]
    dc.clear([x, mask])


def test_lookups_have_gradients_of_zero():
    x = mx.np.array([0.0, 2, 0, 3])
    x.attach_grad()
    with mx.autograd.record():
        y = mx.np.flatnonzero(x)
    y.backward()
    assert y.tolist() == [1, 3] and x.grad.tolist() == [0, 0, 0, 0]


def test_what_cannot_be_a_symbol():
    x = mx.np.arange(4.0)
    dc.set_variable(x, mx.sym.var("x"))
    with pytest.raises(mx.MXNetError, match="already"):
        dc.set_variable(x, mx.sym.var("y"))
    with dc.context(), pytest.raises(mx.MXNetError, match="no assignment"):
        x[:2] = 0
    with dc.context(), pytest.raises(TypeError, match="index"):
        x[[1, 2]]
    with pytest.raises(mx.MXNetError, match="not computed in deferred computation"):
        dc.get_symbol(mx.np.ones(3) + 1)
    with dc.context():
        made = x + mx.np.array([1.0, 2, 3, 4])
    with pytest.raises(mx.MXNetError, match="shape \\(4,\\)"):
        dc.get_symbol(made)
    dc.clear(x)
    dc.set_variable(x, mx.sym.var("y"))


def test_it_is_off_outside():
    assert not dc.is_deferred_compute()
    with dc.context():
        assert dc.is_deferred_compute()
        with dc.context(False):
            assert not dc.is_deferred_compute()
    assert not dc.set_deferred_compute(False)


def test_what_moves_to_another_device_stays_part_of_it():
    a = mx.np.arange(4.0)
    dc.set_variable(a, mx.sym.var("a").as_np_ndarray())
    with dc.context():
        moved = (a.to_device(mx.cpu(1)) - 1).to_device(mx.cpu(0))
    assert dc.get_symbol(moved).eval(a=a)[0].asnumpy().tolist() == [-1, 0, 1, 2]
