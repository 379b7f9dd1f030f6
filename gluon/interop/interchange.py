"""Parameters in the names and layouts of PyTorch and of Flax, and back.

What differs is told layer by layer: a `Piece` gives the name that a block's own parameter has there, and
how its axes are turned (`_torch_pieces`, `_flax_pieces`). The names of the blocks around are the same on both sides,
unless ``names`` says otherwise.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mxjax import errors

from ..block import Block
from ..nn import activations, basic, conv, norm
from ..rnn import rnn_layer

__all__ = [
    "from_flax_variables",
    "from_torch_state_dict",
    "to_flax_variables",
    "to_torch_state_dict",
]

#: A block's name here -> its name there.
Names = Mapping[str, str] | Callable[[str], str] | None


class Piece(NamedTuple):
    """An array of a block: its names here and there, and the order that its axes have there (None: the same)."""

    own: str
    other: str
    perm: tuple[int, ...] | None = None

    def out(self, a: np.ndarray) -> np.ndarray:
        return a if self.perm is None else np.ascontiguousarray(np.transpose(a, self.perm))

    def back(self, a: np.ndarray) -> np.ndarray:
        return (
            a if self.perm is None else np.ascontiguousarray(np.transpose(a, np.argsort(self.perm)))
        )


def _blocks(block: Block) -> Iterator[tuple[str, Block]]:
    """All blocks by their names, without the dot at the end."""
    for prefix, child in block._named_blocks(""):
        yield prefix.removesuffix("."), child


def _arrays(block: Block) -> dict[str, Any]:
    """A block's own arrays by name; the weights of a recurrent layer one by one."""
    if isinstance(block, rnn_layer._RNNLayer):
        return block.unpack_weights()
    return {name: p.data() for name, p in block._reg_params.items() if p is not None}


def _renamed(names: Names, name: str) -> str:
    if names is None:
        return name
    return names(name) if callable(names) else names.get(name, name)


def _joined(*parts: str) -> str:
    return ".".join(p for p in parts if p)


# ---- PyTorch ----------------------------------------------------------------------------------------

_NORM = {"gamma": "weight", "beta": "bias"}
_GATES = {"i2h": "ih", "h2h": "hh", "h2r": "hr"}


def _torch_pieces(block: Block, arrays: Mapping[str, Any]) -> list[Piece]:
    if isinstance(block, conv._Conv):
        n = block._dims
        last = block._layout.endswith("C")
        return [
            Piece(k, k, (0, n + 1, *range(1, n + 1)) if last and k == "weight" else None)
            for k in arrays
        ]
    if isinstance(block, norm._Affine):
        return [Piece(k, _NORM.get(k, k)) for k in arrays]
    if isinstance(block, activations.PReLU):
        return [Piece(k, "weight") for k in arrays]
    if isinstance(block, rnn_layer._RNNLayer):  # the gates are in one order here and there
        found = []
        for name in arrays:  # l0_i2h_weight: weight_ih_l0; r1_h2h_bias: bias_hh_l1_reverse
            layer, gate, kind = name.split("_")
            reverse = "_reverse" if layer[0] == "r" else ""
            found.append(Piece(name, f"{kind}_{_GATES[gate]}_l{layer[1:]}{reverse}"))
        return found
    return [Piece(k, k) for k in arrays]


def to_torch_state_dict(
    block: Block, names: Names = None, tensors: bool | None = None
) -> dict[str, Any]:
    """The parameters of a network by the names and in the layouts of ``torch.nn``'s layers.

    Args:
      block: the network, initialized.
      names: of blocks there, by their names here (``{"0": "features.conv"}``), or a function; by default the same.
      tensors: whether arrays are PyTorch's tensors, or NumPy's; by default tensors where PyTorch is installed.

    ``gamma`` and ``beta`` become ``weight`` and ``bias``, the weights of convolutions with channels last are turned,
    those of recurrent layers come one by one. Batch normalizations that count get their ``num_batches_tracked``.

    Returns:
      dict: the arrays under the other library's names.

    >>> import mxjax as mx
    >>> net = mx.gluon.nn.Dense(4, in_units=3)
    >>> net.initialize()
    >>> {k: v.shape for k, v in to_torch_state_dict(net, tensors=False).items()}
    {'weight': (4, 3), 'bias': (4,)}
    """
    found: dict[str, Any] = {}
    for title, child in _blocks(block):
        arrays = _arrays(child)
        there = _renamed(names, title)
        for piece in _torch_pieces(child, arrays):
            found[_joined(there, piece.other)] = piece.out(_host(arrays[piece.own]))
        if isinstance(child, norm.BatchNorm):
            found[_joined(there, "num_batches_tracked")] = np.asarray(0, np.int64)
    if tensors is None:
        tensors = importlib.util.find_spec("torch") is not None
    if not tensors:
        return found
    torch = errors.optional_import("torch", "torch")
    return {k: torch.from_numpy(np.array(v)) for k, v in found.items()}


