"""Records gluon.rnn of MXNet 2.0 (and weights of 1.9): outputs, states, gradients, printed forms.

Run with a Python that has Apache MXNet 2.0.0b1: ``MXNET_USE_ONEDNN_RNN=0 python recurrent.py`` writes
``../data/recurrent.json``; with one that has 1.9.1 it writes ``../data/recurrent_mxnet1.json`` (what a file of
parameters holds, and what the layer gives for :func:`fill`).

- ``layers``: ``{layer, args, kwargs, repr, size, out, states, grad, grads}``: the output and last states for
  input and parameters :func:`fill`, the gradients of the input and of the parameters for the head :func:`fill`.
- ``cells``: ``{cell, shape, layout, lengths, repr, info, params, out, states, grad, grads}`` of ``unroll``; ``cell``
  is a nested list of names and arguments.
"""

import mxnet as mx
import numpy as onp
from codec import array, save
from mxnet import autograd
from mxnet.gluon import rnn

LAYERS = [
    ("LSTM", [3], {}),
    ("LSTM", [3, 2], {"bidirectional": True, "layout": "NTC"}),
    ("LSTM", [3, 2], {"projection_size": 2}),
    ("GRU", [3], {}),
    ("GRU", [3, 2], {"bidirectional": True}),
    ("RNN", [3, 2], {"activation": "tanh"}),
    ("RNN", [3], {"bidirectional": True}),
]
IMAGE = {"conv": [[2, 4, 5], 3, 3, 3], "pad": {"i2h_pad": 1}}
CELLS = [
    (["RNNCell", [3], {}], (2, 4, 2), "NTC", None),
    (["RNNCell", [3], {"activation": "relu"}], (4, 2, 2), "TNC", [2, 4]),
    (["LSTMCell", [3], {}], (2, 4, 2), "NTC", None),
    (["LSTMCell", [3], {"recurrent_activation": "softsign"}], (2, 4, 2), "NTC", [1, 3]),
    (["GRUCell", [3], {}], (2, 4, 2), "NTC", [4, 2]),
    (["LSTMPCell", [3, 2], {}], (4, 2, 2), "TNC", None),
    (["ResidualCell", [["GRUCell", [2], {}]], {}], (2, 4, 2), "NTC", [3, 4]),
    (
        ["BidirectionalCell", [["LSTMCell", [3], {}], ["RNNCell", [2], {}]], {}],
        (2, 4, 2),
        "NTC",
        [3, 4],
    ),
    (
        ["BidirectionalCell", [["GRUCell", [2], {}], ["GRUCell", [2], {}]], {}],
        (4, 2, 2),
        "TNC",
        None,
    ),
    (
        ["HybridSequentialRNNCell", [["LSTMCell", [3], {}], ["GRUCell", [3], {}]], {}],
        (2, 4, 2),
        "NTC",
        None,
    ),
    (["ZoneoutCell", [["RNNCell", [3], {}]], {}], (2, 4, 2), "NTC", None),
    (["VariationalDropoutCell", [["RNNCell", [3], {}]], {}], (2, 4, 2), "NTC", None),
    (["Conv1DRNNCell", [[2, 6], 3, 3, 3], {}], (2, 3, 2, 6), "NTC", None),
    (["Conv2DLSTMCell", IMAGE["conv"], IMAGE["pad"]], (1, 3, 2, 4, 5), "NTC", None),
    (
        ["Conv2DGRUCell", IMAGE["conv"], {"h2h_dilate": 2, "activation": "relu"}],
        (1, 3, 2, 4, 5),
        "NTC",
        None,
    ),
    (["Conv3DRNNCell", [[1, 2, 3, 2], 2, 1, 3], {}], (1, 2, 1, 2, 3, 2), "NTC", None),
]
ONE = {"lstm": ("LSTM", {"bidirectional": True}), "gru": ("GRU", {"num_layers": 2})}


