"""Checkpoints from which a training goes on bit by bit: parameters, optimizer, random numbers, place in the data.

A checkpoint is a folder of `mxjax.launch.Checkpoints`: a file of parameters for each network, one of states for each
trainer, and `position.safetensors`, the rest: JSON in its metadata, its arrays beside it. Nothing in it is executed.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mxjax import random as numbers
from mxjax import safetensors, settings
from mxjax.errors import (
    MALFORMED,
    FormatError,
    MXNetNotImplementedError,
    MXNetTypeError,
    MXNetValueError,
)
from mxjax.files.atomic import read_whole, write_whole
from mxjax.launch import Checkpoints, member

from ..data import _position as position

__all__ = ["load_checkpoint", "save_checkpoint"]

_FORMAT = "mxjax.position"
_POSITION = "position.safetensors"


def save_checkpoint(
    folder: str | os.PathLike[str],
    net: Any,
    trainer: Any,
    data: Any = None,
    extra: Any = None,
    step: int | None = None,
    keep: int = 3,
) -> None:
    """Save all that a training needs to go on, bit by bit: between two steps, in an epoch or between two.

    That is parameters, the optimizer with its states, the loss scale of AMP, the state of mxjax's, NumPy's and Python's
    random numbers, and where loops over the data are. The checkpoint is there whole or not at all: it gets its name
    when everything is on the disk. Gradients that are summed over several steps (`grad_req="add"`) are not in it, nor
    what the program keeps itself, but for `extra`.

    Args:
      folder: where checkpoints are; each is a folder in it, `step-00000012`.
      net, trainer: a block and a `Trainer`; or dictionaries of them by name.
      data: what gives the batches, a `DataLoader` or an iterator of `mx.io` or `mx.image`, or a dictionary of them;
        any object with `state_dict()` and `load_state_dict(state)`.
      extra: what else to keep, such as the number of the epoch: anything that JSON can say, and NumPy arrays in it.
      step: the checkpoint's number; by default how many updates the (first) trainer has made.
      keep: how many of the newest checkpoints stay.

    Raises:
      OSError: it cannot be written; earlier checkpoints stay as they are.
      NotImplementedError: in a job of several processes, where `mxjax.launch.Checkpoints` saves the files.

    What threads or worker processes draw ahead of their use depends on a seed for each batch. What an iterator that
    reads ahead draws from a global generator (Python's augmenters under `PrefetchingIter`) is not repeated.

    >>> import mxjax as mx, tempfile
    >>> net = mx.gluon.nn.Dense(1, in_units=2)
    >>> net.initialize()
    >>> trainer = mx.gluon.Trainer(net.collect_params(), "adam")
    >>> folder = tempfile.mkdtemp()
    >>> save_checkpoint(folder, net, trainer, extra={"epoch": 3})
    >>> load_checkpoint(folder, net, trainer)
    {'epoch': 3}
    """
    points = _points(folder, keep)
    nets, trainers, sources = _named("net", net), _named("trainer", trainer), _named("data", data)
    if step is None:
        step = max(
            [max(each._steps, each.optimizer.num_update) for each in trainers.values()], default=0
        )
    found = {
        "data": {name: each.state_dict() for name, each in sources.items()},
        "trainers": {name: _beside_states(each) for name, each in trainers.items()},
        "random": numbers.get_state(),
        "numpy": position.numpy_state(),
        "python": _python_state(),
        "extra": extra,
    }
    points.save(step, {
        **{f"{name}.safetensors": each.save_parameters for name, each in nets.items()},
        **{f"{name}.states": each.save_states for name, each in trainers.items()},
        _POSITION: lambda path: write_whole(path, lambda out: out.writelines(_packed(found))),
    })  # fmt: skip


def load_checkpoint(
    folder: str | os.PathLike[str], net: Any, trainer: Any, data: Any = None
) -> Any:
    """Go on from the newest whole checkpoint of `save_checkpoint`: what was saved as `extra`, or None without one.

    Args:
      folder: where the checkpoints are; it may be empty or not there yet.
      net, trainer, data: as they were given to `save_checkpoint`, made as they were made then; the next loop over
        `data` begins with the batch that came next.

    Returns:
      dict: what was kept beside network and trainer.

    Raises:
      FormatError: a file in it is none of this kind.
      FileNotFoundError: the checkpoint has no network or trainer of that name.
      ValueError: it has nothing that `data` could go on from.

    A checkpoint with a damaged file is passed over for the one before. From here on, whether there is a checkpoint or
    not, programs alone compute (`engine.cold` becomes `compile`, unless it was given): what NumPy and quick programs
    compute at first has other last bits, and would begin anew in a process that goes on.
    """
    points = _points(folder, 1)
    nets, trainers, sources = _named("net", net), _named("trainer", trainer), _named("data", data)
    if not settings.is_given("engine.cold"):
        # What NumPy and quick programs compute at first, before each step is the program of all later ones, has other
        # last bits: a process that goes on would begin with it where the one that was ended had got beyond it.
        settings.set("engine.cold", "compile")
    found: dict[str, Any] = {}
    if points.load({_POSITION: lambda path: found.update(_read(path))}) is None:
        return None
    unknown = sources.keys() - found["data"].keys()
    if unknown:
        there = ", ".join(found["data"]) or "none"
        wanted = ", ".join(sorted(unknown))
        raise MXNetValueError(
            f"the checkpoint in {folder} has no position in {wanted}, but: {there}"
        )
    points.load({
        **{f"{name}.safetensors": each.load_parameters for name, each in nets.items()},
        **{f"{name}.states": each.load_states for name, each in trainers.items()},
    })  # fmt: skip
    for name, each in trainers.items():
        _take_beside_states(each, found["trainers"].get(name))
    for name, each in sources.items():
        each.load_state_dict(found["data"][name])
    numbers.set_state(found["random"])
    position.numpy_restored(position.checked(found["numpy"]))
    _set_python_state(found["python"])
    return found["extra"]


def _points(folder: Any, keep: int) -> Checkpoints:
    here = member.current()
    if here is not None and here.size > 1:
        raise MXNetNotImplementedError(
            "save_checkpoint and load_checkpoint support a single process: each process of a job has random numbers "
            "and a place in the data of its own; mxjax.launch.Checkpoints saves the parameters and states of all"
        )
    return Checkpoints(folder, keep)


def _named(kind: str, given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        return {kind: given}
    for name in given:
        if not isinstance(name, str) or not name or not name.replace("_", "").isalnum():
            raise MXNetValueError(
                f"names in a checkpoint are letters, digits and underscores, got {name!r}"
            )
    return {f"{kind}-{name}": each for name, each in given.items()}


def _beside_states(trainer: Any) -> dict[str, Any]:
    scaler = trainer._amp_loss_scaler
    return {"steps": trainer._steps, "scale": None if scaler is None else scaler.state_dict()}


def _take_beside_states(trainer: Any, saved: Any) -> None:
    try:
        steps, scale = int(saved["steps"]), saved["scale"]
    except MALFORMED as error:
        raise FormatError(
            f"this is nothing that a checkpoint keeps of a Trainer: {error!r}"
        ) from None
    if (scale is None) != (trainer._amp_loss_scaler is None):
        had = "no" if scale is None else "a"
        raise MXNetValueError(
            f"the saved Trainer had {had} loss scale: call amp.init_trainer as it was called then"
        )
    if scale is not None:
        trainer._amp_loss_scaler.load_state_dict(scale)
    trainer._steps = steps


def _python_state() -> dict[str, Any]:
    version, words, gauss = random.getstate()
    return {"version": version, "words": np.array(words, np.uint32), "gauss": gauss}


def _set_python_state(state: Any) -> None:
    try:
        words = tuple(np.asarray(state["words"]).tolist())
        random.setstate((state["version"], words, state["gauss"]))
    except MALFORMED as error:
        raise FormatError(f"this is no state of Python's random numbers: {error!r}") from None


# ---- the file of the rest


def _packed(found: dict[str, Any]) -> Any:
    arrays: dict[str, np.ndarray] = {}

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            arrays[f"a{len(arrays)}"] = value
            return {"array": len(arrays) - 1}
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, Mapping):
            if not all(isinstance(name, str) for name in value):
                raise MXNetTypeError(
                    f"dictionaries in a checkpoint have texts as keys, got {list(value)}"
                )
            return {"dict": {name: plain(each) for name, each in value.items()}}
        if isinstance(value, list | tuple):
            return [plain(each) for each in value]
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise MXNetTypeError(
            "a checkpoint keeps numbers, texts, None, lists, dictionaries and NumPy arrays beside networks and "
            f"trainers, got {type(value).__name__}"
        )

    header = {"format": _FORMAT, "version": 1, "found": plain(found)}
    return safetensors.pack(arrays, {"mxjax": json.dumps(header)})


def read_position(data: bytes) -> dict[str, Any]:
    """What a file of the rest holds.

    Raises:
      FormatError: it is damaged or of another kind.
    """
    said = safetensors.metadata_of(data).get("mxjax")
    arrays = safetensors.unpack(data)

    def built(value: Any) -> Any:
        if isinstance(value, list):
            return [built(each) for each in value]
        if not isinstance(value, dict):
            return value
        if list(value) == ["array"]:
            return arrays[f"a{value['array']}"]
        return {name: built(each) for name, each in value["dict"].items()}

    try:
        header = json.loads(said or "null")
        if header["format"] != _FORMAT or header["version"] != 1:
            raise ValueError(
                f"it says that it is {header['format']!r} of version {header['version']!r}"
            )
        found = built(header["found"])
        if not isinstance(found, dict):
            raise TypeError("it holds an array")
        if not isinstance(found["data"], dict) or not isinstance(found["trainers"], dict):
            raise TypeError("its data and trainers are no dictionaries")
        return {
            name: found[name] for name in ("data", "trainers", "random", "numpy", "python", "extra")
        }
    except MALFORMED as error:
        raise FormatError(
            f"not a checkpoint position file, or a corrupted one: {error!r}"
        ) from None


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_position(read_whole(path))
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None
