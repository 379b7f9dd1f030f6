"""How a parameter takes the value that a file has for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxjax import errors
from mxjax.array.classes import ndarray
from mxjax.array.creation import array, nd_array
from mxjax.autograd import pause
from mxjax.device import Device, current_device
from mxjax.modes import array_class, generation
from mxjax.scopes import all_or_nothing


def new_array(data: Any, dtype: Any) -> Any:
    """A new array of the mode's kind: what parameters hold."""
    return (array if array_class() is ndarray else nd_array)(data, dtype=dtype)


def devices_of(device: Any) -> list[Device]:
    """A device, a list of devices or nothing (the current one) as a list."""
    if device is None:
        return [current_device()]
    found: list[Any] = [device] if isinstance(device, (Device, str)) else list(device)
    for one in found:
        if isinstance(one, str):
            raise errors.MXNetTypeError(
                f"a device is expected, such as mx.cpu() or mx.gpu(0), or a list of devices; got the text {one!r}"
            )
    return found


class Loaded:
    """A value is checked and taken in two steps, so that all of a file are looked at before the first one changes."""

    _arrays: dict[Device, Any] | None
    _shape: tuple[int, ...] | None
    _dtype: Any
    _deferred: Any
    shape: Any
    cast: Any
    set_data: Any
    _init_impl: Any

    def _check_load(
        self,
        data: Any,
        cast_dtype: bool = False,
        dtype_source: str = "current",
        name: str | None = None,
    ) -> Any:
        """A value of a file, of this name there, as a NumPy array; shape and dtype (unless it may be cast) must fit."""
        label = repr(name) if name else self._label  # type: ignore[attr-defined]
        if dtype_source not in ("current", "saved"):
            raise errors.MXNetValueError(
                f"dtype_source is 'current' or 'saved', got {dtype_source!r}"
            )
        host = data.asnumpy() if hasattr(data, "asnumpy") else np.asarray(data)
        if self._shape is not None and not (
            len(self._shape) == host.ndim
            and all(n in (0, -1, m) for n, m in zip(self._shape, host.shape, strict=True))
        ):
            raise errors.MXNetAssertionError(
                f"Failed loading Parameter {label} from saved params: shape incompatible expected "
                f"{self.shape} vs saved {host.shape}"
            )
        if host.dtype != self._dtype:
            if not cast_dtype:
                raise errors.MXNetAssertionError(
                    f"Failed loading Parameter {label} from saved params: dtype incompatible expected "
                    f"{self._dtype} vs saved {host.dtype}. Set cast_dtype=True to cast the dtype of saved params"
                )
            if dtype_source == "current":
                host = host.astype(self._dtype)
        return host

    def _load(self, host: Any, device: Any = None) -> None:
        """Take a value that `_check_load` has let through, or one whose dtype becomes the parameter's."""
        own = type(self)._load_init is not Loaded._load_init
        # A subclass's `_load_init` is given an array, as in MXNet.
        given = new_array(host, host.dtype) if own else host
        self._load_init(given, device, cast_dtype=True, dtype_source="saved")

    @all_or_nothing("_arrays")
    def _load_init(
        self,
        data: Any,
        ctx: Any = None,
        cast_dtype: bool = False,
        dtype_source: str = "current",
        device: Any = None,
    ) -> None:
        """Take the value of a file, on the devices the parameter has or waits for, or on these; subclasses override it.

        Raises:
          AssertionError: another shape, or another dtype and `cast_dtype` is False.
        """
        host = self._check_load(data, cast_dtype, dtype_source)
        device = device if device is not None else ctx
        if host.dtype != self._dtype:
            # MXNet 1 keeps the class of NumPy that its arrays have, MXNet 2 the dtype.
            self.cast(host.dtype.type if generation() == 1 else host.dtype)
        self._shape = host.shape
        if self._arrays is not None and device is None:
            where = list(self._arrays)
        elif device is None and self._deferred is not None:
            where = self._deferred[1]
        else:
            where = devices_of(device)
        if self._arrays is not None and list(self._arrays) == where:
            self.set_data(host)
            return
        self._deferred = None
        with pause(), where[0]:
            self._init_impl(new_array(host, dtype=self._dtype), where)
