"""Shapes: reshaping, transposing, joining, splitting, repeating, padding."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.interpret.dims import is_symbolic, symbolic_in
from ..errors import MXNetError
from .numbers import fitted
from .samples import case, f
from .table import op

_FLAT = dict(smooth=False)


def _ints(value: Any) -> tuple[int, ...]:
    given = value if isinstance(value, Sequence) else (value,)
    return tuple([v if is_symbolic(v) else int(v) for v in given])


# --------------------------------------------------------------------------------------- reshape


def infer_reshape(shape: Sequence[int], new: Sequence[int]) -> tuple[int, ...]:
    """NumPy's reshape: one -1 stands for what remains."""
    new = list(new)
    if new.count(-1) > 1:
        raise ValueError(f"Can only specify one unknown dimension, got {tuple(new)}")
    bad = ValueError(
        f"Cannot reshape array of shape {list(shape)} into shape {list(new)} , reverse = 0"
    )
    if any(n < -1 for n in new):
        raise bad
    size = prod(shape)
    asked = not symbolic_in((*shape, *new))  # else the trace notes that both are of one size
    if -1 in new:
        rest = prod(n for n in new if n != -1)
        if asked and (rest == 0 or size % rest):
            raise bad
        new[new.index(-1)] = size // rest
    if asked and prod(new) != size:
        raise bad
    return tuple(new)


def _groups(codes: Sequence[int], split: int) -> list[tuple[int, ...]]:
    """Codes with each split code and its two lengths together."""
    groups, at = [], 0
    while at < len(codes):
        take = 3 if codes[at] == split else 1
        groups.append(tuple(codes[at : at + take]))
        at += take
    return groups


