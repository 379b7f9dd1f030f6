"""Plans: memory to order."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from mxjax import core, errors
from mxjax.display.notebooks import Tabled
from mxjax.files.atomic import read_whole, write_whole

from ..arrangement.parts import ALL, MIRROR, Arranged, Part
from .fit import Found, search
from .measure import human
from .session import Session

if TYPE_CHECKING:
    from mxjax.core import Graph

FORMAT = "mxjax memonger plan"
VERSION = 1
DEEPEST = 32  # nested parts
ORDER = "memory"  # of work: XLA's of least memory, the engine's default on CPUs


class Row(NamedTuple):
    """A line of a plan: some units, what is done with them, bytes held and operations done again."""

    block: str
    decision: str
    bytes: int
    flops: float


@dataclass(frozen=True)
class Report:
    """What a search found.

    ``bytes`` is XLA's count of the whole step under the plan, ``baseline_bytes`` that of the same step
    with barriers and nothing recomputed; both are temporaries or the peak, as ``of`` says. ``recompute``
    is the cost of what is computed again, in operations of the model, and ``bound`` a limit below which
    no choice of these options within the budget can be.
    """

    of: str
    budget: int
    bytes: int
    baseline_bytes: int
    flops: float
    baseline_flops: float
    recompute: float
    bound: float
    compilations: int
    seconds: float

    @property
    def slack(self) -> float:
        """The share of the budget that is left."""
        return 1 - self.bytes / self.budget


class Plan(Tabled, Arranged):
    """An arrangement that a budget asked for (``core.hooks.RematPolicy``); made by :func:`plan`.

    ``net.hybridize(mirror=plan)`` uses it. It holds for graphs of the same operators, whatever the sizes
    of their arrays; only for those it was made with are its bytes known.

    Args:
      parts: the transformations, the first one first.
      operators: the operators, with how often each comes.
      rows: the lines of its table.
      report: what is known of it.
    """

    whole = True

    def __init__(
        self,
        parts: Sequence[Part],
        operators: Sequence[tuple[str, int]],
        rows: Sequence[Row],
        report: Report,
    ):
        self.parts = tuple(parts)
        self.operators = tuple(operators)
        self.rows = tuple(rows)
        self.report = report
        self._warned = False
        super().__init__(self._arranged, (self.parts, self.operators))

    @property
    def bytes(self) -> int:
        """XLA's count of the step's bytes: never more than the budget."""
        return self.report.bytes

    @property
    def recompute(self) -> float:
        """The cost of what is computed again, in the model's operations."""
        return self.report.recompute

    @property
    def bound(self) -> float:
        """The least cost that any choice within the budget could have, were choices divisible."""
        return self.report.bound

    @property
    def slack(self) -> float:
        """The share of the budget that is left."""
        return self.report.slack

    def _arranged(self, graph: Graph) -> Sequence[Part]:
        if operators_of(graph) == self.operators:
            return self.parts
        if core.local.st.training and not self._warned:
            self._warned = True
            warnings.warn(
                f"a plan for {len(self.operators)} operators does not fit {graph.name}, which has "
                f"{len(graph.steps)} or others: it runs with nothing recomputed. Plan this network, or apply the "
                "plan to the block it was made for",
                stacklevel=2,
            )
        return [Part(len(graph.steps), ALL)] if graph.steps else []

    def apply(self, net: Any) -> Any:
        """Hybridize the network with this plan; gives the network.

        Raises:
          TypeError: not a HybridBlock.
        """
        if not hasattr(net, "hybridize") or not hasattr(net, "graph"):
            raise errors.MXNetTypeError(
                f"a plan is applied to a HybridBlock, got {type(net).__name__}"
            )
        net.hybridize(mirror=self)
        return net

    def save(self, path: Any) -> None:
        """Write the plan as JSON, for :meth:`load`: the whole file or none."""
        document = {
            "format": FORMAT,
            "version": VERSION,
            "operators": [list(o) for o in self.operators],
            "parts": [_packed(p) for p in self.parts],
            "rows": [list(r) for r in self.rows],
            "report": asdict(self.report),
        }
        text = json.dumps(document, indent=1) + "\n"
        write_whole(path, lambda file: file.write(text.encode()))

    @classmethod
    def load(cls, path: Any) -> Plan:
        """Read what :meth:`save` wrote. Nothing in the file is executed; all of it is checked.

        Raises:
          FormatError: the file is no plan, or one that contradicts itself.
        """
        try:
            return _unpacked(cls, json.loads(read_whole(path).decode()))
        except (ValueError, RecursionError) as error:  # no text, no JSON, or no plan
            raise errors.FormatError(f"{path} is not a plan: {error}") from None

    _left = 2

    def _table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]], tuple[str, ...]]:
        r = self.report
        rows: list[tuple[str, ...]]
        rows = [
            (row.block, row.decision[:60], human(row.bytes), f"{row.flops / 1e6:.1f} Mflop")
            for row in self.rows
        ]
        total = sum(row.flops for row in self.rows)
        rows.append(
            ("total", "", human(sum(row.bytes for row in self.rows)), f"{total / 1e6:.1f} Mflop")
        )
        notes = (
            f"budget ({r.of})  {human(r.budget)}; XLA's count {human(r.bytes)}, slack {r.slack:.1%}; "
            f"everything kept {human(r.baseline_bytes)}",
            f"arithmetic     {r.flops / max(r.baseline_flops, 1):.3f} x; recompute {r.recompute:.4g}, relaxed "
            f"optimum {r.bound:.4g}",
            f"search         {r.compilations} compilations, {r.seconds:.1f} s",
        )
        return ("block", "decision", "held", "recomputed"), rows, notes

    def __repr__(self) -> str:
        r = self.report
        return f"<Plan: {len(self.parts)} parts, {human(r.bytes)} of {human(r.budget)} {r.of}>"


