"""Networks whose layers multiply 8-bit integers: `mx.contrib.quantization`.

A convolution or a fully connected layer becomes one of int8, whose weights are integers already and whose data
`_contrib_quantize_v2` makes integers; its int32 sums are brought to int8 over a calibrated range. What follows stays in
integers where it can (ReLU, pooling, flattening), and is made floats where it cannot.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mxjax import util
from mxjax.device import current_device
from mxjax.errors import MXNetTypeError, MXNetValueError
from mxjax.symbol import Group
from mxjax.symbol.node import Node, walk

from .calibration import CalibrationCollector, Histograms, MinMax, combine_histogram
from .integer_layers import RANGE_OF, Quantizer, quantized_params

__all__ = [
    "CalibrationCollector",
    "calib_graph",
    "combine_histogram",
    "quantize_graph",
    "quantize_model",
    "quantize_model_mkldnn",
    "quantize_model_onednn",
    "quantize_net",
    "quantize_net_v2",
]

_log = logging.getLogger("mxjax.quantization")


def quantize_graph(
    sym: Any, arg_params: Mapping[str, Any], aux_params: Mapping[str, Any], device: Any = None,
    excluded_sym_names: Sequence[str] | None = None, excluded_op_names: Sequence[str] | None = None,
    calib_mode: str | None = "entropy", quantized_dtype: str = "int8", quantize_mode: str = "full",
    quantize_granularity: str = "tensor-wise", LayerOutputCollector: Any = None, logger: Any = None,  # noqa: N803
) -> tuple[Any, dict[str, Any], dict[str, Any], CalibrationCollector | None, list[str]]:  # fmt: skip
    """A symbol whose layers multiply integers, not calibrated yet, and what collects the ranges for `calib_graph`.

    Args:
      sym: a symbol of float32.
      arg_params, aux_params: its parameters by name.
      excluded_sym_names, excluded_op_names: layers, and operators, that stay float32.
      calib_mode: ``'naive'``, ``'entropy'`` or ``'custom'``; ``'none'``: ranges are those of each batch.
      quantized_dtype: ``'int8'``, or ``'auto'``, which is that; ``'uint8'`` for data without negative numbers, which
        are lost. Weights, and what layers give, are int8.
      quantize_mode: ``'full'``: pooling, flattening, activations, sums and concatenations take integers wherever they
        stand. ``'smart'``: operators without products do so behind layers only, sums and concatenations never.
      quantize_granularity: ``'tensor-wise'``, or ``'channel-wise'``: a scale for each row or filter of a weight.
      LayerOutputCollector: with ``'custom'``, an instance of a subclass of `CalibrationCollector`.

    Returns the symbol, its parameters, the auxiliary states, the collector, and the names of arrays it needs.

    Raises:
      ValueError: an argument is none of these.
    """
    if quantized_dtype not in ("int8", "uint8", "auto"):
        raise MXNetValueError(
            f"unknown quantized_dtype {quantized_dtype} received, expected `int8`, `uint8` or `auto`"
        )
    if quantize_granularity not in ("tensor-wise", "channel-wise"):
        raise MXNetValueError(
            f"unknown quantize_granularity {quantize_granularity} received, expected `tensor-wise` or `channel-wise`."
        )
    if quantize_mode not in ("full", "smart"):
        raise MXNetValueError(
            f"unknown quantize_mode {quantize_mode} received, expected `full` or `smart`"
        )
    collector = _collector(calib_mode, quantized_dtype, LayerOutputCollector)
    made = Quantizer(
        arg_params,
        excluded_sym_names or (),
        excluded_op_names or (),
        calibrated=collector is not None,
        dtype="uint8" if quantized_dtype == "uint8" else "int8",
        by_row=quantize_granularity == "channel-wise",
        full=quantize_mode == "full",
    )
    qsym = made.run(sym)
    layers = list(made.layers)
    if collector is not None and collector.include_layers is None:
        collector.include_layers = layers
    (logger or _log).info("quantized %d arrays", len(layers))
    return qsym, quantized_params(qsym, arg_params, {}), dict(aux_params), collector, layers


def _collector(mode: str | None, dtype: str, given: Any) -> CalibrationCollector | None:
    if mode in (None, "none"):
        return None
    if mode == "naive":
        return MinMax()
    if mode == "entropy":
        return Histograms(quantized_dtype=dtype if dtype != "auto" else "int8")
    if mode == "custom" and given is not None:
        if not isinstance(given, CalibrationCollector):
            raise MXNetValueError(
                f"LayerOutputCollector must be a subclass of a CalibrationCollector class, but it is {type(given)}"
            )
        return given
    raise MXNetValueError(
        f"unknown calibration mode {mode} received, expected `none`, `naive`, `entropy` or `custom`"
    )


def calib_graph(
    qsym: Any, arg_params: Mapping[str, Any], aux_params: Mapping[str, Any], collector: Any,
    calib_mode: str | None = "entropy", quantized_dtype: str | None = "int8", logger: Any = None,
) -> tuple[Any, dict[str, Any], dict[str, Any]]:  # fmt: skip
    """What `quantize_graph` gave with the ranges that a collector has found.

    Args:
      qsym: the quantized symbol.
      arg_params, aux_params: the parameters of the float32 symbol.
      collector: of `quantize_graph`; it has seen all arrays.
      quantized_dtype: of MXNet 1; the symbol has its dtypes from `quantize_graph`.

    Raises:
      ValueError: another mode than ``'naive'``, ``'entropy'`` or ``'custom'``; or a range is missing.
    """
    if calib_mode not in ("naive", "entropy", "custom"):
        raise MXNetValueError(
            "Please set calibration mode to naive, entropy or custom (with custom CalibrationCollector)"
        )
    # Zeros have no scale of their own, and take any.
    ranges = {
        name: (float(low), float(high)) if low or high else (-1.0, 1.0)
        for name, (low, high) in collector.post_collect().items()
    }
    made: dict[Node, Node] = {}
    for node in walk(qsym._entries):
        copy = made[node] = node.on([(made[n], k) for n, k in node.inputs])
        name = node.attrs.get(RANGE_OF)
        if name is None:
            continue
        if name not in ranges:
            raise MXNetValueError(
                f"the collector has no range of {name!r}, which {node.name} needs"
            )
        if not node.is_variable:
            copy.params.update(min_calib_range=ranges[name][0], max_calib_range=ranges[name][1])
            del copy.attrs[RANGE_OF]
    result = qsym._of([(made[n], k) for n, k in qsym._entries])
    return result, quantized_params(result, arg_params, ranges), dict(aux_params)


def _collect(
    sym: Any, params: Mapping[str, Any], inputs: Sequence[str], data: Iterable[Any],
    collector: CalibrationCollector, layers: Sequence[str], batches: int | None, device: Any,
) -> int:  # fmt: skip
    """Show the collector the arrays of these names, of so many batches; on a device, or the current one."""
    device = device or current_device()
    block = importlib.import_module("mxjax.gluon").SymbolBlock
    internals = sym.get_internals()
    known = internals.list_outputs()
    names = [
        n
        for n in dict.fromkeys([*layers, *(collector.include_layers or ())])
        if n in known and n not in inputs
    ]
    operators = {n.outputs()[0]: n.operator for n in sym._nodes()}
    net = None
    if names:
        net = block(Group([internals[n] for n in names]), [sym._variable(n) for n in inputs])
        net.load_dict(_of(net, params), device, cast_dtype=True, dtype_source="saved")
        net.hybridize()
    seen = 0
    for batch in data:
        if batches is not None and seen >= batches:
            break
        arrays = [array.as_in_context(device) for array in _flat(_arrays(batch))[: len(inputs)]]
        for name, array in zip(inputs, arrays, strict=True):
            collector.collect(name, "null", array)
        if net is not None:
            outs = net(*arrays)
            for name, out in zip(
                names, outs if isinstance(outs, (list, tuple)) else [outs], strict=True
            ):
                collector.collect(name, operators.get(name, ""), out)
        seen += 1
    return seen


def _arrays(batch: Any) -> list[Any]:
    """The arrays of a batch: of a DataLoader, or of a 1.x iterator."""
    if hasattr(batch, "data") and isinstance(batch.data, (list, tuple)):
        return list(batch.data)
    return list(batch) if isinstance(batch, (list, tuple)) else [batch]


def _flat(batch: Any) -> list[Any]:
    """The arrays of nested lists, as a network's symbol takes them."""
    return [
        array
        for part in batch
        for array in (_flat(part) if isinstance(part, (list, tuple)) else [part])
    ]


