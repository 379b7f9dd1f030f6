"""Eight-bit integers: quantizing, and layers whose products are whole numbers.

A quantized array goes with the two float32 numbers that bound its range. The larger of their sizes is the greatest integer,
of uint8 as well, where 0 is 0 and negative numbers are lost: MXNet's rules on CPUs. Weights may have two numbers for each
row or filter; the bounds of the products are then arrays that broadcast against these.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp

from ..core import compiler
from .lowering.patches import whole_convolution
from .lowering.product import of_bytes
from .nn import _MOVING, _convolution_shapes, _dense_shapes, _of_channels, _spatial, pooling
from .samples import Given, case, f, i
from .table import op

_ROW = dict(smooth=False, differentiable=False)
_TRIPLE = dict(outputs=3, **_ROW)
_MOST = {"int8": 127, "uint8": 255, "int32": 2147483647}
# MXNet's scales of single arrays reach to the middle between two numbers; those of products do not.
_RANGE = {"int8": 127.5, "uint8": 255.5, "int32": 2147483647}
_LO, _HI = Given([-1.0]), Given([2.0])
_I8 = i(2, 4, low=-127, high=127, dtype="int8")


def _beside(*bounds: str, of: Callable[..., Any] | None = None, **dtypes: str) -> dict[str, Any]:
    """Columns of a row whose arrays of these names are bounds, (1,) and float32; other shapes are as in the row of floats."""

    def shapes(shape: tuple[int, ...], /, **attrs: Any) -> dict[str, tuple[int, ...]]:
        found = {} if of is None else of(shape, **attrs)
        there = [b for b in bounds if of is None or b.partition("_")[2] in ("data", *found)]
        return {**found, **dict.fromkeys(there, (1,))}

    return dict(shapes=shapes, dtypes={**dict.fromkeys(bounds, "float32"), **dtypes})


def _out_type(attrs: dict[str, Any], dtypes: Sequence[Any]) -> str:
    return "int8" if attrs["out_type"] == "auto" else attrs["out_type"]


def _of_products(attrs: dict[str, Any], dtypes: Sequence[Any]) -> str:
    if attrs.get("enable_float_output"):
        return "float32"
    return "int32" if None in (attrs["min_calib_range"], attrs["max_calib_range"]) else "int8"


def _of_sums(attrs: dict[str, Any], dtypes: Sequence[Any]) -> str:
    found = _of_products(attrs, dtypes)
    both = [str(d) for d in dtypes[:2]] == ["uint8", "uint8"]
    return "uint8" if both and found == "int8" else found


_NAMED = dict(results=("output", "min_output", "max_output"), **_TRIPLE)
_RANGES = ("min_range", "max_range")
_DATA = _beside("min_data", "max_data")


def _one(x: Any) -> Any:
    return x.reshape(()).astype("float32")


def _reach(low: Any, high: Any) -> Any:
    """The larger size of two bounds: a scalar, or as they are where there are more."""
    low, high = (_one(x) if x.size == 1 else x.astype("float32") for x in (low, high))
    return jnp.maximum(jnp.abs(low), jnp.abs(high))


def _pair(reach: Any) -> tuple[Any, Any]:
    reach = reach if reach.ndim else reach.reshape(1)
    return -reach, reach


def _unit(low: Any, high: Any, dtype: Any) -> Any:
    """What one step of a quantized array stands for."""
    return _reach(low, high) / _MOST[str(dtype)]


def _step(low: Any, high: Any, dtype: Any) -> Any:
    """What one step of an array by itself stands for."""
    return _reach(low, high) / _RANGE[str(dtype)]


def _whole(x: Any, reach: Any, dtype: str = "int8", ranges: Any = _MOST) -> Any:
    """Floats as 8-bit integers, ``reach`` as the greatest; what is beyond is cut off."""
    return _cut(x * (ranges[dtype] / reach), dtype)


def _cut(x: Any, dtype: str) -> Any:
    """The nearest numbers of a type of eight bits."""
    low, high = (-128, 127) if dtype == "int8" else (0, 255)
    return jnp.clip(jnp.rint(x), low, high).astype(dtype)


def _bounds(low: float, high: float) -> tuple[Any, Any]:
    return jnp.full(1, low, "float32"), jnp.full(1, high, "float32")


def _quantized(
    x: Any, low: Any, high: Any, out_type: str, ranges: Any = _MOST
) -> tuple[Any, Any, Any]:
    """An array of float32 in a type, and its bounds."""
    if out_type not in ("int8", "uint8"):
        raise ValueError(f"out_type is int8 or uint8, got {out_type}")
    reach = jnp.maximum(jnp.abs(low), jnp.abs(high))
    bounds = _pair(reach) if out_type == "int8" else (low.reshape(1), high.reshape(1))
    return (_whole(x, reach, out_type, ranges), *bounds)


@op(
    npx="contrib_quantize",
    nd_contrib="quantize",
    internal="_contrib_quantize",
    samples=[case(f(3, 4), _LO, _HI), case(f(3, 4), _LO, _HI, out_type="int8")],
    **_beside(*_RANGES),
    typed=(),
    dtype=_out_type,
    **_TRIPLE,
)
def quantize(data: Any, min_range: Any, max_range: Any, *, out_type: str = "uint8") -> Any:
    """Floats as 8-bit integers over a given range: (integers, low (1,), high (1,))."""
    return _quantized(data, _one(min_range), _one(max_range), out_type)


@op(
    npx="contrib_quantize_v2",
    nd_contrib="quantize_v2",
    internal="_contrib_quantize_v2",
    samples=[
        case(f(3, 4)),
        case(f(3, 4), out_type="uint8", min_calib_range=-1.0, max_calib_range=1.5),
    ],
    typed=(),
    dtype=_out_type,
    dtypes={"min_range": "float32"},
    **_TRIPLE,
)
def quantize_v2(
    data: Any,
    *,
    out_type: str = "int8",
    min_calib_range: float | None = None,
    max_calib_range: float | None = None,
) -> Any:
    """Floats as 8-bit integers over their own range, or a calibrated one; integers are passed on.

    ``auto`` is uint8 where the calibrated range has no negative numbers. Integers keep their bits, in whichever type.
    """
    given = min_calib_range is not None and max_calib_range is not None
    if out_type == "auto":
        out_type = "uint8" if given and min_calib_range >= 0 else "int8"  # type: ignore[operator]
    if data.dtype in (jnp.int8, jnp.uint8):
        reach = _RANGE[str(data.dtype)]
        own = (0 if data.dtype == jnp.uint8 else -reach, reach)
        bounds = (min_calib_range, max_calib_range) if given else own
        return (data.astype(out_type), *_bounds(*bounds))  # type: ignore[arg-type]
    low = jnp.float32(min_calib_range) if given else data.min()
    high = jnp.float32(max_calib_range) if given else data.max()
    return _quantized(data, low, high, out_type, _RANGE)


@op(
    nd_contrib="dequantize",
    samples=[case(_I8, _LO, _HI), case(i(3, high=200, dtype="uint8"), _LO, _HI)],
    **_beside(*_RANGES, data="int8"),
    typed=(),
    dtype="float32",
    **_ROW,
)
def dequantize(data: Any, min_range: Any, max_range: Any, *, out_type: str = "float32") -> Any:
    """Floats of 8-bit integers."""
    if data.dtype not in (jnp.int8, jnp.uint8):
        raise TypeError(
            f"the input data type of dequantize op must be provided, either uint8 or int8; got {data.dtype}"
        )
    return data.astype("float32") * _step(min_range, max_range, data.dtype)


@op(
    npx="requantize",
    nd_contrib="requantize",
    samples=[
        case(i(2, 3, low=-9000, high=9000), _LO, _HI),
        case(i(2, 3, low=-9000, high=9000), _LO, _HI, min_calib_range=-0.1, max_calib_range=0.2),
    ],
    **_beside(*_RANGES, data="int32"),
    typed=(),
    dtype=_out_type,
    **_TRIPLE,
)
def requantize(
    data: Any,
    min_range: Any,
    max_range: Any,
    *,
    out_type: str = "int8",
    min_calib_range: float | None = None,
    max_calib_range: float | None = None,
) -> Any:
    """int32 products as 8-bit integers, over a calibrated range or their own; in uint8 negative ones are lost."""
    if data.dtype != jnp.int32:
        raise TypeError(f"requantize takes int32, got {data.dtype}")
    real = data.astype("float32") * _unit(min_range, max_range, "int32")
    if min_calib_range is None or max_calib_range is None:
        reach = jnp.abs(real).max()
        least, unsigned = jnp.where(reach > 0, reach, 1), out_type == "uint8"
    else:
        reach = least = jnp.float32(max(abs(min_calib_range), abs(max_calib_range)))
        unsigned = out_type == "uint8" or (out_type == "auto" and min_calib_range >= 0)
    if unsigned:
        return (_whole(real, least, "uint8"), jnp.zeros(1, "float32"), reach.reshape(1))
    return (_whole(real, least), *_pair(reach))


# ----------------------------------------------------------------------------------- layers


_LAYER = "data weight bias min_data max_data min_weight max_weight min_bias max_bias"
_TWO = "lhs rhs lhs_min lhs_max rhs_min rhs_max"


def _arrays(names: str, needed: int | None = None) -> Any:
    """Of a row's function that takes its arrays as they come: their names, of which the first `needed` must be given."""

    def named(fn: Any) -> Any:
        kind, absent = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
        given = [
            inspect.Parameter(name, kind, default=absent if needed is None or k < needed else None)
            for k, name in enumerate(names.split())
        ]
        own = [p for p in inspect.signature(fn).parameters.values() if p.kind is p.KEYWORD_ONLY]
        fn.__signature__ = inspect.Signature([*given, *own])
        return fn

    return named


