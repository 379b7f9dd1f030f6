"""What XLA's buffers hold, moment by moment, against what the program must hold."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import mxjax as mx
from mxjax.core import keep_barriers
from mxjax.gluon import nn
from mxjax.memonger.trials.buffers import SCOPE, Stage, _end, stages
from mxjax.memonger.trials.session import MEMORY, Session
from tests.memonger import networks

ROWS, WIDE = 512, 256
ARRAY = ROWS * WIDE * 4
PARTS = 4
LAYERS = 4  # in each


def _step(weights: list[jax.Array], x: jax.Array) -> list[jax.Array]:
    """Gradients of layers whose derivatives read their input and their output: one array for each layer."""

    def loss(weights: list[jax.Array]) -> jax.Array:
        y = x
        for k, w in enumerate(weights):
            with jax.named_scope(SCOPE.format(k)):
                for row in range(LAYERS):
                    y = jnp.tanh(y @ w + row)
                y = lax.optimization_barrier(y)
        return (y * y).sum()

    return jax.grad(loss)(weights)


def _compiled(fn: Any) -> Any:
    weights = [jax.ShapeDtypeStruct((WIDE, WIDE), jnp.float32)] * PARTS
    x = jax.ShapeDtypeStruct((ROWS, WIDE), jnp.float32)
    return jax.jit(fn).lower(weights, x).compile(keep_barriers("cpu"))


@pytest.fixture(scope="module")
def found() -> tuple[Any, list[Stage]]:
    with jax.default_device(jax.devices("cpu")[0]):
        compiled = _compiled(_step)
    found = stages(compiled, PARTS)
    assert found is not None
    return compiled, found


def test_the_most_is_what_xla_counts(found: tuple[Any, list[Stage]]) -> None:
    compiled, parts = found
    temp = compiled.memory_analysis().temp_size_in_bytes
    most = max(s.most for s in parts)
    assert (
        temp * 0.9 <= most <= temp * 1.1
    )  # buffers that share a place are told apart by their start alone


def test_each_part_is_left_what_its_derivative_reads(found: tuple[Any, list[Stage]]) -> None:
    """The results of its layers, and of the forward pass nothing else."""
    _, parts = found
    left = np.array([s.held for s in parts]) / ARRAY
    np.testing.assert_allclose(left, LAYERS, rtol=0, atol=0.01)
    assert all(s.held <= s.most for s in parts)


def test_a_loop_holds_what_its_body_does() -> None:
    def looped(weights: list[jax.Array], x: jax.Array) -> list[jax.Array]:
        def loss(weights: list[jax.Array]) -> jax.Array:
            y = x
            for k, w in enumerate(weights):
                with jax.named_scope(SCOPE.format(k)):
                    y = lax.optimization_barrier(
                        lax.fori_loop(0, 3, lambda _, y, w=w: jnp.tanh(y @ w), y)
                    )
            return (y * y).sum()

        return jax.grad(loss)(weights)

    with jax.default_device(jax.devices("cpu")[0]):
        compiled = _compiled(looped)
    found = stages(compiled, PARTS)
    assert found is not None
    temp = compiled.memory_analysis().temp_size_in_bytes
    assert temp * 0.8 <= max(s.most for s in found) <= temp * 1.2
    assert temp > 2 * PARTS * ARRAY  # each turn keeps its result


def test_a_program_without_parts_tells_nothing() -> None:
    compiled = jax.jit(lambda x: x + 1).lower(jax.ShapeDtypeStruct((4,), jnp.float32)).compile()
    assert stages(compiled, 1) is None


def test_a_program_without_an_order_of_work_tells_nothing(found: tuple[Any, list[Stage]]) -> None:
    class Unordered:  # as a backend may give it: two fields of a module, not its schedule
        def memory_analysis(self) -> Any:
            return found[0].memory_analysis()

        def runtime_executable(self) -> Any:
            return self

        def hlo_modules(self) -> list[Any]:
            return [self]

        def as_serialized_hlo_module_proto(self) -> bytes:
            return b"\x0a\x01m\x30\x01"

    assert stages(Unordered(), PARTS) is None


def test_of_images_xla_holds_no_more_than_the_model_says() -> None:
    """Convolutions' results and relu's, each once: nothing centred, nothing in a second order, no window's padded
    image. (XLA keeps more wherever it may: it computes a sign, or a window's winner, from whatever is there.)"""
    net = nn.HybridSequential()
    net.add(Around(16), Around(16), nn.MaxPool2D(3, 2, 1), Around(16))
    net.initialize()
    session = Session(net, (mx.np.ones((8, 16, 32, 32)),), "sgd")
    trial = session.measure(session.plain, MEMORY)
    assert trial.stages is not None and len(trial.chosen) >= 3
    image = 8 * 16 * 32 * 32 * 4
    held = before = 0
    for option, stage in zip(trial.chosen, trial.stages, strict=True):
        assert before - session.lingering(option.start) < held + image / 2, option
        held += option.held
        before += stage.held
    assert held - 2 * image < before < held + image / 2


def test_the_model_knows_what_waits_in_gradients_buffers() -> None:
    """A softmax's result has the bytes of a weight's gradient, and waits in one that is not written yet. The scores
    that it is made of have as many, but no derivative reads them: they need no room until then."""
    net, inputs = networks.transformer(3)
    session = Session(net, inputs, "sgd")
    trial = session.measure(session.plain, MEMORY)
    assert trial.stages is not None
    chain = session.chain
    made = [at for at, s in enumerate(chain.steps) if s.call.name == "softmax"]  # type: ignore[union-attr]
    held = [
        (chain.size[chain.steps[at].first], option.held, stage.held)
        for option, stage in zip(trial.chosen, trial.stages, strict=True)
        for at in made
        if option.start <= at < option.stop
    ]
    assert [(model < softmax, xla < softmax) for softmax, model, xla in held] == [
        (False, False)
    ] + 2 * [(True, True)]
    waiting = {k for k in chain._reusing if isinstance(k, int)}
    assert (
        waiting <= chain.treat(0, len(chain.steps), None).kept
    )  # what is computed again from others would wait there


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


def test_strays_do_not_move_the_end_of_a_part() -> None:
    """Updates of moving statistics of early parts come late, a weight's change of order comes early."""
    of = np.array([0, 0, 1, 0, 0, 1, 1, 1, 0, 2, 2, 1, 2, 0, 1])
    turns = np.flatnonzero(of >= 0)
    assert [_end(turns, of < part) for part in (1, 2)] == [4, 8]
    assert _end(turns + 5, of >= 3) == 4  # nothing is of it
    backward = np.array([2, 2, 1, 2, 2, 1, 1, 0, 1, 1, 0, 0, 2, 0])
    assert [_end(turns[:14], backward >= part) for part in (2, 1)] == [4, 9]


def test_early_parts_are_not_told_what_late_ones_hold() -> None:
    """A statistic of the first part is computed last of all forward; what is in use then is not the first part's."""

    def step(weights: list[jax.Array], x: jax.Array) -> Any:
        def loss(weights: list[jax.Array]) -> Any:
            y, late = x, []
            for k, w in enumerate(weights):
                with jax.named_scope(SCOPE.format(k)):
                    late.append(y[:2] @ w)
                    for row in range(LAYERS):
                        y = jnp.tanh(y @ w + row)
                    y = lax.optimization_barrier(y)
            last = (y * y).sum()
            with jax.named_scope(SCOPE.format(0)):
                late = [x + last for x in late]  # not before all is done
            return last, late

        return jax.grad(loss, has_aux=True)(weights)

    with jax.default_device(jax.devices("cpu")[0]):
        found = stages(_compiled(step), PARTS)
    assert found is not None
    assert [s.most for s in found] == sorted(s.most for s in found)
    assert found[0].most <= found[-1].most - (PARTS - 2) * LAYERS * ARRAY


def test_what_the_backward_pass_does_first_of_all_is_not_its_beginning(
    found: tuple[Any, list[Stage]],
) -> None:
    """What it makes of a batch alone, as the padded images of a convolution, may be done before the forward pass."""

    def step(weights: list[jax.Array], x: jax.Array) -> list[jax.Array]:
        with jax.named_scope(f"transpose(jvp({SCOPE.format(0)}))"):
            x = lax.optimization_barrier(jnp.sin(x))
        return _step(weights, x)

    with jax.default_device(jax.devices("cpu")[0]):
        early = stages(_compiled(step), PARTS)
    assert early is not None
    for one, other in zip(early, found[1], strict=True):
        # The batch is no argument any more.
        assert (
            other.held <= one.held <= other.held + ARRAY
            and other.most <= one.most <= other.most + ARRAY
        )


def test_parts_that_are_at_work_in_turns_need_something() -> None:
    """Attention blocks on one input: XLA may compute what the second takes of it before the first is done."""
    net, inputs = networks.translator(1, 1, 32, 2, 32, 4)
    session = Session(net, inputs, "sgd")
    trial = session.measure(session.plain, MEMORY)
    assert trial.stages is not None and all(s.most > 0 for s in trial.stages)
