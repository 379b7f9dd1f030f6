"""A symbol's nodes one after the other as an ONNX graph."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mxjax import errors
from mxjax.array.creation import array
from mxjax.symbol import dialect, infer, types
from mxjax.symbol.node import Entry, Node, copied, walk
from mxjax.symbol.run import run

from .control import control
from .writer import LOSSES, Name, Step, Writer, exported, translation

# The files of the functions that rows name in their column `onnx`.
for _topic in ("elementwise", "shape", "indexing", "reduction", "nn", "rnn", "detection"):
    importlib.import_module(f"{__package__}.{_topic}")

# Far from each other, and from what people use: lengths that are tried out for axes that change.
_PRIMES = (1201, 1609, 2411, 3037, 3881, 4591, 5407, 6271, 7121, 8009, 8923, 9781)
_LARGEST_FOLDED = 1 << 22


class Graph:
    """A symbol with its parameters, ready to be written: `inputs` are the variables that remain."""

    def __init__(self, entries: Sequence[Entry], params: Mapping[str, np.ndarray]):
        self.entries = copied(entries)
        dialect.open_begin_states(self.entries)
        nodes = walk(self.entries)
        labels = _labels(nodes)
        self.params = params
        self.inputs = [
            n for n in nodes if n.is_variable and n.name not in params and n not in labels
        ]
        self.nodes = [n for n in nodes if n not in labels]
        self.labels = labels

    def write(
        self,
        opset: int,
        shapes: Sequence[Sequence[int]],
        dtypes: Sequence[Any],
        open_axes: Sequence[Sequence[bool]],
    ) -> Writer:
        """The ONNX graph for inputs of these shapes, whose axes marked in ``open_axes`` may have other lengths."""
        w = Writer(opset)
        given = dict(zip(self.inputs, zip(shapes, dtypes, open_axes, strict=True), strict=True))
        self._infer(w, given)
        w.inputs = [(n, 0) for n in self.inputs]
        for node in self.nodes:
            if node.is_variable:
                w.names[node, 0] = w.fresh(node.name)
                if node.name in self.params:
                    w.initializers[node.name] = self.params[node.name]
        results = self.named(w, self.nodes, self.entries)
        w.evaluate = _Folded(self, w)
        for node in self.nodes:
            if not node.is_variable:
                self.translate(w, node, results)
        w.within("")
        for entry in self.entries:
            name = w.names[entry]
            if entry[0].is_variable:  # a result that is an input
                name = w.fresh(f"{name}_output")
                w.nodes.append(
                    w.onnx.helper.make_node("Identity", [w.names[entry]], [name], name=name)
                )
            w.outputs.append((name, entry))
        return w

    # ---- shapes and dtypes ----------------------------------------------------------------------------

    def _infer(self, w: Writer, given: Mapping[Node, Any]) -> None:
        here = [n.name for n in self.nodes if n.is_variable and n.name in self.params]
        shapes = {name: tuple(self.params[name].shape) for name in here}
        dtypes = {name: types.name_of(self.params[name].dtype) for name in shapes}
        plain = {n.name: tuple(s) for n, (s, _, _) in given.items()}
        named = {n.name: types.name_of(t) for n, (_, t, _) in given.items()}
        everything = walk(self.entries)
        kinds = types.complete(everything, {**dtypes, **named})
        found = infer.Inference(everything, {**shapes, **plain}, dict(kinds))
        tried = found
        marks = {n.name: mark for n, (_, _, mark) in given.items()}
        if any(any(mark) for mark in marks.values()):
            tried = self._tried(everything, shapes, plain, marks, kinds)
        for node in self.nodes:
            for k in range(node.count()):
                shape, other = found.found[node][k], tried.found[node][k]
                if not infer.known(shape) or not infer.known(other):
                    raise errors.MXNetValueError(
                        f"the shape of {node.name!r} does not follow from in_shapes: {plain} for the inputs"
                    )
                entry = node, k
                w.know(entry, shape, other, found.types.get(entry) or kinds.get(node))

    @staticmethod
    def _tried(
        nodes: Sequence[Node], params: Any, plain: Mapping[str, Any], marks: Any, kinds: Any
    ) -> infer.Inference:
        """The same shapes for other lengths of the axes that change, as different as the operators let them be."""
        why: Exception | None = None
        for tie in (lambda name, d, n: (name, d), lambda name, d, n: (d, n), lambda name, d, n: n):
            lengths: dict[Any, int] = {}
            given = {}
            for name, shape in plain.items():
                made = []
                for d, n in enumerate(shape):
                    key = tie(name, d, n)
                    made.append(
                        lengths.setdefault(key, _prime(len(lengths))) if marks[name][d] else n
                    )
                given[name] = tuple(made)
            try:
                return infer.Inference(nodes, {**params, **given}, dict(kinds))
            except (errors.MXNetError, infer.Conflict) as error:
                why = error
        raise errors.MXNetValueError(
            f"the network does not take inputs of other lengths than {dict(plain)}: {why}. Name the axes that change: "
            "dynamic_input_shapes=[(None, 3, 224, 224)]"
        ) from why

    # ---- names --------------------------------------------------------------------------------------------

    @staticmethod
    def named(w: Writer, nodes: Sequence[Node], entries: Sequence[Entry]) -> dict[Entry, Name]:
        """What MXNet calls the results: the node's name, with a number where there are several."""
        found: dict[Entry, Name] = {}
        for node in nodes:
            if node.is_variable:
                continue
            used = {k for n in nodes for m, k in n.inputs if m is node} | {
                k for n, k in entries if n is node
            }
            for k in range(node.count()):
                if k in used or k == 0:
                    found[node, k] = w.fresh(
                        node.name if k == 0 and node.count() == 1 else f"{node.name}{k}"
                    )
        return found

    def translate(self, w: Writer, node: Node, results: Mapping[Entry, Name]) -> None:
        """Write a node; its results get these names."""
        w.within(node.name)
        function = None if node.op is None else translation(node.op)
        made: Sequence[Name]
        if node.subgraphs:
            made = control(self, w, node)
        elif function is None:
            numbers = [w.value((node, k)) for k in range(node.count())]
            if any(x is None for x in numbers):
                raise untranslated(node)
            made = [w.op("Identity", w.constant(x)) for x in numbers]
        else:
            try:
                written = function(w, Step(w, node))
            except errors.MXNetError:
                raise
            except Exception as error:
                raise errors.MXNetError(
                    f"the node {node.name!r} ({node.operator}) cannot be written as ONNX: {error}"
                ) from error
            made = [written] if isinstance(written, str) else written
        for k, name in enumerate(made):
            if (node, k) not in results:
                continue
            final = results[node, k]
            self._rename(w, name, final)
            w.names[node, k] = final

    @staticmethod
    def _rename(w: Writer, name: Name, final: Name) -> None:
        """Give a result the node's own name, where the last node written made it."""
        last = w.nodes[-1] if w.nodes else None
        if last is not None and name in last.output:
            last.output[list(last.output).index(name)] = final
            last.name = final
        else:
            w.nodes.append(
                w.onnx.helper.make_node(
                    "Identity", [name], [final], name=w.fresh(f"{final}_Identity")
                )
            )


