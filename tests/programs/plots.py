"""What a notebook's cells do: train, gather, and plot curves and weights; numbers alone where there is no matplotlib."""

import json

import numpy as np
from common import fill, normal
from mxnet import autograd, gluon, nd


def plot(losses, weight):
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(6, 3))
    axes[0].plot(nd.arange(len(losses)).asnumpy(), losses, label="loss")
    axes[0].legend()
    axes[1].imshow(weight.asnumpy(), cmap="gray")
    plt.close(fig)


def main():
    x = nd.array(normal(150, 32, 2))
    y = nd.dot(x, nd.array([[2], [-3.4]])) + 4.2
    net = gluon.nn.Sequential()
    net.add(gluon.nn.Dense(1, in_units=2))
    net.initialize()
    fill(net, 151)
    trainer, l2 = (
        gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.3}),
        gluon.loss.L2Loss(),
    )
    losses = []
    for epoch in range(5):
        for k in range(0, 32, 8):
            with autograd.record():
                loss = l2(net(x[k : k + 8]), y[k : k + 8])
            loss.backward()
            trainer.step(8)
            losses.append(np.mean(loss.asnumpy()))
    plot(losses, net[0].weight.data())
    return losses


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
