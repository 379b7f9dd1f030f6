"""A module of a user's, which knows MXNet alone: its dataset and functions go to processes (test_processes.py)."""

import mxnet as mx
import mxnet.gluon as gluon
import numpy as np
from mxnet import autograd, nd
from mxnet.gluon.data import Dataset


class Rows(Dataset):
    """Arrays of mx.nd."""

    def __len__(self):
        return 4

    def __getitem__(self, i):
        return nd.array([i, 1.0])


class Modes(Dataset):
    """What holds in the process that makes the sample."""

    def __len__(self):
        return 2

    def __getitem__(self, i):
        return np.array(
            [mx.util.is_np_array(), mx.util.is_np_shape(), mx.__version__ == "1.9.1"], "float32"
        )


def trained(n):
    """The loss of a step and its gradient, for whole numbers; and the MXNet that this process knows."""
    import mxjax

    assert mx is mxjax and gluon is mxjax.gluon, "a second copy"
    net = gluon.nn.Dense(2, in_units=3)
    net.initialize(mx.init.One())
    with autograd.record():
        loss = (net(mx.nd.array([[1.0, 2.0, 3.0]]) * n) ** 2).sum()
    loss.backward()
    return mx.__version__, int(loss.asnumpy().sum()), int(net.weight.grad().asnumpy().sum())


def drawn(n):
    """Larger work of many kinds, of which a parent has made programs already."""
    x = nd.random.normal(shape=(256, 256))
    y = nd.Convolution(
        nd.ones((n, 3, 16, 16)), nd.ones((4, 3, 3, 3)), kernel=(3, 3), num_filter=4, no_bias=True
    )
    return bool(abs(nd.dot(x, x).asnumpy()).max() > 1), int(y.asnumpy().sum())
