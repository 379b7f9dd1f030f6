"""The table that ``Block.summary`` prints."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from mxjax import errors
from mxjax.array.ndarray import NDArray
from mxjax.core import SCALARS, Dynamic, compiler, end_note, note_calls
from mxjax.display import notebooks
from mxjax.hlo import counts

if TYPE_CHECKING:
    from .block import Block


def _shape(x: Any) -> str:
    if isinstance(x, NDArray):
        return str(x.shape)
    if isinstance(x, (list, tuple)):
        return ", ".join(_shape(i) for i in x)
    return str(x)


def _cost(call: Any, inputs: Sequence[Any]) -> tuple[float, float]:
    """Operations and bytes of one call, as XLA counts them before it optimises."""
    structs = [SCALARS[v.kind] if type(v) is Dynamic else v.aval.struct for v in inputs]
    with (
        jax.enable_x64(True),
        compiler.counting(),
        compiler.for_platform("tpu"),
    ):  # operators in their plain forms
        found = counts(jax.jit(call.fn).lower(*structs))
    return found.get("flops", 0.0), found.get("bytes accessed", 0.0)


def _human(number: float) -> str:
    for unit in ("", "k", "M", "G", "T"):
        if abs(number) < 1000 or unit == "T":
            break
        number /= 1000
    return f"{number:.4g} {unit}".rstrip()


def print_summary(block: Block, inputs: tuple[Any, ...], flops: bool = False) -> None:
    """Run ``block`` once and print each layer's output shape and number of parameters, and what it costs."""
    rows: list[tuple[str, str, int]] = [("Input", _shape(inputs), 0)]
    costs: list[tuple[float, float]] = [(0.0, 0.0)]
    within: list[list[float]] = [[0.0, 0.0]]  # of the layers that run, the innermost last

    def note(call: Any, given: Sequence[Any], results: Any) -> None:
        for k, n in enumerate(_cost(call, given)):
            within[-1][k] += n

    counted: set[int] = set()
    total = trainable = shared = 0
    hooks = []

    def watch(b: Block) -> None:
        if hasattr(type(b), "_is_hybrid_block") and b._active:
            raise errors.MXNetAssertionError(
                f'"{type(b).__name__}" must not be hybridized to print summary. Call hybridize(False) first'
            )

        def seen(b: Block, _: Any, out: Any) -> None:
            nonlocal total, trainable, shared
            n = 0
            for p in b.params.values():
                size = p.data(p.list_device()[0]).size
                n += size
                trainable += size if p.grad_req != "null" else 0
                shared += size if id(p) in counted else 0
                counted.add(id(p))
            total += n
            own = within.pop() if flops else [0.0, 0.0]
            costs.append((own[0], own[1]))
            rows.append((f"{type(b).__name__}-{len(rows)}", _shape(out), n))

        if not b._is_sequence:
            if flops:
                hooks.append(b.register_forward_pre_hook(lambda *_: within.append([0.0, 0.0])))
            hooks.append(b.register_forward_hook(seen))

    block.apply(watch)
    try:
        if flops:
            block(*inputs)  # shapes that were deferred are known then
            for state in (rows, costs):
                del state[1:]
            total = trainable = shared = 0
            counted.clear()
            note_calls(note)
        block(*inputs)
    finally:
        end_note(note)
        for h in hooks:
            h.detach()
    line = "{:>20}  {:>42} {:>15}"
    print("-" * 80)
    print(
        line.format("Layer (type)", "Output Shape", "Param #")
        + (f" {'FLOPs':>10} {'Bytes':>10}" if flops else "")
    )
    print("=" * 80)
    for row, (operations, moved) in zip(rows, costs, strict=True):
        print(
            line.format(*row) + (f" {_human(operations):>10} {_human(moved):>10}" if flops else "")
        )
    print("=" * 80)
    print("Parameters in forward computation graph, duplicate included")
    print(f"   Total params: {total}")
    print(f"   Trainable params: {trainable}")
    print(f"   Non-trainable params: {total - trainable}")
    print(f"Shared params in forward computation graph: {shared}")
    print(f"Unique parameters in model: {total - shared}")
    if flops:
        print(
            f"Forward: {_human(sum(c[0] for c in costs))} FLOPs, {_human(sum(c[1] for c in costs))} bytes"
        )
    print("-" * 80)


def html_of(block: Block, name: str = "", depth: int = 0) -> str:
    """A block for a notebook: its layers, which fold, each with the number of its parameters."""
    found = block.collect_params().values()
    shapes = [p.shape for p in found]
    known = all(shape is not None and all(n > 0 for n in shape) for shape in shapes)
    count = sum(math.prod(shape) for shape in shapes if shape is not None) if known else 0
    said = (
        f"{count:,} parameters"
        if known and shapes
        else "parameters of shapes still unknown"
        if shapes
        else ""
    )
    written = repr(block)
    children = block._children if "\n" in written else {}  # a layer and its activation are one line
    title = type(block).__name__ if children else " ".join(written.split())
    text = f"<code>{html.escape(f'({name}) ' if name else '')}{html.escape(title)}</code> {said}".rstrip()
    if not children:
        return f"<div style='margin-left: {1.2 * bool(depth)}em'>{text}</div>"
    inner = "".join(html_of(child, key, depth + 1) for key, child in children.items())
    margin = f" style='margin-left: {1.2 * bool(depth)}em'"
    return (
        f"<details{' open' if depth < 2 else ''}{margin}><summary>{text}</summary>{inner}</details>"
    )


def parameters_html(parameters: Iterable[tuple[str, Any]]) -> str:
    """Parameters for a notebook: a row each, and how many numbers there are in all."""
    rows = []
    total = trained = 0
    for name, p in parameters:
        known = p.shape is not None and all(n > 0 for n in p.shape)
        size = math.prod(p.shape) if known else 0
        total += size
        trained += size if p.grad_req != "null" else 0
        devices = p.list_ctx() if p._arrays is not None or p._deferred is not None else None
        where = "not initialized" if devices is None else ", ".join(map(str, devices))
        where += " (once its shape is known)" if p._deferred is not None else ""
        shape = (
            "unknown"
            if p.shape is None
            else " x ".join("?" if n <= 0 else str(n) for n in p.shape) or "()"
        )
        dtype = (
            str(np.dtype(p.dtype)) if p._stype == "default" else f"{np.dtype(p.dtype)}, {p._stype}"
        )
        rows.append((name, shape, dtype, f"{size:,}" if known else "", p.grad_req, where))
    so_far = " so far" if any(not row[3] for row in rows) else ""
    below = (
        f"<div>{total:,} numbers{so_far}, {trained:,} of them trained</div>"
        if len(rows) > 1
        else ""
    )
    return (
        notebooks.table(("parameter", "shape", "dtype", "numbers", "gradient", "on"), rows, left=1)
        + below
    )
