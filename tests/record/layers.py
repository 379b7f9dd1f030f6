"""Records the layers of MXNet 2.0's gluon.nn: outputs, gradients, statistics, printed forms.

Run with a Python that has Apache MXNet 2.0.0b1: ``python layers.py``. Writes
``../data/layers.json``:

- ``layers``: cases ``{layer, args, kwargs, shape, dtype, fresh, repr, params, out, grad, grads,
  states, eval}``. Parameters and inputs are :func:`fill`; ``out`` is the output of a training pass,
  ``grad`` and ``grads`` the gradients of the input and of the parameters under the head
  :func:`fill`, ``states`` the untrained parameters after three training passes, ``eval`` the
  output in prediction after them. ``fresh`` is the repr before the first pass, ``repr`` after it.
- ``summary``: what ``summary`` prints for a LeNet and for a network with a shared layer.
- ``containers``: reprs of nested networks.
"""

import contextlib
import io

import mxnet as mx
import numpy as onp
from codec import array, save
from mxnet import autograd
from mxnet.gluon import nn

IMAGE, LINE, CUBE = (2, 4, 6, 5), (2, 4, 7), (1, 2, 4, 5, 4)
LAYERS = [
    ("Dense", [3], {}, (2, 4)),
    ("Dense", [3], {"activation": "relu"}, (2, 3, 2)),
    ("Dense", [3], {"activation": "tanh", "flatten": False, "in_units": 2}, (2, 3, 2)),
    ("Dense", [3], {"use_bias": False}, (2, 4)),
    ("Embedding", [5, 3], {}, (2, 4)),
    ("Flatten", [], {}, (2, 3, 2)),
    ("Identity", [], {}, (2, 3)),
    ("Dropout", [0.0], {}, (2, 3)),
    ("Lambda", ["tanh"], {}, (2, 3)),
    ("HybridLambda", ["relu"], {}, (2, 3)),
    *[
        ("Activation", [a], {}, (2, 5))
        for a in ("relu", "sigmoid", "log_sigmoid", "mish", "tanh", "softrelu", "softsign")
    ],
    ("LeakyReLU", [0.2], {}, (2, 5)),
    ("PReLU", [], {}, (2, 5)),
    ("PReLU", [], {"in_channels": 4}, (2, 4, 3)),
    ("ELU", [], {}, (2, 5)),
    ("ELU", [0.5], {}, (2, 5)),
    ("SELU", [], {}, (2, 5)),
    ("GELU", [], {}, (2, 5)),
    ("GELU", [], {"approximation": "tanh"}, (2, 5)),
    ("Swish", [], {}, (2, 5)),
    ("Swish", [0.5], {}, (2, 5)),
    ("SiLU", [], {}, (2, 5)),
    ("Conv1D", [3, 2], {}, LINE),
    ("Conv1D", [4, 3], {"strides": 2, "padding": 1, "groups": 2, "activation": "relu"}, LINE),
    ("Conv2D", [3, 3], {}, IMAGE),
    ("Conv2D", [3, [2, 3]], {"strides": [2, 1], "padding": [1, 0], "use_bias": False}, IMAGE),
    ("Conv2D", [4, 2], {"dilation": 2, "groups": 4}, IMAGE),
    ("Conv2D", [2, 3], {"padding": 1, "activation": "sigmoid"}, IMAGE),
    ("Conv3D", [2, 2], {"padding": [0, 1, 0]}, CUBE),
    ("Conv1DTranspose", [3, 3], {"strides": 2, "output_padding": 1}, LINE),
    ("Conv2DTranspose", [3, 3], {}, IMAGE),
    ("Conv2DTranspose", [4, 2], {"strides": 2, "padding": 1, "groups": 2}, IMAGE),
    ("Conv3DTranspose", [2, 2], {"use_bias": False}, CUBE),
    ("MaxPool1D", [], {}, LINE),
    ("MaxPool1D", [3], {"strides": 2, "ceil_mode": True}, LINE),
    ("MaxPool2D", [], {}, IMAGE),
    ("MaxPool2D", [[3, 2]], {"strides": 1, "padding": 1}, IMAGE),
    ("MaxPool2D", [2, 2], {"ceil_mode": True}, IMAGE),
    ("MaxPool3D", [], {}, CUBE),
    ("AvgPool1D", [], {}, LINE),
    ("AvgPool2D", [3], {"strides": 2, "padding": 1}, IMAGE),
    ("AvgPool2D", [3], {"strides": 2, "padding": 1, "count_include_pad": False}, IMAGE),
    ("AvgPool3D", [], {}, CUBE),
    ("GlobalMaxPool1D", [], {}, LINE),
    ("GlobalMaxPool2D", [], {}, IMAGE),
    ("GlobalMaxPool3D", [], {}, CUBE),
    ("GlobalAvgPool1D", [], {}, LINE),
    ("GlobalAvgPool2D", [], {}, IMAGE),
    ("GlobalAvgPool3D", [], {}, CUBE),
    ("ReflectionPad2D", [2], {}, IMAGE),
    ("BatchNorm", [], {}, IMAGE),
    ("BatchNorm", [], {"axis": 3, "momentum": 0.5, "epsilon": 0.01}, IMAGE),
    ("BatchNorm", [], {"scale": False, "center": False}, (6, 3)),
    ("BatchNorm", [], {"use_global_stats": True, "in_channels": 3}, (6, 3)),
    ("BatchNormReLU", [], {}, IMAGE),
    ("LayerNorm", [], {}, (3, 5)),
    ("LayerNorm", [], {"axis": 1, "epsilon": 0.01, "in_channels": 4}, IMAGE),
    ("GroupNorm", [], {"num_groups": 2}, IMAGE),
    ("InstanceNorm", [], {}, IMAGE),
    ("InstanceNorm", [], {"scale": True, "epsilon": 0.1}, LINE),
]


