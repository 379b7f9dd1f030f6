"""Recurrent layers over whole sequences, whose weights lie in one vector."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from math import prod
from typing import TYPE_CHECKING, Any, overload

from mxjax import errors, initializer, nd, np, npx
from mxjax.array.invoke import symbolic
from mxjax.array.ndarray import NDArray
from mxjax.modes import generation, is_np_shape
from mxjax.ops.rnn import GATES, parameter_names, parameter_shapes

from ..hybrid_block import HybridBlock
from ..legacy.forward import Handed
from ..parameter import Parameter
from ..utils import split_rnn_params
from ._base import made_states, of_symbols, of_the_kind_of
from ._gated import GRUCell, LSTMCell, RNNCell
from ._modifiers import BidirectionalCell, DropoutCell, HybridSequentialRNNCell

if TYPE_CHECKING:
    from ..layer import A

__all__ = ["GRU", "LSTM", "RNN"]

#: A piece of the vector as 1.x names it: `l0_i2h_weight`, and in files `_unfused.0.i2h_weight` or
#: `_unfused.0.l_cell.i2h_weight` where there are two directions.
_PIECE = re.compile(
    r"(?:_unfused\.(?P<at>\d+)\.(?:(?P<way>[lr])_cell\.)?|(?P<d>[lr])(?P<l>\d+)_)(?P<what>\w+_\w+)"
)


class _RNNLayer(HybridBlock):
    """What RNN, LSTM and GRU share.

    The parameters are one vector, ``rnn_param``. In programs of MXNet 1 (`python -m mxjax --as 1.9`) they are the
    pieces, ``l0_i2h_weight`` and so on, as there, and become the vector in the forward.
    """

    def __init__(
        self,
        hidden_size: int,
        num_layers: int,
        layout: str,
        dropout: float,
        bidirectional: bool,
        input_size: int,
        i2h_weight_initializer: Any,
        h2h_weight_initializer: Any,
        i2h_bias_initializer: Any,
        h2h_bias_initializer: Any,
        mode: str,
        projection_size: int | None,
        h2r_weight_initializer: Any,
        lstm_state_clip_min: float | None,
        lstm_state_clip_max: float | None,
        lstm_state_clip_nan: bool,
        dtype: Any,
        use_sequence_length: bool = False,
    ):
        super().__init__()
        if layout not in ("TNC", "NTC"):
            raise errors.MXNetAssertionError(
                f"Invalid layout {layout}; must be one of ['TNC' or 'NTC']"
            )
        self._hidden_size = hidden_size
        self._projection_size = projection_size or None
        self._num_layers = num_layers
        self._mode = mode
        self._layout = layout
        self._dropout = dropout
        self._dir = 2 if bidirectional else 1
        self._input_size = input_size
        self._i2h_weight_initializer = i2h_weight_initializer
        self._h2h_weight_initializer = h2h_weight_initializer
        self._i2h_bias_initializer = i2h_bias_initializer
        self._h2h_bias_initializer = h2h_bias_initializer
        self._h2r_weight_initializer = h2r_weight_initializer
        self._lstm_state_clip_min = lstm_state_clip_min
        self._lstm_state_clip_max = lstm_state_clip_max
        self._lstm_state_clip_nan = lstm_state_clip_nan
        self._dtype = dtype
        self._use_sequence_length = use_sequence_length
        self._gates = GATES[mode]
        init = initializer.RNNFused(
            mode, num_layers, hidden_size, bidirectional, projection_size,
            i2h_weight_initializer=i2h_weight_initializer, h2h_weight_initializer=h2h_weight_initializer,
            i2h_bias_initializer=i2h_bias_initializer, h2h_bias_initializer=h2h_bias_initializer,
            h2r_weight_initializer=h2r_weight_initializer,
        )  # fmt: skip
        #: Whether the last call had no states, and gives none: `hybrid_forward` of programs asks.
        self.skip_states: bool | None = None
        self._in_pieces = generation() == 1
        if self._in_pieces:
            self._make_pieces({
                "i2h_weight": i2h_weight_initializer, "h2h_weight": h2h_weight_initializer,
                "i2h_bias": i2h_bias_initializer, "h2h_bias": h2h_bias_initializer,
                "h2r_weight": h2r_weight_initializer,
            })  # fmt: skip
        else:
            self.rnn_param = Parameter(
                "rnn_param", shape=(-1,), init=init, allow_deferred_init=True, dtype=dtype
            )
        if input_size:
            self._settle_size(input_size)

    def __repr__(self) -> str:
        unknown = -1 if self._in_pieces and is_np_shape() else None
        says = [f"{self._input_size or unknown} -> {self._hidden_size}", self._layout]
        if self._num_layers != 1:
            says.append(f"num_layers={self._num_layers}")
        if self._dropout:
            says.append(f"dropout={self._dropout}")
        if self._dir == 2:
            says.append("bidirectional")
        return f"{type(self).__name__}({', '.join(says)})"

    # ---- states --------------------------------------------------------------------------------------

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Shape (layers * directions, N, units), layout and dtype of each state."""
        widths = [self._projection_size or self._hidden_size]
        if self._mode == "lstm":
            widths.append(self._hidden_size)
        first = self._num_layers * self._dir
        return [
            {"shape": (first, batch_size, n), "__layout__": "LNC", "dtype": self._dtype}
            for n in widths
        ]

    def begin_state(
        self, batch_size: int = 0, func: Callable[..., Any] = np.zeros, **kwargs: Any
    ) -> list[Any]:
        """The states before the first step: ``func(shape=...)`` for each; zeros by default."""
        infos = self.state_info(batch_size)
        return made_states(infos, func, kwargs, [f"{self.prefix}h0_{k}" for k in range(len(infos))])

    def cast(self, dtype: Any) -> None:
        """Convert the parameters and the states that are made later."""
        super().cast(dtype)
        self._dtype = dtype

    # ---- running -------------------------------------------------------------------------------------

    @overload  # type: ignore[override]
    def __call__(self, inputs: A, /, *, sequence_length: Any = None) -> A: ...
    @overload
    def __call__(
        self, inputs: A, states: Any, sequence_length: Any = None, **kwargs: Any
    ) -> tuple[A, list[A]]: ...
    def __call__(
        self, inputs: Any, states: Any = None, sequence_length: Any = None, **kwargs: Any
    ) -> Any:
        skip_states = states is None
        if skip_states is not self.skip_states:
            if self._active and type(self).forward is not _RNNLayer.forward:
                self._clear_cached_op()  # what a program's own forward gives hangs on it
            self.__dict__["skip_states"] = skip_states
        if symbolic and of_symbols(inputs):
            return self._composed(inputs, states, sequence_length)
        if skip_states:
            n = inputs.shape[self._layout.find("N")]
            states = of_the_kind_of(
                inputs, self.begin_state(n, device=inputs.device, dtype=inputs.dtype)
            )
        if not hasattr(states, "__iter__"):
            raise errors.MXNetTypeError(
                f"{type(self).__name__} takes its states as a list, layer(x, layer.begin_state(batch_size)), "
                f"got {states!r}"
            )
        states = [states] if isinstance(states, NDArray) else list(states)
        if self._use_sequence_length:
            out = super().__call__(inputs, states, sequence_length, **kwargs)
        else:
            out = super().__call__(inputs, states, **kwargs)
        return self._without_states(out, skip_states)

    def _returned(self, out: Any) -> Any:
        return self._without_states(out, self.skip_states)

    def _without_states(self, out: Any, skip: bool | None) -> Any:
        """What a call without states gives, of a forward's results; a forward of the program's own decides itself."""
        return out[0] if skip and type(self).forward is _RNNLayer.forward else out

    def _for_own_forward(self, made: tuple[Any, list[Any]]) -> Any:
        """What the forward that a subclass overrides gives it: as in MXNet, no states where the call had none.

        The layer's own gives them always, for a graph serves calls of both kinds.
        """
        skips = self.skip_states and type(self).forward is not _RNNLayer.forward
        return made[0] if skips else made

    def _bounds(self) -> tuple[float | None, float | None, bool]:
        """The bounds of the memory, and whether NaN counts."""
        return self._lstm_state_clip_min, self._lstm_state_clip_max, self._lstm_state_clip_nan

    def _composed(self, inputs: Any, states: Any, sequence_length: Any) -> Any:
        """The layer on symbols."""
        from mxjax import symbol

        given = self.begin_state(0, func=symbol.zeros) if states is None else states
        given = given if isinstance(given, (list, tuple)) else [given]
        lengths = [sequence_length] if self._use_sequence_length else []
        out = super().__call__(inputs, list(given), *lengths)
        return self._without_states(out, states is None)

    def _compose(
        self, weights: dict[str, Any], inputs: Any, states: Any, sequence_length: Any = None
    ) -> Any:
        if self._in_pieces:
            from mxjax import symbol

            made = self._forward_kernel(symbol, inputs, states, sequence_length, **weights)
            return self._for_own_forward(made)
        from ._composed import layer

        return self._for_own_forward(layer(self, weights, inputs, states, sequence_length))

    def forward(self, inputs: Any, states: list[Any], sequence_length: Any = None) -> Any:
        """(outputs, states after the last step).

        Raises:
          ValueError: states of other shapes than `state_info` says.
          AssertionError: fewer states than it says.
        """
        n = inputs.shape[self._layout.find("N")]
        infos = self.state_info(n)
        if len(states) < len(infos):
            raise errors.MXNetAssertionError(
                f"{type(self).__name__} takes {len(infos)} states, of the shapes {[i['shape'] for i in infos]}, got "
                f"{len(states)}; begin_state(batch_size) makes them"
            )
        for state, info in zip(states, infos, strict=False):
            if state.shape != info["shape"]:
                raise errors.MXNetValueError(
                    f"Invalid recurrent state shape. Expecting {info['shape']}, got {state.shape}."
                )
        if self._use_sequence_length and sequence_length is None:
            raise errors.MXNetValueError(
                f"{type(self).__name__}(use_sequence_length=True) is called with the lengths of the rows: "
                "layer(inputs, states, sequence_length)"
            )
        if not self._in_pieces:
            self.rnn_param.data(inputs.device)  # whether there is one, before a program's code runs
            return self._for_own_forward(self._forward_kernel(inputs, states, sequence_length))
        weights = {name: self._piece(name, inputs.device) for name, _ in self._pieces()}
        made = self._forward_kernel(nd, inputs, states, sequence_length, **weights)
        return self._for_own_forward(made)

    def _forward_kernel(self, *given: Any, sequence_length: Any = None, **weights: Any) -> Any:
        """(outputs, states after the last step) of `inputs, states, sequence_length`, and in programs of MXNet 1 of
        `F, inputs, states, sequence_length` and the pieces of the vector by their names. Subclasses override it.
        """
        _, inputs, states, *lengths = given if self._in_pieces else (None, *given)
        sequence_length = lengths[0] if lengths else sequence_length
        if of_symbols(inputs):
            from ._composed import layer

            return layer(self, weights, inputs, states, sequence_length)
        d = inputs.device
        if self._in_pieces:
            vector = np.concatenate([weights[name].reshape((-1,)) for name, _ in self._pieces()])
        else:
            vector = self.rnn_param.data(d)
        if self._use_sequence_length:
            sequence_length = sequence_length.to_device(d)
        state, memory = (*(s.to_device(d) for s in states), None)[:2]
        low, high, nan = self._bounds()
        x = np.swapaxes(inputs, 0, 1) if self._layout == "NTC" else inputs
        out, *last = npx.rnn(
            x, vector, state, memory, sequence_length, use_sequence_length=self._use_sequence_length,
            state_size=self._hidden_size, projection_size=self._projection_size, num_layers=self._num_layers,
            bidirectional=self._dir == 2, p=self._dropout, state_outputs=True, mode=self._mode,
            lstm_state_clip_min=low, lstm_state_clip_max=high, lstm_state_clip_nan=nan,
        )  # fmt: skip
        return (np.swapaxes(out, 0, 1) if self._layout == "NTC" else out), last

    def infer_shape(self, inputs: Any, *args: Any) -> None:
        """The length of the vector of parameters.

        Raises:
          AssertionError: inputs that have not three axes.
        """
        if inputs.ndim != 3:
            raise errors.MXNetAssertionError(
                "Input data should be rank-3 tensor of dim [sequence length, batch size, input size], got "
                f"{inputs.shape}. One sequence is a batch of one: x.expand_dims(1) (layout TNC); one step is for "
                f"rnn.{type(self).__name__}Cell"
            )
        self._settle_size(inputs.shape[2])

    def _settle_size(self, input_size: int) -> None:
        self._input_size = input_size
        if self._in_pieces:
            for name, shape in self._pieces():
                self._reg_params[name].shape = shape
        else:
            self.rnn_param.shape = (sum(prod(shape) for _, shape in self._pieces()),)

    # ---- the pieces of the vector --------------------------------------------------------------------

    def _make_pieces(self, inits: dict[str, Any]) -> None:
        """A parameter for each piece, layer by layer."""
        shapes = dict(self._pieces())
        for layer in range(self._num_layers):
            for way in "lr"[: self._dir]:
                for what, init in inits.items():
                    name = f"{way}{layer}_{what}"
                    if name in shapes:
                        self._register_param(name, shapes[name], init, self._dtype)

    def _register_param(
        self, name: str, shape: tuple[int, ...], init: Any, dtype: Any
    ) -> Parameter:
        """Make a piece of the vector, whose unknown lengths are 0; subclasses override it."""
        made = Parameter(
            name,
            shape=tuple(n or -1 for n in shape),
            init=init,
            allow_deferred_init=True,
            dtype=dtype,
        )
        setattr(self, name, made)
        return made

    def _piece(self, name: str, device: Any) -> Any:
        """A piece of the vector: what was handed to the forward for it, or the parameter's array."""
        held = vars(self).get(name)
        return (held if isinstance(held, Handed) else self._reg_params[name]).data(device)

    @property
    def _one(self) -> Parameter:
        """A parameter that stands for all."""
        return self._reg_params["l0_h2h_weight"] if self._in_pieces else self.rnn_param

    def _pieces(self) -> list[tuple[str, tuple[int, ...]]]:
        """Name (as in 1.x) and shape of what lies in the vector, in order."""
        names = parameter_names(self._num_layers, self._dir, self._projection_size)
        shapes = parameter_shapes(
            self._mode,
            self._input_size,
            self._hidden_size,
            self._num_layers,
            self._dir,
            self._projection_size,
        )
        return list(zip(names, shapes, strict=True))

    def unpack_weights(self) -> dict[str, Any]:
        """Copies of the weights and biases by their names in 1.x: ``l0_i2h_weight``, ``r0_h2h_bias``, ...

        >>> import mxjax as mx
        >>> layer = mx.gluon.rnn.GRU(4, input_size=3)
        >>> layer.initialize()
        >>> layer.unpack_weights()["l0_i2h_weight"].shape
        (12, 3)
        """
        if self._in_pieces:
            return {name: self._reg_params[name].data().copy() for name, _ in self._pieces()}
        return split_rnn_params(
            self.rnn_param.data(), self._mode, self._num_layers, self._input_size, self._hidden_size, self._dir == 2,
            self._projection_size,
        )  # fmt: skip

    def pack_weights(self, weights: Mapping[str, Any]) -> None:
        """Set the parameters from weights and biases by the names of :meth:`unpack_weights`.

        Raises:
          ValueError: one is missing, or has another shape.
        """
        if not self._input_size:
            first = weights.get("l0_i2h_weight")
            if first is not None:
                self._settle_size(first.shape[1])
        packed = self._packed(weights)
        if self._in_pieces:
            for name, _ in self._pieces():
                self._reg_params[name]._load(weights[name])
        else:
            self.rnn_param._load(packed)

    def _packed(self, weights: Mapping[str, Any]) -> Any:
        parts = []
        for name, shape in self._pieces():
            given = weights.get(name)
            if given is None or tuple(given.shape) != shape:
                got = "nothing" if given is None else given.shape
                raise errors.MXNetValueError(
                    f"{type(self).__name__}: {name} has shape {shape}, got {got}"
                )
            parts.append(np.array(given).reshape((-1,)))
        return np.concatenate(parts)

    def _in_files(self, piece: str) -> str:
        """The name of a piece in MXNet 1's files: ``_unfused.0.i2h_weight`` of ``l0_i2h_weight``."""
        way, at, what = piece[0], *piece[1:].split("_", 1)
        return f"_unfused.{at}.{way}_cell.{what}" if self._dir == 2 else f"_unfused.{at}.{what}"

    def _collect_params_with_prefix(
        self, prefix: str = "", select: str | None = None
    ) -> dict[str, Parameter]:
        found = super()._collect_params_with_prefix(prefix, select)
        if not self._in_pieces:
            return found
        before = f"{prefix}." if prefix else ""
        return {before + self._in_files(n.removeprefix(before)): p for n, p in found.items()}

    def _adopt_names(self, prefix: str, loaded: dict[str, Any]) -> None:
        """Weights that a file of 1.x holds piece by piece become the vector, in place, or the other way round."""
        if self._in_pieces and prefix + "rnn_param" in loaded and self._input_size:
            vector = np.array(loaded.pop(prefix + "rnn_param"))
            parts = split_rnn_params(
                vector, self._mode, self._num_layers, self._input_size, self._hidden_size, self._dir == 2,
                self._projection_size,
            )  # fmt: skip
            loaded.update({prefix + name: part for name, part in parts.items()})
        pieces = {}
        for name in list(loaded):
            m = _PIECE.fullmatch(name.removeprefix(prefix)) if name.startswith(prefix) else None
            if m:
                way, at = (m["d"], m["l"]) if m["d"] else (m["way"] or "l", m["at"])
                pieces[f"{way}{at}_{m['what']}"] = loaded.pop(name)
        if pieces:
            if not self._input_size and "l0_i2h_weight" in pieces:
                self._settle_size(pieces["l0_i2h_weight"].shape[1])
            packed = self._packed(pieces)
            if self._in_pieces:
                loaded.update({prefix + self._in_files(name): a for name, a in pieces.items()})
            else:
                loaded[prefix + "rnn_param"] = packed

    def _unfuse(self) -> HybridSequentialRNNCell:
        """A stack of cells that computes the same: with this layer's parameters where they are pieces (MXNet 1),
        otherwise with copies of the weights if there are any yet.

        Raises:
          AssertionError: a projection or clipped states, which the cells have not.
        """
        if self._projection_size or any(c is not None for c in self._bounds()[:2]):
            raise errors.MXNetAssertionError(
                "_unfuse does not support projection or state clipping"
            )
        kinds = {"rnn_relu": RNNCell, "rnn_tanh": RNNCell, "lstm": LSTMCell, "gru": GRUCell}
        options = {"activation": self._mode[4:]} if self._mode.startswith("rnn") else {}
        shared = self._in_pieces
        stack = HybridSequentialRNNCell(
            **({"prefix": self.prefix, "params": self.params} if shared else {})
        )
        weights = self.unpack_weights() if not shared and self._one._arrays is not None else {}
        width = self._input_size
        with stack.name_scope() if shared else nullcontext():
            for k in range(self._num_layers):
                cells = []
                for d in "lr"[: self._dir]:
                    named = {"prefix": f"{d}{k}_"} if shared else {}
                    cell = kinds[self._mode](
                        self._hidden_size, input_size=width, **named, **options
                    )
                    for name, p in cell._reg_params.items() if weights else ():
                        p.initialize(device=self._one.list_device())
                        p.set_data(weights[f"{d}{k}_{name}"])
                    cells.append(cell)
                stack.add(BidirectionalCell(*cells) if self._dir == 2 else cells[0])
                if self._dropout and k != self._num_layers - 1:
                    stack.add(DropoutCell(self._dropout))
                width = self._hidden_size * self._dir
        return stack


