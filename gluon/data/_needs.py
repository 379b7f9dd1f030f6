"""Whether a dataset will make its workers import mxjax, and with it JAX: told from what it is pickled of."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ._host import HostArray, is_array
from ._worker_boot import LIGHT, NOT_LIGHT, PACKAGES, is_in

#: Modules of the light ones that import others.
_HEAVY = (*NOT_LIGHT, "mxjax.gluon.data.vision")
#: What a light worker may ask mxjax itself for.
_LIGHT_NAMES = frozenset({"gluon", *(name.split(".")[1] for name in LIGHT)})
#: What is in these travels by value.
_SCRIPTS = ("__main__", "__mp_main__")
#: The modules of these need no look.
_OTHERS = frozenset({*sys.stdlib_module_names, "cloudpickle", "numpy"})


class Needs:
    """Looks at the objects of a pickle; `mxjax` says whether who loads it will want mxjax's arrays.

    A guess: when it is wrong a worker starts more slowly, or in more memory, than it might.
    """

    def __init__(self) -> None:
        self._found = self._hosts = self._functions = False
        self._modules: dict[str, bool] = {}

    @property
    def mxjax(self) -> bool:
        # A user's function sees samples as mxjax arrays.
        return self._found or (self._hosts and self._functions)

    def look(self, obj: Any) -> None:
        """Take note of an object that is pickled."""
        if self._found:
            return
        if isinstance(obj, HostArray):
            self._hosts = True
        elif is_array(obj):
            self._found = True
        elif isinstance(obj, ModuleType):
            # The package itself is judged by the functions that ask it for something.
            self._found = _is_heavy(obj.__name__)
        elif isinstance(obj, type | FunctionType):
            self._look_at_definition(obj)

    def _look_at_definition(self, obj: Any) -> None:
        name = getattr(obj, "__module__", None)
        if not isinstance(name, str):
            return
        if is_in(name, PACKAGES):
            self._found = _is_heavy(name)
        elif name.partition(".")[0] not in _OTHERS:
            self._functions = True
            module = sys.modules.get(name)
            by_name = name not in _SCRIPTS and getattr(module, obj.__qualname__, None) is obj
            self._found = (by_name and self._imports(module)) or any(map(_asks, _functions(obj)))

    def _imports(self, module: Any) -> bool:
        """Whether a module that is imported where the pickle is loaded imports heavy ones, as far as its names tell."""
        name = module.__name__
        if name not in self._modules:
            self._modules[name] = any(_is_heavy(_home(value)) for value in vars(module).values())
        return self._modules[name]


def _home(value: Any) -> str:
    name = value.__name__ if isinstance(value, ModuleType) else None
    if isinstance(value, type | FunctionType):
        name = getattr(value, "__module__", None)
    return name if isinstance(name, str) else ""


def _is_heavy(name: str) -> bool:
    return name not in PACKAGES and is_in(name, PACKAGES) and (
        not is_in(name, LIGHT) or is_in(name, _HEAVY)
    )  # fmt: skip


def _functions(obj: Any) -> Iterator[FunctionType]:
    """A function, or those of a class and of its bases outside of this package."""
    if isinstance(obj, FunctionType):
        yield obj
        return
    for base in getattr(obj, "__mro__", ()):
        if not is_in(getattr(base, "__module__", ""), PACKAGES):
            for value in vars(base).values():
                value = getattr(value, "__func__", value)  # of static methods, too
                if isinstance(value, FunctionType):
                    yield value


def _asks(function: FunctionType) -> bool:
    """Whether a function names something heavy of mxjax, or asks mxjax for something that is not light."""
    names = set(_names(function.__code__))
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    values = [function.__globals__.get(name) for name in names]
    for _, cell in cells:
        try:
            values.append(cell.cell_contents)
        except ValueError:  # empty so far
            pass
    if any(_is_heavy(_home(value)) for value in values):
        return True
    package: Any = sys.modules[PACKAGES[0]]
    if package in [value for value in values if isinstance(value, ModuleType)] or names & {
        "mxjax",
        "mxnet",
    }:
        return any(
            hasattr(package, name) for name in names - _LIGHT_NAMES if not name.startswith("__")
        )
    return False


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
