"""Shapes of a symbol's variables and results from some of them, in both directions.

What a row's column `shapes` says and what it computes for known shapes is all there is to know: lengths that are not
known are tried out. A result's length that stays the same for two of them does not depend on it, and where it is an
affine function of one, the length follows from it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .. import errors, util
from ..core import Call, aval, default_device, rng
from ..core.calls.value import Dynamic
from ..ops.table import Op
from ..ops.texts import value_of
from .node import Node, states_of, walk
from .types import complete, require_known

#: A shape with None for lengths that are not known, or None where not even the number of axes is.
Partial = tuple[int | None, ...] | None

# What stands for a length that is not known while it is tried out: far from each other and from what people use.
_TRIED = (1_201, 1_609, 2_411)


class Conflict(Exception):
    """Two shapes of one thing that do not go together."""

    def __init__(self, one: Partial, other: Partial):
        super().__init__(f"{_text(one)} and {_text(other)}")


def _text(shape: Partial) -> str:
    return (
        "?" if shape is None else "(" + ", ".join("?" if n is None else str(n) for n in shape) + ")"
    )


def unified(one: Partial, other: Partial) -> Partial:
    """What both say together."""
    if one is None or other is None:
        return other if one is None else one
    if len(one) != len(other):
        raise Conflict(one, other)
    for m, n in zip(one, other, strict=True):
        if m is not None and n is not None and m != n:
            raise Conflict(one, other)
    return tuple([n if m is None else m for m, n in zip(one, other, strict=True)])


def known(shape: Partial) -> bool:
    return shape is not None and None not in shape


def partial(shape: Any) -> Partial:
    """A shape as a user gives it: 0, or -1 under NumPy's shapes, is a length that is not known."""
    if shape is None:
        return None
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if not shape and not util.is_np_shape():
        return None
    unknown = (-1,) if util.is_np_shape() else (0, -1)
    return tuple([None if n in unknown else int(n) for n in shape])


def shown(shape: Partial) -> Any:
    """A shape as users see it."""
    if util.is_np_shape():
        return None if shape is None else tuple([-1 if n is None else n for n in shape])
    return () if shape is None else tuple([0 if n is None else n for n in shape])


