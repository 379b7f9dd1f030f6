"""Recurrent cells as symbols, sentences in buckets, and their checkpoints, as in MXNet 1.x (`mx.rnn`)."""

from __future__ import annotations

from .. import initializer as init
from .. import nd as ndarray
from .. import symbol
from ..errors import explain_names as _explain_names
from . import io, rnn, rnn_cell
from .conv_cell import BaseConvRNNCell, ConvGRUCell, ConvLSTMCell, ConvRNNCell
from .fused_cell import FusedRNNCell
from .io import BucketSentenceIter, encode_sentences
from .modifiers import ModifierCell, ResidualCell, ZoneoutCell
from .rnn import do_rnn_checkpoint, load_rnn_checkpoint, rnn_unroll, save_rnn_checkpoint
from .rnn_cell import (
    BaseRNNCell,
    BidirectionalCell,
    DropoutCell,
    GRUCell,
    LSTMCell,
    RNNCell,
    RNNParams,
    SequentialRNNCell,
)

__all__ = [
    "BaseConvRNNCell",
    "BaseRNNCell",
    "BidirectionalCell",
    "BucketSentenceIter",
    "ConvGRUCell",
    "ConvLSTMCell",
    "ConvRNNCell",
    "DropoutCell",
    "FusedRNNCell",
    "GRUCell",
    "LSTMCell",
    "ModifierCell",
    "RNNCell",
    "RNNParams",
    "ResidualCell",
    "SequentialRNNCell",
    "ZoneoutCell",
    "do_rnn_checkpoint",
    "encode_sentences",
    "init",
    "io",
    "load_rnn_checkpoint",
    "ndarray",
    "rnn",
    "rnn_cell",
    "rnn_unroll",
    "save_rnn_checkpoint",
    "symbol",
]

_explain_names(__name__)
