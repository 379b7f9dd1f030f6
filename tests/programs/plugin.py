"""A library of operators in Python: several custom operators with arguments, states and two inputs, in a hybrid network."""

import json

import mxnet as mx
import numpy as np
from common import fill, normal
from mxnet import autograd, gluon, nd


class Swish(mx.operator.CustomOp):
    def __init__(self, beta):
        self.beta = beta

    def forward(self, is_train, req, in_data, out_data, aux):
        x = in_data[0]
        self.assign(out_data[0], req[0], x * mx.nd.sigmoid(self.beta * x))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        s = mx.nd.sigmoid(self.beta * in_data[0])
        self.assign(in_grad[0], req[0], out_grad[0] * (s + self.beta * in_data[0] * s * (1 - s)))


class Center(mx.operator.CustomOp):
    """The distance from the centers of classes, which are an auxiliary state."""

    def forward(self, is_train, req, in_data, out_data, aux):
        x, y = in_data[0].asnumpy(), in_data[1].asnumpy().astype(int)
        diff = x - aux[0].asnumpy()[y]
        self.assign(out_data[0], req[0], mx.nd.array(0.5 * (diff**2).sum(1)))
        if is_train:
            centers = aux[0].asnumpy()
            for row, k in zip(diff, y):
                centers[k] += 0.1 * row
            aux[0][:] = mx.nd.array(centers)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        y = in_data[1].asnumpy().astype(int)
        diff = mx.nd.array(in_data[0].asnumpy() - aux[0].asnumpy()[y])
        self.assign(in_grad[0], req[0], diff * out_grad[0].reshape((-1, 1)))
        self.assign(in_grad[1], req[1], mx.nd.zeros_like(in_data[1]))


@mx.operator.register("lib_swish")
class SwishProp(mx.operator.CustomOpProp):
    def __init__(self, beta="1.0"):
        super(SwishProp, self).__init__(need_top_grad=True)
        self.beta = float(beta)

    def create_operator(self, ctx, shapes, dtypes):
        return Swish(self.beta)


@mx.operator.register("lib_center")
class CenterProp(mx.operator.CustomOpProp):
    def list_arguments(self):
        return ["data", "label"]

    def list_auxiliary_states(self):
        return ["centers"]

    def infer_shape(self, in_shape):
        return in_shape, [(in_shape[0][0],)], [(3, in_shape[0][1])]

    def create_operator(self, ctx, shapes, dtypes):
        return Center()


def main():
    net = gluon.nn.HybridSequential()
    net.add(
        gluon.nn.Dense(8, in_units=5),
        gluon.nn.HybridLambda(lambda F, x: F.Custom(x, beta=1.5, op_type="lib_swish")),
    )
    net.add(gluon.nn.Dense(4, in_units=8))
    net.initialize()
    fill(net, 120)
    net.hybridize()
    y = np.random.RandomState(121).randint(0, 3, 12)
    x, y, centers = nd.array(normal(122, 12, 5)), nd.array(y), nd.zeros((3, 4))
    trainer = gluon.Trainer(net.collect_params(), "signum", {"learning_rate": 0.005})
    losses = []
    for _ in range(20):
        with autograd.record():
            loss = nd.Custom(net(x), y, centers, op_type="lib_center") + 1 / (
                1 + net(x).square().sum(axis=1)
            )
        loss.backward()
        trainer.step(12)
        losses.append(loss.mean().asscalar())
    return losses


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
