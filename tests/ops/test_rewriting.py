"""Attention that a network spells out: which of them a GPU's program takes as one function, unasked."""

from __future__ import annotations

from typing import Any

import numpy as onp
import pytest

import mxjax as mx
from mxjax.core import compiler
from mxjax.core.hooks import program_rewriters
from mxjax.ops import rewriting


def taken(
    monkeypatch: pytest.MonkeyPatch,
    dtype: str = "bfloat16",
    length: int = 64,
    width: int = 16,
    keep: bool = False,
    train: bool = False,
    hybridize: bool = True,
    platform: str = "gpu",
) -> int:
    """How many attentions of a program that is traced here would be one function on a platform."""
    found: list[int] = []

    def watched(steps: Any) -> Any:
        with compiler.for_platform(platform):
            found.append(len(rewriting.rewrite(steps)))
        return {}

    class Attention(mx.gluon.HybridBlock):
        def forward(self, x: Any) -> Any:
            scores = mx.npx.batch_dot(x, x + 1, transpose_b=True) / width**0.5
            weights = mx.npx.softmax(scores, axis=-1)
            out = mx.npx.batch_dot(weights, x * 2)
            return (out, weights * 2) if keep else out

    monkeypatch.setattr("mxjax.core.hooks.program_rewriters", [watched])
    monkeypatch.setattr("mxjax.core.compile.program.program_rewriters", [watched])
    net = Attention()
    if hybridize:
        net.hybridize()
    x = mx.np.array(onp.random.RandomState(0).uniform(size=(2, length, width))).astype(dtype)
    x.attach_grad()
    with mx.config.scope(engine_cold="compile"):
        x.wait_to_read()
        found.clear()
        if train:
            with mx.autograd.record():
                out = net(x)
                out = (out[0] if keep else out).sum()
            out.backward()
            x.grad.wait_to_read()
        else:
            out = net(x)
            for a in out if keep else [out]:
                a.wait_to_read()
    return max(found, default=0)


def test_it_is_in_force() -> None:
    assert rewriting.rewrite in program_rewriters


@pytest.mark.parametrize(
    ("more", "count"),
    [
        ({}, 1),
        ({"dtype": "float16", "train": True}, 1),
        ({"hybridize": False}, 1),
        ({"hybridize": False, "train": True}, 0),  # a recorded backward pass reads the softmax
        ({"keep": True}, 0),
        ({"dtype": "float32"}, 0),
        ({"length": 32}, 0),
        ({"length": 65}, 0),
        ({"width": 12}, 0),
        ({"width": 256}, 0),
        ({"platform": "cpu"}, 0),
        ({"platform": "tpu"}, 0),
    ],
    ids=str,
)
def test_which_are_taken(monkeypatch: Any, more: dict[str, Any], count: int) -> None:
    assert taken(monkeypatch, **more) == count


@pytest.mark.parametrize(
    "setting", [{"compiler_scope_fusions": ""}, {"determinism_enabled": True}], ids=str
)
def test_users_can_refuse_it(monkeypatch: Any, setting: dict[str, Any]) -> None:
    with mx.config.scope(**setting):
        assert taken(monkeypatch) == 0
