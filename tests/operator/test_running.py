"""Operators written in Python: whose derivative they have, and when their Python runs."""

import threading

import jax
import numpy as onp
import pytest

import mxjax as mx
from mxjax import autograd, gluon, npx


@pytest.fixture
def operator():
    """Registers an operator by its two functions; gives its name and the list of what happened."""
    names = []

    def enter(forward=None, backward=None, **facts):
        events = []

        class Op(mx.operator.CustomOp):
            n = 0

            def forward(self, is_train, req, in_data, out_data, aux):
                self.n += 1
                events.append(("forward", self.n))
                made = in_data[0] if forward is None else forward(self, in_data[0])
                self.assign(out_data[0], req[0], made)

            def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
                events.append(("backward", self.n))
                made = -5 * out_grad[0] if backward is None else backward(self, out_grad[0])
                self.assign(in_grad[0], req[0], made)

        class Prop(mx.operator.CustomOpProp):
            traceable = facts.get("traceable", False)

            def create_operator(self, ctx, shapes, dtypes):
                events.append(("create", 0))
                return Op()

        names.append(f"test_running_{len(names)}")
        mx.operator.register(names[-1])(Prop)
        return names[-1], events

    return enter


class Net(gluon.HybridBlock):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def hybrid(function, **options):
    net = Net(function)
    net.initialize()
    net.hybridize(**options)
    return net


def ones(*shape):
    x = mx.np.ones(shape or (2,))
    x.attach_grad()
    return x


def gradient(call, x):
    with autograd.record():
        y = call(x)
    y.backward()
    return x.grad.asnumpy().tolist()


OPTIONS = [
    {}, {"static_alloc": True}, {"static_alloc": True, "static_shape": True}, {"inline_limit": 0}, {"mirror": True},
    {"mirror": "sublinear"}, {"mirror": "nested"}, {"dynamic_batch": True},
]  # fmt: skip


@pytest.mark.parametrize("traceable", [False, True])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_users_backward_is_the_derivative_of_a_hybridized_block(operator, options, traceable):
    op, _ = operator(traceable=traceable)
    net = hybrid(lambda x: mx.nd.Custom(x, op_type=op) * 1, **options)
    assert [gradient(net, ones()) for _ in range(8)] == [[-5, -5]] * 8


@pytest.mark.parametrize("traceable", [False, True])
def test_the_users_backward_is_the_derivative_in_an_executor(operator, traceable):
    op, _ = operator(traceable=traceable)
    run = (mx.sym.Custom(mx.sym.var("x"), op_type=op) * 1).simple_bind(mx.cpu(), x=(2,))
    for _ in range(8):
        run.forward(is_train=True, x=mx.nd.ones((2,)))
        run.backward(mx.nd.ones((2,)))
        assert run.grad_dict["x"].asnumpy().tolist() == [-5, -5]


@pytest.mark.parametrize("engine", ["NaiveEngine", "interpret", "compile"])
def test_the_users_backward_is_the_derivative_under_each_engine(operator, engine):
    op, events = operator()
    net = hybrid(lambda x: mx.nd.Custom(x * 2, op_type=op) * 3)
    option = {"MXNET_ENGINE_TYPE": engine} if engine == "NaiveEngine" else {"engine_cold": engine}
    with mx.config.scope(**option):
        assert [gradient(net, ones()) for _ in range(4)] == [[-30, -30]] * 4
    assert [k for k, _ in events if k != "create"] == ["forward", "backward"] * 4


def test_python_runs_at_every_call_of_a_block_and_of_an_executor(operator):
    random = onp.random.RandomState(0)
    drawn = []

    def forward(self, x):
        drawn.append(random.rand())
        return x * drawn[-1]

    op, _ = operator(forward)
    net = hybrid(lambda x: mx.nd.Custom(x, op_type=op) + 0)
    run = (mx.sym.Custom(mx.sym.var("x"), op_type=op) + 0).simple_bind(mx.cpu(), x=(2,))
    got = [float(net(mx.np.ones(2))[0]) for _ in range(8)]
    got += [float(run.forward(x=mx.nd.ones((2,)))[0][0].asscalar()) for _ in range(8)]
    assert len(set(drawn)) == 16
    onp.testing.assert_allclose(got, drawn, rtol=1e-6)


