"""The pure half of every optimizer: one weight's update, and the many-tensor step made of it.

A rule is ``rule(weight, grad, states, rescale, *numbers, **statics) -> (weight, states)`` on JAX
arrays.  ``rescale`` and ``numbers`` change from step to step and arrive as traced scalars, so a
schedule compiles nothing anew; ``statics`` (momentum, epsilon, ...) are part of the program until
they change (`moving.py`).

The equations are MXNet's, put together from optax's pieces where those say the same thing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mxjax.core import Row, Value, local
from mxjax.errors import MXNetValueError
from mxjax.scopes import scope, undone

from ..core.interpret.direct import Rules
from .one_by_one import each

States = tuple[jax.Array, ...]
Rule = Callable[..., tuple[jax.Array, States]]
#: Per weight: how many states it has, whether the first is its float32 copy, and the rule's keyword arguments for it.
Entry = tuple[int, bool, tuple[tuple[str, Any], ...]]
Layout = tuple[Entry, ...]
#: The rules that MXNet 1.9 had instead of these (`mxnet1.py`).
OF_MXNET1: dict[Rule, Rule] = {}


@scope
def not_taped() -> Iterator[None]:
    """Updates are no part of what autograd differentiates, even inside `autograd.record()`."""
    thread = local.st
    taping = thread.taping

    def undo() -> None:
        thread.taping = taping
        thread.refresh()

    thread.taping = False
    thread.refresh()
    yield from undone(undo)


def whole_or_not(optimizer: Any, weight: Any, update: Callable[[], None]) -> None:
    """Run an update; where it is broken off before its results are stored, nothing was counted either."""
    with_old = _held(weight)
    counts = optimizer._index_update_count
    mine, counted, schedule = (
        dict(vars(optimizer)),
        counts.copy(),
        getattr(optimizer.lr_scheduler, "__dict__", {}),
    )
    scheduled = dict(schedule)
    try:
        update()
    except BaseException:
        if _held(weight) is with_old:
            vars(optimizer).update(mine)
            counts.clear()
            counts.update(counted)
            schedule.update(scheduled)
        raise


def _held(weight: Any) -> Any:
    return weight._stored if hasattr(type(weight), "_stored") else weight._v  # a sparse array's


def unworked(lr: Any, wd: Any, t: Any) -> tuple[Any, ...]:
    """What a program works the numbers of an update out of (`guarded`)."""
    return lr, wd, t


def prepare(
    grad: jax.Array,
    rescale: Any,
    clip_gradient: float | None,
    wd: Any = None,
    weight: jax.Array | None = None,
) -> jax.Array:
    """The gradient that a rule sees: rescaled, then clipped, then with the weight decay added."""
    if type(rescale) is not float or rescale != 1:
        grad = grad * rescale
    if clip_gradient is not None:
        grad = jnp.clip(grad, -clip_gradient, clip_gradient)
    return grad if wd is None else grad + wd * weight


def is_on(bound: Any) -> bool:
    """Whether a bound that 0 and None switch off is one; one that comes as an operand is."""
    return hasattr(bound, "dtype") or bool(bound)


def moment(value: jax.Array, average: jax.Array, decay: float, order: int = 1) -> jax.Array:
    """The running average of ``value ** order``; of order 1 or 2."""
    return (1 - decay) * (value if order == 1 else value * value) + decay * average


#: States' shapes and dtypes by optimizer, hyperparameters and the weight's dtype and axes; a shape names the weight's.
_SHAPES: dict[Any, tuple[tuple[tuple[int | _Axis, ...], Any], ...] | None] = {}
#: What changes from update to update, of which no state's shape is made.
_COUNTED = frozenset(
    {"num_update", "begin_num_update", "lr", "wd", "rescale_grad", "clip_gradient"}
)
#: Lengths of the axes of a weight that is asked about: no constant of a rule's is one.
_LENGTHS = (1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049)


class _Axis(NamedTuple):
    """The length of this axis of the weight."""

    of: int


def state_shapes(optimizer: Any, struct: Any) -> Any:
    """What `Optimizer.init` gives for a weight like this; our own rules are asked once for weights of so many axes."""
    cls = type(optimizer)
    if not cls.__module__.startswith(__package__) or len(struct.shape) > len(_LENGTHS):
        return jax.eval_shape(optimizer.init, struct)
    said = [
        (k, v)
        for k, v in vars(optimizer).items()
        if (v is None or isinstance(v, (bool, int, float, str))) and k not in _COUNTED
    ]
    key = cls, len(struct.shape), struct.dtype, tuple(said)
    if key not in _SHAPES:
        if len(_SHAPES) > 1_000:
            _SHAPES.clear()
        _SHAPES[key] = _form_of_states(optimizer, struct)
    form = _SHAPES[key]
    if form is None:
        return jax.eval_shape(optimizer.init, struct)
    return tuple(
        jax.ShapeDtypeStruct(
            tuple([struct.shape[n.of] if type(n) is _Axis else n for n in shape]), dtype
        )
        for shape, dtype in form
    )


def _form_of_states(optimizer: Any, struct: Any) -> Any:
    """The shapes of states by the weight's axes, and their dtypes; None where lengths are made otherwise."""
    lengths = _LENGTHS[: len(struct.shape)]
    try:
        made = jax.eval_shape(optimizer.init, jax.ShapeDtypeStruct(lengths, struct.dtype))
    except MXNetValueError:  # it says it of the weight at hand
        return None
    axes = {n: _Axis(k) for k, n in enumerate(lengths)}
    if any(n not in axes and n != 1 for m in made for n in m.shape):
        return None
    return tuple([(tuple([axes.get(n, n) for n in m.shape]), m.dtype) for m in made])