def _ordered(given: Sequence[Any], no_bias: bool) -> list[Any]:
    """data, weight, bias or None, and the bounds of each, however a missing bias was passed."""
    there = [x for x in given if x is not None]
    if len(there) != (6 if no_bias else 9):
        raise ValueError(f"no_bias={no_bias} takes {6 if no_bias else 9} arrays, got {len(there)}")
    return [*there[:2], None, *there[2:], None, None] if no_bias else there


_BOUNDS = [_LO, _HI, _LO, _HI]


def _layer(of: Callable[..., Any]) -> dict[str, Any]:
    bounds = _LAYER.split()[3:]
    return {
        **_beside(*bounds, of=of, data="int8", weight="int8", bias="int8"),
        "typed": (),
        "dtype": "int32",
    }


@op(
    npx="quantized_fully_connected",
    nd_contrib="quantized_fully_connected",
    internal="_contrib_quantized_fully_connected",
    quantizes={"FullyConnected": "layer"},
    samples=[
        case(
            _I8,
            i(3, 4, low=-127, high=127, dtype="int8"),
            i(3, dtype="int8"),
            *_BOUNDS,
            _LO,
            _HI,
            num_hidden=3,
        ),
        case(_I8, i(3, 4, low=-127, high=127, dtype="int8"), *_BOUNDS, num_hidden=3, no_bias=True),
    ],
    **_layer(_dense_shapes),
    **_NAMED,
)
@_arrays(_LAYER, 2)
def quantized_fully_connected(
    *given: Any,
    num_hidden: int,
    no_bias: bool = False,
    flatten: bool = True,
) -> Any:
    """``data @ weight.T + bias`` of 8-bit integers as int32, with the bounds of its range.

    Its step is that of the products, as in MXNet, but where a bias would not fit (of a layer whose weights or data are next
    to nothing, beside it): then it is larger, and MXNet's numbers are of whatever the bias overflowed to.
    """
    data, weight, bias, dl, dh, wl, wh, bl, bh = _ordered(given, no_bias)
    x = data.reshape(data.shape[0], -1) if flatten and data.ndim != 2 else data
    total = of_bytes(x, weight)
    unit = _unit(dl, dh, data.dtype) * _unit(wl, wh, weight.dtype)
    if bias is not None:
        step = _RANGE[str(data.dtype)] / _MOST[str(data.dtype)] * _unit(bl, bh, "int8")
        wide = jnp.maximum(unit, step * (_MOST["int8"] / 2**30))
        total = jnp.where(wide > unit, jnp.rint(total * (unit / wide)).astype("int32"), total)
        ratio = step / jnp.where(wide > 0, wide, 1)
        total = total + jnp.trunc(bias.astype("float32") * ratio).astype("int32")
        unit = wide
    return (total, *_pair(unit * _MOST["int32"]))


