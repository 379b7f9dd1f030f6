"""Runs operator cases in real MXNet and writes them for tests/ops/test_recorded.py to replay.

A case is ``{fn, args, kwargs, training, out, many, grads, after, tol}``:

- ``fn``: a dotted name below the package (``np.sum``), or ``.name`` for a method of the first
  argument;
- an argument is JSON, or ``{"array": name}`` (an array of the file's ``pool``),
  ``{"tuple": [...]}``, ``{"list": [...]}``, or ``{"slice": [...]}``;
- ``training``: the call runs under ``autograd.record()``; otherwise gradients are taken under
  ``record(train_mode=False)``;
- ``out``: the results as arrays (a plain value where a Python value came back); ``many`` where a
  tuple or list came back;
- ``grads``: {which of the call's arrays, in order: gradient} with the head gradients ``head(out)``;
- ``after``: {which: value} of the arrays that the call (with its backward pass) changed;
- ``tol``: the relative tolerance where the usual one of the dtype is too strict;
- ``error``, ``text``: MXNet refuses the call.

In the tables, a string ``"@name"`` stands for the pool's array.
"""

import numpy as onp
from codec import array, error, nested, save


def head(shape, dtype, number=0):
    """The head gradient of output ``number``: cos(0), cos(1), ... (shifted by the number)."""
    n = int(onp.prod(shape))
    return onp.cos(onp.arange(n) + number).reshape(shape).astype(dtype)


def encode(x):
    if isinstance(x, str) and x.startswith("@"):
        return {"array": x[1:]}
    found = nested(x, encode)
    return x if found is None else found


class Recorder:
    """Collects cases; ``kind`` says whether arrays are mx.np's or mx.nd's."""

    def __init__(self, mx, kind, pool):
        self.mx, self.kind, self.pool = mx, kind, pool
        self.used, self.cases = set(), []

    def make(self, name):
        value = self.pool[name]
        self.used.add(name)
        if self.kind == "np":
            return self.mx.np.array(value, dtype=value.dtype)
        return self.mx.nd.array(value, dtype=value.dtype)

    def decode(self, x, arrays):
        if isinstance(x, str) and x.startswith("@"):
            arrays.append((x[1:], self.make(x[1:])))
            return arrays[-1][1]
        if isinstance(x, (tuple, list)):
            return type(x)(self.decode(v, arrays) for v in x)
        return x

    def call(self, fn, args, kwargs):
        if fn.startswith("."):
            return getattr(args[0], fn[1:])(*args[1:], **kwargs)
        f = self.mx
        for part in fn.split("."):
            f = getattr(f, part)
        return f(*args, **kwargs)

    def __call__(
        self,
        fn,
        *args,
        grad=True,
        training=False,
        tol=None,
        fails=False,
        check_after=False,
        **kwargs,
    ):
        case = {"fn": fn, "args": [encode(a) for a in args]}
        if kwargs:
            case["kwargs"] = {k: encode(v) for k, v in kwargs.items()}
        if training:
            case["training"] = True
        if tol:
            case["tol"] = tol
        try:
            self.run(case, fn, args, kwargs, grad, training, check_after)
        except Exception as e:
            case.update(error(e))
        if fails != ("error" in case):
            print("UNEXPECTED", fn, args, kwargs, case.get("error"), case.get("text"))
            return
        self.cases.append(case)

    def run(self, case, fn, args, kwargs, grad, training, check_after):
        ag = self.mx.autograd
        arrays = []
        live = [self.decode(a, arrays) for a in args]
        live_kw = {k: self.decode(v, arrays) for k, v in kwargs.items()}
        before = [a.asnumpy() for _, a in arrays]
        wanted = [
            (i, a)
            for i, (_, a) in enumerate(arrays)
            if grad and onp.dtype(a.dtype).kind == "f" and (grad is True or i in grad)
        ]
        for _, a in wanted:
            a.attach_grad()
        if training or wanted:
            with ag.record(train_mode=training):
                out = self.call(fn, live, live_kw)
        else:
            out = self.call(fn, live, live_kw)
        if type(out).__name__ == "ADT":  # the new FFI's tuple
            out = [out[k] for k in range(len(out))]
        outs = list(out) if isinstance(out, (tuple, list)) else [out]
        is_array = [isinstance(o, self.mx.nd.NDArray) for o in outs]
        case["out"] = [array(o) if y else plain(o) for o, y in zip(outs, is_array, strict=True)]
        if isinstance(out, (tuple, list)):
            case["many"] = True
        floats = [
            (k, o) for k, o in enumerate(outs) if is_array[k] and onp.dtype(o.dtype).kind == "f"
        ]
        if wanted and floats:
            make = self.mx.np.array if self.kind == "np" else self.mx.nd.array
            heads = [make(head(o.shape, o.dtype, k), dtype=o.dtype) for k, o in floats]
            ag.backward([o for _, o in floats], heads, train_mode=training)
            case["grads"] = {str(i): array(a.grad) for i, a in wanted}
        if check_after:
            changed = {
                str(i): array(a)
                for i, (_, a) in enumerate(arrays)
                if not onp.array_equal(a.asnumpy(), before[i])
            }
            case["after"] = changed

    def save(self, name):
        pool = {k: array(v) for k, v in self.pool.items() if k in self.used}
        save(name, {"kind": self.kind, "pool": pool, "cases": self.cases})
        print(len(self.cases), "cases")


