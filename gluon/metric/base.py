"""What all metrics share: names, lazily kept sums, and making them from names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as onp

from mxjax import np as mnp
from mxjax import registry
from mxjax.array import NDArray
from mxjax.autograd import pause
from mxjax.core import Row, record
from mxjax.display.reprs import Shown
from mxjax.errors import (
    MXNetIndexError,
    MXNetNotImplementedError,
    MXNetTypeError,
    MXNetValueError,
)
from mxjax.modes import generation

__all__ = [
    "Caffe",
    "CompositeEvalMetric",
    "CustomMetric",
    "EvalMetric",
    "Loss",
    "Torch",
    "alias",
    "check_label_shapes",
    "create",
    "np",
    "register",
]


def check_label_shapes(
    labels: Any, preds: Any, wrap: bool = False, shape: bool = False
) -> tuple[Any, Any]:
    """Check that labels and predictions are as many (with `shape`, of one shape).

    Args:
      labels, preds: lists of arrays, or single arrays.
      wrap: put single arrays into lists.
      shape: compare shapes instead of lengths.

    Returns:
      tuple: labels and predictions, as lists where `wrap` asks for it.

    Raises:
      ValueError: they differ.
    """
    for what, given in (("labels", labels), ("predictions", preds)):
        if isinstance(given, (str, int, float)) or given is None:
            raise MXNetTypeError(
                f"{what} are an array or a list of arrays, got {type(given).__name__}"
            )
    sizes = (labels.shape, preds.shape) if shape else (len(labels), len(preds))
    if sizes[0] != sizes[1]:
        raise MXNetValueError(
            f"Shape of labels {sizes[0]} does not match shape of predictions {sizes[1]}"
        )
    if wrap:
        labels = [labels] if _is_array(labels) else labels
        preds = [preds] if _is_array(preds) else preds
    return labels, preds


def _is_array(x: Any) -> bool:
    return isinstance(x, (NDArray, onp.ndarray))


def as_np(x: Any) -> Any:
    """The array as `mx.np.ndarray`; NumPy's are taken too."""
    return x.as_np_ndarray() if isinstance(x, NDArray) else mnp.array(x, dtype=x.dtype)


def average_of(said: str | None) -> str:
    """ "macro", the mean of the batches' values, or "micro", one value of everything; None is what MXNet 1 begins with,
    "macro", under its defaults, else "micro".

    Raises:
      ValueError: it is neither.
    """
    if said is None:
        return "macro" if generation() == 1 else "micro"
    if said not in ("macro", "micro"):
        raise MXNetValueError(f"average is 'macro', 'micro' or None, got {said!r}")
    return said


def in_mxnet1(*names: str) -> Callable[[Any], Any]:
    """Decorates an `__init__` whose arguments by position are these ones under the defaults of MXNet 1."""

    def decorate(init: Any) -> Any:
        @functools.wraps(init)
        def given(self: Any, *args: Any, **kwargs: Any) -> None:
            if args and generation() == 1:
                kwargs.update(zip(names, args, strict=False))
                args = ()
            init(self, *args, **kwargs)

        return given

    return decorate


def pairs(labels: Any, preds: Any) -> list[tuple[Any, Any]]:
    """Labels with their predictions, as `mx.np` arrays on the labels' devices."""
    labels, preds = check_label_shapes(labels, preds, True)
    out = []
    for label, pred in zip(labels, preds, strict=True):
        label = as_np(label)
        out.append((label, as_np(pred).to_device(label.device)))
    return out


