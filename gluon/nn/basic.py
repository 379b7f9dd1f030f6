"""Containers and the layers without a neighbourhood: Dense, Dropout, Embedding, Flatten, functions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as onp

from mxjax import errors, nd, np, npx
from mxjax.modes import generation

from ..block import Block
from ..graphs.shapes import infer, shown_width
from ..hybrid_block import HybridBlock
from ..layer import Calls, Layer
from ..legacy import operators_for, takes_operators
from ..parameter import Parameter
from .activations import activation_in


class _Layers:
    """`_layers`, the list of a chain's blocks in MXNet 2; no property: subclasses may have such an attribute."""

    def __get__(self, chain: Any, of: Any = None) -> Any:
        return self if chain is None else list(chain._children.values())


class _Container:
    """What Sequential and HybridSequential share: a chain of numbered children."""

    _is_sequence = True
    _children: Any
    _layers = _Layers()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and not isinstance(args[0], str | None):
            raise errors.MXNetTypeError(
                f"{type(self).__name__}() takes no blocks: net = nn.{type(self).__name__}(); "
                f"net.add({', '.join(type(a).__name__ + '(...)' for a in args)})"
            )
        super().__init__(*args, **kwargs)

    def add(self, *blocks: Any) -> None:
        """Append blocks to the chain."""
        for block in blocks:
            if isinstance(block, (type, list, tuple)) or not callable(block):
                how = (
                    f"{block.__name__}(...) makes one"
                    if isinstance(block, type)
                    else "add(*blocks) takes several, as in add(nn.Dense(8), nn.Dense(2))"
                )
                raise errors.MXNetTypeError(f"add takes blocks, got {block!r}: {how}")
            self.register_child(block)  # type: ignore[attr-defined]

    def _shown(self) -> Any:
        return dict(self._children)

    def forward(self, x: Any, *args: Any) -> Any:
        for block in self._children.values():
            x = block(x, *args)
            args = ()
            if isinstance(x, (tuple, list)):
                args = tuple(x[1:])
                x = x[0]
        return (x, *args) if args else x

    def __len__(self) -> int:
        return len(self._children)

    def __getitem__(self, key: int | slice) -> Any:
        blocks = list(self._children.values())[key]
        if not isinstance(blocks, list):
            return blocks
        if generation() == 1 and type(self) in (Sequential, HybridSequential):
            net = type(self)(prefix=self.prefix)  # type: ignore[call-arg, attr-defined]
        else:
            net = type(self)()
        net.add(*blocks)
        return net

    def __iter__(self) -> Iterator[Any]:
        return iter(self._children.values())


