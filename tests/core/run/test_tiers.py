"""What compiling costs by estimate, and programs that are compiled quickly first and optimised once that has paid."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.core import local
from mxjax.core.run import choice, cold, constants, price, scheduler, tiers


@pytest.fixture(autouse=True)
def auto() -> Iterator[None]:
    with mx.config.scope({"engine.cold": "auto", "cache.mode": "off"}):
        scheduler.forget()
        mx.engine.reset()
        yield


def sized(fn, *shapes):
    size = price.size_of(jax.make_jaxpr(fn)(*[jnp.zeros(s) for s in shapes]).jaxpr)
    return size.equations, size.numbers


def test_equations_and_numbers_are_counted_through_loops_and_calls():
    assert sized(lambda x: x * 2 + 1, 10) == (2, 20)

    def loop(x):
        return jax.lax.scan(lambda c, _: (jnp.sin(c) * 2, None), x, None, length=5)[0]

    assert sized(loop, 10) == (2, 5 * (4 * 10 + 10))  # a sine takes as long as four
    inner = jax.jit(lambda x: x - 1)
    assert sized(lambda x: inner(inner(x)), 7) == (2, 14)
    assert sized(lambda x, y: x @ y, (3, 4), (4, 5)) == (1, 0)  # a library's
    assert sized(lambda x: x.sum(), 100) == (1, 100)  # what it reads


def test_loops_that_end_by_their_numbers_are_taken_for_many_rounds_in_either_account():
    """For five rounds they were taken in a quick program: it suppressed thousands of boxes and was never optimised."""

    def once(x):
        return jax.lax.while_loop(lambda c: c.sum() < 9, lambda c: c * 2, x)

    def twice(x):
        return jax.lax.while_loop(lambda c: c.max() < 9, lambda c: once(c) * 2, x)

    many, again = constants.WHILE_ROUNDS, constants.WHILE_AGAIN
    per_round = 10 + 1 + 10  # c * 2, and the condition: a comparison and what the sum reads
    assert sized(once, 10) == (3, many * per_round)
    assert sized(twice, 10) == (6, many * (per_round + again * per_round))
    assert sized(lambda x: jax.lax.map(once, x), (4, 10))[1] == 4 * many * per_round


def test_a_counter_that_is_compared_with_a_number_bounds_a_loop():
    """Proposals of 300 boxes, in three blocks, were taken for a hundred rounds, and compiled for 3 s."""

    def loop(x):
        going = lambda s: (s[0] < 3) & (s[1].sum() < 9)  # noqa: E731
        return jax.lax.while_loop(going, lambda s: (s[0] + 1, s[1] * 2), (0, x))[1]

    sizes = [sized(loop, n)[1] for n in (10, 20)]
    assert sizes[1] - sizes[0] == 3 * (10 + 10)  # c * 2, and what the sum reads


def test_products_and_convolutions_are_counted_by_kind():
    """Who tunes one does it once, however often it is there."""

    def layers(x, w):
        for _ in range(3):
            x = x @ w
        return jax.lax.scan(lambda c, _: (c @ w, None), x, None, length=5)[0] @ w[:, :2]

    size = price.size_of(jax.make_jaxpr(layers)(jnp.zeros((2, 4)), jnp.zeros((4, 4))).jaxpr)
    assert (size.products, size.convolutions, size.multiplied) == (2, 0, 3 + 5 + 1)
    image, kernel = jnp.zeros((1, 3, 8, 8)), jnp.zeros((3, 3, 3, 3))
    both = jax.make_jaxpr(
        lambda x, w: jax.lax.conv(jax.lax.conv(x, w, (1, 1), "SAME"), w, (1, 1), "SAME")
    )
    assert price.size_of(both(image, kernel).jaxpr).convolutions == 1


def test_parts_of_large_arrays_count_as_parts():
    """A loop over the rows of a matrix reads and writes a row a round (suppression of overlapping boxes)."""

    def rows(x):
        def step(x, k):
            row = jax.lax.dynamic_index_in_dim(x, k, keepdims=False)
            return jax.lax.dynamic_update_index_in_dim(x, row + 1, k, 0), row.max()

        return jax.lax.scan(step, x, jnp.arange(100))[1]

    size = price.size_of(jax.make_jaxpr(rows)(jnp.zeros((100, 1000))).jaxpr)
    assert 3 * 100 * 1000 <= size.numbers < 10 * 100 * 1000  # not 100 times the matrix
    whole = price.size_of(jax.make_jaxpr(lambda x: x.sum())(jnp.zeros((100, 1000))).jaxpr)
    assert whole.numbers >= 100 * 1000


@pytest.mark.observes
def test_the_price_goes_by_the_length_and_by_the_setting():
    long, cpu = price.plain(1000), price.on("cpu")
    assert cpu.quick(long) < 0.6 * cpu.whole(long)
    with mx.config.scope({"engine.compile_price": 2.0}):
        assert cpu.whole(long) == 2 * (cpu.base + long.whole)
    with mx.config.scope({"engine.compile_price": 0.0}):
        assert cpu.whole(long) == cpu.quick(long) == 0.0


def test_each_platform_has_prices_of_its_own():
    """A GPU's products are tuned, which takes longer than all the rest; without it convolutions are unbearable."""
    gpu, network, images = (
        price.on("gpu"),
        price.plain(300, 1e6)._replace(products=12, multiplied=200.0),
        price.plain(300, 1e6)._replace(products=2, convolutions=9, multiplied=2.0),
    )
    assert gpu.whole(network) > 2 * gpu.quick(network) > 2 * price.on("cpu").quick(network)
    assert (
        gpu.has_quick(network) and gpu.lost(network) == 200 * gpu.each and not gpu.has_quick(images)
    )
    assert not price.on("tpu").has_quick(network) and price.on("tpu").whole(network) == gpu.whole(
        network
    )


