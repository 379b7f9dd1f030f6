"""What layers that slide a window over images have in common: lengths for each axis, layouts, how they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mxjax import errors

from ..parameter import Parameter

Size = int | Sequence[int]


def _tuple(value: Size, n: int, what: str) -> tuple[int, ...]:
    made = (value,) * n if isinstance(value, int) else tuple(value)
    if len(made) != n:
        raise errors.MXNetAssertionError(
            f"{what} must be a number or a list of {n} ints, got {value}"
        )
    return made


def check_layout(layout: str, n: int) -> None:
    """Raise MXNetAssertionError unless this is a layout of images with ``n`` spatial axes."""
    space = "DHW"[3 - n :]
    if layout not in (f"NC{space}", f"N{space}C"):
        raise errors.MXNetAssertionError(
            f"layout must be 'NC{space}' or 'N{space}C', got {layout!r}"
        )


def described(layer: Any, arrow: str, bias: Parameter | None) -> str:
    """How a layer that convolves is shown: its channels, and what is not as usual."""
    k, act = layer._kwargs, layer.act
    parts = [arrow, f"kernel_size={k['kernel']}", f"stride={k['stride']}"]
    if any(k["pad"]):
        parts.append(f"padding={k['pad']}")
    if any(n != 1 for n in k["dilate"]):
        parts.append(f"dilation={k['dilate']}")
    if layer._groups != 1:
        parts.append(f"groups={layer._groups}")
    if bias is None:
        parts.append("bias=False")
    if act is not None:
        parts.append(repr(act))
    return f"{type(layer).__name__}({', '.join(parts)})"