class RNN(_RNNLayer):
    """Elman's recurrent layer: ``h' = act(W_ih x + b_ih + W_hh h + b_hh)``, in several layers.

    Inputs: data (T, N, input_size), or (N, T, input_size) with ``layout="NTC"``; optionally states (layers *
    directions, N, hidden_size). Outputs: (T, N, directions * hidden_size), and the last states if states were given.

    Args:
      hidden_size: units.
      num_layers: layers.
      activation: "relu" or "tanh".
      layout: "TNC" or "NTC".
      dropout: between the layers, in training.
      bidirectional: both directions.
      i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer: of the parts of the
        vector of parameters.
      input_size: found at the first call when it is 0.
      dtype: of the parameters.
      use_sequence_length: the layer is called with the lengths (N,) of the rows as well.

    >>> import mxjax as mx
    >>> layer = mx.gluon.rnn.RNN(4, 2)
    >>> layer.initialize()
    >>> layer(mx.np.ones((5, 3, 6))).shape
    (5, 3, 4)
    """

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        activation: str = "relu",
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        dtype: Any = "float32",
        **kwargs: Any,
    ):
        super().__init__(
            hidden_size, num_layers, layout, dropout, bidirectional, input_size, i2h_weight_initializer,
            h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer, f"rnn_{activation}", None, None, None,
            None, False, dtype, **kwargs,
        )  # fmt: skip


