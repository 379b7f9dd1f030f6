"""What parameters hold, under the private names that code of MXNet's users reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mxjax.autograd import mark_variables, pause
from mxjax.device import KEEPERS, Device, current_device
from mxjax.errors import MXNetError


class _Held(list[Any]):
    """The arrays of a parameter. What a program puts in the place of one is written into it, since the list is made
    anew each time."""

    def __setitem__(self, place: Any, array: Any) -> None:
        places = range(len(self))[place]
        one = isinstance(places, int)
        with pause():
            for k, a in zip([places] if one else places, [array] if one else array, strict=True):
                self[k][:] = a


class ParameterState:
    """A parameter's arrays and what its initialization waits for."""

    _arrays: dict[Any, Any] | None
    _deferred: Any
    allow_deferred_init: bool
    var: Any
    _missing: Any

    def _repr_html_(self) -> str:
        """A parameter as a notebook shows it: a table of one row."""
        from ..summary import parameters_html

        return parameters_html([(self.name, self)])  # type: ignore[attr-defined]

    @property
    def _allow_deferred_init(self) -> bool:
        return self.allow_deferred_init

    @property
    def _deferred_init(self) -> tuple[Any, ...]:
        """Initializer, devices, the block's initializer and a value; nothing where no initialization waits."""
        return self._deferred or ()

    @_deferred_init.setter
    def _deferred_init(self, waiting: tuple[Any, ...]) -> None:
        self._deferred = waiting or None

    @property
    def _data(self) -> list[Any] | None:
        """The arrays; None before there are any, as in MXNet."""
        return None if self._arrays is None else _Held(self._arrays.values())

    @_data.setter
    def _data(self, arrays: Sequence[Any] | None) -> None:
        """The very arrays, with their gradients: a parameter that stands for another shares its."""
        self._hold(None if arrays is None else {a.device: a for a in arrays})  # type: ignore[attr-defined]

    @property
    def _grad(self) -> list[Any] | None:
        """The gradients; None where there are none, as in MXNet."""
        if self._arrays is None or self.grad_req == "null":  # type: ignore[attr-defined]
            return None
        return _Held(a.grad for a in self._arrays.values())

    @_grad.setter
    def _grad(self, gradients: Sequence[Any] | None) -> None:
        if self._arrays is None or gradients is None:
            return
        for a, g in zip(self._arrays.values(), gradients, strict=True):
            if a.grad is not g:
                mark_variables([a], [g], [self.grad_req])  # type: ignore[attr-defined]

    @property
    def _ctx_list(self) -> list[Any] | None:
        """The devices."""
        return None if self._arrays is None else list(self._arrays)

    @_ctx_list.setter
    def _ctx_list(self, devices: Sequence[Any] | None) -> None:
        self._agree("_ctx_list", self._ctx_list, devices)

    _device_list = _ctx_list

    @property
    def _ctx_map(self) -> list[list[int | None]] | None:
        """The place of each device in `_ctx_list`: by its number, in a list of GPUs and a list of CPUs."""
        if self._arrays is None:
            return None
        found: list[list[int | None]] = [[], []]
        for place, device in enumerate(self._arrays):
            own = found[device.device_typeid & 1]
            own.extend([None] * (device.device_id + 1 - len(own)))
            own[device.device_id] = place
        return found

    @_ctx_map.setter
    def _ctx_map(self, places: Any) -> None:
        self._agree("_ctx_map", self._ctx_map, places)

    _device_map = _ctx_map

    def _agree(self, name: str, have: Any, new: Any) -> None:
        """What follows from the arrays may be set to what it is, as programs do that copy a parameter's state."""
        if have is not None and new is not None and have != new:
            raise MXNetError(
                f"Parameter.{name} says where the arrays are, {have}, and cannot become {new}: use reset_ctx"
            )

    @property
    def _var(self) -> Any:
        """The parameter's variable; None where nobody asked for it.

        MXNet 1 asks for it where it infers shapes; here an initialized parameter of that generation has one.
        """
        if self._long and self._arrays is not None:  # type: ignore[attr-defined]
            return self.var()  # type: ignore[attr-defined]
        return self._variable  # type: ignore[attr-defined]

    @_var.setter
    def _var(self, variable: Any) -> None:
        self._variable = variable

    def _check_and_get(self, arr_list: Any, ctx: Any) -> Any:
        """Of arrays, such as `_data`, that of a device (the only one for None), or all of them for `list`.

        Raises:
          MXNetError: the parameter is not initialized, or not there.
        """
        if arr_list is None or self._arrays is None:
            raise self._missing()
        if ctx is list:
            return arr_list
        devices = list(self._arrays)
        if ctx is None and len(devices) == 1:
            return arr_list[0]
        if ctx is None:
            ctx = current_device()
        if ctx not in devices and isinstance(ctx, Device) and ctx.device_type in KEEPERS:
            ctx = Device("cpu", ctx.device_id)
        if ctx not in devices:
            raise MXNetError(
                f"Parameter '{self.name}' was not initialized on context {ctx}. It was only initialized on "  # type: ignore[attr-defined]
                f"{devices}."
            )
        return arr_list[devices.index(ctx)]
