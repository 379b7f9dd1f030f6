"""`mx.model.FeedForward`: training and prediction of symbols with arrays, as the first versions of MXNet had it."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import nd
from .. import optimizer as opt
from ..array import NDArray
from ..callback import LogValidationMetricsCallback
from ..device import Device, current_device
from ..errors import MXNetTypeError, MXNetValueError
from ..gluon import metric as metrics
from ..initializer import InitDesc
from ..io import DataIter, NDArrayIter
from ..model import BatchEndParam, load_checkpoint, save_checkpoint
from ..symbol import Symbol
from . import steps
from .base_module import UNIFORM, as_descs, call_all, require
from .bucketing_module import BucketingModule
from .module import Module

__all__ = ["FeedForward"]

_LOG = LogValidationMetricsCallback()


def check_arguments(symbol: Any) -> None:
    """Raise where two variables of a symbol have one name."""
    for names, kind in (
        (symbol.list_arguments(), "argument"),
        (symbol.list_auxiliary_states(), "auxiliary param"),
    ):
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise MXNetValueError(
                f"Find duplicated {kind} name {sorted(twice)}, please make the weight name non-duplicated (using name "
                f"arguments), arguments are {names}"
            )


class FeedForward:
    """A symbol with its parameters: `fit`, `predict`, `score`, `save`, `load`. `mx.mod.Module` has taken its place.

    Args:
      symbol: the network, or a function from a bucket's key to one.
      ctx: a device, or a list of them.
      num_epoch: how many epochs; begin_epoch: the first one.
      epoch_size: batches in an epoch; all of the iterator if None.
      optimizer: a name, or an optimizer.
      initializer: of parameters that are not given.
      numpy_batch_size: samples in a batch of arrays.
      arg_params, aux_params: parameters and auxiliary states by name.
      allow_extra_params: these may have further names.
      kwargs: arguments for the optimizer.
    """

    def __init__(
        self, symbol: Any, ctx: Any = None, num_epoch: int | None = None, epoch_size: int | None = None,
        optimizer: Any = "sgd", initializer: Any = UNIFORM, numpy_batch_size: int = 128,
        arg_params: dict[str, Any] | None = None, aux_params: dict[str, Any] | None = None,
        allow_extra_params: bool = False, begin_epoch: int = 0, **kwargs: Any,
    ):  # fmt: skip
        warnings.warn(
            "mx.model.FeedForward has been deprecated. Please use mx.mod.Module instead.", DeprecationWarning,
            stacklevel=2,
        )  # fmt: skip
        self.symbol: Any = symbol if isinstance(symbol, Symbol) else None
        self.sym_gen: Callable[[Any], Any] | None = None if self.symbol is not None else symbol
        require(
            self.symbol is not None or callable(symbol),
            "symbol must be a symbol, or a function that makes one",
        )
        self.arg_params = arg_params
        self.aux_params = aux_params
        self.allow_extra_params = allow_extra_params
        if self.symbol is not None:
            self._check_arguments()
        self.ctx = (
            [current_device()] if ctx is None else [ctx] if isinstance(ctx, Device) else list(ctx)
        )
        self.num_epoch = num_epoch
        self.epoch_size = epoch_size
        self.kwargs = dict(kwargs)
        self.optimizer = optimizer
        self.initializer = initializer
        self.numpy_batch_size = numpy_batch_size
        self.begin_epoch = begin_epoch
        self._pred_exec: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pred_exec": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def _check_arguments(self) -> None:
        check_arguments(self.symbol)
        if self.allow_extra_params:
            names = {*self.symbol.list_arguments(), *self.symbol.list_auxiliary_states()}
            for which in ("arg_params", "aux_params"):
                given = getattr(self, which)
                if given:
                    setattr(
                        self, which, {name: value for name, value in given.items() if name in names}
                    )

    # -- iterators ---------------------------------------------------------------------------------

    def _init_iter(self, X: Any, y: Any, is_train: bool) -> Any:  # noqa: N803
        if isinstance(X, DataIter):
            return X
        if not isinstance(X, np.ndarray | NDArray):
            raise MXNetTypeError(
                f"X must be DataIter, NDArray or numpy.ndarray, got {type(X).__name__}"
            )
        if y is None:
            if is_train:
                raise MXNetValueError("y must be specified when X is numpy.ndarray")
            y = np.zeros(X.shape[0])
        if not isinstance(y, np.ndarray | NDArray):
            raise MXNetTypeError(
                f"y must be ndarray when X is numpy.ndarray, got {type(y).__name__}"
            )
        if X.shape[0] != y.shape[0]:
            raise MXNetValueError(
                f"The numbers of data points and labels not equal: {X.shape[0]} and {y.shape[0]}"
            )
        if y.ndim == 2 and y.shape[1] == 1:
            y = y.reshape((-1,))
        if y.ndim != 1:
            raise MXNetValueError(
                f"Label must be 1D or 2D (with 2nd dimension being 1), got {y.shape}"
            )
        size = min(X.shape[0], self.numpy_batch_size)
        return NDArrayIter(
            X, y, size, shuffle=is_train, last_batch_handle="roll_over" if is_train else "pad"
        )

    def _init_eval_iter(self, eval_data: Any) -> Any:
        if eval_data is None or isinstance(eval_data, DataIter):
            return eval_data
        if not (isinstance(eval_data, tuple | list) and len(eval_data) == 2):
            raise MXNetTypeError(
                "Eval data must be DataIter, or NDArray/numpy.ndarray/list pair (i.e. tuple/list of length 2)"
            )
        data, label = eval_data
        if data is None:
            raise MXNetValueError("Eval data is NONE")
        if label is None and isinstance(data, DataIter):
            return data
        data, label = (np.array(each) if isinstance(each, list) else each for each in (data, label))
        return self._init_iter(data, label, is_train=True)

    # -- parameters --------------------------------------------------------------------------------

    @staticmethod
    def _is_data_arg(name: str) -> bool:
        """Whether an argument is one of data, not a weight, by its name."""
        return name.endswith(("data", "label"))

    def _init_params(
        self, inputs: Any, overwrite: bool = False
    ) -> tuple[list[str], list[str], list[str]]:
        """Make the parameters for inputs of these shapes, from those that are given and by the initializer."""
        descs = as_descs(inputs)
        shapes = {desc.name: desc.shape for desc in descs}
        arg_shapes, _, aux_shapes = self.symbol.infer_shape(**shapes)
        arg_dtypes, _, aux_dtypes = self.symbol.infer_type(
            **{desc.name: desc.dtype for desc in descs}
        )
        arg_names, aux_names = self.symbol.list_arguments(), self.symbol.list_auxiliary_states()
        made: list[dict[str, Any]] = []
        for names, lengths, dtypes, given in (
            (arg_names, arg_shapes, arg_dtypes, self.arg_params),
            (aux_names, aux_shapes, aux_dtypes, self.aux_params),
        ):
            found = {}
            for name, shape, dtype in zip(names, lengths, dtypes, strict=True):
                if name in shapes:
                    continue
                found[name] = nd.zeros(shape, dtype=dtype)
                if given and name in given and not overwrite:
                    found[name][:] = given[name]
                else:
                    self.initializer(InitDesc(name, self.symbol.attr_dict().get(name)), found[name])
            made.append(found)
        self.arg_params, self.aux_params = made
        return arg_names, list(self.arg_params), aux_names

    # -- training ----------------------------------------------------------------------------------

    def _module(self, data: Any) -> Any:
        """The module that trains this network on an iterator's batches."""
        data_names = [desc[0] for desc in data.provide_data]
        label_names = [desc[0] for desc in data.provide_label]
        if self.sym_gen is None:
            return Module(self.symbol, data_names, label_names, context=self.ctx)
        sym_gen = self.sym_gen
        return BucketingModule(
            lambda key: (sym_gen(key), data_names, label_names),
            data.default_bucket_key,
            context=self.ctx,
        )

    def fit(
        self, X: Any, y: Any = None, eval_data: Any = None, eval_metric: Any = "acc",  # noqa: N803
        epoch_end_callback: Any = None, batch_end_callback: Any = None, kvstore: Any = "local", logger: Any = None,
        work_load_list: Any = None, monitor: Any = None,
        eval_end_callback: Any = _LOG, eval_batch_end_callback: Any = None,
    ) -> None:  # fmt: skip
        """Train.

        Args:
          X: an iterator, or an array of samples; y: their labels.
          eval_data: an iterator, or a pair (X, y), scored after each epoch.
          eval_metric: a metric, or what `mx.metric.create` takes.
          epoch_end_callback: called with the epoch, the symbol, the parameters and the auxiliary states.
          batch_end_callback, eval_end_callback, eval_batch_end_callback: called with a `BatchEndParam`.
          kvstore: how several devices sum gradients.
          logger: where progress is reported.
          monitor: an `mx.mon.Monitor`.
        """
        data, eval_iter = self._init_iter(X, y, is_train=True), self._init_eval_iter(eval_data)
        if self.sym_gen is not None:
            self.symbol = self.sym_gen(data.default_bucket_key)
            self._check_arguments()
        self._init_params([*data.provide_data, *data.provide_label])
        if not isinstance(eval_metric, metrics.EvalMetric):
            eval_metric = metrics.create(eval_metric)
        logger = logger or logging
        logger.info("Start training with %s", str(self.ctx))
        module = self._module(data)
        module.bind(data.provide_data, data.provide_label)
        module.init_params(None, self.arg_params, self.aux_params)
        if monitor is not None:
            module.install_monitor(monitor)
        optimizer = self.optimizer
        if not isinstance(optimizer, opt.Optimizer | str):
            raise MXNetTypeError(
                f"optimizer must be a name or an optimizer, got {type(optimizer).__name__}"
            )
        module.init_optimizer(kvstore, optimizer, self.kwargs)
        data.reset()
        for epoch in range(self.begin_epoch, self.num_epoch or 0):
            tic = time.time()
            eval_metric.reset()
            self._train_epoch(module, data, epoch, eval_metric, batch_end_callback, monitor, logger)
            logger.info("Epoch[%d] Time cost=%.3f", epoch, time.time() - tic)
            self.arg_params, self.aux_params = module._agree_on_params()
            if epoch_end_callback is not None:
                call_all(epoch_end_callback, epoch, self.symbol, self.arg_params, self.aux_params)
            if eval_iter is not None:
                module.score(
                    eval_iter, eval_metric, score_end_callback=eval_end_callback,
                    batch_end_callback=eval_batch_end_callback, epoch=epoch,
                )  # fmt: skip
                eval_iter.reset()

    def _train_epoch(
        self,
        module: Any,
        data: Any,
        epoch: int,
        eval_metric: Any,
        batch_end_callback: Any,
        monitor: Any,
        logger: Any,
    ) -> None:
        """An epoch: until the iterator ends or, where `epoch_size` is given, after so many batches."""
        nbatch = 0
        while True:
            ended = True
            for data_batch in data:
                if monitor is not None:
                    monitor.tic()
                module.forward_backward(data_batch)
                module.update()
                module.update_metric(eval_metric, data_batch.label)
                module._end_step()
                if monitor is not None:
                    monitor.toc_print()
                nbatch += 1
                if batch_end_callback is not None:
                    call_all(
                        batch_end_callback, BatchEndParam(epoch, nbatch, eval_metric, locals())
                    )
                if self.epoch_size is not None and nbatch >= self.epoch_size:
                    ended = False  # the next epoch goes on from here
                    break
            if ended:
                logger.info("Epoch[%d] Resetting Data Iterator", epoch)
                data.reset()
            if self.epoch_size is None or nbatch >= self.epoch_size:
                return

    # -- prediction --------------------------------------------------------------------------------

    def _init_predictor(self, inputs: Any) -> None:
        """Bind the symbol for inputs of these shapes, unless it is."""
        require(
            self.arg_params is not None,
            "the model has no parameters yet: fit it, give it arg_params=, or load one (FeedForward.load)",
        )
        known = set(self.symbol.list_arguments())
        descs = [desc for desc in as_descs(inputs) if desc.name in known]
        shapes = {desc.name: tuple(desc.shape) for desc in descs}
        if self._pred_exec is not None and all(
            self._pred_exec.arg_dict[name].shape == shape for name, shape in shapes.items()
        ):
            return
        dtypes = {
            name: value.dtype for name, value in (self.arg_params or {}).items() if name in known
        }
        dtypes.update({desc.name: desc.dtype for desc in descs})
        self._pred_exec = self.symbol.simple_bind(
            self.ctx[0], grad_req="null", type_dict=dtypes, **shapes
        )
        self._pred_exec.copy_params_from(self.arg_params, self.aux_params, allow_extra_params=True)

    def _run(self, X: Any, num_batch: int | None, reset: bool) -> Any:  # noqa: N803
        """The batches of an iterator, each with the executor that has run it."""
        if reset:
            X.reset()
        self._pred_exec = None  # the parameters may be others by now
        self._init_predictor(X.provide_data)
        for number, batch in enumerate(X):
            if number == num_batch:
                return
            for desc, array in zip(X.provide_data, batch.data, strict=True):
                array.copyto(self._pred_exec.arg_dict[desc[0]])
            self._pred_exec.forward(is_train=False)
            yield number, batch

    def predict(
        self,
        X: Any,
        num_batch: int | None = None,
        return_data: bool = False,
        reset: bool = True,  # noqa: N803
    ) -> Any:
        """The outputs as NumPy arrays: one, or a list of several.

        Args:
          X: an iterator, or an array of samples.
          num_batch: how many batches; all if None.
          return_data: give the data and the labels as well.
          reset: begin the iterator anew.
        """
        X = self._init_iter(X, None, is_train=False)  # noqa: N806
        parts: list[list[list[np.ndarray]]] = [[], [], []]
        for _, batch in self._run(X, num_batch, reset):
            size = X.batch_size - (batch.pad or 0)
            kinds = [self._pred_exec.outputs, batch.data, batch.label or []][
                : 3 if return_data else 1
            ]
            for found, arrays in zip(parts, kinds, strict=False):
                found.append([array[0:size].asnumpy() for array in arrays])
        joined = [[np.concatenate(some) for some in zip(*found, strict=True)] for found in parts]
        results = [arrays[0] if len(arrays) == 1 else arrays for arrays in joined]
        return tuple(results) if return_data else results[0]

    def score(
        self, X: Any, eval_metric: Any = "acc", num_batch: int | None = None,  # noqa: N803
        batch_end_callback: Any = None, reset: bool = True,
    ) -> Any:  # fmt: skip
        """The value of a metric over an iterator, or over an array of samples."""
        if not isinstance(eval_metric, metrics.EvalMetric):
            eval_metric = metrics.create(eval_metric)
        X = self._init_iter(X, None, is_train=False)  # noqa: N806
        for number, batch in self._run(X, num_batch, reset):
            eval_metric.update(batch.label, self._pred_exec.outputs)
            steps.run_recorded()
            if batch_end_callback is not None:
                call_all(batch_end_callback, BatchEndParam(0, number, eval_metric, locals()))
        return eval_metric.get()[1]

    # -- files -------------------------------------------------------------------------------------

    def save(self, prefix: str, epoch: int | None = None, remove_amp_cast: bool = True) -> None:
        """Write a checkpoint, see `mx.model.save_checkpoint`; of the last epoch if `epoch` is None."""
        epoch = self.num_epoch if epoch is None else epoch
        require(epoch is not None, "epoch must be given, here or as num_epoch")
        assert epoch is not None
        save_checkpoint(
            prefix,
            epoch,
            self.symbol,
            self.arg_params or {},
            self.aux_params or {},
            remove_amp_cast=remove_amp_cast,
        )

    @staticmethod
    def load(prefix: str, epoch: int, ctx: Any = None, **kwargs: Any) -> FeedForward:
        """The model of a checkpoint, which training goes on from; `kwargs` are further arguments of `FeedForward`."""
        symbol, arg_params, aux_params = load_checkpoint(prefix, epoch)
        return FeedForward(
            symbol,
            ctx=ctx,
            arg_params=arg_params,
            aux_params=aux_params,
            begin_epoch=epoch,
            **kwargs,
        )

    @staticmethod
    def create(
        symbol: Any, X: Any, y: Any = None, ctx: Any = None, num_epoch: int | None = None,  # noqa: N803
        epoch_size: int | None = None, optimizer: Any = "sgd", initializer: Any = UNIFORM,
        eval_data: Any = None, eval_metric: Any = "acc", epoch_end_callback: Any = None,
        batch_end_callback: Any = None, kvstore: Any = "local", logger: Any = None, work_load_list: Any = None,
        eval_end_callback: Any = _LOG, eval_batch_end_callback: Any = None, **kwargs: Any,
    ) -> FeedForward:  # fmt: skip
        """A model made and trained; the arguments are those of `FeedForward` and of `fit`."""
        model = FeedForward(
            symbol, ctx=ctx, num_epoch=num_epoch, epoch_size=epoch_size, optimizer=optimizer, initializer=initializer,
            **kwargs,
        )  # fmt: skip
        model.fit(
            X, y, eval_data=eval_data, eval_metric=eval_metric, epoch_end_callback=epoch_end_callback,
            batch_end_callback=batch_end_callback, kvstore=kvstore, logger=logger, work_load_list=work_load_list,
            eval_end_callback=eval_end_callback, eval_batch_end_callback=eval_batch_end_callback,
        )  # fmt: skip
        return model
