"""One server of the asynchronous store: the values of its keys, and the optimizer that changes them.

It knows nothing of processes. What workers ask for comes as lists of requests, tuples of plain data and
NumPy arrays, and each is done at once, in the order in which they come:

    ("init", key, array)              the first value; later ones for the same key count for nothing
    ("push", keys, gradients)         the optimizer runs; a gradient is an array or packed (`_unpacked`)
    ("pull", key) -> array            the value as it is now
    ("rows", key, ids) -> array       these rows of it
    ("optimizer", text)               see `described`; the same one again changes nothing
    ("numbers", text)                 what of the optimizer a worker has changed
    ("states", whole) -> bytes        the optimizer's states, with the optimizer itself if `whole`
    ("load", bytes)                   states instead of those that are there
    ("command", head, body)           a number and a text, as MXNet's: 0 an optimizer, 5 for the profiler
    ("leave",) -> int                 a worker asks for nothing more: how many have said so
    ("left",) -> int                  how many have
    ("count",) -> int                 how many gradients were applied
"""

from __future__ import annotations

import functools
import json
import logging
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from mxjax import core, errors, lr_scheduler
from mxjax.array import to_value
from mxjax.array.classes import ndarray
from mxjax.optimizer import Optax, Optimizer, Updater
from mxjax.optimizer.saving import describe, revive

from ._compression import decode, unpack

__all__ = ["NUMBERS", "Server", "described"]

log = logging.getLogger("mxjax.kvstore")

#: The number of commands to a server's profiler (kSetProfilerParams in src/kvstore/kvstore_dist_server.h).
_PROFILER = 5

#: What of an optimizer may change while it runs in the servers.
NUMBERS = "lr", "wd", "rescale_grad"


def described(optimizer: Optimizer) -> str:
    """An optimizer as JSON: its registered name, its numbers, its schedule; nothing that is executed.

    Raises:
      MXNetError: it is not plain data: a class of the script's own, an optax transformation, a schedule of
        the script's own.
    """
    name = type(optimizer).__name__
    own = not type(optimizer).__module__.startswith(f"{__name__.split('.')[0]}.")
    if isinstance(optimizer, Optax) or own:
        raise errors.MXNetError(
            f"the optimizer {name} cannot go to the servers of a 'dist_async' kvstore: they are sent its name and its "
            "numbers, never code, and know mxjax's own optimizers only. 'dist_sync' runs any optimizer"
        )
    schedule = optimizer.lr_scheduler
    if schedule is not None and type(schedule) is not getattr(
        lr_scheduler, type(schedule).__name__, None
    ):
        raise errors.MXNetError(
            f"the schedule {type(schedule).__name__} cannot go to the servers of a 'dist_async' kvstore, which know "
            f"mxjax's own only: {', '.join(lr_scheduler.__all__)}"
        )
    found = describe(optimizer)
    for mult in ("lr_mult", "wd_mult"):  # a trainer's parameters have theirs themselves
        own_mults = {index: getattr(param, mult) for index, param in optimizer.param_dict.items()}
        found[mult] = list({**dict(found[mult]), **own_mults}.items())
    return json.dumps(found)


def _made(text: str) -> Optimizer:
    """What `described` described."""
    try:
        found = json.loads(text)
        klass = Optimizer.opt_registry[found["class"].lower()]
    except (ValueError, TypeError, KeyError) as error:
        raise errors.MXNetError(
            "an optimizer for the servers is JSON with the name of a registered class; MXNet's pickles are not "
            f"executed: {error!r}"
        ) from None
    return revive(found, klass())


