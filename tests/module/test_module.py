"""Modules: programs a step, files, what is refused, arrays that are shared."""

from __future__ import annotations

import logging
import re
from collections import namedtuple

import numpy as np
import pytest

import mxjax as mx


def mlp(hidden=4, classes=3, name="softmax"):
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=hidden, name="fc1")
    net = mx.sym.FullyConnected(
        mx.sym.Activation(net, act_type="tanh"), num_hidden=classes, name="fc2"
    )
    return mx.sym.SoftmaxOutput(net, name=name)


def data(n=32):
    rs = np.random.RandomState(0)
    return rs.randn(n, 5).astype("float32"), (np.arange(n) % 3).astype("float32")


def iterator(n=32, size=8):
    return mx.io.NDArrayIter(*data(n), size)


def bound(net=None, size=8, **kwargs):
    module = mx.mod.Module(net or mlp(), **kwargs)
    module.bind([("data", (size, 5))], [("softmax_label", (size,))])
    module.init_params(mx.init.Uniform(0.5))
    return module


def params_of(module):
    return {
        name: value.asnumpy() for params in module.get_params() for name, value in params.items()
    }


@pytest.mark.programs
def test_a_step_of_fit_is_one_program_and_reads_nothing():
    seen = []

    def note(param):
        stats = mx.engine.stats()
        seen.append(
            (param.nbatch, stats["programs"], stats["compiled"], stats["waits"], stats["donated"])
        )

    module = mx.mod.Module(mlp())
    module.fit(iterator(40), num_epoch=3, eval_metric=["acc", "ce"], batch_end_callback=note,
               optimizer="adam", optimizer_params={"learning_rate": 0.1})  # fmt: skip
    for before, after in zip(seen, seen[1:], strict=False):
        assert after[4] - before[4] == 12  # four weights with two states each are overwritten
        if after[0] in (1, 2, 3):  # beyond these the metric is read, the iterator begins anew
            assert after[1:4] == (
                before[1] + 1,
                before[2],
                before[3],
            )  # forward, backward, update, metric
    assert len(seen) == 15 and seen[-1][2] == seen[5][2]  # a second epoch compiles nothing


