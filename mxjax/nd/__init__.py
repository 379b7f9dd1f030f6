"""The operators of MXNet 1.x on NDArray."""

from __future__ import annotations

import builtins
import sys
from typing import Any

from ..array.classes import NDArray
from ..array.creation import nd_array as array
from ..array.creation import nd_empty as empty
from ..array.creation import nd_from_dlpack as from_dlpack
from ..array.creation import nd_from_jax as from_jax
from ..array.creation import nd_from_numpy as from_numpy
from ..array.creation import to_dlpack_for_read, to_dlpack_for_write
from ..array.frontend import fill
from ..core import wait_all as waitall
from ..errors import explain_names as _explain_names
from ..ops.table import FRONT_ENDS as _FRONT_ENDS


def Custom(*data: Any, op_type: str = "", **kwargs: Any) -> Any:  # noqa: N802  (MXNet's name)
    """Run a custom operator written in Python and registered with ``mx.operator.register``.

    Args:
      op_type: the name under which the operator was registered.

    Returns:
      NDArray or Symbol, or a list: what the operator gives.
    """
    from ..operator import custom

    return custom(*data, op_type=op_type, **kwargs)


def onehot_encode(indices: NDArray, out: NDArray) -> NDArray:
    """One-hot rows of numbers, written into ``out``.

    Args:
      indices: the classes.
      out: an array that the result is written into, and that is given back.

    Returns:
      NDArray: `out`.
    """
    out[:] = one_hot(indices, depth=out.shape[1])  # type: ignore[name-defined]  # noqa: F821
    return out


def histogram(
    a: NDArray,
    bins: Any = 10,
    range: Any = None,  # noqa: A002
) -> list[NDArray] | tuple[NDArray, ...]:
    """Counts of the numbers in bins, and the bins' edges.

    Args:
      a: the input.
      bins: the number of bins, or their edges.
      range: the lower and upper end of the bins.

    Returns:
      the counts, and the edges: a tuple of float32 where NumPy chose the range, otherwise a list.
    """
    import numpy

    edges = bins.asnumpy() if isinstance(bins, NDArray) else bins
    counts, found = numpy.histogram(a.asnumpy(), edges, range)
    if range is None and edges is bins:  # MXNet asks NumPy then, and makes float32 of both
        return array(counts, dtype="float32"), array(found, dtype="float32")
    return [array(counts, dtype="int64"), array(found, dtype=a.dtype)]


def sample_multinomial(*args: Any, **kwargs: Any) -> Any:
    """`sample_multinomial(data, shape, get_prob, dtype)`: outcomes drawn from rows of probabilities, as in MXNet 1.

    `sample_multinomial(n, p, shape, ctx, dtype)`: how often each comes in `n` trials (an array, a number for each row
    of the array `p`), as in MXNet 2.

    Returns:
      NDArray or Symbol: the outcomes, or the counts.
    """
    if "p" in kwargs or (len(args) > 1 and isinstance(args[1], NDArray)):
        names = ("n", "p", "shape", "ctx", "dtype")
        return random.multinomial(**dict(zip(names, args, strict=False)), **kwargs)
    names = ("data", "shape", "get_prob", "dtype")
    return sample_categorical(**dict(zip(names, args, strict=False)), **kwargs)  # type: ignore[name-defined]  # noqa: F821


def save(fname: str, data: Any) -> None:
    """Write an array, a list of arrays or a dictionary of them to a file.

    Args:
      fname: the path of the file.
      data: an array, a list or a dictionary of arrays.
    """
    from ..serialization import nd_save

    nd_save(fname, data)


def load(fname: str) -> Any:
    """Read what :func:`save` wrote.

    Args:
      fname: the path of the file.

    Returns:
      dict or list of arrays (mx.sym: Symbol): what was written.
    """
    from ..serialization import nd_load

    return nd_load(fname)


def load_frombuffer(buf: bytes) -> Any:
    """Read the bytes of a file that :func:`save` wrote.

    Args:
      buf: the bytes, or the image's file in memory.

    Returns:
      dict or list of arrays: what was written.
    """
    from ..serialization import load_frombuffer as read

    return read(buf)


__all__ = [
    "Custom",
    "NDArray",
    "_internal",
    "array",
    "contrib",
    "empty",
    "from_dlpack",
    "from_jax",
    "from_numpy",
    "histogram",
    "image",
    "linalg",
    "load",
    "onehot_encode",
    "load_frombuffer",
    "random",
    "sample_multinomial",
    "save",
    "sparse",
    "to_dlpack_for_read",
    "to_dlpack_for_write",
    "waitall",
    *fill(globals(), "nd", NDArray),
]


from . import _internal, contrib, image, linalg, random, sparse  # noqa: E402  (they use the functions above)
from ._steps import of_both as _of_both  # noqa: E402

globals().update(_of_both(_FRONT_ENDS["nd"], globals()))
py_slice = builtins.slice  # Python's class, under MXNet's name
op = sys.modules[__name__]  # what MXNet calls the module of its generated operators

_explain_names(__name__)
