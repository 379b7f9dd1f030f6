"""Executors: numbers against NumPy, in the first runs, node by node, and later, as one program."""

from __future__ import annotations

import numpy as np
import pytest

import mxjax as mx
from mxjax.symbol import cached

RS = np.random.RandomState(7)


def _logistic():
    data = mx.sym.var("data")
    return mx.sym.SoftmaxOutput(
        mx.sym.FullyConnected(data, num_hidden=3, name="fc"), name="softmax"
    )


def test_forward_and_backward_stay_the_same_when_compiled():
    run = _logistic().simple_bind(mx.cpu(), data=(4, 5), softmax_label=(4,))
    x, w, b = RS.rand(4, 5), RS.rand(3, 5), RS.rand(3)
    y = np.array([0, 2, 1, 2])
    run.copy_params_from({"fc_weight": mx.nd.array(w), "fc_bias": mx.nd.array(b)})
    z = np.exp(x @ w.T + b)
    p = z / z.sum(1, keepdims=True)
    grad = p - np.eye(3)[y]
    for _ in range(6):  # the later ones by a program
        outs = run.forward(is_train=True, data=mx.nd.array(x), softmax_label=mx.nd.array(y))
        run.backward()
        np.testing.assert_allclose(outs[0].asnumpy(), p, rtol=1e-5)
        np.testing.assert_allclose(
            run.grad_dict["fc_weight"].asnumpy(), grad.T @ x, rtol=1e-4, atol=1e-6
        )
        np.testing.assert_allclose(run.grad_dict["data"].asnumpy(), grad @ w, rtol=1e-4, atol=1e-6)
    assert run.output_dict["softmax_output"] is outs[0]


def test_one_program_serves_a_step():
    run = _logistic().simple_bind(
        mx.cpu(), grad_req={"fc_weight": "write", "fc_bias": "write"}, data=(4, 5)
    )
    weight = run.arg_dict["fc_weight"]

    def step():
        run.forward(is_train=True)
        run.backward()
        weight[:] = weight - 0.1 * run.grad_dict["fc_weight"]
        return weight.asnumpy()

    with mx.config.scope(engine_cold="compile"):
        for _ in range(8):
            step()
        before = mx.engine.stats()
        for _ in range(5):
            step()
        after = mx.engine.stats()
    assert after["compiled"] == before["compiled"]
    assert after["programs_run"] - before["programs_run"] == 5 if "programs_run" in after else True


def test_what_is_bound_once_is_not_compiled():
    """Few nodes, however large; `engine.cold` decides here, too."""
    mx.config.set({"engine.cold": "auto"})
    sums = mx.sym.broadcast_add(mx.sym.var("a"), mx.sym.var("b"))
    args = {"a": mx.nd.ones((500, 400)), "b": mx.nd.ones((1, 400))}
    before = mx.engine.stats()["compiled"]
    made = sums.bind(mx.cpu(), args).forward()[0].asnumpy()
    assert mx.engine.stats()["compiled"] == before and (made == 2).all()
    run = sums.bind(mx.cpu(), args)
    with mx.config.scope(engine_cold="interpret"):
        for _ in range(6):
            run.forward()[0].asnumpy()
    assert mx.engine.stats()["compiled"] == before
    with mx.config.scope(engine_cold="compile"):
        run.forward()[0].asnumpy()
    assert mx.engine.stats()["compiled"] == before + 1


