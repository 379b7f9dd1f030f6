"""A single-shot detector's anchors of two scales, their targets with hard negatives, and what it detects at last."""

import json

import mxnet as mx
import numpy as np
from common import fill, normal
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn


class Detector(nn.Block):
    SIZES, RATIOS = ((0.2, 0.272), (0.37, 0.447)), (1, 2, 0.5)

    def __init__(self, classes, **kwargs):
        super(Detector, self).__init__(**kwargs)
        self._classes = classes
        with self.name_scope():
            self.stages, self.scores, self.boxes = nn.Sequential(), nn.Sequential(), nn.Sequential()
            for channels in (4, 8):
                stage = nn.HybridSequential()
                stage.add(nn.Conv2D(channels, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"))
                stage.add(nn.MaxPool2D(2))
                self.stages.add(stage)
                self.scores.add(nn.Conv2D(4 * (classes + 1), 3, padding=1))
                self.boxes.add(nn.Conv2D(16, 3, padding=1))

    def forward(self, x):
        anchors, scores, boxes = [], [], []
        for k, stage in enumerate(self.stages):
            x = stage(x)
            anchors.append(nd.contrib.MultiBoxPrior(x, sizes=self.SIZES[k], ratios=self.RATIOS))
            scores.append(self.scores[k](x).transpose((0, 2, 3, 1)).flatten())
            boxes.append(self.boxes[k](x).transpose((0, 2, 3, 1)).flatten())
        scores = nd.concat(*scores, dim=1).reshape((0, -1, self._classes + 1))
        return nd.concat(*anchors, dim=1), scores, nd.concat(*boxes, dim=1)


def main():
    net = Detector(2)
    net.initialize(mx.init.Xavier())
    x = nd.array(normal(3, 2, 3, 16, 16))
    net(x)
    fill(net, 1, 0.2)
    labels = nd.array([[[0, 0.1, 0.1, 0.5, 0.5], [1, 0.4, 0.5, 0.9, 1.0]],
                       [[1, 0.4, 0.3, 0.9, 0.8], [-1, -1, -1, -1, -1]]])  # fmt: skip
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "wd": 5e-4})
    entropy, smooth, numbers = gluon.loss.SoftmaxCrossEntropyLoss(), gluon.loss.L1Loss(), []
    for _ in range(10):
        with autograd.record():
            anchors, scores, boxes = net(x)
            offsets, mask, classes = nd.contrib.MultiBoxTarget(
                anchors, labels, scores.transpose((0, 2, 1)), negative_mining_ratio=3,
                negative_mining_thresh=0.5, ignore_label=-1,
            )  # fmt: skip
            kept = (classes >= 0).expand_dims(2)
            loss = entropy(scores, nd.relu(classes), kept) + smooth(boxes * mask, offsets * mask)
        loss.backward()
        trainer.step(2)
        numbers += [loss.mean().asscalar(), (classes > 0).sum().asscalar()]
    found = nd.contrib.MultiBoxDetection(
        nd.softmax(scores).transpose((0, 2, 1)), boxes, anchors, nms_threshold=0.4, threshold=0.1
    )
    return numbers + [(found[:, :, 0] >= 0).sum().asscalar(), np.abs(found.asnumpy()).mean()]


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
