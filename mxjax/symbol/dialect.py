"""Where rows and MXNet's registry say one thing in different words: symbols on their way to a file and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..ops.keys import ARRAY, Slice
from ..ops.table import by_internal
from ..ops.texts import value_of
from . import attributes
from .node import Entry, Node, copied, walk

#: Row -> (MXNet's operator, what it calls the row's attributes).
RENAMED: dict[str, tuple[str, dict[str, str]]] = {
    "concatenate": ("Concat", {"axis": "dim"}),
    "swapaxes": ("SwapAxis", {"axis1": "dim1", "axis2": "dim2"}),
    "full@nd": ("_full", {"val": "value"}),
    "_cast": ("Cast", {}),
    "_copy": ("_copy", {}),
    "_zeros_like": ("zeros_like", {}),
    "_zeros": ("_npi_zeros", {}),
    "linalg_inv": ("_npi_inv", {}),
    "linalg_det": ("_npi_det", {}),
    "linalg_slogdet": ("_npi_slogdet", {}),
    "positive": ("_npi_copy", {}),
}  # fmt: skip
#: MXNet's operator -> (row, what the row calls its attributes), of those that files have.
_BACK = {
    "_full": ("full@nd", {"value": "val"}),
    "_npi_concatenate": ("concatenate", {"dim": "axis"}),
    "_npi_swapaxes": ("swapaxes", {"dim1": "axis1", "dim2": "axis2"}),
    "_np_repeat": ("repeat", {}),
}
#: Rows that compute what the other row of their registry name computes, with the same attributes.
EQUAL: frozenset[str] = frozenset()
_NAMES_OF_SPLIT = ("_npi_hsplit", "_split_v2", "_npi_split", "_npi_array_split")


def without_casts(entries: Sequence[Entry]) -> list[Entry]:
    """The same results without the casts that automatic mixed precision put in."""
    if not any(
        n.op is not None and n.op.display in ("amp_cast", "amp_multicast") for n in walk(entries)
    ):
        return list(entries)
    made = copied(entries)
    skipped: dict[Entry, Entry] = {}
    for node in walk(made):
        node.inputs = [skipped.get(e, e) for e in node.inputs]
        if node.op is not None and node.op.display in ("amp_cast", "amp_multicast"):
            skipped.update({(node, k): e for k, e in enumerate(node.inputs)})
    return [skipped.get(e, e) for e in made]


# ------------------------------------------------------------------------------------------- to a file


def for_file(entries: Sequence[Entry]) -> list[Entry]:
    """The same results by operators that MXNet has, as far as there are such."""
    nodes = walk(entries)
    if not any(n.op is not None and (n.op.name in _WRITTEN or n.op.name in RENAMED) for n in nodes):
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
    op = node.op
    assert op is not None
    if op.name in RENAMED:
        registry, renames = RENAMED[op.name]
        params = {**op.attr_defaults, **node.params} if op.name == "concatenate" else node.params
        if op.name == "concatenate" and params.get("axis") is None:
            return None
        attrs = {renames.get(k, k): v for k, v in params.items() if v is not None and k != "order"}
        if op.name == "full@nd":
            attrs.setdefault("dtype", "float32")
        return _one(node, registry, attrs)
    write = _WRITTEN.get(op.name)
    return None if write is None else write(node)


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


def _full(node: Node) -> list[Entry] | None:
    value = node.params["fill_value"]
    dtype = node.params.get("dtype") or (
        "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float32"
    )
    shape = node.params["shape"]
    shape = (shape,) if isinstance(shape, int) else shape
    return _one(node, "_full", {"shape": shape, "dtype": dtype, "value": float(value)})


def _clip(node: Node) -> list[Entry] | None:
    low, high = (node.params.get(k) for k in ("a_min", "a_max"))
    return _one(
        node,
        "clip",
        {
            "a_min": float("-inf") if low is None else low,
            "a_max": float("inf") if high is None else high,
        },
    )


def _like(node: Node) -> list[Entry] | None:
    assert node.op is not None
    number = 0.0 if node.op.name == "zeros_like" else 1.0
    dtype = node.params.get("dtype")
    return _one(
        node,
        "_npi_full_like",
        {"fill_value": number, **({} if dtype is None else {"dtype": dtype})},
    )


def _identity(node: Node) -> list[Entry] | None:
    dtype = node.params.get("dtype") or "float32"
    return _one(
        node, "_npi_eye", {"N": node.params["n"], "M": node.params["n"], "k": 0, "dtype": dtype}
    )


def _flipped(node: Node) -> list[Entry] | None:
    assert node.op is not None
    return _one(node, "_npi_flip", {"axis": (0 if node.op.name == "flipud" else 1,)})


def _append(node: Node) -> list[Entry] | None:
    axis = node.params.get("axis")
    return (
        None if axis is None else _one(node, "Concat", {"dim": axis, "num_args": len(node.inputs)})
    )


def _average(node: Node) -> list[Entry] | None:
    return _one(node, "_npi_average", {**node.params, "weighted": len(node.inputs) > 1})


def _ravel(node: Node) -> list[Entry] | None:
    return _one(node, "_npx_reshape", {"newshape": (-1,)})


def _argsort(node: Node) -> list[Entry] | None:
    params = node.params
    attrs = {
        "axis": params.get("axis", -1),
        "is_ascend": not params.get("descending", False),
        "dtype": "int64",
    }
    return _one(node, "argsort", attrs)


def _sort(node: Node) -> list[Entry] | None:
    params = node.params
    return _one(
        node,
        "sort",
        {"axis": params.get("axis", -1), "is_ascend": not params.get("descending", False)},
    )


_SPLIT_AXES = {"vsplit": 0, "dsplit": 2}


def _split(node: Node) -> list[Entry] | None:
    assert node.op is not None
    places = node.params["indices_or_sections"]
    attrs = {k: v for k, v in node.params.items() if k in ("axis", "squeeze_axis")}
    attrs.setdefault("axis", _SPLIT_AXES.get(node.op.name, 0))  # MXNet's default is another
    if isinstance(places, int):
        return _one(node, "_split_v2", {"indices": (), "sections": places, **attrs})
    return _one(node, "_split_v2", {"indices": (0, *places), "sections": 0, **attrs})


def _hsplit(node: Node) -> list[Entry] | None:
    places = node.params["indices_or_sections"]
    said = (
        {"indices": (), "sections": places}
        if isinstance(places, int)
        else {"indices": (0, *places), "sections": 0}
    )
    return _one(node, "_npi_hsplit", {**said, "axis": 1})


def _array_split(node: Node) -> list[Entry] | None:
    places = node.params["indices_or_sections"]
    attrs = {"axis": node.params.get("axis", 0)}
    if isinstance(places, int):
        return _one(node, "_npi_array_split", {"indices": (), "sections": places, **attrs})
    return _one(node, "_npi_array_split", {"indices": (0, *places), "sections": 0, **attrs})


def _tensordot(node: Node) -> list[Entry] | None:
    axes = node.params.get("axes", 2)
    if isinstance(axes, int):
        return _one(node, "_npi_tensordot_int_axes", {"axes": axes})
    a, b = ((x,) if isinstance(x, int) else x for x in axes)
    return _one(node, "_npi_tensordot", {"a_axes_summed": a, "b_axes_summed": b})


def _where(node: Node) -> list[Entry] | None:
    x, y = (node.constants.get(k) for k in ("x", "y"))
    if not node.constants:
        return None
    if x is not None and y is not None:
        return _one(node, "_npi_where_scalar2", {"x": float(x), "y": float(y)})
    if y is None:
        return _one(node, "_npi_where_lscalar", {"scalar": float(x)})  # type: ignore[arg-type]
    return _one(node, "_npi_where_rscalar", {"scalar": float(y)})


def _drawn(node: Node) -> list[Entry] | None:
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


def _index(node: Node) -> list[Entry] | None:
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


def _taken(node: Node) -> list[Entry] | None:
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


def _filled(node: Node) -> list[Entry] | None:
    return _one(node, "_npi_full_like", {"fill_value": float(node.params["scalar"])})


def _written(node: Node) -> list[Entry] | None:
    made = _node(node, "broadcast_like", {}, node.inputs[::-1], "_like")
    return [(made, 0)]


_WRITTEN: dict[str, Callable[[Node], list[Entry] | None]] = {
    "full": _full,
    "append": _append,
    "average": _average,
    "clip": _clip,
    "clip@nd": _clip,
    "dsplit": _split,
    "fliplr": _flipped,
    "flipud": _flipped,
    "hsplit": _hsplit,
    "identity": _identity,
    "ones_like": _like,
    "ravel": _ravel,
    "vsplit": _split,
    "zeros_like": _like,
    "argsort": _argsort,
    "sort": _sort,
    "split": _split,
    "array_split": _array_split,
    "split_v2": _split,
    "tensordot": _tensordot,
    "where": _where,
    "_basic_index": _index,
    "_advanced_index": _taken,
    "_fill": _filled,
    "_write": _written,
    **dict.fromkeys(
        (
            "uniform", "normal", "gumbel", "logistic", "laplace", "exponential", "rayleigh", "weibull", "pareto",
            "random_power", "random_gamma",
        ),
        _drawn,
    ),
}  # fmt: skip


# ------------------------------------------------------------------------------------------- from a file


def open_begin_states(entries: Sequence[Entry]) -> None:
    """Let a recurrent network's begin states have as many samples as the data, whatever they were exported with."""
    for node in walk(entries):
        if node.op is None or node.op.display != "RNN":
            continue
        for name, (made, _) in zip(node.names, node.inputs, strict=True):
            shape = made.params.get("shape")
            if (
                name in ("state", "state_cell")
                and made.op is not None
                and not made.inputs
                and isinstance(shape, tuple)
            ):
                if len(shape) == 3:
                    made.open = (1,)


