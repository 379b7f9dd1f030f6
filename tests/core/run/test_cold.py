"""Code that runs before it is compiled: which segments do, what they give, and when they are compiled after all."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon, profiler
from mxjax.core import platform_of
from mxjax.core.interpret import by_call
from mxjax.core.run import cold, constants, scheduler, tiers
from mxjax.gluon import nn


@pytest.fixture(autouse=True)
def auto() -> Iterator[None]:
    with mx.config.scope({"engine.cold": "auto"}):
        mx.engine.reset()
        yield


def counted(work: Callable[[], Any]) -> dict[str, int]:
    """What the engine counts while this runs."""
    mx.npx.waitall()
    before = mx.engine.stats()
    work()
    mx.npx.waitall()
    return {name: n - before[name] for name, n in mx.engine.stats().items()}


def data(*shape: int) -> np.ndarray:
    return np.random.RandomState(0).randn(*shape).astype("float32")


EXPRESSIONS: list[Callable[[Any], Any]] = [
    lambda x: mx.np.tanh(x) + 1,
    lambda x: x.sum(0),
    lambda x: mx.np.dot(x, x.T),
    lambda x: mx.npx.softmax(x),
    lambda x: mx.np.argsort(x, 1),
    lambda x: mx.np.concatenate([x, x]),
    lambda x: mx.np.where(x > 0, x, 0),
    lambda x: x.mean(),
    lambda x: mx.np.exp(x) * 2 - x,
    lambda x: x[1:, :-1],
]


def test_expressions_of_new_shapes_compile_nothing() -> None:
    def work() -> None:
        for k in range(4):
            x = mx.np.array(data(5 + k, 7 + 2 * k))
            for f in EXPRESSIONS:
                f(x).asnumpy()

    found = counted(work)
    assert found["compiled"] == 0 and found["interpreted"] == 40


@pytest.mark.parametrize("f", EXPRESSIONS)
def test_both_tiers_agree(f: Callable[[Any], Any]) -> None:
    x = mx.np.array(data(6, 9))
    here = f(x).asnumpy()
    with mx.config.scope({"engine.cold": "compile"}):
        found = counted(lambda: f(mx.np.array(data(6, 9))).asnumpy())
        there = f(mx.np.array(data(6, 9))).asnumpy()
    assert found["interpreted"] == 0 and found["compiled"] > 0
    assert here.dtype == there.dtype
    np.testing.assert_allclose(here, there, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "uint8"])
def test_plain_arithmetic_is_bit_equal_in_both_tiers(dtype: str) -> None:
    a = (data(50, 3) * 100).astype(dtype)
    b = (data(3) * 7).astype(dtype)

    def work() -> list[np.ndarray]:
        x, y = mx.np.array(a, dtype=dtype), mx.np.array(b, dtype=dtype)
        return [r.asnumpy() for r in (x + y, x - y, x * y, x > y, x.T.copy())]

    here = work()
    with mx.config.scope({"engine.cold": "compile"}):
        there = work()
    for one, other in zip(here, there, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_random_numbers_are_bit_equal_in_both_tiers() -> None:
    def work() -> list[np.ndarray]:
        mx.random.seed(7)
        r = mx.np.random
        drawn = (
            r.uniform(size=(5, 3)),
            r.normal(2, 3, size=(4,)),
            r.randint(0, 100, size=(6,)),
            r.rand(3),
        )
        return [a.asnumpy() for a in drawn]

    here = work()
    with mx.config.scope({"engine.cold": "compile"}):
        there = work()
    for one, other in zip(here, there, strict=True):
        # From JAX 0.12 on XLA may round a product of what was drawn otherwise.
        np.testing.assert_allclose(one, other, rtol=0 if jax.__version_info__ < (0, 12) else 2e-7)


def test_a_large_draw_needs_no_program() -> None:
    """A program of random bits takes XLA longer than NumPy draws some million of them."""
    mx.random.seed(7)
    drawn = []
    assert (
        counted(lambda: drawn.append(mx.np.random.uniform(size=(300, 701)).asnumpy()))["compiled"]
        == 0
    )
    mx.random.seed(7)
    with mx.config.scope({"engine.cold": "compile"}):
        np.testing.assert_array_equal(drawn[0], mx.np.random.uniform(size=(300, 701)).asnumpy())


@pytest.fixture
def accelerator(monkeypatch: pytest.MonkeyPatch) -> mx.Device:
    """A GPU; where there is none, a CPU device whose memory counts as far away."""
    if mx.device.num_gpus():
        return mx.gpu()
    device = jax.devices("cpu")[1]
    for module in (cold, by_call):
        monkeypatch.setattr(
            module, "platform_of", lambda d: "gpu" if d is device else platform_of(d)
        )
    return mx.cpu(1)


def test_small_code_on_an_accelerator_compiles_nothing(accelerator: mx.Device) -> None:
    found = []

    def work() -> None:
        x = mx.np.array(data(5, 7), device=accelerator)
        for f in EXPRESSIONS:
            y = f(x)
            assert y.device == accelerator
            found.append(y.asnumpy())

    assert counted(work)["compiled"] == 0
    for y, f in zip(found, EXPRESSIONS, strict=True):
        np.testing.assert_allclose(y, f(mx.np.array(data(5, 7))).asnumpy(), rtol=1e-6)


def test_large_code_on_an_accelerator_is_compiled_at_once(accelerator: mx.Device) -> None:
    """The device would wait until its arrays are fetched; but a program costs more than a few megabytes do."""
    x, y = (mx.np.array(data(n, 2001), device=accelerator) for n in (2100, 500))
    assert counted(lambda: mx.np.negative(x).asnumpy())["compiled"] == 1
    assert counted(lambda: mx.np.negative(y).asnumpy())["compiled"] == 0
    assert counted(lambda: mx.np.negative(mx.np.array(data(2100, 2001))).asnumpy())["compiled"] == 0


def test_a_loop_that_fetches_from_an_accelerator_is_compiled_soon(accelerator: mx.Device) -> None:
    """Each round waits for what the device computed: that has its price."""
    big = mx.np.array(data(512, 513), device=accelerator)
    found = []
    for _ in range(120):
        mean = mx.np.tanh(big).sum(0)
        mean.wait_to_read()
        found.append(counted(lambda mean=mean: (mean * 2 - 1).asnumpy())["compiled"])  # type: ignore[misc]
    assert sum(found) == 1 and 1 in found[4:100]


def loop(rounds: int) -> list[int]:
    """In which rounds of a loop over the same work something is compiled."""
    x = mx.np.array(data(8, 8))
    found = []
    for k in range(rounds):
        if counted(lambda: (mx.np.tanh(x) * 1.5 + mx.np.dot(x, x)).sum().asnumpy())["compiled"]:
            found.append(k)
    return found


def test_what_comes_back_is_compiled_once_and_in_the_same_round_of_every_run() -> None:
    first = loop(1000)
    assert len(first) == 1
    scheduler.forget()
    assert loop(1000) == first


def test_a_large_segment_is_compiled_at_once() -> None:
    def work() -> None:
        x = mx.np.array(data(3000, 2000))
        for _ in range(20):
            x = mx.np.tanh(x * x)
        x.asnumpy()

    assert counted(work)["compiled"] > 0


def test_products_stay_with_numpy_whose_library_is_as_fast() -> None:
    def work() -> None:
        x = mx.np.array(data(600, 600))
        for _ in range(20):
            x = mx.np.tanh(mx.np.dot(x, x) / 600)
        x.asnumpy()

    assert counted(work)["compiled"] == 0


@pytest.mark.parametrize("hybridize", [False, True])
def test_a_network_of_convolutions_stays_with_numpy_at_first(hybridize: bool) -> None:
    """A quick program of it would take as long for a step, and longer to compile than these steps take."""
    net = gluon.nn.HybridSequential()
    net.add(*[gluon.nn.Conv2D(16, 3, padding=1, activation="relu") for _ in range(2)])
    net.add(gluon.nn.MaxPool2D(2), gluon.nn.BatchNorm(), gluon.nn.Dense(3))
    net.initialize(mx.init.Xavier())
    if hybridize:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1e-3})
    x = mx.np.array(np.random.RandomState(0).rand(8, 3, 24, 24).astype("float32"))
    losses = []
    mx.engine.reset()
    for _ in range(4):
        with autograd.record():
            loss = (net(x) ** 2).mean()
        loss.backward()
        trainer.step(1)
        losses.append(loss.item())
    assert mx.engine.stats()["compiled"] == 0
    assert losses == sorted(losses, reverse=True)


def test_what_a_network_lost_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for the network and for its derivative, which are parts of one program: it was optimised at half of its
    price."""
    trials: list[Any] = []
    paid: list[float] = []
    trial, begin = cold._trial, tiers.begin
    monkeypatch.setattr(cold, "_trial", lambda *a: trials.append(trial(*a)) or trials[-1])
    monkeypatch.setattr(
        tiers,
        "begin",
        lambda size, device, lost=0.0: paid.append(lost) or begin(size, device, lost),
    )
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(512, activation="relu"), gluon.nn.Dense(3))
    net.initialize()
    net.hybridize()
    x = mx.np.array(data(64, 512))
    with mx.config.scope({"engine.compile_price": 0.1}):
        for _ in range(200):
            with autograd.record():
                loss = (net(x) ** 2).mean()
            loss.backward()
            loss.item()
            if paid:
                break
    assert len(paid) == 1
    assert paid[0] == pytest.approx(sum(t.lost for t in trials)) and paid[0] > 0


