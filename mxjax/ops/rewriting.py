"""Functions that take the place of several operators of a program unasked, where settings allow it."""

from __future__ import annotations

from collections.abc import Sequence

from .. import settings
from ..core import compiler
from ..core.calls.segment import Step
from ..core.hooks import operator_wrappers, program_rewriters
from .lowering.spelled_attention import measured
from .lowering.spellings import Found

_fusions = settings.snapshot("compiler.scope_fusions")
_deterministic = settings.snapshot("determinism.enabled")


def rewrite(steps: Sequence[Step]) -> dict[Step, Found]:
    """The products that end attention in a GPU's program, where cuDNN's is taken unasked.

    Its gradient adds up in any order, so not where numbers are to be the same on every run.
    """
    if compiler.platform_now() != "gpu" or "auto" not in _fusions() or _deterministic():
        return {}
    return {} if operator_wrappers else measured(steps)  # wrappers look at each operator


program_rewriters.append(rewrite)