def fill(shape, number):
    """The parameter, input or head of a number."""
    n = int(onp.prod(shape))
    return onp.cos(onp.arange(n) * 1.3 + number).reshape(shape).astype("float32")


def value(name, shape, number):
    """A parameter's value; variances are positive."""
    v = fill(shape, number)
    return v * 0.25 + 1 if name.endswith("var") else v


def batch(layer, args, shape, number):
    """An input; embeddings take integers."""
    n = int(onp.prod(shape))
    if layer == "Embedding":
        return ((onp.arange(n) * 3 + number) % args[0]).reshape(shape).astype("float32")
    return fill(shape, number)


def case(layer, args, kwargs, shape):
    tuples = [tuple(a) if isinstance(a, list) else a for a in args]
    named = {k: tuple(v) if isinstance(v, list) else v for k, v in kwargs.items()}
    net = getattr(nn, layer)(*tuples, **named)
    made = {"layer": layer, "args": args, "kwargs": kwargs, "shape": shape, "fresh": repr(net)}
    net.initialize()
    x = mx.np.array(batch(layer, args, shape, 1))
    net(x)
    made["repr"] = repr(net)
    params = net.collect_params()
    made["params"] = {name: list(p.shape) for name, p in params.items()}
    for k, (name, p) in enumerate(params.items()):
        p.set_data(mx.np.array(value(name, p.shape, k)))
    for number in range(1, 4):
        x = mx.np.array(batch(layer, args, shape, number))
        if layer != "Embedding":
            x.attach_grad()
        with autograd.record():
            y = net(x)
        y.backward(mx.np.array(fill(y.shape, 7)))
        mx.npx.waitall()
        if number == 1:
            made["out"] = array(y)
            made["grad"] = None if x.grad is None else array(x.grad)
            made["grads"] = {
                name: array(p.grad()) for name, p in params.items() if p.grad_req != "null"
            }
    made["states"] = {
        name: array(p.data()) for name, p in params.items() if name.startswith("running")
    }
    made["eval"] = array(net(x))
    return made


def printed(net, *inputs):
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        net.summary(*inputs)
    return text.getvalue()


def lenet(nn):
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(channels=20, kernel_size=5, activation="relu"),
        nn.MaxPool2D(2, 2),
        nn.Conv2D(50, 5),
        nn.BatchNorm(),
        nn.Activation("relu"),
        nn.MaxPool2D(2, 2),
        nn.Flatten(),
        nn.Dense(512, activation="relu"),
        nn.Dropout(0.5),
        nn.Dense(10),
    )
    return net


def sharing(nn):
    """A network that uses one layer twice."""
    net = nn.HybridSequential()
    one = nn.Dense(4, in_units=4)
    net.add(nn.Dense(4), one, one, nn.Dense(4).share_parameters(one.params))
    return net


def nested(nn):
    net = nn.Sequential()
    inner = nn.HybridSequential()
    inner.add(nn.Dense(3, in_units=2), nn.Dropout(0.5))
    both = nn.HybridConcatenate(axis=1)
    both.add(nn.Identity(), nn.Dense(2))
    net.add(inner, both, nn.Lambda(lambda x: x), nn.LeakyReLU(0.1))
    return net


if __name__ == "__main__":
    texts = {}
    for build, shape in ((lenet, (1, 1, 28, 28)), (sharing, (2, 4))):
        net = build(nn)
        for p in dict.fromkeys(net.collect_params().values()):
            p.initialize()
        texts[build.__name__] = printed(net, mx.np.zeros(shape))
    cases = []
    for c in LAYERS:
        try:
            cases.append(case(*c))
        except (mx.MXNetError, TypeError) as error:
            print("not in this MXNet:", c, str(error)[-200:])
    save(
        "layers.json",
        {
            "layers": cases,
            "summary": texts,
            "containers": {
                "lenet": repr(lenet(nn)),
                "nested": repr(nested(nn)),
                "sharing": repr(sharing(nn)),
            },
        },
    )