@pytest.mark.parametrize("training", [False, True])
def test_a_place_in_a_graph_keeps_its_operator(operator, training):
    op, events = operator(lambda self, x: x * self.n)
    net = hybrid(lambda x: mx.nd.Custom(x, op_type=op) + 0)
    run = (mx.sym.Custom(mx.sym.var("x"), op_type=op) + 0).simple_bind(mx.cpu(), x=(2,))
    for n in range(1, 8):
        with autograd.record() if training else autograd.pause():
            y = net(ones())
        assert float(y[0]) == n
        if training:
            y.backward()
        assert run.forward(is_train=training, x=mx.nd.ones((2,)))[0].asnumpy().tolist() == [n, n]
    assert events.count(("create", 0)) == 2
    assert [float(mx.nd.Custom(ones(), op_type=op)[0]) for _ in range(3)] == [1, 1, 1]


def test_calls_before_one_backward_pass_have_operators_of_their_own(operator):
    """What forward saves in the operator is that call's."""

    def forward(self, x):
        self.saved = x.copy()
        return x * 1

    op, events = operator(forward, lambda self, g: g * self.saved)
    net = hybrid(lambda x: mx.nd.Custom(x, op_type=op) + 0)
    x = ones()
    for _ in range(3):
        with autograd.record():
            y = net(x) + net(x * 2) + net(x * 3)
        y.backward()
        assert x.grad.asnumpy().tolist() == [1 + 4 + 9] * 2
    assert events.count(("create", 0)) == 3


def test_pieces_between_operators_are_programs_with_what_they_captured(operator):
    op, _ = operator(backward=lambda self, g: g * 1)

    def make():
        mx.random.seed(3)
        net = gluon.nn.HybridSequential()
        net.add(gluon.nn.Dense(4, activation="tanh"), gluon.nn.BatchNorm(), Net(lambda x: mx.nd.Custom(x, op_type=op)),
                gluon.nn.Dropout(0.5), gluon.nn.Dense(3), Net(lambda x: mx.nd.Custom(x, op_type=op)),
                gluon.nn.Dense(2, activation="relu"))  # fmt: skip
        net.initialize(mx.init.Xavier())
        return net

    data = mx.np.array(onp.random.RandomState(0).randn(6, 5).astype("float32"))
    found = []
    for hybridized in (False, True):
        net = make()
        if hybridized:
            net.hybridize()
        net(data)
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        losses = []
        for step in range(5):
            mx.random.seed(step)
            with autograd.record():
                loss = (net(data) ** 2).sum()
            loss.backward()
            trainer.step(6)
            losses.append(float(loss))
        losses += [
            net(data).asnumpy().sum(),
            *[p.data().asnumpy().sum() for p in net.collect_params().values()],
        ]
        found.append(losses)
    onp.testing.assert_allclose(found[1], found[0], rtol=2e-5, atol=1e-6)


def test_large_parts_of_a_graph_are_one_program_each(operator):
    op, _ = operator()

    def function(x):
        for _ in range(10):
            x = mx.np.sin(x) * 1.5 + 1
        x = mx.nd.Custom(x, op_type=op)
        for _ in range(10):
            x = mx.np.cos(x) * 1.5 + 1
        return x

    net = hybrid(function)
    (graph,) = [net.graph(mx.np.ones((600, 600)))]
    cut = mx.core.Cut(graph)
    assert [len(getattr(part, "steps", [None])) for part, _ in cut.parts] == [30, 1, 30]


