"""How parameters get their first values: the base, and choosing by name."""

from __future__ import annotations

import json
import logging
import math
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mxjax import registry
from mxjax.display.reprs import Shown
from mxjax.errors import (
    MXNetAssertionError,
    MXNetNotImplementedError,
    MXNetTypeError,
    MXNetValueError,
)

__all__ = ["InitDesc", "Initializer", "Load", "Mixed", "alias", "create", "register"]

_log = logging.getLogger(__name__)


class InitDesc(str):
    """The name of a parameter, with what is known about how to fill it.

    Args:
      name: the parameter's name.
      attrs: its attributes; `__init__` holds an initializer's JSON, which then decides.
      global_init: the initializer to fall back on.

    >>> InitDesc("dense0_weight").attrs
    {}
    """

    attrs: dict[str, str]
    global_init: Any

    def __new__(
        cls, name: str, attrs: dict[str, str] | None = None, global_init: Any = None
    ) -> InitDesc:
        desc = super().__new__(cls, name)
        desc.attrs = attrs or {}
        desc.global_init = global_init
        return desc


class Initializer(Shown):
    """The base of all initializers: chooses by the name what to fill an array with.

    A new one defines `_init_weight(name, arr)` and is registered:

    >>> @register
    ... class Sevens(Initializer):
    ...     def _init_weight(self, name, arr):
    ...         arr[:] = 7
    >>> create("sevens").dumps()
    '["sevens", {}]'
    """

    def __init__(self, **kwargs: Any):
        self._kwargs = kwargs
        self._verbose = False
        self._print_func: Callable[[Any], str] | None = None

    def set_verbosity(
        self, verbose: bool = False, print_func: Callable[[Any], str] | None = None
    ) -> Initializer:
        """Log a statistic of every array after it was filled (by default its root mean square)."""

        def root_mean_square(x: Any) -> str:
            return str(float(np.linalg.norm(x.asnumpy()) / math.sqrt(x.size)))

        self._verbose = verbose
        self._print_func = print_func or root_mean_square
        return self

    def dumps(self) -> str:
        """The initializer as JSON, which `create` reads.

        >>> import mxjax as mx
        >>> mx.init.Normal(0.5).dumps()
        '["normal", {"sigma": 0.5}]'
        """
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, desc: str, arr: Any) -> None:
        """Fill `arr`, by the end of the name `desc`, or by what an `InitDesc` carries.

        Raises:
          ValueError: the name ends in nothing that says what to do.
        """
        if not isinstance(desc, InitDesc):
            self._legacy_init(desc, arr)
            return
        if desc.global_init is None:
            desc.global_init = self
        own = desc.attrs.get("__init__", "")
        if own:
            create(own)._init_weight(desc, arr)
            self._tell(desc, own, arr)
            return
        for ending, fill in _BY_ENDING:
            if desc.endswith(ending):
                getattr(self, fill)(desc, arr)
                self._tell(desc, ending, arr)
                return
        self._init_default(desc, arr)

    def _tell(self, desc: str, init: str, arr: Any) -> None:
        if self._verbose and self._print_func:
            _log.info("Initialized %s as %s: %s", desc, init, self._print_func(arr))

    def _verbose_print(self, desc: str, init: str, arr: Any) -> None:
        """Log a statistic of an array that was filled, where `set_verbosity` asked for it: MXNet's name."""
        self._tell(desc, init, arr)

    def _legacy_init(self, name: str, arr: Any) -> None:
        warnings.warn(
            "calling an initializer with a plain name is deprecated: use "
            "init(mx.init.InitDesc(name), array)",
            DeprecationWarning,
            stacklevel=3,
        )
        if not isinstance(name, str):
            raise MXNetTypeError(f"name must be a string, got {name!r}")
        for matches, fill in _BY_OLD_NAME:
            if matches(name):
                getattr(self, fill)(name, arr)
                return
        self._init_default(name, arr)

    def _init_weight(self, name: str, arr: Any) -> None:
        raise MXNetNotImplementedError(f"{type(self).__name__} must define _init_weight")

    def _init_zero(self, name: str, arr: Any) -> None:
        arr[:] = 0

    def _init_one(self, name: str, arr: Any) -> None:
        arr[:] = 1

    # Separate names, so that a subclass may choose for its biases or gammas alone.
    def _init_bias(self, name: str, arr: Any) -> None:
        arr[:] = 0

    def _init_gamma(self, name: str, arr: Any) -> None:
        arr[:] = 1

    def _init_beta(self, name: str, arr: Any) -> None:
        arr[:] = 0

    def _init_quantized_bias(self, name: str, arr: Any) -> None:
        arr[:] = 0

    def _init_quantized_weight(self, name: str, arr: Any) -> None:
        from mxjax.np import random

        arr[:] = random.randint(-127, 127, arr.shape, dtype="int32")

    def _init_bilinear(self, name: str, arr: Any) -> None:
        arr[:] = bilinear(arr.shape)

    def _init_loc_bias(self, name: str, arr: Any) -> None:
        if arr.shape[0] != 6:
            raise MXNetValueError(f"{name} must have 6 elements, got {arr.shape}")
        arr[:] = np.array([1.0, 0, 0, 0, 1.0, 0], "float32")

    def _init_default(self, name: str, arr: Any) -> None:
        raise MXNetValueError(
            f"Unknown initialization pattern for {name}. Default initialization is limited to "
            'names that end in "weight", "bias", "gamma" (1.0) and "beta" (0.0). Give the '
            "parameter its own initializer: Parameter(init=mx.init.Zero())"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Initializer):
            return NotImplemented
        return type(self) is type(other) and self._kwargs == other._kwargs

    __hash__ = object.__hash__


