"""Convolutions as NumPy does them: patches as matrices, which the filters multiply, on all cores."""

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
        out = np.empty((images, len(w), *fits), wide)
        for k in range(groups):
            at = k if by_image > 1 else 0
            own = view[at * images : (at + 1) * images]
            if by_channel > 1:
                own = own[:, k * channels : (k + 1) * channels]
            there = slice(k * filters, (k + 1) * filters)
            _in_parts(product, own, w[there].reshape(filters, -1), out[:, there])
        return out.transpose(back).astype(dtype, copy=False)

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


def _at_once(view: Any, w: Any, out: Any) -> None:
    """All patches as the rows of one matrix."""
    rank = out.ndim - 2
    order = (0, *range(2 + rank, 2 + 2 * rank), *range(1, 2 + rank))
    patches = view.transpose(order).reshape(len(view) * math.prod(out.shape[2:]), w.shape[1])
    made = (patches @ w.T).reshape(len(view), *out.shape[2:], len(w))
    out[...] = np.moveaxis(made, -1, 1)


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