N = 150_000


def chain(x):
    """30 element-wise calls of which no optimisation leaves one out."""
    y = x
    for k in range(10):
        y = mx.np.tanh(y * 1.01 + x) - 0.1 * k
    return y


def expected(x):
    y = x
    for k in range(10):
        y = np.tanh(y * np.float32(1.01) + x) - np.float32(0.1 * k)
    return y


def runs_until_optimised(limit=400):
    """After how many runs the program is quick, and optimised; each run's numbers are compared."""
    a = np.random.RandomState(0).randn(N).astype("float32")
    x, want = mx.np.array(a), expected(a)
    before, quick = mx.engine.stats(), None
    for k in itertools.count():
        np.testing.assert_allclose(chain(x).asnumpy(), want, rtol=2e-5, atol=1e-5)
        now = mx.engine.stats()
        if quick is None and now["quick"] > before["quick"]:
            quick = k
        if now["optimised"] > before["optimised"] or k == limit:
            return quick, k, {n: now[n] - before[n] for n in now}


def test_a_program_is_quick_first_and_optimised_at_a_counted_run():
    quick, optimised, counts = runs_until_optimised()
    assert counts["quick"] == counts["optimised"] == 1
    assert quick < optimised < 400
    assert 0 < counts["seconds_quick"] and 0 < counts["seconds_optimised"]
    scheduler.forget()
    assert runs_until_optimised()[:2] == (quick, optimised)  # whatever the clock says


@pytest.mark.parametrize("cores", [1, 4])
def test_on_one_core_nothing_is_compiled_beside_the_program(cores, monkeypatch):
    begun = []
    real = tiers._Beside
    monkeypatch.setattr(tiers, "cores", lambda: cores)
    monkeypatch.setattr(tiers, "_Beside", lambda fn: begun.append(fn) or real(fn))
    _, optimised, counts = runs_until_optimised()
    assert counts["optimised"] == 1 and len(begun) == (cores > 1)


def test_a_compiler_that_fails_the_second_time_leaves_the_quick_program(monkeypatch):
    def fails(self):
        raise RuntimeError("the compiler ran out of memory")

    monkeypatch.setattr(tiers.Later, "_compile", fails)
    a = np.random.RandomState(0).randn(N).astype("float32")
    x, want = mx.np.array(a), expected(a)
    for _ in range(60):
        np.testing.assert_allclose(chain(x).asnumpy(), want, rtol=2e-5, atol=1e-5)
    counts = mx.engine.stats()
    assert counts["quick"] == 1 and counts["optimised"] == 0


@pytest.mark.parametrize(
    "given",
    [{"engine.cold": "compile"}, {"determinism.enabled": True}, {"engine.compile_price": 0.0}],
)
def test_nothing_is_quick_where_numbers_may_not_change_or_compiling_costs_nothing(given):
    with mx.config.scope(given):
        scheduler.forget()
        before = mx.engine.stats()
        x = mx.np.ones((N,))
        for _ in range(4):
            chain(x).asnumpy()
        now = mx.engine.stats()
    assert now["quick"] == before["quick"] and now["optimised"] == before["optimised"]
    assert now["compiled"] > before["compiled"]


