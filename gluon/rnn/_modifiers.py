"""Cells made of cells: stacks, both directions, dropout, zoneout, residual connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mxjax import errors, np, npx
from mxjax.array.ndarray import NDArray
from mxjax.modes import generation

from ..legacy.forward import given_first
from ._base import HybridRecurrentCell, RecurrentCell, Unrolling
from ._sequences import formatted, merged, turned

__all__ = [
    "BidirectionalCell", "DropoutCell", "HybridSequentialRNNCell", "ModifierCell", "ResidualCell",
    "SequentialRNNCell", "VariationalDropoutCell", "ZoneoutCell",
]  # fmt: skip


class _Group(RecurrentCell):
    """Cells whose states are the children's, one after the other."""

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Those of all cells, in order."""
        return [info for cell in self._cells() for info in cell.state_info(batch_size)]

    def begin_state(self, **kwargs: Any) -> list[Any]:  # type: ignore[override]
        """Those of all cells, in order."""
        self._check_unmodified()
        return [state for cell in self._cells() for state in cell.begin_state(**kwargs)]

    def _cells(self) -> list[Any]:
        return list(self._children.values())

    def _shared(self, states: list[Any]) -> list[list[Any]]:
        """The states of each cell."""
        found, at = [], 0
        for cell in self._cells():
            n = len(cell.state_info())
            found.append(list(states[at : at + n]))
            at += n
        return found


class _Stack(_Group):
    """What SequentialRNNCell and HybridSequentialRNNCell share."""

    _unroll_on_symbols = "stacked"

    def __init__(self) -> None:
        super().__init__()
        self._layers: list[RecurrentCell] = []

    def __repr__(self) -> str:
        lines = [f"({key}): {cell!r}" for key, cell in self._children.items()]
        return f"{type(self).__name__}(\n" + "\n".join(lines) + "\n)"

    def add(self, cell: Any) -> None:
        """Put a cell on top."""
        self._layers.append(cell)
        self.register_child(cell)

    def forward(self, inputs: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        """One step of all cells, each on the output of the one before it.

        Raises:
          AssertionError: one of them runs in both directions.
        """
        self._counter += 1
        if any(isinstance(cell, BidirectionalCell) for cell in self._cells()):
            raise errors.MXNetAssertionError(
                "A stack with a BidirectionalCell cannot be stepped. Please use unroll"
            )
        news: list[Any] = []
        for cell, own in zip(self._cells(), self._shared(states), strict=True):
            inputs, new = cell(inputs, own)
            news += new
        return inputs, news

    def _run_over(self, run: Unrolling) -> tuple[Any, list[Any]]:
        """Each cell on the outputs of the one before it."""
        inputs = run.inputs
        states = self._starting(run.begin_state, inputs, run.batch_size)
        cells, news = self._cells(), []
        for k, (cell, own) in enumerate(zip(cells, self._shared(states), strict=True)):
            # Between the cells a sequence is one array: the next one runs over it as a whole.
            inputs, new = run.of(
                cell, inputs, own, run.merge_outputs if k == len(cells) - 1 else True
            )
            news += new
        return inputs, news

    def __getitem__(self, i: int) -> Any:
        return self._children[str(i)]

    def __len__(self) -> int:
        return len(self._children)


class SequentialRNNCell(_Stack):
    """Cells one upon the other.

    >>> import mxjax as mx
    >>> stack = mx.gluon.rnn.SequentialRNNCell()
    >>> stack.add(mx.gluon.rnn.LSTMCell(4)); stack.add(mx.gluon.rnn.LSTMCell(5))
    >>> stack.initialize()
    >>> outputs, states = stack.unroll(3, mx.np.ones((2, 3, 6)), merge_outputs=True)
    >>> outputs.shape, len(states)
    ((2, 3, 5), 4)
    """

    def infer_shape(self, _: Any, x: Any, is_bidirect: bool) -> None:
        """The children's, for inputs ``x`` of the first one."""
        for i, cell in enumerate(self._layers):
            cell.infer_shape(i, x, is_bidirect)  # type: ignore[attr-defined]


