"""Records the networks of MXNet's gluon.model_zoo: their parameters' names and shapes, and outputs.

Run with a Python that has Apache MXNet 2.0.0b1: ``python model_zoo.py`` writes ``../data/model_zoo.json``; with one
that has 1.9.1 it writes ``../data/model_zoo_mxnet1.json``, of names and shapes alone.

- ``parameters``: by network: how many, and the SHA-1 of the sorted lines ``name shape``.
- ``outputs``: ``{make, shape, out}``: of networks made by ``make`` with parameters :func:`value`, for an input
  :func:`fill`, in prediction.
"""

import hashlib

import mxnet as mx
import numpy as onp
from codec import array, save
from mxnet.gluon.model_zoo import vision

NAMES = [
    *[f"resnet{n}_v{v}" for n in (18, 34, 50, 101, 152) for v in (1, 2)],
    *[f"vgg{n}{bn}" for n in (11, 13, 16, 19) for bn in ("", "_bn")],
    *[f"densenet{n}" for n in (121, 161, 169, 201)],
    *[f"mobilenet{v}{w}" for v in ("", "v2_") for w in ("1.0", "0.75", "0.5", "0.25")],
    "alexnet",
    "inceptionv3",
    "squeezenet1.0",
    "squeezenet1.1",
]
SMALL = [
    ("ResNetV1", ["BasicBlockV1", [2, 1], [4, 4, 8], 5], {}, (2, 3, 32, 32)),
    ("ResNetV1", ["BottleneckV1", [1, 1], [4, 8, 16], 5], {"thumbnail": True}, (2, 3, 8, 8)),
    ("ResNetV2", ["BasicBlockV2", [1, 1], [4, 4, 8], 5], {"thumbnail": True}, (2, 3, 8, 8)),
    ("ResNetV2", ["BottleneckV2", [1, 1], [4, 8, 16], 5], {}, (2, 3, 32, 32)),
    ("DenseNet", [8, 4, [2, 2]], {"classes": 5}, (1, 3, 56, 56)),
    ("VGG", [[1, 1], [4, 8]], {"classes": 5, "batch_norm": True}, (1, 3, 8, 8)),
    ("MobileNet", [0.25], {"classes": 5}, (1, 3, 32, 32)),
    ("MobileNetV2", [0.25], {"classes": 5}, (1, 3, 32, 32)),
]
LARGE = [
    ("SqueezeNet", ["1.1"], {"classes": 5}, (1, 3, 224, 224)),
    ("SqueezeNet", ["1.0"], {"classes": 5}, (1, 3, 224, 224)),
    ("AlexNet", [], {"classes": 5}, (1, 3, 224, 224)),
    ("Inception3", [], {"classes": 5}, (1, 3, 299, 299)),
]


def fill(shape, number):
    """An array of a number, between -1 and 1."""
    n = int(onp.prod(shape))
    return onp.cos(onp.arange(n) * 1.3 + number).reshape(shape).astype("float32")


def value(name, shape, number):
    """The value of a parameter: about as large as trained ones."""
    v = fill(shape, number)
    if name.endswith(("var", "gamma")):
        return 1 + v / 4
    scale = 0.1 if len(shape) < 2 else (6 / onp.prod(shape[1:])) ** 0.5
    return (v * scale).astype("float32")


def side(name):
    return 299 if "inception" in name.lower() else 224


def summary(net):
    params = (
        net.collect_params()
        if hasattr(mx, "np") and not mx.__version__.startswith("1.")
        else (net._collect_params_with_prefix())
    )
    lines = sorted(f"{name} {tuple(p.shape)}" for name, p in params.items())
    return {"count": len(lines), "sha1": hashlib.sha1("\n".join(lines).encode()).hexdigest()}


def parameters(ones):
    found = {}
    for name in NAMES:
        net = vision.get_model(name)
        net.initialize(mx.init.Zero())
        net(ones((1, 3, side(name), side(name)))).wait_to_read()
        found[name] = summary(net)
        print(name, found[name], flush=True)
    return found


def output(name, args, kwargs, shape):
    args = [getattr(vision, a) if isinstance(a, str) and hasattr(vision, a) else a for a in args]
    net = getattr(vision, name)(*args, **kwargs)
    net.initialize(mx.init.Zero())
    x = mx.np.array(fill(shape, 1))
    net(x).wait_to_read()
    for k, (key, p) in enumerate(sorted(net.collect_params().items())):
        p.set_data(mx.np.array(value(key, p.shape, k)))
    out = net(x)
    print(name, out, flush=True)
    return array(out)


if __name__ == "__main__":
    if mx.__version__.startswith("1."):
        save("model_zoo_mxnet1.json", {"parameters": parameters(mx.nd.ones)})
    else:

        def case(c):
            return {"network": c[0], "args": c[1], "kwargs": c[2], "shape": c[3], "out": output(*c)}

        save(
            "model_zoo.json",
            {
                "small": [case(c) for c in SMALL],
                "large": [case(c) for c in LARGE],
                "parameters": parameters(mx.np.ones),
            },
        )