def test_training_goes_on_while_its_step_is_optimised():
    """Weights are donated to the quick program and to the optimised one: no step is lost or done twice."""

    def weights(mode):
        with mx.config.scope({"engine.cold": mode, "engine.compile_price": 0.2}):
            scheduler.forget()
            mx.np.random.seed(3)
            net = gluon.nn.HybridSequential()
            net.add(*[gluon.nn.Dense(40, activation="tanh", in_units=40) for _ in range(6)])
            net.initialize(mx.init.Xavier())
            net.hybridize()
            trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 1e-3})
            rnd = np.random.RandomState(1)
            x = mx.np.array(rnd.rand(8, 40).astype("float32"))
            y = mx.np.array(rnd.rand(8, 40).astype("float32"))
            before = mx.engine.stats()["optimised"]
            for k in range(1, 600):
                with autograd.record():
                    loss = ((net(x) - y) ** 2).mean()
                loss.backward()
                trainer.step(1)
                mx.npx.waitall()
                if k == steps[0] or (not steps[0] and mx.engine.stats()["optimised"] > before):
                    steps[0] = k
                    break
            return [p.data().asnumpy() for p in net.collect_params().values()]

    steps = [0]
    found = weights("auto")
    assert 3 < steps[0] < 599
    for got, want in zip(found, weights("compile"), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-4)


@pytest.mark.observes
@pytest.mark.parametrize("said", [True, False])
def test_what_takes_long_to_compile_says_so_with_the_users_line(said, monkeypatch, capsys):
    monkeypatch.setattr(constants, "SILENT", 1000.0)
    with mx.config.scope({"debug.log_compiling": said, "engine.cold": "compile"}):
        chain(mx.np.ones((3, 5))).asnumpy()
    heard = capsys.readouterr().err
    assert heard.count("mxjax: compiling ") == said
    if said:
        assert " operations, for about 0 s (" in heard and "test_tiers.py:" in heard


def test_the_last_decisions_are_told_with_their_accounts():
    x = mx.np.ones((N,))
    told: list[str] = []
    for _ in range(100):  # programs cost more with some JAX than with others
        chain(x).asnumpy()
        told = mx.engine.explain()
        if any(" runs lost about" in line for line in told):
            break
    assert any("call by call would have cost about" in line for line in told)
    assert any("compiled quickly in" in line for line in told)
    assert any("runs lost about" in line and "optimising it costs about" in line for line in told)


def test_a_hybridized_network_has_an_account_of_its_own():
    class Squares(mx.gluon.nn.HybridBlock):
        def forward(self, x):
            for _ in range(6):
                x = (x * x + x) / 2
            return x

    net = Squares()
    net.hybridize()
    x = mx.np.ones((37, 5))

    def told(calls: str) -> list[str]:
        return [
            line for line in mx.engine.explain() if line.startswith(f"squares (37, 5): {calls}")
        ]

    for calls in (1, 2, 3):
        net(x).asnumpy()
        assert len(told(f"{calls} calls operator by operator took about")) == 1
    calls = 3
    while calls < 1500 and not told("a program, for"):
        net(x).asnumpy()
        calls += 1
    assert told(f"a program, for {calls} calls operator by operator would have cost about")
    assert not told(f"{calls} calls") and not told(f"{calls - 1} calls")  # the account is closed
    lost, costs = (float(n) for n in re.findall(r"about ([0-9.]+) ms", told("a program")[0]))
    assert 0.98 * costs <= lost < costs * (1 + 2 / calls)

    alone = mx.gluon.nn.Activation("relu")
    alone.hybridize()
    alone(mx.np.ones((41, 5))).asnumpy()
    assert any("(41, 5): operator by operator for good" in line for line in mx.engine.explain())


# ---- loops whose length is known


def module_after(
    batches: int, cold: str = "auto"
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """The weights of a small network after two epochs of so many batches, and what was counted."""
    rng = np.random.RandomState(0)
    data, labels = (
        rng.rand(4 * batches, 40).astype("float32"),
        rng.randint(0, 3, 4 * batches).astype("float32"),
    )
    # Weights are drawn in the order of their names, which numbers that count on would change.
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=300, name="a")
    net = mx.sym.FullyConnected(mx.sym.Activation(net, "tanh"), num_hidden=3, name="b")
    net = mx.sym.SoftmaxOutput(net, name="softmax")
    with mx.config.scope({"engine.cold": cold}):
        mx.core.drop_programs()
        mx.engine.reset()
        mx.random.seed(0)
        module = mx.mod.Module(net, context=mx.cpu())
        module.fit(
            mx.io.NDArrayIter(data, labels, 4), num_epoch=2, initializer=mx.init.Uniform(0.1)
        )
        counted = mx.engine.stats()
        return {
            k.rsplit("_")[-1] + str(v.shape): v.asnumpy() for k, v in module.get_params()[0].items()
        }, counted


def test_a_loop_of_known_length_is_compiled_as_soon_as_it_has_come_back():
    """As it takes least: not at all where few batches come."""
    few, many = module_after(8)[1], module_after(800)
    assert few["compiled"] == 0 and few["interpreted"] >= 16
    assert many[1]["interpreted"] < 16 and many[1]["hits"] > 1590
    for name, value in module_after(800, "compile")[0].items():
        np.testing.assert_allclose(many[0][name], value, rtol=1e-3, atol=1e-4)
    assert local.st.coming is None


