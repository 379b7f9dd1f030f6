"""Layers under the names of 1.x."""

from __future__ import annotations

from typing import Any

from mxjax import npx
from mxjax.errors import explain_names as _explain_names

from ...block import Block
from ...nn import (
    Concatenate,
    HybridConcatenate,
    Identity,
    PixelShuffle1D,
    PixelShuffle2D,
    PixelShuffle3D,
    SyncBatchNorm,
)
from ...parameter import Parameter


class SparseEmbedding(Block):
    """Looks rows of a table up that is stored sparse, as its gradient is: only the rows of a batch are fetched.

    Inputs: whole numbers below ``input_dim``, any shape. Outputs: that shape and ``output_dim``. The table is kept in
    the kvstore of a `Trainer`, which has to be there before the first call.

    Args:
      input_dim, output_dim: how many rows, and how long they are.
      dtype: of the table.
      weight_initializer: of the table; a sparse array begins with zeros where none is given.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        dtype: Any = "float32",
        weight_initializer: Any = None,
    ):
        super().__init__()
        self._options: dict[str, Any] = {
            "input_dim": input_dim,
            "output_dim": output_dim,
            "dtype": dtype,
        }
        self.weight = Parameter(
            "weight", shape=(input_dim, output_dim), init=weight_initializer, dtype=dtype, stype="row_sparse",
            grad_stype="row_sparse",
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return npx.embedding(x, self.weight.row_sparse_data(x), sparse_grad=True, **self._options)

    def __repr__(self) -> str:
        o = self._options
        return f"{type(self).__name__}({o['input_dim']} -> {o['output_dim']}, {o['dtype']})"


class Concurrent(Concatenate):
    """`nn.Concatenate` under its name of MXNet 1."""


class HybridConcurrent(HybridConcatenate):
    """`nn.HybridConcatenate` under its name of MXNet 1."""


__all__ = [
    "Concurrent", "HybridConcurrent", "Identity", "PixelShuffle1D", "PixelShuffle2D", "PixelShuffle3D",
    "SparseEmbedding", "SyncBatchNorm",
]  # fmt: skip

_explain_names(__name__)
