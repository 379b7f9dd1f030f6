"""Loops and branches as functions: `foreach`, `while_loop`, `cond`, for arrays of mx.np and of mx.nd.

Each has two forms. Short and imperative, the Python function runs once for each step. Else (:func:`compiles`) it is
recorded once, into a graph, and the loop is one operator (``ops/control_flow.py``) that takes what the function uses
from around it, such as parameters, as further operands: gradients flow to those as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import errors
from ..array.classes import ndarray
from ..array.invoke import call
from ..array.ndarray import NDArray
from ..attribute import count_subgraph
from ..core import TRACED, Value, aval, is_recording, record_paired, recording, rng
from ..core import host as host_value
from ..core.calls.reading import ReadWhileRecording
from ..core.calls.segment import Written
from ..core.calls.state import local
from ..core.graph.cut import calls_python, is_traced
from ..modes import is_np_shape
from ..ops.table import TABLE, hashable

__all__ = ["cond", "foreach", "while_loop"]

LONG = 8  # steps up to which an imperative loop is plain Python
HELD = 1024  # steps up to which an imperative while_loop keeps what all of them need for gradients


def compiles(arrays: Sequence[NDArray], steps: int, kept: int = 0) -> bool:
    """Whether a loop or branch becomes one operator with sub-graphs, or stays plain Python.

    It becomes one if the calls around it are recorded (a hybridized block, the body of another loop or branch), if one
    of its arrays is a tracer (inside ``jax.jit``, ``jax.grad``, ...), or if it may have more than ``LONG`` steps; a
    loop that would keep more than ``HELD`` steps (``kept``) for gradients stays plain. A loop recorded for its length
    alone falls back to plain Python where the function reads a number or changes its states' shapes or dtypes.
    """
    return _must(arrays) or (steps > LONG and kept <= HELD)


def _must(arrays: Sequence[NDArray]) -> bool:
    return is_recording() or any(a._value().seg is TRACED for a in arrays)


# ---- nested lists of arrays --------------------------------------------------------------------------


def _flatten(x: Any, what: str, keep: bool, found: list[NDArray]) -> Any:
    """Put the arrays of nested lists into ``found``; the structure, for :func:`_regroup`.

    Tuples become lists, as in MXNet, unless ``keep``.
    """
    if isinstance(x, NDArray):
        found.append(x)
        return type(x)
    if isinstance(x, (list, tuple)):
        kind = tuple if keep and isinstance(x, tuple) else list
        return kind, [_flatten(part, what, keep, found) for part in x]
    raise errors.MXNetValueError(
        f"{what} must be an array or (nested) lists of arrays, got {x!r} of type {type(x).__name__}"
    )


def _regroup(tree: Any, arrays: Iterator[Any]) -> Any:
    if isinstance(tree, type):
        return next(arrays)
    kind, parts = tree
    return kind([_regroup(part, arrays) for part in parts])


def _given(x: Any, name: str, what: str, keep: bool | None = None) -> tuple[list[NDArray], Any]:
    """Arrays that the user hands over, and their structure."""
    found: list[NDArray] = []
    try:
        tree = _flatten(x, what, _legacy(x) if keep is None else keep, found)
    except errors.MXNetValueError as error:
        raise errors.MXNetAssertionError(f"{name}: {error}") from None
    return found, tree


def _legacy(*values: Any) -> bool:
    """Whether the arrays are those of mx.nd: the first one that is found says so."""
    for x in values:
        if isinstance(x, NDArray):
            return not isinstance(x, ndarray)
        if isinstance(x, (list, tuple)) and x:
            return _legacy(*x)
    return False


def _made_at(fn: Callable[..., Any]) -> str:
    """Where a function of the user's stands, for errors."""
    code = getattr(getattr(fn, "forward", fn), "__code__", None)
    return f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""


def _text(a: Any) -> str:
    return f"{a.dtype}{list(a.shape)}"


# ---- recording bodies --------------------------------------------------------------------------------


class _Changes(errors.MXNetValueError):
    """A body does not give back what it was given: it is no body of a compiled loop."""


def _plainly(error: Exception) -> Exception:
    return errors.MXNetValueError(str(error)) if type(error) is _Changes else error


class _RunsPython(_Changes):
    """A body calls Python of the user's (a custom operator): a loop that need not be an operator is none."""


class _Part:
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


