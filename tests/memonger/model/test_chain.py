"""Chains: where they are cut, that what an option holds is what JAX keeps, and the knapsack."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
import pytest

import mxjax as mx
from mxjax.core import SCALAR
from mxjax.gluon import nn
from mxjax.memonger.arrangement.parts import ALL, Part, _runs, unit
from mxjax.memonger.model import chain as chain_module
from mxjax.memonger.model.chain import Chain
from mxjax.memonger.model.knapsack import _possible, bound, least, peak, solve
from mxjax.memonger.model.lives import COARSE
from mxjax.memonger.model.options import Option, Options
from mxjax.memonger.model.price import kept, price
from mxjax.memonger.model.treatment import Treatment, gradients, treatment
from mxjax.memonger.model.treatment import work as in_use
from mxjax.memonger.trials.session import training_chain
from tests.memonger import networks

ZERO = mx.init.Zero()  # nothing is computed with them, and random ones take their time
NETWORKS = {
    "transformer": lambda: networks.transformer(3, 16, 2, 32, 2, init=ZERO),
    "resnet": lambda: networks.resnet((1, 2), side=32, batch=2, width=8, init=ZERO),
    "unet": lambda: networks.unet(3, 4, 32, 2, init=ZERO),
    "translator": lambda: networks.translator(1, 2, 16, 2, 16, 2, init=ZERO),
}
# Two of them have all that a chain is made of but the long ways of the others.
ALL_NETWORKS = [
    "transformer",
    "resnet",
    *(pytest.param(n, marks=pytest.mark.slow) for n in ("unet", "translator")),
]


@cache
def fine(name: str) -> Chain:
    net, inputs = NETWORKS[name]()
    net.setattr(
        "grad_req", "add"
    )  # such a gradient has no room for others: all that is held counts
    return training_chain(net, inputs)


@cache
def coarse(name: str) -> Chain:
    """The same with larger units: a cut must hold back more than twice of what crosses it."""
    chain = Chain(fine(name).graph, fine(name).wants)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chain_module, "FINE", COARSE)
        assert chain.units  # they are found when they are asked for
    return chain


@cache
def stretches(chain: Chain) -> Options:
    return Options(chain)


@cache
def options_of(chain: Chain) -> list[list[Option]]:
    return stretches(chain)()


def families(chain: Chain) -> list[list[Treatment]]:
    return [here[0] for here in stretches(chain).ways]


def test_residual_blocks_are_cut_where_one_array_crosses() -> None:
    chain = fine("resnet")
    inside = 0
    for u in chain.units[:-1]:
        before, after = (chain.steps[at].scope.split("/")[0] for at in (u.stop - 1, u.stop))
        own = [s for s in chain.steps[: u.stop] if s.scope.split("/")[0] == before]
        crossing = [
            k
            for s in own
            for k in range(s.first, s.first + len(s.avals))
            if chain.last.get(k, -1) >= u.stop
        ]
        crossing = [
            k for k in crossing if chain.last[k] < len(chain.steps)
        ]  # moving statistics leave the network
        if before == after and before.startswith("bottleneck"):
            inside += 1
            assert len(crossing) == 1
    assert inside
    names = {u.name.split("/")[0] for u in chain.units}
    # The last block, after the one that changes the number of channels.
    assert "bottleneck6" in names


def test_blocks_of_a_transformer_are_two_large_units_of_equal_kinds() -> None:
    units = coarse("transformer").units
    assert len(units) == 6
    assert [u.kind for u in units[2:]] == [units[2].kind, units[3].kind] * 2
    for u in units:  # each ends with the residual addition
        assert coarse("transformer").steps[u.stop - 1].call.name == "add"


def test_equal_blocks_of_a_transformer_are_units_of_equal_kinds() -> None:
    chain = fine("transformer")
    blocks = {}
    for u in chain.units:
        blocks.setdefault(u.name.split("/")[0], []).append(u)
    first, second, third = blocks.values()
    assert [u.kind for u in second] == [u.kind for u in third] and len(first) == len(second) >= 2
    for units in blocks.values():  # each block ends with the residual addition
        assert chain.steps[units[-1].stop - 1].call.name == "add"


@pytest.mark.parametrize("name", ALL_NETWORKS)
def test_units_cover_the_graph_and_options_the_chain(name: str) -> None:
    chain = fine(name)
    ends = [0, *(u.stop for u in chain.units)]
    assert [u.start for u in chain.units] == ends[:-1] and ends[-1] == len(chain.steps)
    for here, u in zip(options_of(chain), chain.units, strict=True):
        assert here[0].part == Part(u.stop, ALL)
        assert {o.start for o in here} == {u.start} and {o.stop for o in here} <= set(ends)
        assert all(o.held >= 0 and o.work > 0 for o in here)


@pytest.mark.parametrize(
    "name",
    [
        "transformer",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("resnet", "unet", "translator")),
    ],
)
def test_what_an_option_holds_is_what_jax_keeps(name: str) -> None:
    chain = fine(name)
    seen = set()
    for ways in (ways for here in stretches(chain).ways for ways in here[:2]):
        start, stop = ways[0].start, ways[0].part.stop
        if (kind := chain.likeness(start, stop)) in seen:
            continue
        seen.add(kind)
        steps = unit(chain.steps, start, stop, chain.last)
        structs = [chain.avals[i].struct for i in steps.takes]
        for way in ways:
            if way.part.keep == ALL:  # as XLA likes
                continue
            run = next(_runs(chain.steps, start, [way.part], chain.last, chain.wanted))
            found = kept(run.fn, structs, [i in chain.wanted for i in steps.takes])
            taken = {steps.takes[i] for i in found.ins if 0 <= steps.takes[i] < SCALAR}
            assert taken == way.takes
            fresh = (
                found.inner
                + chain.bytes(steps.gives[k] for k in found.outs)
                - chain.bytes(way.kept)
            )
            # BatchNorm's mean and variance, where they are of 1024 numbers or more, are kept besides.
            norms = [s.avals[0].shape for s in steps.steps if s.call.name == "BatchNorm"]
            assert 0 <= fresh <= sum(2 * 4 * c for n, c, h, w in norms if n * h * w >= 1024)


@pytest.mark.parametrize("name", ALL_NETWORKS)
def test_more_bytes_cost_less(name: str) -> None:
    chain = fine(name)
    for family in families(chain):
        found = family[1:]
        bytes_, costs = [chain.bytes(t.kept) for t in found], [t.cost for t in found]
        assert bytes_ == sorted(bytes_) and costs == sorted(costs, reverse=True)
        assert family[0].cost == 0


def test_the_way_across_is_held_once() -> None:
    """An encoder's result, which every decoder reads, counts for the unit that makes it."""
    chain = coarse("translator")
    memory = next(s.first for s in reversed(chain.steps) if s.scope == "encoders/encoder0")
    ways = families(chain)
    assert len([f for f in ways if any(memory in t.takes for t in f)]) == 2
    for here, family, u in zip(options_of(chain), ways, chain.units, strict=True):
        gives = {k for k in chain.made(u.start, u.stop) if chain.last.get(k, -1) >= u.stop}
        own = {k for k in gives if chain.last[k] < len(chain.steps)}
        assert (memory in own) == (u.start <= chain.maker[memory] < u.stop)
        for option, t in zip(here, family, strict=False):
            assert option.held == chain.bytes(own | t.kept)


