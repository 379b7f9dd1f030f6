"""Operators that spell something out, as the one operator that means it.

A rule looks at a program's steps before it is traced and names the last step of a spelling, the function that
takes its place, and that function's operands. What only led there is no longer needed, so XLA drops it.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .. import core, settings
from ..core.calls.segment import SCALAR, Step
from ..core.hooks import program_rewriters
from ..ops.lowering.spelled_attention import attention
from ..ops.lowering.spellings import Found, Steps, attrs_of, name_of, number_of


def _clip_boxes(steps: Steps, last: Step) -> Found | None:
    """min(max(x, low), high) with constant bounds: one clamp."""
    high = number_of(last) if name_of(last) == "minimum" else None
    inner = steps.maker(last.args[0], "maximum") if high is not None else None
    low = None if inner is None else number_of(inner)
    if inner is None or low is None or high is None or not _is_float(last) or low > high:
        return None
    return Found(functools.partial(_clamped, low=low, high=high), inner.args)


def _clamped(x: Any, *, low: float, high: float) -> Any:
    return jax.lax.clamp(jnp.asarray(low, x.dtype), x, jnp.asarray(high, x.dtype))


def _layer_norm(steps: Steps, last: Step) -> Found | None:
    """(x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + eps) over the last axis: both means in one look at x."""
    if name_of(last) not in ("true_divide", "divide") or len(last.args) != 2 or not _is_float(last):
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
        name_of(squares) != "power" or number_of(squares) == 2
    )
    whole = mean.args == (centred.args[0],) and all(_over_last(s, last) for s in (mean, variance))
    eps = number_of(shifted)
    if not squared or not whole or eps is None:
        return None
    return Found(functools.partial(_standardised, eps=eps), mean.args)


def _over_last(step: Step, like: Step) -> bool:
    attrs = attrs_of(step)
    return attrs.get("keepdims") is True and attrs.get("axis") in (-1, len(like.avals[0].shape) - 1)


def _standardised(x: Any, *, eps: float) -> Any:
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    mean = wide.mean(-1, keepdims=True)
    variance = jnp.square(wide - mean).mean(-1, keepdims=True)
    return ((wide - mean) * jax.lax.rsqrt(variance + eps)).astype(x.dtype)


def _is_float(step: Step) -> bool:
    return math.prod(step.avals[0].shape) > 0 and bool(
        jnp.issubdtype(step.avals[0].dtype, jnp.floating)
    )


RULES: dict[str, Callable[[Steps, Step], Found | None]] = {
    "ScopeLayerNormPass": _layer_norm,
    "ScopeClipBoxesPass": _clip_boxes,
    "ScopeAttentionPass": attention,
}


def apply() -> None:
    """Bring the rules in force in line with `compiler.scope_fusions`."""
    wanted = any(name in RULES for name in settings.get("compiler.scope_fusions"))
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
        if name not in RULES:
            continue
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
