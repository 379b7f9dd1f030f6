"""Recurrent layers in ONNX's words: one node for each layer, the gates in ONNX's order."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxjax.ops.rnn import GATES, parameter_shapes

from .writer import Name, Step, Writer, writes

# Where ONNX's gates stand among MXNet's: LSTM i o f c of i f c o; GRU z r h of r z h.
_ORDER = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn_tanh": (0,), "rnn_relu": (0,)}
_KINDS = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN", "rnn_relu": "RNN"}


def _gates(x: np.ndarray, mode: str) -> np.ndarray:
    parts = np.split(x, GATES[mode])
    return np.concatenate([parts[k] for k in _ORDER[mode]])


@writes
def rnn(w: Writer, s: Step) -> Any:
    p, mode, hidden, layers = (
        s.params,
        s.params["mode"],
        s.params["state_size"],
        s.params["num_layers"],
    )
    if p["projection_size"]:
        raise s.refused("ONNX's LSTM has no projection")
    if p["lstm_state_clip_min"] is not None:
        raise s.refused("ONNX's LSTM does not clip the cell's state")
    flat = s.value("parameters")
    if flat is None:
        raise s.refused("its weights are computed from the inputs")
    directions = 2 if p["bidirectional"] else 1
    width = s.shape()[2]
    if width is None:
        raise s.refused("the number of features changes")
    shapes = parameter_shapes(mode, width, hidden, layers, directions, None)
    ends = np.cumsum([int(np.prod(k)) for k in shapes])[:-1]
    pieces = [x.reshape(k) for x, k in zip(np.split(flat.reshape(-1), ends), shapes, strict=True)]
    weights, biases = pieces[: 2 * layers * directions], pieces[2 * layers * directions :]
    lengths = ""
    if p["use_sequence_length"] and s.has("sequence_length"):
        k = s.node.names.index("sequence_length")
        lengths = w.cast(s[k], s.in_dtype(k), np.int32)
    starts = {name: _start(w, s, name) for name in ("state", "state_cell") if s.has(name)}
    x, lasts = s[0], []
    options: dict[str, Any] = {
        "hidden_size": hidden,
        "direction": "bidirectional" if directions == 2 else "forward",
    }
    if mode == "gru":
        options["linear_before_reset"] = 1
    if mode == "rnn_relu":
        options["activations"] = ["Relu"] * directions
    for layer in range(layers):
        at = range(layer * directions, (layer + 1) * directions)
        dtype = s.dtype()
        given = [
            x,
            w.constant(np.stack([_gates(weights[2 * k], mode) for k in at]), dtype),
            w.constant(np.stack([_gates(weights[2 * k + 1], mode) for k in at]), dtype),
            w.constant(
                np.stack(
                    [
                        np.concatenate([_gates(b, mode) for b in biases[2 * k : 2 * k + 2]])
                        for k in at
                    ]
                ),
                dtype,
            ),
            lengths,
            *[
                _layer(w, s, starts.get(name), layer, layers, directions)
                for name in ("state", "state_cell")
            ],
        ]
        outs = w.ops(_KINDS[mode], given, 3 if mode == "lstm" else 2, **options)
        # (T, directions, N, hidden) as (T, N, directions * hidden).
        x = w.reshape(w.transpose(outs[0], [0, 2, 1, 3]), [0, 0, directions * hidden])
        lasts.append(outs[1:])
    if not p["state_outputs"]:
        return x
    return [
        x,
        *[
            w.op("Concat", *each, axis=0) if layers > 1 else each[0]
            for each in zip(*lasts, strict=True)
        ],
    ]


def _start(w: Writer, s: Step, name: str) -> Name | None:
    """The state at the beginning; None where it is zero, which is ONNX's own."""
    node = s.by_name[name][0] if name in s.by_name else None
    if (
        node is not None
        and not node.inputs
        and node.op is not None
        and node.op.files.onnx == "zeros"
    ):
        return None
    x, shape = s.array(name), w.shape(s.by_name[name])
    batch = s.shape()[1]
    if shape[1] == 1 and batch != 1:  # one state for all samples
        x = w.op(
            "Expand",
            x,
            w.joined([w.ints(shape[0] or 1), w.length(s.node.inputs[0], 1), w.ints(shape[2] or 1)]),
        )
    return x


def _layer(w: Writer, s: Step, x: Name | None, layer: int, layers: int, directions: int) -> Name:
    if x is None:
        return ""
    return x if layers == 1 else w.slice(x, 0, layer * directions, (layer + 1) * directions)
