"""Image datasets, and in `transforms` what is done to images."""

from __future__ import annotations

import importlib
from typing import Any

from mxjax.errors import no_name

from .datasets import (
    CIFAR10,
    CIFAR100,
    MNIST,
    FashionMNIST,
    ImageFolderDataset,
    ImageListDataset,
    ImageRecordDataset,
)

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "FashionMNIST",
    "ImageFolderDataset",
    "ImageListDataset",
    "ImageRecordDataset",
    "MNIST",
    "transforms",
]


def __getattr__(name: str) -> Any:
    # Transforms are blocks, which need JAX; worker processes may do without.
    if name == "transforms":
        return importlib.import_module(".transforms", __name__)
    raise no_name(__name__, name)
