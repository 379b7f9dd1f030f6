"""Small networks of inception, residual and dense blocks: hardly two of their layers have the same shapes."""

import pace
from mxnet import autograd, gluon, np, npx
from mxnet.gluon import nn

npx.set_np()


def sequence(*layers):
    net = nn.Sequential()
    net.add(*layers)
    return net


def convolution(channels, kernel=3, **options):
    return nn.Conv2D(channels, kernel, padding=kernel // 2, **options)


class Inception(nn.Block):
    def __init__(self, one, three, five, pooled):
        super().__init__()
        self.paths = [
            convolution(one, 1, activation="relu"),
            sequence(*(convolution(c, k, activation="relu") for c, k in zip(three, (1, 3)))),
            sequence(*(convolution(c, k, activation="relu") for c, k in zip(five, (1, 5)))),
            sequence(nn.MaxPool2D(3, 1, 1), convolution(pooled, 1, activation="relu")),
        ]
        for path in self.paths:
            self.register_child(path)

    def forward(self, x):
        return np.concatenate([path(x) for path in self.paths], axis=1)


class Residual(nn.Block):
    def __init__(self, channels, strides=1):
        super().__init__()
        self.body = sequence(
            convolution(channels, strides=strides),
            nn.BatchNorm(),
            nn.Activation("relu"),
            convolution(channels),
            nn.BatchNorm(),
        )
        self.along = convolution(channels, 1, strides=strides) if strides > 1 else None

    def forward(self, x):
        return npx.relu(self.body(x) + (x if self.along is None else self.along(x)))


class Dense(nn.Block):
    def __init__(self, layers, growth):
        super().__init__()
        self.body = sequence(
            *(
                sequence(nn.BatchNorm(), nn.Activation("relu"), convolution(growth))
                for _ in range(layers)
            )
        )

    def forward(self, x):
        for layer in self.body:
            x = np.concatenate((x, layer(x)), axis=1)
        return x


def stem():
    return convolution(16), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(3, 2, 1)


NETWORKS = {
    "inception": sequence(
        convolution(16, activation="relu"),
        nn.MaxPool2D(3, 2, 1),
        Inception(16, (12, 16), (4, 8), 8),
        Inception(16, (16, 24), (4, 12), 8),
        nn.MaxPool2D(3, 2, 1),
        Inception(24, (12, 26), (4, 8), 8),
        Inception(20, (14, 28), (6, 12), 8),
        nn.MaxPool2D(3, 2, 1),
        Inception(32, (20, 40), (8, 16), 16),
        nn.GlobalAvgPool2D(),
        nn.Dense(10),
    ),
    "residual": sequence(
        *stem(),
        *(Residual(16) for _ in range(2)),
        *(Residual(c, s) for c in (24, 32, 48) for s in (2, 1)),
        nn.GlobalAvgPool2D(),
        nn.Dense(10),
    ),
    "dense": sequence(
        *stem(),
        Dense(3, 8),
        convolution(20, 1),
        nn.AvgPool2D(2, 2),
        Dense(3, 8),
        convolution(22, 1),
        nn.AvgPool2D(2, 2),
        Dense(3, 8),
        nn.GlobalAvgPool2D(),
        nn.Dense(10),
    ),
}

pictures, labels = pace.digits(64, 32)
batches = gluon.data.DataLoader(gluon.data.ArrayDataset(pictures, labels), 16)
softmax_loss = gluon.loss.SoftmaxCrossEntropyLoss()
found = {}
for name, net in NETWORKS.items():
    net.initialize(pace.Drawn())
    x = np.ones((1, 1, 32, 32))
    for layer in net:
        x = layer(x)
        print(type(layer).__name__, x.shape)
    pace.step("shapes")
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.02})
    for _epoch in range(2):
        for x, y in batches:
            with autograd.record():
                loss = softmax_loss(net(x), y)
            loss.backward()
            trainer.step(x.shape[0])
            found[name] = float(loss.mean())
            pace.step(name)
pace.end(**found)
