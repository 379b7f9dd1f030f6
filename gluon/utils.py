"""Small helpers of Gluon: splitting batches over devices, clipping, hooks, files."""

from __future__ import annotations

import math
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mxjax.errors import MXNetAssertionError, MXNetTypeError, MXNetValueError
from mxjax.errors import explain_names as _explain_names
from mxjax.modes import is_np_shape

from ..files.downloading import check_sha1, download, replace_file

__all__ = [
    "split_data",
    "split_and_load",
    "clip_global_norm",
    "check_sha1",
    "download",
    "replace_file",
    "shape_is_known",
    "HookHandle",
    "split_rnn_params",
]


def split_data(
    data: Any, num_slice: int, batch_axis: int = 0, even_split: bool = True
) -> list[Any]:
    """Split an array into `num_slice` parts along `batch_axis`; the first ones may be larger.

    Args:
      data: the input.
      num_slice: into how many parts.
      batch_axis: the axis of the samples.
      even_split: whether parts must be equally long.

    Returns:
      list of arrays: the parts.

    Raises:
      MXNetValueError: `even_split` and the axis is no multiple of `num_slice`.

    >>> import mxjax as mx
    >>> [part.shape for part in split_data(mx.np.ones((5, 2)), 2, even_split=False)]
    [(3, 2), (2, 2)]
    """
    size = data.shape[batch_axis]
    each, extra = divmod(size, num_slice)
    if even_split and extra:
        raise MXNetValueError(
            f"data of shape {tuple(data.shape)} cannot be split evenly into {num_slice} along "
            f"axis {batch_axis}: use a batch size that is a multiple of {num_slice}, or "
            "even_split=False for parts that differ by one"
        )
    if num_slice == 1:
        return [data]
    parts = []
    begin = 0
    index = [slice(None)] * len(data.shape)
    sparse = getattr(data, "stype", "default") == "csr" and batch_axis == 0
    for position in range(num_slice):
        end = begin + each + (position < extra)
        index[batch_axis] = slice(begin, end)
        parts.append(data[index[0] if sparse else tuple(index)])
        begin = end
    return parts


def split_and_load(
    data: Any, ctx_list: Sequence[Any], batch_axis: int = 0, even_split: bool = True
) -> list[Any]:
    """Split a batch along `batch_axis` and put each part on its device.

    Args:
      data: an mxjax array, or anything one can be made of.
      ctx_list: the devices, or a mesh (`mx.mesh`): then the result is one array cut between its devices.
      batch_axis, even_split: as in `split_data`.

    Returns:
      list of arrays: the parts, each on its device.

    >>> import mxjax as mx
    >>> parts = split_and_load(np.ones((4, 2)), [mx.cpu(0), mx.cpu(0)])
    >>> [part.shape for part in parts]
    [(2, 2), (2, 2)]
    """
    from mxjax import autograd
    from mxjax import np as mxnp
    from mxjax.util import default_array

    if hasattr(ctx_list, "split"):  # a mesh: one array, cut between its devices
        return [ctx_list.split(data, batch_axis)]
    if not hasattr(data, "asnumpy"):
        data = default_array(data, device=ctx_list[0])
    if len(ctx_list) > 1 and isinstance(data, mxnp.ndarray) and not autograd.is_recording():
        if data.device.device_type.startswith("cpu"):
            # From the host each part goes to its device at once, without a program that cuts.
            host = split_data(np.asarray(data.jax), len(ctx_list), batch_axis, even_split)
            return [
                mxnp.array(part, dtype=data.dtype, device=device)
                for part, device in zip(host, ctx_list, strict=True)
            ]
    parts = split_data(data, len(ctx_list), batch_axis, even_split)
    return [part.to_device(device) for part, device in zip(parts, ctx_list, strict=True)]


def clip_global_norm(arrays: Sequence[Any], max_norm: float, check_isfinite: bool = True) -> Any:
    """Scale arrays in place so that the norm of all of them together is at most `max_norm`.

    Args:
      arrays: usually gradients; they may lie on different devices.
      max_norm: the largest norm allowed.
      check_isfinite: look at the norm, which waits for it, and warn if it is NaN or infinite.

    Returns:
      The norm before scaling: a float, under MXNet 1.9 NumPy's float32, or without `check_isfinite` an array of
      shape (1,).

    >>> import mxjax as mx
    >>> grad = mx.np.array([3.0, 4.0])
    >>> round(clip_global_norm([grad], 1.0), 3)
    5.0
    """
    from mxjax import np as mxnp
    from mxjax import settings

    if hasattr(arrays, "shape"):
        raise MXNetTypeError(
            "clip_global_norm takes a list of arrays, clip_global_norm([x], max_norm); got one array"
        )
    if not arrays:
        raise MXNetAssertionError("clip_global_norm needs at least one array")
    device = arrays[0].device
    squares = [mxnp.sum(mxnp.square(array.astype("float32"))).to_device(device) for array in arrays]
    total = mxnp.sqrt(mxnp.sum(mxnp.stack(squares))).reshape(1)
    scale = mxnp.minimum(max_norm / (total + 1e-8), 1.0)
    for array in arrays:
        array *= scale.to_device(array.device).astype(array.dtype)
    if not check_isfinite:
        return total
    norm = total.asnumpy()[0] if settings.get("compat.version") == "1.9" else total.item()
    if not np.isfinite(norm):
        warnings.warn(
            f"the global norm is {norm}: the arrays hold NaN or infinite values, and clipping "
            "them means nothing",
            UserWarning,
            stacklevel=2,
        )
    return norm


