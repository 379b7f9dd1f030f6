"""Who holds the memory: the arrays that are alive, with the operators and the lines that made them."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ..calls.aval import NamedDevice
from ..calls.segment import Step
from ..calls.value import Value
from ..hooks import array_namers


@dataclass(frozen=True, slots=True)
class Holder:
    """Arrays of one name, shape and dtype, made on one line: how many are alive, and their bytes."""

    name: str
    block: str
    source: str
    shape: tuple[int, ...]
    dtype: str
    device: str
    count: int
    nbytes: int

    def __str__(self) -> str:
        where = f" at {self.source}" if self.source else ""
        block = f"{self.block}/" if self.block else ""
        return (
            f"{_size(self.nbytes):>10}  {self.count} x {self.dtype}{list(self.shape)}  "
            f"{block}{self.name}{where}  on {self.device}"
        )


def _size(nbytes: int) -> str:
    for unit in ("B", "kB", "MB"):
        if nbytes < 1000:
            return f"{nbytes:.4g} {unit}"
        nbytes /= 1000  # type: ignore[assignment]
    return f"{nbytes:.4g} GB"


def maker(v: Value) -> Step | None:
    """The recorded call whose result a concrete value is; None for what came from outside."""
    step: Step | None = getattr(v, "step", None)
    idx = getattr(v, "idx", -1)
    while step is not None and step.call is not None:
        if step.first <= idx < step.first + len(step.avals):
            return step
        step = step.parent
    return None


def holders() -> list[Holder]:
    """The arrays alive on devices, grouped, the largest group first; looks at every object there is."""
    everything = gc.get_objects()
    names: dict[int, str] = {}
    for namer in array_namers:
        names.update(namer(everything))
    groups: dict[tuple[str, str, str, tuple[int, ...], str, str], list[int]] = {}
    seen: set[int] = set()
    for v in everything:
        if type(v) is not Value or getattr(v, "seg", v) is not None:
            continue
        array = v.arr
        here = isinstance(array, np.ndarray)  # what NumPy computed before there was a program
        if id(array) in seen or not (
            here or isinstance(array, jax.Array) and not array.is_deleted()
        ):
            continue
        seen.add(id(array))
        made = maker(v)
        name = names.get(id(v))
        block, source = "", ""
        if made is not None:
            file, line = made.site
            block, source = made.scope, f"{file}:{line}"
        if name is not None:
            block = ""  # a parameter's name holds its place
        elif made is not None and made.call is not None:
            name = made.call.name
        key = (
            name or "array",
            block,
            source,
            v.aval.shape,
            str(v.aval.dtype),
            _where(v.aval.device),
        )
        groups.setdefault(key, []).append(v.aval.nbytes)
    del everything
    found = [Holder(*key, len(sizes), sum(sizes)) for key, sizes in groups.items()]
    return sorted(found, key=lambda h: (-h.nbytes, h.name, h.source))


def _where(device: Any) -> str:
    if isinstance(device, jax.Device):
        return f"{device.platform}/{device.id}"
    if type(device) is NamedDevice:
        return f"{device.kind}/{device.id}"
    return f"{len(device.device_set)} devices"


def report(found: Sequence[Holder], most: int = 10) -> str:
    """The largest holders, a line each."""
    total = sum(h.nbytes for h in found)
    lines = [f"{_size(total)} in {sum(h.count for h in found)} arrays; the largest holders:"]
    lines += [str(h) for h in found[:most]]
    return "\n".join(lines)
