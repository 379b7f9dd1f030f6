"""Module: symbols trained and run by the batch, as in MXNet 1.x (`mx.mod`)."""

from __future__ import annotations

from ..errors import explain_names as _explain_names
from . import (
    base_module,
    bucketing_module,
    executor_group,
    module,
    python_module,
    sequential_module,
)
from .base_module import BaseModule
from .bucketing_module import BucketingModule
from .module import Module
from .python_module import PythonLossModule, PythonModule
from .sequential_module import SequentialModule

__all__ = [
    "BaseModule",
    "BucketingModule",
    "Module",
    "PythonLossModule",
    "PythonModule",
    "SequentialModule",
    "base_module",
    "bucketing_module",
    "executor_group",
    "module",
    "python_module",
    "sequential_module",
]

_explain_names(__name__)
