"""Loops and branches over symbols as real MXNet writes and computes them.

Run with its Python: `python symbols_control_flow.py > ../data/symbols_control_flow.json`.
"""

from __future__ import annotations

import json
import sys

import mxnet as mx
import numpy as np

x, s, w, p, i = (mx.sym.var(n) for n in "xswpi")


def body(now, state):
    y = mx.sym.FullyConnected(now, num_hidden=2, name="fc") + state * w
    return y, y


rs = np.random.RandomState(5)


def r(*shape):
    return rs.rand(*shape).round(3).tolist()


loop = mx.sym.Group(mx.sym.contrib.foreach(body, x, s))
outs, last = mx.sym.contrib.while_loop(
    lambda i, s: i < 4, lambda i, s: ([s * i], [i + 1, s + w]), [i, s], max_iterations=5
)
branch = mx.sym.contrib.cond(mx.sym.sum(x) > s, lambda: x * 2, lambda: x + w)
cases = [
    (loop, {"x": r(3, 2, 2), "s": r(2, 2), "w": r(2, 2), "fc_weight": r(2, 2), "fc_bias": r(2)}),
    (mx.sym.Group([*outs, *last]), {"i": [1.0], "s": r(1), "w": r(1)}),
    (branch, {"x": r(3), "s": [1.0], "w": r(3)}),
    (branch, {"x": r(3), "s": [9.0], "w": r(3)}),
]
found = []
for symbol, inputs in cases:
    made = symbol.eval(ctx=mx.cpu(), **{k: mx.nd.array(v) for k, v in inputs.items()})
    known = json.loads(symbol.tojson())
    found.append(
        {"symbol": known, "inputs": inputs, "outputs": [o.asnumpy().tolist() for o in made]}
    )
json.dump(found, sys.stdout)
print()