@pytest.mark.programs
def test_a_loop_of_ones_own_is_one_program_a_step():
    module, it = bound(), iterator()
    module.init_optimizer(optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
    metric = mx.metric.create("acc")
    counts = []
    for _ in range(3):
        it.reset()
        for batch in it:
            module.forward_backward(batch)
            module.update()
            module.update_metric(metric, batch.label)
            counts.append(mx.engine.stats()["programs"])
    assert np.diff(counts)[3:].tolist() == [1] * 8
    assert 0 <= metric.get()[1] <= 1


@pytest.mark.programs
def test_buckets_compile_once_each():
    def make(length):
        net = mx.sym.FullyConnected(
            mx.sym.mean(mx.sym.Variable("data"), axis=1), num_hidden=400, name="fc"
        )
        return mx.sym.SoftmaxOutput(net, name="softmax"), ["data"], ["softmax_label"]

    module = mx.mod.BucketingModule(make, default_bucket_key=6)
    module.bind([("data", (4, 6, 300))], [("softmax_label", (4,))])
    module.init_params(mx.init.One())
    module.init_optimizer(optimizer_params={"learning_rate": 0.1})
    metric = mx.metric.create("acc")
    batches = {
        length: mx.io.DataBatch(
            [mx.nd.ones((4, length, 300))], [mx.nd.array([0, 1, 2, 0])], bucket_key=length,
            provide_data=[("data", (4, length, 300))], provide_label=[("softmax_label", (4,))],
        ) for length in (4, 5, 6)
    }  # fmt: skip
    mx.nd.waitall()

    def train(lengths):
        before = mx.engine.stats()["compiled"]
        for length in lengths:
            module.forward_backward(batches[length])
            module.update()
            module.update_metric(metric, batches[length].label)
            module._end_step()  # as fit does after each batch
        return mx.engine.stats()["compiled"] - before

    train([6])  # with what happens once
    assert train([4, 5]) == 2
    assert train([4, 6, 5, 5, 4] * 2) == 0
    first, second = module._buckets[6]._exec_group, module._buckets[4]._exec_group
    assert first.param_arrays[0][0] is second.param_arrays[0][0]  # one weight for all


def test_checkpoints_go_on_where_they_were(tmp_path):
    prefix, it = str(tmp_path / "net"), iterator()
    one = bound()
    one.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.1, "momentum": 0.9})

    def train(module):
        it.reset()
        for batch in it:
            module.forward_backward(batch)
            module.update()

    train(one)
    one.save_checkpoint(prefix, 7, save_optimizer_states=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "net-0007.params",
        "net-0007.states",
        "net-symbol.json",
    ]
    two = mx.mod.Module.load(prefix, 7, load_optimizer_states=True)
    two.bind(it.provide_data, it.provide_label)
    two.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
    for module in (one, two):
        train(module)
    for name, value in params_of(one).items():
        np.testing.assert_allclose(params_of(two)[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
    symbol, arg_params, aux_params = mx.model.load_checkpoint(prefix, 7)
    assert symbol.list_arguments() == mlp().list_arguments() and sorted(arg_params) == sorted(
        params_of(one)
    )
    assert aux_params == {}
    three = bound()
    three.load_params(f"{prefix}-0007.params")
    np.testing.assert_array_equal(
        params_of(three)["fc1_weight"], arg_params["fc1_weight"].asnumpy()
    )
    mx.nd.save(str(tmp_path / "other"), {"fc1_weight": mx.nd.ones((4, 5))})
    with pytest.raises(ValueError, match="Invalid param file"):
        three.load_params(str(tmp_path / "other"))


def test_checkpoints_by_callback(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    module = mx.mod.Module(mlp())
    prefix = str(tmp_path / "b")
    callbacks = [
        mx.callback.do_checkpoint(str(tmp_path / "a"), 2),
        mx.callback.module_checkpoint(module, prefix),
    ]
    module.fit(iterator(), num_epoch=3, epoch_end_callback=callbacks)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a-0002.params", "a-symbol.json", "b-0001.params", "b-0002.params", "b-0003.params", "b-symbol.json",
    ]  # fmt: skip
    assert f'Saved checkpoint to "{tmp_path / "a"}-0002.params"' in caplog.text


def test_buckets_are_saved_and_loaded(tmp_path):
    def make(length):
        net = mx.sym.FullyConnected(
            mx.sym.sum(mx.sym.Variable("data"), axis=1, keepdims=True), num_hidden=3, name="fc"
        )
        return mx.sym.SoftmaxOutput(net, name="softmax"), ["data"], ["softmax_label"]

    module = mx.mod.BucketingModule(make, default_bucket_key=6)
    assert module.data_names == ["data"] and module.output_names == ["softmax_output"]
    module.bind([("data", (4, 6))], [("softmax_label", (4,))])
    module.init_params(mx.init.Uniform(0.5))
    module.switch_bucket(5, [("data", (4, 5))], [("softmax_label", (4,))])
    prefix = str(tmp_path / "net")
    module.save_checkpoint(prefix, 1)
    loaded = mx.mod.BucketingModule.load(prefix, 1, make, default_bucket_key=6)
    loaded.bind([("data", (4, 6))], [("softmax_label", (4,))])
    for length in (6, 5):
        batch = mx.io.DataBatch(
            [mx.nd.arange(4 * length).reshape((4, length))], [mx.nd.zeros((4,))], bucket_key=length,
            provide_data=[("data", (4, length))], provide_label=[("softmax_label", (4,))],
        )  # fmt: skip
        found = []
        for each in (module, loaded):
            each.forward(batch, is_train=False)
            found.append(each.get_outputs()[0].asnumpy())
        np.testing.assert_array_equal(*found)
    with pytest.raises(AssertionError, match="sym_gen is required"):
        mx.mod.BucketingModule.load(prefix, 1, default_bucket_key=6)


def test_parameters_given_and_taken_are_copies():
    module = bound()
    arg_params, _ = module.get_params()
    given = {name: mx.nd.ones(value.shape) for name, value in arg_params.items()}
    module.set_params(given, {})
    given["fc1_bias"][:] = 5
    assert (params_of(module)["fc1_bias"] == 1).all()
    module.init_optimizer(optimizer_params={"learning_rate": 1.0})
    before = module.get_params()[0]["fc2_bias"].asnumpy()
    module.forward_backward(next(iterator()))
    module.update()
    assert (module.get_params()[0]["fc2_bias"].asnumpy() != before).any()
    taken = module.get_params()[0]
    taken["fc1_bias"][:] = 7  # ours to change, and to give back
    module.set_params(taken, {})
    assert (module._exec_group.execs[0].arg_dict["fc1_bias"].asnumpy() == 7).all()


def test_parameters_that_are_missing_or_too_many():
    module = bound()
    some = {"fc1_weight": mx.nd.zeros((4, 5))}
    with pytest.raises(RuntimeError, match="fc1_bias is not presented"):
        module.set_params(some, {})
    kept = params_of(module)["fc2_weight"]
    module.set_params(some, {}, allow_missing=True)
    found = params_of(module)
    assert not found["fc1_weight"].any() and (found["fc2_weight"] == kept).all()
    more = {
        **{name: mx.nd.array(value) for name, value in found.items()},
        "extra": mx.nd.ones((1,)),
    }
    with pytest.raises(ValueError, match="extra"):
        module._exec_group.set_params(more, {})
    module.set_params(more, {}, allow_extra=True)
    with pytest.warns(UserWarning, match="force_init=False"):
        module.init_params(mx.init.One())


def test_what_modules_refuse():
    with pytest.raises(
        ValueError, match=r"input with name 'dat' is not found.*Did you mean one of: data"
    ):
        mx.mod.Module(mlp(), data_names=["dat"])
    with pytest.warns(UserWarning, match="label"):
        mx.mod.Module(mlp(), label_names=["other"])
    module = mx.mod.Module(mlp())
    with pytest.raises(AssertionError, match="call bind"):
        module.forward(next(iterator()))
    with pytest.raises(ValueError, match="don't match names"):
        module.bind([("x", (8, 5))], [("softmax_label", (8,))])
    with pytest.raises(AssertionError, match="same batch size"):
        module.bind([("data", (8, 5))], [("softmax_label", (7,))])
    with pytest.raises(AssertionError, match="num_epoch"):
        module.fit(iterator())
    module = bound()
    with pytest.raises(AssertionError, match="init_optimizer"):
        module.update()
    with pytest.raises(ValueError, match="DataIter"):
        module.predict([1, 2])
    with pytest.raises(TypeError, match="kvstore must be"):
        module.init_optimizer(kvstore=3)
    with pytest.raises(ValueError, match="Too many slices"):
        bound(size=1, context=[mx.cpu(0), mx.cpu(1)])
    with pytest.raises(NotImplementedError, match="BaseModule must define forward"):
        mx.mod.BaseModule().forward(None)


def test_bind_again():
    module = bound()
    before = params_of(module)
    module.bind([("data", (8, 5))], [("softmax_label", (8,))])  # ignored, with a line in the log
    with pytest.warns(UserWarning, match="label_shapes"):
        module.bind([("data", (2, 5))], for_training=False, force_rebind=True)
    assert module.data_shapes[0].shape == (2, 5) and module.label_shapes is None
    out = module.predict(mx.nd.ones((2, 5)))
    assert out.shape == (2, 3)
    for name, value in params_of(module).items():
        np.testing.assert_array_equal(value, before[name])


def test_a_module_with_another_ones_parameters():
    one = bound()
    two = mx.mod.Module(mlp())
    two.bind([("data", (2, 5))], [("softmax_label", (2,))], for_training=False, shared_module=one)
    one.set_params(
        {name: mx.nd.zeros(value.shape) for name, value in one.get_params()[0].items()}, {}
    )
    np.testing.assert_allclose(
        two.predict(np.ones((2, 5), "float32")).asnumpy(), np.full((2, 3), 1 / 3), rtol=1e-6
    )


def test_batches_without_labels():
    batch = namedtuple("Batch", ["data"])  # what is only predicted from need not be a DataBatch
    module = mx.mod.Module(mx.sym.Variable("data") * 2, label_names=None)
    module.bind([("data", (2, 3))], for_training=False)
    module.init_params()
    for rows in (2, 1):
        module.forward(batch([mx.nd.ones((rows, 3))]))
        assert module.get_outputs()[0].asnumpy().tolist() == [[2] * 3] * rows


def test_states_stay_from_batch_to_batch():
    total = mx.sym.Variable("data") + mx.sym.Variable("state")
    module = mx.mod.Module(total, label_names=None, state_names=["state"])
    module.bind([("data", (2, 3))], for_training=False)
    module.init_params()
    module.set_states(value=0)
    for _ in range(3):
        module.forward(mx.io.DataBatch([mx.nd.ones((2, 3))]))
        module.set_states(states=module.get_outputs(merge_multi_context=False))
    assert module.get_states(merge_multi_context=False)[0][0].asnumpy().tolist() == [[3] * 3] * 2
    with pytest.raises(AssertionError):
        module.get_states()


def test_batches_for_each_device_and_labels_of_other_layouts():
    module = bound(context=[mx.cpu(0), mx.cpu(1)])
    x, y = data(8)
    parts = [
        mx.io.DataBatch([mx.nd.array(x[p])], [mx.nd.array(y[p])])
        for p in (slice(0, 4), slice(4, 8))
    ]
    whole = mx.io.DataBatch([mx.nd.array(x)], [mx.nd.array(y)])
    values = []
    for batch in (whole, parts):
        metric = mx.metric.create("ce")
        module.forward(batch, is_train=False)
        labels = [b.label for b in batch] if isinstance(batch, list) else batch.label
        module.update_metric(metric, labels, pre_sliced=isinstance(batch, list))
        values.append((metric.get()[1], module.get_outputs()[0].asnumpy().tolist()))
    assert values[0] == values[1]
    (outputs,) = module.get_outputs(merge_multi_context=False)
    assert [(out.context, out.shape) for out in outputs] == [
        (mx.cpu(0), (4, 3)),
        (mx.cpu(1), (4, 3)),
    ]


def test_predictions_leave_out_what_only_fills():
    module = bound()
    it = mx.io.NDArrayIter(data(20)[0], batch_size=8)
    assert module.predict(it).shape == (20, 3)
    assert [out[0].shape for out in module.predict(it, merge_batches=False)] == [
        (8, 3),
        (8, 3),
        (4, 3),
    ]
    assert [(n, out[0].shape[0]) for out, n, _ in module.iter_predict(it)] == [
        (0, 8),
        (1, 8),
        (2, 4),
    ]
    assert module.predict(it, num_batch=1, always_output_list=True)[0].shape == (8, 3)


def test_optimizers_made_elsewhere():
    module = bound()
    with pytest.warns(UserWarning, match="rescale_grad"):
        module.init_optimizer(optimizer=mx.optimizer.create("sgd", learning_rate=0.1))
    assert module._optimizer.idx2name[0] == "fc1_weight"
    other = bound()
    other.borrow_optimizer(module)
    assert other._optimizer is module._optimizer and other.optimizer_initialized


def test_chains_know_their_names():
    chain = mx.mod.SequentialModule()
    with pytest.raises(AssertionError, match='Unknown meta "take_label"'):
        chain.add(mx.mod.Module(mlp()), take_label=True)
    first = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=5, name="fc1")
    chain.add(mx.mod.Module(first, label_names=None)).add(
        mx.mod.Module(mlp()), auto_wiring=True, take_labels=True
    )
    chain.bind([("data", (8, 5))], [("softmax_label", (8,))])
    with pytest.raises(AssertionError, match='"fc1_weight" in layer 1'):
        chain.init_params()


def test_a_module_in_python():
    class Twice(mx.mod.PythonModule):
        def __init__(self):
            super().__init__(["data"], None, ["twice"])

        def _compute_output_shapes(self):
            return [("twice", self._data_shapes[0][1])]

        def forward(self, data_batch, is_train=None):
            self.out = data_batch.data[0] * 2

        def get_outputs(self, merge_multi_context=True):
            return [self.out]

    module = Twice()
    module.fit  # noqa: B018  # the interface is there
    module.bind([("data", (2, 5))])
    module.init_params()
    module.init_optimizer()
    assert module.get_params() == ({}, {}) and module.output_shapes == [("twice", (2, 5))]
    assert module.predict(mx.nd.ones((2, 5))).asnumpy().tolist() == [[2] * 5] * 2
    with pytest.raises(AssertionError, match="the data must be"):
        Twice().bind([("x", (2, 5))])


def test_executors_of_first_versions():
    net = mlp()
    arguments = net.list_arguments()
    names = [name for name in arguments if name not in ("data", "softmax_label")]
    it = iterator(16)
    manager = mx.executor_manager.DataParallelExecutorManager(
        net,
        [mx.cpu(0), mx.cpu(1)],
        it,
        arguments,
        names,
        [],
        logger=logging.getLogger("mxjax.test"),
    )
    module = bound()
    arg_params, _ = module.get_params()
    manager.set_params(arg_params, {})
    batch = next(it)
    manager.load_data_batch(batch)
    manager.forward(is_train=True)
    manager.backward()
    module.forward_backward(batch)
    for name, mine, grads in zip(
        names, module._exec_group.grad_arrays, manager.grad_arrays, strict=True
    ):
        total = sum(grad.asnumpy() for grad in grads)
        np.testing.assert_allclose(total, mine[0].asnumpy(), rtol=1e-5, atol=1e-6, err_msg=name)
    metric = mx.metric.create("ce")
    manager.update_metric(metric, batch.label)
    assert metric.num_inst == 8
    out = {name: mx.nd.zeros(value.shape) for name, value in arg_params.items()}
    manager.copy_to(out, {})
    np.testing.assert_allclose(out["fc1_weight"].asnumpy(), arg_params["fc1_weight"].asnumpy())


def test_functions_of_torch_7_are_not_there():
    with pytest.raises(AttributeError, match="DLPack"):
        mx.th.sqrt  # noqa: B018
    assert re.match("mxjax.torch", mx.th.__name__)


def test_errors_of_columns_in_both_generations():
    label, pred = [mx.nd.array([1, 2, 3])], [mx.nd.array([[1.5], [2], [4]])]
    values = {}
    for version in ("1.9", "2.0"):
        with mx.config.scope(compat_version=version):
            metric = mx.metric.create(["mse", "mae"])
            metric.update(label, pred)
            values[version] = metric.get()[1]
    np.testing.assert_allclose(values["1.9"], [0.41666667, 0.5])  # MXNet 1.9.1
    np.testing.assert_allclose(
        values["2.0"], [2.08333325, 1.1666666], rtol=1e-6
    )  # MXNet 2.0.0b1, float32


def test_variance_reduction_asks_for_whole_epochs():
    from mxjax.contrib.svrg_optimization import SVRGModule

    with pytest.raises(TypeError):
        SVRGModule(mlp())
    with pytest.raises(ValueError, match="positive"):
        SVRGModule(mlp(), update_freq=0)


def test_callbacks_see_the_variables_of_fit():
    """Programs read `param.locals["self"]`, the number of epochs, the iterators, as in MXNet 1.9.1."""
    x = mx.io.NDArrayIter(
        np.ones((4, 3), "float32"), np.zeros(4, "float32"), 2, label_name="softmax_label"
    )
    out = mx.sym.SoftmaxOutput(
        mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2), name="softmax"
    )
    module, seen = mx.mod.Module(out), []
    module.fit(x, num_epoch=1, batch_end_callback=lambda param: seen.append(param.locals))
    assert seen[0]["self"] is module and seen[0]["train_data"] is x and seen[0]["num_epoch"] == 1
    names = """self train_data eval_data eval_metric epoch_end_callback batch_end_callback kvstore optimizer
        optimizer_params eval_end_callback eval_batch_end_callback initializer arg_params aux_params allow_missing
        force_rebind force_init begin_epoch num_epoch validation_metric monitor sparse_row_id_fn epoch tic nbatch
        data_iter data_batch next_data_batch end_of_batch"""
    assert (
        set(names.split()) <= set(seen[1])
        and seen[1]["nbatch"] == 1
        and dict(seen[1]["eval_name_vals"])
    )


def test_labels_are_those_of_the_symbol():
    net = mx.sym.SoftmaxOutput(
        mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3), name="softmax"
    )
    with pytest.warns(UserWarning), pytest.raises(KeyError, match="nope_label"):  # as MXNet 1.9.1
        mx.mod.Module(net).bind([("data", (2, 4))], [("nope_label", (2,))])
    module = mx.mod.Module(net)
    module.bind([("data", (2, 4))], [("softmax_label", (2,))])
    module.init_params(mx.init.One())
    # arrays beyond the data's names are left out, as there
    module.forward(mx.io.DataBatch([mx.nd.ones((2, 4)), mx.nd.ones(2)], [mx.nd.ones(2)]))
    np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), np.full((2, 3), 1 / 3), rtol=1e-6)
