"""Optimizers on arrays: one call per step, in place, without recompilation; states on disk."""

import io
import json
import pickle
from pathlib import Path

import jax
import numpy as onp
import optax
import pytest

import mxjax as mx
from mxjax import optimizer
from mxjax.core.run.scheduler import forget
from mxjax.errors import FormatError
from mxjax.optimizer import saving
from mxjax.optimizer.optimizer import flatten
from tests.optimizer.recorded import (
    CASES,
    STEPS,
    case_id,
    expected,
    make,
    start_and_grads,
    tolerance,
)

DATA = Path(__file__).parents[1] / "data"


def arrays(values):
    return [mx.np.array(v, dtype=v.dtype) for v in values]


@pytest.mark.parametrize("case", [c for c in CASES if c["key"][-1] in "05"], ids=case_id)
def test_updates_of_arrays_equal_mxnet(case):
    opt = make(case)
    updater = optimizer.get_updater(opt)
    start, grads = start_and_grads(case)
    weights, trail = arrays(start), [[], []]
    for step in range(STEPS):
        if step == 3:
            opt.set_learning_rate(0.02)
        updater([0, 1], arrays(grads[step]), weights)
        for t, w in zip(trail, weights, strict=True):
            t.append(w.asnumpy().astype("float32"))
    want, _ = expected(case)
    for got, right in zip(trail, want, strict=True):
        onp.testing.assert_allclose(onp.stack(got), right, **tolerance(case))


@pytest.mark.programs
def test_a_step_is_one_program_that_overwrites_its_buffers():
    forget()
    opt = optimizer.create("adam", learning_rate=0.1)
    updater = optimizer.get_updater(opt)
    weights = arrays([onp.ones((3, 4), "float32"), onp.ones(5, "float32")])
    grads = arrays([onp.ones((3, 4), "float32"), onp.ones(5, "float32")])
    for step in range(8):
        opt.set_learning_rate(0.1 / (step + 1))
        opt.rescale_grad = 1.0 / (step + 1)
        opt.wd = 0.01 * step
        if step == 3:
            mx.engine.reset()
        updater([0, 1], grads, weights)
        mx.npx.waitall()
    stats = mx.engine.stats()
    assert stats["compiled"] == 0
    assert stats["programs"] == 5
    assert stats["donated"] == 5 * 6  # two weights, two averages of each


def test_changing_a_hyperparameter_takes_effect():
    opt = optimizer.create("sgd", learning_rate=1.0, momentum=0.5)
    updater = optimizer.get_updater(opt)
    weight, grad = mx.np.zeros(1), mx.np.ones(1)
    updater(0, grad, weight)
    opt.momentum = 0.0
    updater(0, grad, weight)
    assert weight.asnumpy().tolist() == [-2.0]


def test_the_rule_runs_inside_jit_and_scan():
    opt = optimizer.create("adam", learning_rate=0.1)
    updater = optimizer.get_updater(opt)
    weight, grad = mx.np.ones(3), mx.np.array([0.5, -1.0, 2.0])
    for _ in range(4):
        updater(0, grad, weight)

    @jax.jit
    def run(w, g):
        def body(carry, t):
            return opt.rule(*(carry[0], g, carry[1]), lr=0.1, wd=0.0, t=t), None

        (w, _), _ = jax.lax.scan(body, (w, opt.init(w)), jax.numpy.arange(1, 5))
        return w

    got = run(onp.ones(3, "float32"), onp.array([0.5, -1.0, 2.0], "float32"))
    onp.testing.assert_allclose(got, weight.asnumpy(), rtol=1e-5)


def test_inside_record_nothing_is_taped():
    opt = optimizer.create("sgd", learning_rate=1.0)
    weight = mx.np.ones(2)
    weight.attach_grad()
    with mx.autograd.record():
        (weight * weight).sum().backward()
        opt.update(0, weight, weight.grad, None)
        loss = (weight * 3).sum()
    loss.backward()
    assert weight.asnumpy().tolist() == [-1.0, -1.0]
    assert weight.grad.asnumpy().tolist() == [3.0, 3.0]


