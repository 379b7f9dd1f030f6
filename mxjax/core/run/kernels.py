"""What there is in a program for a compiler to make code of: equations of each kind, and the kernels they become.

XLA:CPU merges element-wise equations, and those that move numbers, into what uses their results. A kernel is left for
each result that somebody reads: the caller, a library, a loop. Kernels take the compiler's time, far more than the
equations in them, and two that are alike are compiled once. So they are counted here: in a walk from the last equation
to the first what is read, in one from the first to the last which kernels are alike. That is an estimate; XLA looks at
more than this.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..compile.cpu_product import is_faster_turned, is_turned_before
from ..graph.jaxprs import bodies
from ..graph.primitives import (
    AGAIN,
    CONVOLUTIONS,
    CUSTOM,
    INLINED,
    KINDS,
    LOOPS,
    MOVING,
    ONCE_EACH,
    PASSED,
    REDUCING,
)
from .constants import SUMMED

#: By the kind of the equation that gives its result; of other kinds each equation is a library's call, or a loop.
KERNELS = {
    "arithmetic": "kernel", "function": "kernel", "moving": "kernel", "turn": "turning kernel",
    "sum": "summing kernel", "reduction": "reducing kernel",
}  # fmt: skip
#: These end a kernel, whoever uses what they give.
_ENDS = {"reduction", "sum"}
_CALLS = INLINED | CUSTOM | AGAIN
_FILLING = {"broadcast_in_dim", "iota"}
#: Which form of a convolution's plan (`lowering/convolution_plan.Plan`) each of its passes has.
_PASSES = {name: k for k, name in enumerate(CONVOLUTIONS[1:])}


class Code(NamedTuple):
    """How many of each kind there are, and how many of them are not alike.

    ``open``, ``open_unlike``: the same of kernels of which nobody but the caller reads what they give.
    """

    each: dict[str, int]
    unlike: dict[str, int]
    open: dict[str, int]
    open_unlike: dict[str, int]


class _Eqn(NamedTuple):
    """An equation: the numbers of its operands (None: an input or a constant) and of its results."""

    eqn: Any
    name: str
    ins: tuple[int | None, ...]
    outs: tuple[int, ...]


class _Counts:
    """Counts of all bodies of a program, and what there was."""

    def __init__(self) -> None:
        self.each: collections.Counter[str] = collections.Counter()
        self.unlike: collections.Counter[str] = collections.Counter()
        self.open: collections.Counter[str] = collections.Counter()
        self.open_unlike: collections.Counter[str] = collections.Counter()
        self._seen: set[tuple[str, int]] = set()
        self._likes: dict[
            int, tuple[int, int, Any]
        ] = {}  # by the avals' numbers, which are held here

    def shape(self, v: Any) -> int:
        """The same for arrays of one shape."""
        return self._alike(v.aval)[0]

    def like(self, v: Any) -> int:
        """The same for arrays of one shape and dtype, and for equal numbers."""
        alike = self._alike(v.aval)[1]
        return hash((alike, str(v.val))) if hasattr(v, "val") else alike

    def _alike(self, aval: Any) -> tuple[int, int, Any]:
        found = self._likes.get(id(aval))
        if found is None:
            shape = hash(
                tuple([n if type(n) is int else hash(n) for n in getattr(aval, "shape", ())])
            )
            dtype = getattr(aval, "dtype", None)
            found = self._likes[id(aval)] = shape, hash((shape, dtype)), aval
        return found

    def add(self, kind: str, what: int | None, is_open: bool = False) -> None:
        """Count a kernel or call that computes this (None: what no other does)."""
        if what is None:
            what = -1 - len(self._seen)
        new = (kind, what) not in self._seen
        self._seen.add((kind, what))
        self.each[kind] += 1
        self.unlike[kind] += new
        if is_open:
            self.open[kind] += 1
            self.open_unlike[kind] += new

    def add_equation(self, kind: str, times: int = 1) -> None:
        """Count an equation within a kernel."""
        self.each[kind] += times
        self.unlike[kind] += times


def code_of(jaxpr: Any) -> Code:
    """What a jaxpr's program consists of, bodies of calls and loops included.

    >>> import jax
    >>> code_of(jax.make_jaxpr(lambda x: (x * 2 + 1, x * 3 + 1))(jax.numpy.zeros(10)).jaxpr).each
    {'arithmetic': 4, 'kernel': 2}
    """
    counts = _Counts()
    for v in jaxpr.constvars:
        counts.add_equation("constant", math.prod([n for n in v.aval.shape if isinstance(n, int)]))
    _Body(jaxpr, counts, is_whole=True).count()
    return Code(dict(counts.each), dict(counts.unlike), dict(counts.open), dict(counts.open_unlike))


class _Body:
    """The equations of a program, or of a loop's body."""

    def __init__(self, jaxpr: Any, counts: _Counts, is_whole: bool = False):
        self._counts = counts
        self._is_whole = is_whole
        self._eqns: list[_Eqn] = []
        self._made: list[str] = []  # by which primitive each number was
        numbers: dict[Any, int | None] = {}
        self._flat(jaxpr, numbers)
        ends = {numbers.get(v) for v in jaxpr.outvars if not hasattr(v, "val")}
        # What is read at all; by the caller; by a library, or a loop's next round; by a product; and several times, for
        # each number that is made of it.
        self._used = set(ends)
        self._given = ends
        self._written: set[int | None] = set() if is_whole else set(ends)
        self._multiplied: set[int | None] = set()
        self._again: set[int | None] = set()
        self._kernels: dict[int | None, str] = {}  # by which kind of kernel a number is written
        self._open: set[int | None] = set()  # those that the caller alone reads

    def _flat(self, jaxpr: Any, numbers: dict[Any, int | None]) -> None:
        """Append a jaxpr's equations, those of calls in their place."""
        for e in jaxpr.eqns:
            name = e.primitive.name
            ins = tuple([None if hasattr(v, "val") else numbers.get(v) for v in e.invars])
            body = next(bodies(e.params), None) if name in _CALLS else None
            if body is not None:
                of = dict(zip(reversed(body.invars), reversed(ins), strict=False))
                self._flat(body, of)
                for v, r in zip(e.outvars, body.outvars, strict=False):
                    numbers[v] = None if hasattr(r, "val") else of.get(r)
                continue
            outs = tuple(range(len(self._made), len(self._made) + len(e.outvars)))
            self._made += [name] * len(outs)
            numbers.update(zip(e.outvars, outs, strict=True))
            self._eqns.append(_Eqn(e, name, ins, outs))

    def count(self) -> None:
        needed: list[tuple[_Eqn, str]] = []
        for eqn in reversed(self._eqns):
            if self._used.isdisjoint(eqn.outs):
                continue
            self._used.update(eqn.ins)
            if self._passes(eqn):
                for readers in (self._given, self._written, self._multiplied, self._again):
                    if eqn.outs[0] in readers:
                        readers.add(eqn.ins[0])
                needed.append((eqn, ""))
                continue
            kind = kind_of(eqn.name, eqn.eqn)
            needed.append((eqn, kind))
            kernel = KERNELS.get(kind)
            if kernel is None:
                self._apart(eqn)
                continue
            self._counts.add_equation(kind)
            if kind in _ENDS:
                self._kernels[eqn.outs[0]] = kernel
            else:
                self._merged(eqn, kernel)
        apart = [kind for _, kind in needed if kind and kind not in KERNELS]
        if len(self._kernels) + len(apart) > 1:
            self._compare(needed[::-1])
            return
        for k, kernel in self._kernels.items():
            self._counts.add(kernel, None, k in self._open)
        for kind in apart:
            self._counts.add(kind, None)

    def _passes(self, eqn: _Eqn) -> bool:
        """Whether there is nothing to compute: a sum over one number, a transpose that is part of a product."""
        if eqn.name in PASSED:
            return True
        if eqn.name in REDUCING:
            return _size(eqn.eqn.invars[0]) == _size(eqn.eqn.outvars[0])
        if eqn.name in ("div", "mul"):  # means of one number
            number = getattr(eqn.eqn.invars[1], "val", None)
            return number is not None and np.ndim(number) == 0 and number == 1
        if eqn.name != "transpose":
            return False
        order = eqn.eqn.params["permutation"]
        n = len(order)
        of = eqn.ins[0]
        return tuple(order) == (*range(n - 2), n - 1, n - 2) and (
            eqn.outs[0] in self._multiplied
            or (n > 2 and of is not None and self._made[of] == "dot_general")
        )

    def _apart(self, eqn: _Eqn) -> None:
        """A library's call or a loop: what it takes is written to memory."""
        self._written.update(eqn.ins)
        if eqn.name == "dot_general":
            self._multiplied.update(eqn.ins)
            _, batch = eqn.eqn.params["dimension_numbers"]
            for axes, v in zip(batch, eqn.eqn.invars, strict=True):
                if tuple(axes) != tuple(range(len(axes))):  # it is turned first
                    self._counts.add("turning kernel", self._counts.like(v))
            if (what := _turned(eqn.eqn)) is not None:
                self._counts.add("turning kernel", self._counts.like(what))
        elif eqn.name in LOOPS or eqn.name == "cond":
            for body in bodies(eqn.eqn.params):
                _Body(body, self._counts).count()

    def _merged(self, eqn: _Eqn, kernel: str) -> None:
        """One that is merged with those that use its results, if nobody else reads these."""
        outs, again = eqn.outs, not self._again.isdisjoint(eqn.outs)
        # A quotient by a constant is a product.
        costly = again and eqn.name in ONCE_EACH and not hasattr(eqn.eqn.invars[-1], "val")
        read = [k for k in outs if k in self._written or (costly and k in self._again)]
        given = () if read else [k for k in outs if k in self._given]
        if read or given:
            if kernel == "kernel":
                kernel = _kind_of_kernel(eqn)
            self._kernels.update(dict.fromkeys(read or given, kernel))
        if self._is_whole:
            self._open.update(given)
        if again and not read:
            self._again.update(eqn.ins)
        if eqn.name == "broadcast_in_dim":
            self._again.update(eqn.ins)
        elif eqn.name not in MOVING:
            shape = self._counts.shape
            whole = shape(eqn.eqn.outvars[0])
            for k, v in zip(eqn.ins, eqn.eqn.invars, strict=True):
                if k is not None and shape(v) != whole:
                    self._again.add(k)

    def _compare(self, needed: Sequence[tuple[_Eqn, str]]) -> None:
        """Count kernels and calls, in their order: alike are those that compute the same of arrays that are alike."""
        of: dict[int | None, int] = {}  # what numbers are that are not written
        like = self._counts.like
        for eqn, kind in needed:
            if not kind:
                if eqn.ins[0] in of:
                    of[eqn.outs[0]] = of[eqn.ins[0]]
                continue
            operands = zip(eqn.ins, eqn.eqn.invars, strict=True)
            made = [of[k] if k in of else like(v) for k, v in operands]
            what = hash((eqn.name, *made, *[like(v) for v in eqn.eqn.outvars]))
            if kind not in KERNELS:
                self._counts.add(kind, what)
                continue
            for place, k in enumerate(eqn.outs):
                kernel = self._kernels.get(k)
                if kernel is None:
                    of[k] = what
                else:
                    self._counts.add(kernel, what + place, k in self._open)


