"""A trained ResNet gets a new output: its body stays as it is at first; then all of it is trained a little."""

from images import shapes

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.gluon import nn
from mxjax.gluon.model_zoo import vision


def accuracy(net, x, y):
    return (net(x).argmax(axis=1) == y).mean().item()


def train(net, params, x, y, rate, epochs):
    trainer = gluon.Trainer(params, "adam", {"learning_rate": rate})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    for _ in range(epochs):
        for a, b in gluon.data.DataLoader(gluon.data.ArrayDataset(x, y), 32, shuffle=True):
            with autograd.record():
                loss = loss_of(net(a), b)
            loss.backward()
            trainer.step(len(a))


def main():
    mx.random.seed(0)
    x, y = (mx.np.array(a, dtype=a.dtype) for a in shapes(384))
    test_x, test_y = (mx.np.array(a, dtype=a.dtype) for a in shapes(128, seed=1))
    x, test_x = (a.repeat(3, axis=1) for a in (x, test_x))
    old = vision.ResNetV1(vision.BasicBlockV1, [1, 1], [16, 16, 32], classes=2, thumbnail=True)
    # With a file of weights: vision.get_model("resnet18_v1", pretrained="resnet18.safetensors")
    old.initialize(mx.init.Xavier())
    old.hybridize()
    train(
        old, old.collect_params(), x, (y == 2).astype("int32"), 3e-3, 2
    )  # what stands for "trained elsewhere"

    net = nn.HybridSequential()
    net.add(old.features, nn.Dense(3))
    net[1].initialize(mx.init.Xavier())
    net.hybridize()
    old.features.setattr("grad_req", "null")
    train(net, net[1].collect_params(), x, y, 1e-2, 3)
    print(f"the output alone: {accuracy(net, test_x, test_y):.3f}")
    old.features.setattr("grad_req", "write")
    train(net, net.collect_params(), x, y, 2e-3, 4)
    print(f"all of it: {accuracy(net, test_x, test_y):.3f}")
    assert accuracy(net, test_x, test_y) > 0.85


if __name__ == "__main__":
    main()
