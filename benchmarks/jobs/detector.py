"""A single-shot detector: records of pictures with boxes, anchors, targets, suppression of overlaps."""

import os
import tempfile

import mxnet as mx
import numpy
import pace
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

mx.random.seed(0)
numpy.random.seed(0)


def write_records(path, count=24):
    rng = numpy.random.RandomState(0)
    writer = mx.recordio.MXIndexedRecordIO(path + ".idx", path + ".rec", "w")
    for i in range(count):
        picture = rng.randint(0, 60, (80, 80, 3)).astype("uint8")
        x, y, s = rng.randint(4, 30), rng.randint(4, 30), rng.randint(20, 44)
        picture[y : y + s, x : x + s, i % 2] = 220
        label = [2, 5, i % 2, x / 80, y / 80, (x + s) / 80, (y + s) / 80]
        header = mx.recordio.IRHeader(0, numpy.array(label, "float32"), i, 0)
        writer.write_idx(i, mx.recordio.pack(header, pace.jpeg(picture)))
    writer.close()


def down(channels):
    block = nn.HybridSequential()
    for _ in range(2):
        block.add(nn.Conv2D(channels, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"))
    block.add(nn.MaxPool2D(2))
    return block


class Detector(gluon.Block):
    sizes = [[0.2, 0.27], [0.37, 0.45], [0.54, 0.62]]

    def __init__(self, kinds, **kwargs):
        super().__init__(**kwargs)
        self.kinds = kinds
        with self.name_scope():
            self.stages = nn.Sequential()
            first = nn.HybridSequential()
            first.add(down(8), down(16))
            self.stages.add(first, down(16), down(32))
            self.scores, self.boxes = nn.Sequential(), nn.Sequential()
            for _ in range(3):
                self.scores.add(nn.Conv2D(4 * (kinds + 1), 3, padding=1))
                self.boxes.add(nn.Conv2D(16, 3, padding=1))

    def forward(self, x):
        anchors, scores, boxes = [], [], []
        for k in range(3):
            x = self.stages[k](x)
            anchors.append(nd.contrib.MultiBoxPrior(x, sizes=self.sizes[k], ratios=[1, 2, 0.5]))
            scores.append(nd.flatten(nd.transpose(self.scores[k](x), (0, 2, 3, 1))))
            boxes.append(nd.flatten(nd.transpose(self.boxes[k](x), (0, 2, 3, 1))))
        scores = nd.concat(*scores, dim=1).reshape((0, -1, self.kinds + 1))
        return nd.concat(*anchors, dim=1), scores, nd.concat(*boxes, dim=1)


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "boxes")
    write_records(path)
    records = mx.image.ImageDetIter(
        batch_size=8, data_shape=(3, 64, 64), path_imgrec=path + ".rec", path_imgidx=path + ".idx", shuffle=True,
        rand_mirror=True, mean=True, std=True, rand_crop=0.5, min_object_covered=0.7,
    )  # fmt: skip
    net = Detector(2)
    net.initialize(pace.Drawn())
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.003})
    class_loss, box_loss = gluon.loss.SoftmaxCrossEntropyLoss(), gluon.loss.L1Loss()
    losses = []
    for epoch in range(6):
        records.reset()
        total = 0.0
        for batch in records:
            x, y = batch.data[0], batch.label[0]
            with autograd.record():
                anchors, scores, boxes = net(x)
                box_target, box_mask, target = nd.contrib.MultiBoxTarget(
                    anchors, y, scores.transpose((0, 2, 1))
                )
                loss = class_loss(scores, target) + box_loss(
                    boxes * box_mask, box_target * box_mask
                )
            loss.backward()
            trainer.step(8)
            total += loss.mean().asscalar()
            pace.step()
        losses.append(total / 3)
        print(epoch, losses[-1])
    records.reset()
    anchors, scores, boxes = net(records.next().data[0])
    found = nd.contrib.MultiBoxDetection(
        nd.softmax(scores).transpose((0, 2, 1)), boxes, anchors, nms_threshold=0.5
    )
    kept = nd.contrib.box_nms(
        found, overlap_thresh=0.3, topk=10, coord_start=2, score_index=1, id_index=0
    )
    count = (kept[:, :, 0] >= 0).sum().asscalar()
pace.end(better=losses[-1] < losses[0], found=count > 0)
