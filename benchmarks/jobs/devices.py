"""Data parallel training on four devices: split batches, copies of weights, sums of gradients."""

import mxnet as mx
import numpy
import pace
from mxnet import autograd, gluon
from mxnet.gluon import nn

mx.random.seed(0)
contexts = [mx.cpu(i) for i in range(4)]
net = nn.HybridSequential()
net.add(nn.Conv2D(8, 3, activation="relu"), nn.MaxPool2D(), nn.BatchNorm(), nn.Dense(10))
net.initialize(pace.Drawn(), ctx=contexts)
net.hybridize()
trainer = gluon.Trainer(
    net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9}, kvstore="device"
)
loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
pictures, labels = pace.digits(128, side=16)
x, y = mx.nd.array(pictures), mx.nd.array(labels)
metric = mx.metric.Accuracy()
for epoch in range(20):
    xs, ys = gluon.utils.split_and_load(x, contexts), gluon.utils.split_and_load(y, contexts)
    with autograd.record():
        scores = [net(part) for part in xs]
        losses = [loss_of(s, part) for s, part in zip(scores, ys)]
    for loss in losses:
        loss.backward()
    trainer.step(128)
    metric.update(ys, scores)
    mx.nd.waitall()
    pace.step()
weights = [d.asnumpy() for d in net[0].weight.list_data()]
total = sum(loss.sum().asscalar() for loss in losses) / 128
print(metric.get(), total)
pace.end(
    accuracy=metric.get()[1],
    loss=total,
    apart=max(numpy.abs(w - weights[0]).max() for w in weights),
)
