"""What rows of the table compute of sparse values, where these need not become dense: the column ``sparse`` of a row.

A form takes the arrays of a call (`Stored`, `Value`, numbers, None) and its attributes, and gives a `Stored` or a
`Value`; None where MXNet, too, works on dense arrays then. It may give a pull besides, as `core.graph.tape.Node` has
it: without one, or where it gives None, the gradients are those of the dense row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import errors
from ...core import aval, record
from ...core.calls.value import Value
from ...core.graph.tape import Leaf
from ...core.run.sync import to_host
from ...ops.stored import bound
from ...ops.table import TABLE, Op
from .value import INDEX, Stored, in_stype, joined, nothing, of_dense, padded, untaped

Form = Callable[[list[Any], dict[str, Any]], Any]


def form(*names: str) -> Callable[[Form], Form]:
    """Enter a form of rows by their names."""

    def enter(fn: Form) -> Form:
        for name in names:
            TABLE[name].sparse = fn
        return fn

    return enter


def _stype(a: Any) -> str:
    return a.stype if type(a) is Stored else "default"


# ---- functions of one array that keep zeros


def _elementwise(name: str, slope: str | None = None, **slope_attrs: float) -> Form:
    """``slope`` is the row of the derivative, where MXNet multiplies two row_sparse arrays for the gradient.

    The product has the rows of either, those that are 0 too, and an optimizer that goes by rows updates them.
    """

    def keeping(arrays: list[Any], attrs: dict[str, Any]) -> Any:
        of = arrays[0]
        made = of.of_data(TABLE[name].bind(tuple(sorted(attrs.items()))))
        if slope is None or of.stype != "row_sparse":
            return made

        def pull(given: list[Any]) -> list[Any] | None:
            if _stype(given[0]) != "row_sparse":
                return None
            derivative = TABLE[slope].bind(tuple(slope_attrs.items()))
            return [joined(given[0], of.of_data(derivative), "mul")]

        pull.stored = True  # type: ignore[attr-defined]
        return made, pull

    return keeping


_KEEPING = """arcsin arcsinh arctan arctanh cbrt ceil degrees expm1 fix floor log1p negative radians rint round
sin sinh sqrt tan tanh trunc""".split()
for _name in _KEEPING:
    form(f"{_name}@nd")(_elementwise(f"{_name}@nd"))
form("abs@nd")(_elementwise("abs@nd", "sign@nd"))
form("relu@nd")(_elementwise("relu@nd", "greater_scalar@nd", scalar=0.0))
form("sign@nd")(_elementwise("sign@nd", "multiply_scalar@nd", scalar=0.0))
form("square@nd")(_elementwise("square@nd", "multiply_scalar@nd", scalar=2.0))


@form("copy@nd")
def _copied(arrays: list[Any], attrs: dict[str, Any]) -> Any:
    return arrays[0].again(), _straight


@form("stop_gradient", "make_loss")
def _same(arrays: list[Any], attrs: dict[str, Any]) -> Any:
    return arrays[0].again()


@form("zeros_like@nd")
def _zeros_like(arrays: list[Any], attrs: dict[str, Any]) -> Any:
    of = arrays[0].aval
    return nothing(arrays[0].stype, of.shape, of.dtype, of.device)


@form("clip@nd")
def _clip(arrays: list[Any], attrs: dict[str, Any]) -> Any:
    low, high = attrs.get("a_min"), attrs.get("a_max")
    if (low is not None and low > 0) or (high is not None and high < 0):
        return None
    return _elementwise("clip@nd")(arrays, attrs)


@form("quadratic")
def _quadratic(arrays: list[Any], attrs: dict[str, Any]) -> Any:
    if arrays[0].stype != "csr" or attrs.get("c", 0.0) != 0:
        return None
    return _elementwise("quadratic")(arrays, attrs)


def _beside_number(name: str, keeps: Callable[[float], bool]) -> None:
    row = TABLE[name]

    @form(name)
    def beside(arrays: list[Any], attrs: dict[str, Any]) -> Any:
        number = attrs["scalar"]
        if not keeps(number):
            return None
        return arrays[0].of_data(row.bind((("scalar", number),)))


for _name, _keeps in {
    "add_scalar@nd": lambda s: s == 0, "subtract_scalar@nd": lambda s: s == 0, "multiply_scalar@nd": lambda s: True,
    "true_divide_scalar@nd": lambda s: True, "equal_scalar@nd": lambda s: s != 0,
    "not_equal_scalar@nd": lambda s: s == 0,
    "less_scalar@nd": lambda s: s <= 0, "less_equal_scalar@nd": lambda s: s < 0,
    "greater_scalar@nd": lambda s: s >= 0, "greater_equal_scalar@nd": lambda s: s > 0,
}.items():  # fmt: skip
    _beside_number(_name, _keeps)


# ---- functions of two arrays


def _dense_of(a: Any) -> Value:
    return a.dense() if type(a) is Stored else a


def _alike(op: str) -> Form:
    def of_two(arrays: list[Any], attrs: dict[str, Any]) -> Any:
        a, b = arrays
        stypes = (_stype(a), _stype(b))
        if a.aval.shape != b.aval.shape:
            return None
        if stypes == ("row_sparse", "row_sparse"):
            return joined(a, b, op)
        if stypes == ("csr", "csr"):
            return _csr_joined(a, b, op)
        if op != "mul":
            if "default" in stypes:  # MXNet has a kernel for it: no fallback
                row = TABLE[f"elemwise_{op}"].bind()
                return record(row, (_dense_of(a), _dense_of(b)))[0]
            return None
        if "default" not in stypes:
            return None
        kept, dense = (a, b) if type(a) is Stored else (b, a)
        if kept.stype == "csr":
            return kept.with_data(record(bound("csr_beside", op="mul"), (*kept.parts, dense))[0])
        rows = record(bound("rows_of"), (dense, kept.indices))[0]
        return kept.of_data(TABLE["elemwise_mul"].bind(), rows)

    return of_two


for _name in ("add", "sub", "mul"):
    form(f"elemwise_{_name}")(_alike(_name))


def _broadcast_beside(op: str) -> Form:
    def beside(arrays: list[Any], attrs: dict[str, Any]) -> Any:
        a, b = arrays
        if (_stype(a), _stype(b)) != ("csr", "default"):
            return None
        rows, columns = a.aval.shape
        shape = b.aval.shape
        if (
            len(shape) > 2
            or (1, 1, *shape)[-2] not in (1, rows)
            or (1, *shape)[-1] not in (1, columns)
        ):
            return None
        return a.with_data(record(bound("csr_beside", op=op), (*a.parts, b))[0])

    return beside


form("multiply@nd")(_broadcast_beside("mul"))
form("true_divide@nd")(_broadcast_beside("div"))


@form("add_n")
def _add_n(arrays: list[Any], attrs: dict[str, Any]) -> Any:
    if any(_stype(a) != "row_sparse" for a in arrays):
        return None
    total = arrays[0].again()
    for a in arrays[1:]:
        total = joined(total, a, "add")
    return total


# ---- storage types


@form("cast_storage")
def _cast_storage(arrays: list[Any], attrs: dict[str, Any]) -> Any:
    a, stype = arrays[0], attrs["stype"]
    if {_stype(a), stype} == {"csr", "row_sparse"}:
        raise errors.MXNetError(
            f"cast_storage from {_stype(a)} to {stype} is not supported: go by way of 'default'"
        )
    if stype not in ("default", "row_sparse", "csr"):
        return None
    made = in_stype(a, stype)
    if made is not a:
        return made, _straight
    return (
        made.again() if type(made) is Stored else record(TABLE["_copy"].bind(), (made,))[0]
    ), _straight


def _straight(given: list[Any]) -> list[Any]:
    return given


_straight.stored = True  # type: ignore[attr-defined]


@form("_sparse_retain")
def _retain(arrays: list[Any], attrs: dict[str, Any]) -> Any:
    a, ids = arrays
    if _stype(a) != "row_sparse":
        raise errors.MXNetError(
            f"retain takes a row_sparse array, got one of the storage type {_stype(a)!r}"
        )
    of = a.aval
    if not len(ids.aval.shape) or not ids.aval.size or a.count == 0:
        return nothing("row_sparse", of.shape, of.dtype, of.device)
    indices = (
        ids
        if ids.aval.dtype == INDEX
        else record(TABLE["_cast"].bind((("dtype", "int64"),)), (ids,))[0]
    )
    data = record(bound("rows_found"), (*a.parts, indices))[0]
    return Stored("row_sparse", of, (data, indices), ids.aval.size)


@form("_square_sum")
def _square_sum(arrays: list[Any], attrs: dict[str, Any]) -> Any:
    a, axis = arrays[0], attrs.get("axis")
    axis = axis[0] if isinstance(axis, tuple) and len(axis) == 1 else axis
    if _stype(a) != "row_sparse" or len(a.aval.shape) != 2 or axis not in (0, 1, -1, -2):
        return None
    axis, keepdims = axis % 2, bool(attrs.get("keepdims", False))
    call = bound("rows_square_sum", rows=a.aval.shape[0], axis=axis, keepdims=keepdims)
    made = record(call, a.parts)[0]
    return a.with_data(made) if axis == 1 and keepdims else made


@form("getnnz")
def _getnnz(arrays: list[Any], attrs: dict[str, Any]) -> Any:
    a, axis = arrays[0], attrs.get("axis")
    if _stype(a) != "csr" or axis not in (None, 1, -1):
        return None
    from ..handle import on_device

    indptr = to_host(a.indptr)
    return on_device(indptr[-1:] if axis is None else np.diff(indptr), a.aval.device)


# ---- reductions


def _csr_sum(name: str) -> Form:
    def summed(arrays: list[Any], attrs: dict[str, Any]) -> Any:
        a, axis = arrays[0], attrs.get("axis")
        axis = axis[0] if isinstance(axis, tuple) and len(axis) == 1 else axis
        if (
            a.stype != "csr"
            or axis not in (0, 1, -1, -2)
            or attrs.get("exclude")
            or a.aval.dtype.kind != "f"
        ):
            return None
        call = bound(
            "csr_sum", columns=a.aval.shape[1], axis=axis % 2, keepdims=bool(attrs.get("keepdims", False)),
            mean=name == "mean",
        )  # fmt: skip
        return record(call, a.parts)[0]

    return summed


for _name in ("sum", "mean"):
    form(f"{_name}@nd")(_csr_sum(_name))


@form("norm")
def _norm(arrays: list[Any], attrs: dict[str, Any]) -> Any:
    a = arrays[0]
    plain = attrs.get("ord", 2) == 2 and attrs.get("axis") is None and not attrs.get("keepdims")
    if not plain or attrs.get("out_dtype") is not None or a.aval.dtype.kind != "f":
        return None
    return record(bound("stored_norm"), (a.data,))[0]


@form("batch_norm@nd")
def _batch_norm(arrays: list[Any], attrs: dict[str, Any]) -> Any:
    if attrs.get("fix_gamma", True):
        raise errors.MXNetError(
            "BatchNorm: fix_gamma=True is not supported for sparse arrays: give fix_gamma=False"
        )
    return None


# ---- products


def _dot_stype(stypes: tuple[str, str], transpose_a: bool, transpose_b: bool) -> str | None:
    """In what MXNet gives a product by itself; None where it works on dense arrays."""
    if stypes[0] == "csr" and stypes[1] in ("default", "row_sparse") and not transpose_b:
        return "row_sparse" if transpose_a else "default"
    if stypes == ("default", "csr") and not transpose_a:
        return "csr"
    return None


@form("dot@nd")
def _dot(arrays: list[Any], attrs: dict[str, Any]) -> Any:
    a, b = arrays
    ta, tb = bool(attrs.get("transpose_a", False)), bool(attrs.get("transpose_b", False))
    wanted = attrs.get("forward_stype")
    own = _dot_stype((_stype(a), _stype(b)), ta, tb)
    if own is None or (own == "csr" and wanted in ("default", "row_sparse")):
        if wanted in (None, "default"):
            return None
        return _cast_result("dot@nd", arrays, {**attrs, "forward_stype": None}, wanted)
    if own == "csr":
        made = record(TABLE["dot@nd"].bind((("transpose_b", tb),)), (a, b.dense()))[0]
        return of_dense(made, "csr")
    if len(b.aval.shape) != 2:
        raise errors.MXNetError(
            f"sparse dot only supports 2 dimensional rhs, got one of shape {b.aval.shape}"
        )
    inner = a.aval.shape[0 if ta else 1]
    if inner != b.aval.shape[0]:
        raise errors.MXNetValueError(
            f"dot shape error: {list(a.aval.shape)} X {list(b.aval.shape)}"
        )
    made = _csr_dot(a, b, ta, wanted or own)
    return in_stype(made, wanted or own), _dot_pull(a, b, ta)


def _csr_dot(a: Stored, b: Any, transposed: bool, stype: str) -> Any:
    """The product of a csr matrix, transposed or not, with a dense or row_sparse one."""
    if not transposed:
        if type(b) is Stored:
            return record(bound("csr_dot_rows"), (*a.parts, *b.parts))[0]
        return record(bound("csr_dot"), (*a.parts, b))[0]
    dense, columns = _dense_of(b), a.aval.shape[1]
    if stype != "row_sparse":
        return record(bound("csr_transposed_dot", columns=columns), (*a.parts, dense))[0]
    capacity = max(1, min(a.capacity, columns))
    parts = record(
        bound("csr_transposed_dot_rows", columns=columns, capacity=capacity), (*a.parts, dense)
    )
    of = aval((columns, dense.aval.shape[1]), parts[0].aval.dtype, a.aval.device)
    return Stored("row_sparse", of, parts)


def _dot_pull(a: Stored, b: Any, transposed: bool) -> Any:
    """The gradient of the second matrix; that of the csr one is the dense row's."""
    if a.tape is not None:
        return None
    stype = b.stype if type(b) is Stored else wanted_stype(b)

    def pull(given: list[Any]) -> list[Any]:
        with untaped():
            return [None, _csr_dot(a, given[0], not transposed, stype)]

    pull.stored = True  # type: ignore[attr-defined]
    return pull


