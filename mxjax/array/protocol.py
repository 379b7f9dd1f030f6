"""Arrays among Python's own objects: numbers, truth, containers, printing, pickling."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from .. import errors
from ..core import default_device, local, placed
from ..device import Device
from ..display import notebooks
from .handle import Handle
from .indexing import is_symbol
from .view import View

#: The dtype that printing does not mention; ``npx.set_np(dtype=True)`` makes it float64.
default_dtype = [np.dtype(np.float32)]


class Protocol(Handle):
    """Python's protocols."""

    __slots__ = ()

    def __len__(self) -> int:
        if local.st.seg.symbols is not None and is_symbol(self, self._value()):
            return 1
        shape = self._value().aval.shape
        if not shape:
            raise errors.MXNetTypeError("len() of unsized object")
        return shape[0]

    def _shown(self) -> np.ndarray | None:
        """The numbers of a view, not to be written to, where NumPy can look at them; None otherwise."""
        base = self._base if self._v is None else None
        return base.on_host() if type(base) is View else None

    def __bool__(self) -> bool:
        shown = self._shown()
        if shown is not None and shown.size == 1:
            return bool(shown.item())
        v = self._value()
        if v.aval.size == 1:
            return bool(self._host().item())
        if v.aval.size == 0:
            return False
        kind = "an NDArray" if self._legacy else "an ndarray"  # type: ignore[attr-defined]
        raise errors.MXNetValueError(
            f"The truth value of {kind} with multiple elements is ambiguous. "
            "Ask about all of them or any of them: x.all(), x.any()"
        )

    def _host(self) -> np.ndarray:
        return self.asnumpy()  # type: ignore[attr-defined, no-any-return]

    def _scalar(self) -> Any:
        """The only element as a Python number."""
        shown = self._shown()
        if shown is not None and shown.size == 1:
            return shown.item()
        if self._value().aval.size != 1:
            raise errors.MXNetTypeError(
                f"only size-1 arrays can be converted to Python scalars; this one has shape "
                f"{self._value().aval.shape}"
            )
        return self._host().item()

    def __int__(self) -> int:
        return int(self._scalar())

    def __float__(self) -> float:
        return float(self._scalar())

    def __complex__(self) -> complex:
        return complex(self._scalar())

    def __index__(self) -> int:
        aval = self._value().aval
        if aval.shape or aval.dtype.kind not in "iu":
            raise errors.MXNetTypeError(
                "only integer scalar arrays can be converted to a scalar index; this one is "
                f"{aval.dtype} of shape {aval.shape}"
            )
        return int(self._host())

    def __contains__(self, item: Any) -> bool:
        if isinstance(item, Protocol):
            item = item._host()
        return bool((self._host() == item).any())

    def __format__(self, spec: str) -> str:
        if not self._value().aval.shape:
            return format(self._host().item(), spec)
        if not spec:
            return str(self)
        raise errors.MXNetTypeError(
            f"Cannot format mxjax.numpy.ndarray with format_spec {spec!r}: it has shape "
            f"{self._value().aval.shape}; format single elements, x.item()"
        )

    def __repr__(self) -> str:
        tracer = traced_text(self)
        if tracer is not None:
            return tracer
        if self._legacy:  # type: ignore[attr-defined]
            return self._titled(str(self._host()))
        aval = self._value().aval
        text = _without_shape(np.array_repr(self._host()), aval.size)
        if ", dtype=" in text:
            text = text[: text.rindex(", dtype=")].rstrip().rstrip(",") + ")"
        named = aval.dtype != np.bool_ or not aval.size  # bools show what they are
        if aval.dtype != default_dtype[0] and named:
            text = f"{text[:-1]}, dtype={aval.dtype})"
        device = self.device  # type: ignore[attr-defined]
        return text if device.device_type == "cpu" else f"{text[:-1]}, device={device})"

    def _repr_html_(self) -> str | None:
        """What a notebook shows: bytes that are an image as a picture, two axes as a table, others as text."""
        dense = self.stype == "default"  # type: ignore[attr-defined]
        aval = self._value().aval if dense and traced_text(self) is None else None
        if aval is None or not (
            notebooks.is_table(aval.shape) or notebooks.is_picture(aval.shape, aval.dtype)
        ):
            return None
        shape = "x".join(map(str, aval.shape))
        device = self.device  # type: ignore[attr-defined]
        return notebooks.array(
            self._host(), f"{type(self).__name__} {shape} {aval.dtype} @{device}"
        )

    def __str__(self) -> str:
        tracer = traced_text(self, recorded=False)  # print(x) asks for numbers
        if tracer is not None:
            return tracer
        host = self._host()
        text = str(
            host if host.dtype.kind != "V" else host.astype(np.float32)
        )  # bfloat16 as other floats
        return self._titled(text) if self._legacy else text  # type: ignore[attr-defined]

    def _titled(self, text: str) -> str:
        shape = "x".join(map(str, self._value().aval.shape))
        return f"\n{text}\n<NDArray {shape} @{self.device}>"  # type: ignore[attr-defined]

    def __reduce__(self) -> tuple[Any, ...]:
        return restore, (type(self), self._host(), str(self.device))  # type: ignore[attr-defined]

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what a pickle of MXNet holds; those of this package need `__reduce__` alone."""
        # The reader is above arrays, and may not be there yet: a program may begin by reading a pickle.
        reader = importlib.import_module("mxjax.serialization")
        made = reader.from_raw_bytes(state["handle"], self._legacy)  # type: ignore[attr-defined]
        for name in ("_stored", "_v", "_var"):
            if hasattr(made, name):
                setattr(self, name, getattr(made, name))


def _without_shape(text: str, size: int) -> str:
    """NumPy's text of an array as it was before it named the shape of long ones."""
    at = text.rfind(", shape=(")
    if not size or at < 0:
        return text.replace("],\n      dtype", "], dtype")
    return text[:at] + text[text.index(")", at) + 1 :]


def traced_text(x: Handle, recorded: bool = True) -> str | None:
    """What is printed of an array without numbers: in jax.jit, or (``recorded``) of a graph that is recorded."""
    from ..core.calls.value import TRACED

    if x._v is None and not hasattr(x._base, "base"):
        return f"<{type(x).__name__} that stands for {x._base.leaf!r} in a pytree>"
    v = x._value()
    if v.seg is TRACED or (recorded and getattr(v.seg, "graph", False)):
        return f"<{type(x).__name__} {v.aval.dtype}{list(v.aval.shape)}, not computed>"
    return None


def restore(cls: type[Handle], data: np.ndarray, device: str) -> Any:
    """An unpickled array; on the default device where its own is not there."""
    kind, _, number = device.rstrip(")").partition("(")
    try:
        target = Device(kind, int(number or 0)).placement
    except (errors.DeviceError, KeyError):
        target = default_device()
    return cls._wrap(placed(data, target, shared=False))
