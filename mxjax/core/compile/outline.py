"""Traced programs that are known again before they are lowered.

A program that is loaded (`kept.py`) need not be lowered to StableHLO, which takes three times as long as to load it:
what it was traced to, a jaxpr, says all. `digest` makes a number of it, and `ToLower` stands for the lowered program,
which is lowered when it has to be compiled. What calls the loaded program is made by JAX from an outline, a program of
the same operands and results that does nothing.

The digest knows what JAX and mxjax themselves put into a jaxpr, and gives None for all else: other primitives,
functions, objects of others. Then the program is lowered, and known again by its StableHLO.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._jax_private import FLAT_TREES, find, modules
from . import compiler, cpu_code

#: Fewer equations are lowered in the time that an outline takes.
SHORT = 40
#: Larger constants are not looked through.
_LARGE = 1 << 20
#: Parameters that say how an equation is differentiated, or what another parameter says, too.
_BESIDE = frozenset(
    {
        ("custom_jvp_call", "jvp_jaxpr_fun"),
        ("custom_vjp_call", "fwd_jaxpr_thunk"),
        ("custom_vjp_call", "bwd"),
        ("custom_vjp_call", "out_trees"),
        ("reduce", "computation"),
    }
)
#: Objects of JAX that their text says wholly.
_SAID = frozenset(
    {"UnspecifiedValue", "Mesh", "AbstractMesh", "SingleDeviceSharding", "NamedSharding", "Layout"}
)
_PLAIN = frozenset({type(None), bool, int, str, bytes, type(Ellipsis)})

#: Primitives of mxjax whose lowering follows from their names, parameters, and mxjax's source.
own: set[Any] = set()


class _UnknownError(Exception):
    """Something that a digest does not know."""


class ToLower:
    """A traced program that is lowered when that is needed; in the place of what ``lower`` gives.

    ``quick``: as a quick program computes it (`cpu_code.quick_rules`).
    """

    def __init__(
        self, traced: Any, structs: Sequence[Any], device: Any, quick: bool = False, **jit: Any
    ):
        self._quick = quick
        self._like: ToLower | None = None
        self.jaxpr = traced.jaxpr
        self._traced = traced
        self._structs = structs
        self._platform = compiler.platform_of(device)
        self._alone = isinstance(device, jax.Device)
        self._jit = jit  # with `keep_unused=True`: the outline uses no operand

    def quickly(self) -> ToLower:
        """The same program as a quick one computes it, which is known by the same digest."""
        other = object.__new__(ToLower)
        other.__dict__.update(self.__dict__)
        other.__dict__.pop("whole", None)
        other._quick, other._like = True, self
        return other

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)

    @functools.cached_property
    def whole(self) -> Any:
        """The lowered program."""
        with compiler.wide_types(), compiler.for_platform(self._platform):
            lowered = self._traced.lower(**cpu_code.lowering(self._platform, self._quick))
        let_go(self.jaxpr)
        return lowered

    @functools.cached_property
    def digest(self) -> bytes | None:
        """What stands for the program, besides operands and results; None where nothing does."""
        if self._like is not None:
            return self._like.digest
        if not self._alone or len(self.jaxpr.jaxpr.eqns) < SHORT:
            return None
        return digest(self.jaxpr)

    @functools.cached_property
    def outline(self) -> Any:
        """A lowered program of the same operands and results that does nothing; None where there is none."""
        if self._like is not None:
            return self._like.outline
        outs = self.jaxpr.out_avals
        tree = jax.tree.structure(self._traced.out_info)
        if any(a.weak_type or not isinstance(a.dtype, np.dtype) for a in outs):
            return None

        def nothing(*operands: Any) -> Any:
            return jax.tree.unflatten(tree, [jnp.zeros(a.shape, a.dtype) for a in outs])

        nothing.__name__ = nothing.__qualname__ = self._traced.fun_name
        with compiler.wide_types(), compiler.for_platform(self._platform):
            traced = jax.jit(nothing, **self._jit).trace(*self._structs)
            if [a.dtype for a in traced.jaxpr.out_avals] != [a.dtype for a in outs]:
                return None
            lowered = traced.lower()
        let_go(traced.jaxpr)
        return lowered


def let_go(jaxpr: Any) -> None:
    """Let a jaxpr, and what was compiled of it, end with those who hold it.

    JAX 0.12 remembers what is left of it without unused inputs, as long as it lives; where these are kept that is the
    jaxpr itself, which so would live until 2048 others came, its programs too.
    """
    evict = getattr(
        find("dce_jaxpr"), "evict_weakref", None
    )  # JAX before 0.12 has none, nor needs it
    if evict is not None:
        evict(jaxpr)


def digest(jaxpr: Any) -> bytes | None:
    """32 bytes that stand for a closed jaxpr and all that its lowering depends on; None where that is not known."""
    try:
        words = Words()
        words.closed(jaxpr)
        words.value(context())
    except Exception:  # what it does not know, or another JAX
        return None
    return hashlib.blake2b("\0".join(words.said).encode() + source(), digest_size=32).digest()


class Words:
    """What is said of a jaxpr, word by word."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self._bodies: dict[int, int] = {}  # what JAX lowers once and calls twice is said once
        self._names: dict[int, str] = {}
        self._shardings: dict[int, str] = {}
        self._known = _primitives()

    def closed(self, closed: Any) -> None:
        for constant in closed.consts:
            self.value(constant)
        self.jaxpr(closed.jaxpr)

    def jaxpr(self, jaxpr: Any) -> None:
        say = self.said.append
        before = self._bodies.get(id(jaxpr))
        if before is not None:
            say(f"again {before}")
            return
        self._bodies[id(jaxpr)] = len(self._bodies)
        if jaxpr.effects:
            raise _UnknownError
        numbers: dict[Any, int] = {}

        def made(variables: Sequence[Any]) -> None:
            for v in variables:
                numbers[v] = len(numbers)
                self.aval(v.aval)

        def taken(atoms: Sequence[Any]) -> None:
            for a in atoms:
                if hasattr(a, "val"):
                    self.value(a.val)
                    self.aval(a.aval)
                else:
                    say(f"%{numbers[a]}")

        made(jaxpr.constvars)
        say("in")
        made(jaxpr.invars)
        for e in jaxpr.eqns:
            primitive = e.primitive
            if primitive not in self._known and primitive not in own:
                raise _UnknownError
            say(primitive.name)
            self._name(e.source_info.name_stack)
            taken(e.invars)
            for key, value in e.params.items():
                if (primitive.name, key) not in _BESIDE:
                    say(key)
                    self.value(value)
            around = e.ctx
            if (
                around.compute_type is not None
                or around.xla_metadata
                or not around.cur_abstract_mesh.empty
            ):
                raise _UnknownError
            say(str(around.threefry_partitionable))
            made(e.outvars)
        say("out")
        taken(jaxpr.outvars)

    def _name(self, stack: Any) -> None:
        text = self._names.get(id(stack))
        if text is None:
            text = self._names[id(stack)] = str(stack)
        self.said.append(text)

    def aval(self, aval: Any) -> None:
        if type(aval).__name__ != "ShapedArray":
            raise _UnknownError
        spread = self._shardings.get(id(aval.sharding))
        if spread is None:
            spread = self._shardings[id(aval.sharding)] = str(aval.sharding)
        self.said.append(f"{aval.shape} {aval.dtype} {aval.weak_type} {aval.memory_space} {spread}")

    def value(self, value: Any) -> None:
        kind = type(value)
        say = self.said.append
        if kind in _PLAIN:
            say(f"{kind.__name__} {value!r}")
        elif isinstance(value, enum.Enum):
            say(f"{kind.__module__}.{kind.__qualname__} {value.name}")
        elif kind is float:
            say(value.hex())
        elif isinstance(value, tuple | list):
            say(f"{kind.__module__}.{kind.__qualname__} {len(value)}")
            if kind.__name__ == "PRNGImpl":
                self._generator(value)
                return
            for part in value:
                self.value(part)
        elif isinstance(value, np.dtype):
            say(str(value))
        elif isinstance(value, np.ndarray | np.generic):
            if value.nbytes > _LARGE or value.dtype.hasobject:
                raise _UnknownError
            data = np.asarray(value)
            say(
                f"{kind.__name__} {data.dtype} {data.shape} {getattr(value, 'weak_type', None)} {data.tobytes().hex()}"
            )
        elif isinstance(value, int | float) and kind.__module__.startswith("jax."):
            say(f"{kind.__name__} {value!r} {value.dtype}")  # type: ignore[union-attr]
        elif isinstance(value, dict):
            say(f"dict {len(value)}")
            for key, part in value.items():
                self.value(key)
                self.value(part)
        elif hasattr(value, "eqns"):
            self.jaxpr(value)
        elif hasattr(value, "jaxpr") and hasattr(value, "consts"):
            self.closed(value)
        elif (
            kind.__name__ in _SAID
            and kind.__module__.startswith(("jax.", "jaxlib."))
            and " at 0x" not in repr(value)
        ):
            say(f"{kind.__name__} {value!r}")
        elif kind.__module__ == FLAT_TREES:  # which operands of a loop are what, from JAX 0.12 on
            if any(part is not None for part in value.vals):
                raise _UnknownError
            say(f"{kind.__name__} {value!r}")
        elif kind is type and value.__module__ == "numpy":
            say(value.__name__)
        else:
            raise _UnknownError

    def _generator(self, value: Any) -> None:
        """A random number generator: one of JAX's own."""
        if value.name != "threefry2x32" or find("prngs").get(value.name) is not value:
            raise _UnknownError
        self.said.append(value.name)