def test_nodes_are_looked_at_once(monkeypatch):
    """Operator by operator, too: later runs record the calls that the first one made of the nodes."""
    runs = []
    node_by_node = cached.run

    def counted(*args, **kwargs):
        runs.append(1)
        return node_by_node(*args, **kwargs)

    monkeypatch.setattr(cached, "run", counted)
    x = mx.sym.BatchNorm(mx.sym.var("data"), fix_gamma=False, momentum=0.5, name="bn")
    x = mx.sym.Dropout(mx.sym.Activation(x, act_type="tanh"), p=0.5)
    net = mx.sym.LinearRegressionOutput(
        mx.sym.FullyConnected(x, num_hidden=2, name="fc"), name="lro"
    )
    data = np.random.RandomState(0).rand(6, 3).astype("float32")
    found = []
    with mx.config.scope(engine_cold="interpret"):
        for watched in (False, True):  # with a monitor the nodes run one by one
            run = net.simple_bind(mx.cpu(), data=(6, 3), lro_label=(6, 2))
            if watched:
                run.set_monitor_callback(lambda name, array: None)
            for name, array in run.arg_dict.items():
                array[:] = 0.5 if name != "data" else mx.nd.array(data)
            run.aux_dict["bn_moving_var"][:] = 1
            mx.random.seed(3)
            del runs[:]
            for _ in range(4):
                run.forward(is_train=True)
                run.backward()
            found.append([a.asnumpy() for a in (*run.outputs, *run.grad_arrays, *run.aux_arrays)])
            assert len(runs) == (0 if watched else 1)
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    moved = 1 - 0.5**4
    np.testing.assert_allclose(found[0][-2], moved * data.mean(0), rtol=1e-5)


@pytest.mark.parametrize("req", ["write", "add", "null"])
def test_requests(req):
    x = mx.sym.var("x")
    grad = mx.nd.array([5.0, 5.0])
    run = (x * x).bind(mx.cpu(), [mx.nd.array([1.0, 2.0])], [grad], grad_req=req)
    run.forward(is_train=True)
    run.backward(mx.nd.array([1.0, 10.0]))
    expected = {"write": [2.0, 40.0], "add": [7.0, 45.0], "null": [5.0, 5.0]}[req]
    assert grad.asnumpy().tolist() == expected


def test_backward_after_prediction_and_twice():
    x = mx.sym.var("x")
    run = (x * x).bind(mx.cpu(), {"x": mx.nd.array([3.0])}, {"x": mx.nd.zeros((1,))})
    run.forward()
    run.backward([mx.nd.ones((1,))])
    run.backward([mx.nd.ones((1,))])
    assert run.grad_dict["x"].asscalar() == 6.0


def test_states_move_in_training_only():
    net = mx.sym.BatchNorm(mx.sym.var("x"), name="bn", momentum=0.5, fix_gamma=True)
    run = net.simple_bind(mx.cpu(), x=(4, 2))
    x = RS.rand(4, 2).astype("float32")
    run.aux_dict["bn_moving_var"][:] = 1
    run.forward(x=mx.nd.array(x))
    assert run.aux_dict["bn_moving_mean"].asnumpy().tolist() == [0, 0]
    mean = np.zeros(2)
    for _ in range(6):
        run.forward(is_train=True)
        mean = 0.5 * mean + 0.5 * x.mean(0)
        np.testing.assert_allclose(run.aux_dict["bn_moving_mean"].asnumpy(), mean, rtol=1e-5)
    assert run.arg_dict["bn_gamma"].asnumpy().tolist() == [1, 1]


def test_random_numbers_differ_from_run_to_run():
    run = mx.sym.Dropout(mx.sym.var("x"), p=0.5).bind(mx.cpu(), {"x": mx.nd.ones((50,))})
    mx.random.seed(3)
    drawn = [run.forward(is_train=True)[0].asnumpy() for _ in range(7)]
    assert all((a != b).any() for a, b in zip(drawn, drawn[1:], strict=False))
    mx.random.seed(3)
    assert all((run.forward(is_train=True)[0].asnumpy() == a).all() for a in drawn)


def test_lists_groups_and_arguments_twice():
    a, b = mx.sym.var("a"), mx.sym.var("b")
    run = mx.sym.Group([a + b, a * b]).bind(
        mx.cpu(), [mx.nd.array([2.0]), mx.nd.array([3.0])], [mx.nd.zeros((1,)), mx.nd.zeros((1,))]
    )
    assert [o.asscalar() for o in run.forward(is_train=True)] == [5, 6]
    run.backward([mx.nd.array([1.0]), mx.nd.array([10.0])])
    assert [g.asscalar() for g in run.grad_arrays] == [31, 21]
    same = mx.nd.array([2.0])
    grads = {"a": mx.nd.zeros((1,)), "b": mx.nd.zeros((1,))}
    run = (a * b).bind(mx.cpu(), {"a": same, "b": same}, grads)
    assert run.forward(is_train=True)[0].asscalar() == 4