def renamed(kwargs: dict[str, Any], old: str, value: float) -> float:
    """An argument under the name that it had in MXNet 1, taken out of the others; ``value`` where it is not there."""
    given = kwargs.pop(old, None)
    return value if given is None else float(given)


def norm(x: jax.Array) -> jax.Array:
    """The Euclidean norm over all elements."""
    return jnp.sqrt(jnp.sum(jnp.square(x)))


def one(rule: Rule, weight: Any, grad: Any, states: States, *numbers: Any) -> tuple[Any, States]:
    """One weight's update; 16-bit weights are computed in float32 and rounded once at the end."""
    wide = jnp.promote_types(weight.dtype, jnp.float32)
    new, after = rule(
        weight.astype(wide),
        grad.astype(wide),
        tuple(s.astype(wide) for s in states),
        *[jnp.asarray(x).astype(wide) for x in numbers],
    )
    kept = tuple(a.astype(s.dtype) for a, s in zip(after, states, strict=True))
    return new.astype(weight.dtype), kept


def with_master(rule: Rule, weight: Any, grad: Any, states: States, *numbers: Any) -> Any:
    """One 16-bit weight's update through its float32 copy, which is ``states[0]``."""
    master, after = one(rule, states[0], grad, states[1:], *numbers)
    return master.astype(weight.dtype), (master, *after)


def many(
    numbers: jax.Array,
    *arrays: jax.Array,
    rule: Rule,
    statics: tuple[tuple[str, Any], ...],
    layout: Layout,
    **moving: Any,
) -> tuple[jax.Array, ...]:
    """Every weight's update as one function on a flat list: what a step records.

    Args:
      numbers: rescale_grad first, then each weight's own numbers, in one vector.
      arrays: all weights, then all gradients, then all states.
      rule: the rule.
      statics: its keyword arguments.
      layout: per weight, how many states it has, whether the first of them is its float32 copy,
        and the statics that are its own.
      moving: those of the rule's keyword arguments that come as operands (`moving.py`).

    Returns all new weights, then all new states.
    """
    n = len(layout)
    weights, grads, states = arrays[:n], arrays[n : 2 * n], arrays[2 * n :]
    width = (numbers.shape[0] - 1) // n
    rescale, *others = jnp.unstack(numbers)
    new_weights: list[jax.Array] = []
    new_states: list[jax.Array] = []
    taken = 0
    for i, entry in enumerate(layout):
        mine = states[taken : taken + entry[0]]
        taken += entry[0]
        weight, *after = alone(
            weights[i],
            grads[i],
            *(*mine, rescale, *others[i * width : (i + 1) * width]),
            rule=rule,
            statics=statics,
            entry=entry,
            **moving,
        )
        new_weights.append(weight)
        new_states.extend(after)
    return (*new_weights, *new_states)


