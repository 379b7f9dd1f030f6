"""Mixed precision: what operators compute in, scaled losses decided in the program, and the lists."""

import json
from pathlib import Path

import jax
import numpy as onp
import pytest

import mxjax as mx
from mxjax import amp, autograd, gluon, npx
from mxjax.amp import LossScaler
from mxjax.core import hooks

DATA = Path(__file__).parents[1] / "data"
MOVES = json.loads((DATA / "loss_scaler.json").read_text())


@pytest.fixture
def mixed():
    """Switches mixed precision on, and off again after the test."""
    yield amp.init
    amp.amp.end()


def float32(*shape, seed=0):
    return mx.np.array(onp.random.RandomState(seed).uniform(0.1, 1, shape), dtype="float32")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_what_operators_compute_in(mixed, dtype):
    mixed(dtype)
    x, w = float32(2, 3), float32(4, 3)
    low = npx.fully_connected(x, w, None, num_hidden=4, no_bias=True, flatten=False)
    assert str(low.dtype) == dtype
    assert str(mx.np.dot(x, w.T).dtype) == dtype
    assert str(npx.relu(low).dtype) == dtype  # on no list: as given
    assert str(mx.np.exp(low).dtype) == "float32"
    assert str(low.sum().dtype) == "float32"
    assert str(npx.activation(low, act_type="softrelu").dtype) == "float32"
    assert str(npx.activation(low, act_type="tanh").dtype) == dtype
    assert str(npx.leaky_relu(low, act_type="elu").dtype) == "float32"
    assert str((low + float32(2, 4)).dtype) == "float32"
    assert (
        str(mx.nd.concat(low.as_nd_ndarray(), mx.nd.ones((2, 4)), dim=1).dtype)
        == "<class 'numpy.float32'>"
    )
    assert str(mx.np.concatenate([low, low]).dtype) == dtype
    # Results between 0 and 1, or of size 1, keep bfloat16, which has float32's range.
    want = "bfloat16" if dtype == "bfloat16" else "float32"
    assert str(npx.softmax(low).dtype) == want
    assert str(npx.layer_norm(low, mx.np.ones(4), mx.np.zeros(4)).dtype) == want
    assert str(npx.log_softmax(low).dtype) == "float32"
    assert (
        mx.np.dot(mx.np.ones((2, 2), dtype="float64"), mx.np.ones((2, 2), dtype="float64")).dtype
        == "float64"
    )
    exact = onp.dot(x.asnumpy(), w.asnumpy().T)
    onp.testing.assert_allclose(low.astype("float32").asnumpy(), exact, rtol=1e-2)


def network():
    net = gluon.nn.HybridSequential()
    net.add(
        gluon.nn.Dense(4, in_units=6, use_bias=False),
        gluon.nn.BatchNorm(in_channels=4),
        gluon.nn.Activation("relu"),
        gluon.nn.LayerNorm(in_channels=4),
        gluon.nn.Dense(3, in_units=4),
    )
    net.initialize(mx.init.Xavier())
    return net


def gradients(net, x):
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    with autograd.record():
        loss = loss_of(net(x), mx.np.array([0, 2, 1, 1])).mean()
    loss.backward()
    return loss, {
        k: p.grad().asnumpy() for k, p in net.collect_params().items() if p.grad_req != "null"
    }


def test_gradients_of_a_network(mixed):
    mx.np.random.seed(1)
    net, x = (
        network(),
        2 * float32(4, 6) - 1,
    )  # around zero, so that batch statistics lose no digits
    wanted, want = gradients(net, x)
    net.hybridize()
    gradients(net, x)  # a graph that was recorded before
    mixed("bfloat16")
    assert str(net(x).dtype) == "bfloat16"
    once, hybrid = gradients(net, x)
    net.hybridize(False)
    again, plain = gradients(net, x)
    assert once.dtype == again.dtype == "float32"
    assert once.item() == pytest.approx(wanted.item(), rel=2e-2)
    for name, grad in want.items():
        assert hybrid[name].dtype == "float32"  # the weights are their own master copies
        # Ten roundings lie on the way of a gradient, of half a unit of bfloat16 each, 2**-9 of the largest number.
        off = 10 * 2**-9 * (onp.abs(grad).max() + 1e-3)
        onp.testing.assert_allclose(hybrid[name], grad, rtol=0, atol=off)
        onp.testing.assert_allclose(hybrid[name], plain[name], rtol=0, atol=off)
    amp.amp.end()
    assert net(x).dtype == "float32"