class HybridSequentialRNNCell(_Stack, HybridRecurrentCell):
    """Hybrid cells one upon the other."""

    def infer_shape(self, _: Any, x: Any, is_bidirect: bool) -> None:
        """The children's, for inputs ``x`` of the first one."""
        for i, cell in enumerate(self._layers):
            cell.infer_shape(i, x, False)  # type: ignore[attr-defined]


class DropoutCell(HybridRecurrentCell):
    """Dropout on its inputs; no states.

    Args:
      rate: the share that is dropped in training.
      axes: axes along which the mask is shared.

    Raises:
      AssertionError: ``rate`` is no number.
    """

    _unroll_on_symbols = "dropped"
    _step_on_symbols = "dropout"

    def __init__(self, rate: float, axes: Any = ()):
        super().__init__()
        if not isinstance(rate, (int, float)):
            raise errors.MXNetAssertionError(f"rate must be a number, got {rate!r}")
        self._rate = rate
        self._axes = axes

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rate={self._rate}, axes={self._axes})"

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """None."""
        return []

    def _alias(self) -> str:
        return "dropout"

    def forward(self, inputs: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        """The inputs with dropout, and the states as they are."""
        if self._rate > 0:
            inputs = npx.dropout(inputs, p=self._rate, axes=self._axes)
        return inputs, states

    def _run_over(self, run: Unrolling) -> tuple[Any, list[Any]]:
        """Dropout on the whole sequence if it is one array, else on each step."""
        inputs = formatted(run.inputs, run.axis, run.merge_outputs)
        if isinstance(inputs, NDArray):
            return self.forward(inputs, run.begin_state or [])
        return [self.forward(x, [])[0] for x in inputs], run.begin_state or []


class ModifierCell(HybridRecurrentCell):
    """The base of cells that change what another cell does; the other is not to be called any more.

    Args:
      base_cell: the cell that is modified.

    Raises:
      AssertionError: the other cell belongs to a modifier already.
    """

    def __init__(self, base_cell: Any):
        if base_cell._modified:
            raise errors.MXNetAssertionError(
                f"Cell {base_cell!r} is already modified. One cell cannot be modified twice"
            )
        base_cell._modified = True
        super().__init__()
        if base_cell._names.legacy:  # MXNet 1 calls it after the other cell
            self._names.prefix = self._names.name = base_cell.prefix + self._alias()
        self.base_cell = base_cell

    @property
    def params(self) -> Any:
        """The base cell's own parameters."""
        return self.base_cell.params

    def state_info(self, batch_size: int = 0) -> Any:
        """The base cell's."""
        return self.base_cell.state_info(batch_size)

    def begin_state(self, func: Callable[..., Any] = np.zeros, **kwargs: Any) -> Any:  # type: ignore[override]
        """The base cell's."""
        self._check_unmodified()
        return self._with_base(lambda: self.base_cell.begin_state(func=func, **kwargs))

    def _with_base(self, call: Callable[[], Any]) -> Any:
        self.base_cell._modified = False
        try:
            return call()
        finally:
            self.base_cell._modified = True

    def infer_shape(self, i: Any, x: Any, is_bidirect: bool) -> None:
        """The base cell's."""
        self.base_cell.infer_shape(i, x, is_bidirect)

    def forward(self, inputs: Any, states: list[Any]) -> Any:
        """To be defined."""
        raise errors.MXNetNotImplementedError(f"{type(self).__name__} does not define forward()")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_cell!r})"


def _ones_dropped(like: Any, p: float) -> Any:
    return npx.dropout(np.ones_like(like), p=p)


