"""Programs: compiled segments and graphs."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import starmap
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..calls.aval import Aval, MeshDevice
from ..calls.call import dressed
from ..calls.segment import SCALAR, Step, came_of, user_site
from ..calls.state import local
from ..graph.jaxprs import keeps_apart
from ..hooks import (
    ProgramRun,
    observers,
    operator_wrappers,
    program_rewriters,
    program_rollers,
    trace_watchers,
)
from ..placement import ahead, host_memory
from ..run import price, tiers
from ..run.interrupts import shielded
from ..run.tiers import Later
from ..stats import stats
from . import compiler, images, random_blocks, results, row_sums, unrolled
from .compiler import wide_types
from .compiler_options import in_blocks, keep_barriers, leave_width, part_scans
from .donations import plan_donations, spared
from .in_flight import in_flight
from .kept import compile_or_load, load
from .outline import SHORT, ToLower, let_go
from .store import size_of


def run_steps(
    steps: Sequence[Step],
    inputs: Sequence[Any],
    scalars: Sequence[Any],
    late: frozenset[Step] = frozenset(),
    env: Mapping[int, Any] | None = None,
    arranged: bool = False,
) -> dict[int, Any]:
    """Run steps on arrays or tracers; all results by their numbers, and those of ``env``, from before.

    ``late`` ones come after everything that their operands are computed from, which the compiler then sees.
    ``arranged``: on a CPU results may be images whose channels are last (`images.array` turns them back).
    """
    env = dict(env or ())
    if operator_wrappers or trace_watchers or not images.are_made(steps):
        arranged = False
    again: dict[str, int] = {}
    others: dict[Step, Any] = {}
    if program_rewriters:
        for rewrite in program_rewriters:
            others.update(rewrite(steps))
    for step in steps:
        other = others.get(step)
        args = [
            env[i] if 0 <= i < SCALAR else inputs[-1 - i] if i < 0 else scalars[i - SCALAR]
            for i in (step.args if other is None else other[1])
        ]
        # The second call of an operator in one place is its `#1`: profiles tell its statement from the first's.
        label = step.label
        nth = again[label] = again.get(label, -1) + 1
        try:
            with jax.named_scope(f"{label}#{nth}" if nth else label):
                if step in late:
                    args = jax.lax.optimization_barrier(args)
                if other is not None:
                    out = other[0](*map(images.array, args))
                elif operator_wrappers:
                    out = dressed(step.call, step.label)(*args)  # type: ignore[arg-type]
                elif arranged:
                    out = images.run_or_turn(step.call, args)  # type: ignore[arg-type]
                else:
                    out = step.call.fn(*args)  # type: ignore[union-attr]
        except Exception as error:
            came_of(error, step)
            raise
        for watch in trace_watchers:
            watch(step, args, out)
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
        if step.call.effect or not wanted.isdisjoint(made):  # type: ignore[union-attr]
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

    __slots__ = (
        "__weakref__",
        "again",
        "ahead",
        "at",
        "before",
        "bytes",
        "call",
        "compiled",
        "donate",
        "fmt",
        "kinds",
        "later",
        "layouts",
        "live",
        "mesh",
        "name",
        "names",
        "outs",
        "places",
        "proven",
        "size",
        "steps",
        "used",
    )

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
        paid: float = 0.0,
    ):
        self.name = name
        self.live = live
        self.fmt = fmt
        self.proven = False  # it came back at least once
        kept = needed(steps, live)
        self.steps = kept
        by_number = {s.first + k: a for s in kept for k, a in enumerate(s.avals)}
        self.outs = [by_number[k] for k in live]
        self.donate, order, late, self.layouts = plan_donations(
            kept, avals, live, dying, compiler.platform_of(device), spared(steps)
        )
        # Where in the compiled function's results each of ours is.
        self.places = None if order == live else [order.index(k) for k in live]
        away = fetched(kept, avals)
        rolled: ProgramRun | None = None
        if (
            type(device) is not MeshDevice and not trace_watchers
        ):  # who watches sees each step in its own place
            for roll in program_rollers:
                rolled = rolled or roll(steps, live)

        def run(*args: Any) -> tuple[Any, ...]:
            if away:
                given = list(args)
                for j in away:
                    given[j] = to_device(given[j])
                args = tuple(given)
            scalars = unpack(args[-1], fmt) if fmt else []
            env = (
                run_steps(kept, args, scalars, late, arranged=True)
                if rolled is None
                else rolled(args, scalars)
            )
            return tuple(images.array(env[k]) for k in order)

        run.__name__ = run.__qualname__ = name
        structs = [a.placed_struct for a in avals]
        if fmt:
            # JAX heeds memories where it donates only if every input's is known, this one's too.
            known = (
                jax.sharding.SingleDeviceSharding(device)
                if away and isinstance(device, jax.Device)
                else None
            )
            structs.append(
                jax.ShapeDtypeStruct((2 * len(fmt),), np.dtype("uint32"), sharding=known)
            )
            if away and known is None:
                self.donate = ()
        self.mesh = device if type(device) is MeshDevice else None
        # On a mesh the compiler chooses how results lie, unless something said so.
        out_shardings = [
            None
            if self.mesh is not None and by_number[k].spread is None
            else by_number[k].in_layout(self.layouts.get(k, by_number[k].layout)).format
            for k in order
        ]
        self.compiled, _, self.later, self.size = compile_in_tiers(
            run,
            structs,
            donate=self.donate,
            device=device,
            out_shardings=tuple(out_shardings),
            name=name,
            reason=reason,
            calls=[s.call for s in kept],
            barriers=bool(late) and rolled is None,
            paid=paid,
        )

        # The function behind the compiled object, one Python call nearer; it appears with the first call.
        self.call: Any = None
        self.kinds: list[type] = []  # of the arrays that it took last, where it overwrites some
        # For the store: the step and key it is found under, when it was used last, and the steps on names of the device
        # that run by its function.
        self.at: Any = None
        self.used = 0
        self.names: list[Any] = []
        self.bytes = size_of(self.compiled)
        self.ahead = ahead.to(device) if fmt else None
        self.again = (
            ahead.Again(device)
            if fmt and self.ahead is None and isinstance(device, jax.Device)
            else None
        )
        self.before: Sequence[
            float | int
        ] = ()  # the scalars of the run before, where they are sent ahead

    def run(self, arrays: list[Any], scalars: Sequence[float | int]) -> Sequence[Any]:
        """Execute on arrays (the list is used up: what comes of a program that overwrites some is in it then)."""
        if observers and local.st.rehearsing is not None:
            return local.st.rehearsing.run(self)  # type: ignore[no-any-return]
        stats.programs += 1
        if self.later is not None:
            self._ran_quickly(self.later)
        if self.donate:
            stats.donated += len(self.donate)
        if self.fmt:
            if self.again is not None:
                arrays.append(self.again.array(pack(self.fmt, scalars)))
            else:
                arrays.append(
                    pack(self.fmt, scalars) if self.ahead is None else self._sent(scalars)
                )
        start = time.time_ns() if observers else 0
        if self.mesh is not None:
            out = self._on_mesh(arrays, self.mesh.platform)
        elif self.call is None:
            out = self._through_python(self.compiled, arrays)
            self.call = getattr(self.compiled, "_call", None) or self.compiled
        elif self.donate:
            kinds = [*map(type, arrays)]
            if kinds == self.kinds:
                out = self._overwriting(self.call, arrays)
            else:  # JAX looks them up in Python: Ctrl-C there would lose what was overwritten
                self.kinds = kinds
                out = self._through_python(self.call, arrays)
        else:
            out = self.call(*arrays)
        results = self._in_order(out)
        if start:
            self._tell(results, start)
        return results

    def _sent(self, scalars: Sequence[float | int]) -> Any:
        """The scalars as an array of the device."""
        before, self.before = self.before or scalars, tuple(scalars)

        def later(n: int) -> list[np.ndarray]:
            return [pack(self.fmt, row) for row in ahead.counting_on(self.fmt, before, scalars, n)]

        return self.ahead.array(pack(self.fmt, scalars), later)  # type: ignore[union-attr]

    def _ran_quickly(self, later: Later) -> None:
        """A run of a quick program: what it loses pays for the optimised one, which takes over once that is enough."""
        if later.is_paid():
            better = shielded(later.compiled)()
            self.later = None
            if better is not None:
                self.compiled, self.call = better, None
                self.bytes = size_of(better)
                self.proven = (
                    self.proven and len(self.steps) > 1
                )  # an operator by itself may run alone from now on

    def _through_python(self, call: Callable[..., Any], arrays: list[Any]) -> Any:
        """`_overwriting` where JAX's Python computes, which is not written to be interrupted: Ctrl-C waits."""
        first = self._overwriting
        # Python of the user's may take for ever.
        if not any(s.call.effect for s in self.steps):  # type: ignore[union-attr]
            first = shielded(first)
        return first(call, arrays)

    def _overwriting(self, call: Callable[..., Any], arrays: list[Any]) -> Any:
        """What the compiled function gives, which is in the list before any exception can come from outside."""
        given = (arrays.copy(),)
        arrays[:] = starmap(
            call, given
        )  # one instruction of Python: overwrite the inputs and keep the results
        return arrays[0]

    def _in_order(self, out: Sequence[Any]) -> Sequence[Any]:
        places = self.places
        return out if places is None else [out[i] for i in places]

    def left_in(self, arrays: list[Any]) -> Sequence[Any] | None:
        """The results, where `run` was broken off after it had them."""
        return (
            self._in_order(arrays[0])
            if len(arrays) == 1 and isinstance(arrays[0], (list, tuple))
            else None
        )

    def _on_mesh(self, arrays: list[Any], platform: str) -> Any:
        with in_flight.lock:
            in_flight.wait(platform)
            try:
                out = shielded(self._overwriting)(self.compiled, arrays)
            finally:
                if len(arrays) == 1 and isinstance(arrays[0], (list, tuple)):
                    in_flight.began(arrays[0], platform)
        return out

    def _tell(self, results: Sequence[Any], start: int) -> None:
        stop = time.time_ns()
        for o in observers:
            on_program = getattr(o, "on_program", None)
            if on_program is None:
                o.on_run(self.name, self.steps, start, stop)
            else:
                on_program(self, results, start, stop)


