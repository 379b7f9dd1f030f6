"""Sublinear memory as a policy and as a plan to look at; memonger's names for it."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import mxjax
from mxjax import errors
from mxjax.display.notebooks import Tabled

from ..arrangement.parts import ALL, Part
from ..trials.rehearse import leaves, need_graph, rehearse
from .liveness import Liveness
from .segment_search import Options, Stats, options, search
from .segments import Chain

if TYPE_CHECKING:
    from mxjax.core import Graph

# Results of searches that are remembered.
REMEMBERED = 32


class Segment(NamedTuple):
    """One segment of a plan.

    Attributes:
      first, last: the blocks it begins and ends with, as paths of names.
      steps: its operators.
      kept_bytes: what it gives to later segments, held until the backward pass has gone through it.
      inside_bytes: what its derivative needs of its own, held while that runs.
      again: whether it is computed again for that; else its inside is held from the forward pass on.
      flops: its arithmetic, done once more where ``again``.
    """

    first: str
    last: str
    steps: int
    kept_bytes: int
    inside_bytes: int
    again: bool
    flops: float


class _Result(NamedTuple):
    parts: tuple[Part, ...]
    segments: tuple[Segment, ...]
    stats: Stats
    peak_bytes: int
    plain_bytes: int
    flops: float


class Sublinear(Chain):
    """The search with the options in force, for every graph it meets (``memonger.policy('sublinear')``)."""

    def __init__(self) -> None:
        super().__init__("sublinear", lambda live: [])

    def options(self) -> Options:
        """What the search is told."""
        return options()

    def parts(self, graph: Graph) -> Sequence[Part]:
        return _searched(graph, self.options()).parts

    def key(self) -> Hashable:
        return ("sublinear", self.options())


class Segmented(Tabled, Sublinear):
    """A plan in segments, to be looked at and given to ``hybridize(mirror=plan)``.

    For other inputs than those it was made for, it searches again with the same options.

    Attributes:
      segments: the segments in their order; none where nothing need be computed again.
      stats: what the search did.
      peak_bytes: bytes held for the backward pass at the worst moment, by the model of the search.
      plain_bytes: the same where nothing is computed again.
      again_flops: arithmetic done again.
      flops: arithmetic of one forward pass.

    Args:
      graph: what was recorded of a network in training.
      how: how hard to search.
    """

    def __init__(self, graph: Graph, how: Options):
        super().__init__()
        self._how = how
        found = _searched(graph, how)
        _, self.segments, self.stats, self.peak_bytes, self.plain_bytes, self.flops = found
        self.again_flops = sum(s.flops for s in found.segments if s.again)

    def options(self) -> Options:
        return self._how

    def __repr__(self) -> str:
        return f"<memonger.sublinear: {len(self.segments)} segments, {self.peak_bytes / 2**20:.2f} MiB>"

    def _table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]], tuple[str, ...]]:
        mib, stats = 2**20, self.stats
        rows: list[tuple[str, ...]] = [
            (
                s.first if s.first == s.last else f"{s.first} .. {s.last}",
                str(s.steps),
                f"{s.kept_bytes / mib:.2f}",
                f"{s.inside_bytes / mib:.2f}",
                f"{s.flops / 1e9:.3f}" if s.again else "-",
            )
            for s in self.segments
        ]
        notes = (
            f"{self.peak_bytes / mib:.2f} MiB held at the worst moment, {self.plain_bytes / mib:.2f} MiB with "
            f"nothing computed again; again: {self.again_flops / max(self.flops, 1):.0%} of the forward pass",
            f"{stats.evaluated} plans judged: {stats.thresholds} thresholds, {stats.generations} generations of "
            f"{stats.population}; {stats.concurrent} at a time",
        )
        return ("segment", "steps", "kept MiB", "inside MiB", "again Gflop"), rows, notes


def sublinear(net: Any, *inputs: Any, **how: int | None) -> Segmented:
    """Search segments for the training of a network on such inputs.

    Args:
      net: a HybridBlock with its parameters initialized.
      *inputs: what its forward takes; of the arrays only shape, dtype and device count.
      **how: options of the search (lower_bound_mb, trials, genetic_iters, pool_size, workers) in place of
        the settings ``memory.sublinear_*``.

    Returns:
      Segmented: the plan, for ``hybridize(mirror=plan)``; it prints as a table.

    Raises:
      MXNetValueError: an option is out of its range.
      MXNetTypeError: no HybridBlock, or no array among its inputs.

    The search is Chen et al.'s (arXiv 1604.06174) with MegEngine's knobs; the model behind it counts what
    derivatives keep operator by operator, and XLA, which fuses operators, keeps less.

    >>> import mxjax as mx
    >>> from mxjax.gluon import nn
    >>> net = nn.HybridSequential()
    >>> net.add(*[nn.Dense(64, activation="tanh", in_units=64) for _ in range(16)])
    >>> net.initialize()
    >>> plan = mx.memonger.sublinear(net, mx.np.zeros((512, 64)))
    >>> plan.peak_bytes < plan.plain_bytes
    True
    >>> net.hybridize(mirror=plan)
    """
    need_graph(net, "sublinear(net, x)")
    if not any(isinstance(a, mxjax.nd.NDArray) for a in leaves(inputs)):
        raise errors.MXNetTypeError(
            "give what forward takes, such as sublinear(net, mx.np.zeros((32, 3, 224, 224))); an array of mxjax is "
            f"expected among the inputs, got {', '.join(type(a).__name__ for a in inputs) or 'nothing'}"
        )
    with mxjax.autograd.train_mode():
        graph = net.graph(*inputs)
    return Segmented(graph, options(**how))


def search_plan(
    net: Any, ntrial: int = 6, type_dict: Mapping[str, Any] | None = None, **shapes: Any
) -> Any:
    """Find segments for a network and let it train with them.

    The counterpart of ``memonger.search_plan(sym, ntrial, type_dict, **kwargs)`` (github.com/dmlc/
    mxnet-memonger). That returns a new symbol marked with ``mirror_stage``; here the block itself is
    hybridized with the plan and returned.

    Args:
      net: a HybridBlock with its parameters initialized.
      ntrial: how many thresholds are tried.
      type_dict: dtypes of the inputs by name; float32 otherwise.
      **shapes: shapes of the inputs by name; names that forward has not are taken in their order.

    Returns:
      HybridBlock: the network.

    >>> import mxjax as mx
    >>> net = mx.gluon.nn.Dense(8)
    >>> net.initialize()
    >>> mx.memonger.search_plan(net, data=(32, 64)) is net
    True
    """
    need_graph(net, "search_plan(net, data=shape)")
    plan = sublinear(net, *_inputs(net, shapes, type_dict), trials=ntrial)
    net.hybridize(mirror=plan)
    return net


def get_cost(
    net: Any, *inputs: Any, type_dict: Mapping[str, Any] | None = None, **shapes: Any
) -> float:
    """MiB that XLA takes for the temporaries of one forward and backward pass; nothing is run.

    The counterpart of ``memonger.get_cost(sym, type_dict, **kwargs)``. That is what MXNet's planner
    allocates for a bound symbol, results and gradients included; this is ``temp_size_in_bytes`` of the
    compiled programs, without parameters, their gradients and what the network returns.

    Args:
      net: a HybridBlock with its parameters initialized.
      *inputs: what its forward takes, or
      **shapes: the shapes of that, see :func:`search_plan`.
      type_dict: the dtypes of arguments, by name.

    Returns:
      float: the MiB of the program that needs most.

    >>> import mxjax as mx
    >>> net = mx.gluon.nn.Dense(8)
    >>> net.initialize()
    >>> mx.memonger.get_cost(net, data=(32, 64)) < 1
    True
    """
    need_graph(net, "get_cost(net, x)")
    if inputs and shapes:
        raise errors.MXNetTypeError("get_cost takes arrays or shapes by name, not both")
    given = inputs or _inputs(net, shapes, type_dict)
    autograd = mxjax.autograd
    with autograd.train_mode():
        net.graph(*given)  # finishes deferred initializations

    def step() -> Any:
        with autograd.record():
            out = net(*given)
        heads = leaves(out)
        autograd.backward(heads)
        return heads

    return rehearse(step, net).temp_bytes / 2**20


def _inputs(net: Any, shapes: Mapping[str, Any], types: Mapping[str, Any] | None) -> list[Any]:
    """Arrays of these shapes, in the order forward takes them; they are never computed."""
    if not shapes:
        raise errors.MXNetTypeError(
            "give the shape of each input by its name, such as data=(32, 3, 224, 224)"
        )
    for name in types or ():
        if name not in shapes:
            raise errors.MXNetValueError(
                f"type_dict names {name!r}, which is no input{errors.did_you_mean(name, list(shapes))}; there are: "
                f"{', '.join(shapes)}"
            )
    for name, shape in shapes.items():
        if not isinstance(shape, (tuple, list)):
            raise errors.MXNetTypeError(
                f"{name}={shape!r}: a shape is expected, such as {name}=(32, 3, 224, 224)"
            )
    names = [n for n in inspect.signature(net.forward).parameters if n in shapes]
    names += [n for n in shapes if n not in names]
    return [mxjax.np.zeros(tuple(shapes[n]), dtype=(types or {}).get(n, "float32")) for n in names]


_results: dict[Hashable, _Result] = {}


def _searched(graph: Graph, how: Options) -> _Result:
    """The result of a search; the same graph with the same options is searched once."""
    steps = tuple((s.call, s.args, s.scope) for s in graph.steps)
    key = how, steps, graph.avals, graph.outputs, graph.fmt, graph.written
    found = _results.get(key)
    if found is None:
        if len(_results) >= REMEMBERED:
            _results.clear()
        found = _results[key] = _search(graph, how)
    return found


def _search(graph: Graph, how: Options) -> _Result:
    steps = graph.steps
    if not steps:
        return _Result((), (), Stats(), 0, 0, 0.0)
    live = Liveness(graph)
    best, stats = search(live, how)
    whole = float(live.flops[0, -1])
    if not any(best.again):
        return _Result((Part(len(steps), ALL),), (), stats, live.peak, live.peak, whole)
    parts, segments = [], []
    for i, j, again in zip((0, *best.ends), best.ends, best.again, strict=False):
        start, stop = live.places[i], live.places[j]
        kept, inside, flops = int(live.kept[i, j]), int(live.inside[i, j]), float(live.flops[i, j])
        first, last = (s.scope or s.call.name for s in (steps[start], steps[stop - 1]))  # type: ignore[union-attr]
        segments.append(Segment(first, last, stop - start, kept, inside, again, flops))
        parts.append(Part(stop, frozenset() if again else ALL))
    return _Result(tuple(parts), tuple(segments), stats, best.peak, live.peak, whole)
