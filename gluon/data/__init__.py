"""Datasets, samplers, batches: `mxjax.gluon.data`.

Importing this package imports no JAX by itself: worker processes rely on it.
"""

from __future__ import annotations

import importlib
from typing import Any

from mxjax.errors import no_name

from . import batchify
from .dataloader import DataLoader
from .dataset import ArrayDataset, Dataset, RecordFileDataset, SimpleDataset
from .sampler import (
    BatchSampler,
    FilterSampler,
    IntervalSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
)

__all__ = [
    "ArrayDataset",
    "BatchSampler",
    "DataLoader",
    "Dataset",
    "FilterSampler",
    "IntervalSampler",
    "RandomSampler",
    "RecordFileDataset",
    "Sampler",
    "SequentialSampler",
    "SimpleDataset",
    "batchify",
    "vision",
]


def __getattr__(name: str) -> Any:
    if name == "vision":
        return importlib.import_module(".vision", __name__)
    raise no_name(__name__, name)
