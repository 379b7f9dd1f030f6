"""A call's function as a jaxpr by JAX's own rules, without the layers that JAX has around them.

`jax.make_jaxpr` and, in it, `jax.vjp` look at signatures and trees of arguments, ask caches and trace each primitive's
derivative apart: for a call of a few primitives that is most of their time. Here primitives enter one trace. For
gradients they enter it with tangents, which are then followed backwards by JAX's rules of transposes; what was only
there for the tangents is left out. Functions that hold others (loops, branches, checkpoints) under a tangent go JAX's
way, and so does everything where a JAX has not the names that are used here.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from ..._jax_private import find
from ...scopes import scope, undone

_now = threading.local()  # .frame: what is being traced in this thread


class Otherwise(Exception):
    """This function's gradient is JAX's to trace."""


class _Jax(NamedTuple):
    core: Any
    ad: Any
    pe: Any
    source: Any
    nowhere: Any


class _Frame(NamedTuple):
    """A trace under way, and the variables that depend on tangents."""

    jax: _Jax
    trace: Any
    tangents: set[Any]


class Closed(NamedTuple):
    """A jaxpr and its constants, under the names that JAX has for them."""

    jaxpr: Any
    consts: list[Any]

    @property
    def out_avals(self) -> list[Any]:
        return [v.aval for v in self.jaxpr.outvars]


@functools.cache
def _parts() -> _Jax | None:
    """JAX's inner modules, if they are as they are known here."""
    core, ad, pe, source, info = map(find, ("core", "ad", "partial_eval", "source_info", "lu"))
    try:
        made = _Jax(core, ad, pe, source, info.DebugInfo("call", "call", None, None))
        found = _in_one(made, _probe, [jax.ShapeDtypeStruct((2,), "float32")] * 2)
        if (len(found.jaxpr.invars), len(found.jaxpr.constvars), len(found.consts)) != (2, 1, 1):
            return None
    except Exception:  # another JAX
        return None
    return made


def _probe(x: Any, g: Any) -> Any:
    frame = _now.frame
    out, pull = _pulled(
        frame, lambda y: jax.lax.sin(y) * np.array([2, 3], np.float32), (x,), (True,)
    )
    return (out, *pull(g))


class _Flag:
    """`jax_disable_jit` as loops see it."""

    def __init__(self, flag: Any):
        self._flag = flag

    @property
    def value(self) -> bool:
        return bool(self._flag.value) and not getattr(_now, "inline", False)


class _Config:
    """JAX's configuration as its module of loops sees it: a trace of ours without ``jit`` does not unroll them."""

    def __init__(self, config: Any):
        self._config = config
        self.disable_jit = _Flag(config.disable_jit)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._config, name)


@functools.cache
def keeps_loops() -> bool:
    """Whether loops stay loops where functions are traced without ``jit``; else JAX would unroll them."""
    loops = find("loops")
    try:
        loops.config = _Config(loops.config)
        with inlined():
            made = jax.make_jaxpr(lambda x: jax.lax.scan(lambda c, v: (c + v, c), 0.0, x)[0])(
                jax.ShapeDtypeStruct((3,), "float32")
            )
        return [e.primitive.name for e in made.eqns] == ["scan"]
    except Exception:  # another JAX
        return False


@scope
def inlined() -> Iterator[None]:
    """Functions under ``jit`` are traced where they are called, which is quicker than each apart; loops stay loops."""
    before = getattr(_now, "inline", False)

    def undo() -> None:
        _now.inline = before

    _now.inline = True
    with jax.disable_jit():
        yield from undone(undo)


def run_inlined(fn: Callable[..., Any], arrays: Sequence[Any], loops: bool) -> Any:
    """A function as it is traced: without ``jit`` where that leaves the loops in it, if there are some, as they are."""
    if loops and not keeps_loops():
        return fn(*arrays)
    with inlined():
        return fn(*arrays)


def jaxpr_of(fn: Callable[..., Any], structs: Sequence[Any]) -> Any:
    """The jaxpr of a function of such arrays, as `jax.make_jaxpr` gives it."""
    parts = None if getattr(_now, "frame", None) is not None else _parts()
    if parts is not None:
        try:
            return _in_one(parts, fn, structs)
        except Otherwise:
            pass
    return jax.make_jaxpr(fn)(*structs)


def apart(fn: Callable[..., Any], structs: Sequence[Any]) -> Any:
    """:func:`jaxpr_of` of a function that holds nothing of what is being traced around it."""
    before = getattr(_now, "frame", None)
    _now.frame = None
    try:
        return jaxpr_of(fn, structs)
    finally:
        _now.frame = before


def shapes_of(
    fn: Callable[..., Any], structs: Sequence[Any], *, quick: bool
) -> tuple[Sequence[Any], bool]:
    """What a function of such arrays gives, and whether that is a tuple; where not ``quick``, by `jax.eval_shape`."""
    many = []

    def noted(*arrays: Any) -> Any:
        out = fn(*arrays)
        many.append(isinstance(out, (tuple, list)))
        return out

    if quick:
        return jaxpr_of(noted, structs).out_avals, many[-1]
    out = jax.eval_shape(noted, *structs)
    return out if many[-1] else (out,), many[-1]


