"""A detector with anchors of its own, whose box loss is a custom operator."""

import json

import mxnet as mx
import numpy as np
from common import fill, normal
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn


class SmoothL1(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        x = in_data[0].asnumpy()
        loss = np.where(np.abs(x) < 1, 0.5 * x * x, np.abs(x) - 0.5)
        self.assign(out_data[0], req[0], mx.nd.array(loss))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * mx.nd.clip(in_data[0], -1, 1))


@mx.operator.register("my_smooth_l1")
class SmoothL1Prop(mx.operator.CustomOpProp):
    def __init__(self):
        super(SmoothL1Prop, self).__init__(need_top_grad=True)

    def list_arguments(self):
        return ["data"]

    def infer_shape(self, in_shape):
        return in_shape, [in_shape[0]], []

    def create_operator(self, ctx, shapes, dtypes):
        return SmoothL1()


class Detector(gluon.HybridBlock):
    def __init__(self, num_classes, **kwargs):
        super(Detector, self).__init__(**kwargs)
        self._classes = num_classes
        with self.name_scope():
            self.body = nn.HybridSequential()
            for channels in (8, 16):
                self.body.add(
                    nn.Conv2D(channels, 3, padding=1, in_channels=3 if channels == 8 else 8)
                )
                self.body.add(nn.Activation("relu"), nn.MaxPool2D(2))
            self.classes = nn.Conv2D(3 * (num_classes + 1), 3, padding=1, in_channels=16)
            self.boxes = nn.Conv2D(3 * 4, 3, padding=1, in_channels=16)

    def hybrid_forward(self, F, x):
        x = self.body(x)
        anchors = F.contrib.MultiBoxPrior(x, sizes=(0.3, 0.5), ratios=(1, 2))
        classes = F.flatten(F.transpose(self.classes(x), axes=(0, 2, 3, 1)))
        boxes = F.flatten(F.transpose(self.boxes(x), axes=(0, 2, 3, 1)))
        return anchors, F.reshape(classes, (0, -1, self._classes + 1)), boxes


def main():
    net = Detector(2)
    net.initialize()
    fill(net, 1, 0.1)
    net.hybridize()
    x = nd.array(normal(2, 4, 3, 32, 32))
    label = nd.array(
        [
            [[0, 0.1, 0.1, 0.5, 0.5]],
            [[1, 0.4, 0.4, 0.9, 0.8]],
            [[0, 0.2, 0.5, 0.6, 1]],
            [[1, 0, 0, 0.4, 0.4]],
        ]
    )
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05, "wd": 5e-4})
    ce = gluon.loss.SoftmaxCrossEntropyLoss()
    losses = []
    for _ in range(20):
        with autograd.record():
            anchors, classes, boxes = net(x)
            with autograd.pause():
                target, mask, ids = nd.contrib.MultiBoxTarget(
                    anchors, label, classes.transpose((0, 2, 1))
                )
            loss = ce(classes, ids) + nd.Custom(
                (boxes - target) * mask, op_type="my_smooth_l1"
            ).mean(axis=1)
        loss.backward()
        trainer.step(4)
        losses.append(loss.mean().asscalar())
    return losses


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
