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
from ..core import TRACED, Value, is_recording
from ..core.calls.reading import ReadWhileRecording
from ..core.calls.segment import Written
from ..core.calls.state import local
from ..modes import is_np_shape
from ..ops.table import TABLE
from ._bodies import (
    Body,
    Changes,
    check_states,
    draws_of,
    flatten,
    given_by_user,
    invoke,
    is_legacy,
    made_at,
    placeholder_of,
    plainly,
    regroup,
    spelled,
)

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
    keep = is_legacy(data, init_states)
    xs, rows = given_by_user(data, "foreach", "data", keep)
    states, tree = given_by_user(init_states, "foreach", "init_states", keep)
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
        except (ReadWhileRecording, Changes) as error:
            if _must(arrays) or not steps:
                raise plainly(error) from None
    outs: list[list[NDArray]] = []
    shape: Any = None
    now = regroup(tree, iter(states))
    for k in range(steps):
        out, now = _two(body, body(regroup(rows, iter([x[k] for x in xs])), now))
        outs.append([])
        shape = flatten(out, "an output of foreach's body", False, outs[-1])
        last: list[NDArray] = []
        now = regroup(flatten(now, "the states of foreach's body", keep, last), iter(last))
    return regroup(shape, iter([_stack(list(column)) for column in zip(*outs, strict=True)])), now


def _two(body: Callable[..., Any], made: Any) -> tuple[Any, Any]:
    if not isinstance(made, (list, tuple)) or len(made) != 2:
        raise errors.MXNetValueError(
            f"the body of a loop{made_at(body)} returns two things, outputs and states, got {type(made).__name__}"
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
    draws = draws_of(xs)
    num_out = 0

    def run(given: list[NDArray]) -> Any:
        nonlocal num_out
        inputs = regroup(rows, iter(given[: len(xs)])), regroup(tree, iter(given[len(xs) :]))
        out, after = _two(body, body(*inputs))
        found: list[NDArray] = []
        shapes = [flatten(out, "an output of foreach's body", False, found)]
        num_out = len(found)
        shapes.append(flatten(after, "the states of foreach's body", keep, found))
        return found, shapes

    part = Body(
        run,
        name,
        [*[placeholder_of(x, rows=True) for x in xs], *[placeholder_of(s) for s in states]],
        draws,
    )
    check_states("state", body, states, part.values[num_out:])
    written = list(part.written.values())
    part.close(written)
    outs = invoke(
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


def _updated(parts: Sequence[Body], written: Sequence[Written]) -> dict[str, Any]:
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
    keep = is_legacy(loop_vars)
    single = isinstance(loop_vars, NDArray)
    arrays, tree = given_by_user(
        [loop_vars] if single else list(loop_vars), "while_loop", "loop_vars", keep
    )
    loop = _While(cond, func, arrays, tree, keep, limit, single, name)
    gradients = local.st.taping and any(a._value().tape is not None for a in arrays)
    if compiles(arrays, limit, limit if gradients else 0):
        try:
            return loop.operator()
        except (ReadWhileRecording, Changes) as error:
            if _must(arrays):
                raise plainly(error) from None
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
        shape = flatten([] if out is None else out, "an output of while_loop's func", False, found)
        new = [] if new is None else list(new) if isinstance(new, (list, tuple)) else [new]
        if len(new) != len(variables):
            raise errors.MXNetValueError(
                "The length of loop_vars should be consistent during the loop"
            )
        return found, shape, new

    def python(self) -> tuple[Any, Any]:
        variables = regroup(self.tree, iter(self.arrays))
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
            except (ReadWhileRecording, Changes):
                pass
        last: list[NDArray] = []
        variables = regroup(flatten(variables, "loop_vars", self.keep, last), iter(last))
        if not outs:
            return [], self._given_back(variables)
        columns = iter(
            [_padded(_stack(list(column)), self.limit) for column in zip(*outs, strict=True)]
        )
        return regroup(shape, columns), self._given_back(variables)

    def _given_back(self, variables: list[Any]) -> Any:
        return variables[0] if self.single else variables

    def operator(self, runs: bool = True) -> tuple[Any, Any]:
        draws = draws_of(self.arrays)
        like = [placeholder_of(a) for a in self.arrays]

        def test(given: list[NDArray]) -> Any:
            return [
                _predicate(self.cond(*regroup(self.tree, iter(given))), given[0], "cond", self.cond)
            ], None

        num_out = 0

        def run(given: list[NDArray]) -> Any:
            nonlocal num_out
            found, shape, new = self.step(regroup(self.tree, iter(given)))
            num_out = len(found)
            flatten(new, "loop_vars", self.keep, found)
            return found, shape

        first = Body(test, f"{self.name}_cond", like, draws)
        if first.written:
            raise errors.MXNetError(
                f"cond{made_at(self.cond)} writes to an array from outside; the condition of a while_loop only tells "
                "whether it goes on. Write in func"
            )
        second = Body(run, f"{self.name}_func", like, draws)
        check_states("loop variable", self.func, self.arrays, second.values[num_out:])
        written = list(second.written.values())
        first.close([])
        second.close(written)
        parts = [first, second]
        outs = iter(
            invoke(
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
            f"{what}{made_at(fn)} must be an array of one element, got {spelled(x)}"
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
    keep = is_legacy(given, chosen)
    arrays, tree = given_by_user(given, "cond", "inputs", keep)
    if isinstance(chosen, NDArray) and _must([chosen, *arrays]):
        return _branches(
            _predicate(chosen, chosen, "pred", pred), then_func, else_func, arrays, tree, keep, name
        )
    out = (then_func if _truth(chosen) else else_func)(*regroup(tree, iter(arrays)))
    found: list[NDArray] = []
    return regroup(flatten(out, "what a branch of cond gives back", keep, found), iter(found))


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
    like = [placeholder_of(a) for a in arrays]
    parts = []
    most = 0
    base = draws_of([chosen])
    count_subgraph(f"{name}_pred")
    for fn, which in ((then_func, "then"), (else_func, "else")):

        def run(given: list[NDArray], fn: Callable[..., Any] = fn) -> Any:
            found: list[NDArray] = []
            out = fn(*regroup(tree, iter(given)))
            return found, flatten(out, f"what {which}_func gives back", keep, found)  # noqa: B023

        base.used = 0
        parts.append(Body(run, f"{name}_{which}", like, base))
        most = max(most, base.used)
    base.used = most
    then, other = parts
    if len(then.values) != len(other.values):
        raise errors.MXNetValueError(
            f"Number of outputs differs between then-branch and else-branch: {len(then.values)}{made_at(then_func)} "
            f"and {len(other.values)}{made_at(else_func)}"
        )
    for k, (a, b) in enumerate(zip(then.values, other.values, strict=True)):
        if a.aval.shape != b.aval.shape or a.aval.dtype != b.aval.dtype:
            raise errors.MXNetValueError(
                f"result {k} of cond is {spelled(a.aval)} from then_func{made_at(then_func)} and "
                f"{spelled(b.aval)} from else_func{made_at(else_func)}: in a hybridized block both must be alike"
            )
    written = list({**then.written, **other.written}.values())
    for w in written:  # unseen by autograd only if no branch says otherwise
        w.taped = all(p.written[id(w.handle)].taped for p in parts if id(w.handle) in p.written)
    for part in parts:
        part.close(written)
    outs = invoke(
        "_cond",
        [chosen._value(), *[a._value() for a in arrays]],
        parts,
        base,
        most,
        written,
        {"then_branch": then.graph, "else_branch": other.graph, "num_inputs": len(arrays)},
    )
    return _wrapped(then.result, iter(outs))
