"""Cells and layers on symbols, with the names that MXNet 1 gives their nodes: ``lstm0_t0_i2h``, ``lstm0_t0_out``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mxjax import errors, symbol
from mxjax.ops.table import TABLE
from mxjax.symbol.compose import compose

from ..nn import LeakyReLU

F: Any = symbol  # MXNet's name for the operators' module

Weights = Mapping[str, Any]
Result = tuple[Any, list[Any]]

_NAMED = {"tanh": F.tanh, "relu": F.relu, "sigmoid": F.sigmoid, "softsign": F.softsign}


def activated(x: Any, activation: Any, **kwargs: Any) -> Any:
    if isinstance(activation, str):
        named = _NAMED.get(activation)
        return named(x, **kwargs) if named else F.Activation(x, act_type=activation, **kwargs)
    if isinstance(activation, LeakyReLU):
        return F.LeakyReLU(x, act_type="leaky", slope=activation._alpha, **kwargs)
    return activation(x, **kwargs)


# ---- one step ----------------------------------------------------------------------------------------


def _dense(cell: Any, x: Any, weights: Weights, which: str, p: str) -> Any:
    return F.FullyConnected(
        x,
        weights[f"{which}_weight"],
        weights[f"{which}_bias"],
        num_hidden=cell._rows,
        name=f"{p}{which}",
    )


def _projections(cell: Any, x: Any, states: list[Any], weights: Weights, p: str) -> tuple[Any, Any]:
    return _dense(cell, x, weights, "i2h", p), _dense(cell, states[0], weights, "h2h", p)


def _rnn(cell: Any, x: Any, states: list[Any], weights: Weights, p: str) -> Result:
    i2h, h2h = _projections(cell, x, states, weights, p)
    out = activated(F.elemwise_add(i2h, h2h, name=f"{p}plus0"), cell._activation, name=f"{p}out")
    return out, [out]


def _lstm(cell: Any, x: Any, states: list[Any], weights: Weights, p: str) -> Result:
    i2h, h2h = _projections(cell, x, states, weights, p)
    parts = F.SliceChannel(
        F.elemwise_add(i2h, h2h, name=f"{p}plus0"), num_outputs=4, name=f"{p}slice"
    )
    gates = (0, "i"), (1, "f"), (3, "o")
    i, f, o = (activated(parts[k], cell._recurrent_activation, name=f"{p}{w}") for k, w in gates)
    g = activated(parts[2], cell._activation, name=f"{p}c")
    kept, new = F.elemwise_mul(f, states[1], name=f"{p}mul0"), F.elemwise_mul(i, g, name=f"{p}mul1")
    memory = F.elemwise_add(kept, new, name=f"{p}state")
    shown = F.Activation(memory, act_type=cell._activation, name=f"{p}activation0")
    out = F.elemwise_mul(o, shown, name=f"{p}out")
    return out, [out, memory]


def _gru(cell: Any, x: Any, states: list[Any], weights: Weights, p: str) -> Result:
    i2h, h2h = _projections(cell, x, states, weights, p)
    x_r, x_z, x_n = F.SliceChannel(i2h, num_outputs=3, name=f"{p}i2h_slice")
    h_r, h_z, h_n = F.SliceChannel(h2h, num_outputs=3, name=f"{p}h2h_slice")
    r = activated(
        F.elemwise_add(x_r, h_r, name=f"{p}plus0"), cell._recurrent_activation, name=f"{p}r_act"
    )
    z = activated(
        F.elemwise_add(x_z, h_z, name=f"{p}plus1"), cell._recurrent_activation, name=f"{p}z_act"
    )
    inner = F.elemwise_add(x_n, F.elemwise_mul(r, h_n, name=f"{p}mul0"), name=f"{p}plus2")
    new = activated(inner, cell._activation, name=f"{p}h_act")
    rest = F.elemwise_sub(F.ones_like(z, name=f"{p}ones_like0"), z, name=f"{p}minus0")
    out = F.elemwise_add(
        F.elemwise_mul(rest, new, name=f"{p}mul1"),
        F.elemwise_mul(z, states[0], name=f"{p}mul20"),
        name=f"{p}out",
    )
    return out, [out]


def _lstmp(cell: Any, x: Any, states: list[Any], weights: Weights, p: str) -> Result:
    i2h, h2h = _projections(cell, x, states, weights, p)
    parts = F.SliceChannel(i2h + h2h, num_outputs=4, name=f"{p}slice")
    kinds = ("sigmoid", "i"), ("sigmoid", "f"), ("tanh", "c"), ("sigmoid", "o")
    i, f, g, o = (
        F.Activation(part, act_type=k, name=f"{p}{w}")
        for part, (k, w) in zip(parts, kinds, strict=True)
    )
    memory = F.elemwise_add(f * states[1], i * g, name=f"{p}state")
    hidden = F.elemwise_mul(o, F.Activation(memory, act_type="tanh"), name=f"{p}hidden")
    out = F.FullyConnected(
        hidden,
        weights["h2r_weight"],
        num_hidden=cell._projection_size,
        no_bias=True,
        name=f"{p}out",
    )
    return out, [out, memory]


def _convolved(cell: Any, x: Any, states: list[Any], weights: Weights, p: str) -> tuple[Any, Any]:
    ordered = [weights[n] for n in ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias")]
    return cell._conv_forward(F, x, states, *ordered, p)  # type: ignore[no-any-return]


def _conv_rnn(cell: Any, x: Any, states: list[Any], weights: Weights, p: str) -> Result:
    i2h, h2h = _convolved(cell, x, states, weights, p)
    out = activated(i2h + h2h, cell._activation, name=f"{p}out")
    return out, [out]


def _conv_lstm(cell: Any, x: Any, states: list[Any], weights: Weights, p: str) -> Result:
    i2h, h2h = _convolved(cell, x, states, weights, p)
    parts = F.SliceChannel(i2h + h2h, num_outputs=4, axis=cell._channel_axis, name=f"{p}slice")
    i, f = (
        F.Activation(parts[k], act_type="sigmoid", name=f"{p}{w}") for k, w in ((0, "i"), (1, "f"))
    )
    g = activated(parts[2], cell._activation, name=f"{p}c")
    o = F.Activation(parts[3], act_type="sigmoid", name=f"{p}o")
    memory = F.elemwise_add(f * states[1], i * g, name=f"{p}state")
    out = F.elemwise_mul(o, activated(memory, cell._activation), name=f"{p}out")
    return out, [out, memory]


def _conv_gru(cell: Any, x: Any, states: list[Any], weights: Weights, p: str) -> Result:
    i2h, h2h = _convolved(cell, x, states, weights, p)
    x_r, x_z, x_n = F.SliceChannel(
        i2h, num_outputs=3, axis=cell._channel_axis, name=f"{p}i2h_slice"
    )
    h_r, h_z, h_n = F.SliceChannel(
        h2h, num_outputs=3, axis=cell._channel_axis, name=f"{p}h2h_slice"
    )
    r = F.Activation(x_r + h_r, act_type="sigmoid", name=f"{p}r_act")
    z = F.Activation(x_z + h_z, act_type="sigmoid", name=f"{p}z_act")
    new = activated(x_n + r * h_n, cell._activation, name=f"{p}h_act")
    out = F.elemwise_add((1.0 - z) * new, z * states[0], name=f"{p}out")
    return out, [out]


def _dropout(cell: Any, x: Any, states: list[Any], weights: Weights, p: str) -> Result:
    if cell._rate > 0:
        x = F.Dropout(x, p=cell._rate, axes=cell._axes, name=f"{p}fwd")
    return x, states


def _mask(like: Any, p: float) -> Any:
    return F.Dropout(F.ones_like(like), p=p)


def _zoneout(cell: Any, x: Any, states: list[Any], weights: Weights, p: str) -> Result:
    out, news = cell.base_cell(x, states)
    before = F.zeros_like(out) if cell._prev_output is None else cell._prev_output
    if cell.zoneout_outputs:
        out = F.where(_mask(out, cell.zoneout_outputs), out, before)
    if cell.zoneout_states:
        news = [
            F.where(_mask(new, cell.zoneout_states), new, old)
            for new, old in zip(news, states, strict=True)
        ]
    cell._prev_output = out
    return out, news


def _residual(cell: Any, x: Any, states: list[Any], weights: Weights, p: str) -> Result:
    out, states = cell.base_cell(x, states)
    return F.elemwise_add(out, x, name=f"{p}fwd"), states


def _variational(cell: Any, x: Any, states: list[Any], weights: Weights, p: str) -> Result:
    def masked(which: str, like: Any) -> Any:
        if getattr(cell, f"{which}_mask") is None:
            setattr(cell, f"{which}_mask", _mask(like, getattr(cell, which)))
        return getattr(cell, f"{which}_mask")

    if cell.drop_states:
        states = [states[0] * masked("drop_states", states[0]), *states[1:]]
    if cell.drop_inputs:
        x = x * masked("drop_inputs", x)
    out, states = cell.base_cell(x, states)
    if cell.drop_outputs:
        out = out * masked("drop_outputs", out)
    return out, states


#: By what a cell's class says in `_step_on_symbols`.
_STEPS: dict[str, Callable[..., Result]] = {
    "rnn": _rnn, "lstm": _lstm, "gru": _gru, "lstmp": _lstmp, "conv_rnn": _conv_rnn, "conv_lstm": _conv_lstm,
    "conv_gru": _conv_gru, "dropout": _dropout, "zoneout": _zoneout, "residual": _residual, "variational": _variational,
}  # fmt: skip


def step(cell: Any, weights: Weights, inputs: Any, states: Any) -> Result | None:
    """A step of one of this package's cells on symbols; None for cells that have a forward of their own."""
    for cls in type(cell).__mro__:
        own = vars(cls).get("_step_on_symbols")
        if own is not None:
            cell._counter += 1
            return _STEPS[own](cell, inputs, list(states), weights, f"t{cell._counter}_")
        if not getattr(
            vars(cls).get("forward"), "calls_hybrid_forward", "forward" not in vars(cls)
        ):
            return None
    return None


