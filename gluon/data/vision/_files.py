"""CIFAR's files; sizes are checked before memory is taken."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from mxjax.errors import FormatError


def read_cifar(path: str, label_bytes: int, label_at: int) -> tuple[np.ndarray, np.ndarray]:
    """Images (N, 32, 32, 3) in uint8 and labels in int32 of a binary file of CIFAR.

    Raises:
      FormatError: the file is no whole number of records.
    """
    record = label_bytes + 3 * 32 * 32
    size = os.path.getsize(path)
    if size == 0 or size % record:
        raise FormatError(
            f"{path} is damaged: {size} bytes are no whole number of records of {record} bytes"
        )
    rows: Any = np.fromfile(path, np.uint8).reshape(-1, record)
    images = rows[:, label_bytes:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), rows[:, label_at].astype(np.int32)
