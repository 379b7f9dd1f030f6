"""Records Convolution and Pooling of real MXNet 2.0, values and gradients, for tests/ops/lowering.

Run with a Python that has MXNet: ``python tests/record/convolution_pooling.py``.
"""

import itertools
import json
import pathlib

import mxnet as mx
import numpy as onp
from mxnet import autograd, npx

npx.set_np()
OUT = pathlib.Path(__file__).parent.parent / "data" / "convolution_pooling.npz"
rng = onp.random.RandomState(7)
arrays, cases = {}, []


def keep(kind, options, inputs, call):
    """Runs one case and stores its options, inputs, output, head gradient and input gradients."""
    given = [mx.np.array(a, dtype="float32") for a in inputs]
    for a in given:
        a.attach_grad()
    with autograd.record():
        out = call(*given)
    head = rng.randint(-4, 5, size=out.shape).astype("float32")
    out.backward(mx.np.array(head))
    name = f"{len(cases):03d}"
    cases.append({"kind": kind, "options": options, "inputs": len(inputs)})
    for key, value in (("out", out), ("head", head)):
        arrays[f"{name}.{key}"] = onp.asarray(value, dtype="float32")
    for i, a in enumerate(given):
        arrays[f"{name}.in{i}"] = a.asnumpy()
        arrays[f"{name}.grad{i}"] = a.grad.asnumpy()


SIZES = {1: (9,), 2: (9, 8), 3: (6, 7, 5)}


def pooling():
    for nd, kind, convention in itertools.product(
        (1, 2, 3), ("max", "avg", "sum", "lp"), ("valid", "full")
    ):
        for k, s, p in ((2, 2, 0), (3, 2, 1), (3, 1, 1), (3, 3, 0)):
            if kind == "lp" and (p or nd == 3):
                continue
            options = {
                "kernel": (k,) * nd,
                "stride": (s,) * nd,
                "pad": (p,) * nd,
                "pool_type": kind,
                "pooling_convention": convention,
            }
            # Few distinct values, so that windows have several maxima.
            x = rng.randint(1, 4, size=(2, 3) + SIZES[nd])
            counts = (True, False) if kind == "avg" else (True,)
            for count in counts:
                extra = {"count_include_pad": count} if kind == "avg" else {}
                extra |= {"p_value": 2} if kind == "lp" else {}
                every = options | extra
                keep("pooling", every, [x], lambda x, o=every: npx.pooling(x, **o))
    for nd, kind in itertools.product((1, 2, 3), ("max", "avg", "sum")):
        options = {"kernel": (1,) * nd, "pool_type": kind, "global_pool": True}
        x = rng.randint(0, 3, size=(2, 3) + SIZES[nd])
        keep("pooling", options, [x], lambda x, o=options: npx.pooling(x, **o))


def convolution():
    for nd in (1, 2, 3):
        for k, s, d, p, g, bias in (
            (3, 1, 1, 0, 1, True),
            (3, 2, 1, 1, 1, False),
            (2, 1, 2, 1, 2, True),
            (1, 1, 1, 0, 1, True),
            (1, 2, 1, 0, 1, False),
            (3, 3, 1, 2, 4, True),
        ):
            options = {
                "kernel": (k,) * nd,
                "stride": (s,) * nd,
                "dilate": (d,) * nd,
                "pad": (p,) * nd,
                "num_group": g,
                "num_filter": 4,
                "no_bias": not bias,
            }
            inputs = [
                rng.uniform(-1, 1, (2, 4) + SIZES[nd]),
                rng.uniform(-1, 1, (4, 4 // g) + (k,) * nd),
            ]
            if bias:
                inputs.append(rng.uniform(-1, 1, 4))
            keep("convolution", options, inputs, lambda *a, o=options: npx.convolution(*a, **o))


pooling()
convolution()
arrays["cases"] = onp.frombuffer(json.dumps(cases).encode(), dtype="uint8")
onp.savez_compressed(OUT, **arrays)
print(len(cases), "cases,", OUT.stat().st_size, "bytes")
