"""What operators compute, written to files, logged, or watched for NaN.

Each program carries callbacks behind the operators that are looked at. That keeps XLA from fusing
across them: numbers may differ in their last bits from those of a run that is not looked at.
"""

from __future__ import annotations

import functools
import itertools
import json
import logging
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import core, settings
from ..core.graph.jaxprs import differentiable
from ..core.hooks import step_listeners, trace_watchers
from ..errors import MXNetFloatingPointError
from ..settings import SettingError
from .precision import narrows

_logger = logging.getLogger("mxjax")
_lock = threading.Lock()
_order = itertools.count()


class _Now:
    """The training step under way: the number of `Trainer.step`s since dumps were switched on."""

    step = 0


def apply() -> None:
    """Bring what is looked at in line with the settings.

    Raises:
      SettingError: debug.dump asks for files and for the search for overflows at once.
    """
    config = settings.get("debug.dump")
    if config.get("enable_dump") and config.get("enable_dump_debug"):
        raise SettingError("debug.dump: enable_dump and enable_dump_debug exclude each other")
    dumping = bool(config.get("enable_dump"))
    _switch(_dump, dumping)
    _switch(_watch, bool(settings.get("debug.watch_var")))
    _switch(_hunt, settings.get("debug.nan") != "off" or bool(config.get("enable_dump_debug")))
    if dumping and _count_step not in step_listeners:
        _Now.step = 0
        step_listeners.append(_count_step)
    elif not dumping and _count_step in step_listeners:
        step_listeners.remove(_count_step)
    core.drop_programs()


def _switch(watcher: Callable[..., None], on: bool) -> None:
    if on and watcher not in trace_watchers:
        trace_watchers.append(watcher)
    elif not on and watcher in trace_watchers:
        trace_watchers.remove(watcher)


def _count_step() -> None:
    core.callback.barrier()  # callbacks of this step know its number
    _Now.step += 1


def _arrays(out: Any) -> list[Any]:
    return list(out) if isinstance(out, (tuple, list)) else [out]


def _looked_at(step: Any) -> bool:
    return step.call.op is not None


def _chosen(step: Any, names: tuple[str, ...]) -> bool:
    return any(
        step.label == name
        or step.call.name == name
        or step.label.endswith("/" + name)
        or step.scope == name
        or step.scope.endswith("/" + name)
        for name in names
    )


# ------------------------------------------------------------------------------------ files


def _dump(step: Any, args: Any, out: Any) -> None:
    config = settings.get("debug.dump")
    layers = config.get("dump_layer", ())
    if not _looked_at(step) or (layers and not _chosen(step, layers)):
        return
    mode = config.get("dump_mode", "all" if settings.get("debug.dump_inputs") else "output")
    arrays = {}
    if mode in ("input", "all"):
        arrays.update({f"in{k}": a for k, a in enumerate(args)})
    if mode in ("output", "all"):
        arrays.update({f"out{k}": a for k, a in enumerate(_arrays(out))})
    _save(config, step.label, arrays)
    if settings.get("debug.dump_quantized") and narrows(step.call.name):
        _save(config, f"{step.label}_prequant", {f"in{k}": a for k, a in enumerate(args)})


def _save(config: Mapping[str, Any], label: str, arrays: Mapping[str, Any]) -> None:
    known = {name: a for name, a in arrays.items() if _is_plain(a)}
    write = functools.partial(_write, dict(config), label, next(_order), tuple(known))
    jax.debug.callback(write, *known.values())


def _is_plain(a: Any) -> bool:
    """Not a random key, which NumPy cannot hold."""
    return not jnp.issubdtype(a.dtype, jax.dtypes.extended)


def _write(
    config: Mapping[str, Any], label: str, order: int, names: tuple[str, ...], *given: Any
) -> None:
    steps = config.get("dump_step")
    if steps is not None and not any(low <= _Now.step <= high for low, high in steps):
        return
    folder = os.path.join(config.get("dump_path") or "mxjax_dump", f"step{_Now.step:06d}")
    os.makedirs(folder, exist_ok=True)
    arrays: dict[str, Any] = {
        name: _wide(np.asarray(a)) for name, a in zip(names, given, strict=True)
    }
    if config.get("dump_data") == "stats":
        lines = [
            json.dumps({"order": order, "place": label, "array": name, **statistics(a)})
            for name, a in arrays.items()
        ]
        with _lock, open(os.path.join(folder, "statistics.jsonl"), "a", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in lines))
        return
    with _lock:
        stem = f"{label.replace('/', '.')}"
        path = os.path.join(folder, f"{order:06d}_{stem}.npz")
        about: dict[str, Any] = {"_order": np.int64(order), "_place": np.str_(label)}
        np.savez(path, **about, **arrays)


def _wide(a: np.ndarray) -> np.ndarray:
    """bfloat16 and other dtypes that .npy files do not know, as float32."""
    return a.astype(np.float32) if a.dtype.kind == "V" or a.dtype.name == "bfloat16" else a


def statistics(a: np.ndarray) -> dict[str, Any]:
    """Shape, dtype, smallest, largest and mean number of an array, and what in it is not finite."""
    found: dict[str, Any] = {"shape": list(a.shape), "dtype": str(a.dtype), "nan": 0, "inf": 0}
    if a.dtype.kind in "fc":
        found["nan"], found["inf"] = int(np.isnan(a).sum()), int(np.isinf(a).sum())
        a = a[np.isfinite(a)]
    if a.size and a.dtype.kind in "biuf":
        wide = a.astype(np.float64)
        found |= {
            "min": float(wide.min()),
            "max": float(wide.max()),
            "mean": float(wide.mean()),
            "sum": float(wide.sum()),
            "norm": float(np.sqrt((wide * wide).sum())),
        }
    return found


# ------------------------------------------------------------------------------------ watching


def _watch(step: Any, args: Any, out: Any) -> None:
    if _looked_at(step) and _chosen(step, settings.get("debug.watch_var")):
        for k, a in enumerate(_arrays(out)):
            if _is_plain(a):
                jax.debug.callback(functools.partial(_log, step.label, k), a)


def _log(label: str, k: int, a: Any) -> None:
    words = " ".join(f"{name}={value}" for name, value in statistics(_wide(np.asarray(a))).items())
    _logger.warning("%s[%d] %s", label, k, words)


def _bad(arrays: Any) -> Any:
    counts = [
        jnp.sum(~jnp.isfinite(a))
        for a in arrays
        if differentiable(a.dtype) and not jnp.issubdtype(a.dtype, jax.dtypes.extended)
    ]
    return sum(counts, jnp.zeros((), jnp.int64))


def _hunt(step: Any, args: Any, out: Any) -> None:
    if not _looked_at(step):
        return
    outs = _arrays(out)
    if any(differentiable(a.dtype) for a in outs if _is_plain(a)):
        jax.debug.callback(
            core.callback.guarded(functools.partial(_found, step.label, step.site)),
            _bad(args),
            _bad(outs),
        )


def _found(label: str, site: tuple[str, int], before: Any, after: Any) -> None:
    if int(after) and not int(before):
        text = (
            f"{label} (recorded at {site[0]}:{site[1]}) made {int(after)} numbers that are NaN or "
            "infinite out of finite ones"
        )
        if settings.current()["debug.nan"] == "raise":
            raise MXNetFloatingPointError(text)
        _logger.warning(text)