def _get_repo_file_url(namespace: str, filename: str) -> str:
    """The URL of a file in the repository of datasets and models (the setting `data.repo`)."""
    from mxjax import settings

    return f"{str(settings.get('data.repo')).rstrip('/')}/{namespace}/{filename}"


class HookHandle:
    """A registered hook; `detach()`, or leaving a `with` block, removes it.

    >>> hooks = OrderedDict()
    >>> handle = HookHandle()
    >>> handle.attach(hooks, print)
    >>> len(hooks)
    1
    >>> handle.detach()
    >>> len(hooks)
    0
    """

    def __init__(self) -> None:
        self._hooks_dict_ref: weakref.ref[OrderedDict[int, Any]] | None = None
        self._id: int | None = None

    def attach(self, hooks_dict: OrderedDict[int, Any], hook: Callable[..., Any]) -> None:
        if self._hooks_dict_ref is not None:
            raise MXNetValueError("a HookHandle holds one hook: make another handle")
        self._id = id(hook)
        hooks_dict[self._id] = hook
        self._hooks_dict_ref = weakref.ref(hooks_dict)

    def detach(self) -> None:
        hooks_dict = self._hooks_dict_ref() if self._hooks_dict_ref is not None else None
        if hooks_dict is not None:
            hooks_dict.pop(self._id, None)  # type: ignore[arg-type]

    def __getstate__(self) -> tuple[Any, int | None]:
        return (self._hooks_dict_ref() if self._hooks_dict_ref is not None else None, self._id)

    def __setstate__(self, state: tuple[Any, int | None]) -> None:
        hooks_dict, self._id = state
        self._hooks_dict_ref = weakref.ref(OrderedDict() if hooks_dict is None else hooks_dict)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.detach()


def shape_is_known(shape: Sequence[int] | None) -> bool:
    """Whether no dimension of a shape is left open, which is written -1; 0 in MXNet 1 (`mx.util.is_np_shape`).

    Args:
      shape: the shape, or None.

    Returns:
      bool: whether all lengths are known.

    >>> shape_is_known((2, 3)), shape_is_known((-1, 3)), shape_is_known(None)
    (True, False, False)
    """
    if shape is None:
        return False
    unknown = -1 if is_np_shape() else 0
    if not shape and not is_np_shape():
        return False
    for size in shape:
        if size < unknown:
            raise MXNetAssertionError(
                f"a dimension is at least 0, or {unknown} if unknown; got {shape}"
            )
        if size == unknown:
            return False
    return True


_explain_names(__name__)


def split_rnn_params(
    param: Any,
    mode: str,
    num_layers: int,
    input_size: int,
    hidden_size: int,
    bidirectional: bool = False,
    projection_size: int | None = None,
) -> dict[str, Any]:
    """The weights and biases in a recurrent layer's vector, by their names in 1.x: ``l0_i2h_weight``, ...

    Args:
      param: the vector of all weights and biases.
      mode: "rnn_relu", "rnn_tanh", "lstm" or "gru".
      num_layers: the number of layers.
      input_size: the length of the input.
      hidden_size: the length of the hidden state.
      bidirectional: whether sequences are read backwards, too.
      projection_size: the length of the projected state; none without.

    Returns:
      dict: the weights and biases by name.

    >>> import mxjax as mx
    >>> layer = mx.gluon.rnn.GRU(4, input_size=3)
    >>> layer.initialize()
    >>> split_rnn_params(layer.rnn_param.data(), "gru", 1, 3, 4)["l0_i2h_weight"].shape
    (12, 3)
    """
    from mxjax.ops.rnn import parameter_names, parameter_shapes

    ways = 2 if bidirectional else 1
    shapes = parameter_shapes(mode, input_size, hidden_size, num_layers, ways, projection_size)
    names = parameter_names(num_layers, ways, projection_size)
    found, at = {}, 0
    for name, shape in zip(names, shapes, strict=True):
        size = math.prod(shape)
        found[name] = param[at : at + size].reshape(shape)
        at += size
    return found
