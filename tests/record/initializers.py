"""Records initializers: exact values of the deterministic ones, range and spread of the random
ones.

Run with a Python that has Apache MXNet 2.0.0b1: ``python initializers.py``. Writes
``../data/initializers.json``:
cases ``{init, kwargs, name, shape}`` with ``exact: array``, or ``mean, std, min, max`` of the draws
(and, for Orthogonal, the largest deviation of W W^T (or W^T W) from scale^2 times the identity).
``name`` is the parameter's name, whose ending picks the rule.
"""

import mxnet as mx
import numpy as np
from codec import array, error, save

CASES = []


def case(init, shape, exact=False, name="w_weight", **kwargs):
    c = {
        "init": init,
        "kwargs": {k: v for k, v in kwargs.items()},
        "name": name,
        "shape": list(shape),
    }
    try:
        mx.random.seed(1)
        rule = (
            mx.init.create(init, **kwargs) if init.islower() else getattr(mx.init, init)(**kwargs)
        )
        c["dumps"] = rule.dumps()
        x = mx.np.full(shape, 7.0, dtype="float32")
        rule(mx.init.InitDesc(name), x)
        x = x.asnumpy()
        if exact:
            c["exact"] = array(x)
        else:
            c.update(
                mean=float(x.mean()), std=float(x.std()), min=float(x.min()), max=float(x.max())
            )
        if init == "Orthogonal":
            w = x.reshape(shape[0], -1).astype("float64")
            g = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
            c["scale2"] = float(g[0, 0])
            c["deviation"] = float(np.abs(g - g[0, 0] * np.eye(len(g))).max())
    except Exception as e:
        c.update(error(e))
        print(init, kwargs, c["error"], c["text"])
    CASES.append(c)


def main():
    for init in ("Zero", "One", "zeros", "ones"):
        case(init, (2, 3), exact=True)
    case("Constant", (2, 3), exact=True, value=2.5)
    case("constant", (2, 3), exact=True, value=-1)
    case("Bilinear", (2, 1, 4, 4), exact=True)
    case("Bilinear", (1, 2, 3, 5), exact=True)
    case("LSTMBias", (8,), exact=True, name="lstm_bias")
    case("LSTMBias", (8,), exact=True, forget_bias=2.0)
    for name in ("a_bias", "a_gamma", "a_beta", "a_min", "a_max"):
        case("Xavier", (4,), exact=True, name=name)
    for name in ("a_running_mean", "a_moving_var", "other", "prelu_alpha"):
        case("Xavier", (4, 4), exact=True, name=name)
    case("Uniform", (200, 100))
    case("uniform", (200, 100), scale=0.5)
    case("Normal", (200, 100))
    case("normal", (200, 100), sigma=2.0)
    for rnd in ("uniform", "gaussian"):
        for factor in ("avg", "in", "out"):
            case("Xavier", (200, 100), rnd_type=rnd, factor_type=factor)
            case("Xavier", (64, 32, 3, 3), rnd_type=rnd, factor_type=factor, magnitude=2)
    case("xavier", (200, 100))
    case("Xavier", (20,))
    case("Xavier", (200, 100), rnd_type="normal")
    case("Xavier", (200, 100), factor_type="mean")
    for factor in ("avg", "in", "out"):
        case("MSRAPrelu", (64, 32, 3, 3), factor_type=factor)
    case("MSRAPrelu", (200, 100), slope=0.0)
    for shape in ((30, 50), (50, 30), (16, 4, 3, 3)):
        case("Orthogonal", shape)
        case("Orthogonal", shape, rand_type="normal", scale=1.0)
    case("Xavier", (200, 100), name="nothing")
    save("initializers.json", CASES)


if __name__ == "__main__":
    main()
