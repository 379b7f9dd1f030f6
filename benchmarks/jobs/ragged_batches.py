"""A small convolution network whose last batch is shorter, evaluated after each epoch in batches of another size."""

import pace
from mxnet import autograd, gluon, np, npx
from mxnet.gluon import nn

npx.set_np()
pictures, labels = pace.digits(32 * 6 + 17)
held_out, wanted = pace.digits(64 + 9, seed=1)
net = nn.HybridSequential()
net.add(
    nn.Conv2D(6, 5, padding=2, activation="tanh"), nn.AvgPool2D(2, 2),
    nn.Conv2D(16, 5, activation="tanh"), nn.AvgPool2D(2, 2),
    nn.Dense(84, activation="tanh"), nn.Dense(10),
)  # fmt: skip
net.initialize(pace.Drawn())
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05})
loss_of = gluon.loss.SoftmaxCrossEntropyLoss()


def right(scores, y):
    return float((scores.argmax(axis=1).astype("float32") == y).sum())


for _ in range(4):
    total = [0.0, 0.0, 0]  # loss, right ones, pictures
    for i in range(0, len(pictures), 32):
        x, y = np.array(pictures[i : i + 32]), np.array(labels[i : i + 32])
        with autograd.record():
            scores = net(x)
            loss = loss_of(scores, y)
        loss.backward()
        trainer.step(len(x))
        for k, value in enumerate((float(loss.sum()), right(scores, y), len(x))):
            total[k] += value
        pace.step()
    found = 0.0
    for i in range(0, len(held_out), 64):
        found += right(net(np.array(held_out[i : i + 64])), np.array(wanted[i : i + 64]))
        pace.step()
pace.end(loss=total[0] / total[2], accuracy=total[1] / total[2], held_out=found / len(held_out))
