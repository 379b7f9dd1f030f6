"""``import horovod.mxnet as hvd``, for programs that train in several processes so: on the collectives of `dist_sync`.

Horovod's own half for MXNet is built against MXNet's library, so where `import mxnet` is mxjax, ``horovod.mxnet`` is
this module. Start the processes with ``python -m mxjax.launch -n 4 train.py`` where a script says
``horovodrun -np 4 python train.py``; without a launcher a program is a job of one process, as with Horovod. All ranks
make the same calls in the same order; they are compared before anything is sent (`PROCESSES.md`). Every call waits for
its result on CPUs, and priorities have no effect.
"""

from __future__ import annotations

import itertools
import json
import socket
import types
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mxjax import errors, settings
from mxjax.array.classes import ndarray
from mxjax.array.creation import array, nd_array
from mxjax.array.ndarray import NDArray
from mxjax.gluon.parameter import DeferredInitializationError, Parameter
from mxjax.gluon.trainer import Trainer
from mxjax.optimizer import Optimizer

from ._processes import Operation, Processes, on_host, processes

__all__ = [
    "Adasum", "Average", "Compression", "DistributedOptimizer", "DistributedTrainer", "Max", "Min", "Product", "Sum",
    "allgather", "allgather_object", "allreduce", "allreduce_", "alltoall", "barrier", "broadcast", "broadcast_",
    "broadcast_object", "broadcast_parameters", "ccl_built", "cross_rank", "cross_size", "cuda_built", "ddl_built",
    "gloo_built", "gloo_enabled", "grouped_allreduce", "grouped_allreduce_", "init", "is_homogeneous",
    "is_initialized", "local_rank", "local_size", "mpi_built", "mpi_enabled", "mpi_threads_supported", "nccl_built",
    "rank", "reducescatter", "rocm_built", "shutdown", "size",
]  # fmt: skip

#: Launchers of Horovod's programs, by what they tell each process: how many there are.
_LAUNCHED = ("HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")

Average, Sum, Adasum, Min, Max, Product = "Average", "Sum", "Adasum", "Min", "Max", "Product"
_REDUCE = {Min: np.minimum, Max: np.maximum, Product: np.multiply}


class _Job(NamedTuple):
    """What `init` found: the processes of the job (None: this one alone), and who is on which machine."""

    processes: Processes | None
    number: int
    hosts: Sequence[str]
    rank: int

    @property
    def neighbours(self) -> list[int]:
        """The ranks on this machine."""
        return [r for r, host in enumerate(self.hosts) if host == self.hosts[self.rank]]


_job: _Job | None = None
_calls = itertools.count()


def init(*args: Any, **kwargs: Any) -> None:
    """Join the job; Horovod's communicators and process sets are not taken.

    Raises:
      MXNetError: another launcher started several processes, which do not know of each other here.
      NotImplementedError: a communicator or process sets are given.
    """
    global _job
    if any(args) or any(kwargs.values()):
        raise errors.MXNetNotImplementedError(
            "hvd.init() takes no communicator and no process sets here"
        )
    if _job is not None:
        return
    if settings.env("DMLC_PS_ROOT_URI"):
        found = processes()
        hosts = found.tell(socket.gethostname())
        _job = _Job(found, found.stores, hosts, found.rank)
        found.stores += 1
        return
    for name in _LAUNCHED:
        if int(settings.env(name) or 1) > 1:
            raise errors.MXNetError(
                f"{name}={settings.env(name)}: these processes do not know of each other here. Start them with "
                f"`python -m mxjax.launch -n {settings.env(name)} script.py` (--site mpi under mpirun)"
            )
    _job = _Job(None, 0, [socket.gethostname()], 0)


def shutdown() -> None:
    """Leave the job; `init` enters it again."""
    global _job
    _job = None


def is_initialized() -> bool:
    """Whether `init` was called."""
    return _job is not None


def _the_job() -> _Job:
    if _job is None:
        raise errors.MXNetValueError("Horovod has not been initialized; use hvd.init().")
    return _job


def rank() -> int:
    """The number of this process, from 0."""
    return _the_job().rank


def size() -> int:
    """How many processes the job has."""
    return len(_the_job().hosts)


def local_rank() -> int:
    """The number of this process among those of its machine."""
    return _the_job().neighbours.index(rank())


def local_size() -> int:
    """How many processes this machine has."""
    return len(_the_job().neighbours)


