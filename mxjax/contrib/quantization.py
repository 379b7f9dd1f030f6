"""Networks whose layers multiply 8-bit integers: `mx.contrib.quantization`.

A convolution or a fully connected layer becomes one of int8, whose weights are integers already and whose data
`_contrib_quantize_v2` makes integers; its int32 sums are brought to int8 over a calibrated range. What follows stays in
integers where it can (ReLU, pooling, flattening), and is made floats where it cannot.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mxjax import nd, util
from mxjax.device import current_device
from mxjax.errors import MXNetError, MXNetTypeError, MXNetValueError
from mxjax.ops.table import by_internal
from mxjax.symbol import Group
from mxjax.symbol.node import Entry, Node, walk

from .calibration import CalibrationCollector, Histograms, MinMax, combine_histogram

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
_FLOAT, _INT32, _INT8 = "0", "4", "5"
_SUFFIX = "_quantize"
#: What a node remembers until it is calibrated: the array whose range it needs, of a bias the layer's weight and the
#: greatest integer of its data, and whether weights have a scale for each row.
_RANGE_OF, _WEIGHT_OF = "__calib_range_of__", "__calib_weight__"
_DATA_TOP, _BY_ROW = "__calib_top__", "__calib_by_row__"
#: Operators that leave integers as they are: their forms for them.
_PASS = {
    "Pooling": "_contrib_quantized_pooling", "Flatten": "_contrib_quantized_flatten",
    "Activation": "_contrib_quantized_act", "relu": "_contrib_quantized_act", "_npx_relu": "_contrib_quantized_act",
}  # fmt: skip
_PRODUCTS = {
    "FullyConnected": "_contrib_quantized_fully_connected",
    "Convolution": "_contrib_quantized_conv",
}


class _Whole(NamedTuple):
    """Integers with the bounds of their range, and the name of the array whose calibrated range it is."""

    data: Entry
    low: Entry
    high: Entry
    range_of: str
    top: int = 127


class _Quantizer:
    """One pass over a graph: what each result is in floats, and in integers where it has been made so."""

    def __init__(
        self, params: Iterable[str], skip: Iterable[str], skip_ops: Iterable[str], calibrated: bool,
        dtype: str = "int8", by_row: bool = False,
    ):  # fmt: skip
        self.dtype, self.by_row = dtype, by_row
        self.params = set(params)
        self.skip, self.skip_ops = set(skip), set(skip_ops)
        self.calibrated = calibrated
        self.floats: dict[Entry, Entry] = {}
        self.whole: dict[Entry, _Whole] = {}
        self.layers: dict[str, None] = {}  # the arrays whose ranges are needed, in order

    def run(self, sym: Any) -> Any:
        for node in walk(sym._entries):
            if node.is_variable:
                self.floats[node, 0] = node.on(()), 0
            elif not self._quantized(node):
                made = node.on([self._float(e) for e in node.inputs])
                for k in range(
                    max(node.count(), 1 + max((j for n, j in sym._entries if n is node), default=0))
                ):
                    self.floats[node, k] = made, k
        return sym._of([self._float(e) for e in sym._entries])

    def _float(self, entry: Entry) -> Entry:
        found = self.floats.get(entry)
        if found is None:
            whole = self.whole.get(entry)
            if whole is None:  # a hidden result of a node that was copied
                return self.floats[entry[0], 0][0], entry[1]
            name = f"{entry[0].name}_dequantize"
            found = self._call(
                "_contrib_dequantize", name, {}, [whole.data, whole.low, whole.high], entry[0]
            )
            self.floats[entry] = found
        return found

    def _integers(self, entry: Entry) -> _Whole:
        """A result as integers of the dtype that was asked for."""
        found = self.whole.get(entry)
        if found is None:
            name = entry[0].outputs()[entry[1]]
            self.layers[name] = None
            made, _ = self._call(
                "_contrib_quantize_v2",
                f"{name}{_SUFFIX}",
                {"out_type": self.dtype},
                [self._float(entry)],
                entry[0],
            )
            made.attrs[_RANGE_OF] = name
            found = self.whole[entry] = _Whole(
                (made, 0), (made, 1), (made, 2), name, 255 if self.dtype == "uint8" else 127
            )
        return found

    def _call(
        self, operator: str, name: str, params: Mapping[str, Any], inputs: Sequence[Entry], like: Node,
        names: Sequence[str] = (),
    ) -> Entry:  # fmt: skip
        op = by_internal(operator)
        if op is None:
            raise MXNetError(f"there is no operator {operator}, which layers of integers need")
        return Node(
            name, op, params, {}, inputs, names or op.array_params[: len(inputs)], is_np=like.is_np
        ), 0  # fmt: skip

    def _quantized(self, node: Node) -> bool:
        """Make the integers' form of a node, where there is one."""
        if node.name in self.skip or node.operator in self.skip_ops:
            return False
        if node.operator in _PRODUCTS:
            return self._product(node)
        if node.operator not in _PASS or not node.inputs or node.inputs[0] not in self.whole:
            return False
        params = {k: v for k, v in node.params.items() if v is not None}
        if node.operator in ("relu", "_npx_relu"):
            params = {"act_type": "relu"}
        elif node.operator == "Activation" and params.get("act_type", "relu") != "relu":
            return False
        elif node.operator == "Pooling" and params.get("pool_type", "max") not in ("max", "avg"):
            return False
        given = self.whole[node.inputs[0]]
        made, _ = self._call(
            _PASS[node.operator], f"quantized_{node.name}", params, given[:3], node
        )
        self.whole[node, 0] = given._replace(data=(made, 0), low=(made, 1), high=(made, 2))
        return True

    def _product(self, node: Node) -> bool:
        given = dict(zip(node.names, node.inputs, strict=True))
        weight, bias = given.get("weight"), given.get("bias")
        if weight is None or weight[0].name not in self.params or node.constants:
            return False
        if bias is not None and bias[0].name not in self.params:
            return False
        params = {k: v for k, v in node.params.items() if v is not None}
        if node.operator == "Convolution" and params.get("layout") not in (
            None,
            "NCW",
            "NCHW",
            "NCDHW",
        ):
            return False
        data = self._integers(node.inputs[0])
        w = [self._variable(weight[0].name + _SUFFIX + end, d) for end, d in _ends(_INT8)]
        if self.by_row:
            for node_, _ in w:
                node_.attrs[_BY_ROW] = "1"
        with_bias = bias is not None and not params.get("no_bias")
        inside = with_bias and (node.operator == "FullyConnected" or self.calibrated)
        inputs, names = [data.data, w[0]], ["data", "weight"]
        bounds, bound_names = (
            [data.low, data.high, w[1], w[2]],
            ["min_data", "max_data", "min_weight", "max_weight"],
        )
        if inside:
            assert bias is not None
            own = _INT8 if node.operator == "FullyConnected" else _INT32
            b = [self._variable(bias[0].name + _SUFFIX + end, d) for end, d in _ends(own)]
            if own == _INT32:  # whole numbers on the scale of the products
                b[0][0].attrs.update(
                    {_RANGE_OF: data.range_of, _WEIGHT_OF: weight[0].name, _DATA_TOP: str(data.top)}
                )
                if self.by_row:
                    b[0][0].attrs[_BY_ROW] = "1"
            inputs.append(b[0])
            names.append("bias")
            bounds += b[1:]
            bound_names += ["min_bias", "max_bias"]
        params["no_bias"] = not inside
        made, _ = self._call(
            _PRODUCTS[node.operator],
            f"quantized_{node.name}",
            params,
            [*inputs, *bounds],
            node,
            [*names, *bound_names],
        )
        name = node.outputs()[0]
        back, _ = self._call(
            "_contrib_requantize", f"requantize_{node.name}", {}, [(made, k) for k in range(3)], node
        )  # fmt: skip
        whole = _Whole((back, 0), (back, 1), (back, 2), name)
        if with_bias and not inside:  # its scale follows from each batch: it is added to floats
            assert bias is not None
            floats = self._call(
                "_contrib_dequantize", f"{node.name}_dequantize", {}, whole[:3], node
            )
            axes = (1, -1, *[1] * len(params["kernel"]))
            shaped = self._call(
                "Reshape", f"{node.name}_bias_reshape", {"shape": axes}, [self._float(bias)], node
            )
            added = self._call("broadcast_add", f"{node.name}_bias_add", {}, [floats, shaped], node)
            self.floats[node, 0] = added
        else:
            self.layers[name] = None
            back.attrs[_RANGE_OF] = name
            self.whole[node, 0] = whole
        return True

    def _variable(self, name: str, dtype: str) -> Entry:
        for (node, _), entry in self.floats.items():
            if node.is_variable and node.name == name:
                return entry
        made = Node(name, attrs={"__dtype__": dtype})
        self.floats[made, 0] = made, 0
        return made, 0