def _in_one(parts: _Jax, fn: Callable[..., Any], structs: Sequence[Any]) -> Closed:
    core, _, pe, source, nowhere = parts
    trace = pe.DynamicJaxprTrace(nowhere, parent_trace=core.trace_ctx.trace)
    frame = _Frame(parts, trace, set())
    with source.reset_name_stack():
        here = source.current()
        given = [
            trace.new_arg(core.ShapedArray(s.shape, s.dtype, weak_type=s.weak_type), here)
            for s in structs
        ]
        _now.frame = frame
        try:
            with core.set_current_trace(trace):
                found = jax.tree.map(_array, fn(*given))
        finally:
            _now.frame = None
        outs = [trace.to_jaxpr_tracer(x, here) for x in jax.tree.leaves(found)]
        del trace.frame.invars[len(structs) :]  # tangents
        jaxpr, consts = trace.frame.to_jaxpr(trace, outs, nowhere, here)
    if hasattr(jaxpr, "with_consts"):  # from JAX 0.12 on a jaxpr has them itself
        jaxpr = jaxpr.with_consts(consts)
    if frame.tangents:
        jaxpr = jaxpr.replace(eqns=[e for e in jaxpr.eqns if frame.tangents.isdisjoint(e.outvars)])
    trace.invalidate()
    return Closed(jaxpr, consts)


def _array(x: Any) -> Any:
    """A result as one of JAX's; numbers and NumPy's arrays, too."""
    return x if isinstance(x, jax.Array) else jax.numpy.asarray(x)


def pullback(
    fn: Callable[..., Any], inputs: Sequence[Any], wants: Sequence[bool]
) -> tuple[Any, Any] | None:
    """A function's result and its pullback by the wanted inputs, inside of `jaxpr_of`; None elsewhere.

    Raises:
      Otherwise: to `jaxpr_of`, which lets JAX trace the whole.
    """
    frame: _Frame | None = getattr(_now, "frame", None)
    if frame is None or frame.jax.core.trace_ctx.trace is not frame.trace:
        return None
    return _pulled(frame, fn, inputs, wants)


def _pulled(
    frame: _Frame, fn: Callable[..., Any], inputs: Sequence[Any], wants: Sequence[bool]
) -> tuple[Any, Any]:
    (core, ad, _, source, _), trace = frame.jax, frame.trace
    outer = ad.JVPTrace(trace, core.TraceTag())
    here = source.current()
    given, tangents = list(inputs), []
    for k, w in enumerate(wants):
        if w:
            tangent = trace.new_arg(core.typeof(inputs[k]).to_tangent_aval(), here)
            frame.tangents.add(tangent.val)
            tangents.append(tangent)
            given[k] = ad.JVPTracer(outer, inputs[k], tangent)
    start = len(trace.frame.tracing_eqns)
    with core.set_current_trace(outer):
        found = fn(*given)
    leaves, tree = jax.tree.flatten(found)
    whole: Any = tree
    pairs = [outer.to_primal_tangent_pair(x) for x in leaves]
    linear = _linear(frame, trace.frame.tracing_eqns[start:])

    def pull(cotangents: Any) -> tuple[Any, ...]:
        sums: dict[Any, Any] = {}

        def total(t: Any) -> Any:
            if t.val not in sums:
                sums[t.val] = ad.ValAccum(t.aval.to_ct_aval())
            return sums[t.val]

        for (_, tangent), g in zip(pairs, jax.tree.leaves(cotangents), strict=True):
            if type(tangent) is not ad.Zero:
                t = trace.to_jaxpr_tracer(tangent, here)
                if type(t.val) is core.Var:  # a constant tangent, as of no numbers at all, is 0
                    total(t).accum(g)
        for e in reversed(linear):
            arrived = [sums.get(v) for v in e.outvars]
            if any(a is not None and type(a.val) is not ad.Zero for a in arrived):
                _transpose(frame, e, arrived, total)
        return tuple([ad.instantiate_zeros(total(t).freeze()) for t in tangents])

    return whole.unflatten([p for p, _ in pairs]), pull


def _linear(frame: _Frame, eqns: Sequence[Any]) -> list[Any]:
    """The equations that depend on tangents, whose results do from now on."""
    core, tangents = frame.jax.core, frame.tangents
    linear = []
    for e in eqns:
        if any(type(t.val) is core.Var and t.val in tangents for t in e.in_tracers):
            if e.primitive.call_primitive or any(map(_holds_jaxpr, e.params.values())):
                raise Otherwise
            linear.append(e)
            tangents.update(e.outvars)
    return linear


def _holds_jaxpr(value: Any) -> bool:
    parts = value if isinstance(value, (tuple, list)) else (value,)
    return any(hasattr(getattr(p, "jaxpr", p), "eqns") for p in parts)


def _transpose(frame: _Frame, e: Any, arrived: Sequence[Any], total: Callable[[Any], Any]) -> None:
    """Let an equation's operands have their part of the cotangents that its results have got."""
    core, ad, *_ = frame.jax
    cts: Any = [
        ad.Zero(v.aval.to_ct_aval()) if a is None else a.freeze()
        for v, a in zip(e.outvars, arrived, strict=True)
    ]
    if not e.primitive.multiple_results:
        (cts,) = cts
    args = [
        total(t) if type(t.val) is core.Var and t.val in frame.tangents else t for t in e.in_tracers
    ]
    rule = ad.fancy_transposes.get(e.primitive)
    if rule is not None:
        rule(cts, *args, **e.params)
        return
    rule = ad.primitive_transposes.get(e.primitive)
    if rule is None:
        raise Otherwise
    of = [ad.UndefinedPrimal(a.aval) if type(a) is ad.ValAccum else a for a in args]
    for a, ct in zip(args, rule(cts, *of, **e.params), strict=True):
        if type(a) is ad.ValAccum:
            a.accum(ct)