# ---- sequences ---------------------------------------------------------------------------------------


def _list_of(inputs: Any, length: int, axis: int) -> list[Any]:
    if not isinstance(inputs, F.Symbol):
        if length is not None and len(inputs) != length:
            raise errors.MXNetAssertionError(
                f"unroll was asked for {length} steps and given inputs of {len(inputs)}"
            )
        return list(inputs)
    if len(inputs.list_outputs()) != 1:
        raise errors.MXNetAssertionError(
            "unroll doesn't allow grouped symbol as input. Please convert to list with list(inputs) first or let "
            "unroll handle splitting."
        )
    return list(F.split(inputs, axis=axis, num_outputs=length, squeeze_axis=True))


def _whole(sequence: Any, axis: int) -> Any:
    return sequence if isinstance(sequence, F.Symbol) else F.stack(*sequence, axis=axis)


def _shaped(sequence: Any, length: int, axis: int, merge: bool | None) -> Any:
    if merge is None:
        return sequence
    return _whole(sequence, axis) if merge else _list_of(sequence, length, axis)


def _masked(sequence: Any, length: int, axis: int, valid: Any, merge: bool | None) -> Any:
    made = F.SequenceMask(
        _whole(sequence, axis), sequence_length=valid, use_sequence_length=True, axis=axis
    )
    return made if merge else _list_of(made, length, axis)


