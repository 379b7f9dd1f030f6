"""The updater: an optimizer together with the states of the weights it has seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mxjax.core import MeshDevice, apart, lay, memory, relaid
from mxjax.display.reprs import Shown
from mxjax.errors import FormatError, MXNetValueError

from . import saving
from .optax import Optax
from .optimizer import Optimizer, flatten

__all__ = ["Updater", "get_updater"]


class Updater(Shown):
    """Updates weights by index and keeps their states, as a kvstore or a trainer needs it.

    Args:
      optimizer: the optimizer, or its name.

    >>> from mxjax.optimizer import create
    >>> get_updater(create("sgd")).states
    {}
    """

    def __init__(self, optimizer: Optimizer):
        self.optimizer = optimizer
        self.states: dict[Any, Any] = {}
        #: Indices of loaded states, which are perhaps on another device than their weight.
        self.unsynced: set[Any] = set()
        self._memory: tuple[str | None] | None = None  # what place() said, else the setting counts
        self.mesh: Any = (
            None  # a mesh whose data axis cuts the states of weights that it does not cut
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "states_synced" in state:  # of MXNet
            if state["optimizer"].multi_precision:
                raise FormatError(
                    "this Updater of MXNet has states with a float32 copy of the weights, whose order its pickle does "
                    "not tell: write them there with get_states(), and read them by set_states()"
                )
            self.__init__(state["optimizer"])  # type: ignore[misc]
            self.states = {
                k: tuple(s) if isinstance(s, list) else s for k, s in state["states"].items()
            }
            self.unsynced = set(self.states)
        else:
            self.__dict__.update(state)

    @property
    def states_synced(self) -> dict[Any, bool]:
        """For each weight whether its states are on its device."""
        return {index: index not in self.unsynced for index in self.states}

    @property
    def home(self) -> str | None:
        """The memory in which states are to live: ``pinned_host``, or None for the device's own."""
        return memory.of_variables() if self._memory is None else self._memory[0]

    @property
    def aggregate_updates(self) -> bool:
        """Whether several weights go to the optimizer at once."""
        return self.optimizer.aggregate_num > 1 or self.optimizer.rule_fn is not None

    def __call__(self, index: Any, grad: Any, weight: Any) -> None:
        """Update one weight, or lists of them."""
        if isinstance(index, (list, tuple)):
            indices, grads, weights = list(index), list(grad), list(weight)
        else:
            indices, grads, weights = [index], [grad], [weight]
        if not weights:
            return
        optimizer = self.optimizer
        device = weights[0].device
        optimizer._set_current_device(device.device_id)
        if isinstance(optimizer, Optax):
            self._update_group(optimizer, tuple(indices), grads, weights)
            return
        if self.unsynced or not all(map(self.states.__contains__, indices)):
            indices = [i.decode() if isinstance(i, bytes) else i for i in indices]
            self._prepare(indices, weights, device)
        states = [self.states[i] for i in indices]
        if optimizer.rule_fn is not None:
            optimizer.update_multi_precision(indices, weights, grads, states)
            return
        for chosen in self._groups(weights):
            optimizer.update_multi_precision(
                *([all_of[k] for k in chosen] for all_of in (indices, weights, grads, states))
            )

    def _prepare(self, indices: list[Any], weights: list[Any], device: Any) -> None:
        """Make the states of weights seen for the first time, and bring loaded ones over."""
        for i, weight in zip(indices, weights, strict=True):
            if i not in self.states:
                with apart():
                    made = self.optimizer.create_state_multi_precision(i, weight)
            elif i in self.unsynced:
                made = self.sync_state_context(self.states[i], device)
            else:
                made = self.states[i]
            self._settle(made)
            self._lie(made, weight)
            self.states[i] = made
            self.unsynced.discard(i)

    def _lie(self, state: Any, weight: Any) -> None:
        """On a mesh, shard states like their weight, or over the mesh where the weight is replicated."""
        like = weight._aval
        if type(like.device) is not MeshDevice:
            return
        whole = like.spread is None or like.spread.is_fully_replicated
        for leaf in flatten(state):
            if getattr(leaf, "shape", None) != weight.shape:
                continue
            if whole and self.mesh is not None:
                leaf._v = lay(leaf._value(), self.mesh.jax_mesh, self.mesh.fsdp(leaf.shape))
            else:
                leaf._v = relaid(leaf._value(), like)

    def _settle(self, state: Any) -> None:
        """Put the states of a weight into the memory they are to live in."""
        home = self.home
        for leaf in flatten(state):
            if hasattr(leaf, "_place"):
                leaf._place(home)

    def place(self, where: str) -> None:
        """Let the states, present and future, live in the memory ``device`` or ``pinned_host``.

        Raises:
          ValueError: another memory.
          DeviceError: the backend cannot reach it.
        """
        self._memory = (memory.kind(where),)
        for state in self.states.values():
            self._settle(state)
        self.optimizer._plans.clear()

    def _update_group(
        self, optimizer: Optax, indices: tuple[Any, ...], grads: list[Any], weights: list[Any]
    ) -> None:
        """One state for all weights that come together, kept under their indices."""
        if indices not in self.states:
            others = {i for group in self.states for i in group}.intersection(indices)
            if others:
                raise MXNetValueError(
                    f"the weights {sorted(others)} were updated as parts of another group: an "
                    "optax transformation keeps one state for all weights, so they must come "
                    "together every time (with ignore_stale_grad=True they do not)"
                )
            made = optimizer.create_group_state(weights)
            self._settle(made)
            self.states[indices] = made
        elif indices in self.unsynced:
            made = self.sync_state_context(self.states[indices], weights[0].device)
            self._settle(made)
            self.states[indices] = made
        self.unsynced.discard(indices)
        optimizer.update_group(indices, weights, grads, self.states[indices])

    def _groups(self, weights: Sequence[Any]) -> list[Sequence[int]]:
        """Which weights go together to an optimizer that has no pure rule."""
        every = range(len(weights))
        size = max(
            self.optimizer.aggregate_num, 1
        )  # MXNet 1 says 0 of those that take one at a time
        if size == float("inf"):
            return [every]
        by_dtype: dict[Any, list[int]] = {}
        for k in every:
            by_dtype.setdefault(weights[k].dtype if size > 1 else k, []).append(k)
        return [own[i : i + size] for own in by_dtype.values() for i in range(0, len(own), size)]

    def sync_state_context(self, state: Any, context: Any) -> Any:
        """The state with its arrays on another device."""
        if isinstance(state, (tuple, list)):
            return type(state)(self.sync_state_context(s, context) for s in state)
        return state.as_in_context(context) if hasattr(state, "as_in_context") else state

    def set_states(self, states: bytes) -> None:
        """Take over states that `get_states` gave, or that MXNet wrote (they are not executed)."""
        self.states, self.optimizer = saving.loads(states, self.optimizer)
        self.unsynced = set(self.states)

    def get_states(self, dump_optimizer: bool = False) -> bytes:
        """The states, and with `dump_optimizer` the optimizer's own numbers, as bytes."""
        return saving.dumps(self.states, self.optimizer if dump_optimizer else None)


def get_updater(optimizer: Optimizer) -> Updater:
    """An `Updater` of this optimizer, without any states yet.

    Args:
      optimizer: the optimizer, or its name.

    Returns:
      Updater: applies the optimizer to a weight and its gradient.
    """
    return Updater(optimizer)