def wanted_stype(v: Any) -> str:
    """The storage type that the gradient of a value will be stored in, if it is a variable; else dense."""
    return v.tape.stype if isinstance(v.tape, Leaf) else "default"


def _cast_result(name: str, arrays: list[Any], attrs: dict[str, Any], stype: str | None) -> Any:
    """What the dense row makes, in a storage type."""
    attrs = {k: v for k, v in attrs.items() if v is not None}
    made = record(TABLE[name].bind(tuple(sorted(attrs.items()))), [_dense_of(a) for a in arrays])[0]
    return in_stype(made, stype or "default")


# ---- rows by number, whose gradient is as sparse as they are few


@form("embedding")
def _embedding(arrays: list[Any], attrs: dict[str, Any]) -> Any:
    ids, weight = arrays
    return _looked_up("embedding", ids, weight, attrs, last=True)


@form("take@nd", "take")
def _take(arrays: list[Any], attrs: dict[str, Any]) -> Any:
    a, ids = arrays
    if attrs.get("axis", 0) != 0 or type(ids) is not Value:
        return None
    if _stype(a) == "csr":
        return _csr_rows(a, to_host(ids), attrs.get("mode", "clip"))
    if _stype(a) != "default":
        return None
    return _looked_up("take@nd", ids, a, attrs, last=attrs.get("mode", "clip") != "wrap")


