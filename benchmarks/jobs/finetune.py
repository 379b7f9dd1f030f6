"""Fine-tuning a network of the model zoo on a folder of pictures, with an Estimator that stops early."""

import os
import tempfile
import warnings

import mxnet as mx
import numpy
import pace
from mxnet import gluon
from mxnet.gluon.contrib.estimator import (
    BatchEnd,
    CheckpointHandler,
    EarlyStoppingHandler,
    Estimator,
)
from mxnet.gluon.data.vision import ImageFolderDataset, transforms
from mxnet.gluon.model_zoo import vision

warnings.filterwarnings("ignore")
mx.random.seed(0)
numpy.random.seed(0)
mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
train_transform = transforms.Compose([
    transforms.RandomResizedCrop(64), transforms.RandomFlipLeftRight(),
    transforms.RandomColorJitter(brightness=0.2, contrast=0.2, saturation=0.2), transforms.RandomLighting(0.1),
    transforms.ToTensor(), transforms.Normalize(mean, std),
])  # fmt: skip
val_transform = transforms.Compose(
    [
        transforms.Resize(72),
        transforms.CenterCrop(64),
        transforms.ToTensor(),
        transforms.Normalize(mean, std),
    ]
)


class Pace(BatchEnd):
    def batch_end(self, estimator, *args, **kwargs):
        pace.step()


with tempfile.TemporaryDirectory() as folder:
    pace.photos(os.path.join(folder, "train"), 16)
    pace.photos(os.path.join(folder, "val"), 8, seed=1)
    train = ImageFolderDataset(os.path.join(folder, "train")).transform_first(train_transform)
    val = ImageFolderDataset(os.path.join(folder, "val")).transform_first(val_transform)
    train = gluon.data.DataLoader(train, batch_size=12, shuffle=True, last_batch="discard")
    val = gluon.data.DataLoader(val, batch_size=12)

    base = vision.resnet18_v1(classes=100)
    base.initialize(pace.Drawn())
    base(mx.nd.zeros((1, 3, 64, 64)))
    base.save_parameters(os.path.join(folder, "base.params"))
    pace.step("made")

    pretrained = vision.resnet18_v1(classes=100)
    pretrained.load_parameters(os.path.join(folder, "base.params"), ctx=mx.cpu())
    net = vision.resnet18_v1(classes=3)
    net.features = pretrained.features
    net.output.initialize(pace.Drawn())
    net.output.collect_params().setattr("lr_mult", 10)
    net.hybridize(static_alloc=True, static_shape=True)
    trainer = gluon.Trainer(
        net.collect_params(), "sgd", {"learning_rate": 0.002, "momentum": 0.9, "wd": 1e-4}
    )
    # What chance decides (crops, order) differs from MXNet's; three steps on pictures that it does not touch agree.
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    pictures, kinds = next(iter(val))
    losses = []
    for _ in range(3):
        with mx.autograd.record():
            found = loss(net(pictures), kinds).mean()
        found.backward()
        trainer.step(1)
        losses.append(found.asscalar())
        pace.step()
    estimator = Estimator(
        net,
        loss,
        train_metrics=mx.metric.Accuracy(),
        trainer=trainer,
        context=mx.cpu(),
    )
    watched = estimator.val_metrics[0]
    handlers = [
        EarlyStoppingHandler(monitor=watched, patience=3, mode="max"),
        CheckpointHandler(folder, model_prefix="best", monitor=watched, save_best=True, mode="max"),
        Pace(),
    ]
    estimator.fit(train, val_data=val, epochs=4, event_handlers=handlers)
    kept = [f for f in os.listdir(folder) if f.startswith("best")]
    net.export(os.path.join(folder, "out"), epoch=1)
    again = mx.mod.Module.load(os.path.join(folder, "out"), 1, label_names=None)
    again.bind(for_training=False, data_shapes=[("data", (2, 3, 64, 64))])
    x = mx.nd.ones((2, 3, 64, 64))
    again.forward(mx.io.DataBatch([x]), is_train=False)
    difference = (again.get_outputs()[0] - net(x)).abs().max().asscalar()
print("accuracy", watched.get()[1])
pace.end(
    first=losses[0], second=losses[1], third=losses[2], kept=len(kept) > 0, close=difference < 1e-2
)
