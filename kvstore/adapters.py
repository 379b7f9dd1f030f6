"""Stores of other packages: Horovod and BytePS, where they are installed; and MXNet's store for tests."""

from __future__ import annotations

import importlib
import os
from typing import Any

from mxjax import errors
from mxjax.array.ndarray import NDArray

from .base import KVStoreBase


def _library(name: str, module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and not module.startswith(error.name):
            raise
        raise ModuleNotFoundError(
            f"No module named {module.partition('.')[0]!r}: the kvstore {name!r} needs it. The stores 'dist_sync' and "
            "'device' sum over processes and devices without another package",
            name=error.name,
        ) from None


def _one(value: Any) -> NDArray:
    """The only array of a list; such a store works with one device per process."""
    arrays = _list(value)
    if len(arrays) != 1:
        raise errors.MXNetAssertionError(
            f"this kvstore takes one array per process, got {len(arrays)}: run a process per device"
        )
    return arrays[0]


def _list(value: Any) -> list[NDArray]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


class _Process(KVStoreBase):
    """What both have in common: sums between processes, and no optimizer.

    A library's own MXNet half knows only MXNet's arrays, so values go through NumPy and the library's
    framework-free half.
    """

    def __init__(self) -> None:
        self._library = self._import()
        self._library.init()

    def _import(self) -> Any:
        raise NotImplementedError

    def _sum(self, array: Any, name: str) -> Any:
        raise NotImplementedError

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        given = _one(value)
        found = given.asnumpy() * (1 if self.rank == 0 else 0)
        total = self._sum(found, f"broadcast.{key}")
        for o in _list(out):
            o[:] = total

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        values = _list(value)
        local = values[0].asnumpy()
        for other in values[1:]:
            local = local + other.asnumpy()
        total = self._sum(local, str(key))
        for o in values if out is None else _list(out):
            o[:] = total

    @property
    def rank(self) -> int:
        return int(self._library.rank())

    @property
    def local_rank(self) -> int:
        """The number of this worker on its machine."""
        return int(self._library.local_rank())

    @property
    def num_workers(self) -> int:
        return int(self._library.size())


class Horovod(_Process):
    """Sums by Horovod's all-reduce (its NumPy-friendly TensorFlow or PyTorch half)."""

    def _import(self) -> Any:
        return _library("horovod", "horovod.torch")

    def _sum(self, array: Any, name: str) -> Any:
        given = importlib.import_module("torch").from_numpy(array)
        return self._library.allreduce(given, op=self._library.Sum, name=name).numpy()


class BytePS(_Process):
    """Sums by BytePS's servers."""

    def _import(self) -> Any:
        return _library("byteps", "byteps.torch")

    def _sum(self, array: Any, name: str) -> Any:
        given = importlib.import_module("torch").from_numpy(array)
        return self._library.push_pull(given, average=False, name=name).numpy()


class TestStore(KVStoreBase):
    """The smallest store: it adds and keeps nothing; MXNet's tests use it.

    >>> import mxjax as mx
    >>> kv = mx.kvstore.create("teststore")
    >>> a = mx.np.ones(2)
    >>> kv.pushpull("w", [a, a * 2]); a.tolist()
    [3.0, 3.0]
    """

    __test__ = False  # pytest would take it for a class of tests

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        for o in _list(out):
            o[:] = value.as_in_context(o.device)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        values = _list(value)
        total = values[0]
        for v in values[1:]:
            total = total + v.as_in_context(total.device)
        targets = values if out is None else _list(out)
        for t in targets:
            t[:] = total.as_in_context(t.device)

    @staticmethod
    def is_capable(capability: str) -> bool:
        if capability.lower() == KVStoreBase.OPTIMIZER:
            return False
        raise errors.MXNetValueError(f"Unknown capability: {capability}")

    def set_optimizer(self, optimizer: Any) -> None:
        raise self._missing("set_optimizer")

    def save_optimizer_states(
        self, fname: str | os.PathLike[str], dump_optimizer: bool = False
    ) -> None:
        raise self._missing("save_optimizer_states")
