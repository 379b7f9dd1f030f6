"""What readers of ONNX nodes work with: results that are numbers, lengths, or entries of a symbol."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mxjax import errors
from mxjax.ops.table import TABLE as ROWS
from mxjax.symbol.node import Entry, Node

from .inference import inferred


class Length(NamedTuple):
    """The length of an axis of a result, which is known where the network runs."""

    entry: Entry
    axis: int


class Lengths(NamedTuple):
    """A vector (or one number) of lengths, some of which are known."""

    items: list[int | Length]
    scalar: bool = False


#: What a name of the ONNX graph stands for.
Value = np.ndarray | Lengths | Entry
Reading = Callable[["Reader", "Step"], "Value | list[Value]"]

#: Readers of ONNX's operators, by name.
TABLE: dict[str, Reading] = {}


def reads(*kinds: str) -> Callable[[Reading], Reading]:
    """Put a function into the table, as the reader of these operators."""

    def put(function: Reading) -> Reading:
        for kind in kinds:
            assert kind not in TABLE, kind
            TABLE[kind] = function
        return function

    return put


#: So many constants may a node become while a file is read, or sixteen times those that it is given: a few bytes can
#: ask for more.
_MOST = 1 << 22
#: Whose results are as long as their operands say, and how many of those ONNX's reference computes in little memory.
_GROWS = {"Expand": _MOST, "Tile": _MOST} | dict.fromkeys(
    "CenterCropPad OneHot Pad Resize Upsample".split(), 1 << 16
)


#: The same, and what ONNX's inference computes as it follows the numbers of shapes.
GROWING = frozenset({*_GROWS, "ConstantOfShape", "Range"})


def room(what: str, *lengths: int) -> None:
    """Refuse an array of constants that is too large.

    Raises:
      MemoryError: it is.
    """
    count = math.prod(lengths)
    if count > _MOST:
        raise errors.MXNetMemoryError(
            f"{what} asks for an array of {count} constants, {_MOST} are read"
        )


class Step:
    """A node of an ONNX graph while it is read: ``step[0]`` is its first input as an entry."""

    def __init__(self, reader: Reader, node: Any):
        self.reader, self.node = reader, node
        self.wish: str = node.name or next(iter(node.output), node.op_type)
        self._title = ""
        self.attrs = {a.name: reader.onnx.helper.get_attribute_value(a) for a in node.attribute}
        self.kind: str = node.op_type
        self._made = 0

    @property
    def title(self) -> str:
        """A name of its own, for what is made of it."""
        if not self._title:
            self._title = self.reader.fresh(self.wish)
        return self._title

    def __len__(self) -> int:
        return len(self.node.input)

    def has(self, k: int) -> bool:
        return k < len(self.node.input) and bool(self.node.input[k])

    def value(self, k: int) -> Value:
        """What an input stands for."""
        return self.reader.values[self.node.input[k]]

    def __getitem__(self, k: int) -> Entry:
        return self.reader.entry(self.node.input[k])

    @property
    def entries(self) -> list[Entry]:
        return [self[k] for k in range(len(self)) if self.has(k)]

    def numbers(self, k: int, what: str = "") -> np.ndarray:
        """An input that must be known."""
        found = self.value(k)
        if isinstance(found, Lengths) and all(isinstance(n, int) for n in found.items):
            found = np.asarray(found.items[0] if found.scalar else found.items, np.int64)
        if not isinstance(found, np.ndarray):
            raise self.refused(
                f"{what or f'its input {self.node.input[k]!r}'} is computed where the network runs"
            )
        return found

    def ints(self, name: str, k: int | None = None) -> list[int] | None:
        """Whole numbers that are an attribute or, in later opsets, an input; None where neither is given."""
        if name in self.attrs:
            found = self.attrs[name]
            return [int(n) for n in found] if isinstance(found, (list, tuple)) else [int(found)]
        if k is not None and self.has(k):
            return [int(n) for n in self.numbers(k, name).reshape(-1)]
        return None

    def get(self, name: str, default: Any = None) -> Any:
        found = self.attrs.get(name, default)
        return found.decode() if isinstance(found, bytes) else found

    def shape(self, k: int = 0) -> tuple[int | None, ...] | None:
        """An input's shape as far as the file says, or ONNX infers; None where not even the axes are known."""
        return self.reader.shape(self.node.input[k])

    def ndim(self, k: int = 0) -> int:
        shape = self.shape(k)
        if shape is None:
            raise self.refused(f"how many axes its input {self.node.input[k]!r} has is not known")
        return len(shape)

    def dtype(self, k: int = 0) -> np.dtype[Any] | None:
        return self.reader.dtype(self.node.input[k])

    def make(
        self, row: str, *inputs: Entry | float | int | None, name: str = "", **params: Any
    ) -> Entry:
        """A node of a row on these; the first of its results."""
        return self.several(row, inputs, name, **params)[0]

    def several(
        self, row: str, inputs: Sequence[Any], name: str = "", **params: Any
    ) -> list[Entry]:
        """A node of a row, all of its results."""
        op = ROWS[row]
        label = [f"arg{k}" for k in range(len(inputs))] if op.variadic else list(op.array_params)
        pairs = [(n, x) for n, x in zip(label, inputs, strict=False) if x is not None]
        arrays = {n: x for n, x in pairs if isinstance(x, tuple)}
        constants = {n: x for n, x in pairs if not isinstance(x, tuple)}
        title = name or (
            self.title if not self._made else f"{self.title}_{row.partition('@')[0]}{self._made}"
        )
        self._made += 1
        kept = {k: tuple(v) if isinstance(v, list) else v for k, v in params.items()}
        if op.variadic and "num_args" in op.attr_params:
            kept.setdefault("num_args", len(inputs))
        node = Node(
            title,
            op,
            kept,
            {},
            list(arrays.values()),
            list(arrays),
            constants,
            is_np=not row.endswith("@nd"),
        )
        return [(node, k) for k in range(node.count())]

    def parameter(self, wish: str, numbers: np.ndarray) -> Entry:
        """A parameter of these numbers that the file does not have so."""
        return self.reader.parameter(f"{self.title}_{wish}", numbers)

    def refused(self, why: str) -> errors.MXNetNotImplementedError:
        return errors.MXNetNotImplementedError(
            f"the node {self.wish!r} ({self.kind}) cannot be read: {why}"
        )


