"""Trials: compiled as what would run."""

from __future__ import annotations

import re
from typing import Any

import jax
import pytest

import mxjax as mx
from mxjax import memonger
from mxjax.gluon import nn
from mxjax.memonger.arrangement.parts import Arranged
from mxjax.memonger.model.knapsack import least, peak, solve
from mxjax.memonger.trials.measure import cost
from mxjax.memonger.trials.rehearse import counting
from mxjax.memonger.trials.session import Session
from tests.memonger import networks


class Around(nn.HybridBlock):
    """Two convolutions with BatchNorm and relu, and a way around them."""

    def __init__(self, channels: int):
        super().__init__()
        self.body = nn.HybridSequential()
        for _ in range(2):
            self.body.add(nn.Conv2D(channels, 3, padding=1, in_channels=channels, use_bias=False))
            self.body.add(nn.BatchNorm(in_channels=channels), nn.Activation("relu"))

    def forward(self, x: Any) -> Any:
        return mx.npx.relu(self.body(x) + x)


@pytest.fixture(scope="module")
def session() -> Session:
    net = nn.HybridSequential()
    net.add(*[Around(8) for _ in range(2)])
    net.initialize()
    return Session(net, (mx.np.ones((2, 8, 8, 8)),), "sgd")


@pytest.mark.parametrize("kept", [pytest.param("all", marks=pytest.mark.slow), "least"])
def test_a_trial_counts_as_the_step_that_runs(session: Session, kept: str) -> None:
    chosen = session.plain
    if kept == "least":
        found = solve(session.options, least(session.options))
        assert found is not None
        chosen = tuple(found)
    trial = session.measure(chosen)
    policy = Arranged(lambda graph: [o.part for o in chosen], kept)
    session.net.hybridize(mirror=policy)
    with mx.config.scope(compiler_options=counting()):
        runs = memonger.rehearse(session._step, session.net, session.trainer)
    assert trial.bytes("temp") == runs.temp_bytes
    assert trial.measured.flops == runs.flops


@pytest.mark.skipif(
    jax.devices()[0].platform != "cpu", reason="elsewhere images keep MXNet's order"
)
@pytest.mark.slow  # a convolutional network twice; test_images turns single graphs
def test_an_image_that_a_network_gives_is_turned_before_the_backward_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Left to XLA it waits in the order in which it was made until the end of the step."""
    texts: list[str] = []

    def told(program: Any, runs: int) -> Any:
        texts.append(program.compiled.as_text())
        return cost(program, runs)

    monkeypatch.setattr("mxjax.memonger.trials.measure.cost", told)
    session = Session(*networks.unet(2, 4, 32, 4), "sgd")
    session.measure(session.plain)
    lines = texts[0].partition("ENTRY")[2].splitlines()
    turned = [
        k
        for k, line in enumerate(lines)
        if re.search(r"= f32\[4,2,32,32\]\{3,2,1,0\} (copy|fusion)\(", line)
    ]
    assert turned and turned[-1] < next(
        k for k, line in enumerate(lines) if "/transpose(jvp(" in line
    )


def test_of_images_xla_holds_no_more_than_the_model_says() -> None:
    """Convolutions' results and relu's, each once: nothing centred, nothing in a second order, no window's padded
    image. What one more block holds is told: what convolutions need while they are at work is not the model's."""
    needed, told = [], []
    for blocks in (1, 2):
        net = nn.HybridSequential()
        net.add(*[Around(16) for _ in range(blocks)], nn.MaxPool2D(3, 2, 1), Around(16))
        net.initialize()
        session = Session(net, (mx.np.ones((8, 16, 32, 32)),), "sgd")
        needed.append(session.measure(session.plain).bytes("temp"))
        told.append(peak(session.plain))
    image = 8 * 16 * 32 * 32 * 4
    assert abs((needed[1] - needed[0]) - (told[1] - told[0])) < image / 2, (needed, told)