def test_reshape_shares_what_stays():
    run = _logistic().simple_bind(mx.cpu(), data=(4, 5))
    other = run.reshape(data=(2, 5), softmax_label=(2,))
    assert other.arg_dict["fc_weight"] is run.arg_dict["fc_weight"]
    assert other.forward()[0].shape == (2, 3)
    with pytest.raises(AssertionError, match="fc_weight"):
        run.reshape(data=(4, 6), allow_up_sizing=True)
    with pytest.raises(AssertionError, match="data is larger than original"):
        run.reshape(data=(4, 6))
    assert run.reshape(partial_shaping=True, allow_up_sizing=True, data=(4, 6)).arg_dict[
        "fc_weight"
    ].shape == (3, 6)


def test_reshape_keeps_numbers_and_shares_them():
    """As MXNet 1.9.1: smaller arrays and gradients are the first numbers of the larger ones', in their memory."""
    x, w = mx.sym.Variable("x"), mx.sym.Variable("w")
    run = mx.sym.broadcast_mul(x, mx.sym.reshape(w, (1, -1))).simple_bind(
        mx.cpu(), x=(5, 4), w=(4,)
    )
    run.arg_dict["x"][:] = np.arange(20).reshape(5, 4)
    run.arg_dict["w"][:] = np.arange(4) + 1
    run.forward(is_train=True)
    run.backward(mx.nd.ones((5, 4)))
    small = run.reshape(x=(3, 4), w=(4,))
    np.testing.assert_array_equal(small.arg_dict["x"].asnumpy(), np.arange(12).reshape(3, 4))
    np.testing.assert_array_equal(small.grad_dict["x"].asnumpy(), [[1, 2, 3, 4]] * 3)
    np.testing.assert_array_equal(small.grad_dict["w"].asnumpy(), [40, 45, 50, 55])
    np.testing.assert_array_equal(
        small.forward()[0].asnumpy(), np.arange(12).reshape(3, 4) * [1, 2, 3, 4]
    )
    small.arg_dict["x"][:] = -1
    small.grad_dict["x"][:] = -5
    np.testing.assert_array_equal(
        run.arg_dict["x"].asnumpy().ravel(), [-1.0] * 12 + list(range(12, 20))
    )
    np.testing.assert_array_equal(run.grad_dict["x"].asnumpy(), [[-5] * 4] * 3 + [[1, 2, 3, 4]] * 2)
    small.forward(is_train=True)
    small.backward(mx.nd.ones((3, 4)))
    np.testing.assert_array_equal(run.grad_dict["x"].asnumpy(), [[1, 2, 3, 4]] * 5)
    with pytest.raises(mx.MXNetError, match="x is larger than original"):
        run.reshape(x=(7, 4), w=(4,))
    large = run.reshape(x=(7, 4), w=(4,), allow_up_sizing=True)
    assert large.arg_dict["x"].shape == (7, 4) and large.arg_dict["w"] is run.arg_dict["w"]


def test_reshape_shares_states_too():
    net = mx.sym.BatchNorm(mx.sym.Variable("data"), name="bn")
    run = net.simple_bind(mx.cpu(), data=(4, 6))
    run.aux_dict["bn_moving_mean"][:] = np.arange(6) + 0.5
    small = run.reshape(data=(2, 4), partial_shaping=True)
    np.testing.assert_array_equal(small.aux_dict["bn_moving_mean"].asnumpy(), [0.5, 1.5, 2.5, 3.5])
    small.aux_dict["bn_moving_mean"][:] = 77
    np.testing.assert_array_equal(
        run.aux_dict["bn_moving_mean"].asnumpy(), [77, 77, 77, 77, 4.5, 5.5]
    )


