"""Steps of MXNet's quantization that its users' scripts call: files, iterators, collectors and thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import nd
from ..base import py_str
from ..errors import MXNetAssertionError, MXNetTypeError, MXNetValueError
from ..io import DataBatch, DataDesc, DataIter
from ..model import unmarked_params
from ..nd._thresholds import optimal_threshold, smooth
from ..symbol import Symbol, load
from .calibration import Histograms, MinMax, combine_histogram

__all__: list[str] = []


def _load_sym(sym: Any, logger: Any = None) -> Symbol:
    """A symbol, or that of a file.

    Raises:
      ValueError: neither.
    """
    if isinstance(sym, Symbol):
        return sym
    if not isinstance(sym, str):
        raise MXNetValueError(
            f"_load_sym only accepts Symbol or path to the symbol file, while received type {type(sym)}"
        )
    if logger:
        logger.info("Loading symbol from file %s", sym)
    return load(sym)  # type: ignore[no-any-return]


def _load_params(params: Any, logger: Any = None) -> tuple[Any, Any]:
    """Arguments and auxiliary states by name: a pair of dictionaries, or those of a file.

    Raises:
      ValueError: neither.
    """
    if isinstance(params, str):
        if logger:
            logger.info("Loading params from file %s", params)
        return unmarked_params(nd.load(params))
    if isinstance(params, (tuple, list)) and len(params) == 2:
        return params[0], params[1]
    raise MXNetValueError(
        "Unsupported params provided. Must be either a path to the param file or a pair of dictionaries representing "
        "arg_params and aux_params"
    )


def _plain(arrays: Any) -> list[Any]:
    """The arrays of a batch; data of more than four axes have the first two joined."""
    arrays = list(arrays) if isinstance(arrays, (list, tuple)) else [arrays]
    if arrays[0].ndim > 4:
        arrays[0] = arrays[0].reshape((-1, *arrays[0].shape[2:]))
    return arrays


class _DataIterWrapper(DataIter):
    """Anything that gives batches, such as a `gluon.data.DataLoader`, as a `DataIter` without labels.

    Raises:
      TypeError: it cannot be iterated over.
    """

    def __init__(self, calib_data: Any):
        self._data = calib_data
        try:
            example = _plain(next(iter(calib_data)))
        except TypeError as error:
            raise MXNetTypeError(f"calib_data is not a valid iterator. {error}") from error
        names = (
            [f"data{i}" for i in range(len(example))] if len(example) >= 3 else ["data", "data0"]
        )
        self.provide_data = [
            DataDesc(name, x.shape) for name, x in zip(names, example, strict=False)
        ]
        self.batch_size = example[0].shape[0]
        self.reset()

    def reset(self) -> None:
        self._iter = iter(self._data)

    def next(self) -> DataBatch:
        return DataBatch(data=_plain(next(self._iter)))


def _as_data_iter(calib_data: Any) -> tuple[DataIter, list[DataDesc]]:
    """Data as a `DataIter`, and the descriptions of its inputs."""
    found = calib_data if isinstance(calib_data, DataIter) else _DataIterWrapper(calib_data)
    return found, found.provide_data  # type: ignore[attr-defined]


class _LayerHistogramCollector(Histograms):
    """Histograms of layers' outputs.

    `collect` is a monitor's callback in MXNet 1 and takes the operator's name, too, in MXNet 2, where the dtype is the
    first argument.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and isinstance(args[0], str):
            kwargs["quantized_dtype"], args = args[0], args[1:]
        names = ("num_bins", "include_layers", "logger")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        self.logger = given.pop("logger", None)
        # `include_layer` is MXNet 1's word. No layers are none there, and all here.
        self.include_layer = given.pop("include_layer", given.pop("include_layers", None))
        super().__init__(include_layers=self.include_layer or (), **given)

    def collect(self, name: str | bytes, *said: Any) -> None:  # type: ignore[override]
        """Count the numbers of an output, if its layer is wanted."""
        super().collect(py_str(name), "", said[-1])

    combine_histogram = staticmethod(combine_histogram)

    @staticmethod
    def get_optimal_threshold(*args: Any, **kwargs: Any) -> tuple[Any, Any, Any, Any]:
        """`_get_optimal_threshold`, where MXNet 2 has it."""
        return _get_optimal_threshold(*args, **kwargs)

    @staticmethod
    def get_optimal_thresholds(*args: Any, **kwargs: Any) -> dict[str, tuple[Any, Any]]:
        """`_get_optimal_thresholds`, where MXNet 2 has it."""
        return _get_optimal_thresholds(*args, **kwargs)


class _LayerOutputMinMaxCollector(MinMax):
    """The smallest and the largest number of layers' outputs; `collect` as in `_LayerHistogramCollector`."""

    def __init__(
        self,
        quantized_dtype: str,
        include_layers: Sequence[str] | None = None,
        logger: Any = None,
        include_layer: Sequence[str] | None = None,
    ):
        self.include_layer = include_layers if include_layer is None else include_layer
        super().__init__(self.include_layer or ())
        self.quantized_dtype = quantized_dtype
        self.logger = logger

    def collect(self, name: str | bytes, *said: Any) -> None:  # type: ignore[override]
        """Look at an output, if its layer is wanted."""
        super().collect(py_str(name), "", said[-1])


