"""Replays the operator cases recorded from real MXNet (tests/record/cases.py tells their form).

Every case compares values, shapes and result dtypes, and the gradients under the recorded head
gradients.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx

DATA = Path(__file__).parent.parent / "data"
FILES = tuple(
    f"operators_{name}.json"
    for name in ("np", "nn", "nd", "contrib", "more", "deformable", "linalg")
)
RTOL = {"float16": 2e-3, "float32": 2e-5, "float64": 1e-9}
ATOL = {"float16": 2e-3, "float32": 2e-6, "float64": 1e-10}


def load():
    """(file, number, case, pool, kind) of every recorded case."""
    for name in FILES:
        data = json.loads((DATA / name).read_text())
        pool = {k: decode_array(v) for k, v in data["pool"].items()}
        for number, case in enumerate(data["cases"]):
            label = f"{name[10:12]}-{number}-{case['fn']}"
            yield pytest.param(case, pool, data["kind"], id=label)


def decode_array(a):
    return np.array(a["data"], dtype=a["dtype"]).reshape(a["shape"])


def head(shape, dtype, number):
    """The head gradient of output ``number``, as the recorder made it."""
    n = int(np.prod(shape))
    return np.cos(np.arange(n) + number).reshape(shape).astype(dtype)


INTEGERS = ("b", "i", "i8", "u8", "l")

# Recorded results that are mistakes of MXNet's: (function, what its keywords contain, why), and the
# arrays it was called with, where others give what they should.
MISTAKES = (
    (
        "npx.activation",
        {"act_type": "log_sigmoid"},
        "rounding: log(sigmoid(x)) loses small results",
        ("big",),
    ),
    (
        "npx.leaky_relu",
        {"act_type": "selu"},
        "its gradient multiplies the output by lambda once more",
    ),
    (
        "nd.LeakyReLU",
        {"act_type": "selu"},
        "its gradient multiplies the output by lambda once more",
    ),
    ("npx.softmax", {"dtype": "float64"}, "computed in float32"),
    ("npx.log_softmax", {"dtype": "float64"}, "computed in float32"),
    (
        "nd.SoftmaxOutput",
        {"out_grad": True},
        "the head gradient's buffer was overwritten by the output",
    ),
    ("npx.norm", {"ord": 2}, "sums up ratios of integers, each cut off to one", INTEGERS),
    ("nd.norm", {"ord": 2}, "sums up ratios of integers, each cut off to one", INTEGERS),
)


def mistake(case):
    """Why MXNet's result is no model, or None."""
    kwargs = case.get("kwargs", {})
    for fn, given, why, *arrays in MISTAKES:
        met = not arrays or case["args"] in [[{"array": a}] for a in arrays[0]]
        if case["fn"] == fn and given.items() <= kwargs.items() and met:
            return why
    return None


class Call:
    """A recorded call with fresh arrays of the kind it was recorded with."""

    def __init__(self, case, pool, kind):
        self.module = mx.np if kind == "np" else mx.nd
        self.pool, self.arrays = pool, []
        self.args = [self.decode(a) for a in case["args"]]
        self.kwargs = {k: self.decode(v) for k, v in case.get("kwargs", {}).items()}
        self.fn = case["fn"]

    def decode(self, x):
        if not isinstance(x, dict):
            return x
        ((kind, value),) = x.items()
        if kind == "array":
            value = self.pool[value]
            self.arrays.append(self.module.array(value, dtype=value.dtype))
            return self.arrays[-1]
        if kind == "slice":
            return slice(*value)
        return (tuple if kind == "tuple" else list)(self.decode(v) for v in value)

    def __call__(self):
        if self.fn.startswith("."):
            return getattr(self.args[0], self.fn[1:])(*self.args[1:], **self.kwargs)
        f = mx
        for part in self.fn.split("."):
            f = getattr(f, part)
        return f(*self.args, **self.kwargs)


def check(got, want, tol, what):
    """``got`` (an array of ours, or a Python value) equals the recorded ``want``, dtype
    included."""
    if not isinstance(want, dict):
        got = list(got) if isinstance(got, tuple) else got
        assert got == pytest.approx(want, rel=1e-5, nan_ok=True), what
        return
    assert np.dtype(got.dtype).name == want["dtype"], f"dtype of {what}"
    want = decode_array(want)
    assert tuple(got.shape) == want.shape, f"shape of {what}"
    name = want.dtype.name
    np.testing.assert_allclose(
        got.asnumpy().astype("float64"),
        want.astype("float64"),
        rtol=tol or RTOL.get(name, 0),
        atol=max(ATOL.get(name, 0), (tol or 0) / 10),
        err_msg=what,
    )


@pytest.mark.parametrize("case, pool, kind", load())
def test_recorded(case, pool, kind):
    if mistake(case):
        pytest.skip(mistake(case))
    call = Call(case, pool, kind)
    if "error" in case:
        with pytest.raises(Exception):  # noqa: B017 - which error is the front end's own matter
            out = call()
            mx.npx.waitall()
            [o.asnumpy() for o in (out if isinstance(out, (list, tuple)) else [out])]
        return
    tol, training = case.get("tol"), case.get("training", False)
    wanted = {int(i): g for i, g in case.get("grads", {}).items()}
    for i in wanted:
        call.arrays[i].attach_grad()
    if training or wanted:
        with mx.autograd.record(train_mode=training):
            out = call()
    else:
        out = call()
    assert isinstance(out, (list, tuple)) == case.get("many", False)
    outs = list(out) if case.get("many") else [out]
    assert len(outs) == len(case["out"])
    for k, (got, want) in enumerate(zip(outs, case["out"], strict=True)):
        check(got, want, tol, f"output {k}")
    if wanted:
        floats = [
            (k, o)
            for k, o in enumerate(outs)
            if isinstance(o, mx.nd.NDArray) and np.dtype(o.dtype).kind == "f"
        ]
        heads = [call.module.array(head(o.shape, o.dtype, k), dtype=o.dtype) for k, o in floats]
        mx.autograd.backward([o for _, o in floats], heads, train_mode=training)
        for i, g in wanted.items():
            check(call.arrays[i].grad, g, tol, f"gradient {i}")
    for i, value in case.get("after", {}).items():
        check(call.arrays[int(i)], value, tol, f"array {i} afterwards")