def test_a_result_spares_its_operand_where_all_is_kept() -> None:
    """relu's derivative goes by the result's sign, which the next layer reads: its operand is not kept."""
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="relu", in_units=16), nn.Dense(2, in_units=8))
    net.initialize()
    chain = training_chain(net, (mx.np.ones((4, 16)),))
    dense, relu, *_ = (s.first for s in chain.steps)
    assert treatment(chain, 0, len(chain.steps), None).kept == {relu}
    # Elsewhere relu is computed again for its own derivative, which finds no result by a name.
    assert treatment(chain, 0, len(chain.steps), frozenset({dense})).kept == {dense}


@pytest.mark.parametrize(("wide", "held"), [(64, 0), (3, 4 * 16 * 4)])
def test_what_waits_in_a_gradients_room_takes_none(wide: int, held: int) -> None:
    """tanh's result (4 x 16) is read for the last time before the gradients of the first two matrices are written:
    where one of them has as many numbers it waits there."""
    net = nn.HybridSequential()
    net.add(
        nn.Dense(wide, in_units=wide),
        nn.Dense(16, activation="tanh", in_units=wide),
        nn.Dense(8, in_units=16),
    )
    net.initialize()
    batch = (mx.np.ones((4, wide)),)
    chain = training_chain(net, batch)
    tanh = next(s.first for s in chain.steps if s.call.name == "Activation")
    assert chain.waiting([tanh]) == held and chain.bytes([tanh]) == 4 * 16 * 4
    # The last matrix' gradient is written while tanh's result is read for it.
    for parameter in list(net.collect_params().values())[:-2]:
        parameter.grad_req = "add"
    assert training_chain(net, batch).waiting([tanh]) == 4 * 16 * 4


