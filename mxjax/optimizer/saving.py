"""Optimizer states as bytes: mxjax's own form, and MXNet's pickles, read without running them.

mxjax's form is a safetensors file: an entry for each array, and in its metadata, under `mxjax`, JSON that says how they
belong together and, where it was asked for, the optimizer's numbers.  Nothing in it is executed.  (Before, it was an
`.npz` archive with the same JSON as a member, `header`; that is still read.)
"""

from __future__ import annotations

import io
import json
import pickle
import pickletools
from typing import Any

import numpy as np

from mxjax import errors, lr_scheduler, safetensors, serialization
from mxjax.array import NDArray
from mxjax.errors import FormatError

from .optax import Optax
from .optimizer import Optimizer

FORMAT = "mxjax.optimizer.states"
_PLAIN = (bool, int, float, str, type(None))


# -- mxjax's own form ----------------------------------------------------------------------------


def dumps(states: dict[Any, Any], optimizer: Optimizer | None = None) -> bytes:
    """States by index, and an optimizer's hyperparameters and counts, as bytes."""
    arrays: dict[str, np.ndarray] = {}

    def structure(state: Any) -> Any:
        if state is None:
            return None
        if isinstance(state, (tuple, list)):
            return [structure(s) for s in state]
        arrays[f"a{len(arrays)}"] = state.asnumpy()
        return len(arrays) - 1

    header = {
        "format": FORMAT,
        "version": 2,
        "states": [[index, structure(state)] for index, state in states.items()],
        "optimizer": None if optimizer is None else describe(optimizer),
    }
    return b"".join(safetensors.pack(arrays, {"mxjax": json.dumps(header)}))


def loads(data: bytes, optimizer: Optimizer) -> tuple[dict[Any, Any], Optimizer]:
    """States by index, and the optimizer to go on with.

    That is the given one, where the bytes hold none or one of another class that is not registered.

    Raises:
      FormatError: the bytes are neither mxjax's nor MXNet's, or damaged.
    """
    with errors.parsing("a file of optimizer states"):
        if safetensors.is_safetensors(data):
            return _from_own(data, optimizer)
        if data[8:].startswith(b'{"__metadata__"'):
            raise FormatError(f"it is cut short: {len(data)} bytes, its table alone has more")
        return (_from_archive if data[:2] == b"PK" else _from_mxnet)(data, optimizer)


def _from_own(data: bytes, optimizer: Optimizer) -> tuple[dict[Any, Any], Optimizer]:
    header = json.loads(safetensors.metadata_of(data).get("mxjax", "null"))
    _check(header)
    arrays = safetensors.unpack(data)
    return _built(header, [arrays[f"a{n}"] for n in range(len(arrays))], optimizer)


def _from_archive(data: bytes, optimizer: Optimizer) -> tuple[dict[Any, Any], Optimizer]:
    archive: Any = serialization.arrays_of(data)
    if not isinstance(archive, dict) or archive.get("header") is None:
        raise FormatError("these are not optimizer states: the archive has no header")
    header = json.loads(archive["header"].tobytes())
    _check(header)
    return _built(
        header, [_as_dtype(archive[f"a{n}"], d) for n, d in enumerate(header["dtypes"])], optimizer
    )


def _check(header: Any) -> None:
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise FormatError("these are not optimizer states: the header says something else")
    if header.get("version") not in (1, 2):
        raise FormatError(
            f"these optimizer states are of version {header.get('version')!r}: 1 and 2 are read here"
        )


def _built(
    header: dict[str, Any], leaves: list[np.ndarray], optimizer: Optimizer
) -> tuple[dict[Any, Any], Optimizer]:
    def build(structure: Any) -> Any:
        if structure is None:
            return None
        if isinstance(structure, list):
            return tuple(build(s) for s in structure)
        return _array(leaves[structure])

    states = {
        tuple(index) if isinstance(index, list) else index: build(structure)
        for index, structure in header["states"]
    }
    described = header["optimizer"]
    return states, optimizer if described is None else revive(described, optimizer)


def _as_dtype(array: np.ndarray, dtype: str) -> np.ndarray:
    if array.dtype.name == dtype:
        return array
    import ml_dtypes

    return array.view(getattr(ml_dtypes, dtype))


def _array(value: np.ndarray) -> NDArray:
    from mxjax.array import to_value
    from mxjax.modes import array_class

    # Of the kind that weights have: an optimizer of the user's computes with both.
    return array_class()._wrap(to_value(value))


