"""Attributes given as texts, as MXNet hands all of them to its library and as its files hold them."""

from __future__ import annotations

import ast
import re
from typing import Any

from .. import errors
from .table import WHOLES, Op, hashable

#: MXNet's numbers of dtypes, which the attribute `__dtype__` of a variable holds.
DTYPES = (
    *(
        "float32",
        "float64",
        "float16",
        "uint8",
        "int32",
        "int8",
        "int64",
        "bool",
        "int16",
        "uint16",
        "uint32",
    ),
    *("uint64", "bfloat16"),
)
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


_TEXTS = frozenset(
    {"dtype", "out_dtype", "mode", "layout", "act_type", "pool_type", "ret_typ", "subscripts"}
)
_FLAGS = frozenset({
    "keepdims", "is_ascend", "no_bias", "squeeze_axis", "bidirectional", "state_outputs", "count_include_pad", "infer_range",
})  # fmt: skip
_SHAPES = frozenset({"shape", "kernel", "stride", "pad", "dilate"})
_SEVERAL = frozenset({"lrs", "wds", "etas", "learning_rates", "alpha"})
_WORDS_OR_NUMBERS = frozenset({"ord", "optimize", "upper"})


def parsed(op: Op, key: str, written: str) -> Any:
    """A text as the value that the row's attribute takes: of a text's kind, a number, a truth value, a tuple.

    >>> from mxjax.ops import TABLE
    >>> parsed(TABLE["Pooling"], "kernel", "(2L, 2L)"), parsed(TABLE["Pooling"], "global_pool", "1")
    ((2, 2), True)

    Raises:
      FormatError: it is no value of the attribute's kind.
    """
    if key in _TEXTS or (
        isinstance(op.attr_defaults.get(key), str) and key not in _WORDS_OR_NUMBERS
    ):
        value = None if written in ("None", "") else written
        if key in _TEXTS and written.strip("-").isdigit():
            value = value_of(written)
    else:
        value = value_of(written)
    return _of_its_kind(op, key, fitted(op, key, value))


def fitted(op: Op, key: str, value: Any) -> Any:
    """The value of a text as the row takes it: 1 and 0 for True and False, a number alone for a tuple of one."""
    default = op.attr_defaults.get(key)
    if isinstance(default, bool) and isinstance(value, int):
        return bool(value)
    if key in _FLAGS and value in (0, 1):
        return bool(value)
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is int and key in _SHAPES:
        return (value,)
    if type(value) in (int, float) and (
        isinstance(default, tuple) or (key in _SEVERAL and default is None)
    ):
        return (value,)
    if key in ("dtype", "out_dtype") and isinstance(value, int):
        if not 0 <= value < len(DTYPES):
            raise errors.FormatError(
                f"there is no dtype {value}; MXNet's are 0 ... {len(DTYPES) - 1}"
            )
        return DTYPES[value]
    return value


def _of_its_kind(op: Op, key: str, value: Any) -> Any:
    """The value, unless it is none that the attribute can have: a text for numbers, a fraction for a length."""
    default = op.attr_defaults.get(key)
    plain = value if isinstance(value, tuple) else (value,)
    if key in _SHAPES:
        wrong = value is not None and not all(n is None or type(n) is int for n in plain)
        expected = "whole numbers, as (3, 3)"
    elif isinstance(default, (bool, int, float)) or key.startswith("num_"):
        wrong = key not in _WORDS_OR_NUMBERS and any(isinstance(n, str) for n in plain)
        expected = "a number"
    else:
        return value
    if wrong:
        raise errors.FormatError(
            f"Invalid Parameter format for {key}: {expected} is expected, got {value!r:.80}"
        )
    return value


def checked(op: Op, key: str, value: Any) -> None:
    """Refuse a value that an attribute cannot have, whatever the arrays are, as MXNet does where a symbol is composed.

    Raises:
      MXNetError: another word than those that it takes, a fraction for a whole number, no truth value, a number out of bounds.
      TypeError: no dtype.
    """
    default = op.attr_defaults.get(key)
    if value is None and (default is None or key not in op.choices):
        return
    if key in op.choices and value not in op.choices[key]:
        words = ", ".join(map(repr, op.choices[key]))
        _refuse(
            op,
            key,
            value,
            f"valid values are: {words}{errors.did_you_mean(str(value), op.choices[key])}",
        )
    if key in ("dtype", "out_dtype") and isinstance(value, str) and value not in DTYPES:
        raise errors.MXNetTypeError(
            f"data type {value!r} not understood{errors.did_you_mean(value, DTYPES)}, in operator {op.display}"
        )
    if key in op.bounds:
        least, most = op.bounds[key]
        if isinstance(value, bool) or not least <= value <= most:
            _refuse(op, key, value, f"a number from {least} to {most} is expected")
    if type(default) is bool and not (value in (0, 1) and isinstance(value, int)):
        _refuse(op, key, value, "True or False is expected")
    if key in WHOLES or type(default) is int:
        for n in value if isinstance(value, tuple) else (value,):
            if isinstance(n, (float, str)):
                _refuse(
                    op,
                    key,
                    value,
                    "an integer is expected, or several where the operator takes a tuple",
                )


def _refuse(op: Op, key: str, value: Any, expected: str) -> None:
    raise errors.MXNetError(
        f"Invalid Parameter format for {key}: got {value!r}, {expected}, in operator {op.display}"
    )
