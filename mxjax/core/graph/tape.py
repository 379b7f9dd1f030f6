"""The tape: reverse-mode differentiation on the same recording."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from heapq import heappop, heappush
from itertools import count
from typing import Any

import jax
import jax.numpy as jnp

from ... import errors
from ..calls.call import SCALARS, Call, row
from ..calls.record import record, record2, untaped_record
from ..calls.state import local
from ..calls.value import Value
from ..compile.compiler import for_platform, platform_of, wide_types
from ..hooks import memory_managers, tape_writers

_numbers = count()
passes = [0]  # how many backward passes there were


class Node:
    """One taped call: its inputs, and how to get their gradients.

    ``pull`` replaces the call's own gradient where the forward ran in Python (autograd.Function, custom
    operators, transfers between devices): it takes the outputs' cotangents (``None`` where nothing
    came) and returns one gradient, or ``None``, per input. ``saved`` is a pair (``graph.Pair``) and the
    residuals its forward left, for calls that compute forward and backward as a pair.
    """

    __slots__ = (
        "__weakref__",
        "avals",
        "call",
        "inputs",
        "leaves",
        "many",
        "number",
        "pull",
        "released",
        "saved",
        "scope",
    )

    def __init__(
        self,
        call: Call | None,
        inputs: Sequence[Any],
        avals: tuple[Any, ...],
        many: bool = False,
        pull: Callable[..., Sequence[Value | None]] | None = None,
        saved: tuple[Any, Sequence[Any]] | None = None,
    ):
        self.call = call
        self.inputs: Sequence[Any] | None = inputs
        self.avals = avals
        self.many = many
        self.pull = pull
        self.saved = saved
        self.number = next(_numbers)
        self.scope = local.st.scope  # the block the backward is shown under
        self.leaves: dict[int, Leaf] | None = None  # variables attached to results of this call

    def wants(self) -> tuple[bool, ...]:
        """Which inputs get a gradient: those of floats, or where none of these depends on a variable, the others.

        So a mask or an index costs nothing beside what it selects from, and ``x > 1`` alone has zeros.
        """
        inputs = self.inputs or ()
        floats = tuple([v.tape is not None and v.aval.differentiable for v in inputs])
        return floats if True in floats else tuple([v.tape is not None for v in inputs])

    def release(self) -> None:
        """Let go of everything kept for the backward pass; to what is taped later the results are constants."""
        self.released = next(_numbers)
        self.inputs = None
        self.saved = None
        self.pull = None


class Leaf:
    """A variable: where gradients arrive. ``deliver(gradient)`` stores one as ``req`` says, in the array ``grad``;
    with ``total`` it has been added to what was there.

    ``stype`` is how it is stored. A gradient of rows that were chosen by number may come as a sparse value
    (`array/sparse`), which knows how it is added to another (``plus``) and becomes dense (``dense``).
    """

    __slots__ = ("__weakref__", "deliver", "grad", "req", "stype")

    def __init__(
        self, req: str, deliver: Callable[..., None], stype: str = "default", grad: Any = None
    ):
        self.grad = grad
        self.req = req
        self.deliver = deliver
        self.stype = stype

    @staticmethod
    def deliver_all(found: Mapping[Leaf, Any], totals: Set[Leaf]) -> None:
        """Store the gradients that one backward pass has found for variables of this kind."""
        for leaf, g in found.items():
            if leaf in totals:
                leaf.deliver(g, True)
            else:
                leaf.deliver(g)


_RELEASED = (
    "Cannot differentiate node because it is not in a computational graph: an earlier backward "
    "has released it. If you want to differentiate the same graph twice, pass retain_graph=True "
    "to the first backward, or compute the loss again inside autograd.record()"
)
_ALONE = (True,)  # a call's only result has a cotangent
ADD = row("_grad_add", jnp.add).bind()
_ONES = row("_ones_like", jnp.ones_like, display="ones_like").bind()
_SAME = row("_grad_same", lambda x: x, display="copy").bind()


def attach(call: Call, inputs: Sequence[Any], outs: Sequence[Value], many: bool) -> None:
    """Put a recorded call on the tape if one of its inputs depends on a variable."""
    for v in inputs:
        if v.tape is not None:
            break
    else:
        return
    if len(outs) == 1:
        o = outs[0]
        o.tape = Node(call, inputs, (o.aval,), many)
        o.out = 0
        return
    node = Node(call, inputs, tuple([o.aval for o in outs]), many)
    for k, o in enumerate(outs):
        o.tape = node
        o.out = k


def attach_python(
    inputs: Sequence[Any],
    outs: Sequence[Any],
    pull: Callable[..., Sequence[Any]],
    call: Call | None = None,
) -> None:
    """Put a forward that ran in Python on the tape.

    What ``pull`` computes can be differentiated again if it is recorded. If it is not, its attribute ``once`` is the
    name of what it is the gradient of, which the error for a second derivative says. With an attribute ``adds`` it
    takes a second argument: for each input the array that it adds the gradient to itself, or ``None``.
    ``call`` is what a symbol has for it.
    """
    if all(v.tape is None for v in inputs):
        return
    node = Node(call, tuple(inputs), tuple([o.aval for o in outs]), True, pull)
    for k, o in enumerate(outs):
        o.tape = node
        o.out = k


def is_constant_in(head: Value) -> bool:
    """Whether the gradients of what computed this are zeros whatever the head's is, as those of positions are."""
    node = head.tape
    call = getattr(node, "call", None)
    if (
        call is None
        or node.many
        or node.saved is not None
        or node.inputs is None
        or head.aval.dtype.kind not in "fV"
    ):
        return False
    inputs = [v.aval.struct if isinstance(v, Value) else SCALARS[v.kind] for v in node.inputs]

    def pull(g: Any, *given: Any) -> Any:
        back = jax.vjp(lambda *xs: call.fn(*xs), *given)[1](g)
        return [b for b, x in zip(back, given, strict=True) if jnp.issubdtype(x.dtype, jnp.inexact)]

    with wide_types(), for_platform(platform_of(head.aval.device)):
        made = jax.make_jaxpr(pull)(head.aval.struct, *inputs).jaxpr
    reached = {made.invars[0]}
    for eqn in made.eqns:
        if any(v in reached for v in eqn.invars if not hasattr(v, "val")):
            reached.update(eqn.outvars)
    return not any(v in reached for v in made.outvars if not hasattr(v, "val"))