def test_lists(mixed):
    assert {"Convolution", "FullyConnected", "_npi_matmul"} <= set(amp.list_lp16_ops("float16"))
    assert {"softmax", "LayerNorm", "sum"} <= set(amp.list_fp32_ops("bfloat16"))
    assert "BatchNorm" in amp.list_lp16_fp32_ops("float16")
    assert "broadcast_add" in amp.list_widest_type_cast("float16")
    assert ("Activation", "act_type", ["softrelu"]) in amp.list_conditional_fp32_ops("float16")
    assert amp.list_loss_output_functions("float16") == amp.lists.symbol_fp16.LOSS_OUTPUT_FUNCTIONS
    assert "SoftmaxOutput" in amp.lists.symbol_fp16.LOSS_OUTPUT_FUNCTIONS
    assert amp.list_lp16_use_fp32_params("float16") is None
    assert "BatchNorm" in amp.list_lp16_use_fp32_params("bfloat16")
    assert amp.lists.symbol_bf16.BF16_FUNCS == amp.list_lp16_ops("bfloat16")
    each = [
        *amp.list_lp16_ops("float16"),
        *amp.list_fp32_ops("float16"),
        *amp.list_lp16_fp32_ops("float16"),
        *amp.list_widest_type_cast("float16"),
        *(name for name, _, _ in amp.list_conditional_fp32_ops("float16")),
    ]
    assert len(each) == len(set(each))
    with pytest.raises(AssertionError, match="float64"):
        amp.list_lp16_ops("float64")
    with pytest.raises(mx.MXNetError, match="Convolution"):
        amp.init("float16", target_precision_ops=["Convolutoin"])
    with pytest.raises(ValueError, match="exp"):
        amp.init("float16", target_precision_ops=["exp"], fp32_ops=["exp"])
    mixed(
        "float16",
        target_precision_ops=["exp"],
        fp32_ops=["FullyConnected"],
        conditional_fp32_ops=[],
    )
    x = float32(2, 3)
    assert mx.nd.exp(x.as_nd_ndarray()).dtype == onp.float16
    assert (
        npx.fully_connected(x.astype("float16"), x, None, num_hidden=2, no_bias=True).dtype
        == "float32"
    )
    assert npx.activation(x.astype("float16"), act_type="softrelu").dtype == "float16"
    mixed("bfloat16")  # a second call changes nothing
    assert mx.nd.exp(x.as_nd_ndarray()).dtype == onp.float16


def test_the_scale_moves_as_in_mxnet():
    scaler = LossScaler()
    scaler._scale_seq_len, scaler._max_loss_scale = 3, 2.0**17
    param = gluon.Parameter("w", shape=(2,))
    param.initialize()
    for finite, found, scale in MOVES:
        param.grad()[:] = mx.np.array([1.0, 1.0 if finite else onp.inf])
        assert scaler.has_overflow([param]) is found
        assert scaler.loss_scale == scale
    assert scaler.skipped == sum(not m[0] for m in MOVES)


def trained(kind, blown, scaled=True, **options):
    """Weights after steps some of which overflow, and after the others alone."""
    found = []
    for keep in (True, False):
        w = gluon.Parameter("w", shape=(3,), init=mx.init.One())
        w.initialize()
        trainer = gluon.Trainer([w], kind, {"learning_rate": 0.1, **options})
        if keep:
            trainer.scale_losses_by(LossScaler())
        for step in range(6):
            bad = step in blown
            if bad and not keep:
                continue
            with autograd.record():
                loss = (
                    w.data() * mx.np.array([1.0, 2.0, onp.inf if bad else 3.0]) * (step + 1)
                ).sum()
                if keep and scaled:
                    with amp.scale_loss([loss], trainer) as (big,):
                        big.backward()
                else:
                    loss.backward()
            trainer.step(2)
        found.append((w.data().asnumpy(), trainer))
    return found