def cross_rank() -> int:
    """The number of this machine among those that have a process of this `local_rank`."""
    job, mine = _the_job(), local_rank()
    return _machines(job, mine).index(job.hosts[job.rank])


def cross_size() -> int:
    """How many machines have a process of this `local_rank`."""
    return len(_machines(_the_job(), local_rank()))


def _machines(job: _Job, local: int) -> list[str]:
    hosts = list(job.hosts)
    return [host for host in dict.fromkeys(hosts) if hosts.count(host) > local]


def is_homogeneous() -> bool:
    """Whether each machine has as many processes."""
    hosts = list(_the_job().hosts)
    return len({hosts.count(host) for host in hosts}) == 1


def mpi_threads_supported() -> bool:
    """Whether MPI may be called from several threads: there is no MPI here."""
    return False


def gloo_enabled() -> bool:
    """Whether sums between machines go through gloo, as on CPUs here."""
    return True


def _no(name: str) -> Any:
    def built() -> bool:
        return False

    built.__name__ = built.__qualname__ = name
    built.__doc__ = "Whether this library of Horovod's is used: JAX's own are, so no."
    return built


mpi_enabled, mpi_built, nccl_built, ddl_built, ccl_built, cuda_built, rocm_built = map(
    _no,
    (
        "mpi_enabled",
        "mpi_built",
        "nccl_built",
        "ddl_built",
        "ccl_built",
        "cuda_built",
        "rocm_built",
    ),
)
gloo_built = gloo_enabled


def barrier() -> None:
    """Wait until all ranks have come here."""
    job = _the_job()
    if job.processes is not None:
        job.processes.all([Operation("horovod barrier", job.number, None)])


# ---- arrays


class _Compressor(NamedTuple):
    """How gradients travel: in their own type, or as float16."""

    short: bool

    def compress(self, tensor: Any) -> tuple[Any, Any]:
        """The array as it travels, and its own dtype."""
        if self.short and np.dtype(tensor.dtype).kind == "f":
            return tensor.astype("float16", copy=False), tensor.dtype
        return tensor, tensor.dtype

    def decompress(self, tensor: Any, ctx: Any) -> Any:
        """The array in its own dtype again."""
        return tensor.astype(ctx, copy=False)


class Compression:
    """How gradients travel between processes: as they are (``none``) or as ``fp16``."""

    none = _Compressor(False)
    fp16 = _Compressor(True)


def _numbers(tensor: Any) -> np.ndarray:
    return on_host(tensor._value()) if isinstance(tensor, NDArray) else np.asarray(tensor)


def _name(given: str | None, kind: str) -> str:
    return f"{kind}.{given or f'noname.{next(_calls)}'}"


def _sums(arrays: Sequence[np.ndarray], names: Sequence[str]) -> list[np.ndarray]:
    """The sums over all ranks, in one exchange."""
    job = _the_job()
    if job.processes is None:
        return list(arrays)
    made = [Operation("push", job.number, n, a) for n, a in zip(names, arrays, strict=True)]
    return [np.asarray(found) for found in job.processes.all(made)]


def _of_all(array: np.ndarray, name: str) -> list[np.ndarray]:
    """Every rank's array; the lengths of the first axis may differ."""
    job = _the_job()
    if job.processes is None:
        return [array]
    job.processes.all(
        [Operation("horovod lengths", job.number, name, about=str((array.shape[1:], array.dtype)))]
    )
    lengths = [int(text) for text in job.processes.tell(str(len(array)))]
    ends = np.cumsum([0, *lengths])
    kind = np.dtype(np.uint8) if array.dtype == bool else array.dtype
    whole = np.zeros((ends[-1], *array.shape[1:]), kind)
    whole[ends[job.rank] : ends[job.rank + 1]] = array
    (found,) = _sums([whole], [name])
    found = found.astype(array.dtype, copy=False)
    return [found[a:b] for a, b in itertools.pairwise(ends)]


def _made(like: NDArray, numbers: np.ndarray) -> NDArray:
    """An array of the kind and on the device of another."""
    make = array if isinstance(like, ndarray) else nd_array
    return make(numbers, dtype=numbers.dtype, ctx=like.ctx)


def _operation(average: bool | None, op: str | None) -> str:
    if average is not None:
        if op is not None:
            raise errors.MXNetValueError("average= is the older name of op=: give one of them")
        return Average if average else Sum
    return op or Average


