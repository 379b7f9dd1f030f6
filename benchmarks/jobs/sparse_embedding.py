"""Sparse gradients: an embedding with lazy Adam in Gluon, and a linear model of sparse rows with Module."""

import os
import tempfile

import mxnet as mx
import numpy
import pace
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

mx.random.seed(0)
rng = numpy.random.RandomState(0)
words, batch = 20000, 32


class Model(gluon.Block):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.embedding = nn.Embedding(words, 16, sparse_grad=True)
            self.dense = nn.Dense(1)

    def forward(self, x):
        return self.dense(self.embedding(x).mean(axis=1))


net = Model()
net.initialize(pace.Drawn())
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.02, "lazy_update": True})
loss_of = gluon.loss.SigmoidBinaryCrossEntropyLoss()
total = 0.0
for k in range(60):
    ids = rng.zipf(1.3, (batch, 12)).clip(1, words) - 1
    x, y = nd.array(ids), nd.array((ids[:, 0] % 2).astype("float32"))
    with autograd.record():
        loss = loss_of(net(x), y)
    loss.backward()
    trainer.step(batch)
    total += loss.mean().asscalar()
    pace.step()
stored = net.embedding.weight.grad().stype
print(stored, total / 60)

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "rows.libsvm")
    truth = numpy.random.RandomState(1).randn(500)
    with open(path, "w") as f:
        for _ in range(400):
            columns = numpy.sort(rng.choice(500, 12, replace=False))
            label = int(truth[columns].sum() > 0)
            f.write(f"{label} " + " ".join(f"{c}:{1.0}" for c in columns) + "\n")
    train = mx.io.LibSVMIter(data_libsvm=path, data_shape=(500,), batch_size=40)
    x = mx.symbol.Variable("data", stype="csr")
    y = mx.symbol.Variable("softmax_label")
    weight = mx.symbol.Variable("weight", stype="row_sparse", shape=(500, 2), init=mx.init.Zero())
    bias = mx.symbol.Variable("bias", shape=(2,), init=mx.init.Zero())
    scores = mx.symbol.broadcast_add(mx.symbol.sparse.dot(x, weight), bias)
    symbol = mx.symbol.SoftmaxOutput(data=scores, label=y, multi_output=True)
    model = mx.mod.Module(symbol=symbol, data_names=["data"], label_names=["softmax_label"])
    model.bind(data_shapes=train.provide_data, label_shapes=train.provide_label)
    model.init_params()
    store = mx.kv.create("local")
    sgd = mx.optimizer.create("sgd", learning_rate=1.0, rescale_grad=1.0 / 40)
    model.init_optimizer(optimizer=sgd, kvstore=store)
    metric = mx.metric.create("acc")
    for epoch in range(6):
        train.reset()
        metric.reset()
        for b in train:
            model.prepare(b, sparse_row_id_fn=lambda batch: {"weight": batch.data[0].indices})
            model.forward_backward(b)
            model.update()
            model.update_metric(metric, b.label)
            pace.step()
        print(epoch, metric.get())
pace.end(loss=total / 60, accuracy=metric.get()[1], sparse=stored == "row_sparse")