def ones_like(v: Value) -> Value:
    return record(_ONES, (v,))[0]


def gradients(
    heads: Sequence[Value],
    head_grads: Sequence[Value | None],
    *,
    retain: bool,
    taped: bool = False,
    totals: set[Leaf] | None = None,
) -> dict[Leaf, Value]:
    """Cotangents of every variable behind the heads.

    With ``taped`` the computation is itself on the tape, so that it can be differentiated again. ``totals`` gets the
    variables whose gradient Python has added to their array's numbers itself; None: it is not to do so.
    """
    for h in heads:
        if h.tape is None:
            raise errors.MXNetError(
                "Cannot differentiate node because it is not in a computational graph: it was not computed from "
                "a variable inside autograd.record(). Call attach_grad() on an input (or initialize the block's "
                "parameters) and compute the loss inside `with autograd.record():`. If you want to differentiate "
                "the same graph twice, pass retain_graph=True to the first backward"
            )
    passes[0] += 1
    st = local.st
    before = st.taping, st.differentiating, st.scope

    def undo() -> None:
        st.taping, st.differentiating, st.scope = before
        st.refresh()

    leaves: dict[Leaf, Value] = {}
    # A node is taped after all it depends on, so the youngest waiting node has all its cotangents.
    waiting: list[tuple[int, Node]] = []
    constant = False  # something came from a graph that was released before
    cotangents: dict[Node, list[Value | None]] = {}
    release = memory_managers[0].retire if memory_managers else Node.release
    try:
        st.taping, st.differentiating = taped, True
        st.refresh()
        seen: set[tuple[int, int]] = set()
        for h, g in zip(heads, head_grads, strict=True):
            if g is None and (id(h.tape), h.out) in seen:
                continue  # the same head twice counts once
            seen.add((id(h.tape), h.out))
            _add(h, ones_like(h) if g is None else g, leaves, cotangents, waiting)
        while waiting:
            node = heappop(waiting)[1]
            given = cotangents.pop(node)
            if node.leaves is not None:
                for k, leaf in node.leaves.items():
                    if given[k] is not None:
                        leaves[leaf] = given[k]  # type: ignore[assignment]
            inputs = node.inputs
            if inputs is None:
                raise errors.MXNetError(_RELEASED)
            st.scope = node.scope
            number = node.number
            sums = None
            if node.pull is not None and totals is not None and getattr(node.pull, "adds", False):
                sums = _sums(inputs, leaves, waiting)
                totals.update(v.tape for v, s in zip(inputs, sums, strict=True) if s is not None)
            for v, g in zip(inputs, _pull(node, inputs, given, sums)):  # noqa: B905 -- one gradient an input
                if (
                    g is not None
                    and v.tape is not None
                    and _add(v, g, leaves, cotangents, waiting, number)
                ):
                    constant = True
            if not retain:
                # At once: where operators run one by one, the memory is free for the rest of the way.
                release(node)
                del inputs, v
        if not retain:
            for manager in memory_managers:
                manager.settle()
        if constant and not leaves:
            raise errors.MXNetError(_RELEASED)
        undo()
    except BaseException:
        undo()
        raise
    return leaves


