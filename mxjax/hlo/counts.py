"""What XLA counts of a program, and what it leaves out: loops beyond their first turn."""

from __future__ import annotations

from typing import Any

from .program import Computation, module_of, parse_module

# XLA counts these apart from arithmetic.
_TRANSCENDENTAL = frozenset(
    """atan2 cbrt cosine erf exponential exponential-minus-one log log-plus-one logistic power rsqrt sine sqrt tan
    tanh""".split()
)


def repeated(compiled: Any) -> tuple[float, float]:
    """The arithmetic and the bytes touched of loops beyond their first turn, which is all that XLA counts of them; less
    the bytes that XLA counts of a fusion's operands and that the fusion does not read."""
    module = module_of(compiled)
    if not module:
        return 0.0, 0.0
    known: dict[int, tuple[float, float, float, float]] = {}

    def work(computation: Computation) -> tuple[float, float, float, float]:
        """Arithmetic and bytes, as they are and as XLA counts them."""
        if id(computation) not in known:
            total = [0.0, 0.0, 0.0, 0.0]
            for i in computation.instructions:
                flops = 0.0 if i.opcode in _TRANSCENDENTAL else float(i.flops)
                own = [(flops, float(i.traffic), flops, float(i.counted_traffic))]
                if i.opcode in ("fusion", "call", "while"):
                    own = [work(c) for c in i.called]
                if i.opcode == "fusion":  # of its memory what stands around it tells
                    own = [(f, 0.0, once, 0.0) for f, _, once, _ in own]
                    own.append((0.0, float(i.traffic), 0.0, float(i.counted_traffic)))
                for k in range(4):
                    total[k] += (i.turns if k < 2 else 1) * sum(o[k] for o in own)
            known[id(computation)] = tuple(total)  # type: ignore[assignment]
        return known[id(computation)]

    entry = parse_module(module).entry
    assert entry is not None
    flops, touched, flops_once, touched_once = work(entry)
    return flops - flops_once, touched - touched_once


def counts(stage: Any) -> dict[str, float]:
    """XLA's counts of what was lowered or compiled by JAX: ``flops``, ``transcendentals``, ``bytes accessed``; nothing
    where a backend does not count."""
    found = stage.cost_analysis() or {}
    if isinstance(found, list):  # one for each of its devices
        found = found[0] if found else {}
    return {name: max(0.0, float(value)) for name, value in found.items()}
