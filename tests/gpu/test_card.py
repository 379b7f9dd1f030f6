"""The card as a device: its name, copies to and from it, what is not there, and CPUs beside it."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax import core, gluon
from mxjax.core.hooks import compile_listeners

BIG = 1 << 20


def test_a_card_that_is_not_there(real_card: Any) -> None:
    with pytest.raises(mx.MXNetError, match=r"no device gpu\(99\).*invalid device ordinal"):
        mx.np.ones(3, device=mx.gpu(99))


def test_devices_are_not_mixed(real_card: Any) -> None:
    with pytest.raises(mx.MXNetError, match="different devices"):
        mx.np.ones(3) + mx.np.ones(3, device=mx.cpu())


@pytest.mark.parametrize("size", [3, BIG])
@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "bfloat16", "int64", "int8", "uint8", "bool"]
)
def test_copies_there_and_back(card: Any, dtype: str, size: int) -> None:
    numbers = np.random.RandomState(0).randint(0, 100, size)
    given = mx.np.array(numbers, device=mx.cpu()).astype(dtype)
    there = given.to_device(card)
    assert there.device == card and str(there.dtype) == str(given.dtype)
    back = there.to_device(mx.cpu())
    assert back.device == mx.cpu() and (back.asnumpy() == given.asnumpy()).all()
    assert (there.asnumpy() == given.asnumpy()).all()
    old = mx.nd.array(numbers, ctx=mx.cpu()).astype(dtype)
    target = mx.nd.zeros((size,), ctx=card, dtype=dtype)
    assert (old.copyto(target).asnumpy() == given.asnumpy()).all() and target.context == card
    assert (old.as_in_context(card).asnumpy() == target.asnumpy()).all()


@pytest.mark.parametrize("size", [100, BIG])
def test_what_is_written_to_a_source_later_does_not_arrive(card: Any, size: int) -> None:
    """Copies to a card are asynchronous: what is copied must not change meanwhile."""
    source = np.ones(size, "float32")
    for turn in range(20):
        source[:] = turn
        made = mx.np.array(source)
        target = mx.np.zeros(size)
        target[:] = source
        sent = mx.np.array(source, device=mx.cpu()).to_device(card)
        added = made + mx.np.array(source)
        source[:] = -1
        for x, want in ((made, turn), (target, turn), (sent, turn), (added, 2 * turn)):
            assert (x.asnumpy() == want).all()


@pytest.mark.parametrize("cold", ["auto", "compile"])
def test_what_was_read_stays(card: Any, cold: str) -> None:
    mx.config.set({"engine.cold": cold})
    x = mx.np.ones(BIG)
    seen = []
    for turn in range(4):
        seen.append(x.asnumpy())
        x += 1
        x[turn] = -1
    for turn, numbers in enumerate(seen):
        assert (numbers[turn:] == turn + 1).all()
    x[2:5] *= 2
    assert x[:6].asnumpy().tolist() == [2.0, 1.0, 0.0, -2.0, 10.0, 5.0]


def test_the_cpu_beside_the_card(card: Any) -> None:
    """What a user puts on the CPU stays there, with the programs of a CPU."""
    told: list[Any] = []
    compile_listeners.append(
        lambda name, device, compiled, options: told.append((core.platform_of(device), options))
    )
    try:
        for device in (mx.cpu(), card):
            net = gluon.nn.HybridSequential()
            net.add(
                gluon.nn.Conv2D(4, 3), gluon.nn.BatchNorm(), gluon.nn.MaxPool2D(), gluon.nn.Dense(3)
            )
            net.initialize(device=device)
            net.hybridize()
            net.optimize_for(mx.np.ones((2, 3, 8, 8), device=device))
            with mx.autograd.record():
                out = net(mx.np.ones((2, 3, 8, 8), device=device))
            out.backward()
            assert out.device == device == net[3].weight.grad().device
            out.wait_to_read()
            assert {d.platform for d in out.jax.devices()} == {core.platform_of(device.jax_device)}
    finally:
        compile_listeners.pop()
    platforms = {platform for platform, _ in told}
    assert platforms == {core.platform_of(d.jax_device) for d in (mx.cpu(), card)}
    for platform, options in told:
        assert platform == "cpu" or not [name for name in options if name.startswith("xla_cpu")]


def test_functions_of_jax_run_where_their_arrays_are(card: Any) -> None:
    x = mx.np.array([0.5, 1.0])
    made = jax.jit(lambda a: mx.np.tanh(a) * 2)(x)
    assert made.device == card
    np.testing.assert_allclose(made.asnumpy(), np.tanh([0.5, 1.0]) * 2, rtol=1e-6)
    grads = jax.grad(lambda a: (mx.npx.softmax(a) ** 2).sum().jax)(x)
    assert grads.device == card
    assert mx.np.from_jax(jax.device_put(np.ones(2), card.jax_device)).device == card


def test_results_of_small_code_are_on_the_card_for_whoever_asks(card: Any) -> None:
    """NumPy may have computed them: as JAX's arrays they lie where they say."""
    x = mx.np.ones(4) * 3 + 1
    assert x.device == card and x.jax.devices() == {card.jax_device}
    assert (
        mx.np.arange(3).jax.devices()
        == mx.np.random.uniform(size=3).jax.devices()
        == {card.jax_device}
    )
