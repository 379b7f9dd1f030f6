"""What translations write with: the nodes of an ONNX graph, its constants, and what is known of shapes and dtypes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mxjax import errors
from mxjax.ops.table import TABLE as ROWS
from mxjax.ops.table import Op
from mxjax.symbol.node import Entry, Node

#: A result in the ONNX graph, by its name.
Name = str
#: Writes a node, and gives its results.
Translation = Callable[..., "Name | Sequence[Name]"]

#: The functions that rows name in their column ``onnx``.
FORMS: dict[str, Translation] = {}
#: Those of them that read no labels.
LOSSES: set[str] = set()

OLDEST = 13
#: What is written where the user asks for no other: readers of 2022 and later know it.
USUAL = 17


def writes(function: Translation) -> Translation:
    """Let rows name a function in their column ``onnx``; it takes the writer, the step, and what the column adds."""
    name = function.__name__.strip("_")
    assert name not in FORMS, name
    FORMS[name] = function
    return function


@functools.cache
def translation(op: Op) -> Translation | None:
    """What writes the calls of a row, by its column ``onnx``; None where it has no form in ONNX."""
    form = op.files.onnx
    if form is None:
        return _beside_number(op)
    name, *more = (form,) if isinstance(form, str) else form
    if name[0].isupper():  # an operator of ONNX that is the row
        name, more = "same_as", [name]
    return functools.partial(_called, FORMS[name], more)


def _called(function: Callable[..., Any], more: Sequence[Any], w: Writer, s: Step) -> Any:
    return function(w, s, *more)


def _beside_number(op: Op) -> Translation | None:
    """Of a row of an array and a number: what writes the row of two arrays, told which side the number is on."""
    row, left = _numbered().get(op, (None, False))
    if row is None or row.files.onnx is None:
        return None
    return functools.partial(_called, FORMS["beside_number"], [row.files.onnx, left])


@functools.cache
def _numbered() -> dict[Op, tuple[Op, bool]]:
    found: dict[Op, tuple[Op, bool]] = {}
    for row in ROWS.values():
        for numbered, left in zip(row.scalars or (), (False, True), strict=False):
            found.setdefault(numbered, (row, left))
    return found


def exported() -> list[str]:
    """The names of the rows that have a form in ONNX."""
    return [name for name, op in ROWS.items() if translation(op) is not None]


class Step:
    """A node of a symbol while it is translated: ``step[0]`` is its first input's name in the ONNX graph."""

    def __init__(self, writer: Writer, node: Node):
        assert node.op is not None
        self.writer, self.node, self.op = writer, node, node.op
        self.params: dict[str, Any] = {**node.op.attr_defaults, **node.params}
        self.by_name = dict(zip(node.names, node.inputs, strict=True))

    def __getitem__(self, k: int) -> Name:
        return self.writer.names[self.node.inputs[k]]

    def __len__(self) -> int:
        return len(self.node.inputs)

    @property
    def names(self) -> list[Name]:
        return [self[k] for k in range(len(self))]

    def has(self, array: str) -> bool:
        """Whether an array of the row was given."""
        return array in self.by_name or array in self.node.constants

    def array(self, array: str, dtype: Any = None) -> Name:
        """An array of the row by its name; a number in its place becomes a constant of the dtype."""
        if array in self.by_name:
            return self.writer.names[self.by_name[array]]
        if array not in self.node.constants:
            raise self.refused(f"it has no {array}")
        return self.writer.constant(np.asarray(self.node.constants[array], dtype or self.dtype()))

    def shape(self, k: int = 0) -> tuple[int | None, ...]:
        """An input's shape, None for lengths that change from run to run."""
        return self.writer.shape(self.node.inputs[k])

    def ndim(self, k: int = 0) -> int:
        return len(self.shape(k))

    def axis(self, axis: int, k: int = 0) -> int:
        """An axis counted from the front."""
        return axis % self.ndim(k) if self.ndim(k) else 0

    def axes(self, axis: Any, k: int = 0) -> list[int]:
        """Axes as a list; None and () are all of them."""
        if axis is None or axis == ():
            return list(range(self.ndim(k)))
        return sorted(self.axis(a, k) for a in ((axis,) if isinstance(axis, int) else axis))

    def in_dtype(self, k: int = 0) -> np.dtype[Any]:
        return self.writer.dtype(self.node.inputs[k])

    def dtype(self, k: int = 0) -> np.dtype[Any]:
        """A result's dtype."""
        return self.writer.dtype((self.node, k))

    def out_shape(self, k: int = 0) -> tuple[int | None, ...]:
        return self.writer.shape((self.node, k))

    def out_dims(self, k: int = 0) -> Name:
        """A result's shape, as a constant or as ONNX nodes that compute it from the inputs'."""
        return self.writer.dims((self.node, k), self.node.inputs)

    def value(self, array: str) -> np.ndarray | None:
        """The numbers of an array that depends on parameters alone; None of another."""
        return self.writer.value(self.by_name[array])

    def refused(self, why: str) -> errors.MXNetNotImplementedError:
        return errors.MXNetNotImplementedError(
            f"the node {self.node.name!r} ({self.node.operator}) cannot be written as ONNX: {why}"
        )