def test_multi_precision_keeps_a_float32_copy():
    opt = optimizer.create("sgd", learning_rate=1e-4, multi_precision=True)
    updater = optimizer.get_updater(opt)
    weight = mx.np.ones(2, dtype="float16")
    for _ in range(100):  # each step alone is lost in float16
        updater(0, mx.np.ones(2, dtype="float16"), weight)
    assert weight.dtype == onp.float16
    onp.testing.assert_allclose(weight.asnumpy(), 0.99, atol=1e-3)
    master = updater.states[0][0]
    assert master.dtype == onp.float32
    onp.testing.assert_allclose(master.asnumpy(), 0.99, rtol=1e-5)


def test_low_precision_without_a_copy_warns():
    opt = optimizer.create("sgd")
    with pytest.warns(UserWarning, match="multi_precision"):
        opt.create_state_multi_precision(0, mx.np.ones(2, dtype="float16"))


@optimizer.register
class Stepper(optimizer.Optimizer):
    """As users of MXNet write them."""

    def create_state(self, index, weight):
        return mx.np.zeros(weight.shape, dtype=weight.dtype)

    def step(self, indices, weights, grads, states):
        for index, weight, grad, state in zip(indices, weights, grads, states, strict=True):
            self._update_count(index)
            state[:] += grad * self.rescale_grad
            weight[:] -= self._get_lr(index) * state


def test_an_optimizer_of_the_user():
    updater = optimizer.get_updater(optimizer.create("stepper", learning_rate=0.5))
    weights = [mx.np.zeros(2), mx.np.zeros(3)]
    for _ in range(2):
        updater([0, 1], [mx.np.ones(2), mx.np.ones(3)], weights)
    assert [w.asnumpy().tolist() for w in weights] == [[-1.5] * 2, [-1.5] * 3]


def test_an_optimizer_of_the_user_in_multi_precision():
    opt = optimizer.create("stepper", learning_rate=0.5, multi_precision=True)
    updater = optimizer.get_updater(opt)
    weight = mx.np.zeros(2, dtype="float16")
    updater(0, mx.np.ones(2, dtype="float16"), weight)
    assert weight.dtype == onp.float16
    assert weight.asnumpy().tolist() == [-0.5, -0.5]
    assert updater.states[0][0].dtype == onp.float32


def test_names_errors_and_learning_rates():
    with pytest.raises(ValueError, match="did you mean 'adam'"):
        optimizer.create("adamm")
    schedule = mx.lr_scheduler.FactorScheduler(1, base_lr=0.3)
    with pytest.warns(UserWarning, match="overwritten"):  # SGD's own rate, as in MXNet
        opt = optimizer.create("SGD", lr_scheduler=schedule)
    assert opt.learning_rate == 0.1
    with pytest.raises(UserWarning):
        opt.set_learning_rate(0.5)
    with pytest.raises(NotImplementedError):
        optimizer.Optimizer().update(0, mx.np.ones(1), mx.np.ones(1), None)
    with pytest.raises(ValueError, match="weight decay"):
        optimizer.get_updater(optimizer.create("groupadagrad", wd=0.1))(
            0, mx.np.ones((2, 2)), mx.np.ones((2, 2))
        )


def test_noise_of_langevin_dynamics_repeats_with_the_seed():
    def run():
        mx.np.random.seed(3)
        updater = optimizer.get_updater(optimizer.create("sgld", learning_rate=0.01))
        weight = mx.np.zeros(1000)
        updater(0, mx.np.zeros(1000), weight)
        return weight.asnumpy()

    first = run()
    assert (first == run()).all()
    assert first.std() == pytest.approx(0.1, rel=0.1)


# -- optax ---------------------------------------------------------------------------------------

TRANSFORMATIONS = {
    "adam": lambda: optax.adam(0.1),
    "clip": lambda: optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1, momentum=0.9)),
    "lion": lambda: optax.lion(0.01),
    "schedule": lambda: optax.adamw(optax.cosine_decay_schedule(0.1, 10)),
}


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_optax_transformations_do_what_optax_does(name):
    tx = TRANSFORMATIONS[name]()
    start = (onp.ones((3, 4), "float32"), onp.ones(5, "float32"))
    weights = arrays(start)
    updater = optimizer.get_updater(optimizer.Optax(tx))
    with jax.enable_x64(True):
        params, state = tuple(map(jax.numpy.asarray, start)), tx.init(start)
        for step in range(5):
            grads = (onp.full((3, 4), step, "float32"), onp.full(5, 0.5, "float32"))
            updater([0, 1], arrays(grads), weights)
            updates, state = tx.update(grads, state, params)
            params = optax.apply_updates(params, updates)
    for got, want in zip(weights, params, strict=True):
        onp.testing.assert_allclose(got.asnumpy(), want, rtol=1e-5, atol=1e-6)


