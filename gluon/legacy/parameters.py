"""The dictionary of parameters that MXNet 1.x has: it makes them, shares them, and knows both their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mxjax import errors, initializer
from mxjax.modes import generation

from ..parameter import Constant, Parameter, check_attribute

__all__ = ["ParameterDict"]


class ParameterDict(dict[str, Parameter]):
    """Parameters by name; what `Block.params` and `Block.collect_params` give.

    A dictionary as MXNet 2 has, and the `ParameterDict` of MXNet 1: `get` with options makes a parameter, all can be
    initialized, changed, saved and loaded at once. A parameter of a network is found by its long name
    (``net0_dense0_weight``, MXNet 1) and by its place (``0.weight``, MXNet 2), whichever of them are the keys.

    Args:
      prefix: the beginning of names.
      shared: parameters to share.

    >>> from mxjax import gluon
    >>> params = gluon.ParameterDict("net_")
    >>> weight = params.get("weight", shape=(2, 3))
    >>> list(params), params.get("weight") is weight
    (['net_weight'], True)
    """

    def __init__(self, prefix: str = "", shared: Mapping[str, Parameter] | None = None):
        super().__init__()
        self._prefix = prefix
        self._shared = shared
        self._maker: ParameterDict | None = (
            None  # makes parameters for this one: that of a block's long names
        )
        self._spelled: Callable[[], Mapping[str, Parameter]] | None = (
            None  # the parameters by their other names
        )

    def __reduce__(self) -> Any:
        # A copy knows no network any more.
        state = {**vars(self), "_spelled": None}
        return type(self), (), state, None, iter(self.items())

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        self.update(state.pop("_params", {}))  # MXNet's is no dictionary, it has one
        self.__dict__.update(state)

    @property
    def prefix(self) -> str:
        """What stands before the names of parameters that `get` makes."""
        return self._prefix if self._maker is None else self._maker.prefix

    @property
    def _params(self) -> ParameterDict:
        """MXNet 1's dictionary in the dictionary."""
        return self

    def _other(self, name: Any) -> Parameter | None:
        """The parameter that has this name in the other generation's spelling."""
        if self._spelled is not None:
            return self._spelled().get(name)
        if self._maker is not None:
            if isinstance(name, str) and name.startswith(self.prefix):
                short = name.removeprefix(self.prefix)
                return next(
                    (
                        p
                        for p in self.values()
                        if short in (p.name, p.name.removeprefix(self.prefix))
                    ),
                    None,
                )
            return None
        return None

    def __missing__(self, name: str) -> Parameter:
        found = self._other(name)
        if found is None:
            raise KeyError(
                f"{name!r} is no parameter here{errors.did_you_mean(str(name), list(self))}"
            )
        return found

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or self._other(name) is not None

    # ---- making ----------------------------------------------------------------------------------------

    def _get_impl(self, name: str) -> Parameter | None:
        """The parameter of this long name, taken from the dictionary it is shared with if that has it."""
        found = dict.get(self, name)
        if found is None and self._shared is not None and name in self._shared:
            found = self[name] = self._shared[name]
        return found

    def get(self, name: str, default: Any = None, **kwargs: Any) -> Any:
        """The parameter `prefix + name`; made, with options of `Parameter`, where there is none.

        Without options, a parameter of this very name is found too, and in a network of MXNet 2 `default` is the
        answer where there is none.

        Raises:
          AssertionError: there is one, and an option says otherwise than it.
        """
        if self._maker is not None:
            if not kwargs and name in self:
                return self[name]
            if kwargs or self._maker._makes:
                return self._maker.get(name, default, **kwargs)
            return default
        found = self._get_impl(self._prefix + name)
        if found is None and not kwargs:
            if name in self:
                return self[name]
            if default is not None or not self._makes:
                return default
        if found is None:
            self._makes = True
            found = self[self._prefix + name] = _long(Parameter(self._prefix + name, **kwargs))
        else:
            _agree(found, kwargs)
        return found

    #: Whether `get` makes a parameter though it was given nothing but a name, as in MXNet 1.
    _makes = True

    def get_constant(self, name: str, value: Any = None) -> Parameter:
        """The constant `prefix + name`; made with `value` where there is none.

        Raises:
          KeyError: there is none, and no value.
          AssertionError: there is a parameter of this name with another value, or one that is trained.
        """
        if self._maker is not None:
            return self._maker.get_constant(name, value)
        full = self._prefix + name
        found = self._get_impl(full)
        if found is None:
            if value is None:
                raise errors.MXNetKeyError(
                    f"No constant named {full!r}. Please specify value if you want to create a new constant."
                )
            self._makes = True
            found = self[full] = _long(Constant(value, name=full))
        elif value is not None:
            host = value.asnumpy() if hasattr(value, "asnumpy") else np.asarray(value)
            if not isinstance(found, Constant):
                raise errors.MXNetAssertionError(
                    f"Parameter {full!r} already exists but it is not a constant."
                )
            if found.shape != host.shape or not (found.value.asnumpy() == host).all():
                raise errors.MXNetAssertionError(
                    f"Constant {full!r} already exists but its value doesn't match new value"
                )
        return found

    def update(self, other: Any = (), /, **more: Parameter) -> None:
        """Take all parameters of another dictionary.

        Raises:
          AssertionError: both have a parameter of one name, and not the same one.
        """
        given = {**dict(other), **more}
        for name, p in given.items():
            if dict.get(self, name, p) is not p:
                raise errors.MXNetAssertionError(
                    f"Cannot update self with other because they have different Parameters with the same name {name!r}"
                )
        super().update(given)

    # ---- all of them at once ---------------------------------------------------------------------------

    def _each(self) -> list[Parameter]:
        return list(dict.fromkeys(self.values()))

    def initialize(
        self,
        init: Any = None,
        ctx: Any = None,
        verbose: bool = False,
        force_reinit: bool = False,
        device: Any = None,
    ) -> None:
        """Initialize all, each by its own initializer or else by `init`, on a device or a list of devices."""
        init = initializer.Uniform() if init is None else initializer.create(init)
        if verbose and hasattr(init, "set_verbosity"):
            init.set_verbosity(verbose=verbose)
        for p in self._each():
            p.initialize(None, ctx if ctx is not None else device, init, force_reinit=force_reinit)

    def zero_grad(self) -> None:
        """Set all gradients to zero."""
        for p in self._each():
            p.zero_grad()

    def reset_ctx(self, ctx: Any) -> None:
        """Move all to other devices."""
        for p in self._each():
            p.reset_device(ctx)

    reset_device = reset_ctx

    def list_ctx(self) -> list[Any]:
        """The devices that any of them is on."""
        return list(dict.fromkeys(d for p in self.values() for d in p.list_device()))

    list_device = list_ctx

    def setattr(self, name: str, value: Any) -> None:
        """Set an attribute of all, such as ``grad_req`` or ``lr_mult``."""
        for p in self._each():
            check_attribute(p, name)
            setattr(p, name, value)

    def cast(self, dtype: Any) -> None:
        """Convert all to another dtype."""
        for p in self._each():
            p.cast(dtype)

    # ---- files -----------------------------------------------------------------------------------------

    def save(self, filename: str, strip_prefix: str = "") -> None:
        """Write all to a file in MXNet 1's format, without a prefix of their names.

        Raises:
          ValueError: a name that does not begin with the prefix.
        """
        from mxjax import nd

        arrays = {}
        for name, p in self.items():
            if not name.startswith(strip_prefix):
                raise errors.MXNetValueError(
                    f"Prefix {strip_prefix!r} is to be striped before saving, but Parameter's name {name!r} does not "
                    f"start with it: make children in `with self.name_scope()`, or use save_parameters, which needs "
                    "no names"
                )
            arrays[name.removeprefix(strip_prefix)] = p._reduce()
        nd.save(filename, arrays)

    def load(
        self,
        filename: str,
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        cast_dtype: bool = False,
        dtype_source: str = "current",
        device: Any = None,
    ) -> None:
        """Read all from a file, whose names get `restore_prefix` before them.

        Raises:
          AssertionError: a parameter the file does not have (unless `allow_missing`), one that is not here (unless
            `ignore_extra`), another shape or dtype, or a name here that does not begin with the prefix.
        """
        from mxjax import serialization

        for name in self if restore_prefix else ():
            if not name.startswith(restore_prefix):
                raise errors.MXNetAssertionError(
                    f"restore_prefix is {restore_prefix!r} but Parameters name {name!r} does not start with it"
                )
        self.load_dict(
            serialization.load_parameters(filename),
            ctx if ctx is not None else device,
            allow_missing,
            ignore_extra,
            restore_prefix,
            filename,
            cast_dtype,
            dtype_source,
        )

    def load_dict(
        self,
        param_dict: Mapping[str, Any],
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        filename: str | None = None,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """`load` from a dictionary of arrays, whose names may begin with ``arg:`` or ``aux:``."""
        given = {
            restore_prefix + re.sub(r"^(arg|aux):", "", k): v for k, v in dict(param_dict).items()
        }
        where = f"file: {filename}" if filename else "param_dict"
        found = {id(self[name]) for name in given if name in self}
        for name, p in self.items():
            if id(p) not in found and not allow_missing:
                raise errors.MXNetAssertionError(
                    f"Parameter {name.removeprefix(restore_prefix)!r} is missing in {where}, which contains "
                    f"{', '.join(list(given)[:10])}. Source and target need the same prefix"
                )
        chosen = []
        for name, value in given.items():
            if name in self:
                p = self[name]
                chosen.append((p, p._check_load(value, cast_dtype, dtype_source)))
            elif not ignore_extra:
                raise errors.MXNetAssertionError(
                    f"Parameter {name.removeprefix(restore_prefix)!r} loaded from {where} is not present in "
                    f"ParameterDict{errors.did_you_mean(name, list(self))}. Set ignore_extra to True to ignore; source "
                    "and target need the same prefix"
                )
        for p, value in chosen:
            p._load(value, ctx)

    def _repr_html_(self) -> str:
        """The parameters as a notebook shows them: a table."""
        from ..summary import parameters_html

        return parameters_html(self.items())

    def __repr__(self) -> str:
        if self._maker is not None or not (self.prefix or generation() == 1):
            return super().__repr__()
        lines = "\n".join(f"  {p!r}" for p in self.values())
        return f"{self.prefix and self.prefix + ' '}(\n{lines}\n)"


def _long(p: Parameter) -> Parameter:
    p._long = True
    return p


def _agree(p: Parameter, wanted: Mapping[str, Any]) -> None:
    """Let a parameter be what a second `get` asks for: lengths that were not known may become so.

    Raises:
      AssertionError: an option says otherwise.
    """
    for name, value in wanted.items():
        have = getattr(p, name, None)
        if have is None or value is None:
            if value is not None:
                setattr(p, name, value)
            continue
        if name == "shape":
            shape = (value,) if isinstance(value, int) else tuple(value)
            if len(shape) == len(have) and all(
                a == b or a <= 0 or b <= 0 for a, b in zip(shape, have, strict=True)
            ):
                p._shape = tuple(a if a > 0 else b for a, b in zip(shape, have, strict=True))
                continue
        same = (
            np.dtype(value) == np.dtype(have) if name == "dtype" else value is have or value == have
        )
        if not same:
            raise errors.MXNetAssertionError(
                f"Cannot retrieve Parameter {p.name!r} because desired attribute does not match with stored for "
                f"attribute {name!r}: desired {value!r} vs stored {have!r}."
            )
