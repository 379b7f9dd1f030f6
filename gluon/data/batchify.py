"""Batchify functions: how the samples of a batch become its arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mxjax.display.reprs import Shown
from mxjax.errors import (
    MXNetAssertionError,
    MXNetNotImplementedError,
    MXNetTypeError,
    MXNetValueError,
)
from mxjax.errors import explain_names as _explain_names

from ._host import host_view, is_array, is_legacy, to_array, tree_to_arrays

__all__ = ["Stack", "Pad", "Append", "Group", "AsList"]

# What arrays can be made of: booleans, integers, floats and the small floats of ml_dtypes ('V').
_NUMERIC = "biufcV"


class _Batchify(Shown):
    """What this module's functions share: `collate` works on the host, a call gives arrays."""

    def collate(self, data: Sequence[Any]) -> Any:
        """The batch with a `HostArray` wherever a call gives an mxjax array."""
        raise NotImplementedError

    def __call__(self, data: Sequence[Any]) -> Any:
        return tree_to_arrays(self.collate(data))

    def __mx_handle__(self) -> _Batchify:
        """What MXNet's loader in C++ takes in the function's place; here the loader takes the function itself."""
        return self


def collates(batchify_fn: Any) -> bool:
    """Whether `batchify_fn` is of this module, so that it can make a batch on the host."""
    return isinstance(batchify_fn, _Batchify) and type(batchify_fn).__call__ in _OWN_CALLS


def collate(batchify_fn: Callable[[Sequence[Any]], Any], data: Sequence[Any]) -> Any:
    """The batch on the host where `batchify_fn` can make it there, else what it gives."""
    if isinstance(batchify_fn, _Batchify) and collates(batchify_fn):
        return batchify_fn.collate(data)
    return batchify_fn(data)


class Stack(_Batchify):
    """Stacks samples of one shape along a new first axis.

    Tuples and lists are stacked part by part, into a list; dictionaries name by name, into a dictionary, where what
    is no number (text, lists of different lengths) stays a list.  The dtype stays: Python's integers give int64
    and its floats float64.  `use_shared_mem` is accepted and not needed.

    Raises:
      MXNetValueError: the samples differ in shape.
      MXNetTypeError: the samples are no numbers.

    >>> x, y = Stack()([(np.ones(2), 0), (np.zeros(2), 1)])
    >>> x.shape, y.shape
    ((2, 2), (2,))
    """

    #: The kinds of samples that have parts.
    _with_parts: tuple[type, ...] = (tuple, list)

    def __init__(self, use_shared_mem: bool = False) -> None:
        self._use_shared_mem = use_shared_mem

    def __call__(self, data: Sequence[Any]) -> Any:
        first = data[0]
        if is_array(first):
            from mxjax import nd
            from mxjax import np as mxnp

            return nd.stack(*data) if is_legacy(first) else mxnp.stack(list(data))
        if isinstance(first, self._with_parts):
            return [self(part) for part in _columns(data)]
        if isinstance(first, Mapping):
            return {name: _entry(self, part) for name, part in _by_name(data)}
        return to_array(_stack(data))

    def collate(self, data: Sequence[Any]) -> Any:
        first = data[0]
        if is_array(first):
            return host_view(self(data))
        if isinstance(first, self._with_parts):
            return [self.collate(part) for part in _columns(data)]
        if isinstance(first, Mapping):
            return {name: _entry(self.collate, part) for name, part in _by_name(data)}
        return host_view(_stack(data))


class StackTuples(Stack):
    """`Stack` as MXNet 1's loader has it (`default_batchify_fn`): only tuples have parts, a list of numbers is a row.

    >>> StackTuples()([([1, 2], 0), ([3, 4], 1)])[0].shape
    (2, 2)
    """

    _with_parts = (tuple,)


def _columns(data: Sequence[Any]) -> list[tuple[Any, ...]]:
    try:
        return list(zip(*data, strict=True))
    except (ValueError, TypeError):
        sizes = sorted({len(item) if hasattr(item, "__len__") else 1 for item in data})
        raise MXNetValueError(
            f"the samples of a batch must have the same number of parts, got {sizes}; "
            "batchify.Pad stacks lists of different lengths"
        ) from None


def _by_name(data: Sequence[Mapping[Any, Any]]) -> Iterator[tuple[Any, list[Any]]]:
    for item in data[1:]:
        if item.keys() != data[0].keys():
            odd = sorted(map(str, item.keys() ^ data[0].keys()))
            raise MXNetValueError(
                f"the samples of a batch must have the same names, {', '.join(odd[:5])} "
                f"{'is' if len(odd) == 1 else 'are'} not in all of them; a batchify_fn of your own fills in what is "
                "missing"
            )
    for name in data[0]:
        yield name, [item[name] for item in data]


def _entry(stack: Callable[[Sequence[Any]], Any], data: list[Any]) -> Any:
    """One name's values: stacked if they are numbers, else as they are, as Hugging Face's data sets give them."""
    first = data[0]
    if isinstance(first, list | tuple):
        try:
            host = np.asarray(data)
        except ValueError:  # of different lengths
            return data
        return stack(list(host)) if host.dtype.kind in _NUMERIC and host.size else data
    if isinstance(first, str | bytes) or first is None:
        return data
    if (
        isinstance(first, Mapping | np.ndarray | np.generic | bool | int | float)
        or is_array(first)
        or is_tensor(first)
    ):
        return stack(data)
    return data


def is_tensor(item: Any) -> bool:
    """Whether it is a tensor of PyTorch."""
    return hasattr(item, "detach") and hasattr(item, "numpy")


