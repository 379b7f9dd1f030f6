"""What memory costs: a network's blocks, and the curve of bytes against recomputation."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from mxjax import errors
from mxjax.display.notebooks import Tabled

from ..model.treatment import treatment, work
from .fit import InfeasibleBudget, search
from .measure import human
from .plan import Plan, as_inputs, check, planned
from .rehearse import need_graph
from .session import Session, training_chain


class Block(NamedTuple):
    """One unit of a network.

    ``residuals`` are the bytes that wait for its backward pass when nothing is computed again, what it
    takes from other units among them; ``takes`` those that wait when all of it is computed again, which
    are ``flops`` operations; ``work`` the bytes in use while the backward pass is here.
    """

    name: str
    residuals: int
    takes: int
    flops: float
    work: int


class Blocks(Tabled, tuple[Block, ...]):
    """A network's units in order; prints as a table.

    Args:
      iterable: what is iterated over.
    """

    def _table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]], tuple[()]]:
        rows: list[tuple[str, ...]] = [
            (b.name, human(b.residuals), human(b.takes), f"{b.flops / 1e6:.1f}", human(b.work))
            for b in self
        ]
        return ("block", "residuals", "of these taken", "recompute Mflop", "work"), rows, ()


def blocks(net: Any, *inputs: Any) -> Blocks:
    """What each block keeps for the backward pass, and what computing it again would cost.

    Bytes are of the arrays that derivatives read (exact, from the recorded graph in training mode);
    operations are XLA's count. Blocks are stretches between places where little crosses.

    Args:
      net: a HybridBlock with its parameters initialized.
      *inputs: what its forward takes.

    Returns:
      Blocks: the units, in the order of the forward pass.

    Raises:
      TypeError: ``net`` is no HybridBlock, or the inputs do not begin with an array.

    >>> import mxjax as mx
    >>> net = mx.gluon.nn.HybridSequential()
    >>> net.add(mx.gluon.nn.Dense(8, activation="tanh", in_units=4), mx.gluon.nn.Dense(2, in_units=8))
    >>> net.initialize()
    >>> sum(b.residuals for b in mx.memonger.blocks(net, mx.np.ones((16, 4)))) >= 16 * 8 * 4
    True
    """
    need_graph(net, "blocks(net, x)")
    chain = training_chain(net, as_inputs(inputs))
    found = []
    for u in chain.units:
        kept = treatment(chain, u.start, u.stop, None)
        again = treatment(chain, u.start, u.stop, frozenset())
        found.append(
            Block(
                u.name,
                chain.bytes(kept.kept | kept.takes),
                chain.bytes(again.takes),
                again.flops,
                work(chain, u.start, u.stop, again.stays),
            )
        )
    return Blocks(found)


class Curve(Tabled, list[Plan]):
    """Plans from the one with most bytes to the one with least.

    Args:
      iterable: what is iterated over.
    """

    def _table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]], tuple[()]]:
        rows: list[tuple[str, ...]] = [
            (
                human(p.report.budget),
                human(p.bytes),
                f"{p.bytes / p.report.baseline_bytes:.1%}",
                f"{p.report.flops / max(p.report.baseline_flops, 1):.3f} x",
            )
            for p in self
        ]
        return ("budget", "bytes", "share", "arithmetic"), rows, ()

    def plot(self, ax: Any = None) -> Any:
        """Draw arithmetic against bytes (matplotlib); gives the axes.

        Raises:
          ImportError: matplotlib is not installed.
        """
        if ax is None:
            pyplot: Any = errors.optional_import("matplotlib.pyplot", "notebook")
            _, ax = pyplot.subplots()
        mib = [p.bytes / 2**20 for p in self]
        ax.plot(mib, [p.report.flops / max(p.report.baseline_flops, 1) for p in self], "o-")
        ax.set_xlabel(f"MiB ({self[0].report.of})" if self else "MiB")
        ax.set_ylabel("arithmetic, times that without recomputation")
        return ax


def pareto(
    net: Any,
    inputs: Any,
    points: int = 6,
    of: str = "peak",
    optimizer: Any = "sgd",
    loss: Any = None,
    labels: Any = None,
    compilations: int = 3,
) -> Curve:
    """Plans for budgets from all that is needed without recomputation down to the least possible.

    Args:
      points: how many budgets, in equal ratios; the first plan recomputes nothing.
      compilations: at most so many per budget. A budget that they do not meet gives no plan.
      net, inputs, of, optimizer, loss, labels: as for :func:`mxjax.memonger.plan`.

    Returns:
      Curve: the plans, that with most bytes first.

    >>> import mxjax as mx
    >>> net = mx.gluon.nn.HybridSequential()
    >>> for _ in range(6):
    ...     net.add(mx.gluon.nn.Dense(32, activation="tanh", in_units=32))
    >>> net.initialize()
    >>> curve = mx.memonger.pareto(net, mx.np.ones((256, 32)), points=2, of="temp")
    >>> curve[0].recompute
    0.0
    """
    check(of, compilations)
    if not isinstance(points, int):
        raise errors.MXNetTypeError(
            f"points is how many budgets there are (an int), got {points!r}"
        )
    if points < 1:
        raise errors.MXNetValueError(f"a curve has one point at least, got {points}")
    session = Session(net, as_inputs(inputs), optimizer, loss, labels)
    curve = Curve()
    most = 0

    def at(budget: Any) -> int | None:
        start = time.perf_counter()
        try:
            found = search(session, budget, of, compilations)
        except InfeasibleBudget as error:
            return error.least_bytes
        curve.append(planned(session, found, of, start))
        return None

    at(1.0)
    most = curve[0].bytes
    if points > 1:
        # One byte is never enough: what is left over is the least.
        lowest = at(1)
        assert lowest is not None
        for k in range(1, points):
            at(
                max(lowest, int(most * (lowest / most) ** (k / (points - 1))))
            )  # rounding must not go below the least
    return Curve(_distinct(curve))


def _distinct(plans: Sequence[Plan]) -> list[Plan]:
    """Each arrangement once, most bytes first, none that another beats in both respects."""
    found: list[Plan] = []
    for p in sorted(plans, key=lambda p: (-p.bytes, p.recompute)):
        while found and found[-1].recompute >= p.recompute:
            found.pop()
        if not any(p.key() == q.key() for q in found):
            found.append(p)
    return found