def test_loops_and_branches_run_python_step_by_step(operator):
    op, events = operator(
        lambda self, x: x * 2 if float(x.sum()) > 3 else x * 3, lambda self, g: g * 7
    )

    def custom(x):
        return mx.nd.Custom(x, op_type=op)

    def loops(x):
        outs, last = npx.foreach(lambda d, s: (custom(d) + s, s + d), x, x[0] * 0)
        more, (_, s) = npx.while_loop(
            lambda i, s: i < 2,
            lambda i, s: (custom(s) + s, [i + 1, custom(s) * 0.5]),
            [mx.np.array(0), x[0]],
            4,
        )
        chosen = npx.cond(lambda a: a.sum() > 100, custom, lambda a: custom(a) + 1, x)
        return outs.sum() + more.sum() + s.sum() + chosen.sum() + last.sum()

    x = mx.np.array(onp.arange(6.0, dtype="float32").reshape(3, 2))
    x.attach_grad()
    want = gradient(loops, x)
    order = [e for e in events if e[0] != "create"]
    events.clear()
    net = hybrid(loops)
    for _ in range(3):
        assert gradient(net, x) == want
        ran = [k for k, _ in events if k != "create"]
        assert ran == [k for k, _ in order]
        events.clear()


def test_a_long_imperative_loop_runs_python_at_each_step(operator):
    op, events = operator()
    out, _ = npx.foreach(
        lambda d, s: (mx.nd.Custom(d, op_type=op), s), mx.np.ones((20, 2)), mx.np.zeros(2)
    )
    assert out.shape == (20, 2) and events.count(("forward", 1)) == 20


def test_random_numbers_of_loops_in_python_are_those_of_plain_loops(operator):
    op, _ = operator()

    def loop(x):
        return npx.foreach(
            lambda d, s: (mx.nd.Custom(d, op_type=op) * mx.np.random.uniform(size=(2,)), s), x, x[0]
        )[0]

    x, found = mx.np.ones((3, 2)), []
    for net in (loop, hybrid(loop)):
        mx.random.seed(5)
        found.append([net(x).asnumpy(), net(x).asnumpy()])
    onp.testing.assert_array_equal(found[0], found[1])


