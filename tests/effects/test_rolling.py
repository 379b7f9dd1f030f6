"""Training steps of one segment as a loop: the same numbers as one after the other."""

import numpy as np
import pytest

import mxjax as mx
from mxjax.effects import rolling
from mxjax.gluon import nn

pytestmark = pytest.mark.programs

STEPS = 5


@pytest.fixture
def loops(monkeypatch):
    """The loops found in the segments that were compiled; None for one without."""
    seen = []
    find = rolling.find

    def heard(*given):
        seen.append(find(*given))
        return seen[-1]

    monkeypatch.setattr(rolling, "find", heard)
    return seen


def train(
    step=lambda k, net, x: (net(x) ** 2).mean(), hybridize=False, optimizer="adam", losses=None
):
    """The weights and states' effect after STEPS steps over other batches with a falling learning rate."""
    mx.random.seed(1)
    net = nn.HybridSequential()
    net.add(nn.Dense(4, in_units=3, activation="tanh"), nn.Dropout(0.3), nn.Dense(2, in_units=4))
    net.initialize(mx.init.Uniform(0.5))
    if hybridize:
        net.hybridize()
    schedule = mx.lr_scheduler.PolyScheduler(max_update=20, base_lr=0.1)
    trainer = mx.gluon.Trainer(
        net.collect_params(), optimizer, {"learning_rate": 0.1, "lr_scheduler": schedule}
    )
    data = [mx.np.array(np.sin(np.arange(6.0) * (k + 1)).reshape(2, 3)) for k in range(STEPS)]
    mx.waitall()
    with mx.config.scope(iterations_per_loop=STEPS):
        for k, x in enumerate(data):
            with mx.autograd.record():
                loss = step(k, net, x)
            loss.backward()
            trainer.step(1)
            if losses is not None:
                losses.append(loss)
        found = [p.data().asnumpy() for p in net.collect_params().values()]
    return [*found, *(p.grad().asnumpy() for p in net.collect_params().values())]


@pytest.mark.parametrize("options", [
    {"losses": True}, {"hybridize": True, "optimizer": "sgd"},
    {"step": lambda k, net, x: (net(x) * x[:, :1].mean()).sum(), "optimizer": "sgd"},
])  # fmt: skip
def test_a_loop_computes_what_its_steps_compute(options, loops, monkeypatch):
    def run():
        losses = [] if "losses" in options else None
        return [*train(**{**options, "losses": losses}), *(loss.asnumpy() for loss in losses or ())]

    looped = run()
    assert [found.turns for found in loops if found] == [STEPS]
    monkeypatch.setattr(rolling, "TURNS", 1000)
    mx.core.drop_programs()
    unrolled = run()
    assert len([found for found in loops if found]) == 1
    for a, b in zip(looped, unrolled, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def turns(step, count=8):
    """What so many turns of a step leave of two arrays, and whether they became a loop."""

    def run(ones, sin):
        first = second = ones(3, dtype="float32")
        for k in range(count):
            first, second = step(k, first, second, sin)
        return first

    with mx.config.scope(iterations_per_loop=count):
        found = run(mx.np.ones, mx.np.sin).asnumpy()
    np.testing.assert_allclose(found, run(np.ones, np.sin), rtol=1e-5)


@pytest.mark.parametrize(
    ("step", "rolls"),
    [
        (lambda k, a, b, sin: (sin(a) + b, b), True),
        (lambda k, a, b, sin: (sin(a) + b, a), False),  # what was made two turns ago is not carried
        (
            lambda k, a, b, sin: (sin(a) + b, b) if k else (a * 3, b + 1),
            True,
        ),  # the first turn is another
        (
            lambda k, a, b, sin: (sin(a) + b, a) if k % 2 else (sin(a) - b, a),
            True,
        ),  # a turn of two steps
        (lambda k, a, b, sin: (sin(a) + b, a) if k != 5 else (a * b, a), False),
    ],
)
def test_what_is_a_loop(step, rolls, loops):
    turns(step)
    assert any(loops) is rolls
