"""What compiled programs are told about: their memory, their collectives, the kernels in them."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Sequence
from typing import Any

from .. import core, settings
from ..core.calls.segment import Step

_logger = logging.getLogger("mxjax")
_COLLECTIVE = re.compile(
    r"= (?P<shape>\S+(?: \S+)*?) (?P<kind>all-reduce|all-gather|reduce-scatter|collective-permute|all-to-all"
    r"|collective-broadcast)(?:-start)?\("
)
_GROUPS = re.compile(r"(?:replica_groups|source_target_pairs)=(\S+?)(?:, [a-z_]+=|$)")
_SHAPE = re.compile(r"([a-z]+)(\d+)?\[([\d,]*)\]")
#: What oneDNN has primitives for.
_KERNELS = (
    "fullyconnected",
    "convolution",
    "deconvolution",
    "dot",
    "matmul",
    "batch_dot",
    "pooling",
    "rnn",
)


def apply() -> None:
    """Listen to what is compiled and run, as far as the settings ask for it."""
    listening = settings.get("debug.log_memory") or settings.get("debug.log_collectives")
    _switch(core.hooks.compile_listeners, _hear, bool(listening))
    kernels = settings.get("debug.log_kernels")
    if kernels and _printer not in core.hooks.observers:
        core.observe(_printer)
    elif not kernels and _printer in core.hooks.observers:
        core.unobserve(_printer)


def _switch(hooks: list[Any], hook: Any, on: bool) -> None:
    if on and hook not in hooks:
        hooks.append(hook)
    elif not on and hook in hooks:
        hooks.remove(hook)


def _hear(name: str, device: Any, compiled: Any, options: dict[str, Any]) -> None:
    if settings.get("debug.log_memory"):
        memory = compiled.memory_analysis()
        if memory is not None:
            _logger.warning(
                "program %s on %s: %d bytes of arguments, %d of results (%d of them in arguments' places), "
                "%d of temporaries, %d of code",
                name,
                core.platform_of(device),
                memory.argument_size_in_bytes,
                memory.output_size_in_bytes,
                memory.alias_size_in_bytes,
                memory.temp_size_in_bytes,
                memory.generated_code_size_in_bytes,
            )
    if settings.get("debug.log_collectives"):
        for kind, size, groups in collectives(compiled.as_text()):
            _logger.warning("program %s: %s of %d bytes among %s", name, kind, size, groups)


def collectives(text: str) -> list[tuple[str, int, str]]:
    """The operators of a compiled program that combine devices: kind, bytes of the result, groups."""
    found = []
    for line in text.splitlines():
        match = _COLLECTIVE.search(line)
        if match is None:
            continue
        groups = _GROUPS.search(line)
        found.append(
            (match["kind"], _bytes(match["shape"]), groups[1] if groups else "all devices")
        )
    return found


def _bytes(shape: str) -> int:
    total = 0
    for _, bits, sizes in _SHAPE.findall(shape):
        count = 1
        for size in filter(None, sizes.split(",")):
            count *= int(size)
        total += count * int(bits or 8) // 8
    return total


class _Printer(core.hooks.SegmentObserver):
    """Prints a line per matrix product or convolution, as oneDNN does."""

    def on_run(self, name: str, steps: Sequence[Step], start: int, stop: int) -> None:
        for step in _kernels(steps):
            shapes = ":".join("x".join(map(str, a.shape)) for a in step.avals)
            print(
                f"dnnl_verbose,exec,{name},{_name(step)},{step.scope},{shapes},{(stop - start) / 1e6:.6g}",
                file=sys.stdout,
            )

    def on_compile(
        self, name: str, reason: str, start: int, stop: int, *more: Any, **named: Any
    ) -> None:
        if settings.get("debug.log_kernels") > 1:
            print(
                f"dnnl_verbose,create,{name},{reason},,,{(stop - start) / 1e6:.6g}", file=sys.stdout
            )


def _name(step: Step) -> str:
    return step.call.name if step.call is not None else ""


def _kernels(steps: Sequence[Step]) -> list[Step]:
    """The steps that are kernels, those inside graphs included."""
    found: list[Step] = []
    for step in steps:
        graph = getattr(step.call, "graph", None)
        if graph is not None:
            found += _kernels(graph.steps)
        elif _name(step).lower().removeprefix("_backward_").lstrip("_") in _KERNELS:
            found.append(step)
    return found


_printer = _Printer()
