"""What a monitor hears of a symbol that runs node by node: its nodes' results, what they take, and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

import jax.numpy as jnp

from ..array.classes import NDArray
from ..array.handle import set_all
from ..array.sparse import taped_value, wrap
from ..autograd import is_training, pause
from ..core import Leaf
from ..modes import generation
from .node import Node

_NAMING_THEIR_ONE_INPUT = frozenset(
    "Dropout L2Normalization LRN LeakyReLU MakeLoss Pad Pooling SliceChannel SwapAxis _npi_cumsum depth_to_space diag "
    "log_softmax one_hot repeat reverse softmax space_to_depth squeeze tile".split()
)
#: MXNet has no node for their gradients, which are the result's.
_PASSING = frozenset(["BlockGrad", "add_n", "elemwise_add"])


def _of_batch(
    taken: Sequence[NDArray], attrs: Mapping[str, Any], learn: bool
) -> dict[str, NDArray]:
    x, _, _, mean, var = taken
    if learn and not attrs["use_global_stats"]:
        axis = attrs["axis"] % x.ndim
        mean, var = _moments(x.astype("float32").swapaxes(0, axis).reshape((x.shape[axis], -1)))
    return {"mean": mean, "var": 1 / (var + attrs["eps"]).sqrt()}


def _of_layer(
    taken: Sequence[NDArray], attrs: Mapping[str, Any], learn: bool
) -> dict[str, NDArray]:
    x, axis = taken[0], attrs["axis"] % taken[0].ndim
    rows = x.swapaxes(axis, x.ndim - 1)
    mean, var = _moments(rows)
    shape = tuple(1 if k == axis else n for k, n in enumerate(x.shape))
    std = (var + attrs["eps"]).sqrt()
    back = [
        a.expand_dims(x.ndim - 1).swapaxes(axis, x.ndim - 1).reshape(shape) for a in (mean, std)
    ]
    return {"mean": back[0], "std": back[1]}


def _of_groups(
    taken: Sequence[NDArray], attrs: Mapping[str, Any], learn: bool
) -> dict[str, NDArray]:
    mean, var = _moments(taken[0].reshape((taken[0].shape[0], attrs["num_groups"], -1)))
    return {"mean": mean, "std": (var + attrs["eps"]).sqrt()}


def _of_instance(
    taken: Sequence[NDArray], attrs: Mapping[str, Any], learn: bool
) -> dict[str, NDArray]:
    mean, var = _moments(taken[0].reshape((*taken[0].shape[:2], -1)))
    return {"mean": mean, "var": var}


def _moments(rows: NDArray) -> tuple[NDArray, NDArray]:
    """Mean and variance along the last axis."""
    mean = rows.mean(axis=-1)
    return mean, (rows - mean.expand_dims(-1)).square().mean(axis=-1)


#: What MXNet 1's normalisations keep for their gradients, which its monitor hears after their results, by the word of
#: their rows' column `moments`.
_KEPT: dict[str | None, Callable[..., dict[str, NDArray]]] = {
    "batch": _of_batch,
    "layer": _of_layer,
    "groups": _of_groups,
    "instance": _of_instance,
}


class Listener:
    """A monitor's callback, and of one run what it has still to hear.

    Args:
      callback: called with a name, bytes in MXNet 1.9, and an array.
      everything: whether with what nodes take, too.
    """

    def __init__(self, callback: Callable[[Any, NDArray], None], everything: bool):
        self._bytes = generation() == 1
        self._callback = callback
        self._everything = everything
        #: Of each node the zeros that were added to what it takes, by their places.
        self._added: list[tuple[Node, dict[int, tuple[NDArray, Leaf]]]] = []

    def tell(self, name: str, array: NDArray) -> None:
        self._callback(name.encode() if self._bytes else name, array)

    def begin(self) -> None:
        """A run begins: gradients of the last one are of no interest any more."""
        self._added = []

    def add_zeros(
        self, node: Node, taken: Sequence[NDArray], apart: Container[str]
    ) -> list[NDArray]:
        """What a node takes, with zeros added whose gradients are those at this node alone.

        Not to states, nor to variables ``apart``, of which gradients are sparse.
        """
        states = node.aux()
        found: dict[int, tuple[NDArray, Leaf]] = {}
        arrays = list(taken)
        for k, array in enumerate(taken):
            source = node.inputs[k][0]
            if k in states or (source.is_variable and source.name in apart):
                continue
            if array.stype != "default" or not jnp.issubdtype(array.dtype, jnp.floating):
                continue
            zeros, leaf = array.zeros_like(), Leaf("write", _nowhere)
            set_all([taped_value(zeros)], "tape", [leaf])
            found[k] = zeros, leaf
            arrays[k] = array + zeros
        self._added.append((node, found))
        return arrays

    def hear(self, node: Node, taken: Sequence[NDArray], made: Sequence[NDArray]) -> None:
        """A node has run."""
        if self._everything:
            # Most of MXNet's operators of one array have no name for it.
            alone = len(node.inputs) == 1 and node.operator not in _NAMING_THEIR_ONE_INPUT
            for (source, _), name, array in zip(node.inputs, node.names, taken, strict=True):
                if source.is_variable:
                    self.tell(source.name, array)
                self.tell(f"{node.name}_{'input0' if alone else name}", array)
        for name, array in zip(node.outputs(), made, strict=False):
            self.tell(name, array)
        kept = _KEPT.get(node.op.files.moments) if node.op is not None else None
        if self._bytes and kept is not None and node.op is not None:
            attrs = {**node.op.attr_defaults, **node.params}
            if not attrs.get("output_mean_var"):  # else they are among its results
                learn = is_training()
                with pause():
                    for name, array in kept(taken, attrs, learn).items():
                        self.tell(f"{node.name}_{name}", array)

    def hear_gradients(self, found: Mapping[Leaf, Any]) -> None:
        """The backward pass has run: the last node first; zeros where no gradient came."""
        for node, added in reversed(self._added):
            if node.operator in _PASSING:
                continue
            alone = "output" if node.op is None else node.op.names.gradient
            for k, (zeros, leaf) in added.items():
                array = wrap(found[leaf]) if leaf in found else zeros
                name = alone if len(node.inputs) == 1 else f"output{k}"
                self.tell(f"{node.name}_backward_{name}", array)
        self._added = []


def _nowhere(gradient: Any) -> None:
    """The monitor hears it; nothing is stored."""
