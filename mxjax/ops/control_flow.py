"""Loops and branches: rows whose attributes are graphs (``core.Graph``), lowered to JAX's own.

The operands stand in one order in each: what the graphs are called with (data, loop variables, inputs), then what each
graph captured from around it, its values and then its dynamic numbers, and last, where random numbers are drawn, an
offset to their count.

- ``updated``: captured arrays that the body writes to (moving statistics): for each graph its position among those it
  captured, -1 where it has none. Their new values go from step to step, and are the last results.
- ``draws``: for each graph the position of its random count among the captured values (-1: none), then how
  many numbers a step draws. None where nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..core import Graph, record
from .samples import Body, case, f
from .table import TABLE, op

Arrays = tuple[Any, ...]
Draws = tuple[int, ...] | None


class _Part:
    """A graph with what it captured: a function of the operands that vary, and of the step's number."""

    def __init__(
        self, graph: Graph, captured: Sequence[Any], updated: Sequence[int], at: int, offset: Any
    ):
        self.graph = graph
        self.captured = tuple(captured)
        self.updated = updated
        self.at = at
        self.offset = offset

    def __call__(self, given: Sequence[Any], news: Sequence[Any] = (), count: Any = 0) -> Arrays:
        """``news`` are the values of the arrays that the body writes to, ``count`` the numbers drawn so far."""
        captured = list(self.captured)
        for at, v in zip(self.updated, news, strict=True):
            if at >= 0:
                captured[at] = v
        if self.at >= 0:
            captured[self.at] = captured[self.at] + self.offset + count
        return self.graph.run(*given, *captured)

    def before(self) -> Arrays:
        """The values of those arrays before the first step."""
        return tuple([self.captured[at] for at in self.updated])


def _captures(graph: Graph, given: int) -> int:
    """How many operands a graph takes besides those it is called with."""
    return len(graph.avals) - given + len(graph.fmt)


def _parts(
    operands: Sequence[Any],
    graphs: Sequence[Graph],
    given: int,
    updated: Sequence[Sequence[int]],
    draws: Draws,
) -> tuple[Arrays, list[_Part]]:
    """The operands that the graphs are called with, and the graphs with what they captured."""
    offset = operands[-1] if draws else None
    at, found = given, []
    for k, graph in enumerate(graphs):
        n = _captures(graph, given)
        positions = [p[k] for p in updated]
        found.append(
            _Part(graph, operands[at : at + n], positions, draws[k] if draws else -1, offset)
        )
        at += n
    return tuple(operands[:given]), found


def _like(outs: Sequence[Any], wanted: Sequence[Any]) -> Arrays:
    """Arrays in the dtypes that the next step takes them in."""
    return tuple([lax.convert_element_type(o, w.dtype) for o, w in zip(outs, wanted, strict=True)])


def _call(name: str, *xs: Any) -> Any:
    return record(TABLE[name].bind(), xs)[0]


def _weighed(x: Any, state: Any, weight: Any) -> list[Any]:
    new = _call("add", _call("multiply", x, weight), state)
    return [new, new]


@op(
    "_foreach",
    samples=[
        case(f(4, 3), f(3), f(3), body=Body(_weighed, (3,), (3,), (3,)), num_data=1, num_out_data=1)
    ],
    internal="_npx_foreach",
    aliases=("_foreach",),
    outputs=lambda attrs, n: len(attrs["body"].outputs),
    loops=True,
)
def foreach(
    *operands: Any,
    body: Graph,
    num_data: int,
    num_out_data: int,
    updated: tuple[tuple[int], ...] = (),
    draws: Draws = None,
) -> Arrays:
    """A graph of (slices of data, states) -> (outputs, states), run over the first axis of the data: stacked outputs,
    last states.

    Operands: ``num_data`` data, the states, what ``body`` captured. ``num_out_data`` of its results are outputs.
    """
    num_states = len(body.outputs) - num_out_data - len(updated)
    given, (part,) = _parts(operands, (body,), num_data + num_states, updated, draws)
    xs, states = given[:num_data], given[num_data:]
    stride = draws[-1] if draws else 0

    def step(carry: Any, x: Any) -> Any:
        states, news = carry
        k, x = x
        outs = part((*x, *states), news, 0 if k is None else k * stride)
        ends = outs[num_out_data : num_out_data + num_states], outs[num_out_data + num_states :]
        return (_like(ends[0], states), _like(ends[1], news)), outs[:num_out_data]

    numbers = jnp.arange(xs[0].shape[0], dtype=jnp.int64) if stride else None
    (states, news), outs = lax.scan(step, (states, part.before()), (numbers, xs))
    return (*outs, *states, *news)


def _running(x: Any, limit: Any) -> list[Any]:
    return [_call("less", _call("sum", x), limit)]


def _squared(x: Any, *rest: Any) -> list[Any]:
    new = _call("multiply", x, x)
    return [new, new, *rest]