def plain(x):
    return x.item() if isinstance(x, onp.generic) else list(x) if isinstance(x, tuple) else x


def pool(seed=11):
    """Inputs with few digits: floats away from the kinks unless the name says otherwise."""
    rng = onp.random.RandomState(seed)

    def normal(*shape, dtype="float32"):
        return onp.round(rng.normal(size=shape), 2).astype(dtype)

    def uniform(low, high, *shape, dtype="float32"):
        return onp.round(rng.uniform(low, high, shape), 2).astype(dtype)

    def ints(low, high, *shape, dtype="int32"):
        return rng.randint(low, high, shape).astype(dtype)

    p = {
        "x": normal(3, 4),
        "y": normal(3, 4),
        "row": normal(4),
        "col": normal(3, 1),
        "one": normal(1, 4),
        "s": normal(),
        "s1": normal(1),
        "v": normal(5),
        "w": normal(5),
        "pos": uniform(0.5, 2, 3, 4),
        "pos2": uniform(0.5, 2, 3, 4),
        "unit": uniform(-0.9, 0.9, 3, 4),
        "above": uniform(1.1, 3, 3, 4),
        "big": uniform(-60, 60, 3, 4),
        "x3": normal(2, 3, 4),
        "y3": normal(2, 3, 4),
        "x4": normal(2, 3, 2, 2),
        "z3": normal(2, 4, 3),
        "m": normal(3, 3),
        "n": normal(3, 3),
        "mT": normal(4, 3),
        "m2": normal(2, 2),
        "sq3": normal(2, 3, 3),
        "x0": onp.zeros((0, 3), "float32"),
        "x20": onp.zeros((2, 0), "float32"),
        "d": normal(3, 4, dtype="float64"),
        "dpos": uniform(0.5, 2, 3, 4, dtype="float64"),
        "h": normal(3, 4, dtype="float16"),
        "hpos": uniform(0.5, 2, 3, 4, dtype="float16"),
        "i": ints(-5, 6, 3, 4),
        "j": ints(1, 6, 3, 4),
        "l": ints(-5, 6, 3, 4, dtype="int64"),
        "i8": ints(-5, 6, 3, 4, dtype="int8"),
        "u8": ints(0, 9, 3, 4, dtype="uint8"),
        "irow": ints(1, 4, 4),
        "idx": onp.array([2, 0, 2, 1], "int32"),
        "idx64": onp.array([1, 0], "int64"),
        "idxf": onp.array([1, 0, 2], "float32"),
        "far": onp.array([-1, 5, 1], "int32"),
        "b": rng.uniform(size=(3, 4)) > 0.5,
        "b2": rng.uniform(size=(3, 4)) > 0.5,
        "yes": onp.ones((3, 4), bool),
        "bcol": onp.array([[True], [False], [True]]),
        "ties": onp.array([[1, 2, 2, 0], [3, 3, 3, 3], [0, 1, -1, 1]], "float32"),
        "nan": onp.array([[1, onp.nan, 2], [onp.inf, -onp.inf, 0]], "float32"),
        "half": onp.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.3, -0.7, 1.2], "float32"),
    }
    spd = p["m"] @ p["m"].T + 2 * onp.eye(3, dtype="float32")
    p["spd"] = onp.round(spd, 2).astype("float32")
    p["inv"] = onp.round(p["m"] + 3 * onp.eye(3), 2).astype("float32")
    return p
