"""Attributes of all calls within a scope: ``with mx.AttrScope(force_mirroring='True'):``."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Mapping
from contextvars import ContextVar
from types import TracebackType
from typing import Any, ClassVar

from mxjax import core, errors

from .display.reprs import Shown
from .scopes import Kept

__all__ = ["AttrScope", "current"]

_FORCE = ("force_mirroring", "__force_mirroring__")
_BOOLS = {"true": True, "1": True, "false": False, "0": False}


class _Current:
    """MXNet 1's ``AttrScope.current``."""

    def __get__(self, scope: Any, cls: Any = None) -> AttrScope:
        return current()


class AttrScope(Shown):
    """Gives attributes (strings) to all calls within; scopes inside one another merge, the inner one wins.

    ``force_mirroring`` (or ``__force_mirroring__``) ``'True'`` lets the backward pass compute the calls of a
    hybridized forward again though mirroring is off, ``'False'`` keeps their results though it is on
    (`Block.force_mirroring` says more, and is the same for a block). Calls that are not part of a hybridized
    forward are not affected. Other attributes (``ctx_group``, ``lr_mult``) are held for `get` alone.

    Raises:
      ValueError: a value is no string, or ``force_mirroring`` none of ``'True'``, ``'False'``, ``'1'``,
        ``'0'`` (in any case of letters).

    >>> import mxjax as mx
    >>> with mx.AttrScope(ctx_group="stage1"), mx.AttrScope(force_mirroring="True"):
    ...     sorted(mx.attribute.current().get({"lr_mult": "2"}).items())
    [('ctx_group', 'stage1'), ('force_mirroring', 'True'), ('lr_mult', '2')]
    """

    current = _Current()
    _current: ClassVar[Kept[AttrScope]]
    #: How many bodies of loops and branches had a name; programs of MXNet read it, and put another in its place.
    _subgraph_names: ClassVar[dict[str, int]] = defaultdict(int)

    def _shown(self) -> dict[str, Any]:
        return self._own

    def __init__(self, **kwargs: str):
        for name, value in kwargs.items():
            if not isinstance(value, str):
                raise errors.MXNetValueError(
                    f"Attributes need to be string: got {name}={value!r} ({type(value).__name__}). "
                    f"Write {name}={str(value)!r}"
                )
            if name not in _FORCE and (meant := errors.did_you_mean(name, _FORCE)):
                warnings.warn(
                    f"AttrScope holds {name}={value!r}, and nothing reads it{meant}", stacklevel=2
                )
        self._own = kwargs
        self._attr = kwargs
        self._again = _again(kwargs)
        self._before: list[tuple[AttrScope, core.Mirroring | None]] = []

    def get(self, attr: Mapping[str, str] | None) -> dict[str, str]:
        """These attributes and the scope's: where both have one, that of ``attr``."""
        return {**self._attr, **(attr or {})}

    def __enter__(self) -> AttrScope:
        self._before.append((current(), core.mirroring.get()))
        self._attr = {**current()._attr, **self._own}
        _current.set(self)
        if self._again is not None:
            core.mirroring.set(core.Mirroring(self._again))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._before:
            raise errors.MXNetAssertionError(
                "this AttrScope was left without being entered: use it with `with`"
            )
        scope, mirroring = self._before.pop()
        _current.set(scope)
        core.mirroring.set(mirroring)


def _again(attr: Mapping[str, str]) -> bool | None:
    """What attributes say of mirroring."""
    for name in _FORCE:
        if name in attr:
            found = _BOOLS.get(attr[name].lower())
            if found is None:
                raise errors.MXNetValueError(
                    f"Invalid Parameter format for {name} expect boolean but value={attr[name]!r}. Write "
                    f"{name}='True' (the backward pass computes the calls within again) or 'False'"
                )
            return found
    return None


_OUTERMOST = AttrScope()
_current: ContextVar[AttrScope] = ContextVar("attributes", default=_OUTERMOST)
AttrScope._current = Kept(_current)


def current() -> AttrScope:
    """The innermost scope; one without attributes where there is none.

    >>> import mxjax as mx
    >>> mx.attribute.current().get({})
    {}
    """
    return _current.get()


def count_subgraph(name: str) -> None:
    """Count a loop's or branch's body in `AttrScope._subgraph_names`, by MXNet's name for it."""
    scope = current()._attr.get("__subgraph_name__")
    AttrScope._subgraph_names[f"{scope}${name}" if scope else name] += 1