def test_interpret_never_compiles_a_segment() -> None:
    with mx.config.scope({"engine.cold": "interpret"}):
        x = mx.np.array(data(5, 5))
        found = counted(lambda: [(mx.np.tanh(x) + 1).asnumpy() for _ in range(3000)])
    assert found["compiled"] == 0 and found["interpreted"] == 3000


def test_interpret_compiles_no_network_and_no_large_product() -> None:
    net = nn.HybridSequential()
    net.add(
        mx.gluon.nn.Conv2D(4, 3, activation="relu"), mx.gluon.nn.Flatten(), mx.gluon.nn.Dense(3)
    )
    net.initialize()
    net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), "adam")
    x, large = mx.np.array(data(2, 3, 8, 8)), mx.np.array(data(300, 300))

    def work() -> None:
        for _ in range(4):
            with mx.autograd.record():
                loss = (net(x) ** 2).sum()
            loss.backward()
            trainer.step(2)
            loss.item()
            for _ in range(10):
                mx.np.dot(mx.np.sort(large), large).asnumpy()

    with mx.config.scope({"engine.cold": "interpret", "engine.compile_price": 1e-6}):
        found = counted(work)
    assert found["compiled"] == 0 and found["interpreted"] >= 44


def test_interpret_runs_a_hybridized_block_of_one_operator() -> None:
    class Net(mx.gluon.HybridBlock):
        def forward(self, x: Any) -> Any:
            return x.astype("float64")

    net = Net()
    net.hybridize()
    x = mx.np.array(data(5))
    with mx.config.scope({"engine.cold": "interpret"}):
        for _ in range(3):
            np.testing.assert_array_equal(net(x).asnumpy(), x.asnumpy().astype("float64"))