def _backwards(steps: list[Any], valid: Any) -> list[Any]:
    if valid is None:
        return steps[::-1]
    turned = F.SequenceReverse(
        F.stack(*steps, axis=0), sequence_length=valid, use_sequence_length=True
    )
    return list(F.split(turned, axis=0, num_outputs=len(steps), squeeze_axis=True))


def unroll(
    cell: Any,
    length: int,
    inputs: Any,
    begin_state: Any,
    layout: str,
    merge_outputs: bool | None,
    valid_length: Any,
) -> Result:
    """`RecurrentCell.unroll` over a symbol, or over a list with one for each step."""
    cell.reset()
    states = cell.begin_state(func=F.zeros, batch_size=0) if begin_state is None else begin_state
    states = [states] if isinstance(states, F.Symbol) else list(states)
    if hasattr(cell, "_unroll_on_symbols"):
        run = _UNROLLS[cell._unroll_on_symbols]
        found = run(cell, length, inputs, states, layout, merge_outputs, valid_length)
        if found is not None:
            return found
    axis = layout.find("T")
    outputs, passed = [], []
    for x in _list_of(inputs, length, axis):
        out, states = cell(x, states)
        outputs.append(out)
        passed.append(states)
    if valid_length is None:
        return _shaped(outputs, length, axis, merge_outputs), states
    states = [
        F.SequenceLast(
            F.stack(*each, axis=0), sequence_length=valid_length, use_sequence_length=True, axis=0
        )
        for each in zip(*passed, strict=True)
    ]
    merge = True if merge_outputs is None else merge_outputs
    return _masked(outputs, length, axis, valid_length, merge), states


def _stacked(
    cell: Any,
    length: int,
    inputs: Any,
    states: list[Any],
    layout: str,
    merge: bool | None,
    valid: Any,
) -> Result:
    news: list[Any] = []
    cells = cell._cells()
    for k, (each, own) in enumerate(zip(cells, cell._shared(states), strict=True)):
        last = k == len(cells) - 1
        inputs, new = unroll(each, length, inputs, own, layout, merge if last else None, valid)
        news += new
    return inputs, news


