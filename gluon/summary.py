"""The table that ``Block.summary`` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mxjax import errors
from mxjax.array.ndarray import NDArray

if TYPE_CHECKING:
    from .block import Block


def _shape(x: Any) -> str:
    if isinstance(x, NDArray):
        return str(x.shape)
    if isinstance(x, (list, tuple)):
        return ", ".join(_shape(i) for i in x)
    return str(x)


def print_summary(block: Block, inputs: tuple[Any, ...]) -> None:
    """Run ``block`` once and print each layer's output shape and number of parameters."""
    from .hybrid_block import HybridBlock
    from .nn import HybridSequential, Sequential

    rows: list[tuple[str, str, int]] = [("Input", _shape(inputs), 0)]
    counted: set[int] = set()
    total = trainable = shared = 0
    hooks = []

    def watch(b: Block) -> None:
        if isinstance(b, HybridBlock) and b._active:
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
            rows.append((f"{type(b).__name__}-{len(rows)}", _shape(out), n))

        if not isinstance(b, (Sequential, HybridSequential)):
            hooks.append(b.register_forward_hook(seen))

    block.apply(watch)
    try:
        block(*inputs)
    finally:
        for h in hooks:
            h.detach()
    line = "{:>20}  {:>42} {:>15}"
    print("-" * 80)
    print(line.format("Layer (type)", "Output Shape", "Param #"))
    print("=" * 80)
    for row in rows:
        print(line.format(*row))
    print("=" * 80)
    print("Parameters in forward computation graph, duplicate included")
    print(f"   Total params: {total}")
    print(f"   Trainable params: {trainable}")
    print(f"   Non-trainable params: {total - trainable}")
    print(f"Shared params in forward computation graph: {shared}")
    print(f"Unique parameters in model: {total - shared}")
    print("-" * 80)
