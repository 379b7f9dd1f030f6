"""What every store offers, and the register of stores."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from mxjax import errors
from mxjax.display.reprs import Shown

# MXNet's names of stores in one process; where its stores summed (on the CPU, on the devices) made the difference.
TYPES = (
    "local",
    "device",
    "nccl",
    "local_update_cpu",
    "local_allreduce_cpu",
    "local_allreduce_device",
)
# Where the stores are; each is imported when it is asked for.
_SYNC = "dist", "DistKVStore"
STORES = {
    **dict.fromkeys(TYPES, ("store", "KVStore")),
    "dist": _SYNC,
    "dist_sync": _SYNC,
    "dist_device_sync": _SYNC,
    "dist_sync_device": _SYNC,
    "p3": _SYNC,
    "dist_async": ("dist_async", "AsyncKVStore"),
    "horovod": ("adapters", "Horovod"),
    "byteps": ("adapters", "BytePS"),
    "teststore": ("adapters", "TestStore"),
}


def between_processes(name: str) -> bool:
    """Whether a store of this name or type is one of several processes, which a process with one device needs, too.

    >>> [between_processes(n) for n in ("device", "Dist_Sync", "p3", "horovod")]
    [False, True, True, True]
    """
    return "dist" in name.lower() or name.lower() in ("p3", "horovod", "byteps")


class KVStoreBase(Shown):
    """The interface of parameter stores; subclass it and `register` the class to add one.

    >>> import mxjax as mx
    >>> @mx.kvstore.KVStoreBase.register
    ... class Mine(mx.kvstore.KVStoreBase):
    ...     pass
    >>> type(mx.kvstore.create("mine")).__name__
    'Mine'
    """

    OPTIMIZER = "optimizer"
    kv_registry: ClassVar[dict[str, type]] = {}

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Initialize a key with a value and store it in `out`."""
        raise self._missing("broadcast")

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Sum values over devices (and workers) into `out`, or into the values themselves."""
        raise self._missing("pushpull")

    def set_optimizer(self, optimizer: Any) -> None:
        """Let the store update the weights."""
        raise self._missing("set_optimizer")

    def _shown(self) -> dict[Any, Any]:
        alone = self.num_workers == 1
        return (
            {0: self.type}
            if alone
            else {0: self.type, "rank": self.rank, "num_workers": self.num_workers}
        )

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Whether the store can do something: ``'optimizer'``, run an optimizer."""
        return False

    def save_optimizer_states(
        self, fname: str | os.PathLike[str], dump_optimizer: bool = False
    ) -> None:
        """Write the optimizer's states to a file."""
        raise self._missing("save_optimizer_states")

    def load_optimizer_states(self, fname: str | os.PathLike[str]) -> None:
        """Read the optimizer's states from a file."""
        raise self._missing("load_optimizer_states")

    # What `gluon.Trainer` asks of a store beyond MXNet's interface; a store need define none of it.

    #: Whether sums wait to become one program with others, until `flush` or until somebody reads one.
    gathers: ClassVar[bool] = False
    #: Whether all processes of the job have to call `save_optimizer_states`.
    saves_together: ClassVar[bool] = False

    def get_optimizer(self) -> Any:
        """The optimizer that updates the weights here, which loading states may have replaced; or None."""
        return None

    def pushpull_all(self, keys: Sequence[Any], values: Sequence[Any], outs: Sequence[Any]) -> None:
        """`pushpull` of many keys, which are the numbers of parameters: the first are the most urgent."""
        for key, value, out in zip(keys, values, outs, strict=True):
            if out is value:
                self.pushpull(key, value, priority=-key)
            else:
                self.pushpull(key, value, out=out, priority=-key)

    def flush(self) -> None:
        """Begin what waits (`gathers`)."""

    def expect(self, keys: Iterable[Any]) -> None:
        """Say which keys will be given first values later, for now without a known shape; others will not."""

    def place(self, where: str) -> None:
        """Let the optimizer's states, present and future, live in ``device`` or ``pinned_host`` memory."""
        raise self._missing("place")

    def set_gradient_compression(self, compression_params: dict[str, Any]) -> None:
        """Compress what each device sends."""
        raise self._missing("set_gradient_compression")

    @property
    def type(self) -> str:
        """The name of this kind of store."""
        return type(self).__name__.lower()

    @property
    def rank(self) -> int:
        """The number of this worker."""
        return 0

    @property
    def num_workers(self) -> int:
        """How many workers there are."""
        return 1

    def _missing(self, what: str) -> errors.MXNetError:
        return errors.MXNetNotImplementedError(
            f"the kvstore {type(self).__name__} does not define {what}()"
        )

    @staticmethod
    def register(klass: Any) -> Any:
        """Make a class known to `create` under its name in lower case; gives the class.

        Raises:
          TypeError: it is no class.
        """
        if not isinstance(klass, type):
            raise errors.MXNetTypeError(f"KVStoreBase.register takes a class, got {klass!r}")
        name = klass.__name__.lower()
        if name in KVStoreBase.kv_registry:
            old = KVStoreBase.kv_registry[name]
            warnings.warn(
                f"New kvstore {klass.__module__}.{klass.__name__} is overriding existing kvstore "
                f"{old.__module__}.{old.__name__}",
                stacklevel=2,
            )
        KVStoreBase.kv_registry[name] = klass
        return klass