def _looked_up(name: str, ids: Any, table: Any, attrs: dict[str, Any], last: bool) -> Any:
    """Rows of a table by number."""
    if type(ids) is not Value:
        return None
    if type(table) is Stored:
        if table.stype != "row_sparse" or name != "embedding":
            return None
        made = record(bound("rows_by_number", rows=table.aval.shape[0]), (*table.parts, ids))[0]
    else:
        call = TABLE[name].bind(tuple(sorted(attrs.items())))
        made = record(call, (ids, table) if name == "embedding" else (table, ids))[0]
    if wanted_stype(table) != "row_sparse":
        return made
    of = table.aval
    capacity = max(1, min(ids.aval.size, of.shape[0]))

    def pull(given: list[Any]) -> list[Any]:
        with untaped():
            looked = bound("rows_looked_up", rows=of.shape[0], capacity=capacity, last=last)
            gradient = Stored("row_sparse", of, record(looked, (_dense_of(given[0]), ids)))
        return [None, gradient] if name == "embedding" else [gradient, None]

    pull.stored = True  # type: ignore[attr-defined]
    return made, pull


# ---- parts of csr matrices, which are chosen on the host: how much they hold decides the shapes


@form("slice_")
def _slice(arrays: list[Any], attrs: dict[str, Any]) -> Any:
    a = arrays[0]
    step = attrs.get("step")
    steps = step if isinstance(step, tuple) else (step,)
    if a.stype != "csr" or any(s not in (None, 1) for s in steps):
        return None
    begin, end = ((x if isinstance(x, tuple) else (x,)) for x in (attrs["begin"], attrs["end"]))
    spans = [slice(b, e).indices(n)[:2] for b, e, n in zip(begin, end, a.aval.shape, strict=False)]
    rows = spans[0]
    rows = (rows[0], max(rows))
    data, indices, indptr = a.host()
    first, last = indptr[rows[0]], indptr[rows[1]]
    data, indices, indptr = (
        data[first:last],
        indices[first:last],
        indptr[rows[0] : rows[1] + 1] - first,
    )
    columns = a.aval.shape[1]
    if len(spans) > 1 and spans[1] != (0, columns):
        left, right = spans[1]
        inside = (indices >= left) & (indices < right)
        indptr = np.append(0, np.cumsum(inside))[indptr]
        data, indices, columns = data[inside], indices[inside] - left, max(0, right - left)
    return padded("csr", (rows[1] - rows[0], columns), (data, indices, indptr), a.aval.device)