def alone(
    weight: jax.Array,
    grad: jax.Array,
    *rest: jax.Array,
    rule: Rule,
    statics: tuple[tuple[str, Any], ...],
    entry: Entry,
    **moving: Any,
) -> tuple[jax.Array, ...]:
    """One weight's part of `many`: ``rest`` are its states, then rescale_grad and its own numbers; ``entry`` is its own
    in the layout. Gives the new weight and the new states."""
    count, master, own = entry
    bound = partial(rule, **{**dict(statics), **moving, **dict(own)})
    new, after = (with_master if master else one)(bound, weight, grad, rest[:count], *rest[count:])
    return (new, *after)


class Guard(NamedTuple):
    """What a program decides about a step: values of the engine.

    ``finite``: whether it is done; ``inverse``: a factor on the gradients; ``skipped``: how many steps were left out.

    Args:
      inverse: what the gradients are multiplied by besides.
      skipped: how many of the steps that were counted were left out.
    """

    finite: Value
    inverse: Value
    skipped: Value


def guarded(
    given: jax.Array,
    finite: jax.Array,
    inverse: jax.Array,
    skipped: jax.Array,
    *arrays: jax.Array,
    numbers: Callable[..., tuple[Any, ...]],
    rule: Rule,
    statics: tuple[tuple[str, Any], ...],
    layout: Layout,
) -> tuple[jax.Array, ...]:
    """`many`, or nothing where a gradient overflowed; what the count of updates decides is worked out here.

    Args:
      given: rescale_grad first, then each weight's learning rate, weight decay and count of steps.
      finite: whether the step is done.
      inverse: what the gradients are multiplied by besides.
      skipped: how many of the steps that were counted were left out.
      arrays, rule, statics, layout: as `many` takes them.
      numbers: an optimizer's `numbers`.
    """
    n = len(layout)
    out = [given[0] * inverse.astype(given.dtype)]
    for i in range(n):
        lr, wd, t = (given[1 + 3 * i + k].astype("float64") for k in range(3))
        out.extend(numbers(lr, wd, t - skipped))
    packed = jnp.stack([jnp.asarray(x).astype(given.dtype) for x in out])
    made = many(packed, *arrays, rule=rule, statics=statics, layout=layout)
    return tuple(
        jnp.where(finite, new, old)
        for new, old in zip(made, (*arrays[:n], *arrays[2 * n :]), strict=True)
    )


class _Rule(Row):
    """The update of several weights, which fails where a gradient or state is not of its weight's shape."""

    __slots__ = ()

    def advice(self, attrs: Any, shapes: Any, text: str) -> tuple[str, bool]:
        if not text.startswith("tuple index out of range") and "incompatible shapes" not in text:
            return text, False
        return (
            "a gradient has the shape of its weight, and so have the states, which create_state(index, weight) makes",
            True,
        )


@cache
def row(name: str, numbers: tuple[str, ...] = ()) -> Row:
    """What the update of an optimizer with these hyperparameters is a call of."""
    of_one = Row(name, alone)
    of_one.lasting = True  # its traces serve the next process, where the rule is one of ours
    rules = Rules(partial(each, of_one), _no_gradient)
    return _Rule(name, many, ragged=False, numbers=numbers, direct=rules)


def _no_gradient(*_: Any, **__: Any) -> None:
    """Updates are no part of what autograd differentiates."""


@cache
def guarded_row(name: str) -> Row:
    """What an update that may be left out is a call of."""
    return Row(name, guarded, ragged=False)


@dataclass(frozen=True)
class PureUpdate:
    """One update of several weights as a pure function (:func:`many`); hashable, so that a program is kept by it."""

    rule: Rule
    statics: tuple[tuple[str, Any], ...]
    layout: Layout

    def __call__(self, numbers: jax.Array, *arrays: jax.Array) -> tuple[jax.Array, ...]:
        """All new weights, then all new states, from all weights, then all gradients, then all states."""
        return many(numbers, *arrays, rule=self.rule, statics=self.statics, layout=self.layout)
