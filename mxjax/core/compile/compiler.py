"""Compiler options of each program, merged from everybody who has a say."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax

from ...scopes import Scope, scope, undone
from ..hooks import option_contributors

_now = threading.local()


class _Within(Scope):
    """Within a context manager of another library, whose ``__exit__`` may be called twice."""

    __slots__ = ("_manager",)

    def __init__(self, manager: Any):
        self._manager = manager

    def _now(self) -> Any:
        return self._manager

    def _set(self) -> Any:
        return self._manager.__enter__()

    def _give_back(self, before: Any, broken: bool) -> None:
        if hasattr(before, "prev"):  # it was entered
            before.__exit__(None, None, None)


def wide_types() -> Scope:
    """A scope in which JAX has 64-bit types, in this thread."""
    return _Within(jax.enable_x64(True))


@scope
def _while(**values: Any) -> Iterator[None]:
    """These values for what is traced here, by this thread."""
    before = dict(_now.__dict__)

    def undo() -> None:
        _now.__dict__.clear()
        _now.__dict__.update(before)

    _now.__dict__.update(values)
    yield from undone(undo)


def for_platform(platform: str, alone: bool = False) -> AbstractContextManager[None]:
    """While operators are traced for a platform, ``alone`` on one device of it, so that they can choose their lowering
    by it."""
    return _while(platform=platform, alone=alone)


def is_alone() -> bool:
    """Whether the operator at hand is traced for a program of one device: what ends XLA's fusions
    (`cpu_product.materialize`) would gather what lies on several."""
    return bool(getattr(_now, "alone", False))


def counting() -> AbstractContextManager[Any]:
    """While functions are lowered to be counted: a GPU's plugin counts no program that it has not compiled."""
    try:
        host: AbstractContextManager[Any] = jax.default_device(jax.local_devices(backend="cpu")[0])
        return host
    except RuntimeError:  # JAX was told to do without (JAX_PLATFORMS)
        return nullcontext()


def platform_now() -> str:
    """The platform the operator at hand is traced for; JAX's default one outside of programs."""
    found = getattr(_now, "platform", None)
    if found is None:
        default = jax.default_backend()
        found = "gpu" if default in ("cuda", "rocm") else default
    return str(found)


def short_of_memory(all_kept: bool = False) -> AbstractContextManager[None]:
    """While operators are traced between barriers, so that they can choose the lowering that keeps less.

    ``all_kept``: what their derivatives ask for is kept as it is, nobody chooses of it.
    """
    return _while(short=True, all_kept=all_kept)


def is_short_of_memory() -> bool:
    """Whether the operator at hand is traced under :func:`short_of_memory`."""
    return bool(getattr(_now, "short", False))


def is_all_kept() -> bool:
    """Whether it is so, and all that its derivative asks for is kept."""
    return bool(getattr(_now, "all_kept", False))


# These options are lists in one string; a program's list replaces the global one, so all are joined.
_LISTS = ("xla_disable_hlo_passes",)


def platform_of(device: Any) -> str:
    """``cpu``, ``gpu`` or ``tpu`` of a device or of a sharding."""
    found = getattr(device, "platform", None)
    if found is None:
        found = next(iter(device.device_set)).platform
    return "gpu" if found in ("cuda", "rocm") else str(found)


def options_for(device: Any, calls: Sequence[Any]) -> dict[str, Any]:
    """All contributors' options for a program on this device."""
    merged: dict[str, Any] = {}
    for contribute in option_contributors:
        merge(merged, contribute(platform_of(device), calls))
    return merged


def merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    for name, value in more.items():
        if name in _LISTS and into.get(name):
            parts = [*str(into[name]).split(","), *str(value).split(",")]
            into[name] = ",".join(dict.fromkeys(p for p in parts if p))
        else:
            into[name] = value
