"""Private methods of MXNet's classes that programs call, or override in subclasses; the values are MXNet 1.9.1's."""

import os

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon, nd
from mxjax.gluon.data.vision import transforms


def test_rows_and_slices_of_an_array():
    array = nd.array([[1.0, 2], [3, 4]])
    np.testing.assert_array_equal(array._slice(0, 1).asnumpy(), [[1, 2]])
    array._at(0)[:] = 9
    np.testing.assert_array_equal(array.asnumpy(), [[9, 9], [3, 4]])
    array._sync_copyfrom(np.ones((2, 2)))
    np.testing.assert_array_equal(array.asnumpy(), np.ones((2, 2)))
    with pytest.raises(ValueError, match="Shape inconsistent"):
        array._sync_copyfrom(np.ones(3))


def test_an_optimizer_that_calls_the_update_of_its_base():
    class Doubled(mx.optimizer.SGD):
        def update(self, index, weight, grad, state):
            self._update_impl(index, weight, grad * 2, state, multi_precision=False)

    optimizer = Doubled(momentum=0.9, learning_rate=0.1)
    weight = nd.ones(2)
    state = optimizer.create_state(0, weight)
    optimizer.update(0, weight, nd.ones(2), state)
    np.testing.assert_allclose(weight.asnumpy(), [0.8, 0.8], rtol=1e-6)
    optimizer._set_current_context(1)
    assert optimizer._index_update_count == {}
    changed = mx.optimizer.RMSProp(gamma1=0.8)
    assert (changed.gamma1, changed.gamma2) == (0.8, 0.9)


def test_a_trainer_with_its_own_optimizer_and_scale():
    class Scaled(gluon.Trainer):
        def _init_optimizer(self, optimizer, optimizer_params):
            super()._init_optimizer(optimizer, dict(optimizer_params, learning_rate=0.5))

        def _check_and_rescale_grad(self, scale):
            super()._check_and_rescale_grad(scale * 2)

    net = gluon.nn.Dense(1, in_units=2)
    net.initialize("ones")
    trainer = Scaled(net.collect_params(), "sgd", {"learning_rate": 0.1})
    for _ in range(2):
        with autograd.record():
            loss = net(mx.np.ones((4, 2))).sum()
        loss.backward()
        trainer.step(4)
    np.testing.assert_allclose(net.weight.data().asnumpy(), [[-1, -1]], rtol=1e-6)


@pytest.mark.parametrize("kvstore", [None, "local"])
def test_a_trainer_that_sums_gradients_itself(kvstore):
    class Between(gluon.Trainer):
        def _allreduce_grads(self):
            for param in self._params:
                for grad in param.list_grad():
                    grad[:] = grad * 2

    net = gluon.nn.Dense(1, in_units=2, use_bias=False)
    net.initialize("ones")
    trainer = Between(
        net.collect_params(),
        "sgd",
        {"learning_rate": 0.25},
        kvstore=kvstore,
        update_on_kvstore=False,
    )
    for wanted in ([0.5, 0.5], [0, 0]):
        with autograd.record():
            loss = net(mx.np.ones((4, 2))).sum()
        loss.backward()
        trainer.step(4)
        np.testing.assert_allclose(net.weight.data().asnumpy(), [wanted], atol=1e-6)


