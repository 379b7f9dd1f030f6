"""What all optimizers share: hyperparameters, counts, multipliers, one recorded call per step."""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import is_
from typing import Any, ClassVar, NamedTuple, Self

import jax
import numpy as np

from mxjax.array.handle import store
from mxjax.core import (
    Call,
    MeshDevice,
    aval_of,
    concrete,
    local,
    memory,
    record,
    spread,
)
from mxjax.core.compile.compiler import wide_types
from mxjax.core.placement.ahead import Ahead
from mxjax.display.elsewhere import called_here
from mxjax.display.reprs import Shown, arguments
from mxjax.errors import MXNetNotImplementedError, MXNetTypeError, MXNetValueError, did_you_mean
from mxjax.modes import generation
from mxjax.util import is_np_array

from . import moving, rows, rules
from .rules import not_taped, whole_or_not
from .sending import counted, numbers_of

__all__ = ["Optimizer", "create", "register"]

_LOW_PRECISION = ("float16", "bfloat16")


def flatten(state: Any) -> list[Any]:
    """The arrays of a state in order; None holds none."""
    if state is None:
        return []
    if isinstance(state, (tuple, list)):
        return [leaf for item in state for leaf in flatten(item)]
    return [state]


def memories_of(arrays: Sequence[Any]) -> tuple[str | None, ...] | None:
    """The memories these arrays live in; None where that is the device's own for all of them."""
    found = tuple([a._aval.memory for a in arrays])
    return found if any(found) else None


class _Plan(NamedTuple):
    """What stays the same from step to step: the call, and the states as a flat list."""

    fixed: tuple[Any, ...]
    indices: list[Any]
    weights: list[Any]
    states: list[Any]
    leaves: list[Any]
    call: Call
    dtype: Any
    memories: tuple[str | None, ...] | None  # where results go, unless all stay on the device
    moving: tuple[str, ...]  # the hyperparameters that are inputs

    def fits(
        self, fixed: tuple[Any, ...], indices: Sequence[Any], weights: Sequence[Any],
        states: Sequence[Any],
    ) -> bool:  # fmt: skip
        return (
            self.fixed == fixed
            and self.indices == list(indices)
            and all(map(is_, self.weights, weights))
            and all(map(is_, self.states, states))
        )


def _dtype_of(weight: Any) -> str:
    return np.dtype(weight.dtype).name  # an nd array's dtype is a class


def _check_number(name: str, value: Any) -> None:
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise MXNetTypeError(f"{name} is a number, got {value!r} ({type(value).__name__})")


