"""`mx.io`: iterators over batches, as Module and older training loops take them."""

from __future__ import annotations

from ..errors import explain_names as _explain_names
from . import io, utils
from .io import DataBatch, DataDesc, DataIter, NDArrayIter, PrefetchingIter, ResizeIter

__all__ = ["DataBatch", "DataDesc", "DataIter", "NDArrayIter", "PrefetchingIter", "ResizeIter", "io", "utils"]

_explain_names(__name__)
