"""Two runs compared, operator by operator: `python -m mxjax.debug compare A B`.

A and B are folders that `debug.dump` (Ascend's dump_config) wrote in two runs of one program: imperative
and hybridized, float32 and bfloat16, CPU and GPU.

    >>> import mxjax as mx
    >>> mx.config.set(dump_config={"enable_dump": True, "dump_path": "run_a"})    # doctest: +SKIP
"""

from __future__ import annotations

from .compare import Difference, Entry, compare, load

__all__ = ["Difference", "Entry", "compare", "load"]
