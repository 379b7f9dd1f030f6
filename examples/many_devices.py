"""One program over several GPUs, or four CPUs in their place: a mesh cuts the batch, the weights are on all of them."""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")  # in place of GPUs

from images import shapes  # noqa: E402

import mxjax as mx  # noqa: E402
from mxjax import autograd, gluon  # noqa: E402
from mxjax.gluon import nn  # noqa: E402


def main():
    mx.random.seed(0)
    gpus = mx.num_gpus()
    devices = [mx.gpu(i) for i in range(gpus)] if gpus > 1 else [mx.cpu(i) for i in range(4)]
    mesh = mx.mesh(data=len(devices), devices=devices)
    net = nn.HybridSequential()
    net.add(nn.Dense(64, activation="relu", in_units=256), nn.Dense(3, in_units=64))
    net.initialize(mx.init.Xavier())
    net.shard(mesh)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 3e-3}, kvstore=mesh)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    x, y = shapes(2048)
    loader = gluon.data.DataLoader(gluon.data.ArrayDataset(x.reshape(-1, 256), y), 64, shuffle=True)
    for epoch in range(15):
        total = 0.0
        for a, b in loader:
            (a,), (b,) = gluon.utils.split_and_load(a, mesh), gluon.utils.split_and_load(b, mesh)
            with autograd.record():
                loss = loss_of(net(a), b)
            loss.backward()
            trainer.step(64)
            total += loss.mean().item()
        if epoch % 5 == 4:
            print(f"epoch {epoch}: {total / len(loader):.3f}")
    weight = net[0].weight.data()
    print(weight.device, weight.jax.sharding)
    assert len(weight.jax.sharding.device_set) == len(devices) and total / len(loader) < 0.5


if __name__ == "__main__":
    main()
