"""The search for segments: each option's effect, what can be looked at, memonger's names."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

import mxjax as mx
from mxjax import autograd, errors, memonger, settings
from mxjax.memonger.model import segment_search
from mxjax.memonger.model.liveness import Liveness
from mxjax.memonger.model.segment_search import options, search
from mxjax.memonger.model.segments import _peaks
from tests.memonger import networks

CPUS = os.cpu_count() or 1


def _live(blocks: int = 32) -> Liveness:
    net = networks.perceptrons(blocks, 64)
    with autograd.train_mode():
        return Liveness(net.graph(mx.np.zeros((512, 64))))


@pytest.fixture(scope="module")
def live() -> Liveness:
    return _live()


# ---- options -----------------------------------------------------------------------------------------


@pytest.mark.observes("MGB_SUBLINEAR_MEMORY_THRESH_NR_TRY")
def test_more_trials_judge_more_plans(live: Liveness) -> None:
    counts = []
    for trials in (0, 1, 4, 30):
        _, stats = search(live, options(trials=trials))
        assert stats.thresholds == trials
        counts.append(stats.evaluated)
    assert counts[0] == 1 and counts == sorted(set(counts))


def test_thresholds_alone_come_near_the_least_possible(live: Liveness) -> None:
    best, _ = search(live, options(trials=10, genetic_iters=0))
    assert best.peak <= 1.03 * int(_peaks(live, live.inside)[0, -1])


@pytest.mark.observes(
    "MGB_SUBLINEAR_MEMORY_GENETIC_NR_ITER", "MGB_SUBLINEAR_MEMORY_GENETIC_POOL_SIZE"
)
def test_generations_are_those_asked_for_and_never_make_it_worse(live: Liveness) -> None:
    before, _ = search(live, options(trials=1))
    for rounds in (1, 8, 60):
        after, stats = search(live, options(trials=1, genetic_iters=rounds, pool_size=12))
        assert stats.generations == rounds and stats.population == 12
        assert after <= before
        before = after


def test_a_genetic_search_finds_plans_by_itself(live: Liveness) -> None:
    found, stats = search(live, options(trials=0, genetic_iters=80, pool_size=30))
    assert stats.thresholds == 0
    assert found.peak <= 1.5 * int(_peaks(live, live.inside)[0, -1]) < live.peak


def test_generations_of_nobody() -> None:
    with pytest.raises(
        errors.MXNetError, match=r"pool_size=0.*MGB_SUBLINEAR_MEMORY_GENETIC_POOL_SIZE"
    ):
        options(genetic_iters=3, pool_size=0)
    assert options(genetic_iters=0, pool_size=0).pool_size == 0


def test_a_lower_bound_is_memory_to_use(live: Liveness) -> None:
    free, _ = search(live, options())
    shares = []
    for bound in (0.3, 0.5, 0.8):
        mib = int(bound * live.peak / 2**20)
        found, _ = search(live, options(lower_bound_mb=mib))
        assert free.peak <= found.peak <= max(mib << 20, free.peak)
        shares.append(found.flops / float(live.flops[0, -1]))
    # What need not be held for 1 - bound of the depth is computed again, and little more.
    assert shares[0] <= 0.8 and shares[1] <= 0.6 and shares[2] <= 0.3
    assert shares == sorted(shares, reverse=True) and shares[0] < free.flops / float(
        live.flops[0, -1]
    )


@pytest.mark.observes("MGB_SUBLINEAR_MEMORY_LOWER_BOUND_MB")
def test_a_lower_bound_above_the_peak_leaves_the_plan_empty() -> None:
    net = networks.perceptrons(8, 64)
    x = mx.np.zeros((512, 64))
    plan = memonger.sublinear(net, x, lower_bound_mb=1 << 12)
    assert plan.segments == () and plan.again_flops == 0
    assert plan.peak_bytes == plan.plain_bytes and plan.stats.evaluated == 1
    assert memonger.sublinear(net, x).segments


@pytest.mark.observes("MGB_SUBLINEAR_MEMORY_WORKERS")
@pytest.mark.parametrize("workers", [1, 3])
def test_workers_judge_at_the_same_time(
    workers: int, live: Liveness, monkeypatch: pytest.MonkeyPatch
) -> None:
    meet = threading.Barrier(workers)
    real = segment_search.price
    first = threading.local()

    def judged(*args: Any) -> Any:
        if not hasattr(first, "seen"):
            first.seen = True
            meet.wait(30)  # broken where fewer than so many are at work
        return real(*args)

    monkeypatch.setattr(segment_search, "price", judged)
    monkeypatch.setattr(segment_search, "ROUND", 6)
    found, stats = search(live, options(trials=6, workers=workers))
    monkeypatch.undo()
    assert stats.concurrent == workers
    assert found.peak <= 1.2 * search(live, options(trials=6, workers=1))[0].peak


def test_workers_change_nothing_but_the_time(live: Liveness) -> None:
    plans = [search(live, options(genetic_iters=10, workers=w))[0] for w in (1, 2, 4)]
    assert plans[0] == plans[1] == plans[2]


def test_more_workers_than_the_processors_can_take() -> None:
    assert options(workers=4 * CPUS).workers == 4 * CPUS
    for workers in (0, 4 * CPUS + 1):
        with pytest.raises(errors.MXNetError, match=f"from 1 to {4 * CPUS}"):
            options(workers=workers)


def test_an_unknown_option() -> None:
    with pytest.raises(errors.MXNetError, match="pool_size"):
        options(pool=3)


LEGACY = {
    "LOWER_BOUND_MB": ("lower_bound_mb", 7),
    "THRESH_NR_TRY": ("trials", 3),
    "GENETIC_NR_ITER": ("genetic_iters", 5),
    "GENETIC_POOL_SIZE": ("pool_size", 9),
    "WORKERS": ("workers", 2),
}


@pytest.mark.parametrize("name", LEGACY)
def test_the_variables_of_megengine(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    field, value = LEGACY[name]
    assert getattr(options(), field) != value or name == "WORKERS"
    monkeypatch.setenv(f"MGB_SUBLINEAR_MEMORY_{name}", str(value))
    assert getattr(options(), field) == value


def test_the_defaults_are_megengines() -> None:
    assert options() == (0, 10, 0, 20, max(1, CPUS // 2))


# ---- the plan ----------------------------------------------------------------------------------------


def test_what_was_chosen_can_be_looked_at() -> None:
    net = networks.perceptrons(24, 64)
    plan = memonger.sublinear(net, mx.np.zeros((512, 64)), trials=6)
    row = 512 * 64 * 4
    assert plan.segments[0].first.startswith("perceptron0") and plan.segments[-1].last.startswith(
        "perceptron23"
    )
    assert [s.kept_bytes for s in plan.segments] == [row] * (len(plan.segments) - 1) + [0]
    assert sum(s.flops for s in plan.segments) == pytest.approx(plan.flops)
    assert not plan.segments[-1].again and plan.segments[0].again
    # At the worst moment: the ends before a segment, and its inside.
    held = [k * row + s.inside_bytes for k, s in enumerate(plan.segments) if s.again]
    assert max([*held, (len(plan.segments) - 1) * row]) <= plan.peak_bytes < plan.plain_bytes
    text = str(plan)
    assert len(text.splitlines()) == len(plan.segments) + 3
    assert "perceptron0" in text and "6 thresholds" in text


def test_a_plan_is_a_policy() -> None:
    net = networks.perceptrons(8, 16)
    plan = memonger.sublinear(net, mx.np.zeros((256, 16)))
    net.hybridize(mirror=plan)
    assert net._policy() is plan
    with autograd.train_mode():
        ends = [p.stop for p in plan.arrange(net.graph(mx.np.zeros((256, 16))))]
        other = [p.stop for p in plan.arrange(net.graph(mx.np.zeros((64, 16))))]
    assert ends == [sum(s.steps for s in plan.segments[: k + 1]) for k in range(len(plan.segments))]
    assert other[-1] == ends[-1]  # another batch is searched anew


def test_a_search_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from mxjax.memonger.model import sublinear

    done = []
    real = sublinear.search
    monkeypatch.setattr(sublinear, "search", lambda *a: done.append(1) or real(*a))
    net = networks.perceptrons(6, 24)
    x = mx.np.zeros((128, 24))
    first = memonger.sublinear(net, x)
    with autograd.train_mode():
        graph = net.graph(x)
    memonger.policy("sublinear").arrange(graph)
    assert len(done) == 1
    again = memonger.sublinear(net, x, trials=3)
    assert len(done) == 2 and again.stats != first.stats


def test_the_settings_in_force_are_part_of_the_policy() -> None:
    policy = memonger.policy("sublinear")
    before = policy.key()
    with settings.scope(memory_sublinear_lower_bound_mb=100):
        assert policy.key() != before
    assert policy.key() == before


@pytest.mark.parametrize("name", ["sublinear", "nested", "recursive"])
def test_the_setting_chooses_the_policy(name: str) -> None:
    net = networks.perceptrons(1, 4)
    net.hybridize()
    with settings.scope(memory_remat=name):
        assert net._policy() is memonger.policy(name)
    assert net._policy() is None


# ---- memonger's own names ----------------------------------------------------------------------------


def test_search_plan_and_get_cost() -> None:
    net = networks.perceptrons(10, 32)
    net.hybridize()
    before = memonger.get_cost(net, data=(512, 32))
    assert memonger.search_plan(net, ntrial=3, data=(512, 32)) is net
    plan = net._policy()
    assert plan.stats.thresholds == 3 and plan.segments
    after = memonger.get_cost(net, mx.np.zeros((512, 32)))
    assert after < 0.6 * before
    # What one block's derivative asks for is held in any case: its input, and 128 columns thrice.
    assert after > 4 * 512 * (32 + 3 * 128) / 2**20
    assert net.collect_params()["0.up.weight"].grad().asnumpy().sum() == 0  # nothing ran


def test_shapes_by_name_and_types() -> None:
    seen: list[Any] = []

    class Two(mx.gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.dense = mx.gluon.nn.Dense(4)

        def forward(self, a: Any, b: Any) -> Any:
            seen.append((a.shape, str(a.dtype), b.shape, str(b.dtype)))
            return self.dense(a) * b.astype("float32")

    net = Two()
    net.initialize()
    memonger.search_plan(net, type_dict={"b": "float64"}, b=(3, 4), a=(3, 7))
    assert seen[-1] == ((3, 7), "float32", (3, 4), "float64")
    assert memonger.get_cost(net, data=(5, 7), scale=(5, 4)) > 0  # other names: in their order
    assert seen[-1] == ((5, 7), "float32", (5, 4), "float32")
    with pytest.raises(errors.MXNetError, match="shape of each input"):
        memonger.search_plan(net)
    with pytest.raises(errors.MXNetError, match="not both"):
        memonger.get_cost(net, mx.np.zeros((3, 7)), b=(4, 5))


def test_what_cannot_be_searched() -> None:
    net = networks.perceptrons(1, 4)
    for wrong in (3, mx.gluon.Block()):
        for call in (memonger.sublinear, memonger.get_cost):
            with pytest.raises(errors.MXNetTypeError, match="a HybridBlock is expected"):
                call(wrong, mx.np.zeros((2, 4)))
        with pytest.raises(errors.MXNetTypeError, match="a HybridBlock is expected"):
            memonger.search_plan(wrong, data=(2, 4))
    with pytest.raises(errors.MXNetTypeError, match="got nothing"):
        memonger.sublinear(net)
    with pytest.raises(
        errors.MXNetTypeError, match="an array of mxjax is expected among the inputs, got list"
    ):
        memonger.sublinear(net, [1.0, 2.0])
    with pytest.raises(errors.MXNetTypeError, match="data=32: a shape is expected"):
        memonger.search_plan(net, data=32)
    with pytest.raises(
        errors.MXNetValueError, match="'daat', which is no input; did you mean 'data'"
    ):
        memonger.search_plan(net, type_dict={"daat": "float32"}, data=(2, 4))
    assert not net._active
