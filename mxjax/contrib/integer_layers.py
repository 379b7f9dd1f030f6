"""Layers of 8-bit integers in a graph: which nodes become such, and the parameters that they take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from mxjax import nd
from mxjax.errors import MXNetError
from mxjax.ops.table import TABLE, Op, by_internal
from mxjax.symbol.node import Entry, Node, walk

_FLOAT, _INT32, _INT8 = "0", "4", "5"
_SUFFIX = "_quantize"
#: What a node remembers until it is calibrated: the array whose range it needs, of a bias the layer's weight and the
#: greatest integer of its data, and whether weights have a scale for each row.
RANGE_OF, _WEIGHT_OF = "__calib_range_of__", "__calib_weight__"
_DATA_TOP, _BY_ROW = "__calib_top__", "__calib_by_row__"
#: The pooling that integers stay integers under.
_POOLS = ("max", "avg")


@cache
def _forms() -> dict[str, tuple[Op, str]]:
    """By the registry names of rows those that compute them of integers, and where they do (`columns.PLACES`)."""
    return {name: (op, at) for op in TABLE.values() for name, at in op.precision.quantizes.items()}


class _Whole(NamedTuple):
    """Integers with the bounds of their range, and the name of the array whose calibrated range it is, if one's."""

    data: Entry
    low: Entry
    high: Entry
    range_of: str
    top: int = 127