def _kind_of_kernel(eqn: _Eqn) -> str:
    """The kind of the kernel that an element-wise equation, or one that moves numbers, would end."""
    fills = eqn.name in _FILLING and all(hasattr(v, "val") for v in eqn.eqn.invars)
    if all(_size(v) == 1 for v in eqn.eqn.outvars):
        return "filled number" if fills else "kernel of one number"
    return "filling kernel" if fills else "parting kernel" if len(eqn.outs) > 1 else "kernel"


def _size(v: Any) -> int:
    """How many numbers there are; a length that is left open counts as many."""
    return math.prod([n if isinstance(n, int) else SUMMED for n in getattr(v.aval, "shape", ())])


def kind_of(name: str, eqn: Any) -> str:
    """The kind of an equation, as the table of prices has it (`constants.CPU_CODE`)."""
    kind = KINDS.get(name, "arithmetic")
    if name in CONVOLUTIONS:
        plan: Sequence[str] = eqn.params.get("plan", ("lax",) * 3)
        return f"convolution: {plan[_PASSES.get(name, 0)]}"
    if kind == "sum":
        x = eqn.invars[0]
        return kind if str(x.aval.dtype) == "float32" and _size(x) >= SUMMED else "reduction"
    if name == "dot_general" and _is_of_vector(eqn):
        return "product of a vector"
    if name in ("concatenate", "stack"):
        at = eqn.params.get("dimension", eqn.params.get("axis"))
        if all(n == 1 for n in eqn.outvars[0].aval.shape[:at] if isinstance(n, int)):
            return "joined"
    return kind