def test_monitor_sees_every_node():
    seen = []
    run = _logistic().simple_bind(mx.cpu(), data=(4, 5))
    run.set_monitor_callback(lambda name, array: seen.append((name, array.shape)))
    run.forward()
    assert seen == [("fc_output", (4, 3)), ("softmax_output", (4, 3))]
    run.set_monitor_callback(lambda name, array: seen.append((name, array.shape)), monitor_all=True)
    run.forward()
    assert ("fc_weight", (3, 5)) in seen and ("softmax_label", (4,)) in seen


def test_shapes_of_begin_states_are_inferred():
    net = mx.sym.var("x") + mx.sym.zeros((0, 3)) + 1
    assert net.infer_shape(x=(2, 3))[1] == [(2, 3)]
    run = net.simple_bind(mx.cpu(), x=(2, 3))
    for _ in range(6):
        assert run.forward()[0].asnumpy().tolist() == [[1, 1, 1]] * 2


def test_what_does_not_fit():
    net = _logistic()
    with pytest.raises(mx.MXNetError, match="Cannot infer the shapes of"):
        net.simple_bind(mx.cpu())
    with pytest.raises(ValueError, match="Length of args"):
        net.bind(mx.cpu(), [mx.nd.ones((1,))])
    with pytest.raises(ValueError, match="no array is bound to"):
        net.bind(mx.cpu(), {}).forward()
    run = net.simple_bind(mx.cpu(), data=(4, 5))
    with pytest.raises(ValueError, match="need: \\(4, 5\\), received: \\(4, 6\\)"):
        run.forward(data=mx.nd.ones((4, 6)))
    with pytest.raises(ValueError, match="not in the arguments; did you mean|not in the arguments"):
        run.copy_params_from({"fc_weigth": mx.nd.ones((1,))})
    with pytest.raises(KeyError, match="grad_req"):
        net.bind(mx.cpu(), {}, {}, grad_req="wrte")
    with pytest.raises(mx.MXNetError, match="no such backend"):
        net.optimize_for("MyPart")


def test_half_precision_and_types():
    run = _logistic().simple_bind(mx.cpu(), data=(4, 5), type_dict={"data": "float16"})
    assert run.arg_dict["fc_weight"].dtype == np.float16
    assert run.forward()[0].dtype == np.float16


def test_results_may_be_written_to_before_the_backward_pass():
    x = mx.sym.var("x")
    bound = (x * x)._bind(mx.cpu(), {"x": mx.nd.array([2.0, 3.0])}, args_grad={"x": mx.nd.zeros(2)})
    bound.forward(is_train=True)
    bound.outputs[0][0] = 7
    bound.backward(mx.nd.ones(2))
    assert bound.grad_dict["x"].asnumpy().tolist() == [4, 6]


def test_monitor_prints_as_mxnet_does(caplog):
    run = (mx.sym.var("x") * 0.1).bind(mx.cpu(), {"x": mx.nd.ones(1)})
    monitor = mx.mon.Monitor(1, lambda x: x, pattern="x$")
    monitor.install(run)
    with caplog.at_level("INFO"):
        monitor.tic()
        run.arg_dict["x"][:] = 0.1
        monitor.toc_print()
    assert caplog.messages == ["Batch:       1 x                              0.1\t"]


def test_outputs_before_the_first_forward():
    x = mx.sym.var("x")
    net = mx.sym.Group(
        [
            mx.sym.FullyConnected(x, num_hidden=3, name="fc"),
            mx.sym.cast(x, dtype="int32", name="whole"),
        ]
    )
    run = net.simple_bind(mx.cpu(), x=(2, 4), grad_req="write")
    before = run.outputs
    assert [(o.shape, o.dtype) for o in before] == [((2, 3), np.float32), ((2, 4), np.int32)]
    assert run.output_dict["fc_output"].shape == (2, 3)
    for value in (5, 6):
        run.arg_dict["fc_bias"][:] = value
        after = run.forward(is_train=True)
        assert run.outputs is after
        assert before[0].asnumpy().tolist() == after[0].asnumpy().tolist() == [[value] * 3] * 2
    run.backward([mx.nd.ones((2, 3)), mx.nd.zeros((2, 4), dtype="int32")])
    assert run.grad_dict["fc_bias"].asnumpy().tolist() == [2] * 3