def _collect_layer_statistics(
    mod: Any,
    data: DataIter,
    collector: Any,
    max_num_examples: int | None = None,
    logger: Any = None,
) -> int:
    """Let a collector see the outputs of a bound module's layers for the batches of an iterator; how many samples.

    Raises:
      ValueError: no `DataIter`.
    """
    if not isinstance(data, DataIter):
        raise MXNetValueError(
            f"Only supports data as a type of DataIter, while received type {type(data)}"
        )
    mod._exec_group.execs[0].set_monitor_callback(collector.collect, monitor_all=True)
    seen = 0
    for batch in data:
        mod.forward(data_batch=batch, is_train=False)
        for out in mod.get_outputs():
            out.wait_to_read()
        seen += data.batch_size
        if max_num_examples is not None and seen >= max_num_examples:
            break
    if logger is not None:
        logger.info(
            "Collected statistics from %d samples with batch_size=%d", seen, data.batch_size
        )
    return seen


def _collect_layer_output_min_max(
    mod: Any, data: DataIter, quantized_dtype: str, include_layer: Sequence[str] | None = None,
    max_num_examples: int | None = None, logger: Any = None,
) -> tuple[dict[str, tuple[float, float]], int]:  # fmt: skip
    """The smallest and the largest number of layers' outputs, and how many samples there were."""
    collector = _LayerOutputMinMaxCollector(quantized_dtype, include_layer, logger)
    return collector.min_max_dict, _collect_layer_statistics(
        mod, data, collector, max_num_examples, logger
    )


def _collect_layer_histogram(
    mod: Any, data: DataIter, include_layer: Sequence[str] | None = None, max_num_examples: int | None = None,
    logger: Any = None,
) -> tuple[dict[str, Any], int]:  # fmt: skip
    """Histograms of layers' outputs, and how many samples there were."""
    collector = _LayerHistogramCollector(include_layer=include_layer, logger=logger)
    return collector.hist_dict, _collect_layer_statistics(
        mod, data, collector, max_num_examples, logger
    )


def _smooth_distribution(p: Any, eps: float = 0.0001) -> np.ndarray:
    """A histogram whose zeros are `eps`, taken from what is not zero.

    Raises:
      ValueError: all are zero.
      AssertionError: there are too many zeros.
    """
    numbers = np.asarray(p)
    if not (numbers != 0).any():
        raise MXNetValueError(
            "The discrete probability distribution is malformed. All entries are 0."
        )
    found = smooth(numbers, eps)
    if found is None or (found <= 0).any():
        raise MXNetAssertionError(
            f"the zeros of the distribution take more than the rest has: eps={eps}"
        )
    return found.astype(np.float32)


def _get_optimal_threshold(
    hist_data: tuple[Any, ...], quantized_dtype: str, num_quantized_bins: int = 255
) -> tuple[Any, Any, Any, Any]:
    """The least and the greatest number of a histogram, the reach of 8-bit integers that suits it, and how much their
    distributions diverge."""
    counts, edges, low, high, _ = hist_data
    unsigned = low >= 0 and quantized_dtype in ("auto", "uint8")
    return (
        low,
        high,
        *optimal_threshold(
            counts, edges, num_quantized_bins * 2 + 1 if unsigned else num_quantized_bins
        ),
    )


def _get_optimal_thresholds(
    hist_dict: dict[str, Any],
    quantized_dtype: str,
    num_quantized_bins: int = 255,
    logger: Any = None,
) -> dict[str, tuple[Any, Any]]:
    """The range that 8-bit integers stand for, for each layer; the histograms are taken out of the dictionary."""
    found = {}
    for name in list(hist_dict):
        low, _, reach, _ = _get_optimal_threshold(
            hist_dict.pop(name), quantized_dtype, num_quantized_bins
        )
        found[name] = (0 if low >= 0 and quantized_dtype in ("auto", "uint8") else -reach, reach)
        if logger:
            logger.debug("layer=%s, th=%s", name, found[name])
    return found


def _generate_list_of_data_desc(data_shapes: Any, data_types: Any) -> list[DataDesc]:
    """Descriptions of inputs, from tuples of shapes and a dtype for each: `data`, or `data0`, `data1`, ...

    Raises:
      ValueError: neither descriptions nor tuples.
    """
    if isinstance(data_shapes, list) and all(isinstance(each, DataDesc) for each in data_shapes):
        return data_shapes
    if not isinstance(data_shapes, list) or not all(
        isinstance(each, tuple) for each in data_shapes
    ):
        raise MXNetValueError("data_shapes must be either a list of DataDesc or a list of Tuple")
    names = ["data"] if len(data_shapes) == 1 else [f"data{i}" for i in range(len(data_shapes))]
    return [
        DataDesc(name, shape, dtype)
        for name, shape, dtype in zip(names, data_shapes, data_types, strict=False)
    ]
