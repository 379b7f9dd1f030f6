"""Pooling, lowered by platform and window.

XLA writes max pooling's gradient as select-and-scatter, which on a CPU runs window by window. Here
a small window is a maximum of strided slices, and its gradient goes where an 8-bit index of the
winner says: to the first maximum of each window, as in MXNet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial, reduce
from itertools import product
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from mxjax.core.compile.cpu_product import materialize
from mxjax.ops.lowering.linear import linear_pair

LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
CONVENTIONS = ("valid", "full", "same")

# Windows of more elements than this go to XLA's reduce_window: the slices' code grows with them.
MAX_SLICES = 32


class Window(NamedTuple):
    """How a window walks over a padded channels-last image; ``lean``: which element won is kept for the derivative,
    behind a barrier (which must hold), lest XLA finds it out again and keeps the image for that."""

    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    lean: bool = False

    @property
    def out(self) -> tuple[int, ...]:
        steps = zip(self.size, self.kernel, self.stride, strict=True)
        return tuple((n - k) // s + 1 for n, k, s in steps)

    def slices(self, x: jax.Array) -> list[jax.Array]:
        """For each position in the window, in row-major order, its element of every window."""
        nd = len(self.size)
        found = []
        for at in product(*map(range, self.kernel)):
            stop = [a + (o - 1) * s + 1 for a, o, s in zip(at, self.out, self.stride, strict=True)]
            found.append(
                lax.slice(x, (0, *at, 0), (x.shape[0], *stop, x.shape[-1]), (1, *self.stride, 1))
            )
        assert nd + 2 == x.ndim
        return found


# ---- picking each window's winner, and putting gradients back there ----------------------------
def _pick(index: jax.Array, x: jax.Array, *, geometry: Window) -> jax.Array:
    first, *rest = geometry.slices(x)
    for k, a in enumerate(rest, 1):
        first = jnp.where(index == k, a, first)
    return first


def _put(index: jax.Array, g: jax.Array, *, geometry: Window) -> jax.Array:
    size, kernel, stride, _ = geometry
    nd, out = len(size), geometry.out
    # In memory first: XLA would compute both anew, with all that leads to them, for every element of
    # each window, in one loop with what follows.
    index, g = materialize(index), materialize(g)
    zero = jnp.zeros((), g.dtype)
    n, c = g.shape[0], g.shape[-1]
    if kernel == stride:  # windows tile the image: one loop over (N, OH, KH, OW, KW, C)
        inner = tuple(2 * i + 2 for i in range(nd))
        which = np.arange(prod(kernel), dtype=index.dtype).reshape(
            [1, *(v for k in kernel for v in (1, k)), 1]
        )
        tiled = jnp.where(
            jnp.expand_dims(index, inner) == which, jnp.expand_dims(g, inner), zero
        ).reshape(n, *(o * k for o, k in zip(out, kernel, strict=True)), c)
        rest = [s - o * k for s, o, k in zip(size, out, kernel, strict=True)]
        return lax.pad(tiled, zero, ((0, 0, 0), *((0, r, 0) for r in rest), (0, 0, 0)))
    # Elements that share their offset modulo the stride (a phase) take from the same window
    # positions, so each phase is one loop over shifted windows, written in place.
    blocks = tuple(-(-s // t) for s, t in zip(size, stride, strict=True))
    whole = jnp.zeros(
        (n, *(v for b, t in zip(blocks, stride, strict=True) for v in (b, t)), c), g.dtype
    )
    positions = list(product(*map(range, kernel)))
    for phase in product(*map(range, stride)):
        part = None
        for k, at in enumerate(positions):
            if any(a % t != p for a, t, p in zip(at, stride, phase, strict=True)):
                continue
            low = [a // t for a, t in zip(at, stride, strict=True)]
            pads = [(lo, b - o - lo, 0) for lo, b, o in zip(low, blocks, out, strict=True)]
            term = lax.pad(jnp.where(index == k, g, zero), zero, ((0, 0, 0), *pads, (0, 0, 0)))
            part = term if part is None else part + term
        if part is not None:
            at = (0, *(v for p in phase for v in (0, p)), 0)
            part = jnp.expand_dims(part, tuple(2 * i + 2 for i in range(nd)))
            whole = lax.dynamic_update_slice(whole, part, at)
    whole = whole.reshape(n, *(b * t for b, t in zip(blocks, stride, strict=True)), c)
    return _up_to(whole, size)


def _up_to(x: jax.Array, size: Sequence[int]) -> jax.Array:
    """The first so many pixels along each spatial axis.

    Indexing would look whether that is all of them, which a trace for all sizes cannot know.
    """
    return lax.slice(x, (0,) * x.ndim, (x.shape[0], *size, x.shape[-1]))


@cache
def _pick_and_put() -> tuple[Any, Any]:
    return linear_pair("max_pool_pick", _pick, _put)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _max_slices(x: jax.Array, geometry: Window) -> jax.Array:
    return reduce(jnp.maximum, geometry.slices(x))


@_max_slices.defjvp
def _max_slices_jvp(geometry: Window, primals: Any, tangents: Any) -> Any:
    first, *rest = geometry.slices(primals[0])
    index = jnp.zeros(first.shape, jnp.int8)
    for k, a in enumerate(rest, 1):
        index = jnp.where(a > first, jnp.int8(k), index)
        first = jnp.maximum(first, a)
    if geometry.lean:
        first, index = lax.optimization_barrier((first, index))
    return first, _pick_and_put()[0].bind(index, tangents[0], geometry=geometry)


@jax.custom_jvp
def _max_all(x: jax.Array) -> jax.Array:
    """The maximum over all but the first and last axes, those kept with length one.

    By quarters of the first of them: what XLA does to keep NaN it does of a copy where the channels are not last.
    """
    n = x.shape[1] if x.ndim > 2 else 0
    if type(n) is int and n >= 4:
        part = -(-n // 4)
        starts = [min(k * part, n - part) for k in range(4)]
        x = reduce(jnp.maximum, [lax.slice_in_dim(x, k, k + part, axis=1) for k in starts])
    return jnp.max(x, axis=tuple(range(1, x.ndim - 1)), keepdims=True)


@_max_all.defjvp
def _max_all_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    rows = x.reshape(x.shape[0], -1, x.shape[-1])
    winner = jnp.argmax(rows, axis=1, keepdims=True)
    mask = lax.broadcasted_iota(winner.dtype, rows.shape, 1) == winner
    shape = (x.shape[0], *(1,) * (x.ndim - 2), x.shape[-1])
    tangent = jnp.where(mask, t.reshape(rows.shape), jnp.zeros((), t.dtype)).sum(axis=1)
    return _max_all(x), tangent.reshape(shape)


# ---- shapes ------------------------------------------------------------------------------------
def _pair(value: Any, nd: int, default: int) -> tuple[int, ...]:
    if value is None or value == ():
        return (default,) * nd
    return (int(value),) * nd if isinstance(value, int) else tuple(int(v) for v in value)


def _right_pads(size, kernel, stride, pad, convention) -> tuple[int, ...]:
    """Padding after each axis: MXNet's `pad`, and what the last window of ``full`` reaches beyond.

    Elements after the last window stay: neither the slices nor reduce_window read them.
    """
    right = []
    for n, k, s, p in zip(size, kernel, stride, pad, strict=True):
        if convention == "same":
            out = -(-(n + 2 * p) // s)
        elif convention == "full":
            out = -(-(n + 2 * p - k) // s) + 1
        elif not isinstance(
            n, int
        ):  # whether the last elements are read depends on the length: all stay
            right.append(p)
            continue
        else:
            out = (n + 2 * p - k) // s + 1
        right.append(max((out - 1) * s + k - n - p, 0))
    return tuple(right)


def _prepare(x, kernel, stride, pad, convention, layout):
    nd = x.ndim - 2
    if nd not in LAYOUTS:
        raise ValueError(f"pooling takes data of 3 to 5 axes, got shape {x.shape}")
    layout = layout or LAYOUTS[nd][0]
    if layout not in LAYOUTS[nd]:
        raise ValueError(
            f"layout={layout!r} does not fit data of shape {x.shape}: "
            f"expected {' or '.join(LAYOUTS[nd])}"
        )
    if convention not in CONVENTIONS:
        raise ValueError(f"convention={convention!r}: expected one of {', '.join(CONVENTIONS)}")
    kernel, stride, pad = _pair(kernel, nd, 1), _pair(stride, nd, 1), _pair(pad, nd, 0)
    if not len(kernel) == len(stride) == len(pad) == nd:
        raise ValueError(
            f"kernel={kernel}, stride={stride} and pad={pad} need {nd} values each "
            f"for data of shape {x.shape}"
        )
    last = layout[-1] == "C"
    size = x.shape[1:-1] if last else x.shape[2:]
    for n, k, p in zip(size, kernel, pad, strict=True):
        if convention == "valid" and k > n + 2 * p:
            raise ValueError(
                f"kernel size ({k}) exceeds input ({n} padded to {n + 2 * p}): kernel={kernel}, "
                f"data of shape {x.shape}, pad={pad}"
            )
        if p >= k:
            raise ValueError(f"pad={pad} must be smaller than kernel={kernel}")
    right = _right_pads(size, kernel, stride, pad, convention)
    return layout, kernel, stride, list(zip(pad, right, strict=True))


def _channels_last(fn: Callable, x: jax.Array, layout: str) -> jax.Array:
    return fn(x) if layout[-1] == "C" else jnp.moveaxis(fn(jnp.moveaxis(x, 1, -1)), -1, 1)


def _pad(x: jax.Array, value: Any, pads: Sequence[tuple[int, int]]) -> jax.Array:
    if not any(p for pair in pads for p in pair):
        return x
    return lax.pad(
        x, jnp.asarray(value, x.dtype), ((0, 0, 0), *((a, b, 0) for a, b in pads), (0, 0, 0))
    )


def _lowest(dtype: Any) -> Any:
    return -jnp.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).min


# ---- public ------------------------------------------------------------------------------------
def max_pool(
    x: jax.Array,
    kernel: int | Sequence[int] = 1,
    stride: int | Sequence[int] | None = None,
    pad: int | Sequence[int] | None = None,
    *,
    convention: str = "valid",
    global_pool: bool = False,
    layout: str | None = None,
    platform: str = "cpu",
    lean: bool = False,
) -> jax.Array:
    """The maximum of each window; its gradient goes to the window's first maximum.

    x is (N, C, *spatial) or (N, *spatial, C) by layout, of any real dtype. convention ``valid``
    rounds the output size down, ``full`` up; stride defaults to 1. Differentiable any number of
    times, in both modes on a CPU.

    >>> max_pool(jnp.ones((8, 20, 24, 24)), 2, 2).shape
    (8, 20, 12, 12)
    """
    if global_pool:
        layout, *_ = _prepare(x, None, None, None, "valid", layout)
        return _channels_last(_max_all, x, layout)
    layout, kernel, stride, pads = _prepare(x, kernel, stride, pad, convention, layout)

    def run(x: jax.Array) -> jax.Array:
        if platform == "cpu" and prod(kernel) <= MAX_SLICES and x.size:
            if x.dtype == jnp.bfloat16 and not lean:
                # XLA:CPU widens each slice by itself, and rounds each sum of the gradient.
                return run(x.astype(jnp.float32)).astype(x.dtype)
            x = _pad(x, _lowest(x.dtype), pads)
            return _max_slices(x, Window(x.shape[1:-1], kernel, stride, lean))
        return lax.reduce_window(
            x,
            np.asarray(_lowest(x.dtype), x.dtype),
            lax.max,
            (1, *kernel, 1),
            (1, *stride, 1),
            ((0, 0), *pads, (0, 0)),
        )

    return _channels_last(run, x, layout)


def sum_pool(
    x: jax.Array,
    kernel: int | Sequence[int] = 1,
    stride: int | Sequence[int] | None = None,
    pad: int | Sequence[int] | None = None,
    *,
    convention: str = "valid",
    global_pool: bool = False,
    layout: str | None = None,
    platform: str = "cpu",
) -> jax.Array:
    """The sum of each window, of the padded image; arguments as in `max_pool`.

    >>> float(sum_pool(jnp.ones((1, 1, 4, 4)), 2, 2)[0, 0, 0, 0])
    4.0
    """
    if x.dtype.itemsize == 2:
        options: Any = {"convention": convention, "global_pool": global_pool, "layout": layout}
        return sum_pool(_wide(x), kernel, stride, pad, platform=platform, **options).astype(x.dtype)
    if global_pool:
        layout, *_ = _prepare(x, None, None, None, "valid", layout)
        axes = tuple(range(1, x.ndim - 1)) if layout[-1] == "C" else tuple(range(2, x.ndim))
        return jnp.sum(x, axis=axes, keepdims=True, dtype=x.dtype)
    layout, kernel, stride, pads = _prepare(x, kernel, stride, pad, convention, layout)

    def run(x: jax.Array) -> jax.Array:
        if platform == "cpu" and x.size:
            x = _pad(x, 0, pads)
            window = Window(x.shape[1:-1], kernel, stride)
            if kernel == stride:  # a sum over axes: its gradient is a broadcast
                split = [v for o, k in zip(window.out, kernel, strict=True) for v in (o, k)]
                axes = tuple(2 * i + 2 for i in range(len(kernel)))
                x = _up_to(x, [o * k for o, k in zip(window.out, kernel, strict=True)])
                return x.reshape(x.shape[0], *split, x.shape[-1]).sum(axis=axes, dtype=x.dtype)
            if prod(kernel) <= MAX_SLICES:
                first, *rest = window.slices(x)
                return sum(rest, first)
            pads_left = [(0, 0)] * len(kernel)
        else:
            pads_left = pads
        return lax.reduce_window(
            x,
            np.asarray(0, x.dtype),
            lax.add,
            (1, *kernel, 1),
            (1, *stride, 1),
            ((0, 0), *pads_left, (0, 0)),
        )

    return _channels_last(run, x, layout)


def avg_pool(
    x: jax.Array,
    kernel: int | Sequence[int] = 1,
    stride: int | Sequence[int] | None = None,
    pad: int | Sequence[int] | None = None,
    *,
    convention: str = "valid",
    global_pool: bool = False,
    count_include_pad: bool = True,
    layout: str | None = None,
    platform: str = "cpu",
) -> jax.Array:
    """The mean of each window; arguments as in `max_pool`.

    count_include_pad counts the padding (but never what ``full`` reaches beyond it) in the divisor.

    >>> float(avg_pool(jnp.ones((1, 1, 4, 4)), 2, 2)[0, 0, 0, 0])
    1.0
    """
    total = sum_pool(
        _wide(x),
        kernel,
        stride,
        pad,
        convention=convention,
        global_pool=global_pool,
        layout=layout,
        platform=platform,
    )
    dtype = x.dtype
    layout = layout or LAYOUTS[x.ndim - 2][0]
    size = x.shape[1:-1] if layout[-1] == "C" else x.shape[2:]
    if global_pool:
        number = prod(size)
        array = np if isinstance(number, int) else jnp  # of a symbol
        return (total / array.asarray(number, total.dtype)).astype(dtype)
    nd = x.ndim - 2
    kernel, stride, pad = _pair(kernel, nd, 1), _pair(stride, nd, 1), _pair(pad, nd, 0)
    counts = np.ones((1,) * nd)
    out = total.shape[1:-1] if layout[-1] == "C" else total.shape[2:]
    for axis, (n, o, k, s, p) in enumerate(zip(size, out, kernel, stride, pad, strict=True)):
        if convention == "valid" and (count_include_pad or not p):
            counts = counts * k  # of lengths that are symbols, too
            continue
        start = np.arange(o) * s - p
        low, high = (start, n + p) if count_include_pad else (np.maximum(start, 0), n)
        count = np.maximum(np.minimum(start + k, high) - low, 1)  # 1: a window outside it
        counts = counts * count.reshape([-1 if a == axis else 1 for a in range(nd)])
    divisor = counts[None, ..., None] if layout[-1] == "C" else counts[None, None]
    if (counts == counts.flat[0]).all():
        divisor = counts.flat[0]
    return (total / np.asarray(divisor, total.dtype)).astype(dtype)


def _wide(x: jax.Array) -> jax.Array:
    """Numbers of 16 bits as those of 32: sums of a window, and powers, have no place in them, as in MXNet."""
    return x.astype(jnp.float32) if x.dtype.itemsize == 2 else x


def lp_pool(
    x: jax.Array,
    kernel: int | Sequence[int] = 1,
    stride: int | Sequence[int] | None = None,
    pad: int | Sequence[int] | None = None,
    *,
    p_value: int = 2,
    **options: Any,
) -> jax.Array:
    """The root of the sum of powers of each window (p_value 1, 2 or 3); other arguments as in `sum_pool`.

    Odd powers keep their signs, as in MXNet.

    >>> float(lp_pool(jnp.full((1, 1, 2, 2), 3.0), 2, 2)[0, 0, 0, 0])
    6.0
    """
    if p_value not in (1, 2, 3):
        raise ValueError(f"p_value={p_value}: expected 1, 2 or 3")
    if p_value == 1:
        return sum_pool(x, kernel, stride, pad, **options)
    dtype, x = x.dtype, _wide(x)
    if (
        p_value == 3
    ):  # beyond it the root is infinite in any case, and its gradient 0, not infinity times 0
        most = float(jnp.finfo(x.dtype).max) ** 0.5 / 2
        x = jnp.clip(x, -most, most)
    total = sum_pool(x**p_value, kernel, stride, pad, **options)
    # The root's derivative is infinite at zero; a window of zeros has no gradient.
    zero = total == 0
    size = jnp.abs(jnp.where(zero, 1, total)) ** (1 / p_value)
    return jnp.where(zero, 0, jnp.sign(total) * size).astype(dtype)
