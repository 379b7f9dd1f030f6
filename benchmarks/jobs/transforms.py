"""The usual transforms of photographs in a DataLoader: decoding, cutting, colours, normalising; no network."""

import tempfile

import mxnet as mx
import numpy
import pace
from mxnet import gluon
from mxnet.gluon.data.vision import ImageFolderDataset, transforms

mx.random.seed(0)
numpy.random.seed(0)
train_transform = transforms.Compose([
    transforms.RandomResizedCrop(56),
    transforms.RandomFlipLeftRight(),
    transforms.RandomColorJitter(brightness=0.3, contrast=0.3, saturation=0.3, hue=0.1),
    transforms.RandomLighting(0.1),
    transforms.ToTensor(),
    transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
])  # fmt: skip
val_transform = transforms.Compose([
    transforms.Resize(64, keep_ratio=True),
    transforms.CenterCrop(56),
    transforms.ToTensor(),
    transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
])  # fmt: skip
with tempfile.TemporaryDirectory() as folder:
    pace.photos(folder, 20)
    data = ImageFolderDataset(folder)
    loader = gluon.data.DataLoader(
        data.transform_first(train_transform), batch_size=12, shuffle=True
    )
    plain = gluon.data.DataLoader(data.transform_first(val_transform), batch_size=12)
    for epoch in range(3):
        total, count = 0.0, 0
        for x, y in loader:
            total += x.mean().asscalar() * x.shape[0]
            count += x.shape[0]
            pace.step()
        print(epoch, total / count, x.shape, x.dtype, y.dtype)
    held = [x.asnumpy() for x, _ in plain]
pace.end(mean=numpy.concatenate(held).mean(), std=numpy.concatenate(held).std(), count=count)
