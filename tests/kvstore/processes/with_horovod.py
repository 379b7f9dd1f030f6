"""Run by processes that train with `horovod.mxnet`; every number is computed by NumPy from what all ranks have."""

from __future__ import annotations

import mxnet as mx
import numpy as np

import horovod.mxnet as hvd  # type: ignore[import-not-found]  # isort: skip

hvd.init()
rank, size = hvd.rank(), hvd.size()
assert (hvd.local_rank(), hvd.local_size(), hvd.cross_size()) == (rank, size, 1)
everybody = range(size)


def own(of: int) -> np.ndarray:
    return np.arange(6, dtype="float32").reshape(2, 3) * (of + 1)


def equal(array: mx.nd.NDArray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(array.asnumpy(), expected, rtol=1e-6)


def check_arrays() -> None:
    x = mx.nd.array(own(rank))
    stacked = np.stack([own(r) for r in everybody])
    equal(hvd.allreduce(x), stacked.mean(0))
    equal(hvd.allreduce(x, average=False, name="sum"), stacked.sum(0))
    equal(
        hvd.allreduce(x, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0), stacked.sum(0) * 2
    )
    equal(hvd.allreduce(x, op=hvd.Min), stacked.min(0))
    equal(hvd.allreduce(x, op=hvd.Max), stacked.max(0))
    pair = hvd.grouped_allreduce([x, mx.nd.array([rank], dtype="int32")], op=hvd.Sum)
    equal(pair[1], np.array([sum(everybody)]))
    assert pair[1].dtype == np.int32
    hvd.allreduce_(x, average=False)
    equal(x, stacked.sum(0))
    rows = hvd.allgather(mx.nd.full((rank + 1, 2), rank))
    equal(rows, np.concatenate([np.full((r + 1, 2), r) for r in everybody]))
    equal(hvd.broadcast(mx.nd.array(own(rank)), root_rank=size - 1), own(size - 1))
    hvd.broadcast_(x, root_rank=0)
    equal(x, stacked.sum(0))
    sent = [
        np.arange(size + 1) + 10 * r for r in everybody
    ]  # two rows to rank 0, one to each other one
    got, lengths = hvd.alltoall(
        mx.nd.array(sent[rank]), splits=mx.nd.array([2] + [1] * (size - 1), dtype="int32")
    )
    part = slice(0, 2) if rank == 0 else slice(rank + 1, rank + 2)
    equal(got, np.concatenate([s[part] for s in sent]))
    assert lengths.asnumpy().tolist() == [2 if rank == 0 else 1] * size
    equal(
        hvd.reducescatter(mx.nd.array(own(rank)), op=hvd.Sum),
        np.array_split(stacked.sum(0), size)[rank],
    )


def check_objects() -> None:
    assert hvd.broadcast_object({"epoch": rank}, root_rank=1) == {"epoch": 1}
    assert hvd.allgather_object([rank] * (rank + 1)) == [[r] * (r + 1) for r in everybody]


def check_training() -> None:
    """A linear model, deferred and with momentum, for each way to send gradients."""
    for compression, rtol in ((hvd.Compression.none, 1e-5), (hvd.Compression.fp16, 2e-2)):
        mx.random.seed(rank)  # every rank begins elsewhere
        net = mx.gluon.nn.Dense(1, use_bias=False)
        net.initialize(mx.init.Normal(1.0))
        params = net.collect_params()
        hvd.broadcast_parameters(params, root_rank=1)
        trainer = hvd.DistributedTrainer(
            params, "sgd", {"learning_rate": 0.1, "momentum": 0.5}, compression=compression,
            gradient_predivide_factor=2.0,
        )  # fmt: skip
        weight = momentum = None
        for step in range(3):
            data = [
                np.random.RandomState(10 * step + r).rand(4, 3).astype("float32") for r in everybody
            ]
            with mx.autograd.record():
                loss = ((net(mx.nd.array(data[rank])) - 1) ** 2).sum()
            if weight is None:
                weight = hvd.broadcast(net.weight.data(), root_rank=1).asnumpy()
                momentum = np.zeros_like(weight)
                equal(net.weight.data(), weight)
            loss.backward()
            trainer.step(4)
            gradient = sum(2 * (d @ weight.T - 1).T @ d for d in data) / (4 * size)
            momentum = 0.5 * momentum - 0.1 * gradient
            weight = weight + momentum
            np.testing.assert_allclose(net.weight.data().asnumpy(), weight, rtol=rtol)


def check_module() -> None:
    """`Module.fit`'s way: an optimizer that sums."""
    label = mx.sym.Variable("label")
    out = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, no_bias=True, name="fc")
    module = mx.mod.Module(mx.sym.LinearRegressionOutput(out, label), ["data"], ["label"])
    module.bind([("data", (4, 3))], [("label", (4, 1))])
    module.init_params(mx.init.One())
    hvd.broadcast_parameters(module.get_params()[0])
    sgd = mx.optimizer.create("sgd", learning_rate=0.1, rescale_grad=1 / 4)
    module.init_optimizer(kvstore=None, optimizer=hvd.DistributedOptimizer(sgd))
    weight = np.ones((1, 3), "float32")
    for step in range(3):
        data = [
            np.random.RandomState(10 * step + r).rand(4, 3).astype("float32") for r in everybody
        ]
        module.forward_backward(mx.io.DataBatch([mx.nd.array(data[rank])], [mx.nd.zeros((4, 1))]))
        module.update()
        weight = weight - 0.1 * sum((d @ weight.T).T @ d for d in data) / (4 * size)
        np.testing.assert_allclose(module.get_params()[0]["fc_weight"].asnumpy(), weight, rtol=1e-5)


for check in (check_arrays, check_objects, check_training, check_module):
    check()
    print("done", check.__name__, flush=True)
hvd.barrier()
hvd.shutdown()
assert not hvd.is_initialized()