@op(
    "_while_loop",
    samples=[
        case(
            f(3, low=1.1, high=1.5),
            f(low=40.0, high=41.0),
            cond=Body(_running, (3,), ()),
            func=Body(_squared, (3,), ()),
            max_iterations=5,
            num_out_data=1,
        )
    ],
    internal="_npx_while_loop",
    aliases=("_while_loop",),
    outputs=lambda attrs, n: len(attrs["func"].outputs),
    loops=True,
)
def while_loop(
    *operands: Any,
    cond: Graph,
    func: Graph,
    max_iterations: int,
    num_out_data: int,
    updated: tuple[tuple[int, int], ...] = (),
    draws: Draws = None,
) -> Arrays:
    """A graph of variables -> (outputs, variables), run while the graph ``cond`` of the variables is not zero: outputs
    of ``max_iterations`` rows, those of no step zero, and the last variables.

    Operands: the variables, what ``cond`` captured, what ``func`` captured. Where a derivative is asked for, all
    ``max_iterations`` steps have a place, and those after the last do nothing.
    """
    num_vars = len(func.outputs) - num_out_data - len(updated)
    stride = draws[-1] if draws else 0

    def run(operands: Arrays, bounded: bool) -> Arrays:
        given, (test, part) = _parts(operands, (cond, func), num_vars, updated, draws)

        def goes_on(variables: Arrays, news: Arrays, k: Any) -> Any:
            return jnp.reshape(test(variables, news, k * stride)[0], ()) != 0

        def step(variables: Arrays, news: Arrays, k: Any) -> Any:
            outs = part(variables, news, k * stride)
            ends = outs[num_out_data : num_out_data + num_vars], outs[num_out_data + num_vars :]
            return outs[:num_out_data], _like(ends[0], variables), _like(ends[1], news)

        zero = jnp.zeros((), jnp.int64)
        rows = jax.eval_shape(step, given, part.before(), zero)[0]

        def once(carry: Any, k: Any) -> Any:
            alive, variables, news = carry
            alive = lax.cond(alive, goes_on, lambda *_: jnp.zeros((), bool), variables, news, k)

            def nothing(variables: Arrays, news: Arrays, k: Any) -> Any:
                return tuple([jnp.zeros(r.shape, r.dtype) for r in rows]), variables, news

            outs, variables, news = lax.cond(alive, step, nothing, variables, news, k)
            return (alive, variables, news), outs

        if bounded:
            start = jnp.ones((), bool), given, part.before()
            (_, variables, news), outs = lax.scan(
                once, start, jnp.arange(max_iterations, dtype=jnp.int64)
            )
            return (*outs, *variables, *news)

        def running(carry: Any) -> Any:
            k, variables, news, _ = carry
            return (k < max_iterations) & goes_on(variables, news, k)

        def next_step(carry: Any) -> Any:
            k, variables, news, outs = carry
            row, variables, news = step(variables, news, k)
            outs = tuple(
                [
                    lax.dynamic_update_index_in_dim(o, r, k, 0)
                    for o, r in zip(outs, row, strict=True)
                ]
            )
            return k + 1, variables, news, outs

        blank = tuple([jnp.zeros((max_iterations, *r.shape), r.dtype) for r in rows])
        if not max_iterations:
            return (*blank, *given, *part.before())
        _, variables, news, outs = lax.while_loop(
            running, next_step, (zero, given, part.before(), blank)
        )
        return (*outs, *variables, *news)

    @jax.custom_jvp
    def loop(*operands: Any) -> Arrays:
        return run(operands, False)

    @loop.defjvp
    def _(operands: Arrays, tangents: Arrays) -> Any:
        return jax.jvp(lambda *operands: run(operands, True), operands, tangents)

    return loop(*operands)  # type: ignore[no-any-return]


@op(
    "_cond",
    samples=[
        case(
            f(low=1.0),
            f(3),
            then_branch=Body(_squared, (3,)),
            else_branch=Body(lambda x: [x, x], (3,)),
            num_inputs=1,
        )
    ],
    internal="_npx_cond",
    aliases=("_cond",),
    outputs=lambda attrs, n: len(attrs["then_branch"].outputs),
)
def cond(
    *operands: Any,
    then_branch: Graph,
    else_branch: Graph,
    num_inputs: int,
    draws: Draws = None,
) -> Arrays:
    """One of two graphs of the inputs, of equal results, as a predicate says.

    Operands: the predicate (of one element; not zero: ``then_branch``), the inputs, what ``then_branch`` captured, what
    ``else_branch`` captured.
    """
    given, parts = _parts(operands[1:], (then_branch, else_branch), num_inputs, (), draws)
    then, other = [lambda given, part=part: tuple(part(given)) for part in parts]
    wanted = jax.eval_shape(then, given)
    return lax.cond(  # type: ignore[no-any-return]
        jnp.reshape(operands[0], ()) != 0, then, lambda given: _like(other(given), wanted), given
    )
