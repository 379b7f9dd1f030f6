"""Operators that spell something out, as the one operator that means it.

A rule looks at a program's steps before it is traced and names the last step of a spelling, the function that
takes its place, and that function's operands. What only led there is no longer needed, so XLA drops it.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import core, settings
from ..core import compiler
from ..core.calls.segment import SCALAR, Step
from ..core.hooks import program_rewriters


class Found(NamedTuple):
    """A spelling: what computes its result, from these operands (numbered as a step's are)."""

    fn: Callable[..., Any]
    operands: tuple[int, ...]


class Steps:
    """The steps of a program, by the numbers of their results."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._makers = {s.first: s for s in steps if not s.many}

    def maker(self, number: int, *names: str) -> Step | None:
        """The step with one of these names that makes a result."""
        found = self._makers.get(number)
        return found if found is not None and _name(found) in names else None


def _name(step: Step) -> str:
    return step.call.name.partition("@")[0] if step.call is not None else ""


def _attrs(step: Step) -> dict[str, Any]:
    return dict(step.call.attrs) if step.call is not None else {}


def _number(step: Step) -> float | None:
    """The number that is a constant second operand of a step with one array."""
    found = _attrs(step).get("scalar")
    return float(found) if len(step.args) == 1 and isinstance(found, int | float) else None


def _clip_boxes(steps: Steps, last: Step) -> Found | None:
    """min(max(x, low), high) with constant bounds: one clamp."""
    high = _number(last) if _name(last) == "minimum" else None
    inner = steps.maker(last.args[0], "maximum") if high is not None else None
    low = None if inner is None else _number(inner)
    if inner is None or low is None or high is None or not _is_float(last) or low > high:
        return None
    return Found(functools.partial(_clamped, low=low, high=high), inner.args)


def _clamped(x: Any, *, low: float, high: float) -> Any:
    return jax.lax.clamp(jnp.asarray(low, x.dtype), x, jnp.asarray(high, x.dtype))


def _layer_norm(steps: Steps, last: Step) -> Found | None:
    """(x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + eps) over the last axis: both means in one look at x."""
    if _name(last) not in ("true_divide", "divide") or len(last.args) != 2 or not _is_float(last):
        return None
    centred = steps.maker(last.args[0], "subtract")
    root = steps.maker(last.args[1], "sqrt")
    shifted = root and steps.maker(root.args[0], "add")
    variance = shifted and steps.maker(shifted.args[0], "mean")
    squares = variance and steps.maker(variance.args[0], "square", "multiply", "power")
    mean = centred and len(centred.args) == 2 and steps.maker(centred.args[1], "mean")
    if not (centred and mean and shifted and variance and squares):
        return None
    squared = set(squares.args) == {last.args[0]} and (
        _name(squares) != "power" or _number(squares) == 2
    )
    whole = mean.args == (centred.args[0],) and all(_over_last(s, last) for s in (mean, variance))
    eps = _number(shifted)
    if not squared or not whole or eps is None:
        return None
    return Found(functools.partial(_standardised, eps=eps), mean.args)


def _over_last(step: Step, like: Step) -> bool:
    attrs = _attrs(step)
    return attrs.get("keepdims") is True and attrs.get("axis") in (-1, len(like.avals[0].shape) - 1)


def _standardised(x: Any, *, eps: float) -> Any:
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    mean = wide.mean(-1, keepdims=True)
    variance = jnp.square(wide - mean).mean(-1, keepdims=True)
    return ((wide - mean) * jax.lax.rsqrt(variance + eps)).astype(x.dtype)


def _attention(steps: Steps, last: Step) -> Found | None:
    """softmax(q k' * scale) v over stacks of matrices: jax.nn.dot_product_attention."""
    if _name(last) != "batch_dot" or any(_attrs(last).values()) or len(last.args) != 2:
        return None
    weights = steps.maker(last.args[0], "softmax")
    if (
        weights is None
        or len(weights.args) != 1
        or any(v not in (-1, 2) for v in _attrs(weights).values())
    ):
        return None
    scaled = steps.maker(weights.args[0], "multiply", "true_divide", "divide", "batch_dot")
    factor = 1.0
    scores = scaled
    if scaled is not None and _name(scaled) != "batch_dot":
        number = _number(scaled)
        if not number:
            return None
        factor = number if _name(scaled) == "multiply" else 1 / number
        scores = steps.maker(scaled.args[0], "batch_dot")
    if scores is None or {k: v for k, v in _attrs(scores).items() if v} != {"transpose_b": True}:
        return None
    return Found(functools.partial(_attended, scale=factor), (*scores.args, last.args[1]))


def _attended(q: Any, k: Any, v: Any, *, scale: float) -> Any:
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
    narrow = q.dtype == k.dtype == v.dtype and str(q.dtype) in ("float16", "bfloat16")
    width = q.shape[-1]
    return (
        compiler.platform_now() == "gpu"
        and narrow
        and width == v.shape[-1]
        and width % 8 == 0
        and 0 < width <= 128
    )


def _is_float(step: Step) -> bool:
    return math.prod(step.avals[0].shape) > 0 and bool(
        jnp.issubdtype(step.avals[0].dtype, jnp.floating)
    )


RULES: dict[str, Callable[[Steps, Step], Found | None]] = {
    "ScopeLayerNormPass": _layer_norm,
    "ScopeClipBoxesPass": _clip_boxes,
    "ScopeAttentionPass": _attention,
}


def apply() -> None:
    """Bring the rules in force in line with `compiler.scope_fusions`."""
    wanted = bool(settings.get("compiler.scope_fusions"))
    if wanted and rewrite not in program_rewriters:
        program_rewriters.append(rewrite)
    elif not wanted and rewrite in program_rewriters:
        program_rewriters.remove(rewrite)
    core.drop_programs()


def rewrite(steps: Sequence[Step]) -> dict[Step, tuple[Callable[..., Any], tuple[int, ...]]]:
    """The steps that get another function, with its operands."""
    table = Steps(steps)
    found: dict[Step, tuple[Callable[..., Any], tuple[int, ...]]] = {}
    for name in settings.get("compiler.scope_fusions"):
        for step in steps:
            if step.many or step in found or any(i >= SCALAR for i in step.args):
                continue
            match = RULES[name](table, step)
            if match is not None:
                found[step] = match.fn, match.operands
                core.stats.rewritten += 1
                logging.getLogger("mxjax").info(
                    "%s took the place of what %s ends", name, step.label
                )
    return found
