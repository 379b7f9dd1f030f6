"""The factor on the loss that keeps small gradients above float16's zero, decided in the program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from mxjax import core
from mxjax import np as mnp
from mxjax.array.sparse import taped_value
from mxjax.autograd import pause
from mxjax.display.reprs import Shown
from mxjax.errors import MALFORMED, FormatError
from mxjax.optimizer import Guard

__all__ = ["LossScaler"]

_FIRST = 2.0**16


def _after(*arrays: Any, most: float, length: int, scaled: bool) -> tuple[Any, ...]:
    """What follows from gradients: whether all are finite, what undoes the scale, and the numbers of the next step.

    As in MXNet a new scale counts from the step after the next on.
    """
    scale, following, unskipped, skipped, *grads = arrays
    finite = jnp.array(True)
    for grad in grads:
        finite &= jnp.isfinite(grad).all()
    unskipped = jnp.where(finite, unskipped + 1, 0)
    grows = unskipped == length
    further = jnp.where(
        finite, jnp.where(grows, jnp.minimum(most, following * 2.0), following), following / 2.0
    )
    unskipped = jnp.where(grows, 0, unskipped)
    return (
        finite, 1.0 / scale if scaled else jnp.ones_like(scale), following, further.astype(scale.dtype),
        unskipped.astype("int32"),
        skipped + jnp.where(finite, 0, 1).astype("int32"),
    )  # fmt: skip


def _numbers(array: Any) -> core.Value:
    """The value of an array; of a sparse one what it keeps."""
    value = taped_value(array)
    return value if isinstance(value, core.Value) else value.data


_AFTER = core.row("_amp_after", _after)
_SCALED = core.row(
    "_amp_scaled",
    lambda loss, scale: loss.astype(jnp.promote_types(loss.dtype, scale.dtype)) * scale,
).bind()
_UNSCALED = core.row(
    "_amp_unscaled", lambda grad, scale: (grad.astype("float32") / scale).astype(grad.dtype)
).bind()


@jax.custom_vjp
def _scaling_gradient(data: Any, scale: Any) -> Any:
    return data


def _pull(scale: Any, grad: Any) -> tuple[Any, None]:
    return (grad * scale).astype(grad.dtype), None


_scaling_gradient.defvjp(lambda data, scale: (data, scale), _pull)
_SCALING_GRADIENT = core.row("_amp_scaling_gradient", _scaling_gradient).bind()


def _number(key: str) -> Any:
    """An attribute that programs read and set: the number of `state_dict` under a key."""

    def found(scaler: LossScaler) -> Any:
        return scaler.state_dict()[key]

    def change(scaler: LossScaler, value: Any) -> None:
        scaler.load_state_dict({**scaler.state_dict(), key: value})

    return property(found, change)


class LossScaler(Shown):
    """A loss scale that halves when a gradient overflows and doubles after 2,000 steps without.

    Scale and counts are arrays on each device that has gradients, and a step's overflow is found in the program
    of that step, which then leaves weights and states as they are: the host waits for nothing.

    >>> LossScaler().loss_scale
    65536.0
    """

    def __init__(self) -> None:
        self._max_loss_scale = 2.0**24
        self._scale_seq_len = 2000
        self._begin: tuple[float, float, int, int] = (_FIRST, _FIRST, 0, 0)
        #: By device: scale, the next one, steps without overflow since it changed, and steps skipped.
        self._states: dict[Any, list[Any]] = {}

    def _state(self, device: Any) -> list[Any]:
        found = self._states.get(device)
        if found is None:
            with core.apart():
                scales = [
                    mnp.array(each, dtype="float32", device=device) for each in self._begin[:2]
                ]
                counts = [mnp.array(each, dtype="int32", device=device) for each in self._begin[2:]]
                found = self._states[device] = scales + counts
        return found

    _loss_scale, _next_loss_scale, _unskipped = map(_number, ("scale", "next", "unskipped"))

    @property
    def loss_scale(self) -> float:
        """The current scale; reading it waits for the last step."""
        for state in self._states.values():
            return float(state[0].item())
        return self._begin[0]

    @property
    def skipped(self) -> int:
        """How many steps were left out because a gradient overflowed; reading it waits for the last step."""
        for state in self._states.values():
            return int(state[3].item())
        return self._begin[3]

    def state_dict(self) -> dict[str, Any]:
        """Scale and counts as plain numbers, for `load_state_dict`; waits for the last step."""
        first = next(iter(self._states.values()), None)
        scale, following, unskipped, skipped = (
            self._begin if first is None else [each.item() for each in first]
        )
        return {"scale": scale, "next": following, "unskipped": unskipped, "skipped": skipped}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with what `state_dict` gave.

        Raises:
          FormatError: it is something else.
        """
        try:
            scales = float(state["scale"]), float(state["next"])
            counts = int(state["unskipped"]), int(state["skipped"])
            if not all(0 < each < float("inf") for each in scales) or not all(
                0 <= each < 1 << 31 for each in counts
            ):
                raise ValueError("a number is out of range")
        except MALFORMED as error:
            raise FormatError(f"this is no state of a loss scale: {error!r}") from None
        self._begin = (*scales, *counts)
        self._states.clear()

    def scaled(self, loss: Any) -> Any:
        """A loss times the scale, float32 at least."""
        return self._beside(_SCALED, loss)

    def scaling_gradient(self, data: Any) -> Any:
        """An array whose gradient is multiplied by the scale."""
        return self._beside(_SCALING_GRADIENT, data)

    def unscale(self, grad: Any) -> None:
        """Divide a gradient by the scale, in place."""
        with pause():
            grad._set(self._beside(_UNSCALED, grad)._value())

    def _beside(self, call: core.Call, array: Any) -> Any:
        values = array._value(), self._state(array.device)[0]._value()
        return type(array)._wrap(core.record(call, values)[0])

    def check(self, grads: Sequence[Any], scaled: bool = True) -> Guard:
        """Look at the gradients on one device, and move on to the next step's scale.

        Args:
          grads: of the scaled loss; or of the loss itself, with `scaled=False`.
        """
        with pause():
            state = self._state(grads[0].device)
            call = _AFTER.bind(
                (
                    ("length", self._scale_seq_len),
                    ("most", self._max_loss_scale),
                    ("scaled", scaled),
                )
            )
            skipped = state[3]._value()
            finite, inverse, *numbers = core.record(call, [_numbers(a) for a in (*state, *grads)])
            for array, value in zip(state, numbers, strict=True):
                array._set(value)
            return Guard(finite, inverse, skipped)

    def has_overflow(self, params: Iterable[Any]) -> bool:
        """Whether a gradient of the parameters is not finite, and move on to the next step's scale; waits for it."""
        by_device: dict[Any, list[Any]] = {}
        for param in params:
            for grad in param.list_grad() if param.grad_req != "null" else ():
                by_device.setdefault(grad.device, []).append(grad)
        guards = [self.check(grads) for grads in by_device.values()]
        return any(not bool(mnp.ndarray._wrap(guard.finite).item()) for guard in guards)