def untranslated(node: Node) -> errors.MXNetNotImplementedError:
    """The error for an operator that the table does not have."""
    near = errors.did_you_mean(
        node.op.name if node.op is not None else node.operator, sorted(exported())
    )
    return errors.MXNetNotImplementedError(
        f"the node {node.name!r} is the operator {node.operator!r}, which has no translation to ONNX{near}: "
        "mx.onnx.get_operator_support() lists those that have; what comes before it can be exported, from "
        "symbol.get_internals()"
    )


def _labels(nodes: Sequence[Node]) -> set[Node]:
    """Variables that only losses read, as labels."""
    found: set[Node] = set()
    others: set[Node] = set()
    for node in nodes:
        for k, (n, _) in enumerate(node.inputs):
            loss = node.op is not None and node.op.files.onnx in LOSSES and k == 1
            (found if loss and n.is_variable else others).add(n)
    return found - others


def _prime(k: int) -> int:
    return _PRIMES[k % len(_PRIMES)] + 10_000 * (k // len(_PRIMES))


class _Folded:
    """The numbers of results that depend on no input, computed when a translation asks for them."""

    def __init__(self, graph: Graph, writer: Writer):
        self._graph, self._writer = graph, writer

    def __call__(self, entry: Entry) -> np.ndarray | None:
        variables = [n for n in walk([entry]) if n.is_variable]
        calls = [n for n in walk([entry]) if not n.is_variable]
        if any(n.name not in self._graph.params for n in variables) or any(
            n.op is None or n.op.keyed for n in calls
        ):
            return None
        if any(infer.is_open(n) or None in self._writer.shapes[n, 0] for n in calls):
            return None
        if np.prod(self._writer.tried[entry]) > _LARGEST_FOLDED and not variables:
            return None
        feed = {
            n: array(self._graph.params[n.name], dtype=self._graph.params[n.name].dtype)
            for n in variables
        }
        return np.asarray(run([entry], feed)[0].asnumpy())
