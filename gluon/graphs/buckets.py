"""Calls of a hybridized block with inputs of changing lengths, served by few graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from mxjax import autograd
from mxjax.array.ndarray import NDArray
from mxjax.core import TRACED, local, rng

if TYPE_CHECKING:
    from ..hybrid_block import HybridBlock


class CallsPython(Exception):
    """A graph that calls the user's Python was given filled inputs: it must run once, on the caller's own."""


class Buckets:
    """How a block's calls of changing lengths are served by few graphs.

    Axis 0 of every input is filled up to a power of two (or to one of ``lengths``) with its last row, and the results
    are cut; the gradients of what was cut off are zeros. That is right where each row of the results depends on none
    of the rows that come after it, which the first call of each bucket tests: what fills the inputs up is changed, and
    neither the results nor the block's arrays (moving statistics) must change.

    What has the call's own length, filling and cutting and what the user makes of the results, is put into segments
    apart from the block's, whose programs all lengths of a bucket share: one in prediction, two in training, of which
    the second updates the weights, too.
    """

    def __init__(self, lengths: bool | tuple[int, ...] | None = None) -> None:
        self.lengths = lengths  # what `hybridize` was told
        self.mixes: set[bool] = (
            set()
        )  # rows depend on each other: in training (True), in prediction
        self._tested: set[Any] = set()

    def serve(
        self, block: HybridBlock, arrays: list[NDArray], call: Callable[[list[NDArray]], Any]
    ) -> Any:
        """The results of `call` on inputs of a bucket's length, cut to their own; None where that is not right."""
        full = self._full(arrays)
        if not full:
            return None
        try:
            return self._served(block, arrays, call, full)
        except CallsPython:
            self.mixes.update((True, False))
            return None

    def _served(
        self,
        block: HybridBlock,
        arrays: list[NDArray],
        call: Callable[[list[NDArray]], Any],
        full: int,
    ) -> Any:
        length = arrays[0].shape[0]
        shapes = tuple(a.shape[1:] for a in arrays)
        key = full, shapes, local.st.training, local.st.taping
        if full == length:
            return _cut(_called(call, arrays), length, full) if local.st.taping else None
        count = rng.stream(arrays[0]._value().aval.device)
        drawn, before = count.count, _held(block)
        out = _called(call, _filled(arrays, full))
        leaves, _ = _flat(out)
        mixing = block._opened is not None  # without a graph there is nothing to share
        mixing = mixing or any(o.ndim == 0 or o.shape[0] != full for o in leaves)
        if not mixing and key not in self._tested:
            moved = any(a._v is not v for a, v in before)
            after, count.count = count.count, drawn  # the same random numbers
            other, _ = _flat(_called(call, _filled(arrays, full, spoilt=True)))
            count.count = after
            mixing = moved or not all(
                _same(a[:length], b[:length]) for a, b in zip(leaves, other, strict=True)
            )
        if mixing:
            self.mixes.add(local.st.training)
            count.count = drawn
            for a, v in before:
                a._set(v)
            return None
        self._tested.add(key)
        return _cut(out, length, full)

    def _full(self, arrays: list[NDArray]) -> int:
        """The length of the bucket for these inputs, or 0."""
        if local.st.training in self.mixes or any(
            a.ndim == 0 or a._value().seg is TRACED for a in arrays
        ):
            return 0
        length = arrays[0].shape[0]
        if not length or any(a.shape[0] != length for a in arrays):
            return 0
        if isinstance(self.lengths, tuple):
            return next((n for n in self.lengths if n >= length), 0)
        return 1 << (length - 1).bit_length()


def _flat(out: Any) -> tuple[list[Any], Any]:
    return jax.tree_util.tree_flatten(out, is_leaf=lambda x: isinstance(x, NDArray))


def _held(block: HybridBlock) -> list[tuple[NDArray, Any]]:
    """The block's arrays and the values they have."""
    found = [a for p in block.collect_params().values() for a in (p._arrays or {}).values()]
    return [(a, a._v) for a in found if a._v is not None]


def _apart(arrays: Sequence[NDArray]) -> None:
    """What is recorded from here on is another program."""
    for a in arrays[:1]:
        local.st.put_aside(a._value().aval.device)


def _called(call: Callable[[list[NDArray]], Any], arrays: list[NDArray]) -> Any:
    _apart(arrays)
    for a in arrays:
        a._value().shared = (
            True  # whether somebody holds them or not would make programs of their own
        )
    out = call(arrays)
    _apart(arrays)
    return out


def _filled(arrays: list[NDArray], full: int, spoilt: bool = False) -> list[NDArray]:
    """The arrays with more rows: copies of the last, or `spoilt` ones."""
    fill = _Fill(full, spoilt)
    taped = local.st.taping and any(a._value().tape is not None for a in arrays)
    found: list[NDArray] = fill(*arrays) if taped else fill.forward(*arrays)
    return found


def _cut(out: Any, length: int, full: int) -> Any:
    leaves, tree = _flat(out)
    cut = _Cut(length, full)
    found = (
        cut(*leaves) if any(o._value().tape is not None for o in leaves) else cut.forward(*leaves)
    )
    return jax.tree_util.tree_unflatten(tree, found)


def _joined(a: NDArray, rest: Any) -> NDArray:
    from mxjax import np as mnp

    return type(a)._wrap(
        mnp.concatenate([a.as_np_ndarray(), rest.astype(a.dtype)], axis=0)._value()
    )


class _Fill(autograd.Function):
    def __init__(self, full: int, spoilt: bool):
        self._full = full
        self._spoilt = spoilt
        self._length = 0

    def forward(self, *arrays: NDArray) -> list[NDArray]:
        from mxjax import np as mnp

        self._length = arrays[0].shape[0]
        found = []
        for a in arrays:
            last = a[-1:].as_np_ndarray()
            if self._spoilt:
                last = last * float("nan") if a._value().aval.differentiable else last * 0
            found.append(_joined(a, mnp.repeat(last, self._full - self._length, axis=0)))
        return found

    def backward(self, *gradients: NDArray) -> list[NDArray]:
        _apart(gradients)
        return [g[: self._length] for g in gradients]


class _Cut(autograd.Function):
    def __init__(self, length: int, full: int):
        self._length = length
        self._full = full

    def forward(self, *outs: NDArray) -> list[NDArray]:
        return [o[: self._length] for o in outs]

    def backward(self, *gradients: NDArray) -> list[NDArray]:
        from mxjax import np as mnp

        more = self._full - self._length
        if more:
            gradients = tuple(
                _joined(g, mnp.zeros((more, *g.shape[1:]), dtype=g.dtype, device=g.device))
                for g in gradients
            )
        _apart(gradients)
        return list(gradients)


def _same(a: NDArray, b: NDArray) -> bool:
    """Equal but for the rounding by which a first call's numbers (NumPy's) may differ from a program's."""
    one, other = a.asnumpy(), b.asnumpy()
    if not a._value().aval.differentiable:
        return bool(np.array_equal(one, other))
    size = float(jnp.finfo(one.dtype).eps) * 32
    one, other = one.astype("float64"), other.astype("float64")
    return bool(
        np.allclose(one, other, rtol=size, atol=size * np.abs(one).max(initial=0), equal_nan=True)
    )
