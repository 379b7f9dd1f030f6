"""A process that was forked from one in which XLA ran, as `multiprocessing.Pool` does on Linux.

XLA's threads are not in the child: a program would wait for them for ever. So NumPy computes there, call by call,
whatever that costs; what it cannot compute is refused.
"""

from __future__ import annotations

import os

from ...errors import MXNetError
from ...settings import backend_is_up
from ..hooks import forked_children

forked = [False]  # whether this process is such a child


def check() -> None:
    """Called before a program is made.

    Raises:
      MXNetError: this process is such a child.
    """
    if forked[0]:
        raise MXNetError(
            "this process was forked from one that had computed already, and XLA's threads are not in it: NumPy "
            "computes what it can, and this needs a program. Start processes by spawning them, "
            "multiprocessing.get_context('spawn').Pool(), or before the first array is made"
        )


def _in_child() -> None:
    if backend_is_up():
        forked[0] = True
        for begin in forked_children:
            begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
