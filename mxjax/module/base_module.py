"""What all modules share: training by `fit`, evaluation, prediction, and the parameters' files."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import nd
from ..array import NDArray
from ..base import _as_list
from ..core import repeating
from ..display.reprs import Shown
from ..errors import (
    MXNetAssertionError,
    MXNetNotImplementedError,
    MXNetTypeError,
    MXNetValueError,
    nearest,
)
from ..gluon import metric as metrics
from ..initializer import Uniform
from ..io import DataBatch, DataDesc, DataIter
from ..model import BatchEndParam, marked_params, unmarked_params
from .steps import end_step, run_recorded

__all__ = ["BaseModule"]

Params = dict[str, Any]
#: What initializes parameters where nothing else is given.
UNIFORM = Uniform(0.01)


def require(holds: Any, what: str) -> None:
    """Raise an AssertionError unless something holds."""
    if not holds:
        raise MXNetAssertionError(what)


def check_input_names(symbol: Any, names: Sequence[str], kind: str, throw: bool) -> None:
    """Raise, or warn, where a symbol has no argument of one of these names."""
    arguments = symbol.list_arguments()
    endings = ("_weight", "_bias", "_gamma", "_beta")
    for name in names:
        if name in arguments:
            continue
        likely = [arg for arg in arguments if not arg.endswith(endings)]
        best = nearest(name, likely)
        meant = ", ".join([*best, *(arg for arg in likely if arg not in best)])
        message = (
            f"You created Module with Module(..., {kind}_names={list(names)}) but input with name '{name}' is not "
            f"found in symbol.list_arguments(). Did you mean one of: {meant}"
        )
        if throw:
            raise MXNetValueError(message)
        warnings.warn(message, UserWarning, stacklevel=4)


def check_all_names(symbol: Any, data: Any, label: Any, state: Any, fixed_param: Any) -> None:
    """Raise where a symbol has no argument of the names of a kind; labels it may do without."""
    for kind, names in (
        ("data", data),
        ("label", label),
        ("state", state),
        ("fixed_param", fixed_param),
    ):
        check_input_names(symbol, list(names or ()), kind, throw=kind != "label")


def as_descs(shapes: Any) -> list[DataDesc]:
    """Pairs (name, shape) and descriptions as descriptions."""
    return [each if isinstance(each, DataDesc) else DataDesc(*each) for each in shapes]


def check_names_match(names: Sequence[str], descs: Any, kind: str, throw: bool) -> None:
    """Raise, or warn, where the descriptions of a kind of inputs have other names."""
    if sorted(names) == sorted(desc[0] for desc in descs):
        return
    message = f"Data provided by {kind}_shapes don't match names specified by {kind}_names ({descs} vs. {list(names)})"
    if throw:
        raise MXNetValueError(message)
    warnings.warn(message, UserWarning, stacklevel=4)


def parse_data_desc(
    data_names: Sequence[str], label_names: Sequence[str], data_shapes: Any, label_shapes: Any
) -> tuple[list[DataDesc], list[DataDesc] | None]:
    """Descriptions of data (whose names must be those of the module) and labels (whose names should)."""
    data = as_descs(data_shapes)
    labels = None if label_shapes is None else as_descs(label_shapes)
    check_names_match(data_names, data, "data", throw=True)
    check_names_match(label_names, labels or [], "label", throw=False)
    return data, labels


def call_all(callbacks: Any, *args: Any) -> None:
    """Call a callback, or each of a list of them."""
    for callback in _as_list(callbacks):
        callback(*args)


def _labels(batch: Any) -> tuple[Any, bool]:
    """The labels of a batch, or of a list of batches, one for each device, and whether it is such a list."""
    return (
        ([each.label for each in batch], True) if isinstance(batch, list) else (batch.label, False)
    )


def _left(train_data: Any, nbatch: int, fit: dict[str, Any]) -> int:
    """How many batches of `fit` come after this one, at least: later epochs have as many as there were in this one."""
    in_epoch = nbatch + 1
    samples, size = getattr(train_data, "num_data", 0), getattr(train_data, "batch_size", 0)
    if type(samples) is int and type(size) is int and size > 0:
        in_epoch = max(in_epoch, samples // size)
    return in_epoch - nbatch - 1 + in_epoch * max(0, fit["num_epoch"] - fit["epoch"] - 1)


class BaseModule(Shown):
    """The interface of modules, and what can be done with it alone.

    A module goes through `bind` (arrays are made), `init_params`, `init_optimizer`; then batches go through `forward`,
    `backward`, `update`. `fit` does all of it.

    Subclasses define what raises NotImplementedError here.

    Args:
      logger: the logger that is written to; the root logger without.
    """

    _repeats = True  # each batch of `fit` goes through the same network

    def __init__(self, logger: Any = logging):
        self.logger = logger
        self.binded = False
        self.for_training = False
        self.inputs_need_grad = False
        self.params_initialized = False
        self.optimizer_initialized = False
        self._symbol: Any = None

    def _missing(self, what: str) -> MXNetNotImplementedError:
        return MXNetNotImplementedError(f"{type(self).__name__} must define {what}")

    def _ready(self) -> None:
        require(self.binded, "call bind before")
        require(self.params_initialized, "call init_params before")

    # -- the high-level interface ------------------------------------------------------------------

    def forward_backward(self, data_batch: Any) -> None:
        """`forward` in training mode, then `backward`."""
        self.forward(data_batch, is_train=True)
        self.backward()

    def score(
        self, eval_data: Any, eval_metric: Any, num_batch: int | None = None, batch_end_callback: Any = None,
        score_end_callback: Any = None, reset: bool = True, epoch: int = 0,
        sparse_row_id_fn: Callable[[Any], Any] | None = None,
    ) -> list[tuple[str, Any]]:  # fmt: skip
        """A metric over an iterator.

        Args:
          eval_data: the iterator.
          eval_metric: a metric, or what `mx.metric.create` takes.
          num_batch: how many batches; all if None.
          batch_end_callback, score_end_callback: called with a `BatchEndParam` after each batch, and at the end.
          reset: begin the iterator anew.
          epoch: what callbacks are told.

        Returns:
          Pairs of the metric's names and values.
        """
        self._ready()
        if reset:
            eval_data.reset()
        if not isinstance(eval_metric, metrics.EvalMetric):
            eval_metric = metrics.create(eval_metric)
        eval_metric.reset()
        actual_num_batch = 0
        for nbatch, eval_batch in enumerate(eval_data):
            if nbatch == num_batch:
                break
            self.prepare(eval_batch, sparse_row_id_fn=sparse_row_id_fn)
            self.forward(eval_batch, is_train=False)
            self.update_metric(eval_metric, *_labels(eval_batch))
            run_recorded()
            if batch_end_callback is not None:
                call_all(batch_end_callback, BatchEndParam(epoch, nbatch, eval_metric, locals()))
            actual_num_batch += 1
        if score_end_callback:
            call_all(
                score_end_callback, BatchEndParam(epoch, actual_num_batch, eval_metric, locals())
            )
        return eval_metric.get_name_value()

    def _outputs(
        self, eval_data: Any, num_batch: int | None, reset: bool, sparse_row_id_fn: Any
    ) -> Iterator[tuple[list[Any], int, Any]]:
        self._ready()
        if reset:
            eval_data.reset()
        for nbatch, eval_batch in enumerate(eval_data):
            if nbatch == num_batch:
                return
            self.prepare(eval_batch, sparse_row_id_fn=sparse_row_id_fn)
            self.forward(eval_batch, is_train=False)
            pad = eval_batch.pad or 0
            outputs = [out[0 : out.shape[0] - pad] for out in self.get_outputs()]
            yield outputs, nbatch, eval_batch

    def iter_predict(
        self, eval_data: Any, num_batch: int | None = None, reset: bool = True,
        sparse_row_id_fn: Callable[[Any], Any] | None = None,
    ) -> Iterator[tuple[list[Any], int, Any]]:  # fmt: skip
        """The outputs of each batch of an iterator without what only fills it, its number, and the batch."""
        return self._outputs(eval_data, num_batch, reset, sparse_row_id_fn)

    def predict(
        self, eval_data: Any, num_batch: int | None = None, merge_batches: bool = True, reset: bool = True,
        always_output_list: bool = False, sparse_row_id_fn: Callable[[Any], Any] | None = None,
    ) -> Any:  # fmt: skip
        """The outputs for an iterator, or for an array, which is a batch.

        Args:
          eval_data: an iterator, or an array of mxjax or NumPy.
          num_batch: how many batches; all if None.
          merge_batches: join the batches; otherwise a list of the outputs of each.
          reset: begin the iterator anew.
          always_output_list: a list even for a single output.

        Raises:
          ValueError: `eval_data` is neither.
        """
        self._ready()
        if isinstance(eval_data, NDArray | np.ndarray):
            batch = eval_data if isinstance(eval_data, NDArray) else nd.array(eval_data)
            self.forward(DataBatch([batch]))
            return self.get_outputs()[0]
        if not isinstance(eval_data, DataIter):
            raise MXNetValueError(
                f"eval_data must be of type NDArray or DataIter, got {type(eval_data).__name__}"
            )
        found = []
        for outputs, _, _ in self._outputs(eval_data, num_batch, reset, sparse_row_id_fn):
            found.append([out.copy() for out in outputs])
            run_recorded()
        if not found or not merge_batches:
            return found
        if len({len(outputs) for outputs in found}) > 1:
            raise MXNetAssertionError(
                "Cannot merge batches, as num of outputs is not the same in mini-batches. Maybe bucketing is used?"
            )
        merged = [nd.concatenate(list(parts)) for parts in zip(*found, strict=True)]
        return merged[0] if len(merged) == 1 and not always_output_list else merged

    def fit(
        self, train_data: Any, eval_data: Any = None, eval_metric: Any = "acc", epoch_end_callback: Any = None,
        batch_end_callback: Any = None, kvstore: Any = "local", optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),), eval_end_callback: Any = None,
        eval_batch_end_callback: Any = None, initializer: Any = UNIFORM, arg_params: Params | None = None,
        aux_params: Params | None = None, allow_missing: bool = False, force_rebind: bool = False,
        force_init: bool = False, begin_epoch: int = 0, num_epoch: int | None = None, validation_metric: Any = None,
        monitor: Any = None, sparse_row_id_fn: Callable[[Any], Any] | None = None,
    ) -> None:  # fmt: skip
        """Train: bind, initialize, and go through an iterator epoch by epoch.

        A step (forward, backward, update, metric) runs as one program; nothing waits for numbers but callbacks that
        ask for them, and the end of the epoch.

        Args:
          train_data: the iterator.
          eval_data: an iterator that is scored after each epoch.
          eval_metric: a metric, or what `mx.metric.create` takes.
          epoch_end_callback: called with the epoch, the symbol, the parameters and the auxiliary states.
          batch_end_callback: called with a `BatchEndParam`.
          kvstore: how several devices or processes sum gradients: a name, a store, or None.
          optimizer: a name, or an optimizer.
          optimizer_params: arguments for a name; gradients are divided by the batch's size unless it says otherwise.
          eval_end_callback, eval_batch_end_callback: the callbacks of `score`.
          initializer: what sets parameters that `arg_params` and `aux_params` do not have.
          arg_params, aux_params: values of parameters and auxiliary states by name.
          allow_missing: they need not have all names.
          force_rebind: bind again if it is bound.
          force_init: initialize again.
          begin_epoch, num_epoch: the first epoch, and the one that is not reached any more.
          validation_metric: of `eval_data`; `eval_metric` if None.
          monitor: an `mx.mon.Monitor`.
          sparse_row_id_fn: which rows of sparse parameters a batch needs.

        Raises:
          AssertionError: `num_epoch` was not given.
        """
        require(num_epoch is not None, "please specify number of epochs: num_epoch")
        assert num_epoch is not None
        if not hasattr(train_data, "provide_data"):
            raise MXNetTypeError(
                f"fit takes an iterator over batches, got {type(train_data).__name__}: mx.io.NDArrayIter(data, label, "
                "batch_size) makes one of arrays"
            )
        self.bind(
            data_shapes=train_data.provide_data, label_shapes=train_data.provide_label, for_training=True,
            force_rebind=force_rebind,
        )  # fmt: skip
        if monitor is not None:
            self.install_monitor(monitor)
        self.init_params(
            initializer=initializer, arg_params=arg_params, aux_params=aux_params, allow_missing=allow_missing,
            force_init=force_init,
        )  # fmt: skip
        self.init_optimizer(kvstore=kvstore, optimizer=optimizer, optimizer_params=optimizer_params)
        if validation_metric is None:
            validation_metric = eval_metric
        if not isinstance(eval_metric, metrics.EvalMetric):
            eval_metric = metrics.create(eval_metric)
        for epoch in range(begin_epoch, num_epoch):
            tic = time.time()
            self._before_epoch(epoch, train_data)
            eval_metric.reset()
            eval_name_vals = self._train_epoch(
                epoch,
                train_data,
                eval_metric,
                batch_end_callback,
                monitor,
                sparse_row_id_fn,
                locals(),
            )
            for name, value in eval_name_vals:
                self.logger.info("Epoch[%d] Train-%s=%f", epoch, name, value)
            self.logger.info("Epoch[%d] Time cost=%.3f", epoch, time.time() - tic)
            arg_params, aux_params = self._agree_on_params()
            if epoch_end_callback is not None:
                call_all(epoch_end_callback, epoch, self.symbol, arg_params, aux_params)
            if eval_data is not None:
                found = self.score(
                    eval_data, validation_metric, score_end_callback=eval_end_callback,
                    batch_end_callback=eval_batch_end_callback, epoch=epoch,
                )  # fmt: skip
                for name, value in found:
                    self.logger.info("Epoch[%d] Validation-%s=%f", epoch, name, value)
            train_data.reset()

    def _before_epoch(self, epoch: int, train_data: Any) -> None:
        """What a subclass does before each epoch."""

    def _train_epoch(
        self, epoch: int, train_data: Any, eval_metric: Any, batch_end_callback: Any, monitor: Any,
        sparse_row_id_fn: Any, fit: dict[str, Any],
    ) -> list[tuple[str, Any]]:  # fmt: skip
        """One epoch; the metric's names and values over all of it. Callbacks see the variables of `fit`, too."""
        eval_name_vals: list[tuple[str, Any]] = []
        nbatch = 0
        data_iter = iter(train_data)
        next_data_batch = next(data_iter)
        end_of_batch = False
        while not end_of_batch:
            data_batch = next_data_batch
            if monitor is not None:
                monitor.tic()
            with repeating(_left(train_data, nbatch, fit) if self._repeats else None):
                self.forward_backward(data_batch)
                self.update()
                self.update_metric(eval_metric, *_labels(data_batch))
                self._end_step()
            try:  # the next batch is made while this one computes
                next_data_batch = next(data_iter)
                self.prepare(next_data_batch, sparse_row_id_fn=sparse_row_id_fn)
            except StopIteration:
                end_of_batch = True
            if monitor is not None:
                monitor.toc_print()
            if end_of_batch:
                eval_name_vals = eval_metric.get_global_name_value()
            if batch_end_callback is not None:
                call_all(
                    batch_end_callback,
                    BatchEndParam(epoch, nbatch, eval_metric, {**fit, **locals()}),
                )
            nbatch += 1
        return eval_name_vals

    def _end_step(self) -> None:
        """Run what the step recorded."""
        end_step()

    def _agree_on_params(self) -> tuple[Params, Params]:
        """The parameters and auxiliary states, the mean over the devices, which all devices take over."""
        arg_params, aux_params = self.get_params()
        self.set_params(arg_params, aux_params)
        return arg_params, aux_params

    # -- what a module is --------------------------------------------------------------------------

    @property
    def data_names(self) -> list[str]:
        """The names of the data."""
        raise self._missing("data_names")

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs."""
        raise self._missing("output_names")

    @property
    def data_shapes(self) -> Any:
        """Names and shapes of the data."""
        raise self._missing("data_shapes")

    @property
    def label_shapes(self) -> Any:
        """Names and shapes of the labels; None or empty without any."""
        raise self._missing("label_shapes")

    @property
    def output_shapes(self) -> Any:
        """Names and shapes of the outputs."""
        raise self._missing("output_shapes")

    @property
    def symbol(self) -> Any:
        """The symbol, where there is one."""
        return self._symbol

    # -- parameters --------------------------------------------------------------------------------

    def get_params(self) -> tuple[Params, Params]:
        """The parameters and the auxiliary states by name, in the host's memory."""
        raise self._missing("get_params")

    def init_params(
        self, initializer: Any = UNIFORM, arg_params: Params | None = None, aux_params: Params | None = None,
        allow_missing: bool = False, force_init: bool = False, allow_extra: bool = False,
    ) -> None:  # fmt: skip
        """Set parameters and auxiliary states: from the given ones, by name, and the others by an initializer.

        Args:
          initializer: an initializer, or None.
          arg_params, aux_params: values by name.
          allow_missing: they need not have all names.
          force_init: again, if it was done.
          allow_extra: they may have further names.
        """
        raise self._missing("init_params")

    def set_params(
        self, arg_params: Params, aux_params: Params, allow_missing: bool = False, force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:  # fmt: skip
        """Set parameters and auxiliary states by name; the arguments are those of `init_params`."""
        self.init_params(
            initializer=None, arg_params=arg_params, aux_params=aux_params, allow_missing=allow_missing,
            force_init=force_init, allow_extra=allow_extra,
        )  # fmt: skip

    def save_params(self, fname: str) -> None:
        """Write the parameters and auxiliary states to a file."""
        nd.save(fname, marked_params(*self.get_params()))

    def load_params(self, fname: str) -> None:
        """Set the parameters and auxiliary states from a file.

        Raises:
          ValueError: the file has other names than `arg:` and `aux:` begin.
        """
        found = nd.load(fname)
        if not isinstance(found, dict) or any(
            key.partition(":")[0] not in ("arg", "aux") for key in found
        ):
            raise MXNetValueError(
                f"Invalid param file {fname}: its names begin neither with 'arg:' nor with 'aux:'"
            )
        self.set_params(*unmarked_params(found))

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """The states that are carried from batch to batch: none, unless a subclass has some."""
        self._ready()
        require(not merge_multi_context, "merge_multi_context=True is not supported for get_states")
        return []

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Set the states, from what `get_states` or `get_outputs` gave, or all to a number."""
        self._ready()
        require(not states and not value, f"{type(self).__name__} has no states to set")

    def install_monitor(self, mon: Any) -> None:
        """Let an `mx.mon.Monitor` look at what is computed."""
        raise self._missing("install_monitor")

    # -- computations ------------------------------------------------------------------------------

    def prepare(
        self, data_batch: Any, sparse_row_id_fn: Callable[[Any], Any] | None = None
    ) -> None:
        """Get ready for a batch, before `forward` is called with it."""
        if sparse_row_id_fn is not None:
            warnings.warn(
                "sparse_row_id_fn is not invoked for BaseModule.", UserWarning, stacklevel=2
            )

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Compute the outputs for a batch; in training mode if `is_train`, or if None and bound for training."""
        raise self._missing("forward")

    def backward(self, out_grads: Any = None) -> None:
        """Compute gradients from those of the outputs, which losses do without."""
        raise self._missing("backward")

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """The outputs of the last `forward`; with several devices joined, or a list for each."""
        raise self._missing("get_outputs")

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """The gradients of the data, of the last `backward`."""
        raise self._missing("get_input_grads")

    def update(self) -> None:
        """Update the parameters by the gradients of the last `backward`."""
        raise self._missing("update")

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Let a metric take in labels and the last outputs; `pre_sliced`: the labels are a list for each device."""
        raise self._missing("update_metric")

    # -- set-up ------------------------------------------------------------------------------------

    def bind(
        self, data_shapes: Any, label_shapes: Any = None, for_training: bool = True, inputs_need_grad: bool = False,
        force_rebind: bool = False, shared_module: Any = None, grad_req: Any = "write",
    ) -> None:  # fmt: skip
        """Make the arrays.

        Args:
          data_shapes, label_shapes: descriptions of data and labels, as an iterator's `provide_data` and
            `provide_label`, or pairs (name, shape).
          for_training: with gradients.
          inputs_need_grad: with gradients of the data.
          force_rebind: again, if it was done.
          shared_module: a bound module whose parameters are used.
          grad_req: "write", "add" or "null", for all arguments or by name.
        """
        raise self._missing("bind")

    def init_optimizer(
        self, kvstore: Any = "local", optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),), force_init: bool = False,
    ) -> None:  # fmt: skip
        """Make the optimizer and the store; the arguments are those of `fit`."""
        raise self._missing("init_optimizer")


class SymbolicModule(BaseModule):
    """What modules of symbols share: parameters that are set in part, and what is asked of the arrays behind them.

    Subclasses have `_behind`, what holds the outputs, gradients and states, and `_set_some`, which sets the parameters
    there are.
    """

    _params_dirty = False  # the devices have newer parameters

    @property
    def _behind(self) -> Any:
        raise self._missing("_behind")

    def _set_some(
        self, arg_params: Params, aux_params: Params, force_init: bool, allow_extra: bool
    ) -> None:
        raise self._missing("_set_some")

    def set_params(
        self, arg_params: Params, aux_params: Params, allow_missing: bool = False, force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:  # fmt: skip
        if not allow_missing:
            self.init_params(None, arg_params, aux_params, allow_missing, force_init, allow_extra)
            return
        if self.params_initialized and not force_init:
            warnings.warn(
                "Parameters already initialized and force_init=False. set_params call ignored.",
                stacklevel=2,
            )
            return
        self._set_some(arg_params, aux_params, force_init, allow_extra)
        self._params_dirty = True
        self.params_initialized = True

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        self._ready()
        return self._behind.get_outputs(merge_multi_context=merge_multi_context)  # type: ignore[no-any-return]

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        self._ready()
        require(self.inputs_need_grad, "bind with inputs_need_grad=True")
        return self._behind.get_input_grads(merge_multi_context=merge_multi_context)  # type: ignore[no-any-return]

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        self._ready()
        return self._behind.get_states(merge_multi_context=merge_multi_context)  # type: ignore[no-any-return]

    def set_states(self, states: Any = None, value: Any = None) -> None:
        self._ready()
        self._behind.set_states(states, value)

    def backward(self, out_grads: Any = None) -> None:
        self._ready()
        self._behind.backward(out_grads=out_grads)