def _dropped(
    cell: Any,
    length: int,
    inputs: Any,
    states: list[Any],
    layout: str,
    merge: bool | None,
    valid: Any,
) -> Result:
    made = _shaped(inputs, length, layout.find("T"), merge)
    if isinstance(made, F.Symbol):
        return cell(made, states)  # type: ignore[no-any-return]
    return [cell(x, [])[0] for x in made], states


def _residually(
    cell: Any,
    length: int,
    inputs: Any,
    states: list[Any],
    layout: str,
    merge: bool | None,
    valid: Any,
) -> Result:
    axis = layout.find("T")
    outputs, states = cell._with_base(
        lambda: unroll(cell.base_cell, length, inputs, states, layout, merge, valid)
    )
    as_one = isinstance(outputs, F.Symbol) if merge is None else merge
    given = _shaped(inputs, length, axis, as_one)
    if valid is not None:
        given = _masked(given, length, axis, valid, as_one)
    if as_one:
        return F.elemwise_add(outputs, given), states
    return [F.elemwise_add(o, x) for o, x in zip(outputs, given, strict=True)], states


def _both_ways(
    cell: Any,
    length: int,
    inputs: Any,
    states: list[Any],
    layout: str,
    merge: bool | None,
    valid: Any,
) -> Result:
    axis = layout.find("T")
    steps = _list_of(inputs, length, axis)
    left, right = cell._shared(states)
    ahead, l_states = unroll(cell.l_cell, length, steps, left, layout, merge, valid)
    back, r_states = unroll(
        cell.r_cell, length, _backwards(steps, valid), right, layout, False, valid
    )
    turned = _backwards(back, valid)
    as_one = isinstance(ahead, F.Symbol) if merge is None else merge
    outputs: Any
    if as_one:
        outputs = F.concat(
            _whole(ahead, axis),
            F.stack(*turned, axis=axis),
            dim=2,
            name=f"{cell._output_prefix}out",
        )
    else:
        pairs = zip(_list_of(ahead, length, axis), turned, strict=True)
        outputs = [
            F.concat(*pair, dim=1, name=f"{cell._output_prefix}t{k}")
            for k, pair in enumerate(pairs)
        ]
    if valid is not None:
        outputs = _masked(outputs, length, axis, valid, as_one)
    return outputs, [*l_states, *r_states]


def _with_one_mask(
    cell: Any,
    length: int,
    inputs: Any,
    states: list[Any],
    layout: str,
    merge: bool | None,
    valid: Any,
) -> Result | None:
    if cell.drop_states:
        return None
    axis = layout.find("T")
    whole = _whole(inputs, axis)
    if cell.drop_inputs:
        whole = F.Dropout(whole, p=cell.drop_inputs, axes=(axis,))
    outputs, states = cell._with_base(
        lambda: unroll(cell.base_cell, length, whole, states, layout, True, valid)
    )
    if cell.drop_outputs:
        outputs = F.Dropout(outputs, p=cell.drop_outputs, axes=(axis,))
    merge = True if merge is None else merge
    if valid is not None:
        return _masked(outputs, length, axis, valid, merge), states
    return _shaped(outputs, length, axis, merge), states


#: By what a cell's class says in `_unroll_on_symbols`.
_UNROLLS: dict[str, Callable[..., Result | None]] = {
    "stacked": _stacked, "dropped": _dropped, "residually": _residually, "both_ways": _both_ways,
    "with_one_mask": _with_one_mask,
}  # fmt: skip


# ---- layers ------------------------------------------------------------------------------------------


def layer(
    block: Any, weights: Weights, inputs: Any, states: list[Any], sequence_length: Any = None
) -> Result:
    """`rnn.LSTM`, `GRU` or `RNN` on symbols."""
    if block._layout == "NTC":
        inputs = F.swapaxes(inputs, dim1=0, dim2=1)
    if block._in_pieces:
        pieces = [F.reshape(weights[name], shape=(-1,)) for name, _ in block._pieces()]
        vector = compose(
            TABLE["rnn_param_concat"], symbol.Symbol, "_rnn_param_concat", pieces, {"dim": 0}
        )
    else:
        vector = weights["rnn_param"]
    lengths = [sequence_length] if block._use_sequence_length else []
    low, high, nan = block._bounds()
    out, *last = F.RNN(
        inputs, vector, *states, *lengths, use_sequence_length=block._use_sequence_length,
        state_size=block._hidden_size, projection_size=block._projection_size, num_layers=block._num_layers,
        bidirectional=block._dir == 2, p=block._dropout, state_outputs=True, mode=block._mode,
        lstm_state_clip_min=low, lstm_state_clip_max=high, lstm_state_clip_nan=nan,
    )  # fmt: skip
    return (F.swapaxes(out, dim1=0, dim2=1) if block._layout == "NTC" else out), last
