"""Training steps compiled under one arrangement after another, none of them run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from mxjax import core, errors

from ..arrangement.parts import Arranged, Part
from ..model.chain import Chain
from ..model.options import Option, Options
from .measure import Cost
from .rehearse import counting, leaves, need_graph, put_back, rehearsed


class _Tried(Arranged):
    """An arrangement whose step is compiled to be measured and never runs."""

    whole = True

    def __init__(self, parts: Sequence[Part]):
        super().__init__(lambda graph: parts, ("tried", tuple(parts)))

    def compiler_options(self, platform: str) -> dict[str, Any]:
        options = super().compiler_options(platform)
        if platform == "cpu":
            options.update(counting())
        return options


class Trial(NamedTuple):
    """One arrangement, and what XLA says it needs; ``segmented``: it is in segments (``model/options.lean``)."""

    chosen: tuple[Option, ...]
    measured: Cost
    segmented: bool

    @property
    def cost(self) -> float:
        return sum(o.cost for o in self.chosen)

    def bytes(self, of: str) -> int:
        return self.measured.peak_bytes if of == "peak" else self.measured.temp_bytes


class Session:
    """A network's training step: forward, loss, backward, and the optimizer's update.

    Args:
      net: a hybrid block.
      inputs: what it is called with.
      optimizer: a name, an optimizer (it is copied), or a ``gluon.Trainer``.
      loss: of the network's output (and of ``labels`` where given); by default the mean square of all
        outputs.
    """

    def __init__(
        self,
        net: Any,
        inputs: tuple[Any, ...],
        optimizer: Any,
        loss: Any = None,
        labels: Any = None,
    ):
        need_graph(net, "plan(net, x, budget)")
        self.net, self.inputs, self.loss, self.labels = net, inputs, loss, labels
        self.chain = training_chain(net, inputs)
        self.graph = self.chain.graph
        self.options = Options(self.chain)()
        self.trainer = _trainer(net, optimizer)
        self.trials: dict[tuple[Part, ...], Trial] = {}

    @property
    def plain(self) -> tuple[Option, ...]:
        """Everything kept, unit by unit."""
        return tuple(here[0] for here in self.options)

    def known(self, chosen: Sequence[Option]) -> Trial | None:
        return self.trials.get(_parts(chosen))

    def measure(self, chosen: Sequence[Option], segmented: bool = False) -> Trial:
        """Compile the step under this arrangement, unless that was done before."""
        parts = _parts(chosen)
        if parts not in self.trials:
            with _hybridized(self.net, _Tried(parts)), put_back((self.net, self.trainer)):
                with core.rehearsal(compiles=False):
                    self._step()
                costs = rehearsed(self._step).programs
            most = max(costs, key=lambda c: c.peak_bytes)
            self.trials[parts] = Trial(tuple(chosen), most, segmented)
        return self.trials[parts]

    def _step(self) -> Any:
        from mxjax import autograd

        with autograd.record():
            out = self.net(*self.inputs)
            if self.loss is None:
                first, *others = leaves(out)
                loss = sum(((o * o).mean() for o in others), (first * first).mean())
            elif self.labels is None:
                loss = self.loss(out)
            else:
                loss = self.loss(out, self.labels)
        loss.backward()
        self.trainer.step(self.inputs[0].shape[0] if self.inputs[0].ndim else 1)
        return loss


def training_chain(net: Any, inputs: Sequence[Any]) -> Chain:
    """The chain of a network in training."""
    from mxjax import autograd

    seen = _Seen()
    with autograd.train_mode(), _hybridized(net, seen):
        graph = net.graph(*inputs)
    if not graph.steps:
        raise errors.MXNetValueError(
            f"{type(net).__name__} computes nothing: there is nothing to plan"
        )
    return Chain(graph, seen.wants)


class _Seen(Arranged):
    """No arrangement: it sees which values a graph captured that have gradients."""

    whole = True

    def __init__(self) -> None:
        super().__init__(lambda graph: (), "seen")
        self.wants: list[bool | None] = []

    def lower(self, graph: Any) -> Callable[..., Any]:
        self.wants = [None] * (len(graph.avals) - len(graph.captured))
        self.wants += [v.tape is not None for v in graph.captured]
        return graph.run  # type: ignore[no-any-return]


def _parts(chosen: Sequence[Option]) -> tuple[Part, ...]:
    return tuple(o.part for o in chosen)


def _trainer(net: Any, optimizer: Any) -> Any:
    from copy import copy

    from mxjax import gluon

    if isinstance(optimizer, gluon.Trainer):
        return optimizer
    if not isinstance(optimizer, str):
        optimizer = copy(optimizer)
    made: Any = gluon.Trainer
    return made(net.collect_params(), optimizer, kvstore=None)


@contextmanager
def _hybridized(net: Any, policy: Any) -> Iterator[None]:
    """The network hybridized with a policy, and afterwards as it was before."""
    blocks: list[Any] = []
    net.apply(blocks.append)
    before = [b.hybridization() for b in blocks if hasattr(b, "hybridization")]
    net.hybridize(mirror=policy)
    try:
        yield
    finally:
        for restore in before:
            restore()
