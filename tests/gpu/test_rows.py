"""Every row of the operator table on the card, on its samples, against the CPU: values, derivatives, dtypes, NaN.

Rows share programs, as they do where users call one after the other. The CPU's numbers come from the first tier, NumPy,
where that knows the row's primitives, so that what both share is the row alone.
"""

from __future__ import annotations

import zlib
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax.ops import TABLE
from tests.gpu.conftest import STANDS_IN
from tests.ops.test_table import draw, kind, live, run

GROUP = 20
NAMES = sorted(TABLE)
GROUPS = [NAMES[k : k + GROUP] for k in range(0, len(NAMES), GROUP)]

HOW = {"precision_matmul": "highest", "engine_cold": "compile"}
if STANDS_IN:
    HOW = {"engine_cold": "interpret"}

# Relative to the largest number of a result: sums add up in another order, in parallel, functions are the card's, and
# what is in 16 bits is rounded at other places. Whatever a row gives, it is no closer than what it is given.
CLOSE = {"float32": 1e-4, "float16": 1.5e-2, "bfloat16": 0.125}


def is_float(a: Any) -> bool:
    return isinstance(a, np.ndarray) and (a.dtype.kind == "f" or a.dtype == jnp.bfloat16)


def converted(args: list[Any], dtype: str) -> list[Any]:
    """Floats in another dtype."""
    return [a.astype(jnp.dtype(dtype)) if is_float(a) and dtype != "float32" else a for a in args]


class Sample:
    """A row's call on a sample, where the current device is; its results are read later, with those of others."""

    def __init__(self, name: str, number: int, dtype: str, training: bool):
        self.op = TABLE[name]
        self.case = self.op.tests.samples[number]
        self.name = f"{name}, sample {number}{', in training' if training else ''}"
        self.outs: list[Any] = []
        self.grads: list[Any] = []
        self.error: Exception | None = None
        self._args = converted(draw(self.op, self.case, number), dtype)
        self._training = training and self.op.differentiable
        try:
            self._record()
        except Exception as error:  # refused, on both devices
            self.error = error

    def _record(self) -> None:
        self.xs = live(self.op, self._args)
        if not self._training:
            self.outs = run(self.op, self.xs, self.case.attrs)
            return
        moving = [x for x, a in zip(self.xs, self._args, strict=True) if is_float(a)]
        for x in moving:
            x.attach_grad()
        with mx.autograd.record():
            self.outs = run(self.op, self.xs, self.case.attrs)
            followed = (
                [o for o in self.outs if np.dtype(o.dtype).kind not in "iub"] if moving else []
            )
        if followed:
            mx.autograd.backward(followed, [self._head(o) for o in followed])
            self.grads = [x.grad for x in moving]

    def _head(self, out: Any) -> Any:
        rng = np.random.RandomState(zlib.crc32(self.name.encode()) & 0x7FFFFFFF)
        numbers = np.asarray(rng.uniform(0.5, 1.5, out.shape)).astype(out.dtype)
        make = mx.nd.array if kind(self.op) is mx.nd.NDArray else mx.np.array
        return make(numbers, dtype=out.dtype)

    def numbers(self) -> list[np.ndarray]:
        """Results, gradients, and the arguments, some of which it may have written to."""
        written = [x for x in self.xs if isinstance(x, mx.nd.NDArray)]
        return [a.asnumpy() for a in (*self.outs, *self.grads, *written)]


def samples(names: list[str], dtype: str, device: Any) -> list[Sample]:
    with device:
        return [
            Sample(name, number, dtype, training)
            for name in names
            for number in range(len(TABLE[name].tests.samples))
            for training in ((False, True) if TABLE[name].modal else (True,))
        ]


def differences(got: Sample, want: Sample, dtype: str) -> str | None:
    """What differs, in words."""
    if got.error is not None or want.error is not None:
        same = type(got.error) is type(want.error)
        return None if same else f"{got.name}: on the card {got.error!r}, on the CPU {want.error!r}"
    try:
        ours = got.numbers()
    except Exception as error:
        return f"{got.name}: {type(error).__name__}: {str(error)[:400]}"
    for at, (a, b) in enumerate(zip(ours, want.numbers(), strict=True)):
        what = f"{got.name}, {'result' if at < len(got.outs) else 'gradient'} {at}"
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{what}: {a.dtype}{a.shape} for {b.dtype}{b.shape}"
        if a.dtype.kind in "iub":
            apart = np.abs(a.astype("int64") - b.astype("int64")).max(initial=0)
            if apart > (
                dtype != "float32"
            ):  # a number in 16 bits may come to the other side of a half
                return f"{what}: {a.ravel()[:6].tolist()} for {b.ravel()[:6].tolist()}"
            continue
        wide = "complex128" if a.dtype.kind == "c" else "float64"
        a, b = a.astype(wide), b.astype(wide)
        finite = np.isfinite(b)
        if not np.array_equal(np.isfinite(a), finite) or not np.array_equal(
            a[~finite], b[~finite], equal_nan=True
        ):
            return f"{what}: {a.ravel()[:6].tolist()} for {b.ravel()[:6].tolist()}"
        size = max(1.0, float(np.abs(b[finite]).max(initial=0)))
        worst = float(np.abs(a[finite] - b[finite]).max(initial=0)) / size
        if worst > CLOSE[dtype]:
            return f"{what}: {worst:.1e} of the largest apart: {a.ravel()[:6].tolist()} for {b.ravel()[:6].tolist()}"
    return None


def on_card(names: list[str], dtype: str, device: Any) -> list[Sample]:
    """The samples with their numbers computed, in one program, or, where that fails, in one for each row."""
    with mx.config.scope(**HOW):
        made = samples(names, dtype, device)
        try:
            mx.waitall()
        except Exception:
            if len(names) > 1:
                return [s for name in names for s in on_card([name], dtype, device)]
        return made


@pytest.mark.parametrize("names", GROUPS, ids=lambda names: names[0])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_agrees_with_the_cpu(card: Any, names: list[str], dtype: str) -> None:
    ours, theirs = on_card(names, dtype, card), samples(names, dtype, mx.cpu(0))
    wrong = [
        found for a, b in zip(ours, theirs, strict=True) if (found := differences(a, b, dtype))
    ]
    assert not wrong, "\n".join(wrong)
