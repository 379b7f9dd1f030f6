"""A run has failed: what does not depend on the call that failed is computed all the same.

In MXNet an error reaches what is made of the array that could not be computed, and nothing else. A segment
holds whatever was recorded before somebody read a number, so a matrix without an inverse would take along every array
of the program that nobody had looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..calls.segment import Step
from ..interpret.by_call import ByCall
from . import cold
from .callback import original
from .programs import alone

# What is tried at most: each result is computed by itself, and calls that NumPy has no rule for are compiled.
RESULTS, CALLS = 32, 256


def spared(
    step: Step, live: Sequence[int], arrays: Sequence[Any], scalars: Sequence[Any], device: Any
) -> dict[int, tuple[Any, dict[int, tuple[int, ...]]]]:
    """By their numbers: the live results that can be computed, with the orders of their axes."""
    if len(live) > RESULTS or step.depth > CALLS or step.effects:
        return {}
    if any(s.call.python is not None for s in step.path()):  # type: ignore[union-attr]
        return {}  # the user's Python does not run twice
    found = {}
    for k in live:
        try:
            results, layouts = ByCall(step, (k,), device, alone(device), numpy=True).run(
                (k,), arrays, scalars
            )
            made = cold.kept(results, device)[0]
            if not isinstance(made, np.ndarray):
                made.block_until_ready()  # whose program may fail beside the host
        except Exception as error:
            original(error)  # which the first run has told already
            continue
        found[k] = made, layouts
    return found
