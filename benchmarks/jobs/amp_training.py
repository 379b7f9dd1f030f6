"""Mixed precision: amp with a scaled loss, on a small residual network of Gluon."""

import mxnet as mx
import pace
from mxnet import autograd, gluon, nd
from mxnet.contrib import amp
from mxnet.gluon import nn

amp.init(target_dtype="bfloat16")
mx.random.seed(0)
pictures, labels = pace.digits(480, side=16)
train = gluon.data.DataLoader(gluon.data.ArrayDataset(pictures, labels), batch_size=32)


class Residual(gluon.HybridBlock):
    def __init__(self, channels, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.body = nn.HybridSequential()
            self.body.add(nn.Conv2D(channels, 3, padding=1, in_channels=channels), nn.BatchNorm())
            self.body.add(
                nn.Activation("relu"), nn.Conv2D(channels, 3, padding=1, in_channels=channels)
            )

    def hybrid_forward(self, F, x):
        return F.Activation(x + self.body(x), act_type="relu")


net = nn.HybridSequential()
with net.name_scope():
    net.add(nn.Conv2D(16, 3, strides=2, padding=1), Residual(16), nn.MaxPool2D(), Residual(16))
    net.add(nn.GlobalAvgPool2D(), nn.Dense(10))
net.initialize(pace.Drawn())
net.hybridize()
trainer = gluon.Trainer(
    net.collect_params(), "sgd", {"learning_rate": 0.05, "momentum": 0.9, "multi_precision": True}
)
amp.init_trainer(trainer)
loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
metric = mx.metric.Accuracy()
for epoch in range(3):
    total = 0.0
    metric.reset()
    for x, y in train:
        with autograd.record():
            scores = net(x)
            loss = loss_of(scores, y)
            with amp.scale_loss(loss, trainer) as scaled:
                autograd.backward(scaled)
        trainer.step(x.shape[0])
        total += loss.mean().asscalar()
        metric.update(y, scores)
        pace.step()
    print(epoch, total / len(train), metric.get())
pace.end(
    loss=total / len(train),
    finite=float(nd.contrib.isfinite(scores.astype("float32")).min().asscalar()),
)