@pytest.mark.parametrize("kind", ["sgd", "adam", "lamb", "nadam"])
def test_steps_that_overflow_are_left_out(kind):
    (got, trainer), (want, _) = (
        trained(kind, {1, 2, 4}, momentum=0.9) if kind == "sgd" else trained(kind, {1, 2, 4})
    )
    onp.testing.assert_allclose(got, want, rtol=1e-6)
    assert trainer.amp_loss_scale == 2.0**13
    assert trainer._amp_loss_scaler.skipped == 3


def test_a_loss_that_is_not_scaled_is_watched_too():
    (got, trainer), (want, _) = trained("adam", {2}, scaled=False)
    onp.testing.assert_allclose(got, want, rtol=1e-6)


def test_the_host_waits_for_nothing():
    w = gluon.Parameter("w", shape=(3,), init=mx.init.One())
    w.initialize()
    trainer = gluon.Trainer([w], "adam", {"learning_rate": 0.1})
    trainer.scale_losses_by(LossScaler())

    def step():
        with autograd.record():
            loss = (w.data() * w.data()).sum()
            with amp.scale_loss(loss, trainer) as big:
                big.backward()
        trainer.step(1)

    for _ in range(3):
        step()
    before = mx.engine.stats()
    for _ in range(4):
        step()
    after = mx.engine.stats()
    changed = {k: after[k] - before[k] for k in after if isinstance(after[k], int)}
    assert changed["compiled"] == 0
    assert changed["waits"] == 0


def test_unscale_clip_and_states():
    w = gluon.Parameter("w", shape=(2,), init=mx.init.One())
    w.initialize()
    trainer = gluon.Trainer([w], "sgd", {"learning_rate": 1.0})
    trainer.scale_losses_by(LossScaler())
    with autograd.record():
        loss = (w.data() * mx.np.array([3.0, 4.0])).sum()
        with amp.scale_loss(loss, trainer) as big:
            big.backward()
    onp.testing.assert_allclose(w.grad().asnumpy(), [3 * 2**16, 4 * 2**16])
    amp.unscale(trainer)
    amp.unscale(trainer)  # once is enough
    onp.testing.assert_allclose(w.grad().asnumpy(), [3, 4])
    gluon.utils.clip_global_norm([w.grad()], 1.0)
    trainer.step(1)
    onp.testing.assert_allclose(w.data().asnumpy(), [0.4, 0.2], rtol=1e-5)
    assert trainer.amp_loss_scale == 2.0**16


def test_outputs_that_are_losses_have_the_scale_in_them(mixed):
    mixed("float16")
    w = gluon.Parameter("w", shape=(2, 3), init=mx.init.One())
    w.initialize()
    trainer = gluon.Trainer([w], "sgd", {"learning_rate": 1.0})
    amp.init_trainer(trainer)
    with autograd.record():
        out = mx.nd.SoftmaxOutput(w.data().as_nd_ndarray(), mx.nd.array([0, 1]))
        with amp.scale_loss(out, trainer) as big:
            big.backward()
    third = 1 / 3
    want = onp.array([[third - 1, third, third], [third, third - 1, third]])
    onp.testing.assert_allclose(w.grad().asnumpy(), want * 2**16, rtol=1e-5)
    trainer.step(1)
    onp.testing.assert_allclose(w.data().asnumpy(), 1 - want, rtol=1e-5)


