"""The trainer: an optimizer applied to a network's parameters."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mxjax import errors, settings
from mxjax import optimizer as opt
from mxjax.core import flush_thread, local, span
from mxjax.core.hooks import tell_step
from mxjax.errors import MXNetAssertionError, MXNetError, MXNetTypeError, MXNetValueError
from mxjax.files.atomic import read_whole, write_whole
from mxjax.modes import generation

from .bases.pickling import CopiedTrainer
from .graphs.static_alloc import takes_zeros
from .parameter import Parameter

__all__ = ["StaleGradientError", "Trainer"]


_steps_per_call = settings.snapshot("engine.steps_per_call")


class StaleGradientError(MXNetError, UserWarning):
    """A gradient was to be used that no backward pass has written since the last step."""


class Trainer(CopiedTrainer):
    """Applies an optimizer to parameters, after their gradients are summed over all devices.

    A step ends what was recorded: forward, backward and update run as one program where nothing
    asked for a value in between.

    Args:
      params: what `net.collect_params()` gives, or a list of parameters.
      optimizer: a registered name, an `mx.optimizer.Optimizer`, or any optax transformation.
      optimizer_params: arguments for an optimizer given by name.
      kvstore: a name for `mx.kvstore.create`, a kvstore, or None; used with several devices. Or a mesh
        (`mx.mesh`, `jax.sharding.Mesh`) or a `jax.sharding.NamedSharding`: parameters that are not on the
        mesh yet go there, cut as their own `sharding` or the given one says where that fits, else whole; each
        step is then one program that all devices of the mesh run.
      compression_params: handed to the kvstore.
      update_on_kvstore: let the kvstore update the weights, the optimizer's states shared out between the
        devices, or the processes of ``'dist_sync'``; by default it does with several devices of one process, as in
        MXNet, and processes update their own. On a mesh: cut the states of whole weights.

    Raises:
      ValueError: `params` holds something else than parameters.

    >>> import mxjax as mx
    >>> net = mx.gluon.nn.Dense(1, in_units=2)
    >>> net.initialize()
    >>> trainer = Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    >>> with mx.autograd.record():
    ...     loss = net(mx.np.ones((4, 2))).sum()
    >>> loss.backward()
    >>> trainer.step(batch_size=4)
    """

    def __init__(
        self, params: Any, optimizer: Any, optimizer_params: dict[str, Any] | None = None,
        kvstore: Any = "device", compression_params: dict[str, Any] | None = None,
        update_on_kvstore: bool | None = None,
    ):  # fmt: skip
        if not isinstance(optimizer_params, Mapping | None):
            raise MXNetTypeError(
                f"optimizer_params={optimizer_params!r}: a dictionary of the optimizer's options is expected, as in "
                "Trainer(params, 'sgd', {'learning_rate': 0.1})"
            )
        self._params = _unique(params)
        self._sparse_weights = any(p._stype != "default" for p in self._params)
        self._sparse_grads = any(p._grad_stype != "default" for p in self._params)
        kvstore, mesh = self._on_mesh(kvstore)
        self._compression_params = compression_params
        self._devices = self._check_devices()
        self._init_optimizer(optimizer, optimizer_params or {})
        if mesh is not None and update_on_kvstore:
            for updater in self._updaters:
                updater.mesh = mesh
        self._scale = self._optimizer.rescale_grad
        self._ignores_stale = False
        self._amp_loss_scaler: Any = None
        self._amp_scaled = False  # whether the gradients are those of a scaled loss
        if update_on_kvstore and self._optimizer.aggregate_num > 1 and generation() != 1:
            raise MXNetValueError(
                "Cannot set update_on_kvstore=True when optimizer.aggregate_num > 1."
            )
        self._steps = 0
        self._kvstore_params = {"kvstore": kvstore, "update_on_kvstore": update_on_kvstore}
        self._reset_kvstore()
        for p in self._params:
            p._set_trainer(self)

    # -- making ------------------------------------------------------------------------------------

    def _on_mesh(self, kvstore: Any) -> tuple[Any, Any]:
        """The kvstore and the mesh: with a mesh the parameters lie there, and no store is needed."""
        if (
            kvstore is None
            or isinstance(kvstore, str)
            or not any(hasattr(kvstore, what) for what in ("fsdp", "axis_names", "device_set"))
        ):
            return kvstore, None
        from mxjax.sharding import lay_params

        return None, lay_params(self._params, kvstore)

    # MXNet's names of these.
    _contains_sparse_weight = property(lambda self: self._sparse_weights)
    _contains_sparse_grad = property(lambda self: self._sparse_grads)
    _contexts = property(lambda self: self._devices)

    @property
    def _param2idx(self) -> dict[str, int]:
        """The place of each parameter, by its name."""
        names = (p.name if p._long else p._structure or p.name for p in self._params)
        return {name: place for place, name in enumerate(names)}

    def _check_contexts(self) -> list[Any]:
        return self._check_devices()

    def _check_devices(self) -> list[Any]:
        devices: list[Any] = []
        for param in self._params:
            own = param.list_device()
            if devices and own != devices:
                raise MXNetAssertionError(
                    "All Parameters must be initialized on the same set of devices, but Parameter "
                    f"{param.name} is initialized on {own} while previous Parameters are "
                    f"initialized on {devices}."
                )
            devices = own
        return devices

    def _init_optimizer(self, optimizer: Any, optimizer_params: dict[str, Any]) -> None:
        """Make the optimizer and an updater for each device. As in MXNet, subclasses may do it in their own way."""
        self._optimizer = self._make_optimizer(optimizer, optimizer_params)
        self._updaters = [opt.get_updater(self._optimizer) for _ in self._devices]

    def _make_optimizer(self, optimizer: Any, arguments: dict[str, Any]) -> opt.Optimizer:
        by_index = dict(enumerate(self._params))
        if isinstance(optimizer, str):
            return opt.create(optimizer, param_dict=by_index, **arguments)
        if isinstance(optimizer, opt.Optimizer):
            if arguments:
                raise MXNetAssertionError(
                    "optimizer_params must be None if optimizer is an instance of Optimizer "
                    "instead of str"
                )
            # Shared with the parameters: changing their lr_mult later takes effect.
            optimizer.param_dict = by_index
            return optimizer
        if hasattr(optimizer, "init") and hasattr(optimizer, "update"):
            return opt.Optax(optimizer, param_dict=by_index, **arguments)
        raise MXNetTypeError(
            "optimizer must be a name, an mx.optimizer.Optimizer or an optax transformation, got "
            f"{optimizer!r}"
        )

    # -- the kvstore -------------------------------------------------------------------------------

    def _reset_kvstore(self) -> None:
        if getattr(self, "_kvstore", None) is not None and _between_processes(self._kvstore.type):
            raise MXNetError("Cannot reset distributed KVStore.")
        self._kv_initialized = False
        self._kvstore: Any = None
        self._distributed = False
        self._update_on_kvstore: bool | None = None
        self._params_to_init = list(self._params)

    def _ready(self) -> None:
        """Make the kvstore, and give it the parameters, once each."""
        if not self._kv_initialized:
            self._init_kvstore()
        if self._params_to_init:
            self._init_params()

    def _init_kvstore(self) -> None:
        wanted = self._kvstore_params["kvstore"]
        on_kvstore = self._kvstore_params["update_on_kvstore"]
        if self._sparse_weights:
            if on_kvstore is False:
                raise MXNetValueError(
                    "Cannot set update_on_kvstore=False when sparse weights are present."
                )
            on_kvstore = True
        elif self._sparse_grads and on_kvstore is None:
            on_kvstore = isinstance(wanted, str) and _between_processes(wanted)
        asked = on_kvstore is not None
        if not asked and self._optimizer.aggregate_num <= 1:
            on_kvstore = settings.get("comm.update_on_kvstore")
            if on_kvstore is None:
                on_kvstore = self._kvstore_updates(wanted)
        if isinstance(wanted, str):
            wanted = self._make_kvstore(wanted)
        if wanted is not None:
            self._kvstore = _as_store(wanted)
            self._distributed = _between_processes(self._kvstore.type)
            if self._distributed and "async" in self._kvstore.type:
                if on_kvstore is False:
                    raise MXNetValueError(
                        "Please set update_on_kvstore=True when training in async mode."
                    )
                on_kvstore = True
            if on_kvstore and not asked and not self._kvstore.is_capable("optimizer"):
                on_kvstore = False
            if on_kvstore and not self._kvstore.is_capable("optimizer"):
                raise MXNetValueError(
                    "Please set update_on_kvstore=False when training with "
                    f"{type(wanted).__name__}: it runs no optimizers"
                )
            if self._compression_params:
                self._kvstore.set_gradient_compression(self._compression_params)
            self._update_on_kvstore = bool(on_kvstore)
            if on_kvstore:
                self._kvstore.set_optimizer(self._optimizer)
        self._kv_initialized = True

    def _kvstore_updates(self, wanted: Any) -> bool:
        """Whether the store updates the weights where nobody says: as MXNet decides, within one process.

        Not where ``'local'`` would have to hold an array of more than 16 million numbers. Between processes each
        updates its own weights, which sends less.
        """
        name = wanted if isinstance(wanted, str) else str(getattr(wanted, "type", ""))
        if wanted is None:
            return False
        if _between_processes(name):
            return "async" in name  # its servers update
        big = max((int(np.prod(p.shape)) for p in self._params if p.shape), default=0) > 2**24
        return not (wanted == "local" and big)

    def _make_kvstore(self, name: str) -> Any:
        """The store of this name; one device on its own needs none."""
        if len(self._devices) < 2 and not _between_processes(name) and not self._sparse_weights:
            return None
        from mxjax import kvstore

        return kvstore.create(name)

    def _init_params(self) -> None:
        waiting = []
        if self._kvstore is not None:
            for index, param in enumerate(self._params):
                if not any(param is p for p in self._params_to_init):
                    continue
                if param._arrays is None:  # its shape is not known yet
                    waiting.append(param)
                else:
                    arrays = list(param._all())
                    if param._stype == "default":
                        self._kvstore.broadcast(index, arrays[0], arrays)
                    else:
                        self._kvstore.init(index, arrays[0])
        self._params_to_init = waiting
        if self._kvstore is not None:
            self._kvstore.expect(
                [i for i, p in enumerate(self._params) if any(p is w for w in waiting)]
            )

    # -- learning rate -----------------------------------------------------------------------------

    @property
    def optimizer(self) -> opt.Optimizer:
        """The optimizer."""
        return self._optimizer

    @property
    def updaters(self) -> list[opt.Updater]:
        """One updater per device, with its states; used when the kvstore does not update."""
        return self._updaters

    @property
    def learning_rate(self) -> float:
        """The current learning rate."""
        return self._optimizer.learning_rate

    def set_learning_rate(self, lr: float) -> None:
        """Set the learning rate; with a scheduler this is an error, change the scheduler.

        Changing it compiles nothing anew.
        """
        self._optimizer.set_learning_rate(lr)

    # -- steps -------------------------------------------------------------------------------------

    def _over(self, batch_size: float) -> float:
        try:
            return self._scale / batch_size  # type: ignore[no-any-return]
        except (TypeError, ZeroDivisionError) as error:
            raise errors.like(
                error,
                f"batch_size is the number that gradients are divided by, and not 0, got {batch_size!r}; 1 where the "
                "loss is a mean already",
            ) from None

    def _check_and_rescale_grad(self, scale: float) -> None:
        if (
            self._update_on_kvstore
            and self._distributed
            and self._kv_initialized
            and self._optimizer.rescale_grad != scale
        ):
            raise UserWarning(
                "Possible change in the `batch_size` from previous `step` detected. Optimizer "
                "gradient normalizing factor will not change w.r.t new batch_size when "
                "update_on_kvstore=True and when distributed kvstore is used."
            )
        self._optimizer.rescale_grad = scale

    def step(self, batch_size: float, ignore_stale_grad: bool = False) -> None:
        """Sum the gradients over devices, then update: after `backward`, outside `record`.

        Args:
          batch_size: gradients are divided by it; 1 where the loss is a mean already.
          ignore_stale_grad: leave parameters alone whose gradient no backward pass has written
            since the last step, instead of raising.

        Raises:
          UserWarning: such a parameter was found.
        """
        state = local.st
        try:
            state.steady = True  # whatever runs here is compiled: it comes back with the next step
            with span("step", "Trainer.step"):
                self._check_and_rescale_grad(self._over(batch_size))
                self._ready()
                self._ignores_stale = ignore_stale_grad
                self._allreduce_grads()
                self._update(ignore_stale_grad)
                self._steps += 1
                if self._steps % _steps_per_call() == 0:
                    flush_thread()
                tell_step()
            state.steady = False
        except BaseException:
            state.steady = False
            raise

    def allreduce_grads(self) -> None:
        """Sum the gradients over devices only, to look at or change them before `update`."""
        self._ready()
        self._refuse_on_kvstore("allreduce_grads")
        self._ignores_stale = True
        self._allreduce_grads()

    def update(self, batch_size: float, ignore_stale_grad: bool = False) -> None:
        """Update only: after `allreduce_grads`. Arguments as for `step`."""
        self._ready()
        self._refuse_on_kvstore("update")
        self._check_and_rescale_grad(self._over(batch_size))
        self._update(ignore_stale_grad)
        flush_thread()

    def _refuse_on_kvstore(self, what: str) -> None:
        if self._kvstore is not None and self._update_on_kvstore:
            raise MXNetAssertionError(
                f"{what}() when parameters are updated on kvstore is not supported. Try setting "
                "`update_on_kvstore` to False when creating trainer."
            )

    def _trained(self) -> list[tuple[int, Parameter]]:
        return [(i, p) for i, p in enumerate(self._params) if p.grad_req != "null"]

    def _allreduce_grads(self) -> None:
        """Sum the gradients over devices. As in MXNet, subclasses may sum in their own way, with a store or without."""
        if self._kvstore is not None:
            with span("collective", "Trainer.allreduce_grads"):
                self._hand_over(self._ignores_stale)

    def _hand_over(self, ignore_stale_grad: bool) -> None:
        trained = self._trained()
        if self._update_on_kvstore:
            if not ignore_stale_grad:  # before anything is changed
                for _, param in trained:
                    for array in param._all():
                        if not array._fresh_grad and not takes_zeros(param, array):
                            raise _stale(param, array)
            for _, param in trained:
                for array in param._all():
                    array._fresh_grad = False
            trained = self._push_rows(trained)
            weights = [param.list_data() for _, param in trained]
            self._kvstore.pushpull_all(
                [i for i, _ in trained], [p.list_grad() for _, p in trained], weights
            )
            return
        trained = self._push_rows(trained)
        grads = [param.list_grad() for _, param in trained]
        keys = [i for i, _ in trained]
        last = len(self._tail())
        for part in (slice(last, None), slice(0, last)) if last else (slice(None),):
            self._kvstore.pushpull_all(keys[part], grads[part], grads[part])
            if last:
                self._kvstore.flush()

    def _push_rows(self, trained: list[tuple[int, Parameter]]) -> list[tuple[int, Parameter]]:
        """Hand sparse gradients to the store, and take sums or dense weights from it; gives the other parameters."""
        for i, param in trained if self._sparse_grads else ():
            if param._grad_stype == "default":
                continue
            grads = param.list_grad()
            self._kvstore.push(i, grads, priority=-i)
            if param._stype == "default":
                outs = param.list_data() if self._update_on_kvstore else grads
                self._kvstore.pull(i, outs, priority=-i, ignore_sparse=False)
        return (
            [(i, p) for i, p in trained if p._grad_stype == "default"]
            if self._sparse_grads
            else trained
        )

    def _row_sparse_pull(
        self, parameter: Parameter, out: Any, row_id: Any, full_idx: bool = False
    ) -> None:
        """Write rows of a sparse parameter, as the store has them, to arrays; subclasses override it."""
        self._ready()
        index = next(i for i, p in enumerate(self._params) if p is parameter)
        self._kvstore.row_sparse_pull(index, out=out, row_ids=row_id, priority=-index)

    def _tail(self) -> frozenset[int]:
        """The first parameters, whose gradients are ready last, where these are summed by themselves.

        They hold 3.46 % of the bytes, as the last part of Ascend's division does.
        """
        if (
            self._kvstore is None
            or not self._kvstore.gathers
            or not settings.get("comm.tail_overlap")
        ):
            return frozenset()
        sizes = {
            i: int(np.prod(param.shape or ())) * np.dtype(param.dtype).itemsize
            for i, param in self._trained()
        }
        chosen: list[int] = []
        for i in list(sizes)[:-1]:
            if sum(sizes[k] for k in chosen) >= 0.0346 * sum(sizes.values()):
                break
            chosen.append(i)
        return frozenset(chosen)

    def _update(self, ignore_stale_grad: bool = False) -> None:
        if self._kvstore is not None and self._update_on_kvstore:
            return
        guards = None
        if self._amp_loss_scaler is not None:
            guards = self._guards()
            if guards is None:
                return
        tail = self._tail()
        kinds = (False, True) if tail else (False,)
        updates: dict[bool, list[tuple[list[Any], list[Any], list[Any]]]] = {
            last: [([], [], []) for _ in self._updaters] for last in kinds
        }
        for i, param in enumerate(self._params):
            if param.grad_req == "null":
                continue
            of_devices = updates[i in tail]
            for (indices, grads, weights), array in zip(of_devices, param._all(), strict=True):
                var = array._var
                if (var is None or not var.fresh) and not takes_zeros(param, array):
                    if ignore_stale_grad:
                        continue
                    raise _stale(param, array)
                indices.append(i)
                grads.append(var.grad)
                weights.append(array)
        for last in kinds:
            for k, (updater, (indices, grads, weights)) in enumerate(
                zip(self._updaters, updates[last], strict=True)
            ):
                if indices:
                    try:
                        self._optimizer.guard = guards[k] if guards else None
                        updater(indices, grads, weights)
                        self._optimizer.guard = None
                    except BaseException:
                        self._optimizer.guard = None
                        raise
                    for array in weights:
                        array._fresh_grad = False
            if tail and not last:
                flush_thread()  # what needs the second sum comes behind it

    # -- losses that are scaled --------------------------------------------------------------------

    def scale_losses_by(self, scaler: Any) -> None:
        """Let `amp.scale_loss` scale this trainer's losses, and leave steps out whose gradients overflow.

        Args:
          scaler: an `amp.LossScaler`.

        Raises:
          AssertionError: the kvstore updates the weights, which cannot leave a step out.
        """
        on_kvstore = (
            self._update_on_kvstore
            if self._kv_initialized
            else self._kvstore_params["update_on_kvstore"]
        )
        if on_kvstore:
            raise MXNetAssertionError(
                "with update_on_kvstore=True no step can be left out when a gradient overflows: make the trainer with "
                "update_on_kvstore=False"
            )
        self._kvstore_params["update_on_kvstore"] = False
        self._amp_loss_scaler = scaler

    @property
    def amp_loss_scale(self) -> float:
        """The current scale of the loss (`amp.scale_loss`); reading it waits for the last step.

        Raises:
          AssertionError: `amp.init_trainer` was not called.
        """
        if self._amp_loss_scaler is None:
            raise MXNetAssertionError(
                "Loss scaler is not initialized, did you forget to call amp.init_trainer()?"
            )
        return self._amp_loss_scaler.loss_scale

    def _guards(self) -> list[Any] | None:
        """What the program decides about the step on each device; None: it is left out, as the host found."""
        scaler, scaled = self._amp_loss_scaler, self._amp_scaled
        self._amp_scaled = False
        if not self._optimizer.guardable:  # its updates are steps of Python
            scale = scaler.loss_scale
            if scaler.has_overflow(self._params):
                return None
            if scaled:
                self._optimizer.rescale_grad /= scale
            return []
        trained = [p.list_grad() for _, p in self._trained()]
        return [scaler.check(grads, scaled) for grads in zip(*trained, strict=True)]

    def place(self, where: str) -> None:
        """Let the optimizer's states, present and future, live in ``device`` or ``pinned_host`` memory.

        Raises:
          ValueError: another memory.
          DeviceError: the backend cannot reach it.
        """
        self._ready()
        for keeper in [self._kvstore] if self._update_on_kvstore else self._updaters:
            keeper.place(where)

    # -- states on disk ----------------------------------------------------------------------------

    @property
    def saves_together(self) -> bool:
        """Whether all processes of the job have to call `save_states`."""
        self._ready()
        return bool(self._update_on_kvstore and self._kvstore.saves_together)

    def save_states(self, fname: str | os.PathLike[str]) -> None:
        """Write the optimizer and its states (momenta, counts) to a file, all of it or nothing.

        The parameters' own multipliers are not part of it. With `update_on_kvstore` in a job of several processes
        all of them make this call, because each has parts of the states; rank 0 writes.

        Raises:
          OSError: it cannot be written; what was there stays.
        """
        self._ready()
        if self._update_on_kvstore:
            if self._params_to_init:
                raise MXNetAssertionError(
                    "Cannot save trainer states when some parameters are not yet initialized in "
                    "kvstore."
                )
            self._kvstore.save_optimizer_states(fname, dump_optimizer=True)
            return
        states = self._updaters[0].get_states(dump_optimizer=True)
        write_whole(fname, lambda file: file.write(states))

    def load_states(self, fname: str | os.PathLike[str]) -> None:
        """Read what `save_states` wrote here or in MXNet; nothing in the file is executed.

        It does not matter how many devices or processes there were. Every process reads the file.
        """
        self._ready()
        if self._update_on_kvstore:
            self._kvstore.load_optimizer_states(fname)
            self._optimizer = self._kvstore.get_optimizer() or self._optimizer
        else:
            states = read_whole(fname)
            for updater in self._updaters:
                updater.set_states(states)
                updater.optimizer = self._updaters[0].optimizer
            self._optimizer = self._updaters[0].optimizer
        self._optimizer.param_dict = dict(enumerate(self._params))


def _as_store(store: Any) -> Any:
    from mxjax.kvstore import base

    return base.as_store(store)


def _between_processes(name: str) -> bool:
    from mxjax.kvstore import base

    return base.between_processes(name)


def _unique(params: Any) -> list[Parameter]:
    """The parameters in the order of their names, shared ones once."""
    if isinstance(params, dict):
        params = [params[name] for name in sorted(params)]
    if not isinstance(params, Sequence):
        raise MXNetValueError(
            f"First argument must be a list or dict of Parameters, got {type(params)}."
            + (
                " A block has them: Trainer(net.collect_params(), ...)"
                if hasattr(params, "collect_params")
                else ""
            )
        )
    for param in params:
        if not isinstance(param, Parameter):
            raise MXNetValueError(
                f"First argument must be a list or dict of Parameters, got list of {type(param)}."
            )
    return list({id(param): param for param in params}.values())


def _stale(param: Parameter, array: Any) -> StaleGradientError:
    return StaleGradientError(
        f"Gradient of Parameter `{param.name}` on device {array.device} has not been updated by "
        "backward since last `step`. This could mean a bug in your model that made it only use a "
        "subset of the Parameters (Blocks) for this iteration. If you are intentionally only using "
        "a subset, call step with ignore_stale_grad=True to suppress this warning and skip "
        "updating of Parameters with stale gradient"
    )