def read(registry: str, attrs: Mapping[str, str]) -> tuple[str, dict[str, str]] | None:
    """The row and its attributes for an operator of a file that has other ones; None where both are the same."""
    if registry in _BACK:
        row, renames = _BACK[registry]
        return row, {renames.get(k, k): v for k, v in attrs.items()}
    if registry in _NAMES_OF_SPLIT:
        rest = {k: v for k, v in attrs.items() if k not in ("indices", "sections")}
        row = {"_npi_array_split": "array_split", "_npi_hsplit": "hsplit"}.get(registry, "split_v2")
        if row == "hsplit":
            rest = {k: v for k, v in rest.items() if k not in ("axis", "squeeze_axis")}
        sections = value_of(attrs.get("sections", "0"))
        places = value_of(attrs.get("indices", "()"))
        if isinstance(sections, int) and sections > 0:
            return row, {**rest, "indices_or_sections": str(sections)}
        places = places if isinstance(places, tuple) else (places,)
        return row, {**rest, "indices_or_sections": attributes.text(tuple(places[1:]))}
    if registry == "_npi_tensordot":
        summed = [value_of(attrs.get(f"{k}_axes_summed", "()")) for k in "ab"]
        rest = {k: v for k, v in attrs.items() if not k.endswith("_axes_summed")}
        return "tensordot", {
            **rest,
            "axes": attributes.text(tuple(x if isinstance(x, tuple) else (x,) for x in summed)),
        }
    if registry == "_npi_tensordot_int_axes":
        return "tensordot", dict(attrs)
    if registry in ("_npi_where_lscalar", "_npi_where_rscalar", "_npi_where_scalar2"):
        rest = {k: v for k, v in attrs.items() if k not in ("scalar", "x", "y")}
        given = {"_npi_where_lscalar": {"x": "scalar"}, "_npi_where_rscalar": {"y": "scalar"}}.get(
            registry, {"x": "x", "y": "y"}
        )
        return "where", {
            **rest,
            **{f"__constant_{k}__": attrs.get(v, "0") for k, v in given.items()},
        }
    op = by_internal(registry)
    if op is not None and op.keyed and registry.startswith("_npi_") and op.array_params:
        numbers = {k: v for k, v in attrs.items() if k in op.array_params and v not in ("None", "")}
        if numbers:
            rest = {k: v for k, v in attrs.items() if k not in op.array_params}
            return op.name, {**rest, **{f"__constant_{k}__": v for k, v in numbers.items()}}
        if any(k in op.array_params for k in attrs):
            return op.name, {k: v for k, v in attrs.items() if k not in op.array_params}
    return None
