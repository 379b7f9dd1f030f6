"""Attributes as texts: what the user says of a node beside the operator's own, and how files write values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import errors
from ..ops.table import Op
from ..ops.texts import parsed

#: Words that MXNet keeps between underscores, and shows with and without.
HIDDEN = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage", "profiler_scope")
#: What files and old code give that no row needs: XLA decides it, or it follows from the call.
IDLE = frozenset({
    "workspace", "cudnn_off", "cudnn_tune", "num_args", "num_weights", "is_int", "ctx", "device", "out",
    "cudnn_algo_verbose", "cudnn_algo_fwd", "cudnn_algo_bwd_data", "cudnn_algo_bwd_filter", "cudnn_algo_fwd_prec",
    "cudnn_algo_bwd_prec", "cudnn_tensor_core_only", "lstm_state_clip_nan", "weighted", "key", "__profiler_scope__",
})  # fmt: skip


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


def written(attrs: Mapping[str, Any] | None) -> dict[str, str]:
    """A user's attributes of an operator as texts; an initializer as `mx.sym.var` keeps it."""
    return {
        stored(k): str(v.dumps() if hasattr(v, "dumps") else v) for k, v in (attrs or {}).items()
    }


def is_users(key: str) -> bool:
    """Whether a keyword argument of an operator's function is the user's, not the operator's."""
    return key in HIDDEN or (key.startswith("__") and key.endswith("__"))


def text(value: Any) -> str:
    """A value as MXNet's files have it."""
    if isinstance(value, (list, tuple)):
        inner = ", ".join(text(v) for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, (np.dtype, type)):  # `bool`, `float` and `np.float16`, too
        return np.dtype(value).name
    return str(value)


def given(op: Op, attrs: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """A file's attributes as the row's own, and the rest, which is the user's."""
    params: dict[str, Any] = {}
    rest: dict[str, str] = {}
    for key, written in attrs.items():
        if key in op.attr_params:
            params[key] = parsed(op, key, written)
        elif key not in IDLE:
            rest[stored(key)] = written
    return params, rest