def _csr_rows(a: Stored, ids: np.ndarray, mode: str) -> Stored | None:
    if ids.ndim != 1:
        return None
    rows = a.aval.shape[0]
    ids = ids.astype(np.int64)
    ids = ids % rows if mode == "wrap" else ids.clip(0, rows - 1)
    data, indices, indptr = a.host()
    lengths = np.diff(indptr)[ids]
    new = np.append(0, np.cumsum(lengths))
    places = np.arange(new[-1]) - np.repeat(new[:-1], lengths) + np.repeat(indptr[ids], lengths)
    return padded(
        "csr", (len(ids), a.aval.shape[1]), (data[places], indices[places], new), a.aval.device
    )


@form("concat@nd")
def _concat(arrays: list[Any], attrs: dict[str, Any]) -> Any:
    if attrs.get("dim", 1) != 0 or any(_stype(a) != "csr" for a in arrays):
        return None
    if len({a.aval.shape[1] for a in arrays}) > 1:
        shapes = [a.aval.shape for a in arrays]
        raise errors.MXNetValueError(
            f"concat of csr arrays with other numbers of columns: {shapes}"
        )
    parts = [a.host() for a in arrays]
    indptr = np.append(0, np.cumsum(np.concatenate([np.diff(p[2]) for p in parts])))
    shape = (sum(a.aval.shape[0] for a in arrays), arrays[0].aval.shape[1])
    joined_parts = (
        np.concatenate([p[0] for p in parts]),
        np.concatenate([p[1] for p in parts]),
        indptr,
    )
    return padded("csr", shape, joined_parts, arrays[0].aval.device)