class Inference:
    """The shapes of all results of a graph's nodes, as far as they follow from those of ``given``.

    ``types`` are the dtypes of variables, for operators that look at them.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        given: Mapping[str, Partial],
        types: dict[Node, Any] | None = None,
    ):
        self.nodes = nodes
        self.types: dict[tuple[Node, int], Any] = {}
        for n, t in (complete(nodes, {}) if types is None else types).items():
            if n.is_variable:
                self.types[n, 0] = t
        self.found: dict[Node, list[Partial]] = {}
        self._tried: dict[Any, list[tuple[int, ...]] | None] = {}
        self._seen: dict[Node, Any] = {}
        for node in nodes:
            if node.is_variable:
                shape = given.get(node.name)
                self.found[node] = [declared_shape(node) if shape is None else shape]
            else:
                self.found[node] = [None] * node.count()
        self._run()

    def of(self, entries: Iterable[tuple[Node, int]]) -> list[Partial]:
        return [self.found[n][k] if k < len(self.found[n]) else None for n, k in entries]

    def _run(self) -> None:
        self._spread()
        if not util.is_np_shape():
            return
        # Under NumPy's shapes a length 0 of mx.sym's own operators is an empty axis, where nothing says otherwise:
        # recurrent cells write the batch so, as in MXNet 1.
        empty = [n for n in self.nodes if is_open(n) and not known(self.found[n][0])]
        for node in empty:
            self._set(node, 0, tuple([n or 0 for n in self.found[node][0] or ()]))
        if empty:
            self._spread()

    def _spread(self) -> None:
        calls = [
            n for n in self.nodes if n.op is not None or (n.registry and _special(n) is not None)
        ]
        for _ in range(len(calls) + 2):
            self._changed = False
            for node in calls:
                self._visit(node, backward=False)
            if not self._changed and all(known(s) for node in self.nodes for s in self.found[node]):
                return
            for node in reversed(calls):
                self._visit(node, backward=True)
            if not self._changed:
                return

    def _set(self, node: Node, k: int, shape: Partial) -> None:
        before = self.found[node][k]
        made = unified(before, shape)
        if made != before:
            self.found[node][k] = made
            self._changed = True

    def _visit(self, node: Node, backward: bool) -> None:
        ins = [self.found[n][k] if k < len(self.found[n]) else None for n, k in node.inputs]
        state = (tuple(ins), tuple(self.found[node]))
        if self._seen.get(node) == state:
            return  # nothing is new
        try:
            if node.op is None:
                self._ask(node, ins)
                return
            if node.inputs:
                self._parameters(node, ins)
                self._beside(node, ins)
                ins = [self.found[n][k] for n, k in node.inputs]
            self._forward(node, ins)
            if node.inputs and not all(known(s) for s in ins):
                self._backward(node, ins)
        except Conflict as conflict:
            places = ", ".join(f"{n}: {_text(s)}" for n, s in zip(node.names, ins, strict=True))
            raise errors.MXNetError(
                f"Error in operator {node.name}: shapes do not fit together, {conflict}. {node.operator} takes {places}"
            ) from None
        ins = [self.found[n][k] for n, k in node.inputs]
        self._seen[node] = (tuple(ins), tuple(self.found[node]))

    def _ask(self, node: Node, ins: Sequence[Partial]) -> None:
        """The shapes that a node without a row says itself."""
        asked = _special(node)
        assert asked is not None
        back, outs = asked(node, ins)
        for k, shape in enumerate(back):
            self._set(*node.inputs[k], shape)
        for k, shape in enumerate(outs):
            self._set(node, k, shape)

    # ---- what follows from what comes in ----------------------------------------------------------------

    def _parameters(self, node: Node, ins: Sequence[Partial]) -> None:
        """The shapes of the other arrays by the row's column `shapes`."""
        op, first = node.op, ins[0]
        assert op is not None
        if op.inference.shapes is None or first is None:
            return
        found = []
        for number in _TRIED[:1] if known(first) else _TRIED[:2]:
            try:
                found.append(
                    op.infer_shapes(tuple([number if n is None else n for n in first]), node.params)
                )
            except (IndexError, KeyError, TypeError, ValueError, ZeroDivisionError):
                return
        for name, shape in found[0].items():
            if name in node.names or (
                type(name) is int and name < len(ins)
            ):  # rows of any number of arrays count them
                k = name if type(name) is int else node.names.index(name)
                if _holds_as_much(ins[k], shape):
                    continue  # labels (n, 1) beside data (n,): the row decides
                made = _common([f.get(name) for f in found]) if len(found) > 1 else tuple(shape)
                try:
                    self._set(*node.inputs[k], made)
                except Conflict:
                    if not all(known(s) for s in ins) or self._shapes(node, ins) is None:
                        raise  # else the row takes this shape, too

    def _beside(self, node: Node, ins: Sequence[Partial]) -> None:
        """Arrays that are joined have one shape, but for the axis of the joint; so has a pair to choose from."""
        assert node.op is not None
        if node.op.inference.unknown == "pair" and known(ins[0]):
            for k, other in ((1, ins[2]), (2, ins[1])):
                if other is not None and not known(ins[k]):
                    self._set(*node.inputs[k], other)
            return
        if node.op.inference.unknown not in ("joined", "stacked"):
            return
        options = {**(node.op.attr_defaults or {}), **node.params}
        axis = options.get("dim", options.get("axis"))
        for shape in [s for s in ins if s is not None]:
            if node.op.inference.unknown == "joined":
                if not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
                    return
                shape = (*shape[: axis % len(shape)], None, *shape[axis % len(shape) + 1 :])
            for array, k in node.inputs:
                self._set(array, k, shape)

    def _forward(self, node: Node, ins: Sequence[Partial]) -> None:
        if any(s is None for s in ins):
            return
        if all(known(s) for s in ins):
            made: Sequence[Partial] | None = self._shapes(node, ins, strict=True)
        elif (
            node.op is not None
            and node.op.inference.unknown in ("waits", "pair")
            and not known(ins[0])
        ):
            return  # MXNet does not guess what a condition of unknown shape is broadcast to
        else:
            tried = [self._shapes(node, _filled(ins, [number] * 9)) for number in _TRIED[:2]]
            one, other = tried
            made = (
                None
                if one is None or other is None
                else [_common(pair) for pair in zip(one, other, strict=True)]
            )
            if (
                made
                and node.op is not None
                and node.op.inference.unknown == "stays"
                and ins[0]
                and made[0]
            ):
                # Of a length that is not known MXNet knows no part: it may be shorter than the slice.
                made = [
                    tuple(
                        [
                            n if whole is not None else None
                            for n, whole in zip(made[0], ins[0], strict=True)
                        ]
                    )
                ]
        for k, shape in enumerate(made or ()):
            if k < len(self.found[node]):
                self._set(node, k, shape)

    def _shapes(self, node: Node, ins: Sequence[Any], strict: bool = False) -> list[Partial] | None:
        """The results' shapes for known shapes; None, or an error if ``strict``, where they do not fit together."""
        types = tuple([self.types.get(entry) for entry in node.inputs])
        key = (node, tuple(ins), types)
        if key not in self._tried or strict:
            try:
                made = _results(node, ins, types)
            except Exception as error:
                if strict:
                    raise _wrong(node, ins, error) from error
                made = None
            self._tried[key] = None if made is None else [tuple(a.shape) for a in made]
            if strict:
                self.types.update({(node, k): a.dtype for k, a in enumerate(made or ())})
        shapes = self._tried[key]
        if shapes is None:
            return None
        if _is_shapeless(node):
            return [None] * len(shapes)
        hidden = _unsettled(node)
        return (
            [tuple([None if k in hidden else n for k, n in enumerate(s)]) for s in shapes]
            if hidden
            else list(shapes)
        )

    # ---- what follows from what comes out ----------------------------------------------------------------

    def _backward(self, node: Node, ins: Sequence[Partial]) -> None:
        op = node.op
        assert op is not None
        outs = self.found[node]
        if _like_each_other(op):
            for s in ins:
                self._set(node, 0, s)
            for k in range(len(ins)):
                self._set(*node.inputs[k], outs[0])
            return
        if outs[0] is not None and len(ins) == 1 and ins[0] is None and _keeps_shape(op):
            tried = tuple([_TRIED[0] if n is None else n for n in outs[0]])
            if self._shapes(node, [tried]) == [tried]:
                self._set(*node.inputs[0], outs[0])
            return
        if any(s is None for s in ins) or not any(
            n is not None for s in outs if s is not None for n in s
        ):
            return
        for k, shape in enumerate(self._solved(node, ins, outs)):
            self._set(*node.inputs[k], shape)
        if op.inference.unknown == "same size" and known(outs[0]):
            self._set(
                *node.inputs[0],
                self._of_size(node, self.found[node.inputs[0][0]][node.inputs[0][1]], outs[0]),
            )

    def _of_size(self, node: Node, given: Partial, out: Partial) -> Partial:
        """What comes in with its only unknown length such that it has as many elements as what comes out."""
        lengths = [n for n in given or () if n is not None]
        length, rest = divmod(math.prod(out or ()), math.prod(lengths) or 1)  # type: ignore[arg-type]
        if given is None or len(given) - len(lengths) != 1 or rest or length < 1:
            return given
        tried = tuple([length if n is None else n for n in given])
        return tried if self._shapes(node, [tried]) == [out] else given

    def _solved(
        self, node: Node, ins: Sequence[Partial], outs: Sequence[Partial]
    ) -> Sequence[Partial]:
        """Lengths of what comes in that follow from those of what comes out."""
        places = [(k, d) for k, s in enumerate(ins) for d, n in enumerate(s or ()) if n is None]
        if len(places) > 8:
            return ins
        base = self._lengths(node, ins, dict.fromkeys(places, _TRIED[0]))
        if base is None:
            return ins
        # Lengths that must be equal to each other move together.
        alone: list[tuple[int, int]] = []
        tied: list[tuple[int, int]] = []
        for p in places:
            moved = self._lengths(node, ins, {**dict.fromkeys(places, _TRIED[0]), p: _TRIED[1]})
            (alone if moved is not None else tied).append(p)
        if node.op is not None and node.op.inference.unknown == "tied":
            alone, tied = [], places  # the first weights of both directions are of one width
        groups = [[p] for p in alone] + ([tied] if tied else [])
        solution: dict[tuple[int, int], int] = {}
        wanted = [
            n
            for s, b in zip(outs, base, strict=True)
            for n in (s if s is not None else [None] * len(b))
        ]
        flat = [n for s in base for n in s]
        for group in groups:
            steps = []
            for number in _TRIED[1:]:
                moved = self._lengths(
                    node, ins, {**dict.fromkeys(places, _TRIED[0]), **dict.fromkeys(group, number)}
                )
                if moved is None or [len(s) for s in moved] != [len(s) for s in base]:
                    break
                steps.append([n for s in moved for n in s])
            if len(steps) < 2:
                continue
            found = {
                length for k, want in enumerate(wanted)
                if want is not None and (length := _affine(flat[k], steps[0][k], steps[1][k], want)) is not None
            }  # fmt: skip
            if len(found) == 1:
                solution.update(dict.fromkeys(group, found.pop()))
        return [
            s
            if s is None
            else tuple([solution.get((k, d)) if n is None else n for d, n in enumerate(s)])
            for k, s in enumerate(ins)
        ]

    def _lengths(
        self, node: Node, ins: Sequence[Partial], at: dict[tuple[int, int], int]
    ) -> list[tuple[int, ...]] | None:
        full = [
            tuple([at.get((k, d), n) for d, n in enumerate(s or ())]) for k, s in enumerate(ins)
        ]
        made = self._shapes(node, full)
        return None if made is None else [tuple([n or 0 for n in s or ()]) for s in made]