class LSTM(_RNNLayer):
    """Long short-term memory, gates i, f, g, o, in several layers.

    Inputs: data (T, N, input_size), or (N, T, input_size) with ``layout="NTC"``; optionally states [h, c], each
    (layers * directions, N, hidden_size). Outputs: (T, N, directions * hidden_size), and the last states if states
    were given. With a projection (https://arxiv.org/abs/1402.1128) h and the outputs have projection_size units.

    Args:
      hidden_size: units.
      num_layers: layers.
      layout: "TNC" or "NTC".
      dropout: between the layers, in training.
      bidirectional: both directions.
      input_size: found at the first call when it is 0.
      i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer,
        h2r_weight_initializer: of the parts of the vector of parameters.
      projection_size: units of the projection; none.
      state_clip_min, state_clip_max, state_clip_nan: bounds of the memory; none.
      dtype: of the parameters.
      use_sequence_length: the layer is called with the lengths (N,) of the rows as well.
      i2h_weight_initializer: fills the weights from input to hidden.
      h2h_weight_initializer: fills the weights from hidden to hidden.
      i2h_bias_initializer: fills the bias of the input's part.
      h2h_bias_initializer: fills the bias of the hidden part.

    >>> import mxjax as mx
    >>> layer = mx.gluon.rnn.LSTM(4, bidirectional=True)
    >>> layer.initialize()
    >>> out, (h, c) = layer(mx.np.ones((5, 3, 6)), layer.begin_state(3))
    >>> out.shape, h.shape
    ((5, 3, 8), (2, 3, 4))
    """

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        input_size: int = 0,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        projection_size: int | None = None,
        h2r_weight_initializer: Any = None,
        state_clip_min: float | None = None,
        state_clip_max: float | None = None,
        state_clip_nan: bool = False,
        dtype: Any = "float32",
        **kwargs: Any,
    ):
        super().__init__(
            hidden_size, num_layers, layout, dropout, bidirectional, input_size, i2h_weight_initializer,
            h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer, "lstm", projection_size,
            h2r_weight_initializer, state_clip_min, state_clip_max, state_clip_nan, dtype, **kwargs,
        )  # fmt: skip


class GRU(_RNNLayer):
    """Gated recurrent units with the reset gate behind the product, gates r, z, n, in several layers.

    Inputs: data (T, N, input_size), or (N, T, input_size) with ``layout="NTC"``; optionally states (layers *
    directions, N, hidden_size). Outputs: (T, N, directions * hidden_size), and the last states if states were given.

    Args:
      hidden_size: units.
      num_layers: layers.
      layout: "TNC" or "NTC".
      dropout: between the layers, in training.
      bidirectional: both directions.
      input_size: found at the first call when it is 0.
      i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer: of the parts of the
        vector of parameters.
      dtype: of the parameters.
      use_sequence_length: the layer is called with the lengths (N,) of the rows as well.
    """

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        input_size: int = 0,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        dtype: Any = "float32",
        **kwargs: Any,
    ):
        super().__init__(
            hidden_size, num_layers, layout, dropout, bidirectional, input_size, i2h_weight_initializer,
            h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer, "gru", None, None, None, None, False,
            dtype, **kwargs,
        )  # fmt: skip