class Residual(nn.HybridSequential):
    """x + dense(x), and relu of that."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(8, in_units=8, use_bias=False)

    def forward(self, x: Any) -> Any:
        return mx.npx.relu(x + self.dense(x))


def test_a_gradient_lives_from_its_last_reader_to_its_maker() -> None:
    net = nn.HybridSequential()
    net.add(nn.Dense(8, in_units=2, use_bias=False), Residual(), nn.Dense(2, in_units=8))
    net.initialize()
    chain = training_chain(net, (mx.np.ones((64, 2)),))
    names = [s.call.name for s in chain.steps]
    add, relu = names.index("add"), names.index("relu")
    dense, whole = add - 1, 64 * 8 * 4
    first, product, total, result = (chain.steps[at].first for at in (dense - 1, dense, add, relu))
    # relu's own is given from the beginning, the first layer's result is read by the sum last, and what is made before
    # the stretch has its gradient to the end of it.
    assert sorted(gradients(chain, dense, relu + 1)) == [
        (first, add, dense),
        (product, add, dense),
        (total, relu, add),
        (result, relu + 1, relu),
    ]
    # In the turn of the sum there are its own and those of its operands.
    assert in_use(chain, dense, relu + 1, ()) == 3 * whole


def test_prices() -> None:
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="tanh", in_units=16))
    net.initialize()
    chain = training_chain(net, (mx.np.ones((4, 16)),))
    dense, tanh = chain.prices
    assert dense.costly and not tanh.costly
    assert dense.flops == 2 * 4 * 8 * 16 + 4 * 8
    assert dense.ins == {0} and not dense.inner  # the data need no gradient: the weight is not read
    assert tanh.flops < dense.flops / 8
    step = chain.steps[0]
    avals = tuple([chain.avals[i] for i in step.args])
    frozen = price(step.call, avals, (False, False, False), "cpu")
    assert not frozen.ins and frozen.flops == dense.flops


def _random(rng: np.random.RandomState, n: int) -> list[list[Option]]:
    def option(start: int, stop: int) -> Option:
        held = int(rng.randint(0, 50))
        return Option(
            start,
            stop,
            Part(stop),
            held,
            held + int(rng.randint(0, 30)),
            0.0,
            float(rng.randint(0, 90)),
            "",
        )

    chain = []
    for i in range(n):
        here = [option(i, i + 1) for _ in range(3)]
        here += [option(i, j) for j in (i + 2, i + 3) if j <= n]
        chain.append(here)
    return chain


def _ways(options: list[list[Option]], at: int = 0) -> Any:
    if at == len(options):
        yield []
        return
    for o in options[at]:
        for rest in _ways(options, o.stop):
            yield [o, *rest]


@pytest.mark.parametrize("seed", range(6))
def test_the_knapsack_is_exact(seed: int) -> None:
    rng = np.random.RandomState(seed)
    options = _random(rng, 6)
    ways = list(_ways(options))
    floor = min(map(peak, ways))
    assert least(options) == floor
    assert solve(options, floor - 1) is None
    for budget in (floor, floor * 1.2, floor * 1.6, floor * 3):
        best = min(sum(o.cost for o in w) for w in ways if peak(w) <= budget)
        found = solve(options, budget)
        assert found is not None and peak(found) <= budget
        assert sum(o.cost for o in found) == best
        limit = bound(options, budget)
        assert limit is not None and limit <= best + 1e-6
        within = {id(o) for w in ways if peak(w) <= budget for o in w}
        assert {id(o) for here in _possible(options, budget) for o in here} == within


def test_the_relaxation_has_nothing_that_no_choice_has() -> None:
    fat, lean = (
        Option(0, 1, Part(1), 0, work, 0.0, cost, "") for work, cost in ((20, 0.0), (5, 10.0))
    )
    assert (
        bound([[fat, lean]], 10) == 10
    )  # a third of the fat one would fit beside two thirds of the lean one
    assert bound([[fat, lean]], 20) == 0
    assert bound([[fat]], 10) is None
    # What a later unit needs at least counts as well.
    large, small = (
        Option(0, 1, Part(1), held, held, 0.0, cost, "") for held, cost in ((9, 0.0), (1, 10.0))
    )
    assert bound([[large, small], [Option(1, 2, Part(2), 0, 8, 0.0, 0.0, "")]], 10) == 10


def test_lean_stretches_come_before_fat_ones() -> None:
    """What is recomputed needs work, which is hidden where little is held yet."""
    lean, fat = (1, 11, 5.0), (6, 6, 0.0)
    options = [
        [Option(i, i + 1, Part(i + 1), h, w, 0.0, c, "") for h, w, c in (lean, fat)]
        for i in range(4)
    ]
    found = solve(options, 16)
    assert found is not None
    assert [o.held for o in found] == [1, 1, 6, 6]
    orders = itertools.permutations(found)
    assert peak(found) == min(
        peak([o._replace(start=i, stop=i + 1) for i, o in enumerate(order)]) for order in orders
    )