def _holds_as_much(given: Partial, expected: Sequence[int]) -> bool:
    """Whether arrays of both shapes have as many elements for each sample."""
    if given is None or not known(given) or given[:1] != tuple(expected[:1]):
        return False
    return math.prod([n or 0 for n in given]) == math.prod(expected)


def _affine(base: int, one: int, two: int, wanted: int) -> int | None:
    """The length for which a result's length is as wanted, if that is an affine function of it."""
    slope, rest = divmod(one - base, _TRIED[1] - _TRIED[0])
    if rest or slope == 0 or two - base != slope * (_TRIED[2] - _TRIED[0]):
        return None
    length, rest = divmod(wanted - base, slope)
    return None if rest or length + _TRIED[0] < 0 else length + _TRIED[0]


def _filled(shapes: Sequence[Partial], numbers: Sequence[int]) -> list[tuple[int, ...]]:
    given = iter(list(numbers) * 8)
    return [tuple([next(given) if n is None else n for n in s or ()]) for s in shapes]


def _common(shapes: Sequence[Any]) -> Partial:
    one, other = shapes
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple([m if m == n else None for m, n in zip(one, other, strict=True)])


def _like_each_other(op: Op) -> bool:
    """Whether all arrays and the result of a row have one shape."""
    return (
        op.inference.shapes is not None
        and len(op.array_params) == 2
        and op.array_params[1] == "rhs"
    )