def _ends(dtype: str) -> tuple[tuple[str, str], ...]:
    return ("", dtype), ("_min", _FLOAT), ("_max", _FLOAT)


def _quantized_params(
    qsym: Any, params: Mapping[str, Any], ranges: Mapping[str, Any]
) -> dict[str, Any]:
    """The parameters that a quantized symbol takes, of those of the symbol it was made from."""
    made: dict[str, Any] = {}
    scales = _scales(qsym, params, ranges)

    def reach_of(name: str, by_row: bool) -> np.ndarray:
        """The numbers' reach, or that of the bias beside them, in a shape that broadcasts against them."""
        found = _reach(np.asarray(params[name].asnumpy(), "float32"), by_row)
        least = scales[name][1] if name in scales else np.float32(0)
        return np.maximum(found, least.reshape(-1, *[1] * (found.ndim - 1))).astype("float32")

    for node in qsym._variables():
        base = node.name
        for end in (_SUFFIX, f"{_SUFFIX}_min", f"{_SUFFIX}_max"):
            if node.name.endswith(end) and node.name.removesuffix(end) in params:
                base = node.name.removesuffix(end)
        if base not in params:
            continue
        array = params[base]
        if base == node.name:
            made[node.name] = array
            continue
        numbers = np.asarray(array.asnumpy(), "float32")
        by_row = _BY_ROW in node.attrs
        reach = reach_of(base, by_row and _WEIGHT_OF not in node.attrs)
        if node.name.endswith("_min") or node.name.endswith("_max"):
            sign = -1 if node.name.endswith("_min") else 1
            made[node.name] = _like(array, sign * reach.reshape(-1))
        elif _WEIGHT_OF in node.attrs:
            part = scales[node.attrs[_WEIGHT_OF]][0]
            unit = part * reach_of(node.attrs[_WEIGHT_OF], by_row).reshape(-1)
            whole = np.rint(numbers / unit) if part else np.zeros_like(numbers)
            made[node.name] = _like(array, whole.astype("int32"))
        else:
            made[node.name] = _like(array, np.rint(numbers * (127 / reach)).astype("int8"))
    return made


