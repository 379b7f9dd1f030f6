"""Networks as folders in Hugging Face's manner: `model.safetensors` beside `config.json`."""

from __future__ import annotations

import json
import os
from typing import Any

from mxjax import atomic, errors

from ..utils import download
from .model_store import _folder, _hugging_face

__all__ = ["from_pretrained", "save_pretrained"]

WEIGHTS, CONFIG = "model.safetensors", "config.json"
_LARGEST_CONFIG = 1 << 20


def save_pretrained(net: Any, folder: Any, network: str | None = None, **options: Any) -> str:
    """Write a network's parameters, and what it is, into a folder, and give that.

    Args:
      net: the network, initialized.
      folder: made where it is missing; a repository of Hugging Face is such a folder.
      network: its name in `model_zoo.vision.get_model`, so that `from_pretrained` can make it.
      options: with which it was made (``classes=10``): numbers, texts and lists.

    >>> import mxjax as mx, tempfile
    >>> net = mx.gluon.nn.Dense(2, in_units=3)
    >>> net.initialize()
    >>> sorted(os.listdir(save_pretrained(net, tempfile.mkdtemp())))
    ['config.json', 'model.safetensors']
    """
    path = os.fspath(folder)
    os.makedirs(path, exist_ok=True)
    said = {"library_name": "mxjax", "block": type(net).__name__, "network": network, "options": options}
    try:
        text = json.dumps(said, indent=2, sort_keys=True)
    except TypeError as error:
        raise errors.MXNetTypeError(f"options are numbers, texts and lists: {error}") from None
    net.save_parameters(os.path.join(path, WEIGHTS))
    atomic.write_whole(os.path.join(path, CONFIG), lambda out: out.write(text.encode()))
    return path


def from_pretrained(source: Any, net: Any = None, device: Any = None, root: str | None = None, **options: Any) -> Any:
    """The network of a folder that `save_pretrained` wrote, or of a repository ``hf://owner/name``.

    Args:
      source: the folder, or ``hf://owner/name``.
      net: a network to fill; without one it is made by the name that the folder gives.
      device: where the parameters go.
      root: where files from Hugging Face are kept; `models` in the folder that the setting `data.home` names.
      options: for making the network, over those that the folder has.

    Raises:
      OSError: a file is missing or cannot be fetched.
      FormatError: a file is damaged.
      ValueError: the folder names no network, and none is given.
      AssertionError: the parameters are those of another network.
    """
    config = _config(source, root, required=net is None)
    if net is None:
        from .vision import get_model

        if not isinstance(config.get("network"), str) or not isinstance(config.get("options", {}), dict):
            raise errors.MXNetValueError(
                f"{source} names no network that is known here (it is a {config.get('block')}): make it, and give it "
                "as from_pretrained(source, net)"
            )
        net = get_model(config["network"], **{**config.get("options", {}), **options})
    net.load_parameters(_file(source, WEIGHTS, root), device=device)
    return net


def _file(source: Any, name: str, root: str | None) -> str:
    """The path of a file of a folder or repository."""
    text = os.fspath(source)
    if not text.startswith("hf://"):
        return os.path.join(text, name)
    repo = text.removeprefix("hf://").strip("/")
    if repo.count("/") != 1 or ".." in repo:
        raise errors.MXNetValueError(f"{text}: hf://owner/name is expected")
    path = os.path.join(_folder(root), *repo.split("/"), name)
    return path if os.path.exists(path) else download(_hugging_face(f"hf://{repo}", name), path=path)


def _config(source: Any, root: str | None, required: bool) -> dict[str, Any]:
    try:
        path = _file(source, CONFIG, root)
        if os.path.getsize(path) > _LARGEST_CONFIG:
            raise errors.FormatError(f"{path}: {os.path.getsize(path)} bytes are no description of a network")
        with open(path, "rb") as f:
            found = json.load(f)
    except OSError as error:
        if not required:
            return {}
        if isinstance(error, errors.MXNetError):
            raise
        raise errors.MXNetFileNotFoundError(error.errno, error.strerror, error.filename) from None
    except (ValueError, RecursionError) as error:
        raise errors.FormatError(f"{source}: {CONFIG} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise errors.FormatError(f"{source}: {CONFIG} is no dictionary")
    return found