class Quantizer:
    """One pass over a graph: what each result is in floats, and in integers where it has been made so."""

    def __init__(
        self, params: Iterable[str], skip: Iterable[str], skip_ops: Iterable[str], calibrated: bool,
        dtype: str = "int8", by_row: bool = False, full: bool = False,
    ):  # fmt: skip
        self.dtype, self.by_row, self.full = dtype, by_row, full
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
            made.attrs[RANGE_OF] = name
            found = self.whole[entry] = _Whole(
                (made, 0), (made, 1), (made, 2), name, 255 if self.dtype == "uint8" else 127
            )
        return found

    def _call(
        self, operator: str | Op, name: str, params: Mapping[str, Any], inputs: Sequence[Entry], like: Node,
        names: Sequence[str] = (),
    ) -> Entry:  # fmt: skip
        op = operator if isinstance(operator, Op) else by_internal(operator)
        if op is None:
            raise MXNetError(f"there is no operator {operator}, which layers of integers need")
        return Node(
            name, op, params, {}, inputs, names or op.array_params[: len(inputs)], is_np=like.is_np
        ), 0  # fmt: skip

    def _quantized(self, node: Node) -> bool:
        """Make the integers' form of a node, where there is one."""
        if node.name in self.skip or node.operator in self.skip_ops:
            return False
        if node.operator not in _forms() or not node.inputs:
            return False
        form, place = _forms()[node.operator]
        if place == "layer":
            return self._product(node, form)
        if place == "joined":
            return self.full and self._joined(node, form)
        if node.inputs[0] not in self.whole and not (self.full and place == "anywhere"):
            return False
        params = {k: v for k, v in node.params.items() if v is not None}
        if "act_type" in form.attr_params:
            params.setdefault("act_type", "relu")
        if params.get("act_type", "relu") != "relu" or params.get("pool_type", "max") not in _POOLS:
            return False
        given = self._integers(node.inputs[0])
        if (
            "act_type" in params and given.top > 127
        ):  # numbers without a sign, which there are none below 0 of
            self.whole[node, 0] = given
            return True
        made, _ = self._call(form, f"quantized_{node.name}", params, given[:3], node)
        self.whole[node, 0] = given._replace(data=(made, 0), low=(made, 1), high=(made, 2))
        return True

    def _joined(self, node: Node, form: Op) -> bool:
        if (
            node.constants
            or len(node.inputs) < 2
            or any(n.name in self.params for n, _ in node.inputs)
        ):
            return False
        attrs = {**node.op.attr_defaults, **node.params} if node.op else node.params
        axis = attrs.get("axis", attrs.get("dim", 1))  # as NumPy's row says it, and that of nd
        if axis is None:  # all elements in one row
            return False
        given = [self._integers(entry) for entry in node.inputs]
        inputs = [w.data for w in given] + [bound for w in given for bound in (w.low, w.high)]
        name = f"quantized_{node.name}"
        if "dim" not in form.attr_params:  # sums of 32 bits
            made, _ = self._call(form, name, {}, inputs, node)
            self._calibrate(node, self._eight_bits(node, made))
            return True
        params = {"dim": axis, "num_args": len(given)}
        names = [f"arg{k}" for k in range(len(inputs))]
        made, _ = self._call(form, name, params, inputs, node, names)
        top = min(w.top for w in given)  # of int8, if one of them is
        self.whole[node, 0] = _Whole((made, 0), (made, 1), (made, 2), "", top)
        return True

    def _product(self, node: Node, form: Op) -> bool:
        given = dict(zip(node.names, node.inputs, strict=True))
        weight, bias = given.get("weight"), given.get("bias")
        if weight is None or weight[0].name not in self.params or node.constants:
            return False
        if bias is not None and bias[0].name not in self.params:
            return False
        params = {k: v for k, v in node.params.items() if v is not None}
        if params.get("layout") not in (None, "NCW", "NCHW", "NCDHW"):
            return False
        data = self._integers(node.inputs[0])
        w = [self._variable(weight[0].name + _SUFFIX + end, d) for end, d in _ends(_INT8)]
        if self.by_row:
            for node_, _ in w:
                node_.attrs[_BY_ROW] = "1"
        with_bias = bias is not None and not params.get("no_bias")
        dense = "num_hidden" in form.attr_params
        inside = with_bias and (dense or (self.calibrated and data.range_of))
        inputs, names = [data.data, w[0]], ["data", "weight"]
        bounds, bound_names = (
            [data.low, data.high, w[1], w[2]],
            ["min_data", "max_data", "min_weight", "max_weight"],
        )
        if inside:
            assert bias is not None
            own = _INT8 if dense else _INT32
            b = [self._variable(bias[0].name + _SUFFIX + end, d) for end, d in _ends(own)]
            if own == _INT32:  # whole numbers on the scale of the products
                b[0][0].attrs.update(
                    {RANGE_OF: data.range_of, _WEIGHT_OF: weight[0].name, _DATA_TOP: str(data.top)}
                )
                if self.by_row:
                    b[0][0].attrs[_BY_ROW] = "1"
            inputs.append(b[0])
            names.append("bias")
            bounds += b[1:]
            bound_names += ["min_bias", "max_bias"]
        params["no_bias"] = not inside
        made, _ = self._call(
            form,
            f"quantized_{node.name}",
            params,
            [*inputs, *bounds],
            node,
            [*names, *bound_names],
        )
        whole = self._eight_bits(node, made)
        if with_bias and not inside:  # its scale follows from each batch: it is added to floats
            assert bias is not None
            floats = self._call(
                "_contrib_dequantize", f"{node.name}_dequantize", {}, whole[:3], node
            )
            axes = (1, -1, *[1] * len(params["kernel"]))
            # No length follows from a reshape: a Module binds the network by the shape of its data.
            self._float(bias)[0].attrs.setdefault("__shape__", f"({params['num_filter']},)")
            shaped = self._call(
                "Reshape", f"{node.name}_bias_reshape", {"shape": axes}, [self._float(bias)], node
            )
            added = self._call("broadcast_add", f"{node.name}_bias_add", {}, [floats, shaped], node)
            self.floats[node, 0] = added
        else:
            self._calibrate(node, whole)
        return True

    def _eight_bits(self, node: Node, sums: Node) -> _Whole:
        """A node's result in eight bits, of its sums in 32, over the range of each batch."""
        thirds = [(sums, k) for k in range(3)]
        made, _ = self._call("_contrib_requantize", f"requantize_{node.name}", {}, thirds, node)
        return _Whole((made, 0), (made, 1), (made, 2), node.outputs()[0])

    def _calibrate(self, node: Node, whole: _Whole) -> None:
        """That is a node's result, and waits for its range."""
        self.layers[whole.range_of] = None
        whole.data[0].attrs[RANGE_OF] = whole.range_of
        self.whole[node, 0] = whole

    def _variable(self, name: str, dtype: str) -> Entry:
        for (node, _), entry in self.floats.items():
            if node.is_variable and node.name == name:
                return entry
        made = Node(name, attrs={"__dtype__": dtype})
        self.floats[made, 0] = made, 0
        return made, 0


def _ends(dtype: str) -> tuple[tuple[str, str], ...]:
    return ("", dtype), ("_min", _FLOAT), ("_max", _FLOAT)


def quantized_params(
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
            low, high = ranges.get(node.attrs[RANGE_OF], (0.0, 0.0))
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
