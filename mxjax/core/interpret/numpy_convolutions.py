"""Convolutions as NumPy does them, on all cores: patches as matrices, which the filters multiply, or the other way."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import operator
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from ..compile.compiler_options import cores
from ..run.forks import forked
from .numpy_arrays import padded
from .numpy_memory import room
from .numpy_rules import Op, axes_of, dtype_out, is_half

#: Products with their sums that one part has at least, if the work is shared out: a thread takes 0.1 ms to be asked.
_SHARE = 1 << 22


def fitting(
    lengths: Sequence[int], window: Sequence[int], steps: Sequence[int], dilation: Sequence[int]
) -> tuple[int, ...]:
    """How many windows fit along each axis."""
    reach = [(w - 1) * d + 1 for w, d in zip(window, dilation, strict=True)]
    return tuple(
        [
            max((n - r) // s + 1, 0) if n >= r else 0
            for n, r, s in zip(lengths, reach, steps, strict=True)
        ]
    )


#: Columns that a product of patches has at least: with fewer, those of several images are taken together.
_COLUMNS = 256


def convolution(eqn: Any) -> Op:
    """Each group's patches as a matrix, which the filters multiply."""
    p = eqn.params
    of_x, of_w, of_out = (tuple(map(int, order)) for order in p["dimension_numbers"])
    dtype = dtype_out(eqn)
    wide = np.dtype(np.float32) if is_half(dtype) else dtype
    steps, dilation = axes_of(p["window_strides"]), axes_of(p["rhs_dilation"])
    by_channel, by_image = p["feature_group_count"], p["batch_group_count"]
    back = tuple(np.argsort(of_out).tolist())
    plain = ((0, 0, 0), (0, 0, 0))

    def convolve(x: Any, w: Any, padding: Any, base: Any) -> Any:
        x, w = (
            x.transpose(of_x).astype(wide, copy=False),
            w.transpose(of_w).astype(wide, copy=False),
        )
        if by_channel == by_image == 1 and set(steps) == {1} and x.size and w.size:
            lengths = [
                low + high + (n - 1) * b + 1
                for (low, high), n, b in zip(padding, x.shape[2:], base, strict=True)
            ]
            fits = fitting(lengths, w.shape[2:], steps, dilation)
            if _is_spread(x, w, base, fits):
                made = _spread_out(x, w, padding, base, dilation, fits, back)
                return made.astype(dtype, copy=False)
        config = tuple((low, high, b - 1) for (low, high), b in zip(padding, base, strict=True))
        if any(map(any, config)):
            x = padded(x, wide.type(0), plain + config)
        kernel = w.shape[2:]
        fits = fitting(x.shape[2:], kernel, steps, dilation)
        moves = x.strides[2:]
        view = np.lib.stride_tricks.as_strided(
            x,
            (*x.shape[:2], *kernel, *fits),
            (*x.strides[:2], *map(operator.mul, moves, dilation), *map(operator.mul, moves, steps)),
            writeable=False,
        )
        groups = by_channel * by_image
        images, channels, filters = (
            x.shape[0] // by_image,
            x.shape[1] // by_channel,
            w.shape[0] // groups,
        )
        # What is copied lies in rows of the output, or of the filter, where that is larger (for a weight's gradient).
        product = _by_image if not kernel or fits[-1] >= kernel[-1] else _at_once
        # It is made in the order that it is asked for: a weight's gradient meets the weight in the next call.
        whole = room([(images, len(w), *fits)[k] for k in back], wide)
        out = whole.transpose(of_out)
        if by_channel > 1 and channels == filters == 1 and math.prod(kernel) <= math.prod(fits):
            _by_tap(view, w, out)
            return whole.astype(dtype, copy=False)
        for k in range(groups):
            at = k if by_image > 1 else 0
            own = view[at * images : (at + 1) * images]
            if by_channel > 1:
                own = own[:, k * channels : (k + 1) * channels]
            there = slice(k * filters, (k + 1) * filters)
            _in_parts(product, own, w[there].reshape(filters, -1), out[:, there])
        return whole.astype(dtype, copy=False)

    return Op(convolve, (tuple(map(tuple, p["padding"])), tuple(p["lhs_dilation"])))