class EvalMetric(Shown):
    """The base of all metrics: a sum of values and a count of samples.

    `update` only records; the sum is read when `get` is called, so that evaluating a metric in a
    training loop neither waits for the device nor adds a program to the step.

    Args:
      name: shown by `get`.
      output_names, label_names: what `update_dict` takes of its arguments; by default everything.

    >>> class Positive(EvalMetric):
    ...     def update(self, labels, preds):
    ...         self._add((preds > 0).sum(), preds.size)
    """

    def __init__(
        self, name: str, output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None, **kwargs: Any,
    ):  # fmt: skip
        self.name = str(name)
        self.output_names = output_names
        self.label_names = label_names
        #: Whether the class keeps `global_sum_metric` and `global_num_inst` itself, as classes written for MXNet 1 do.
        self._has_global_stats = bool(kwargs.pop("has_global_stats", False))
        self._kwargs = kwargs
        self.reset()

    def __str__(self) -> str:
        return f"EvalMetric: {dict(self.get_name_value())}"

    def get_config(self) -> dict[str, Any]:
        """What `create(**config)` makes an equal metric from."""
        return {
            **self._kwargs,
            "metric": type(self).__name__,
            "name": self.name,
            "output_names": self.output_names,
            "label_names": self.label_names,
        }

    def update_dict(self, label: dict[str, Any], pred: dict[str, Any]) -> None:
        """`update` with the named arrays that the metric was made for."""
        self.update(_named(label, self.label_names), _named(pred, self.output_names))

    def update(self, labels: Any, preds: Any) -> None:
        """Take in a batch: lists of arrays, or single arrays."""
        raise MXNetNotImplementedError(f"{type(self).__name__} must define update")

    def reset(self) -> None:
        """Forget everything."""
        self.num_inst: Any = 0
        self.sum_metric: Any = 0.0
        self._earlier = (0.0, 0)
        self._own = {"sum": 0.0, "count": 0} if self._has_global_stats else {}

    #: What was summed before `reset_local`, and sums that a class keeps itself; its own `reset` may know neither.
    _earlier: tuple[Any, Any] = (0.0, 0)
    _own: Mapping[str, Any] = MappingProxyType({})
    _has_global_stats = False

    # -- MXNet 1's second pair of sums, which `reset_local` leaves alone ----------------------------

    @property
    def global_sum_metric(self) -> Any:
        """The sum since `reset`, whatever `reset_local` forgot (MXNet 1)."""
        with pause():
            return (
                self._own["sum"] if "sum" in self._own else _plus(self._earlier[0], self.sum_metric)
            )

    @global_sum_metric.setter
    def global_sum_metric(self, value: Any) -> None:
        self._own = {**self._own, "sum": value}

    @property
    def global_num_inst(self) -> Any:
        """The count since `reset` (MXNet 1)."""
        return (
            self._own["count"] if "count" in self._own else _plus(self._earlier[1], self.num_inst)
        )

    @global_num_inst.setter
    def global_num_inst(self, value: Any) -> None:
        self._own = {**self._own, "count": value}

    def reset_local(self) -> None:
        """Forget what was taken in for `get`, but not for `get_global` (MXNet 1)."""
        earlier, own = self._whole() or self._earlier, self._own
        self.reset()
        self._earlier, self._own = earlier, own

    def _whole(self) -> tuple[Any, Any] | None:
        """The sums since `reset`; None of a user's class that keeps lists of sums, which has but one pair of them."""
        try:
            return _number(self.global_sum_metric), _number(self.global_num_inst)
        except TypeError:
            return None

    def get_global(self) -> tuple[Any, Any]:
        """`get` of everything since `reset` (MXNet 1).

        >>> loss = Loss()
        >>> loss.update(None, mnp.array([1.0, 3.0]))
        >>> loss.reset_local()
        >>> loss.update(None, mnp.array([8.0]))
        >>> loss.get(), loss.get_global()
        (('loss', 8.0), ('loss', 4.0))
        """
        # a user's class that only names the second pair of sums does not keep it
        whole = self._whole() if self._has_global_stats or not self._own else None
        if whole is None:
            return self.get()
        local, earlier = (self.sum_metric, self.num_inst), self._earlier
        self.sum_metric, self.num_inst = whole
        try:
            return self.get()
        finally:
            (self.sum_metric, self.num_inst), self._earlier = local, earlier

    def get_global_name_value(self) -> list[tuple[str, Any]]:
        """`get_global` as a list of pairs (MXNet 1)."""
        return _zipped(*self.get_global())

    def _add(self, value: Any, count: Any) -> None:
        """Add an array (which stays unread) or a number to the sum."""
        if isinstance(value, NDArray):
            self._record(_itself, (), (value,), count)
            return
        with pause():
            self.sum_metric = self.sum_metric + value
            self.num_inst = self.num_inst + count

    def _record(
        self, fn: Callable[..., Any], attrs: tuple[tuple[str, Any], ...],
        arrays: Sequence[NDArray], count: Any,
    ) -> None:  # fmt: skip
        """Add `fn(*arrays, **attrs)`, a function of JAX arrays, to the sum as one recorded call."""
        first = arrays[0]
        # Without the tape: the sum would keep every step of the training behind it.
        with pause():
            total = self.sum_metric
            if not isinstance(total, NDArray):
                # An array from the start, so that the first step is no program of its own.
                total = mnp.array(total, dtype="float64", device=first.device)
            call = _row("metric" + fn.__name__).bind((("fn", fn), *attrs))
            values = [total.to_device(first.device)._value(), *[a._value() for a in arrays]]
            self.sum_metric = mnp.ndarray._wrap(record(call, values)[0])
            if isinstance(count, NDArray) and not isinstance(self.num_inst, NDArray):
                # An array likewise: a number, which it is when it was read, would be part of the next step's program.
                self.num_inst = mnp.array(self.num_inst, dtype=count.dtype, device=count.device)
            self.num_inst = self.num_inst + count

    def _mean(self) -> float:
        if self.num_inst == 0:
            return float("nan")
        total = self.sum_metric
        # Divided by Python: the device would multiply by the count's reciprocal, which may be off by the last digit.
        return (total.item() if getattr(total, "size", 0) == 1 else total) / self.num_inst

    def get(self) -> tuple[Any, Any]:
        """The name and the value, NaN before the first sample; waits for the value."""
        return self.name, self._mean()

    def get_name_value(self) -> list[tuple[str, Any]]:
        """`get` as a list of pairs."""
        return _zipped(*self.get())


