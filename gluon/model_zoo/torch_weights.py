"""Trained weights of torchvision, timm and Hugging Face for networks of other names: layers are matched in their order.

A state dictionary of PyTorch names no layer's kind, but its arrays come layer by layer. So a network of ours and one of
theirs agree where, one layer after the other, the arrays have the same names within the layer and the same shapes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from mxjax import errors

from ..block import Block
from ..interop import interchange

__all__ = ["from_torch_state_dict", "match_torch_state_dict"]

_Shape = tuple[int, ...]


class _Layer(NamedTuple):
    """A layer with arrays of its own: where it is, and the shapes of its arrays by their names in PyTorch."""

    place: str
    arrays: dict[str, _Shape]

    def fits(self, other: _Layer) -> bool:
        """Whether another layer has the same arrays; lengths that are not known yet are 0 or -1."""
        return self.arrays.keys() == other.arrays.keys() and all(
            len(shape) == len(other.arrays[name])
            and all(n in (m, 0, -1) for n, m in zip(shape, other.arrays[name], strict=True))
            for name, shape in self.arrays.items()
        )

    def __str__(self) -> str:
        arrays = ", ".join(
            f"{name} {'x'.join(map(str, shape)) or '()'}" for name, shape in self.arrays.items()
        )
        return f"{self.place or '(itself)'} ({arrays})"


def match_torch_state_dict(
    net: Block, state: Mapping[str, Any], skip: str | Iterable[str] = ()
) -> dict[str, str]:
    """The names that the layers of a network have in a ``state_dict`` of PyTorch: ``{"features.0": "conv1", ...}``.

    Layers are matched one after the other: in the order of ``state``, or, where a file has sorted its names, in the
    order that their numbers and usual words say (``conv1, bn1, conv2, bn2, downsample, fc``). A match that is not the
    only one is none. Strides, activations and epsilons are in no ``state_dict``: that they agree is for you to know.

    Args:
      net: the network; it need not be initialized.
      state: arrays, or anything with a ``shape``, by name.
      skip: beginnings of names that have no place in the network, such as ``"AuxLogits."``.

    Raises:
      ValueError: there is no match, or more than one; the message shows where they part.

    >>> import mxjax as mx, numpy as np
    >>> net = mx.gluon.nn.HybridSequential()
    >>> net.add(mx.gluon.nn.Dense(4, in_units=3), mx.gluon.nn.Dense(2, in_units=4))
    >>> shapes = {"fc1.weight": (4, 3), "fc1.bias": (4,), "fc2.weight": (2, 4), "fc2.bias": (2,)}
    >>> match_torch_state_dict(net, {k: np.zeros(s) for k, s in shapes.items()})
    {'0': 'fc1', '1': 'fc2'}
    """
    ours = _of_network(net)
    theirs = _of_state(state, (skip,) if isinstance(skip, str) else tuple(skip))
    found: list[dict[str, str]] = []
    for order in _orders_of(theirs):
        if len(ours) == len(order) and all(map(_Layer.fits, ours, order)):
            match = {one.place: other.place for one, other in zip(ours, order, strict=True)}
            if match not in found:
                found.append(match)
    if not found:
        raise errors.MXNetValueError(_no_match(net, ours, theirs))
    if len(found) > 1:
        here = next(k for k in found[0] if found[0][k] != found[1][k])
        raise errors.MXNetValueError(
            f"more than one match: {here!r} may be {found[0][here]!r} or {found[1][here]!r}. Give the dictionary in "
            "the order of module.state_dict(), or say names={...} to gluon.from_torch_state_dict"
        )
    return found[0]


def from_torch_state_dict(
    net: Block,
    state: Mapping[str, Any],
    skip: str | Iterable[str] = (),
    device: Any = None,
    show: bool = False,
) -> Block:
    """Give a network the weights of a ``state_dict`` of PyTorch whose layers have other names; gives the network.

    `match_torch_state_dict` finds which is which, and ``show=True`` prints it; `gluon.from_torch_state_dict` is for
    names that are known. PyTorch is not needed: NumPy's arrays do, such as safetensors files hold.

    Raises:
      ValueError: the layers do not agree one by one; nothing is changed then.

    >>> import mxjax as mx, numpy as np
    >>> net = mx.gluon.nn.HybridSequential()
    >>> net.add(mx.gluon.nn.Dense(2), mx.gluon.nn.BatchNorm())
    >>> bn = {f"bn.{k}": np.ones(2) for k in ("weight", "bias", "running_mean", "running_var")}
    >>> _ = from_torch_state_dict(net, {"fc.weight": np.ones((2, 3)), "fc.bias": np.ones(2), **bn}, show=True)
    0 <- fc (weight 2x3, bias 2)
    1 <- bn (weight 2, bias 2, running_mean 2, running_var 2)
    """
    state = _unwrapped(state)
    skip = (skip,) if isinstance(skip, str) else tuple(skip)
    names = match_torch_state_dict(net, state, skip)
    if show:
        layers = {layer.place: layer for layer in _of_state(state, skip)}
        for ours, theirs in names.items():
            print(f"{ours or '(itself)'} <- {layers[theirs]}")
    kept = {k: v for k, v in state.items() if not k.startswith(skip)} if skip else state
    return interchange.from_torch_state_dict(net, kept, names=names, device=device)


def is_of_torch(names: Iterable[str], net: Block) -> bool:
    """Whether a file's arrays have PyTorch's names rather than those of this network."""
    names = set(names)
    if {name for name, _ in net._walk("")} <= names or not all("." in name for name in names):
        return False
    return any(n.endswith(".weight") for n in names) and not any(
        n.endswith((".gamma", ".beta")) for n in names
    )


def _unwrapped(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arrays of a checkpoint, which are often one entry of it."""
    for name in ("state_dict", "model", "model_state_dict"):
        if isinstance(state.get(name), Mapping):
            return state[name]  # type: ignore[no-any-return]
    return state


