"""Mirroring: the same numbers from less memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mxjax as mx
from benchmarks.memory_jax import Written
from benchmarks.memory_mirror import ours
from mxjax import errors, memonger, settings
from mxjax.core import GraphCall, compiler
from mxjax.core.graph.pairs import Pair
from mxjax.gluon import nn
from mxjax.memonger.trials.rehearse import counting
from tests.memonger import networks


def _train(mirror: Any, **kwargs: Any) -> list[np.ndarray]:
    net = networks.residual_network(3, channels=4, **kwargs)
    net.hybridize(mirror=mirror)
    return networks.Training(net, *networks.batch(4, 8)).run(3)


@pytest.mark.parametrize("dropout", [pytest.param(0.0, marks=pytest.mark.slow), 0.5])
def test_losses_parameters_and_statistics_are_the_same(dropout: float) -> None:
    for plain, mirrored in zip(
        _train(False, dropout=dropout), _train(True, dropout=dropout), strict=True
    ):
        np.testing.assert_allclose(mirrored, plain, rtol=1e-5, atol=1e-6)


def test_statistics_move_once_per_step() -> None:
    net = nn.HybridSequential()
    net.add(
        nn.BatchNorm(in_channels=2, momentum=0.9), nn.Activation("relu"), nn.Dense(1, in_units=2)
    )
    net.initialize()
    net.hybridize(mirror=True)
    x = mx.np.array(np.array([[1.0, 2.0], [3.0, 6.0]], "float32"))
    with mx.autograd.record():
        y = net(x).sum()
    y.backward()
    # 0.9 * 0 + 0.1 * mean of the batch
    np.testing.assert_allclose(net[0].running_mean.data().asnumpy(), [0.2, 0.4], rtol=1e-6)


def _kept_bytes(graph: Any, policy: Any) -> int:
    """What a backward pass in a program of its own gets from the forward's."""
    call = GraphCall(graph, policy)
    avals = [*graph.avals, *graph.fmt]
    wants = tuple(not isinstance(a, str) and a.dtype == "float32" for a in avals)
    pair = Pair(call, avals, wants)
    outs, _ = pair.forward.infer(tuple(avals), graph.avals[0].device)
    return sum(a.nbytes for a in outs[pair.n_outs :])


@pytest.mark.observes("memory.remat")
def test_what_is_kept_for_the_backward_pass() -> None:
    net = networks.residual_network(6)
    x, _ = networks.batch(8, 32)
    with mx.autograd.train_mode():
        graph = net.graph(x)
    plain = _kept_bytes(graph, None)
    mirrored = _kept_bytes(graph, memonger.policy("mirror"))
    assert mirrored <= 0.6 * plain
    convolutions = 13 * x.shape[0] * 16 * 32 * 32 * 4
    assert mirrored >= convolutions  # they are what is kept


def test_parts_end_where_blocks_end() -> None:
    from mxjax.memonger.arrangement.mirror import mirrored

    net = networks.residual_network(12)
    with mx.autograd.train_mode():
        graph = net.graph(networks.batch(2, 16)[0])
    groups = mirrored(graph)
    assert 2 <= len(groups) <= 3
    assert groups[-1].stop == len(graph.steps)
    found = [inner for g in groups for inner in g.parts or (g,)]
    assert len(groups) < len(found) <= 12
    assert all(g.parts[-1].stop == g.stop for g in groups if g.parts)
    for part in found[:-1]:
        blocks = [s.scope.split("/")[0] for s in graph.steps[part.stop - 1 : part.stop + 1]]
        assert blocks[0] != blocks[1]


def test_the_policy_reaches_the_compiler() -> None:
    net = networks.residual_network(1, channels=4)
    with mx.autograd.train_mode():
        graph = net.graph(networks.batch(2, 8)[0])
    call = GraphCall(graph, memonger.policy("mirror"))
    options = compiler.options_for(mx.cpu().jax_device, [call])
    assert "cse_barrier_expander" in options["xla_disable_hlo_passes"]
    plain = compiler.options_for(mx.cpu().jax_device, [GraphCall(graph)])
    assert "cse_barrier_expander" not in plain.get("xla_disable_hlo_passes", "")