@pytest.fixture
def mxnet1():
    with mx.config.scope({"compat.version": "1.9"}):
        yield


def test_results_are_shown_by_the_same_arrays_in_mxnet_1(mxnet1):
    x = mx.sym.var("x")
    run = mx.sym.Group([x * 2, mx.sym.sum(x * x)]).bind(
        mx.cpu(), {"x": mx.nd.ones(2)}, {"x": mx.nd.zeros(2)}
    )
    early, seen = run.outputs[0], []
    run.forward()
    late, part = run.outputs[1], run.outputs[0][1:]
    for value in (2, 3):
        run.forward(is_train=True, x=mx.nd.array([value, value + 1]))
        run.outputs[0][:] = 9  # which the backward pass does not see
        run.backward([mx.nd.ones(2), mx.nd.ones(1)])
        seen.append([early.asnumpy().tolist(), late.asscalar(), part.asscalar()])
        seen.append(run.grad_dict["x"].asnumpy().tolist())
    run.forward()
    seen.append([early.asnumpy().tolist(), late.asscalar(), part.asscalar()])
    # MXNet 1.9.1
    assert seen == [[[9, 9], 13, 9], [6, 8], [[9, 9], 25, 9], [8, 10], [[6, 8], 25, 8]]


def test_results_are_arrays_of_their_own_in_mxnet_2():
    x = mx.sym.var("x")
    run = (x * 2)._bind(mx.cpu(), {"x": mx.nd.ones(2)})
    first = run.forward()[0]
    run.forward(x=mx.nd.zeros(2))
    assert (first.asnumpy().tolist(), run.outputs[0].asnumpy().tolist()) == ([2, 2], [0, 0])


def test_groups_of_nodes_on_devices_of_their_own():
    with mx.AttrScope(ctx_group="one"):
        hidden = mx.sym.Variable("a") * 2
    with mx.AttrScope(ctx_group="two"):
        out = hidden + mx.sym.Variable("b")
    groups = {"one": mx.cpu(1), "two": mx.cpu(2)}
    run = out.simple_bind(mx.cpu(0), a=(2, 3), b=(2, 3), group2ctx=groups)
    assert {n: a.context for n, a in run.arg_dict.items()} == {"a": mx.cpu(1), "b": mx.cpu(2)}
    run.arg_dict["a"][:] = 3
    run.arg_dict["b"][:] = 1
    assert run.forward(is_train=True)[0].context == mx.cpu(2)
    run.backward(mx.nd.ones((2, 3)) * 5)
    assert (run.outputs[0].asnumpy() == 7).all()
    assert {n: (g.context, g.asnumpy().mean()) for n, g in run.grad_dict.items()} == {
        "a": (mx.cpu(1), 10), "b": (mx.cpu(2), 5)
    }  # fmt: skip
    smaller = run.reshape(a=(1, 3), b=(1, 3))
    assert smaller.arg_dict["a"].context == mx.cpu(1) and smaller.forward()[0].context == mx.cpu(2)


def test_mxnet1_wants_all_arrays_and_no_others(mxnet1):
    x, y = mx.sym.Variable("x"), mx.sym.Variable("y")
    with pytest.raises(ValueError, match="'y' is missing"):
        (x * y).bind(mx.cpu(), {"x": mx.nd.ones(2)})
    run = (x * y).bind(mx.cpu(), {"x": mx.nd.ones(2), "y": mx.nd.ones(2)})
    with pytest.raises(TypeError, match="Unknown argument z"):
        run.forward(z=mx.nd.ones(2))


def test_one_request_for_each_argument():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2)
    with pytest.raises(ValueError, match="an entry for each of the 3 arguments"):
        net.simple_bind(mx.cpu(), data=(1, 2), grad_req=["write"])


def test_a_monitor_of_all_hears_inputs_by_mxnets_names():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc1")
    run = mx.sym.Activation(net, act_type="tanh", name="act").simple_bind(mx.cpu(), data=(1, 3))
    heard = []
    run.set_monitor_callback(lambda name, array: heard.append(name), monitor_all=True)
    run.forward()
    assert heard == [
        "data", "fc1_data", "fc1_weight", "fc1_weight", "fc1_bias", "fc1_bias", "fc1_output", "act_input0",
        "act_output",
    ]  # fmt: skip


