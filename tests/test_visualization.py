"""Tables and pictures of symbols."""

from __future__ import annotations

import pytest

import mxjax as mx

# What real MXNet 2.0.0b1 prints, but for fc1: it has 10 x (4 x 3 x 3) weights and 10 biases, and MXNet counts 4 inputs.
TABLE = """
________________________________________________________________________________
Layer (type)                       Output Shape    Param # Previous Layer
================================================================================
data(null)                         3x8x8           0
________________________________________________________________________________
conv1(Convolution)                 4x3x3           112     data
________________________________________________________________________________
bn1(BatchNorm)                     4x3x3           8       conv1
________________________________________________________________________________
relu1(Activation)                  4x3x3           0       bn1
________________________________________________________________________________
fc1(FullyConnected)                10              370     relu1
================================================================================
Total params: 490
________________________________________________________________________________
"""


def network():
    data = mx.sym.var("data")
    conv = mx.sym.Convolution(data=data, name="conv1", num_filter=4, kernel=(3, 3), stride=(2, 2))
    bn = mx.sym.BatchNorm(data=conv, name="bn1")
    act = mx.sym.Activation(data=bn, name="relu1", act_type="relu")
    return mx.sym.FullyConnected(data=act, name="fc1", num_hidden=10)


def test_print_summary(capsys):
    mx.viz.print_summary(network(), {"data": (1, 3, 8, 8)}, line_length=80)
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == TABLE.splitlines()[
        1:
    ]
    mx.viz.print_summary(network(), line_length=60)
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "(" in line]
    assert [row[:2] for row in rows[1:]] == [  # without shapes the biases are what is known
        ["data(null)", "0"], ["conv1(Convolution)", "4"], ["bn1(BatchNorm)", "0"], ["relu1(Activation)", "0"],
        ["fc1(FullyConnected)", "10"],
    ]  # fmt: skip
    with pytest.raises(ValueError, match="incomplete"):
        mx.viz.print_summary(network(), {})
    with pytest.raises(TypeError, match="must be Symbol"):
        mx.viz.print_summary(3)


def test_plot_network():
    pytest.importorskip("graphviz", reason="an extra: mxjax[export]")
    made = mx.viz.plot_network(network(), shape={"data": (1, 3, 8, 8)}, dtype={"data": "float16"})
    text = made.source
    assert "conv1_weight" not in text and "conv1 -> data" in text and "3x8x8 (float16)" in text
    shown = mx.viz.plot_network(network(), hide_weights=False).source
    assert (
        "conv1 -> conv1_weight" in shown and "conv1_weight [label=conv1" not in shown
    )  # no look of its own
    again = mx.sym.FullyConnected(network(), num_hidden=2, name="fc1")
    with pytest.warns(RuntimeWarning, match="multiple variables with the same name.*fc1"):
        mx.viz.plot_network(again)
