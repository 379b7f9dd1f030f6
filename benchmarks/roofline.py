"""What one core of this machine moves and computes at most; prints one JSON object. `nets.py` starts it.

python benchmarks/roofline.py
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

NUMBERS = 1 << 24  # 64 MiB: more than caches hold
SIDE = 1024
TURNS = 20


def least(run: Callable[..., Any], *args: Any) -> float:
    """Seconds of CPU."""
    run(*args).block_until_ready()
    best = float("inf")
    for _ in range(TURNS):
        begin = time.process_time()
        run(*args).block_until_ready()
        best = min(best, time.process_time() - begin)
    return best


def main() -> None:
    x, a = jnp.ones(NUMBERS, "float32"), jnp.ones((SIDE, SIDE), "float32")
    added = jax.jit(lambda x: x + 1, donate_argnums=0)

    def moved(_: Any) -> Any:
        nonlocal x
        x = added(x)  # in its place: fresh memory would be cleared by the system first
        return x

    print(
        json.dumps(
            {
                "bytes_per_second": 2 * 4 * NUMBERS / least(moved, None),
                "flops_per_second": 2 * SIDE**3 / least(jax.jit(jnp.matmul), a, a),
            }
        )
    )


if __name__ == "__main__":
    main()