def test_every_result_has_its_gradient():
    x = mx.sym.var("x")
    run = mx.sym.Group([x * 2, x * 3]).bind(mx.cpu(), {"x": mx.nd.ones(2)}, {"x": mx.nd.zeros(2)})
    run.forward(is_train=True)
    with pytest.raises(AssertionError, match="2 results, got 1 gradients"):
        run.backward([mx.nd.ones(2)])


def test_two_variables_of_one_name_are_bound_by_place_alone(mxnet1):
    """As in MXNet 1.9.1, whose lookups by name say that names are there twice."""
    a, b, again = mx.sym.var("a"), mx.sym.var("b"), mx.sym.var("a")
    net = a + again * b
    assert net.list_arguments() == ["a", "a", "b"]
    arrays = [mx.nd.ones(2) * k for k in (1, 2, 3)]
    run = net.bind(mx.cpu(), arrays, [mx.nd.zeros(2) for _ in arrays])
    assert run.forward(is_train=True)[0].asnumpy().tolist() == [7, 7]
    run.backward(mx.nd.ones(2))
    assert [g.asnumpy().tolist() for g in run.grad_arrays] == [[1, 1], [3, 3], [2, 2]]
    for look in (
        lambda: run.arg_dict,
        lambda: run.grad_dict,
        lambda: net.simple_bind(mx.cpu(), a=(2,), b=(2,)),
        lambda: net.bind(mx.cpu(), {"a": mx.nd.ones(2), "b": mx.nd.ones(2)}),
        lambda: net.eval(a=mx.nd.ones(2), b=mx.nd.ones(2)),
    ):
        with pytest.raises(ValueError, match=r"Duplicate names detected: .*'a'"):
            look()


class _Ends(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], in_data[0] * 5)


@mx.operator.register("ends_alone")
class _EndsProp(mx.operator.CustomOpProp):
    def __init__(self):
        super().__init__(need_top_grad=False)

    def create_operator(self, ctx, shapes, dtypes):
        return _Ends()


_X = mx.sym.var("x")
#: Recorded: MXNet 1.9.1's `backward()` without gradients of results; None: it raises MXNetError.
_WITHOUT_HEADS = [
    (mx.sym.exp(_X), None),
    (mx.sym.sum(_X), None),
    (mx.sym.sign(_X), None),
    (mx.sym.softmax(_X), None),
    (mx.sym.topk(_X, ret_typ="value"), None),
    (mx.sym.softmax_cross_entropy(_X, mx.sym.BlockGrad(_X.sum(axis=1) * 0)), None),
    (mx.sym.Group([mx.sym.exp(_X), mx.sym.MakeLoss(_X)]), None),
    (mx.sym.MakeLoss(_X), 1),
    (mx.sym.reshape(mx.sym.MakeLoss(_X), shape=(6,)), 1),
    (mx.sym.Group([mx.sym.BlockGrad(mx.sym.exp(_X)), mx.sym.MakeLoss(_X * 2)]), 2),
    (mx.sym.Group([mx.sym.argmax(_X, axis=1), _X > 1, mx.sym.make_loss(_X)]), 1),
    (mx.sym.LinearRegressionOutput(_X, mx.sym.BlockGrad(_X - 1)), 1 / 3),
    (mx.sym.Custom(_X, op_type="ends_alone"), 5),
    (mx.sym.floor(_X), 0),
    (mx.sym.zeros_like(_X), 0),
]


@pytest.mark.parametrize(("net", "wanted"), _WITHOUT_HEADS)
def test_mxnet_1_asks_for_the_gradient_of_what_is_no_loss(mxnet1, net, wanted):
    grad = mx.nd.zeros((2, 3))
    run = net.bind(mx.cpu(), {"x": mx.nd.ones((2, 3))}, {"x": grad})
    run.forward(is_train=True)
    if wanted is None:
        with pytest.raises(mx.MXNetError, match="is no loss"):
            run.backward()
    else:
        run.backward()
        np.testing.assert_allclose(grad.asnumpy(), wanted, rtol=1e-6)