def test_optax_states_go_to_disk_and_back():
    tx = optax.adam(0.1)
    one, two = (optimizer.get_updater(optimizer.Optax(tx)) for _ in range(2))
    weights, grads = [mx.np.ones(3), mx.np.ones(2)], [mx.np.ones(3), mx.np.ones(2)]
    one([0, 1], grads, weights)
    copies = [w.copy() for w in weights]
    two.set_states(one.get_states(dump_optimizer=True))
    one([0, 1], grads, weights)
    two([0, 1], grads, copies)
    for a, b in zip(weights, copies, strict=True):
        assert (a.asnumpy() == b.asnumpy()).all()


def test_optax_in_multi_precision_and_its_errors():
    opt = optimizer.Optax(optax.sgd(1e-4), multi_precision=True)
    updater = optimizer.get_updater(opt)
    weight = mx.np.ones(2, dtype="float16")
    for _ in range(100):
        updater([0], [mx.np.ones(2, dtype="float16")], [weight])
    onp.testing.assert_allclose(weight.asnumpy(), 0.99, atol=1e-3)
    with pytest.raises(ValueError, match="together"):
        updater([0, 1], [weight, weight], [weight, weight])
    with pytest.raises(TypeError, match="optax"):
        optimizer.Optax("adam")


# -- states on disk ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sgd", "adam", "nadam", "rmsprop", "dcasgd", "ftml"])
def test_states_and_counts_return(name):
    kwargs = {"multi_precision": True}
    if name in ("sgd", "dcasgd"):
        kwargs["momentum"] = 0.9
    first = optimizer.get_updater(optimizer.create(name, learning_rate=0.01, **kwargs))
    weights = [mx.np.ones(3), mx.np.ones(2, dtype="float16")]
    grads = [mx.np.ones(3), mx.np.ones(2, dtype="float16")]
    for _ in range(3):
        first([0, "b"], grads, weights)
    data = first.get_states(dump_optimizer=True)
    copies = [w.copy() for w in weights]
    second = optimizer.get_updater(optimizer.create(name, learning_rate=0.5))
    second.set_states(data)
    assert second.optimizer.num_update == 3
    assert second.optimizer.lr == 0.01
    for updater, own in ((first, weights), (second, copies)):
        updater([0, "b"], grads, own)
    for a, b in zip(weights, copies, strict=True):
        assert (a.asnumpy() == b.asnumpy()).all()


def test_schedulers_return_with_their_progress():
    schedule = mx.lr_scheduler.FactorScheduler(2, factor=0.5, base_lr=1.0)
    opt = optimizer.create("sgd", learning_rate=None, lr_scheduler=schedule)
    updater = optimizer.get_updater(opt)
    for _ in range(5):
        updater(0, mx.np.zeros(1), mx.np.zeros(1))
    other = optimizer.get_updater(optimizer.create("sgd"))
    other.set_states(updater.get_states(dump_optimizer=True))
    assert other.optimizer.learning_rate == opt.learning_rate == 0.25


def test_only_states_leave_the_optimizer_alone():
    updater = optimizer.get_updater(optimizer.create("adam", learning_rate=0.3))
    updater(0, mx.np.ones(2), mx.np.ones(2))
    other = optimizer.get_updater(optimizer.create("adam", learning_rate=0.7))
    other.set_states(updater.get_states())
    assert other.optimizer.lr == 0.7
    mean, var = other.states[0]
    assert mean.asnumpy() == pytest.approx(0.1)
    assert var.asnumpy() == pytest.approx(0.001, rel=1e-4)


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_states_that_mxnet_wrote(name, version):
    data = (DATA / f"trainer_{name}_mxnet{version}.states").read_bytes()
    updater = optimizer.get_updater(optimizer.create("ftrl"))
    updater.set_states(data)
    assert type(updater.optimizer).__name__.lower() == name
    assert updater.optimizer.num_update > 0
    shapes = sorted(x.shape for s in updater.states.values() for x in flatten(s))
    each = 2 if name == "adam" else 1
    assert shapes == sorted([(4, 3, 3, 3), (4,), (4,), (6,), (6, 2, 3, 3), (5,), (5, 6)] * each)