def _add(
    v: Value,
    g: Value,
    leaves: dict[Leaf, Value],
    cotangents: dict[Node, list[Value | None]],
    waiting: list[tuple[int, Node]],
    number: int = 0,
) -> bool:
    """Let a cotangent of ``v`` arrive, from the node of this number.

    True where it does not: what computed ``v`` was released before that node was taped, so it is a constant.
    """
    t = v.tape
    if isinstance(t, Leaf):
        old = leaves.get(t)
        leaves[t] = g if old is None else _sum(old, g)
        return False
    arrived = cotangents.get(t)
    if arrived is None:
        if t.inputs is None and t.released < number:
            return True
        arrived = cotangents[t] = [None] * len(t.avals)
        heappush(waiting, (-t.number, t))
        arrived[v.out] = g
        return False
    prior = arrived[v.out]
    arrived[v.out] = g if prior is None else _sum(prior, g)
    return False


def _sum(a: Any, b: Any) -> Any:
    """The sum of two gradients, sparse where both are."""
    if type(a) is not Value:
        return a.plus(b)
    return record2(ADD, a, b) if type(b) is Value else b.plus(a)


def _sums(
    inputs: Sequence[Any], leaves: dict[Leaf, Value], waiting: list[tuple[int, Node]]
) -> list[Any]:
    """The arrays that Python adds its gradients to by itself: those of inputs that are variables with ``req`` add and
    get no other gradient."""
    found: list[Any] = []
    for v in inputs:
        t = v.tape
        alone = (
            isinstance(t, Leaf) and t.req == "add" and t.grad is not None and t.stype == "default"
        )
        alone = alone and t not in leaves and sum(other.tape is t for other in inputs) == 1
        found.append(t if alone else None)
    if not any(found):
        return found
    todo, seen = [node for _, node in waiting], set()
    todo += [v.tape for v in inputs if isinstance(v.tape, Node)]
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        for v in node.inputs or ():
            if isinstance(v.tape, Node):
                todo.append(v.tape)
            elif v.tape is not None and v.tape in found:
                found[found.index(v.tape)] = None
    return [None if t is None else t.grad for t in found]


def _pull(
    node: Node, inputs: Sequence[Any], given: list[Any], sums: Any = None
) -> Sequence[Value | None]:
    """The gradients of a node's inputs, ``None`` where there is none."""
    if node.pull is not None:
        if not getattr(node.pull, "stored", False):  # it knows dense gradients only
            given = [g if g is None or type(g) is Value else g.dense() for g in given]
        made = node.pull(given) if sums is None else node.pull(given, sums)
        once = getattr(node.pull, "once", None) if local.st.taping else None
        return made if once is None else _refusing(once, [*inputs, *given], made)
    call = node.call
    if len(given) == 1:
        has: tuple[bool, ...] = _ALONE
        (g,) = given
        present = given if type(g) is Value else [g.dense()]
    else:
        has = tuple([c is not None for c in given])
        present = [c if type(c) is Value else c.dense() for c in given if c is not None]
    if node.saved is not None and not local.st.taping:
        pair, residuals = node.saved
        wants = pair.wants
        grads = record(pair.backward(has), (*residuals, *present))
    else:
        wants = tuple(
            [v.tape is not None and v.aval.differentiable for v in inputs]
        )  # `Node.wants`, but for its call
        if True not in wants:
            wants = node.wants()
        backward = call.vjps.get((wants, has)) or call.vjp(wants, has, node.many)  # type: ignore[union-attr]
        grads = record(backward, (*inputs, *present))
    found: Sequence[Value | None] = grads
    if len(grads) < len(wants):
        rest = iter(grads)
        found = [next(rest) if w else None for w in wants]
    if False in has and call.graph is not None:  # type: ignore[union-attr]
        # What no result of these depends on has no gradient, as where its operators run one by one.
        reached = call.graph.reached(has)  # type: ignore[union-attr]
        if reached is not None:
            found = [g if k in reached else None for k, g in enumerate(found)]
    return found


def _refusing(name: str, sources: Sequence[Any], made: Sequence[Any]) -> list[Value | None]:
    """Gradients that Python computed, unrecorded: whoever differentiates them is told, instead of getting a part."""

    def refuse(_: Any) -> Sequence[Any]:
        raise errors.MXNetError(
            f"{name} is differentiable once: its backward is Python code that is not recorded, so there is no second "
            "derivative. Compute the function with operators of mxjax where create_graph=True is to be differentiated "
            "again"
        )

    fresh = [
        None if g is None else untaped_record(_SAME, (g if type(g) is Value else g.dense(),))[0]
        for g in made
    ]
    attach_python(
        [v for v in sources if v is not None], [g for g in fresh if g is not None], refuse
    )
    return fresh


def backward(
    heads: Sequence[Value],
    head_grads: Sequence[Value | None],
    *,
    retain: bool = False,
    taped: bool = False,
) -> None:
    """Differentiate the heads and deliver the gradients to their variables."""
    totals: set[Leaf] = set()
    found = gradients(heads, head_grads, retain=retain, taped=taped, totals=totals)
    kinds: set[type[Leaf]] = set(map(type, found))
    for kind in kinds:
        kind.deliver_all(
            found if len(kinds) == 1 else {t: g for t, g in found.items() if type(t) is kind},
            totals,
        )


tape_writers.append(attach)
