"""Training steps compiled under one arrangement after another, none of them run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from mxjax import core, errors

from ..arrangement.parts import Arranged, Lowered, OfTrial, Part
from ..model.chain import Chain
from ..model.options import Option, Options
from .buffers import SCOPE, Stage, stages
from .measure import Cost, cost
from .rehearse import counting, programs, put_back

# The order of work within a program, a choice on CPUs alone. XLA's memory-optimised order (the engine's default)
# needs least nearly everywhere: it computes again just before the result is needed, the other all of a part first.
MEMORY, PLAIN = "memory", "plain"


class Scheduled(Arranged):
    """An arrangement with its order of work."""

    whole = True

    def __init__(self, arrange: Callable[..., Sequence[Part]], key: Any, schedule: str):
        super().__init__(arrange, (key, schedule))
        self.schedule = schedule

    def compiler_options(self, platform: str) -> dict[str, Any]:
        options = super().compiler_options(platform)
        if platform == "cpu" and self.schedule == PLAIN:
            options["xla_cpu_scheduler_type"] = "CPU_SCHEDULER_TYPE_DEFAULT"
        return options


class _Tried(Scheduled):
    """An arrangement whose step is compiled to be measured and never runs."""

    def __init__(self, parts: Sequence[Part], key: Any, schedule: str, trial: OfTrial):
        super().__init__(lambda graph: parts, key, schedule)
        self._trial = trial

    def lower(self, graph: Any) -> Callable[..., Any]:
        return Lowered(graph, self.arrange(graph), trial=self._trial)

    def compiler_options(self, platform: str) -> dict[str, Any]:
        options = super().compiler_options(platform)
        if platform == "cpu":
            options.update(counting())
        return options


class Trial(NamedTuple):
    """One arrangement, and what XLA says it needs: in all, and while each part is at work."""

    chosen: tuple[Option, ...]
    schedule: str
    measured: Cost
    stages: list[Stage] | None

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
        if not hasattr(net, "hybridize") or not hasattr(net, "graph"):
            raise errors.MXNetTypeError(f"a HybridBlock is planned, got {type(net).__name__}")
        self.net, self.inputs, self.loss, self.labels = net, inputs, loss, labels
        self.chain = training_chain(net, inputs)
        self.graph = self.chain.graph
        ways = Options(self.chain)
        self.options = ways()
        self.lingering = ways.lingering
        self.excess = self.chain.excess()
        self.trainer = _trainer(net, optimizer)
        self.trials: dict[Any, Trial] = {}
        self._trial = OfTrial(SCOPE)

    @property
    def plain(self) -> tuple[Option, ...]:
        """Everything kept, unit by unit."""
        return tuple(here[0] for here in self.options)

    @property
    def schedules(self) -> tuple[str, ...]:
        """The orders of work there are, the likelier one first."""
        return (MEMORY, PLAIN) if self.chain.platform == "cpu" else (MEMORY,)

    def known(self, chosen: Sequence[Option], schedule: str) -> Trial | None:
        return self.trials.get(_key(chosen, schedule))

    def measure(self, chosen: Sequence[Option], schedule: str) -> Trial:
        """Compile the step under this arrangement, unless that was done before."""
        key = _key(chosen, schedule)
        if key not in self.trials:
            parts = [o.part for o in chosen]
            policy = _Tried(parts, key, schedule, self._trial)
            with _hybridized(self.net, policy), put_back((self.net, self.trainer)):
                with core.rehearsal(compiles=False):
                    self._step()
                found = [(cost(*p), p[0].compiled) for p in programs(self._step)]
            most, compiled = max(found, key=lambda p: p[0].peak_bytes)
            self.trials[key] = Trial(tuple(chosen), schedule, most, stages(compiled, len(parts)))
        return self.trials[key]

    def _step(self) -> Any:
        from mxjax import autograd

        with autograd.record():
            out = self.net(*self.inputs)
            if self.loss is None:
                from mxjax.gluon.graphs.cached_graph import flatten

                leaves = flatten(out)[0]
                loss = sum(((o * o).mean() for o in leaves[1:]), (leaves[0] * leaves[0]).mean())
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


def _key(chosen: Sequence[Option], schedule: str) -> Any:
    return tuple(o.part for o in chosen), schedule


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