def coded_shape(
    shape: Sequence[int], codes: Sequence[int], meaning: dict[int, str], reverse: bool
) -> tuple[int, ...]:
    """The shape that reshape codes describe; ``meaning`` says what each code does."""
    split = next(k for k, v in meaning.items() if v == "split")
    source, groups = list(shape), _groups(codes, split)
    if reverse:  # read from the right: a split's code stands behind its lengths
        source, groups = source[::-1], _groups(codes[::-1], split)
    out: list[int] = []
    at = 0
    bad = ValueError(
        f"Cannot reshape array of shape {list(shape)} into shape {list(codes)} , reverse = {int(reverse)}"
    )
    for code, *lengths in groups:
        what = meaning.get(code, "length")
        left = len(source) - at
        if what in ("copy", "split", "skip") and left < 1 or what == "merge" and left < 2:
            raise bad
        if what == "copy":
            out.append(source[at])
            at += 1
        elif what == "skip":
            if source[at] != 1:
                raise bad
            at += 1
        elif what == "rest":
            out.extend(source[at:])
            at = len(source)
        elif what == "merge":
            out.append(source[at] * source[at + 1])
            at += 2
        elif what == "split":
            if len(lengths) != 2:
                raise bad
            if -1 in lengths:
                known = [n for n in lengths if n != -1]
                if len(known) != 1 or source[at] % known[0]:
                    raise bad
                lengths = [n if n != -1 else source[at] // known[0] for n in lengths]
            if prod(lengths) != source[at]:
                raise bad
            out.extend(lengths)
            at += 1
        else:
            out.append(code)
            at += 1
    if reverse:
        out = out[::-1]
    return infer_reshape(shape, out)


_NPX_CODES = {-2: "copy", -3: "skip", -4: "rest", -5: "merge", -6: "split"}
ND_CODES = {0: "copy", -2: "rest", -3: "merge", -4: "split"}


def _check_order(order: str) -> None:
    if order not in ("C", None):
        raise NotImplementedError(f"only supports C-order, while received {order}")


@op(
    np="reshape",
    display="reshape",
    samples=[case(f(3, 4), newshape=(2, -1)), case(f(0, 3), newshape=(3, 0))],
    ref=lambda a, newshape: np.reshape(a, newshape),
    internal="_npx_reshape",
    lengths={"newshape": int},
    unknown="same size",
    onnx="reshape",
)
def reshape(a: Any, *, newshape: Any, order: str = "C") -> Any:
    """The elements in C order in another shape; one -1 stands for what remains, and the codes of npx.reshape hold."""
    _check_order(order)
    return a.reshape(coded_shape(a.shape, _ints(newshape), _NPX_CODES, False))


@op(
    "reshape@npx",
    npx="reshape",
    display="reshape",
    samples=[
        case(f(2, 3, 4), newshape=(-2, -1)),
        case(f(2, 3, 4), newshape=(-5, -4)),
        case(f(6, 2), newshape=(-6, 2, -1, -4)),
    ],
    internal="_npx_reshape",
    lengths={"newshape": int},
    unknown="same size",
    onnx="reshape",
)
def reshape_npx(a: Any, *, newshape: Any, reverse: bool = False, order: str = "C") -> Any:
    """Reshape with codes: -1 infers, -2 copies a length, -3 drops a 1, -4 copies the rest, -5 merges two,
    -6 splits one into the next two. ``reverse`` reads from the right."""
    return a.reshape(coded_shape(a.shape, _ints(newshape), _NPX_CODES, reverse))


@op(
    "reshape@nd",
    nd=("reshape", "Reshape"),
    display="Reshape",
    samples=[
        case(f(2, 3, 4), shape=(0, -1)),
        case(f(2, 3, 4), shape=(-3, 0)),
        case(f(6, 2), shape=(-4, 2, -1, -2)),
    ],
    lengths={"shape": int},
    unknown="same size",
    onnx="reshape",
)
def reshape_nd(
    data: Any,
    *,
    shape: Any = None,
    reverse: bool = False,
    target_shape: Any = None,
    keep_highest: bool = False,
) -> Any:
    """Reshape with codes: 0 copies a length, -1 infers, -2 copies the rest, -3 merges two, -4 splits one
    into the next two. ``reverse`` reads from the right, so that -4 stands behind its two lengths."""
    if target_shape and not shape:  # as it was before there were codes: 0 is inferred
        shape = [n or -1 for n in _ints(target_shape)]
        if keep_highest:
            shape[0] = 0
    return data.reshape(coded_shape(data.shape, _ints(shape), ND_CODES, reverse))


@op(
    npx="reshape_like",
    nd="reshape_like",
    samples=[
        case(f(3, 4), f(4, 3)),
        case(f(6, 4), f(2, 3, 4), lhs_begin=0, lhs_end=1, rhs_begin=0, rhs_end=2),
    ],
    methods="nd np",
    typed=(0,),
    onnx="reshape",
)
def reshape_like(
    lhs: Any,
    rhs: Any,
    *,
    lhs_begin: Any = None,
    lhs_end: Any = None,
    rhs_begin: Any = None,
    rhs_end: Any = None,
) -> Any:
    """lhs in the shape of rhs, or with some of its axes in the shape of some of rhs's."""
    a = slice(lhs_begin, lhs_end).indices(lhs.ndim)
    c = slice(rhs_begin, rhs_end).indices(rhs.ndim)
    return lhs.reshape(lhs.shape[: a[0]] + rhs.shape[c[0] : c[1]] + lhs.shape[a[1] :])


@op(
    np="ravel",
    samples=[case(f(2, 3))],
    ref=np.ravel,
    internal="_npx_reshape",
    written="ravel",
    onnx="reshape",
)
def ravel(x: Any, *, order: str = "C") -> Any:
    """The elements in one row."""
    _check_order(order)
    return x.reshape(-1)


@op(
    np="expand_dims",
    nd="expand_dims",
    nd_params="data",
    display="expand_dims",
    samples=[case(f(3, 4), axis=0), case(f(3, 4), axis=-1)],
    ref=np.expand_dims,
    internal="expand_dims",
    methods="nd np",
    onnx="expand_dims",
)
def expand_dims(a: Any, *, axis: int) -> Any:
    """A new axis of length 1."""
    if isinstance(axis, tuple):
        raise TypeError(f"expand_dims takes one axis, got {axis}; index with None for several")
    if not -a.ndim - 1 <= axis <= a.ndim:
        raise ValueError(f"axis must be in the range [{-a.ndim}, {a.ndim}] ({axis} provided)")
    return jnp.expand_dims(a, axis)


_SQUEEZED = [case(f(3, 1, 4, 1)), case(f(3, 1, 4), axis=-2)]


@op(
    np="squeeze", display="squeeze", samples=_SQUEEZED, ref=np.squeeze, methods="np", onnx="reshape"
)
def squeeze(a: Any, *, axis: Any = None) -> Any:
    """Without the axes of length 1, or without those given."""
    if a.ndim == 0 and axis in (0, -1):
        return a
    for d in () if axis is None else _ints(axis):
        if not -a.ndim <= d < a.ndim:
            raise ValueError(f"axis {d} is out of bounds for shape {list(a.shape)}")
        if a.shape[d] != 1:
            raise ValueError(
                f"cannot select an axis to squeeze out which has size={a.shape[d]} not equal to one"
            )
    return jnp.squeeze(a, axis)


@op(
    "squeeze@nd",
    nd="squeeze",
    display="squeeze",
    samples=[*_SQUEEZED, case(f(1, 1))],
    methods="nd",
    onnx="reshape",
)
def squeeze_nd(data: Any, *, axis: Any = None) -> Any:
    """Without the axes of length 1, or without those given."""
    made = squeeze(data, axis=axis)
    return made if made.ndim or not data.ndim else made.reshape(1)  # MXNet leaves one axis


# ------------------------------------------------------------------------------------- transpose

_T = [case(f(2, 3, 4)), case(f(2, 3, 4), axes=(1, -1, 0))]


@op(
    np=("transpose", "permute_dims"),
    nd="transpose",
    nd_params="data",
    display="transpose",
    samples=_T,
    ref=np.transpose,
    onnx="transpose",
)
def transpose(a: Any, *, axes: Any = None) -> Any:
    """Axes in another order, reversed if none is given."""
    axes = None if axes is None or axes == () else _ints(axes)
    if axes is not None:
        if len({d % max(a.ndim, 1) for d in axes}) != len(axes):
            many = f": an array of shape {list(a.shape)} has {a.ndim}, each is named once"
            raise ValueError(f"Repeated axis in transpose. param.axes = {list(axes)}{many}")
        if len(axes) != a.ndim:
            raise ValueError(
                f"axes {axes} do not match an array of shape {list(a.shape)}: name each of its {a.ndim} once"
            )
    return jnp.transpose(a, axes)


@op(
    np="swapaxes",
    samples=[case(f(2, 3, 4), axis1=0, axis2=-1)],
    ref=np.swapaxes,
    internal="SwapAxis",
    methods="np",
    written=("renamed", "SwapAxis", {"axis1": "dim1", "axis2": "dim2"}),
    read={"_npi_swapaxes": ("renamed", {"dim1": "axis1", "dim2": "axis2"})},
    onnx="swapaxes",
)
def swapaxes(a: Any, *, axis1: int, axis2: int) -> Any:
    """Two axes exchanged."""
    return _exchanged(a, axis1, axis2)


@op(
    "swapaxes@nd",
    nd=("swapaxes", "SwapAxis"),
    display="SwapAxis",
    gradient="data",
    samples=[case(f(2, 3, 4), dim1=0, dim2=2)],
    methods="nd",
    onnx="swapaxes",
)
def swapaxes_nd(data: Any, *, dim1: int = 0, dim2: int = 0) -> Any:
    """Two axes exchanged."""
    return _exchanged(data, dim1, dim2)


def _exchanged(data: Any, *axes: int) -> Any:
    for axis in axes:
        if not -data.ndim <= axis < data.ndim:
            raise ValueError(f"axis {axis} is out of bounds for an array of {data.ndim} axes")
    return jnp.swapaxes(data, *axes)


@op(
    np="moveaxis",
    nd="moveaxis",
    samples=[case(f(2, 3, 4), source=0, destination=-1)],
    ref=np.moveaxis,
    onnx="moveaxis",
)
def moveaxis(a: Any, *, source: Any, destination: Any) -> Any:
    """Axes moved to other places."""
    places = []
    for name, given in (("source", _ints(source)), ("destination", _ints(destination))):
        if not all(-a.ndim <= d < a.ndim for d in given):
            raise ValueError(f"moveaxis: {name} {given} is out of bounds for {a.ndim} axes")
        if len({d % a.ndim for d in given}) < len(given):
            raise ValueError(f"moveaxis: repeated axis in `{name}` argument {given}")
        places.append(given)
    if len(places[0]) != len(places[1]):
        raise ValueError(
            "moveaxis: `source` and `destination` arguments must have the same number of elements"
        )
    return jnp.moveaxis(a, *places)


@op(np="rollaxis", samples=[case(f(2, 3, 4), axis=2)], ref=np.rollaxis, onnx="rollaxis")
def rollaxis(a: Any, *, axis: int, start: int = 0) -> Any:
    """An axis moved before another."""
    return jnp.rollaxis(a, axis, start)


@op(
    "matrix_transpose",
    np_linalg="matrix_transpose",
    np="matrix_transpose",
    samples=[case(f(2, 3, 4))],
    internal="SwapAxis",
    onnx="matrix_transpose",
)
def matrix_transpose(a: Any) -> Any:
    """The last two axes exchanged."""
    if a.ndim < 2:
        raise ValueError(
            f"x must be at least 2-dimensional for matrix_transpose; it has shape {list(a.shape)}"
        )
    return jnp.swapaxes(a, -1, -2)


@op(
    np="flip",
    samples=[case(f(2, 3)), case(f(2, 3, 4), axis=(0, -1))],
    ref=np.flip,
    methods="np",
    written=("renamed", "_npi_flip", {}, {"axis": None}),
    onnx="flip",
)
def flip(m: Any, *, axis: Any = None) -> Any:
    """Axes reversed: all of them if none is given."""
    return jnp.flip(m, axis)


@op(
    "flip@nd",
    nd=("flip", "reverse"),
    display="reverse",
    samples=[case(f(2, 3), axis=1)],
    methods="nd",
    onnx="flip",
)
def flip_nd(data: Any, *, axis: Any) -> Any:
    """Axes reversed."""
    return jnp.flip(data, axis)


@op(
    np="flipud",
    samples=[case(f(3, 2))],
    ref=np.flipud,
    internal="_npi_flip",
    written=("flipped", 0),
    onnx=("flip", 0),
)
def flipud(m: Any) -> Any:
    """Axis 0 reversed."""
    return m[::-1]


@op(
    np="fliplr",
    samples=[case(f(3, 2))],
    ref=np.fliplr,
    internal="_npi_flip",
    written=("flipped", 1),
    onnx=("flip", 1),
)
def fliplr(m: Any) -> Any:
    """Axis 1 reversed."""
    return m[:, ::-1]


@op(
    np="roll",
    samples=[case(f(3, 4), shift=2), case(f(3, 4), shift=(1, -1), axis=(0, 1))],
    ref=np.roll,
    numbers=("shift",),
    onnx="roll",
)
def roll(a: Any, *, shift: Any, axis: Any = None) -> Any:
    """Elements moved round along axes."""
    return jnp.roll(a, shift, axis)


@op(
    np="rot90",
    samples=[case(f(3, 4)), case(f(3, 4), k=2)],
    ref=np.rot90,
    written=("renamed", "_npi_rot90", {}, {"k": 1, "axes": (0, 1)}),
    onnx="rot90",
)
def rot90(m: Any, *, k: int = 1, axes: Any = (0, 1)) -> Any:
    """Turned by 90 degrees, k times."""
    return jnp.rot90(m, k, axes)


# ------------------------------------------------------------------------------------- broadcast


def _broadcast(x: Any, shape: tuple[int, ...]) -> Any:
    try:
        return jnp.broadcast_to(x, shape)
    except ValueError:
        raise ValueError(f"shape {list(x.shape)} is not broadcastable to {list(shape)}") from None


@op(
    np="broadcast_to",
    samples=[case(f(4), shape=(3, 4)), case(f(3, 1), shape=(2, 3, 4))],
    ref=np.broadcast_to,
    methods="np",
    lengths={"shape": int},
    onnx="broadcast_to",
)
def broadcast_to(array: Any, *, shape: Any) -> Any:
    """Repeated to a shape; -2 keeps a length."""
    shape = _ints(shape)
    lead = len(shape) - array.ndim
    return _broadcast(
        array,
        tuple(
            array.shape[d - lead] if n in (-1, -2) and d >= lead else n for d, n in enumerate(shape)
        ),
    )


@op(
    "broadcast_to@nd",
    nd="broadcast_to",
    samples=[case(f(3, 1), shape=(0, 4))],
    methods="nd",
    lengths={"shape": int},
    onnx="broadcast_to",
)
def broadcast_to_nd(data: Any, *, shape: Any) -> Any:
    """Repeated to a shape; 0 keeps a length."""
    return _broadcast(data, tuple(n or data.shape[d] for d, n in enumerate(_ints(shape))))


@op(
    npx="broadcast_like",
    nd="broadcast_like",
    samples=[case(f(3, 1), f(3, 4)), case(f(3, 1), f(2, 4), lhs_axes=(1,), rhs_axes=(1,))],
    methods="nd np",
    typed=(0,),
    onnx="broadcast_like",
)
def broadcast_like(lhs: Any, rhs: Any, *, lhs_axes: Any = None, rhs_axes: Any = None) -> Any:
    """lhs repeated to the shape of rhs, or along some of its axes."""
    if lhs_axes is None or rhs_axes is None:
        return _broadcast(lhs, rhs.shape)
    if not (_ints(lhs_axes) and _ints(rhs_axes)):
        raise ValueError(
            f"Empty axes tuple is not allowed: lhs_axes={lhs_axes}, rhs_axes={rhs_axes}"
        )
    shape = list(lhs.shape)
    for a, c in zip(_ints(lhs_axes), _ints(rhs_axes), strict=True):
        shape[a] = rhs.shape[c]
    return _broadcast(lhs, tuple(shape))


@op(
    nd=("broadcast_axis", "broadcast_axes"),
    samples=[case(f(3, 1), axis=1, size=4)],
    methods={"nd": "broadcast_axes", "np": "broadcast_axes"},
    onnx="broadcast_to",
)
def broadcast_axis(data: Any, *, axis: Any = (), size: Any = ()) -> Any:
    """Axes of length 1 repeated to a size."""
    shape = list(data.shape)
    for a, n in zip(_ints(axis), _ints(size), strict=True):
        shape[a] = n
    return _broadcast(data, tuple(shape))


@op(
    np="tile",
    nd="tile",
    nd_params="data",
    samples=[case(f(2, 3), reps=2), case(f(2, 3), reps=(2, 1, 2))],
    ref=np.tile,
    internal="tile",
    methods="nd np",
    lengths={"reps": int},
    onnx="tile",
)
def tile(A: Any, *, reps: Any) -> Any:  # noqa: N803  (NumPy's name)
    """The array repeated ``reps`` times along each axis."""
    if any(n < 0 for n in _ints(reps)):
        raise ValueError(f"invalid reps, all of them must not be negative, got {reps}")
    return jnp.tile(A, reps)


@op(
    np="repeat",
    nd="repeat",
    nd_params="data",
    samples=[
        case(f(2, 3), repeats=2),
        case(f(2, 3), repeats=3, axis=-1),
        case(f(2, 3), repeats=(1, 2), axis=0),
    ],
    ref=np.repeat,
    internal="_npi_repeats",
    nd_aliases=("_npi_repeat", "_np_repeat"),
    methods="nd np",
    written="repeat",
    read={"_np_repeat": ("renamed", {})},
    onnx="repeat",
)
def repeat(a: Any, *, repeats: Any, axis: int | None = None) -> Any:
    """Each element repeated along an axis (flat if none is given)."""
    if isinstance(repeats, tuple):
        length = a.size if axis is None else a.shape[axis]
        counts = np.broadcast_to(np.asarray(repeats, int), (length,))
        at = np.repeat(np.arange(length), counts)
        return jnp.take(a.reshape(-1) if axis is None else a, at, axis=axis or 0)
    if int(repeats) < 0:
        raise ValueError(f"repeat: repeats is how often, got {repeats}")
    return jnp.repeat(a, int(repeats), axis)


@op(np="resize", samples=[case(f(5), new_shape=(2, 4))], ref=np.resize, internal=None)
def resize(a: Any, *, new_shape: Any) -> Any:
    """The elements, again from the beginning if they are too few, in another shape."""
    return jnp.resize(a, _ints(new_shape))


# ------------------------------------------------------------------------------- joining, splitting


def _same_dtype(arrays: Sequence[Any]) -> list[Any]:
    dtype = jnp.result_type(*arrays)
    return [jnp.asarray(a).astype(dtype) for a in arrays]


def concatenate_arrays(arrays: Sequence[Any], axis: int | None) -> Any:
    if not arrays:
        raise ValueError("need at least one array to concatenate")
    arrays = _same_dtype(arrays)
    if axis is None:
        return jnp.concatenate([a.reshape(-1) for a in arrays])
    first = arrays[0]
    if not -first.ndim <= axis < first.ndim:
        raise ValueError(f"axis {axis} exceeds the input dimension of {first.ndim}")
    expected = [-1 if d == axis % first.ndim else n for d, n in enumerate(first.shape)]
    for a in arrays[1:]:
        got = [-1 if d == axis % first.ndim else n for d, n in enumerate(a.shape)]
        if got != expected:
            raise ValueError(f"Incompatible input shape: expected {expected}, got {list(a.shape)}")
    return jnp.concatenate(arrays, axis)


_JOIN = [case(f(2, 3), f(2, 3)), case(f(2, 3), f(2, 3), axis=-1)]


@op(
    np=("concatenate", "concat"),
    display="concat",
    samples=_JOIN,
    internal="Concat",
    amp="widest",
    written=("joined", "axis"),
    read={"_npi_concatenate": ("renamed", {"dim": "axis"})},
    onnx="concatenate",
)
def concatenate(*seq: Any, axis: int | None = 0) -> Any:
    """Arrays joined along an axis they have; flat with ``axis=None``."""
    return concatenate_arrays(seq, axis)


@op(
    "concat@nd",
    nd=("concat", "Concat"),
    display="Concat",
    samples=[case(f(2, 3), f(2, 3)), case(f(2, 3), f(1, 3), dim=0)],
    amp="widest",
    unknown="joined",
    onnx="concatenate",
)
def concat_nd(*data: Any, dim: int = 1, num_args: int | None = None) -> Any:
    """Arrays joined along an axis they have."""
    return concatenate_arrays(data, dim)


@op("concatenate@nd", nd="concatenate", samples=_JOIN, internal=None, onnx="concatenate")
def concatenate_nd(*arrays: Any, axis: int = 0, always_copy: bool = True) -> Any:
    """Arrays joined along an axis they have."""
    return concatenate_arrays(arrays, axis)


@op(np="stack", display="stack", samples=_JOIN, internal="stack", amp="widest", onnx="stack")
def stack(*arrays: Any, axis: int = 0) -> Any:
    """Arrays of one shape joined along a new axis."""
    return jnp.stack(_same_dtype(arrays), axis)


@op("stack@nd", nd="stack", samples=_JOIN, amp="widest", unknown="stacked", onnx="stack")
def stack_nd(*data: Any, axis: int = 0, num_args: int | None = None) -> Any:
    """Arrays of one shape joined along a new axis."""
    return jnp.stack(_same_dtype(data), axis)


_PAIR = [case(f(2, 3), f(2, 3)), case(f(3), f(3))]


@op(np=("vstack", "row_stack"), samples=_PAIR, amp="widest", onnx=("stacks", 2, 0))
def vstack(*arrays: Any) -> Any:
    """Arrays joined as rows."""
    return jnp.vstack(_same_dtype(arrays))


@op(np="hstack", samples=_PAIR, amp="widest", onnx=("stacks", 1, 1))
def hstack(*arrays: Any) -> Any:
    """Arrays joined along axis 1 (vectors: axis 0)."""
    return jnp.hstack(_same_dtype(arrays))


@op(np="dstack", samples=_PAIR, amp="widest", onnx=("stacks", 3, 2))
def dstack(*arrays: Any) -> Any:
    """Arrays joined along axis 2."""
    return jnp.dstack(_same_dtype(arrays))


@op(np="column_stack", samples=_PAIR, amp="widest", onnx=("stacks", 2, 1, True))
def column_stack(*tup: Any) -> Any:
    """Vectors as columns, matrices side by side."""
    return jnp.column_stack(_same_dtype(tup))


@op(
    np="append",
    samples=[case(f(2, 3), f(2, 3)), case(f(2, 3), f(2, 3), axis=1)],
    ref=np.append,
    internal="Concat",
    amp="widest",
    written=("joined", "axis"),
    onnx="concatenate",
)
def append(arr: Any, values: Any, *, axis: int | None = None) -> Any:
    """``values`` after ``arr`` (both flat if no axis is given)."""
    return concatenate_arrays([arr, jnp.asarray(values)], axis)


def sections(size: int, spec: Any, even: bool) -> list[int]:
    """Where to split an axis: a number of sections, or the places."""
    if isinstance(spec, tuple):
        return [int(s) for s in spec]
    n = int(spec)
    if n <= 0:
        raise ValueError("number sections must be larger than 0")
    if even and size % n:
        raise ValueError(f"array split does not result in an equal division: {size} into {n}")
    each, extra = divmod(size, n)
    return list(np.cumsum([each + 1] * extra + [each] * (n - extra))[:-1].tolist())


def _split(x: Any, spec: Any, axis: int, even: bool = True) -> tuple[Any, ...]:
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"axis {axis} exceeds the input dimension of {x.ndim}")
    size = x.shape[axis]
    # Places beyond the end are the end, and none lies before the one left of it.
    places = sections(size, spec, even)
    whole = [slice(None)] * x.ndim

    def part(start: int, stop: int | None) -> Any:
        return x[tuple([*whole[: axis % x.ndim], slice(start, stop)])]

    if all(0 <= a <= b <= size for a, b in zip([0, *places], [*places, size], strict=True)):
        return tuple(jnp.split(x, places, axis))
    return tuple([part(a, b) for a, b in zip([0, *places], [*places, None], strict=True)])


