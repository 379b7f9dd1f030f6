"""A program of MXNet 2 that trains a network of Gluon; `program(mx)` runs it and gives its losses.

With MXNet 2.0.0b1, `python tests/record/gluon_mxnet2.py` writes tests/data/gluon_mxnet2.json; a test runs the same code
on mxjax from the same initial parameters.
"""

import json
from pathlib import Path

import numpy as onp


def data(seed, *shape):
    return onp.random.RandomState(seed).uniform(-1, 1, shape).astype("float32")


def program(mx):
    """forward with np and npx, parameters as attributes, deferred shapes, a constant, hybridized, Adam."""
    np, npx, gluon, nn = mx.np, mx.npx, mx.gluon, mx.gluon.nn
    npx.set_np()

    class Mix(gluon.HybridBlock):
        def __init__(self, units):
            super().__init__()
            self.scale = gluon.Parameter("scale", shape=(units,), init="ones")
            self.shift = gluon.Constant(onp.full((1, units), 0.25, "float32"))
            self.dense = nn.Dense(units, flatten=False)
            self.norm = nn.LayerNorm()

        def forward(self, x):
            h = self.norm(self.dense(x))
            weights = npx.softmax(np.matmul(h, h.swapaxes(1, 2)), axis=-1)
            return np.tanh(np.matmul(weights, h) * self.scale.data() + self.shift.data())

    net = nn.HybridSequential()
    net.add(Mix(6), Mix(4), nn.Flatten(), nn.Dense(3))
    net.initialize()
    x, y = np.array(data(1, 8, 5, 3)), np.array(onp.arange(8) % 3)
    net(x)
    params = net.collect_params()
    for k, name in enumerate(params):
        if params[name].grad_req != "null":
            params[name].set_data(np.array(0.5 * data(100 + k, *params[name].shape)))
    net.hybridize()
    trainer = gluon.Trainer(params, "adam", {"learning_rate": 0.02})
    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
    losses = []
    for _ in range(20):
        with mx.autograd.record():
            loss = loss_fn(net(x), y).mean()
        loss.backward()
        trainer.step(1)
        losses.append(float(loss))
    npx.reset_np()
    return {"losses": losses, "names": list(params)}


if __name__ == "__main__":
    import mxnet

    path = Path(__file__).parents[1] / "data" / "gluon_mxnet2.json"
    path.write_text(json.dumps(program(mxnet)) + "\n")
