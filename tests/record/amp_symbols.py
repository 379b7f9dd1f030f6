"""Records where MXNet puts casts into a symbol: run with a Python that has MXNet 2.0.0b1.

    python tests/record/amp_symbols.py tests/data/amp_symbols.json

Per case the arguments, and the nodes of what `amp.convert_symbol` gives: operator, name, declared dtype, inputs.
"""

import json
import sys

import mxnet as mx
from mxnet import amp

CASES = [
    {},
    {"cast_optional_params": True},
    {"excluded_sym_names": ["fc"]},
    {
        "target_dtype_ops": ["Convolution"],
        "fp32_ops": ["exp", "FullyConnected"],
        "conditional_fp32_ops": [("Activation", "act_type", ["relu"])],
    },
]


def network(sym):
    x = sym.Convolution(sym.var("data"), kernel=(3, 3), num_filter=4, name="conv")
    x = sym.BatchNorm(x, name="bn")
    x = sym.Activation(x, act_type="relu", name="act")
    x = sym.FullyConnected(x, num_hidden=3, name="fc")
    x = sym.elemwise_add(x, sym.exp(x, name="e"), name="add")
    return sym.softmax(x, name="sm")


def nodes(converted):
    read = json.loads(converted.tojson(remove_amp_cast=False))["nodes"]
    return [
        [n["op"], n["name"], n.get("attrs", {}).get("__dtype__"), [i[0] for i in n["inputs"]]]
        for n in read
    ]


def main(path):
    out = [
        {
            "kwargs": k,
            "nodes": nodes(
                amp.convert_symbol(network(mx.sym), "float16", data_names=["data"], **k)
            ),
        }
        for k in CASES
    ]
    with open(path, "w") as file:
        json.dump(out, file)


if __name__ == "__main__":
    main(sys.argv[1])
