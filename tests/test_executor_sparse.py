"""Symbols, modules and custom operators on sparse arrays: storage types are MXNet 2.0's, numbers NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, nd

DENSE = np.array([[0, 0.5, 0], [0, 0, 0], [0.25, 0, -0.75]], "float32")


@pytest.mark.parametrize("stype", ["row_sparse", "csr"])
def test_results_and_gradients_keep_their_storage_types(stype):
    x = mx.sym.Variable("x", stype=stype)
    grad = nd.sparse.zeros(stype, (3, 3))
    run = mx.sym.relu(x)._bind(mx.cpu(), {"x": nd.array(DENSE).tostype(stype)}, {"x": grad})
    (out,) = run.forward(is_train=True)
    assert out.stype == stype
    np.testing.assert_array_equal(out.asnumpy(), np.maximum(DENSE, 0))
    head = nd.array(np.ones((3, 3), "float32")).tostype(stype)
    run.backward([head])
    assert run.grad_dict["x"].stype == stype
    np.testing.assert_array_equal(run.grad_dict["x"].asnumpy(), DENSE > 0)


def test_the_gradient_of_an_embedding():
    for stype in ("default", "row_sparse"):
        net = mx.sym.sparse.Embedding(
            mx.sym.Variable("ids"),
            mx.sym.Variable("w"),
            input_dim=5,
            output_dim=2,
            sparse_grad=stype != "default",
        )
        args = {"ids": nd.array([3, 1, 3]), "w": nd.ones((5, 2))}
        run = net._bind(
            mx.cpu(), args, {"w": nd.zeros((5, 2)).tostype(stype)}, {"ids": "null", "w": "add"}
        )
        for _ in range(2):
            run.forward(is_train=True)
            run.backward([nd.ones((3, 2))])
        assert run.grad_dict["w"].stype == stype
        np.testing.assert_array_equal(run.grad_dict["w"].asnumpy()[:, 0], [0, 2, 0, 4, 0])


def test_storage_types_of_a_bound_network():
    x, w = mx.sym.Variable("data", stype="csr"), mx.sym.Variable("w", stype="row_sparse")
    run = mx.sym.sparse.dot(x, w).simple_bind(mx.cpu(), data=(3, 3), w=(3, 2))
    assert {n: a.stype for n, a in run.arg_dict.items()} == {"data": "csr", "w": "row_sparse"}
    run.arg_dict["w"][:] = 2
    (out,) = run.forward(is_train=True, data=nd.array(DENSE).tostype("csr"))
    np.testing.assert_allclose(out.asnumpy(), DENSE @ np.full((3, 2), 2.0))
    run.backward([nd.ones((3, 2))])
    np.testing.assert_allclose(run.grad_dict["w"].asnumpy(), DENSE.T @ np.ones((3, 2)))
    with pytest.raises(AssertionError, match="storage type"):
        mx.gluon.SymbolBlock(mx.sym.dot(x, w), x)


def test_a_linear_model_of_csr_batches_learns():
    rng = np.random.default_rng(0)
    data = np.where(rng.random((64, 30)) < 0.2, rng.random((64, 30)), 0).astype("float32")
    label = (data[:, :5].sum(1) > data[:, 5:10].sum(1)).astype("float32")
    x = mx.sym.Variable("data", stype="csr")
    w = mx.sym.Variable("weight", shape=(30, 2), init=mx.initializer.Zero(), stype="row_sparse")
    net = mx.sym.broadcast_add(
        mx.sym.sparse.dot(x, w), mx.sym.Variable("bias", shape=(2,), init=mx.initializer.Zero())
    )
    batches = mx.io.NDArrayIter(
        {"data": nd.sparse.csr_matrix(data)}, label, 16, last_batch_handle="discard"
    )
    module = mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax"))
    options = {"learning_rate": 2.0, "lazy_update": True}
    accuracy = mx.metric.Accuracy()
    module.fit(batches, eval_metric=accuracy, optimizer_params=options, num_epoch=12)
    assert accuracy.get()[1] > 0.9


def test_a_custom_operator_says_what_storage_types_it_has():
    class Square(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            x = in_data[0]
            made = nd.sparse.csr_matrix((x.data * x.data, x.indices, x.indptr), shape=x.shape)
            self.assign(out_data[0], req[0], made)

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            assert out_grad[0].stype == "default"
            self.assign(in_grad[0], req[0], 2 * nd.sparse.elemwise_mul(in_data[0], out_grad[0]))

    class Prop(mx.operator.CustomOpProp):
        def infer_storage_type(self, in_stype):
            return ["csr"], ["csr"], []

        def infer_storage_type_backward(
            self, ograd_stype, in_stype, out_stype, igrad_stype, aux_stype
        ):
            return ["default"], ["csr"], ["csr"], ["csr"], []

        def create_operator(self, ctx, shapes, dtypes):
            return Square()

    mx.operator.register("sparse_square")(Prop)
    x = nd.array(DENSE).tostype("csr")
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, op_type="sparse_square")
    y.backward()
    assert (y.stype, x.grad.stype) == ("csr", "csr")
    np.testing.assert_array_equal(y.asnumpy(), DENSE**2)
    np.testing.assert_array_equal(x.grad.asnumpy(), 2 * DENSE)
    symbol = mx.sym.Custom(mx.sym.Variable("data", stype="csr"), op_type="sparse_square")
    grad = nd.sparse.zeros("csr", DENSE.shape)
    bound = symbol._bind(mx.cpu(), args={"data": x}, args_grad={"data": grad})
    (y,) = bound.forward(is_train=True)
    bound.backward(nd.ones(DENSE.shape))
    assert y.stype == "csr" and bound.grad_dict["data"].stype == "csr"
    np.testing.assert_array_equal(y.asnumpy(), DENSE**2)
    np.testing.assert_array_equal(bound.grad_dict["data"].asnumpy(), 2 * DENSE)


def test_gradients_have_the_storage_types_that_mxnet_infers():
    """As MXNet 1.9.1: the products' and the lookups' readers decide, not the variable."""
    x, ids = mx.sym.Variable("x", stype="csr"), mx.sym.Variable("ids")
    for own in ("default", "row_sparse"):
        w = mx.sym.Variable("w", stype=own)
        lookups = mx.sym.Embedding(ids, w, input_dim=4, output_dim=3)
        rows = mx.sym.Embedding(ids, w, input_dim=4, output_dim=3, sparse_grad=True)
        for made, shapes, expected in (
            (mx.sym.sparse.dot(x, w), {"x": (5, 4)}, "row_sparse"),
            (mx.sym.sparse.dot(x, w, transpose_a=True), {"x": (4, 5)}, "default"),
            (lookups, {"ids": (2,)}, "default"),
            (rows, {"ids": (2,)}, "row_sparse"),
            (
                mx.sym.contrib.SparseEmbedding(ids, w, input_dim=4, output_dim=3),
                {"ids": (2,)},
                "row_sparse",
            ),
            (mx.sym.Group([rows, lookups]), {"ids": (2,)}, "default"),
            (mx.sym.take(w, ids), {"ids": (2,)}, "default"),
            (mx.sym.square(w), {}, own),
        ):
            run = made.simple_bind(mx.cpu(), grad_req={"w": "write"}, w=(4, 3), **shapes)
            assert run.grad_dict["w"].stype == expected, (made, own)


@pytest.mark.parametrize("rule, options, expected", [
    ("sgd", {"momentum": 0.9, "wd": 0.1}, [0.9, 0.5, 1.3]),
    ("adam", {"wd": 0.1}, [0.9, 0.5, 1.3]),
])  # fmt: skip
def test_rows_that_no_sample_has_stay_in_a_module(rule, options, expected):
    """A dense weight behind a csr matrix: its gradient is row_sparse, and a lazy rule leaves the other rows alone."""
    x, w = mx.sym.Variable("data", stype="csr"), mx.sym.Variable("w", shape=(3, 1))
    net = mx.sym.LinearRegressionOutput(mx.sym.sparse.dot(x, w), mx.sym.Variable("label"))
    module = mx.mod.Module(net, label_names=["label"])
    module.bind([("data", (2, 3))], [("label", (2, 1))])
    module.init_params(arg_params={"w": nd.array(np.array(expected, "float32")[:, None])})
    module.init_optimizer(
        optimizer=rule, optimizer_params={"learning_rate": 0.1, **options}, kvstore=None
    )
    given = nd.array([[0, 1.0, 0], [0, 0, 0]]).tostype("csr")
    for _ in range(2):
        module.forward(mx.io.DataBatch([given], [nd.zeros((2, 1))]), is_train=True)
        module.backward()
        module.update()
    after = module.get_params()[0]["w"].asnumpy()[:, 0]
    np.testing.assert_allclose(after[[0, 2]], np.array(expected, "float32")[[0, 2]])
    assert after[1] < expected[1]
