"""Where rows and MXNet's registry say one thing in different words: symbols on their way to a file and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..ops.columns import Form
from ..ops.keys import ARRAY, Slice
from ..ops.table import READ, TABLE, Op, by_internal
from ..ops.texts import value_of
from . import attributes
from .node import Entry, Node, copied, walk

#: The functions that a row's column ``written`` names, by name: a node to its results in MXNet's words, None where the
#: row's own are MXNet's.
WRITERS: dict[str, Callable[..., list[Entry] | None]] = {}
#: The functions that ``read`` names: a row, and a file's attributes, to the row's.
READERS: dict[str, Callable[..., dict[str, str]]] = {}
#: An attribute by which a reader says where a row's arrays stand among a file's inputs.
_ORDER = "__inputs__"


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
    """`Concat`; without an axis arrays are joined as vectors."""
    assert node.op is not None
    given = {**node.op.attr_defaults, **node.params}
    return _one(node, "Concat", {"dim": given[axis], "num_args": len(node.inputs)})


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
        places = {"axis": arrays[0], "mode": "wrap"}
        return [(_node(node, "take", places, node.inputs, "_taken"), 0)]
    if arrays != list(range(len(arrays))):
        return None
    indices = _node(
        node, "stack", {"axis": 0, "num_args": len(arrays)}, node.inputs[1:], "_indices"
    )
    return [(_node(node, "gather_nd", {}, [node.inputs[0], (indices, 0)], "_gathered"), 0)]


@writes
def norm(node: Node) -> list[Entry] | None:
    """A norm with the number by which MXNet tells vectors from matrices; the largest and the smallest have none."""
    said, axis = node.params.get("ord"), node.params.get("axis")
    axes = (axis,) if isinstance(axis, int) else axis
    number = 2
    if said is None:
        flag = -2 if axes is None else 1
    elif said in ("fro", "f", "nuc"):
        flag = 2 if said == "nuc" else 1
    elif abs(float(said)) == float("inf"):
        if axes is not None and len(axes) != 1:
            return None
        plain = _node(node, "_npi_absolute", {}, node.inputs, "_plain")
        attrs = {"axis": axes, "keepdims": bool(node.params.get("keepdims", False))}
        kind = "_npi_max" if float(said) > 0 else "_npi_min"
        return [(_node(node, kind, attrs, [(plain, 0)], "_farthest"), 0)]
    else:
        number, flag = said, 0 if axes is not None and len(axes) == 2 else -1
    keeps = bool(node.params.get("keepdims", False))
    return _one(node, "_npi_norm", {"ord": number, "axis": axes, "keepdims": keeps, "flag": flag})


@writes
def repeat(node: Node) -> list[Entry] | None:
    """`_npi_repeats`, which knows axis 0 alone: another one changes places with it before and after."""
    counts, axis = node.params["repeats"], node.params.get("axis")
    attrs = {"repeats": (counts,) if isinstance(counts, int) else counts, "axis": axis}
    if axis in (None, 0):
        return _one(node, "_npi_repeats", attrs)
    places = {"dim1": 0, "dim2": axis}
    first = _node(node, "SwapAxis", places, node.inputs, "_first")
    made = _node(node, "_npi_repeats", {**attrs, "axis": 0}, [(first, 0)], "_repeated")
    return [(_node(node, "SwapAxis", places, [(made, 0)], "_back"), 0)]


@writes
def percentile(node: Node, scale: float | None) -> list[Entry] | None:
    """`_npi_percentile` for medians (``scale`` None), quantiles and percentiles; one place is a number there."""
    params = {"axis": None, "keepdims": False, "interpolation": "linear", **node.params}
    params["interpolation"] = params.pop("method", None) or params["interpolation"]
    params.pop("overwrite_input", None)
    if isinstance(params["axis"], int):
        params["axis"] = (params["axis"],)
    if scale is None:
        return _one(
            node, "_npi_percentile", {**params, "interpolation": "midpoint", "q_scalar": 50}
        )
    place = node.constants.get("q")
    if place is None and scale != 1:
        return None
    attrs = {**params, "q_scalar": None if place is None else place * scale}
    return _one(node, "_npi_percentile", attrs)


@writes
def interp(node: Node) -> list[Entry] | None:
    """The points come first there."""
    if "x" in node.names:
        inputs = dict(zip(node.names, node.inputs, strict=True))
        if len(inputs) < 3:
            return None
        said: dict[str, Any] = {"x_is_scalar": False, "x_scalar": 0.0}
        given = [inputs["xp"], inputs["fp"], inputs["x"]]
    else:
        said = {"x_is_scalar": True, "x_scalar": node.constants["x"]}
        given = list(node.inputs)
    wide = [
        (_node(node, "Cast", {"dtype": "float64"}, [e], f"_wide{k}"), 0)
        for k, e in enumerate(given)
    ]
    return [(_node(node, "_npi_interp", {**node.params, **said}, wide, "_between"), 0)]


@writes
def cholesky(node: Node) -> list[Entry] | None:
    return _one(node, "_npi_cholesky", {"lower": not node.params.get("upper", False)})


@writes
def inner(node: Node) -> list[Entry] | None:
    return _one(node, "_npi_tensordot", {"a_axes_summed": (-1,), "b_axes_summed": (-1,)})


@writes
def flat(node: Node, summed: int) -> list[Entry] | None:
    """All products of two flat arrays, or (``summed`` 1) the sum of those that belong together."""
    flats = [
        (_node(node, "_npx_reshape", {"newshape": (-1,)}, [e], f"_flat{k}"), 0)
        for k, e in enumerate(node.inputs)
    ]
    return [(_node(node, "_npi_tensordot_int_axes", {"axes": summed}, flats, "_product"), 0)]


@writes
def fully_connected(node: Node) -> list[Entry] | None:
    """Without the bias that `npx.fully_connected` was given and does not add."""
    assert node.op is not None
    unbiased = {**node.op.attr_defaults, **node.params}["no_bias"]
    if len(node.inputs) < 3 or not (node.is_np and unbiased):
        return None
    attrs = {**node.params, "no_bias": True}
    return [(_node(node, "FullyConnected", attrs, node.inputs[:2], "_unbiased"), 0)]


@writes
def take(node: Node) -> list[Entry] | None:
    """Without an axis of the flat array."""
    axis, mode = node.params.get("axis"), node.params.get("mode", "raise")
    if axis is not None:
        return None
    flat = _node(node, "_npx_reshape", {"newshape": (-1,)}, node.inputs[:1], "_flat")
    return [
        (_node(node, "take", {"axis": 0, "mode": mode}, [(flat, 0), node.inputs[1]], "_taken"), 0)
    ]


# ------------------------------------------------------------------------------------------- from a file


def of_numpy(op: Op | None, registry: str) -> Op | None:
    """In a graph with NumPy's shapes: the row of np.linalg, where both dialects have this operator."""
    if op is None or not op.name.startswith("la_"):
        return op
    other = TABLE.get("linalg_" + op.name.removeprefix("la_"))
    return op if other is None or other.names.internal != registry else other


