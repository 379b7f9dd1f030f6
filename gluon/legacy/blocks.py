"""What every block has of MXNet 1.x: a prefix, a scope for names, parameters that are asked for by name."""

from __future__ import annotations

import functools
import inspect
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mxjax.errors import MXNetAttributeError, MXNetTypeError
from mxjax.modes import generation

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


class _OfMXNet1(_Default):
    """An attribute that blocks of MXNet 1 have and may be given another value of: their names follow."""

    def __set_name__(self, cls: type, name: str) -> None:
        self._name = name

    def __get__(self, block: Any, cls: Any = None) -> Any:
        if block is None:
            return self
        if self._name in vars(block):
            return vars(block)[self._name]
        if "_names" not in vars(block) or not block._names.legacy:
            raise MXNetAttributeError(
                f"{type(block).__name__!r} object has no attribute {self._name!r}"
            )
        return getattr(block._names, self._of) if self._of else block._names

    def __set__(self, block: Any, value: Any) -> None:
        names = vars(block).get("_names")
        if (
            names is not None
            and generation() == 1
            and isinstance(value, _TAKEN.get(self._name, ()))
        ):
            names.rename(value)
        else:
            vars(block)[self._name] = value

    def __delete__(self, block: Any) -> None:
        vars(block).pop(self._name, None)


#: What a block's names take from an assignment in MXNet 1: `self._prefix, self._params = _BlockScope.create(...)`.
_TAKEN: dict[str, Any] = {"_prefix": str, "_params": ParameterDict}


class Named:
    """The part of a block that has names."""

    _names: Names
    _reg_params: dict[str, Parameter]
    _children: Any

    prefix = _Default(
        "prefix", "What stands before the names of the block's parameters, and its children's."
    )
    name = _Default("name", "The block's name, its prefix without the underscore at the end.")
    _name = _OfMXNet1("name", "MXNet 1's `name`.")
    _prefix = _OfMXNet1("prefix", "MXNet 1's `prefix`.")
    _params = _OfMXNet1("params", "MXNet 1's `params`.")
    _empty_prefix = _OfMXNet1("empty", "Whether the block was given an empty prefix.")
    _scope = _OfMXNet1("", "MXNet 1's `name_scope()`.")

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
            # one in the place of another, whose name it has, is that one to trainers and files
            if id(p) not in known and p.name not in names.params:
                yield names.full(p), p
        for child in self._children.values():
            yield from child._long_walk()

    def _unregistered(self) -> Iterator[tuple[str, Parameter]]:
        """Parameters that `params` made and no attribute holds."""
        known = set(map(id, self._reg_params.values()))
        taken = {p.name for p in self._reg_params.values()}
        for name, p in self._names.params.items():
            if id(p) not in known and name not in taken:
                yield name.removeprefix(self._names.params.prefix), p

    def _collect_params_with_prefix(
        self, prefix: str = "", select: str | None = None
    ) -> dict[str, Parameter]:
        """All parameters by the names that files have: their places, with a prefix before these, as far as no block
        overrides this method for what is below it; those whose names a pattern matches.
        """
        before = f"{prefix}." if prefix else ""
        found = {before + name: p for name, p in self._own_params()}  # type: ignore[attr-defined]
        for name, child in self._children.items():
            found.update(child._collect_params_with_prefix(before + name))
        return (
            found
            if select is None
            else {name: p for name, p in found.items() if re.match(select, name)}
        )

    def _check_container_with_block(self) -> None:
        """Warn of blocks that are hidden in lists, tuples and dictionaries."""
        self._warn_of_hidden_blocks()  # type: ignore[attr-defined]

    def save_params(self, filename: str) -> None:
        """MXNet 1's older way of `save_parameters`: by long names, without the block's prefix.

        Raises:
          ValueError: a child was not made in the block's `name_scope`.
        """
        warnings.warn("save_params is deprecated. Please use save_parameters.", stacklevel=2)
        self.collect_params().save(filename, strip_prefix=self.prefix)  # type: ignore[attr-defined]

    def load_params(
        self,
        filename: str,
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
    ) -> None:
        """MXNet 1's older name of `load_parameters`."""
        warnings.warn("load_params is deprecated. Please use load_parameters.", stacklevel=2)
        self.load_parameters(filename, ctx, allow_missing, ignore_extra)  # type: ignore[attr-defined]


def accept_names(cls: type) -> None:
    """Let a class of blocks take ``prefix=`` and ``params=`` though its ``__init__`` does not name them."""
    init: Any = vars(cls).get("__init__")
    code = getattr(init, "__code__", None)
    if code is None:
        return
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    takes_all = code.co_flags & _VARKEYWORDS
    missing = [name for name in ("prefix", "params") if name not in named and not takes_all]
    ours = str(init.__module__).startswith("mxjax.")
    if not missing and not ours:
        return

    @functools.wraps(init)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> None:
        for name in missing:
            if name in kwargs:
                vars(self).setdefault("_given", {})[name] = kwargs.pop(name)
        try:
            init(self, *args, **kwargs)
        except TypeError as error:
            # Of the call itself, not of what it runs: then the layer's own name says it, and what it takes.
            if ours and error.__traceback__ is not None and error.__traceback__.tb_next is None:
                kind = type(self) if cls.__name__[0] == "_" else cls
                raise _refused(kind.__name__, init, args, kwargs) or error from None
            raise

    cls.__init__ = wrapped  # type: ignore[misc]


def _refused(
    name: str, init: Callable[..., None], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> MXNetTypeError | None:
    """What is wrong with a layer's arguments, if anything is, with the names that it takes."""
    signature = inspect.signature(init)
    try:
        signature.bind(None, *args, **kwargs)
    except TypeError as error:
        names = ", ".join(list(signature.parameters)[1:])
        return MXNetTypeError(f"{name}({names}): {error}")
    return None
