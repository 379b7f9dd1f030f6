"""Which parameter of a network a name in a file means, whichever generation wrote it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..parameter import Parameter


def matched(block: Any, loaded: Mapping[str, Any]) -> dict[str, Parameter]:
    """The parameters that the names in a file mean, as far as they mean any.

    By place (``0.weight``), by long name, and by long name without the network's prefix; where not one name is
    known, by order: the n-th ``weight`` of the file is that of the network, if there are as many of each kind and the
    shapes agree. So a file of MXNet 1 that counts its layers from elsewhere loads as well.
    """
    places = block._collect_params_with_prefix()
    found = {name: places[name] for name in loaded if name in places}
    if len(found) < len(loaded):
        # and by places, where a block names its parameters otherwise in files
        long = dict(block._long_walk()) | dict(block._walk(""))
        prefix = block.prefix if isinstance(block.prefix, str) else ""
        for name in loaded:
            if name not in found:
                p = long.get(name) or long.get(prefix + name)
                if p is not None:
                    found[name] = p
    if not found and not any("." in name for name in loaded):
        return _by_order(places, loaded)
    return found


def _by_order(places: Mapping[str, Parameter], loaded: Mapping[str, Any]) -> dict[str, Parameter]:
    """Names of a file of MXNet 1 matched by their last words, in their order; nothing where that does not fit."""
    kinds: dict[str, list[Parameter]] = {}
    for place, p in places.items():
        kinds.setdefault(place.rpartition(".")[2], []).append(p)
    kinds = {kind: list(dict.fromkeys(ps)) for kind, ps in kinds.items()}
    written: dict[str, list[str]] = {kind: [] for kind in kinds}
    for name in loaded:
        fitting = [kind for kind in kinds if name == kind or name.endswith(f"_{kind}")]
        if not fitting:
            return {}
        written[max(fitting, key=len)].append(name)
    pairs = {}
    for kind, params in kinds.items():
        if len(params) != len(written[kind]):
            return {}
        for name, p in zip(
            sorted(written[kind], key=_numbers_as_numbers(written[kind])), params, strict=True
        ):
            have = p.shape or ()
            shape = np.shape(loaded[name])
            if p.shape is not None and not (
                len(have) == len(shape)
                and all(a in (-1, 0, b) for a, b in zip(have, shape, strict=True))
            ):
                return {}
            pairs[name] = p
    return pairs


def _numbers_as_numbers(names: list[str]) -> Any:
    """The order of names: the file's, which is the network's, unless the file sorted them as text."""
    if names != sorted(names):
        return names.index
    return lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]
