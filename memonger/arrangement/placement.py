"""Placement: which of a device's memories variables and the optimizer's states live in."""

from __future__ import annotations

from typing import Any

from mxjax import errors
from mxjax.core import memory


def place(what: Any, where: str) -> None:
    """Let arrays live in a memory of their device: between programs they wait there.

    A program copies what it takes to the device, and what it changed back; the arrays read, are written
    and are saved as before. Gradients stay on the device. The setting ``memory.variable_placement`` does
    the same for all parameters and states from the start (Ascend's ``variable_placement``).

    Args:
      what: a block or a parameter (its values, also those initialized later), a trainer (its optimizer's
        states, also those made later), or an array.
      where: ``pinned_host`` or ``device``.

    Raises:
      TypeError: ``what`` is none of these.
      ValueError: there is no such memory, or the array is a view of another.
      DeviceError: the backend cannot reach it. On a CPU it is a warning: all is the host's memory there.

    >>> import mxjax as mx, warnings
    >>> net = mx.gluon.nn.Dense(2, in_units=3)
    >>> net.initialize()
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # on a CPU nothing is saved
    ...     mx.memonger.place(net, "pinned_host")
    >>> net.weight.data().jax.sharding.memory_kind
    'pinned_host'
    """
    kind = memory.kind(where)
    if hasattr(what, "collect_params"):
        for parameter in what.collect_params().values():
            parameter.place(where)
    elif hasattr(what, "place"):
        what.place(where)
    elif hasattr(what, "_place"):
        what._place(kind)
    else:
        raise errors.MXNetTypeError(
            f"a block, a parameter, a trainer or an array is expected, got {type(what).__name__}"
        )
