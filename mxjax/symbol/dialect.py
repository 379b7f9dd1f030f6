"""Where rows and MXNet's registry say one thing in different words: symbols on their way to a file and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..ops.columns import Form
from ..ops.keys import ARRAY, Slice
from ..ops.table import READ, Op, by_internal
from ..ops.texts import value_of
from . import attributes
from .node import Entry, Node, copied, walk

#: The functions that a row's column ``written`` names, by name: a node to its results in MXNet's words, None where the
#: row's own are MXNet's.
WRITERS: dict[str, Callable[..., list[Entry] | None]] = {}
#: The functions that ``read`` names: a row, and a file's attributes, to the row's.
READERS: dict[str, Callable[..., dict[str, str]]] = {}


def writes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let rows name a function in their column ``written``."""
    WRITERS[function.__name__.strip("_")] = function
    return function


def reads(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let rows name a function in their column ``read``."""
    READERS[function.__name__.removesuffix("_read").strip("_")] = function
    return function


def _applied(functions: Mapping[str, Callable[..., Any]], form: Form, *given: Any) -> Any:
    """What a row's form makes of these."""
    name, *more = (form,) if isinstance(form, str) else form
    return functions[name](*given, *more)


def without_casts(entries: Sequence[Entry]) -> list[Entry]:
    """The same results without the casts that automatic mixed precision put in."""
    if not any(n.op is not None and n.op.files.left_out for n in walk(entries)):
        return list(entries)
    made = copied(entries)
    skipped: dict[Entry, Entry] = {}
    for node in walk(made):
        node.inputs = [skipped.get(e, e) for e in node.inputs]
        if node.op is not None and node.op.files.left_out:
            skipped.update({(node, k): e for k, e in enumerate(node.inputs)})
    return [skipped.get(e, e) for e in made]


# ------------------------------------------------------------------------------------------- to a file


def for_file(entries: Sequence[Entry]) -> list[Entry]:
    """The same results by operators that MXNet has, as far as there are such."""
    nodes = walk(entries)
    if not any(n.op is not None and n.op.files.written is not None for n in nodes):
        return list(entries)
    made: dict[Node, list[Entry]] = {}
    for node in nodes:
        inputs = [made[n][k] for n, k in node.inputs]
        own = node if inputs == node.inputs else node.on(inputs)
        said = None if node.op is None else _said(own)
        made[node] = said or [(own, k) for k in range(own.count())]
    return [made[n][k] for n, k in entries]


def _said(node: Node) -> list[Entry] | None:
    """A node's results in MXNet's words; None where the row's own are MXNet's."""
    form = None if node.op is None else node.op.files.written
    return None if form is None else _applied(WRITERS, form, node)


def _node(
    node: Node, registry: str, attrs: Mapping[str, Any], inputs: Sequence[Entry], mark: str = ""
) -> Node:
    texts = {k: attributes.text(v) for k, v in attrs.items()}
    names = [f"arg{k}" for k in range(len(inputs))]
    if node.op is not None and node.op.variadic and not mark:
        texts["num_args"] = str(len(inputs))
    return Node(
        node.name + mark,
        None,
        texts,
        node.attrs,
        inputs,
        names,
        registry=registry,
        is_np=node.is_np,
    )


def _one(node: Node, registry: str, attrs: Mapping[str, Any]) -> list[Entry]:
    made = _node(node, registry, attrs, node.inputs)
    made.constants["outputs"] = node.count()
    return [(made, k) for k in range(node.count())]


@writes
def renamed(
    node: Node,
    registry: str,
    attributes: Mapping[str, str] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> list[Entry] | None:
    """Another operator, which calls some of the row's attributes otherwise, or has other defaults."""
    given = {(attributes or {}).get(k, k): v for k, v in node.params.items()}
    attrs = {k: v for k, v in given.items() if v is not None and k != "order"}
    return _one(node, registry, {**(defaults or {}), **attrs})


@writes
def joined(node: Node, axis: str) -> list[Entry] | None:
    """`Concat`, which has no form for arrays that are joined as vectors."""
    assert node.op is not None
    given = {**node.op.attr_defaults, **node.params}
    return None if given[axis] is None else _one(node, "Concat", {"dim": given[axis]})


@writes
def like(node: Node, number: float) -> list[Entry] | None:
    dtype = node.params.get("dtype")
    attrs = {} if dtype is None else {"dtype": dtype}
    return _one(node, "_npi_full_like", {"fill_value": number, **attrs})


@writes
def flipped(node: Node, axis: int) -> list[Entry] | None:
    return _one(node, "_npi_flip", {"axis": (axis,)})


@writes
def split(node: Node, axis: int = 0, registry: str = "_split_v2") -> list[Entry] | None:
    """Equal parts, or parts that begin at places; MXNet's default axis is another."""
    places = node.params["indices_or_sections"]
    attrs = {k: v for k, v in node.params.items() if k in ("axis", "squeeze_axis")}
    if isinstance(places, int):
        said: dict[str, Any] = {"indices": (), "sections": places}
    else:
        said = {"indices": (0, *places), "sections": 0}
    return _one(node, registry, {"axis": axis, **said, **attrs})


@writes
def filled(node: Node) -> list[Entry] | None:
    return _one(node, "_npi_full_like", {"fill_value": float(node.params["scalar"])})


@writes
def laid(node: Node) -> list[Entry] | None:
    """An array written over another one."""
    made = _node(node, "broadcast_like", {}, node.inputs[::-1], "_like")
    return [(made, 0)]


@writes
def drawn(node: Node) -> list[Entry] | None:
    """A random operator's numbers as attributes of the same names."""
    op = node.op
    assert op is not None
    numbers = {
        n: op.defaults[n]
        for n in op.array_params
        if n in op.defaults and op.defaults[n] is not None
    }
    attrs = {**numbers, **node.params, **node.constants}
    for name in node.names:
        attrs[name] = None
    return _one(
        node,
        op.names.internal or op.name,
        {k: v for k, v in attrs.items() if v is not None or k in ("size", *node.names)},
    )


@writes
def full(node: Node) -> list[Entry] | None:
    value = node.params["fill_value"]
    dtype = node.params.get("dtype") or (
        "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float32"
    )
    shape = node.params["shape"]
    shape = (shape,) if isinstance(shape, int) else shape
    return _one(node, "_full", {"shape": shape, "dtype": dtype, "value": float(value)})


@writes
def clip(node: Node) -> list[Entry] | None:
    low, high = (node.params.get(k) for k in ("a_min", "a_max"))
    return _one(
        node,
        "clip",
        {
            "a_min": float("-inf") if low is None else low,
            "a_max": float("inf") if high is None else high,
        },
    )


@writes
def identity(node: Node) -> list[Entry] | None:
    dtype = node.params.get("dtype") or "float32"
    return _one(
        node, "_npi_eye", {"N": node.params["n"], "M": node.params["n"], "k": 0, "dtype": dtype}
    )


@writes
def average(node: Node) -> list[Entry] | None:
    return _one(node, "_npi_average", {**node.params, "weighted": len(node.inputs) > 1})


@writes
def ravel(node: Node) -> list[Entry] | None:
    return _one(node, "_npx_reshape", {"newshape": (-1,)})


@writes
def argsort(node: Node) -> list[Entry] | None:
    params = node.params
    attrs = {
        "axis": params.get("axis", -1),
        "is_ascend": not params.get("descending", False),
        "dtype": "int64",
    }
    return _one(node, "argsort", attrs)


@writes
def sort(node: Node) -> list[Entry] | None:
    params = node.params
    return _one(
        node,
        "sort",
        {"axis": params.get("axis", -1), "is_ascend": not params.get("descending", False)},
    )


@writes
def tensordot(node: Node) -> list[Entry] | None:
    axes = node.params.get("axes", 2)
    if isinstance(axes, int):
        return _one(node, "_npi_tensordot_int_axes", {"axes": axes})
    a, b = ((x,) if isinstance(x, int) else x for x in axes)
    return _one(node, "_npi_tensordot", {"a_axes_summed": a, "b_axes_summed": b})


@writes
def where(node: Node) -> list[Entry] | None:
    x, y = (node.constants.get(k) for k in ("x", "y"))
    if not node.constants:
        return None
    if x is not None and y is not None:
        return _one(node, "_npi_where_scalar2", {"x": float(x), "y": float(y)})
    if y is None:
        return _one(node, "_npi_where_lscalar", {"scalar": float(x)})  # type: ignore[arg-type]
    return _one(node, "_npi_where_rscalar", {"scalar": float(y)})


@writes
def basic_index(node: Node) -> list[Entry] | None:
    """A basic index as a slice, with axes taken away and put in."""
    key = node.params["key"]
    if (
        Ellipsis in key
        or any(not (k is None or isinstance(k, (int, Slice))) for k in key)
        or len(node.inputs) > 1
    ):
        return None
    begin: list[int | None] = []
    end: list[int | None] = []
    step: list[int | None] = []
    gone: list[int] = []
    fresh: list[int] = []
    shown = 0
    for k in key:
        if k is None:
            fresh.append(shown)
            shown += 1
        elif isinstance(k, int):
            begin.append(k)
            end.append(None if k == -1 else k + 1)
            step.append(1)
            gone.append(len(begin) - 1)
        else:
            begin.append(k[0])
            end.append(k[1])
            step.append(1 if k[2] is None else k[2])
            shown += 1
    at = node.inputs[0]
    if begin:
        at = (
            _node(
                node,
                "slice",
                {"begin": tuple(begin), "end": tuple(end), "step": tuple(step)},
                [at],
                "_part",
            ),
            0,
        )
    if gone:
        at = _node(node, "_npi_squeeze", {"axis": tuple(gone)}, [at], "_squeezed"), 0
    for k, axis in enumerate(fresh):
        at = _node(node, "expand_dims", {"axis": axis}, [at], f"_axis{k}"), 0
    return [at if at is not node.inputs[0] else (_node(node, "_copy", {}, [at], "_same"), 0)]


@writes
def advanced_index(node: Node) -> list[Entry] | None:
    """An index with one array as `take`, with several at the front as `gather_nd`."""
    key = tuple(k for k in node.params["key"] if k is not Ellipsis)
    whole = Slice(None, None, None)
    arrays = [k for k, part in enumerate(key) if part == ARRAY]
    if (
        any(part != ARRAY and part != whole for part in key)
        or not arrays
        or Ellipsis in node.params["key"][:-1]
    ):
        return None
    if len(arrays) == 1:
        return _one(node, "take", {"axis": arrays[0], "mode": "wrap"})
    if arrays != list(range(len(arrays))):
        return None
    indices = _node(
        node, "stack", {"axis": 0, "num_args": len(arrays)}, node.inputs[1:], "_indices"
    )
    return [(_node(node, "gather_nd", {}, [node.inputs[0], (indices, 0)], "_gathered"), 0)]


# ------------------------------------------------------------------------------------------- from a file


def open_begin_states(entries: Sequence[Entry]) -> None:
    """Let a recurrent network's begin states have as many samples as the data, whatever they were exported with."""
    for node in walk(entries):
        follows = {} if node.op is None else node.op.inference.follows
        for name, (made, _) in zip(node.names, node.inputs, strict=True) if follows else ():
            shape = made.params.get("shape")
            if (
                name in follows
                and made.op is not None
                and not made.inputs
                and isinstance(shape, tuple)
            ):
                if len(shape) == 3:
                    made.open = (follows[name],)


def read(registry: str, attrs: Mapping[str, str]) -> tuple[str, dict[str, str]] | None:
    """The row and its attributes for an operator of a file that has other ones; None where both are the same."""
    if registry in READ:
        row, form = READ[registry]
        return row.name, _applied(READERS, form, row, attrs)
    op = by_internal(registry)
    if op is not None and op.keyed and registry.startswith("_npi_") and op.array_params:
        numbers = {k: v for k, v in attrs.items() if k in op.array_params and v not in ("None", "")}
        if numbers:
            rest = {k: v for k, v in attrs.items() if k not in op.array_params}
            return op.name, {**rest, **{f"__constant_{k}__": v for k, v in numbers.items()}}
        if any(k in op.array_params for k in attrs):
            return op.name, {k: v for k, v in attrs.items() if k not in op.array_params}
    return None


@reads
def renamed_read(row: Op, attrs: Mapping[str, str], renames: Mapping[str, str]) -> dict[str, str]:
    return {renames.get(k, k): v for k, v in attrs.items()}


@reads
def split_read(row: Op, attrs: Mapping[str, str]) -> dict[str, str]:
    dropped = {"indices", "sections", *({"axis", "squeeze_axis"} - {*row.attr_params})}
    rest = {k: v for k, v in attrs.items() if k not in dropped}
    sections = value_of(attrs.get("sections", "0"))
    places = value_of(attrs.get("indices", "()"))
    if isinstance(sections, int) and sections > 0:
        return {**rest, "indices_or_sections": str(sections)}
    places = places if isinstance(places, tuple) else (places,)
    return {**rest, "indices_or_sections": attributes.text(tuple(places[1:]))}


@reads
def tensordot_read(row: Op, attrs: Mapping[str, str]) -> dict[str, str]:
    summed = [value_of(attrs.get(f"{k}_axes_summed", "()")) for k in "ab"]
    rest = {k: v for k, v in attrs.items() if not k.endswith("_axes_summed")}
    axes = tuple(x if isinstance(x, tuple) else (x,) for x in summed)
    return {**rest, "axes": attributes.text(axes)}


@reads
def where_read(row: Op, attrs: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Numbers for one of the arrays, or both."""
    rest = {k: v for k, v in attrs.items() if k not in ("scalar", "x", "y")}
    return {**rest, **{f"__constant_{k}__": attrs.get(v, "0") for k, v in given.items()}}
