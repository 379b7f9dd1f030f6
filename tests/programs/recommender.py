"""Neural matrix factorization: embeddings of users and items, multiplied and through dense layers; then a hit rate."""

import json

import mxnet as mx
import numpy as np
from common import fill
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn


class NeuMF(gluon.HybridBlock):
    def __init__(self, users, items, mf_dim=8, layers=(16, 8), **kwargs):
        super(NeuMF, self).__init__(**kwargs)
        with self.name_scope():
            self.mf_user, self.mf_item = nn.Embedding(users, mf_dim), nn.Embedding(items, mf_dim)
            self.mlp_user = nn.Embedding(users, layers[0] // 2)
            self.mlp_item = nn.Embedding(items, layers[0] // 2)
            self.mlp = nn.HybridSequential()
            with self.mlp.name_scope():
                for units in layers:
                    self.mlp.add(nn.Dense(units, activation="relu"))
            self.out = nn.Dense(1, in_units=mf_dim + layers[-1])

    def hybrid_forward(self, F, user, item):
        product = self.mf_user(user) * self.mf_item(item)
        deep = self.mlp(F.concat(self.mlp_user(user), self.mlp_item(item), dim=1))
        return self.out(F.concat(product, deep, dim=1)).reshape((-1,))


def main():
    rng = np.random.RandomState(0)
    users, items = rng.randint(0, 20, 250), rng.randint(0, 30, 250)
    liked = ((users + items) % 2).astype("float32")
    data = gluon.data.ArrayDataset(users.astype("float32"), items.astype("float32"), liked)
    loader = gluon.data.DataLoader(data, 50, last_batch="discard")
    net = NeuMF(20, 30, prefix="neumf_")
    net.initialize(mx.init.Xavier())
    net.hybridize()
    net(nd.zeros((2,)), nd.zeros((2,)))
    fill(net)
    loss = gluon.loss.SigmoidBinaryCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.02})
    losses = []
    for _ in range(4):
        for user, item, label in loader:
            with autograd.record():
                batch = loss(net(user, item), label)
            batch.backward()
            trainer.step(user.shape[0])
            losses.append(batch.mean().asscalar())
    ranks = []
    for user in range(5):
        scores = net(nd.full((30,), user), nd.arange(30)).asnumpy()
        ranks.append(np.argsort(-scores).tolist().index(user))
    return losses + ranks


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
