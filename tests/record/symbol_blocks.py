"""Records networks with a SymbolBlock inside, cut from another network: files and losses of fine-tuning.

Run it with MXNet 1.9.1 and with 2.0.0b1: python symbol_blocks.py FOLDER. It writes mxnet1.* or mxnet2.* there.
"""

import contextlib
import json
import os
import sys

import mxnet as mx
import numpy as np
from mxnet import gluon
from mxnet.gluon import nn

VERSION = mx.__version__[0]
PATH = os.path.join(sys.argv[1], f"mxnet{VERSION}")
X = np.random.RandomState(0).uniform(-1, 1, (2, 3, 8, 8))


def base(**names):
    net = nn.HybridSequential(**names)
    with net.name_scope() if VERSION == "1" else contextlib.nullcontext():
        net.add(
            nn.Conv2D(4, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"),
            nn.Conv2D(5, 3, strides=2, padding=1), nn.BatchNorm(), nn.Dense(7),
        )  # fmt: skip
    return net


def head():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(3, 1), nn.Dense(2))
    return net


class Cut1(gluon.HybridBlock):
    """As features of detectors are made: two inner results of a network, and a head."""

    def __init__(self, net, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            data = mx.sym.var("data")
            inner = net(data).get_internals()
            outputs = [
                inner[net.prefix + name] for name in ("relu0_fwd_output", "batchnorm1_fwd_output")
            ]
            self.f = gluon.SymbolBlock(outputs, data, params=net.collect_params())
            self.head = head()

    def hybrid_forward(self, F, x):  # noqa: N803
        a, b = self.f(x)
        return F.concat(self.head(b), F.flatten(a).slice_axis(axis=1, begin=9, end=11), dim=1)


class Cut2(gluon.HybridBlock):
    def __init__(self, path):
        super().__init__()
        inner = mx.sym.load(f"{path}-symbol.json").get_internals()
        outputs = [
            inner[name].as_np_ndarray() for name in inner.list_outputs() if name.endswith("_output")
        ]
        self.f = gluon.SymbolBlock([outputs[2], outputs[4]], mx.sym.var("data").as_np_ndarray())
        self.f.load_parameters(
            f"{path}-0000.params", ignore_extra=True, cast_dtype=True, dtype_source="saved"
        )
        self.head = head()

    def forward(self, x):
        a, b = self.f(x)
        return mx.np.concatenate([self.head(b), a.reshape(a.shape[0], -1)[:, 9:11]], axis=1)


def filled(net, x):
    """Parameters that every version gives the same numbers."""
    net.initialize()
    net(x)
    random = np.random.RandomState(1)
    params = net.collect_params()
    for name in sorted(params, key=lambda n: n.partition("_")[2] if VERSION == "1" else n):
        p = params[name]
        if not name.endswith(("running_mean", "running_var", "gamma")):
            p.set_data(mx.nd.array(random.uniform(-0.3, 0.3, p.shape)) if VERSION == "1" else
                       mx.np.array(random.uniform(-0.3, 0.3, p.shape), dtype="float32"))  # fmt: skip
    return net


def tuned(net, x, steps=3):
    """Losses of steps of fine-tuning."""
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    losses = []
    for _ in range(steps):
        with mx.autograd.record():
            loss = (net(x) ** 2).mean()
        loss.backward()
        trainer.step(1)
        losses.append(float(loss.asnumpy().reshape(())))
    return losses


if __name__ == "__main__":
    if VERSION == "1":
        array = mx.nd.array(X)
        net = Cut1(filled(base(prefix="mobilenet0_"), array))
        filled(net.head, net.f(array)[1])
        net.hybridize()
    else:
        mx.npx.set_np()
        array = mx.np.array(X, dtype="float32")
        whole = filled(base(), array)
        whole.hybridize()
        whole(array)
        whole.export(f"{PATH}-base")
        net = Cut2(f"{PATH}-base")
        net.head.initialize()
        filled(net.head, net.f(array)[1])
    first = net(array).asnumpy().tolist()
    losses = tuned(net, array)
    net.save_parameters(f"{PATH}.params")
    if VERSION == "1":
        net.f.save_parameters(f"{PATH}-f.params")
    written = {
        "first": first, "losses": losses, "last": net(array).asnumpy().tolist(), "names": list(net.collect_params()),
        "file": sorted(mx.nd.load(f"{PATH}.params") if VERSION == "1" else mx.npx.load(f"{PATH}.params")),
    }  # fmt: skip
    with open(f"{PATH}.json", "w") as f:
        json.dump(written, f)
        f.write("\n")
