"""`Block.save` and `Block.load`: how a network is made of blocks, beside its parameters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mxjax import errors
from mxjax.files.atomic import read_whole, write_whole


def save_model(block: Any, prefix: str) -> None:
    """Write ``prefix-model.json``, which blocks there are and which are hybridized, and ``prefix-model.params``."""
    model = json.dumps({_title(block): _structure(block)})
    write_whole(f"{prefix}-model.json", lambda file: file.write(model.encode()))
    block.save_parameters(f"{prefix}-model.params")


def _title(block: Any) -> str:
    return type(block).__name__


def _structure(block: Any) -> dict[str, Any]:
    return {
        "orig_name": block._names.name,
        "hybridized": bool(getattr(block, "_active", False)),
        "params": {name: list(p.shape or ()) for name, p in block._reg_params.items()},
        "children": [
            [key, _title(child), _structure(child)] for key, child in block._children.items()
        ],
    }


def load_model(block: Any, prefix: str) -> None:
    """Read what `save_model` wrote into a network made in the same way.

    A file of real MXNet serves, too: what it says of graphs is not needed, since the network computes them.

    Raises:
      FormatError: the file is no structure of blocks.
      ValueError: it is that of another network.
    """
    path = Path(f"{prefix}-model.json")
    try:
        model = json.loads(read_whole(path))
    except ValueError as error:
        raise errors.FormatError(f"{path}: {error}") from error
    if not (
        isinstance(model, dict) and len(model) == 1 and isinstance(next(iter(model.values())), dict)
    ):
        raise errors.FormatError(f"{path}: one block is expected, which holds the others")
    ((title, structure),) = model.items()
    if "orig_name" in structure and isinstance(structure.get("children"), list):
        _restore(block, title, structure, path)
    else:
        _of_mxnet(block, model, [0], path)
    block.load_parameters(f"{prefix}-model.params")


def _refuse(path: Path, block: Any, why: str) -> errors.MXNetValueError:
    return errors.MXNetValueError(
        f"{path} is of another network than {type(block).__name__}: {why}. It must be made as the saved one was"
    )


def _restore(block: Any, title: Any, structure: Any, path: Path) -> None:
    if not isinstance(structure, dict) or not isinstance(structure.get("children"), list):
        raise errors.FormatError(f"{path}: a block is expected, got {structure!r}")
    if title != _title(block):
        raise _refuse(path, block, f"it has a {title}")
    if len(structure["children"]) != len(block._children):
        raise _refuse(
            path, block, f"it has {len(structure['children'])} children, not {len(block._children)}"
        )
    if hasattr(block, "_active"):
        block._active = bool(structure.get("hybridized"))
    for child, entry in zip(block._children.values(), structure["children"], strict=True):
        if not (isinstance(entry, list) and len(entry) == 3):
            raise errors.FormatError(
                f"{path}: a child is its name, its class and its structure, got {entry!r}"
            )
        _restore(child, entry[1], entry[2], path)


def _of_mxnet(block: Any, structure: Any, count: list[int], path: Path) -> None:
    """MXNet's own form: blocks in blocks, named after their class and their number."""
    title = f"{type(block).__name__.lower()}{count[0]}"
    own = structure.get(title) if isinstance(structure, dict) else None
    if not isinstance(own, dict):
        raise _refuse(path, block, f"it has no {title}")
    if hasattr(block, "_active"):
        block._active = bool(own.get("hybridized"))
    count[0] += 1
    for child in block._children.values():
        _of_mxnet(child, own, count, path)