@op(
    npx="quantized_conv",
    nd_contrib="quantized_conv",
    internal="_contrib_quantized_conv",
    quantizes={"Convolution": "layer"},
    samples=[
        case(i(1, 4, 3, 3, low=-127, high=127, dtype="int8"), i(4, 4, 2, 2, low=-127, high=127, dtype="int8"),
             i(4, low=-127, high=127, dtype="int8"), *_BOUNDS, _LO, _HI, kernel=(2, 2), num_filter=4),
    ],
    **_layer(_convolution_shapes),
    **_NAMED,
)  # fmt: skip
@_arrays(_LAYER, 2)
def quantized_conv(
    *given: Any,
    kernel: Any,
    stride: Any = (),
    dilate: Any = (),
    pad: Any = (),
    num_filter: int,
    num_group: int = 1,
    workspace: int = 1024,
    no_bias: bool = False,
    cudnn_tune: Any = None,
    cudnn_off: bool = False,
    layout: str | None = None,
) -> Any:
    """A convolution of 8-bit integers (N, C, *space) as int32, with the bounds of its range."""
    data, weight, bias, dl, dh, wl, wh, _, _ = _ordered(given, no_bias)
    if layout not in (None, "NCW", "NCHW", "NCDHW"):
        raise ValueError(f"quantized_conv takes channels on axis 1, got layout={layout}")
    n = len(kernel)
    total = whole_convolution(
        data,
        weight,
        _spatial(stride, n, 1),
        _spatial(dilate, n, 1),
        _spatial(pad, n, 0),
        num_group,
        compiler.platform_now(),
    )
    if bias is not None:  # as it is: it must have the scale of the products
        total = total + bias.astype("int32").reshape(num_filter, *(1,) * n)
    unit = _unit(dl, dh, data.dtype) * _unit(wl, wh, "int8")
    if unit.ndim:
        unit = unit.reshape(1, num_filter, *(1,) * n)
    return (total, *_pair(unit * _MOST["int32"]))


