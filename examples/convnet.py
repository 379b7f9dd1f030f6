"""A convolutional network in Gluon: imperative, then hybridized, with a loader, a schedule and a checkpoint."""

import tempfile

from images import shapes

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.gluon import nn


def network():
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(16, 3, padding=1, activation="relu"), nn.MaxPool2D(2),
        nn.Conv2D(32, 3, padding=1, activation="relu"), nn.MaxPool2D(2),
        nn.Dense(32, activation="relu"), nn.Dropout(0.2), nn.Dense(3),
    )  # fmt: skip
    return net


def main():
    mx.random.seed(0)
    train = gluon.data.ArrayDataset(*shapes(1024))
    test = gluon.data.ArrayDataset(*shapes(256, seed=1))
    net = network()
    net.initialize(mx.init.Xavier())
    net.hybridize()  # without this line the same, a little slower
    schedule = mx.lr_scheduler.CosineScheduler(max_update=160, base_lr=3e-3, final_lr=1e-4)
    trainer = gluon.Trainer(
        net.collect_params(), "adam", {"learning_rate": 3e-3, "lr_scheduler": schedule}
    )
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    for epoch in range(5):
        total = mx.gluon.metric.Loss()
        for x, y in gluon.data.DataLoader(train, 32, shuffle=True):
            with autograd.record():
                loss = loss_of(net(x), y)
            loss.backward()
            trainer.step(len(x))
            total.update(None, loss)
        print(f"epoch {epoch}: {total.get()[1]:.3f}")
    accuracy = mx.gluon.metric.Accuracy()
    for x, y in gluon.data.DataLoader(test, 128):
        accuracy.update(y, net(x))
    print(f"accuracy {accuracy.get()[1]:.3f}")
    with tempfile.TemporaryDirectory() as folder:
        net.save_parameters(f"{folder}/net.params")
        again = network()
        again.load_parameters(f"{folder}/net.params")
        assert mx.np.allclose(again(x), net(x), rtol=1e-4, atol=1e-5)
    assert accuracy.get()[1] > 0.9


if __name__ == "__main__":
    main()
