"""Operators on signals and series: Fourier transforms, sketches, correlation of images, Hawkes processes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .samples import Given, case, f
from .table import op

# ------------------------------------------------------------------------------- Fourier transforms


def _real(x: Any) -> Any:
    return x if x.dtype == jnp.float64 else x.astype("float32")


@op("fft", nd_contrib="fft", samples=[case(f(2, 4)), case(f(1, 2, 2, 4))], amp="full")
def fft(data: Any, *, compute_size: int = 128) -> Any:
    """The discrete Fourier transform along the last axis, real and imaginary parts in turns: (..., d) gives (..., 2 d)."""
    made = jnp.fft.fft(_real(data))
    return jnp.stack([made.real, made.imag], -1).reshape(*data.shape[:-1], -1).astype(data.dtype)


@op("ifft", nd_contrib="ifft", samples=[case(f(2, 8)), case(f(1, 2, 2, 4))], internal=None)
def ifft(data: Any, *, compute_size: int = 128) -> Any:
    """The real part of d times the inverse transform of what `fft` gives: (..., 2 d) gives (..., d)."""
    pairs = _real(data).reshape(*data.shape[:-1], -1, 2)
    n = pairs.shape[-2]
    return (jnp.fft.ifft(lax.complex(pairs[..., 0], pairs[..., 1])).real * n).astype(data.dtype)


@op(
    nd_contrib="count_sketch",
    samples=[case(f(2, 4), Given([[0, 1, 2, 1]]), Given([[1, -1, 1, 1]]), out_dim=3)],
    amp="full",
    smooth=False,
)
def count_sketch(
    data: Any, h: Any, s: Any, *, out_dim: int, processing_batch_size: int = 32
) -> Any:
    """The count sketch of rows (Charikar et al. 2002): (n, d) gives (n, out_dim), where column j is added to h[j] times s[j]."""
    at = lax.stop_gradient(h).reshape(-1).astype("int32")
    signed = data * lax.stop_gradient(s).reshape(-1)
    return jnp.zeros((*data.shape[:-1], out_dim), data.dtype).at[..., at].add(signed)


# -------------------------------------------------------------------------------------- correlation


@op(
    nd="Correlation",
    display="Correlation",
    samples=[
        case(f(1, 2, 5, 5), f(1, 2, 5, 5), max_displacement=1),
        case(
            f(1, 2, 5, 6),
            f(1, 2, 5, 6),
            kernel_size=3,
            max_displacement=2,
            stride2=2,
            pad_size=2,
            is_multiply=False,
        ),
    ],
    amp="widest",
    smooth=False,
)
def correlation(
    data1: Any,
    data2: Any,
    *,
    kernel_size: int = 1,
    max_displacement: int = 1,
    stride1: int = 1,
    stride2: int = 1,
    pad_size: int = 0,
    is_multiply: bool = True,
) -> Any:
    """How patches of an image match those of another nearby (FlowNet, Dosovitskiy et al. 2015): (N, D * D, h, w).

    Each of the D * D displacements, ``stride2`` apart and up to ``max_displacement``, is a channel: the mean product over a
    ``kernel_size`` window and all channels, or the mean absolute difference.
    """
    if kernel_size % 2 != 1:
        raise ValueError(f"kernel size should be odd number, got {kernel_size}")
    n, c, h, w = data1.shape
    radius = (kernel_size - 1) // 2
    border = max_displacement + radius
    ph, pw = h + 2 * pad_size, w + 2 * pad_size
    oh, ow = -(-(ph - 2 * border) // stride1), -(-(pw - 2 * border) // stride1)
    if oh < 1 or ow < 1:
        raise ValueError(
            f"Correlation cannot be done with current settings. Neighborhood and kernel don't fit in blob: {h} x {w} padded by "
            f"{pad_size}, a border of {border}"
        )
    pad = ((0, 0), (0, 0), (pad_size, pad_size), (pad_size, pad_size))
    a, b = jnp.pad(data1, pad), jnp.pad(data2, pad)
    reach = max_displacement // stride2
    steps = [stride2 * k for k in range(-reach, reach + 1)]
    high, wide = (oh - 1) * stride1 + kernel_size, (ow - 1) * stride1 + kernel_size
    first = a[
        :, :, max_displacement : max_displacement + high, max_displacement : max_displacement + wide
    ]
    made = []
    for dy in steps:
        for dx in steps:
            y, x = max_displacement + dy, max_displacement + dx
            other = b[:, :, y : y + high, x : x + wide]
            each = (first * other if is_multiply else jnp.abs(first - other)).sum(1)
            zero = np.zeros((), each.dtype)
            window, strides = (1, kernel_size, kernel_size), (1, stride1, stride1)
            made.append(
                lax.reduce_window(each, zero, lax.add, window, strides, "VALID")
                if kernel_size > 1
                else each[:, ::stride1, ::stride1]
            )
    return jnp.stack(made, 1) / (kernel_size * kernel_size * c)


# ---------------------------------------------------------------------------------- point processes

_HAWKES = [
    case(f(2, 3, low=0.5, high=1.5), f(3, low=0.1, high=0.5), f(3, low=0.5, high=1.5), f(2, 3, low=0.0, high=1.0),
         f(2, 4, low=0.1, high=1.0), Given([[0, 1, 2, 1], [1, 1, 0, 2]], "int32"), Given([4.0, 3.0]), Given([6.0, 5.0])),
]  # fmt: skip


@op(
    nd_contrib="hawkesll", samples=_HAWKES, amp="full", outputs=2, results=("output", "out_state"), smooth=False, loops=True,
    typed=(0, 1, 2, 3, 4, 6, 7), dtypes={"marks": "int32"},
)  # fmt: skip
def hawkesll(
    lda: Any,
    alpha: Any,
    beta: Any,
    state: Any,
    lags: Any,
    marks: Any,
    valid_length: Any,
    max_time: Any,
) -> Any:
    """The log likelihood of a marked Hawkes process with exponential decay: (N,), and its state at the end: (N, K).

    lda: (N, K) background rates; alpha, beta: (K,) branching ratios and decays; state: (N, K) at the beginning; lags: (N, T)
    times between events; marks: (N, T) whole numbers below K; valid_length, max_time: (N,) numbers of events and ends. No gradient flows through the state, as in MXNet.
    """
    marks = marks.astype("int32")

    def one(mu: Any, state: Any, lags: Any, marks: Any, count: Any, end: Any) -> Any:
        def step(carry: Any, event: Any) -> tuple[Any, None]:
            total, t, last, state = carry
            lag, k, number = event
            real = number < count
            now = t + jnp.where(real, lag, 0)
            d = now - last[k]
            decay = jnp.exp(-beta[k] * d)
            rate = mu[k] + alpha[k] * beta[k] * state[k] * decay
            passed = mu[k] * d + alpha[k] * state[k] * (1 - decay)
            gain = jnp.log(jnp.where(real, rate, 1)) - jnp.where(real, passed, 0)
            last = last.at[k].set(jnp.where(real, now, last[k]))
            state = state.at[k].set(jnp.where(real, 1 + state[k] * decay, state[k]))
            return (total + gain, now, last, state), None

        zero = jnp.zeros((), lags.dtype)
        numbers = jnp.arange(lags.shape[0]).astype(count.dtype)
        start = (zero, zero, jnp.zeros_like(state), state)
        (total, _, last, state), _ = lax.scan(step, start, (lags, marks, numbers))
        d = end - last
        decay = jnp.exp(-beta * d)
        return total - (mu * d + alpha * state * (1 - decay)).sum(), lax.stop_gradient(
            state * decay
        )

    return jax.vmap(one)(lda, state, lags, marks, valid_length, max_time)