def _of(net: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    return {n: params[n] for n in net.collect_params() if n in params}


def quantize_model(
    sym: Any, arg_params: Mapping[str, Any], aux_params: Mapping[str, Any], data_names: Sequence[str] = ("data",),
    device: Any = None, excluded_sym_names: Sequence[str] | None = None,
    excluded_op_names: Sequence[str] | None = None, calib_mode: str | None = "entropy", calib_data: Any = None,
    num_calib_batches: int | None = None, quantized_dtype: str = "int8", quantize_mode: str = "smart",
    quantize_granularity: str = "tensor-wise", logger: Any = None, label_names: Sequence[str] = (), ctx: Any = None,
    num_calib_examples: int | None = None,
) -> tuple[Any, dict[str, Any], dict[str, Any]]:  # fmt: skip
    """A model whose layers multiply 8-bit integers: symbol, parameters and auxiliary states.

    Args:
      data_names: the symbol's inputs.
      calib_data: batches for the ranges: a `gluon.data.DataLoader`, a 1.x iterator or any other iterable.
      num_calib_batches: how many of them; `num_calib_examples` (MXNet 1) counts samples instead.
      others: as of `quantize_graph`; `label_names`, `ctx`, `device` are accepted.

    Raises:
      ValueError: as `quantize_graph`; or there is no calib_data.
    """
    names = {"excluded_sym_names": excluded_sym_names, "excluded_op_names": excluded_op_names}
    for name, given in names.items():
        if given is not None and not isinstance(given, list):
            raise MXNetValueError(
                f"{name} must be a list of strings, while received type {type(given)}"
            )
    qsym, qargs, aux, collector, layers = quantize_graph(
        sym, arg_params, aux_params, device, excluded_sym_names, excluded_op_names, calib_mode, quantized_dtype,
        quantize_mode, quantize_granularity, None, logger,
    )  # fmt: skip
    if collector is None:
        return qsym, qargs, aux
    if calib_data is None:
        raise MXNetValueError(f"calib_data must be provided when calib_mode={calib_mode}")
    params = {**arg_params, **aux_params}
    batches = _batches(num_calib_batches, num_calib_examples, calib_data)
    seen = _collect(sym, params, data_names, calib_data, collector, layers, batches, device or ctx)
    (logger or _log).info("calibrated on %d batches", seen)
    return calib_graph(qsym, arg_params, aux_params, collector, calib_mode, logger=logger)


def _batches(batches: int | None, examples: int | None, data: Any) -> int | None:
    size = getattr(data, "batch_size", None)
    return -(-examples // size) if batches is None and examples is not None and size else batches


quantize_model_onednn = quantize_model_mkldnn = quantize_model


def quantize_net(
    network: Any, quantized_dtype: str = "auto", quantize_mode: str = "full",
    quantize_granularity: str = "tensor-wise", exclude_layers: Sequence[str] | None = None,
    exclude_layers_match: Sequence[str] | None = None, exclude_operators: Sequence[str] | None = None,
    calib_data: Any = None, data_shapes: Any = None, calib_mode: str | None = "none",
    num_calib_batches: int | None = None, device: Any = None, LayerOutputCollector: Any = None,  # noqa: N803
    logger: Any = None, ctx: Any = None, num_calib_examples: int | None = None,
) -> Any:  # fmt: skip
    """A block that computes what a network does with layers of 8-bit integers.

    Args:
      network: a HybridBlock; it is hybridized.
      exclude_layers, exclude_layers_match, exclude_operators: layers by name or a part of it, and operators, that
        stay float32.
      calib_data: batches for the ranges, or for the shapes alone; what goes beyond the network's inputs is labels.
      data_shapes: shapes (or `DataDesc`) of the inputs, where there is no calib_data.
      calib_mode, num_calib_batches, others: as of `quantize_model`.

    Raises:
      TypeError: it is no HybridBlock.
      ValueError: neither data_shapes nor calib_data; or as `quantize_graph`.

    >>> import mxjax as mx
    >>> net = mx.gluon.nn.Dense(2, in_units=3)
    >>> net.initialize(mx.init.One())
    >>> quantize_net(net, data_shapes=[(1, 3)])(mx.np.ones((1, 3))).round(2)
    array([[3., 3.]])
    """
    gluon = importlib.import_module("mxjax.gluon")
    if not isinstance(network, gluon.HybridBlock):
        raise MXNetTypeError(
            f"quantize_net takes a HybridBlock, which has a graph, got {type(network).__name__}: a Sequential of "
            "hybrid blocks may be a HybridSequential"
        )
    network.hybridize()
    inputs = _example(calib_data, data_shapes)
    while True:
        try:
            network(*inputs)
            break
        except (ValueError, TypeError) as error:
            if len(inputs) < 2:
                raise
            (logger or _log).warning("one input less, since the network refuses them: %s", error)
            inputs.pop()
    sym, marked = network.export(None)
    args = {name[4:]: a for name, a in marked.items() if name.startswith("arg:")}
    aux = {name[4:]: a for name, a in marked.items() if name.startswith("aux:")}
    # In the order of the network's arguments, which need not be the one that the symbol reads them in.
    exporting = importlib.import_module("mxjax.gluon.files.exporting")
    data_names = exporting.input_names(network)
    names = {n.name for n in sym._nodes()}
    excluded = [
        *(exclude_layers or ()),
        *[n for part in exclude_layers_match or () for n in names if part in n],
    ]
    qsym, qargs, aux, collector, layers = quantize_graph(
        sym, args, aux, device or ctx, excluded, exclude_operators, calib_mode, quantized_dtype, quantize_mode,
        quantize_granularity, LayerOutputCollector, logger,
    )  # fmt: skip
    if collector is not None:
        if calib_data is None:
            raise MXNetValueError(f"calib_data must be provided when calib_mode={calib_mode}")
        batches = _batches(num_calib_batches, num_calib_examples, calib_data)
        _collect(
            sym, {**args, **aux}, data_names, calib_data, collector, layers, batches, device or ctx
        )
        qsym, qargs, aux = calib_graph(qsym, args, aux, collector, calib_mode, logger=logger)
    net = gluon.SymbolBlock(qsym, [qsym._variable(n) for n in data_names])
    net.load_dict(
        {**qargs, **aux}, device or ctx or current_device(), cast_dtype=True, dtype_source="saved"
    )
    for param in net.collect_params().values():
        param.grad_req = "null"
    return net


quantize_net_v2 = quantize_net


def _example(data: Any, shapes: Any) -> list[Any]:
    """Arrays to call the network with once."""
    if shapes is None:  # an iterator's first batch stays for the ranges
        shapes = getattr(data, "provide_data", None)
    if shapes is not None:
        make = importlib.import_module("mxjax.np" if util.is_np_array() else "mxjax.nd").zeros
        given = [shapes] if shapes and isinstance(shapes[0], int) else shapes
        return [make(getattr(s, "shape", s), dtype=getattr(s, "dtype", "float32")) for s in given]
    if data is None:
        raise MXNetValueError("At least one of data_shapes or calib_data has to be provided.")
    return _arrays(next(iter(data)))