def test_a_dataset_that_looks_for_other_files(tmp_path):
    class Numbers(gluon.data.vision.ImageFolderDataset):
        def _list_images(self, root):
            self._exts = [".dat"]
            super()._list_images(root)
            self.items = [(os.path.basename(name), label) for name, label in self.items]

    for name in ("a/1.dat", "b/2.dat", "b/3.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    with pytest.warns(UserWarning, match="3.png"):
        found = Numbers(str(tmp_path))
    assert found.items == [("1.dat", 0), ("2.dat", 1)] and found.synsets == ["a", "b"]


def test_a_block_that_names_its_parameters_otherwise(tmp_path):
    class Renamed(gluon.nn.HybridSequential):
        def _collect_params_with_prefix(self, prefix=""):
            found = super()._collect_params_with_prefix(prefix)
            return {name.replace("0.", "first."): param for name, param in found.items()}

    net = Renamed()
    net.add(gluon.nn.Dense(2, in_units=2))
    net.initialize("ones")
    path = str(tmp_path / "net.params")
    net.save_parameters(path)
    assert sorted(mx.npx.load(path)) == ["first.bias", "first.weight"]
    net[0].weight.set_data(np.zeros((2, 2)))
    net.load_parameters(path)
    np.testing.assert_array_equal(net[0].weight.data().asnumpy(), np.ones((2, 2)))


def test_a_child_that_names_its_parameters_otherwise(tmp_path):
    class Projections(gluon.nn.Dense):
        def _collect_params_with_prefix(self, prefix=""):
            found = super()._collect_params_with_prefix(prefix)
            return {f"{prefix}._proj.{name.split('.')[-1]}": p for name, p in found.items()}

    net = gluon.nn.Sequential()
    net.add(gluon.nn.Dense(3, in_units=2), Projections(2, in_units=3))
    net.initialize("ones")
    path, older = str(tmp_path / "net.params"), str(tmp_path / "older.params")
    net.save_parameters(path)
    assert sorted(mx.npx.load(path)) == ["0.bias", "0.weight", "1._proj.bias", "1._proj.weight"]
    mx.npx.savez(older, **{name: p.data() for name, p in net._walk("")})
    for file in path, older:  # a file with the places, too
        net[1].weight.set_data(np.zeros((2, 3)))
        net.load_parameters(file)
        np.testing.assert_array_equal(net[1].weight.data().asnumpy(), np.ones((2, 3)))


def test_keys_as_slices():
    key = (1, slice(0, 3), -1)
    slices, axes = nd.NDArray._basic_indexing_key_int_to_slice(key)
    assert slices == (slice(1, 2), slice(0, 3), slice(-1, None))
    assert axes == (0, 2)
    parts = (slice(None, None, 2), slice(-1, None), slice(3, None, -2))
    assert nd.NDArray._basic_indexing_sliced_shape(parts, (2, 3, 4)) == (1, 1, 2)
    begins = nd.NDArray._basic_indexing_key_to_begin_end_step
    assert begins(parts, (2, 3, 4)) == ((None, -1, 3), (None, None, None), (2, None, -2))
    assert begins(parts, (2, 3, 4), keep_none=False) == ((0, 2, 3), (2, 3, -1), (2, 1, -2))
    ends = nd.NDArray._basic_indexing_contiguous_flat_begin_end
    assert ends((slice(1, 2), slice(1, 3), slice(0, 4)), (2, 3, 4)) == (16, 24)
    assert nd.NDArray._drop_int_axes((2, 1, 3, 1), (1, 3)) == (2, 3)
    assert nd.NDArray._drop_int_axes((1,), (0,)) == (1,)
    assert nd.NDArray._drop_slice_none_at_end((1, slice(None))) == (1,)


@pytest.mark.parametrize(
    ("key", "places", "new"),
    [
        (([0, 1], [1, 2], [0, 0]), [[0, 1], [1, 2], [0, 0]], ()),
        (
            (slice(None), [1, 2], [0, 0]),
            [[[0, 0], [1, 1]], [[1, 2], [1, 2]], [[0, 0], [0, 0]]],
            (),
        ),
        (([0, 1], slice(0, 2), slice(None)), [[[0, 0], [1, 1]], [[0, 1], [0, 1]]], ()),
        (
            (None, [0, 1], slice(None), 1),
            [[[0, 0, 0], [1, 1, 1]], [[0, 1, 2], [0, 1, 2]], [[1, 1, 1], [1, 1, 1]]],
            (1,),
        ),
    ],
)
def test_an_advanced_key_as_positions(key, places, new):
    array = nd.array(np.arange(24).reshape(2, 3, 4))
    indices, axes = array._get_index_nd(key)
    assert indices.dtype == np.int64
    np.testing.assert_array_equal(indices.asnumpy(), places)
    assert axes == new
    array._set_nd_advanced_indexing(key, -1)
    assert (array._get_nd_advanced_indexing(key).asnumpy() == -1).all()
    assert (array.asnumpy() == -1).sum() == np.unique(
        np.reshape(places, (len(places), -1)), axis=1
    ).shape[1] * (4 if len(places) == 2 else 1)


def test_values_for_a_part():
    array = nd.zeros((2, 2), dtype="int32")
    made = array._prepare_value_nd(np.array([[1.0], [2.7]]), (2,), squeeze_axes=(1,))
    assert made.dtype == np.int32
    np.testing.assert_array_equal(made.asnumpy(), [1, 2])
    np.testing.assert_array_equal(array._prepare_value_nd([1, 2], (2, 2)).asnumpy(), [[1, 2]] * 2)
    with pytest.raises(ValueError, match="broadcast"):
        array._prepare_value_nd([[1, 2, 3]], (2, 2))
    with pytest.raises(TypeError, match="assignment with non-array-like"):
        array._prepare_value_nd("a", (2,))
    array._scatter_set_nd(nd.array([7, 8]), nd.array([[0, 1], [1, 1]]))
    np.testing.assert_array_equal(array.asnumpy(), [[0, 7], [0, 8]])
    assert array._full(3) is array
    np.testing.assert_array_equal(array.asnumpy(), [[3, 3], [3, 3]])


def test_what_transforms_keep():
    first = {
        "RandomBrightness": (0.7, 1.3),
        "RandomSaturation": (0.7, 1.3),
        "RandomHue": (0.7, 1.3),
    }
    assert {name: getattr(transforms, name)(0.3)._args for name in first} == first
    assert transforms.RandomContrast(1.3)._args == (0, 2.3)
    assert transforms.RandomColorJitter(0.1, 0.2, 0.3, 0.4)._args == (0.1, 0.2, 0.3, 0.4)
    assert transforms.CenterCrop((3, 4), 2)._args == (3, 4, 2)
    with mx.config.scope(compat_version="1.9"):
        assert transforms.CenterCrop(3)._args == ((3, 3), 1)
    assert transforms.RandomCrop(3)._args == ((0, 1), (0, 1), 3, 3, 1)
    crop = transforms.CropResize(1, 2, 3, 4, 5)
    assert (crop._x, crop._y, crop._width, crop._height) == (1, 2, 3, 4)
    assert (crop._size, crop._interpolation) == (5, None)


def test_the_shares_of_colours_that_augmenters_keep():
    gray = np.array([[[0.299, 0.587, 0.114]]], np.float32)
    np.testing.assert_array_equal(mx.image.ContrastJitterAug(0.1).coef.asnumpy(), gray)
    np.testing.assert_array_equal(mx.image.SaturationJitterAug(0.1).coef.asnumpy(), gray)
    mat = mx.image.RandomGrayAug(0.5).mat.asnumpy()
    np.testing.assert_array_equal(mat, np.repeat(np.float32([[0.21], [0.72], [0.07]]), 3, axis=1))
    hue = mx.image.HueJitterAug(0.1)
    np.testing.assert_allclose(hue.tyiq[0], gray[0, 0], rtol=1e-6)
    np.testing.assert_array_equal(hue.ityiq[:, 0], [1, 1, 1])


def test_the_blocks_of_a_chain():
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(2), gluon.nn.Dense(3))
    assert net._layers == [net[0], net[1]]

    class Own(gluon.nn.Sequential):
        def __init__(self):
            super().__init__()
            self._layers = ["mine"]

    assert Own()._layers == ["mine"]


