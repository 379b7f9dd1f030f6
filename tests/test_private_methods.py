"""Private methods of MXNet's classes that programs call, or override in subclasses; the values are MXNet 1.9.1's."""

import os

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon, nd


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