def _parts(attrs: dict[str, Any], n: int) -> int:
    """How many arrays a split gives: the number of sections, or one more than places to cut at."""
    spec = attrs["indices_or_sections"]
    return spec if isinstance(spec, int) else len(spec) + 1


_SPLIT = [case(f(4, 6), indices_or_sections=2), case(f(4, 6), indices_or_sections=(1, 3), axis=-1)]


@op(
    np="split",
    samples=_SPLIT,
    internal="_split_v2",
    outputs=_parts,
    listed=True,
    methods="np",
    written="split",
    onnx="split",
)
def split(ary: Any, *, indices_or_sections: Any, axis: int = 0) -> Any:
    """Equal parts, or parts between the given places."""
    return _split(ary, indices_or_sections, axis)


@op(
    np="array_split",
    samples=[case(f(5), indices_or_sections=3)],
    internal="_split_v2",
    outputs=_parts,
    listed=True,
    written=("split", 0, "_npi_array_split"),
    read={"_npi_array_split": "split"},
    onnx="split",
)
def array_split(ary: Any, *, indices_or_sections: Any, axis: int = 0) -> Any:
    """Nearly equal parts, or parts between the given places."""
    return _split(ary, indices_or_sections, axis, even=False)


@op(
    np="hsplit",
    samples=[case(f(4, 6), indices_or_sections=2), case(f(4), indices_or_sections=2)],
    outputs=_parts,
    listed=True,
    written=("split", 1, "_npi_hsplit"),
    read={"_npi_hsplit": "split"},
    onnx=("split", 1),
)
def hsplit(ary: Any, *, indices_or_sections: Any) -> Any:
    """Parts along axis 1 (of vectors: axis 0)."""
    return _split(ary, indices_or_sections, 1 if ary.ndim > 1 else 0)