@op(
    npx="quantized_pooling",
    nd_contrib="quantized_pooling",
    internal="_contrib_quantized_pooling",
    quantizes={"Pooling": "anywhere"},
    samples=[
        case(
            i(1, 2, 4, 4, low=-127, high=127, dtype="int8"), _LO, _HI, kernel=(2, 2), stride=(2, 2)
        ),
        case(
            i(1, 2, 4, 4, low=-127, high=127, dtype="int8"),
            _LO,
            _HI,
            kernel=(2, 2),
            stride=(2, 2),
            pool_type="avg",
        ),
    ],
    **_DATA,
    typed=(0,),
    **_NAMED,
)
def quantized_pooling(
    data: Any,
    min_data: Any,
    max_data: Any,
    *,
    kernel: Any = (),
    pool_type: str = "max",
    global_pool: bool = False,
    cudnn_off: bool = False,
    pooling_convention: str = "valid",
    stride: Any = (),
    pad: Any = (),
    p_value: int | None = None,
    count_include_pad: bool | None = None,
    layout: str | None = None,
    output_size: Any = None,
) -> Any:
    """Maxima or averages of windows of 8-bit integers, with the same bounds.

    Windows that reach beyond the padding (``pooling_convention="full"``) are divided by the whole kernel, which the
    pooling of floats does not.
    """
    if pool_type not in ("max", "avg"):
        raise ValueError(
            f"quantized_pooling only supports pool_type=max/avg for now, got {pool_type}"
        )
    whole = (
        pool_type == "avg"
        and count_include_pad is not False
        and not global_pool
        and pooling_convention == "full"
    )
    made = pooling(
        data.astype("float32"), kernel=kernel or None, stride=stride or None, pad=pad or None, pool_type="sum" if whole else pool_type,
        global_pool=global_pool, pooling_convention=pooling_convention, count_include_pad=count_include_pad, layout=layout,
    )  # fmt: skip
    made = made / math.prod(kernel) if whole else made
    return jnp.rint(made).astype(data.dtype), min_data, max_data