def test_interpret_tells_what_numpy_has_no_rule_for() -> None:
    with mx.config.scope({"engine.cold": "interpret"}):
        found = counted(lambda: mx.np.linalg.eigvalsh(mx.np.array(data(17, 17))).asnumpy())
    assert found["compiled"] == 1
    assert any("NumPy does not know eigh" in e for e in mx.engine.explain())


@pytest.mark.parametrize(
    "says", [{"MXNET_ENFORCE_DETERMINISM": 1}, {"MXNET_ENGINE_TYPE": "NaiveEngine"}]
)
def test_determinism_and_the_naive_engine_have_programs_alone(says: dict[str, Any]) -> None:
    with mx.config.scope(says):
        assert counted(lambda: (mx.np.ones((3, 17)) + 1).asnumpy())["interpreted"] == 0


def test_a_loop_over_elements_compiles_nothing() -> None:
    x = mx.np.array(data(300))
    total = mx.np.zeros(())

    def work() -> None:
        nonlocal total
        for i in range(300):
            v = x[i]
            total = total + v * mx.np.cos(0.1 * v)
        total.asnumpy()

    assert counted(work)["compiled"] == 0
    a = data(300).astype("float64")
    assert float(total) == pytest.approx((a * np.cos(0.1 * a)).sum(), rel=1e-4)


