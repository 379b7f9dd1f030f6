"""Writes tests/data/gluon_names.json: what MXNet 1.9.1 calls Gluon's layers, their parameters and their operators.

Run with MXNet 1.9.1: python tests/record/gluon_names.py
"""

import json
from pathlib import Path

import mxnet as mx

LAYERS = [
    "nn.Dense(3, activation='relu')", "nn.Conv2D(4, 3, activation='tanh')", "nn.PReLU()", "nn.MaxPool2D()",
    "nn.GroupNorm(2)", "nn.InstanceNorm()", "nn.LayerNorm()", "nn.Flatten()", "nn.Dropout(0.5)", "nn.Embedding(3, 4)",
    "nn.GlobalAvgPool1D()", "nn.Conv1DTranspose(3, 2)", "nn.BatchNorm()", "nn.Activation('softrelu')",
    "nn.LeakyReLU(0.1)", "nn.ELU()", "nn.SELU()", "nn.GELU()", "nn.HybridLambda(lambda F, x: F.exp(x))",
    "nn.HybridLambda('sqrt')", "nn.ReflectionPad2D(1)", "nn.HybridSequential()", "nn.Conv3D(2, 1)", "nn.AvgPool3D()",
    "nn.MaxPool1D(prefix='first_')", "nn.GlobalMaxPool2D()", "nn.Dense(2, prefix='')",
]  # fmt: skip


def main():
    found = []
    with mx.name.NameManager():
        for text in LAYERS:
            layer = eval(text)
            out = layer(mx.sym.var("data"))
            found.append(
                [
                    text,
                    layer.prefix,
                    out.get_internals().list_outputs(),
                    list(layer.collect_params()),
                ]
            )
    path = Path(__file__).parents[1] / "data" / "gluon_names.json"
    path.write_text(json.dumps(found, indent=0) + "\n")


if __name__ == "__main__":
    main()