@functools.cache
def _primitives_of(count: int) -> frozenset[Any]:
    kind = find("Primitive")
    found: set[Any] = set()
    for module in modules():
        found.update(
            v for k, v in list(vars(module).items()) if k.endswith("_p") and isinstance(v, kind)
        )
    return frozenset(found)


def _primitives() -> frozenset[Any]:
    """JAX's own primitives, whose lowering follows from their parameters and JAX's version."""
    return _primitives_of(len(sys.modules) // 64)  # modules that come later may bring some


def context() -> list[Any]:
    """What else JAX and mxjax look at as they lower: JAX's flags, in this thread too, and the platform."""

    def simple(value: Any) -> bool:
        return isinstance(value, bool | int | float | str | enum.Enum | None)

    flags = [(k, v) for k, v in sorted(jax.config.values.items()) if simple(v)]
    return [flags, [v for v in find("trace_context")() if simple(v)], compiler.platform_now()]


@functools.cache
def source() -> bytes:
    """What changes when the rules do by which mxjax lowers."""
    words = []
    for folder in ("core", "ops", "optimizer"):
        for place, _, names in os.walk(Path(__file__).parents[2] / folder):
            for name in sorted(names):
                if name.endswith(".py"):
                    found = os.stat(os.path.join(place, name))
                    words.append(f"{name} {found.st_size} {found.st_mtime_ns}")
    return "\0".join(sorted(words)).encode()
