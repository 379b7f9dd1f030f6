"""Programs lowered for platforms that this machine has not: what a user's code would be compiled to there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import jax
from jax._src.interpreters import mlir

from mxjax.core import compiler, cpu_code, program

#: JAX's platform, and the one that operators choose their lowering by.
PLATFORMS = {"cuda": "gpu", "tpu": "tpu"}


def texts(fn: Any, structs: Any, platforms: Any = tuple(PLATFORMS), **how: Any) -> dict[str, str]:
    """A function's StableHLO for each of the platforms."""
    found = {}
    structs = jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype), structs)  # on no device
    for platform in platforms:
        ours = PLATFORMS[platform]
        with compiler.wide_types(), compiler.for_platform(ours):
            # JAX remembers a function's trace, whatever the platform: each has a function of its own.
            traced = jax.jit(lambda *args: fn(*args), **how).trace(*structs)
            # What calls Python asks for the platform's client, though a GPU's lowering needs nothing of it.
            with mock.patch.object(mlir.ModuleContext, "get_backend", return_value=SimpleNamespace(platform=platform)):
                lowered = traced.lower(lowering_platforms=(platform,), **cpu_code.lowering(ours))
            found[platform] = lowered.as_text()
    return found


@contextmanager
def lowering(
    monkeypatch: Any, only: bool = False, platforms: Any = tuple(PLATFORMS)
) -> Iterator[list[dict[str, str]]]:
    """While programs are lowered for all platforms before they are compiled: what was lowered so far.

    Args:
      only: they are not compiled, so that whoever reads a result gets an error.
    """
    found: list[dict[str, str]] = []
    compiled = program.compile_in_tiers

    def compile_in_tiers(fn: Any, structs: Any, **facts: Any) -> Any:
        found.append(texts(fn, structs, platforms, keep_unused=True, donate_argnums=facts["donate"]))
        if only:
            raise NotCompiledError
        return compiled(fn, structs, **facts)

    with monkeypatch.context() as patched:
        patched.setattr(program, "compile_in_tiers", compile_in_tiers)
        yield found


class NotCompiledError(Exception):
    """In the place of results of what is only lowered."""