def plan(
    net: Any,
    inputs: Any,
    budget: Any,
    of: str = "peak",
    optimizer: Any = "sgd",
    loss: Any = None,
    labels: Any = None,
    compilations: int = 5,
) -> Plan:
    """The training step that fits into so many bytes with the least recomputation.

    The network's graph becomes a chain of units. A knapsack chooses for each what it keeps for the
    backward pass, or recomputes several as one; the step is compiled (nothing runs, nothing is
    allocated), XLA's own count corrects what the model missed, and the knapsack is solved again.

    Args:
      net: an initialized HybridBlock.
      inputs: an array, or a tuple of them: a batch.
      budget: bytes, ``'4GiB'``, ``'500MB'``, or a float up to 1: a share of what the step takes with
        barriers between units and nothing recomputed.
      of: ``'peak'`` (everything the step needs: arguments, results and temporaries) or ``'temp'``.
      optimizer: a name, an optimizer, or the ``gluon.Trainer`` to be used.
      loss: called with the network's output (and ``labels`` where given); default: mean squares.
      compilations: at most so many.
      labels: the labels, for the loss.

    Returns:
      Plan: to be handed to `hybridize(mirror=...)`.

    Raises:
      InfeasibleBudget: there is none; ``least_bytes`` is what the leanest one found needs.

    After Chen et al. 2016 (sublinear memory) and Jain et al. 2020 (Checkmate), with the compiler asked.

    >>> import mxjax as mx
    >>> net = mx.gluon.nn.HybridSequential()
    >>> for _ in range(8):
    ...     net.add(mx.gluon.nn.Dense(64, activation="tanh", in_units=64))
    >>> net.initialize()
    >>> found = mx.memonger.plan(net, mx.np.ones((512, 64)), budget=0.8, of="temp")
    >>> found.bytes <= found.report.budget
    True
    >>> net = found.apply(net)
    """
    start = time.perf_counter()
    check(of, compilations)
    session = Session(net, as_inputs(inputs), optimizer, loss, labels)
    return planned(session, search(session, budget, of, compilations), of, start)


def planned(session: Session, found: Found, of: str, start: float) -> Plan:
    """A plan out of a search that began at ``start``."""
    chosen = found.trial.chosen
    names = {u.start: i for i, u in enumerate(session.chain.units)}
    units = session.chain.units
    rows = []
    for o in chosen:
        first = names[o.start]
        last = next(i for i in range(first, len(units)) if units[i].stop == o.stop)
        block = units[first].name
        if last > first:
            block = f"{block} ... {units[last].name}"
        rows.append(Row(block, o.decision, o.held, o.flops))
    report = Report(
        of,
        found.budget,
        found.trial.bytes(of),
        found.baseline.bytes(of),
        found.trial.measured.flops,
        found.baseline.measured.flops,
        found.trial.cost,
        found.bound,
        found.compilations,
        time.perf_counter() - start,
    )
    parts = [o.part for o in chosen]
    return Plan(parts, operators_of(session.graph), rows, report)


def as_inputs(inputs: Any) -> tuple[Any, ...]:
    found = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    if not found or not hasattr(found[0], "_value"):
        got = type(found[0]).__name__ if found else "nothing"
        raise errors.MXNetTypeError(
            f"a plan is made for a batch: an mx.np array, or a tuple of what the network is called with that begins "
            f"with one, got {got}. mx.np.array(...) makes one"
        )
    return found


