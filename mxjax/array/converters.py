"""Our arrays for PyTorch's `SummaryWriter`, which takes NumPy's and PyTorch's own, and asks no other what it is."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any

import numpy as np

from .handle import Handle

_CONVERTS = "torch.utils.tensorboard._convert_np"
#: The modules that have its function by name, too.
_USES = (
    "torch.utils.tensorboard.summary",
    "torch.utils.tensorboard.writer",
    "torch.utils.tensorboard._embedding",
)


def _taking_ours(make_np: Callable[[Any], np.ndarray]) -> Callable[[Any], np.ndarray]:
    @functools.wraps(make_np)
    def converted(x: Any) -> np.ndarray:
        return make_np(x.asnumpy() if isinstance(x, Handle) else x)  # type: ignore[attr-defined]

    return converted


class _Finder(MetaPathFinder):
    """Finds that one module of PyTorch as others do, and lets its function take our arrays once it has run."""

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> Any:
        if fullname != _CONVERTS:
            return None
        sys.meta_path.remove(self)  # it is wanted once
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            _teach(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _teach(module: ModuleType) -> None:
    make_np = getattr(module, "make_np", None)
    if make_np is not None:
        taking_ours = _taking_ours(make_np)
        for each in (module, *[sys.modules[name] for name in _USES if name in sys.modules]):
            if getattr(each, "make_np", None) is make_np:
                each.make_np = taking_ours  # type: ignore[attr-defined]


def install() -> None:
    """Let `torch.utils.tensorboard` take our arrays, whether it has been imported or will be."""
    if _CONVERTS in sys.modules:
        _teach(sys.modules[_CONVERTS])
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
