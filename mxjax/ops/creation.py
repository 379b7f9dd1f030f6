"""Arrays from nothing but numbers: zeros, ranges, identities, windows, and arrays like others."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core.interpret.dims import is_symbolic
from .numbers import cast_like_c, fitted, kind, np_cast
from .samples import case, f, i
from .table import op

_FLAT = dict(smooth=False)
_SHAPED = dict(smooth=False, lengths={"shape": int})
# np.zeros(dtype=float) is float64, as is dtype='float64'; without a dtype everything is float32.
DEFAULT = "float32"


def dtype_of(dtype: Any, default: Any = DEFAULT) -> np.dtype:
    """A dtype attribute as a NumPy dtype."""
    if dtype is None:
        return np.dtype(default)
    made = np.dtype(dtype)
    if made.kind not in "biuf" and made.name != "bfloat16":
        raise TypeError(f"dtype {made} is not supported: bool, integers and floats are")
    return made


def shape_of(shape: Any) -> tuple[int, ...]:
    """A shape, of lengths that may be symbols; one may be given for an array of one axis."""
    given = shape if isinstance(shape, Sequence) else (shape,)
    try:
        made = tuple([n if is_symbolic(n) else int(n) for n in given])
    except (TypeError, ValueError):
        raise TypeError(f"a shape is an integer or a tuple of integers, got {shape!r}") from None
    if any(not is_symbolic(n) and n < 0 for n in made):
        raise ValueError(f"a shape has no negative lengths, got {made}")
    return made


def _filled(name: str, value: float, **columns: Any) -> None:
    cases = [case(shape=(2, 3)), case(shape=(2, 0), dtype="int32"), case(shape=())]

    @op(
        name,
        np=name,
        samples=cases,
        doc=f"An array of {name}.",
        wide="float64",
        **_SHAPED,
        **columns,
    )
    def filled(*, shape: Any, dtype: Any = None, order: str = "C") -> Any:
        return jnp.full(shape_of(shape), value, dtype_of(dtype))

    @op(
        name + "@nd",
        nd=name,
        samples=cases,
        doc=f"An array of {name}.",
        internal="_" + name,
        **_SHAPED,
        **columns,
    )
    def filled_nd(*, shape: Any, dtype: Any = None, stype: Any = None) -> Any:
        return jnp.full(shape_of(shape), value, dtype_of(dtype))


_filled("zeros", 0, onnx="zeros")
_filled("ones", 1, onnx="ones")


def _default_of(value: Any) -> str:
    return {"b": "bool", "i": "int64", "f": DEFAULT}[kind(value)]


@op(
    "full",
    samples=[case(shape=(2, 2), fill_value=7), case(shape=(2,), fill_value=1.5)],
    internal="_npi_full",
    **_SHAPED,
    numbers=("fill_value",),
    written="full",
    read={"_npi_full": ("typed", {"fill_value": "{}_value"})},
    onnx="full_like",
)
def full(*, shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """An array of one number: int64, float32 or bool as the number is."""
    if isinstance(fill_value, str) or fill_value is None:
        raise TypeError(f"full: fill_value is a number, got {fill_value!r}")
    dtype = dtype_of(dtype, _default_of(fill_value))
    # A whole number comes as one, and wraps around where the dtype is too short: MXNet has it so here alone.
    if isinstance(fill_value, int):
        return jnp.full(shape_of(shape), np_cast(fill_value, dtype))
    convert = cast_like_c if kind(fill_value) == "i" else fitted
    return jnp.full(shape_of(shape), convert(fill_value, dtype))


@op(
    "full@nd",
    nd="full",
    samples=[case(shape=(2, 2), val=7)],
    internal="_full",
    **_SHAPED,
    numbers=("val",),
    written=("renamed", "_full", {"val": "value"}, {"dtype": "float32"}),
    read={"_full": ("renamed", {"value": "val"})},
    onnx="full",
)
def full_nd(*, shape: Any, val: float, dtype: Any = None) -> Any:
    """An array of one number."""
    return jnp.full(shape_of(shape), fitted(val, dtype_of(dtype)))


def _like(name: str, value: float, **columns: Any) -> None:
    cases = [case(f(2, 3)), case(i(2, 3)), case(i(2), dtype="float64")]

    doc = f"{name[:-5]} in the shape and dtype of an array."

    @op(
        name,
        np=name,
        samples=cases,
        doc=doc,
        internal="_npi_full_like",
        methods="np",
        written=("like", float(value)),
        **_FLAT,
        **columns,
    )
    def like(a: Any, *, dtype: Any = None, order: str = "C") -> Any:
        return jnp.full(a.shape, value, dtype_of(dtype, a.dtype))

    @op(
        name + "@nd",
        nd=name,
        samples=cases[:2],
        doc=f"{name[:-5]} in the shape of an array.",
        methods="nd",
        **_FLAT,
        **columns,
    )
    def like_nd(data: Any) -> Any:
        return jnp.full(data.shape, value, data.dtype)


_like("zeros_like", 0, onnx="zeros")
_like("ones_like", 1, onnx="ones")


@op(np="empty_like", samples=[case(f(2, 3))], internal=None, **_FLAT, onnx="zeros")
def empty_like(
    prototype: Any, *, dtype: Any = None, order: str = "C", subok: bool = False, shape: Any = None
) -> Any:
    """An array in the shape and dtype of another whose numbers mean nothing (zeros)."""
    return jnp.zeros(
        prototype.shape if shape is None else shape_of(shape), dtype_of(dtype, prototype.dtype)
    )


@op(
    np="full_like",
    samples=[case(f(2, 3), fill_value=2), case(i(2, 3), fill_value=2.7)],
    **_FLAT,
    numbers=("fill_value",),
    onnx="full_like",
)
def full_like(a: Any, *, fill_value: Any, dtype: Any = None, order: str = "C") -> Any:
    """One number in the shape and dtype of an array."""
    return jnp.full(a.shape, fitted(fill_value, dtype_of(dtype, a.dtype)))


# -------------------------------------------------------------------------------------- ranges


def _length(*, start: Any, stop: Any = None, step: Any = 1) -> int:
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    for name, number in (("start", start), ("stop", stop), ("step", step)):
        if isinstance(number, str):
            raise TypeError(f"arange: {name} is a number, got {number!r}")
    if step == 0:
        raise ValueError(
            "arange: step is what each number adds to the one before, and 0 leads nowhere"
        )
    return max(int(np.ceil((stop - start) / step)), 0)


def _range(start: Any, stop: Any, step: Any, dtype: Any, length: int | None) -> Any:
    """``length`` is there where the numbers are operands, which decide no shape."""
    if length is None:
        length = _length(start=start, stop=stop, step=step)
    start, step = (0 if stop is None else start), (1 if step is None else step)
    if np.dtype(dtype).kind in "iu":  # as in C, before anything is added up
        start, step = (
            jnp.trunc(v) if isinstance(v, jax.Array) else np.trunc(v) for v in (start, step)
        )
    made = start + step * np.arange(length)
    return cast_like_c(made, dtype) if isinstance(made, jax.Array) else made.astype(dtype)


def _hidden(fn: Callable[..., Any]) -> inspect.Signature:
    """The signature without the length of a range, which nobody gives."""
    given = inspect.signature(fn)
    return given.replace(parameters=[p for p in given.parameters.values() if p.name != "length"])


def _length_of(given: dict[str, Any]) -> dict[str, Any]:
    return {"length": _length(**{k: v for k, v in given.items() if k in ("start", "stop", "step")})}


_RANGES = [
    case(start=5),
    case(start=1, stop=9, step=2),
    case(start=5, stop=0, step=-1, dtype="int32"),
]


def arange(
    *, start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, length: int | None = None
) -> Any:
    """Numbers from start (0) to below stop, float32 unless told otherwise."""
    return jnp.asarray(_range(start, stop, step, dtype_of(dtype), length))


def arange_nd(
    *, start: Any, stop: Any = None, step: Any = 1.0, repeat: int = 1, infer_range: Any = None, dtype: Any = None,
    length: int | None = None,
) -> Any:  # fmt: skip
    """Numbers from start (0) to below stop, each repeated."""
    return jnp.repeat(jnp.asarray(_range(start, stop, step, dtype_of(dtype), length)), repeat)


# One length has one program, wherever the range begins.
_ENDS: dict[str, Any] = dict(numbers=("start", "stop", "step"), settled=_length_of, **_FLAT)
op("arange", np="arange", samples=_RANGES, wide="int64", signature=_hidden(arange), **_ENDS)(arange)
op(
    "arange@nd", nd="arange", samples=[*_RANGES, case(start=3, repeat=2)], internal="_arange",
    signature=_hidden(arange_nd), **_ENDS,
)(arange_nd)  # fmt: skip


@op(
    npx="arange_like",
    nd_contrib="arange_like",
    samples=[case(f(2, 3)), case(f(2, 3), axis=1), case(f(2, 3), axis=0, start=2.0, step=0.5)],
    **_FLAT,
    numbers=("start", "step"),
    onnx="arange_like",
)
def arange_like(
    data: Any,
    *,
    start: float = 0.0,
    step: float = 1.0,
    repeat: int = 1,
    ctx: Any = None,
    axis: int | None = None,
) -> Any:
    """Numbers counting through an array of this shape, or along one axis of it."""
    n = data.size if axis is None else data.shape[axis]
    numbers = fitted(start + step * (np.arange(n) // repeat), data.dtype)
    return jnp.asarray(numbers).reshape(data.shape if axis is None else (n,))


_SPACE = [case(start=0, stop=1, num=5), case(start=1, stop=10, num=4, dtype="int32")]


@op(
    "linspace",
    nd="linspace",
    samples=[*_SPACE, case(start=0, stop=1, num=4, endpoint=False)],
    wide="float64",
    **_FLAT,
    internal="_linspace",
    numbers=("start", "stop"),
    read={"_npi_linspace": ("typed", {"start": "start_{}", "stop": "stop_{}"})},
)
def linspace(
    *, start: float, stop: float, num: int = 50, endpoint: bool = True, dtype: Any = None
) -> Any:
    """Evenly spaced numbers."""
    if num != int(num):
        raise TypeError(f"Number of samples must be an integer, got num={num}")
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative")
    return jnp.asarray(fitted(_spaced(start, stop, int(num), endpoint), dtype_of(dtype)))


def _spaced(start: Any, stop: Any, num: int, endpoint: bool) -> Any:
    """numpy.linspace, of operands too."""
    if not (hasattr(start, "dtype") or hasattr(stop, "dtype")):
        return np.linspace(start, stop, num, endpoint)
    parts = num - 1 if endpoint else num
    at = np.arange(num, dtype="float64")
    step = (stop - start) / max(parts, 1)
    made = jnp.where(step == 0, at / max(parts, 1) * (stop - start), at * step) + start
    return made.at[-1].set(stop) if endpoint and num > 1 else made


@op("linspace_between", samples=[case(f(2), f(2), num=3)])
def linspace_between(
    start: Any, stop: Any, *, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Any:
    """Evenly spaced arrays."""
    made = jnp.promote_types(start.dtype, stop.dtype)
    made = made if jnp.issubdtype(made, jnp.inexact) else np.dtype(DEFAULT)
    return jnp.linspace(start, stop, int(num), endpoint, axis=axis, dtype=dtype or made)


@op(
    np="logspace",
    wide="float64",
    samples=[case(start=0, stop=2, num=3)],
    **_FLAT,
    numbers=("start", "stop", "base"),
)
def logspace(
    *,
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: float = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """Numbers whose logarithms are evenly spaced."""
    return jnp.asarray(fitted(base ** _spaced(start, stop, int(num), endpoint), dtype_of(dtype)))


# --------------------------------------------------------------------------- matrices of 0 and 1


@op(
    np="eye",
    wide="float64",
    samples=[case(N=3), case(N=3, M=4, k=1, dtype="int32")],
    **_FLAT,
    lengths={"N": int, "M": int},
    numbers=("k",),
)
def eye(*, N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Any:  # noqa: N803
    """Ones on a diagonal."""
    if hasattr(k, "dtype"):
        shape = N, N if M is None else M
        return (_below(shape, k) & ~_below(shape, k - 1)).astype(dtype_of(dtype))
    return jnp.eye(N, M, k, dtype_of(dtype))


def _below(shape: tuple[int, ...], k: Any) -> Any:
    """Where a matrix is on or below its diagonal ``k``, an operand."""
    rows, columns = shape
    return jnp.arange(rows)[:, None] + k >= jnp.arange(columns)


@op(
    "eye@nd",
    nd="eye",
    samples=[case(N=3), case(N=3, M=4, k=1)],
    internal="_eye",
    **_FLAT,
    lengths={"N": int, "M": int},
    numbers=("k",),
)
def eye_nd(*, N: int, M: int = 0, k: int = 0, dtype: Any = None) -> Any:  # noqa: N803
    """Ones on a diagonal."""
    return eye(N=N, M=M or N, k=k, dtype=dtype)


@op(
    np="identity",
    wide="float64",
    samples=[case(n=3)],
    **_FLAT,
    written="identity",
    read={"_npi_identity": "identity"},
)
def identity(*, n: int, dtype: Any = None) -> Any:
    """The identity matrix."""
    return jnp.eye(n, dtype=dtype_of(dtype))


@op(np="tri", samples=[case(N=3), case(N=3, M=4, k=1)], **_FLAT, numbers=("k",))
def tri(*, N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Any:  # noqa: N803
    """Ones on and below a diagonal."""
    if hasattr(k, "dtype"):
        return _below((N, N if M is None else M), k).astype(dtype_of(dtype))
    return jnp.tri(N, M, k, dtype_of(dtype))


@op(
    np="tril",
    samples=[case(f(3, 4)), case(f(2, 3, 3), k=1)],
    ref=np.tril,
    numbers=("k",),
    onnx=("triangle", 0),
)
def tril(m: Any, *, k: int = 0) -> Any:
    """The lower triangle; of a vector, that of the matrix whose rows it is."""
    m = jnp.broadcast_to(m, (*m.shape, *m.shape)) if m.ndim == 1 else m
    return (
        jnp.tril(m, k)
        if not hasattr(k, "dtype")
        else jnp.where(_below(m.shape[-2:], k), m, jnp.zeros((), m.dtype))
    )


@op(
    np="triu",
    samples=[case(f(3, 4)), case(f(2, 3, 3), k=1)],
    ref=np.triu,
    numbers=("k",),
    onnx=("triangle", 1),
)
def triu(m: Any, *, k: int = 0) -> Any:
    """The upper triangle; of a vector, that of the matrix whose rows it is."""
    m = jnp.broadcast_to(m, (*m.shape, *m.shape)) if m.ndim == 1 else m
    return (
        jnp.triu(m, k)
        if not hasattr(k, "dtype")
        else jnp.where(_below(m.shape[-2:], k - 1), jnp.zeros((), m.dtype), m)
    )


@op(np="indices", samples=[case(dimensions=(2, 3))], **_FLAT)
def indices(*, dimensions: Any, dtype: Any = None) -> Any:
    """The indices of a grid, int64."""
    return jnp.asarray(np.indices(dimensions).astype(dtype_of(dtype, "int64")))


def _window(fn: Callable[[int], np.ndarray]) -> Callable[..., Any]:
    def window(*, M: int, dtype: Any = None) -> Any:  # noqa: N803
        return jnp.asarray(fn(M).astype(dtype_of(dtype)))

    return window


for _name in ("hanning", "hamming", "blackman"):
    op(_name, np=_name, samples=[case(M=5)], doc=f"The {_name} window.", wide="float64", **_FLAT)(
        _window(getattr(np, _name))
    )


def _triangle(fn: Callable[..., Any]) -> Callable[..., Any]:
    def triangle(*, n: int, k: int = 0, m: int | None = None) -> Any:
        return tuple(jnp.asarray(x) for x in fn(n, k, m))

    return triangle


for _name in ("tril_indices", "triu_indices"):
    _internal = "_npi_tril_indices" if _name == "tril_indices" else None
    op(
        _name,
        np=_name,
        samples=[case(n=3)],
        doc="Where a triangle is.",
        internal=_internal,
        outputs=2,
        tupled=True,
        **_FLAT,
    )(_triangle(getattr(np, _name)))


@op(
    np="vander",
    samples=[case(f(3)), case(f(3), N=2, increasing=True)],
    ref=np.vander,
    internal=None,
)
def vander(x: Any, *, N: int | None = None, increasing: bool = False) -> Any:  # noqa: N803
    """The Vandermonde matrix."""
    return jnp.vander(
        x.astype("float64" if jnp.issubdtype(x.dtype, jnp.inexact) else "int64"), N, increasing
    )
