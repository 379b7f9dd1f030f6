"""Records what Apache MXNet 2.0.0b1 and 1.9.1 make of infinities, zeros, halves and large numbers: ``python edges.py``,
with each of them, writes its part of ``../data/edges.json``; and which matrices its solvers refuse, and when.

``values``: {function: its results}, of np and npx (2.0.0b1) or nd (1.9.1), of the numbers `EDGES`, or of all pairs of
`PAIRS`; ``grads``: the gradients under heads of ones. ``refused``: {function: {matrix: "read", "call" or None}}.
``calls``: {label of `CALLS`: [shape, numbers]}.
"""

import json
import os

import mxnet as mx
import numpy as onp
from edges_of import BINARY, CALLS, EDGES, GRADIENTS, MATRICES, NUMBERS, PAIRS, UNARY, called

SOLVERS = {
    "nd": "potrf potri trsm gelqf syevd inverse det slogdet".split(),
    "np": "cholesky inv solve tensorinv det slogdet qr svd eigh eigvalsh matrix_rank".split(),
}
TWO = mx.__version__.startswith("2")


def floats(values):
    return onp.array([float(v) for v in values], "float32")


def function(name):
    for module in (mx.np, mx.npx) if TWO else (mx.nd, mx.nd.random):
        for spelt in (name, f"broadcast_{name}", f"broadcast_{name.replace('true_divide', 'div')}"):
            if hasattr(module, spelt) and (TWO or module is mx.nd):
                return getattr(module, spelt)
    return None


def array(values):
    return (mx.np if TWO else mx.nd).array(values, dtype="float32")


def plain(x):
    numbers = x.asnumpy().ravel().tolist()
    return [float(f"{v:.7g}") if onp.isfinite(v) else str(v) for v in numbers]


def refusal(fn, given):
    try:
        out = fn(*given)
        try:
            for o in out if isinstance(out, (list, tuple)) else [out]:
                o.asnumpy()
        except mx.MXNetError:
            return "read"
    except Exception:
        return "call"
    return None


def main():
    if TWO:
        mx.npx.set_np()
    x, pairs = floats(EDGES), floats(PAIRS)
    a, b = (g.ravel() for g in onp.meshgrid(pairs, pairs))
    values, grads = {}, {}
    for name in UNARY:
        if function(name):
            values[name] = plain(function(name)(array(x)))
    for name in BINARY:
        if function(name):
            values[name] = plain(function(name)(array(a), array(b)))
    for n in NUMBERS:
        values[f"x ** {n}"] = plain(array(x) ** float(n))
        values[f"x % {n}"] = plain(array(x) % float(n))
        values[f"{n} ** x"] = plain(float(n) ** array(x))
        values[f"{n} % x"] = plain(float(n) % array(x))
    for name in GRADIENTS:
        v = array(x)
        v.attach_grad()
        with mx.autograd.record():
            out = function(name)(v)
        out.backward()
        grads[name] = plain(v.grad)
    refused = {}
    for front, names in SOLVERS.items():
        module = mx.nd.linalg if front == "nd" else getattr(mx.np, "linalg", None) if TWO else None
        for name in names if module else ():
            answers = refused[f"{front}.{name}"] = {}
            for matrix, numbers in MATRICES.items():
                if name == "tensorinv" and matrix == "batch":
                    continue
                m = onp.array(numbers, "float32")
                ones = onp.ones(m.shape, "float32")
                make = mx.np.array if front == "np" else mx.nd.array
                given = [make(m), make(ones)] if name in ("solve", "trsm") else [make(m)]
                fn = getattr(module, name)
                answers[matrix] = refusal(
                    (lambda a, f=fn: f(a, ind=1)) if name == "tensorinv" else fn, given
                )
    calls = {}
    for label, call in CALLS.items():
        out = called(mx, call, onp) if TWO or call[0].startswith("nd") else None
        if out is not None:
            numbers = out.astype(float).ravel().tolist()
            calls[label] = [list(out.shape), [v if onp.isfinite(v) else str(v) for v in numbers]]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "edges.json")
    made = json.load(open(path)) if os.path.exists(path) else {}  # noqa: SIM115
    made["2" if TWO else "1"] = {
        "values": values,
        "grads": grads,
        "refused": refused,
        "calls": calls,
    }
    with open(path, "w") as f:
        f.write(
            json.dumps(made, separators=(",", ":")).replace('},"', '},\n"').replace('],"', '],\n"')
            + "\n"
        )


if __name__ == "__main__":
    main()