def _zipped(name: Any, value: Any) -> list[tuple[str, Any]]:
    names = name if isinstance(name, list) else [name]
    values = value if isinstance(value, list) else [value]
    return list(zip(names, values, strict=True))


def _named(arrays: dict[str, Any], names: Sequence[str] | None) -> list[Any]:
    return [arrays[name] for name in (arrays if names is None else names)]


@functools.cache
def _row(name: str) -> Row:
    return Row(name, _added)


def _added(total: Any, *arrays: Any, fn: Callable[..., Any], **attrs: Any) -> Any:
    return total + fn(*arrays, **attrs).astype("float64")


def _plus(earlier: Any, total: Any) -> Any:
    """The sum; of nothing earlier an array itself, which needs no call."""
    nothing = type(earlier) in (int, float) and not earlier
    return total if nothing and isinstance(total, NDArray) else earlier + total


def _number(total: Any) -> Any:
    """The number of an array that is there: a sum of arrays would be a call of the next step, a program of its own."""
    there = isinstance(total, NDArray) and total.size == 1 and total._value().seg is None
    return total.item() if there else total


def _itself(value: Any) -> Any:
    return value.reshape(()) if value.size == 1 else value


def _total(pred: Any) -> Any:
    return pred.astype("float64").sum()


register = registry.get_register_func(EvalMetric, "metric")
alias = registry.get_alias_func(EvalMetric, "metric")
_create = registry.get_create_func(EvalMetric, "metric")


def create(metric: Any, *args: Any, **kwargs: Any) -> EvalMetric:
    """A metric from its name, a function of (label, pred), an instance, or a list of these.

    Args:
      metric: a metric, its name, or a list of them.

    Returns:
      an instance of the class that has this name.

    >>> create("acc").name
    'accuracy'
    """
    if isinstance(metric, EvalMetric):
        return _create(metric, *args, **kwargs)
    if callable(metric):
        return CustomMetric(metric, *args, **kwargs)
    if isinstance(metric, list):
        return CompositeEvalMetric([create(m, *args, **kwargs) for m in metric])
    return _create(metric, *args, **kwargs)


@register
@alias("composite")
class CompositeEvalMetric(EvalMetric):
    """Several metrics as one: `get` gives lists.

    Args:
      name: what the metric is called in its results.
      output_names: the names of the outputs that count; all without.
      label_names: the names of the labels that count; all without.

    >>> CompositeEvalMetric(["acc", "mse"]).get()[0]
    ['accuracy', 'mse']
    """

    def __init__(
        self, metrics: Sequence[Any] | None = None, name: str = "composite",
        output_names: Sequence[str] | None = None, label_names: Sequence[str] | None = None,
    ):  # fmt: skip
        self.metrics = [create(m) for m in metrics or ()]
        super().__init__(name, output_names=output_names, label_names=label_names)

    def add(self, metric: Any) -> None:
        """Add a metric, as `create` takes it."""
        self.metrics.append(create(metric))

    def get_metric(self, index: int) -> EvalMetric:
        """The metric at this place.

        Raises:
          IndexError: there are not so many.
        """
        if not -len(self.metrics) <= index < len(self.metrics):
            raise MXNetIndexError(f"metric {index} is out of range 0 to {len(self.metrics) - 1}")
        return self.metrics[index]

    def update_dict(self, labels: dict[str, Any], preds: dict[str, Any]) -> None:
        if self.label_names is not None:
            labels = {k: v for k, v in labels.items() if k in self.label_names}
        if self.output_names is not None:
            preds = {k: v for k, v in preds.items() if k in self.output_names}
        for metric in self.metrics:
            metric.update_dict(labels, preds)

    def update(self, labels: Any, preds: Any) -> None:
        for metric in self.metrics:
            metric.update(labels, preds)

    def reset(self) -> None:
        for metric in self.metrics:
            metric.reset()

    def reset_local(self) -> None:
        for metric in self.metrics:
            metric.reset_local()

    def get_global(self) -> tuple[list[str], list[Any]]:
        both = [pair for metric in self.metrics for pair in metric.get_global_name_value()]
        return [name for name, _ in both], [value for _, value in both]

    def get(self) -> tuple[list[str], list[Any]]:
        both = [pair for metric in self.metrics for pair in metric.get_name_value()]
        return [name for name, _ in both], [value for _, value in both]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "metrics": [m.get_config() for m in self.metrics]}


