"""Any optax transformation as an optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from mxjax.array.handle import store
from mxjax.core import Call, Row, Value, aval_of, concrete, memory, record
from mxjax.core.compile.compiler import wide_types
from mxjax.errors import MXNetTypeError

from . import rules
from .optimizer import Optimizer, memories_of, not_taped, register, whole_or_not
from .sending import counted

__all__ = ["Optax"]


@register
class Optax(Optimizer):
    """An optimizer that does what an optax transformation says.

    The transformation sees all weights that are updated together as one tuple, so that those which
    look at the whole (`optax.clip_by_global_norm`) work.  Its updates are multiplied by
    `learning_rate`, 1 unless given: set it, or give an `lr_scheduler`, where the transformation has
    no rate of its own.  `rescale_grad`, `clip_gradient` and `wd` apply to the gradients before it.

    Args:
      tx: an `optax.GradientTransformation`, for example `optax.adam(1e-3)`.

    Raises:
      TypeError: `tx` has no `init` and `update`.

    >>> import optax
    >>> Optax(optax.adam(1e-3)).learning_rate
    1.0
    """

    def __init__(self, tx: Any, learning_rate: float | None = None, **kwargs: Any):
        if not (callable(getattr(tx, "init", None)) and callable(getattr(tx, "update", None))):
            raise MXNetTypeError(
                f"an optax transformation (with init and update) is expected, got {tx!r}"
            )
        if learning_rate is None and kwargs.get("lr_scheduler") is None:
            learning_rate = 1.0
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.tx = tx
        self._trees: dict[int, Any] = {}  # by the number of weights

    # -- one weight, purely ------------------------------------------------------------------------

    def init(self, weight: jax.Array) -> rules.States:
        return tuple(jax.tree.leaves(self.tx.init((weight,))))

    def rule(
        self, weight: jax.Array, grad: jax.Array, states: rules.States, lr: Any, wd: Any, t: Any,
        rescale_grad: Any = 1.0,
    ) -> tuple[jax.Array, rules.States]:  # fmt: skip
        tree = jax.tree.structure(jax.eval_shape(self.tx.init, (weight,)))
        numbers = jnp.stack([jnp.asarray(x, jnp.float32) for x in (rescale_grad, lr, wd)])
        new, *after = _step(
            numbers, weight, grad, *states, tx=self.tx, tree=tree, count=1,
            clip_gradient=self.clip_gradient, masters=(False,),
        )  # fmt: skip
        return new, tuple(after)

    # -- all weights at once -----------------------------------------------------------------------

    def create_state(self, index: Any, weight: Any) -> Any:
        """Nothing: the transformation's state belongs to the group, see `create_group_state`."""
        return None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_trees": {}}

    def create_group_state(self, weights: Sequence[Any]) -> tuple[Any, ...]:
        """The transformation's state for these weights, as a flat tuple of arrays."""
        with wide_types():
            wide = tuple(self._wide(w) for w in weights)
            state = self.tx.init(wide)
        self._trees[len(weights)] = jax.tree.structure(state)
        wrap = type(weights[0])._wrap
        aval = weights[0]._value().aval
        # A copy: a state may be a weight (or the same array twice), and states are overwritten.
        leaves = [jnp.array(leaf, copy=True) for leaf in jax.tree.leaves(state)]
        masters = [w for w, h in zip(wide, weights, strict=True) if self.has_master_copy(h)]
        lies = (jax.device_put(leaf, aval.sharding) for leaf in (*masters, *leaves))
        return tuple(wrap(concrete(a, shared=False, of=aval_of(a, aval.device))) for a in lies)

    def _wide(self, weight: Any) -> jax.Array:
        array = memory.on_device(weight._value())
        return array.astype("float32") if self.has_master_copy(weight) else array

    def update_group(
        self, indices: Sequence[Any], weights: Sequence[Any], grads: Sequence[Any],
        states: Sequence[Any],
    ) -> None:  # fmt: skip
        """Update these weights and the state of their group in place, as one recorded call."""
        whole_or_not(self, weights[0], partial(self._record_group, indices, weights, grads, states))

    def _record_group(
        self, indices: Sequence[Any], weights: Sequence[Any], grads: Sequence[Any],
        states: Sequence[Any],
    ) -> None:  # fmt: skip
        aval = weights[0]._value().aval
        if len(weights) not in self._trees:  # the states came from a file
            self.create_group_state(weights)
        numbers = counted(self, indices, "float32", aval.device)
        call = self._bind_group(weights)
        inputs: list[Value] = [numbers]
        inputs += [x._value() for x in (*weights, *grads, *states)]
        with not_taped():
            outs = record(call, inputs)
            memories = memories_of((*weights, *states))
            if memories is not None:
                outs = memory.moved(outs, memories)
        del inputs
        store((*weights, *states), outs)

    def _bind_group(self, weights: Sequence[Any]) -> Call:
        attrs = (
            ("clip_gradient", self.clip_gradient),
            ("count", len(weights)),
            ("masters", tuple(self.has_master_copy(w) for w in weights)),
            ("tree", self._trees[len(weights)]),
            ("tx", self.tx),
        )
        return _STEP.bind(attrs)

    def step(
        self, indices: Sequence[Any], weights: Sequence[Any], grads: Sequence[Any],
        states: Sequence[Any],
    ) -> None:  # fmt: skip
        raise MXNetTypeError(
            "an optax transformation keeps one state for all weights: use an Updater or a "
            "gluon.Trainer, or create_group_state and update_group"
        )


def _step(
    numbers: jax.Array, *arrays: jax.Array, tx: Any, tree: Any, count: int,
    clip_gradient: float | None, masters: tuple[bool, ...],
) -> tuple[jax.Array, ...]:  # fmt: skip
    """All weights' update: numbers are rescale_grad, then (lr, wd) of each weight."""
    import optax

    weights, grads = arrays[:count], arrays[count : 2 * count]
    kept, leaves = arrays[2 * count : 2 * count + sum(masters)], arrays[2 * count + sum(masters) :]
    state = jax.tree.unflatten(tree, leaves)
    copies = iter(kept)
    wide = tuple(next(copies) if m else w for w, m in zip(weights, masters, strict=True))
    lrs, wds = numbers[1::2], numbers[2::2]
    prepared = tuple(
        rules.prepare(
            g.astype(w.dtype), numbers[0].astype(w.dtype), clip_gradient, wds[i].astype(w.dtype), w
        )
        for i, (g, w) in enumerate(zip(grads, wide, strict=True))
    )
    updates, after = tx.update(prepared, state, wide)
    scaled = tuple(u * lrs[i].astype(u.dtype) for i, u in enumerate(updates))
    new = optax.apply_updates(wide, scaled)
    out = [n.astype(w.dtype) for n, w in zip(new, weights, strict=True)]
    new_kept = [n for n, m in zip(new, masters, strict=True) if m]
    new_leaves = [
        n.astype(old.dtype) for n, old in zip(jax.tree.leaves(after), leaves, strict=True)
    ]
    return (*out, *new_kept, *new_leaves)


_STEP = Row("optax_update", _step, ragged=False)