def describe(optimizer: Optimizer) -> dict[str, Any]:
    """What of an optimizer is plain data."""
    attrs = {k: v for k, v in vars(optimizer).items() if isinstance(v, _PLAIN)}
    schedule = optimizer.lr_scheduler
    return {
        "class": type(optimizer).__name__,
        "attrs": attrs,
        # JSON has no integer keys, so dictionaries are lists of pairs.
        "counts": [
            [device, list(counts.items())]
            for device, counts in optimizer._all_index_update_counts.items()
        ],
        **{k: list(getattr(optimizer, k).items()) for k in ("lr_mult", "wd_mult", "idx2name")},
        "lr_scheduler": None
        if schedule is None
        else [
            type(schedule).__name__,
            {k: v for k, v in vars(schedule).items() if isinstance(v, (*_PLAIN, list))},
        ],
    }


def revive(described: dict[str, Any], current: Optimizer) -> Optimizer:
    """The described optimizer, or the current one with its counts where the class is unknown."""
    klass = Optimizer.opt_registry.get(described["class"].lower())
    if klass is None or klass.__name__ != described["class"] or klass is Optax:
        klass = type(current)  # an optax transformation is code, which no file brings back
    tables = {
        name: dict(map(tuple, described[name])) for name in ("lr_mult", "wd_mult", "idx2name")
    }
    counts = {device: dict(map(tuple, pairs)) for device, pairs in described["counts"]} or {0: {}}
    schedule = _revive_schedule(described["lr_scheduler"], current.lr_scheduler)
    attrs = dict(described["attrs"])
    # From here on nothing fails: an optimizer has all that the file says, or nothing of it.
    optimizer = current if klass is type(current) else klass.__new__(klass)
    fresh = vars(optimizer)
    fresh.update(attrs, **tables)
    fresh["_all_index_update_counts"] = counts
    fresh["_index_update_count"] = next(iter(counts.values()))
    fresh.setdefault("sym_info", ())
    fresh["_plans"] = {}
    fresh["_ahead"] = {}
    fresh.setdefault("param_dict", current.param_dict)
    fresh["lr_scheduler"] = schedule
    return optimizer


def _revive_schedule(described: Any, current: Any) -> Any:
    if described is None:
        return None
    name, attrs = described
    if current is not None and type(current).__name__ == name:
        schedule = current
    else:
        if name not in lr_scheduler.__all__:  # the user's own class: the code has to give it
            return current
        klass = getattr(lr_scheduler, name)
        schedule = klass.__new__(klass)
    vars(schedule).update(attrs)
    return schedule


# -- MXNet's pickles -------------------------------------------------------------------------------


_MODULE_1X = "mxnet.optimizer.optimizer"  # MXNet 2 has a module for each optimizer


class _Foreign:
    """Stands in for an object of MXNet: its attributes and nothing else."""

    def __init__(self, *args: Any):
        pass

    def __setstate__(self, state: Any) -> None:
        vars(self).update(state)


class _ForeignArray(_Foreign):
    handle: bytes | None = None


class _ForeignOptimizer(_Foreign):
    from_1x = False


class _ForeignSchedule(_Foreign):
    pass