_SHAPELESS = frozenset({
    "scalar", "dtype", "act_type", "slope", "lower_bound", "upper_bound", "a_min", "a_max", "p", "mode", "axes",
    "cudnn_off", "grad_scale", "valid_thresh", "normalization", "alpha", "beta",
})  # fmt: skip


def _keeps_shape(op: Op) -> bool:
    """Whether a row may be taken to give the shape that it gets, if it does for one."""
    needed = [p for p in op.array_params if p not in op.defaults]
    return (
        len(needed) == 1
        and not op.variadic
        and _SHAPELESS.issuperset(op.attr_params)
        and op.inference.unknown != "apart"
    )


def _special(node: Node) -> Any:
    """How a node without a row says its shapes."""
    from .special import known as known_special

    found = known_special(node.registry)
    return None if found is None else found.shapes


def settled(found: Inference, nodes: Iterable[Node]) -> dict[Node, tuple[int, ...]]:
    """The shapes of what these nodes make; a length that nothing says is 0."""
    return {n: tuple([k or 0 for k in found.found[n][0] or ()]) for n in nodes}


def with_shape(params: dict[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
    """The attributes of an operator without arrays that make one of this shape."""
    if not params.get("infer_range"):
        return {**params, "shape": shape}
    count = -(-shape[0] // params.get("repeat", 1))
    return {**params, "stop": params["start"] + count * params.get("step", 1)}


def is_open(node: Node) -> bool:
    """Whether a node makes an array of a shape that is known only when the symbol is bound."""
    return bool(_unsettled(node)) or _is_shapeless(node)


def _is_shapeless(node: Node) -> bool:
    """Whether an operator without arrays says not even the number of axes, which MXNet 1 writes as ()."""
    return (
        not node.inputs
        and node.op is not None
        and node.params.get("shape") == ()
        and not util.is_np_shape()
    )


def _unsettled(node: Node) -> tuple[int, ...]:
    """The axes of what an operator without arrays makes whose lengths are not known.

    They are 0 in the attribute `shape` of mx.sym's operators, which know no empty arrays;
    `dialect.open_begin_states` opens those of a recurrent network's begin states.
    """
    if node.inputs or node.op is None:
        return ()
    if node.open is not None:
        return node.open
    if node.params.get("infer_range"):
        return (0,) if node.params.get("stop") is None else ()
    shape = node.params.get("shape")
    if not isinstance(shape, tuple) or node.is_np:
        return ()
    return tuple([k for k, n in enumerate(shape) if n in (0, -1)])


def declared_shape(node: Node) -> Partial:
    """The shape that a variable's attribute gives; 0 and -1 are lengths that are not known."""
    written = value_of(node.attrs.get("__shape__", ""))
    if not isinstance(written, tuple) or any(type(n) is not int for n in written):
        return None
    return tuple([None if n <= 0 else n for n in written])


def _wrong(node: Node, ins: Sequence[Any], error: Exception) -> Exception:
    places = ", ".join(f"{n}: {tuple(s)}" for n, s in zip(node.names, ins, strict=False))
    return errors.MXNetError(
        f"Error in operator {node.name}: {error} ({node.operator} takes {places})"
    )


def _results(node: Node, ins: Sequence[Any], types: Sequence[Any]) -> Sequence[Any]:
    try:
        return results_of(node, ins, types)
    except TypeError:  # dtypes that nobody gave, maybe
        if not any(types):
            raise
        return results_of(node, ins)


def results_of(
    node: Node, ins: Sequence[tuple[int, ...]], types: Sequence[Any] = ()
) -> Sequence[Any]:
    """The avals of a node's results for arrays of these shapes and dtypes (float32 where none is given)."""
    op = node.op
    assert op is not None
    device = default_device()
    given = [
        aval(s, t or "float32", device)
        for s, t in zip(ins, types or [None] * len(ins), strict=True)
    ]
    holes: list[tuple[int, Any]] = []
    if not op.variadic:
        for k, name in enumerate(op.array_params):
            if name in node.constants:
                holes.append((k, node.constants[name]))
            elif name not in node.names:
                holes.append((k, None))
        holes = _without_trailing(op, holes)
    params = node.params
    if "shape" in params and is_open(node):  # -1 is a length that is not known, too
        params = {**params, "shape": tuple([max(n, 0) for n in params["shape"]])}
    attrs = sorted(params.items())
    if op.modal:
        attrs.append(("is_train", False))
    operands: list[Any] = list(given)
    if op.keyed:
        holes = [(k + 3, c) for k, c in holes]
        operands[:0] = _key_avals(device)
    call: Call = op.bind(tuple(attrs), tuple(holes))
    outs, _ = call.infer(tuple(operands), device)
    return outs[: node.count()]


def _without_trailing(op: Op, holes: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
    last = len(op.array_params) - 1
    while holes and holes[-1][1] is None and holes[-1][0] == last:
        holes.pop()
        last -= 1
    return holes


def _key_avals(device: Any) -> list[Any]:
    with rng.suspended():
        stream = rng.stream(device)
    return [stream.key.aval, Dynamic(0).kind, Dynamic(0).kind]


def shapes_of(symbol: Any, args: Sequence[Any], kwargs: dict[str, Any], partial: bool) -> Any:
    """What `Symbol.infer_shape` gives."""
    given = named(symbol, args, kwargs)
    require_known(symbol, given)
    nodes = walk(symbol._entries)
    found = Inference(nodes, given)
    states = states_of(nodes)
    parts = (
        [found.found[n][0] for n in nodes if n.is_variable and n not in states],
        found.of(symbol._entries),
        [found.found[n][0] for n in nodes if n in states],
    )
    if not partial and not all(known(s) for part in parts for s in part):
        _refuse_axes(nodes, found)
        variables = [n for n in nodes if n.is_variable]
        missing = [
            f"{n.name}: {shown(found.found[n][0])}"
            for n in variables
            if not known(found.found[n][0])
        ]
        warnings.warn(
            "Cannot decide shape for the following arguments (0s in shape means unknown dimensions). Consider "
            f"providing them as input:\n\t{chr(10).join(missing) or 'of results'}",
            stacklevel=3,
        )
        return None, None, None
    return tuple([shown(s) for s in part] for part in parts)


def _refuse_axes(nodes: Sequence[Node], found: Inference) -> None:
    """Raise where known data has too few axes for an operator whose parameters' shapes follow from it.

    Raises:
      MXNetError: that operator, and the shape of its data.
    """
    for node in nodes:
        data = (found.of(node.inputs) or [None])[0]
        if node.op is None or node.op.inference.shapes is None or data is None or not known(data):
            continue
        try:
            node.op.infer_shapes(tuple([n or 0 for n in data]), node.params)
        except IndexError:
            error = errors.MXNetIndexError(f"data of {len(data)} axes has too few of them")
            raise _wrong(node, [data], error) from None


def named(symbol: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Partial]:
    """The shapes a user gave, by the arguments' names."""
    if args and kwargs:
        raise errors.MXNetValueError(
            "Can only specify known argument shapes either by positional or kwargs way."
        )
    given = dict(zip(symbol.list_arguments(), args, strict=False)) if args else dict(kwargs)
    for name, shape in given.items():
        if shape is not None and not isinstance(shape, (tuple, list)):
            raise errors.MXNetTypeError(
                f"Arguments need to be shapes (tuple), but '{name}' is {type(shape)}."
            )
    return {name: partial(shape) for name, shape in given.items()}