def test_mxnet_2_takes_ones_for_the_gradient_of_what_is_no_loss():
    grad = mx.nd.zeros(3)
    run = mx.sym.exp(_X).bind(mx.cpu(), {"x": mx.nd.zeros(3)}, {"x": grad})
    run.forward(is_train=True)
    run.backward()
    assert grad.asnumpy().tolist() == [1, 1, 1]


def test_a_monitor_hears_gradients_at_nodes_in_mxnet_1(mxnet1):
    """A value that two nodes take has another gradient at each, and a label none."""
    x = mx.sym.var("x")
    made = mx.sym.relu(x, name="r") + mx.sym.elemwise_mul(x, x, name="m")
    one, two = mx.sym.split(made, num_outputs=2, axis=1, name="s")
    taken = mx.sym.concat(one, mx.sym.square(two, name="q"), mx.sym.BlockGrad(two), name="c")
    loss = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(taken, num_hidden=2, name="f"), name="l")
    run = loss.simple_bind(mx.cpu(), x=(1, 2), grad_req={"x": "write", "f_weight": "write"})
    run.arg_dict["x"][:] = [[1, 2]]
    run.arg_dict["f_weight"][:] = [[1, 0.5, 3], [3, 0.6, 1]]
    heard = []
    run.set_monitor_callback(lambda name, array: heard.append((name.decode(), array.asnumpy())))
    run.forward(is_train=True)
    heard.clear()
    run.backward()
    expected = {  # MXNet 1.9.1; None: there memory of others, of what has no gradient
        "l_backward_output0": [[-0.0121, 0.0121]],
        "l_backward_output1": [0],
        "f_backward_output0": [[0.0243, 0.0012, -0.0243]],
        "f_backward_output1": [[-0.0243, -0.4366, -0.0728], [0.0243, 0.4366, 0.0728]],
        "f_backward_output2": None,
        "c_backward_output0": [[0.0243]],
        "c_backward_output1": [[0.0012]],
        "c_backward_output2": None,
        "q_backward_output": [[0.0146]],
        "s_backward_data": [[0.0243, 0.0146]],
        "m_backward_output0": [[0.0243, 0.0291]],
        "m_backward_output1": [[0.0243, 0.0291]],
        "r_backward_output": [[0.0243, 0.0146]],
    }
    assert [name for name, _ in heard] == list(expected)
    for (name, got), want in zip(heard, expected.values(), strict=True):
        if want is not None:
            np.testing.assert_allclose(got, want, rtol=0, atol=6e-5, err_msg=name)
    np.testing.assert_allclose(run.grad_dict["x"].asnumpy(), [[0.07277, 0.07277]], atol=1e-5)
    # Without training nothing is added, and nothing heard of gradients.
    heard.clear()
    run.forward()
    assert not any("backward" in name for name, _ in heard)


def test_a_monitor_hears_bytes_in_mxnet_1(mxnet1):
    x = mx.sym.Variable("x")
    run = mx.sym.elemwise_add(x, x, name="double").simple_bind(mx.cpu(), x=(2,))
    heard = []
    run.set_monitor_callback(lambda name, x: heard.append((name, mx.nd.NDArray(x, writable=False))))
    run.forward(x=mx.nd.ones(2))
    assert [(name, x.asnumpy().tolist()) for name, x in heard] == [(b"double_output", [2, 2])]
    monitor = mx.mon.Monitor(1)
    monitor.install(run)
    monitor.tic()
    run.forward()
    assert "_output" in monitor.toc()[0][1]


def test_operators_of_no_group_run_where_their_first_array_is():
    with mx.AttrScope(ctx_group="one"):
        hidden = mx.sym.Variable("a") * 2
    run = mx.sym.Group([mx.sym.BlockGrad(hidden), mx.sym.Variable("b") + 1]).simple_bind(
        mx.cpu(0), a=(2,), b=(2,), group2ctx={"one": mx.cpu(1)}
    )
    assert [out.context for out in run.forward()] == [mx.cpu(1), mx.cpu(0)]


