"""Programs of MXNet 1.x that train: networks of Gluon, a symbol bound by hand; `programs(mx)` gives their losses.

With MXNet 1.9.1, `python tests/record/gluon_mxnet1.py` writes tests/data/gluon_mxnet1.json; the tests run the same code
on mxjax from the same initial parameters.
"""

import json
from pathlib import Path

import numpy as onp


def data(seed, *shape):
    return onp.random.RandomState(seed).uniform(-1, 1, shape).astype("float32")


def fill(params):
    """Initial values that do not depend on random numbers of the library."""
    for k, name in enumerate(params):
        p = params[name]
        if p.grad_req != "null":
            p.set_data(0.5 * data(100 + k, *p.shape) + (1 if name.endswith("gamma") else 0))


def under_nd(mx):
    """hybrid_forward, name_scope, params.get, deferred shapes, prefixes, save_params and load_params."""
    gluon, nn = mx.gluon, mx.gluon.nn

    class Block(gluon.HybridBlock):
        def __init__(self, units, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.norm = nn.BatchNorm()
                self.gate = nn.Dense(units, activation="sigmoid")
                self.weight = self.params.get("weight", shape=(units, 0), allow_deferred_init=True)
                self.shift = self.params.get_constant(
                    "shift", onp.full((1, units), 0.25, "float32")
                )

        def hybrid_forward(self, F, x, weight, shift):
            h = self.norm(x)
            out = F.FullyConnected(h, weight, no_bias=True, num_hidden=self._units)
            return F.broadcast_add(F.tanh(out) * self.gate(h), shift)

    Block._units = 5
    net = nn.HybridSequential(prefix="model_")
    with net.name_scope():
        net.add(Block(5), Block(5), nn.Dense(3))
    net.initialize()
    x, y = mx.nd.array(data(1, 8, 4)), mx.nd.array(onp.arange(8) % 3)
    net(x)
    fill(net.collect_params())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.3, "momentum": 0.9})
    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
    losses = []
    for _ in range(20):
        with mx.autograd.record():
            loss = loss_fn(net(x), y)
        loss.backward()
        trainer.step(8)
        losses.append(float(loss.mean().asscalar()))
    return {"losses": losses, "names": list(net.collect_params())}


def under_np(mx):
    """hybrid_forward with F.np and F.npx, np arrays, a plain Block around, a lambda of F."""
    gluon, nn = mx.gluon, mx.gluon.nn
    mx.npx.set_np()

    class Head(gluon.HybridBlock):
        def __init__(self, units, in_units, **kwargs):
            super().__init__(**kwargs)
            self.weight = self.params.get("weight", shape=(in_units, units))
            self.bias = self.params.get("bias", shape=(units,))

        def hybrid_forward(self, F, x, weight, bias):
            return F.npx.relu(F.np.dot(x, weight) + bias)

    class Net(gluon.Block):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.head = Head(6, 4)
                self.scale = nn.HybridLambda(lambda F, x: F.np.sqrt(x * x + 1))
                self.out = nn.Dense(1, in_units=6)

        def forward(self, x):
            return self.out(self.scale(self.head(x)))

    net = Net(prefix="net_")
    net.initialize()
    fill(net.collect_params())
    net.hybridize()
    x, y = mx.np.array(data(3, 8, 4)), mx.np.array(data(4, 8, 1))
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05})
    loss_fn = gluon.loss.L2Loss()
    losses = []
    for _ in range(20):
        with mx.autograd.record():
            loss = loss_fn(net(x), y)
        loss.backward()
        trainer.step(8)
        losses.append(float(loss.mean()))
    mx.npx.reset_np()
    return {"losses": losses, "names": list(net.collect_params())}


def bound(mx):
    """A symbol, its executor, and an updater: convolution, moving statistics, weights of two layers shared."""
    net = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=4, name="conv")
    net = mx.sym.Activation(mx.sym.BatchNorm(net, fix_gamma=False, name="norm"), act_type="relu")
    net = mx.sym.Flatten(mx.sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max"))
    weight = mx.sym.Variable("shared_weight")
    net = mx.sym.FullyConnected(net, num_hidden=16, weight=weight, no_bias=True, name="one")
    net = mx.sym.FullyConnected(mx.sym.tanh(net), num_hidden=16, weight=weight, name="two")
    net = mx.sym.SoftmaxOutput(
        mx.sym.FullyConnected(net, num_hidden=3, name="three"), name="softmax"
    )
    run = net.simple_bind(mx.cpu(), data=(6, 2, 6, 6), softmax_label=(6,))
    trained = [name for name in net.list_arguments() if name not in ("data", "softmax_label")]
    for k, name in enumerate(trained):
        run.arg_dict[name][:] = 0.5 * data(200 + k, *run.arg_dict[name].shape) + name.endswith(
            "gamma"
        )
    run.aux_dict["norm_moving_var"][:] = 1
    run.arg_dict["softmax_label"][:] = onp.arange(6) % 3
    update = mx.optimizer.get_updater(
        mx.optimizer.create("sgd", learning_rate=0.1, momentum=0.9, rescale_grad=1 / 6)
    )
    losses = []
    for _ in range(20):
        out = run.forward(is_train=True, data=mx.nd.array(data(5, 6, 2, 6, 6)))[0]
        run.backward()
        for k, name in enumerate(trained):
            update(k, run.grad_dict[name], run.arg_dict[name])
        losses.append(
            float(-mx.nd.log(mx.nd.pick(out, run.arg_dict["softmax_label"])).mean().asscalar())
        )
    return {"losses": losses, "names": net.list_arguments()}


def programs(mx):
    with mx.name.NameManager():
        return {"nd": under_nd(mx), "np": under_np(mx), "bound": bound(mx)}


if __name__ == "__main__":
    import mxnet

    path = Path(__file__).parents[1] / "data" / "gluon_mxnet1.json"
    path.write_text(json.dumps(programs(mxnet)) + "\n")
