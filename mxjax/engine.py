"""The execution engine: how much runs at a time, and what it counted."""

from __future__ import annotations

import functools
from typing import Any

from . import core, effects, settings
from .core.calls.state import Limits, Modes, local, rules
from .core.compile.compiler_options import default_options
from .core.compile.kept import compile_or_load
from .core.compile.store import store
from .core.run.tiers import explain as explained
from .errors import explain_names as _explain_names

__all__ = ["bulk", "explain", "history", "reset", "set_bulk_size", "stats"]


def set_bulk_size(size: int) -> int:
    """Let at most ``size`` calls of this thread run as one program; gives the size before.

    A size of 0 or 1 runs call by call.

    Args:
      size: how many calls run together at most.

    Returns:
      int: what it was before.
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

    Args:
      size: how many calls run together at most.

    Returns:
      context manager: within it calls run in parts of this size.

    >>> import mxjax as mx
    >>> with mx.engine.bulk(10):
    ...     x = mx.np.ones(3)
    ...     for _ in range(9):
    ...         x = x + 1
    """
    return _Bulk(size)


def explain() -> list[str]:
    """The engine's last decisions on how code runs, oldest first: a line each, with what was counted for it.

    Code runs call by call by NumPy until that has cost what a quickly compiled program does, by it until that has lost
    what an optimised one costs, and by that from then on. The last lines are the accounts of quick programs, and of
    hybridized networks that are none yet: by their name and the shape of their first input.

    Returns:
      list of str: a line for each decision.

    >>> import mxjax as mx
    >>> for line in mx.engine.explain():  # doctest: +SKIP
    ...     print(line)
    """
    return explained()


def stats() -> dict[str, int | float]:
    """What the engine did since the last :func:`reset`, and what it holds now.

    Counts: operators, segments, programs (runs of them), compiled, of these quick (without the compiler's
    optimisation), optimised (quick ones that were compiled again), loaded, hits, donated, fallbacks, interpreted,
    traced, inferred, on_host, rewritten, sent, waits, breaks, dense_fallbacks, numpy_fallbacks, evicted;
    ``seconds_quick`` and ``seconds_optimised`` are what compiling took; ``held`` programs take ``held_bytes`` or so.

    Returns:
      dict: the counts, by name.
    """
    return {**core.stats.as_dict(), **store.as_dict()}


def reset() -> None:
    """Set the counters of :func:`stats` to zero."""
    core.stats.reset()


def history(x: Any) -> list[str]:
    """The calls that led to an array, oldest first, where ``engine.record_path`` was on while they ran.

    Each is a line: operator with its attributes, its block, and the place in the user's code.

    Args:
      x: the array whose calls are told.

    Returns:
      list of str: a line for each call.

    >>> import mxjax as mx
    >>> with mx.config.scope(engine_record_path=True):
    ...     y = mx.np.ones(2) + 1
    >>> len(mx.engine.history(y))
    2
    """
    from .effects.history import history as found

    return found(x)


def _modes() -> Modes:
    """The limits that the settings of this thread ask for."""
    one = Limits(1, 1)
    if settings.get("engine.type") == "NaiveEngine" or settings.get("engine.async_level") == 0:
        return Modes(one, one, naive=True)
    if settings.get("engine.jit") == "false" or settings.get("memory.match_range") == 0:
        return Modes(one, one)
    nodes = settings.get("engine.bulk_nodes")
    whole = settings.get("engine.steps_per_call") > 1  # a loop that closes ends no program
    free = (
        Limits(nodes, nodes if whole else 128)
        if nodes >= 4096
        else Limits(max(1, nodes), max(1, nodes))
    )
    return Modes(
        free if settings.get("engine.bulk_infer") else one,
        free if settings.get("engine.bulk_train") else one,
    )


def _apply(_: object = None) -> None:
    st = local.st
    core.flush_thread(st)
    st.modes = _modes()
    st.refresh()


def _set_rules(_: object = None) -> None:
    rules.catch = settings.get("engine.catch_exceptions")
    rules.donate = settings.get("memory.inplace") and settings.get("memory.match_range") > 0
    size = settings.get("engine.queue_size")
    rules.queue = size if size < 256 else 1 << 30  # the queue itself forgets what is older


_told: set[str] = set()


def _options(platform: str, _: object) -> dict[str, Any]:
    """Every program's compiler options: our own, then what the settings say."""
    options = default_options(platform)
    for row in _COMPILED:
        value = settings.get(row.name)
        if value == row.default:
            continue
        assert row.compiler is not None
        told = dict(row.compiler(value, platform))
        if row.name != "compiler.options":
            for name in [name for name in told if not knows(platform, name, told[name])]:
                del told[name]
                _say(
                    row.name,
                    f"{row.name}={value!r}: this XLA has no option {name} any more, so it does nothing",
                )
        core.compiler.merge(options, told)
        _say_where(row, value, platform)
    for row in _EXPORTED:
        value = settings.get(row.name)
        if value != row.default:
            _say_where(row, value, platform)
    return options


def _say_where(row: settings.Option, value: Any, platform: str) -> None:
    if row.platforms and platform not in row.platforms:
        places = " and ".join(row.platforms)
        _say(row.name, f"{row.name}={value!r} does nothing on {platform}: it is for {places}")


@functools.cache
def knows(platform: str, name: str, value: Any) -> bool:
    """Whether XLA has a compiler option of this name; its versions differ. A trial compilation finds out."""
    import jax

    try:
        with jax.default_device(jax.local_devices(backend=platform)[0]):
            compile_or_load(jax.jit(lambda: 0).lower(), {name: value})
    except Exception as error:
        return "No such compile option" not in str(error)
    return True


def _say(name: str, text: str) -> None:
    """Tell the user about an option, once."""
    if name not in _told:
        _told.add(name)
        import logging

        logging.getLogger("mxjax").warning(text)


def _recompile(_: object = None) -> None:
    core.drop_programs()


core.hooks.modes_of_thread[:] = [_modes]
core.hooks.option_contributors.append(_options)
# What the user gives XLA comes last: it is the strongest.
_COMPILED = sorted(
    (row for row in settings.table() if row.compiler is not None),
    key=lambda row: row.name == "compiler.options",
)
# What JAX's libraries read of the environment for an accelerator; the host's part is on every machine.
_EXPORTED = [
    row for row in settings.table() if row.environment is not None and "cpu" not in row.platforms
]
for _row in _COMPILED:
    settings.on_change(_row.name, _recompile)
for _name in (
    "engine.type",
    "engine.async_level",
    "engine.bulk_nodes",
    "engine.bulk_infer",
    "engine.bulk_train",
    "engine.jit",
    "engine.steps_per_call",
    "memory.match_range",
):
    settings.on_change(_name, _apply)
for _name in (
    "engine.catch_exceptions",
    "engine.queue_size",
    "memory.inplace",
    "memory.match_range",
):
    settings.on_change(_name, _set_rules)

_apply()  # the importing thread has its state already
_set_rules()
effects.connect()

_explain_names(__name__)
