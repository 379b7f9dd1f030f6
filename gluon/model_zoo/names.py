"""Names of networks: what is meant by one, whoever gave it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from mxjax import errors

__all__ = ["constructor"]

#: What torchvision, timm and Hugging Face call networks that are here.
_ELSEWHERE = {
    "vit_base_patch16_224": "vit_b_16",
    "vit_base_patch32_224": "vit_b_32",
    "vit_large_patch16_224": "vit_l_16",
    "vit-base-patch16-224": "vit_b_16",
    "vit-base-patch16-224-in21k": "vit_b_16",
    "vit-base-patch32-224-in21k": "vit_b_32",
    "vit-large-patch16-224": "vit_l_16",
    "bert-base-uncased": "bert_base",
    "bert-base-cased": "bert_base",
    "bert-base-multilingual-cased": "bert_base",
    "bert-base-chinese": "bert_base",
    "bert-large-uncased": "bert_large",
    "bert-large-cased": "bert_large",
    "resnet18": "resnet18_v1",
    "resnet34": "resnet34_v1",
    **{f"resnet{n}": f"resnet{n}_v1b" for n in (50, 101, 152)},
    **{f"resnet-{n}": f"resnet{n}_v1" for n in (18, 34)},
    **{f"resnet-{n}": f"resnet{n}_v1b" for n in (50, 101, 152)},
    "inception_v3": "inceptionv3",
    "squeezenet1_0": "squeezenet1.0",
    "squeezenet1_1": "squeezenet1.1",
}


def _meant(name: str, networks: Mapping[str, Any]) -> str:
    """The networks of a family that are nearest in number, or what looks like the name."""
    elsewhere = _ELSEWHERE.get(name.rpartition("/")[2].lower())
    if elsewhere in networks:
        return f"; here it is {elsewhere!r}"
    asked = _NUMBERED.match(name.lower())
    near = []
    for other in networks:
        known = _NUMBERED.match(other)
        if asked and known and known[1] == asked[1]:
            near.append((abs(float(known[2]) - float(asked[2])), other))
    if not near:
        return errors.did_you_mean(name, networks)
    return f"; did you mean {' or '.join(repr(other) for _, other in sorted(near)[:3])}?"


#: A family, and how large its network is.
_NUMBERED = re.compile(r"([a-z]+)_?(\d+(?:\.\d+)?)")


def constructor(name: Any, networks: Mapping[str, Any]) -> Callable[..., Any]:
    """What makes the network of this name, whatever the case of its letters.

    Raises:
      ValueError: there is none.
      TypeError: that is no name.
    """
    if not isinstance(name, str):
        raise errors.MXNetTypeError(
            f"the name of a network is expected, such as 'resnet18_v1', got {type(name).__name__}"
        )
    found = networks.get(name.lower())
    if found is None:
        raise errors.MXNetValueError(
            f"Model {name} is not supported{_meant(name, networks)}. Available options are "
            f"{', '.join(sorted(networks))}"
        )
    return found  # type: ignore[no-any-return]