@register
class Loss(EvalMetric):
    """The mean of losses, given as predictions; labels are ignored.

    Args:
      name: what the metric is called in its results.
      output_names: the names of the outputs that count; all without.
      label_names: the names of the labels that count; all without.

    >>> Loss().name
    'loss'
    """

    def __init__(
        self, name: str = "loss", output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ):  # fmt: skip
        super().__init__(name, output_names=output_names, label_names=label_names)

    def update(self, _: Any, preds: Any) -> None:
        for pred in [preds] if _is_array(preds) else preds:
            self._record(_total, (), (as_np(pred),), pred.size)


@register
class Torch(Loss):
    """`Loss` under another name.

    Args:
      name: what the metric is called in its results.
      output_names: the names of the outputs that count; all without.
      label_names: the names of the labels that count; all without.

    >>> Torch().name
    'torch'
    """

    def __init__(
        self, name: str = "torch", output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ):  # fmt: skip
        super().__init__(name, output_names=output_names, label_names=label_names)


@register
class Caffe(Loss):
    """`Loss` under another name (MXNet 1).

    Args:
      name: what the metric is called in its results.
      output_names: the names of the outputs that count; all without.
      label_names: the names of the labels that count; all without.

    >>> Caffe().name
    'caffe'
    """

    def __init__(
        self, name: str = "caffe", output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ):  # fmt: skip
        super().__init__(name, output_names=output_names, label_names=label_names)


@register
class CustomMetric(EvalMetric):
    """A metric from a function of (label, pred).

    Args:
      feval: gives a value, or (sum, count).
      name: by default the function's.
      allow_extra_outputs: there may be more predictions than labels.
      output_names: the names of the outputs that count; all without.
      label_names: the names of the labels that count; all without.

    >>> CustomMetric(lambda label, pred: (label - pred).sum()).name
    'custom(<lambda>)'
    """

    def __init__(
        self, feval: Callable[[Any, Any], Any], name: str | None = None,
        allow_extra_outputs: bool = False, output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ):  # fmt: skip
        if name is None:
            name = getattr(feval, "__name__", type(feval).__name__)
            name = f"custom({name})" if "<" in name else name
        super().__init__(
            name, feval=feval, allow_extra_outputs=allow_extra_outputs,
            output_names=output_names, label_names=label_names,
        )  # fmt: skip
        self._feval = feval
        self._allow_extra_outputs = allow_extra_outputs

    def update(self, labels: Any, preds: Any) -> None:
        if self._allow_extra_outputs:
            labels = [labels] if _is_array(labels) else labels
            preds = ([preds] if _is_array(preds) else preds)[: len(labels)]
        for label, pred in pairs(labels, preds):
            value = self._feval(label, pred)
            total, count = value if isinstance(value, tuple) else (value, 1)
            self._add(total, count)

    def get_config(self) -> dict[str, Any]:
        raise MXNetNotImplementedError("CustomMetric cannot be serialized: it holds a function")


def np(
    numpy_feval: Callable[[Any, Any], Any], name: str | None = None,
    allow_extra_outputs: bool = False,
) -> CustomMetric:  # fmt: skip
    """A metric from a function of (label, pred) that takes NumPy arrays; it waits for them.

    Args:
      numpy_feval: the function of labels and predictions, arrays of NumPy.
      name: what the metric is called in its results.
      allow_extra_outputs: whether there may be more predictions than labels.

    Returns:
      CustomMetric: the metric.

    >>> np(lambda label, pred: abs(label - pred).mean(), name="mine").name
    'mine'
    """
    if not callable(numpy_feval):
        raise MXNetTypeError(f"a function of (label, pred) is expected, got {numpy_feval!r}")

    def feval(label: Any, pred: Any) -> Any:
        return numpy_feval(label.asnumpy(), pred.asnumpy())

    feval.__name__ = getattr(numpy_feval, "__name__", type(numpy_feval).__name__)
    return CustomMetric(feval, name, allow_extra_outputs)
