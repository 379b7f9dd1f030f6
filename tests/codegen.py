"""The code generator that users get, where the tests have turned it down (conftest.py)."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any


def of_users(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a program, with XLA's defaults for what the tests' flags say."""
    users: dict[str, Any] = {
        "xla_backend_optimization_level": 3,
        "xla_cpu_parallel_codegen_split_count": 32,
    }
    if version("jaxlib").startswith("0.10."):
        users["xla_cpu_use_fusion_emitters"] = True
    return options | users
