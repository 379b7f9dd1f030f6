"""Attributes as texts: what the user says of a node beside the operator's own, and how files write values."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import errors
from ..ops.table import Op, hashable

#: Words that MXNet keeps between underscores, and shows with and without.
HIDDEN = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage", "profiler_scope")
#: What files and old code give that no row needs: XLA decides it, or it follows from the call.
IDLE = frozenset({
    "workspace", "cudnn_off", "cudnn_tune", "num_args", "num_weights", "is_int", "ctx", "device", "out",
    "cudnn_algo_verbose", "cudnn_algo_fwd", "cudnn_algo_bwd_data", "cudnn_algo_bwd_filter", "cudnn_algo_fwd_prec",
    "cudnn_algo_bwd_prec", "cudnn_tensor_core_only", "lstm_state_clip_nan", "weighted", "key", "__profiler_scope__",
})  # fmt: skip
#: MXNet's numbers of dtypes, which the attribute `__dtype__` of a variable holds.
DTYPES = (
    *("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool", "int16", "uint16", "uint32"),
    *("uint64", "bfloat16"),
)
#: Attributes that have a default here and none in MXNet.
REQUIRED = {
    "Activation": ("act_type",), "Convolution": ("kernel", "num_filter"), "Deconvolution": ("kernel", "num_filter"),
    "Embedding": ("input_dim", "output_dim"), "FullyConnected": ("num_hidden",), "LRN": ("nsize",),
    "SpatialTransformer": ("transform_type", "sampler_type"), "UpSampling": ("sample_type",),
    "ftml_update": ("t",), "lamb_update_phase1": ("wd",),
}  # fmt: skip


def stored(key: str) -> str:
    """The key under which a user's attribute is kept."""
    return f"__{key}__" if key in HIDDEN else key


def shown(attrs: Mapping[str, str]) -> dict[str, str]:
    """A user's attributes with the words of `HIDDEN` with and without underscores."""
    found = dict(attrs)
    found.update({word: attrs[f"__{word}__"] for word in HIDDEN if f"__{word}__" in attrs})
    return found


def checked(attrs: Mapping[str, Any] | None) -> dict[str, str]:
    """A user's attributes, which must be texts, as they are kept."""
    for key, value in (attrs or {}).items():
        if not isinstance(value, str):
            raise errors.MXNetValueError(
                f"Set Attr only accepts string values: got {key}={value!r}. Write {key}={str(value)!r}"
            )
    return {stored(k): v for k, v in (attrs or {}).items()}


def is_users(key: str) -> bool:
    """Whether a keyword argument of an operator's function is the user's, not the operator's."""
    return key in HIDDEN or (key.startswith("__") and key.endswith("__"))


def text(value: Any) -> str:
    """A value as MXNet's files have it."""
    if isinstance(value, (list, tuple)):
        inner = ", ".join(text(v) for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, np.dtype):
        return value.name
    return str(value)


_TUPLE = re.compile(r"[\[(](.*)[\])]\Z", re.S)
_LONG = re.compile(r"(?<=\d)L\b")
_WORDS = {"True": True, "true": True, "False": False, "false": False, "None": None, "": None}
_NUMBERS = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan"), "-nan": float("nan")}
_LONGEST = 1 << 16


def value_of(written: str) -> Any:
    """The value of a text in either dialect: `(3, 3)` and `[3,3]`, `True`; else the text itself.

    >>> value_of("[3,3]"), value_of("(2L, 3L)"), value_of("1e-05"), value_of("relu")
    ((3, 3), (2, 3), 1e-05, 'relu')
    """
    plain = written.strip()
    if plain in _WORDS:
        return _WORDS[plain]
    if plain in _NUMBERS:
        return _NUMBERS[plain]
    if len(plain) > _LONGEST:
        raise errors.FormatError(f"an attribute of {len(plain)} characters")
    inner = _TUPLE.match(plain)
    if inner is not None:
        body = inner[1].strip().rstrip(",")
        if any(c in body for c in "([{"):
            return _literal(plain)
        return tuple(value_of(part) for part in body.split(",")) if body else ()
    if re.match(r"[-+.\d]", plain):
        try:
            number = ast.literal_eval(_LONG.sub("", plain))
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return written
        return number if isinstance(number, (int, float)) else written
    return written


def _literal(plain: str) -> Any:
    try:
        return hashable(ast.literal_eval(_LONG.sub("", plain)))
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        raise errors.FormatError(f"an attribute that is no literal: {plain[:80]!r}") from None


_TEXTS = frozenset({"dtype", "out_dtype", "mode", "layout", "act_type", "pool_type", "ret_typ", "subscripts"})


def fitted(op: Op, key: str, value: Any) -> Any:
    """A file's value as the row takes it: 1 and 0 for True and False, a number alone for a tuple of one."""
    default = op.attr_defaults.get(key)
    if isinstance(default, bool) and isinstance(value, int):
        return bool(value)
    if key in _FLAGS and value in (0, 1):
        return bool(value)
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, int) and not isinstance(value, bool) and (key in _SHAPES or isinstance(default, tuple)):
        return (value,)
    if key in ("dtype", "out_dtype") and isinstance(value, int):
        if not 0 <= value < len(DTYPES):
            raise errors.FormatError(f"there is no dtype {value}; MXNet's are 0 ... {len(DTYPES) - 1}")
        return DTYPES[value]
    return value


_FLAGS = frozenset({"keepdims", "is_ascend", "no_bias", "squeeze_axis", "bidirectional", "state_outputs"})
_SHAPES = frozenset({"shape", "kernel", "stride", "pad", "dilate"})


def _of_its_kind(op: Op, key: str, value: Any) -> Any:
    """The value, unless it is none that the attribute can have: a text for numbers, a fraction for a length."""
    default = op.attr_defaults.get(key)
    plain = value if isinstance(value, tuple) else (value,)
    if key in _SHAPES:
        wrong = value is not None and not all(n is None or type(n) is int for n in plain)
        expected = "whole numbers, as (3, 3)"
    elif isinstance(default, (bool, int, float)) or key.startswith("num_"):
        wrong, expected = any(isinstance(n, str) for n in plain), "a number"
    else:
        return value
    if wrong:
        raise errors.FormatError(f"Invalid Parameter format for {key}: {expected} is expected, got {value!r:.80}")
    return value


def given(op: Op, attrs: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """A file's attributes as the row's own, and the rest, which is the user's."""
    params: dict[str, Any] = {}
    rest: dict[str, str] = {}
    for key, written in attrs.items():
        if key in op.attr_params:
            value = written if key in _TEXTS and not written.strip("-").isdigit() else value_of(written)
            if key in _TEXTS and written in ("None", ""):
                value = None
            params[key] = _of_its_kind(op, key, fitted(op, key, value))
        elif key not in IDLE:
            rest[stored(key)] = written
    return params, rest
