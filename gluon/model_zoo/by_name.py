"""Networks by their names, and what a file may say of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mxjax import errors

from . import transformers, vision
from .names import constructor

__all__ = ["check_described", "get_model", "is_known"]

_Rows = dict[str, tuple[type, float, float]]
_CLASSES: _Rows = {"classes": (int, 1, 1 << 20)}
_RATES: _Rows = {"dropout": (float, 0, 1), "epsilon": (float, 0, 1)}
#: Options that a file may name, which describe a network and do nothing else: their type, the least
#: and the most that they may be. By the beginning of the networks' names; others have classes alone.
_DESCRIBING: dict[str, _Rows] = {
    "densenet": {**_CLASSES, "bn_size": (int, 1, 64), "dropout": (float, 0, 1)},
    "resnet": {**_CLASSES, "thumbnail": (bool, 0, 1)},
    "vgg": {**_CLASSES, "batch_norm": (bool, 0, 1)},
    "vit": {**_CLASSES, "image_size": (int, 1, 1 << 14), **_RATES},
    "bert": {
        "words": (int, 1, 1 << 24),
        "length": (int, 1, 1 << 20),
        "kinds": (int, 1, 1 << 10),
        **_RATES,
    },
}


def is_known(name: Any) -> bool:
    """Whether `get_model` makes a network of this name."""
    return isinstance(name, str) and name.lower() in _networks()


def check_described(name: Any, options: Any, where: str) -> None:
    """Refuse what does not describe a network of the zoo: other names, other options, numbers out of range.

    Args:
      name, options: as for `get_model`, but given by a file.
      where: the file.

    Raises:
      FormatError: one of them may not be.
    """
    if not is_known(name):
        raise errors.FormatError(
            f"{where}: {str(name)[:80]!r} is not a network of mxjax.gluon.model_zoo"
        )
    if not isinstance(options, dict):
        raise errors.FormatError(f"{where}: options of a network are a dictionary")
    families = [rows for family, rows in _DESCRIBING.items() if name.lower().startswith(family)]
    known = families[0] if families else _CLASSES
    for option, value in options.items():
        if option not in known:
            raise errors.FormatError(
                f"{where}: {option[:80]!r} is not an option that describes {name}; a file may name "
                f"{', '.join(known)}. Others are given by the program"
            )
        kind, least, most = known[option]
        number = type(value) is kind or (kind is float and type(value) is int)
        if not number or not least <= value <= most:
            raise errors.FormatError(
                f"{where}: {option} of {name} is {str(value)[:80]}; expected is a {kind.__name__}"
                + ("" if kind is bool else f" from {least} to {most}")
            )


def _networks() -> dict[str, Callable[..., Any]]:
    of_texts = {name: getattr(transformers, name) for name in ("bert_base", "bert_large")}
    return {**vision._MODELS, **of_texts}


def get_model(name: str, **kwargs: Any) -> Any:
    """A network of the zoo by its name: those of `vision.get_model`, and "bert_base" and "bert_large".

    Args:
      name: see the message for an unknown one.
      pretrained: True: MXNet's published weights; a path, `hf://owner/name/file` or `owner/name` (its
        `model.safetensors`): those of a file, PyTorch's too where the networks agree.
      device: where the weights are.
      root: the folder of published files.

    Returns:
      HybridBlock: the network, with weights if they were asked for.

    Raises:
      ValueError: there is no such network, or the file has the weights of another.

    >>> get_model("vit_b_16", image_size=32, classes=10).positions.shape
    (1, 5, 768)
    """
    return constructor(name, _networks())(**kwargs)
