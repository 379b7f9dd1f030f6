"""What blocks and their parameters are called in MXNet 1.x: `net0_dense1_weight`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from mxjax import name as names
from mxjax.modes import generation

from ..parameter import Parameter
from .parameters import ParameterDict, _agree

_around: ContextVar[Names | None] = ContextVar("name_scope", default=None)


class Names:
    """A block's prefix, its parameters by their long names, and its scope, in which its children are counted.

    `legacy` says that code of MXNet 1 named the block: it was given a prefix or parameters to share, was made in
    another's scope or opened its own, or asked its `params` for a parameter. Then long names are what
    `collect_params` and `Parameter.name` show.
    """

    __slots__ = ("_counts", "_empty", "_legacy", "_outer", "name", "params", "prefix")

    prefix: str

    def __init__(self, prefix: str | None, shared: Mapping[str, Parameter] | None, hint: str):
        around = _around.get()
        self._legacy = prefix is not None or shared is not None or around is not None
        self._empty = prefix == ""
        self._counts: dict[str, int] = {}
        self._outer: list[Any] = []
        if prefix is None:
            prefix = (
                names.current().get(None, hint) if around is None else around._count(hint)
            ) + "_"
        if shared is not None:
            self.params = ParameterDict(getattr(shared, "prefix", ""), shared)
        elif around is not None:
            self.params = ParameterDict(around.params.prefix + prefix, around.params._shared)
        else:
            self.params = ParameterDict(prefix)
        self.params._makes = self._legacy
        self.prefix = prefix if around is None else around.prefix + prefix
        self.name = self.prefix.removesuffix("_")

    def _count(self, hint: str) -> str:
        count = self._counts.get(hint, 0)
        self._counts[hint] = count + 1
        return f"{hint}{count}"

    @property
    def legacy(self) -> bool:
        return self._legacy or self.params._makes or generation() == 1

    def rename(self, given: Any) -> None:
        """Take another prefix, or other parameters by their long names."""
        if isinstance(given, str):
            self.prefix = given
        else:
            self.params = given

    def take_no_prefix(self) -> None:
        """Let the parameters' names be as they are: a symbol has given them already."""
        self.prefix = self.params._prefix = ""

    @property
    def empty(self) -> bool:
        """Whether the block was given an empty prefix: it leaves the names to what is around it."""
        return self._empty

    # ---- with block.name_scope(): ----------------------------------------------------------------------

    def __enter__(self) -> Names:
        self._legacy = self.params._makes = True
        if not self._empty:
            manager = names.Prefix(self.prefix)
            manager.__enter__()
            self._outer.append((_around.get(), manager))
            _around.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._empty:
            outer, manager = self._outer.pop()
            manager.__exit__(kind, error, trace)
            _around.set(outer)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """A scope for a layer's own parts: they are called after it, and no code of MXNet 1 said so."""
        token = _around.set(self)
        try:
            yield
        finally:
            _around.reset(token)

    # ---- parameters ------------------------------------------------------------------------------------

    def full(self, p: Parameter) -> str:
        """The long name of a parameter of the block."""
        return p.name if p._long else self.params.prefix + p.name

    def adopt(self, p: Parameter) -> Parameter:
        """The parameter to use where the block was given `p`: the shared one of that name, if there is one."""
        if not self.legacy:
            return p
        full = self.full(p)
        found = self.params._get_impl(full)
        if found is None:
            if not p._long:
                p._name, p._long = full, True
            self.params[full] = p
            return p
        if found is not p:
            _agree(found, {"shape": p.shape, "dtype": p.dtype})
        return found
