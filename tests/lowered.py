"""Programs lowered for platforms that this machine has not: what a user's code would be compiled to there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import jax
from jax._src.interpreters import mlir

from mxjax.core import compiler
from mxjax.core.compile import cpu_code, program

#: JAX's platform, and the one that operators choose their lowering by.
PLATFORMS = {"cuda": "gpu", "tpu": "tpu"}


def text(fn: Any, structs: Any, platform: str, **how: Any) -> str:
    """A function's StableHLO for a platform."""
    ours = PLATFORMS[platform]
    with compiler.wide_types(), compiler.for_platform(ours):
        # JAX remembers a function's trace, whatever the platform: each has a function of its own.
        traced = jax.jit(lambda *args: fn(*args), **how).trace(*structs)
        # What calls Python asks for the platform's client, though a GPU's lowering needs nothing of it.
        with mock.patch.object(
            mlir.ModuleContext, "get_backend", return_value=SimpleNamespace(platform=platform)
        ):
            return str(
                traced.lower(lowering_platforms=(platform,), **cpu_code.lowering(ours)).as_text()
            )


@contextmanager
def lowering(monkeypatch: Any, platform: str, only: bool = False) -> Iterator[list[str]]:
    """While all is traced for a platform, and programs are lowered for it before they are compiled: what they became.

    Args:
      only: those of several operators are not compiled, so that whoever reads a result gets an error.
    """
    found: list[str] = []
    compiled, for_platform = program.compile_in_tiers, compiler.for_platform

    def compile_in_tiers(fn: Any, structs: Any, **facts: Any) -> Any:
        how: dict[str, Any] = {"keep_unused": True, "donate_argnums": facts["donate"]}
        if any(s.sharding is not None and len(s.sharding.device_set) > 1 for s in structs):
            how["out_shardings"] = facts["out_shardings"]
            found.append(text(fn, structs, platform, **how))
        else:  # on no device
            found.append(
                text(fn, [jax.ShapeDtypeStruct(s.shape, s.dtype) for s in structs], platform, **how)
            )
        if only and len(facts.get("calls", ())) > 4:
            raise NotCompiledError
        return compiled(fn, structs, **facts)

    with monkeypatch.context() as patched:
        patched.setattr(program, "compile_in_tiers", compile_in_tiers)
        for module in [
            m for name, m in sys.modules.items() if name.startswith("mxjax.") and m is not None
        ]:
            if vars(module).get("for_platform") is for_platform:
                patched.setattr(
                    module,
                    "for_platform",
                    lambda _, alone=False: for_platform(PLATFORMS[platform], alone),
                )
        yield found


class NotCompiledError(Exception):
    """In the place of results of what is only lowered."""
