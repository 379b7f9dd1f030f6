"""Operators on sequences of different lengths."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from .numbers import fitted
from .samples import Given, case, f
from .table import op

_LENGTHS = Given([2.0, 3.0])


def _late(data: Any, lengths: Any, axis: int) -> Any:
    """Which steps lie beyond the lengths; steps run along ``axis`` (0 or 1), samples along the other."""
    if axis not in (0, 1):
        raise ValueError(f"axis must be 0 or 1, got {axis}: the axis of the steps")
    steps = jnp.arange(data.shape[axis], dtype="int32")
    if data.ndim < 2 or lengths.shape != (data.shape[1 - axis],):
        raise ValueError(
            f"sequence_length has a length for each sample: data of shape {list(data.shape)} has its samples along axis "
            f"{1 - axis}, got lengths of shape {list(lengths.shape)}"
        )
    late = steps[:, None] >= lengths.astype("int32")[None]
    return (late if axis == 0 else late.T).reshape(data.shape[:2] + (1,) * (data.ndim - 2))


def _names(name: str) -> dict[str, Any]:
    """The columns that the three rows share."""
    display = f"Sequence{name.title()}"
    return {"npx": f"sequence_{name}", "nd": display, "display": display, "shapes": _lengths}


def _lengths(
    shape: tuple[int, ...], *, use_sequence_length: bool, axis: int, **attrs: Any
) -> dict[str, tuple[int, ...]]:
    return {"sequence_length": (shape[1 - axis],)} if use_sequence_length else {}


@op(
    **_names("mask"),
    samples=[case(f(4, 2, 3)), case(f(4, 2, 3), _LENGTHS, use_sequence_length=True), case(f(2, 4), _LENGTHS, use_sequence_length=True, axis=1, value=-1.0)],
    numbers=("value",), typed=(0,),  onnx="sequence_mask"
)  # fmt: skip
def sequence_mask(
    data: Any,
    sequence_length: Any = None,
    *,
    use_sequence_length: bool = False,
    value: float = 0.0,
    axis: int = 0,
) -> Any:
    """The steps beyond each sequence's length become ``value``: data (steps, samples, ...)."""
    if not use_sequence_length or sequence_length is None:
        return data
    return jnp.where(_late(data, sequence_length, axis), fitted(value, data.dtype), data)


@op(
    **_names("last"),
    samples=[case(f(4, 2, 3)), case(f(4, 2, 3), _LENGTHS, use_sequence_length=True)],
    typed=(0,),
    onnx="sequence_last",
)
def sequence_last(
    data: Any, sequence_length: Any = None, *, use_sequence_length: bool = False, axis: int = 0
) -> Any:
    """The last step of each sequence."""
    if not use_sequence_length or sequence_length is None:
        return jnp.take(data, data.shape[axis] - 1, axis)
    at = sequence_length.astype("int32") - 1
    at = jnp.where(at < 0, at + data.shape[axis], at)
    samples = jnp.arange(data.shape[1 - axis])
    return data[at, samples] if axis == 0 else data[samples, at]


@op(
    **_names("reverse"),
    samples=[case(f(4, 2, 3)), case(f(4, 2, 3), _LENGTHS, use_sequence_length=True)],
    typed=(0,),
    onnx="sequence_reverse",
)
def sequence_reverse(
    data: Any, sequence_length: Any = None, *, use_sequence_length: bool = False, axis: int = 0
) -> Any:
    """Each sequence backwards; the steps beyond its length stay."""
    if not use_sequence_length or sequence_length is None:
        return jnp.flip(data, axis)
    steps = jnp.arange(data.shape[0], dtype="int32")[:, None]
    lengths = sequence_length.astype("int32")[None]
    at = jnp.where(steps < lengths, lengths - 1 - steps, steps)
    return jnp.take_along_axis(data, at.reshape(at.shape + (1,) * (data.ndim - 2)), 0)
