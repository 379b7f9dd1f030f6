"""What cells of users import from MXNet's cells though it is private: sequences as arrays and as lists of steps.

MXNet 1's take and give the module of the functions, `mx.nd` or `mx.sym`; MXNet 2's know arrays of mx.np alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mxjax import nd
from mxjax import np as mxnp
from mxjax import symbol as _symbol
from mxjax.array.classes import NDArray, ndarray
from mxjax.errors import MXNetAssertionError
from mxjax.modes import generation
from mxjax.symbol import Symbol

from ._sequences import masked, merged, steps_of, turned

tensor_types = (Symbol, NDArray)
symbol: Any = _symbol  # its functions are made when they are asked for


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise MXNetAssertionError(what)


def _cells_state_info(cells: Sequence[Any], batch_size: int) -> list[Any]:
    """The states of all cells."""
    return [info for cell in cells for info in cell.state_info(batch_size)]


def _cells_begin_state(cells: Sequence[Any], **kwargs: Any) -> list[Any]:
    """The states of all cells before the first step."""
    return [state for cell in cells for state in cell.begin_state(**kwargs)]


def _get_begin_state(cell: Any, *args: Any) -> Any:
    """The states to begin with, where none are given those of the cell: ``(cell, F, begin_state, inputs, batch_size)``
    in MXNet 1, without ``F`` in MXNet 2."""
    *functions, begin_state, inputs, batch_size = args
    if begin_state is not None:
        return begin_state
    zeros = functions[0].zeros if functions else mxnp.zeros
    if functions and functions[0] is symbol:
        return cell.begin_state(func=zeros, batch_size=batch_size)
    with (inputs if isinstance(inputs, NDArray) else inputs[0]).context:
        return cell.begin_state(func=zeros, batch_size=batch_size)


def _format_sequence(
    length: int | None, inputs: Any, layout: str, merge: bool | None, in_layout: str | None = None
) -> tuple[Any, ...]:
    """A sequence as one array (`merge` True), as steps (False) or as it is (None), with its time axis and batch size;
    in MXNet 1 the module of its functions is between these.

    Args:
      length: how many steps there are, if that is known.
      inputs: an array or a symbol, or a list of them, one for each step.
      layout: where the axes are wanted, such as "NTC"; in_layout: where they are, if elsewhere.

    Raises:
      AssertionError: no inputs, a symbol with several outputs, or another number of steps.
    """
    _require(
        inputs is not None,
        "unroll(inputs=None) has been deprecated. Please create input variables outside unroll.",
    )
    axis, batch_axis, batch_size = layout.find("T"), layout.find("N"), 0
    in_axis = axis if in_layout is None else in_layout.find("T")
    whole = isinstance(inputs, tensor_types)
    first = inputs if whole else inputs[0]
    functions: Any = symbol if isinstance(first, Symbol) else nd
    if whole and merge is False:
        if functions is symbol:
            _require(
                len(inputs.list_outputs()) == 1,
                "unroll doesn't allow grouped symbol as input. Please convert to list with list(inputs) first or let "
                "unroll handle splitting.",
            )
            steps = list(symbol.split(inputs, axis=in_axis, num_outputs=length, squeeze_axis=1))
        else:
            _require(
                length in (None, inputs.shape[in_axis]), f"{length} steps wanted of {inputs.shape}"
            )
            steps = steps_of(inputs, in_axis)
        inputs = steps
    elif not whole:
        _require(length in (None, len(inputs)), f"{length} steps wanted of {len(inputs)}")
        if merge is True:
            inputs = (
                symbol.stack(*inputs, axis=axis) if functions is symbol else merged(inputs, axis)
            )
            in_axis = axis
    if functions is nd:
        batch_size = first.shape[batch_axis if whole else 0]
    if isinstance(inputs, tensor_types) and axis != in_axis:
        swapped = (mxnp if isinstance(inputs, ndarray) else functions).swapaxes
        inputs = swapped(inputs, axis, in_axis)
    return (
        (inputs, axis, functions, batch_size) if generation() == 1 else (inputs, axis, batch_size)
    )


def _mask_sequence_variable_length(*args: Any, **kwargs: Any) -> Any:
    """A sequence with zeros behind each row's length: ``(F, data, length, valid_length, time_axis, merge)`` in MXNet 1,
    without ``F`` in MXNet 2.

    Raises:
      AssertionError: there are no lengths.
    """
    if "F" in kwargs or len(args) + len(kwargs) == 6:
        return _masked(*args, **kwargs)
    return _masked(None, *args, **kwargs)


def _masked(F: Any, data: Any, length: int, valid_length: Any, time_axis: int, merge: bool) -> Any:  # noqa: N803
    _require(valid_length is not None, "valid_length is needed")
    if F is not symbol:
        whole = masked(data, valid_length, time_axis)
        return whole if merge else steps_of(whole, time_axis)
    if not isinstance(data, tensor_types):
        data = symbol.stack(*data, axis=time_axis)
    whole = symbol.SequenceMask(
        data, sequence_length=valid_length, use_sequence_length=True, axis=time_axis
    )
    if merge:
        return whole
    return [
        symbol.split(whole, num_outputs=length, axis=time_axis, squeeze_axis=True)
    ]  # one symbol, as in MXNet


def _reverse_sequences(sequences: Sequence[Any], unroll_step: int, valid_length: Any = None) -> Any:
    """Steps in the opposite order, each row's up to its length."""
    if valid_length is None:
        return list(reversed(sequences))
    if not isinstance(sequences[0], Symbol):
        return steps_of(turned(sequences, valid_length, 0), 0)
    whole = symbol.SequenceReverse(
        symbol.stack(*sequences, axis=0), sequence_length=valid_length, use_sequence_length=True
    )
    return symbol.split(whole, axis=0, num_outputs=unroll_step, squeeze_axis=True)


def _get_conv_out_size(
    dimensions: Sequence[int],
    kernels: Sequence[int],
    paddings: Sequence[int],
    dilations: Sequence[int],
) -> tuple[int, ...]:
    """The lengths of a convolution's results, of stride 1; lengths that are not known stay 0.

    >>> _get_conv_out_size((8, 0), (3, 3), (0, 0), (1, 1))
    (6, 0)
    """
    given = zip(dimensions, kernels, paddings, dilations, strict=False)
    return tuple(
        n + 2 * pad - dilate * (kernel - 1) if n else 0 for n, kernel, pad, dilate in given
    )
