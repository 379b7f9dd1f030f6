"""Blocks: structure, names, files, hooks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd
from mxjax.gluon import Block, Constant, HybridBlock, Parameter, nn

FORMATS = Path(__file__).parent.parent / "data" / "formats"


class Scaled(HybridBlock):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(3, in_units=2)
        self.scale = Parameter("scale", shape=(1,), init="ones")
        self.offset = Constant([1.0])

    def forward(self, x):
        return self.dense(x) * self.scale.data(x.device) + self.offset.data(x.device)


class Nested(Block):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential()
        self.body.add(Scaled(), nn.BatchNorm(in_channels=3))
        self.head = nn.Dense(1, in_units=3, use_bias=False)

    def forward(self, x):
        return self.head(self.body(x))


NAMES = [
    "body.0.scale", "body.0.offset", "body.0.dense.weight", "body.0.dense.bias", "body.1.gamma",
    "body.1.beta", "body.1.running_mean", "body.1.running_var", "head.weight",
]  # fmt: skip


def nested():
    net = Nested()
    net.initialize(init=mx.init.Normal(1.0))
    return net


def values(net):
    return {name: p.data().asnumpy() for name, p in net.collect_params().items()}


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


def test_names_are_paths_of_attributes():
    net = Nested()
    assert list(net.collect_params()) == NAMES
    assert list(net.params) == [] and list(net.body[0].params) == ["scale", "offset"]


def test_collect_params_selects_by_a_regular_expression():
    net = Nested()
    assert list(net.collect_params(".*weight")) == ["body.0.dense.weight", "head.weight"]
    assert list(net.collect_params(".*bias|head")) == ["body.0.dense.bias", "head.weight"]
    assert list(net.collect_params("weight")) == []


def test_setattr_zero_grad_and_apply_reach_everything():
    net = nested()
    net.setattr("lr_mult", 0.5)
    assert {p.lr_mult for p in net.collect_params().values()} == {0.5}
    seen = []
    assert net.apply(lambda b: seen.append(type(b).__name__)) is net
    assert seen == ["Dense", "Scaled", "BatchNorm", "Sequential", "Dense", "Nested"]
    with autograd.record():
        y = net(mx.np.ones((4, 2))).sum()
    y.backward()
    net.zero_grad()
    grads = [p.grad() for p in net.collect_params().values() if p.grad_req != "null"]
    assert not any(g.asnumpy().any() for g in grads)


def test_attributes_keep_their_kind():
    net = Nested()
    with pytest.raises(TypeError, match="Changing attribute type for head"):
        net.head = 3
    net.head = nn.Dense(2, in_units=3)
    assert net.collect_params()["head.bias"].shape == (2,)


def test_blocks_in_lists_are_warned_of_and_deleted_ones_are_gone():
    class Listed(Block):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Dense(2)]

    net = Listed()
    with pytest.warns(UserWarning, match=r"Listed\.layers.*unregistered container"):
        assert not net.collect_params()
    net.register_child(net.layers[0])
    assert list(net.collect_params()) == ["0.weight", "0.bias"]
    net = Nested()
    del net.head
    assert "head.weight" not in net.collect_params()


def test_misspelled_options_are_refused_where_they_are_given():
    with pytest.raises(TypeError, match="Conv2D got .*'kernal_size'; did you mean 'kernel_size'"):
        nn.Conv2D(10, kernal_size=3)
    with pytest.raises(ValueError, match="'rleu'; did you mean 'relu'"):
        nn.Dense(10, activation="rleu")

    class Any(nn.HybridSequential):
        def __init__(self, **options):
            super().__init__()
            self.options = options

    assert Any(whatever=1).options == {"whatever": 1}


def test_super_comes_first():
    class Late(Block):
        def __init__(self):
            self.dense = nn.Dense(2)

    with pytest.raises(AttributeError, match=r"super\(\).__init__\(\) first"):
        Late()


def test_numpy_arrays_are_refused_with_the_way_out():
    net = nn.Dense(2)
    net.initialize()
    with pytest.raises(ValueError, match="mx.np.array"):
        net(np.ones((2, 3)))
    net.hybridize()
    with pytest.raises(ValueError, match="one NDArray in the input"):
        net(np.ones((2, 3)))


def test_a_block_defines_forward():
    with pytest.raises(NotImplementedError, match="does not define forward"):
        Block()(mx.np.ones(1))
    with pytest.raises(ValueError, match="must also be HybridBlock"):
        nn.HybridSequential().add(Nested())


def test_shared_parameters_are_one():
    a, b = nn.Dense(2, in_units=3), nn.Dense(2, in_units=3)
    b.share_parameters(a.collect_params())
    assert a.weight is b.weight and a.bias is b.bias
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=3), nn.Dense(3, in_units=3))
    net[1].share_parameters(net[0].params)
    net.initialize(init=mx.init.Normal(0.5))
    x = mx.np.array([[1.0, 2.0, 3.0]])
    with autograd.record():
        y = net(x).sum()
    y.backward()
    w, bias = (p.data().asnumpy() for p in (net[0].weight, net[0].bias))
    h, ones = x.asnumpy() @ w.T + bias, np.ones((1, 3))
    want = ones.T @ h + (ones @ w).T @ x.asnumpy()
    np.testing.assert_allclose(net[0].weight.grad().asnumpy(), want, rtol=1e-5)
    with pytest.raises(ValueError, match="should be in type of Dict"):
        a.share_parameters(b)


@pytest.mark.parametrize("deduplicate", [False, True])
def test_files_bring_parameters_back(tmp_path, deduplicate):
    net, other = nested(), nested()
    assert not same(values(net), values(other))
    net.save_parameters(tmp_path / "x.params", deduplicate=deduplicate)
    other.load_parameters(tmp_path / "x.params")
    assert same(values(net), values(other))
    fresh = Nested()
    fresh.load_parameters(str(tmp_path / "x.params"), device=mx.cpu(1))
    assert same(values(net), values(fresh)) and fresh.head.weight.list_device() == [mx.cpu(1)]


def test_a_file_with_shared_parameters_is_loaded_by_any_name(tmp_path):
    def net():
        made = nn.HybridSequential()
        made.add(nn.Dense(3, in_units=3), nn.Dense(3, in_units=3))
        made[1].share_parameters(made[0].params)
        made.initialize()
        return made

    a, b = net(), net()
    a.save_parameters(tmp_path / "x.params", deduplicate=True)
    b.load_parameters(tmp_path / "x.params")
    assert same(values(a), values(b))


def conv():
    class Net(HybridBlock):
        def __init__(self):
            super().__init__()
            self.features = nn.HybridSequential()
            self.features.add(
                nn.Conv2D(4, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"),
                nn.MaxPool2D(2, 2), nn.Conv2D(6, 3, groups=2), nn.LeakyReLU(0.1), nn.Dropout(0.5),
                nn.GlobalAvgPool2D(), nn.Flatten(),
            )  # fmt: skip
            self.output = nn.Dense(5)

        def forward(self, x):
            return self.output(self.features(x))

    return Net()


@pytest.mark.parametrize("version", ["mxnet191", "mxnet200"])
def test_networks_of_mxnet_compute_the_same_here(version):
    want = np.load(FORMATS / version / "conv.expected.npz")
    net = conv()
    net.load_parameters(FORMATS / version / "conv.params")
    x = mx.np.array(want["data"])
    np.testing.assert_allclose(net(x).asnumpy(), want["output"], rtol=1e-5, atol=1e-6)
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), want["output"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "change, text",
    [
        (lambda d: d.pop("head.weight"), "'head.weight' is missing.*allow_missing=True"),
        (lambda d: d.update(extra=np.ones(1)), "'extra' loaded.*ignore_extra=True"),
        (
            lambda d: d.update({"head.weight": np.ones((1, 4), "float32")}),
            r"\(1, 3\) vs saved \(1, 4\)",
        ),
        (
            lambda d: d.update({"head.weight": np.ones((1, 3))}),
            "float32 vs saved float64.*cast_dtype=True",
        ),
    ],
)
def test_files_that_do_not_fit_change_nothing(change, text):
    net = nested()
    before = values(net)
    given = {name: np.zeros_like(v) for name, v in before.items()}
    change(given)
    with pytest.raises(ValueError if "extra" in text else AssertionError, match=text):
        net.load_dict(given)
    assert same(values(net), before)


def test_what_may_differ_from_a_file():
    net = nested()
    net.load_dict({"head.weight": np.ones((1, 3), "float32"), "extra": np.ones(1)},
                  allow_missing=True, ignore_extra=True)  # fmt: skip
    assert (net.head.weight.data().asnumpy() == 1).all()
    given = {"arg:head.weight": np.full((1, 3), 2.0)}
    net.load_dict(given, allow_missing=True, cast_dtype=True)
    assert net.head.weight.dtype == "float32" and (net.head.weight.data().asnumpy() == 2).all()
    net.load_dict(given, allow_missing=True, cast_dtype=True, dtype_source="saved")
    assert net.head.weight.dtype == net.head.weight.data().dtype == "float64"


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(mx.MXNetError, match="nothere"):
        nested().load_parameters(tmp_path / "nothere")


def test_hooks_see_inputs_and_outputs():
    net, seen = nn.Dense(2, in_units=3), []
    net.initialize()
    before = net.register_forward_pre_hook(lambda b, given: seen.append(("pre", b, given[0].shape)))
    after = net.register_forward_hook(lambda b, given, out: seen.append(("post", b, out.shape)))
    net(mx.np.ones((4, 3)))
    assert seen == [("pre", net, (4, 3)), ("post", net, (4, 2))]
    before.detach()
    after.detach()
    net(mx.np.ones((4, 3)))
    assert len(seen) == 2


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_networks_in_other_dtypes(dtype):
    net = nn.HybridSequential()
    net.add(nn.Dense(3, activation="tanh"), nn.Dense(1))
    net.initialize()
    net.cast(dtype)
    x = mx.np.array([[0.1, 0.2]], dtype=dtype)
    for _ in range(2):
        with autograd.record():
            y = net(x)
        y.backward()
        assert y.dtype == dtype and net[0].weight.grad().dtype == dtype
        net.hybridize()


def test_summary_needs_an_imperative_network():
    net = nn.Dense(2)
    net.initialize()
    net.hybridize()
    with pytest.raises(AssertionError, match="hybridize\\(False\\)"):
        net.summary(mx.np.ones((1, 2)))


def test_wrong_shapes_name_operator_shapes_and_block():
    net = nn.HybridSequential()
    net.add(nn.Dense(3), nn.Dense(2))
    net.initialize()
    net(mx.np.ones((2, 4)))
    for _ in range(2):
        with pytest.raises(
            mx.MXNetError, match=r"(?s)FullyConnected.*in block .*0.*\[2, 5\].*\[3, 4\]"
        ):
            net(mx.np.ones((2, 5)))
        net.hybridize()
    assert net(mx.np.ones((2, 4))).shape == (2, 2)


def test_deferred_shapes_are_found_per_layer():
    net = nn.Sequential()
    net.add(nn.Conv2D(2, 3), nn.Flatten(), nn.Dense(3))
    net.initialize()
    assert net[2].weight.shape == (3, -1)
    net(mx.np.zeros((1, 3, 6, 6)))
    assert net[0].weight.shape == (2, 3, 3, 3) and net[2].weight.shape == (3, 32)


def test_cast_before_the_first_forward():
    net = nn.Dense(2)
    net.initialize()
    net.cast("float64")
    assert net(mx.np.ones((1, 3), dtype="float64")).dtype == "float64"


def test_a_notebook_shows_the_layers_with_their_parameters():
    net = nn.HybridSequential()
    net.add(nn.Dense(4, in_units=3, activation="relu"), nn.Dense(2))
    text = net._repr_html_()
    assert "(0) Dense(3 -&gt; 4, Activation(relu))</code> 16 parameters" in text
    assert "(1) Dense(-1 -&gt; 2, linear)</code> parameters of shapes still unknown" in text
    net.initialize()
    net(mx.np.ones((1, 3)))
    text = net._repr_html_()
    assert (
        "HybridSequential</code> 26 parameters" in text
        and text.count("<details") == text.count("</details>") == 1
    )