@op(
    npx="quantized_act",
    nd_contrib="quantized_act",
    internal="_contrib_quantized_act",
    quantizes={"Activation": "anywhere", "relu": "behind", "_npx_relu": "behind"},
    samples=[case(_I8, _LO, _HI, act_type="relu")],
    **_beside("min_data", "max_data", data="int8"),
    typed=(),
    dtype="int8",
    **_NAMED,
)
def quantized_act(data: Any, min_data: Any, max_data: Any, *, act_type: str) -> Any:
    """The larger of int8 numbers and 0, with the same bounds; uint8 numbers have their bits read as int8."""
    if act_type != "relu":
        raise ValueError(
            f"_contrib_quantized_act only supports act_type=relu for now, got {act_type}"
        )
    return jnp.maximum(data, 0).astype("int8"), min_data, max_data


@op(
    npx="quantized_flatten",
    nd_contrib="quantized_flatten",
    internal="_contrib_quantized_flatten",
    quantizes={"Flatten": "anywhere"},
    samples=[case(i(2, 3, 2, dtype="int8"), _LO, _HI)],
    **_DATA,
    typed=(0,),
    **_NAMED,
)
def quantized_flatten(data: Any, min_data: Any, max_data: Any) -> Any:
    """(N, ...) as (N, all others), with the same bounds."""
    return data.reshape(data.shape[0], -1), min_data, max_data


@op(
    npx="quantized_transpose",
    nd=("quantized_transpose",),
    nd_contrib="quantized_transpose",
    internal="_npx_quantized_transpose",
    aliases=("_contrib_quantized_transpose",),
    samples=[case(_I8, _LO, _HI), case(_I8, _LO, _HI, axes=(0, 1))],
    **_DATA,
    typed=(0,),
    **_NAMED,
)
def quantized_transpose(data: Any, min_data: Any, max_data: Any, *, axes: Any = ()) -> Any:
    """The axes in another order, reversed by default, with the same bounds."""
    return jnp.transpose(data, axes or None), min_data, max_data


@op(
    "quantized_reshape@nd",
    nd="quantized_reshape",
    nd_contrib="quantized_reshape",
    internal="_contrib_quantized_reshape",
    samples=[case(_I8, _LO, _HI, shape=(4, 2))],
    **_DATA,
    typed=(0,),
    **_NAMED,
)
def quantized_reshape_nd(
    data: Any,
    min_data: Any,
    max_data: Any,
    *,
    shape: Any = (),
    reverse: bool = False,
    target_shape: Any = (),
    keep_highest: bool = False,
) -> Any:
    """Another shape by nd.reshape's rules, with the same bounds."""
    from .table import TABLE

    return TABLE["reshape@nd"].fn(data, shape=shape, reverse=reverse), min_data, max_data


@op(
    npx="quantized_reshape",
    internal="_npx_quantized_reshape",
    samples=[case(_I8, _LO, _HI, newshape=(4, 2))],
    **_DATA,
    typed=(0,),
    **_NAMED,
)
def quantized_reshape(
    data: Any,
    min_data: Any,
    max_data: Any,
    *,
    newshape: Any,
    reverse: bool = False,
    order: str = "C",
) -> Any:
    """Another shape by npx.reshape's rules, with the same bounds."""
    from .table import TABLE

    return (
        TABLE["reshape@npx"].fn(data, newshape=newshape, reverse=reverse, order=order),
        min_data,
        max_data,
    )


