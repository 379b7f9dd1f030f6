"""Cells that change what another cell does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import MXNetAssertionError
from .rnn_cell import BaseRNNCell, RNNParams, _normalize_sequence, symbol

__all__ = ["ModifierCell", "ResidualCell", "ZoneoutCell"]


class ModifierCell(BaseRNNCell):
    """The base of cells that change what another cell does, whose parameters they use.

    Args:
      base_cell: the other cell, which can't be called any more.
    """

    def __init__(self, base_cell: Any):
        super().__init__()
        base_cell._modified = True
        self.base_cell = base_cell

    def reset(self) -> None:
        super().reset()
        if hasattr(self, "base_cell"):
            self.base_cell.reset()

    @property
    def params(self) -> RNNParams:
        self._own_params = False
        return self.base_cell.params  # type: ignore[no-any-return]

    @property
    def state_info(self) -> list[Any]:
        return self.base_cell.state_info  # type: ignore[no-any-return]

    def begin_state(self, init_sym: Any = symbol.zeros, **kwargs: Any) -> list[Any]:  # type: ignore[override]
        self._check_unmodified()
        self.base_cell._modified = False
        try:
            return self.base_cell.begin_state(func=init_sym, **kwargs)  # type: ignore[no-any-return]
        finally:
            self.base_cell._modified = True

    def unpack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        return self.base_cell.unpack_weights(args)  # type: ignore[no-any-return]

    def pack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        return self.base_cell.pack_weights(args)  # type: ignore[no-any-return]


class ZoneoutCell(ModifierCell):
    """Zoneout (Krueger et al. 2016): outputs and states stay what they were, each with a probability.

    Args:
      base_cell: a cell that can be stepped.
      zoneout_outputs, zoneout_states: the probabilities.
    """

    def __init__(self, base_cell: Any, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0):
        if base_cell._no_steps:
            raise MXNetAssertionError(
                f"{type(base_cell).__name__} doesn't support zoneout. {base_cell._no_steps}"
            )
        super().__init__(base_cell)
        self.zoneout_outputs = zoneout_outputs
        self.zoneout_states = zoneout_states
        self.prev_output: Any = None

    def reset(self) -> None:
        super().reset()
        self.prev_output = None

    def __call__(self, inputs: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        output, after = self.base_cell(inputs, states)

        def kept(probability: float, new: Any, old: Any) -> Any:
            mask = symbol.Dropout(symbol.ones_like(new), p=probability)
            return symbol.where(mask, new, old)

        if self.zoneout_outputs:
            old = symbol.zeros_like(output) if self.prev_output is None else self.prev_output
            output = kept(self.zoneout_outputs, output, old)
        if self.zoneout_states:
            after = [
                kept(self.zoneout_states, new, old) for new, old in zip(after, states, strict=True)
            ]
        self.prev_output = output
        return output, after


class ResidualCell(ModifierCell):
    """Adds a cell's input to its output.

    Args:
      base_cell: a cell whose output is of the size of its input.
    """

    def __call__(self, inputs: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        output, states = self.base_cell(inputs, states)
        return _plus(output, inputs), list(states)

    def unroll(
        self, length: int, inputs: Any, begin_state: Any = None, layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:  # fmt: skip
        self.reset()
        self.base_cell._modified = False
        try:
            outputs, states = self.base_cell.unroll(
                length, inputs, begin_state, layout, merge_outputs
            )
        finally:
            self.base_cell._modified = True
        merged = isinstance(outputs, symbol.Symbol) if merge_outputs is None else merge_outputs
        inputs, _ = _normalize_sequence(length, inputs, layout, merged)
        if merged:
            return _plus(outputs, inputs), states
        return [_plus(output, each) for output, each in zip(outputs, inputs, strict=True)], states


def _plus(output: Any, inputs: Any) -> Any:
    return symbol.elemwise_add(output, inputs, name=f"{output.name}_plus_residual")