class _Brought(KVStoreBase):
    """An object with MXNet's methods of a store, whatever its class, as a `KVStoreBase`."""

    def __init__(self, store: Any):
        self._store = store
        for name in ("broadcast", "pushpull", "set_optimizer", "is_capable", "save_optimizer_states",
                     "load_optimizer_states", "set_gradient_compression"):  # fmt: skip
            if hasattr(store, name):
                setattr(self, name, getattr(store, name))

    def _missing(self, what: str) -> errors.MXNetError:
        return KVStoreBase._missing(self._store, what)

    @property
    def type(self) -> str:
        return str(getattr(self._store, "type", type(self._store).__name__.lower()))

    @property
    def rank(self) -> int:
        return int(self._store.rank)

    @property
    def num_workers(self) -> int:
        return int(self._store.num_workers)


def as_store(store: Any) -> KVStoreBase:
    """A store as `gluon.Trainer` needs it: itself, or what an object with MXNet's methods is made to."""
    return store if isinstance(store, KVStoreBase) else _Brought(store)


def create(name: str = "local") -> Any:
    """A new store.

    Args:
      name: ``'local'``, ``'device'`` or ``'nccl'`` for the devices of this process; ``'dist_sync'``,
        ``'dist_async'``, ``'p3'``, ... for several processes; ``'horovod'`` or ``'byteps'`` where those
        are installed; or the name of a registered class.

    Returns:
      an instance of the class that has this name.

    Raises:
      TypeError: the name is not a string.
      ValueError: there is no such store.
      ModuleNotFoundError: it needs a package that is not installed.

    >>> import mxjax as mx
    >>> kv = mx.kvstore.create("device")
    >>> kv.init(3, mx.np.ones(2))
    >>> kv.push(3, [mx.np.ones(2), mx.np.ones(2)])
    >>> out = mx.np.zeros(2)
    >>> kv.pull(3, out=out); out.tolist()
    [2.0, 2.0]
    """
    if not isinstance(name, str):
        raise errors.MXNetTypeError(f"name must be a string, got {name!r}; for example 'device'")
    wanted = name.lower()
    if wanted not in TYPES and wanted in KVStoreBase.kv_registry:
        return KVStoreBase.kv_registry[wanted]()
    if wanted in STORES:
        where, klass = STORES[wanted]
        made = getattr(importlib.import_module(f".{where}", __package__), klass)
        return made() if where == "adapters" else made(name)
    known = [*STORES, *KVStoreBase.kv_registry]
    raise errors.MXNetValueError(
        f"unknown kvstore {name!r}{errors.did_you_mean(name, known)}; available: {', '.join(known)}"
    )
