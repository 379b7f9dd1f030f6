"""Where numbers stand among ascending ones: a primitive, so that one trace serves all lengths.

JAX's binary search is a loop of as many rounds as the length says, which must be a number: each length would be traced
anew, for 50 ms. NumPy has a rule of its own for it (`core/interpret/numpy_arrays.py`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching, mlir

from mxjax.core.compile import outline


def search(ascending: Any, wanted: Any, side: str = "left") -> Any:
    """The place of each of ``wanted`` (any shape) among ``ascending`` (n,), from 0 to n; int32.

    >>> search(jnp.array([1.0, 2.0, 2.0]), jnp.array([2.0, 5.0]))
    Array([1, 3], dtype=int32)
    """
    dtype = jnp.result_type(ascending, wanted)
    operands = jnp.asarray(ascending, dtype), jnp.asarray(wanted, dtype)
    return _primitive().bind(*operands, side=side)


def _by_halves(ascending: Any, wanted: Any, *, side: str) -> Any:
    return jnp.searchsorted(ascending, wanted, side).astype(jnp.int32)


def _abstract(ascending: Any, wanted: Any, *, side: str) -> Any:
    return wanted.update(shape=wanted.shape, dtype=jnp.dtype("int32"), weak_type=False)


def _jvp(primals: Any, _: Any, *, side: str) -> Any:
    found = _primitive().bind(*primals, side=side)
    return found, ad.Zero(jax.typeof(found).to_tangent_aval())


def _batch(args: Any, dims: Any, *, side: str) -> Any:
    def one(ascending: Any, wanted: Any) -> Any:
        return _by_halves(ascending, wanted, side=side)

    return jax.vmap(one, in_axes=tuple(dims))(*args), 0


@lru_cache(1)
def _primitive() -> Any:
    from jax.extend.core import Primitive  # brings Pallas with it: not for `import mxjax`

    prim = Primitive("search")
    prim.def_impl(jax.jit(_by_halves, static_argnames=("side",)))
    prim.def_abstract_eval(_abstract)
    mlir.register_lowering(prim, mlir.lower_fun(_by_halves, multiple_results=False))
    ad.primitive_jvps[prim] = _jvp
    batching.primitive_batchers[prim] = _batch
    outline.own.add(prim)
    return prim


__all__ = ["search"]
