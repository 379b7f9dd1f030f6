"""An autoencoder whose code is sparse, in Module: a penalty on mean activations, a monitor, a custom operator for the loss."""

import mxnet as mx
import numpy as np
from common import start


class Squares(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], (out_data[0] - in_data[1]) * 2)
        self.assign(in_grad[1], req[1], 0)


@mx.operator.register("squares_of_sparse_autoencoder")
class SquaresProp(mx.operator.CustomOpProp):
    def __init__(self):
        super(SquaresProp, self).__init__(need_top_grad=False)

    def list_arguments(self):
        return ["data", "label"]

    def infer_shape(self, in_shape):
        return [in_shape[0], in_shape[0]], [in_shape[0]], []

    def create_operator(self, ctx, shapes, dtypes):
        return Squares()


def symbol():
    data = mx.sym.Variable("data")
    code = mx.sym.Activation(
        mx.sym.FullyConnected(data, num_hidden=6, name="encoder"), act_type="sigmoid"
    )
    code = mx.sym.IdentityAttachKLSparseReg(
        code, name="sparse", sparseness_target=0.1, penalty=0.05, momentum=0.8
    )
    out = mx.sym.FullyConnected(code, num_hidden=10, name="decoder")
    return mx.sym.Custom(
        data=out,
        label=mx.sym.Variable("label"),
        op_type="squares_of_sparse_autoencoder",
        name="out",
    )


def main():
    x = np.random.RandomState(61).uniform(size=(24, 10)).astype("float32")
    batches = mx.io.NDArrayIter(x, x, 8, label_name="label")
    mod = mx.mod.Module(symbol(), label_names=("label",))
    mod.bind(batches.provide_data, batches.provide_label)
    start(mod, 62)
    mod.init_optimizer(
        optimizer="nag",
        optimizer_params={"learning_rate": 0.02, "momentum": 0.9, "rescale_grad": 1.0},
    )
    monitor = mx.mon.Monitor(3, lambda a: mx.nd.norm(a), pattern="sparse_output|decoder_weight")
    mod.install_monitor(monitor)
    found = []
    for _ in range(5):
        batches.reset()
        metric = mx.metric.create("mse")
        for batch in batches:
            monitor.tic()
            mod.forward_backward(batch)
            mod.update()
            mod.update_metric(metric, batch.label)
            found += [float(text) for _, _, text in monitor.toc()]
        found.append(metric.get()[1])
    mx.nd.waitall()
    args, auxs = mod.get_params()
    found += [float(v) for v in auxs["sparse_moving_avg"].asnumpy()]
    return found + [float(np.abs(args["encoder_weight"].asnumpy()).sum())]