def test_a_call_that_is_new_in_its_place_takes_few_objects() -> None:
    """Each counts towards the collector's next pass, and a full one takes 60 ms beside JAX's 130,000 objects."""
    x = mx.np.array(data(300))

    def work(rounds: int) -> Any:
        total = mx.np.zeros(())
        for i in range(rounds):
            v = x[i]
            total = total + v * mx.np.cos(0.1 * v)
        return total

    work(10).item()  # what is made once
    gc.disable()
    try:
        before = gc.get_count()[0]
        total = work(150)
        each = (gc.get_count()[0] - before) / (5 * 150)
    finally:
        gc.enable()
    total.item()
    assert each < 6  # its step with the way there (key, operands, what follows), and its value


def test_results_are_in_memory_of_their_own() -> None:
    """What a compiled program overwrites later is nobody else's."""
    x = mx.np.array(data(4, 4))
    y, z = x.reshape(16), x.T
    kept = y.asnumpy().copy(), z.asnumpy().copy()
    with mx.config.scope({"engine.cold": "compile"}):
        for _ in range(3):
            x += 1
            x.asnumpy()
    np.testing.assert_array_equal(y.asnumpy(), kept[0])
    np.testing.assert_array_equal(z.asnumpy(), kept[1])
    host = y.asnumpy()
    host[:] = 0
    np.testing.assert_array_equal(y.asnumpy(), kept[0])


@pytest.mark.parametrize("hybridize", [False, True])
def test_training_on_ragged_batches_gives_the_same_in_both_tiers(hybridize: bool) -> None:
    def train(tier: str) -> list[float]:
        with mx.config.scope({"engine.cold": tier}):
            mx.engine.reset()
            mx.random.seed(3)
            net = nn.HybridSequential()
            net.add(nn.Dense(8, activation="tanh", in_units=4), nn.Dense(2, in_units=8))
            net.initialize(mx.init.Xavier())
            if hybridize:
                net.hybridize()
            trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05})
            losses = []
            for k in range(6):
                x = mx.np.array(data(3 + k, 4))
                with autograd.record():
                    loss = (net(x) ** 2).mean()
                loss.backward()
                trainer.step(1)
                losses.append(float(loss))
            return losses

    np.testing.assert_allclose(train("auto"), train("compile"), rtol=2e-5)


def test_another_variant_of_a_large_segment_waits_until_it_comes_again() -> None:
    """Who also looks at what was not looked at before does not wait for the compiler a second time."""
    x = mx.np.array(data(2000, 1000))

    def work(keep: bool) -> Any:
        y = x * x
        z = y
        for _ in range(12):
            z = mx.np.tanh(z + x)
        if not keep:
            y = None
        z.asnumpy()
        return y

    counts = [
        counted(lambda keep=keep: work(keep))["compiled"] for keep in [True] * 6 + [False] * 8
    ]
    kept, dropped = counts[:6], counts[6:]
    assert sum(kept) > 0
    assert sum(dropped[: constants.SELDOM]) == 0


def test_errors_and_odd_numbers_are_the_same_in_both_tiers() -> None:
    with np.errstate(all="ignore"):
        a = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 3e38], "float32")
        whole = np.array([2**31 - 1, -(2**31), 0, 5], "int32")

        def work() -> list[np.ndarray]:
            x, n = mx.np.array(a), mx.np.array(whole, dtype="int32")
            z = mx.np.zeros((0, 3))
            found = (
                x * 10,
                x / 0,
                mx.np.sqrt(x),
                mx.np.maximum(x, 0),
                mx.np.sign(x),
                n + 1,
                n * n,
                z.sum(0),
                z + 1,
            )
            return [r.asnumpy() for r in found]

        here = work()
        with mx.config.scope({"engine.cold": "compile"}):
            there = work()
    for one, other in zip(here, there, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_array_equal(one, other)


def test_the_profiler_shows_interpreted_calls_by_their_operators(tmp_path: Any) -> None:
    profiler.set_config(profile_all=True, aggregate_stats=True, filename=str(tmp_path / "p.json"))
    profiler.set_state("run")
    x = mx.np.array(data(11, 13))
    (mx.np.tanh(x) + mx.np.exp(x)).asnumpy()
    profiler.set_state("stop")
    text = profiler.dumps()
    assert "tanh" in text and "exp" in text
