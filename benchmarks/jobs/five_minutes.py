"""The first five minutes of README: arrays, gradients, a network that is trained for fifty steps."""

import mxnet as mx
import numpy
import pace
from mxnet import autograd, gluon
from mxnet.gluon import nn

mx.npx.set_np()
x = mx.np.arange(6).reshape(2, 3)
row = x[0]
row[:] = 7
print((x * 2).sum())
w = mx.np.array([1.0, 2.0, 3.0])
w.attach_grad()
with autograd.record():
    loss = (w**2).sum()
loss.backward()
print(w.grad)
pace.step("arrays")

data = mx.np.array(numpy.random.RandomState(0).randn(256, 10).astype("float32"))
label = (data.sum(axis=1) > 0).astype("int32")
net = nn.Sequential()
net.add(nn.Dense(32, activation="relu"), nn.Dense(2))
net.initialize(pace.Drawn())
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
for epoch in range(50):
    with autograd.record():
        loss = loss_of(net(data), label)
    loss.backward()
    trainer.step(len(data))
    pace.step()
accuracy = (net(data).argmax(axis=1) == label).mean()
print(f"loss {loss.mean().item():.3f}, accuracy {accuracy.item():.2f}")
pace.end(loss=loss.mean(), accuracy=accuracy)