def _unpacked(gradient: Any, like: np.dtype) -> Any:
    """The gradient that came: an array, or a tuple that `_push` of a worker made, and begins with its kind."""
    if isinstance(gradient, tuple):
        kind, *rest = gradient
        if kind in ("1bit", "2bit"):
            threshold, shape, codes = rest
            # Where the weights are, which JAX's own default need not be.
            with jax.default_device(core.physical(core.default_device())):
                return core.concrete(_decoder(kind, threshold, shape, like)(codes), shared=False)
        ids, shape, rows = rest
        gradient = np.zeros(shape, like)
        gradient[ids] = rows
    array = np.asarray(gradient, like)
    if array.dtype.itemsize < 8:
        # The optimizer's program takes it where it lies.
        return core.host(array, core.default_device())
    return to_value(array)


@functools.cache
def _decoder(kind: str, threshold: float, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    size = math.prod(shape)
    return jax.jit(lambda c: decode(unpack(c, kind, size), kind, threshold, dtype).reshape(shape))


_KINDS = {
    kind: f"_{kind}"
    for kind in (
        "init", "push", "pull", "rows", "optimizer", "numbers", "states", "load", "command", "leave", "left", "count",
    )
}  # fmt: skip


class Server:
    """A server's whole state, the `rank`-th of its job; not safe for several threads at once."""

    def __init__(self, rank: int = 0) -> None:
        self._rank = rank
        self._values: dict[Any, ndarray] = {}
        self._updater: Updater | None = None
        self._text: str | None = None
        self._gone = 0
        self.pushes = 0  #: how many gradients were applied

    def do(self, requests: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The answer to each request; where it fails, a tuple of "error" and the reason."""
        answers: list[Any] = []
        pushed = max((k for k, request in enumerate(requests) if request[0] == "push"), default=-1)
        for k, request in enumerate(requests):
            try:
                answer = getattr(self, _KINDS[request[0]])(*request[1:])
                # An update may take the memory of the old value.
                answers.append(answer.copy() if k < pushed and request[0] == "pull" else answer)
            except Exception as error:
                answers.append(("error", str(error)))
        return answers

    def _init(self, key: Any, array: np.ndarray) -> None:
        if key not in self._values:
            self._values[key] = ndarray._wrap(to_value(np.array(array)))

    def _push(self, keys: Sequence[Any], gradients: Sequence[Any]) -> None:
        if self._updater is None:
            raise errors.MXNetError(
                f"Updater needs to be set for async mode: key {keys[0]!r} was pushed before set_optimizer() was called"
            )
        weights = [self._values[k] for k in keys]
        grads = [
            ndarray._wrap(_unpacked(g, np.dtype(w.dtype)))
            for g, w in zip(gradients, weights, strict=True)
        ]
        self._updater(list(keys), grads, weights)
        for w in weights:  # each push is a program of its own, the same every time
            core.read(w._value())
        self.pushes += len(keys)

    def _pull(self, key: Any) -> np.ndarray:
        return np.asarray(core.memory.on_device(self._values[key]._value()))

    def _rows(self, key: Any, ids: np.ndarray) -> np.ndarray:
        return self._pull(key)[ids]

    def _optimizer(self, text: str) -> None:
        if (
            text != self._text
        ):  # every worker sends it: what the first ones pushed must not be forgotten
            self._updater, self._text = Updater(_made(text)), text

    def _numbers(self, text: str) -> None:
        if self._updater is not None:
            for name, value in json.loads(text).items():
                if name in NUMBERS:
                    setattr(self._updater.optimizer, name, value)

    def _states(self, whole: bool) -> bytes:
        return self._running().get_states(whole)

    def _load(self, states: bytes) -> None:
        self._running().set_states(states)

    def _running(self) -> Updater:
        if self._updater is None:
            raise errors.MXNetError("the servers run no optimizer: call set_optimizer() first")
        return self._updater

    def _command(self, head: int, body: str) -> None:
        if head == 0:
            self._optimizer(body)
        elif head == _PROFILER:
            from mxjax import profiler

            profiler.server_command(body, self._rank)
        else:
            log.warning("unknown command (%s, %s)", head, body)

    def _leave(self) -> int:
        self._gone += 1
        return self._gone

    def _left(self) -> int:
        return self._gone

    def _count(self) -> int:
        return self.pushes