def fill(shape, number):
    """The parameter, input or head of a number."""
    n = int(onp.prod(shape))
    return (onp.cos(onp.arange(n) * 1.3 + number).reshape(shape) * 0.5).astype("float32")


def make(spec):
    """A cell from nested names and arguments."""
    name, args, kwargs = spec
    inner = [make(a) if isinstance(a, list) and a and isinstance(a[0], str) else a for a in args]
    args = [tuple(a) if isinstance(a, list) else a for a in inner]
    if name.endswith("SequentialRNNCell"):
        stack = getattr(rnn, name)()
        for cell in args:
            stack.add(cell)
        return stack
    return getattr(rnn, name)(*args, **kwargs)


def layer(name, args, kwargs):
    net = getattr(rnn, name)(*args, **kwargs)
    made = {"layer": name, "args": args, "kwargs": kwargs, "repr": repr(net)}
    net.initialize()
    n, t = (2, 4) if kwargs.get("layout") == "NTC" else (4, 2)
    x = mx.np.array(fill((n, t, 2), 1))
    states = [mx.np.array(fill(s["shape"], 2 + k)) for k, s in enumerate(net.state_info(2))]
    net(x, states)
    p = net.rnn_param
    p.set_data(mx.np.array(fill(p.shape, 0)))
    made["size"] = p.shape[0]
    if "projection_size" in kwargs:  # MXNet does not train it on CPUs
        out, last = net(x, states)
        return {**made, "out": array(out), "states": [array(s) for s in last]}
    x.attach_grad()
    with autograd.record():
        out, last = net(x, states)
    out.backward(mx.np.array(fill(out.shape, 7)))
    made.update(
        out=array(out), states=[array(s) for s in last], grad=array(x.grad), grads=array(p.grad())
    )
    return made


def cell(spec, shape, layout, lengths):
    net = make(spec)
    made = {"cell": spec, "shape": shape, "layout": layout, "lengths": lengths}
    axis = layout.find("T")
    x = mx.np.array(fill(shape, 1))
    first = mx.np.array(fill(shape[:axis] + shape[axis + 1 :], 1))
    net.infer_shape(0, first, False)
    if spec[0] == "HybridSequentialRNNCell":
        net[1].i2h_weight.shape = (9, 3)
    net.initialize()
    made["repr"] = repr(net)
    made["info"] = [[list(s["shape"]), s["__layout__"]] for s in net.state_info(2)]
    params = net.collect_params()
    made["params"] = {name: list(p.shape) for name, p in params.items()}
    for k, p in enumerate(params.values()):
        p.set_data(mx.np.array(fill(p.shape, k)))
    valid = None if lengths is None else mx.np.array(lengths, dtype="float32")
    x.attach_grad()
    with autograd.record():
        out, states = net.unroll(
            shape[axis], x, layout=layout, merge_outputs=True, valid_length=valid
        )
    out.backward(mx.np.array(fill(out.shape, 7)))
    made.update(
        out=array(out),
        states=[array(s) for s in states],
        grad=array(x.grad),
        grads={name: array(p.grad()) for name, p in params.items()},
    )
    return made


def old():
    """Layers of 1.9: the names in a file, and outputs."""
    made = []
    for name, kwargs in ONE.values():
        net = getattr(rnn, name)(3, input_size=2, **kwargs)
        net.initialize()
        params = net._collect_params_with_prefix()
        for k, p in enumerate(params.values()):
            p.set_data(mx.nd.array(fill(p.shape, k)))
        x = mx.nd.array(fill((4, 2, 2), 1))
        made.append(
            {
                "layer": name,
                "kwargs": kwargs,
                "params": {k: list(p.shape) for k, p in params.items()},
                "attributes": sorted(net._reg_params),
                "out": array(net(x)),
            }
        )
    save("recurrent_mxnet1.json", made)


if __name__ == "__main__":
    if mx.__version__.startswith("1."):
        old()
    else:
        save(
            "recurrent.json",
            {"layers": [layer(*c) for c in LAYERS], "cells": [cell(*c) for c in CELLS]},
        )
