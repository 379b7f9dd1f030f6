"""The functions that loops and branches are called with: their arrays in nested lists, and each recorded as a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import errors
from ..array.classes import ndarray
from ..array.ndarray import NDArray
from ..attribute import count_subgraph
from ..core import TRACED, Value, aval, is_recording, record_paired, recording, rng
from ..core import host as host_value
from ..core.calls.segment import Written
from ..core.graph.cut import calls_python, is_traced
from ..ops.table import TABLE, hashable

# ---- nested lists of arrays --------------------------------------------------------------------------


def flatten(x: Any, what: str, keep: bool, found: list[NDArray]) -> Any:
    """Put the arrays of nested lists into ``found``; the structure, for :func:`regroup`.

    Tuples become lists, as in MXNet, unless ``keep``.
    """
    if isinstance(x, NDArray):
        found.append(x)
        return type(x)
    if isinstance(x, (list, tuple)):
        kind = tuple if keep and isinstance(x, tuple) else list
        return kind, [flatten(part, what, keep, found) for part in x]
    raise errors.MXNetValueError(
        f"{what} must be an array or (nested) lists of arrays, got {x!r} of type {type(x).__name__}"
    )


def regroup(tree: Any, arrays: Iterator[Any]) -> Any:
    if isinstance(tree, type):
        return next(arrays)
    kind, parts = tree
    return kind([regroup(part, arrays) for part in parts])


def given_by_user(
    x: Any, name: str, what: str, keep: bool | None = None
) -> tuple[list[NDArray], Any]:
    """Arrays that the user hands over, and their structure."""
    found: list[NDArray] = []
    try:
        tree = flatten(x, what, is_legacy(x) if keep is None else keep, found)
    except errors.MXNetValueError as error:
        raise errors.MXNetAssertionError(f"{name}: {error}") from None
    return found, tree


def is_legacy(*values: Any) -> bool:
    """Whether the arrays are those of mx.nd: the first one that is found says so."""
    for x in values:
        if isinstance(x, NDArray):
            return not isinstance(x, ndarray)
        if isinstance(x, (list, tuple)) and x:
            return is_legacy(*x)
    return False


def made_at(fn: Callable[..., Any]) -> str:
    """Where a function of the user's stands, for errors."""
    code = getattr(getattr(fn, "forward", fn), "__code__", None)
    ours = (
        getattr(fn, "__module__", None) == "mxjax.symbol.special"
    )  # a symbol's loop: a graph is its body
    return f" ({code.co_filename}:{code.co_firstlineno})" if code is not None and not ours else ""


def spelled(a: Any) -> str:
    return f"{a.dtype}{list(a.shape)}"


# ---- recording bodies --------------------------------------------------------------------------------


class Changes(errors.MXNetValueError):
    """A body does not give back what it was given: it is no body of a compiled loop."""


def plainly(error: Exception) -> Exception:
    return errors.MXNetValueError(str(error)) if type(error) is Changes else error


class RunsPython(Changes):
    """A body calls Python of the user's (a custom operator): a loop that need not be an operator is none."""


class Body:
    """A function of the user's, recorded: its results, and the arrays from outside that it wrote to."""

    def __init__(
        self,
        fn: Callable[[list[NDArray]], Any],
        name: str,
        like: Sequence[Any],  # class and aval of what the function is called with
        draws: rng.GraphStream,
    ):
        count_subgraph(name)
        device = like[0][1].device if like else draws.key.aval.device
        self.base = draws.base
        with recording(name, device, [a for _, a in like], tracers=True) as self._rec:
            given = [cls._wrap(self._rec.placeholder(a)) for cls, a in like]
            try:
                with draws:
                    arrays, self.result = fn(given)
                self.values = [a._value() for a in arrays]
                self.written = {id(w.handle): w for w in self._rec.written()}
                self._news = {k: w.handle._value() for k, w in self.written.items()}
            finally:
                for w in self._rec.written():
                    w.handle._v = w.before

    def close(self, written: Sequence[Written]) -> None:
        """Make the graph; its last results are the new values of these arrays."""
        news = [self._news.get(id(w.handle), w.before) for w in written]
        for w in written:
            self._rec.number(w.before)  # captured, though it may not be read
        self.graph, self.captured = self._rec.subgraph([*self.values, *news])

    def position(self, v: Value) -> int:
        """Where a value stands among those the graph captured; -1: nowhere."""
        return next((k for k, c in enumerate(self.captured) if c is v), -1)

    def operands(self, count: Any) -> list[Any]:
        """What the graph captured, with the count of the random numbers there are now."""
        return [count if c is self.base else c for c in self.captured]


def draws_of(arrays: Sequence[NDArray]) -> rng.GraphStream:
    """The random numbers of a body: which ones they are is known with each step."""
    device = arrays[0]._value().aval.device
    return rng.GraphStream(rng.key(device), host_value(np.zeros((), np.int64), device))


def placeholder_of(x: NDArray, rows: bool = False) -> tuple[type[NDArray], Any]:
    a = x._value().aval
    return type(x), aval(a.shape[1:] if rows else a.shape, a.dtype, a.device)


def invoke(
    name: str,
    given: Sequence[Value],
    parts: Sequence[Body],
    draws: rng.GraphStream,
    numbers: int,
    written: Sequence[Written],
    attrs: dict[str, Any],
    runs: bool = True,
) -> list[Value]:
    """Record the operator; what the bodies wrote gets its new values. Returns the other results.

    ``runs=False``: the bodies will run no step.
    """
    if runs and not is_recording() and any(calls_python(part.graph) for part in parts):
        if not any(is_traced((*given, *part.captured)) for part in parts):
            raise RunsPython(
                "the body of a loop calls a custom operator, whose Python runs at each step"
            )
    device = given[0].aval.device
    operands: list[Any] = list(given)
    count = offset = None
    if draws.used:
        _, count, offset = rng.operands(device, numbers, lambda: draws.drawn)
        attrs["draws"] = (*[part.position(part.base) for part in parts], draws.used)
    for part in parts:
        operands += part.operands(count)
    if offset is not None:
        operands.append(offset)
    bound = TABLE[name].bind(tuple(sorted((k, hashable(v)) for k, v in attrs.items())))
    if any(s.call.effect for part in parts for s in part.graph.steps):  # type: ignore[union-attr]
        bound.effect = True
    outs = list(record_paired(bound, operands))
    for w in reversed(written):
        v = outs.pop()
        if not w.taped:
            v.tape = None
        # A trace of the user's (jax.jit) must leave nothing behind in arrays from outside it.
        if v.seg is not TRACED or w.before.seg is TRACED:
            w.handle._set(v)
    return outs


def check_states(
    what: str, fn: Callable[..., Any], before: Sequence[NDArray], after: Sequence[Value]
) -> None:
    if len(before) != len(after):
        raise Changes(
            f"{what}: the body{made_at(fn)} takes {len(before)} of them and gives back {len(after)}"
        )
    for k, (x, v) in enumerate(zip(before, after, strict=True)):
        a = x._value().aval
        if a.shape != v.aval.shape or a.dtype != v.aval.dtype:
            raise Changes(
                f"{what} {k} is {spelled(a)} before a step and {spelled(v.aval)} after it: the body{made_at(fn)} must "
                "keep shapes and dtypes. Start with the shape and dtype that it gives back, or convert: s.astype(dtype)"
            )
