"""Recurrent cells."""

from __future__ import annotations

from typing import Any

from mxjax import np, npx

from ._base import HybridRecurrentCell, RecurrentCell
from ._gated import GRUCell, LSTMCell, LSTMPCell, RNNCell
from ._modifiers import (
    BidirectionalCell,
    DropoutCell,
    HybridSequentialRNNCell,
    ModifierCell,
    ResidualCell,
    SequentialRNNCell,
    VariationalDropoutCell,
    ZoneoutCell,
)
from ._sequences import checked, masked, merged

__all__ = [
    "BidirectionalCell", "DropoutCell", "GRUCell", "HybridRecurrentCell", "HybridSequentialRNNCell", "LSTMCell",
    "LSTMPCell", "ModifierCell", "RNNCell", "RecurrentCell", "ResidualCell", "SequentialRNNCell",
    "VariationalDropoutCell", "ZoneoutCell", "dynamic_unroll",
]  # fmt: skip


def dynamic_unroll(
    cell: Any,
    inputs: Any,
    begin_state: Any,
    drop_inputs: float = 0,
    drop_outputs: float = 0,
    layout: str = "TNC",
    valid_length: Any = None,
) -> tuple[Any, list[Any]]:
    """Run a cell over a sequence of any length: (outputs as one array, states after the last step).

    Args:
      cell: the cell, which is stepped.
      inputs: an array with a time axis, as ``layout`` says.
      begin_state: the states to begin with.
      drop_inputs, drop_outputs: dropout with one mask for all steps.
      layout: "TNC" or "NTC".
      valid_length: (N,), the length of each row: outputs behind it are zero, states are those at it.

    >>> import mxjax as mx
    >>> cell = mx.gluon.rnn.RNNCell(4, input_size=3)
    >>> cell.initialize()
    >>> out, states = mx.gluon.rnn.rnn_cell.dynamic_unroll(cell, mx.np.ones((5, 2, 3)), cell.begin_state(2))
    >>> out.shape
    (5, 2, 4)
    """
    axis, _ = checked(None, inputs, layout)
    whole = merged(inputs, axis)
    states = list(begin_state) if isinstance(begin_state, (list, tuple)) else [begin_state]
    if drop_inputs:
        whole = npx.dropout(whole, p=drop_inputs, axes=(axis,))
    outputs, states = cell._unrolled(whole, states, axis, whole.shape[axis], valid_length)
    outputs = outputs if not isinstance(outputs, list) else np.stack(outputs, axis=axis)
    if drop_outputs:
        outputs = npx.dropout(outputs, p=drop_outputs, axes=(axis,))
    if valid_length is not None:
        outputs = masked(outputs, valid_length, axis)
    return outputs, states