@op(
    np="vsplit",
    samples=[case(f(4, 6), indices_or_sections=2)],
    internal="_split_v2",
    outputs=_parts,
    listed=True,
    written="split",
    onnx=("split", 0),
)
def vsplit(ary: Any, *, indices_or_sections: Any) -> Any:
    """Parts along axis 0."""
    if ary.ndim < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return _split(ary, indices_or_sections, 0)


@op(
    np="dsplit",
    samples=[case(f(2, 3, 4), indices_or_sections=2)],
    internal="_split_v2",
    outputs=_parts,
    listed=True,
    written=("split", 2),
    read={"_npi_dsplit": "split"},
    onnx=("split", 2),
)
def dsplit(ary: Any, *, indices_or_sections: Any) -> Any:
    """Parts along axis 2."""
    if ary.ndim < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return _split(ary, indices_or_sections, 2)


@op(
    npx="slice_channel",
    nd=("split", "SliceChannel"),
    display="SliceChannel",
    gradient="data",
    samples=[case(f(2, 4), num_outputs=2), case(f(2, 4), num_outputs=2, axis=0, squeeze_axis=True)],
    outputs=lambda attrs, n: attrs["num_outputs"],
    methods={"nd": "split"},
    onnx="split",
    results=("output0",),
)
def slice_channel(data: Any, *, num_outputs: int, axis: int = 1, squeeze_axis: bool = False) -> Any:
    """Equal parts along an axis; ``squeeze_axis`` drops it where its length has become 1."""
    if data.shape[axis] % num_outputs:
        raise ValueError(
            f"{data.shape[axis]} elements along axis {axis} do not divide into {num_outputs} parts"
        )
    parts = jnp.split(data, num_outputs, axis)
    parts = [p.squeeze(axis) for p in parts] if squeeze_axis else parts
    return parts[0] if num_outputs == 1 else tuple(parts)