def test_an_operator_that_writes_to_its_input_writes_to_the_callers_array():
    class Op(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            in_data[0][:] = 9  # MXNet gives [9, 9], [18, 18]
            self.assign(out_data[0], req[0], in_data[0] * 2)

    class Prop(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, dtypes):
            return Op()

    mx.operator.register("test_running_writes")(Prop)
    x = mx.nd.array([1, 2])
    y = mx.nd.Custom(x, op_type="test_running_writes")
    assert (x.asnumpy().tolist(), y.asnumpy().tolist()) == ([9, 9], [18, 18])


def test_create_operator_hears_of_auxiliary_states_last():
    """Recorded: MXNet 1.9.1 and 2.0.0b1 hand over the shapes and dtypes of arguments, then of states."""
    heard = []

    class Op(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            aux[0][:] += 1
            self.assign(out_data[0], req[0], in_data[0] * in_data[1])

    class Prop(mx.operator.CustomOpProp):
        def list_arguments(self):
            return ["data", "weight"]

        def list_auxiliary_states(self):
            return ["count"]

        def infer_shape(self, in_shape):
            return [in_shape[0], in_shape[0]], [in_shape[0]], [(1,)]

        def create_operator(self, ctx, shapes, dtypes):
            heard.append(([tuple(s) for s in shapes], len(dtypes)))
            return Op()

    mx.operator.register("test_running_states")(Prop)
    x, count = mx.nd.ones((2, 3)), mx.nd.zeros(1)
    mx.nd.Custom(x, x * 2, count, op_type="test_running_states").wait_to_read()
    assert heard == [([(2, 3), (2, 3), (1,)], 3)] and count.asscalar() == 1


def test_a_name_that_is_registered_anew_is_another_operator(operator):
    for traceable in (True, False, True):
        for factor in (2, 3):
            op, _ = operator(
                lambda self, x, by=factor: x * by,
                lambda self, g, by=factor: g * by,
                traceable=traceable,
            )
            mx.operator.register("test_running_anew")(mx.operator.custom_op.registry[op])
            net = hybrid(lambda x: mx.nd.Custom(x, op_type="test_running_anew") + 1)
            for _ in range(3):
                assert gradient(net, ones()) == [factor, factor]
                assert float(net(ones())[0]) == factor + 1


# ---- errors, interrupts, threads -------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["__init__", "infer_shape", "infer_type", "create_operator"])
def test_an_error_of_its_description_is_an_mxnet_error_too(where):
    """MXNet 1.9.1 and 2.0.0b1 raise an MXNetError."""

    def fails(self, *args):
        raise LookupError("my words")

    body = {"create_operator": lambda self, *args: mx.operator.CustomOp(), where: fails}
    made = type("Prop", (mx.operator.CustomOpProp,), body)
    mx.operator.register(f"fails_in_{where}")(made)
    with pytest.raises(mx.MXNetError, match="LookupError in the custom operator.*my words"):
        mx.nd.Custom(mx.nd.ones(2), op_type=f"fails_in_{where}")
    if where != "create_operator":
        with pytest.raises(mx.MXNetError, match="LookupError in the custom operator.*my words"):
            symbol = mx.sym.Custom(mx.sym.var("x"), op_type=f"fails_in_{where}")
            symbol.infer_type(x="float32") if where == "infer_type" else symbol.infer_shape(x=(2,))


@pytest.mark.parametrize("where", ["forward", "backward"])
@pytest.mark.parametrize("hybridized", [False, True])
def test_an_error_is_of_its_own_kind_with_the_users_line(operator, where, hybridized):
    fails = [True]

    def maybe(self, x):
        if fails[0]:
            raise ZeroDivisionError("my words")
        return x * 3

    op, events = operator(**{where: maybe})
    net = (hybrid if hybridized else Net)(lambda x: mx.nd.Custom(x * 1, op_type=op) * 1)
    x = ones()
    for _ in range(3):
        with pytest.raises(ZeroDivisionError, match="my words") as told:
            gradient(net, x)
        assert isinstance(told.value, mx.MXNetError)
        lines = [(f.path, f.lineno) for f in told.traceback] + [
            (f.tb_frame.f_code.co_filename, f.tb_lineno) for f in _frames(told.value.__cause__)
        ]
        assert any(
            str(path) == __file__ and line == maybe.__code__.co_firstlineno + 2
            for path, line in lines
        )
    fails[0] = False
    mx.npx.waitall()
    assert gradient(net, x) == ([-5, -5] if where == "forward" else [3, 3])
    if hybridized and where == "forward":  # the place keeps its operator
        assert [e for e in events if e[0] != "backward"] == [
            ("create", 0),
            *[("forward", k) for k in (1, 2, 3, 4)],
        ]


def _frames(error):
    trace = error.__traceback__
    while trace is not None:
        yield trace
        trace = trace.tb_next


@pytest.mark.parametrize("where", ["forward", "backward"])
@pytest.mark.parametrize("hybridized", [False, True])
def test_an_interrupt_inside_reaches_the_caller_and_harms_nothing(operator, where, hybridized):
    interrupts = [True]

    def maybe(self, x):
        if interrupts[0]:
            raise KeyboardInterrupt
        return x * 3

    op, events = operator(**{where: maybe})
    net = (hybrid if hybridized else Net)(lambda x: mx.nd.Custom(mx.np.tanh(x) + 1, op_type=op) * 2)
    x = ones()
    x.attach_grad("add")
    with pytest.raises(KeyboardInterrupt):
        gradient(net, x)
    assert not autograd.is_recording()
    interrupts[0] = False
    x.grad[:] = 0
    slope = 1 - onp.tanh(1.0) ** 2
    factor = (-5 if where == "forward" else 3) * 2
    onp.testing.assert_allclose(gradient(net, x), [factor * slope] * 2, rtol=1e-5)
    assert mx.np.arange(3).asnumpy().tolist() == [0, 1, 2]


def test_threads_have_operators_of_their_own_while_they_run(operator):
    barrier = threading.Barrier(4)

    def forward(self, x):
        self.saved = x.asnumpy()
        barrier.wait(60)
        return x * 1

    op, events = operator(forward, lambda self, g: g * mx.np.array(self.saved))
    net = hybrid(lambda x: mx.nd.Custom(x * 1, op_type=op) * 2)
    found = {}

    def work(k):
        for _ in range(3):
            x = mx.np.full((2,), k + 1.0)
            x.attach_grad()
            found.setdefault(k, []).append(gradient(net, x))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == {k: [[2 * (k + 1.0)] * 2] * 3 for k in range(4)}


def test_several_devices(operator):
    op, _ = operator()
    net = hybrid(lambda x: mx.nd.Custom(x * 1, op_type=op) * 2)
    for _ in range(3):
        xs = [mx.np.ones(2, device=mx.cpu(k)) for k in range(2)]
        for x in xs:
            x.attach_grad()
        with autograd.record():
            ys = [net(x) for x in xs]
        autograd.backward(ys)
        assert [x.grad.asnumpy().tolist() for x in xs] == [[-10, -10]] * 2
        assert [y.device for y in ys] == [mx.cpu(0), mx.cpu(1)]


# ---- inside programs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("traceable", [False, True])
def test_transformations_of_jax_have_the_users_derivative(operator, traceable):
    op, events = operator(lambda self, x: x * self.n, traceable=traceable)

    def loss(a):
        return (mx.nd.Custom(mx.np.array(a) * 2, op_type=op) * 3).sum().jax

    a = jax.numpy.ones(2)
    assert jax.grad(loss)(a).tolist() == [-30, -30]
    compiled = jax.jit(jax.value_and_grad(loss))
    got = [float(compiled(a)[0]) for _ in range(3)]
    assert compiled(a)[1].tolist() == [-30, -30]
    # Called back at each run, or traced once.
    assert got == ([12, 12, 12] if traceable else [12, 24, 36])


def test_a_traceable_operator_is_a_part_of_the_blocks_program(operator):
    op, events = operator(lambda self, x: mx.np.tanh(x), lambda self, g: g * 11, traceable=True)
    net = hybrid(lambda x: mx.nd.Custom(x, op_type=op) * 2)
    x = ones()
    for _ in range(4):
        assert gradient(net, x) == [22, 22]
    before = len(events)
    for _ in range(8):
        assert gradient(net, x) == [22, 22]
    assert len(events) == before
    assert [s.call.name for s in net.graph(x).steps][0] == "Custom"


# ---- autograd.Function -----------------------------------------------------------------------------------


class Reversed(autograd.Function):
    log = []

    def __init__(self, by):
        super().__init__()
        self.by = by

    def forward(self, x):
        self.log.append("forward")
        self.kept = x * self.by
        self.save_for_backward(x)
        return x * 2

    def backward(self, dy):
        self.log.append("backward")
        return -dy * self.kept * self.saved_tensors[0]


def test_a_functions_backward_is_the_derivative_of_a_hybridized_block():
    factor = [1.0]
    net = hybrid(lambda x: Reversed(factor[0])(x * 3) + 1, static_shape=True)
    x = ones()
    Reversed.log.clear()
    for k in range(4):
        factor[0] = k + 1.0
        assert gradient(net, x) == [-27 * (k + 1.0)] * 2
    assert Reversed.log == ["forward", "backward"] * 4
    (found,) = gluon.graphs.breaks.breaks_of(net)
    assert found.asks == "autograd.Function"


def test_a_functions_backward_is_the_derivative_inside_jax():
    def loss(a):
        return Reversed(2.0)(mx.np.array(a) * 3).sum().jax

    for grad in (jax.grad(loss), jax.jit(jax.grad(loss))):
        assert grad(jax.numpy.ones(2)).tolist() == [-54, -54]