def _check_numbers(cls: type[Optimizer], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse what is no number where an optimizer of ours takes one: later the message would be of an operator's."""
    for made in {cls.__init__, Optimizer.__init__}:
        if not str(made.__module__).startswith("mxjax."):
            continue
        params = list(inspect.signature(made).parameters.values())[1:]
        given = (
            {p.name: a for p, a in zip(params, args, strict=False)} if made is cls.__init__ else {}
        )
        given |= kwargs
        for p in params:
            if p.name in given and str(p.annotation) in ("float", "float | None"):
                if given[p.name] is not None or p.annotation == "float":
                    _check_number(p.name, given[p.name])


class Optimizer(Shown):
    """The base of all optimizers: hyperparameters here, the update itself in a pure rule.

    Args:
      rescale_grad: factor on every gradient; `gluon.Trainer` sets it to 1 / batch size.
      param_idx2name: names of the indices, for multipliers given by name.
      wd: weight decay.
      clip_gradient: gradients are clipped to [-clip_gradient, clip_gradient] after rescaling.
      learning_rate: the rate; where a scheduler is given too, the scheduler's base rate becomes it.
      lr_scheduler: see `mxjax.lr_scheduler`.
      sym: a Symbol whose `__lr_mult__` and `__wd_mult__` attributes are read.
      begin_num_update: the count of updates to start from.
      multi_precision: keep a float32 copy of 16-bit weights and update that.
      param_dict: index to `gluon.Parameter`, whose lr_mult and wd_mult count.
      aggregate_num, use_fused_step: MXNet's; a step is one call for all weights in any case.

    A new optimizer is a class with `create_state` and `step`, as in MXNet, or, faster, with
    `init` and `rule_fn`:

    >>> import jax.numpy as jnp
    >>> @Optimizer.register
    ... class Plain(Optimizer):
    ...     @staticmethod
    ...     def rule_fn(weight, grad, states, rescale, lr, wd):
    ...         return weight - lr * rescale * grad, states
    >>> new, _ = Plain().rule(jnp.ones(2), jnp.ones(2), (), lr=0.25, wd=0.0, t=1)
    >>> new.tolist()
    [0.75, 0.75]
    """

    opt_registry: ClassVar[dict[str, type[Optimizer]]] = {}

    rule_fn: ClassVar[rules.Rule | None] = None
    _statics: ClassVar[tuple[str, ...]] = ()
    #: Names that options had in MXNet 1, which the class takes too.
    _former: ClassVar[tuple[str, ...]] = ()
    #: How names of weights end that decay in MXNet 1, where nothing says another.
    _decaying: ClassVar[tuple[str, ...]] = ("_weight", "_gamma")
    _numbers_have_memory: bool = False
    _init_reads_weight: ClassVar[bool] = False
    #: Set while a trainer updates weights whose gradients may have overflowed.
    guard: rules.Guard | None = None
    _unshown = frozenset(("aggregate_num", "use_fused_step", "param_dict", "param_idx2name", "sym"))
    lazy_update = False
    rows_need_all = False  # a lazy update of some rows has to see all of them
    _of_copies = False  # set while a dense copy of a sparse weight is updated

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        if args or kwargs:
            _check_numbers(cls, args, kwargs)
        return super().__new__(cls)

    def __init__(
        self, rescale_grad: float = 1.0, param_idx2name: dict[Any, str] | None = None,
        wd: float = 0.0, clip_gradient: float | None = None, learning_rate: float | None = None,
        lr_scheduler: Any = None, sym: Any = None, begin_num_update: int = 0,
        multi_precision: bool = False, param_dict: dict[Any, Any] | None = None,
        aggregate_num: int | None = None, use_fused_step: bool | None = None,
    ):  # fmt: skip
        importlib.import_module(
            "optax"
        )  # the rules are put together from it: now, not within the first step
        self.rescale_grad = rescale_grad
        self.lr_scheduler = lr_scheduler
        if lr_scheduler is None:
            learning_rate = 0.01 if learning_rate is None else learning_rate
        elif not callable(lr_scheduler):
            raise MXNetTypeError(
                f"lr_scheduler is called with the number of updates and gives a learning rate, got {lr_scheduler!r}; "
                "as in lr_scheduler.FactorScheduler(step=100, factor=0.5)"
            )
        elif learning_rate is not None and hasattr(lr_scheduler, "base_lr"):
            if lr_scheduler.base_lr != learning_rate:
                warnings.warn(
                    "the base_lr of lr_scheduler has been overwritten by learning_rate",
                    UserWarning,
                    stacklevel=3,
                )
                lr_scheduler.base_lr = learning_rate
        self.lr = learning_rate
        self.wd = wd
        self.clip_gradient = clip_gradient
        self.multi_precision = multi_precision
        self.begin_num_update = begin_num_update
        self.num_update = begin_num_update
        self._all_index_update_counts: dict[int, dict[Any, int]] = {0: {}}
        self._index_update_count = self._all_index_update_counts[0]
        self.aggregate_num = 1 if aggregate_num is None else aggregate_num
        self.use_fused_step = bool(use_fused_step)
        self.allow_np_array = is_np_array()  # both kinds of arrays are taken in any case
        if not isinstance(param_idx2name, dict | None):
            raise MXNetTypeError(f"param_idx2name must be a dict, got {param_idx2name!r}")
        self.idx2name = dict(param_idx2name or {})
        self.sym_info = (sym.attr_dict(), sym.list_arguments()) if sym is not None else ()
        self.param_dict = param_dict or {}
        self.lr_mult: dict[Any, float] = {}
        self.wd_mult: dict[Any, float] = {}
        self.set_lr_mult({})
        self.set_wd_mult({})
        self._plans: dict[Any, _Plan] = {}  # by device
        self._moving = moving.Moving()
        self._ahead: dict[Any, Ahead] = {}  # what sends its numbers (sending.py)

    # -- by name -------------------------------------------------------------------------------

    @staticmethod
    def register(klass: type[Optimizer]) -> type[Optimizer]:
        """Enter a subclass under its name in lower case, for `create` and `gluon.Trainer`."""
        if not (isinstance(klass, type) and issubclass(klass, Optimizer)):
            raise MXNetTypeError(f"only subclasses of Optimizer can be registered, got {klass!r}")
        name = klass.__name__.lower()
        old = Optimizer.opt_registry.get(name)
        if old is not None and old is not klass:
            warnings.warn(
                f"New optimizer {klass.__module__}.{klass.__name__} is overriding existing "
                f"optimizer {old.__module__}.{old.__name__}",
                UserWarning,
                stacklevel=2,
            )
        Optimizer.opt_registry[name] = klass
        return klass

    @staticmethod
    def create_optimizer(name: str, **kwargs: Any) -> Optimizer:
        """An optimizer from its registered name, in any case.

        Args:
          name: the name of its class, in any case.

        Returns:
          an instance of the class that has this name.

        Raises:
          ValueError: no optimizer has this name.
          TypeError: it has no such option.

        >>> type(Optimizer.create_optimizer("Adam", learning_rate=0.1)).__name__
        'Adam'
        """
        klass = Optimizer.opt_registry.get(name.lower())
        if klass is None:
            known = Optimizer.opt_registry
            raise MXNetValueError(
                f"Cannot find optimizer {name}{did_you_mean(name, known)}; known: {', '.join(sorted(known))}"
            )
        options = [*arguments(klass), *klass._former]
        for option in kwargs:
            if option not in options:
                meant = called_here(option) or did_you_mean(option, options)
                raise MXNetTypeError(
                    f"optimizer {name} has no option {option!r}{meant}; it takes {', '.join(options)}"
                )
        return klass(**kwargs)

    # -- the pure half -------------------------------------------------------------------------

    def init(self, weight: jax.Array) -> rules.States:
        """The states of one weight, as JAX arrays (pure; `weight` may be a ShapeDtypeStruct)."""
        return ()

    def numbers(self, lr: Any, wd: Any, t: Any) -> tuple[Any, ...]:
        """What of the `t`-th update the rule needs: worked out on the host, in double precision."""
        return lr, wd

    def rule(
        self, weight: jax.Array, grad: jax.Array, states: rules.States, lr: Any, wd: Any, t: Any,
        rescale_grad: Any = 1.0,
    ) -> tuple[jax.Array, rules.States]:  # fmt: skip
        """One update as a pure function of JAX arrays, for use inside `jax.jit` or `lax.scan`.

        Args:
          weight, grad: arrays of one shape.
          states: what `init(weight)` gave, or the last update.
          lr, wd, t, rescale_grad: numbers or traced scalars; `t` counts from 1.

        Returns the new weight and the new states.
        """
        bound = partial(self._rule(), **dict(self._static_items()), **dict(self._own_statics(None)))
        return rules.one(bound, weight, grad, states, rescale_grad, *self.numbers(lr, wd, t))

    def pure_update(
        self, indices: Sequence[Any], weights: Sequence[Any], states: Sequence[int]
    ) -> rules.PureUpdate:
        """One update of several weights as a pure function of JAX arrays, which takes `count_updates` first.

        Args:
          indices: the weights'.
          weights: arrays, or what has their dtypes.
          states: how many arrays the states of each weight are, its float32 copy counted.

        Raises:
          NotImplementedError: the class has no pure rule.
        """
        layout = tuple(
            (count, self.has_master_copy(weight), self._own_statics(index))
            for index, weight, count in zip(indices, weights, states, strict=True)
        )
        return rules.PureUpdate(self._rule(), self._static_items(), layout)

    def _rule(self) -> rules.Rule:
        rule = type(self).rule_fn
        if rule is None:
            raise MXNetNotImplementedError(
                f"{type(self).__name__} must define rule_fn (a pure rule) or step"
            )
        return rule if generation() == 2 else rules.OF_MXNET1.get(rule, rule)

    def _kernel(self, value: float) -> float:
        """A number as MXNet's fused kernels take it: rounded to float32, so 1 - 0.999 shows it."""
        return float(np.float32(value)) if self.use_fused_step else value

    def _static_items(self) -> tuple[tuple[str, Any], ...]:
        taken = zip(self._statics, self._raw_statics(), strict=True)
        return tuple((k, self._kernel(v) if type(v) is float else v) for k, v in taken)

    def _raw_statics(self) -> list[Any]:
        return [getattr(self, name) for name in self._statics]

    def _fixed_statics(self) -> Sequence[Any]:
        """What of the hyperparameters is part of a program; one with a guard works out more of them than the rule."""
        values = self._raw_statics()
        return self._moving.fixed(self._statics, values) if self.guard is None else values

    def _own_statics(self, index: Any) -> tuple[tuple[str, Any], ...]:
        """Keyword arguments of the rule that differ from weight to weight."""
        return ()

    def _pack_state(self, leaves: tuple[Any, ...]) -> Any:
        """The states of one weight in the form MXNet shows them: nothing, an array, or a tuple."""
        if not leaves:
            return None
        return leaves[0] if len(leaves) == 1 else leaves

    # -- learning rate, multipliers, counts ----------------------------------------------------

    def _shown(self) -> dict[str, Any]:
        rate = {"learning_rate": self.lr} if self.lr_scheduler is None else {}
        return {**rate, **super()._shown()}

    @property
    def learning_rate(self) -> float:
        """The current learning rate: the scheduler's where there is one."""
        if self.lr_scheduler is not None:
            return self.lr_scheduler(self.num_update)
        assert self.lr is not None
        return self.lr

    def set_learning_rate(self, lr: float) -> None:
        """Set the learning rate; a scheduler, where there is one, must be changed instead.

        Raises:
          UserWarning: the optimizer has a scheduler (as in MXNet, raised as an error).
        """
        if self.lr_scheduler is not None:
            raise UserWarning(
                "LRScheduler of the optimizer has already been defined, so its learning rate is "
                "the scheduler's: change the scheduler, or make the optimizer without one"
            )
        _check_number("learning_rate", lr)
        self.lr = lr

    def set_lr_scale(self, args_lrscale: dict[Any, float]) -> None:
        """The name of `set_lr_mult` in versions before MXNet 1.0; as in MXNet 1.x it is refused.

        Raises:
          DeprecationWarning: always.
        """
        raise DeprecationWarning("set_lr_scale is no more: call set_lr_mult instead")

    def set_lr_mult(self, args_lr_mult: dict[Any, float]) -> None:
        """Factors on the learning rate by index or, with `param_idx2name`, by name."""
        self.lr_mult = {**self._from_symbol("__lr_mult__"), **args_lr_mult}

    def set_wd_mult(self, args_wd_mult: dict[Any, float]) -> None:
        """Factors on the weight decay by index or, with `param_idx2name`, by name; in MXNet 1 biases begin with 0."""
        free = [
            n
            for n in self.idx2name.values()
            if generation() == 1 and not n.endswith(self._decaying)
        ]
        self.wd_mult = {
            **dict.fromkeys(free, 0.0),
            **self._from_symbol("__wd_mult__"),
            **args_wd_mult,
        }

    def _from_symbol(self, key: str) -> dict[str, float]:
        if not self.sym_info:
            return {}
        attrs, names = self.sym_info
        return {name: float(attrs[name][key]) for name in names if key in attrs.get(name, {})}

    def _set_current_device(self, device_id: int) -> None:
        """Count the following updates for this device: every device has its own counts."""
        self._index_update_count = self._all_index_update_counts.setdefault(device_id, {})

    _set_current_context = _set_current_device  # MXNet 1's name

    def _update_count(self, index: Any) -> None:
        counts = self._index_update_count
        for idx in index if isinstance(index, (list, tuple)) else (index,):
            count = counts.get(idx, self.begin_num_update) + 1
            counts[idx] = count
            if count > self.num_update:
                self.num_update = count

    def _scaled(self, value: Any, indices: Iterable[Any], which: str) -> list[Any]:
        by_param, by_index, names = self.param_dict, getattr(self, which), self.idx2name
        if not by_param and not by_index:
            return [value for _ in indices]
        try:  # what a trainer has
            return [value * getattr(by_param[index], which) for index in indices]
        except KeyError:
            pass
        out = []
        for index in indices:
            if index in by_param:
                out.append(value * getattr(by_param[index], which))
            elif index in by_index:
                out.append(value * by_index[index])
            else:
                out.append(value * by_index.get(names.get(index), 1.0))
        return out

    def _get_lrs(self, indices: Sequence[Any]) -> list[Any]:
        return self._scaled(self.learning_rate, indices, "lr_mult")

    def _get_lr(self, index: Any) -> Any:
        return self._get_lrs([index])[0]

    def _get_wds(self, indices: Sequence[Any]) -> list[Any]:
        return self._scaled(self.wd, indices, "wd_mult")

    def _get_wd(self, index: Any) -> Any:
        return self._get_wds([index])[0]

    @property
    def update_counts(self) -> dict[int, dict[Any, int]]:
        """How often each weight was updated: by the number of the device, then by index."""
        return self._all_index_update_counts

    @update_counts.setter
    def update_counts(self, counts: dict[int, dict[Any, int]]) -> None:
        self._all_index_update_counts = counts
        self._set_current_device(0)

    def count_updates(
        self, indices: Sequence[Any], dtype: Any = np.float32, device_id: int | None = None
    ) -> np.ndarray:
        """Count an update of every index, and give what a pure update of them needs beside the arrays.

        Args:
          indices: the weights'.
          dtype: of the result: ``float64`` where a weight is.
          device_id: whose counts these are; None: those of the device that was counted for last.

        Returns one vector: rescale_grad, then the `numbers` of each index.
        """
        if device_id is not None:
            self._set_current_device(device_id)
        self._update_count(indices)
        return numbers_of(self, indices, dtype, self._get_lrs(indices))

    @property
    def guardable(self) -> bool:
        """Whether a program can leave an update out (`Guard`): a pure rule, whose numbers follow from the count."""
        own = "fused_step" if self.use_fused_step else "step"
        pure = self.rule_fn is not None and getattr(type(self), own) is getattr(Optimizer, own)
        return pure and not self._numbers_have_memory

    def updates_rows(self, index: Any, weight: Any) -> bool:
        """Whether a row_sparse gradient changes only its rows of the weight and of the states."""
        return self.lazy_update

    # -- states and updates of arrays -----------------------------------------------------------

    def create_state(self, index: Any, weight: Any) -> Any:
        """The states of one weight as arrays on its device: None, an array, or a tuple."""
        return self._pack_state(self._state_arrays(weight))

    def _state_arrays(self, weight: Any) -> tuple[Any, ...]:
        weight = rows.plain(weight)
        aval = weight._value().aval
        wrap = type(weight)._wrap
        with wide_types():
            if self._init_reads_weight:
                arrays = self.init(memory.on_device(weight._value()))
            else:  # zeros need no program of their own
                made = rules.state_shapes(self, aval.struct)
                arrays = tuple(
                    jax.device_put(np.zeros(m.shape, m.dtype), aval.sharding) for m in made
                )
        return tuple(wrap(concrete(a, shared=False, of=aval_of(a, aval.device))) for a in arrays)

    def has_master_copy(self, weight: Any) -> bool:
        """Whether the first state of this weight is a float32 copy of it."""
        return self.multi_precision and _dtype_of(weight) in _LOW_PRECISION

    def create_state_multi_precision(self, index: Any, weight: Any) -> Any:
        """`create_state`, with a float32 copy of 16-bit weights first where that was asked for."""
        if self.has_master_copy(weight):
            master = weight.astype("float32")
            return master, self.create_state(index, master)
        if _dtype_of(weight) in _LOW_PRECISION:
            warnings.warn(
                f"Accumulating with {_dtype_of(weight)} in optimizer can lead to poor accuracy or "
                "slow convergence. Consider using multi_precision=True option of the optimizer",
                UserWarning,
                stacklevel=2,
            )
        return self.create_state(index, weight)

    def update(self, indices: Any, weights: Any, grads: Any, states: Any) -> None:
        """Update weights and their states in place.

        Args:
          indices: the weights' indices, or one index (then the others are single, too).
          weights, grads: arrays of equal shapes, all on one device.
          states: what `create_state` gave for each.
        """
        if not isinstance(indices, (list, tuple)):
            indices, weights, grads, states = [indices], [weights], [grads], [states]
        if self.use_fused_step:
            self.fused_step(indices, weights, grads, states)
        else:
            self.step(indices, weights, grads, states)

    def step(
        self, indices: Sequence[Any], weights: Sequence[Any], grads: Sequence[Any],
        states: Sequence[Any],
    ) -> None:  # fmt: skip
        """The update of lists of arrays; a class without a pure rule defines this."""
        self._record_step(indices, weights, grads, states)

    def fused_step(
        self, indices: Sequence[Any], weights: Sequence[Any], grads: Sequence[Any],
        states: Sequence[Any],
    ) -> None:  # fmt: skip
        """As `step`, where `use_fused_step` is set."""
        self._record_step(indices, weights, grads, states)

    def update_multi_precision(self, indices: Any, weights: Any, grads: Any, states: Any) -> None:
        """`update` with states that `create_state_multi_precision` gave."""
        if not isinstance(indices, (list, tuple)):
            indices, weights, grads, states = [indices], [weights], [grads], [states]
        own = ("update", "fused_step" if self.use_fused_step else "step")
        masters = [self.has_master_copy(w) for w in weights]
        if not any(masters) or all(
            getattr(type(self), name) is getattr(Optimizer, name) for name in own
        ):
            self._call_update(indices, weights, grads, states)
            return
        # A class with its own step sees float32 weights, gradients and states.
        wide = [s[0] if m else w for w, s, m in zip(weights, states, masters, strict=True)]
        inner = [s[1] if m else s for s, m in zip(states, masters, strict=True)]
        wide_grads = [g.astype("float32") if m else g for g, m in zip(grads, masters, strict=True)]
        self._call_update(indices, wide, wide_grads, inner)
        for weight, master, m in zip(weights, wide, masters, strict=True):
            if m:
                weight[:] = master

    def _call_update(self, indices: list[Any], *arrays: list[Any]) -> None:
        """`update`; what programs of MXNet 1 define themselves takes one weight."""
        single = generation() == 1 and type(self).update is not Optimizer.update
        for args in zip(indices, *arrays, strict=True) if single else [(indices, *arrays)]:
            self.update(*args)

    def _record_step(self, indices: Any, weights: Any, grads: Any, states: Any) -> None:
        """Record the update of all weights as one call of `rules.many`, those of sparse ones apart."""
        if rows.made and any(x.stype != "default" for x in (*weights, *grads)):
            indices, weights, grads, states = rows.divided(self, indices, weights, grads, states)
            if not indices:
                return
        whole_or_not(self, weights[0], partial(self._record_dense, indices, weights, grads, states))

    def _record_dense(self, indices: Any, weights: Any, grads: Any, states: Any) -> None:
        device = weights[0]._value().aval.device
        guard = self.guard
        fixed = (guard is None, self.multi_precision, self.use_fused_step, *self._fixed_statics())
        plan = self._plans.get(device)
        if plan is None or not plan.fits(fixed, indices, weights, states):
            plan = self._plans[device] = self._plan(fixed, indices, weights, states)
        inputs = [counted(self, indices, plan.dtype, device), *(guard or ())]
        inputs += [x._value() for x in weights]
        inputs += [x._value() for x in grads]
        inputs += [x._value() for x in plan.leaves]
        if plan.moving:
            inputs += moving.inputs(plan.moving, self._static_items())
        if local.st.taping:
            with not_taped():
                outs = record(plan.call, inputs)
        else:
            outs = record(plan.call, inputs)
        del inputs  # a buffer that only the segment still refers to is overwritten in place
        if type(device) is MeshDevice:
            outs = spread(outs, [x._value().aval for x in (*weights, *plan.leaves)])
        if plan.memories is not None:
            outs = memory.moved(outs, plan.memories)
        store((*weights, *plan.leaves), outs)

    def _plan(
        self, fixed: tuple[Any, ...], indices: Any, weights: Sequence[Any], states: Sequence[Any]
    ) -> _Plan:
        own = [flatten(state) for state in states]
        pure = self.pure_update(indices, weights, [len(leaves) for leaves in own])
        statics, names = (pure.statics, ()) if self.guard else self._moving.divided(pure.statics)
        attrs = (("layout", pure.layout), ("rule", pure.rule), ("statics", statics))
        name = f"{type(self).__name__.lower()}_update"
        if self.guard is None:
            call = rules.row(name, self._statics).bind(attrs, varying=names)
        else:
            call = rules.guarded_row(name).bind((*attrs, ("numbers", self.numbers)))
        double = any(w.dtype == np.float64 for w in weights)
        flat = [x for o in own for x in o]
        return _Plan(
            fixed, list(indices), list(weights), list(states), flat, call,
            np.float64 if double else np.float32, memories_of((*weights, *flat)), names,
        )  # fmt: skip

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["param_dict"]  # the trainer's parameters are not part of the optimizer
        del state["_plans"], state["_moving"], state["_ahead"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "use_fused_step" not in state:  # of MXNet 1
            state = {**vars(type(self)()), **state}
        self.__dict__ = {
            **state,
            "param_dict": {},
            "_plans": {},
            "_moving": moving.Moving(),
            "_ahead": {},
        }


register = Optimizer.register


create: Callable[..., Optimizer] = Optimizer.create_optimizer