def _by_image(view: Any, w: Any, out: Any) -> None:
    """Each image's patches as columns, so that its result lies as it should; `view` is (N, C, *kernel, *output)."""
    rank, columns = out.ndim - 2, math.prod(out.shape[2:])
    many = max(1, _COLUMNS // max(columns, 1))
    order = (*range(1, 2 + rank), 0, *range(2 + rank, 2 + 2 * rank))
    for n in range(0, len(view), many):
        some = view[n : n + many]
        patches = np.ascontiguousarray(some.transpose(order)).reshape(
            w.shape[1], len(some) * columns
        )
        made = (w @ patches).reshape(len(w), len(some), *out.shape[2:])
        out[n : n + many] = made.swapaxes(0, 1)


#: Numbers that each of a filter's taps is multiplied with at once: what stays in the cache (0.4 ms for 1.2, by images
#: of 32 channels of 16 x 16).
_TAPPED = 1 << 15


def _by_tap(view: Any, w: Any, out: Any) -> None:
    """Channels that each have a filter of their own: products and sums of whole images, tap by tap."""
    many = max(1, _TAPPED // math.prod(out.shape[1:]))
    taps = list(np.ndindex(w.shape[2:]))
    ones = (1,) * (out.ndim - 2)
    filters = [w[(slice(None), 0, *tap)].reshape(-1, *ones) for tap in taps]
    for n in range(0, len(out), many):
        made, part = np.empty((2, *out[n : n + many].shape), out.dtype)
        for k, (tap, filter) in enumerate(zip(taps, filters, strict=True)):
            seen = view[(slice(n, n + many), slice(None), *tap)]
            np.multiply(seen, filter, out=part if k else made)
            if k:
                made += part
        out[n : n + many] = made  # whose axes may lie in another order


def _at_once(view: Any, w: Any, out: Any) -> None:
    """All patches as the rows of one matrix."""
    rank = out.ndim - 2
    order = (0, *range(2 + rank, 2 + 2 * rank), *range(1, 2 + rank))
    patches = view.transpose(order).reshape(len(view) * math.prod(out.shape[2:]), w.shape[1])
    if out.strides[1] > out.strides[0]:
        out.swapaxes(0, 1)[...] = (w @ patches.T).reshape(len(w), len(view), *out.shape[2:])
    else:
        made = (patches @ w.T).reshape(len(view), *out.shape[2:], len(w))
        out[...] = np.moveaxis(made, -1, 1)


# ---- gradients of inputs, and transposed convolutions --------------------------------------


def _is_spread(x: Any, w: Any, base: Sequence[int], fits: Sequence[int]) -> bool:
    """Whether each input is better multiplied by the filters and added where it counts.

    So where zeros lie between inputs, which a product of patches would multiply (2.5 ms for 8.2, 128 channels), and
    where filters are turned round for a gradient, and many: they would be copied (3.9 ms for 10.3, 512 channels of 4
    numbers; 4.7 for 3.7 with 64 channels of 256). Not where the filters are larger than what comes out, as of the
    gradient of a transposed convolution's weight.
    """
    if w.ndim < 3:
        return False
    if max(base) > 1:
        return bool(math.prod(w.shape[2:]) <= math.prod(fits))
    return w.size > x.size and bool(_turned(w).flags.c_contiguous)


def _turned(w: Any) -> Any:
    """Filters (F, C, *kernel) as (C, F, *kernel), their kernels from the end."""
    return w.swapaxes(0, 1)[(slice(None), slice(None), *[slice(None, None, -1)] * (w.ndim - 2))]


def _spread_out(
    x: Any,
    w: Any,
    padding: Any,
    base: Sequence[int],
    dilation: Sequence[int],
    fits: Sequence[int],
    back: Sequence[int],
) -> Any:
    """A convolution with steps of 1 as what each input adds to the outputs around it."""
    kernel, filters = w.shape[2:], len(w)
    shape = (len(x), filters, *fits)
    whole = room([shape[k] for k in back], x.dtype)
    out = whole.transpose(np.argsort(back))
    flat = _turned(w).reshape(w.shape[1], -1)
    moves = []
    for tap in np.ndindex(kernel):
        axes = [
            _meeting(low - (k - 1 - at) * d, b, n, m)
            for at, k, d, b, (low, _), n, m in zip(
                tap, kernel, dilation, base, padding, x.shape[2:], shape[2:], strict=True
            )
        ]
        if None not in axes:
            moves.append((tap, [a[0] for a in axes], [a[1] for a in axes]))  # type: ignore[index]

    def spread(x: Any, flat: Any, out: Any) -> None:
        columns = math.prod(x.shape[2:])
        many = max(1, _COLUMNS // columns)
        for n in range(0, len(x), many):
            some = x[n : n + many].swapaxes(0, 1)
            made = flat.T @ some.reshape(len(some), -1)
            made = made.reshape(filters, *kernel, *some.shape[1:])
            there = out[n : n + many].swapaxes(0, 1)
            there[...] = 0
            for tap, inputs, outputs in moves:
                there[(slice(None), slice(None), *outputs)] += made[
                    (slice(None), *tap, slice(None), *inputs)
                ]

    _in_parts(spread, x, flat, out)
    return whole


def _meeting(first: int, step: int, inputs: int, outputs: int) -> tuple[slice, slice] | None:
    """Which inputs, each ``step`` further on from ``first``, lie within the outputs, and which outputs these are."""
    low = max(0, -(first // step))
    high = min(inputs - 1, (outputs - 1 - first) // step)
    if high < low:
        return None
    return slice(low, high + 1), slice(first + low * step, first + high * step + 1, step)


# ---- on all cores -----------------------------------------------------------------------


def _in_parts(product: Callable[..., None], view: Any, w: Any, out: Any) -> None:
    """The product for each part of the images in a thread of its own, with one of the library's.

    Threads of OpenBLAS wait for each other by turning round: of products that are small and many they take no time off,
    and where another process wants a core each takes a hundred times as long.
    """
    n = len(view)
    count = min(cores(), n, out.size * w.shape[1] // _SHARE) if not forked[0] else 1
    with one_thread():
        if count < 2:
            product(view, w, out)
            return
        ends = [n * k // count for k in range(count + 1)]
        pool = _pool(os.getpid(), cores())
        waits, own = [], count
        try:
            while own > 1:
                part = slice(ends[own - 1], ends[own])
                waits.append(pool.submit(_quietly, product, view[part], w, out[part]))
                own -= 1
        except RuntimeError:  # the interpreter ends and begins no work any more
            pass
        product(view[: ends[own]], w, out[: ends[own]])
        for each in waits:
            each.result()


def _quietly(product: Callable[..., None], view: Any, w: Any, out: Any) -> None:
    """NumPy's warnings are a thread's own."""
    with np.errstate(all="ignore"):
        product(view, w, out)


@functools.cache
def _pool(process: int, count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="mxjax convolves")


@functools.cache
def _threads() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """What says and what sets how many threads the OpenBLAS of NumPy's wheels has; None where it is another library."""
    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".dylibs"):
        for path in sorted(folder.glob("*openblas*")):
            try:
                library = ctypes.CDLL(str(path))  # the one that NumPy has loaded
            except OSError:
                continue
            for form in ("scipy_openblas_%s_num_threads64_", "openblas_%s_num_threads64_"):
                if hasattr(library, form % "set"):
                    return getattr(library, form % "get"), getattr(library, form % "set")
    return None


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """NumPy's products have one thread each.

    Several may be in here at once: who finds more than one thread puts that many back.
    """
    threads = _threads()
    before = 1 if threads is None else threads[0]()
    if before < 2:
        yield
        return
    threads[1](1)  # type: ignore[index]
    try:
        yield
    finally:
        threads[1](before)  # type: ignore[index]
