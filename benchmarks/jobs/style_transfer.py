"""Style transfer: a picture is the parameter; layers of a fixed network compare it with two others."""

import numpy
import pace
from mxnet import autograd, gluon, np, npx
from mxnet.gluon import nn

npx.set_np()
net = nn.Sequential()
for channels in (8, 8, 16, 16, 32):
    net.add(nn.Conv2D(channels, 3, padding=1, activation="relu"))
    if channels < 32:
        net.add(nn.AvgPool2D(2, 2))
net.initialize(pace.Drawn())
STYLE, CONTENT = (0, 2, 4), (6,)


def seen(x):
    """What the layers of style and those of content give."""
    made = []
    for layer in net:
        x = layer(x)
        made.append(x)
    return [made[k] for k in STYLE], [made[k] for k in CONTENT]


def gram(x):
    rows = x.reshape((x.shape[1], -1))
    return np.dot(rows, rows.T) / x.size


def roughness(x):
    return (
        np.abs(x[:, :, 1:, :] - x[:, :, :-1, :]).mean()
        + np.abs(x[:, :, :, 1:] - x[:, :, :, :-1]).mean()
    )


class Picture(nn.Block):
    def __init__(self, shape):
        super().__init__()
        self.weight = gluon.Parameter("weight", shape=shape)

    def forward(self):
        return self.weight.data()


drawn = numpy.random.RandomState(0).rand(2, 1, 3, 64, 96).astype("float32")
content = seen(np.array(drawn[0]))[1]
style = [gram(x) for x in seen(np.array(drawn[1]))[0]]
picture = Picture(drawn[0].shape)
picture.initialize(pace.Drawn())
picture.weight.set_data(np.array(drawn[0]))
trainer = gluon.Trainer(picture.collect_params(), "adam", {"learning_rate": 0.02})
for epoch in range(40):
    with autograd.record():
        x = picture()
        of_style, of_content = seen(x)
        near = sum(np.square(a - b).mean() for a, b in zip(of_content, content))
        alike = sum(np.square(gram(a) - b).mean() for a, b in zip(of_style, style))
        loss = near + 1e3 * alike + 0.1 * roughness(x)
    loss.backward()
    trainer.step(1)
    if (epoch + 1) % 5 == 0:
        last = float(loss)
    if (epoch + 1) % 20 == 0:
        trainer.set_learning_rate(trainer.learning_rate * 0.8)
    pace.step()
pace.end(loss=last, mean=float(picture.weight.data().mean()))
