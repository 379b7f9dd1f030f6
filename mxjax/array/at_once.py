"""Pictures in the host's memory: rows with the column `host` compute them with NumPy at once, as data pipelines do.

Nothing is recorded and no program is compiled, however many sizes pictures have. What is recorded all the same: what
autograd or a graph needs, what somebody watches, batches, and whatever lies elsewhere.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from .. import errors
from ..core import concrete, default_device, host, read, rng
from ..core.calls.state import local
from ..core.calls.value import TRACED, Value, quick_put
from ..core.hooks import call_listeners, memory_managers, operator_wrappers, trace_watchers
from ..ops.draws import HostKey
from ..ops.table import Op
from .handle import Handle, to_value
from .ndarray import NDArray

_DTYPES = frozenset(map(np.dtype, ("uint8", "float32")))
_RANK = 3


def pixels_of(v: Value) -> np.ndarray | None:
    """The numbers of a picture (three axes) that may be computed on the host now; None for anything else."""
    of, seg = v.aval, v.seg
    if (
        len(of.shape) != _RANK
        or of.dtype not in _DTYPES
        or seg is TRACED
        or (seg is not None and seg.graph)
    ):
        return None
    st = local.st
    if st.taping or st.seg.graph or st.rehearsing is not None or not of.size:
        return None
    device = of.device
    if not isinstance(device, jax.Device) or device.platform != "cpu" or of.memory or of.layout:
        return None
    if call_listeners or memory_managers or operator_wrappers or trace_watchers:
        return None
    array = read(v, raw=True)
    if isinstance(array, jax.Array):
        v.shared = True  # from now on NumPy looks at it
        array = np.asarray(array)
    return array if type(array) is np.ndarray else None


def on_host(pixels: np.ndarray, device: Any) -> Value:
    """A value on what NumPy computed, which nobody changes any more."""
    if not (pixels.flags.owndata and pixels.flags.c_contiguous):
        pixels = pixels.copy(order="C")
    if pixels.itemsize == 8:  # programs outside of JAX's 64-bit mode would take half of the bits
        return concrete(quick_put(pixels, device), shared=False)
    return host(pixels, device)


def fresh(cls: type[NDArray], pixels: np.ndarray) -> Any:
    """A new array on the current device with these numbers, which nobody changes any more; on a CPU without a copy."""
    device = default_device()
    if isinstance(device, jax.Device) and device.platform == "cpu" and not memory_managers:
        return cls._wrap(on_host(pixels, device))
    return cls._wrap(to_value(pixels))


def happens(x: Any, p: float) -> bool | None:
    """Whether the next uniform number is below ``p``, for a picture in the host's memory; None for anything else."""
    v = x._value() if isinstance(x, Handle) else None
    key = None if v is None or pixels_of(v) is None else host_key(v.aval.device)
    return None if key is None else bool(key.uniform(0, 0, 1) < np.float32(p))


def host_key(device: Any) -> HostKey | None:
    """The key of the next random call of the device, or None where only JAX knows it."""
    drawn = rng.drawn_here(device)
    return None if drawn is None else HostKey((0, drawn[0]), drawn[1])


def at_once(op: Op, values: Sequence[Value], attrs: Sequence[tuple[str, Any]]) -> Value | None:
    """The result of a call whose row has the column `host`, or None where it must be recorded.

    What the row refuses in words of its own is raised; other errors are those of recording it.
    """
    if len(values) != 1:
        return None
    v = values[0]
    pixels = pixels_of(v)
    if pixels is None:
        return None
    function: Any = op.host
    try:
        if op.keyed:
            key = host_key(v.aval.device)
            if key is None:
                return None
            made = function(key, pixels, **dict(attrs))
        else:
            made = function(pixels, **dict(attrs))
    except errors.MXNetError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return None
    if made is pixels and v.tape is None:
        return v
    return on_host(made, v.aval.device)


def pictures(
    here: Callable[..., np.ndarray | None], keyed: bool = False
) -> Callable[..., Callable[..., Any]]:
    """For a function of an array that is several operators: how pictures in the host's memory are computed at once.

    ``here`` takes the picture's pixels, where ``keyed`` after the key of one random call, and the further arguments; it
    gives None where the operators should.
    """

    def both(by_operators: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(by_operators)
        def run(x: Any, *args: Any) -> Any:
            v = x._value() if isinstance(x, Handle) else None
            pixels = None if v is None else pixels_of(v)
            if v is None or pixels is None:
                return by_operators(x, *args)
            key = host_key(v.aval.device) if keyed else None
            if keyed and key is None:
                return by_operators(x, *args)
            made = here(key, pixels, *args) if keyed else here(pixels, *args)
            if made is None:
                return by_operators(x, *args)
            return x._wrap(v if made is pixels and v.tape is None else on_host(made, v.aval.device))

        return run

    return both


def _converted_here(pixels: np.ndarray, dtype: Any) -> np.ndarray | None:
    wanted = _EXACT.get(dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype)))
    if wanted is None or (pixels.dtype != np.uint8 and wanted.kind != "f"):
        return None
    return pixels.astype(wanted, copy=False)


#: What NumPy converts bytes to as operators do; of floats only the floating ones.
_EXACT = {name: np.dtype(name) for name in ("uint8", "int32", "float16", "float32", "float64")}


@pictures(_converted_here)
def converted(x: Any, dtype: Any) -> Any:
    """An array in another dtype, as `astype` gives it."""
    return x.astype(dtype)