class Reader:
    """A graph that is read: what each name stands for, and the parameters."""

    def __init__(self, onnx: Any, opset: int):
        self.onnx = onnx
        self.opset = opset
        self.values: dict[str, Value] = {}
        self.params: dict[str, np.ndarray] = {}
        self.inputs: list[Node] = []
        self._shown: dict[str, Any] = {}
        self._variables: dict[str, Entry] = {}
        self._titles: set[str] = set()
        #: Which node made a name.
        self.makers: dict[str, Any] = {}
        #: Results of loops without the rows of steps that were not taken: the same with them, and how many it then has.
        self.filled: dict[Entry, tuple[Entry, int]] = {}

    # ---- names ---------------------------------------------------------------------------------------

    def fresh(self, wish: str) -> str:
        name, k = wish, 0
        while name in self._titles:
            k += 1
            name = f"{wish}_{k}"
        self._titles.add(name)
        return name

    def entry(self, name: str) -> Entry:
        """What a name stands for as an entry; numbers become a parameter."""
        if name not in self.values:
            raise errors.FormatError(f"no node and no input gives {name!r}, which is asked for")
        found = self.values[name]
        if isinstance(found, np.ndarray):
            if name not in self._variables:
                self._variables[name] = self.parameter(name, found)
            return self._variables[name]
        if isinstance(found, Lengths):
            if name not in self._variables:
                self._variables[name] = self._vector(name, found)
            return self._variables[name]
        return found

    def made(self, name: str) -> Entry | None:
        """The entry that a name stands for, where there is one already."""
        found = self.values.get(name)
        return self._variables.get(name) if isinstance(found, (np.ndarray, Lengths)) else found

    def parameter(self, wish: str, numbers: np.ndarray) -> Entry:
        name = self.fresh(wish)
        self.params[name] = numbers
        shape = tuple(int(n) for n in numbers.shape)
        return Node(name, attrs={"__shape__": str(shape)} if shape else {}), 0

    def variable(self, name: str) -> Entry:
        node = Node(self.fresh(name))
        self.inputs.append(node)
        return node, 0

    def _vector(self, name: str, lengths: Lengths) -> Entry:
        parts: list[Entry] = []
        for k, n in enumerate(lengths.items):
            if isinstance(n, int):
                parts.append(self.parameter(f"{name}_{k}", np.asarray([n], np.int64)))
                continue
            whole = Node(
                self.fresh(f"{name}_shape{k}"),
                ROWS["shape_array"],
                {},
                {},
                [n.entry],
                ["data"],
                is_np=True,
            )
            how = {"axis": 0, "begin": n.axis, "end": n.axis + 1}
            parts.append(
                (
                    Node(
                        self.fresh(f"{name}_{k}"),
                        ROWS["slice_axis"],
                        how,
                        {},
                        [(whole, 0)],
                        ["data"],
                        is_np=True,
                    ),
                    0,
                )
            )
        if len(parts) == 1:
            made = parts[0]
        else:
            names = [f"arg{k}" for k in range(len(parts))]
            made = (
                Node(
                    self.fresh(name), ROWS["concatenate"], {"axis": 0}, {}, parts, names, is_np=True
                ),
                0,
            )
        if lengths.scalar:
            made = (
                Node(
                    self.fresh(f"{name}_number"),
                    ROWS["reshape"],
                    {"newshape": ()},
                    {},
                    [made],
                    ["a"],
                    is_np=True,
                ),
                0,
            )
        return made

    # ---- shapes that the file shows ----------------------------------------------------------------------

    def learn(self, infos: Sequence[Any]) -> None:
        for info in infos:
            self._shown[info.name] = info.type.tensor_type

    def shape(self, name: str) -> tuple[int | None, ...] | None:
        found = self.values.get(name)
        if isinstance(found, np.ndarray):
            return found.shape
        if isinstance(found, Lengths):
            return () if found.scalar else (len(found.items),)
        kind = self._shown.get(name)
        if kind is None or not kind.HasField("shape"):
            return None
        return tuple([d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim])

    def dtype(self, name: str) -> np.dtype[Any] | None:
        found = self.values.get(name)
        if isinstance(found, np.ndarray):
            return found.dtype
        if isinstance(found, Lengths):
            return np.dtype(np.int64)
        kind = self._shown.get(name)
        return None if kind is None or not kind.elem_type else self.np_dtype(kind.elem_type)

    def np_dtype(self, code: int) -> np.dtype[Any]:
        try:
            return np.dtype(self.onnx.helper.tensor_dtype_to_np_dtype(code))
        except KeyError:
            raise errors.FormatError(f"there is no element type {code}") from None

    # ---- nodes -----------------------------------------------------------------------------------------------

    def inside(self, graph: Any, inputs: Sequence[Entry]) -> list[Entry]:
        """The results of a graph inside a node, which sees the names around it, on these for its inputs."""
        outer = self.values, self._shown, self._variables
        self.values, self._shown, self._variables = (dict(each) for each in outer)  # type: ignore[assignment]
        try:
            self.learn([*graph.value_info, *graph.input, *graph.output])
            for t in graph.initializer:
                self.values[t.name] = np.asarray(self.onnx.numpy_helper.to_array(t))
            for info, entry in zip(graph.input, inputs, strict=True):
                self.values[info.name] = entry
            for node in graph.node:
                self.read(node)
            return [self.entry(info.name) for info in graph.output]
        finally:
            self.values, self._shown, self._variables = outer

    def read(self, node: Any) -> None:
        """Read one node: what its results stand for."""
        step = Step(self, node)
        self.makers.update(dict.fromkeys(node.output, node))
        known = node.domain in ("", "ai.onnx") and node.op_type in TABLE
        made = None
        if not known or node.op_type not in _OF_SHAPES:
            made = self._folded(node)
        if made is None:
            if not known:
                raise untranslated(step)
            made = self._translated(step)
        for name, value in zip(node.output, made, strict=False):
            if name:
                self.values[name] = value

    def _translated(self, step: Step) -> list[Value]:
        with errors.parsing(f"the node {step.wish!r} ({step.kind})"):
            found = TABLE[step.kind](self, step)
        return found if isinstance(found, list) else [found]

    def _folded(self, node: Any) -> list[Value] | None:
        """The results of a node on numbers, by ONNX's own reference; None where it takes something else."""
        given: dict[str, np.ndarray] = {}
        for name in node.input:
            value = self.values.get(name)
            if isinstance(value, np.ndarray):
                given[name] = value
            elif name:
                return None
        if node.op_type.startswith("Random"):
            return None
        helper = self.onnx.helper
        code = helper.np_dtype_to_tensor_dtype
        infos = [helper.make_tensor_value_info(n, code(v.dtype), v.shape) for n, v in given.items()]
        outs = [helper.make_empty_tensor_value_info(n) for n in node.output if n]
        graph = helper.make_graph([node], "one", infos, outs)
        if not self._has_room(node, graph, given):
            return None
        reference = importlib.import_module("onnx.reference")
        try:
            evaluator = reference.ReferenceEvaluator(graph, opsets={node.domain: self.opset})
            return [np.asarray(x) for x in evaluator.run(None, given)]
        except Exception:  # what the reference does not know is left to the table
            return None

    def _has_room(self, node: Any, graph: Any, given: dict[str, np.ndarray]) -> bool:
        """Whether what a node makes of constants is small; else it stays a node of the network."""
        size = sum(v.size for v in given.values())
        if node.op_type not in _GROWS and size <= 1 << 11:  # the product of two is as large as both
            return True
        limit = max(_GROWS.get(node.op_type, _MOST), 16 * size)
        helper, to_tensor = self.onnx.helper, self.onnx.numpy_helper.from_array
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid(node.domain, self.opset)]
        )
        model.graph.initializer.extend([to_tensor(v, n) for n, v in given.items() if v.size <= 64])
        try:
            infos = inferred(self.onnx, model).graph.output
        except Exception:  # what ONNX does not understand its reference does not compute
            return False
        for info in infos:
            kind = info.type.tensor_type
            lengths = [d.dim_value for d in kind.shape.dim]
            if not kind.HasField("shape") or not all(
                d.HasField("dim_value") for d in kind.shape.dim
            ):
                if node.op_type not in _GROWS:
                    continue
                lengths = [
                    int(n)
                    for v in given.values()
                    if v.size <= 64 and v.dtype.kind == "i"
                    for n in v.flat
                ]
            if math.prod(max(abs(n), 1) for n in lengths) > limit:
                return False
        return True


# What the table reads even where it takes numbers alone.
_OF_SHAPES = frozenset({"Shape", "Size", "Constant", "ConstantOfShape", "Range", "EyeLike"})


def untranslated(step: Step) -> errors.MXNetNotImplementedError:
    where = f" of the domain {step.node.domain!r}" if step.node.domain else ""
    near = errors.did_you_mean(step.kind, TABLE)
    return errors.MXNetNotImplementedError(
        f"the node {step.wish!r} is the operator {step.kind!r}{where}, which has no translation from ONNX{near}"
    )