def _of_network(net: Block) -> list[_Layer]:
    found = []
    for place, block in interchange._blocks(net):
        own = interchange._names_of(block, {}, "")
        arrays = {}
        for piece in interchange._torch_pieces(block, own):
            known = own[piece.own]  # a Parameter, or the shape of a recurrent layer's array
            shape = tuple(getattr(known, "shape", known) or ())
            arrays[piece.other] = (
                shape if piece.perm is None else tuple(shape[d] for d in piece.perm)
            )
        if arrays:
            found.append(_Layer(place, arrays))
    return found


def _of_state(state: Mapping[str, Any], skip: tuple[str, ...]) -> list[_Layer]:
    found: dict[str, _Layer] = {}
    for name, a in _unwrapped(state).items():
        place, _, own = name.rpartition(".")
        if own != "num_batches_tracked" and not name.startswith(skip or ("\0",)):
            found.setdefault(place, _Layer(place, {})).arrays[own] = tuple(np.shape(a))
    return list(found.values())


#: What comes first among parts of one number, by how their names begin.
_FIRST = ("conv", "squeeze", "embed", "stem", "patch")
_SECOND = ("bn", "norm", "batch")
_LATE = ("downsample", "shortcut", "identity")
_LAST = ("pooler", "fc", "classifier", "head", "output", "logits")
_PART = re.compile(r"([^0-9]*)([0-9]*)(.*)")


def _key(swapped: Callable[[str], bool]) -> Callable[[str], tuple[Any, ...]]:
    """A key to sort places by; ``swapped`` says of a part's number whether normalizations come before convolutions."""

    def rank(word: str, number: str) -> int:
        kinds = (_SECOND, _FIRST) if swapped(number) else (_FIRST, _SECOND)
        for k, words in enumerate(kinds):
            if word.startswith(words):
                return k
        return 3 if word.startswith(_LATE) else 4 if word.startswith(_LAST) else 2

    def key(place: str) -> tuple[Any, ...]:
        found = []
        for part in place.split("."):
            word, number, rest = _PART.fullmatch(part).groups()  # type: ignore[union-attr]
            kind = rank(word, number)
            # A part without a number comes first if such parts do, else last.
            found.append((int(number) if number else -1 if kind < 2 else 1 << 30, kind, word, rest))
        return tuple(found)

    return key


#: Convolutions before normalizations, after them, and after them but in the first layer (DenseNet).
_ORDERS = (
    _key(lambda number: False),
    _key(lambda number: True),
    _key(lambda number: number != "0"),
)


def _orders_of(layers: list[_Layer]) -> Iterator[list[_Layer]]:
    """The layers as they come, and as their names may say that they are called."""
    yield layers
    for key in _ORDERS:
        keys = {layer.place: key(layer.place) for layer in layers}
        yield sorted(layers, key=lambda layer: keys[layer.place])  # noqa: B023


def _no_match(net: Block, ours: list[_Layer], theirs: list[_Layer]) -> str:
    kind = type(net).__name__
    order = max(
        _orders_of(theirs), key=lambda layers: _agreeing(ours, layers)
    )  # what goes furthest says most
    at = _agreeing(ours, order)
    if at == len(ours) and len(order) > at:
        parts = f"{kind} has {at} layers, and these {len(order)}: from {order[at]} on there is no place (skip=...?)"
    elif at == len(order):
        parts = f"{kind} has {len(ours)} layers, and these {len(order)}: there is nothing for {ours[at]}"
    else:
        parts = f"{kind} has {ours[at]} where these have {order[at]}"
    if kind == "ResNetV1" and at == 2 and "bias" in ours[at].arrays:
        parts += ". PyTorch's ResNet-50, 101 and 152 are resnet50_v1b, resnet101_v1b and resnet152_v1b here"
    return (
        f"the layers do not agree, the first {at} do: {parts}. They are different networks (a bias more, another order "
        "of layers); where they are not, gluon.from_torch_state_dict takes names={ours: theirs}"
    )


def _agreeing(ours: list[_Layer], theirs: list[_Layer]) -> int:
    at = 0
    while at < min(len(ours), len(theirs)) and ours[at].fits(theirs[at]):
        at += 1
    return at
