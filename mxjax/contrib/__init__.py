"""What MXNet calls contributed: `mx.contrib`. Modules are loaded when they are first used."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from mxjax.errors import no_name


def __getattr__(name: str) -> Any:
    if not name.startswith("_") and importlib.util.find_spec(f"{__name__}.{name}") is not None:
        return importlib.import_module(f"{__name__}.{name}")
    raise no_name(__name__, name)
