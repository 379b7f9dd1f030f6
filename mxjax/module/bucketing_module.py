"""A module whose symbol depends on the batch: one for each bucket, with the parameters of all in common."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import nd
from ..device import current_device
from ..errors import MXNetTypeError
from ..model import load_params
from ..name import NameManager
from ..symbol import load as load_symbol
from .base_module import UNIFORM, Params, SymbolicModule, check_all_names, require
from .module import Module

__all__ = ["BucketingModule"]


class BucketingModule(SymbolicModule):
    """Trains on batches of several kinds, sentences of several lengths for example.

    Each bucket's symbol is bound, and compiled, once; they share parameters, optimizer and store.

    Args:
      sym_gen: a function from a bucket's key to its symbol, its data names and its label names.
      default_bucket_key: the bucket whose symbol has all parameters.
      logger, context, work_load_list, fixed_param_names, state_names, group2ctxs, compression_params: as in `Module`.

    >>> import mxjax as mx
    >>> def make(length):
    ...     net = mx.sym.FullyConnected(mx.sym.sum(mx.sym.var("data"), axis=1, keepdims=True), num_hidden=2, name="fc")
    ...     return mx.sym.SoftmaxOutput(net, name="softmax"), ["data"], ["softmax_label"]
    >>> module = BucketingModule(make, default_bucket_key=10)
    >>> module.bind([("data", (4, 10))], [("softmax_label", (4,))])
    >>> module.data_shapes
    [DataDesc[data,(4, 10),<class 'numpy.float32'>,NCHW]]
    """

    _repeats = False

    def __init__(
        self, sym_gen: Callable[[Any], tuple[Any, Any, Any]], default_bucket_key: Any = None, logger: Any = logging,
        context: Any = None, work_load_list: Sequence[float] | None = None,
        fixed_param_names: Sequence[str] | None = None, state_names: Sequence[str] | None = None,
        group2ctxs: Any = None, compression_params: dict[str, Any] | None = None,
    ):  # fmt: skip
        super().__init__(logger=logger)
        require(default_bucket_key is not None, "default_bucket_key must be given")
        self._default_bucket_key = default_bucket_key
        self._sym_gen = sym_gen
        self._options: dict[str, Any] = {
            "logger": logger,
            "context": context,
            "work_load_list": work_load_list,
            "fixed_param_names": fixed_param_names,
            "state_names": state_names,
            "group2ctxs": group2ctxs,
            "compression_params": compression_params,
        }
        symbol, data_names, label_names = self._call_sym_gen(default_bucket_key)
        check_all_names(symbol, data_names, label_names, state_names, fixed_param_names)
        self._buckets: dict[Any, Module] = {}
        self._curr_module: Any = None
        self._curr_bucket_key: Any = None
        self._monitor: Any = None
        self._grad_req: Any = "write"

    # What the modules of the buckets are made with, under the names that MXNet keeps it by.
    _context = property(lambda self: self._options["context"] or current_device())
    _work_load_list = property(lambda self: self._options["work_load_list"])
    _fixed_param_names = property(lambda self: list(self._options["fixed_param_names"] or ()))
    _state_names = property(lambda self: list(self._options["state_names"] or ()))
    _group2ctxs = property(lambda self: self._options["group2ctxs"])
    _compression_params = property(lambda self: self._options["compression_params"])

    def _call_sym_gen(self, key: Any) -> tuple[Any, Any, Any]:
        with (
            NameManager()
        ):  # names that begin anew, so that the buckets' parameters have the same ones
            made = self._sym_gen(key)
        if not isinstance(made, (tuple, list)) or len(made) != 3:
            raise MXNetTypeError(
                f"sym_gen gives a symbol, the names of its data and those of its labels, got {type(made).__name__}: "
                "return net, ('data',), ('softmax_label',)"
            )
        return made

    def _make(self, key: Any) -> Module:
        return Module(*self._call_sym_gen(key), **self._options)

    def _reset_bind(self) -> None:
        self.binded = False
        self._buckets = {}
        self._curr_module = None
        self._curr_bucket_key = None

    @property
    def data_names(self) -> Any:
        return (
            self._curr_module.data_names
            if self.binded
            else self._call_sym_gen(self._default_bucket_key)[1]
        )

    @property
    def output_names(self) -> Any:
        if self.binded:
            return self._curr_module.output_names
        return self._call_sym_gen(self._default_bucket_key)[0].list_outputs()

    @property
    def data_shapes(self) -> Any:
        require(self.binded, "call bind before")
        return self._curr_module.data_shapes

    @property
    def label_shapes(self) -> Any:
        require(self.binded, "call bind before")
        return self._curr_module.label_shapes

    @property
    def output_shapes(self) -> Any:
        require(self.binded, "call bind before")
        return self._curr_module.output_shapes

    @property
    def symbol(self) -> Any:
        """The symbol of the current bucket."""
        require(self.binded, "call bind before")
        return self._curr_module.symbol

    # -- parameters --------------------------------------------------------------------------------

    def get_params(self) -> tuple[Params, Params]:
        require(self.params_initialized, "call init_params before")
        self._curr_module._params_dirty = self._params_dirty
        params = self._curr_module.get_params()
        self._params_dirty = False
        return params  # type: ignore[no-any-return]

    def _agree_on_params(self) -> tuple[Params, Params]:
        self._curr_module._params_dirty = self._params_dirty
        params = self._curr_module._agree_on_params()
        self._params_dirty = False
        return params  # type: ignore[no-any-return]

    @property
    def _behind(self) -> Any:
        return self._curr_module

    def _set_some(
        self, arg_params: Params, aux_params: Params, force_init: bool, allow_extra: bool
    ) -> None:
        self._curr_module.set_params(arg_params, aux_params, True, force_init, allow_extra)

    def init_params(
        self, initializer: Any = UNIFORM, arg_params: Params | None = None, aux_params: Params | None = None,
        allow_missing: bool = False, force_init: bool = False, allow_extra: bool = False,
    ) -> None:  # fmt: skip
        if self.params_initialized and not force_init:
            return
        require(self.binded, "call bind before initializing the parameters")
        self._curr_module.init_params(
            initializer, arg_params, aux_params, allow_missing, force_init, allow_extra
        )
        self._params_dirty = False
        self.params_initialized = True

    # -- set-up ------------------------------------------------------------------------------------

    def bind(
        self, data_shapes: Any, label_shapes: Any = None, for_training: bool = True, inputs_need_grad: bool = False,
        force_rebind: bool = False, shared_module: Any = None, grad_req: Any = "write",
    ) -> None:  # fmt: skip
        """Bind the default bucket; the others are bound when they come."""
        params = (
            self.get_params()
            if self.params_initialized and (force_rebind or not self.binded)
            else None
        )
        if force_rebind:
            self._reset_bind()
        if self.binded:
            self.logger.warning("Already bound, ignoring bind()")
            return
        require(shared_module is None, "shared_module for BucketingModule is not supported")
        self.for_training = for_training
        self.inputs_need_grad = inputs_need_grad
        self._grad_req = grad_req
        key = self._default_bucket_key
        module = self._buckets.get(key) or self._make(key)
        module.bind(data_shapes, label_shapes, for_training, inputs_need_grad, grad_req=grad_req)
        self.binded = True
        self._buckets[key] = self._curr_module = module
        self._curr_bucket_key = key
        if params is not None:
            self.set_params(*params)

    def switch_bucket(self, bucket_key: Any, data_shapes: Any, label_shapes: Any = None) -> None:
        """Make another bucket the current one; it is bound for these shapes if it is new."""
        require(self.binded, "call bind before switching bucket")
        if bucket_key not in self._buckets:
            self._buckets[bucket_key] = self._make(bucket_key)
        module = self._buckets[bucket_key]
        before = self._curr_module
        if not module.binded:
            module.bind(
                data_shapes, label_shapes, before.for_training, before.inputs_need_grad,
                shared_module=self._buckets[self._default_bucket_key], grad_req=self._grad_req,
            )  # fmt: skip
            if self._monitor is not None:
                module.install_monitor(self._monitor)
        self._curr_module = module
        self._curr_bucket_key = bucket_key

    def init_optimizer(
        self, kvstore: Any = "local", optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),), force_init: bool = False,
    ) -> None:  # fmt: skip
        self._ready()
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring.")
            return
        self._curr_module.init_optimizer(
            kvstore, optimizer, optimizer_params, force_init=force_init
        )
        for module in self._buckets.values():
            if module is not self._curr_module:
                module.borrow_optimizer(self._curr_module)
        self.optimizer_initialized = True

    def install_monitor(self, mon: Any) -> None:
        require(self.binded, "call bind before")
        self._monitor = mon
        for module in self._buckets.values():
            module.install_monitor(mon)

    # -- computations ------------------------------------------------------------------------------

    def prepare(
        self, data_batch: Any, sparse_row_id_fn: Callable[[Any], Any] | None = None
    ) -> None:
        """Bind the batch's bucket, if it is new."""
        self._ready()
        before = self._curr_bucket_key
        self.switch_bucket(data_batch.bucket_key, data_batch.provide_data, data_batch.provide_label)
        self._curr_module.prepare(data_batch, sparse_row_id_fn=sparse_row_id_fn)
        self.switch_bucket(before, None, None)

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        self._ready()
        if self._curr_module._open_step:
            self._end_step()
        self.switch_bucket(data_batch.bucket_key, data_batch.provide_data, data_batch.provide_label)
        self._curr_module.forward(data_batch, is_train=is_train)

    def update(self) -> None:
        self._ready()
        require(self.optimizer_initialized, "call init_optimizer before")
        self._params_dirty = True
        self._curr_module.update()

    def _end_step(self) -> None:
        self._curr_module._end_step()

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        self._ready()
        self._curr_module.update_metric(eval_metric, labels, pre_sliced)

    # -- files -------------------------------------------------------------------------------------

    def save_checkpoint(self, prefix: str, epoch: int, remove_amp_cast: bool = False) -> None:
        """Write the parameters, a symbol for each bucket (`prefix-<key>-symbol.json`), and the keys, whole numbers."""
        require(self._buckets, "Empty BucketingModule cannot be saved")
        self.save_params(f"{prefix}-{epoch:04d}.params")
        for key in self._buckets:
            symbol = self._call_sym_gen(key)[0]
            symbol.save(f"{prefix}-{key}-symbol.json", remove_amp_cast=remove_amp_cast)
        nd.save(f"{prefix}.buckets", [nd.array(list(self._buckets), dtype=np.int32)])

    @staticmethod
    def load(
        prefix: str, epoch: int, sym_gen: Any = None, default_bucket_key: Any = None, **kwargs: Any
    ) -> BucketingModule:
        """The module of a checkpoint, to be bound; the arguments are those of `BucketingModule`."""
        keys = [int(key) for key in nd.load(f"{prefix}.buckets")[0].asnumpy()]
        symbols = {key: load_symbol(f"{prefix}-{key}-symbol.json") for key in keys}
        arg_params, aux_params = load_params(prefix, epoch)
        return BucketingModule.load_dict(
            symbols, sym_gen, default_bucket_key, arg_params, aux_params, **kwargs
        )

    @staticmethod
    def load_dict(
        sym_dict: dict[Any, Any] | None = None, sym_gen: Any = None, default_bucket_key: Any = None,
        arg_params: Params | None = None, aux_params: Params | None = None, **kwargs: Any,
    ) -> BucketingModule:  # fmt: skip
        """The module of symbols by bucket and parameters by name, to be bound."""
        for name, given in (
            ("sym_dict", sym_dict), ("sym_gen", sym_gen), ("default_bucket_key", default_bucket_key),
            ("arg_params", arg_params), ("aux_params", aux_params),
        ):  # fmt: skip
            require(given is not None, f"{name} is required for loading BucketingModule")
        assert sym_dict is not None
        module = BucketingModule(sym_gen, default_bucket_key, **kwargs)
        for key, symbol in sym_dict.items():
            _, data_names, label_names = module._call_sym_gen(key)
            module._buckets[key] = Module(symbol, data_names, label_names, **module._options)
        first = module._curr_module = module._buckets[default_bucket_key]
        first._arg_params, first._aux_params = arg_params, aux_params
        first.params_initialized = True
        module.params_initialized = True
        return module