@op(
    nd_contrib="quantized_concat",
    quantizes={"Concat": "joined"},
    samples=[
        case(
            _I8,
            i(2, 3, low=-127, high=127, dtype="int8"),
            _LO,
            _HI,
            Given([-3.0]),
            Given([1.0]),
            dim=1,
            num_args=2,
        )
    ],
    **_NAMED,
)
def quantized_concat(*data: Any, num_args: int | None = None, dim: int = 1) -> Any:
    """8-bit arrays one after the other on the widest of their scales: n arrays, then low and high of each."""
    n = len(data) // 3
    arrays, bounds = data[:n], [(data[n + 2 * k], data[n + 2 * k + 1]) for k in range(n)]
    low = jnp.stack([_one(b[0]) for b in bounds]).min(initial=0)
    high = jnp.stack([_one(b[1]) for b in bounds]).max(initial=0)
    whole = "int8" if any(a.dtype == jnp.int8 for a in arrays) else "uint8"
    unit = _step(low, high, whole)
    scales = [
        jnp.where(unit == 0, 1, _step(*b, a.dtype) / unit)
        for a, b in zip(arrays, bounds, strict=True)
    ]
    made = [
        _cut(a.astype("float32") * scale, whole) for a, scale in zip(arrays, scales, strict=True)
    ]
    return jnp.concatenate(made, dim), low.reshape(1), high.reshape(1)


def _of_two(name: str, **more: Any) -> Any:
    return op(
        npx=name,
        nd_contrib=name,
        internal="_contrib_" + name,
        samples=[
            case(_I8, _I8, *_BOUNDS),
            case(_I8, _I8, *_BOUNDS, min_calib_range=-2.0, max_calib_range=2.5),
            *more.pop("samples", []),
        ],
        **_beside(*_TWO.split()[2:], lhs="int8", rhs="int8"),
        typed=(),
        **_ROW,
        **more,
    )


@_of_two(
    "quantized_elemwise_add",
    outputs=3,
    dtype=_of_sums,
    quantizes={"elemwise_add": "joined", "_npi_add": "joined"},
)
@_arrays(_TWO)
def quantized_elemwise_add(
    *given: Any,
    min_calib_range: float | None = None,
    max_calib_range: float | None = None,
) -> Any:
    """Sums of 8-bit integers: int32 over the sum of both ranges; over a calibrated one int8, or uint8 of two uint8.

    Beside int8 numbers those of uint8 are rounded by themselves where the result has eight bits.
    """
    lhs, rhs, lhs_min, lhs_max, rhs_min, rhs_max = given
    if min_calib_range is not None and max_calib_range is not None:
        reach = max(abs(min_calib_range), abs(max_calib_range))
        whole = "uint8" if lhs.dtype == rhs.dtype == jnp.uint8 else "int8"
        total: Any = 0
        for x, low, high in ((lhs, lhs_min, lhs_max), (rhs, rhs_min, rhs_max)):
            scaled = x.astype("float32") * (_step(low, high, x.dtype) * (_RANGE[whole] / reach))
            total = total + (scaled if str(x.dtype) == whole else jnp.rint(scaled))
        return (_cut(total, whole), *_bounds(min_calib_range, max_calib_range))
    x = lhs.astype("float32") * _step(lhs_min, lhs_max, lhs.dtype) + rhs.astype("float32") * _step(
        rhs_min, rhs_max, rhs.dtype
    )
    reach = _reach(lhs_min, lhs_max) + _reach(rhs_min, rhs_max)
    whole = (x * (_MOST["int32"] / reach)).astype(
        "float64"
    )  # rounded as float32, which int32 may not hold
    return (jnp.clip(whole, -2147483648, 2147483647).astype("int32"), *_pair(reach))