def compile_function(
    fn: Callable[..., Any], structs: Sequence[Any], **facts: Any
) -> tuple[Any, float]:
    """Lower and compile with all options; the compiled function and the seconds it took.

    Args:
      facts: as :func:`compile_in_tiers` takes them.
    """
    return compile_in_tiers(fn, structs, whole=True, **facts)[:2]


def compile_in_tiers(
    fn: Callable[..., Any],
    structs: Sequence[Any],
    *,
    donate: tuple[int, ...],
    device: Any,
    out_shardings: Any,
    name: str,
    reason: str,
    calls: Sequence[Any] = (),
    barriers: bool = False,
    whole: bool = False,
    paid: float = 0.0,
) -> tuple[Any, float, Later | None, price.Size]:
    """Lower and compile, quickly where that pays.

    The compiled function, the seconds it took, the better one, and what there is in it.

    Args:
      barriers: there are some.
      whole: not quickly.
      paid: what was lost so far without it, in microseconds.
    """
    start = time.time_ns()
    alone = type(device) is not MeshDevice
    with wide_types(), compiler.for_platform(compiler.platform_of(device), alone):
        how: Any = {"donate_argnums": donate, "keep_unused": True, "out_shardings": out_shardings}
        traced = jax.jit(fn, **how).trace(*structs)
        if compiler.platform_now() == "cpu" and alone:
            traced, drawn = _shortened(traced, structs, how, name)
            barriers = barriers or drawn
    lowered = ToLower(traced, structs, device, **how)
    jaxpr = traced.jaxpr.jaxpr
    options = compiler.options_for(device, calls)
    if compiler.platform_of(device) == "cpu":
        host_memory.keep()
        leave_width(options, jaxpr)
        if not host_memory.is_kept():
            in_blocks(options, jaxpr)
    else:
        compiler.merge(options, part_scans(compiler.platform_of(device), jaxpr))
    if barriers or keeps_apart(jaxpr):
        compiler.merge(options, keep_barriers(compiler.platform_of(device)))
    size = price.size_of(jaxpr)
    form: tiers.Form = "whole" if whole else tiers.begin(size, device, paid)
    prices = price.on(compiler.platform_of(device))
    more = {"quick": prices.options, "light": prices.light_options, "whole": None}[form]
    given, compiled = {**options, **(more or {})}, None
    # The optimised program may be there, of an earlier process; a few convolutions are not lowered to ask.
    if form != "whole" and (not size.convolutions or len(jaxpr.eqns) >= SHORT):
        compiled = load(lowered, options, traced.jaxpr)
    if compiled is not None:
        form, given = "whole", options
    later = tiers.better(form, name, device, lowered, options, traced.jaxpr, size, paid)
    if form != "whole" and size.convolutions:
        lowered = lowered.quickly()
    loaded = compiled is not None
    if not loaded:
        site = user_site()  # XLA is asked from within JAX

        def tell() -> None:
            tiers.say(
                name,
                size,
                prices.of(form, size),
                "compiling",
                site,
            )

        compiled, loaded = compile_or_load(lowered, given, traced.jaxpr, tell)
    if loaded:
        reason = f"{reason}; it was kept by an earlier process"
    kind = "loaded" if loaded else form
    stop = tiers.tell_compiled(name, device, compiled, given, reason, start, kind)
    return compiled, (stop - start) * 1e-9, later, size


def _shortened(
    traced: Any, structs: Sequence[Any], how: dict[str, Any], name: str
) -> tuple[Any, bool]:
    """The trace of a function with less for the compiler to do, and whether there are barriers in it."""
    blocks = False
    for shorter in (random_blocks.at_once, unrolled.rolled, row_sums.merged, results.made_once):
        made = shorter(traced.jaxpr)
        if made is not None:
            let_go(traced.jaxpr)
            fn = _of_the_same_results(made, traced)
            fn.__name__ = fn.__qualname__ = name
            traced, blocks = (
                jax.jit(fn, **how).trace(*structs),
                blocks or shorter is random_blocks.at_once,
            )
    return traced, blocks


def _of_the_same_results(made: Callable[..., list[Any]], traced: Any) -> Any:
    structure = jax.tree_util.tree_structure(traced.out_info)

    def again(*args: Any) -> Any:
        # JAX takes the result of a layout constraint (`cpu_product.materialize`) for one of any layout, which it does
        # not let have a donated input's place.
        return jax.tree_util.tree_unflatten(
            structure, [jnp.array(x, copy=True) for x in made(*args)]
        )

    return again
