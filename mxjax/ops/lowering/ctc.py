"""Connectionist temporal classification: the probability of a label as a sum over all its alignments, and its gradient.

A. Graves et al., Connectionist temporal classification (ICML 2006): a label and the blanks around its symbols are
states; of each step and state the forward variable sums up the paths that end there, the backward variable those that
go on from there. Their product is how much of the probability passes the state, of which the gradient is made (equation
16) without a derivative of the recursion, whose trace took half a second. All are logarithms.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

#: The logarithm of nothing: finite, for differences of infinities are NaN.
NOTHING = -1e30


@jax.custom_jvp
def loss(x: Any, y: Any, lengths: Any, late: Any, blank: Any) -> Any:
    """Minus the logarithm of the probability of each label.

    Args:
      x: scores (T, N, C), of float32 or float64; their softmax is a step's probabilities.
      y: the labels' classes (N, L), of which ``lengths`` (N,) count.
      late: which steps come after a sample's end (T, N).
      blank: the blank's class, a whole number in an array.
    """
    ways = _Ways(x, y, lengths, blank)
    return ways.of_all(_sums(ways.start, ways.scores, late[..., None], ways.jumps)[0])


@loss.defjvp
def _(primals: Any, tangents: Any) -> Any:
    x, y, lengths, late, blank = primals
    ways = _Ways(x, y, lengths, blank)
    # The backward variables are the forward ones with steps and states in the opposite order.
    both = jnp.stack([ways.scores, jnp.flip(ways.scores, (0, 2))], 1)
    jumps = jnp.stack([ways.jumps, jnp.flip(_shifted(ways.jumps, -2, False), 1)])
    ends = jnp.stack([late, jnp.flip(late, 0)], 1)[..., None]
    start = jnp.stack([jnp.broadcast_to(ways.start, ways.end.shape), jnp.flip(ways.end, 1)])
    last, sums = _sums(start, both, ends, jumps)
    out = ways.of_all(last[0])
    passes = sums[:, 0] + jnp.flip(sums[:, 1], (0, 2)) - ways.scores
    passes = jnp.exp(passes + out[:, None])  # each state's part of the whole probability
    slope = jnp.exp(ways.normal) - ways.by_class(passes)
    slope = jnp.where(late[..., None], jnp.zeros((), x.dtype), slope)
    return out, (slope * tangents[0]).sum((0, 2))


class _Ways:
    """The states of labels, blanks between, before and after their symbols, and what leads from one to the next.

    ``normal``: logarithms of probabilities (T, N, C), ``scores``: those of the states (T, N, S). ``jumps``: which states
    may follow the one before the last (N, S). ``start`` and ``end``: where paths begin and end, as logarithms.
    """

    def __init__(self, x: Any, y: Any, lengths: Any, blank: Any):
        low = x - lax.stop_gradient(x.max(-1, keepdims=True))
        self.normal = low - jnp.log(jnp.exp(low).sum(-1, keepdims=True))
        y = jnp.pad(y, ((0, 0), (0, 1)))
        classes = jnp.stack([jnp.full_like(y, blank), y], 2).reshape(y.shape[0], 2 * y.shape[1])[
            :, :-1
        ]
        state = lax.broadcasted_iota(y.dtype, classes.shape, 1)
        kinds = lax.broadcasted_iota(y.dtype, (1, 1, x.shape[-1]), 2)
        self._is = (classes[..., None] == kinds).astype(x.dtype)
        self.scores = jnp.einsum(
            "tnc,nsc->tns", jnp.maximum(self.normal, NOTHING), self._is, precision="highest"
        )
        self.jumps = (classes != _shifted(classes, 2, -1)) & (state % 2 == 1)
        self.start = jnp.where(state == 0, 0.0, NOTHING).astype(x.dtype)
        self.end = jnp.where(state == 2 * lengths[:, None], 0.0, NOTHING).astype(x.dtype)

    def of_all(self, sums: Any) -> Any:
        """Minus the logarithm of the sum of the last two states'."""
        ends = jnp.maximum(self.end, _shifted(self.end, -1, NOTHING))
        ways = jnp.maximum(sums + ends, 2 * NOTHING)
        most = ways.max(-1, keepdims=True)
        return -(most[:, 0] + jnp.log(jnp.exp(ways - most).sum(-1)))

    def by_class(self, passes: Any) -> Any:
        return jnp.einsum("tns,nsc->tnc", passes, self._is, precision="highest")


def _shifted(x: Any, by: int, fill: Any) -> Any:
    """Each state's number from so many states before it."""
    return lax.pad(x, np.asarray(fill, x.dtype), [(0, 0, 0)] * (x.ndim - 1) + [(by, -by, 0)])


def _sums(start: Any, scores: Any, late: Any, jumps: Any) -> tuple[Any, Any]:
    """The logarithms of the sums over paths to each state, after the last step and after each."""

    def step(before: Any, given: Any) -> Any:
        score, over = given
        one = _shifted(before, 1, NOTHING)
        two = jnp.where(jumps, _shifted(before, 2, NOTHING), NOTHING)
        most = jnp.maximum(jnp.maximum(before, one), two)
        ways = jnp.exp(before - most) + jnp.exp(one - most) + jnp.exp(two - most)
        after = jnp.maximum(most + jnp.log(ways) + score, NOTHING)
        after = jnp.where(over, before, after)
        return after, after

    return lax.scan(step, start, (scores, late))


__all__ = ["loss"]
