"""A digit classifier in Gluon of MXNet 2: a data set with a transform, a hybridized network, metrics, files."""

import os
import tempfile

import mxnet as mx
import pace
from mxnet import autograd, gluon, np, npx
from mxnet.gluon import nn
from mxnet.gluon.data.vision import transforms

npx.set_np()
mx.np.random.seed(0)
pictures, labels = pace.digits(960)
as_bytes = (pictures.transpose(0, 2, 3, 1).clip(0, 1) * 255).astype("uint8")
transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize(0.3, 0.3)])
data = gluon.data.ArrayDataset(
    [np.array(p, dtype="uint8") for p in as_bytes], labels.astype("int32")
)
train = gluon.data.DataLoader(
    data.take(800).transform_first(transform), batch_size=32, shuffle=False
)
val = gluon.data.DataLoader(
    data.sample(gluon.data.SequentialSampler(160)).transform_first(transform), 80
)

net = nn.HybridSequential()
net.add(nn.Conv2D(8, 5, activation="relu"), nn.MaxPool2D(2, 2))
net.add(nn.Conv2D(16, 3, activation="relu"), nn.MaxPool2D(2, 2))
net.add(nn.Flatten(), nn.Dense(64, activation="relu"), nn.Dropout(0.0), nn.Dense(10))
net.initialize(pace.Drawn())
net.hybridize()
loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
schedule = mx.lr_scheduler.FactorScheduler(step=30, factor=0.8, base_lr=0.003)
trainer = gluon.Trainer(net.collect_params(), "adam", {"wd": 1e-4, "lr_scheduler": schedule})
accuracy, mean = gluon.metric.Accuracy(), gluon.metric.Loss()
for epoch in range(3):
    accuracy.reset()
    mean.reset()
    for x, y in train:
        with autograd.record():
            scores = net(x)
            loss = loss_of(scores, y)
        loss.backward()
        trainer.step(x.shape[0])
        accuracy.update(y, scores)
        mean.update(0, loss)
        pace.step()
    print(epoch, accuracy.get(), mean.get())
    accuracy.reset()
    for x, y in val:
        accuracy.update(y, net(x))
        pace.step()
    print("validation", accuracy.get())
with tempfile.TemporaryDirectory() as folder:
    net.export(os.path.join(folder, "digits"), epoch=3)
    again = gluon.SymbolBlock.imports(
        os.path.join(folder, "digits-symbol.json"),
        ["data"],
        os.path.join(folder, "digits-0003.params"),
    )
    difference = np.abs(again(x) - net(x)).max()
pace.end(loss=mean.get()[1], accuracy=accuracy.get()[1], difference=difference)
