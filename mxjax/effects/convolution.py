"""A convolution as one matrix product: over few channels, or where that was measured to be faster."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from .. import settings
from ..core import compiler
from ..core.calls.call import Call
from ..core.compile.kept import compile_or_load

#: More channels than these fill a convolution's own product well enough.
FEW = 4


def small_channel(call: Call, fn: Callable[..., Any]) -> Callable[..., Any]:
    """The same convolution by windows laid out as rows, where it is over at most FEW channels in 2-D."""
    as_product = _as_product(call)
    if as_product is None:
        return fn

    def run(data: Any, weight: Any, *rest: Any) -> Any:
        if data.ndim != 4 or data.shape[1] > FEW:
            return fn(data, weight, *rest)
        return as_product(data, weight, *rest)

    return run


def _as_product(call: Call) -> Callable[..., Any] | None:
    """The product that a 2-D convolution is; None where its layout or groups make it none."""
    attrs = dict(call.attrs)
    layout = attrs.get("layout") or "NCHW"
    if layout != "NCHW" or int(attrs.get("num_group") or 1) != 1:
        return None

    def run(data: Any, weight: Any, *rest: Any) -> Any:
        stride, dilate, pad = (
            _two(attrs.get(name), default)
            for name, default in (("stride", 1), ("dilate", 1), ("pad", 0))
        )
        bias = rest[0] if rest and not attrs.get("no_bias") else None
        return product(data, weight, bias, stride, dilate, pad)

    return run


_quickest: dict[Any, str] = {}


def quickest(call: Call, fn: Callable[..., Any]) -> Callable[..., Any]:
    """The faster of a 2-D convolution and the product it is, as measured for each shape (`compiler.conv_search`)."""
    as_product = _as_product(call)
    if as_product is None:
        return fn
    ways = {"convolution": fn, "product": as_product}

    def run(data: Any, weight: Any, *rest: Any) -> Any:
        if data.ndim != 4:
            return fn(data, weight, *rest)
        args = (data, weight, *rest)
        key = (call.attrs, compiler.platform_now(), *((a.shape, str(a.dtype)) for a in args))
        if key not in _quickest:
            _quickest[key] = search(ways, [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in args])
        return ways[_quickest[key]](*args)

    return run


def search(ways: Mapping[str, Callable[..., Any]], structs: list[Any]) -> str:
    """The name of the way that takes least time; the first where none was measured within its time.

    Each is measured in a thread: the one at hand traces a program, in which nothing can run.
    """
    limit = settings.get("compiler.autotune_timeout")
    platform = compiler.platform_now()
    times: dict[str, float] = {}
    for name, fn in ways.items():
        found: list[float] = []

        def run(fn: Callable[..., Any] = fn, found: list[float] = found) -> None:
            with compiler.for_platform(platform):
                found.append(measure(fn, structs))

        worker = threading.Thread(target=run, name=f"mxjax measures a {name}", daemon=True)
        worker.start()
        worker.join(limit or None)
        if found:
            times[name] = found[0]
        elif worker.is_alive():
            logging.getLogger("mxjax").warning(
                "measuring a %s of %s took more than %g s (compiler.autotune_timeout) and is left out",
                name,
                " and ".join(str(tuple(s.shape)) for s in structs[:2]),
                limit,
            )
    return min(times, key=lambda name: times[name]) if times else next(iter(ways))


def measure(fn: Callable[..., Any], structs: list[Any]) -> float:
    """The seconds that a compiled function takes on zeros, the least of a few."""
    device = jax.local_devices(backend=compiler.platform_now())[0]
    with jax.enable_x64(True), jax.default_device(device):
        args = [jnp.zeros(s.shape, s.dtype) for s in structs]
        compiled, _ = compile_or_load(jax.jit(fn).lower(*args), {})
        best = float("inf")
        for _ in range(4):
            start = time.perf_counter()
            jax.block_until_ready(compiled(*args))
            best = min(best, time.perf_counter() - start)
    return best


def product(data: Any, weight: Any, bias: Any, stride: Any, dilate: Any, pad: Any) -> Any:
    """Data (N, C, H, W) and weight (F, C, h, w) convolved: strided slices, then one dot."""
    filters, channels, high, wide = weight.shape
    data = jnp.pad(data, ((0, 0), (0, 0), (pad[0], pad[0]), (pad[1], pad[1])))
    rows = (data.shape[2] - dilate[0] * (high - 1) - 1) // stride[0] + 1
    columns = (data.shape[3] - dilate[1] * (wide - 1) - 1) // stride[1] + 1
    windows = [
        data[
            :,
            :,
            i * dilate[0] : i * dilate[0] + stride[0] * (rows - 1) + 1 : stride[0],
            j * dilate[1] : j * dilate[1] + stride[1] * (columns - 1) + 1 : stride[1],
        ]
        for i in range(high)
        for j in range(wide)
    ]
    stacked = jnp.stack(windows, axis=2).reshape(
        data.shape[0], channels * high * wide, rows * columns
    )
    out = jnp.einsum("fk,nkp->nfp", weight.reshape(filters, -1), stacked)
    out = out.reshape(data.shape[0], filters, rows, columns)
    return out if bias is None else out + bias.reshape(1, -1, 1, 1)


def _two(value: Any, default: int) -> tuple[int, int]:
    if value is None or value == ():
        return default, default
    if isinstance(value, int):
        return value, value
    first, second = value
    return int(first), int(second)