@op(
    nd="split_v2",
    samples=_SPLIT,
    internal="_split_v2",
    outputs=_parts,
    methods="nd np",
    written="split",
    read={"_split_v2": "split", "_npi_split": "split"},
    onnx="split",
)
def split_v2(
    ary: Any, *, indices_or_sections: Any, axis: int = 0, squeeze_axis: bool = False
) -> Any:
    """Equal parts, or parts between the given places."""
    parts = _split(ary, indices_or_sections, axis)
    return tuple(p.squeeze(axis) for p in parts) if squeeze_axis else parts


def _at_least(n: int) -> Any:
    fn = getattr(jnp, f"atleast_{n}d")

    def at_least(*arys: Any) -> Any:
        outs = [fn(jnp.asarray(a)) for a in arys]
        return outs[0] if len(outs) == 1 else tuple(outs)

    return at_least


for _n in (1, 2, 3):
    _samples, _doc = [case(f()), case(f(3), f(2, 2))], f"At least {_n} axes."
    op(
        f"atleast_{_n}d",
        np=f"atleast_{_n}d",
        samples=_samples,
        doc=_doc,
        outputs=lambda attrs, n: n,
        onnx=("atleast", _n),
    )(_at_least(_n))


@op(
    np="broadcast_arrays",
    listed=True,
    samples=[case(f(3, 1), f(4))],
    internal=None,
    outputs=lambda attrs, n: n,
    onnx="broadcast_arrays",
)
def broadcast_arrays(*args: Any) -> Any:
    """All arrays repeated to their common shape."""
    return tuple(jnp.broadcast_arrays(*args))


