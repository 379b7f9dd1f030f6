"""Recurrent layers as one operator: vanilla, LSTM and GRU, stacked and bidirectional.

The parameters are one vector, as in MXNet: for each layer and direction the weights input-to-hidden and
hidden-to-hidden (and the projection), then for each the two biases. Gates are i, f, g, o for LSTM and
r, z, n for GRU.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .lowering.product import of_rows
from .numbers import fitted
from .samples import Given, case, f
from .table import op

GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


def parameter_shapes(
    mode: str, inputs: int, hidden: int, layers: int, directions: int, projection: int | None
) -> list[tuple[int, ...]]:
    """The shapes of the weights and then of the biases, in the order they have in the vector."""
    rows = GATES[mode] * hidden
    out = projection or hidden
    weights: list[tuple[int, ...]] = []
    for layer in range(layers):
        width = inputs if layer == 0 else out * directions
        for _ in range(directions):
            weights += [(rows, width), (rows, out)]
            if projection:
                weights.append((projection, hidden))
    return weights + [(rows,)] * (2 * layers * directions)


def parameter_names(layers: int, directions: int, projection: int | None) -> list[str]:
    """What 1.x calls the pieces that have `parameter_shapes`: ``l0_i2h_weight``, ``r0_h2h_bias``, ..."""
    ways = [f"{d}{k}" for k in range(layers) for d in "lr"[:directions]]
    weights = ("i2h", "h2h", "h2r") if projection else ("i2h", "h2h")
    names = [f"{way}_{g}_weight" for way in ways for g in weights]
    return names + [f"{way}_{g}_bias" for way in ways for g in ("i2h", "h2h")]


def _step(mode: str, hidden: int, clip: Any) -> Any:
    """new state of (projected input, state, hidden weights, hidden bias, projection)."""

    def plain(x: Any, state: Any, w: Any, b: Any, r: Any) -> Any:
        act = jnp.tanh if mode == "rnn_tanh" else jax.nn.relu
        return (act(x + state[0] @ w.T + b),)

    def lstm(x: Any, state: Any, w: Any, b: Any, r: Any) -> Any:
        i, f, g, o = jnp.split(x + state[0] @ w.T + b, 4, -1)
        cell = jax.nn.sigmoid(f) * state[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
        cell = cell if clip is None else jnp.clip(cell, *clip)
        out = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return (out if r is None else out @ r.T), cell

    def gru(x: Any, state: Any, w: Any, b: Any, r: Any) -> Any:
        h = state[0] @ w.T + b
        reset, update = (
            jax.nn.sigmoid(
                x[..., k * hidden : (k + 1) * hidden] + h[..., k * hidden : (k + 1) * hidden]
            )
            for k in (0, 1)
        )
        new = jnp.tanh(x[..., 2 * hidden :] + reset * h[..., 2 * hidden :])
        return ((1 - update) * new + update * state[0],)

    return {"lstm": lstm, "gru": gru}.get(mode, plain)


def _precision_now() -> Any:
    """How exact products are, for derivatives written out: they are traced where the settings of the call are over."""
    return jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]


def _of_all_steps(gradients: Any, states: Any, precision: Any) -> Any:
    """The gradient of weights, of rows for all steps."""
    return lax.dot_general(gradients, states, (((0,), (0,)), ((), ())), precision=precision)


def _plain(act: str, backward: bool) -> Any:
    """The loop of a step that adds the state's product to its input: (outputs, last state) of (inputs, state, weights).

    The input's gradient at each step is that of the product, so the weights' is one product over all steps, where
    the transposed loop would add up a matrix at each; it is made of the outputs alone. Outside of the loop the weights
    are turned around, once.
    """
    precision = _precision_now()
    bends = jnp.tanh if act == "rnn_tanh" else jax.nn.relu

    def run(projected: Any, state: Any, w: Any) -> Any:
        def step(carry: Any, now: Any) -> tuple[Any, Any]:
            out = bends(now + carry[0] @ turned)
            return (out,), out

        turned = w.T
        last, outs = lax.scan(step, state, projected, reverse=backward)
        return outs, last

    def forward(projected: Any, state: Any, w: Any) -> Any:
        made = run(projected, state, w)
        return made, (made[0], state[0], w)

    def pullback(kept: Any, cotangents: Any) -> Any:
        outs, first, w = kept

        def step(carry: Any, now: Any) -> Any:
            of_out, out = now
            of_out = of_out + carry[0]
            if act == "rnn_tanh":
                of_input = of_out * (1 - out * out)
            else:
                of_input = jnp.where(out > 0, of_out, jnp.zeros((), out.dtype))
            return (jnp.matmul(of_input, w, precision=precision),), of_input

        start, inputs = lax.scan(
            step, tuple(cotangents[1]), (cotangents[0], outs), reverse=not backward
        )
        return inputs, start, _of_all_steps(*_rows(inputs, outs, first, backward), precision)

    loop = jax.custom_vjp(run)
    loop.defvjp(forward, pullback)
    return loop


def _rows(gradients: Any, outs: Any, first: Any, backward: bool) -> tuple[Any, Any]:
    """The gradients of all steps, and the state that each step began with, as rows."""
    before = [outs[1:], first[None]] if backward else [first[None], outs[:-1]]
    a, b = (x.reshape(-1, x.shape[-1]) for x in (gradients, jnp.concatenate(before)))
    return a, b


def _lstm(backward: bool) -> Any:
    """The same of LSTM's step: it keeps what its gradients are multiplied by, two fifths of what
    JAX would. Of the gates and memories the backward loop would make that several times, in each loop that XLA makes of it.
    """
    precision = _precision_now()

    def scale(hidden: int, dtype: Any, of_sigmoid: float, of_tanh: float) -> Any:
        """A factor for each of the gates i, f, g, o: sigmoid(x) is (1 + tanh(x / 2)) / 2."""
        return np.repeat(np.array([of_sigmoid, of_sigmoid, of_tanh, of_sigmoid], dtype), hidden)

    def scan(projected: Any, state: Any, w: Any, keep: bool) -> Any:
        turned, n, dtype = w.T, w.shape[1], projected.dtype
        inner, outer, shift = (scale(n, dtype, *pair) for pair in ((0.5, 1), (0.5, 1), (0.5, 0)))

        def step(carry: Any, now: Any) -> Any:
            gates = jnp.tanh((now + carry[0] @ turned) * inner) * outer + shift
            i, f, g, o = jnp.split(gates, 4, -1)
            old = carry[1]
            cell = f * old + i * g
            bent = jnp.tanh(cell)
            out = o * bent
            if not keep:
                return (out, cell), out
            # What the memory's gradient is multiplied by for the gates i, f and g, and the result's for o.
            factors = g * i * (1 - i), old * f * (1 - f), i * (1 - g * g), bent * o * (1 - o)
            return (out, cell), (out, factors, o * (1 - bent * bent), f)

        return lax.scan(step, state, projected, reverse=backward)

    def run(projected: Any, state: Any, w: Any) -> Any:
        last, outs = scan(projected, state, w, False)
        return outs, last

    def forward(projected: Any, state: Any, w: Any) -> Any:
        last, (outs, *kept) = scan(projected, state, w, True)
        return (outs, last), (outs, kept, state[0], w)

    def pullback(kept: Any, cotangents: Any) -> Any:
        outs, (factors, slopes, forgets), first, w = kept

        def step(carry: Any, now: Any) -> Any:
            of_out, (of_i, of_f, of_g, of_o), slope, forget = now
            of_out = of_out + carry[0]
            of_cell = carry[1] + of_out * slope
            parts = of_cell * of_i, of_cell * of_f, of_cell * of_g, of_out * of_o
            inputs = jnp.concatenate(parts, -1)
            return (jnp.matmul(inputs, w, precision=precision), of_cell * forget), inputs

        given = cotangents[0], factors, slopes, forgets
        start, inputs = lax.scan(step, tuple(cotangents[1]), given, reverse=not backward)
        return inputs, start, _of_all_steps(*_rows(inputs, outs, first, backward), precision)

    loop = jax.custom_vjp(run)
    loop.defvjp(forward, pullback)
    return loop


def _gru(backward: bool) -> Any:
    """The same of GRU's step, which takes the hidden bias, too: what JAX makes of the step takes it seven times as long
    to trace, and keeps more.
    """
    precision = _precision_now()

    def scan(projected: Any, state: Any, w: Any, b: Any, keep: bool) -> Any:
        turned, n = w.T, w.shape[1]

        def step(carry: Any, now: Any) -> Any:
            h = carry[0] @ turned + b
            gates = jax.nn.sigmoid(now[..., : 2 * n] + h[..., : 2 * n])
            reset, update = gates[..., :n], gates[..., n:]
            other = h[..., 2 * n :]
            new = jnp.tanh(now[..., 2 * n :] + reset * other)
            rest = 1 - update
            out = rest * new + update * carry[0]
            if not keep:
                return (out,), out
            # What the result's gradient is multiplied by for the new state and the update, and that of the new state
            # for the reset.
            factors = rest * (1 - new * new), (carry[0] - new) * update * rest
            return (out,), (out, factors, other * reset * (1 - reset), reset, update)

        return lax.scan(step, state, projected, reverse=backward)

    def run(projected: Any, state: Any, w: Any, b: Any) -> Any:
        last, outs = scan(projected, state, w, b, False)
        return outs, last

    def forward(projected: Any, state: Any, w: Any, b: Any) -> Any:
        last, (outs, *kept) = scan(projected, state, w, b, True)
        return (outs, last), (outs, kept, state[0], w)

    def pullback(kept: Any, cotangents: Any) -> Any:
        outs, given, first, w = kept

        def step(carry: Any, now: Any) -> Any:
            of_out, (of_new, of_update), of_reset, reset, update = now
            of_out = of_out + carry[0]
            new = of_out * of_new
            gates = new * of_reset, of_out * of_update
            hidden = jnp.concatenate((*gates, new * reset), -1)
            before = of_out * update + jnp.matmul(hidden, w, precision=precision)
            return (before,), (jnp.concatenate((*gates, new), -1), hidden)

        start, (inputs, hidden) = lax.scan(
            step, tuple(cotangents[1]), (cotangents[0], *given), reverse=not backward
        )
        a, b = _rows(hidden, outs, first, backward)
        return inputs, start, _of_all_steps(a, b, precision), a.sum(0)

    loop = jax.custom_vjp(run)
    loop.defvjp(forward, pullback)
    return loop


def _direction(
    x: Any, state: Any, params: Any, step: Any, lengths: Any, backward: bool, mode: str | None
) -> tuple[Any, Any]:
    """One layer in one direction over (T, N, C): the outputs and the last state; ``mode`` is None where memories are
    clipped."""
    w_in, w_hidden, projection, b_in, b_hidden = params
    if mode and lengths is None and projection is None:
        if mode == "gru":
            return _gru(backward)(of_rows(x, w_in, 1, b_in), state, w_hidden, b_hidden)
        made = of_rows(x, w_in, 1, b_in + b_hidden)
        return (_lstm if mode == "lstm" else partial(_plain, mode))(backward)(made, state, w_hidden)
    projected = of_rows(x, w_in, 1, b_in)
    steps = jnp.arange(x.shape[0], dtype="int32")

    def scan(carry: Any, at: Any) -> tuple[Any, Any]:
        now, t = at
        new = step(now, carry, w_hidden, b_hidden, projection)
        if lengths is None:
            return new, new[0]
        alive = (t < lengths)[:, None]
        kept = tuple(jnp.where(alive, n, c) for n, c in zip(new, carry, strict=True))
        return kept, jnp.where(alive, new[0], 0)

    last, outs = lax.scan(scan, state, (projected, steps), reverse=backward)
    return outs, last


def _shapes(shape: tuple[int, ...], **attrs: Any) -> dict[str, tuple[int, ...]]:
    """Of the vector of parameters, the states and the lengths, for data (T, N, C)."""
    hidden, layers, projection = attrs["state_size"], attrs["num_layers"], attrs["projection_size"]
    directions = 2 if attrs["bidirectional"] else 1
    pieces = parameter_shapes(attrs["mode"], shape[2], hidden, layers, directions, projection)
    states = layers * directions, shape[1]
    found = {
        "parameters": (sum(prod(p) for p in pieces),),
        "state": (*states, projection or hidden),
    }
    if attrs["mode"] == "lstm":
        found["state_cell"] = (*states, hidden)
    return {**found, "sequence_length": shape[1:2]} if attrs["use_sequence_length"] else found


def _results(attrs: dict[str, Any], n: int) -> int:
    return 1 if not attrs["state_outputs"] else 3 if attrs["mode"] == "lstm" else 2


_LSTM = 4 * 3 * (2 + 3) + 2 * 4 * 3


def _drops(p: Any = 0.0, num_layers: int = 1, is_train: bool = False, **attrs: Any) -> bool:
    return is_train and num_layers > 1 and (hasattr(p, "dtype") or p != 0)


@op(
    npx="rnn",
    nd="RNN",
    display="RNN",
    keyed=_drops,
    modal=True,
    samples=[
        case(f(4, 2, 2), f(_LSTM), f(1, 2, 3), f(1, 2, 3), mode="lstm", state_size=3, num_layers=1, state_outputs=True),
        case(f(4, 2, 2), f(2 * (3 * 3 * (2 + 3) + 18)), f(2, 2, 3), mode="gru", state_size=3, num_layers=1, bidirectional=True),
        case(f(4, 2, 2), f(3 * 5 + 6 + 3 * 6 + 6), f(2, 2, 3), mode="rnn_tanh", state_size=3, num_layers=2),
        case(
            f(4, 2, 2), f(_LSTM), f(1, 2, 3), f(1, 2, 3), Given([2, 4], "int32"), mode="lstm", state_size=3,
            num_layers=1, use_sequence_length=True,
        ),
    ],
    amp="low",
    outputs=_results,
    shapes=_shapes,
    numbers=("p", "lstm_state_clip_min", "lstm_state_clip_max"),
    nd_order="data parameters state state_cell sequence_length state_size num_layers bidirectional mode p state_outputs projection_size "
    "lstm_state_clip_min lstm_state_clip_max lstm_state_clip_nan use_sequence_length",
    loops=True,
    paired=True, results=("output", "state_output", "statecell_output"), follows={"state": 1, "state_cell": 1},  onnx="rnn"
)  # fmt: skip
def rnn(
    key: Any,
    data: Any,
    parameters: Any,
    state: Any,
    state_cell: Any = None,
    sequence_length: Any = None,
    *,
    mode: str,
    state_size: int,
    num_layers: int,
    bidirectional: bool = False,
    state_outputs: bool = False,
    p: float = 0.0,
    use_sequence_length: bool = False,
    projection_size: int | None = None,
    lstm_state_clip_min: float | None = None,
    lstm_state_clip_max: float | None = None,
    lstm_state_clip_nan: bool = False,
    is_train: bool = False,
) -> Any:
    """Recurrent layers over data (T, N, C) from state (layers * directions, N, state_size): (T, N, D * state_size).

    ``mode`` is ``rnn_relu rnn_tanh lstm gru``; lstm takes ``state_cell`` as well. ``state_outputs`` adds the
    last states. ``p`` is the dropout between layers, in training.
    """
    if mode not in GATES:
        raise ValueError(f"unknown mode {mode}: {', '.join(GATES)} exist")
    directions = 2 if bidirectional else 1
    shapes = parameter_shapes(
        mode, data.shape[2], state_size, num_layers, directions, projection_size
    )
    sizes = [int(np.prod(s)) for s in shapes]
    if sum(sizes) != parameters.size:
        raise ValueError(
            f"{mode} with these sizes has {sum(sizes)} parameters, got {parameters.size}"
        )
    flat = iter(jnp.split(parameters.reshape(-1), np.cumsum(sizes)[:-1].tolist()))
    pieces = [piece.reshape(s) for piece, s in zip(flat, shapes, strict=True)]
    per = 3 if projection_size else 2
    weights, biases = (
        pieces[: per * num_layers * directions],
        pieces[per * num_layers * directions :],
    )
    clip = None if lstm_state_clip_min is None else (lstm_state_clip_min, lstm_state_clip_max)
    step = _step(mode, state_size, clip)
    lengths = (
        sequence_length.astype("int32")
        if use_sequence_length and sequence_length is not None
        else None
    )
    x, states, cells = data, [], []
    n = data.shape[1]
    for layer in range(num_layers):
        outs = []
        for d in range(directions):
            k = layer * directions + d
            w = weights[k * per : (k + 1) * per]
            params = (
                w[0],
                w[1],
                w[2] if projection_size else None,
                biases[2 * k],
                biases[2 * k + 1],
            )
            start = (jnp.broadcast_to(state[k], (n, state.shape[2])),)
            if mode == "lstm":
                start = (*start, jnp.broadcast_to(state_cell[k], (n, state_size)))
            out, last = _direction(
                x, start, params, step, lengths, d == 1, mode if clip is None else None
            )
            outs.append(out)
            states.append(last[0])
            cells.append(last[-1])
        x = outs[0] if directions == 1 else jnp.concatenate(outs, -1)
        if _drops(p, num_layers, is_train) and layer < num_layers - 1:
            keep = jax.random.bernoulli(
                jax.random.fold_in(key, layer), fitted(1 - p, np.float32), x.shape
            )
            x = jnp.where(keep, x / fitted(1 - p, x.dtype), jnp.zeros((), x.dtype))
    if not state_outputs:
        return x
    return (x, jnp.stack(states), jnp.stack(cells)) if mode == "lstm" else (x, jnp.stack(states))


@op(
    "rnn_param_concat",
    nd="_rnn_param_concat",
    internal="_rnn_param_concat",
    aliases=("_npi_rnn_param_concat",),
    samples=[case(f(3), f(5), dim=0)],
    unknown="tied",
    onnx="concatenate",
)
def rnn_param_concat(*data: Any, dim: int = 1, num_args: int | None = None) -> Any:
    """Weights and biases, as vectors, as the one vector that `rnn` takes."""
    return jnp.concatenate(data, axis=dim)