class ZoneoutCell(ModifierCell):
    """Some units keep the values of the step before, chosen anew each step (https://arxiv.org/abs/1606.01305).

    Args:
      base_cell: the cell.
      zoneout_outputs: the share of outputs that keep their values.
      zoneout_states: that of states.

    Raises:
      AssertionError: ``base_cell`` runs in both directions: put a ZoneoutCell into it for each.
    """

    _step_on_symbols = "zoneout"
    _carried = ("_prev_output",)

    def __init__(self, base_cell: Any, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0):
        if isinstance(base_cell, BidirectionalCell):
            raise errors.MXNetAssertionError(
                "BidirectionalCell doesn't support zoneout since it doesn't support step. Please add ZoneoutCell to "
                "the cells underneath instead."
            )
        super().__init__(base_cell)
        self.zoneout_outputs = zoneout_outputs
        self.zoneout_states = zoneout_states
        self._prev_output: Any = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p_out={self.zoneout_outputs}, p_state={self.zoneout_states}, {self.base_cell!r})"

    def _alias(self) -> str:
        return "zoneout"

    def reset(self) -> None:
        """Forget the last output."""
        super().reset()
        self._prev_output = None

    def forward(self, inputs: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        """One step."""
        out, news = self.base_cell(inputs, states)
        before = self._prev_output
        if self.zoneout_outputs:
            before = np.zeros_like(out) if before is None else before
            out = self._prev_output = np.where(
                _ones_dropped(out, self.zoneout_outputs), out, before
            )
        if self.zoneout_states:
            news = [
                np.where(_ones_dropped(new, self.zoneout_states), new, old.to_device(inputs.device))
                for new, old in zip(news, states, strict=True)
            ]
        return out, news


class ResidualCell(ModifierCell):
    """Adds the inputs to the outputs (https://arxiv.org/abs/1609.08144).

    Args:
      base_cell: the cell that is modified.
    """

    _unroll_on_symbols = "residually"
    _step_on_symbols = "residual"

    def forward(self, inputs: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        """One step."""
        out, states = self.base_cell(inputs, states)
        return out + inputs, states

    def _run_over(self, run: Unrolling) -> tuple[Any, list[Any]]:
        """The base cell unrolled, and the inputs added to its outputs (zeros behind valid lengths)."""
        states = self._starting(run.begin_state, run.inputs, run.batch_size)
        outputs, states = self._with_base(lambda: run.of(self.base_cell, run.inputs, states))
        return run.shaped(outputs + run.masked(merged(run.inputs, run.axis))), states


class BidirectionalCell(_Group, HybridRecurrentCell):
    """Two cells, one of which reads the sequence backwards; their outputs are concatenated.

    Args:
      l_cell, r_cell: the cells for the way forwards and backwards.
      output_prefix: what the names of the outputs begin with where symbols are composed.

    >>> import mxjax as mx
    >>> cell = mx.gluon.rnn.BidirectionalCell(mx.gluon.rnn.GRUCell(4), mx.gluon.rnn.GRUCell(4))
    >>> cell.initialize()
    >>> cell.unroll(3, mx.np.ones((2, 3, 5)), merge_outputs=True)[0].shape
    (2, 3, 8)
    """

    _unroll_on_symbols = "both_ways"

    def __init__(self, l_cell: Any, r_cell: Any, output_prefix: str | None = None):
        begin: Any = super().__init__  # which takes a prefix, as all blocks
        begin(prefix="" if generation() == 1 else None)
        self._output_prefix = "bi_" if output_prefix is None else output_prefix
        self.l_cell = l_cell
        self.r_cell = r_cell

    def __call__(self, inputs: Any, states: list[Any]) -> Any:
        raise errors.MXNetNotImplementedError("Bidirectional cannot be stepped. Please use unroll")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(forward={self.l_cell!r}, backward={self.r_cell!r})"

    def _run_over(self, run: Unrolling) -> tuple[Any, list[Any]]:
        """Both cells unrolled, outputs side by side."""
        left, right = self._shared(self._starting(run.begin_state, run.inputs, run.batch_size))
        whole = merged(run.inputs, run.axis)
        outputs, l_states = run.of(self.l_cell, whole, left)
        back, r_states = run.of(self.r_cell, turned(whole, run.valid_length, run.axis), right)
        both = np.concatenate([outputs, turned(back, run.valid_length, run.axis)], axis=2)
        return run.shaped(run.masked(both)), [*l_states, *r_states]

    def infer_shape(self, i: Any, x: Any, is_bidirect: bool) -> None:
        """Both cells'."""
        self.l_cell.infer_shape(i, x, True)
        self.r_cell.infer_shape(i, x, True)


class VariationalDropoutCell(ModifierCell):
    """Dropout with one mask for all steps (https://arxiv.org/abs/1512.05287).

    The masks are drawn at the first step, and anew after ``reset()``, which ``unroll`` calls.

    Args:
      base_cell: the cell.
      drop_inputs, drop_outputs: the shares of inputs and outputs that are dropped.
      drop_states: that of the first state.

    Raises:
      AssertionError: states of a cell that runs in both directions.
    """

    _unroll_on_symbols = "with_one_mask"
    _step_on_symbols = "variational"
    _carried = ("drop_inputs_mask", "drop_states_mask", "drop_outputs_mask")

    def __init__(
        self,
        base_cell: Any,
        drop_inputs: float = 0.0,
        drop_states: float = 0.0,
        drop_outputs: float = 0.0,
    ):
        if drop_states and isinstance(base_cell, BidirectionalCell):
            raise errors.MXNetAssertionError(
                "BidirectionalCell doesn't support variational state dropout. Please add VariationalDropoutCell to "
                "the cells underneath instead."
            )
        super().__init__(base_cell)
        self.drop_inputs = drop_inputs
        self.drop_states = drop_states
        self.drop_outputs = drop_outputs
        self.reset()

    def _alias(self) -> str:
        return "vardrop"

    def reset(self) -> None:
        """Forget the masks."""
        super().reset()
        self.drop_inputs_mask: Any = None
        self.drop_states_mask: Any = None
        self.drop_outputs_mask: Any = None

    def forward(self, inputs: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        """One step."""
        self._initialize_input_masks(*given_first(inputs), inputs, states)
        if self.drop_states:
            states = [states[0].to_device(inputs.device) * self.drop_states_mask, *states[1:]]
        if self.drop_inputs:
            inputs = inputs * self.drop_inputs_mask
        out, news = self.base_cell(inputs, states)
        self._initialize_output_mask(*given_first(out), out)
        if self.drop_outputs:
            out = out * self.drop_outputs_mask
        return out, news

    def _initialize_input_masks(self, *given: Any) -> None:
        """Draw the masks for `inputs, states`, in programs of MXNet 1 `F, inputs, states`; subclasses override it."""
        inputs, states = given[-2:]
        if self.drop_states and self.drop_states_mask is None:
            self.drop_states_mask = _ones_dropped(states[0], self.drop_states)
        if self.drop_inputs and self.drop_inputs_mask is None:
            self.drop_inputs_mask = _ones_dropped(inputs, self.drop_inputs)

    def _initialize_output_mask(self, *given: Any) -> None:
        """Draw the mask for an output, in programs of MXNet 1 `F, output`; subclasses override it."""
        if self.drop_outputs and self.drop_outputs_mask is None:
            self.drop_outputs_mask = _ones_dropped(given[-1], self.drop_outputs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p_out = {self.drop_outputs}, p_state = {self.drop_states})"

    def _run_over(self, run: Unrolling) -> tuple[Any, list[Any]]:
        """Without dropout of states, the masks are applied to the sequences as a whole."""
        if self.drop_states:
            return super()._run_over(run)
        whole = merged(run.inputs, run.axis)
        states = self._starting(run.begin_state, whole, run.batch_size)
        if self.drop_inputs:
            whole = npx.dropout(whole, p=self.drop_inputs, axes=(run.axis,))
        outputs, states = self._with_base(lambda: run.of(self.base_cell, whole, states))
        if self.drop_outputs:
            outputs = npx.dropout(outputs, p=self.drop_outputs, axes=(run.axis,))
        merge = True if run.merge_outputs is None else run.merge_outputs
        return formatted(run.masked(outputs), run.axis, merge), states
