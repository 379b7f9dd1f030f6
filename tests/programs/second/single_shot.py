"""A detector of a book's kind: anchors, targets and detections by the operators of boxes, losses and scores printed in round numbers."""

import json

import numpy as onp
from common import fill, normal
from mxnet import autograd, gluon, np, npx
from mxnet.gluon import nn

npx.set_np()
SIZES, RATIOS = ([0.2, 0.272], [0.37, 0.447], [0.54, 0.619]), [1, 2, 0.5]


def flat(x):
    return npx.batch_flatten(x.transpose(0, 2, 3, 1))


class Detector(nn.Block):
    def __init__(self, kinds):
        super().__init__()
        self.kinds = kinds
        for k in range(len(SIZES)):
            scale = nn.Sequential()
            scale.add(
                nn.Conv2D(4, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(2)
            )
            setattr(self, f"scale_{k}", scale)
            setattr(self, f"kinds_{k}", nn.Conv2D(4 * (kinds + 1), 3, padding=1))
            setattr(self, f"boxes_{k}", nn.Conv2D(16, 3, padding=1))

    def forward(self, x):
        anchors, kinds, boxes = [], [], []
        for k, sizes in enumerate(SIZES):
            x = getattr(self, f"scale_{k}")(x)
            anchors.append(npx.multibox_prior(x, sizes=sizes, ratios=RATIOS))
            kinds.append(flat(getattr(self, f"kinds_{k}")(x)))
            boxes.append(flat(getattr(self, f"boxes_{k}")(x)))
        kinds = np.concatenate(kinds, axis=1).reshape(x.shape[0], -1, self.kinds + 1)
        return np.concatenate(anchors, axis=1), kinds, np.concatenate(boxes, axis=1)


def main():
    net = Detector(1)
    net.initialize()
    images = np.array(normal(5, 2, 3, 32, 32))
    net(images)
    fill(net, 1)
    labels = np.array([[[0, 0.1, 0.1, 0.5, 0.6]], [[0, 0.4, 0.3, 0.9, 0.8]]])
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.2, "wd": 5e-4})
    of_kinds, of_boxes = gluon.loss.SoftmaxCELoss(), gluon.loss.L1Loss()
    numbers = []
    for _ in range(8):
        with autograd.record():
            anchors, kinds, boxes = net(images)
            wanted, mask, classes = npx.multibox_target(anchors, labels, kinds.transpose(0, 2, 1))
            loss = of_kinds(kinds, classes) + of_boxes(boxes * mask, wanted * mask)
        loss.backward()
        trainer.step(2)
        right = float((kinds.argmax(axis=-1).astype(classes.dtype) == classes).sum())
        numbers += [right, *map(float, loss)]
    anchors, kinds, boxes = net(images)
    found = npx.multibox_detection(npx.softmax(kinds).transpose(0, 2, 1), boxes, anchors)
    there = [k for k, row in enumerate(found[0]) if row[0] != -1]
    return [*numbers, len(there), *onp.ravel(found[0, there[:3]].round(2).asnumpy())]


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
