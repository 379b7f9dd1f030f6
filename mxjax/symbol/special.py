"""Operators that no row of the table is: loops and branches over symbols, Python code, results of unknown length.

A node of these has no row (`Node.op` is None); it runs by calling the function of arrays that there is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import errors, nd
from .. import np as mnp
from ..array.classes import NDArray, ndarray
from ..modes import is_np_shape
from ..npx import constraint_check, control_flow
from ..npx import nonzero as npx_nonzero
from ..operator.custom_op import CustomOpProp
from ..operator.running import run as run_operator
from ..ops.texts import value_of
from .node import Node, Subgraph

#: Further names of MXNet's for these operators.
ALIASES = {
    "_npx_foreach": "_foreach", "_npx_while_loop": "_while_loop", "_npx_cond": "_cond", "_npi_Custom": "Custom",
    "_npi_boolean_mask": "_contrib_boolean_mask", "_npi_histogram": "_histogram",
}  # fmt: skip

#: Operators with graphs inside, and how many.
LOOPS = {"_foreach": 1, "_while_loop": 2, "_cond": 3}


class Special(NamedTuple):
    """How a node without a row runs (its inputs' arrays to its results), and the shapes and dtypes of its results."""

    run: Callable[[Node, list[NDArray]], Any]
    shapes: Callable[[Node, Sequence[Any]], Any] | None = None
    types: Callable[[Node, Sequence[Any]], Any] | None = None


def value(node: Node, key: str, default: Any = None) -> Any:
    """An attribute, which may come from a file as text."""
    found = node.params.get(key, default)
    return value_of(found) if isinstance(found, str) else found


def places(node: Node, key: str) -> tuple[int, ...]:
    """An attribute that is a list of positions."""
    found = value(node, key, ())
    found = found if isinstance(found, tuple) else (found,)
    if any(type(k) is not int or not 0 <= k < 1 << 16 for k in found):
        raise errors.FormatError(f"{node.name}: {key} are no positions: {str(found)[:80]}")
    return found


# ---- loops and branches --------------------------------------------------------------------------------


def _sub(node: Node, k: int, arrays: Sequence[NDArray]) -> list[NDArray]:
    """Run one of a node's graphs on arrays, in the order of its variables."""
    from .run import run

    sub: Subgraph = node.subgraphs[k]
    cls = type(arrays[0]) if arrays else None
    return run(sub.entries, dict(zip(sub.variables, arrays, strict=True)), cls=cls)


def _foreach(node: Node, inputs: list[NDArray]) -> Any:
    data, states, rest = (places(node, f"{k}_locs") for k in ("in_data", "in_state", "remain"))
    n, m = len(data), len(states)
    outs = int(value(node, "num_out_data"))

    def body(xs: Any, now: Any) -> Any:
        given: list[Any] = [None] * len(inputs)
        for at, a in zip((*data, *states, *rest), (*xs, *now, *inputs[n + m :]), strict=True):
            given[at] = a
        made = _sub(node, 0, given)
        return made[:outs], made[outs:]

    made, last = control_flow.foreach(body, inputs[:n], inputs[n : n + m])
    return [*made, *last]


def _while_loop(node: Node, inputs: list[NDArray]) -> Any:
    of_cond, of_func, of_vars = (
        places(node, f"{k}_locs") for k in ("cond_input", "func_input", "func_var")
    )
    loop = [of_func[k] for k in of_vars]
    outs = int(value(node, "num_out_data"))

    def given(now: Sequence[Any], which: Sequence[int]) -> list[Any]:
        known = dict(enumerate(inputs)) | dict(zip(loop, now, strict=True))
        return [known[k] for k in which]

    def holds(*now: Any) -> Any:
        return _sub(node, 0, given(now, of_cond))[0]

    def step(*now: Any) -> Any:
        made = _sub(node, 1, given(now, of_func))
        return made[:outs], made[outs:]

    made, last = control_flow.while_loop(
        holds, step, [inputs[k] for k in loop], int(value(node, "max_iterations"))
    )
    listed = made if isinstance(made, list) else [made] if made is not None else []
    return [*listed, *(last if isinstance(last, list) else [last])]


def _cond(node: Node, inputs: list[NDArray]) -> Any:
    chosen = [places(node, f"{k}_input_locs") for k in ("cond", "then", "else")]
    pred = _sub(node, 0, [inputs[k] for k in chosen[0]])[0]
    made = control_flow.cond(
        pred,
        lambda: _sub(node, 1, [inputs[k] for k in chosen[1]]),
        lambda: _sub(node, 2, [inputs[k] for k in chosen[2]]),
    )
    return made if isinstance(made, list) else [made]


def _inferred(node: Node, k: int, shapes: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The shapes of a graph's variables and results, from some of the variables'."""
    from .infer import Inference
    from .node import walk

    sub = node.subgraphs[k]
    given = {v.name: s for v, s in zip(sub.variables, shapes, strict=True)}
    found = Inference(walk([*sub.entries, *((v, 0) for v in sub.variables)]), given)
    return [found.found[v][0] for v in sub.variables], found.of(sub.entries)


def _shapes_of_foreach(node: Node, ins: Sequence[Any]) -> Any:
    data, states, rest = (places(node, f"{k}_locs") for k in ("in_data", "in_state", "remain"))
    order = (*data, *states, *rest)
    given: list[Any] = [None] * len(ins)
    numbers = () if node.is_np or is_np_shape() else (1,)  # what a row of one axis is
    for k, at in enumerate(order):
        given[at] = (None if ins[k] is None else ins[k][1:] or numbers) if k < len(data) else ins[k]
    variables, results = _inferred(node, 0, given)
    length = next((s[0] for s in ins[: len(data)] if s), None)
    inner = [variables[at] for at in order]
    back = [
        s if s is not None and len(s) == 1 else (None if row is None else (length, *row))
        for s, row in zip(ins[: len(data)], inner, strict=False)
    ] + inner[len(data) :]
    outs = int(value(node, "num_out_data"))
    return back, [None if s is None else (length, *s) for s in results[:outs]] + results[outs:]


def _shapes_of_while(node: Node, ins: Sequence[Any]) -> Any:
    of_func = places(node, "func_input_locs")
    variables, results = _inferred(node, 1, [ins[k] for k in of_func])
    back: list[Any] = list(ins)
    for k, s in zip(of_func, variables, strict=True):
        back[k] = s
    outs, limit = int(value(node, "num_out_data")), int(value(node, "max_iterations"))
    return back, [None if s is None else (limit, *s) for s in results[:outs]] + results[outs:]


def _shapes_of_cond(node: Node, ins: Sequence[Any]) -> Any:
    back: list[Any] = list(ins)
    results: list[Any] = []
    for k, which in enumerate(("cond", "then", "else")):
        at = places(node, f"{which}_input_locs")
        variables, made = _inferred(node, k, [back[i] for i in at])
        for i, s in zip(at, variables, strict=True):
            back[i] = s
        results = made if k else results
    return back, results


# ---- Python code, and results of unknown length --------------------------------------------------------


def run_custom(node: Node, inputs: Sequence[NDArray], operators: Any, place: int) -> list[NDArray]:
    """A custom operator's results; ``operators`` (`core.Places`) keeps the operator of each node between calls."""
    options = tuple(
        sorted([(k, str(v)) for k, v in node.params.items() if k not in ("op_type", "num_args")])
    )
    cls = ndarray if node.is_np else NDArray
    # Auxiliary states are written to, so they are the arrays themselves; sparse arrays reach who asks for them.
    sparse = any(a.stype != "default" for a in inputs) and _takes_sparse(node)
    given = [
        a
        if type(a) is cls or k in node.states or (sparse and a.stype != "default")
        else cls._wrap(a._value())
        for k, a in enumerate(inputs)
    ]
    made = run_operator(
        given, str(node.params["op_type"]), options, operators, None if operators is None else place
    )
    return made if isinstance(made, list) else [made]


def _takes_sparse(node: Node) -> bool:
    """Whether a custom operator says what it does with sparse arrays."""
    from .custom import prop_of

    own = type(prop_of(node.params)).infer_storage_type
    return own is not CustomOpProp.infer_storage_type


def _shapes_of_custom(node: Node, ins: Sequence[Any]) -> Any:
    from .custom import prop_of

    prop = prop_of(node.params)
    n = len(prop.list_arguments())
    if ins[0] is None or None in ins[0]:
        return ins, [None] * node.count()
    given = [[] if s is None else [k or 0 for k in s] for s in ins[:n]]
    with errors.told(node.params["op_type"]):
        found = [*prop.infer_shape(given), []][:3]
    return [tuple(s) for s in (*found[0], *found[2])], [tuple(s) for s in found[1]]


def _types_of_custom(node: Node, ins: Sequence[Any]) -> Any:
    from .custom import prop_of

    prop = prop_of(node.params)
    n = len(prop.list_arguments())
    if not n or ins[0] is None:
        return ins, [None]
    known = [None if t is None else np.dtype(t).type for t in ins[:n]]
    with errors.told(node.params["op_type"]):
        found = [*prop.infer_type(known), []][:3]
    states = found[2] or ["float32"] * (len(ins) - n)
    return [*found[0], *states], found[1]


def _plain(function: Callable[..., Any], *keys: str) -> Special:
    def run(node: Node, inputs: list[NDArray]) -> Any:
        given = {k: value(node, k) for k in keys if k in node.params}
        return function(*inputs, **given)

    return Special(run)


def _unique(node: Node, inputs: list[NDArray]) -> Any:
    flags = ("return_index", "return_inverse", "return_counts")
    find: Any = mnp.unique
    made = find(inputs[0], *[bool(value(node, k, False)) for k in flags], value(node, "axis"))
    return list(made) if isinstance(made, tuple) else [made]


def _delete(node: Node, inputs: list[NDArray]) -> Any:
    obj = inputs[1] if len(inputs) > 1 else value(node, "int_ind")
    if obj is None:
        obj = slice(value(node, "start"), value(node, "stop"), value(node, "step"))
    return mnp.delete(inputs[0], obj, axis=value(node, "axis"))  # type: ignore[attr-defined]


def _insert(node: Node, inputs: list[NDArray]) -> Any:
    inputs = list(inputs)
    arr = inputs.pop(0)
    values = inputs.pop(0) if "val" not in node.params else value(node, "val")
    if inputs:
        obj: Any = inputs[0]
    elif "int_ind" in node.params:
        obj = value(node, "int_ind")
    else:
        obj = slice(value(node, "start"), value(node, "stop"), value(node, "step"))
    return mnp.insert(arr, obj, values, axis=value(node, "axis"))  # type: ignore[attr-defined]


def _histogram(node: Node, inputs: list[NDArray]) -> Any:
    bins = inputs[1] if len(inputs) > 1 else int(value(node, "bin_cnt"))
    return nd.histogram(inputs[0], bins, value(node, "range"))


def _lstsq(node: Node, inputs: list[NDArray]) -> Any:
    find: Any = mnp.linalg.lstsq
    return list(find(*inputs, value(node, "rcond", -1)))


def _diagonal(node: Node, inputs: list[NDArray]) -> Any:
    find: Any = mnp
    return find.stack(find.diag_indices_from(inputs[0]))


SPECIAL: dict[str, Special] = {
    "_foreach": Special(_foreach, _shapes_of_foreach),
    "_while_loop": Special(_while_loop, _shapes_of_while),
    "_cond": Special(_cond, _shapes_of_cond),
    "Custom": Special(
        lambda node, inputs: run_custom(node, inputs, None, 0), _shapes_of_custom, _types_of_custom
    ),
    "_contrib_boolean_mask": _plain(nd.contrib.boolean_mask, "axis"),
    "_npx_nonzero": _plain(npx_nonzero),
    "_npi_unique": Special(_unique),
    "_npi_bincount": _plain(mnp.bincount, "minlength"),
    "_npi_delete": Special(_delete),
    "_npi_flatnonzero": _plain(mnp.flatnonzero),  # type: ignore[attr-defined]
    "_npi_insert_scalar": Special(_insert),
    "_npi_insert_slice": Special(_insert),
    "_npi_insert_tensor": Special(_insert),
    "_histogram": Special(_histogram),
    "_npi_diag_indices_from": Special(_diagonal),
    "_npi_share_memory": Special(
        lambda node, inputs: mnp.array(False), lambda node, ins: (ins, [()])
    ),
    "_npi_lstsq": Special(_lstsq),
    "_contrib_calibrate_entropy": _plain(nd.contrib.calibrate_entropy, "num_quantized_bins"),
    "_contrib_dynamic_reshape": _plain(nd.contrib.dynamic_reshape),
    "_npx_constraint_check": _plain(constraint_check, "msg"),
    "_npi_eig": _plain(mnp.linalg.eig),
    "_npi_eigvals": _plain(mnp.linalg.eigvals),
}


def known(registry: str) -> Special | None:
    """How an operator of MXNet's without a row runs; None where it is not known."""
    return SPECIAL.get(ALIASES.get(registry, registry))


def run(node: Node, inputs: list[NDArray]) -> list[NDArray]:
    """A node's results."""
    special = known(node.registry)
    if special is None:
        raise errors.MXNetError(
            f"node {node.name!r} uses operator {node.registry!r}, which mxjax does not implement: run the network up "
            "to it, with a symbol of symbol.get_internals()"
        )
    cls = ndarray if node.is_np else NDArray
    given = [a if type(a) is cls else cls._wrap(a._value()) for a in inputs]
    made = special.run(node, given)
    return list(made) if isinstance(made, (list, tuple)) else [made]


__all__ = ["ALIASES", "LOOPS", "SPECIAL", "Special", "known", "run", "value"]
