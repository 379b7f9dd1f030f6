"""Sequences of a cell's inputs and outputs: lists of steps, or one array with a time axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mxjax import errors, np, npx
from mxjax.array.ndarray import NDArray

Layout = str


def steps_of(sequence: Any, axis: int) -> list[Any]:
    """An array cut into its steps, or the steps as they are."""
    if not isinstance(sequence, NDArray):
        return list(sequence)
    count = sequence.shape[axis]
    cut = npx.slice_channel(sequence, axis=axis, num_outputs=count, squeeze_axis=True)
    return list(cut) if count > 1 else [cut]


def merged(sequence: Any, axis: int) -> Any:
    """Steps put together along a time axis, or the array as it is."""
    return sequence if isinstance(sequence, NDArray) else np.stack(list(sequence), axis=axis)


def formatted(sequence: Any, axis: int, merge: bool | None) -> Any:
    """A sequence as one array (``merge`` True), as a list (False), or as it is (None)."""
    return (
        sequence if merge is None else merged(sequence, axis) if merge else steps_of(sequence, axis)
    )


def checked(length: int | None, inputs: Any, layout: Layout) -> tuple[int, int]:
    """The time axis and the batch size of what is handed to ``unroll``.

    Raises:
      AssertionError: inputs that are no arrays, or of another length.
    """
    axis, batch_axis = layout.find("T"), layout.find("N")
    if inputs is None:
        raise errors.MXNetAssertionError(
            "unroll needs its inputs: an array, or a list with an array for each step"
        )
    if isinstance(inputs, NDArray):
        found, batch = inputs.shape[axis], inputs.shape[batch_axis]
    else:
        if not isinstance(inputs, (list, tuple)) or not all(isinstance(x, NDArray) for x in inputs):
            raise errors.MXNetAssertionError(
                "unroll takes an array, or a list with an array for each step, got "
                f"{type(inputs).__name__}"
            )
        found, batch = len(inputs), inputs[0].shape[0] if inputs else 0
    if length is not None and length != found:
        raise errors.MXNetAssertionError(
            f"unroll was asked for {length} steps and given inputs of {found} (layout {layout})"
        )
    return axis, batch


def masked(sequence: Any, valid_length: Any, axis: int) -> Any:
    """A sequence as one array, with zeros behind each row's length."""
    return npx.sequence_mask(
        merged(sequence, axis), sequence_length=valid_length, use_sequence_length=True, axis=axis
    )


def turned(sequence: Any, valid_length: Any, axis: int) -> Any:
    """A sequence as one array, each row backwards up to its length; what is behind it stays."""
    whole = merged(sequence, axis)
    if valid_length is None:
        return np.flip(whole, axis=axis)
    if axis:
        whole = np.swapaxes(whole, 0, axis)
    whole = npx.sequence_reverse(whole, sequence_length=valid_length, use_sequence_length=True)
    return np.swapaxes(whole, 0, axis) if axis else whole


def kept(valid: Any, step: Any, new: Sequence[Any], old: Sequence[Any]) -> list[Any]:
    """The states after a step: those of rows that have ended stay."""
    found = []
    for n, o in zip(new, old, strict=True):
        alive = np.reshape(step < valid, (-1,) + (1,) * (n.ndim - 1))
        found.append(np.where(alive, n, o))
    return found
