"""What the operator table says of an operator beyond its help text: dtypes, derivative, sparse forms."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

import mxjax as mx
from mxjax.array.classes import NDArray, ndarray
from mxjax.array.invoke import call
from mxjax.ops.samples import Body
from mxjax.ops.table import Op

#: One of each kind of dtype: the others of its kind behave alike.
DTYPES = ("float16", "float32", "int32", "bool")


def kind(op: Op) -> type:
    """The class of arrays that a row's front end works on."""
    fronts = set(op.names.fronts)
    return NDArray if op.legacy or (fronts and all(f.startswith("nd") for f in fronts)) else ndarray


def _first(op: Op) -> tuple[list[Any], dict[str, Any]] | None:
    """The arrays and attributes of a row's first sample, where it begins with an array."""
    if not op.tests.samples or any(isinstance(v, Body) for v in op.tests.samples[0].attrs.values()):
        return None
    rng = np.random.RandomState(0)
    arrays = [a.draw(rng) if hasattr(a, "draw") else a for a in op.tests.samples[0].args]
    return (
        (arrays, op.tests.samples[0].attrs)
        if arrays and isinstance(arrays[0], np.ndarray)
        else None
    )


def dtypes(op: Op) -> dict[str, str]:
    """Dtypes that an operator takes, and what its first result has then; by tracing, nothing is computed."""
    found = _first(op)
    if found is None:
        return {}
    arrays, given = found
    attrs = {**op.attr_defaults, **given, **({"is_train": False} if op.modal else {})}
    key = [jax.ShapeDtypeStruct((2,), "uint32"), 0, 0] if op.keyed else []
    made = {}
    for dtype in DTYPES:
        structs = [
            jax.ShapeDtypeStruct(a.shape, dtype if a.dtype == arrays[0].dtype else a.dtype)
            if isinstance(a, np.ndarray) else a for a in arrays
        ]  # fmt: skip
        try:
            with jax.enable_x64(True), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                out = jax.eval_shape(lambda *s: op.fn(*s, **attrs), *key, *structs)
        except Exception:  # the row refuses the dtype, each in its own words
            continue
        leaves = jax.tree.leaves(out)
        if leaves:
            made[dtype] = str(leaves[0].dtype)
    return made


def derivative(op: Op) -> str:
    """What the backward pass gives."""
    if not op.differentiable:
        return "none"
    if not op.tests.smooth:
        return "what MXNet defines: zeros where a result jumps, a loss's own gradient"
    return "yes, of every order" if op.array_params else "none"


def sparse(op: Op) -> Iterator[str]:
    """What it makes of sparse arrays without making them dense, as ``csr, default → csr``; found by trying."""
    found = _first(op) if op.sparse is not None else None
    if found is None:
        return
    arrays, attrs = found
    flat = [a for a in arrays if isinstance(a, np.ndarray)]
    if flat[0].ndim != 2:
        return
    alike = [isinstance(a, np.ndarray) and a.shape == flat[0].shape for a in arrays]
    for stype in ("row_sparse", "csr"):
        for which in ([True] + [False] * (len(arrays) - 1), alike):
            given = [
                _live(a, stype if sparse else None) for a, sparse in zip(arrays, which, strict=True)
            ]
            before = mx.engine.stats()["dense_fallbacks"]
            try:
                with warnings.catch_warnings(), mx.config.scope(debug_log_storage_fallback=False):
                    warnings.simplefilter("ignore")
                    out = call(op, NDArray, tuple(given), attrs)
                    out = out[0] if isinstance(out, (list, tuple)) else out
                    mx.waitall()
            except Exception:  # MXNet, too, has no such form
                continue
            if mx.engine.stats()["dense_fallbacks"] == before:
                yield f"{', '.join(getattr(a, 'stype', 'number') for a in given)} → {out.stype}"
            if which == alike:
                break


def _live(a: Any, stype: str | None) -> Any:
    if not isinstance(a, np.ndarray):
        return a
    made = mx.nd.array(a, dtype=a.dtype)
    return made.tostype(stype) if stype else made