@_of_two(
    "quantized_elemwise_mul",
    outputs=lambda attrs, n: 1 if attrs["enable_float_output"] else 3,
    dtype=_of_products,
    samples=[case(_I8, _I8, *_BOUNDS, enable_float_output=True)],
)
@_arrays(_TWO)
def quantized_elemwise_mul(
    *given: Any,
    min_calib_range: float | None = None,
    max_calib_range: float | None = None,
    enable_float_output: bool = False,
) -> Any:
    """Products of int8 numbers: int32, int8 over a calibrated range (beyond it they wrap around), or floats."""
    lhs, rhs, lhs_min, lhs_max, rhs_min, rhs_max = given
    whole = lhs.astype("int32") * rhs.astype("int32")
    step = _step(lhs_min, lhs_max, lhs.dtype) * _step(rhs_min, rhs_max, rhs.dtype)
    if enable_float_output:
        return whole.astype("float32") * step
    if min_calib_range is not None and max_calib_range is not None:
        reach = max(abs(min_calib_range), abs(max_calib_range))
        made = jnp.trunc(whole.astype("float32") * (step * (127.5 / reach))).astype("int32")
        return (made.astype("int8"), *_bounds(min_calib_range, max_calib_range))
    unit = _unit(lhs_min, lhs_max, lhs.dtype) * _unit(rhs_min, rhs_max, rhs.dtype)
    return (whole, *_pair(unit * _MOST["int32"]))


def _table(
    shape: tuple[int, ...], *, input_dim: int, output_dim: int, **attrs: Any
) -> dict[str, tuple[int, ...]]:
    return {"weight": (input_dim, output_dim)}


@op(
    npx="quantized_embedding",
    nd_contrib="quantized_embedding",
    internal="_contrib_quantized_embedding",
    samples=[case(Given([0, 2]), i(3, 2, dtype="int8"), _LO, _HI, input_dim=3, output_dim=2)],
    **_beside("min_weight", "max_weight", of=_table, weight="int8"),
    typed=(),
    dtype="int8",
    **_NAMED,
)
def quantized_embedding(
    data: Any,
    weight: Any,
    min_weight: Any,
    max_weight: Any,
    *,
    input_dim: int,
    output_dim: int,
    dtype: str = "float32",
    sparse_grad: bool = False,
) -> Any:
    """Rows of an int8 table, with its bounds."""
    at = jnp.clip(data.astype("int32"), 0, input_dim - 1)
    return weight[at], min_weight, max_weight


@op(
    nd_contrib="quantized_batch_norm",
    samples=[
        case(i(1, 2, 2, 2, low=-127, high=127, dtype="int8"), f(2), f(2), f(2), f(2, low=0.5), _LO, _HI, min_calib_range=-3.0,
             max_calib_range=3.0)
    ],
    **_beside("min_data", "max_data", of=_of_channels(*_MOVING), data="int8", **dict.fromkeys(_MOVING, "float32")),
    typed=(),
    dtype="int8",
    **_NAMED,
)  # fmt: skip
def quantized_batch_norm(
    data: Any,
    gamma: Any,
    beta: Any,
    moving_mean: Any,
    moving_var: Any,
    min_data: Any,
    max_data: Any,
    *,
    eps: float = 1e-3,
    momentum: float = 0.9,
    fix_gamma: bool = True,
    use_global_stats: bool = False,
    output_mean_var: bool = False,
    axis: int = 1,
    cudnn_off: bool = False,
    min_calib_range: float | None = None,
    max_calib_range: float | None = None,
) -> Any:
    """Batch normalisation of int8 numbers by the moving statistics, as int8 over the calibrated range."""
    if min_calib_range is None or max_calib_range is None:
        raise ValueError("quantized_batch_norm needs min_calib_range and max_calib_range")
    shape = [-1 if d == axis % data.ndim else 1 for d in range(data.ndim)]
    scale = gamma / jnp.sqrt(moving_var + eps)
    factor = scale.reshape(shape) * _step(min_data, max_data, "int8")
    shift = (beta - moving_mean * scale).reshape(shape)
    reach = max(abs(min_calib_range), abs(max_calib_range))
    bounds = _bounds(min_calib_range, max_calib_range)
    if reach == 0:  # both are infinite in MXNet, and 0 what is no number then
        x = data.astype("float32") * (factor * jnp.inf) + shift * jnp.inf
        return (_cut(jnp.where(jnp.isnan(x), 0, x), "int8"), *bounds)
    x = data.astype("float32") * factor + shift
    return (_whole(x, reach, ranges=_RANGE), *bounds)