def _scales(
    qsym: Any, params: Mapping[str, Any], ranges: Mapping[str, Any]
) -> dict[str, tuple[float, np.ndarray]]:
    """What biases on the scale of products ask of it, by the weights beside them: the data's part of a product's step,
    and the least reach of the weight with which the bias fits into 32 bits."""
    found: dict[str, tuple[float, np.ndarray]] = {}
    for node in qsym._variables():
        if _WEIGHT_OF in node.attrs and node.name.endswith(_SUFFIX):
            low, high = ranges.get(node.attrs[_RANGE_OF], (0.0, 0.0))
            part = max(abs(float(low)), abs(float(high))) / (127 * int(node.attrs[_DATA_TOP]))
            bias = np.abs(params[node.name.removesuffix(_SUFFIX)].asnumpy().astype("float32"))
            bias = bias if _BY_ROW in node.attrs else bias.max(initial=0)
            found[node.attrs[_WEIGHT_OF]] = part, bias / (2**30 * part) if part else bias * 0
    return found


def _reach(numbers: np.ndarray, by_row: bool) -> np.ndarray:
    """The largest size of all numbers, or of each row's, in a shape that broadcasts against them; 1 for zeros."""
    axes = tuple(range(1 if by_row else 0, numbers.ndim))
    found = np.abs(numbers).max(axes, initial=0.0, keepdims=True).astype("float32")
    return np.where(found == 0, np.float32(1), found)


def _like(array: Any, numbers: np.ndarray) -> Any:
    made = nd.array(numbers, dtype=numbers.dtype)
    return made if type(array) is type(made) else made.as_np_ndarray()


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
      quantize_mode: ``'full'`` or ``'smart'``: operators without products stay in integers behind layers only.
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
            f"unkonwn quantize_granularity {quantize_granularity} received, expected `tensor-wise` or `channel-wise`."
        )
    if quantize_mode not in ("full", "smart"):
        raise MXNetValueError(
            f"unknown quantize_mode {quantize_mode} received, expected `full` or `smart`"
        )
    collector = _collector(calib_mode, quantized_dtype, LayerOutputCollector)
    made = _Quantizer(
        arg_params, excluded_sym_names or (), excluded_op_names or (), collector is not None,
        "uint8" if quantized_dtype == "uint8" else "int8", quantize_granularity == "channel-wise",
    )  # fmt: skip
    qsym = made.run(sym)
    layers = list(made.layers)
    if collector is not None and collector.include_layers is None:
        collector.include_layers = layers
    (logger or _log).info("quantized %d arrays", len(layers))
    return qsym, _quantized_params(qsym, arg_params, {}), dict(aux_params), collector, layers


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
                f"LayerOutputCollecotr must be a subclass of a CalibrationCollector class, but it is {type(given)}"
            )
        return given
    raise MXNetValueError(
        f"unknown calibration mode {mode} received, expected `none`, `naive`, `entropy` or `custom`"
    )


def calib_graph(
    qsym: Any, arg_params: Mapping[str, Any], aux_params: Mapping[str, Any], collector: Any,
    calib_mode: str | None = "entropy", logger: Any = None,
) -> tuple[Any, dict[str, Any], dict[str, Any]]:  # fmt: skip
    """What `quantize_graph` gave with the ranges that a collector has found.

    Args:
      qsym: the quantized symbol.
      arg_params, aux_params: the parameters of the float32 symbol.
      collector: of `quantize_graph`; it has seen all arrays.

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
        name = node.attrs.get(_RANGE_OF)
        if name is None:
            continue
        if name not in ranges:
            raise MXNetValueError(
                f"the collector has no range of {name!r}, which {node.name} needs"
            )
        if not node.is_variable:
            copy.params.update(min_calib_range=ranges[name][0], max_calib_range=ranges[name][1])
            del copy.attrs[_RANGE_OF]
    result = qsym._of([(made[n], k) for n, k in qsym._entries])
    return result, _quantized_params(result, arg_params, ranges), dict(aux_params)


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
        arrays = [array.as_in_context(device) for array in _arrays(batch)[: len(inputs)]]
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
    return calib_graph(qsym, arg_params, aux_params, collector, calib_mode, logger)


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
        qsym, qargs, aux = calib_graph(qsym, args, aux, collector, calib_mode, logger)
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
