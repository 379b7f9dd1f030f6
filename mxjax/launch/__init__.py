"""Starting a script as several processes that share a kvstore.

    python -m mxjax.launch -n 4 train.py --epochs 3

`kvstore/PROCESSES.md` describes the options, faults and restarts, and what is protected.
"""

from __future__ import annotations

from .checkpoint import Checkpoints

__all__ = ["Checkpoints"]