class Writer:
    """An ONNX graph that grows."""

    def __init__(self, opset: int):
        self.onnx: Any = errors.optional_import("onnx", "onnx")
        self.opset = opset
        self.nodes: list[Any] = []
        self.initializers: dict[Name, np.ndarray] = {}
        self.names: dict[Entry, Name] = {}
        #: The network's inputs, and its results.
        self.inputs: list[Entry] = []
        self.outputs: list[tuple[Name, Entry]] = []
        self.shapes: dict[Entry, tuple[int | None, ...]] = {}
        #: The same for other lengths of the axes that change: they tell which lengths follow from which.
        self.tried: dict[Entry, tuple[int, ...]] = {}
        #: The shapes that the network is written with, and those with None in place of what changes.
        self.full: dict[Entry, tuple[int, ...]] = {}
        self.dtypes: dict[Entry, np.dtype[Any]] = {}
        self.values: dict[Entry, np.ndarray] = {}
        self.evaluate: Callable[[Entry], np.ndarray | None] = lambda entry: None
        self._taken: set[str] = set()
        self.stem = ""
        self.made: dict[Any, Name] = {}

    # ---- names, constants ------------------------------------------------------------------------

    def fresh(self, wish: str) -> Name:
        """A name that nothing has yet."""
        name, k = wish, 0
        while name in self._taken:
            k += 1
            name = f"{wish}_{k}"
        self._taken.add(name)
        return name

    def within(self, stem: str) -> None:
        """Name what comes next after a node."""
        self.stem = stem

    def constant(self, value: Any, dtype: Any = None) -> Name:
        """The name of an initializer with these numbers; equal small ones are one."""
        array = np.asarray(value, dtype)
        key = (array.dtype.name, array.shape, array.tobytes()) if array.size <= 64 else None
        if key is not None and key in self.made:
            return self.made[key]
        name = self.fresh(f"{self.stem}_const" if self.stem else "const")
        self.initializers[name] = array
        if key is not None:
            self.made[key] = name
        return name

    def ints(self, values: int | Iterable[int]) -> Name:
        """A constant vector of int64."""
        return self.constant([values] if isinstance(values, int) else list(values), np.int64)

    # ---- nodes -----------------------------------------------------------------------------------

    def op(self, kind: str, *inputs: Name, domain: str = "", **attrs: Any) -> Name:
        """Write a node with one result, and give that."""
        return self.ops(kind, inputs, 1, domain, **attrs)[0]

    def ops(
        self, kind: str, inputs: Sequence[Name], count: int, domain: str = "", **attrs: Any
    ) -> list[Name]:
        """Write a node with several results."""
        stem = self.fresh(f"{self.stem}_{kind}" if self.stem else kind)
        outs = [stem if count == 1 else self.fresh(f"{stem}_{k}") for k in range(count)]
        kept = {k: v for k, v in attrs.items() if v is not None}
        given = list(inputs)
        while given and not given[-1]:
            given.pop()
        self.nodes.append(
            self.onnx.helper.make_node(kind, given, outs, name=stem, domain=domain, **kept)
        )
        return outs

    def cast(self, x: Name, have: Any, want: Any) -> Name:
        """In another dtype."""
        have, want = np.dtype(have), np.dtype(want)
        return x if have == want else self.op("Cast", x, to=self.code(want))

    def code(self, dtype: Any) -> int:
        """ONNX's number of a dtype."""
        return int(self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    # ---- what is known ----------------------------------------------------------------------------

    def know(self, entry: Entry, full: Any, tried: Any, dtype: Any) -> None:
        """Note a result's shape, the one for the lengths tried out, and its dtype."""
        if full is None or tried is None or None in full or None in tried:
            raise errors.MXNetValueError(
                f"the shape of {entry[0].name!r} does not follow from those of the inputs"
            )
        self.full[entry], self.tried[entry] = tuple(full), tuple(tried)
        self.shapes[entry] = tuple(
            [m if m == n else None for m, n in zip(full, tried, strict=True)]
        )
        self.dtypes[entry] = np.dtype(dtype or "float32")

    def shape(self, entry: Entry) -> tuple[int | None, ...]:
        return self.shapes[entry]

    def dtype(self, entry: Entry) -> np.dtype[Any]:
        return self.dtypes[entry]

    def value(self, entry: Entry) -> np.ndarray | None:
        """The numbers of a result that depends on parameters alone."""
        if entry not in self.values:
            made = self.evaluate(entry)
            if made is None:
                return None
            self.values[entry] = made
        return self.values[entry]

    # ---- lengths that change -------------------------------------------------------------------------

    def length(self, entry: Entry, axis: int) -> Name:
        """An axis's length as a vector with one number."""
        known = self.shape(entry)[axis]
        if known is not None:
            return self.ints(known)
        key = ("length", entry, axis)
        if key not in self.made:
            shape = self.made.get(("shape", entry))
            if shape is None:
                shape = self.made["shape", entry] = self.op("Shape", self.names[entry])
            self.made[key] = self.op("Gather", shape, self.ints(axis), axis=0)
        return self.made[key]

    def dims(self, entry: Entry, sources: Sequence[Entry]) -> Name:
        """The shape of a result that is not there yet, from the shapes of ``sources``."""
        known = self.shapes[entry]
        if None not in known:
            return self.ints([n for n in known if n is not None])
        return self.joined([
            self.ints(n) if n is not None else self._same_length(self.tried[entry][k], sources)
            for k, n in enumerate(known)
        ])  # fmt: skip

    def joined(self, parts: Sequence[Name]) -> Name:
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=0)

    def _same_length(self, tried: int, sources: Sequence[Entry]) -> Name:
        """A length that for the lengths tried out was this, from the lengths of what comes in."""
        open_ = [
            (e, d)
            for e in (*sources, *self.inputs)
            for d, n in enumerate(self.shapes[e])
            if n is None
        ]
        for e, d in open_:
            if self.tried[e][d] == tried:
                return self.length(e, d)
        lengths = [(self.tried[e][d], e, d) for e, d in open_]
        for n, e, d in lengths:
            if n and tried % n == 0:
                rest = tried // n
                for m, e2, d2 in lengths:
                    if (e2, d2) != (e, d) and m and rest % m == 0 and rest // m <= 4096:
                        both = self.op("Mul", self.length(e, d), self.length(e2, d2))
                        return both if rest == m else self.op("Mul", both, self.ints(rest // m))
                return self.op("Mul", self.length(e, d), self.ints(rest))
            if tried and n % tried == 0:
                return self.op("Div", self.length(e, d), self.ints(n // tried))
        raise errors.MXNetNotImplementedError(
            f"{self.stem}: a length that changes does not follow from those of what comes in; give "
            "dynamic_input_shapes with the lengths that stay the same"
        )

    # ---- what several translations need ---------------------------------------------------------------

    def reduce(self, kind: str, x: Name, axes: Sequence[int] | None, keepdims: bool = True) -> Name:
        """``ReduceSum`` and its like, whose axes are an input from an opset on."""
        since = 13 if kind == "ReduceSum" else 18
        keep = int(keepdims)
        if axes is None:
            return self.op(kind, x, keepdims=keep)
        if self.opset >= since:
            return self.op(kind, x, self.ints(list(axes)), keepdims=keep)
        return self.op(kind, x, axes=list(axes), keepdims=keep)

    def reshape(self, x: Name, shape: Sequence[int]) -> Name:
        return self.op("Reshape", x, self.ints(shape))

    def unsqueeze(self, x: Name, *axes: int) -> Name:
        return self.op("Unsqueeze", x, self.ints(axes)) if axes else x

    def squeeze(self, x: Name, *axes: int) -> Name:
        return self.op("Squeeze", x, self.ints(axes)) if axes else x

    def transpose(self, x: Name, perm: Sequence[int]) -> Name:
        return (
            x if list(perm) == list(range(len(perm))) else self.op("Transpose", x, perm=list(perm))
        )

    def slice(self, x: Name, axis: int, start: int | Name, stop: int | Name, step: int = 1) -> Name:
        """Elements along one axis; the ends are numbers, or vectors of one."""
        ends = [self.ints(n) if isinstance(n, int) else n for n in (start, stop)]
        return self.op("Slice", x, *ends, self.ints(axis), self.ints(step))

    def counting(self, count: Name) -> Name:
        """0, 1, 2, ..., as many as the vector of one number says, int64."""
        zero, one = (self.constant(n, np.int64) for n in (0, 1))
        return self.op("Range", zero, self.squeeze(count, 0), one)

    def split(self, x: Name, axis: int, lengths: Sequence[int]) -> list[Name]:
        if len(lengths) == 1:
            return [self.op("Identity", x)]
        return self.ops("Split", [x, self.ints(lengths)], len(lengths), axis=axis)


FAR = np.iinfo(np.int64).max


def shown(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{k}={v!r}" for k, v in options.items())


__all__ = [
    "FAR",
    "OLDEST",
    "FORMS",
    "USUAL",
    "Name",
    "Step",
    "Translation",
    "Writer",
    "shown",
    "writes",
]
