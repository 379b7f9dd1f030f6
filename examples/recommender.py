"""Matrix factorization: ratings are products of embeddings, whose gradients are row-sparse."""

import numpy as np

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.gluon import nn


class Factorization(gluon.HybridBlock):
    def __init__(self, users, items, size=8):
        super().__init__()
        self.users = nn.Embedding(users, size, sparse_grad=True)
        self.items = nn.Embedding(items, size, sparse_grad=True)

    def forward(self, user, item):
        return (self.users(user) * self.items(item)).sum(axis=1)


def main():
    mx.random.seed(0)
    draw = np.random.RandomState(0)
    true = draw.standard_normal((200, 4)) @ draw.standard_normal((4, 100)) / 2
    user, item = draw.randint(0, 200, 8000), draw.randint(0, 100, 8000)
    rating = (true[user, item] + 0.05 * draw.standard_normal(8000)).astype("float32")
    data = gluon.data.ArrayDataset(user.astype("int32"), item.astype("int32"), rating)
    net = Factorization(200, 100)
    net.initialize(mx.init.Normal(0.3))
    trainer = gluon.Trainer(
        net.collect_params(), "adam", {"learning_rate": 0.02, "lazy_update": True}
    )
    loss_of = gluon.loss.L2Loss()
    for epoch in range(12):
        total = 0.0
        for u, i, r in gluon.data.DataLoader(data, 256, shuffle=True):
            with autograd.record():
                loss = loss_of(net(u, i), r)
            loss.backward()
            trainer.step(len(u))
            total += loss.sum().item()
        print(f"epoch {epoch}: mean squared error {2 * total / len(data):.4f}")
    assert net.users.weight.grad().stype == "row_sparse"
    assert 2 * total / len(data) < 0.1


if __name__ == "__main__":
    main()