_BY_ENDING = (
    ("weight", "_init_weight"),
    ("bias", "_init_bias"),
    ("gamma", "_init_gamma"),
    ("beta", "_init_beta"),
    ("min", "_init_zero"),
    ("max", "_init_one"),
    ("weight_quantize", "_init_quantized_weight"),
    ("bias_quantize", "_init_quantized_bias"),
)


def _ends(*endings: str) -> Callable[[str], bool]:
    return lambda name: name.endswith(endings)


_BY_OLD_NAME: tuple[tuple[Callable[[str], bool], str], ...] = (
    (lambda name: name.startswith("upsampling"), "_init_bilinear"),
    (lambda name: name.startswith("stn_loc") and name.endswith("weight"), "_init_zero"),
    (lambda name: name.startswith("stn_loc") and name.endswith("bias"), "_init_loc_bias"),
    (_ends("bias"), "_init_bias"),
    (_ends("gamma"), "_init_gamma"),
    (_ends("beta"), "_init_beta"),
    (_ends("weight"), "_init_weight"),
    (_ends("moving_var", "max"), "_init_one"),
    (_ends("moving_mean", "moving_inv_var", "moving_avg", "min"), "_init_zero"),
)

register = registry.get_register_func(Initializer, "initializer")
alias = registry.get_alias_func(Initializer, "initializer")
create = registry.get_create_func(Initializer, "initializer")


def bilinear(shape: tuple[int, ...]) -> np.ndarray:
    """The kernel of bilinear interpolation, the same for every pair of channels."""

    def triangle(n: int, width: int) -> np.ndarray:
        half = np.ceil(width / 2.0)
        centre = (2 * half - 1 - half % 2) / (2.0 * half)
        return 1 - np.abs(np.arange(n) / half - centre)

    # As in MXNet the width sets the kernel of both axes.
    window = np.outer(triangle(shape[2], shape[3]), triangle(shape[3], shape[3]))
    return np.broadcast_to(window, shape).astype("float32")


class Load(Shown):
    """Fills parameters from a file or a dict, and others with `default_init`.

    Args:
      param: a file that `mx.nd.load` reads, or a dict of arrays; `arg:` and `aux:` before names are
        dropped.
      default_init: the initializer for names that are not in it.
      verbose: log where each parameter came from.

    >>> Load({"arg:w": 1}).param
    {'w': 1}
    """

    def __init__(self, param: Any, default_init: Any = None, verbose: bool = False):
        if isinstance(param, str):
            from mxjax import nd

            param = nd.load(param)
        if not isinstance(param, dict):
            raise MXNetAssertionError(f"param must be a file or a dict of arrays, got {param!r}")
        self.param = {re.sub("^(arg|aux):", "", name): arr for name, arr in param.items()}
        self.default_init = default_init
        self.verbose = verbose

    def __call__(self, name: str, arr: Any) -> None:
        if name in self.param:
            loaded = self.param[name]
            if arr.shape != loaded.shape:
                raise MXNetAssertionError(
                    f"Parameter {name} cannot be initialized from loading: its shape is "
                    f"{arr.shape}, the loaded one {loaded.shape}"
                )
            arr[:] = loaded
        elif self.default_init is not None:
            self.default_init(name, arr)
        else:
            raise MXNetAssertionError(
                f"Cannot initialize {name}: it was not loaded, and there is no default_init"
            )
        if self.verbose:
            how = "by loading" if name in self.param else "by default"
            _log.info("Initialized %s %s", name, how)


class Mixed(Shown):
    """Chooses an initializer by the first pattern that matches the start of the name.

    Args:
      patterns: regular expressions.
      initializers: one for each.

    >>> import mxjax as mx
    >>> len(Mixed(["bias", ".*"], [mx.init.Zero(), mx.init.Uniform(0.1)]).map)
    2
    """

    def _shown(self) -> dict[str, Any]:
        return {"map": {pattern.pattern: init for pattern, init in self.map}}

    def __init__(self, patterns: Sequence[str], initializers: Sequence[Any]):
        if len(patterns) != len(initializers):
            raise MXNetAssertionError(
                f"{len(patterns)} patterns need as many initializers, got {len(initializers)}"
            )
        self.map = [(re.compile(p), init) for p, init in zip(patterns, initializers, strict=True)]

    def __call__(self, name: str, arr: Any) -> None:
        for pattern, init in self.map:
            if pattern.match(name):
                init(name, arr)
                return
        raise MXNetValueError(
            f"Parameter name {name} did not match any pattern. Consider adding a '.*' pattern at "
            "the end, with the default initializer"
        )
