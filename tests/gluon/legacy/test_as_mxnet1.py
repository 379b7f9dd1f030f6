"""What blocks show and write in MXNet 1's generation; texts and names are those of 1.9.1."""

from __future__ import annotations

import pytest

import mxjax as mx
from mxjax import gluon
from mxjax.gluon import nn


@pytest.fixture(autouse=True)
def mxnet1():
    with mx.config.scope({"compat.version": "1.9"}):
        yield


def test_texts_of_layers_and_parameters():
    assert repr(nn.Dense(4, activation="relu")) == "Dense(None -> 4, Activation(relu))"
    assert repr(nn.BatchNorm()).endswith("use_global_stats=False, in_channels=None)")
    conv = nn.Conv2D(3, (3, 2), strides=2, groups=3, use_bias=False)
    assert (
        repr(conv) == "Conv2D(None -> 3, kernel_size=(3, 2), stride=(2, 2), groups=3, bias=False)"
    )
    assert (
        repr(nn.Conv2DTranspose(2, 3, in_channels=3))
        == "Conv2DTranspose(2 -> 3, kernel_size=(3, 3), stride=(1, 1))"
    )
    assert repr(gluon.Parameter("w", shape=(2, 3))).startswith("Parameter w (shape=(2, 3), ")
    assert repr(gluon.contrib.nn.HybridConcurrent()).startswith("HybridConcurrent(")


def test_an_exported_network_has_its_layers_names(tmp_path):
    net = nn.HybridSequential(prefix="e_")
    with net.name_scope():
        net.add(
            nn.Conv2D(2, 3),
            nn.BatchNorm(),
            nn.Activation("relu"),
            nn.GlobalAvgPool2D(),
            nn.Flatten(),
            nn.Dense(3),
        )
    net.initialize()
    net.hybridize()
    data = mx.nd.random.uniform(shape=(1, 2, 5, 5))
    want = net(data)
    net.export(str(tmp_path / "net"))
    whole = mx.sym.load(str(tmp_path / "net-symbol.json"))
    inner = whole.get_internals()
    assert [n for n in inner.list_outputs() if n.endswith("_output")] == [
        "e_conv0_fwd_output", "e_batchnorm0_fwd_output", "e_relu0_fwd_output", "e_pool0_fwd_output",
        "e_flatten0_flatten0_output", "e_dense0_fwd_output",
    ]  # fmt: skip
    block = gluon.SymbolBlock.imports(
        str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params")
    )
    assert abs(block(data) - want).asnumpy().max() < 1e-5
    # Features are taken out with the parameters of the whole.
    part = gluon.SymbolBlock(
        inner["e_flatten0_flatten0_output"], mx.sym.var("data"), params=net.collect_params()
    )
    assert part(data).shape == (1, 2)


class _Asks(gluon.HybridBlock):
    def hybrid_forward(self, F, x):  # noqa: N803
        return F.reshape(x, shape=(x.shape[0], -1))


def test_a_network_that_asks_for_shapes_is_exported_as_it_ran(tmp_path):
    net = _Asks()
    net.hybridize()
    net(mx.nd.ones((2, 3, 4)))
    net.export(str(tmp_path / "net"))
    assert mx.sym.load(str(tmp_path / "net-symbol.json")).infer_shape(data=(2, 3, 4))[1] == [
        (2, 12)
    ]


def test_a_file_with_more_than_the_network_has(tmp_path):
    net = nn.Dense(2, in_units=2)
    net.initialize()
    net.save_parameters(str(tmp_path / "w"))
    other = nn.Dense(2, in_units=2, use_bias=False)
    with pytest.raises(ValueError, match="is not present in Dict"):
        other.load_parameters(str(tmp_path / "w"))


def test_what_a_scheduler_logs(caplog):
    schedule = mx.lr_scheduler.FactorScheduler(1, 0.5, stop_factor_lr=0.3, base_lr=1.0)
    with caplog.at_level("INFO"):
        schedule(2)
        schedule(3)
    assert [r.getMessage() for r in caplog.records] == [
        "Update[2]: Change learning rate to 5.00000e-01",
        "Update[3]: now learning rate arrived at 3.00000e-01, will not change in the future",
    ]


@pytest.mark.parametrize(
    ("name", "count", "some"),
    [
        (
            "resnet18_v1",
            102,
            ["net_conv0_weight", "net_stage1_batchnorm0_gamma", "net_stage4_conv4_weight"],
        ),
        ("squeezenet1.0", 52, ["net_conv0_bias", "net_conv25_weight"]),
        (
            "mobilenetv2_0.25",
            266,
            ["net_features_linearbottleneck16_conv2_weight", "net_output_pred_weight"],
        ),
        (
            "densenet121",
            606,
            ["net_stage4_conv31_weight", "net_batchnorm4_running_var", "net_dense0_bias"],
        ),
    ],
)
def test_names_of_the_model_zoo(name, count, some):
    net = gluon.model_zoo.vision.get_model(name, classes=7, prefix="net_")
    names = list(net.collect_params())
    assert (
        len(names) == count and set(some) <= set(names) and all(n.startswith("net_") for n in names)
    )
