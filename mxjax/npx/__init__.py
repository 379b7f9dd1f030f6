"""Operators beyond NumPy's: neural networks, sequences, devices."""

from __future__ import annotations

from typing import Any

from .. import errors
from ..array.classes import ndarray
from ..array.creation import from_dlpack, from_numpy, to_dlpack_for_read, to_dlpack_for_write
from ..array.frontend import fill
from ..array.invoke import call as _call
from ..core import wait_all as waitall
from ..device import (
    Context,
    Device,
    cpu,
    cpu_pinned,
    current_context,
    current_device,
    gpu,
    gpu_memory_info,
    num_gpus,
    tpu,
)
from ..display.wording import told as _told
from ..modes import generation as _generation
from ..np.functions import where_nonzero as _where_nonzero
from ..ops.table import TABLE as _TABLE
from ..util import (
    get_cuda_compute_capability,
    is_np_array,
    is_np_default_dtype,
    is_np_shape,
    reset_np,
    set_np,
    set_np_default_dtype,
)
from . import image, random
from . import loops_in_python as _loops_in_python  # noqa: F401 -- rows of loops get what runs their Python
from .control_flow import cond, foreach, while_loop

_told(cond, foreach, while_loop)


def nonzero(a: Any) -> Any:
    """The indices of the elements that are not zero, as rows of an int64 array.

    Args:
      a: the input.

    Returns:
      tuple of ndarray (of mx.npx: an array, a row for each element): the places, int64.
    """
    return _where_nonzero(a)


def constraint_check(x: Any, msg: str = "Constraint violated.") -> Any:
    """True if all elements hold; otherwise raises ValueError with ``msg``, at once.

    Args:
      x: the input.
      msg: the text of the error.

    Returns:
      ndarray: True, without an axis.
    """
    made = _call(_TABLE["constraint_check"], ndarray, (x,), {})
    if not made.item():
        raise errors.MXNetValueError(msg)
    return made.astype("bool").reshape(())


def contrib_calibrate_entropy(hist: Any, hist_edges: Any, num_quantized_bins: int = 255) -> Any:
    """The range that loses least in ``num_quantized_bins`` steps: `mx.nd.contrib.calibrate_entropy`.

    Args:
      hist: the counts of the histogram's bins.
      hist_edges: the edges of the histogram's bins.

    Returns:
      tuple: the threshold, and the divergence.
    """
    from ..nd.contrib import calibrate_entropy

    return calibrate_entropy(hist, hist_edges, num_quantized_bins)


def leaky_relu(
    data: Any,
    gamma: Any = None,
    act_type: str = "leaky",
    slope: float = 0.25,
    lower_bound: float = 0.125,
    upper_bound: float = 0.334,
    **kwargs: Any,
) -> Any:
    """``leaky prelu rrelu elu selu gelu gelu_tanh``; rrelu draws its slopes in training.

    Args:
      data: the input.
      gamma: the learned slopes of `prelu`.
      act_type: which function.
      slope: the slope for negative numbers.
      lower_bound: the smallest slope that `rrelu` draws.
      upper_bound: the largest slope that `rrelu` draws.

    Returns:
      ndarray: of the shape and dtype of `data`.
    """
    if act_type == "rrelu":
        return _call(
            _TABLE["_rrelu"],
            ndarray,
            (data,),
            {"lower_bound": lower_bound, "upper_bound": upper_bound, **kwargs},
        )
    attrs = {"act_type": act_type, **kwargs}
    if act_type in ("leaky", "elu"):
        attrs["slope"] = slope
    return _call(_TABLE["leaky_relu"], ndarray, (data,) if gamma is None else (data, gamma), attrs)


def save(file: str, arr: Any) -> None:
    """Write arrays, a list of them or a dictionary of them to a file: as NumPy does, or under 1.9 in MXNet's container.

    Args:
      file: the path of the file.
      arr: the input.
    """
    from .. import serialization

    write = serialization.nd_save if _generation() == 1 else serialization.save
    write(file, arr)


def savez(file: str, *args: Any, **kwds: Any) -> None:
    """Write arrays to a .npz file, under names or as arr_0, arr_1, ...

    Args:
      file: the path of the file.
    """
    from ..serialization import savez as write

    write(file, *args, **kwds)


def load(file: str) -> Any:
    """Read what :func:`save` or :func:`savez` wrote.

    Args:
      file: the path of the file.

    Returns:
      dict or list of arrays (mx.sym: Symbol): what was written; under 1.9 a list where it was one array.
    """
    from ..serialization import load as read

    found = read(file)
    return [found] if _generation() == 1 and not isinstance(found, (list, dict)) else found


__all__ = [
    "Context",
    "Device",
    "cond",
    "constraint_check",
    "contrib_calibrate_entropy",
    "get_cuda_compute_capability",
    "cpu",
    "cpu_pinned",
    "current_context",
    "current_device",
    "foreach",
    "from_dlpack",
    "from_numpy",
    "gpu",
    "gpu_memory_info",
    "image",
    "is_np_array",
    "is_np_default_dtype",
    "is_np_shape",
    "leaky_relu",
    "load",
    "nonzero",
    "num_gpus",
    "random",
    "reset_np",
    "save",
    "savez",
    "set_np",
    "set_np_default_dtype",
    "to_dlpack_for_read",
    "to_dlpack_for_write",
    "tpu",
    "waitall",
    "while_loop",
    *fill(globals(), "npx", ndarray),
]

errors.explain_names(__name__)
