"""Weights with their axes in the order in which XLA computes with them."""

import re

import numpy as np
import pytest

import mxjax as mx
from mxjax.effects.layout import turned
from mxjax.gluon import nn

SHAPE = (16, 8, 3, 3)


@pytest.fixture(autouse=True)
def convolutions_stay_convolutions(monkeypatch):
    """Small ones would be lowered to matrix products on a CPU."""
    monkeypatch.setattr("mxjax.ops.lowering.convolution_plan.VALUE_BYTES", 0)
    monkeypatch.setattr("mxjax.ops.lowering.convolution_plan.WEIGHT_BYTES", 0)


def order(array):
    return tuple(array.jax.format.layout.major_to_minor)


def orders(compiled):
    return [
        tuple(f.layout.major_to_minor)
        for f in compiled.input_formats[0]
        if len(f.layout.major_to_minor) == 4
    ]


def trained(on, programs, tmp_path):
    net = nn.HybridSequential()
    net.add(nn.Conv2D(16, 3, in_channels=8, use_bias=False), nn.GlobalAvgPool2D(), nn.Flatten())
    net.initialize(mx.init.Constant(0.01))
    net[0].weight.set_data(mx.np.array(np.linspace(-1, 1, 16 * 72).reshape(SHAPE)))
    net.hybridize()
    weight = net[0].weight
    x = mx.np.array(np.linspace(0, 1, 2 * 8 * 100).reshape(2, 8, 10, 10))
    programs.clear()
    with mx.config.scope(variable_format_optimize=on):
        out = net(x).asnumpy()
    inputs = orders(programs[-1][0])
    first = order(weight.data())
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    counts = []
    for _ in range(3):
        mx.engine.reset()
        with mx.autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        trainer.step(2)
        loss.wait_to_read()
        counts.append((mx.engine.stats()["compiled"], mx.engine.stats()["donated"]))
    net.save_parameters(str(tmp_path / "w.params"))
    numbers = weight.data().asnumpy()
    after = order(weight.data())
    net.load_parameters(str(tmp_path / "w.params"))
    np.testing.assert_array_equal(weight.data().asnumpy(), numbers)
    assert order(weight.data()) == first
    return out, numbers, inputs, (first, after), counts[-1]


@pytest.mark.observes("variable_format_optimize")
def test_weights_of_convolutions_are_turned_round_once(programs, tmp_path):
    with mx.config.scope(engine_cold="compile"):  # NumPy would keep no order
        usual, friendly = [trained(on, programs, tmp_path) for on in (0, 1)]
    assert usual[3] == ((0, 1, 2, 3),) * 2 and usual[2] == [(0, 1, 2, 3)] * 2
    assert (
        friendly[3] == ((2, 3, 1, 0),) * 2
    )  # height, width, inputs, outputs: before and after three updates
    assert sorted(friendly[2]) == [(0, 1, 2, 3), (2, 3, 1, 0)]  # the program takes it as it lies
    assert (
        friendly[4] == usual[4] and friendly[4][0] == 0
    )  # nothing compiled at each step, as much donated
    np.testing.assert_array_equal(friendly[0], usual[0])
    np.testing.assert_allclose(friendly[1], usual[1], rtol=1e-6, atol=1e-7)


def test_an_array_in_another_order_is_an_array_as_any(programs):
    from mxjax.core.placement.memory import laid_out

    numbers = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    x = mx.np.array(numbers)
    x._set(laid_out(x._value(), (2, 0, 1)))
    assert order(x) == (2, 0, 1)
    same = mx.np.from_jax(x.jax)
    for y in (
        x,
        same,
        x.copy(),
        x.to_device(mx.cpu(1)),
        x * 1,
        x.reshape((6, 4)).reshape((2, 3, 4)),
    ):
        np.testing.assert_array_equal(y.asnumpy(), numbers)
        assert float((y + 1).sum()) == numbers.sum() + 24
    np.testing.assert_array_equal(x[1, :, 2].asnumpy(), numbers[1, :, 2])
    np.testing.assert_array_equal(np.from_dlpack(x), numbers)
    x[0] = 7
    assert x.asnumpy()[0].min() == 7 and x.asnumpy()[1, 2, 3] == 23


def test_what_turns_an_operand_round_is_read_from_a_program():
    text = """
  %p.1 = f32[16,8,3,3]{3,2,1,0} parameter(0)
  %t = f32[3,3,8,16]{1,0,2,3} transpose(%p.1), dimensions={2,3,1,0}
  %q = f32[2,8,9,9]{3,2,1,0} parameter(1)
  %u = f32[2,9,9,8]{2,1,3,0} transpose(%q), dimensions={0,2,3,1}"""
    assert turned(text, SHAPE) == (2, 3, 1, 0)
    assert turned(text, (2, 8, 9, 9)) == (0, 2, 3, 1)
    assert turned(text, (4, 4)) is None
    assert turned(re.sub("2,3,1,0}$", "0,1,2,3}", text, flags=re.M), SHAPE) is None
