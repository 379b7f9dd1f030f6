"""The nodes of a symbol: a variable, or a row of the table with its attributes and what it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from ..ops.table import Op

#: One result of a node.
Entry = tuple["Node", int]


class Subgraph(NamedTuple):
    """A graph inside a node: its results, and its variables in the order of what comes in."""

    entries: list[Entry]
    variables: list[Node]


_serials = count()


def last_serial() -> int:
    """A number beyond those of all nodes so far, and below those of all to come."""
    return next(_serials)


class Node:
    """A variable (``op`` None) or one call.

    ``params`` are the row's attributes as the user gave them, ``attrs`` what the user says beside them (texts; the
    words of `HIDDEN` between underscores), ``inputs`` what comes in and ``names`` which of the row's arrays each is;
    ``constants`` numbers in the place of arrays, by name. ``registry`` is MXNet's name of an operator that no row has.
    ``is_np``: written with mx.sym.np or npx, so that results are mx.np arrays.
    """

    __slots__ = (
        "attrs", "constants", "inputs", "is_np", "name", "names", "op", "open", "params", "registry", "results",
        "serial", "states", "subgraphs",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        op: Op | None = None,
        params: Mapping[str, Any] | None = None,
        attrs: Mapping[str, str] | None = None,
        inputs: Sequence[Entry] = (),
        names: Sequence[str] = (),
        constants: Mapping[str, Any] | None = None,
        registry: str = "",
        is_np: bool = False,
    ):
        self.name = name
        self.op = op
        self.params = dict(params or {})
        self.attrs = dict(attrs or {})
        self.inputs = list(inputs)
        self.names = list(names)
        self.constants = dict(constants or {})
        self.registry = registry
        self.is_np = is_np
        self.open: tuple[int, ...] | None = (
            None  # axes of what it makes whose lengths follow from elsewhere
        )
        self.subgraphs: list[Subgraph] = []  # of a loop or branch
        self.states: tuple[int, ...] = ()  # of a node without a row: the inputs that it updates,
        self.results: tuple[str, ...] = ()  # and the names of its results
        self.serial = next(_serials)

    def on(self, inputs: Sequence[Entry]) -> Node:
        """The same call of other results."""
        made = Node(
            self.name,
            self.op,
            self.params,
            self.attrs,
            inputs,
            self.names,
            self.constants,
            self.registry,
            self.is_np,
        )
        made.open, made.subgraphs, made.states, made.results = (
            self.open,
            self.subgraphs,
            self.states,
            self.results,
        )
        return made

    @property
    def is_variable(self) -> bool:
        return self.op is None and not self.registry

    def count(self) -> int:
        """How many results it shows."""
        if self.op is None:
            return int(self.constants.get("outputs", 1))
        return self.op.count_outputs(self.params, len(self.inputs)) or 1

    def outputs(self) -> list[str]:
        """The names of its results."""
        if self.is_variable:
            return [self.name]
        n = self.count()
        named = () if self.op is None else self.op.files.results
        own = self.results or (named(self.params) if callable(named) else named)
        if n == 1 and not own:
            return [f"{self.name}_output"]
        return [f"{self.name}_{own[k] if k < len(own) else f'output{k}'}" for k in range(n)]

    @property
    def operator(self) -> str:
        """MXNet's registry name: what stands in a file."""
        if self.op is None:
            return self.registry or "null"
        return self.op.names.internal or self.op.display

    @property
    def counts_arrays(self) -> bool:
        """Whether its attribute ``num_args`` says how many arrays it takes."""
        op = self.op
        if op is None or not op.variadic:
            return False
        return not any(k.startswith("num_") for k in op.attr_params if k != "num_args")

    def aux(self) -> tuple[int, ...]:
        """Which of its inputs it updates: auxiliary states."""
        op = self.op
        if op is None:
            return self.states
        if not op.aux or not op.modal:  # an optimizer's step writes to arguments
            return ()
        places: Any = op.aux(self.params) if callable(op.aux) else op.aux
        updated = {op.array_params[k] for k in places} - {
            "gamma"
        }  # a fixed gamma stays an argument
        return tuple(k for k, name in enumerate(self.names) if name in updated)


def walk(entries: Iterable[Entry]) -> list[Node]:
    """The nodes behind these results, each after what it takes."""
    done: dict[Node, None] = {}
    for head, _ in entries:
        todo: list[tuple[Node, Iterator[Entry]]] = []
        if head not in done:
            todo.append((head, iter(head.inputs)))
        while todo:
            node, rest = todo[-1]
            for child, _ in rest:
                if child not in done:
                    todo.append((child, iter(child.inputs)))
                    break
            else:
                done[node] = None
                todo.pop()
    return list(done)


def states_of(nodes: Iterable[Node]) -> dict[Node, None]:
    """The variables among the nodes that are auxiliary states."""
    return {n.inputs[k][0]: None for n in nodes for k in n.aux() if n.inputs[k][0].is_variable}


def copied(
    entries: Sequence[Entry], replace: Callable[[Node], Entry | None] | None = None
) -> list[Entry]:
    """The same results of nodes of their own; ``replace`` may give another entry for a variable."""
    made: dict[Node, Node] = {}
    given: dict[Node, Entry] = {}
    for node in walk(entries):
        other = replace(node) if replace is not None and node.is_variable else None
        if other is not None:
            given[node] = other
            continue
        inputs = [given.get(n) or (made[n], k) for n, k in node.inputs]
        made[node] = node.on(inputs)
    return [given.get(n) or (made[n], k) for n, k in entries]
