"""Run first in every worker process: lets it use `mxjax.gluon.data` without importing JAX.

Importing `mxjax` or `mxjax.gluon` there gives an empty package that becomes the real one when
somebody asks it for a name or for a module other than the light ones below.  Workers whose dataset
is NumPy, files or plain Python thus start in a tenth of a second and hold no JAX runtime.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import signal
import sys
import threading
from types import ModuleType
from typing import Any

PACKAGES = ("mxjax", "mxjax.gluon")
LIGHT = (
    "mxjax._jax_private", "mxjax._version", "mxjax.as_mxnet", "mxjax.compat", "mxjax.display", "mxjax.errors",
    "mxjax.files", "mxjax.recordio", "mxjax.settings", "mxjax.gluon.data",
)  # fmt: skip
NOT_LIGHT = ("mxjax.gluon.data.vision.transforms",)

_lock = threading.RLock()


def is_in(name: str, prefixes: tuple[str, ...]) -> bool:
    """Whether `name` is one of these modules, or is inside of one."""
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


class _Closed(ModuleType):
    """A package whose code has not run yet."""

    def __getattr__(self, name: str) -> Any:
        # Python asks modules for many dunder names; only this one is a reason to open the package.
        if name.startswith("__") and name != "__version__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        inner = f"{self.__name__}.{name}"
        if is_in(inner, LIGHT):  # `from mxjax import recordio` asks for an attribute first
            return importlib.import_module(inner)
        _open(self.__name__)
        return getattr(self, name)


def _close(name: str) -> None:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ImportError(f"{name} cannot be found by a worker process; sys.path is {sys.path}")
    package = _Closed(name)
    package.__spec__ = spec
    package.__loader__ = spec.loader
    package.__file__ = spec.origin
    package.__path__ = list(spec.submodule_search_locations or [])
    package.__package__ = name
    sys.modules[name] = package
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, package)


def _open(name: str) -> None:
    """Run the code of `mxjax`, and of `mxjax.gluon` where that is `name`."""
    with _lock:
        for package_name in PACKAGES:
            package = sys.modules[package_name]
            if is_in(name, (package_name,)) and type(package) is _Closed:
                package.__class__ = ModuleType  # type: ignore[assignment]
                package.__spec__.loader.exec_module(package)  # type: ignore[union-attr]
        worker: Any = sys.modules.get("mxjax.gluon.data._worker")
        if hasattr(worker, "settle"):  # it may be about to be imported
            worker.settle()


class _Opener:
    """Opens the packages before a module that is not light is imported from them."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if not name.startswith("mxjax.") or (is_in(name, LIGHT) and not is_in(name, NOT_LIGHT)):
            return None
        _open(name)
        module = sys.modules.get(name)
        if (
            module is None
        ):  # opening may have put finders before this one: Python has passed them by
            specs = (
                each.find_spec(name, path, target) for each in sys.meta_path if each is not _Opener
            )
            return next((spec for spec in specs if spec is not None), None)
        return importlib.machinery.ModuleSpec(name, _Opened(module))  # type: ignore[arg-type]


class _Opened:
    """The loader of a module that opening its package has imported already."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.spec = module.__spec__

    def create_module(self, spec: Any) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec


def _main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's affair
    for name in PACKAGES:
        if name not in sys.modules:
            _close(name)
    importlib.import_module(
        "mxjax.compat.modules"
    )  # has a finder that stands first: this one goes before it
    sys.meta_path.insert(0, _Opener)  # type: ignore[arg-type]


if __name__ == "__mxjax_worker__":
    _main()
