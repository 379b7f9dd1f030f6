"""Matrix factorization: a Symbol with Module.fit, and the same in Gluon with a dot product of embeddings."""

import logging

import mxnet as mx
import numpy
import pace
from mxnet import autograd, gluon
from mxnet.gluon import nn

logging.basicConfig(level=logging.INFO)
mx.random.seed(0)
rng = numpy.random.RandomState(0)
users, items, rank, count = 120, 90, 8, 4000
p, q = rng.randn(users, 4) * 0.7, rng.randn(items, 4) * 0.7
u, i = rng.randint(0, users, count), rng.randint(0, items, count)
score = ((p[u] * q[i]).sum(1) + rng.randn(count) * 0.1).astype("float32")


def net():
    user, item = mx.symbol.Variable("user"), mx.symbol.Variable("item")
    label = mx.symbol.Variable("score")
    user = mx.symbol.Embedding(data=user, input_dim=users, output_dim=rank, name="user_weight")
    user = mx.symbol.Activation(
        data=mx.symbol.FullyConnected(user, num_hidden=rank, name="user_fc"), act_type="relu"
    )
    item = mx.symbol.Embedding(data=item, input_dim=items, output_dim=rank, name="item_weight")
    item = mx.symbol.Activation(
        data=mx.symbol.FullyConnected(item, num_hidden=rank, name="item_fc"), act_type="relu"
    )
    pred = mx.symbol.Flatten(data=mx.symbol.sum_axis(data=user * item, axis=1))
    return mx.symbol.LinearRegressionOutput(data=pred, label=label)


def rmse(label, pred):
    return numpy.sqrt(((label - pred.flatten()) ** 2).mean())


train = mx.io.NDArrayIter({"user": u[:3200], "item": i[:3200]}, {"score": score[:3200]}, 64)
val = mx.io.NDArrayIter({"user": u[3200:], "item": i[3200:]}, {"score": score[3200:]}, 64)
model = mx.mod.Module(net(), data_names=["user", "item"], label_names=["score"], context=mx.cpu())
model.fit(
    train, eval_data=val, num_epoch=3, optimizer="adam", optimizer_params={"learning_rate": 0.01},
    initializer=pace.Drawn(), eval_metric=mx.metric.CustomMetric(rmse),
    batch_end_callback=lambda p: pace.step(),
)  # fmt: skip
by_module = model.score(val, mx.metric.CustomMetric(rmse))[0][1]


class Factors(nn.Block):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.P, self.Q = nn.Embedding(users, rank), nn.Embedding(items, rank)
            self.user_bias, self.item_bias = nn.Embedding(users, 1), nn.Embedding(items, 1)

    def forward(self, user, item):
        biases = self.user_bias(user).squeeze() + self.item_bias(item).squeeze()
        return ((self.P(user) * self.Q(item)).sum(axis=1) + biases).flatten()


factors = Factors()
factors.initialize(pace.Drawn(0.5))
trainer = gluon.Trainer(factors.collect_params(), "adam", {"learning_rate": 0.02, "wd": 1e-5})
loss_of = gluon.loss.L2Loss()
data = gluon.data.ArrayDataset(u[:3200].astype("int32"), i[:3200].astype("int32"), score[:3200])
loader = gluon.data.DataLoader(data, 128, last_batch="rollover")
for epoch in range(3):
    total = 0.0
    for a, b, y in loader:
        with autograd.record():
            loss = loss_of(factors(a, b), y)
        loss.backward()
        trainer.step(a.shape[0])
        total += loss.mean().asscalar()
        pace.step()
    print(epoch, total / len(loader))
pace.end(module=by_module, gluon=total / len(loader))
