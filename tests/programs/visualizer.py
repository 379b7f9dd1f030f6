"""What a network shows inside: an executor's monitor that keeps what it hears, counts of parameters, gradients in place."""

import mxnet as mx
import numpy as np
from common import normal
from mxnet.base import py_str


class Recorder(object):
    def __init__(self):
        self.heard = {}

    def __call__(self, name, array):
        self.heard[py_str(name)] = array


def symbol():
    data = mx.sym.Variable("data")
    net = mx.sym.Convolution(data, kernel=(3, 3), num_filter=4, pad=(1, 1), name="conv")
    net = mx.sym.Activation(mx.sym.BatchNorm(net, fix_gamma=False, name="bn"), act_type="relu")
    net = mx.sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool")
    net = mx.sym.FullyConnected(mx.sym.Flatten(net), num_hidden=3, name="fc")
    return mx.sym.SoftmaxOutput(net, name="softmax")


def main():
    net = symbol()
    run = net.simple_bind(mx.cpu(), data=(4, 2, 8, 8), grad_req="add")
    for k, name in enumerate(sorted(run.arg_dict)):
        run.arg_dict[name][:] = normal(70 + k, *run.arg_dict[name].shape) * 0.4
    run.arg_dict["softmax_label"][:] = mx.nd.array([0, 2, 1, 1])
    run.aux_dict["bn_moving_var"][:] = 1
    for name in sorted(run.grad_dict):
        run.grad_dict[name][:] = 0
    recorder = Recorder()
    run.set_monitor_callback(recorder)
    found = []
    update = mx.optimizer.get_updater(
        mx.optimizer.create("sgd", learning_rate=0.05, rescale_grad=0.25)
    )
    for step in range(5):
        run.forward(is_train=True)
        run.backward()
        if step == 1:
            for k, name in enumerate(sorted(run.grad_dict)):
                if name not in ("data", "softmax_label"):
                    update(k, run.grad_dict[name], run.arg_dict[name])
                run.grad_dict[name][:] = 0
        found.append(float(run.outputs[0].asnumpy()[np.arange(4), [0, 2, 1, 1]].mean()))
        found += [
            float(run.grad_dict[n].norm().asscalar())
            for n in ("conv_weight", "bn_gamma", "fc_bias")
        ]
    shapes = dict(zip(net.list_arguments(), net.infer_shape(data=(4, 2, 8, 8))[0]))
    found.append(sum(int(np.prod(s)) for n, s in shapes.items() if n.endswith(("weight", "bias"))))
    inside = [n for n in net.get_internals().list_outputs() if n.endswith("_output")]
    return found + [sum(n in recorder.heard for n in inside)]
