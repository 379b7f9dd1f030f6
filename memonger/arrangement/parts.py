"""What a graph's backward pass keeps and what it computes again: stretch by stretch of its steps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence, Set
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from mxjax import errors
from mxjax.core import SCALAR, compiler, images, keep_barriers, memory, platform_of
from mxjax.core.graph.primitives import ONCE
from mxjax.ops.lowering.linear import materialize

from ..model.primitives import is_costly, tupled

if TYPE_CHECKING:
    from mxjax.core import Graph, Step

ALL = "all"  # everything the derivative asks for is kept: nothing is computed again
MIRROR = "mirror"  # results of the costly primitives are kept, see `keep_costly`
DRAWN = "drawn"  # only random bits, and what Python computed, are kept: see `keep_drawn`

# A reduction to less than this share of its input is kept as well: it costs nothing to hold.
SMALL = 1 / 16
# Where nothing else is kept a reduction must leave less: all that a hundred blocks keep so is less than one array.
TINY = 1 / 1024


class Offloaded(NamedTuple):
    """What a stretch keeps, where part of it waits in the host's pinned memory.

    Numbers of results: of its own steps, or of earlier ones that it takes.
    """

    host: frozenset[int]
    device: frozenset[int] = frozenset()


Keep = str | frozenset[int] | Offloaded


class Part(NamedTuple):
    """A stretch of a graph's steps, up to ``stop`` (exclusive); it begins where the one before ends.

    ``keep`` is what stays in memory from the forward to the backward pass besides what the stretch
    takes and gives: :data:`ALL`, :data:`MIRROR`, :data:`DRAWN`, the numbers of results of its steps
    (and what :func:`keep_statistics` says: the rest is computed again when the backward pass comes there),
    or :class:`Offloaded`. With ``parts`` the stretch is computed again as those, each after its own rule
    (where ``keep`` is :data:`ALL` that is all there is to it); the last of them ends where the stretch ends.
    """

    stop: int
    keep: Keep = frozenset()
    parts: tuple[Part, ...] = ()


@jax.custom_vjp
def together(*arrays: Any) -> tuple[Any, ...]:
    """The arrays themselves; their gradients pass one barrier together.

    A barrier forward would do that too, but what the backward pass keeps were then no longer the
    program's inputs: parameters would be kept a second time.
    """
    return arrays


together.defvjp(lambda *arrays: (arrays, None), lambda _, given: lax.optimization_barrier(given))


class Unit(NamedTuple):
    """Consecutive steps, what they take from outside and what of theirs is used outside.

    ``takes`` and ``gives`` hold operands as steps do: results, inputs (negative), dynamic scalars.
    """

    steps: tuple[Step, ...]
    takes: tuple[int, ...]
    gives: tuple[int, ...]


class Arranged:
    """A rematerialisation by parts (``core.hooks.RematPolicy``).

    Args:
      arrange: the parts of a graph; the last one ends with its last step.
      key: equal keys mean equal arrangements of equal graphs.
    """

    def __init__(self, arrange: Callable[[Graph], Sequence[Part]], key: Hashable):
        self.arrange = arrange
        self._key = key

    def lower(self, graph: Graph) -> Callable[..., Any]:
        """A function equal to ``graph.run`` that keeps less for its backward pass."""
        return lower(graph, self.arrange(graph))

    def compiler_options(self, platform: str) -> dict[str, Any]:
        """Barriers must hold: without them XLA:CPU merges both computations into one."""
        return keep_barriers(platform)

    def key(self) -> Hashable:
        return self._key


class Lowered:
    """``graph.run`` as these parts, with a barrier wherever one ends.

    Without the barriers XLA fuses, and so keeps, across the ends; with them a deep network runs and
    compiles faster even where nothing is computed again.

    In the backward pass the gradients that a part gives pass one barrier together. Otherwise XLA goes on
    to the part before and leaves the gradients of parameters, which nobody waits for, to the end, with
    all that they are computed from in memory until then.

    Args:
      wanted: the operands that a derivative is asked for, inputs and results; without them no gradients
        are tied together, and none is computed in vain.
    """

    def __init__(
        self,
        graph: Graph,
        parts: Sequence[Part],
        wanted: frozenset[int] = frozenset(),
    ):
        self._graph = graph
        self._parts = parts
        last = last_uses(graph.steps, graph.outputs)
        self._runs = list(_runs(graph.steps, 0, parts, last, wanted))

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        graph = self._graph
        n = len(graph.avals)
        env: dict[int, Any] = {-1 - i: a for i, a in enumerate(arrays[:n])}
        env.update({SCALAR + i: a for i, a in enumerate(arrays[n:])})
        _run_all(self._runs, env)
        return tuple(_turned(env[k]) for k in graph.outputs)

    def wanting(self, wants: Sequence[bool]) -> Lowered:
        """The same function, for its derivative by those inputs."""
        wanted = {-1 - i for i, w in enumerate(wants[: len(self._graph.avals)]) if w}
        for s in self._graph.steps:
            if not wanted.isdisjoint(s.args):
                wanted.update(k for k, a in enumerate(s.avals, s.first) if a.differentiable)
        return Lowered(self._graph, self._parts, frozenset(wanted))


def _turned(x: Any) -> Any:
    """A result as its caller has it. An image is turned at once: left to XLA it waits for that until the end."""
    return materialize(images.array(x)) if isinstance(x, images.Image) else x


def lower(graph: Graph, parts: Sequence[Part]) -> Lowered:
    """A function equal to ``graph.run`` whose backward pass keeps what these parts say."""
    if any(map(_offloads, parts)):
        refuse_without_host_memory(graph.avals[0].device)
    return Lowered(graph, parts)


def unit(steps: Sequence[Step], start: int, stop: int, last: dict[int, int]) -> Unit:
    """The steps from ``start`` to ``stop`` (exclusive) with what crosses their ends."""
    part = tuple(steps[start:stop])
    own = {s.first + k for s in part for k in range(len(s.avals))}
    takes = dict.fromkeys(i for s in part for i in s.args if i not in own)
    gives = tuple(sorted(k for k in own if last.get(k, -1) >= stop))
    return Unit(part, tuple(takes), gives)


def likeness(steps: Unit, wanted: Collection[int], avals: Mapping[int, Any]) -> Any:
    """Equal for stretches that compute the same.

    Of operands from outside it says whether they are results, are ``wanted``, and what ``avals`` says.
    """
    base = steps.steps[0].first
    places = {i: n for n, i in enumerate(steps.takes)}
    gives = frozenset(steps.gives)
    return tuple(
        (
            s.call,
            tuple(
                i - base if i not in places else (places[i], i >= 0, i in wanted, avals.get(i))
                for i in s.args
            ),
            tuple(s.first + k in gives for k in range(len(s.avals))),
        )
        for s in steps.steps
    )


def last_uses(steps: Sequence[Step], outputs: Sequence[int]) -> dict[int, int]:
    """For each result the last step that takes it; results of the graph live beyond the end."""
    last: dict[int, int] = {}
    for at, s in enumerate(steps):
        for i in s.args:
            if 0 <= i < SCALAR:
                last[i] = at
    for k in outputs:
        last[k] = len(steps)
    return last


def _offloads(part: Part) -> bool:
    return isinstance(part.keep, Offloaded) or any(map(_offloads, part.parts))


def refuse_without_host_memory(device: Any) -> None:
    """Raise where what is moved to the host's memory would stay where it is.

    Raises:
      DeviceError: the device is a CPU, or its backend knows no pinned memory.
    """
    instead = (
        "Use hybridize(mirror=True) (memonger.policy('mirror')) or another rematerialisation, which need less "
        "memory on every backend"
    )
    if platform_of(device) == "cpu":
        raise errors.DeviceError(
            f"residuals cannot be offloaded on {device}: a CPU's memory is the host's memory, and XLA's CPU backend "
            f"silently drops copies between the two, so nothing would be saved. {instead}"
        )
    one = min(getattr(device, "device_set", (device,)), key=lambda d: int(d.id))
    kinds = sorted(m.kind for m in one.addressable_memories())
    if memory.PINNED not in kinds:
        raise errors.DeviceError(
            f"residuals cannot be offloaded on {device}: it reaches no {memory.PINNED} memory, only "
            f"{', '.join(kinds)}. {instead}"
        )


def function(steps: Unit, keep: Keep = ALL) -> Callable[..., tuple[Any, ...]]:
    """A unit as a function of what it takes; its derivative keeps what ``keep`` says."""
    named = keep if isinstance(keep, frozenset) else frozenset()
    taken: frozenset[int] = frozenset()
    if isinstance(keep, Offloaded):
        named = keep.host | keep.device
        taken = named.intersection(steps.takes)

    def run(*given: Any) -> tuple[Any, ...]:
        env = dict(zip(steps.takes, given, strict=True))
        for k in taken:
            # The backward pass starts from what has the name, not from the operand itself.
            env[k] = checkpoint_name(env[k], name(k))
        for step in steps.steps:
            assert step.call is not None
            with jax.named_scope(step.label), compiler.short_of_memory(all_kept=keep == ALL):
                call = partial(images.run, step.call, place=step.label)
                found = tupled(call)([env[i] for i in step.args])
            for k, x in enumerate(found, step.first):
                env[k] = checkpoint_name(lax.optimization_barrier(x), name(k)) if k in named else x
        return tuple(env[k] for k in steps.gives)

    return _kept(run, keep)


def name(result: int) -> str:
    """What a policy of ``jax.checkpoint`` knows a result (or an operand) by."""
    return f"result{result}"


def keep_costly(primitive: Any, *avals: Any, **params: Any) -> bool:
    """Whether mirroring keeps the result of this primitive (a policy for ``jax.checkpoint``)."""
    return is_costly(primitive.name) or _leaves(SMALL, primitive, avals, params)


def keep_statistics(primitive: Any, *avals: Any, **params: Any) -> bool:
    """Whether the result of this primitive is kept wherever others are computed again: a channel's mean and variance
    are a pass over the data each, and a few bytes."""
    return _leaves(TINY, primitive, avals, params)


def keep_drawn(primitive: Any, *avals: Any, **params: Any) -> bool:
    """Whether a stretch that is computed again as a whole keeps the result of this primitive."""
    return primitive.name in ONCE


def _leaves(share: float, primitive: Any, avals: Sequence[Any], params: Mapping[str, Any]) -> bool:
    """Whether a primitive is a reduction that leaves so much of its operand, or less."""
    if not primitive.name.startswith("reduce_") or "axes" not in params:
        return False
    return prod(avals[0].shape[d] for d in params["axes"]) * share >= 1


def _kept(run: Callable[..., Any], keep: Keep) -> Callable[..., Any]:
    if keep == ALL:
        return run
    if keep == MIRROR:
        return jax.checkpoint(run, policy=keep_costly)
    if keep == DRAWN:
        return jax.checkpoint(run, policy=keep_drawn)
    if isinstance(keep, Offloaded):
        policy = jax.checkpoint_policies.save_and_offload_only_these_names(
            names_which_can_be_saved=[name(k) for k in sorted(keep.device)],
            names_which_can_be_offloaded=[name(k) for k in sorted(keep.host)],
            offload_src="device",
            offload_dst=memory.PINNED,
        )
        return jax.checkpoint(run, policy=policy)
    names = jax.checkpoint_policies.save_only_these_names(*[name(k) for k in sorted(keep)])  # type: ignore[arg-type]
    return jax.checkpoint(
        run, policy=jax.checkpoint_policies.save_from_both_policies(names, keep_statistics)
    )


class _Run(NamedTuple):
    """A part as a function, and which of what it takes (by place) has a gradient."""

    steps: Unit
    fn: Callable[..., Any]
    tied: tuple[int, ...]


def _runs(
    steps: Sequence[Step],
    start: int,
    parts: Sequence[Part],
    last: dict[int, int],
    wanted: Set[int],
) -> Iterator[_Run]:
    """The parts that begin with that step, one after another."""
    for part in parts:
        whole = unit(steps, start, part.stop, last)
        tied = tuple(k for k, i in enumerate(whole.takes) if i in wanted)
        if part.parts:
            inner = list(_runs(steps, start, part.parts, last, wanted))
            fn = _kept(_nested(whole, inner), part.keep)
        else:
            fn = function(whole, part.keep)
        yield _Run(whole, fn, tied)
        start = part.stop


def _nested(whole: Unit, inner: Sequence[_Run]) -> Callable[..., Any]:
    def run(*given: Any) -> tuple[Any, ...]:
        env = dict(zip(whole.takes, given, strict=True))
        _run_all(inner, env)
        return tuple(env[k] for k in whole.gives)

    return run


def _run_all(runs: Sequence[_Run], env: dict[int, Any]) -> None:
    for steps, fn, tied in runs:
        given = [env[i] for i in steps.takes]
        if len(tied) > 1:
            for k, x in zip(tied, together(*[given[k] for k in tied]), strict=True):
                given[k] = x
        env.update(zip(steps.gives, lax.optimization_barrier(fn(*given)), strict=True))
