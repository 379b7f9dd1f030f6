"""A segment run call by call: each computed by NumPy, or by a program of its own that everybody shares."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .call import ROWS
from .hooks import observers
from .program import Program, needed
from .segment import SCALAR, Step, Tree
from .symbolic import Bound, NotHere, trace

# Microseconds on one core; only their ratios count.
CALL = 12.0  # a call, beside its work
OPERATION = 1e-3  # one operation as `Bound.work` counts them
PROGRAM, PROGRAM_CALL = 25_000.0, 3_000.0  # the compiler, and what each call of a segment adds to it

# Compiles a step that is a segment by itself: all its results, nothing donated.
Build = Callable[[Step], Program]


class ByCall:
    """The calls of a segment that its live results need.

    ``price``: what NumPy and missing programs cost in the next run, in microseconds. ``numpy=False``: programs alone.
    """

    __slots__ = ("_avals", "_build", "_calls", "_device", "_ends", "numpy", "price")

    def __init__(self, step: Step, live: Sequence[int], device: Any, build: Build, *, numpy: bool):
        path = step.path()
        inputs = [a for s in path for a in s.new_ins]
        results = [a for s in path for a in s.avals]
        kept = path if len(live) == step.n_outs else needed(path, live)
        self._device = device
        self._build = build
        self.numpy = numpy
        self._calls: list[tuple[Step, tuple[Any, ...], Bound | None, float]] = []
        self.price = 0.0
        last: dict[int, int] = {}
        for at, s in enumerate(kept):
            operands = tuple(
                [results[i] if 0 <= i < SCALAR else inputs[-1 - i] if i < 0 else step.fmt[i - SCALAR] for i in s.args]
            )
            for i in s.args:
                last[i] = at
            bound = _bound(s, operands, device) if numpy else None
            work = 0.0 if bound is None else bound.work() * OPERATION
            self._calls.append((s, operands, bound, work))
            self.price += CALL + work
            if bound is None and not self._compiled(s, operands):
                self.price += PROGRAM + PROGRAM_CALL
        # The results that nobody reads after the call of this number.
        self._ends: list[list[int]] = [[] for _ in kept]
        keep = set(live)
        for k, at in last.items():
            if 0 <= k < SCALAR and k not in keep:
                self._ends[at].append(k)

    def _single(self, s: Step, operands: tuple[Any, ...]) -> Step:
        """The step that is a segment of this call alone."""
        root = Tree.root(self._device)
        key = (s.call, *operands)
        return root.next.get(key) or root.grow(key, operands, self._device, s.scope)

    def _compiled(self, s: Step, operands: tuple[Any, ...]) -> bool:
        found = Tree.root(self._device).next.get((s.call, *operands))
        return found is not None and _whole(found) in found.programs

    def run(
        self, live: Sequence[int], arrays: Sequence[Any], scalars: Sequence[Any]
    ) -> tuple[list[Any], dict[int, tuple[int, ...]]]:
        """The live results, and the orders of axes of those that have one of their own."""
        env: dict[int, Any] = {}
        layouts: dict[int, tuple[int, ...]] = {}
        watched = bool(observers)
        for (s, operands, bound, work), ends in zip(self._calls, self._ends, strict=True):
            args = [env[i] if 0 <= i < SCALAR else arrays[-1 - i] if i < 0 else scalars[i - SCALAR] for i in s.args]
            outs = None
            if bound is not None:
                start = time.time_ns() if watched else 0
                outs = self._numpy(s, operands, bound, work, args)
                if start and outs is not None:
                    _tell(s, start)
            if outs is None:
                outs = self._program(s, operands, args, layouts)
            for k, out in enumerate(outs, s.first):
                env[k] = out
            for k in ends:
                del env[k]
        return [env[k] for k in live], layouts

    def _numpy(
        self, s: Step, operands: tuple[Any, ...], bound: Bound, work: float, args: list[Any]
    ) -> Sequence[Any] | None:
        """What NumPy gives; None where a program is better: there is one, or it would have paid for itself."""
        if work > CALL:
            single = self._single(s, operands)
            if _whole(single) in single.programs or single.spent + work > PROGRAM:
                return None
            single.spent += work
        try:
            return bound.run([a if type(a) is np.ndarray else _array(a) for a in args])
        except NotHere:
            return None

    def _program(
        self, s: Step, operands: tuple[Any, ...], args: list[Any], layouts: dict[int, tuple[int, ...]]
    ) -> Sequence[Any]:
        if layouts:
            operands = tuple(
                [a.in_layout(layouts[i]) if i in layouts else a for i, a in zip(s.args, operands, strict=True)]
            )
        single = self._single(s, operands)
        program = single.programs.get(_whole(single))
        if program is None:
            program = single.programs[_whole(single)] = self._build(single)
        arrays = [a for a, i in zip(args, s.args, strict=True) if i < SCALAR]
        numbers = [a for a, i in zip(args, s.args, strict=True) if i >= SCALAR]
        for k, order in program.layouts.items():
            layouts[s.first + k] = order
        return program.run(arrays, numbers)  # type: ignore[no-any-return]


def _whole(single: Step) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(range(single.n_outs)), ()


def _array(a: Any) -> Any:
    """An operand as NumPy takes it: a number in the dtype of a dynamic scalar (`call.SCALARS`)."""
    return np.float64(a) if type(a) is float else np.int64(a) if type(a) is int else np.asarray(a)


def _tell(step: Step, start: int) -> None:
    stop = time.time_ns()
    for o in observers:
        o.on_run(step.call.name, [step], start, stop)  # type: ignore[union-attr]


def _bound(s: Step, operands: tuple[Any, ...], device: Any) -> Bound | None:
    """How NumPy computes a step, if it does; found once for each."""
    if s.bound is None:
        call = s.call
        assert call is not None
        of = call.forward or call
        # A graph's call is a program that somebody asked for (hybridize).
        known = call.graph is None and ROWS.get(of.row.name) is of.row
        s.bound = False
        if known:
            with contextlib.suppress(NotHere):
                found = trace(call, operands, device)
                s.bound = found if found.runs else False
    return s.bound or None