def check(of: str, compilations: int) -> None:
    if of not in ("peak", "temp"):
        raise errors.MXNetValueError(f"of is 'peak' or 'temp', got {of!r}")
    if not isinstance(compilations, int):
        raise errors.MXNetTypeError(
            f"compilations is a number of them (an int), got {compilations!r}"
        )
    if compilations < 2:
        raise errors.MXNetValueError(
            f"a search takes two compilations at least, one without recomputation and one with, got {compilations}"
        )


def operators_of(graph: Graph) -> tuple[tuple[str, int], ...]:
    """What a graph must share with another to be arranged alike: operators and numbers of results."""
    return tuple((s.call.name, len(s.avals)) for s in graph.steps)  # type: ignore[union-attr]


def load_plan(path: Any) -> Plan:
    """:meth:`Plan.load`.

    Args:
      path: the path.

    Returns:
      Plan: the plan.
    """
    return Plan.load(path)


# ---- files -----------------------------------------------------------------------------------------


def _packed(part: Part) -> dict[str, Any]:
    keep = part.keep if isinstance(part.keep, str) else sorted(part.keep)
    found: dict[str, Any] = {"stop": part.stop, "keep": keep}
    if part.parts:
        found["parts"] = [_packed(p) for p in part.parts]
    return found


# What a file holds: texts, counts (an int), numbers (a float), lists of one kind, and rows.
_COUNTS = dict.fromkeys(("budget", "bytes", "baseline_bytes", "compilations"), int)
_REPORT = {f.name: _COUNTS.get(f.name, float) for f in fields(Report)} | {"of": str}
_KINDS: dict[str, Any] = {
    "format": str,
    "version": int,
    "operators": [(str, int)],
    "parts": list,
    "rows": [(str, str, int, float)],
    "report": _REPORT,
}


def _is(x: Any, kind: Any) -> bool:
    """Whether a part of a document is of a kind as in :data:`_KINDS`."""
    if isinstance(kind, dict):
        return (
            isinstance(x, dict) and x.keys() == kind.keys() and all(_is(x[k], kind[k]) for k in x)
        )
    if isinstance(kind, list):
        return isinstance(x, list) and all(_is(one, kind[0]) for one in x)
    if isinstance(kind, tuple):
        return isinstance(x, list) and len(x) == len(kind) and all(map(_is, x, kind))
    if kind is float:
        return type(x) in (int, float) and 0 <= x < float("inf")
    return type(x) is kind and (kind is not int or x >= 0)


def _unpacked(cls: type[Plan], document: Any) -> Plan:
    _need(isinstance(document, dict), "it is no JSON object")
    order = document.pop("schedule", ORDER)  # which version 0.1.0 wrote
    _need(order == ORDER, f"order of work {order!r}, which is offered no more: plan the step again")
    _need(set(document) == set(_KINDS), f"it has {sorted(document)}, expected {sorted(_KINDS)}")
    for name, kind in _KINDS.items():
        _need(_is(document[name], kind), f"its {name} are not what save() writes")
    _need(document["format"] == FORMAT, f"its format is not {FORMAT!r}")
    _need(document["version"] == VERSION, f"version {document['version']}, this reads {VERSION}")
    operators = [tuple(row) for row in document["operators"]]
    parts = _parts(document["parts"], 0, len(operators), sum(outs for _, outs in operators), 0)
    report = Report(**document["report"])
    _need(report.of in ("peak", "temp"), f"of {report.of!r}")
    _need(0 < report.bytes <= report.budget, "its bytes are over its budget")
    return cls(parts, operators, [Row(*row) for row in document["rows"]], report)


def _parts(found: Any, start: int, end: int, results: int, depth: int) -> tuple[Part, ...]:
    _need(isinstance(found, list), "parts are a list")
    _need(depth < DEEPEST, f"parts nested deeper than {DEEPEST}")
    parts = []
    for one in found:
        known = isinstance(one, dict) and {"stop", "keep"} <= set(one) <= {"stop", "keep", "parts"}
        _need(known and _is(one["stop"], int), f"part {one!r:.80}")
        stop, keep = one["stop"], one["keep"]
        _need(start < stop <= end, f"a part from {start} to {stop} of {end}")
        if isinstance(keep, list):
            inside = _is(keep, [int]) and all(k < results for k in keep)
            _need(inside, f"a part keeps other results than the {results} there are")
            keep = frozenset(keep)
        else:
            _need(keep in (ALL, MIRROR), f"a part keeps {keep!r}")
        inner = _parts(one["parts"], start, stop, results, depth + 1) if "parts" in one else ()
        parts.append(Part(stop, keep, inner))
        start = stop
    _need(start == end, f"the parts end at {start}, not at {end}")
    return tuple(parts)


def _need(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)
