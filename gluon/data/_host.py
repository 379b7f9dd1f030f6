"""Arrays on the host: what datasets, batches and worker processes hold where JAX is not needed.

Nothing here imports JAX when it is imported: worker processes load this module alone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np


class HostArray(np.ndarray):
    """A NumPy array that stands for an mxjax array until somebody looks at it.

    An mxjax array inside a dataset travels to a worker process as a `HostArray`, and a batch
    travels back as one; only code of this package sees it in between.
    """

    __slots__ = ()


def host_view(data: Any) -> HostArray:
    """`data`, an mxjax array or anything NumPy takes, as a `HostArray`."""
    if is_array(data):
        data = data.asnumpy()
    return np.asarray(data).view(HostArray)


def is_array(data: object) -> bool:
    """Whether `data` is an mxjax array; asked of the type, so that JAX need not be imported."""
    return hasattr(type(data), "asnumpy")


def to_array(data: np.ndarray) -> Any:
    """An array with the values and the dtype of `data`, on the current device; of mx.np or mx.nd by the mode."""
    from mxjax.array import packing
    from mxjax.modes import array_class, is_np_array

    packed = packing.offered(np.asarray(data))
    if packed is not None:
        return array_class()._wrap(packed)
    return to_np_array(data) if is_np_array() else to_legacy_array(data)


def to_np_array(data: np.ndarray) -> Any:
    """`to_array` for `mx.np`."""
    from mxjax import np as mxnp

    return mxnp.array(np.asarray(data), dtype=data.dtype)


def packed(below: int | None) -> AbstractContextManager[None]:
    """Around the making of a batch: its arrays of fewer bytes go to the device as one copy."""
    if not below:
        return nullcontext()
    from mxjax.array import packing

    return packing.packed(below)


def is_legacy(data: object) -> bool:
    """Whether `data` is an array of `mx.nd` rather than `mx.np`."""
    from mxjax import np as mxnp

    return is_array(data) and not isinstance(data, mxnp.ndarray)


def to_legacy_array(data: np.ndarray) -> Any:
    """`to_array` for `mx.nd`."""
    from mxjax import nd

    return nd.array(np.asarray(data), dtype=data.dtype)


def map_tree(fn: Callable[[Any], Any], tree: Any) -> Any:
    """`fn` applied to the leaves of nested lists, tuples (named ones too) and dicts."""
    if isinstance(tree, tuple):
        items = [map_tree(fn, item) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
    if isinstance(tree, list):
        return [map_tree(fn, item) for item in tree]
    if isinstance(tree, dict):
        return {key: map_tree(fn, item) for key, item in tree.items()}
    return fn(tree)


def tree_to_host(tree: Any) -> Any:
    """`tree` with a `HostArray` in place of every mxjax array."""
    return map_tree(lambda leaf: host_view(leaf) if is_array(leaf) else leaf, tree)


def tree_to_arrays(tree: Any) -> Any:
    """`tree` with an mxjax array in place of every `HostArray`."""
    return map_tree(lambda leaf: to_array(leaf) if isinstance(leaf, HostArray) else leaf, tree)
