"""Attention of a sliding window (Beltagy et al. 2020): each place looks at 2 w + 1 others, or at the w + 1 up to it."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from .samples import Given, case, f
from .table import op

_DILATION = Given([1, 2], "int32")


def _places(length: int, dilation: Any, w: int, symmetric: bool) -> tuple[Any, Any]:
    """Where each place of a sequence looks with each head, (L, H, window), and whether that is inside."""
    offsets = np.arange(-w, w + 1 if symmetric else 1)
    at = np.arange(length)[:, None, None] + dilation.astype("int32")[None, :, None] * offsets
    return jnp.clip(at, 0, length - 1), (at >= 0) & (at < length)


def _window(x: Any, dilation: Any, w: int, symmetric: bool) -> Any:
    """(B, L, H, D) as what each place sees: (B, L, H, window, D), zeros outside."""
    at, inside = _places(x.shape[1], dilation, w, symmetric)
    heads = np.arange(x.shape[2])[None, :, None]
    return jnp.where(inside[None, ..., None], x[:, at, heads], 0)


def _both(name: str, **row: Any) -> Any:
    return op(npx=name, nd_contrib=name, internal="_contrib_" + name, amp="full", **row)


@_both(
    "sldwin_atten_score",
    samples=[case(f(1, 5, 2, 3), f(1, 5, 2, 3), _DILATION, w=1, symmetric=True)],
)
def sldwin_atten_score(query: Any, key: Any, dilation: Any, *, w: int, symmetric: bool) -> Any:
    """Products of each query with the keys in its window: (B, L, H, D) twice and (H,) give (B, L, H, window).

    ``dilation`` is the step of each head's window, ``symmetric`` whether it reaches beyond the place itself.
    """
    return jnp.einsum("blhd,blhwd->blhw", query, _window(key, dilation, w, symmetric))


@_both(
    "sldwin_atten_context",
    samples=[case(f(1, 5, 2, 3), f(1, 5, 2, 3), _DILATION, w=1, symmetric=True)],
)
def sldwin_atten_context(score: Any, value: Any, dilation: Any, *, w: int, symmetric: bool) -> Any:
    """Sums of the values in each window by their scores: (B, L, H, window) and (B, L, H, D) give (B, L, H, D)."""
    return jnp.einsum("blhw,blhwd->blhd", score, _window(value, dilation, w, symmetric))


@_both(
    "sldwin_atten_mask_like",
    samples=[case(f(1, 5, 2, 3), _DILATION, Given([4], "int32"), w=1, symmetric=True)],
    smooth=False,
)
def sldwin_atten_mask_like(
    score: Any, dilation: Any, valid_length: Any, *, w: int, symmetric: bool
) -> Any:
    """1 where a window's place lies in the valid part of its sequence, and 0 elsewhere, shaped like the scores."""
    at, inside = _places(score.shape[1], dilation, w, symmetric)
    end = valid_length.astype("int32").reshape(-1, 1, 1, 1)
    here = np.arange(score.shape[1])[None, :, None, None] < end
    made = (inside[None] & (at[None] < end) & here).astype("float32")
    return made if score.shape[0] else made[:0]
