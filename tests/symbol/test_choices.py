"""Values that attributes cannot have are refused where a symbol is composed, as MXNet 1.9.1 and 2.0.0b1 refuse them."""

from __future__ import annotations

import pytest

import mxjax as mx
from mxjax.ops import TABLE

X, Y = mx.sym.var("x"), mx.sym.var("y")
sym = mx.sym

#: Recorded: real MXNet (both) raises MXNetError for each of these as it composes them.
REFUSED = {
    "act_type": lambda: sym.Activation(X, act_type="rleu"),
    "no word": lambda: sym.Activation(X, act_type=None),
    "no kind of pooling": lambda: sym.Pooling(X, kernel=(2, 2), pool_type=None),
    "leaky": lambda: sym.LeakyReLU(X, act_type="nope"),
    "pool_type": lambda: sym.Pooling(X, kernel=(2, 2), pool_type="nope"),
    "pooling_convention": lambda: sym.Pooling(X, kernel=(2, 2), pooling_convention="nope"),
    "layout": lambda: sym.Convolution(X, kernel=(2, 2), num_filter=2, layout="nope"),
    "tune": lambda: sym.Convolution(X, kernel=(2, 2), num_filter=2, cudnn_tune="nope"),
    "pad": lambda: sym.Pad(X, mode="nope", pad_width=(0, 0, 0, 0, 1, 1, 1, 1)),
    "sample_type": lambda: sym.UpSampling(X, scale=2, sample_type="nope"),
    "normalization": lambda: sym.SoftmaxOutput(X, normalization="nope"),
    "ret_typ": lambda: sym.topk(X, ret_typ="nope"),
    "take": lambda: sym.take(X, Y, mode="nope"),
    "pick": lambda: sym.pick(X, Y, mode="nope"),
    "dropout": lambda: sym.Dropout(X, mode="nope"),
    "grid": lambda: sym.GridGenerator(X, transform_type="nope", target_shape=(2, 2)),
    "l2": lambda: sym.L2Normalization(X, mode="nope"),
    "ctc": lambda: sym.ctc_loss(X, Y, blank_label="nope"),
    "nms": lambda: sym.contrib.box_nms(X, in_format="nope"),
    "stype": lambda: sym.cast_storage(X, stype="nope"),
    "norm": lambda: sym.norm(X, out_dtype="int7"),
    "no filters": lambda: sym.Convolution(X, kernel=(2, 2), num_filter=0),
    "no units": lambda: sym.FullyConnected(X, num_hidden=0),
    "half a unit": lambda: sym.FullyConnected(X, num_hidden=2.5),
    "a truth value": lambda: sym.FullyConnected(X, num_hidden=True),
    "two for a truth value": lambda: sym.FullyConnected(X, num_hidden=2, no_bias=2),
    "more than all": lambda: sym.Dropout(X, p=1.5),
    "less than none": lambda: sym.Dropout(X, p=-0.5),
    "half an axis": lambda: sym.expand_dims(X, axis=1.0),
    "a text for an axis": lambda: sym.transpose(X, axes="a"),
    "half a length": lambda: sym.reshape(X, shape=(1.5, 2)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_it_is_composed(name):
    with pytest.raises(mx.MXNetError, match=r"in operator|not understood|whole numbers"):
        REFUSED[name]()


def test_the_refusal_names_the_words_and_the_nearest():
    with pytest.raises(
        mx.MXNetError, match=r"got 'rleu', valid values are: 'relu', .*mean.*'relu'"
    ):
        REFUSED["act_type"]()


@pytest.mark.parametrize(
    "make",
    [
        lambda: sym.zeros((2,), dtype="nope"),
        lambda: sym.cast(X, dtype="nope"),
        lambda: sym.one_hot(X, depth=2, dtype="nope"),
    ],
)
def test_no_dtype(make):
    """MXNet asks NumPy, which raises TypeError."""
    with pytest.raises(TypeError, match="nope"):
        make()


def test_what_mxnet_takes_is_taken():
    """Recorded: MXNet composes these."""
    for made in (
        sym.FullyConnected(X, num_hidden="2"),
        sym.FullyConnected(X, num_hidden=2, no_bias="true"),
        sym.Dropout(X, p="0.5"),
        sym.BatchNorm(X, fix_gamma=1),
        sym.BatchNorm(X, momentum=2),
        sym.LeakyReLU(X, slope=1),
        sym.sum(X, axis=[0, 1]),
        sym.Convolution(X, kernel=(2, 2), num_filter=2, layout=None),
        sym.dot(X, Y, transpose_a=1),
    ):
        assert len(made.list_outputs()) == 1


def test_every_word_is_one_that_the_row_has_an_attribute_for():
    for row in TABLE.values():
        assert {*row.choices, *row.bounds} <= {*row.attr_params}, row.name


@pytest.mark.parametrize("groups", [0, -1])
def test_a_convolution_has_groups(groups):
    # MXNet composes it, and ends the process where it infers shapes
    with pytest.raises(mx.MXNetError, match="num_group"):
        sym.Convolution(X, kernel=(2, 2), num_filter=2, num_group=groups)