@op(
    np="meshgrid",
    listed=True,
    samples=[case(f(3), f(2)), case(f(3), f(2), indexing="ij")],
    internal=None,
    outputs=lambda attrs, n: n,
)
def meshgrid(*xi: Any, indexing: str = "xy", sparse: bool = False, copy: bool = True) -> Any:
    """Coordinate matrices of coordinate vectors."""
    return tuple(jnp.meshgrid(*[x.reshape(-1) for x in xi], indexing=indexing, sparse=sparse))


# ----------------------------------------------------------------------------------------- padding


def _pad_pairs(width: Any, ndim: int) -> tuple[tuple[int, int], ...]:
    flat = np.broadcast_to(np.asarray(width, int), (ndim, 2))
    return tuple((int(a), int(c)) for a, c in flat)


_PAD_MODES = ("constant", "edge", "reflect", "symmetric", "maximum", "minimum")


@op(
    np="pad",
    samples=[
        case(f(3, 4), pad_width=((1, 2), (2, 1))),
        case(f(3, 4), pad_width=1, mode="reflect"),
        case(f(3, 4), pad_width=((0, 0), (1, 1)), constant_values=1.5),
    ],
    ref=np.pad,
    methods="np",
    numbers=("constant_values",),
    onnx="pad",
)
def pad(
    x: Any, *, pad_width: Any = None, mode: str = "constant", constant_values: Any = 0, reflect_type: str = "even",
    stat_length: Any = None, end_values: Any = None,
) -> Any:  # fmt: skip
    """Elements added around: ``constant edge reflect symmetric maximum minimum``."""
    if mode not in _PAD_MODES:
        raise ValueError(f"unknown padding mode {mode}: {', '.join(_PAD_MODES)} exist")
    pairs = _pad_pairs(pad_width, x.ndim)
    if mode == "constant":
        return jnp.pad(x, pairs, mode, constant_values=fitted(constant_values, x.dtype))
    if mode in ("maximum", "minimum"):
        return jnp.pad(x, pairs, mode, stat_length=stat_length)
    if reflect_type not in ("even", None):
        raise ValueError(f"unsupported reflect_type {reflect_type!r}: 'even' is there")
    return jnp.pad(x, pairs, mode)