def from_torch_state_dict(
    block: Block,
    state: Mapping[str, Any],
    names: Names = None,
    device: Any = None,
    allow_missing: bool = False,
    ignore_extra: bool = False,
) -> Block:
    """Give a network the parameters of a ``state_dict`` of PyTorch (or NumPy arrays by its names); gives the network.

    Args:
      block: a network of the same layers; it need not be initialized.
      state: what ``module.state_dict()`` gives.
      names: of blocks there, by their names here, or a function; by default the same.
      device: where the parameters go.
      allow_missing: whether arrays may be missing in ``state``.
      ignore_extra: whether ``state`` may have arrays that the network has not.

    Returns:
      Block: the network itself.

    Raises:
      AssertionError: arrays are missing, left over or of another shape; nothing is changed then.

    >>> import mxjax as mx, numpy as np
    >>> net = from_torch_state_dict(mx.gluon.nn.LayerNorm(), {"weight": np.ones(3), "bias": np.zeros(3)})
    >>> net.gamma.shape
    (3,)
    """
    loaded: dict[str, Any] = {}
    left = {k for k in state if not k.endswith("num_batches_tracked")}
    for title, child in _blocks(block):
        there = _renamed(names, title)
        own = _names_of(child, state, there)
        for piece in _torch_pieces(child, own):
            key = _joined(there, piece.other)
            if key in state:
                left.discard(key)
                loaded[_joined(title, piece.own)] = piece.back(_host(state[key]))
            elif not allow_missing:
                raise errors.MXNetAssertionError(
                    f"{_joined(title, piece.own)} of {type(child).__name__} is {key!r} there, which the state has not"
                    f"{errors.did_you_mean(key, state)}: names={{{title!r}: ...}} says another name, "
                    "allow_missing=True leaves it"
                )
    return _filled(block, loaded, left, device, allow_missing, ignore_extra)


def _names_of(block: Block, state: Mapping[str, Any], there: str) -> dict[str, Any]:
    """What arrays a block has, initialized or not; a recurrent layer that knows no input size asks the state."""
    if not isinstance(block, rnn_layer._RNNLayer):
        return {name: p for name, p in block._reg_params.items() if p is not None}
    if not block._input_size:
        first = state.get(_joined(there, "weight_ih_l0"))
        if first is not None:
            block._settle_size(first.shape[1])
    return dict(block._pieces())


def _filled(
    block: Block,
    loaded: dict[str, Any],
    left: set[str],
    device: Any,
    allow_missing: bool,
    ignore_extra: bool,
) -> Block:
    from mxjax.array.creation import array

    if left and not ignore_extra:
        raise errors.MXNetAssertionError(
            f"the network has no place for {', '.join(sorted(left)[:5])}: ignore_extra=True leaves them out"
        )
    vectors: dict[str, Any] = {}
    for title, child in _blocks(block):
        if isinstance(child, rnn_layer._RNNLayer) and not child._in_pieces:
            mine = {
                n: loaded.pop(_joined(title, n))
                for n, _ in child._pieces()
                if _joined(title, n) in loaded
            }
            if mine:
                vectors[_joined(title, "rnn_param")] = child._packed(mine)
    arrays = {k: array(v, dtype=v.dtype) for k, v in loaded.items()}
    block.load_dict({**arrays, **vectors}, device, allow_missing, False, True, "current")
    return block


def _host(a: Any) -> np.ndarray:
    """Anything that holds numbers as a NumPy array; PyTorch's half-precision tensors by way of float32."""
    if hasattr(a, "asnumpy"):
        return a.asnumpy()
    if hasattr(a, "detach"):
        a = a.detach().cpu()
        return np.asarray(a.float() if str(a.dtype) == "torch.bfloat16" else a)
    return np.asarray(a)


# ---- Flax ---------------------------------------------------------------------------------------------

_STATISTICS = {"running_mean": "mean", "running_var": "var"}


