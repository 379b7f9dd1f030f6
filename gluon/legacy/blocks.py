"""What every block has of MXNet 1.x: a prefix, a scope for names, parameters that are asked for by name."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from ..parameter import Parameter
from .names import Names
from .parameters import ParameterDict

_VARKEYWORDS = 0x08  # a function's flag: it takes any keywords


class _Default:
    """An attribute that a user may put another in place of: MXNet 2 leaves these names free."""

    def __init__(self, of: str, doc: str):
        self._of = of
        self.__doc__ = doc

    def __get__(self, block: Any, cls: Any = None) -> Any:
        return self if block is None else getattr(block._names, self._of)


class Named:
    """The part of a block that has names."""

    _names: Names
    _reg_params: dict[str, Parameter]
    _children: Any

    prefix = _Default("prefix", "What stands before the names of the block's parameters, and its children's.")
    name = _Default("name", "The block's name, its prefix without the underscore at the end.")

    def _take_names(self, prefix: str | None, params: Mapping[str, Parameter] | None) -> None:
        given = vars(self).pop("_given", {})
        self._names = Names(given.get("prefix", prefix), given.get("params", params), self._alias())
        own = ParameterDict()
        own._maker = self._names.params
        self._reg_params = own

    def _alias(self) -> str:
        """What unnamed blocks of this class are called, before their number."""
        return type(self).__name__.lower()

    def name_scope(self) -> Names:
        """A scope in which new blocks, and names, begin with this block's prefix.

        >>> from mxjax.gluon import nn
        >>> net = nn.HybridSequential(prefix="net_")
        >>> with net.name_scope():
        ...     net.add(nn.Dense(2, in_units=3), nn.Dense(1, in_units=2))
        >>> list(net.collect_params())[:2], net[1].name
        (['net_dense0_weight', 'net_dense0_bias'], 'net_dense1')
        """
        return self._names

    @property
    def params(self) -> ParameterDict:
        """This block's own parameters, without its children's, as a `ParameterDict`.

        By their long names where code of MXNet 1 named the block, else by those of the attributes.
        """
        return self._names.params if self._names.legacy else self._reg_params  # type: ignore[return-value]

    def _long_walk(self) -> Iterator[tuple[str, Parameter]]:
        """All parameters by their long names, the block's own first."""
        names = self._names
        yield from names.params.items()
        known = set(map(id, names.params.values()))
        for p in self._reg_params.values():
            if id(p) not in known:
                yield names.full(p), p
        for child in self._children.values():
            yield from child._long_walk()

    def _unregistered(self) -> Iterator[tuple[str, Parameter]]:
        """Parameters that `params` made and no attribute holds."""
        known = set(map(id, self._reg_params.values()))
        for name, p in self._names.params.items():
            if id(p) not in known:
                yield name.removeprefix(self._names.params.prefix), p

    def save_params(self, filename: str) -> None:
        """MXNet 1's older way of `save_parameters`: by long names, without the block's prefix.

        Raises:
          ValueError: a child was not made in the block's `name_scope`.
        """
        warnings.warn("save_params is deprecated. Please use save_parameters.", stacklevel=2)
        self.collect_params().save(filename, strip_prefix=self.prefix)  # type: ignore[attr-defined]

    def load_params(
        self, filename: str, ctx: Any = None, allow_missing: bool = False, ignore_extra: bool = False
    ) -> None:
        """MXNet 1's older name of `load_parameters`."""
        warnings.warn("load_params is deprecated. Please use load_parameters.", stacklevel=2)
        self.load_parameters(filename, ctx, allow_missing, ignore_extra)  # type: ignore[attr-defined]


def accept_names(cls: type) -> None:
    """Let a class of blocks take ``prefix=`` and ``params=`` though its ``__init__`` does not name them."""
    init: Any = vars(cls).get("__init__")
    code = getattr(init, "__code__", None)
    if code is None or code.co_flags & _VARKEYWORDS:
        return
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    missing = [name for name in ("prefix", "params") if name not in named]
    if not missing:
        return

    @functools.wraps(init)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> None:
        for name in missing:
            if name in kwargs:
                vars(self).setdefault("_given", {})[name] = kwargs.pop(name)
        init(self, *args, **kwargs)

    cls.__init__ = wrapped  # type: ignore[misc]
