"""Arrays in JAX's transformations: they are pytrees of one leaf, and what `jax.grad` differentiates may give one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .. import errors
from .._jax_private import find
from ..core import aval, default_device
from ..core.calls.value import Failure
from ..core.run.failures import failed_value
from .handle import Handle, to_value


class Placeholder:
    """Stands in for the value of an array that JAX made from something that is no array.

    Of a ``jax.ShapeDtypeStruct`` the shape and the dtype are known, as `jax.eval_shape` gives them.
    """

    __slots__ = ("leaf", "tape")

    def __init__(self, leaf: Any):
        self.leaf = leaf

    def value(self) -> Any:
        error = errors.MXNetTypeError(
            f"this array stands for {self.leaf!r} in a JAX pytree and has no numbers"
        )
        if not isinstance(self.leaf, jax.ShapeDtypeStruct):
            raise error
        return failed_value(
            aval(tuple(self.leaf.shape), np.dtype(self.leaf.dtype), default_device()),
            Failure(error),
        )


def _flatten(x: Any) -> tuple[tuple[Any], type]:
    if x._v is None and type(x._base) is Placeholder:
        return (x._base.leaf,), type(x)
    return (x.jax,), type(x)


def _unflatten(cls: type[Handle], leaves: Any) -> Any:
    (leaf,) = leaves
    if isinstance(leaf, (jax.Array, np.ndarray)) and leaf.dtype != jax.dtypes.float0:
        return cls._wrap(to_value(leaf))
    if isinstance(
        leaf, Handle
    ):  # what was mapped to an array of ours is that array: Jacobians are made so
        return leaf
    h = object.__new__(cls)
    h._v = None
    h._var = None
    h._base = Placeholder(leaf)  # type: ignore[assignment]
    return h


def register_pytree(cls: type[Handle]) -> None:
    """Let JAX's transformations take arrays of this class as arguments and results, and `jax.export` write them."""
    jax.tree_util.register_pytree_node(cls, _flatten, _unflatten)
    jax.export.register_pytree_node_serialization(
        cls,
        serialized_name=f"mxjax.{'nd.NDArray' if cls._legacy else 'np.ndarray'}",  # type: ignore[attr-defined]
        serialize_auxdata=lambda of: b"",
        deserialize_auxdata=lambda written: cls,
    )


def take_gradients_of_arrays() -> None:
    """Let ``jax.grad(f)(x)`` take functions that give an array of ours.

    It wants one number of JAX's, not a tree with one in it: it asks for the number's shape, and begins the backward
    pass with a one. Both are answered for our arrays; nothing changes for anything else.
    """
    api, lax = find("api"), find("lax")
    check: Callable[[Any], None] | None = getattr(api, "_check_scalar", None)
    if check is None or lax is None:  # another JAX, where f must give f(x).jax
        return

    @functools.wraps(check)
    def check_scalar(x: Any) -> None:
        check(x.jax if isinstance(x, Handle) else x)  # type: ignore[attr-defined]

    api._check_scalar = check_scalar
    for name in ("_one_vjp", "_one"):
        one = getattr(lax, name, None)
        if one is not None:
            setattr(lax, name, _of_arrays(one))


def _of_arrays(one: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(one)
    def first_cotangent(x: Any) -> Any:
        return _unflatten(type(x), (one(x.jax),)) if isinstance(x, Handle) else one(x)  # type: ignore[attr-defined]

    return first_cotangent