@pytest.mark.parametrize(
    ("version", "rates", "wanted", "weightless"),
    [("1.9", (0.3, 0.01), 0.012603184531953925, 0.3), ("2.0", (0.01,), 0.042010613, 1.0)],
)
def test_the_factor_of_lars(version, rates, wanted, weightless):
    with mx.config.scope(compat_version=version):
        optimizer = mx.optimizer.LARS(
            learning_rate=0.1,
            eta=0.01,
            epsilon=0 if version == "1.9" else 1e-8,
            param_idx2name={1: "x_bias"},
        )
        weight, grad = nd.array([1.0, 2]), nd.array([0.5, 0.1])
        np.testing.assert_allclose(optimizer._get_lars(0, weight, grad, *rates), wanted, rtol=1e-6)
        np.testing.assert_allclose(optimizer._get_lars(0, weight * 0, grad, *rates), weightless)
        np.testing.assert_allclose(optimizer._get_lars(1, weight, grad, *rates), weightless)
        optimizer.rescale_grad = 0.5
        norms = [
            optimizer._l2norm(nd.array([3.0, 4])),
            optimizer._l2norm(nd.array([3.0, 4]), rescale=True),
        ]
        assert [float(n if version == "1.9" else n.asscalar()) for n in norms] == [5, 2.5]


def test_the_weights_of_a_fused_cell_are_views():
    cell = mx.rnn.FusedRNNCell(2, num_layers=2, mode="lstm", bidirectional=True, prefix="f_")
    gates, hidden, data = 4, 2, 3
    rows = [gates * hidden * (width + hidden + 2) for width in (data, data, 2 * hidden, 2 * hidden)]
    whole = nd.arange(sum(rows))
    parts = cell._slice_weights(whole, data, hidden)
    assert cell._num_gates == gates
    assert len(parts) == 64  # as MXNet 1.9.1 says
    firsts = {"c_bias": 188, "c_weight": 32, "i_bias": 184, "i_weight": 24}
    assert {k: float(parts[f"f_l0_h2h_{k}"].asnumpy().ravel()[0]) for k in firsts} == firsts
    parts["f_l0_i2h_i_weight"][:] = -1
    assert float(whole[0].asscalar()) == -1
    with pytest.raises(AssertionError, match="parameters size"):
        cell._slice_weights(whole, data - 1, hidden)