def _flax_pieces(block: Block, arrays: Mapping[str, Any]) -> list[Piece]:
    """Names there; statistics begin with ``batch_stats.``"""
    if isinstance(block, conv._Conv):
        n = block._dims
        if block._transposed:
            raise errors.MXNetNotImplementedError(
                "transposed convolutions: Flax lays their kernels out in another way"
            )
        last = block._layout.endswith("C")
        turned = (*range(1, n + 2), 0) if last else (*range(2, n + 2), 1, 0)
        return [Piece("weight", "kernel", turned) if k == "weight" else Piece(k, k) for k in arrays]
    if isinstance(block, basic.Dense):
        return [Piece("weight", "kernel", (1, 0)) if k == "weight" else Piece(k, k) for k in arrays]
    if isinstance(block, basic.Embedding):
        return [Piece("weight", "embedding")]
    if isinstance(block, norm._Affine):
        own = {"gamma": "scale", "beta": "bias"}
        return [Piece(k, own[k] if k in own else f"batch_stats.{_STATISTICS[k]}") for k in arrays]
    if isinstance(block, rnn_layer._RNNLayer):
        raise errors.MXNetNotImplementedError(
            f"{type(block).__name__}: Flax has cells where gluon has layers; unpack_weights() gives the weights"
        )
    return [Piece(k, k) for k in arrays]


def _path(there: str, piece: Piece) -> tuple[str, ...]:
    collection, _, name = piece.other.rpartition(".")
    return (collection or "params", *(there.split(".") if there else ()), name)


def to_flax_variables(block: Block, names: Names = None) -> dict[str, Any]:
    """The parameters of a network as the variables of a ``flax.linen`` module: nested dictionaries of NumPy arrays.

    ``{"params": ..., "batch_stats": ...}``, in Flax's layouts: kernels (in, out) of dense layers, (*window, in, out) of
    convolutions. Orbax writes such trees as they are. ``names`` as in `to_torch_state_dict`
    (``{"0": "Dense_0"}``).

    Args:
      block: the network, initialized.
      names: of modules there, by their names here, or a function; by default the same.

    Returns:
      dict: NumPy's arrays, in dictionaries of each collection and each module.

    Raises:
      NotImplementedError: of recurrent layers and transposed convolutions.

    >>> import mxjax as mx
    >>> net = mx.gluon.nn.Dense(4, in_units=3)
    >>> net.initialize()
    >>> to_flax_variables(net)["params"]["kernel"].shape
    (3, 4)
    """
    tree: dict[str, Any] = {}
    for title, child in _blocks(block):
        arrays = _arrays(child)
        for piece in _flax_pieces(child, arrays):
            path = _path(_renamed(names, title), piece)
            _put(tree, path, piece.out(_host(arrays[piece.own])))
    return tree


def from_flax_variables(
    block: Block,
    variables: Mapping[str, Any],
    names: Names = None,
    device: Any = None,
    allow_missing: bool = False,
    ignore_extra: bool = False,
) -> Block:
    """Give a network the variables of a ``flax.linen`` module, or a tree that Orbax restored; gives the network.

    The arguments are those of `from_torch_state_dict`.

    Args:
      block: a network of the same layers; it need not be initialized.
      variables: the tree, ``{"params": ..., "batch_stats": ...}``.
      names: of modules there, by their names here, or a function; by default the same.
      device: where the parameters go.
      allow_missing: whether arrays may be missing in ``variables``.
      ignore_extra: whether ``variables`` may have arrays that the network has not.

    Returns:
      Block: the network itself.

    Raises:
      AssertionError: arrays are missing, left over or of another shape; nothing is changed then.
      NotImplementedError: of recurrent layers and transposed convolutions.
    """
    flat = dict(_leaves(variables))
    left = {".".join(path) for path in flat}
    loaded: dict[str, Any] = {}
    for title, child in _blocks(block):
        own = {name: p for name, p in child._reg_params.items() if p is not None}
        for piece in _flax_pieces(child, own):
            path = _path(_renamed(names, title), piece)
            if path in flat:
                left.discard(".".join(path))
                loaded[_joined(title, piece.own)] = piece.back(_host(flat[path]))
            elif not allow_missing:
                raise errors.MXNetAssertionError(
                    f"{_joined(title, piece.own)} of {type(child).__name__} is {'.'.join(path)!r} there, which the "
                    f"variables have not: names={{{title!r}: ...}} says another name, allow_missing=True leaves it"
                )
    return _filled(block, loaded, left, device, allow_missing, ignore_extra)


def _put(tree: dict[str, Any], path: Sequence[str], leaf: Any) -> None:
    for key in path[:-1]:
        tree = tree.setdefault(key, {})
    tree[path[-1]] = leaf


def _leaves(
    tree: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*path, str(key)))
        else:
            yield (*path, str(key)), value
