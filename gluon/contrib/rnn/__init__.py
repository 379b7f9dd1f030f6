"""Recurrent cells where 1.x has them."""

from __future__ import annotations

from mxjax.errors import explain_names as _explain_names

from ...rnn import (
    Conv1DGRUCell,
    Conv1DLSTMCell,
    Conv1DRNNCell,
    Conv2DGRUCell,
    Conv2DLSTMCell,
    Conv2DRNNCell,
    Conv3DGRUCell,
    Conv3DLSTMCell,
    Conv3DRNNCell,
    LSTMPCell,
    VariationalDropoutCell,
    conv_rnn_cell,
    rnn_cell,
)

__all__ = [
    "Conv1DGRUCell", "Conv1DLSTMCell", "Conv1DRNNCell", "Conv2DGRUCell", "Conv2DLSTMCell", "Conv2DRNNCell",
    "Conv3DGRUCell", "Conv3DLSTMCell", "Conv3DRNNCell", "LSTMPCell", "VariationalDropoutCell", "conv_rnn_cell",
    "rnn_cell",
]  # fmt: skip

_explain_names(__name__)