def _reduced(
    tensors: Sequence[Any], names: Sequence[str], how: str, before: float, after: float
) -> list[np.ndarray]:
    if how not in (Average, Sum, *_REDUCE, Adasum):
        raise errors.MXNetValueError(
            f"op={how!r}: expected hvd.Average, hvd.Sum, hvd.Min, hvd.Max or hvd.Product"
        )
    if how == Adasum:
        raise errors.MXNetNotImplementedError("op=hvd.Adasum is not there: hvd.Average or hvd.Sum")
    given = [_numbers(t) for t in tensors]
    if how in _REDUCE:
        return [
            _REDUCE[how].reduce([part[0] for part in _of_all(a[None], n)])
            for a, n in zip(given, names, strict=True)
        ]
    scaled = [a if before == 1 else (a * before).astype(a.dtype) for a in given]
    factor = after / (size() if how == Average else 1)
    sums = _sums(scaled, names)
    return [a if factor == 1 else (a * factor).astype(a.dtype) for a in sums]


def grouped_allreduce(
    tensors: Sequence[NDArray], average: bool | None = None, name: str | None = None, priority: int = 0,
    prescale_factor: float = 1.0, postscale_factor: float = 1.0, process_set: Any = None, op: str | None = None,
) -> list[NDArray]:  # fmt: skip
    """New arrays with the means (or another ``op``) of all ranks' arrays.

    Args:
      tensors: arrays of the same shapes and dtypes on every rank.
      average: the older name of ``op``: True is ``hvd.Average``, False ``hvd.Sum``.
      prescale_factor, postscale_factor: what is multiplied with before and after the sum.

    Raises:
      MXNetError: another rank makes another call.

    >>> import mxjax as mx
    >>> from mxjax.kvstore import horovod_mxnet as hvd
    >>> hvd.init()
    >>> hvd.allreduce(mx.np.ones(2), op=hvd.Sum).tolist()
    [1.0, 1.0]
    """
    names = [f"{_name(name, 'allreduce')}.{k}" for k in range(len(tensors))]
    found = _reduced(tensors, names, _operation(average, op), prescale_factor, postscale_factor)
    return [_made(t, a) for t, a in zip(tensors, found, strict=True)]


def grouped_allreduce_(
    tensors: Sequence[NDArray], average: bool | None = None, *args: Any, **kwargs: Any
) -> list[NDArray]:
    """`grouped_allreduce` into the arrays themselves."""
    for t, made in zip(tensors, grouped_allreduce(tensors, average, *args, **kwargs), strict=True):
        t[:] = made
    return list(tensors)


def allreduce(tensor: NDArray, average: bool | None = None, *args: Any, **kwargs: Any) -> NDArray:
    """`grouped_allreduce` of one array."""
    return grouped_allreduce([tensor], average, *args, **kwargs)[0]


def allreduce_(tensor: NDArray, average: bool | None = None, *args: Any, **kwargs: Any) -> NDArray:
    """`grouped_allreduce_` of one array."""
    return grouped_allreduce_([tensor], average, *args, **kwargs)[0]


def allgather(
    tensor: NDArray, name: str | None = None, priority: int = 0, process_set: Any = None
) -> NDArray:
    """All ranks' arrays one after the other along the first axis, whose lengths may differ."""
    return _made(tensor, np.concatenate(_of_all(_numbers(tensor), _name(name, "allgather"))))


def _from_root(numbers: Sequence[np.ndarray], root: int, names: Sequence[str]) -> list[np.ndarray]:
    job = _the_job()
    if not 0 <= root < size():
        raise errors.MXNetValueError(f"root_rank={root}: this job has ranks 0 to {size() - 1}")
    if job.processes is None:
        return list(numbers)
    made = [
        Operation("init", job.number, n, a, root=root) for n, a in zip(names, numbers, strict=True)
    ]
    return [np.asarray(found) for found in job.processes.all(made)]


def broadcast(
    tensor: NDArray,
    root_rank: int,
    name: str | None = None,
    priority: int = 0,
    process_set: Any = None,
) -> NDArray:
    """A new array with what ``root_rank`` has."""
    (found,) = _from_root([_numbers(tensor)], root_rank, [_name(name, "broadcast")])
    return _made(tensor, found)


def broadcast_(tensor: NDArray, root_rank: int, *args: Any, **kwargs: Any) -> NDArray:
    """`broadcast` into the array itself."""
    tensor[:] = broadcast(tensor, root_rank, *args, **kwargs)
    return tensor