def _turned(eqn: Any) -> Any:
    """What a product over rows has turned, before or afterwards (`cpu_product`); None: nothing."""
    a, b = (v.aval for v in eqn.invars)
    known = len(a.shape) == len(b.shape) == 2 and all(type(n) is int for n in (*a.shape, *b.shape))
    (left, right), (batch, _) = eqn.params["dimension_numbers"]
    if not known or batch or tuple(left) != (0,) or tuple(right) != (0,):
        return None
    if is_turned_before(a, b):
        return eqn.invars[0]
    return eqn.outvars[0] if is_faster_turned(a, b) else None


def _is_of_vector(eqn: Any) -> bool:
    """Whether one of a product's operands is a vector, for which there is no library."""
    (of_left, of_right), (batch, _) = eqn.params["dimension_numbers"]
    left, right = (v.aval.shape for v in eqn.invars)
    rows = _rest(left, (*of_left, *batch))
    columns = _rest(right, (*of_right, *range(len(batch))))
    others = [k for k in range(len(left)) if k not in of_left]
    return 1 in (rows, columns, _rest(left, others))


def _rest(shape: Sequence[Any], without: Sequence[int]) -> int:
    """How many numbers the other axes have; one that is left open counts as two."""
    return math.prod(
        [n if isinstance(n, int) else 2 for k, n in enumerate(shape) if k not in without]
    )


__all__ = ["Code", "code_of", "kind_of"]
