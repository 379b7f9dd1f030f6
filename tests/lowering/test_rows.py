"""Every row of the operator table becomes a program for a GPU and for a TPU, on a machine with neither.

Rows whose samples are their own do in the usual run, on the first of them; all rows on all of theirs in the slow one.
"""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax.array.classes import NDArray
from mxjax.core import compiler
from mxjax.ops import TABLE
from tests import lowered
from tests.ops.test_table import draw, is_float, kind, run

GROUP = 40
# JAX has no derivative for what they are made of, on any platform.
NOT_DERIVED = {"spacing"}
# How many numbers are not zero decides about the shapes of a sparse array: the host looks at them.
LOOKS = {("cast_storage", 1)}

_shared = Counter(repr(op.tests.samples) for op in TABLE.values())
OWN = sorted(name for name, op in TABLE.items() if _shared[repr(op.tests.samples)] < 4)


def groups(names: list[str]) -> list[list[str]]:
    return [names[k : k + GROUP] for k in range(0, len(names), GROUP)]


def traced(op: Any, number: int, arrays: Any, training: bool) -> list[Any]:
    """The results of a row on tracers, and its gradients."""
    case, args = op.tests.samples[number], draw(op, op.tests.samples[number], number)
    make = mx.nd.from_jax if kind(op) is NDArray else mx.np.from_jax
    given = iter(arrays)
    xs = [make(next(given)) if isinstance(a, np.ndarray) else a for a in args]
    moving = [x for x, a in zip(xs, args, strict=True) if is_float(a)]
    if not (training and op.differentiable and moving) or op.name in NOT_DERIVED:
        return [o.jax for o in run(op, xs, case.attrs)]
    for x in moving:
        x.attach_grad()
    with mx.autograd.record():
        outs = run(op, xs, case.attrs)
    followed = [o for o in outs if np.dtype(o.dtype).kind == "f"]
    if followed:
        mx.autograd.backward(followed)
    return [o.jax for o in outs] + [x.grad.jax for x in moving if followed]


def lower(monkeypatch: Any, names: list[str], platform: str, most: int) -> None:
    calls = [
        (TABLE[name], number, training)
        for name in names
        for number in range(min(most, len(TABLE[name].tests.samples)))
        if (name, number) not in LOOKS
        for training in ((False, True) if TABLE[name].modal else (True,))
    ]
    drawn = [
        [a for a in draw(op, op.tests.samples[k], k) if isinstance(a, np.ndarray)]
        for op, k, _ in calls
    ]
    structs = [[jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays] for arrays in drawn]

    def program(*given: Any) -> list[Any]:
        return [
            traced(op, k, arrays, training)
            for (op, k, training), arrays in zip(calls, given, strict=True)
        ]

    monkeypatch.setattr(compiler, "platform_of", lambda device: lowered.PLATFORMS[platform])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "random numbers that are drawn while JAX traces")
        assert lowered.text(program, structs, platform).startswith("module")


@pytest.mark.parametrize("names", groups(OWN), ids=lambda names: names[0])
def test_a_sample_of_each(monkeypatch: pytest.MonkeyPatch, names: list[str]) -> None:
    lower(monkeypatch, names, "cuda", 1)


@pytest.mark.slow
@pytest.mark.parametrize("platform", lowered.PLATFORMS)
@pytest.mark.parametrize("names", groups(sorted(TABLE)), ids=lambda names: names[0])
def test_all_samples(monkeypatch: pytest.MonkeyPatch, names: list[str], platform: str) -> None:
    lower(monkeypatch, names, platform, 100)