class Sequential(_Container, Calls, Block):  # type: ignore[misc]
    """Blocks one after the other.

    >>> from mxjax.gluon import nn
    >>> net = nn.Sequential()
    >>> net.add(nn.Dense(10, activation="relu"), nn.Dense(2))
    >>> len(net)
    2
    """

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Hybridize the blocks in the chain, each by itself; a `HybridSequential` is one graph."""
        if self._children and all(isinstance(b, HybridBlock) for b in self._children.values()):
            warnings.warn(
                f"All children of this Sequential layer '{self!r}' are HybridBlocks. Consider using HybridSequential "
                "for the best performance.",
                stacklevel=2,
            )
        super().hybridize(active, **kwargs)


class HybridSequential(_Container, Layer):
    """Hybrid blocks one after the other; the chain can be hybridized as a whole."""


class Dense(Layer):
    """A fully connected layer: ``activation(x W^T + b)``.

    Input (N, ...) gives (N, units); with ``flatten=False`` (..., in_units) gives (..., units). ``in_units`` is
    found at the first call when it is 0.

    Args:
      units: the number of outputs.
      activation: the function that follows, by its name in `npx.activation`; none without.
      use_bias: whether a bias is added.
      flatten: whether (N, ...) becomes (N, rest), or only the last axis is transformed.
      dtype: the dtype of the parameters.
      weight_initializer: fills the weight; the block's own way without.
      bias_initializer: fills the bias.
      in_units: the number of inputs; found at the first call if it is 0.
    """

    _operator_is_fwd = True

    def __init__(
        self,
        units: int,
        activation: str | None = None,
        use_bias: bool = True,
        flatten: bool = True,
        dtype: Any = "float32",
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_units: int = 0,
    ):
        super().__init__()
        if isinstance(units, str | bytes | None | list | tuple):
            raise errors.MXNetTypeError(
                f"units={units!r}: the number of outputs is expected, as in nn.Dense(10)"
            )
        self._units = units
        self._in_units = in_units
        self._flatten = flatten
        self.weight = Parameter(
            "weight",
            shape=(units, in_units),
            dtype=dtype,
            init=weight_initializer,
            allow_deferred_init=True,
        )
        self.bias = (
            Parameter(
                "bias", shape=(units,), dtype=dtype, init=bias_initializer, allow_deferred_init=True
            )
            if use_bias
            else None
        )
        self.act = activation_in(self, activation)

    def infer_shape(self, x: Any, *args: Any) -> None:
        known = {"num_hidden": self._units, "no_bias": self.bias is None, "flatten": self._flatten}
        infer(self, "fully_connected", x.shape, **known)

    def forward(self, x: Any) -> Any:
        d = x.device
        bias = self.bias
        out = npx.fully_connected(
            x,
            self.weight.data(d),
            None if bias is None else bias.data(d),
            num_hidden=self._units,
            no_bias=bias is None,
            flatten=self._flatten,
        )
        return out if self.act is None else self.act(out)

    def __repr__(self) -> str:
        units, n = self.weight.shape or (self._units, -1)
        return f"Dense({shown_width(n)} -> {units}, {self.act or 'linear'})"


class Dropout(Layer):
    """Zeroes elements with probability ``rate`` in training and scales the others by 1 / (1 - rate).

    Along ``axes`` one decision holds for all elements. Srivastava et al. 2014.

    Args:
      rate: the share of elements that become 0.
      axes: the axes along which all elements share one decision; none without.
    """

    _operator_is_fwd = True

    def __init__(self, rate: float, axes: tuple[int, ...] = ()):
        super().__init__()
        self._rate = rate
        self._axes = axes

    def forward(self, x: Any) -> Any:
        if self._rate <= 0:
            return np.copy(x)
        return npx.dropout(x, p=self._rate, axes=self._axes)

    def __repr__(self) -> str:
        return f"Dropout(p = {self._rate}, axes={self._axes})"


class Embedding(Layer):
    """Turns integers in [0, input_dim) into vectors of ``output_dim`` elements: shape (...) gives
    (..., output_dim).

    ``sparse_grad=True``: the gradient of the weight is row_sparse, it keeps the rows that were used. With a lazy
    optimizer (``lazy_update=True``, AdaGrad) a step costs what these rows cost. In a hybridized block the gradient is
    computed densely first.

    Args:
      input_dim: the number of rows of the table.
      output_dim: the length of the rows.
      dtype: the dtype of the parameters.
      weight_initializer: fills the weight; the block's own way without.
    """

    _operator_is_fwd = True

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        dtype: Any = "float32",
        weight_initializer: Any = None,
        sparse_grad: bool = False,
    ):
        super().__init__()
        self._dtype = onp.dtype(dtype).name
        self._kwargs = {
            "input_dim": input_dim, "output_dim": output_dim, "dtype": self._dtype, "sparse_grad": sparse_grad,
        }  # fmt: skip
        self.weight = Parameter(
            "weight",
            shape=(input_dim, output_dim),
            dtype=dtype,
            init=weight_initializer,
            allow_deferred_init=True,
            grad_stype="row_sparse" if sparse_grad else "default",
        )

    def forward(self, x: Any) -> Any:
        k = self._kwargs
        sparse: dict[str, Any] = (
            {"sparse_grad": True} if k["sparse_grad"] else {}
        )  # files name the unusual
        return npx.embedding(
            x,
            self.weight.data(x.device),
            input_dim=k["input_dim"],
            output_dim=k["output_dim"],
            **sparse,
        )

    def __repr__(self) -> str:
        return (
            f"Embedding({self._kwargs['input_dim']} -> {self._kwargs['output_dim']}, {self._dtype})"
        )


class Flatten(Layer):
    """(N, ...) becomes (N, product of the rest).

    Args:
      prefix: the beginning of names.
      params: parameters to share, or the arrays of parameters by name.
    """

    def forward(self, x: Any) -> Any:
        return npx.batch_flatten(x)

    def __repr__(self) -> str:
        return "Flatten"


class Identity(Layer):
    """Gives its input.

    Args:
      prefix: the beginning of names.
      params: parameters to share, or the arrays of parameters by name.
    """

    def forward(self, x: Any) -> Any:
        return x


def _function(function: str | Callable[..., Any]) -> tuple[Callable[..., Any], str]:
    if isinstance(function, str):
        for module in (np, npx, nd):
            found = getattr(module, function, None)
            if found is not None:
                return found, function
        raise errors.MXNetAssertionError(f"Function name {function} is not found in np/npx.")
    if callable(function):
        return function, getattr(function, "__name__", type(function).__name__)
    raise errors.MXNetValueError(
        f"Unrecognized function in lambda: {function} of type {type(function)}; a callable or the name of an "
        "operator is expected"
    )


class Lambda(Block):
    """A function (or the name of an operator) as a block.

    Args:
      function: the function, or the name of one of mx.np or mx.npx.
    """

    def __init__(self, function: str | Callable[..., Any]):
        super().__init__()
        self._func_impl, self._func_name = _function(function)

    def forward(self, *args: Any) -> Any:
        return self._func_impl(*args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_name})"


class HybridLambda(Layer):
    """A function (or the name of an operator) as a hybrid block.

    One whose first parameter is called ``F``, as in MXNet 1, is given the operators: mx.nd, or mx.sym for symbols.

    Args:
      function: the function, or the name of one of mx.np or mx.npx.
    """

    def __init__(self, function: str | Callable[..., Any]):
        super().__init__()
        self._func, self._func_name = _function(function)
        self._takes_operators = not isinstance(function, str) and takes_operators(function)

    def forward(self, x: Any, *args: Any) -> Any:
        return self._func(*([operators_for(x)] if self._takes_operators else []), x, *args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_name})"


class _Concatenating:
    """Runs all children on the same input and joins their outputs along an axis."""

    _children: Any
    axis: int

    def add(self, *blocks: Any) -> None:
        """Add branches."""
        for block in blocks:
            self.register_child(block)  # type: ignore[attr-defined]

    def forward(self, x: Any) -> Any:
        return np.concatenate([block(x) for block in self._children.values()], axis=self.axis)


class Concatenate(_Concatenating, Sequential):
    """Branches on the same input, their outputs joined along ``axis``.

    Args:
      axis: the axis along which results are joined.
    """

    def __init__(self, axis: int = -1):
        super().__init__()
        self.axis = axis


class HybridConcatenate(_Concatenating, HybridSequential):
    """Hybrid branches on the same input, their outputs joined along ``axis``.

    Args:
      axis: the axis along which results are joined.
    """

    def __init__(self, axis: int = -1):
        super().__init__()
        self.axis = axis