def test_what_is_refused(mixed):
    w = gluon.Parameter("w", shape=(2,))
    w.initialize()
    trainer = gluon.Trainer([w], "sgd")
    with pytest.raises(AssertionError, match=r"amp.init\(\)"):
        amp.init_trainer(trainer)
    with pytest.raises(AssertionError, match="float64"):
        mixed("float64")
    mixed("float16")
    with (
        pytest.raises(AssertionError, match="init_trainer"),
        amp.scale_loss(mx.np.ones(1), trainer),
    ):
        pass
    with pytest.raises(AssertionError, match="init_trainer"):
        _ = trainer.amp_loss_scale
    with pytest.raises(TypeError, match="Trainer"):
        amp.init_trainer(mx.optimizer.SGD())
    with pytest.raises(TypeError, match="int"):
        amp.unscale(3)
    with pytest.raises(AssertionError, match="update_on_kvstore"):
        amp.init_trainer(gluon.Trainer([w], "sgd", update_on_kvstore=True))
    first, second = gluon.Trainer([w], "sgd"), gluon.Trainer([w], "sgd")
    amp.init_trainer(first)
    amp.init_trainer(second)
    assert first._amp_loss_scaler is not second._amp_loss_scaler


def test_two_devices():
    w = gluon.Parameter("w", shape=(2,), init=mx.init.One())
    w.initialize(device=[mx.cpu(0), mx.cpu(1)])
    trainer = gluon.Trainer([w], "adam", {"learning_rate": 0.1})
    trainer.scale_losses_by(LossScaler())
    for bad in (False, True):
        with autograd.record():
            losses = [
                (d * (onp.inf if bad and k else 1.0)).sum() for k, d in enumerate(w.list_data())
            ]
            with amp.scale_loss(losses, trainer) as big:
                autograd.backward(big)
        trainer.step(2)
    first, second = (d.asnumpy() for d in w.list_data())
    onp.testing.assert_array_equal(first, second)
    onp.testing.assert_allclose(first, 0.9, rtol=1e-5)
    assert trainer._amp_loss_scaler.skipped == 1


def temporaries(dtype):
    """The room of a training step of six layers, and the options of its program."""
    found = []
    net = gluon.nn.HybridSequential()
    net.add(*[gluon.nn.Dense(64, in_units=64, activation="tanh") for _ in range(6)])
    net.initialize()
    if dtype != "float32":
        amp.init(dtype)
    net.hybridize()
    x = float32(512, 64)
    x.wait_to_read()

    def listen(name, device, compiled, options):
        found.append(
            (compiled.memory_analysis().temp_size_in_bytes, options.get("xla_disable_hlo_passes"))
        )

    hooks.compile_listeners.append(listen)
    try:
        with mx.config.scope({"engine.cold": "compile"}):  # NumPy would compute the first steps
            with autograd.record():
                loss = net(x).sum()
            loss.backward()
            net[0].weight.grad().wait_to_read()
    finally:
        hooks.compile_listeners.remove(listen)
    return max(found)


def test_a_step_keeps_narrow_numbers(mixed):
    """XLA:CPU multiplies in float32, but what waits for the backward pass has 16 bits."""
    wide, _ = temporaries("float32")
    narrow, options = temporaries("bfloat16")
    assert options == "cse_barrier_expander"
    assert narrow < 0.75 * wide, (narrow, wide)


def test_narrow_copies_of_weights_do_not_wait_for_the_backward_pass(mixed):
    """They are made again of the weights, which are there: of an encoder's step they were a third."""
    mixed("bfloat16")
    net = gluon.nn.HybridSequential()
    net.add(*[gluon.nn.Dense(48, in_units=48, activation="tanh") for _ in range(3)])
    net.initialize()
    net.hybridize()
    x, slopes = float32(5, 48), []
    with mx.config.scope(engine_cold="compile"):
        for looks in (False, True):
            with autograd.record():
                loss = net(x).sum()
            if looks:  # forward and backward are two programs
                loss.wait_to_read()
                kept = [(a.shape, str(a.dtype)) for a in jax.live_arrays()]
                assert kept.count(((5, 48), "bfloat16")) >= 2 and ((48, 48), "bfloat16") not in kept
            loss.backward()
            slopes.append([p.grad().asnumpy() for p in net.collect_params().values()])
    for one, other in zip(*slopes, strict=True):
        onp.testing.assert_allclose(one, other, rtol=1e-2, atol=1e-3)
