"""What MXNet calls contributed: estimators, and older homes of layers and samplers."""

from __future__ import annotations

import importlib
from typing import Any

from mxjax.errors import no_name

__all__ = ["cnn", "data", "estimator", "nn", "rnn"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise no_name(__name__, name)
    return importlib.import_module(f"{__name__}.{name}")
