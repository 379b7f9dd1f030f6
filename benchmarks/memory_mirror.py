"""Mirroring: bytes and arithmetic of a residual network's training step.

    python benchmarks/memory_mirror.py

32 blocks of two 3x3 convolutions with BatchNorm and relu (16 channels, 32x32, batch 8). A step is
forward, loss, backward and SGD: one program. Bytes are XLA's ``temp_size_in_bytes`` of it, found without
running it. Baselines, all with barriers between the blocks and nothing computed again: the network
written in JAX, which keeps what JAX's own differentiation keeps, compiled with XLA's default order of
work and with the order that needs least memory (ours is compiled so); and ours, whose BatchNorm keeps
nothing but its input.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import mxjax as mx
from benchmarks.memory_jax import Written
from benchmarks.memory_sublinear import MIB, Step, line, row
from mxjax.memonger.trials.rehearse import counting

BLOCKS = 32


def rows(blocks: int = BLOCKS) -> list[dict[str, Any]]:
    """The rows of the table: what, value, goal, and whether it is met (``None``: no goal)."""
    costs = {name: ours(blocks, name) for name in ("none", "barriers", "mirror")}
    written, lean = (Written(blocks, lean, counting()).temp_bytes for lean in (False, True))
    mirror, barriers = costs["mirror"], costs["barriers"]
    kept, stricter = f"residual N={blocks}", {"stricter": True}
    return [
        row(f"{kept} written in JAX, barriers: temp", written / MIB, "MiB"),
        row(f"{kept} written in JAX, barriers, order of least memory: temp", lean / MIB, "MiB"),
        *[row(f"{kept} {name}: temp", c.temp_bytes / MIB, "MiB") for name, c in costs.items()],
        row(f"{kept} mirror: temp / written in JAX", mirror.temp_bytes / written, "x", at_most=0.5),
        row(
            f"{kept} mirror: temp / written in JAX, least memory",
            mirror.temp_bytes / lean,
            "x",
            at_most=0.5,
        ),
        row(
            f"{kept} mirror: temp / barriers",
            mirror.temp_bytes / barriers.temp_bytes,
            "x",
            at_most=0.5,
            **stricter,
        ),
        row(f"{kept} mirror: temp / none", mirror.temp_bytes / costs["none"].temp_bytes, "x"),
        row(f"{kept} mirror: flops / barriers", mirror.flops / barriers.flops, "x", at_most=1.03),
    ]


def ours(blocks: int, name: str) -> Any:
    """What our step needs (``memonger.Measured``) under an arrangement, or under ``"none"``."""
    with mx.config.scope(compiler_options=counting()):
        return Step("residual", blocks, name != "none" and name).rehearsed()


if __name__ == "__main__":
    results = rows()
    print("\n".join(map(line, results)))
    print(json.dumps(results))
