"""Attention that is spelled out, softmax(q k' * scale) v over stacks of matrices, as one function.

On a GPU cuDNN has it for 16 bits, and never writes the softmax to memory. There it is taken unasked where the sizes are
those that were measured (on an H200, a training step of BERT-base, 64 sequences of 128: 14.1 ms for 14.8).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from typing import Any

import jax

from ...core import compiler
from ...core.calls.segment import SCALAR, Step
from .spellings import Found, Steps, attrs_of, name_of, number_of

_NARROW = ("float16", "bfloat16")
_LONG = 64  # rows of scores: shorter ones are not measured


def measured(steps: Sequence[Step]) -> dict[Step, Found]:
    """The products that end attention in a program, where cuDNN is known to be quicker with all of it."""
    found: dict[Step, Found] = {}
    table = Steps(steps)
    readers: dict[int, int] = {}
    for step in steps:
        for i in step.args:
            readers[i] = readers.get(i, 0) + 1
    for step in steps:
        if name_of(step) != "batch_dot" or step.many or any(i >= SCALAR for i in step.args):
            continue
        match = attention(table, step)
        # Who else reads the softmax has it computed anyway: a backward pass that was recorded.
        if match is not None and readers[step.args[0]] == 1 and _is_measured(table, step):
            found[step] = match
    return found


def _is_measured(steps: Steps, last: Step) -> bool:
    """Whether the result and the scores are of sizes for which cuDNN is known to be quicker."""
    weights = steps.maker(last.args[0], "softmax")
    assert weights is not None
    out, scores = last.avals[0], weights.avals[0]
    return (
        str(out.dtype) == str(scores.dtype)
        and str(out.dtype) in _NARROW
        and out.shape[-1] % 8 == 0
        and 0 < out.shape[-1] <= 128
        and all(n >= _LONG and n % 2 == 0 for n in scores.shape[1:])
    )


def attention(steps: Steps, last: Step) -> Found | None:
    """softmax(q k' * scale) v over stacks of matrices: jax.nn.dot_product_attention."""
    if name_of(last) != "batch_dot" or any(attrs_of(last).values()) or len(last.args) != 2:
        return None
    weights = steps.maker(last.args[0], "softmax")
    if (
        weights is None
        or len(weights.args) != 1
        or any(v not in (-1, 2) for v in attrs_of(weights).values())
    ):
        return None
    scaled = steps.maker(weights.args[0], "multiply", "true_divide", "divide", "batch_dot")
    factor = 1.0
    scores = scaled
    if scaled is not None and name_of(scaled) != "batch_dot":
        number = number_of(scaled)
        if not number:
            return None
        factor = number if name_of(scaled) == "multiply" else 1 / number
        scores = steps.maker(scaled.args[0], "batch_dot")
    if scores is None or {k: v for k, v in attrs_of(scores).items() if v} != {"transpose_b": True}:
        return None
    return Found(functools.partial(attended, scale=factor), (*scores.args, last.args[1]))


def attended(q: Any, k: Any, v: Any, *, scale: float) -> Any:
    given = [a[:, :, None, :] for a in (q, k, v)]
    out = None
    if _for_cudnn(q, k, v):
        with contextlib.suppress(
            RuntimeError, NotImplementedError, ValueError
        ):  # no cuDNN here, or an older one
            out = jax.nn.dot_product_attention(*given, scale=scale, implementation="cudnn")
    if out is None:
        out = jax.nn.dot_product_attention(*given, scale=scale)
    return out[:, :, 0, :]


def _for_cudnn(q: Any, k: Any, v: Any) -> bool:
    """Whether cuDNN has an attention for such matrices: of 16 bits, rows of at most 128 numbers in eights."""
    narrow = q.dtype == k.dtype == v.dtype and str(q.dtype) in _NARROW
    width = q.shape[-1]
    return (
        compiler.platform_now() == "gpu"
        and narrow
        and width == v.shape[-1]
        and width % 8 == 0
        and 0 < width <= 128
    )
