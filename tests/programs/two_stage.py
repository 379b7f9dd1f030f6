"""A detector of two stages: proposals from a small network over anchors, regions cut by ROIAlign, two heads."""

import mxnet as mx
import numpy as np
from common import fill, normal
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

CLASSES, KEPT = 3, 6


class Proposals(gluon.HybridBlock):
    def __init__(self, channels, anchors, **kwargs):
        super(Proposals, self).__init__(**kwargs)
        with self.name_scope():
            self.conv = nn.Conv2D(channels, 3, 1, 1, activation="relu")
            self.score = nn.Conv2D(anchors, 1)
            self.loc = nn.Conv2D(anchors * 4, 1)

    def hybrid_forward(self, F, x):
        x = self.conv(x)
        raw = F.transpose(self.score(x), axes=(0, 2, 3, 1)).reshape((0, -1, 1))
        loc = F.transpose(self.loc(x), axes=(0, 2, 3, 1)).reshape((0, -1, 4))
        return F.sigmoid(F.stop_gradient(raw)), raw, F.stop_gradient(loc), loc


class Detector(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super(Detector, self).__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="feat_")
            with self.features.name_scope():
                self.features.add(
                    nn.Conv2D(8, 3, 2, 1, activation="relu"),
                    nn.BatchNorm(use_global_stats=True),
                    nn.Conv2D(8, 3, 2, 1, activation="relu"),
                )
            self.proposals = Proposals(8, 3, prefix="rpn_")
            self.top = nn.Dense(16, activation="relu")
            self.classes = nn.Dense(CLASSES + 1)
            self.boxes = nn.Dense(4 * CLASSES)

    def hybrid_forward(self, F, x, anchors):
        features = self.features(x)
        score, raw, fixed, loc = self.proposals(features)
        with autograd.pause():
            boxes = F.contrib.box_decode(fixed, anchors, 1.0, 1.0, 1.0, 1.0, format="corner")
            kept = F.contrib.box_nms(
                F.concat(score, boxes, dim=-1), overlap_thresh=0.7, valid_thresh=0, topk=20,
                coord_start=1, score_index=0, id_index=-1,
            )  # fmt: skip
            kept = F.slice_axis(
                F.slice_axis(kept, axis=1, begin=0, end=KEPT), axis=-1, begin=1, end=None
            )
            which = F.repeat(F.arange(0, 2).reshape((-1, 1)), KEPT, axis=0)
            regions = F.stop_gradient(F.concat(which, kept.reshape((-3, 0)), dim=-1))
        cut = F.contrib.ROIAlign(features, regions, (3, 3), 0.25, sample_ratio=2)
        top = self.top(cut)
        classes = self.classes(top).reshape((2, KEPT, CLASSES + 1))
        return classes, self.boxes(top).reshape((2, KEPT, CLASSES, 4)), raw, loc


def main():
    rng = np.random.RandomState(3)
    anchors = rng.uniform(0, 10, size=(1, 8 * 8 * 3, 4))
    anchors[..., 2:] += anchors[..., :2] + 8
    anchors, x = nd.array(anchors), nd.array(normal(4, 2, 3, 32, 32))
    net = Detector(prefix="two_")
    net.initialize(mx.init.Normal(0.01))
    net(x, anchors)
    fill(net, 5)
    trained = net.collect_params(".*rpn|.*dense|.*conv")
    trainer = gluon.Trainer(trained, "sgd", {"learning_rate": 0.01, "wd": 1e-4, "momentum": 0.9})
    entropy = gluon.loss.SoftmaxCrossEntropyLoss()
    huber, binary = gluon.loss.HuberLoss(), gluon.loss.SigmoidBinaryCrossEntropyLoss()
    labels = nd.array(np.arange(2 * KEPT).reshape(2, KEPT) % (CLASSES + 1))
    found = []
    for step in range(8):
        if step == 4:
            net.hybridize(static_alloc=True)
        with autograd.record():
            classes, boxes, raw, loc = net(x, anchors)
            loss = entropy(classes, labels, nd.expand_dims(labels > 0, -1))
            loss = loss + huber(boxes, nd.ones_like(boxes), labels.reshape((2, KEPT, 1, 1)) > 1)
            loss = loss + binary(raw, raw > 0) + loc.square().mean()
        loss.backward()
        grads = [p.grad() for p in net.collect_params().values() if p.grad_req != "null"]
        norm = gluon.utils.clip_global_norm(grads, 1.0)
        trainer.step(2)
        found += [*loss.asnumpy(), norm]
    return found
