"""Recurrent layers and cells."""

from __future__ import annotations

from mxjax.errors import explain_names as _explain_names

from . import conv_rnn_cell, rnn_cell, rnn_layer
from .conv_rnn_cell import (
    Conv1DGRUCell,
    Conv1DLSTMCell,
    Conv1DRNNCell,
    Conv2DGRUCell,
    Conv2DLSTMCell,
    Conv2DRNNCell,
    Conv3DGRUCell,
    Conv3DLSTMCell,
    Conv3DRNNCell,
)
from .rnn_cell import (
    BidirectionalCell,
    DropoutCell,
    GRUCell,
    HybridRecurrentCell,
    HybridSequentialRNNCell,
    LSTMCell,
    LSTMPCell,
    ModifierCell,
    RecurrentCell,
    ResidualCell,
    RNNCell,
    SequentialRNNCell,
    VariationalDropoutCell,
    ZoneoutCell,
)
from .rnn_layer import GRU, LSTM, RNN

__all__ = [
    "GRU", "LSTM", "RNN", "BidirectionalCell", "Conv1DGRUCell", "Conv1DLSTMCell", "Conv1DRNNCell", "Conv2DGRUCell",
    "Conv2DLSTMCell", "Conv2DRNNCell", "Conv3DGRUCell", "Conv3DLSTMCell", "Conv3DRNNCell", "DropoutCell", "GRUCell",
    "HybridRecurrentCell", "HybridSequentialRNNCell", "LSTMCell", "LSTMPCell", "ModifierCell", "RNNCell",
    "RecurrentCell", "ResidualCell", "SequentialRNNCell", "VariationalDropoutCell", "ZoneoutCell", "conv_rnn_cell",
    "rnn_cell", "rnn_layer",
]  # fmt: skip

_explain_names(__name__)