@op(
    "pad@nd",
    npx="pad",
    nd=("pad", "Pad"),
    display="Pad",
    samples=[
        case(f(1, 2, 3, 3), mode="edge", pad_width=(0, 0, 0, 0, 1, 1, 1, 2)),
        case(
            f(1, 2, 3, 3), mode="constant", pad_width=(0, 0, 0, 0, 1, 0, 0, 2), constant_value=1.5
        ),
    ],
    methods="nd",
    numbers=("constant_value",),
    onnx="pad_nd",
)
def pad_nd(
    data: Any, *, mode: str = "constant", pad_width: Any, constant_value: float = 0.0
) -> Any:
    """Elements added around (N, C, ...): two widths for each axis in one list."""
    if len(pad_width) != 2 * data.ndim:
        raise ValueError(
            f"pad_width needs {2 * data.ndim} numbers for shape {list(data.shape)}, got {len(pad_width)}"
        )
    pairs = tuple(zip(_ints(pad_width[::2]), _ints(pad_width[1::2]), strict=True))
    if mode not in ("constant", "edge", "reflect"):
        raise ValueError(f"unknown padding mode {mode}: constant, edge and reflect exist")
    if mode == "constant":
        return jnp.pad(data, pairs, constant_values=fitted(constant_value, data.dtype))
    return jnp.pad(data, pairs, mode)


