"""Factories by name: what `mx.init.create`, `mx.gluon.metric.create` and their kin are made of.

A base class has one table of names.  `create` takes a name, an instance, a dict of keyword
arguments, or the JSON that `dumps` writes.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

from mxjax.errors import MXNetAssertionError, MXNetTypeError, did_you_mean

_TABLES: dict[type, dict[str, type]] = {}


def get_registry(base_class: type) -> dict[str, type]:
    """A copy of the names registered for `base_class`, in lower case."""
    return dict(_TABLES.setdefault(base_class, {}))


def get_register_func(base_class: type, nickname: str) -> Callable[..., type]:
    """The decorator that enters a subclass of `base_class` under its own name, or under `name`."""
    table = _TABLES.setdefault(base_class, {})

    def register(klass: type, name: str | None = None) -> type:
        if not (isinstance(klass, type) and issubclass(klass, base_class)):
            raise MXNetTypeError(
                f"only subclasses of {base_class.__name__} can be registered as {nickname}, "
                f"got {klass!r}"
            )
        key = (name or klass.__name__).lower()
        old = table.get(key)
        if old is not None and old is not klass:
            warnings.warn(
                f"New {nickname} {klass.__module__}.{klass.__name__} registered with name {key} is "
                f"overriding existing {nickname} {old.__module__}.{old.__name__}",
                UserWarning,
                stacklevel=2,
            )
        table[key] = klass
        return klass

    register.__doc__ = f"""Register a class as {nickname} under its name in lower case.

    Args:
      klass: the class.
      name: another name for it.

    Returns:
      type: the class itself, so that this can be a decorator.
    """
    return register


def get_alias_func(base_class: type, nickname: str) -> Callable[..., Callable[[type], type]]:
    """The decorator that enters a subclass of `base_class` under further names."""
    register = get_register_func(base_class, nickname)

    def alias(*names: str) -> Callable[[type], type]:
        def decorate(klass: type) -> type:
            for name in names:
                register(klass, name)
            return klass

        return decorate

    alias.__doc__ = f"""Register a class as {nickname} under further names.

    Returns:
      function: registers a class under these names; a decorator.
    """
    return alias


def get_create_func(base_class: type, nickname: str) -> Callable[..., Any]:
    """The function that makes an instance of a registered subclass of `base_class`."""
    table = _TABLES.setdefault(base_class, {})

    def create(*args: Any, **kwargs: Any) -> Any:
        if args:
            what, *rest = args
        else:
            what, rest = kwargs.pop(nickname), []
        if isinstance(what, base_class):
            if rest or kwargs:
                raise MXNetAssertionError(
                    f"{nickname} is already an instance: it takes no further arguments, "
                    f"got {rest} {kwargs}"
                )
            return what
        if isinstance(what, dict):
            return create(**what)
        if not isinstance(what, str):
            raise MXNetAssertionError(
                f"{nickname} must be a name, a dict or an instance of {base_class.__name__}, "
                f"got {what!r}"
                + (f": {what.__name__}() makes one" if isinstance(what, type) else "")
            )
        if what[:1] in ("[", "{"):
            if rest or kwargs:
                raise MXNetAssertionError(f"{nickname} given as JSON takes no further arguments")
            loaded = json.loads(what)
            return create(**loaded) if isinstance(loaded, dict) else create(loaded[0], **loaded[1])
        klass = table.get(what.lower())
        if klass is None:
            raise MXNetAssertionError(
                f"{what} is not registered as {nickname}{did_you_mean(what, table)}; "
                f"known: {', '.join(sorted(table))}"
            )
        return klass(*rest, **kwargs)

    create.__doc__ = f"""Make a {nickname} from its name, its JSON, a dict, or an instance.

    Returns:
      an instance, made with the other arguments.
    """
    return create