def _stream(arrays: Sequence[NDArray]) -> rng.GraphStream:
    """The random numbers of a body: which ones they are is known with each step."""
    device = arrays[0]._value().aval.device
    return rng.GraphStream(rng.key(device), host_value(np.zeros((), np.int64), device))


def _like(x: NDArray, rows: bool = False) -> tuple[type[NDArray], Any]:
    a = x._value().aval
    return type(x), aval(a.shape[1:] if rows else a.shape, a.dtype, a.device)


def _invoke(
    name: str,
    given: Sequence[Value],
    parts: Sequence[_Part],
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
            raise _RunsPython(
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


def _check_states(
    what: str, fn: Callable[..., Any], before: Sequence[NDArray], after: Sequence[Value]
) -> None:
    if len(before) != len(after):
        raise _Changes(
            f"{what}: the body{_made_at(fn)} takes {len(before)} of them and gives back {len(after)}"
        )
    for k, (x, v) in enumerate(zip(before, after, strict=True)):
        a = x._value().aval
        if a.shape != v.aval.shape or a.dtype != v.aval.dtype:
            raise _Changes(
                f"{what} {k} is {_text(a)} before a step and {_text(v.aval)} after it: the body{_made_at(fn)} must "
                "keep shapes and dtypes. Start with the shape and dtype that it gives back, or convert: s.astype(dtype)"
            )


# ---- foreach -----------------------------------------------------------------------------------------


def foreach(
    body: Callable[..., Any], data: Any, init_states: Any, name: str = "foreach"
) -> tuple[Any, Any]:
    """``body(slice, states) -> (output, states)`` over the first axis of ``data``: (stacked outputs, last states).

    ``data``, ``init_states`` and what ``body`` gives back are arrays or (nested) lists of arrays. A loop of more than
    8 steps, or one in a hybridized block, is one operator that compiles ``body`` once: then ``body`` runs once in
    Python, and in a hybridized block it must not look at numbers and must keep the shapes and dtypes of the states.

    Raises:
      AssertionError: data or states are no arrays.
      ValueError: data of different lengths; an output that is no array; in a hybridized block, states that change.

    >>> import mxjax as mx
    >>> outs, last = mx.npx.foreach(lambda x, s: (x + s, x + s), mx.np.array([1.0, 2.0, 3.0]), mx.np.array(0.0))
    >>> outs, last
    (array([1., 3., 6.]), array(6.))
    """
    keep = _legacy(data, init_states)
    xs, rows = _given(data, "foreach", "data", keep)
    states, tree = _given(init_states, "foreach", "init_states", keep)
    if len({x.shape[:1] for x in xs}) != 1 or () in {x.shape for x in xs}:
        raise errors.MXNetValueError(
            "foreach runs over the first axis of its data, which must have one length: got data of shapes "
            f"{', '.join(str(x.shape) for x in xs) or '(no arrays)'}"
        )
    if keep and not is_np_shape():  # a number of an array of MXNet 1 has an axis
        xs = [x.reshape((-1, 1)) if x.ndim == 1 else x for x in xs]
    steps = xs[0].shape[0]
    arrays = [*xs, *states]
    if compiles(arrays, steps) or not steps:
        try:
            return _foreach(body, xs, rows, states, tree, keep, name)
        except (ReadWhileRecording, _Changes) as error:
            if _must(arrays) or not steps:
                raise _plainly(error) from None
    outs: list[list[NDArray]] = []
    shape: Any = None
    now = _regroup(tree, iter(states))
    for k in range(steps):
        out, now = _two(body, body(_regroup(rows, iter([x[k] for x in xs])), now))
        outs.append([])
        shape = _flatten(out, "an output of foreach's body", False, outs[-1])
        last: list[NDArray] = []
        now = _regroup(_flatten(now, "the states of foreach's body", keep, last), iter(last))
    return _regroup(shape, iter([_stack(list(column)) for column in zip(*outs, strict=True)])), now


def _two(body: Callable[..., Any], made: Any) -> tuple[Any, Any]:
    if not isinstance(made, (list, tuple)) or len(made) != 2:
        raise errors.MXNetValueError(
            f"the body of a loop{_made_at(body)} returns two things, outputs and states, got {type(made).__name__}"
        )
    return made[0], made[1]


def _stack(rows: list[NDArray]) -> Any:
    return call(TABLE["stack"], type(rows[0]), (rows,), {"axis": 0})


def _foreach(
    body: Callable[..., Any],
    xs: list[NDArray],
    rows: Any,
    states: list[NDArray],
    tree: Any,
    keep: bool,
    name: str,
) -> tuple[Any, Any]:
    """foreach as one operator."""
    draws = _stream(xs)
    num_out = 0

    def run(given: list[NDArray]) -> Any:
        nonlocal num_out
        inputs = _regroup(rows, iter(given[: len(xs)])), _regroup(tree, iter(given[len(xs) :]))
        out, after = _two(body, body(*inputs))
        found: list[NDArray] = []
        shapes = [_flatten(out, "an output of foreach's body", False, found)]
        num_out = len(found)
        shapes.append(_flatten(after, "the states of foreach's body", keep, found))
        return found, shapes

    part = _Part(
        run, name, [*[_like(x, rows=True) for x in xs], *[_like(s) for s in states]], draws
    )
    _check_states("state", body, states, part.values[num_out:])
    written = list(part.written.values())
    part.close(written)
    outs = _invoke(
        "_foreach",
        [a._value() for a in (*xs, *states)],
        [part],
        draws,
        draws.used * xs[0].shape[0],
        written,
        {
            "body": part.graph,
            "num_data": len(xs),
            "num_out_data": num_out,
            **_updated([part], written),
        },
    )
    wrapped = iter(outs)
    first, second = part.result
    return _wrapped(first, wrapped), _wrapped(second, wrapped)


def _updated(parts: Sequence[_Part], written: Sequence[Written]) -> dict[str, Any]:
    if not written:
        return {}
    return {"updated": tuple([tuple([part.position(w.before) for part in parts]) for w in written])}


def _wrapped(tree: Any, values: Iterator[Value]) -> Any:
    """Arrays on values, in this structure, each of its own class."""
    if isinstance(tree, type):
        return tree._wrap(next(values))  # type: ignore[attr-defined]
    kind, parts = tree
    return kind([_wrapped(part, values) for part in parts])


# ---- while_loop --------------------------------------------------------------------------------------


def while_loop(
    cond: Callable[..., Any],
    func: Callable[..., Any],
    loop_vars: Any,
    max_iterations: Any = None,
    name: str = "while_loop",
) -> tuple[Any, Any]:
    """``func(*vars) -> (output, vars)`` while ``cond(*vars)``: (stacked outputs, last vars).

    Outputs have ``max_iterations`` rows; those of no step are zero. With mx.np a condition is converted to an integer,
    so that 0.5 ends the loop; with mx.nd, in a short imperative loop, there are no outputs when there was no step. A
    loop of more than 8 possible steps, or one in a hybridized block, is one operator: where gradients are asked for,
    it has a place for each of the ``max_iterations`` steps, and random numbers are reserved for all of them.

    Raises:
      ValueError: no ``max_iterations``; no loop variables, or another number of them after a step.

    >>> import mxjax as mx
    >>> outs, (i, s) = mx.npx.while_loop(
    ...     lambda i, s: i < 3, lambda i, s: (i, (i + 1, s + i)), (mx.np.array(0), mx.np.array(0)), max_iterations=5)
    >>> outs, i, s
    (array([0, 1, 2, 0, 0]), array(3), array(3))
    """
    if max_iterations is None:
        raise errors.MXNetValueError("max_iterations should be specified")
    try:
        limit = int(
            max_iterations.item() if isinstance(max_iterations, NDArray) else max_iterations
        )
    except (TypeError, ValueError):
        raise errors.MXNetValueError(
            f"Cannot convert max_iterations to python int: got {max_iterations!r}"
        ) from None
    if isinstance(loop_vars, (list, tuple)) and not loop_vars:
        raise errors.MXNetValueError("loop_vars should contain at least one element")
    keep = _legacy(loop_vars)
    single = isinstance(loop_vars, NDArray)
    arrays, tree = _given(
        [loop_vars] if single else list(loop_vars), "while_loop", "loop_vars", keep
    )
    loop = _While(cond, func, arrays, tree, keep, limit, single, name)
    gradients = local.st.taping and any(a._value().tape is not None for a in arrays)
    if compiles(arrays, limit, limit if gradients else 0):
        try:
            return loop.operator()
        except (ReadWhileRecording, _Changes) as error:
            if _must(arrays):
                raise _plainly(error) from None
    return loop.python()


class _While:
    """The two forms of one while_loop."""

    def __init__(
        self,
        cond: Callable[..., Any],
        func: Callable[..., Any],
        arrays: list[NDArray],
        tree: Any,
        keep: bool,
        limit: int,
        single: bool,
        name: str,
    ):
        self.cond = cond
        self.func = func
        self.arrays = arrays
        self.tree = tree
        self.keep = keep
        self.limit = limit
        self.single = single
        self.name = name

    def step(self, variables: list[Any]) -> tuple[list[NDArray], Any, list[Any]]:
        """Outputs of one step with their structure, and the new variables."""
        out, new = _two(self.func, self.func(*variables))
        found: list[NDArray] = []
        shape = _flatten([] if out is None else out, "an output of while_loop's func", False, found)
        new = [] if new is None else list(new) if isinstance(new, (list, tuple)) else [new]
        if len(new) != len(variables):
            raise errors.MXNetValueError(
                "The length of loop_vars should be consistent during the loop"
            )
        return found, shape, new

    def python(self) -> tuple[Any, Any]:
        variables = _regroup(self.tree, iter(self.arrays))
        outs: list[list[NDArray]] = []
        shape: Any = None
        while len(outs) < self.limit and _truth(self.cond(*variables)):
            out, shape, variables = self.step(variables)
            if outs and len(out) != len(outs[0]):
                raise errors.MXNetValueError(
                    "Number of elements in step_output should be the same in each step"
                )
            outs.append(out)
        if not outs and not self.keep:
            try:
                return self.operator(runs=False)  # which knows the outputs that a step would have
            except (ReadWhileRecording, _Changes):
                pass
        last: list[NDArray] = []
        variables = _regroup(_flatten(variables, "loop_vars", self.keep, last), iter(last))
        if not outs:
            return [], self._given_back(variables)
        columns = iter(
            [_padded(_stack(list(column)), self.limit) for column in zip(*outs, strict=True)]
        )
        return _regroup(shape, columns), self._given_back(variables)

    def _given_back(self, variables: list[Any]) -> Any:
        return variables[0] if self.single else variables

    def operator(self, runs: bool = True) -> tuple[Any, Any]:
        draws = _stream(self.arrays)
        like = [_like(a) for a in self.arrays]

        def test(given: list[NDArray]) -> Any:
            return [
                _predicate(
                    self.cond(*_regroup(self.tree, iter(given))), given[0], "cond", self.cond
                )
            ], None

        num_out = 0

        def run(given: list[NDArray]) -> Any:
            nonlocal num_out
            found, shape, new = self.step(_regroup(self.tree, iter(given)))
            num_out = len(found)
            _flatten(new, "loop_vars", self.keep, found)
            return found, shape

        first = _Part(test, f"{self.name}_cond", like, draws)
        if first.written:
            raise errors.MXNetError(
                f"cond{_made_at(self.cond)} writes to an array from outside; the condition of a while_loop only tells "
                "whether it goes on. Write in func"
            )
        second = _Part(run, f"{self.name}_func", like, draws)
        _check_states("loop variable", self.func, self.arrays, second.values[num_out:])
        written = list(second.written.values())
        first.close([])
        second.close(written)
        parts = [first, second]
        outs = iter(
            _invoke(
                "_while_loop",
                [a._value() for a in self.arrays],
                parts,
                draws,
                draws.used * self.limit,
                written,
                {
                    "cond": first.graph,
                    "func": second.graph,
                    "max_iterations": self.limit,
                    "num_out_data": num_out,
                    **_updated(parts, written),
                },
                runs,
            )
        )
        return _wrapped(second.result, outs), self._given_back(_wrapped(self.tree, outs))


def _padded(x: NDArray, rows: int) -> NDArray:
    """The array with rows of zeros behind its own."""
    kind, dtype = type(x), np.dtype(x.dtype).name
    if len(x) == rows:
        return x
    more = call(
        TABLE["zeros"],
        kind,
        (),
        {"shape": (rows - len(x), *x.shape[1:]), "dtype": dtype, "device": x.device},
    )
    return call(TABLE["concatenate"], kind, (x, more), {"axis": 0})  # type: ignore[no-any-return]


# ---- cond --------------------------------------------------------------------------------------------


def _truth(x: Any) -> bool:
    """What a condition says; mx.np converts it to an integer, as MXNet does."""
    if isinstance(x, ndarray) and np.dtype(x.dtype).kind not in "biu":
        x = x.astype("int64")
    return bool(x)


def _predicate(x: Any, like: NDArray, what: str, fn: Any) -> NDArray:
    """A condition as an array of one element that is zero or not."""
    if not isinstance(x, NDArray):
        return type(like)._wrap(
            call(TABLE["full"], type(like), (), {"shape": (), "fill_value": bool(x)})._value()
        )
    if x.size != 1:
        raise errors.MXNetValueError(
            f"{what}{_made_at(fn)} must be an array of one element, got {_text(x)}"
        )
    return (
        x.astype("int64") if isinstance(x, ndarray) and np.dtype(x.dtype).kind not in "biu" else x
    )


def cond(
    pred: Any,
    then_func: Callable[..., Any],
    else_func: Callable[..., Any],
    inputs: Any = None,
    name: str = "cond",
) -> Any:
    """``then_func`` or ``else_func`` of the inputs, as ``pred`` says: an array of one element, or a function of them.

    Imperatively only the one that is chosen runs. In a hybridized block both are recorded, into one operator, and
    must give as many results, of equal shapes and dtypes.

    Raises:
      ValueError: a predicate of several elements; in a hybridized block, results that differ in number, shape or dtype.

    >>> import mxjax as mx
    >>> mx.npx.cond(lambda x: x.sum() > 1, lambda x: x * 2, lambda x: x * 3, mx.np.array([3.0]))
    array([6.])
    """
    given = [] if inputs is None else inputs if isinstance(inputs, (list, tuple)) else [inputs]
    chosen = pred(*given) if callable(pred) else pred
    keep = _legacy(given, chosen)
    arrays, tree = _given(given, "cond", "inputs", keep)
    if isinstance(chosen, NDArray) and _must([chosen, *arrays]):
        return _branches(
            _predicate(chosen, chosen, "pred", pred), then_func, else_func, arrays, tree, keep, name
        )
    out = (then_func if _truth(chosen) else else_func)(*_regroup(tree, iter(arrays)))
    found: list[NDArray] = []
    return _regroup(_flatten(out, "what a branch of cond gives back", keep, found), iter(found))


def _branches(
    chosen: NDArray,
    then_func: Callable[..., Any],
    else_func: Callable[..., Any],
    arrays: list[NDArray],
    tree: Any,
    keep: bool,
    name: str,
) -> Any:
    """cond as one operator."""
    like = [_like(a) for a in arrays]
    parts = []
    most = 0
    base = _stream([chosen])
    count_subgraph(f"{name}_pred")
    for fn, which in ((then_func, "then"), (else_func, "else")):

        def run(given: list[NDArray], fn: Callable[..., Any] = fn) -> Any:
            found: list[NDArray] = []
            out = fn(*_regroup(tree, iter(given)))
            return found, _flatten(out, f"what {which}_func gives back", keep, found)  # noqa: B023

        base.used = 0
        parts.append(_Part(run, f"{name}_{which}", like, base))
        most = max(most, base.used)
    base.used = most
    then, other = parts
    if len(then.values) != len(other.values):
        raise errors.MXNetValueError(
            f"Number of outputs differs between then-branch and else-branch: {len(then.values)}{_made_at(then_func)} "
            f"and {len(other.values)}{_made_at(else_func)}"
        )
    for k, (a, b) in enumerate(zip(then.values, other.values, strict=True)):
        if a.aval.shape != b.aval.shape or a.aval.dtype != b.aval.dtype:
            raise errors.MXNetValueError(
                f"result {k} of cond is {_text(a.aval)} from then_func{_made_at(then_func)} and {_text(b.aval)} from "
                f"else_func{_made_at(else_func)}: in a hybridized block both must be alike"
            )
    written = list({**then.written, **other.written}.values())
    for w in written:  # unseen by autograd only if no branch says otherwise
        w.taped = all(p.written[id(w.handle)].taped for p in parts if id(w.handle) in p.written)
    for part in parts:
        part.close(written)
    outs = _invoke(
        "_cond",
        [chosen._value(), *[a._value() for a in arrays]],
        parts,
        base,
        most,
        written,
        {"then_branch": then.graph, "else_branch": other.graph, "num_inputs": len(arrays)},
    )
    return _wrapped(then.result, iter(outs))
