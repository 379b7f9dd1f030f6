"""A few whole numbers, computed by NumPy where they are instead of by a program.

A recorded segment of such calls is traced once and becomes a function of NumPy's (`numpy_code.py`), so dtypes are those
of the program that is not compiled. Only primitives whose results are exact are taken here (of floats those that do
not round): what is computed does not depend on who computes it.

On accelerators alone, where arrays stay with the host for it and nothing is sent, launched or waited for. On CPUs
`cold` runs such segments: 105 sequences of small integer calls took 131 ms the first time with plans of their own and
50 without, and 80 microseconds a round either way; the jobs of `make bench-jobs` had none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ... import settings
from ..calls.aval import Aval
from ..calls.call import SCALARS
from ..calls.segment import Step
from ..calls.value import place
from ..compile import compiler
from ..compile.compiler import wide_types
from ..compile.program import run_steps
from ..graph.primitives import EXACT, ROUNDED_TOGETHER
from ..hooks import operator_wrappers, trace_watchers
from ..interpret.numpy_code import Code
from ..interpret.numpy_control import body_of
from ..interpret.numpy_primitives import TABLE
from ..interpret.numpy_rules import NotHere, Op, Rule, dtype_in, dtype_out
from ..stats import stats
from .interrupts import shielded

#: Elements of an array that may be computed so, as in MegEngine: it has room for the lengths of a shape.
SMALL = 7
#: Longer segments are compiled without a look.
LONGEST = 32


#: Where arrays are in the host's memory anyway.
AT_HOME: tuple[str, ...] = ("cpu",)


def stays(array: np.ndarray, device: Any) -> bool:
    """Whether an array from the host waits there for its first program, because NumPy may compute with it."""
    small = array.size <= SMALL and array.dtype.kind in "iub" and array.itemsize < 8
    return small and compiler.platform_of(device) not in AT_HOME and _on()


def _divided(rule: Rule) -> Rule:
    """A division of whole numbers, where there is a quotient: for others accelerators have answers of their own."""

    def careful(eqn: Any) -> Op:
        op = rule(eqn)
        low = np.iinfo(dtype_in(eqn)).min

        def divide(x: Any, y: Any) -> Any:
            if (np.asarray(y) == 0).any() or (low and ((x == low) & (np.asarray(y) == -1)).any()):
                raise NotHere("a division without a quotient")
            return op.fn(x, y)

        return op._replace(fn=divide)

    return careful


def _convert(eqn: Any) -> Op:
    op, old, new = TABLE["convert_element_type"](eqn), dtype_in(eqn), dtype_out(eqn)
    if old.kind != "f" or new.kind not in "iu":
        return op
    info = np.iinfo(new)

    def convert(x: Any) -> Any:
        if not ((x > info.min) & (x < info.max)).all():  # NaN, too
            raise NotHere("a number out of range")
        return op.fn(x)

    return op._replace(fn=convert)


#: What NumPy computes to the last bit, as every device does.
_RULES: dict[str, Rule] = {name: TABLE[name] for name in EXACT} | {
    "convert_element_type": _convert,
    "div": _divided(TABLE["div"]),
    "rem": _divided(TABLE["rem"]),
}


def _fits(a: Any) -> bool:
    """Whole numbers up to SMALL; of others one, which no order of summing can change."""
    dtype, size = a.dtype, math.prod(a.shape)
    if getattr(a, "memory", None) is not None or not isinstance(dtype, np.dtype):
        return False
    return size <= SMALL if dtype.kind in "iub" else size == 1 and dtype in (np.float32, np.float64)


def _known(jaxpr: Any) -> bool:
    """Whether NumPy computes this to the last bit."""
    for eqn in jaxpr.eqns:
        name, body = eqn.primitive.name, body_of(eqn)
        if body is not None:
            if not _known(getattr(body, "jaxpr", body)):
                return False
        elif name not in EXACT or (
            name in ROUNDED_TOGETHER and eqn.outvars[0].aval.dtype.kind == "f"
        ):
            return False
        if not all(_fits(v.aval) for v in (*eqn.invars, *eqn.outvars)):
            return False
    return True


class HostPlan:
    """A segment as NumPy computes it; made by :func:`plan`."""

    __slots__ = ("_code", "_outs", "fmt")

    def __init__(self, code: Code, outs: Sequence[Aval], fmt: str):
        self._code = code
        self._outs = outs
        self.fmt = fmt

    def run(
        self, arrays: Sequence[Any], scalars: Sequence[Any], live: Sequence[int]
    ) -> list[np.ndarray] | None:
        """The live results, or None: an input is not in the host's memory yet, or the program must decide."""
        given = []
        for a in arrays:
            if type(a) is not np.ndarray:
                if compiler.platform_of(a.sharding) != "cpu" or not a.is_ready():
                    return None
                a = np.asarray(a)
            given.append(a)
        given += [
            np.asarray(s, SCALARS[kind].dtype) for s, kind in zip(scalars, self.fmt, strict=True)
        ]
        try:
            with np.errstate(all="ignore"):
                env = self._code.fn((), *given)
        except NotHere:
            return None
        # Copies: what is broadcast or sliced shares memory that is no array of its own.
        return [np.array(env[k], self._outs[k].dtype, order="C") for k in live]


@shielded
def plan(step: Step, device: Any) -> HostPlan | None:
    """How NumPy computes the segment that ends with this step; None where a program does."""
    if step.effects or step.depth > LONGEST or not isinstance(device, jax.Device):
        return None
    if operator_wrappers or trace_watchers:
        return None
    path = step.path()
    outs = [a for s in path for a in s.avals]
    avals = [a for s in path for a in s.new_ins]
    if any(s.call.graph is not None for s in path) or not all(map(_fits, (*outs, *avals))):  # type: ignore[union-attr]
        return None
    structs = [a.struct for a in avals] + [SCALARS[kind] for kind in step.fmt]

    def run(*arrays: Any) -> list[Any]:
        env = run_steps(path, arrays[: len(avals)], arrays[len(avals) :])
        return [env[k] for k in range(step.n_outs)]

    with wide_types(), compiler.for_platform(compiler.platform_of(device)):
        jaxpr = jax.make_jaxpr(run)(*structs)
    if not _known(jaxpr.jaxpr):
        return None
    try:
        return HostPlan(Code(jaxpr, rules=_RULES), outs, step.fmt)
    except NotHere:
        return None


_on = settings.snapshot("engine.host_compute")


def computed_here(
    step: Step, arrays: Sequence[Any], scalars: Sequence[Any], live: Sequence[int], device: Any
) -> list[Any] | None:
    """What is live of a segment, by NumPy; None where a program must compute it (`engine.host_compute`)."""
    if not _on() or compiler.platform_of(device) in AT_HOME:
        return None
    if step.host is None:
        step.host = plan(step, device) or False
    results = step.host.run(arrays, scalars, live) if step.host else None
    if results is None:
        return None
    stats.on_host += 1
    # Programs take NumPy's 64-bit numbers in JAX's 64-bit mode only: these travel now.
    return [r if r.itemsize < 8 else place(r, device) for r in results]
