"""A convolutional network trained on pictures with Gluon: read by type checkers, not run."""

from typing import assert_type

import numpy as onp

import mxjax as mx
from mxjax import autograd, gluon, np
from mxjax.gluon import nn
from mxjax.gluon.data.vision import transforms


def network(classes: int) -> nn.HybridSequential:
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(16, kernel_size=3, activation="relu"),
        nn.MaxPool2D(2),
        nn.BatchNorm(),
        nn.GlobalAvgPool2D(),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Dense(classes),
    )
    net.initialize(mx.init.Xavier(), device=mx.cpu())
    net.hybridize()
    return net


def batches(folder: str) -> gluon.data.DataLoader:
    steps = transforms.Compose([transforms.Resize(32), transforms.ToTensor()])
    data = gluon.data.vision.ImageFolderDataset(folder)
    return gluon.data.DataLoader(data.transform_first(steps), batch_size=32, shuffle=True)


def train(net: nn.HybridSequential, loader: gluon.data.DataLoader, epochs: int = 2) -> float:
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    metric = gluon.metric.Accuracy()
    total = 0.0
    for _ in range(epochs):
        for data, label in loader:
            with autograd.record():
                out = net(np.array(data))
                loss = loss_of(out, np.array(label))
            loss.backward()
            trainer.step(32)
            metric.update([np.array(label)], [out])
            assert_type(out, np.ndarray)
            assert_type(loss.mean(), np.ndarray)
            total += float(loss.mean().item())
    name, value = metric.get()
    print(name, value)
    return total


def predict(net: nn.HybridSequential, picture: onp.ndarray) -> int:
    x = np.expand_dims(np.array(picture), axis=0)
    assert_type(x, np.ndarray)
    return int(np.argmax(net(x), axis=1)[0].item())
