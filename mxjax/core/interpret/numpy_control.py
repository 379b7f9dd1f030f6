"""Primitives of JAX that hold others: those inlined, and loops and branches as NumPy runs them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from ..compile.compiler import wide_types
from ..graph.primitives import AGAIN, INLINED
from ..graph.tracing import apart, run_inlined
from .dims import symbolic_in
from .numpy_rules import NotHere, Op

#: Makes ``fn(s, *operands) -> results`` of a closed jaxpr.
Inner = Callable[[Any], Callable[..., Any]]


class _All:
    """Stands among dimensions for all sizes, which bodies of loops take."""


ALL = _All()

BODIES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(INLINED, ("jaxpr", "call_jaxpr")),
    **dict.fromkeys(AGAIN, ("jaxpr",)),
    "custom_jvp_call": ("call_jaxpr", "fun_jaxpr"),
    "custom_vjp_call": ("call_jaxpr", "fun_jaxpr"),
    "custom_vjp_call_jaxpr": ("fun_jaxpr", "call_jaxpr"),
}


#: Primitives of the table's own, by name: functions of the operands, and of the parameters by name, in JAX's.
TERMS: dict[str, Callable[..., Any]] = {}


def body_of(eqn: Any, tracing: Callable[[], Any] = contextlib.nullcontext) -> Any:
    """The jaxpr that an equation is nothing but a call of, or None; ``tracing``: entered to trace one."""
    if eqn.primitive.name in TERMS:
        with tracing(), wide_types():
            return in_terms(eqn.primitive.name, [v.aval for v in eqn.invars], eqn.params)
    for name in BODIES.get(eqn.primitive.name, ()):
        if name in eqn.params:
            return eqn.params[name]
    return None


def in_terms(name: str, avals: Sequence[Any], params: dict[str, Any]) -> Any:
    """The jaxpr of a primitive of the table's own for operands like these.

    One trace serves its shapes, its run by NumPy and the bytes that are kept of it.
    """
    of = tuple([(a.shape, a.dtype) for a in avals])
    make = _traced if symbolic_in([shape for shape, _ in of]) else _traced_once
    wide = jax.config.jax_enable_x64  # type: ignore[attr-defined]
    return make(name, of, tuple(params.items()), wide)


def _traced(name: str, of: tuple[Any, ...], params: tuple[Any, ...], _wide: bool) -> Any:
    fn = functools.partial(TERMS[name], **dict(params))
    structs = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in of]
    return apart(lambda *operands: run_inlined(fn, operands, True), structs)


_traced_once = functools.lru_cache(512)(_traced)


def _cond(eqn: Any, inner: Inner) -> Op:
    branches = [inner(b) for b in eqn.params["branches"]]
    last = len(branches) - 1

    def cond(which: Any, *rest: Any) -> Any:
        return branches[min(max(int(which), 0), last)](rest[-1], *rest[:-1])

    return Op(cond, (ALL,), many=True)


def _asked(eqn: Any, inner: Inner) -> Op:
    """A function of the host's, which may refuse its numbers (`failures.holding`)."""
    fn = eqn.params["callback"]
    return Op(lambda *xs: fn(*xs), many=True)


def _while(eqn: Any, inner: Inner) -> Op:
    p = eqn.params
    test, step = inner(p["cond_jaxpr"]), inner(p["body_jaxpr"])
    a, b = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
    if len(p["cond_jaxpr"].out_avals[0].shape):
        return Op(_many_loops(test, step, a, b), (ALL,), many=True)

    def loop(*rest: Any) -> Any:
        s, of_test, of_step, carry = rest[-1], rest[:a], rest[a:b], rest[b:-1]
        while test(s, *of_test, *carry)[0]:
            carry = step(s, *of_step, *carry)
        return carry

    return Op(loop, (ALL,), many=True)


def _many_loops(test: Any, step: Any, a: int, b: int) -> Callable[..., Any]:
    """Loops of which each ends by itself, along the first axes of what they carry: as `jax.vmap` makes them."""

    def loops(*rest: Any) -> Any:
        s, of_test, of_step, carry = rest[-1], rest[:a], rest[a:b], rest[b:-1]
        while (on := np.asarray(test(s, *of_test, *carry)[0])).any():
            made = step(s, *of_step, *carry)
            if not on.all():  # those that have ended keep what they had
                made = tuple(
                    np.where(on.reshape(on.shape + (1,) * (np.ndim(x) - on.ndim)), x, old)
                    for x, old in zip(made, carry, strict=True)
                )
            carry = made
        return carry

    return loops


def of_scan(params: dict[str, Any]) -> dict[str, Any]:
    """What is looked at of a loop over rows, by the names of JAX before 0.12."""
    if "num_consts" not in params:
        consts, carry = map(len, params["ft_in"].unpack()[:2])
        params = {**params, "num_consts": consts, "num_carry": carry}
    return {k: params[k] for k in ("jaxpr", "length", "reverse", "num_consts", "num_carry")}


class Loop(NamedTuple):
    """What a loop over rows is made of, at ``fn.loop``: a step (`Body` at ``step.body``), which takes constants,
    what is carried, and rows."""

    step: Callable[..., Any]
    constants: int
    carried: int
    reverse: bool


def _scan(eqn: Any, inner: Inner) -> Op:
    p = of_scan(eqn.params)
    step = inner(p["jaxpr"])
    a, n_carry = p["num_consts"], p["num_carry"]
    reverse, b = p["reverse"], a + n_carry
    ys = eqn.outvars[n_carry:]
    dtypes = [v.aval.dtype for v in ys]

    def scan(*rest: Any) -> Any:
        s, shapes, length = rest[-1], rest[-2], rest[-3]
        consts, carry, xs = rest[:a], rest[a:b], rest[b:-3]
        made = [np.empty(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
        for k in range(length - 1, -1, -1) if reverse else range(length):
            outs = step(s, *consts, *carry, *[x[k] for x in xs])
            carry = outs[:n_carry]
            for y, out in zip(made, outs[n_carry:], strict=True):
                y[k] = out
        return (*carry, *made)

    scan.loop = Loop(step, a, n_carry, reverse)  # type: ignore[attr-defined]
    return Op(scan, (p["length"], tuple(tuple(v.aval.shape) for v in ys), ALL), many=True)


def _platform_index(eqn: Any, inner: Inner) -> Op:
    for k, names in enumerate(eqn.params["platforms"]):
        if names is None or "cpu" in names:
            return Op(functools.partial(np.int32, k))
    raise NotHere("there is no branch for CPUs")


CONTROL: dict[str, Callable[[Any, Inner], Op]] = {
    "cond": _cond, "pure_callback": _asked, "platform_index": _platform_index, "scan": _scan, "while": _while,
}  # fmt: skip
