"""Checkpoints of recurrent networks, in which fused and single weights are the same."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..model import load_checkpoint, save_checkpoint
from .rnn_cell import BaseRNNCell

__all__ = ["do_rnn_checkpoint", "load_rnn_checkpoint", "rnn_unroll", "save_rnn_checkpoint"]


def rnn_unroll(
    cell: Any,
    length: int,
    inputs: Any = None,
    begin_state: Any = None,
    input_prefix: str = "",
    layout: str = "NTC",
) -> Any:
    """The old form of `cell.unroll`; `input_prefix` names the inputs where none are given."""
    from .. import symbol

    warnings.warn("rnn_unroll is deprecated. Please call cell.unroll directly.", stacklevel=2)
    if inputs is None:
        inputs = [symbol.var(f"{input_prefix}t{step}_data") for step in range(length)]
    return cell.unroll(length=length, inputs=inputs, begin_state=begin_state, layout=layout)


def _all(cells: Any) -> list[Any]:
    return [cells] if isinstance(cells, BaseRNNCell) else list(cells)


def save_rnn_checkpoint(
    cells: Any,
    prefix: str,
    epoch: int,
    symbol: Any,
    arg_params: dict[str, Any],
    aux_params: dict[str, Any],
) -> None:
    """`mx.model.save_checkpoint` with the weights of these cells (one, or a list) gate by gate."""
    for cell in _all(cells):
        arg_params = cell.unpack_weights(arg_params)
    save_checkpoint(prefix, epoch, symbol, arg_params, aux_params)


def load_rnn_checkpoint(
    cells: Any, prefix: str, epoch: int
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """What `save_rnn_checkpoint` wrote, with the weights as these cells have them, fused or not."""
    symbol, arg_params, aux_params = load_checkpoint(prefix, epoch)
    for cell in _all(cells):
        arg_params = cell.pack_weights(arg_params)
    return symbol, arg_params, aux_params


def do_rnn_checkpoint(cells: Any, prefix: str, period: int = 1) -> Callable[..., None]:
    """A callback for the end of an epoch that calls `save_rnn_checkpoint` every `period` epochs."""
    period = max(1, int(period))

    def save(iter_no: int, sym: Any = None, arg: Any = None, aux: Any = None) -> None:
        if (iter_no + 1) % period == 0:
            save_rnn_checkpoint(cells, prefix, iter_no + 1, sym, arg, aux)

    return save