@pytest.mark.observes
@pytest.mark.parametrize("variable", ["MXNET_BACKWARD_DO_MIRROR", "MXNET_MEMORY_OPT"])
def test_the_variables_of_mxnet(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "1")
    settings.reset()
    net = nn.Dense(1)
    net.hybridize()
    assert net._policy() is memonger.policy("mirror")
    net.hybridize(mirror=False)
    assert net._policy() is None


def test_an_unknown_policy_is_refused_where_it_is_given() -> None:
    net = nn.Dense(1, in_units=1)
    with pytest.raises(errors.MXNetError, match="did you mean 'sublinear'"):
        net.hybridize(mirror="sublinaer")
    assert not net._active


@pytest.mark.parametrize("mirror", [3, 1.0, [], object(), "".join])
def test_what_is_no_policy_is_refused_where_it_is_given(mirror: Any) -> None:
    net = nn.Dense(1, in_units=1)
    with pytest.raises(
        errors.MXNetTypeError, match=r"mirror is True, False, a name of memonger.policies\(\)"
    ):
        net.hybridize(mirror=mirror)
    assert not net._active


def test_an_unknown_policy() -> None:
    with pytest.raises(errors.MXNetError, match="mirror"):
        memonger.policy("miror")


@pytest.mark.slow
def test_a_compiled_step_keeps_less() -> None:
    """XLA could undo it all: it merges what is computed twice, and computes again what it likes."""
    mirrored, barriers, plain = (ours(32, name) for name in ("mirror", "barriers", "none"))
    assert mirrored.temp_bytes <= 0.5 * Written(32, options=counting()).temp_bytes
    assert mirrored.temp_bytes <= 0.6 * Written(32, lean=True, options=counting()).temp_bytes
    assert mirrored.temp_bytes <= 0.72 * barriers.temp_bytes
    assert mirrored.temp_bytes <= plain.temp_bytes
    assert mirrored.flops <= 1.03 * barriers.flops
    assert (
        mirrored.flops <= 1.05 * plain.flops
    )  # of which images stay channels last, too: XLA computes little again
    # Every convolution's result is still kept for the backward pass: none is computed again.
    assert mirrored.temp_bytes >= 64 * 8 * 16 * 32 * 32 * 4


def test_the_network_written_in_jax_is_ours() -> None:
    """What ours is compared with: the same loss, and the same parameters after a step."""
    net = networks.residual_network(2)
    # Few elements: where one lies so near to zero that rounding decides its sign, relu tells another story.
    training = networks.Training(net, *networks.batch(4, 8), learning_rate=1.0)
    values = [p.data().asnumpy() for p in net.collect_params().values() if p.grad_req != "null"]
    written = Written(2, options=counting(), rate=1.0)
    stem, rest, head = values[:2], values[2:-2], values[-2:]
    # Each block: two times a convolution's weights, gamma and beta.
    blocks = [
        {"w0": b[0], "n0": tuple(b[1:3]), "w1": b[3], "n1": tuple(b[4:6])}
        for b in (rest[k : k + 6] for k in range(0, len(rest), 6))
    ]
    written.params = {"stem": tuple(stem), "blocks": blocks, "head": tuple(head)}
    written.x, written.labels = training.x.asnumpy(), training.y.asnumpy().astype("int32")
    loss = written.run()
    np.testing.assert_allclose(training.step().asnumpy().mean(), loss, rtol=1e-5)
    found = [p.data().asnumpy() for p in net.collect_params().values() if p.grad_req != "null"]
    p = written.params
    theirs = [
        *p["stem"],
        *(a for b in p["blocks"] for a in (b["w0"], *b["n0"], b["w1"], *b["n1"])),
        *p["head"],
    ]
    for before, own, other in zip(values, found, theirs, strict=True):
        np.testing.assert_allclose(
            own - before, other - before, rtol=1e-3, atol=1e-3 * np.abs(other - before).max()
        )
