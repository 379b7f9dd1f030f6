"""The tutorial's network in training: what the engine does per step, and the same numbers either way."""

from __future__ import annotations

import functools
import gc
from pathlib import Path

import jax
import numpy as onp
import pytest

import mxjax as mx
from mxjax import autograd, gluon, nd, profiler
from mxjax.gluon import nn


def lenet(dropout: float = 0.0):
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(channels=20, kernel_size=5, activation="relu"),
        nn.MaxPool2D(2, 2),
        nn.Conv2D(50, 5),
        nn.MaxPool2D(2, 2),
        nn.Flatten(),
        nn.Dense(512),
        nn.Dense(10),
    )
    if dropout:
        net.add(nn.Dropout(dropout))
    return net


def trained(optimizer="sgd", hybridize=False, batch=4, net=None, **options):
    """(net, trainer, step): a step draws the same data whenever the number is the same."""
    mx.random.seed(5)
    net = net or lenet()
    net.initialize(mx.init.Xavier())
    if hybridize:
        net.hybridize()
    rate = options.get("learning_rate", 0.01)
    schedule = mx.lr_scheduler.FactorScheduler(step=1, factor=0.999, base_lr=rate)
    options = {"learning_rate": rate, "lr_scheduler": schedule, **options}
    trainer = gluon.Trainer(net.collect_params(), optimizer, options)
    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
    rnd = onp.random.RandomState(11)
    images = mx.np.array(rnd.rand(batch, 1, 28, 28), dtype="float32")
    labels = mx.np.array(rnd.randint(0, 10, batch), dtype="int32")

    def step():
        with autograd.record():
            loss = loss_fn(net(images), labels)
        loss.backward()
        trainer.step(batch)
        return loss

    return net, trainer, step


def resident_kib() -> int:
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * 4


@functools.cache
def history(optimizer, hybridize):
    """(losses, learning rates, the counts of the last 100 steps, parameters) of 105 steps."""
    net, trainer, step = trained(optimizer, hybridize, learning_rate=1e-3)
    losses = [step() for _ in range(5)]
    mx.npx.waitall()
    rates = [trainer.learning_rate]
    mx.engine.reset()
    for _ in range(100):
        losses.append(step())
        rates.append(trainer.learning_rate)
    stats = mx.engine.stats()
    return [a.asnumpy() for a in losses], rates, stats, len(net.collect_params())


@pytest.mark.programs
@pytest.mark.parametrize("hybridize", [False, True], ids=["imperative", "hybridized"])
@pytest.mark.parametrize(("optimizer", "states"), [("sgd", 0), ("adam", 2)], ids=["sgd", "adam"])
def test_one_program_a_step_nothing_compiled_everything_donated(optimizer, states, hybridize):
    _, rates, stats, parameters = history(optimizer, hybridize)
    assert stats["programs"] == 100
    assert stats["segments"] == 100
    assert stats["compiled"] == 0
    assert stats["inferred"] == 0
    assert stats["fallbacks"] == 0
    assert parameters == 8
    assert stats["donated"] >= 100 * parameters * (1 + states)
    assert len(set(rates)) == len(rates), "the learning rate was to change every step"


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_hybridized_trains_like_imperative(optimizer):
    losses = [history(optimizer, hybridize)[0][:10] for hybridize in (False, True)]
    onp.testing.assert_allclose(losses[0], losses[1], rtol=1e-5, atol=1e-5)
    assert onp.mean(losses[0][-1]) < onp.mean(losses[0][0])


def test_dropout_draws_the_same_numbers_hybridized_and_others_each_call():
    draws = {}
    for hybridize in (False, True):
        net = nn.HybridSequential()
        net.add(nn.Dense(6, use_bias=False), nn.Dropout(0.5))
        net.initialize(mx.init.One())
        if hybridize:
            net.hybridize()
        x = mx.np.ones((8, 3))
        net(x).wait_to_read()
        mx.random.seed(21)
        with autograd.record():
            draws[hybridize] = [net(x).asnumpy() for _ in range(4)]
    for own, other in zip(draws[False], draws[True], strict=True):
        onp.testing.assert_array_equal(own, other)
    for k in range(3):
        assert (draws[True][k] != draws[True][k + 1]).any()
    assert set(onp.unique(draws[True])) == {0.0, 6.0}


@pytest.mark.programs
@pytest.mark.parametrize("hybridize", [False, True], ids=["imperative", "hybridized"])
def test_dropout_differs_step_by_step_without_compiling(hybridize):
    net = nn.HybridSequential()
    net.add(nn.Dense(16), nn.Dropout(0.5), nn.Dense(2))
    net, _, step = trained("sgd", hybridize, net=net, learning_rate=0.0, lr_scheduler=None)
    for _ in range(4):
        step().wait_to_read()
    mx.engine.reset()
    losses = [step().asnumpy().tolist() for _ in range(6)]
    assert mx.engine.stats()["compiled"] == 0
    assert len({tuple(x) for x in losses}) == 6


def small_step():
    net = nn.HybridSequential()
    net.add(nn.Dense(16, activation="relu"), nn.BatchNorm(), nn.Dense(10))
    return trained("adam", net=net)[2]