# ----------------------------------------------------------------------------------- intgemm


def _both(name: str, **row: Any) -> Any:
    return op(npx=name, nd_contrib=name, internal="_contrib_" + name, **_ROW, **row)


@_both("intgemm_maxabsolute", samples=[case(f(3, 4))])
def intgemm_maxabsolute(data: Any) -> Any:
    """The largest absolute value, (1,)."""
    return jnp.abs(data).max().reshape(1)


def _prepared(x: Any, maxabs: Any) -> Any:
    return jnp.clip(jnp.rint(x * (127 / _one(maxabs))), -127, 127).astype("int8")


@_both("intgemm_prepare_data", samples=[case(f(3, 64), Given([2.0]))])
def intgemm_prepare_data(data: Any, maxabs: Any) -> Any:
    """Floats as int8, ``maxabs`` as 127."""
    return _prepared(data, maxabs)


@_both(
    "intgemm_prepare_weight",
    samples=[case(f(8, 64), Given([2.0])), case(i(8, 64, dtype="int8"), already_quantized=True)],
)
def intgemm_prepare_weight(
    weight: Any, maxabs: Any = None, *, already_quantized: bool = False
) -> Any:
    """Weights as int8 for `intgemm_fully_connected`; in their own order, while MXNet's depends on the CPU."""
    return weight if already_quantized else _prepared(weight, maxabs)


@_both(
    "intgemm_take_weight", samples=[case(i(16, 64, dtype="int8"), Given(list(range(8)), "int32"))]
)
def intgemm_take_weight(weight: Any, indices: Any) -> Any:
    """Rows of prepared weights."""
    return weight[indices.astype("int32")]


@_both(
    "intgemm_fully_connected",
    samples=[
        case(i(3, 64, dtype="int8"), i(8, 64, dtype="int8"), Given([0.5]), f(8), num_hidden=8),
        case(
            i(3, 64, dtype="int8"),
            i(8, 64, dtype="int8"),
            num_hidden=8,
            no_bias=True,
            out_type="int32",
        ),
        case(f(3, 64), i(8, 64, dtype="int8"), Given([0.5]), f(8), num_hidden=8),
    ],
)
def intgemm_fully_connected(
    data: Any,
    weight: Any,
    scaling: Any = None,
    bias: Any = None,
    *,
    num_hidden: int,
    no_bias: bool = False,
    flatten: bool = True,
    out_type: str = "float32",
) -> Any:
    """``scaling * data @ weight.T + bias`` of int8 numbers; ``out_type="int32"`` gives the products themselves.

    Data of float32 are made int8 first, by their largest absolute value, and the scaling is for them as they came.
    """
    x = data.reshape(data.shape[0], -1) if flatten and data.ndim != 2 else data
    unit: Any = 1
    if x.dtype == jnp.float32:
        reach = intgemm_maxabsolute(x)
        x, unit = _prepared(x, reach), _one(reach) / 127
    elif x.dtype != jnp.int8:
        raise TypeError(
            "intgemm_fully_connected takes float32 or int8 data (intgemm_prepare_data), "
            f"got {x.dtype}"
        )
    total = of_bytes(x, weight)
    if out_type == "int32":
        given = [v for v in (scaling, bias) if v is not None]
        return total if no_bias or not given else total + given[-1].astype("int32")
    if scaling is None:
        raise ValueError(
            "intgemm_fully_connected(out_type='float32') needs its scaling, one number"
        )
    made = total.astype("float32") * (_one(scaling) * unit)
    return made if no_bias or bias is None else made + bias