@pytest.mark.parametrize("cold", ["auto", "interpret"])
def test_a_backward_describes_no_operator_of_the_users_again(cold):
    """Whether a result needs a gradient is asked of its description at the first backward pass alone."""
    made = []

    class Loss(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], in_data[0] * 1)

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], in_data[0] * 2)

    @mx.operator.register("described_once")
    class Prop(mx.operator.CustomOpProp):
        def __init__(self):
            super().__init__(need_top_grad=False)
            made.append(1)

        def create_operator(self, ctx, shapes, dtypes):
            return Loss()

    with mx.config.scope(compat_version="1.9", engine_cold=cold):
        x, grad = mx.nd.array([1.0, 3.0]), mx.nd.zeros(2)
        run = mx.sym.Custom(mx.sym.var("x"), op_type="described_once").bind(
            mx.cpu(), {"x": x}, {"x": grad}
        )
        counts = []
        for _ in range(3):
            run.forward(is_train=True)
            before = len(made)
            run.backward()
            counts.append((before - sum(map(sum, counts)), len(made) - before))
    assert grad.asnumpy().tolist() == [2, 6]
    assert counts[0][1] > 0
    # Interpreted, the forward pass runs node by node, and describes each time what it runs.
    assert counts[2] == (0 if cold == "auto" else 1, 0)


def test_executors_share_the_arrays_of_a_buffer():
    """Names and what is shared are those of MXNet 1.9.1."""
    data = mx.sym.var("data")
    net = mx.sym.BatchNorm(mx.sym.FullyConnected(data, num_hidden=4, name="fc"), name="bn")
    buffer = {}
    first = net.simple_bind(mx.cpu(), data=(3, 5), shared_buffer=buffer)
    names = net.list_arguments()
    assert sorted(buffer) == sorted([*names, *(f"grad of {n}" for n in names)])
    second = net.simple_bind(mx.cpu(), data=(2, 5), shared_buffer=buffer)
    second.arg_dict["fc_weight"][:] = 7
    assert (first.arg_dict["fc_weight"].asnumpy() == 7).all()
    assert second.arg_dict["data"].shape == (2, 5) and buffer["data"].shape == (3, 5)
    larger = net.simple_bind(mx.cpu(), data=(6, 5), shared_buffer=buffer)
    assert buffer["data"].shape == buffer["grad of data"].shape == (6, 5)
    buffer["data"][:] = 1
    assert (larger.arg_dict["data"].asnumpy() == 1).all()
    other = net.simple_bind(mx.cpu(), data=(6, 5), shared_buffer={})
    assert (other.arg_dict["fc_weight"].asnumpy() == 0).all()


@pytest.mark.parametrize(
    ("given", "shared"),
    [
        ((), ()),
        (("shared_arg_names",), ()),
        (("shared_buffer",), ("bn_moving_mean", "bn_moving_var")),
        (("shared_buffer", "shared_arg_names"), ("bn_moving_mean", "bn_moving_var", "fc_weight")),
    ],
)
def test_what_an_executor_shares_with_another(given, shared):
    """Of MXNet 1.9.1: nothing without a buffer; with one the named arguments with their gradients, and states."""

    def net(over):
        data = mx.sym.var("data")
        dense = mx.sym.FullyConnected(over(data, axis=1, keepdims=True), num_hidden=2, name="fc")
        return mx.sym.BatchNorm(dense, name="bn")

    first = net(mx.sym.mean).simple_bind(mx.cpu(), data=(2, 3))
    options = {"shared_arg_names": ["fc_weight"], "shared_buffer": {}}
    second = net(mx.sym.sum).simple_bind(
        mx.cpu(), data=(2, 5), shared_exec=first, **{k: options[k] for k in given}
    )
    for kind in ("arg_dict", "grad_dict", "aux_dict"):
        for name, array in getattr(first, kind).items():
            array[:] = 7
            assert (getattr(second, kind)[name].asnumpy() == 7).all() == (name in shared)
