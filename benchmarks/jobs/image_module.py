"""A digit classifier as a Symbol with Module.fit, callbacks, checkpoints and scoring, as in MXNet 1."""

import logging
import os
import tempfile

import mxnet as mx
import numpy
import pace

logging.basicConfig(level=logging.INFO)
mx.random.seed(0)
numpy.random.seed(0)
pictures, labels = pace.digits(1000)
train = mx.io.NDArrayIter(pictures[:800], labels[:800], 50, shuffle=False)
val = mx.io.NDArrayIter(pictures[800:], labels[800:], 50)

data = mx.sym.var("data")
net = mx.sym.Convolution(data=data, kernel=(5, 5), num_filter=8, name="conv1")
net = mx.sym.BatchNorm(net, fix_gamma=False, name="bn1")
net = mx.sym.Activation(data=net, act_type="tanh")
net = mx.sym.Pooling(data=net, pool_type="max", kernel=(2, 2), stride=(2, 2))
net = mx.sym.Convolution(data=net, kernel=(3, 3), num_filter=16, name="conv2")
net = mx.sym.LeakyReLU(data=net, act_type="leaky")
net = mx.sym.Pooling(data=net, pool_type="avg", kernel=(2, 2), stride=(2, 2))
net = mx.sym.Flatten(data=net)
net = mx.sym.FullyConnected(data=net, num_hidden=64, name="fc1")
net = mx.sym.Activation(data=net, act_type="relu")
net = mx.sym.FullyConnected(data=net, num_hidden=10, name="fc2")
net = mx.sym.SoftmaxOutput(data=net, name="softmax")
mx.viz.print_summary(net, shape={"data": (50, 1, 28, 28)})

with tempfile.TemporaryDirectory() as folder:
    prefix = os.path.join(folder, "lenet")
    model = mx.mod.Module(symbol=net, context=mx.cpu())
    model.fit(
        train,
        eval_data=val,
        optimizer="sgd",
        optimizer_params={"learning_rate": 0.1, "momentum": 0.9, "wd": 1e-4},
        initializer=pace.Drawn(),
        eval_metric=["acc", "ce", mx.metric.TopKAccuracy(3)],
        batch_end_callback=[mx.callback.Speedometer(50, 8), lambda p: pace.step()],
        eval_batch_end_callback=lambda p: pace.step(),
        epoch_end_callback=mx.callback.do_checkpoint(prefix),
        num_epoch=4,
    )
    acc = dict(model.score(val, ["acc", "ce"]))
    symbol, args, aux = mx.model.load_checkpoint(prefix, 4)
    again = mx.mod.Module(symbol=symbol, context=mx.cpu())
    again.bind(for_training=False, data_shapes=[("data", (20, 1, 28, 28))])
    again.set_params(args, aux)
    again.forward(mx.io.DataBatch([mx.nd.array(pictures[800:820])]), is_train=False)
    right = (again.get_outputs()[0].asnumpy().argmax(1) == labels[800:820]).mean()
    inner = symbol.get_internals()["fc1_output"]
    features = mx.mod.Module(symbol=inner, context=mx.cpu(), label_names=None)
    features.bind(for_training=False, data_shapes=[("data", (50, 1, 28, 28))])
    features.set_params(args, aux, allow_missing=True, allow_extra=True)
    found = features.predict(mx.io.NDArrayIter(pictures[800:], batch_size=50))
pace.end(
    accuracy=acc["accuracy"], ce=acc["cross-entropy"], right=right, features=found.asnumpy().mean()
)
