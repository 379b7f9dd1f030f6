"""Programs: compiled segments and graphs."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import compiler
from .aval import Aval
from .segment import SCALAR, Step
from .state import local, observers
from .stats import stats


def run_steps(steps: Iterable[Step], inputs: Sequence[Any], scalars: Sequence[Any]) -> dict[int, Any]:
    """Run steps on arrays or tracers; all results by their numbers."""
    env: dict[int, Any] = {}
    for step in steps:
        args = [
            env[i] if 0 <= i < SCALAR else inputs[-1 - i] if i < 0 else scalars[i - SCALAR]
            for i in step.args
        ]
        with jax.named_scope(step.label):
            out = step.call.fn(*args)  # type: ignore[union-attr]
        if step.many:
            for k, o in enumerate(out):
                env[step.first + k] = o
        else:
            env[step.first] = out
    return env


def needed(steps: Sequence[Step], live: Sequence[int]) -> list[Step]:
    """The steps on which the live results depend, and those with effects."""
    wanted = set(live)
    kept = []
    for step in reversed(steps):
        made = range(step.first, step.first + len(step.avals))
        if step.call.effect or any(k in wanted for k in made):  # type: ignore[union-attr]
            kept.append(step)
            wanted.update(i for i in step.args if 0 <= i < SCALAR)
    kept.reverse()
    return kept


def unpack(packed: Any, fmt: str) -> list[Any]:
    """Dynamic scalars from the 32-bit words they travel in.

    64-bit numbers could only be handed over with JAX's x64 mode on; as words they need no mode at the
    moment of the call.
    """
    if not fmt:
        return []
    words = packed.reshape(len(fmt), 2)
    floats = jax.lax.bitcast_convert_type(words, jnp.float64) if "d" in fmt else None
    ints = jax.lax.bitcast_convert_type(words, jnp.int64) if "q" in fmt else None
    return [floats[i] if k == "d" else ints[i] for i, k in enumerate(fmt)]  # type: ignore[index]


def pack(fmt: str, scalars: Sequence[float | int]) -> np.ndarray:
    return np.frombuffer(struct.pack("=" + fmt, *scalars), np.uint32)


def match_donations(dying: Sequence[tuple[int, Aval]], outs: Sequence[Aval]) -> tuple[int, ...]:
    """Which dying inputs can become results: each takes one of equal shape, dtype and memory."""
    free: dict[Any, int] = {}
    for a in outs:
        key = a.shape, a.dtype, a.memory
        free[key] = free.get(key, 0) + 1
    chosen = []
    for j, a in dying:
        key = a.shape, a.dtype, a.memory
        if free.get(key, 0):
            free[key] -= 1
            chosen.append(j)
    return tuple(chosen)


def fetched(steps: Iterable[Step], avals: Sequence[Aval]) -> list[int]:
    """The inputs that wait in the host's memory and are copied to the device: all but those that
    every call takes from there itself."""
    away = {j for j, a in enumerate(avals) if a.memory is not None}
    if not away:
        return []
    own: set[int] = set()
    others: set[int] = set()
    for step in steps:
        for position, i in enumerate(step.args):
            if i < 0 and -1 - i in away:
                (own if position in step.call.from_host else others).add(-1 - i)  # type: ignore[union-attr]
    return sorted(away - (own - others))


def to_device(x: Any) -> Any:
    """Inside a program: the copy in the device's memory of what waits in the host's."""
    return jax.device_put(x, jax.memory.Space.Device)


class Program:
    """A compiled function of arrays on one device (or one mesh)."""

    __slots__ = ("__weakref__", "call", "compiled", "cost", "donate", "fmt", "live", "name", "outs", "proven", "steps")

    def __init__(
        self,
        name: str,
        steps: list[Step],
        avals: Sequence[Aval],
        fmt: str,
        live: tuple[int, ...],
        dying: Sequence[int],
        device: Any,
        reason: str,
    ):
        self.name = name
        self.live = live
        self.fmt = fmt
        self.proven = False  # it came back at least once
        kept = needed(steps, live)
        self.steps = kept
        by_number = {s.first + k: a for s in kept for k, a in enumerate(s.avals)}
        self.outs = [by_number[k] for k in live]
        self.donate = match_donations([(j, avals[j]) for j in dying], self.outs)

        away = fetched(kept, avals)

        def run(*args: Any) -> tuple[Any, ...]:
            if away:
                given = list(args)
                for j in away:
                    given[j] = to_device(given[j])
                args = tuple(given)
            scalars = unpack(args[-1], fmt) if fmt else []
            env = run_steps(kept, args, scalars)
            return tuple(env[k] for k in live)

        run.__name__ = run.__qualname__ = name
        structs = [a.placed_struct for a in avals]
        if fmt:
            # JAX heeds memories where it donates only if every input's is known, this one's too.
            known = jax.sharding.SingleDeviceSharding(device) if away and isinstance(device, jax.Device) else None
            structs.append(jax.ShapeDtypeStruct((2 * len(fmt),), np.dtype("uint32"), sharding=known))
            if away and known is None:
                self.donate = ()
        out_shardings = [a.sharding for a in self.outs]
        self.compiled, self.cost = compile_function(
            run,
            structs,
            donate=self.donate,
            device=device,
            out_shardings=tuple(out_shardings),
            name=name,
            reason=reason,
            calls=[s.call for s in kept],
        )

        # The function behind the compiled object, one Python call nearer; it appears with the first call.
        self.call: Any = None

    def run(self, arrays: list[Any], scalars: Sequence[float | int]) -> Sequence[Any]:
        """Execute on arrays (the list is used up)."""
        if observers and local.st.rehearsing is not None:
            return local.st.rehearsing.run(self)  # type: ignore[no-any-return]
        stats.programs += 1
        if self.donate:
            stats.donated += len(self.donate)
        if self.fmt:
            arrays.append(pack(self.fmt, scalars))
        if observers:
            return self._observed(arrays)
        call = self.call
        if call is not None:
            return call(*arrays)  # type: ignore[no-any-return]
        out = self.compiled(*arrays)
        self.call = getattr(self.compiled, "_call", None) or self.compiled
        return out  # type: ignore[no-any-return]

    def _observed(self, arrays: list[Any]) -> Sequence[Any]:
        start = time.time_ns()
        out = self.compiled(*arrays)
        stop = time.time_ns()
        for o in observers:
            o.on_run(self.name, self.steps, start, stop)
        return out  # type: ignore[no-any-return]


def compile_function(
    fn: Callable[..., Any],
    structs: Sequence[Any],
    *,
    donate: tuple[int, ...],
    device: Any,
    out_shardings: Any,
    name: str,
    reason: str,
    calls: Sequence[Any] = (),
) -> tuple[Any, float]:
    """Lower and compile; the compiled function and the seconds it took."""
    start = time.time_ns()
    with jax.enable_x64(True), compiler.for_platform(compiler.platform_of(device)):
        lowered = jax.jit(
            fn,
            donate_argnums=donate,
            keep_unused=True,
            out_shardings=out_shardings,
        ).lower(*structs)
    compiled = lowered.compile(compiler_options=compiler.options_for(device, calls))
    stop = time.time_ns()
    stats.compiled += 1
    for o in observers:
        o.on_compile(name, reason, start, stop)
    return compiled, (stop - start) * 1e-9