def programs_of(equations, numbers):
    """Of kernels of eight equations each."""
    kernel = price.plain(8)
    count = -(-equations // 8)
    return kernel._replace(
        equations=equations, quick=count * kernel.quick, whole=count * kernel.whole, numbers=numbers
    )


def test_a_program_is_made_as_it_takes_least_in_the_loop():
    cpu, device = price.on("cpu"), jax.devices("cpu")[0]
    size = programs_of(1000, 10_000 / cpu.slower)  # a quick run loses 10 ms
    with tiers.repeating(2):
        assert tiers.begin(size, device) == "quick"
    with tiers.repeating(100_000):
        assert tiers.begin(size, device) == "whole"
    if cpu.light_options is not None:
        with tiers.repeating(200):
            assert tiers.begin(size, device) == "light"
    later = tiers.better("quick", "one", device, None, {}, None, size)
    with tiers.repeating(10):
        assert not any(later.is_paid() for _ in range(1000))
    with tiers.repeating(10_000):
        assert later.is_paid()


# ---- the bound: no more than about twice the better way


def buying(numpy, quick, whole, size, segment):
    """Whether the next run is a program's, and what was lost before it: by a graph's account, or by a segment's."""
    prices, saves = price.on("cpu").both(size), price.Pair(numpy - quick, numpy - whole)
    if not segment:
        trial = cold.Trial(numpy, saves, prices)
        while trial.again(training=False):
            yield False, 0.0
        yield True, trial.lost
    lost = price.Pair(0.0, 0.0)
    saves = price.Pair(max(0.0, saves.quick), max(0.0, saves.whole))
    for runs in itertools.count():
        with_this = lost.more(saves)
        pays = choice.will_pay(saves, prices, local.st.coming or 0)
        if choice.buys_segment(with_this.paid(prices), runs, pays):
            yield True, lost.whole
        lost = with_this
        yield False, 0.0


def spent(numpy, quick, whole, size, runs, known=False, segment=False):
    """What so many runs cost as the engine's own accounts send them: a graph's or a segment's, and its programs'.

    ``known``: in a loop that says how many runs come.
    """
    cpu, device = price.on("cpu"), jax.devices("cpu")[0]
    takes = {
        "quick": quick,
        "light": whole + (quick - whole) * constants.LIGHT_LOSES,
        "whole": whole,
    }
    account = buying(numpy, quick, whole, size, segment)
    form = later = None
    total = 0.0
    for k in range(runs):
        local.st.coming = runs - k - 1 if known else None
        if form is None:
            buys, paid = next(account)
            if not buys:
                total += numpy
                continue
            form = tiers.begin(size, device, paid)
            later = tiers.better(form, "simulated", device, None, {}, None, size, paid)
            total += cpu.of(form, size)
        if later is not None and later.is_paid():
            form, later = "whole", None
            total += cpu.of(form, size)
        total += takes[form]
    local.st.coming = None
    return total


def test_no_way_costs_more_than_twice_the_best_and_the_quick_program(monkeypatch):
    """Over sizes of programs and runs, worst cases (an end just after buying) among them; a quick program may be slower
    than NumPy."""
    monkeypatch.setattr(tiers, "cores", lambda: 1)
    rnd, cpu = np.random.RandomState(7), price.on("cpu")
    worst = told = 0.0
    for _ in range(300):
        whole = 10 ** rnd.uniform(1, 5)
        quick = whole * rnd.uniform(1, 4)
        size = programs_of(int(10 ** rnd.uniform(0.5, 3.5)), (quick - whole) / cpu.slower)
        numpy = max(whole, quick * 10 ** rnd.uniform(-0.5, 1.5))
        bought = int(
            min(
                cpu.quick(size) / max(numpy - quick, 1e-9),
                cpu.whole(size) / max(numpy - whole, 1e-9),
                3000,
            )
        )
        again = bought + int(cpu.whole(size) * constants.PAID / max(quick - whole, 1e-9)) + 1
        for runs in {
            1,
            2,
            bought + 1,
            bought + 2,
            min(again, 3000),
            min(again + 1, 3000),
            rnd.randint(1, 3000),
        }:
            best = min(runs * numpy, cpu.quick(size) + runs * quick, cpu.whole(size) + runs * whole)
            # What saves little is optimised at once.
            for segment in (False, True):
                total = spent(numpy, quick, whole, size, runs, segment=segment) - constants.LITTLE
                worst = max(worst, total / best)
            if runs < 300:
                total = spent(numpy, quick, whole, size, runs, known=True) - constants.LITTLE
                told = max(told, total / best)
    # Two, and the quick program's part of the price: it is dearer with JAX 0.11 and later.
    assert 1.5 < worst < 2.1 + cpu.quick_part
    assert 1.2 < told < 2