def _csr_joined(a: Stored, b: Stored, op: str) -> Stored:
    """Sum, difference or product of two csr matrices: of what one of them, or for products both, store."""
    rows, columns = a.aval.shape
    (x, ix, px), (y, iy, py) = a.host(), b.host()
    at_x = np.repeat(np.arange(rows), np.diff(px)) * columns + ix
    at_y = np.repeat(np.arange(rows), np.diff(py)) * columns + iy
    at = np.intersect1d(at_x, at_y) if op == "mul" else np.union1d(at_x, at_y)
    left, right = (_spread(at, places, values) for places, values in ((at_x, x), (at_y, y)))
    data = left * right if op == "mul" else left + right if op == "add" else left - right
    indptr = np.append(0, np.cumsum(np.bincount(at // max(columns, 1), minlength=rows)))
    return padded("csr", (rows, columns), (data, at % max(columns, 1), indptr), a.aval.device)


def _spread(at: np.ndarray, places: np.ndarray, values: np.ndarray) -> np.ndarray:
    out = np.zeros(len(at), values.dtype)
    found = np.searchsorted(at, places).clip(0, max(len(at) - 1, 0))
    inside = at[found] == places if len(at) else np.zeros(len(places), bool)
    np.add.at(out, found[inside], values[inside])
    return out


def forms_of(op: Op, arrays: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """What the row's form makes of these values, with its pull or None; None where it has none for them."""
    if op.sparse is None:
        return None
    with untaped():
        made = op.sparse(list(arrays), dict(attrs))
    return made if made is None or isinstance(made, tuple) else (made, None)