# -------------------------------------------------------------------------- shapes as arrays, space


@op(
    npx="shape_array",
    nd="shape_array",
    samples=[case(f(2, 3))],
    methods="nd np",
    wholes=False,
    **_FLAT,
    unknown="apart",
    typed=(),
    dtype="int64",
    onnx="shape_array",
)
def shape_array(data: Any) -> Any:
    """The shape as an int64 vector."""
    return jnp.asarray(np.asarray(data.shape, "int64"))


@op(
    nd="size_array",
    samples=[case(f(2, 3))],
    methods="nd np",
    wholes=False,
    **_FLAT,
    unknown="apart",
    typed=(),
    dtype="int64",
    onnx="size_array",
)
def size_array(data: Any) -> Any:
    """The number of elements as an int64 vector of length 1."""
    return jnp.asarray(np.asarray([data.size], "int64"))


def _block(size: int, shape: tuple[int, ...], length: int, power: int) -> int:
    """The size of blocks, of which a length has to be made."""
    if size <= 0:
        raise ValueError(f"block_size must be a positive integer value, got {size}")
    if 0 in shape or length % size**power:
        raise ValueError(
            f"shape {list(shape)} does not divide into blocks of {size}: {length} is no multiple of {size**power}"
        )
    return size


@op(
    nd="depth_to_space",
    samples=[case(f(1, 8, 2, 3), block_size=2)],
    methods="nd np",
    onnx="depth_to_space",
)
def depth_to_space(data: Any, *, block_size: int) -> Any:
    """(N, C, H, W) to (N, C / b^2, H b, W b)."""
    n, c, h, w = data.shape
    s = _block(block_size, data.shape, c, 2)
    x = data.reshape(n, s, s, c // (s * s), h, w)
    return jnp.transpose(x, (0, 3, 4, 1, 5, 2)).reshape(n, c // (s * s), h * s, w * s)


@op(
    nd="space_to_depth",
    samples=[case(f(1, 2, 4, 6), block_size=2)],
    methods="nd np",
    onnx="space_to_depth",
)
def space_to_depth(data: Any, *, block_size: int) -> Any:
    """(N, C, H, W) to (N, C b^2, H / b, W / b)."""
    n, c, h, w = data.shape
    s = _block(block_size, data.shape, h, 1)
    _block(block_size, data.shape, w, 1)
    x = data.reshape(n, c, h // s, s, w // s, s)
    return jnp.transpose(x, (0, 3, 5, 1, 2, 4)).reshape(n, c * s * s, h // s, w // s)


@op(
    nd_contrib="index_array",
    samples=[case(f(2, 3)), case(f(2, 3), axes=(1,))],
    **_FLAT,
    dtype="int64",
)
def index_array(data: Any, *, axes: Any = None) -> Any:
    """The index of every element: shape (*data.shape, number of axes), int64."""
    axes = range(data.ndim) if axes is None else _ints(axes)
    if not len(axes):
        return jnp.zeros((*data.shape, 0), "int64")
    return jnp.stack([lax.broadcasted_iota("int64", data.shape, a % data.ndim) for a in axes], -1)


@op(
    nd="Crop",
    samples=[
        case(f(1, 2, 5, 5), h_w=(3, 3), offset=(1, 1)),
        case(f(1, 2, 5, 5), f(1, 2, 3, 4), center_crop=True),
    ],
    internal="Crop",
    onnx="crop",
)
def crop(
    *data: Any,
    offset: Any = (0, 0),
    h_w: Any = (0, 0),
    center_crop: bool = False,
    num_args: int = 1,
) -> Any:
    """A window of images (N, C, H, W), of size ``h_w`` or that of the second array, which lies within them."""
    x = data[0]
    if x.ndim != 4 or len(data) > 1 and data[1].ndim != 4:
        raise MXNetError(f"Crop takes images (N, C, H, W), got {[a.shape for a in data]}")
    h, w = data[1].shape[2:] if len(data) > 1 else h_w
    y0, x0 = ((x.shape[2] - h) // 2, (x.shape[3] - w) // 2) if center_crop else offset
    edges = zip((y0, x0), (h, w), x.shape[2:], strict=True)
    if not all(0 <= at and size >= 1 and at + size <= n for at, size, n in edges):
        raise MXNetError(
            f"Crop takes a window within the image: of {x.shape[2]} x {x.shape[3]}, one of {h} x {w} at {y0, x0}"
        )
    return x[:, :, y0 : y0 + h, x0 : x0 + w]
