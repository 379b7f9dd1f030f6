"""What MXNet 1 has for training and 2 has no more, against what 1.9.1 did."""

import json
from pathlib import Path

import numpy as onp
import pytest

import mxjax as mx

RECORDED = json.loads((Path(__file__).parent / "data" / "mxnet1_training.json").read_text())


@pytest.mark.parametrize(
    "case", RECORDED["lbsgd"], ids=lambda c: c["kwargs"].get("warmup_strategy", "linear")
)
def test_large_batch_sgd(case):
    rng = onp.random.RandomState(7)
    updater = mx.optimizer.get_updater(mx.optimizer.create("lbsgd", **case["kwargs"]))
    weight = mx.nd.array(rng.uniform(-1, 1, (3, 4)))
    for want in case["weights"]:
        updater(0, mx.nd.array(rng.uniform(-2, 2, (3, 4))), weight)
        onp.testing.assert_allclose(weight.asnumpy().ravel(), want, rtol=2e-6, atol=1e-6)


def test_large_batch_sgd_goes_on_from_its_states():
    one = mx.optimizer.get_updater(mx.optimizer.create("lbsgd", momentum=0.9, batch_scale=2))
    weight = mx.nd.ones((3,))
    for _ in range(3):
        one(0, mx.nd.ones((3,)), weight)
    other = mx.optimizer.get_updater(mx.optimizer.create("sgd"))
    other.set_states(one.get_states(dump_optimizer=True))
    assert type(other.optimizer).__name__ == "LBSGD" and other.optimizer.batch_scale == 2
    again = mx.nd.ones((3,))
    for _ in range(2):
        other(0, mx.nd.ones((3,)), again)
    assert again.asnumpy()[0] < 1


@pytest.fixture
def mxnet1():
    with mx.config.scope({"compat.version": "1.9"}):
        yield


def test_optimizers_as_they_were(mxnet1):
    for case in RECORDED["optimizers"]:
        rng = onp.random.RandomState(7)
        updater = mx.optimizer.get_updater(mx.optimizer.create(case["name"], **case["kwargs"]))
        weight = mx.nd.array(rng.uniform(-1, 1, (3, 4)))
        for _ in range(6):
            updater(0, mx.nd.array(rng.uniform(-2, 2, (3, 4))), weight)
        onp.testing.assert_allclose(
            weight.asnumpy().ravel(),
            case["weight"],
            rtol=2e-5,
            atol=2e-6,
            err_msg=f"{case['name']} {case['kwargs']}",
        )


def test_rmsprop_with_small_gradients_and_its_old_names(mxnet1):
    updater = mx.optimizer.get_updater(
        mx.optimizer.create("rmsprop", learning_rate=0.1, rescale_grad=0.25, gamma1=0.9)
    )
    weight = mx.nd.array([0.5, -0.3])
    for want in ([0.18377861, 0.01620242], [-0.04563469, 0.24560846]):
        updater(0, mx.nd.array([0.2, -0.1]), weight)
        onp.testing.assert_allclose(weight.asnumpy(), want, rtol=1e-5)


def test_a_learning_rate_that_is_not_given_is_the_schedulers(mxnet1):
    assert (
        mx.optimizer.SGD(lr_scheduler=mx.lr_scheduler.FactorScheduler(5, base_lr=0.3)).learning_rate
        == 0.3
    )
    assert mx.optimizer.SGD().learning_rate == 0.01 and mx.optimizer.SGD(0.5).learning_rate == 0.5
    assert mx.optimizer.SGD().lazy_update and not mx.optimizer.SGD(multi_precision=True).lazy_update


def test_losses_as_they_were(mxnet1):
    for case in RECORDED["losses"]:
        rng = onp.random.RandomState(5)
        one, other = rng.uniform(0.1, 0.9, (4, 5)), rng.uniform(0.1, 3, (4, 5))
        given = [one, other, onp.sign(rng.uniform(-1, 1, 4))][
            : 3 if case["name"] == "CosineEmbeddingLoss" else 2
        ]
        got = getattr(mx.gluon.loss, case["name"])(**case["kwargs"])(*map(mx.nd.array, given))
        assert list(got.shape) == case["shape"]
        onp.testing.assert_allclose(
            got.asnumpy().ravel(), case["values"], rtol=2e-5, atol=1e-6, err_msg=case["name"]
        )


@pytest.mark.parametrize("case", RECORDED["fused_rnn"], ids=lambda c: c["mode"])
def test_fused_rnn(case):
    seen = []

    class Numbered(mx.init.Initializer):
        def _init_weight(self, name, arr):
            seen.append([str(name), list(arr.shape)])
            arr[:] = onp.full(arr.shape, 1000 + len(seen))

        _init_bias = _init_weight

    want = onp.array(case["vector"])
    vector = mx.nd.zeros(want.shape)
    init = mx.init.FusedRNN(Numbered(), 3, case["layers"], case["mode"], case["both"], 7.0)
    init(mx.init.InitDesc("parameters_weight"), vector)
    assert seen == case["seen"]
    got = vector.asnumpy()
    onp.testing.assert_array_equal(onp.where(got > 1000, got - 1000, got), want)


