"""Networks as folders in Hugging Face's manner: `model.safetensors` beside `config.json`."""

from __future__ import annotations

import json
import os
from typing import Any

from mxjax import errors
from mxjax.files import atomic

from ...files.downloading import fetch
from . import by_name, hugging_face
from .model_store import model_folder, weights

__all__ = ["from_pretrained", "save_pretrained"]

WEIGHTS, CONFIG = "model.safetensors", "config.json"
_LARGEST_CONFIG = 1 << 20


def save_pretrained(net: Any, folder: Any, network: str | None = None, **options: Any) -> str:
    """Write a network's parameters, and what it is, into a folder, and give that.

    Args:
      net: the network, initialized.
      folder: made where it is missing; a repository of Hugging Face is such a folder.
      network: its name in `model_zoo.get_model`, so that `from_pretrained` can make it.
      options: with which it was made (``classes=10``): numbers, texts and lists.

    Raises:
      TypeError: an option is something else.
      ValueError: the network is one of the zoo, and an option does not describe it.

    >>> import mxjax as mx, tempfile
    >>> net = mx.gluon.nn.Dense(2, in_units=3)
    >>> net.initialize()
    >>> sorted(os.listdir(save_pretrained(net, tempfile.mkdtemp())))
    ['config.json', 'model.safetensors']
    """
    path = os.fspath(folder)
    os.makedirs(path, exist_ok=True)
    said = {
        "library_name": "mxjax",
        "block": type(net).__name__,
        "network": network,
        "options": options,
    }
    try:
        text = json.dumps(said, indent=2, sort_keys=True)
    except TypeError as error:
        raise errors.MXNetTypeError(f"options are numbers, texts and lists: {error}") from None
    if by_name.is_known(network):
        by_name.check_described(network, json.loads(text)["options"], "save_pretrained")
    net.save_parameters(os.path.join(path, WEIGHTS))
    atomic.write_whole(os.path.join(path, CONFIG), lambda out: out.write(text.encode()))
    return path


def from_pretrained(
    source: Any, net: Any = None, device: Any = None, root: str | None = None, **options: Any
) -> Any:
    """The network of a folder that `save_pretrained` wrote, or of a repository ``hf://owner/name``.

    The folder may be a stranger's: its `config.json` counts for the name of a network of the zoo
    and for numbers that describe it (`classes`, `thumbnail`, ...). It names no files, and nothing
    outside the folder is read.

    Args:
      source: the folder, or ``hf://owner/name``; ``hf://owner/name@revision`` is a branch, a tag or
        a commit of it.
      net: a network to fill; without one it is made by the name that the folder gives.
      device: where the parameters go.
      root: where files from Hugging Face are kept; `models` in the folder that the setting
        `data.home` names.
      options: for making the network, over those that the folder has.

    Raises:
      OSError: a file is missing or cannot be fetched.
      FormatError: a file is damaged, or says what it may not.
      ValueError: the folder names no network, and none is given.
      AssertionError: the parameters are those of another network.
    """
    config = _config(source, root, required=net is None)
    if net is None:
        if config.get("network") is None:
            raise errors.MXNetValueError(
                f"{source} names no network that is known here (it is a "
                f"{str(config.get('block'))[:80]}): make it, and give it as from_pretrained(source, net)"
            )
        described = config.get("options", {})
        by_name.check_described(config["network"], described, f"{source}: {CONFIG}")
        net = by_name.get_model(config["network"], **{**described, **options})
    net.load_parameters(_file(source, WEIGHTS, root), device=device)
    return net


def _file(source: Any, name: str, root: str | None) -> str:
    """The path of a file of a folder or repository."""
    text = os.fspath(source)
    if text.startswith("hf://"):
        where = hugging_face.address(text)
        if where.file:
            raise errors.MXNetValueError(
                f"{text}: a repository is expected, hf://owner/name, without a file"
            )
        if name == WEIGHTS:
            return weights(where, name, root)
        return fetch(
            where.url(name),
            where.path(model_folder(root), name),
            most=_LARGEST_CONFIG,
            read=_parsed,
        )
    path = os.path.join(text, name)
    real, inside = os.path.realpath(path), [os.path.realpath(text)]
    revisions = os.path.dirname(inside[0])
    if (
        os.path.basename(revisions) == "snapshots"
    ):  # of Hugging Face's own cache: links to files in `blobs` beside it
        inside.append(os.path.join(os.path.dirname(revisions), "blobs"))
    if not any(os.path.commonpath((each, real)) == each for each in inside):
        raise errors.FormatError(f"{path} is a link that leads out of its folder, to {real}")
    if os.path.exists(real) and not os.path.isfile(real):
        raise errors.FormatError(f"{path} is not a file")
    return path


def _config(source: Any, root: str | None, required: bool) -> dict[str, Any]:
    try:
        return _parsed(_file(source, CONFIG, root))
    except OSError as error:
        if not required:
            return {}
        if isinstance(error, errors.MXNetError):
            raise
        raise errors.MXNetFileNotFoundError(error.errno, error.strerror, error.filename) from None


def _parsed(path: str) -> dict[str, Any]:
    """What a description of a network says."""
    with open(path, "rb") as f:
        text = f.read(_LARGEST_CONFIG + 1)
    if len(text) > _LARGEST_CONFIG:
        raise errors.FormatError(
            f"{path}: more than {_LARGEST_CONFIG} bytes are no description of a network"
        )
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise errors.FormatError(f"{path} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise errors.FormatError(f"{path} is no dictionary")
    return found
