"""The code of MXNet's profiler tutorial, and what it promises of the output."""

import json

import numpy as onp
import pytest

import mxjax as mx
from mxjax import autograd, gluon, profiler
from mxjax.gluon import nn
from mxjax.profiler import verify

FORWARD = {"Convolution", "Activation", "Pooling", "FullyConnected"}


def lenet():
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(channels=20, kernel_size=5, activation="relu"),
        nn.MaxPool2D(pool_size=2, strides=2),
        nn.Conv2D(channels=50, kernel_size=5, activation="relu"),
        nn.MaxPool2D(pool_size=2, strides=2),
        nn.Flatten(),
        nn.Dense(512, activation="relu"),
        nn.Dense(10),
    )
    return net


@pytest.fixture(params=[False, True], ids=["imperative", "hybridized"])
def training(request):
    """The tutorial's `run_training_iteration`, and a batch."""
    device = mx.gpu() if mx.device.num_gpus() else mx.cpu()
    net = lenet()
    net.initialize(mx.init.Xavier(), device=device)
    if request.param:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()

    def run_training_iteration(data, label):
        data = data.to_device(device)
        label = label.to_device(device)
        with autograd.record():
            output = net(data)
            loss = loss_fn(output, label)
        loss.backward()
        trainer.step(data.shape[0])

    data = mx.np.array(onp.random.rand(4, 1, 28, 28), dtype="float32")
    label = mx.np.array(onp.arange(4))
    for _ in range(2):
        run_training_iteration(data, label)
    mx.npx.waitall()
    with mx.config.scope({"engine.cold": "compile"}):  # what NumPy computes is no event of a device
        yield run_training_iteration, data, label


def test_tutorial(training, capsys):
    run_training_iteration, data, label = training
    profiler.set_config(
        profile_all=True,
        aggregate_stats=True,
        continuous_dump=True,
        filename="profile_output.json",
    )
    profiler.set_state("run")
    run_training_iteration(data, label)
    mx.npx.waitall()
    profiler.set_state("stop")
    print(profiler.dumps())
    profiler.dump(finished=False)

    table = capsys.readouterr().out
    assert "Profile Statistics:\n\tNote the difference in units for different entries.\n" in table
    assert verify.check("profile_output.json") == []
    rows = json.loads(profiler.dumps(format="json"))
    assert "MXNDArrayWaitAll" in rows["Time"]["MXNET_C_API"]
    assert "Memory: cpu/0" in rows["Memory"]["Device Storage"]
    operators = rows["Time"]["operator"]
    wanted = FORWARD | {f"_backward_{name}" for name in FORWARD}
    assert wanted <= set(operators)
    for name in FORWARD:
        assert operators[name]["Total"] > 0 and name in table
    assert operators["Convolution"]["Count"] == operators["Pooling"]["Count"] == 2
    assert operators["FullyConnected"]["Count"] == 2

    with open("profile_output.json") as file:
        events = json.load(file)["traceEvents"]
    device = [e for e in events if e.get("cat") == "operator"]
    assert wanted - {"_backward_Activation", "Activation"} <= {
        name
        for e in device
        for name in [e["name"], *(p.split("/")[-1] for p in e["args"].get("mx_ops", {}))]
    }
    shares = profiler.attribution()
    assert shares["none"] < 0.02


def test_custom_operator_of_the_tutorial():
    class MyAddOne(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], in_data[0] + 1)

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], out_grad[0])

    @mx.operator.register("MyAddOne")
    class CustomAddOneProp(mx.operator.CustomOpProp):
        def __init__(self):
            super().__init__(need_top_grad=True)

        def list_arguments(self):
            return ["data"]

        def list_outputs(self):
            return ["output"]

        def infer_shape(self, in_shape):
            return [in_shape[0]], [in_shape[0]], []

        def create_operator(self, ctx, shapes, dtypes):
            return MyAddOne()

    inp = mx.nd.zeros(shape=(500, 500))
    profiler.set_config(
        profile_all=True, continuous_dump=True, aggregate_stats=True, filename="custom.json"
    )
    profiler.set_state("run")
    w = mx.nd.Custom(inp, op_type="MyAddOne")
    mx.nd.waitall()
    profiler.set_state("stop")
    assert w[0, 0].asscalar() == 1
    rows = json.loads(profiler.dumps(format="json"))["Time"]["Custom Operator"]
    assert rows["MyAddOne::pure_python"]["Count"] == 1
    assert [n for n in rows if n.startswith("MyAddOne::") and n != "MyAddOne::pure_python"]
    profiler.dump(finished=False)
    assert verify.check("custom.json") == []