def ordered(inputs: list[Entry], attrs: dict[str, str]) -> list[Entry]:
    """A node's inputs as the row has them, where its reader said that they are in another order."""
    said = [int(k) for k in attrs.pop(_ORDER, "").split()]
    return [inputs[k] for k in said] if len(said) == len(inputs) else inputs


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
def typed_read(row: Op, attrs: Mapping[str, str], numbers: Mapping[str, str]) -> dict[str, str]:
    """Numbers that a file has as int, uint and double; ``value_type`` says by 0, 1 or 2 which of them counts."""
    if "value_type" not in attrs:
        return dict(attrs)
    kind = ("int", "uint", "double")[int(attrs["value_type"])]
    stems = [form.format(each) for form in numbers.values() for each in ("int", "uint", "double")]
    rest = {k: v for k, v in attrs.items() if k not in (*stems, "value_type")}
    return {**rest, **{name: attrs[form.format(kind)] for name, form in numbers.items()}}


@reads
def identity_read(row: Op, attrs: Mapping[str, str]) -> dict[str, str]:
    """A shape of two equal lengths."""
    rest = {k: v for k, v in attrs.items() if k != "shape"}
    shape = value_of(attrs.get("shape", "()"))
    return {**rest, "n": str(shape[0])} if isinstance(shape, tuple) and shape else rest


@reads
def norm_read(row: Op, attrs: Mapping[str, str]) -> dict[str, str]:
    """``flag`` is -2 for all elements, 1 for Frobenius' norm, 2 for the nuclear one; else ``ord`` counts."""
    rest = {k: v for k, v in attrs.items() if k != "flag"}
    flag = attrs.get("flag")
    if flag in ("-2", "1"):
        rest.pop("ord", None)
    elif flag == "2":
        rest["ord"] = "nuc"
    return rest


@reads
def cholesky_read(row: Op, attrs: Mapping[str, str]) -> dict[str, str]:
    rest = {k: v for k, v in attrs.items() if k != "lower"}
    return (
        {"upper": "False", **rest}
        if attrs.get("lower", "1") in ("1", "True")
        else {**rest, "upper": "True"}
    )


@reads
def percentile_read(row: Op, attrs: Mapping[str, str]) -> dict[str, str]:
    rest = {k: v for k, v in attrs.items() if k != "q_scalar"}
    place = attrs.get("q_scalar", "None")
    return rest if place == "None" else {**rest, "__constant_q__": place}


@reads
def interp_read(row: Op, attrs: Mapping[str, str]) -> dict[str, str]:
    rest = {k: v for k, v in attrs.items() if k not in ("x_is_scalar", "x_scalar")}
    if attrs.get("x_is_scalar", "0").lower() in ("1", "true"):
        return {**rest, "__constant_x__": attrs["x_scalar"]}
    return {**rest, _ORDER: "2 0 1"}


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