@pytest.mark.parametrize(
    "steps", [500, pytest.param(5000, marks=pytest.mark.slow)], ids=["500", "5000"]
)
def test_memory_stays_flat(steps):
    step = small_step()
    # Until it is a program, and the optimised one, compiled beside it, is there: both take memory once. What leaks some
    # pages a step never settles.
    before = 0
    for _ in range(20):
        for _ in range(250):
            step()
        mx.npx.waitall()
        gc.collect()
        if mx.engine.stats()["compiled"] and abs(resident_kib() - before) < 512:
            break
        before = resident_kib()
    live, grown = len(jax.live_arrays()), []
    for _ in range(3):  # what leaks grows each time, what another thread takes does not
        resident = resident_kib()
        for _ in range(5):
            for _ in range(steps // 5):
                step()
            mx.npx.waitall()
            gc.collect()
            assert len(jax.live_arrays()) == live
        grown.append(resident_kib() - resident)
        if grown[-1] < 16 * 1024:
            break
    # An array leaked per step would be some 25,000 pages after 5,000 steps.
    assert grown[-1] < 16 * 1024, grown


def test_parameters_come_back_from_a_file(tmp_path):
    net, _, step = trained()
    for _ in range(3):
        step()
    net.save_parameters(str(tmp_path / "lenet.params"))
    twin = lenet()
    twin.load_parameters(str(tmp_path / "lenet.params"))
    x = mx.np.array(onp.random.RandomState(2).rand(3, 1, 28, 28), dtype="float32")
    mx.npx.waitall()  # what else there is to compute would be one segment with the first forward pass
    onp.testing.assert_array_equal(net(x).asnumpy(), twin(x).asnumpy())
    step()
    assert (net(x).asnumpy() != twin(x).asnumpy()).any()


def test_the_tutorial(tmp_path, monkeypatch, capsys):
    """MXNet's profiler tutorial, its statements as they stand there."""
    monkeypatch.chdir(tmp_path)
    device = mx.gpu() if mx.device.num_gpus() > 0 else mx.cpu()

    def run_training_iteration(data, label):
        data = data.to_device(device)
        label = label.to_device(device)
        with autograd.record():
            output = net(data)
            loss = loss_fn(output, label)
        loss.backward()
        trainer.step(data.shape[0])
        return loss

    net = gluon.nn.HybridSequential()
    net.add(
        gluon.nn.Conv2D(channels=20, kernel_size=5, activation="relu"),
        gluon.nn.MaxPool2D(pool_size=2, strides=2),
        gluon.nn.Conv2D(channels=50, kernel_size=5),
        gluon.nn.MaxPool2D(pool_size=2, strides=2),
        gluon.nn.Flatten(),
        gluon.nn.Dense(512),
        gluon.nn.Dense(10),
    )
    net.initialize(mx.init.Xavier(), device=device)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
    rnd = onp.random.RandomState(0)
    itr = gluon.data.DataLoader(
        gluon.data.ArrayDataset(
            rnd.rand(64, 1, 28, 28).astype("float32"), rnd.randint(0, 10, 64).astype("int32")
        ),
        batch_size=32,
    )
    profiler.set_config(
        profile_all=True,
        aggregate_stats=True,
        continuous_dump=True,
        filename="profile_output.json",
    )
    for data, label in itr:
        run_training_iteration(data, label)
    mx.npx.waitall()
    profiler.set_state("run")
    data, label = next(iter(itr))
    first = run_training_iteration(data, label)
    mx.npx.waitall()
    profiler.set_state("stop")
    print(profiler.dumps())
    profiler.dump(finished=False)

    assert onp.isfinite(first.asnumpy()).all()
    assert (tmp_path / "profile_output.json").stat().st_size > 1000
    printed = capsys.readouterr().out
    assert "Convolution" in printed and "Total Count" in printed


class MyAddOne(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] + 1)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0])


@mx.operator.register("test_training_add_one")
class CustomAddOneProp(mx.operator.CustomOpProp):
    def __init__(self):
        super().__init__(need_top_grad=True)

    def list_arguments(self):
        return ["data"]

    def list_outputs(self):
        return ["output"]

    def infer_shape(self, in_shape):
        return [in_shape[0]], [in_shape[0]], []

    def create_operator(self, ctx, shapes, dtypes):
        return MyAddOne()


def test_the_tutorials_custom_operator():
    inp = nd.zeros(shape=(500, 500))
    inp.attach_grad()
    with autograd.record():
        y = nd.Custom(inp, op_type="test_training_add_one")
    y.backward()
    onp.testing.assert_array_equal(y.asnumpy(), onp.ones((500, 500), onp.float32))
    onp.testing.assert_array_equal(inp.grad.asnumpy(), onp.ones((500, 500), onp.float32))


@pytest.mark.parametrize("hybridize", [False, True], ids=["imperative", "hybridized"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_updates_go_over_the_old_weights_without_a_copy(optimizer, hybridize):
    """A weight's place goes to the new weight, not to its gradient, and only when all have read it."""
    net = nn.HybridSequential()
    net.add(nn.Dense(24, activation="relu"), nn.Dense(24, activation="tanh"), nn.Dense(24))
    net, trainer, step = trained(optimizer, hybridize, net=net)
    for _ in range(2):
        step()
    mx.npx.waitall()
    with mx.core.rehearsal() as found:
        loss = step()
    (program,) = found.programs
    assert loss.shape == (4,)
    text = program.compiled.as_text()
    aliases = text[text.index("input_output_alias") :].split("}, entry")[0]
    states = {"sgd": 0, "adam": 2}[optimizer]
    assert aliases.count("may-alias") == 6 * (1 + states)
    copied = [line for line in text.splitlines() if " copy(%args" in line]
    assert not [line for line in copied if "f32[24,24]" in line or "f32[24,784]" in line]
