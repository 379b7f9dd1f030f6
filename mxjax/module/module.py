"""A module of one symbol."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from .. import nd
from .. import optimizer as opt
from ..core import apart, flush_thread
from ..device import Device, current_device
from ..errors import MXNetError, MXNetTypeError, MXNetValueError
from ..files.atomic import read_whole, write_whole
from ..initializer import InitDesc
from ..io import DataDesc
from ..model import load_checkpoint
from . import steps
from .base_module import UNIFORM, Params, SymbolicModule, check_all_names, parse_data_desc, require
from .executor_group import DataParallelExecutorGroup

__all__ = ["Module"]


def _all_of(names: Sequence[str] | None) -> list[str]:
    return [] if names is None else list(names)


def no_decay_of_biases(optimizer: Any, names: Any) -> None:
    """Weight decay is for weights and gammas alone, as in MXNet 1.x, unless the symbol says otherwise."""
    plain = {name: 0.0 for name in names if not name.endswith(("_weight", "_gamma"))}
    optimizer.wd_mult = {**plain, **optimizer.wd_mult}


class Module(SymbolicModule):
    """Trains and runs a symbol, on one device or on several that share the batch.

    Args:
      symbol: the network, usually with a loss at its end.
      data_names, label_names: its arguments that are data and labels, in the iterator's order.
      logger: where `fit` reports.
      context: a device, or a list of them.
      work_load_list: what share of the batch each device takes.
      fixed_param_names: parameters that are not trained.
      state_names: arguments that are neither data nor trained: `set_states` sets them.
      group2ctxs: devices of groups of operators.
      compression_params: of gradients, for the kvstore.

    Raises:
      ValueError: the symbol has no argument of a name.

    >>> import mxjax as mx
    >>> net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc"), name="softmax")
    >>> module = Module(net)
    >>> module.fit(mx.io.NDArrayIter(mx.nd.ones((8, 3)), mx.nd.zeros((8,)), 4), num_epoch=1)
    >>> module.predict(mx.io.NDArrayIter(mx.nd.ones((8, 3)), batch_size=4)).shape
    (8, 2)
    """

    def __init__(
        self, symbol: Any, data_names: Sequence[str] | None = ("data",),
        label_names: Sequence[str] | None = ("softmax_label",), logger: Any = logging, context: Any = None,
        work_load_list: Sequence[float] | None = None, fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None, group2ctxs: Any = None,
        compression_params: dict[str, Any] | None = None,
    ):  # fmt: skip
        super().__init__(logger=logger)
        context = current_device() if context is None else context
        self._context = [context] if isinstance(context, Device) else list(context)
        self._work_load_list = (
            [1] * len(self._context) if work_load_list is None else list(work_load_list)
        )
        require(
            len(self._work_load_list) == len(self._context),
            "work_load_list needs a share for each device",
        )
        if not hasattr(symbol, "list_arguments"):
            raise MXNetTypeError(
                f"a Module computes a symbol, got {type(symbol).__name__}; blocks are trained by gluon.Trainer, and a "
                "hybridized one gives its symbol: net(mx.sym.var('data'))"
            )
        self._group2ctxs = group2ctxs
        self._symbol = symbol
        self._data_names, self._label_names = _all_of(data_names), _all_of(label_names)
        self._state_names, self._fixed_param_names = (
            _all_of(state_names),
            _all_of(fixed_param_names),
        )
        check_all_names(
            symbol, self._data_names, self._label_names, self._state_names, self._fixed_param_names
        )
        inputs = {*self._data_names, *self._label_names, *self._state_names}
        self._param_names = [name for name in symbol.list_arguments() if name not in inputs]
        self._aux_names = symbol.list_auxiliary_states()
        self._output_names = symbol.list_outputs()
        self._arg_params: Params | None = None
        self._aux_params: Params | None = None
        self._open_step = False  # an update was recorded and has not run
        self._compression_params = compression_params
        self._optimizer: Any = None
        self._kvstore: Any = None
        self._update_on_kvstore = False
        self._updater: Any = None
        self._preload_opt_states: str | None = None
        self._reset_bind()

    # -- files -------------------------------------------------------------------------------------

    @staticmethod
    def load(prefix: str, epoch: int, load_optimizer_states: bool = False, **kwargs: Any) -> Module:
        """A module of a checkpoint (`save_checkpoint`, `mx.model.save_checkpoint`), to be bound.

        Args:
          prefix, epoch: which checkpoint.
          load_optimizer_states: read the optimizer's states as well, when there is an optimizer.
          kwargs: further arguments of `Module`.
        """
        symbol, arg_params, aux_params = load_checkpoint(prefix, epoch)
        module = Module(symbol, **kwargs)
        module._arg_params = arg_params
        module._aux_params = aux_params
        module.params_initialized = True
        if load_optimizer_states:
            module._preload_opt_states = f"{prefix}-{epoch:04d}.states"
        return module

    def save_checkpoint(
        self,
        prefix: str,
        epoch: int,
        save_optimizer_states: bool = False,
        remove_amp_cast: bool = True,
    ) -> None:
        """Write the symbol, the parameters and, if asked, the optimizer's states (`prefix-0001.states`)."""
        self._symbol.save(f"{prefix}-symbol.json", remove_amp_cast=remove_amp_cast)
        name = f"{prefix}-{epoch:04d}.params"
        self.save_params(name)
        logging.info('Saved checkpoint to "%s"', name)
        if save_optimizer_states:
            name = f"{prefix}-{epoch:04d}.states"
            self.save_optimizer_states(name)
            logging.info('Saved optimizer state to "%s"', name)

    def save_optimizer_states(self, fname: str) -> None:
        """Write the optimizer's states to a file."""
        require(self.optimizer_initialized, "call init_optimizer before")
        if self._update_on_kvstore:
            self._kvstore.save_optimizer_states(fname)
        else:
            states = self._updater.get_states()
            write_whole(fname, lambda file: file.write(states))

    def load_optimizer_states(self, fname: str) -> None:
        """Read the optimizer's states from a file, of this package or of MXNet; nothing in it is executed."""
        require(self.optimizer_initialized, "call init_optimizer before")
        if self._update_on_kvstore:
            self._kvstore.load_optimizer_states(fname)
        else:
            self._updater.set_states(read_whole(fname))

    # -- what it is --------------------------------------------------------------------------------

    def _reset_bind(self) -> None:
        self.binded = False
        self._exec_group: Any = None
        self._data_shapes: list[DataDesc] = []
        self._label_shapes: list[DataDesc] | None = None

    @property
    def data_names(self) -> list[str]:
        return self._data_names

    @property
    def label_names(self) -> list[str]:
        """The names of the labels."""
        return self._label_names

    @property
    def output_names(self) -> list[str]:
        return self._output_names

    @property
    def data_shapes(self) -> list[DataDesc]:
        require(self.binded, "call bind before")
        return self._data_shapes

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        require(self.binded, "call bind before")
        return self._label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        require(self.binded, "call bind before")
        return self._exec_group.get_output_shapes()  # type: ignore[no-any-return]

    # -- parameters --------------------------------------------------------------------------------

    def get_params(self) -> tuple[Params, Params]:
        require(self.params_initialized, "call init_params before")
        if self._params_dirty:
            self._sync_params_from_devices()
        assert self._arg_params is not None and self._aux_params is not None
        return self._arg_params, self._aux_params

    def _sync_params_from_devices(self) -> None:
        self._exec_group.get_params(self._arg_params, self._aux_params)
        flush_thread()  # the copies are made now: the next step finds its weights in nobody else's hands
        self._params_dirty = False

    def _agree_on_params(self) -> tuple[Params, Params]:
        if len(self._context) > 1:
            return super()._agree_on_params()
        return self.get_params()

    def init_params(
        self, initializer: Any = UNIFORM, arg_params: Params | None = None, aux_params: Params | None = None,
        allow_missing: bool = False, force_init: bool = False, allow_extra: bool = False,
    ) -> None:  # fmt: skip
        if self.params_initialized and not force_init:
            warnings.warn(
                "Parameters already initialized and force_init=False. init_params call ignored.",
                stacklevel=2,
            )
            return
        require(self.binded, "call bind before initializing the parameters")
        assert self._arg_params is not None and self._aux_params is not None
        attributes = self._symbol.attr_dict()
        with apart():
            for mine, given in ((self._arg_params, arg_params), (self._aux_params, aux_params)):
                for name, array in sorted(mine.items()):
                    if given is not None and name in given:
                        if tuple(given[name].shape) != array.shape:
                            raise MXNetValueError(
                                f"{name}: Incompatible shapes, the module was bound with {array.shape}, got "
                                f"{tuple(given[name].shape)}"
                            )
                        if given[name] is not array:
                            given[name].astype(array.dtype).as_in_context(array.context).copyto(
                                array
                            )
                        continue
                    if given is not None and not allow_missing:
                        raise MXNetError(
                            f"{name} is not presented: give its value, or allow_missing=True"
                        )
                    if initializer is not None:
                        initializer(InitDesc(name, attributes.get(name)), array)
                    elif given is None:
                        raise MXNetError(
                            f"{name} has no value: give arg_params and aux_params, or an initializer"
                        )
        self.params_initialized = True
        self._params_dirty = False
        self._to_devices(self._arg_params, self._aux_params, allow_extra)

    def _to_devices(
        self, arg_params: Params, aux_params: Params, allow_extra: bool = False
    ) -> None:
        """Copy parameters to the devices; what that records is no part of the first step."""
        self._exec_group.set_params(arg_params, aux_params, allow_extra=allow_extra)
        flush_thread()

    @property
    def _behind(self) -> Any:
        return self._exec_group

    def _set_some(
        self, arg_params: Params, aux_params: Params, force_init: bool, allow_extra: bool
    ) -> None:
        self._to_devices(arg_params, aux_params, allow_extra)

    # -- set-up ------------------------------------------------------------------------------------

    def bind(
        self, data_shapes: Any, label_shapes: Any = None, for_training: bool = True, inputs_need_grad: bool = False,
        force_rebind: bool = False, shared_module: Any = None, grad_req: Any = "write",
    ) -> None:  # fmt: skip
        if force_rebind:
            if self.binded and self.params_initialized and self._params_dirty:
                self._sync_params_from_devices()
            self._reset_bind()
        if self.binded:
            self.logger.warning("Already bound, ignoring bind()")
            return
        require(for_training or not inputs_need_grad, "inputs_need_grad needs for_training=True")
        self.for_training = for_training
        self.inputs_need_grad = inputs_need_grad
        self._grad_req = grad_req
        self._data_shapes, self._label_shapes = parse_data_desc(
            self._data_names, self._label_names, data_shapes, label_shapes
        )
        shared_group = None
        if shared_module is not None:
            require(
                isinstance(shared_module, Module)
                and shared_module.binded
                and shared_module.params_initialized,
                "shared_module must be a Module that is bound and has its parameters initialized",
            )
            shared_group = shared_module._exec_group
            require(
                len(shared_group.execs) >= len(self._context),
                "shared_module is bound on too few devices",
            )
        with apart():
            self._exec_group = DataParallelExecutorGroup(
                self._symbol, self._context, self._work_load_list, self._data_shapes, self._label_shapes,
                self._param_names, for_training, inputs_need_grad, shared_group, logger=self.logger,
                fixed_param_names=self._fixed_param_names, grad_req=grad_req, state_names=self._state_names,
                group2ctxs=self._group2ctxs,
            )  # fmt: skip
        self.binded = True
        if shared_module is not None:
            self.params_initialized = True
            self._arg_params, self._aux_params = (
                shared_module._arg_params,
                shared_module._aux_params,
            )
            if shared_module.optimizer_initialized:
                self.borrow_optimizer(shared_module)
        elif self.params_initialized:
            assert self._arg_params is not None and self._aux_params is not None
            self._to_devices(self._arg_params, self._aux_params)
        else:
            group = self._exec_group
            with apart():
                self._arg_params = _zeros_like(self._param_names, group.param_arrays)
                self._aux_params = _zeros_like(self._aux_names, group.aux_arrays)

    def reshape(self, data_shapes: Any, label_shapes: Any = None) -> None:
        """Take batches of other shapes from now on; parameters stay."""
        require(self.binded, "call bind before")
        self._data_shapes, self._label_shapes = parse_data_desc(
            self._data_names, self._label_names, data_shapes, label_shapes
        )
        self._exec_group.reshape(self._data_shapes, self._label_shapes)

    def init_optimizer(
        self, kvstore: Any = "local", optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),), force_init: bool = False,
    ) -> None:  # fmt: skip
        self._ready()
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring...")
            return
        if self._params_dirty:
            self._sync_params_from_devices()
        assert self._arg_params is not None
        store, on_store = steps.create_kvstore(kvstore, len(self._context), self._arg_params)
        batch_size = self._exec_group.batch_size
        if store is not None and "dist" in store.type and "_sync" in store.type:
            batch_size *= store.num_workers
        count = len(self._context)
        names = dict(enumerate(self._exec_group.param_names))
        if not on_store:
            names = {i * count + k: name for k in range(count) for i, name in names.items()}
        optimizer = self._make_optimizer(optimizer, dict(optimizer_params), 1.0 / batch_size, names)
        self._optimizer = optimizer
        self._kvstore = store
        self._update_on_kvstore = on_store
        self._updater = None if on_store else opt.get_updater(optimizer)
        if store is not None:
            if self._compression_params:
                store.set_gradient_compression(self._compression_params)
            if on_store:
                store.set_optimizer(optimizer)
            group = self._exec_group
            steps.initialize_kvstore(store, group.param_arrays, self._arg_params, group.param_names)
            flush_thread()
        self.optimizer_initialized = True
        if self._preload_opt_states is not None:
            self.load_optimizer_states(self._preload_opt_states)
            self._preload_opt_states = None

    def _make_optimizer(
        self, optimizer: Any, arguments: dict[str, Any], rescale_grad: float, names: dict[int, str]
    ) -> Any:
        if isinstance(optimizer, str):
            arguments.setdefault("rescale_grad", rescale_grad)
            optimizer = opt.create(optimizer, sym=self._symbol, param_idx2name=names, **arguments)
            no_decay_of_biases(optimizer, self._exec_group.param_names)
            return optimizer
        require(
            isinstance(optimizer, opt.Optimizer),
            f"optimizer must be a name or an mx.optimizer.Optimizer, got {type(optimizer).__name__}",
        )
        if optimizer.rescale_grad != rescale_grad:
            warnings.warn(
                "Optimizer created manually outside Module but rescale_grad is not normalized to "
                f"1.0/batch_size/num_workers ({optimizer.rescale_grad} vs. {rescale_grad}). Is this intended?",
                stacklevel=3,
            )
        if not optimizer.idx2name:
            optimizer.idx2name = dict(names)
        return optimizer

    def borrow_optimizer(self, shared_module: Any) -> None:
        """Use the optimizer and the store of another module."""
        require(shared_module.optimizer_initialized, "the other module has no optimizer")
        self._optimizer = shared_module._optimizer
        self._kvstore = shared_module._kvstore
        self._update_on_kvstore = shared_module._update_on_kvstore
        self._updater = shared_module._updater
        self.optimizer_initialized = True

    # -- computations ------------------------------------------------------------------------------

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        self._ready()
        if self._open_step:
            self._end_step()
        batches = data_batch if isinstance(data_batch, list) else [data_batch]
        require(batches, "Encountered empty data batch")
        for batch in batches:
            if not hasattr(batch, "data"):
                raise MXNetTypeError(
                    f"forward takes a batch, mx.io.DataBatch([data], [label]), got {type(data_batch).__name__}"
                    f"{f' of {type(batch).__name__}' if isinstance(data_batch, list) else ''}"
                )
        shapes = [tuple(array.shape) for array in batches[0].data]
        for batch in batches[1:]:
            require(
                [tuple(array.shape) for array in batch.data] == shapes,
                "All data batches in a list need to have the same shape",
            )
        if isinstance(data_batch, list):
            shapes = [(len(batches) * shape[0], *shape[1:]) for shape in shapes]
        if shapes != [tuple(desc.shape) for desc in self._data_shapes]:
            self._follow(data_batch, shapes)
        self._exec_group.forward(data_batch, is_train)

    def _follow(self, data_batch: Any, shapes: list[tuple[int, ...]]) -> None:
        """Reshape to the shapes of a batch."""
        data = getattr(data_batch, "provide_data", None) or [
            DataDesc(desc.name, shape, desc.dtype, desc.layout)
            for desc, shape in zip(self._data_shapes, shapes, strict=False)  # more are left out
        ]
        labels = getattr(data_batch, "provide_label", None)
        if not labels and getattr(data_batch, "label", None):
            labels = [
                DataDesc(desc.name, tuple(array.shape), desc.dtype, desc.layout)
                for desc, array in zip(self._label_shapes or (), data_batch.label, strict=False)
            ]
        self.reshape(data, labels or None)

    def update(self) -> None:
        self._ready()
        require(self.optimizer_initialized, "call init_optimizer before")
        self._params_dirty = True
        group = self._exec_group
        updater = None if self._update_on_kvstore else self._updater
        steps.update(
            group.param_arrays, group.grad_arrays, group.param_names, updater, self._kvstore
        )
        # What comes before the next forward, the metric, runs with the step.
        self._open_step = True

    def _end_step(self) -> None:
        self._open_step = False
        steps.end_step()

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        self._exec_group.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Any) -> None:
        require(self.binded, "call bind before")
        self._exec_group.install_monitor(mon)

    def prepare(
        self, data_batch: Any, sparse_row_id_fn: Callable[[Any], Any] | None = None
    ) -> None:
        require(self.binded, "call bind before")
        if sparse_row_id_fn is None:
            return
        if self._kvstore is None or not self._update_on_kvstore:
            warnings.warn(
                "Parameters are not updated in the KVStore. No need to call sparse_row_id_fn.",
                stacklevel=2,
            )
            return
        rows = sparse_row_id_fn(data_batch)
        require(isinstance(rows, dict), "Expected dict output from sparse_row_id_fn")
        for name, row_ids in rows.items():
            place = self._exec_group.param_names.index(name)
            arrays = self._exec_group.param_arrays[place]
            if arrays[0].stype != "row_sparse":
                warnings.warn(
                    f"{name}.stype is not 'row_sparse'. No need to perform row_sparse_pull.",
                    UserWarning,
                    stacklevel=2,
                )
            else:
                self._kvstore.row_sparse_pull(name, arrays, row_ids=row_ids, priority=-place)


def _zeros_like(names: Sequence[str], arrays: Sequence[Sequence[Any]]) -> Params:
    return {
        name: nd.sparse.zeros(like.stype, like.shape, dtype=like.dtype)
        for name, (like, *_) in zip(names, arrays, strict=True)
    }
