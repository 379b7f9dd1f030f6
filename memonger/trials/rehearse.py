"""What a training step would need, told before it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import jax

from mxjax import core, errors
from mxjax.array.restoring import restored

from .measure import Measured, measured


@cache
def counting() -> dict[str, Any]:
    """Options for a CPU program that is compiled to be counted and never runs.

    Bytes and arithmetic are settled before code is made, which is most of the time. It is made by LLVM without
    optimisations, and without MLIR where this XLA can.
    """
    from mxjax import engine

    options: dict[str, Any] = {
        "xla_backend_optimization_level": 0,
        "xla_cpu_use_fusion_emitters": False,
        "xla_cpu_parallel_codegen_split_count": 1,
    }
    return {name: value for name, value in options.items() if engine.knows("cpu", name, value)}


def rehearse(
    fn: Callable[..., Any], *changes: Any, args: tuple[Any, ...] = (), warmup: int = 1
) -> Measured:
    """Compile what ``fn(*args)`` would run and tell its cost, without running or allocating anything.

    The programs are those the engine would run, with the same results and donations; a later real step
    finds them compiled.

    Args:
      fn: usually one training step. It must not ask for numbers (``asnumpy``, ``float``).
      *changes: the blocks, trainers and arrays that ``fn`` changes; they are put back afterwards.
      warmup: rehearsals before the measured one: a first step also makes the optimizer's states.
      args: the arguments.

    Returns:
      Rehearsal: bytes and arithmetic of the step.

    Raises:
      MXNetError: a number was asked for, or a parameter's shape is not known yet.

    >>> import mxjax as mx
    >>> net = mx.gluon.nn.Dense(8, in_units=64)
    >>> net.initialize()
    >>> x = mx.np.zeros((32, 64))
    >>> mx.memonger.rehearse(lambda: net(x), net).flops > 2 * 32 * 64 * 7
    True
    """
    with put_back(changes):
        for _ in range(warmup):
            with core.rehearsal(compiles=False):
                fn(*args)
        return rehearsed(fn, *args)


def rehearsed(fn: Callable[..., Any], *args: Any) -> Measured:
    """The cost of ``fn(*args)``, compiled; inside :func:`put_back`."""
    with core.rehearsal() as found:
        kept = fn(*args)  # until the end: what the step returns is held by the caller of a real one
    del kept
    return measured(Counter(found.programs))


@contextmanager
def put_back(changes: tuple[Any, ...]) -> Iterator[None]:
    """Let everything in ``changes`` be written to, and restore it."""
    arrays: dict[int, Any] = {}
    attributes: list[tuple[Any, dict[str, Any]]] = []
    for one in changes:
        for a in _arrays(one, attributes):
            arrays[id(a)] = a
            if a.grad is not None:
                arrays[id(a.grad)] = a.grad
    devices = {a._value().aval.device for a in arrays.values()}
    counts = [(s, s.count) for s in map(core.rng.stream, devices)]
    try:
        with restored(list(arrays.values())):
            yield
    finally:
        for owner, held in attributes:
            owner.__dict__.clear()
            owner.__dict__.update(held)
        for stream, count in counts:
            stream.count = count


def _arrays(one: Any, attributes: list[tuple[Any, dict[str, Any]]]) -> Iterator[Any]:
    """The arrays of a block, a trainer or an array; what else a trainer changes goes to ``attributes``."""
    if hasattr(one, "collect_params"):
        for p in one.collect_params().values():
            if p._arrays is None:
                raise errors.MXNetError(
                    f"the shape of parameter {p.name} is not known yet: call the block once, or give in_units / "
                    "in_channels, before rehearsing a step"
                )
            yield from p._arrays.values()
    elif hasattr(one, "updaters"):
        owners = [one, one.optimizer, *one.updaters]
        attributes.extend((o, _copied(o.__dict__)) for o in owners)
        for updater in one.updaters:
            yield from filter(_is_array, leaves(updater.states))
    elif _is_array(one):
        yield one
    else:
        raise errors.MXNetTypeError(
            f"a block, a trainer or an array is expected here, got {type(one).__name__}"
        )


def leaves(nested: Any) -> list[Any]:
    """The arrays of nested lists, tuples and dicts, and what else is in them."""
    return jax.tree_util.tree_leaves(nested, is_leaf=_is_array)


def need_graph(net: Any, usage: str) -> None:
    """Raise where a network has no graph.

    Raises:
      MXNetTypeError: it is no HybridBlock.
    """
    if not hasattr(net, "graph"):
        raise errors.MXNetTypeError(
            f"a HybridBlock is expected, got {net!r:.80} ({type(net).__name__}). Write {usage}"
        )


def _is_array(x: Any) -> bool:
    return hasattr(x, "_value")


def _copied(attributes: dict[str, Any]) -> dict[str, Any]:
    """A copy of attributes in which dicts, and dicts in dicts, are copies."""
    return {k: _copied(v) if type(v) is dict else v for k, v in attributes.items()}