def alltoall(
    tensor: NDArray,
    splits: Any = None,
    name: str | None = None,
    priority: int = 0,
    process_set: Any = None,
) -> Any:
    """To each rank its part of the first axis; what came, and with ``splits`` how long each rank's part was.

    Args:
      splits: how many rows each rank gets; without, the same number each.

    Raises:
      ValueError: the first axis is not the sum of ``splits``, or no multiple of the number of ranks.
    """
    rows, numbers = len(tensor), _numbers(tensor)
    if splits is None:
        if rows % size():
            raise errors.MXNetValueError(
                f"{rows} rows cannot be shared out evenly to {size()} ranks: give splits="
            )
        given = np.full(size(), rows // size(), np.int32)
    else:
        given = np.asarray(_numbers(splits)).astype(np.int32)
        if given.shape != (size(),) or given.sum() != rows or (given < 0).any():
            raise errors.MXNetValueError(
                f"splits={given.tolist()}: expected {size()} lengths whose sum is {rows}"
            )
    called = _name(name, "alltoall")
    all_splits = _of_all(given[None], f"{called}.splits")
    wholes = _of_all(numbers, called)
    here = rank()
    ends = [np.cumsum([0, *s[0]]) for s in all_splits]
    parts = [whole[e[here] : e[here + 1]] for whole, e in zip(wholes, ends, strict=True)]
    found = _made(tensor, np.concatenate(parts))
    if splits is None:
        return found
    came = np.array([s[0][here] for s in all_splits], np.int32)
    return found, (_made(splits, came) if isinstance(splits, NDArray) else came)


def reducescatter(
    tensor: NDArray, op: str = Average, name: str | None = None, priority: int = 0, process_set: Any = None,
    prescale_factor: float = 1.0, postscale_factor: float = 1.0,
) -> NDArray:  # fmt: skip
    """This rank's part of the first axis of the mean (or sum); the first ranks have one row more than the others."""
    called = _name(name, "reducescatter")
    (whole,) = _reduced([tensor], [called], op, prescale_factor, postscale_factor)
    return _made(tensor, np.array_split(whole, size())[rank()])


# ---- plain values


def broadcast_object(obj: Any, root_rank: int = 0, name: str | None = None) -> Any:
    """What ``root_rank`` has: a value that JSON can say, for nothing from another process is unpickled.

    Raises:
      TypeError: the value is of another kind.
    """
    text = np.frombuffer(_said(obj if rank() == root_rank else None), np.uint8)
    return json.loads(bytes(_of_all(text, _name(name, "broadcast_object"))[root_rank]))


def allgather_object(obj: Any, name: str | None = None) -> list[Any]:
    """Every rank's value, in their order: values that JSON can say.

    Raises:
      TypeError: the value is of another kind.
    """
    text = np.frombuffer(_said(obj), np.uint8)
    return [json.loads(bytes(part)) for part in _of_all(text, _name(name, "allgather_object"))]


def _said(obj: Any) -> bytes:
    try:
        return json.dumps(obj).encode()
    except TypeError as error:
        raise errors.MXNetTypeError(
            f"{error}: values travel as JSON here, never as pickles; arrays go by hvd.broadcast and hvd.allgather"
        ) from None


# ---- training


def broadcast_parameters(params: Any, root_rank: int = 0, prefix: str | None = None) -> None:
    """Let every rank have the parameters of one; those that are not initialized yet, as soon as they are.

    Args:
      params: what `collect_params` or `Module.get_params` gives: parameters or arrays by name.

    Raises:
      ValueError: it is no mapping of names, or there is no such rank.
    """
    if not isinstance(params, Mapping) and not hasattr(params, "items"):
        raise errors.MXNetValueError(
            f"invalid params of type: {type(params).__name__}; expected names and arrays"
        )
    if size() == 1:
        return
    arrays, names = [], []
    for key, p in sorted(params.items()):
        name = f"{prefix or ''}{key}"
        if isinstance(p, Parameter):
            try:
                found = p.list_data()
            except DeferredInitializationError:
                p._init_impl = types.MethodType(_and_then(p, root_rank, name), p)  # type: ignore[method-assign]
                continue
        else:
            found = [p]
        arrays.append(found)
        names.append(f"parameter.{name}")
    for targets, numbers in zip(
        arrays, _from_root([_numbers(a[0]) for a in arrays], root_rank, names), strict=True
    ):
        for target in targets:
            target[:] = numbers


def _and_then(parameter: Parameter, root: int, name: str) -> Any:
    """`Parameter._init_impl`, and the broadcast after it."""
    first = parameter._init_impl

    def _init_impl(self: Parameter, *args: Any, **kwargs: Any) -> None:
        first(*args, **kwargs)
        targets = self.list_data()
        (numbers,) = _from_root([_numbers(targets[0])], root, [f"parameter.{name}"])
        for target in targets:
            target[:] = numbers

    return _init_impl


class DistributedOptimizer(Optimizer):
    """An optimizer whose updates go by the mean of all ranks' gradients: for `Module.fit` and updaters.

    Args:
      optimizer: the one that updates; each rank has its own, and all do the same.
      gradient_predivide_factor: the sum is divided by this before, and the rest after it.
    """

    def __init__(
        self, optimizer: Optimizer, gradient_predivide_factor: float = 1.0, num_groups: int = 0,
        process_set: Any = None,
    ) -> None:  # fmt: skip
        self._optimizer = optimizer
        self._predivide = gradient_predivide_factor
        optimizer.rescale_grad *= gradient_predivide_factor / size()

    def __getattr__(self, item: str) -> Any:
        if item == "_optimizer":
            raise AttributeError(item)
        return getattr(self._optimizer, item)

    def create_state(self, index: Any, weight: Any) -> Any:
        """That of the optimizer."""
        return self._optimizer.create_state(index, weight)

    def create_state_multi_precision(self, index: Any, weight: Any) -> Any:
        """That of the optimizer."""
        return self._optimizer.create_state_multi_precision(index, weight)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Sum the gradients of all ranks, and update by them."""
        self._sum(index, grad)
        self._optimizer.update(index, weight, grad, state)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Sum the gradients of all ranks, and update by them."""
        self._sum(index, grad)
        self._optimizer.update_multi_precision(index, weight, grad, state)

    def _sum(self, index: Any, grad: Any) -> None:
        if size() == 1:
            return
        grads, keys = (grad, index) if isinstance(index, (list, tuple)) else ([grad], [index])
        names = [f"gradient.{key}" for key in keys]
        for g, total in zip(
            grads, _reduced(grads, names, Sum, 1 / self._predivide, 1.0), strict=True
        ):
            g[:] = total

    def set_learning_rate(self, lr: float) -> None:
        """That of the optimizer."""
        self._optimizer.set_learning_rate(lr)

    def set_lr_mult(self, args_lr_mult: Any) -> None:
        """That of the optimizer."""
        self._optimizer.set_lr_mult(args_lr_mult)

    def set_wd_mult(self, args_wd_mult: Any) -> None:
        """That of the optimizer."""
        self._optimizer.set_wd_mult(args_wd_mult)


class DistributedTrainer(Trainer):
    """A `gluon.Trainer` whose steps go by the mean of all ranks' gradients.

    Args:
      compression: ``hvd.Compression.none`` or ``fp16``.
      gradient_predivide_factor: the sum is divided by this before, and the rest after it.

    >>> import mxjax as mx
    >>> from mxjax.kvstore import horovod_mxnet as hvd
    >>> hvd.init()
    >>> net = mx.gluon.nn.Dense(1, in_units=2)
    >>> net.initialize()
    >>> hvd.broadcast_parameters(net.collect_params(), root_rank=0)
    >>> trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    """

    def __init__(
        self, params: Any, optimizer: Any, optimizer_params: Any = None, compression: Any = Compression.none,
        gradient_predivide_factor: float = 1.0, prefix: str | None = None, num_groups: int = 0,
        process_set: Any = None,
    ) -> None:  # fmt: skip
        if isinstance(optimizer, DistributedOptimizer):
            optimizer = optimizer._optimizer
            warnings.warn(
                "DistributedTrainer does not take DistributedOptimizer as its optimizer: it is unwrapped",
                stacklevel=2,
            )
        super().__init__(params, optimizer, optimizer_params=optimizer_params, kvstore=None)
        given = params.values() if hasattr(params, "values") else params
        self._everything = list(given)
        self._compression = compression
        self._predivide = gradient_predivide_factor
        self._name_prefix = prefix or ""
        self._scale *= gradient_predivide_factor / size()

    def _allreduce_grads(self) -> None:
        if size() == 1:
            return
        gradients = [p.list_grad()[0] for p in self._everything if p.grad_req != "null"]
        packed = [self._compression.compress(g) for g in gradients]
        names = [f"{self._name_prefix}gradient.{k}" for k in range(len(gradients))]
        sums = _reduced([p for p, _ in packed], names, Sum, 1 / self._predivide, 1.0)
        for g, total in zip(gradients, sums, strict=True):
            g[:] = total.astype(g.dtype, copy=False)
