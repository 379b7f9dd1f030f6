"""Linear and bilinear primitives that are each other's transposes.

A gather's gradient is a scatter, which XLA:CPU runs element by element, and a strided slice's is
an interior pad, which does not vectorise. A family states the fast form of every direction once;
as they are primitives, every order of forward and reverse differentiation and `vmap` follow.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching, mlir

from mxjax.core.compile import cpu_code, outline
from mxjax.core.compile.cpu_product import materialize as materialize
from mxjax.core.interpret.numpy_control import TERMS, in_terms

if TYPE_CHECKING:
    from jax.extend.core import Primitive


def linear_pair(name: str, forward: Callable, backward: Callable) -> tuple[Primitive, Primitive]:
    """Two primitives, linear in their last argument and each other's transpose.

    Both functions take arrays and a hashable keyword ``geometry``. Arguments before the last are
    constants of differentiation (an integer mask, say). Every array has the sample axis first and
    samples do not mix: `vmap` folds its axis into that one.
    """
    from jax.extend.core import Primitive  # brings Pallas with it: not for `import mxjax`

    pair = Primitive(name), Primitive(name + "_transpose")
    for prim, other, fn in zip(pair, pair[::-1], (forward, backward), strict=True):
        TERMS[prim.name] = fn
        prim.def_impl(jax.jit(fn, static_argnames=("geometry",)))
        prim.def_abstract_eval(partial(_abstract, prim.name))
        mlir.register_lowering(prim, mlir.lower_fun(fn, multiple_results=False))
        outline.own.add(prim)
        ad.primitive_jvps[prim] = partial(_jvp, prim)
        ad.primitive_transposes[prim] = partial(_transpose, other)
        batching.primitive_batchers[prim] = partial(_batch, prim)
    return pair


def _abstract(name: str, *avals: Any, **params: Any) -> Any:
    (out,) = in_terms(name, avals, params).out_avals
    return avals[-1].update(shape=out.shape, dtype=out.dtype, weak_type=False)


def _jvp(prim: Primitive, primals: Any, tangents: Any, *, geometry: Any) -> Any:
    tangent = ad.instantiate_zeros(tangents[-1])
    out = prim.bind(*primals, geometry=geometry)
    return out, prim.bind(*primals[:-1], tangent, geometry=geometry)


def _transpose(other: Primitive, ct: Any, *args: Any, geometry: Any) -> list[Any]:
    back = other.bind(*args[:-1], ad.instantiate_zeros(ct), geometry=geometry)
    return [None] * (len(args) - 1) + [back]


def _batch(prim: Primitive, args: Any, dims: Any, *, geometry: Any) -> Any:
    size = next(a.shape[d] for a, d in zip(args, dims, strict=True) if d is not None)
    flat = []
    for a, d in zip(args, dims, strict=True):
        a = jnp.broadcast_to(a, (size, *a.shape)) if d is None else jnp.moveaxis(a, d, 0)
        flat.append(a.reshape(a.shape[0] * a.shape[1], *a.shape[2:]))
    out = prim.bind(*flat, geometry=geometry)
    return out.reshape(size, out.shape[0] // size, *out.shape[1:]), 0


def bilinear_triple(
    name: str, value: Callable, left: Callable, right: Callable, thin: Callable | None = None,
    quick: Callable | None = None,
) -> tuple[Primitive, Primitive, Primitive]:  # fmt: skip
    """Primitives ``value(x, w) -> y``, ``left(y, w) -> x`` and ``right(x, y) -> w``.

    Each is bilinear, and the other two are its transposes. The functions take hashable keywords. From those ``thin``
    may find others, for which ``left`` gives less, and what makes the whole of it (a linear function); or None.
    ``quick`` gives the plan that a quick program (`core/run/tiers.py`) has in the place of theirs.
    """
    from jax.extend.core import Primitive

    v, lt, rt = (Primitive(name + part) for part in ("", "_input_gradient", "_weight_gradient"))
    prims = v, lt, rt
    # For each primitive: the gradients of its operands, from (a, b, cotangent).
    rules = {
        v: (lambda x, w, y: (lt, y, w), lambda x, w, y: (rt, x, y)),
        lt: (lambda y, w, x: (v, x, w), lambda y, w, x: (rt, x, y)),
        rt: (lambda x, y, w: (lt, y, w), lambda x, y, w: (v, x, w)),
    }
    for prim, fn in zip(prims, (value, left, right), strict=True):
        TERMS[prim.name] = partial(_plainly, fn)  # quicker to trace than patches
        prim.def_impl(jax.jit(fn, static_argnames=("plan", "shape")))
        prim.def_abstract_eval(partial(_abstract, prim.name))
        mlir.register_lowering(prim, mlir.lower_fun(fn, multiple_results=False))
        if quick is not None:
            cpu_code.quick_rules[prim] = mlir.lower_fun(
                partial(_quickly, fn, quick), multiple_results=False
            )
        outline.own.add(prim)
        ad.primitive_jvps[prim] = partial(_product_jvp, prim)
        ad.primitive_transposes[prim] = partial(
            _product_transpose, rules[prim], thin if prim is v else None
        )
        batching.primitive_batchers[prim] = partial(_product_batch, prim, fn)
    return prims


def _product_jvp(prim: Primitive, primals: Any, tangents: Any, **params: Any) -> Any:
    (a, b), (ta, tb) = primals, tangents
    out = prim.bind(a, b, **params)
    parts = []
    if type(ta) is not ad.Zero:
        parts.append(prim.bind(ta, b, **params))
    if type(tb) is not ad.Zero:
        parts.append(prim.bind(a, tb, **params))
    return out, parts[0] + parts[1] if len(parts) == 2 else parts[0]


def _product_transpose(
    rules: Any, thin: Callable | None, ct: Any, a: Any, b: Any, **params: Any
) -> list[Any]:
    ct = ad.instantiate_zeros(ct)
    if ad.is_undefined_primal(a):
        prim, left, right = rules[0](None, b, ct)
        found = thin(**params) if thin else None
        if found is not None:
            less, whole = found
            return [whole(prim.bind(left, right, **less)), None]
        return [prim.bind(left, right, **params), None]
    prim, left, right = rules[1](a, None, ct)
    return [None, prim.bind(left, right, **params)]


def _product_batch(prim: Primitive, fn: Callable, args: Any, dims: Any, **params: Any) -> Any:
    # Each sample's product by itself, as plain operations: right for any operand, rarely wanted.
    return jax.vmap(partial(_plainly, fn, **params), in_axes=tuple(dims))(*args), 0


def _quickly(fn: Callable, quick: Callable, *args: Any, plan: Any, shape: Any) -> Any:
    return fn(*args, plan=quick(plan, shape), shape=shape)


def _plainly(fn: Callable, *args: Any, plan: Any, **params: Any) -> Any:
    return fn(*args, plan=type(plan)("lax", "lax", "lax"), **params)
