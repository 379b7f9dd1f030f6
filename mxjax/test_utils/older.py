"""Private helpers of MXNet's `test_utils` that its users' tests import."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..runtime import Features
from . import sparse

__all__: list[str] = []

_features = Features()


def _sorted_items(d: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    """The entries of a dictionary in the order of their keys."""
    return sorted(d.items(), key=lambda entry: entry[0])


def _sorted_dict(d: Mapping[Any, Any]) -> OrderedDict[Any, Any]:
    """A dictionary in the order of its keys."""
    return OrderedDict(_sorted_items(d))


def _find_max_violation(a: Any, b: Any, rtol: float, atol: float) -> tuple[Any, Any]:
    """Where two arrays differ most, over what is allowed, and by how many times that."""
    difference = np.where(np.equal(a, b), 0, np.abs(a - b))
    violation = difference / (atol + rtol * np.abs(b) + 1e-20)
    return np.unravel_index(np.argmax(violation), violation.shape), np.max(violation)


def _get_uniform_dataset_csr(
    num_rows: int, num_cols: int, density: float = 0.1, dtype: Any = None, data_init: Any = None,
    shuffle_csr_indices: bool = False,
) -> Any:  # fmt: skip
    """A csr array whose values are spread evenly."""
    return sparse.rand_sparse_ndarray(
        (num_rows, num_cols), "csr", density=density, dtype=dtype, data_init=data_init,
        shuffle_csr_indices=shuffle_csr_indices, distribution="uniform",
    )[0]  # fmt: skip


def _get_powerlaw_dataset_csr(
    num_rows: int, num_cols: int, density: float = 0.1, dtype: Any = None
) -> Any:
    """A csr array whose rows have exponentially more values, one after the other."""
    return sparse.rand_sparse_ndarray(
        (num_rows, num_cols), "csr", density=density, dtype=dtype, distribution="powerlaw"
    )[0]
