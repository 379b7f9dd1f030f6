"""The cells with weights: Elman's, LSTM, GRU, and LSTM with a projection."""

from __future__ import annotations

from typing import Any

from mxjax import npx
from mxjax.errors import MXNetTypeError, MXNetValueError

from ..parameter import Parameter
from ._base import HybridRecurrentCell

__all__ = ["GRUCell", "LSTMCell", "LSTMPCell", "RNNCell"]


class WeightedCell(HybridRecurrentCell):
    """A step in two parts: `_project` of the inputs, which needs no state, and `_recur`."""

    _rows: int
    i2h_weight: Parameter
    h2h_weight: Parameter
    i2h_bias: Parameter
    h2h_bias: Parameter

    def _weights(self, i2h: Any, h2h: Any, inits: tuple[Any, ...], **others: Any) -> None:
        """Make the four parameters, for weights of these shapes, with others before the biases, as files have them."""
        self._rows = i2h[0]
        shapes = {
            "i2h_weight": i2h,
            "h2h_weight": h2h,
            **others,
            "i2h_bias": i2h[:1],
            "h2h_bias": h2h[:1],
        }
        for (name, shape), init in zip(shapes.items(), inits, strict=True):
            setattr(self, name, Parameter(name, shape=shape, init=init, allow_deferred_init=True))

    def _project(self, inputs: Any) -> Any:
        raise NotImplementedError

    def _recur(self, projected: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        raise NotImplementedError

    def forward(self, inputs: Any, states: list[Any] | None = None) -> tuple[Any, list[Any]]:
        """One step: (output, new states)."""
        if states is None:
            raise MXNetTypeError(
                f"{type(self).__name__} takes its states: cell(x, cell.begin_state(batch_size)) is the first step"
            )
        expected = len(self.state_info())
        if isinstance(states, (list, tuple)) and len(states) != expected:
            raise MXNetValueError(
                f"{type(self).__name__} takes a list of {expected} {'state' if expected == 1 else 'states'}, got "
                f"{len(states)}: cell.begin_state(batch_size) makes those of the first step"
            )
        return self._step(inputs, states)

    def _step(self, inputs: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        return self._recur(self._project(inputs), states)

    def _hoisted(self, sequence: Any) -> Any:
        hooked = self._forward_hooks or self._forward_pre_hooks
        if (
            type(self).forward is not WeightedCell.forward
            or hooked
            or self._force_mirroring is not None
        ):
            return super()._hoisted(sequence)
        return self._project_all(sequence), self._recur

    def _project_all(self, sequence: Any) -> Any:
        """`_project` for a sequence (T, N, ...)."""
        raise NotImplementedError

    def _infer_own(self, args: tuple[Any, ...]) -> bool:
        waiting = [p for p in self._reg_params.values() if p._deferred is not None]
        if not waiting:
            return False
        self.infer_shape(0, args[0], False)
        for p in waiting:
            p._finish_deferred_init()
        return True


class DenseCell(WeightedCell):
    """A cell whose states are (N, hidden_size)."""

    _gates = 1

    def __init__(
        self, hidden_size: int, input_size: int, out: int, inits: tuple[Any, ...], **others: Any
    ):
        super().__init__()
        self._hidden_size = hidden_size
        self._input_size = input_size
        self._out = out
        rows = self._gates * hidden_size
        self._weights((rows, input_size), (rows, out), inits, **others)

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """One state (N, hidden_size)."""
        return [{"shape": (batch_size, self._hidden_size), "__layout__": "NC"}]

    def infer_shape(self, i: int, x: Any, is_bidirect: bool) -> None:
        """The weight's shape for inputs ``x``, or, as cell number ``i`` of a stack, for its neighbour's outputs."""
        width = x.shape[-1] if i == 0 else self._out * (2 if is_bidirect else 1)
        self.i2h_weight.shape = (self._rows, width)

    def _project(self, inputs: Any) -> Any:
        d = inputs.device
        return npx.fully_connected(
            inputs,
            self.i2h_weight.data(d),
            self.i2h_bias.data(d),
            num_hidden=self._rows,
            no_bias=False,
        )

    def _project_all(self, sequence: Any) -> Any:
        d = sequence.device
        if sequence.ndim > 3:
            sequence = sequence.reshape((*sequence.shape[:2], -1))
        return npx.fully_connected(
            sequence,
            self.i2h_weight.data(d),
            self.i2h_bias.data(d),
            num_hidden=self._rows,
            no_bias=False,
            flatten=False,
        )

    def _from_state(self, state: Any, device: Any) -> Any:
        return npx.fully_connected(
            state.to_device(device),
            self.h2h_weight.data(device),
            self.h2h_bias.data(device),
            num_hidden=self._rows,
            no_bias=False,
        )

    def __repr__(self) -> str:
        rows, width = self.i2h_weight.shape or (0, 0)
        return f"{type(self).__name__}({width or None} -> {rows}{self._says()})"

    def _says(self) -> str:
        return ""


class RNNCell(DenseCell):
    """Elman's cell: ``h' = tanh(W_ih x + b_ih + W_hh h + b_hh)``.

    Inputs: data (N, input_size), states [(N, hidden_size)]. Outputs: the new state, and a list of it.

    Args:
      hidden_size: units.
      activation: "tanh", "relu", "sigmoid", "softsign" or a function.
      i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer: of the
        parameters of these names.
      input_size: found at the first step when it is 0.

    >>> import mxjax as mx
    >>> cell = mx.gluon.rnn.RNNCell(4, input_size=3)
    >>> cell.initialize()
    >>> output, states = cell(mx.np.ones((2, 3)), cell.begin_state(2))
    >>> output.shape
    (2, 4)
    """

    _step_on_symbols = "rnn"

    def __init__(
        self,
        hidden_size: int,
        activation: Any = "tanh",
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
    ):
        inits = (
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
        )
        super().__init__(hidden_size, input_size, hidden_size, inits)
        self._activation = activation

    def _alias(self) -> str:
        return "rnn"

    def _says(self) -> str:
        return f", {self._activation}"

    def _recur(self, projected: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        out = self._activate(
            projected + self._from_state(states[0], projected.device), self._activation
        )
        return out, [out]


class LSTMCell(DenseCell):
    """Long short-term memory (Hochreiter and Schmidhuber 1997), gates in the order i, f, g, o.

    Inputs: data (N, input_size), states [h, c], each (N, hidden_size). Outputs: h', and [h', c'].

    Args:
      hidden_size: units.
      i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer: of the
        parameters of these names, which have 4 * hidden_size rows.
      input_size: found at the first step when it is 0.
      activation: of the candidate and of the cell.
      recurrent_activation: of the gates.

    >>> import mxjax as mx
    >>> cell = mx.gluon.rnn.LSTMCell(4, input_size=3)
    >>> cell.initialize()
    >>> output, (h, c) = cell(mx.np.ones((2, 3)), cell.begin_state(2))
    >>> c.shape
    (2, 4)
    """

    _step_on_symbols = "lstm"
    _gates = 4

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
    ):
        inits = (
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
        )
        super().__init__(hidden_size, input_size, hidden_size, inits)
        self._activation = activation
        self._recurrent_activation = recurrent_activation

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Two states (N, hidden_size): the output and the memory."""
        return super().state_info(batch_size) + super().state_info(batch_size)

    def _alias(self) -> str:
        return "lstm"

    def _recur(self, projected: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        d = projected.device
        parts = npx.slice_channel(projected + self._from_state(states[0], d), num_outputs=4)
        i, f, o = (self._activate(parts[k], self._recurrent_activation) for k in (0, 1, 3))
        g = self._activate(parts[2], self._activation)
        memory = f * states[1].to_device(d) + i * g
        out = o * self._activate(memory, self._activation)
        return out, [out, memory]


class GRUCell(DenseCell):
    """Gated recurrent unit (Cho et al. 2014) with the reset gate behind the product, gates r, z, n.

    Inputs: data (N, input_size), states [(N, hidden_size)]. Outputs: the new state, and a list of it.

    Args:
      hidden_size: units.
      i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer: of the
        parameters of these names, which have 3 * hidden_size rows.
      input_size: found at the first step when it is 0.
      activation: of the candidate.
      recurrent_activation: of the gates.
    """

    _step_on_symbols = "gru"
    _gates = 3

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
    ):
        inits = (
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
        )
        super().__init__(hidden_size, input_size, hidden_size, inits)
        self._activation = activation
        self._recurrent_activation = recurrent_activation

    def _alias(self) -> str:
        return "gru"

    def _recur(self, projected: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        d = projected.device
        before = states[0].to_device(d)
        x_r, x_z, x_n = npx.slice_channel(projected, num_outputs=3)
        h_r, h_z, h_n = npx.slice_channel(self._from_state(before, d), num_outputs=3)
        r = self._activate(x_r + h_r, self._recurrent_activation)
        z = self._activate(x_z + h_z, self._recurrent_activation)
        new = self._activate(x_n + r * h_n, self._activation)
        out = (1 - z) * new + z * before
        return out, [out]


class LSTMPCell(DenseCell):
    """LSTM whose output is projected to fewer units (https://arxiv.org/abs/1402.1128).

    Inputs: data (N, input_size), states [r (N, projection_size), c (N, hidden_size)]. Outputs: r', and [r', c'].

    Args:
      hidden_size: units of the memory.
      projection_size: units of the output.
      i2h_weight_initializer, h2h_weight_initializer, h2r_weight_initializer, i2h_bias_initializer,
        h2h_bias_initializer: of the parameters of these names.
      input_size: found at the first step when it is 0.
      i2h_weight_initializer: fills the weights from input to hidden.
      h2h_weight_initializer: fills the weights from hidden to hidden.
      h2r_weight_initializer: fills the projection's weights.
      i2h_bias_initializer: fills the bias of the input's part.
    """

    _step_on_symbols = "lstmp"
    _gates = 4

    h2r_weight: Parameter

    def __init__(
        self,
        hidden_size: int,
        projection_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        h2r_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
    ):
        inits = (
            i2h_weight_initializer, h2h_weight_initializer, h2r_weight_initializer,
            i2h_bias_initializer, h2h_bias_initializer,
        )  # fmt: skip
        super().__init__(
            hidden_size,
            input_size,
            projection_size,
            inits,
            h2r_weight=(projection_size, hidden_size),
        )
        self._projection_size = projection_size

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Two states: the output (N, projection_size) and the memory (N, hidden_size)."""
        return [
            {"shape": (batch_size, self._projection_size), "__layout__": "NC"},
            *super().state_info(batch_size),
        ]

    def _alias(self) -> str:
        return "lstmp"

    def _says(self) -> str:
        return f" -> {self._projection_size}"

    def _recur(self, projected: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        d = projected.device
        parts = npx.slice_channel(projected + self._from_state(states[0], d), num_outputs=4)
        i, f, o = (npx.sigmoid(parts[k]) for k in (0, 1, 3))
        memory = f * states[1].to_device(d) + i * npx.activation(parts[2], act_type="tanh")
        hidden = o * npx.activation(memory, act_type="tanh")
        out = npx.fully_connected(
            hidden, self.h2r_weight.data(d), None, num_hidden=self._projection_size, no_bias=True
        )
        return out, [out, memory]
