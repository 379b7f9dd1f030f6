"""Recurrent cells as symbols: what they compute in a step, and their parameters gate by gate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import initializer as init
from .. import nd
from .. import symbol as _symbol
from ..errors import MXNetAssertionError, MXNetNotImplementedError, MXNetTypeError

symbol: Any = _symbol  # its operators are made from the table

__all__ = [
    "BaseRNNCell",
    "BidirectionalCell",
    "DropoutCell",
    "GRUCell",
    "LSTMCell",
    "RNNCell",
    "RNNParams",
    "SequentialRNNCell",
]


def _normalize_sequence(
    length: int | None, inputs: Any, layout: str, merge: bool | None
) -> tuple[Any, int]:
    """A sequence as one symbol (`merge`), as a list of its steps (False), or as it is (None); and the axis of time.

    A list has an entry for each step; one symbol has the axes of `layout`.
    """
    if inputs is None:
        raise MXNetAssertionError(
            "unroll(inputs=None) has been deprecated. Please create input variables outside unroll."
        )
    axis = layout.find("T")
    if isinstance(inputs, symbol.Symbol):
        if merge is False:
            if len(inputs.list_outputs()) != 1:
                raise MXNetAssertionError(
                    "unroll doesn't allow grouped symbol as input. Please convert to list with list(inputs) first or "
                    "let unroll handle splitting."
                )
            parts = symbol.split(inputs, axis=axis, num_outputs=length, squeeze_axis=1)
            inputs = [parts] if length == 1 else list(parts)
        return inputs, axis
    if length is not None and len(inputs) != length:
        raise MXNetAssertionError(f"{length} steps need as many inputs, got {len(inputs)}")
    if merge:
        inputs = symbol.Concat(*[symbol.expand_dims(each, axis=axis) for each in inputs], dim=axis)
    return inputs, axis


class RNNParams:
    """The variables of cells by name, each made when it is first asked for; cells that share it share weights."""

    def __init__(self, prefix: str = ""):
        self._prefix = prefix
        self._params: dict[str, Any] = {}

    def get(self, name: str, **kwargs: Any) -> Any:
        """The variable `prefix + name`; `kwargs` are those of `mx.sym.var`, for the first time."""
        name = self._prefix + name
        if name not in self._params:
            self._params[name] = symbol.Variable(name, **kwargs)
        return self._params[name]


class BaseRNNCell:
    """The base of recurrent cells: called with an input and states it gives the output and new states.

    Args:
      prefix: what the names of its parameters begin with.
      params: an `RNNParams` to be shared with another cell.
    """

    #: What to do instead of calling it, where it has no steps.
    _no_steps = ""

    def __init__(self, prefix: str = "", params: RNNParams | None = None):
        self._own_params = params is None
        self._prefix = prefix
        self._params = RNNParams(prefix) if params is None else params
        self._modified = False
        self.reset()

    def reset(self) -> None:
        """Begin to count steps anew, for another graph."""
        self._init_counter = -1
        self._counter = -1
        for cell in getattr(self, "_cells", ()):
            cell.reset()

    def __call__(self, inputs: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        """The output and the new states of a step.

        Args:
          inputs: (batch, features).
          states: of the step before, or `begin_state()`.
        """
        raise MXNetNotImplementedError(f"{type(self).__name__} must define __call__")

    @property
    def params(self) -> RNNParams:
        """The parameters; whoever asks may share them."""
        self._own_params = False
        return self._params

    @property
    def state_info(self) -> list[Any]:
        """Shape (0 for the batch) and layout of each state."""
        raise MXNetNotImplementedError(f"{type(self).__name__} must define state_info")

    @property
    def state_shape(self) -> list[Any]:
        """The shapes of the states."""
        return [info["shape"] for info in self.state_info]

    @property
    def _gate_names(self) -> Sequence[str]:
        return ()

    def _step_name(self) -> str:
        self._counter += 1
        return f"{self._prefix}t{self._counter}_"

    def _check_unmodified(self) -> None:
        if self._modified:
            raise MXNetAssertionError(
                "After applying modifier cells (e.g. DropoutCell) the base cell cannot be called directly. Call the "
                "modifier cell instead."
            )

    def begin_state(self, func: Any = symbol.zeros, **kwargs: Any) -> list[Any]:
        """The states to begin with.

        Args:
          func: what makes one from `name`, `shape` and `__layout__`: `mx.sym.zeros`, `mx.sym.ones`, `mx.sym.var` ...
          kwargs: further arguments for it.
        """
        self._check_unmodified()
        states = []
        for info in self.state_info:
            self._init_counter += 1
            name = f"{self._prefix}begin_state_{self._init_counter}"
            states.append(func(name=name, **{**kwargs, **(info or {})}))
        return states

    def unpack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        """Parameters by name with the weights of all gates in one array taken apart; a new dictionary."""
        args = dict(args)
        if not self._gate_names:
            return args
        size: int = self._num_hidden  # type: ignore[attr-defined]
        for group in ("i2h", "h2h"):
            for kind in ("weight", "bias"):
                whole = args.pop(f"{self._prefix}{group}_{kind}")
                for place, gate in enumerate(self._gate_names):
                    part = whole[place * size : (place + 1) * size]
                    args[f"{self._prefix}{group}{gate}_{kind}"] = part.copy()
        return args

    def pack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        """Parameters by name with the weights of the gates put together; a new dictionary."""
        args = dict(args)
        if not self._gate_names:
            return args
        for group in ("i2h", "h2h"):
            for kind in ("weight", "bias"):
                parts = [
                    args.pop(f"{self._prefix}{group}{gate}_{kind}") for gate in self._gate_names
                ]
                args[f"{self._prefix}{group}_{kind}"] = nd.concatenate(parts)
        return args

    def unroll(
        self, length: int, inputs: Any, begin_state: Any = None, layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:  # fmt: skip
        """The cell over a sequence.

        Args:
          length: how many steps.
          inputs: a symbol with the axes of `layout`, or a list of symbols (batch, features).
          begin_state: the states to begin with; `begin_state()` if None.
          layout: "NTC" or "TNC".
          merge_outputs: outputs as one symbol, as a list (False), or as it comes (None).

        Returns:
          The outputs, and the states after the last step.
        """
        self.reset()
        inputs, _ = _normalize_sequence(length, inputs, layout, False)
        states = self.begin_state() if begin_state is None else begin_state
        outputs = []
        for step in range(length):
            output, states = self(inputs[step], states)
            outputs.append(output)
        outputs, _ = _normalize_sequence(length, outputs, layout, merge_outputs)
        return outputs, states

    def _get_activation(self, inputs: Any, activation: Any, **kwargs: Any) -> Any:
        if isinstance(activation, str):
            return symbol.Activation(inputs, act_type=activation, **kwargs)
        return activation(inputs, **kwargs)


class _Dense(BaseRNNCell):
    """Cells whose gates are sums of a product with the input and one with a state of the same size."""

    _weights_first = False

    def __init__(self, num_hidden: int, prefix: str, params: RNNParams | None, **bias: Any):
        super().__init__(prefix=prefix, params=params)
        self._num_hidden = num_hidden
        get = self.params.get
        self._iW = get("i2h_weight")
        if self._weights_first:  # the order in which MXNet's cells ask, which `params` keeps
            self._hW, self._iB = get("h2h_weight"), get("i2h_bias", **bias)
        else:
            self._iB, self._hW = get("i2h_bias", **bias), get("h2h_weight")
        self._hB = get("h2h_bias")

    @property
    def state_info(self) -> list[Any]:
        return [{"shape": (0, self._num_hidden), "__layout__": "NC"}]

    def _products(self, inputs: Any, state: Any, name: str) -> tuple[Any, Any]:
        size = self._num_hidden * len(self._gate_names)
        return (
            symbol.FullyConnected(inputs, self._iW, self._iB, num_hidden=size, name=f"{name}i2h"),
            symbol.FullyConnected(state, self._hW, self._hB, num_hidden=size, name=f"{name}h2h"),
        )


def _lstm(
    gates: Any, state: Any, activation: Any, name: str, axis: int = 1
) -> tuple[Any, list[Any]]:
    """The output and the states of an LSTM from the sums of its gates."""
    parts = symbol.SliceChannel(gates, num_outputs=4, axis=axis, name=f"{name}slice")
    enter, forget, leave = (
        symbol.Activation(parts[place], act_type="sigmoid", name=f"{name}{word}")
        for place, word in ((0, "i"), (1, "f"), (3, "o"))
    )
    new = symbol.elemwise_add(
        forget * state, enter * activation(parts[2], name=f"{name}c"), name=f"{name}state"
    )
    output = symbol.elemwise_mul(leave, activation(new), name=f"{name}out")
    return output, [output, new]


def _gru(
    i2h: Any, h2h: Any, state: Any, activation: Any, name: str, axis: int = 1
) -> tuple[Any, list[Any]]:
    """The output and the state of a GRU from its products."""
    i2h_r, i2h_z, i2h_o = symbol.SliceChannel(
        i2h, num_outputs=3, axis=axis, name=f"{name}_i2h_slice"
    )
    h2h_r, h2h_z, h2h_o = symbol.SliceChannel(
        h2h, num_outputs=3, axis=axis, name=f"{name}_h2h_slice"
    )
    reset = symbol.Activation(i2h_r + h2h_r, act_type="sigmoid", name=f"{name}_r_act")
    update = symbol.Activation(i2h_z + h2h_z, act_type="sigmoid", name=f"{name}_z_act")
    new = activation(i2h_o + reset * h2h_o, name=f"{name}_h_act")
    output = symbol.elemwise_add((1.0 - update) * new, update * state, name=f"{name}out")
    return output, [output]


def _tanh(inputs: Any, **kwargs: Any) -> Any:
    return symbol.Activation(inputs, act_type="tanh", **kwargs)


class RNNCell(_Dense):
    """A cell with one gate: `activation(W x + U h + b)`.

    Args:
      num_hidden: the size of the state.
      activation: the name of an activation, or a function of symbols.
      prefix, params: as in `BaseRNNCell`.
    """

    def __init__(
        self,
        num_hidden: int,
        activation: Any = "tanh",
        prefix: str = "rnn_",
        params: RNNParams | None = None,
    ):
        super().__init__(num_hidden, prefix, params)
        self._activation = activation

    @property
    def _gate_names(self) -> Sequence[str]:
        return ("",)

    def __call__(self, inputs: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        name = self._step_name()
        i2h, h2h = self._products(inputs, states[0], name)
        output = self._get_activation(i2h + h2h, self._activation, name=f"{name}out")
        return output, [output]


class LSTMCell(_Dense):
    """Long short-term memory (Hochreiter and Schmidhuber 1997): gates i, f, c, o.

    Args:
      num_hidden: the size of the two states.
      prefix, params: as in `BaseRNNCell`.
      forget_bias: what the forget gate's bias begins with.
    """

    _weights_first = True

    def __init__(
        self,
        num_hidden: int,
        prefix: str = "lstm_",
        params: RNNParams | None = None,
        forget_bias: float = 1.0,
    ):
        super().__init__(num_hidden, prefix, params, init=init.LSTMBias(forget_bias=forget_bias))

    @property
    def state_info(self) -> list[Any]:
        return [{"shape": (0, self._num_hidden), "__layout__": "NC"} for _ in range(2)]

    @property
    def _gate_names(self) -> Sequence[str]:
        return ["_i", "_f", "_c", "_o"]

    def __call__(self, inputs: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        name = self._step_name()
        i2h, h2h = self._products(inputs, states[0], name)
        return _lstm(i2h + h2h, states[1], _tanh, name)


class GRUCell(_Dense):
    """A gated recurrent unit (Cho et al. 2014), in cuDNN's form: gates r, z, o.

    Args:
      num_hidden: the size of the state.
      prefix, params: as in `BaseRNNCell`.
    """

    def __init__(self, num_hidden: int, prefix: str = "gru_", params: RNNParams | None = None):
        super().__init__(num_hidden, prefix, params)

    @property
    def _gate_names(self) -> Sequence[str]:
        return ["_r", "_z", "_o"]

    def __call__(self, inputs: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        name = self._step_name()
        i2h, h2h = self._products(inputs, states[0], f"{name}_")
        return _gru(i2h, h2h, states[0], _tanh, name)


class _Container(BaseRNNCell):
    """Cells made of cells."""

    _cells: list[Any]
    _override_cell_params: bool

    def _take_params(self, cell: Any) -> None:
        if self._override_cell_params:
            if not cell._own_params:
                raise MXNetAssertionError(
                    f"Either specify params for {type(self).__name__} or child cells, not both."
                )
            cell.params._params.update(self.params._params)
        self.params._params.update(cell.params._params)

    @property
    def state_info(self) -> list[Any]:
        return [info for cell in self._cells for info in cell.state_info]

    def begin_state(self, **kwargs: Any) -> list[Any]:  # type: ignore[override]
        self._check_unmodified()
        return [state for cell in self._cells for state in cell.begin_state(**kwargs)]

    def unpack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        for cell in self._cells:
            args = cell.unpack_weights(args)
        return args

    def pack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        for cell in self._cells:
            args = cell.pack_weights(args)
        return args


class SequentialRNNCell(_Container):
    """Cells one upon the other, which `add` puts there.

    Args:
      params: an `RNNParams` for all cells.
    """

    def __init__(self, params: RNNParams | None = None):
        super().__init__(prefix="", params=params)
        self._override_cell_params = params is not None
        self._cells = []

    def add(self, cell: Any) -> None:
        """Put a cell on top."""
        self._cells.append(cell)
        self._take_params(cell)

    def __call__(self, inputs: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        self._counter += 1
        states, after = list(states), []
        for cell in self._cells:
            if isinstance(cell, BidirectionalCell):
                raise MXNetAssertionError("BidirectionalCell cannot be stepped. Please use unroll")
            count = len(cell.state_info)
            inputs, new = cell(inputs, states[:count])
            del states[:count]
            after += new
        return inputs, after

    def unroll(
        self, length: int, inputs: Any, begin_state: Any = None, layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:  # fmt: skip
        self.reset()
        states = list(self.begin_state() if begin_state is None else begin_state)
        after: list[Any] = []
        for cell in self._cells:
            count = len(cell.state_info)
            inputs, new = cell.unroll(
                length, inputs=inputs, begin_state=states[:count], layout=layout,
                merge_outputs=merge_outputs if cell is self._cells[-1] else None,
            )  # fmt: skip
            del states[:count]
            after.extend(new)
        return inputs, after


class DropoutCell(BaseRNNCell):
    """Dropout of what goes through it, between the cells of a `SequentialRNNCell`.

    Args:
      dropout: the probability.
      prefix, params: as in `BaseRNNCell`.
    """

    def __init__(self, dropout: float, prefix: str = "dropout_", params: RNNParams | None = None):
        super().__init__(prefix, params)
        if not isinstance(dropout, int | float):
            raise MXNetTypeError(f"dropout probability must be a number, got {dropout!r}")
        self.dropout = dropout

    @property
    def state_info(self) -> list[Any]:
        return []

    def __call__(self, inputs: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        if self.dropout > 0:
            inputs = symbol.Dropout(data=inputs, p=self.dropout)
        return inputs, list(states)

    def unroll(
        self, length: int, inputs: Any, begin_state: Any = None, layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:  # fmt: skip
        self.reset()
        inputs, _ = _normalize_sequence(length, inputs, layout, merge_outputs)
        if isinstance(inputs, symbol.Symbol):
            return self(inputs, [])  # all steps at once
        return super().unroll(length, inputs, begin_state, layout, merge_outputs)


class BidirectionalCell(_Container):
    """Two cells, of which the second goes from the end to the beginning; their outputs are joined.

    Args:
      l_cell, r_cell: the cells.
      params: an `RNNParams` for both.
      output_prefix: what the outputs' names begin with.
    """

    _no_steps = "It has no steps: please add ZoneoutCell to the cells underneath instead."

    def __init__(
        self, l_cell: Any, r_cell: Any, params: RNNParams | None = None, output_prefix: str = "bi_"
    ):
        super().__init__("", params=params)
        self._output_prefix = output_prefix
        self._override_cell_params = params is not None
        self._cells = [l_cell, r_cell]
        for cell in self._cells:
            self._take_params(cell)

    def __call__(self, inputs: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        """It has no steps.

        Raises:
          NotImplementedError: always.
        """
        raise MXNetNotImplementedError("Bidirectional cannot be stepped. Please use unroll")

    def unroll(
        self, length: int, inputs: Any, begin_state: Any = None, layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:  # fmt: skip
        self.reset()
        inputs, axis = _normalize_sequence(length, inputs, layout, False)
        states = self.begin_state() if begin_state is None else begin_state
        left, right = self._cells
        count = len(left.state_info)
        there, left_states = left.unroll(length, inputs, states[:count], layout, merge_outputs)
        back, right_states = right.unroll(
            length, list(reversed(inputs)), states[count:], layout, merge_outputs
        )
        if merge_outputs is None:
            merge_outputs = isinstance(there, symbol.Symbol) and isinstance(back, symbol.Symbol)
            if not merge_outputs:
                there, back = (
                    _normalize_sequence(length, each, layout, False)[0] for each in (there, back)
                )
        states = [left_states, right_states]
        if merge_outputs:
            back = symbol.reverse(back, axis=axis)
            return symbol.Concat(there, back, dim=2, name=f"{self._output_prefix}out"), states
        both = zip(there, reversed(back), strict=True)
        outputs = [
            symbol.Concat(one, other, dim=1, name=f"{self._output_prefix}t{step}")
            for step, (one, other) in enumerate(both)
        ]
        return outputs, states