class _Reader(pickle.Unpickler):
    """Reads pickles of MXNet's states: arrays, optimizers and schedules as data, and no code."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in (("builtins", "bytearray"), ("__builtin__", "bytearray")):
            return _bytearray
        if (module, name) == ("_codecs", "encode"):  # how protocol 2 writes bytes
            return _encode
        if module.split(".")[0] == "mxnet":
            if name in ("NDArray", "ndarray"):
                return _ForeignArray
            if module.startswith("mxnet.optimizer"):
                return type(name, (_ForeignOptimizer,), {"from_1x": module == _MODULE_1X})
            if module == "mxnet.lr_scheduler":
                return type(name, (_ForeignSchedule,), {})
        raise FormatError(
            f"the states refer to {module}.{name}: only MXNet's arrays, optimizers and schedulers "
            "are read, because a pickle can run any code"
        )


def _bytearray(*args: Any) -> bytearray:
    """What the bytes of an array are in a pickle; a number instead of them would be a size."""
    if args and not isinstance(args[0], str | bytes | bytearray):
        raise FormatError("the bytes of an array are none")
    return bytearray(*args)


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise FormatError(f"unexpected encoding {encoding!r} in a pickle")
    return text.encode("latin1")


def _from_mxnet(data: bytes, optimizer: Optimizer) -> tuple[dict[Any, Any], Optimizer]:
    for opcode, argument, _ in pickletools.genops(data):
        # Python's reader makes room for as many objects as the number says.
        if "PUT" in opcode.name and argument is not None and argument > len(data):
            raise FormatError(f"the states remember an object number {argument}")
    loaded = _Reader(io.BytesIO(data)).load()
    foreign = None
    if isinstance(loaded, tuple) and len(loaded) == 2:
        loaded, foreign = loaded
    if not isinstance(loaded, dict):
        raise FormatError(f"states by index are expected, got {type(loaded).__name__}")
    states = {index: _convert(state) for index, state in loaded.items()}
    if isinstance(foreign, _ForeignOptimizer):
        optimizer = revive(_describe_foreign(foreign), optimizer)
        name, from_1x = type(foreign).__name__, foreign.from_1x
    else:  # Module writes no optimizer; arrays of MXNet 2 have NumPy's shapes
        name, from_1x = type(optimizer).__name__, not any(map(_has_numpy_shapes, loaded.values()))
    if optimizer.multi_precision and from_1x and name in ("SGD", "NAG", "LARS"):
        # There the float32 copy came second.
        states = {i: s[::-1] if isinstance(s, tuple) else s for i, s in states.items()}
    return states, optimizer


def _has_numpy_shapes(state: Any) -> bool:
    if isinstance(state, (tuple, list)):
        return any(map(_has_numpy_shapes, state))
    return isinstance(state, _ForeignArray) and bytes(state.handle or b"")[:4] == _MARKS[
        1
    ].to_bytes(4, "little")


def _convert(state: Any) -> Any:
    if isinstance(state, _ForeignArray):
        return _array(_raw_array(bytes(state.handle or b"")))
    if isinstance(state, (tuple, list)):
        return tuple(_convert(s) for s in state)
    if state is None:
        return None
    raise FormatError(f"a state holds arrays, tuples and None, got {type(state).__name__}")


def _describe_foreign(foreign: _ForeignOptimizer) -> dict[str, Any]:
    attrs = vars(foreign)
    counts = attrs.get("_all_index_update_counts") or {0: attrs.get("_index_update_count", {})}
    schedule = attrs.get("lr_scheduler")
    return {
        "class": type(foreign).__name__,
        "attrs": {k: v for k, v in attrs.items() if isinstance(v, _PLAIN)},
        "counts": [[device, list(own.items())] for device, own in counts.items()],
        **{k: list(attrs.get(k, {}).items()) for k in ("lr_mult", "wd_mult", "idx2name")},
        "lr_scheduler": None
        if schedule is None
        else [
            type(schedule).__name__,
            {k: v for k, v in vars(schedule).items() if isinstance(v, (*_PLAIN, list))},
        ],
    }


_CODES = (
    "float32 float64 float16 uint8 int32 int8 int64 bool int16 uint16 uint32 uint64 bfloat16"
).split()


_MARKS = (0xF993FAC9, 0xF993FACA)  # with shapes of MXNet 1 and of NumPy


def _raw_array(data: bytes) -> np.ndarray:
    """A dense array in MXNet's binary form (versions 2 and 3, as pickles hold it)."""

    def take(count: int, dtype: str) -> np.ndarray:
        nonlocal data
        size = count * np.dtype(dtype).itemsize
        if count < 0 or size > len(data):
            raise FormatError("an array in the states ends before its data does")
        part, data = data[:size], data[size:]
        return np.frombuffer(part, dtype)

    magic = int(take(1, "<u4")[0])
    if magic not in _MARKS:
        raise FormatError(f"an array in the states begins with {magic:#x}, not MXNet's mark")
    if int(take(1, "<i4")[0]) != 0:
        raise FormatError("sparse states are not read")
    shape = tuple(take(int(take(1, "<i4")[0]), "<i8").tolist())
    take(2, "<i4")  # the device it was saved on
    code = int(take(1, "<i4")[0])
    if not 0 <= code < len(_CODES) or min(shape, default=0) < 0:
        raise FormatError(f"an array in the states has dtype {code} and shape {shape}")
    name = _CODES[code]
    count = int(np.prod(shape, dtype=object))
    raw = take(count, "<u2" if name == "bfloat16" else name)
    return _as_dtype(raw, name).reshape(shape)