def _stack(data: Sequence[Any]) -> np.ndarray:
    try:
        if isinstance(data[0], np.ndarray):
            return np.stack([np.asarray(item) for item in data])
        if is_tensor(data[0]):
            return np.stack([item.detach().cpu().numpy() for item in data])
        out = np.asarray(data)
    except ValueError:
        shapes = sorted({np.shape(item) for item in data})
        raise MXNetValueError(
            f"Stack needs samples of one shape, got {', '.join(map(str, shapes[:5]))}; "
            "batchify.Pad fills them up, batchify.Append keeps them apart"
        ) from None
    if out.dtype.kind not in _NUMERIC:
        raise MXNetTypeError(
            f"Stack needs numbers or arrays of numbers, got {type(data[0]).__name__}; "
            "batchify.AsList keeps other objects as a list"
        )
    return out


class Pad(_Batchify):
    """Fills samples of different sizes up to the largest, on every axis, and stacks them.

    Args:
      val: the number to fill with, 0 if None.
      dtype: of the result; that of the first sample if None.
      round_to: makes every padded size a multiple of this.

    Raises:
      MXNetNotImplementedError: a sample is a tuple or a number: Pad takes one array or list each.
      MXNetValueError: the samples differ in their number of axes.

    >>> Pad(val=-1)([[1, 2, 3], [4]]).asnumpy().tolist()
    [[1, 2, 3], [4, -1, -1]]
    """

    def __init__(
        self,
        val: float | None = None,
        dtype: Any = None,
        round_to: int | None = None,
        use_shared_mem: bool = False,
    ) -> None:
        self._pad_val = 0 if val is None else val
        self._dtype = dtype
        self._round_to = round_to
        self._use_shared_mem = use_shared_mem

    def collate(self, data: Sequence[Any]) -> Any:
        first = data[0]
        if not (is_array(first) or isinstance(first, np.ndarray | list)):
            raise MXNetNotImplementedError(
                f"Pad takes samples that are one array or list each, got {type(first).__name__}; "
                "for samples of several parts use Group(Pad(), Stack(), ...)"
            )
        arrays = [np.asarray(host_view(item)) for item in data]
        if len({array.ndim for array in arrays}) > 1:
            raise MXNetValueError(
                "Pad needs samples with the same number of axes, got the shapes "
                f"{sorted({array.shape for array in arrays})[:5]}"
            )
        sizes = np.max([array.shape for array in arrays], axis=0)
        if self._round_to is not None:
            sizes = -(-sizes // self._round_to) * self._round_to
        shape = (len(arrays), *(int(size) for size in sizes))
        out = np.full(shape, self._pad_val, dtype=self._dtype or arrays[0].dtype)
        for position, array in enumerate(arrays):
            corner = tuple(slice(size) for size in array.shape)
            out[position][corner] = array
        return host_view(out)


class Append(_Batchify):
    """Keeps the samples apart: a list of arrays, each with a new batch axis if `expand`.

    >>> [x.shape for x in Append()([np.ones(2), np.ones(3)])]
    [(1, 2), (1, 3)]
    """

    def __init__(
        self, expand: bool = True, batch_axis: int = 0, use_shared_mem: bool = False
    ) -> None:
        self._expand = expand
        self._batch_axis = batch_axis
        self._use_shared_mem = use_shared_mem

    def collate(self, data: Sequence[Any]) -> Any:
        arrays = [np.asarray(host_view(item)) for item in data]
        if self._expand:
            arrays = [np.expand_dims(array, self._batch_axis) for array in arrays]
        return [host_view(array) for array in arrays]


class Group(_Batchify):
    """Applies the i-th function to the i-th part of every sample; the results form a tuple.

    Raises:
      MXNetTypeError: something that cannot be called among the functions.
      MXNetValueError: samples with more or fewer parts than there are functions.

    >>> padded, labels = Group(Pad(), Stack())([([1, 2], 0), ([3], 1)])
    >>> padded.shape, labels.shape
    ((2, 2), (2,))
    """

    def __init__(self, fn: Any, *args: Callable[[Sequence[Any]], Any]) -> None:
        if isinstance(fn, list | tuple):
            if args:
                raise MXNetTypeError("Group takes functions, Group(a, b), or one list of them")
            self._fn = tuple(fn)
        else:
            self._fn = (fn, *args)
        for position, part in enumerate(self._fn):
            if not callable(part):
                raise MXNetTypeError(
                    f"Group takes batchify functions, number {position} is {part!r}"
                )

    def _parts(self, data: Sequence[Any]) -> list[list[Any]]:
        if len(data[0]) != len(self._fn):
            raise MXNetAssertionError(
                f"Group has {len(self._fn)} functions, but a sample has {len(data[0])} parts"
            )
        return [[item[position] for item in data] for position in range(len(self._fn))]

    def __call__(self, data: Sequence[Any]) -> Any:
        return tuple(fn(part) for fn, part in zip(self._fn, self._parts(data), strict=True))

    def collate(self, data: Sequence[Any]) -> Any:
        return tuple(
            collate(fn, part) for fn, part in zip(self._fn, self._parts(data), strict=True)
        )


class AsList(_Batchify):
    """Gives the samples as they are, in a list: for strings and other objects.

    >>> AsList()(['a', 'b'])
    ['a', 'b']
    """

    def __call__(self, data: Sequence[Any]) -> list[Any]:
        return list(data)

    def collate(self, data: Sequence[Any]) -> list[Any]:
        return list(data)


# A subclass with a __call__ of its own must be called, not collated.
_OWN_CALLS = {cls.__call__ for cls in (_Batchify, Stack, Group, AsList)}

_explain_names(__name__)
