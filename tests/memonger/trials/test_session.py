"""Trials: compiled as what would run, each kind of part traced once."""

from __future__ import annotations

import re
from typing import Any

import jax
import pytest

import mxjax as mx
from mxjax import memonger
from mxjax.memonger.arrangement.parts import Lowered
from mxjax.memonger.model.knapsack import least, solve
from mxjax.memonger.trials.rehearse import counting
from mxjax.memonger.trials.session import MEMORY, Scheduled, Session
from tests.memonger import networks


@pytest.fixture(scope="module")
def session() -> Session:
    net, inputs = networks.resnet((1, 1), side=16, batch=4, width=8)
    return Session(net, inputs, "sgd")


@pytest.mark.parametrize("kept", [pytest.param("all", marks=pytest.mark.slow), "least"])
def test_a_trial_counts_as_the_step_that_runs(session: Session, kept: str) -> None:
    chosen = session.plain
    if kept == "least":
        found = solve(session.options, least(session.options))
        assert found is not None
        chosen = tuple(found)
    trial = session.measure(chosen, MEMORY)
    policy = Scheduled(lambda graph: [o.part for o in chosen], kept, MEMORY)
    session.net.hybridize(mirror=policy)
    with mx.config.scope(compiler_options=counting()):
        runs = memonger.rehearse(session._step, session.net, session.trainer)
    assert trial.bytes("temp") == runs.temp_bytes
    assert trial.measured.flops == runs.flops


def test_parts_that_are_alike_are_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(networks.perceptrons(5, 8), (mx.np.zeros((4, 8)),), "sgd")
    traced: dict[Any, int] = {}
    run_all = Lowered.__call__

    def counted(self: Lowered, *arrays: Any) -> Any:
        for run in self._runs:
            traced[run.fn] = traced.get(run.fn, 0) + 1
        return run_all(self, *arrays)

    monkeypatch.setattr(Lowered, "__call__", counted)
    session.measure(session.plain, MEMORY)
    # The first takes the batch, of which nobody wants a gradient; the last gives the network's result.
    assert sum(traced.values()) >= 5
    assert len(traced) <= len(
        {session.chain.likeness(u.start, u.stop) for u in session.chain.units}
    )


@pytest.mark.skipif(
    jax.devices()[0].platform != "cpu", reason="elsewhere images keep MXNet's order"
)
@pytest.mark.slow  # a convolutional network twice; test_images turns single graphs
def test_an_image_that_a_network_gives_is_turned_before_the_backward_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Left to XLA it waits in the order in which it was made until the end of the step."""
    texts: list[str] = []
    told = "mxjax.memonger.trials.session.stages"
    monkeypatch.setattr(told, lambda compiled, parts: texts.append(compiled.as_text()))
    session = Session(*networks.unet(2, 4, 32, 4), "sgd")
    session.measure(session.plain, MEMORY)
    lines = texts[0].partition("ENTRY")[2].splitlines()
    turned = [
        k
        for k, line in enumerate(lines)
        if re.search(r"= f32\[4,2,32,32\]\{3,2,1,0\} (copy|fusion)\(", line)
    ]
    assert turned and turned[-1] < next(
        k for k, line in enumerate(lines) if "/transpose(jvp(" in line
    )
