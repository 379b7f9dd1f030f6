"""The execution engine: how much runs at a time, and what it counted."""

from __future__ import annotations

from typing import Any

from . import core, settings
from .core.compiler_options import default_options
from .core.state import Limits, Modes, local, modes_of_thread

__all__ = ["bulk", "reset", "set_bulk_size", "stats"]


def set_bulk_size(size: int) -> int:
    """Let at most ``size`` calls of this thread run as one program; gives the size before.

    A size of 0 or 1 runs call by call.
    """
    st = local.st
    before = st.limit
    _set_limit(max(1, int(size)))
    return before


def _set_limit(limit: int | None) -> None:
    st = local.st
    core.flush_thread(st)
    # Setting the size back to the one in force without any is the same as setting none.
    st.own_limit = None if limit == st.modes.infer.hard else limit
    st.refresh()


class _Bulk:
    def __init__(self, size: int):
        self._size = size
        self._before: list[int | None] = []

    def __enter__(self) -> None:
        self._before.append(local.st.own_limit)
        set_bulk_size(self._size)

    def __exit__(self, *exc: object) -> None:
        _set_limit(self._before.pop())


def bulk(size: int) -> Any:
    """A scope in which at most ``size`` calls run as one program.

    >>> import mxjax as mx
    >>> with mx.engine.bulk(10):
    ...     x = mx.np.ones(3)
    ...     for _ in range(9):
    ...         x = x + 1
    """
    return _Bulk(size)


def stats() -> dict[str, int]:
    """What the engine did since the last :func:`reset`: operators, segments, programs, compiled, hits,
    donated, fallbacks, traced, inferred."""
    return core.stats.as_dict()


def reset() -> None:
    """Set the counters of :func:`stats` to zero."""
    core.stats.reset()


def _modes() -> Modes:
    """The limits that the settings of this thread ask for."""
    one = Limits(1, 1)
    if settings.get("engine.type") == "NaiveEngine" or settings.get("engine.async_level") == 0:
        return Modes(one, one, naive=True)
    nodes = settings.get("engine.bulk_nodes")
    free = Limits(nodes, 128) if nodes >= 4096 else Limits(max(1, nodes), max(1, nodes))
    return Modes(
        free if settings.get("engine.bulk_infer") else one,
        free if settings.get("engine.bulk_train") else one,
    )


def _apply(_: object = None) -> None:
    st = local.st
    core.flush_thread(st)
    st.modes = _modes()
    st.refresh()


def _options(platform: str, _: object) -> dict[str, Any]:
    """Every program's compiler options: our own, then what the settings say."""
    options = default_options(platform)
    if platform == "gpu" and settings.get("determinism.enabled"):
        options["xla_gpu_deterministic_ops"] = True
    options.update(settings.get("compiler.options"))
    return options


def _recompile(_: object = None) -> None:
    core.drop_programs()


modes_of_thread[0] = _modes
core.compiler.contributors.append(_options)
for _name in ("type", "async_level", "bulk_nodes", "bulk_infer", "bulk_train"):
    settings.on_change(f"engine.{_name}", _apply)
for _name in ("determinism.enabled", "compiler.options"):
    settings.on_change(_name, _recompile)

_apply()  # the importing thread has its state already