class Evil:
    def __reduce__(self):
        return (print, ("this must never run",))


@pytest.mark.parametrize("data", [pickle.dumps(Evil()), pickle.dumps({0: Evil()})])
def test_foreign_code_is_refused(data, capsys):
    with pytest.raises(FormatError, match="any code"):
        saving.loads(data, optimizer.create("sgd"))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("data", [b"", b"nothing", b"PK\x03\x04broken", pickle.dumps(7)])
def test_other_bytes_are_refused(data):
    with pytest.raises(ValueError):
        saving.loads(data, optimizer.create("sgd"))


def test_states_of_16_bits_return():
    updater = optimizer.get_updater(optimizer.create("sgd", momentum=0.9))
    weight = mx.np.ones(2).astype("bfloat16")
    with pytest.warns(UserWarning, match="multi_precision"):
        updater(0, weight, weight)
    states, _ = saving.loads(updater.get_states(), updater.optimizer)
    assert states[0].dtype.name == "bfloat16"
    assert (states[0].asnumpy() == updater.states[0].asnumpy()).all()


def test_states_of_before_are_read():
    """The archives that were written before safetensors files."""
    updater = optimizer.get_updater(optimizer.create("sgd", momentum=0.9))
    header = {
        "format": saving.FORMAT,
        "version": 1,
        "states": [[0, 0]],
        "dtypes": ["bfloat16"],
        "optimizer": None,
    }
    out = io.BytesIO()
    momentum = onp.array([0x3F80, 0xBF80], onp.uint16)  # 1, -1
    onp.savez(out, a0=momentum, header=onp.frombuffer(json.dumps(header).encode(), onp.uint8))
    updater.set_states(out.getvalue())
    assert updater.states[0].dtype.name == "bfloat16" and updater.states[0].astype(
        "float32"
    ).tolist() == [1, -1]
    again = optimizer.get_updater(optimizer.create("sgd", momentum=0.9))
    again.set_states(updater.get_states())
    assert again.states[0].dtype.name == "bfloat16" and again.states[0].astype(
        "float32"
    ).tolist() == [1, -1]
    header["version"] = 3
    onp.savez(out := io.BytesIO(), header=onp.frombuffer(json.dumps(header).encode(), onp.uint8))
    with pytest.raises(FormatError, match="of version 3"):
        updater.set_states(out.getvalue())


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_an_update_that_a_program_of_mxnet1_defines_takes_one_weight(dtype):
    class Slow(mx.optimizer.Optimizer):
        def create_state(self, index, weight):
            return mx.nd.zeros(weight.shape, weight.context, dtype=weight.dtype)

        def update(self, index, weight, grad, state):
            assert (
                isinstance(index, int)
                and onp.dtype(weight.dtype) == onp.dtype(state.dtype) == "float32"
            )
            self._update_count(index)
            state[:] = 0.5 * state + grad
            weight[:] -= self._get_lr(index) * (state + self._get_wd(index) * weight)

    with mx.config.scope(compat_version="1.9"):
        made = Slow(
            learning_rate=0.5,
            wd=0.25,
            param_idx2name={0: "a_weight", 1: "b_bias"},
            multi_precision=True,
        )
        made.set_lr_mult({"a_weight": 2})
        update = mx.optimizer.get_updater(made)
        weights = [mx.nd.ones(2, dtype=dtype), mx.nd.ones(1, dtype=dtype)]
        for _ in range(2):
            update([0, 1], [mx.nd.ones(2, dtype=dtype), mx.nd.ones(1, dtype=dtype)], weights)
    assert weights[0].asnumpy().tolist() == [-1.6875] * 2 and weights[1].asnumpy().tolist() == [
        -0.25
    ]


@pytest.mark.parametrize("name, kept", [("lars", ["a_weight"]), ("sgd", ["a_weight", "a_gamma"])])
def test_weights_that_decay_in_mxnet_1(name, kept):
    names = ["a_weight", "a_gamma", "a_beta", "a_bias", "other"]
    with mx.config.scope(compat_version="1.9"):
        made = mx.optimizer.create(name, wd=0.1, param_idx2name=dict(enumerate(names)))
    assert made.wd_mult == {n: 0 for n in names if n not in kept}  # as MXNet 1.9.1 says
