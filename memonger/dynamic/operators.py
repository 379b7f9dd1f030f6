"""One operator as a program: what it reads, gives and costs, so that its result can be made again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Any

import jax
import jax.numpy as jnp

from mxjax import core
from mxjax.core import Aval, Call, Dynamic, Value
from mxjax.hlo import counts

from ..model.price import sliced

# Seconds are an estimate, so that what is evicted does not depend on what else the machine does:
# (operations a second, bytes a second), one core and one accelerator. Only their ratio matters.
_SPEED = {"cpu": (5e10, 1e10), "gpu": (5e13, 2e12), "tpu": (1e14, 1e12)}
_TRANSCENDENTAL = 10  # operations that an exponential takes
_LAUNCH = 1e-6


def bytes_on(aval: Aval) -> int:
    """The bytes of a value on each of its devices."""
    if isinstance(aval.device, jax.sharding.Sharding):
        return aval.dtype.itemsize * prod(aval.device.shard_shape(aval.shape))
    return aval.nbytes


def devices_of(device: Any) -> tuple[Any, ...]:
    """The devices of a placement."""
    if isinstance(device, jax.sharding.Sharding):
        return tuple(sorted(device.device_set, key=lambda d: d.id))
    return (core.physical(device),)


def seconds_of(compiled: Any, device: Any) -> tuple[float, float]:
    """(seconds, operations) of a compiled program, estimated from what XLA counts."""
    counted = counts(compiled)
    flops = counted.get("flops", 0.0) + _TRANSCENDENTAL * counted.get("transcendentals", 0.0)
    speed, width = _SPEED.get(core.platform_of(device), _SPEED["gpu"])
    return _LAUNCH + flops / speed + counted.get("bytes accessed", 0.0) / width, flops


def temporaries_of(compiled: Any) -> int:
    """Bytes a compiled program needs besides arguments and results."""
    analysis = compiled.memory_analysis()
    return int(analysis.temp_size_in_bytes) if analysis is not None else 0


class Operator:
    """A call for inputs of these kinds.

    ``used`` tells the inputs its results depend on (a gradient of an addition depends on neither summand);
    the others need not be there.
    """

    def __init__(self, call: Call, kinds: tuple[Any, ...], device: Any):
        self.call = call
        self.kinds = kinds
        self.device = device
        self.avals, _ = call.infer(kinds, device)
        self.fmt = "".join(k for k in kinds if type(k) is str)
        structs = [core.SCALARS[k] if type(k) is str else k.struct for k in kinds]
        with jax.enable_x64(True), core.compiler.for_platform(core.platform_of(device)):
            jaxpr = jax.make_jaxpr(call.fn)(*structs).jaxpr
        read, _, _ = sliced(jaxpr, range(len(jaxpr.outvars)))
        self.used = [j in read for j in range(len(jaxpr.invars))]

    @cached_property
    def cost(self) -> tuple[float, float]:
        """(seconds, operations), estimated."""
        return seconds_of(self.compiled, self.device)

    @cached_property
    def need(self) -> int:
        """Bytes it takes on top of its inputs."""
        return temporaries_of(self.compiled) + sum(map(bytes_on, self.avals))

    @cached_property
    def compiled(self) -> Any:
        """Its program."""
        given = [j for j, k in enumerate(self.kinds) if type(k) is not str and self.used[j]]
        kinds, fmt = self.kinds, self.fmt

        def run(*args: Any) -> tuple[Any, ...]:
            scalars = iter(core.unpack(args[-1], fmt) if fmt else ())
            at = dict(zip(given, args, strict=False))
            full = [
                next(scalars)
                if type(k) is str
                else at[j]
                if j in at
                else jnp.zeros(k.shape, k.dtype)
                for j, k in enumerate(kinds)
            ]
            with jax.named_scope(self.call.name):
                # One operator serves all places: settings that name a place do not reach it.
                out = core.dressed(self.call, "")(*full)
            return tuple(out) if isinstance(out, (tuple, list)) else (out,)

        run.__name__ = run.__qualname__ = self.call.name
        structs = [kinds[j].placed_struct for j in given]
        if fmt:
            structs.append(jax.ShapeDtypeStruct((2 * len(fmt),), jnp.uint32))
        compiled, _ = core.compile_function(
            run,
            structs,
            donate=(),
            device=self.device,
            out_shardings=tuple([a.sharding for a in self.avals]),
            name=self.call.name,
            reason="an operator by itself",
            calls=[self.call],
        )
        return compiled

    def run(self, operands: Sequence[Any], step: Any = None) -> list[Any]:
        """The arrays of all results, from values and numbers whose arrays are there."""
        arrays = [v.arr for v, u in zip(operands, self.used, strict=True) if u and type(v) is Value]
        if self.fmt:
            arrays.append(core.pack(self.fmt, [v.value for v in operands if type(v) is Dynamic]))
        core.stats.programs += 1
        start = time.time_ns() if core.hooks.observers else 0
        results = list(self.compiled(*arrays))
        if start:
            stop = time.time_ns()
            for o in core.hooks.observers:
                o.on_run(self.call.name, [] if step is None else [step], start, stop)
        return results


class Operators:
    """The operators made so far."""

    def __init__(self) -> None:
        self._made: dict[Any, Operator] = {}
        self._roots: Any = None

    def of(self, call: Call, operands: Sequence[Any], device: Any) -> Operator:
        """The operator for a call on values, and numbers, of which it knows but the letter."""
        kinds = tuple([v.kind if type(v) is Dynamic else v.aval for v in operands])
        if self._roots is not core.Tree.roots:  # a setting that shapes programs has changed
            self._roots = core.Tree.roots
            self._made.clear()
        key = (call, kinds, device)
        found = self._made.get(key)
        if found is None:
            if len(self._made) > 20_000:  # shapes that never come back must not pile up
                self._made.clear()
            found = self._made[key] = Operator(call, kinds, device)
        return found
