"""MXNet 1.x as it was written: symbols, an iterator, Module.fit, a checkpoint, features from inside the network."""

import tempfile

from images import shapes

import mxjax as mx


def main():
    mx.random.seed(0)
    pictures, labels = shapes(1024)
    train = mx.io.NDArrayIter(pictures, labels, batch_size=32, shuffle=True)
    test = mx.io.NDArrayIter(*shapes(256, seed=1), batch_size=32)
    data = mx.sym.var("data")
    net = mx.sym.Convolution(data, kernel=(3, 3), pad=(1, 1), num_filter=16, name="conv1")
    net = mx.sym.Activation(net, act_type="relu")
    net = mx.sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max")
    net = mx.sym.FullyConnected(mx.sym.Flatten(net), num_hidden=32, name="fc1")
    net = mx.sym.Activation(net, act_type="relu", name="features")
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=3, name="fc2"), name="softmax")

    module = mx.mod.Module(net, context=mx.cpu())
    module.fit(
        train, num_epoch=6, optimizer="sgd", optimizer_params={"learning_rate": 0.1, "momentum": 0.9},
        initializer=mx.init.Xavier(), batch_end_callback=mx.callback.Speedometer(32, 20),
    )  # fmt: skip
    score = dict(module.score(test, mx.metric.Accuracy()))
    print(score)
    with tempfile.TemporaryDirectory() as folder:
        module.save_checkpoint(f"{folder}/shapes", 6)
        symbol, args, auxs = mx.model.load_checkpoint(f"{folder}/shapes", 6)
    part = mx.mod.Module(symbol.get_internals()["features_output"], label_names=None)
    part.bind([("data", (32, 1, 16, 16))], for_training=False)
    part.set_params(args, auxs, allow_extra=True)
    test.reset()
    print("features", part.predict(test).shape)
    assert score["accuracy"] > 0.9


if __name__ == "__main__":
    main()