def test_fused_rnn_without_an_initializer_takes_the_networks():
    vector = mx.nd.zeros((4 * 3 * 7,))
    desc = mx.init.InitDesc("parameters_weight", global_init=mx.init.One())
    mx.init.FusedRNN(None, 3, 1, "lstm")(desc, vector)
    assert vector.asnumpy()[:60].tolist() == [1] * 60
    with pytest.raises(ValueError, match="no.*here"):
        mx.init.FusedRNN(None, 3, 1, "lstm")(mx.init.InitDesc("parameters_weight"), vector)


@pytest.mark.parametrize("case", RECORDED["metrics"], ids=lambda c: c["name"])
def test_metrics_with_a_second_pair_of_sums(case):
    rng = onp.random.RandomState(3)
    made = mx.metric.create(case["name"], **case["kwargs"])
    for batch, want in enumerate(case["values"]):
        if batch == 2:
            made.reset_local()
        pred = rng.uniform(0.1, 1, (6, 2)).astype("float32")
        pred /= pred.sum(axis=1, keepdims=True)
        label = rng.randint(0, 2, (6,)).astype("float32")
        if case["name"] in ("mae", "mse", "rmse"):
            label = rng.uniform(0, 1, (6, 2)).astype("float32")
        made.update([mx.nd.array(label)], [mx.nd.array(pred)])
        onp.testing.assert_allclose([made.get()[1], made.get_global()[1]], want, rtol=1e-6)
    assert made.get()[0] == case["title"]
    made.reset()
    assert onp.isnan(made.get_global()[1])


def test_metrics_that_keep_global_sums_themselves():
    class Mine(mx.metric.EvalMetric):
        def __init__(self):
            super().__init__("mine", has_global_stats=True)

        def update(self, labels, preds):
            self.sum_metric += 2.0
            self.num_inst += 1
            self.global_sum_metric += 2.0
            self.global_num_inst += 1

    m = mx.metric.create([Mine(), "mae"])
    for _ in range(2):
        m.update(mx.nd.zeros((2,)), mx.nd.ones((2,)))
        m.reset_local()
    assert onp.isnan(m.get()[1]).all()
    assert m.get_global() == (["mine", "mae"], [2.0, 1.0])
    assert m.get_global_name_value() == [("mine", 2.0), ("mae", 1.0)]


def test_metrics_with_a_list_of_sums():
    """MXNet's example of two tasks: what forgets one number sets it to 0, which its `update` could not index."""

    class Tasks(mx.metric.EvalMetric):
        def __init__(self):
            super().__init__("tasks")

        def reset(self):
            self.sum_metric, self.num_inst = [0.0, 0.0], [0, 0]

        def update(self, labels, preds):
            for i in range(2):
                self.sum_metric[i] += i + 1.0
                self.num_inst[i] += 1

        def get(self):
            return ["one", "two"], [
                s / n for s, n in zip(self.sum_metric, self.num_inst, strict=True)
            ]

    m = Tasks()
    m.update([], [])
    m.reset_local()
    m.update([], [])
    assert m.num_inst == [1, 1]
    assert m.get_global_name_value() == m.get_name_value() == [("one", 1.0), ("two", 2.0)]


def test_global_sums_of_pairs():
    pearson = mx.metric.PearsonCorrelation()
    x, y = onp.arange(8.0), onp.array([0, 2, 1, 4, 3, 7, 5, 6.0])
    pearson.update(mx.np.array(x[:4]), mx.np.array(y[:4]))
    pearson.reset_local()
    pearson.update(mx.np.array(x[4:]), mx.np.array(y[4:]))
    assert pearson.get_global()[1] == pytest.approx(onp.corrcoef(x, y)[0, 1])
    assert pearson.get()[1] == pytest.approx(onp.corrcoef(x[4:], y[4:])[0, 1])


def test_modules_under_mxnets_names():
    import mxjax.optimizer.adamW as module  # noqa: N813

    assert module.AdamW is mx.optimizer.AdamW is mx.optimizer.adamW.AdamW
    assert mx.optimizer.contrib.GroupAdaGrad is mx.optimizer.GroupAdaGrad
    assert mx.kvstore.horovod.Horovod is mx.kvstore.Horovod
    with pytest.raises(DeprecationWarning):
        mx.optimizer.SGD().set_lr_scale({})


@mx.optimizer.register
class _Lagging(mx.optimizer.Optimizer):
    """In the style of MXNet 1: its state meets the weight in Python's operators."""

    def create_state(self, index, weight):
        return mx.nd.zeros(weight.shape)

    def update(self, index, weight, grad, state):
        self._update_count(index)
        state *= 0.5
        state += grad * self.rescale_grad
        weight -= self._get_lr(index) * state


def test_states_that_were_loaded_update_weights_of_nd(mxnet1):
    """The state came back as an array of np, and `weight -= state` made a new array: nothing was trained."""
    before, after = (mx.optimizer.get_updater(_Lagging(learning_rate=1.0)) for _ in range(2))
    weight, grad = mx.nd.ones(2), mx.nd.array([1, -1])
    before(0, grad, weight)
    after.set_states(before.get_states())
    after(0, grad, weight)
    assert weight.asnumpy().tolist() == [1 - 1 - 1.5, 1 + 1 + 1.5]
    assert type(after.states[0]) is mx.nd.NDArray


def test_nd_arrays_change_in_place_beside_np_arrays():
    x = mx.nd.ones(2)
    same = x
    x -= mx.np.array([3, 4])
    x *= mx.np.array([2, 2])
    assert x is same and type(x) is mx.nd.NDArray and x.asnumpy().tolist() == [-4, -6]
