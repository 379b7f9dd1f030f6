"""What the settings make of running: steps, queues, errors, devices, shapes, threads."""

import threading

import numpy as np
import pytest

import mxjax as mx
from mxjax.core.run import scheduler
from mxjax.errors import MXNetError, MXNetNotImplementedError, MXNetValueError
from mxjax.gluon import nn

pytestmark = pytest.mark.programs


def compiled(run):
    """How many programs a run compiled, started, and how many inputs they took over."""
    mx.waitall()
    mx.engine.reset()
    run()
    mx.waitall()
    counts = mx.engine.stats()
    return counts["compiled"], counts["programs"], counts["donated"]


def trained(steps, **options):
    mx.random.seed(3)
    net = nn.Dense(2, in_units=3)
    net.initialize(mx.init.Constant(0.5))
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    x = mx.np.array(np.linspace(-1, 1, 12).reshape(4, 3))

    def run():
        for _ in range(steps):
            with mx.autograd.record():
                loss = (net(x) ** 2).sum()
            loss.backward()
            trainer.step(4)

    with mx.config.scope(**options):
        run()
        counts = compiled(run)
    return net.weight.data().asnumpy(), counts


@pytest.mark.observes
def test_iterations_per_loop_is_so_many_steps_in_one_donated_program(programs):
    one, (_, ran, donated) = trained(8)
    assert " while(" not in programs.text
    four, (_, ran4, donated4) = trained(8, iterations_per_loop=4)
    assert (ran, ran4) == (8, 2)
    assert programs.text.count(" while(") == 1  # the steps are a loop of it
    assert donated == 4 * donated4 > 0
    np.testing.assert_allclose(four, one, rtol=1e-5)


@pytest.mark.observes
@pytest.mark.parametrize("name", ["MXNET_EXEC_ENABLE_INPLACE", "MEGENGINE_INPLACE_UPDATE"])
def test_without_inplace_nothing_is_donated(name):
    weights, (_, _, donated) = trained(2)
    kept, (_, _, none) = trained(2, **{name: 0})
    assert donated > 0 and none == 0
    np.testing.assert_array_equal(kept, weights)


@pytest.mark.observes
def test_match_range_0_gives_every_call_a_buffer_of_its_own():
    x = mx.np.ones(5)

    def run():
        (mx.np.exp(x) * 2 + x).asnumpy()

    for _ in range(3):
        run()
    assert compiled(run) == (0, 1, 0)
    with mx.config.scope(NNVM_EXEC_MATCH_RANGE=0):
        run()
        assert compiled(run)[1:] == (3, 0)


@pytest.mark.observes
@pytest.mark.parametrize("hybridize", [False, True])
def test_jit_false_runs_every_operator_by_itself(hybridize):
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=3), nn.Dense(3, in_units=3), nn.Dense(3, in_units=3))
    net.initialize()
    if hybridize:
        net.hybridize()
    x = mx.np.ones((2, 3))

    def run():
        net(x).asnumpy()

    run()
    assert compiled(run)[1] == 1
    with mx.config.scope(jit_compile="false"):
        run()
        assert compiled(run)[1] == 3


class Slow(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0])


@mx.operator.register("settings_slow")
class SlowProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Slow()


@pytest.mark.observes
def test_without_host_fallback_a_custom_operator_is_an_error_that_names_it():
    x = mx.nd.ones(2)
    assert mx.nd.Custom(x, op_type="settings_slow").asnumpy().tolist() == [1, 1]
    with (
        mx.config.scope(mix_compile_mode=0),
        pytest.raises(MXNetNotImplementedError, match="settings_slow"),
    ):
        mx.nd.Custom(x, op_type="settings_slow")


def failing(x):
    """A program that fails when it runs."""
    import jax

    from mxjax.core import Row, callback, record

    def fail(a):
        @callback.guarded
        def raises(_):
            raise ValueError("the host says no")

        return jax.pure_callback(raises, jax.ShapeDtypeStruct(a.shape, a.dtype), a)

    return type(x)._wrap(record(Row("failing", fail, effect=True).bind(), (x._value(),))[0])


@pytest.mark.observes
def test_caught_errors_wait_for_the_reader_others_do_not():
    y = failing(mx.np.ones(2))
    mx.core.flush_thread()  # nothing is raised
    with pytest.raises(ValueError, match="the host says no"):
        y.asnumpy()
    with mx.config.scope(MEGENGINE_CATCH_WORKER_EXEC=0):
        y = failing(mx.np.ones(2))
        with pytest.raises(ValueError, match="the host says no"):
            mx.core.flush_thread()


@pytest.mark.observes
@pytest.mark.parametrize(
    ("given", "at_once"),
    [
        ({"MXNET_ENGINE_TYPE": "NaiveEngine"}, True),
        ({"MEGENGINE_INTERP_ASYNC_LEVEL": 0}, True),
        ({"MXNET_ENGINE_TYPE": "ThreadedEngine"}, False),
        ({"MEGENGINE_INTERP_ASYNC_LEVEL": 1}, False),
        ({"MEGENGINE_INTERP_ASYNC_LEVEL": 2}, False),
    ],
)
def test_errors_and_results_come_at_the_call_or_when_they_are_asked_for(given, at_once):
    def shown():
        y = mx.np.exp(x)
        return (
            y._value().seg is None and y.jax.is_ready() if at_once else y._value().seg is not None
        )

    x = mx.np.ones(2)
    mx.waitall()
    with mx.config.scope(given):
        assert shown()
        if at_once:
            with pytest.raises(ValueError, match="the host says no"):
                failing(x)
        else:
            y = failing(x)
            with pytest.raises(ValueError, match="the host says no"):
                y.asnumpy()


@pytest.mark.observes
def test_the_same_training_twice_gives_the_same_bits():
    def weights():
        mx.random.seed(7)
        net = nn.HybridSequential()
        net.add(nn.Dense(4, in_units=3), nn.Dropout(0.5))
        net.initialize(device=devices)
        net.hybridize()
        trainer = mx.gluon.Trainer(net.collect_params(), "sgd", kvstore="device")
        xs = [
            mx.np.array(np.linspace(k, 1, 6).reshape(2, 3), device=device)
            for k, device in enumerate(devices)
        ]
        with mx.autograd.record():
            losses = [(net(x) ** 2).sum() for x in xs]
        mx.autograd.backward(losses)
        trainer.step(4)
        return net[0].weight.data(devices[0]).asnumpy().tobytes()

    devices = [mx.cpu(0), mx.cpu(1)]
    with mx.config.scope(MXNET_ENFORCE_DETERMINISM=1):
        first = weights()
    with mx.config.scope(deterministic=True):
        assert weights() == first


@pytest.mark.observes
def test_a_full_queue_makes_the_host_wait():
    def waits(size):
        with mx.config.scope(MEGENGINE_ASYNC_QUEUE_SIZE=size):
            mx.engine.reset()
            kept = []
            for _ in range(6):
                kept.append(mx.np.ones(3) * 2)
                mx.core.flush_thread()
            return mx.engine.stats()["waits"]

    assert waits(10000) == 0
    mx.waitall()
    assert waits(2) == 4


@pytest.mark.observes
def test_history_lists_the_calls_that_led_to_an_array():
    x = mx.np.ones(3)
    with mx.config.scope(MEGENGINE_RECORD_COMPUTING_PATH=1):
        net = nn.Dense(2, in_units=3)
        net.initialize()
        y = mx.np.exp(net(x.reshape(1, 3)))
        lines = mx.engine.history(y)
    assert [line.split("(")[0] for line in lines[-2:]] == ["FullyConnected", "exp"]
    assert " in dense" in lines[-2] and __file__ in lines[-1]
    assert mx.engine.history(mx.np.exp(x)) == []  # off again


@pytest.mark.observes
@pytest.mark.parametrize(
    ("given", "device"),
    [
        ({"MGE_DEFAULT_DEVICE": "cpu2"}, mx.cpu(2)),
        ({"MGE_DEFAULT_DEVICE": "xpux"}, None),
        ({"session_device_id": 0}, None),
        ({"ASCEND_DEVICE_ID": 0}, None),
    ],
)
def test_the_default_device_is_the_one_that_is_named(given, device):
    best = mx.gpu(0) if mx.num_gpus() else mx.cpu(0)
    with mx.config.scope(given):
        assert mx.current_device() == (device or best)
        assert (mx.np.ones(2) + 1).device == (device or best)
    assert mx.current_device() == mx.cpu(0)


@pytest.mark.observes
def test_the_session_is_stronger_than_the_environment_and_a_missing_device_says_so():
    both = mx.config.RunConfig(session_device_id=1, ASCEND_DEVICE_ID=0)
    assert both.engine_device == "xpu1"
    with (
        mx.config.scope(MGE_DEFAULT_DEVICE="gpu99"),
        pytest.raises(MXNetValueError, match="no device gpu.99"),
    ):
        mx.np.ones(2).asnumpy()


@pytest.mark.observes
def test_a_process_that_infers_records_nothing():
    with (
        mx.config.scope(graph_run_mode=0),
        pytest.raises(MXNetError, match="engine.run_mode is 'infer'"),
    ):
        mx.autograd.record()
    with mx.autograd.record():
        pass


@pytest.mark.observes
def test_so_many_threads_run_blocks_at_a_time(monkeypatch):
    from mxjax.gluon.graphs import shapes

    net = nn.Dense(2, in_units=3)
    net.initialize()
    net.hybridize()
    x = mx.np.ones((1, 3))
    expected = net(x).asnumpy()
    lock = threading.Lock()
    now, most = [0], [0]
    inside = shapes.gated

    def counted(limit, call):
        def counting():
            with lock:
                now[0] += 1
                most[0] = max(most[0], now[0])
            try:
                return call()
            finally:
                with lock:
                    now[0] -= 1

        return inside(limit, counting)

    monkeypatch.setattr("mxjax.gluon.hybrid_block.gated", counted)
    wrong = []

    def work():
        with mx.config.scope(graph_max_parallel_model_num=2):
            for _ in range(10):
                if (net(x).asnumpy() != expected).any():
                    wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and 1 <= most[0] <= 2


def hybrid(*layers):
    net = nn.HybridSequential()
    net.add(*layers)
    net.initialize()
    net.hybridize()
    return net


@pytest.mark.observes
@pytest.mark.parametrize(
    "given", [{"MEGENGINE_INPUT_NODE_USE_STATIC_SHAPE": 1}, {"dynamic_input": 0}]
)
def test_static_shapes_refuse_another_shape(given):
    net = hybrid(nn.Dense(2))
    with mx.config.scope(given):
        net(mx.np.ones((4, 3)))
        net(mx.np.ones((4, 3)))
        with pytest.raises(
            MXNetValueError, match=r"shapes \[\(5, 3\)\], and has been with \[\(4, 3\)\]"
        ):
            net(mx.np.ones((5, 3)))
    net(mx.np.ones((5, 3)))


@pytest.mark.observes
def test_shape_ranges_name_the_range():
    net = hybrid(nn.Dense(2))
    with mx.config.scope(dynamic_inputs_shape_range="getnext:[3~5,-1]"):
        assert net(mx.np.ones((3, 7))).shape == (3, 2)
        with pytest.raises(MXNetValueError, match=r"shape \(9, 7\).*allows \[3~5, any\]"):
            net(mx.np.ones((9, 7)))
    with pytest.raises(MXNetValueError, match="expected shapes such as"):
        mx.config.set(dynamic_inputs_shape_range="3~5")


@pytest.mark.observes
@pytest.mark.parametrize(
    "given", [{"compile_dynamic_mode": 1}, {"dynamic_graph_execute_mode": "dynamic_execute"}]
)
def test_buckets_serve_many_lengths_by_few_programs(given):
    net = hybrid(nn.Dense(3, in_units=2), nn.Dense(2, in_units=3))
    xs = [mx.np.array(np.random.uniform(size=(n, 2))) for n in (5, 6, 8, 3)]
    exact = [net(x).asnumpy() for x in xs]
    graphs = len(net._graphs)
    with mx.config.scope(given):
        fresh = hybrid(nn.Dense(3, in_units=2), nn.Dense(2, in_units=3))
        for mine, other in zip(
            fresh.collect_params().values(), net.collect_params().values(), strict=True
        ):
            mine.set_data(other.data())
        for x, y in zip(xs, exact, strict=True):
            np.testing.assert_allclose(fresh(x).asnumpy(), y, rtol=1e-5)
    assert (graphs, len(fresh._graphs)) == (4, 2)


def test_blocks_whose_rows_depend_on_each_other_run_exactly():
    class Centre(mx.gluon.HybridBlock):
        def forward(self, x):
            return x - x.mean(axis=0, keepdims=True)

    net = Centre()
    net.hybridize()
    x = np.random.uniform(size=(3, 2)).astype("float32")
    with mx.config.scope(compile_dynamic_mode=1):
        for _ in range(2):
            np.testing.assert_allclose(
                net(mx.np.array(x)).asnumpy(), x - x.mean(0), rtol=1e-4, atol=1e-6
            )
    assert net._buckets.mixes


@pytest.mark.observes
def test_large_arrays_are_copied_by_several_threads(monkeypatch):
    from mxjax.array import copying

    jobs = []
    submit = copying._submit
    monkeypatch.setattr(copying, "_submit", lambda *a: jobs.append(a) or submit(*a))
    small, large = np.arange(99.0), np.arange(400.0).reshape(100, 4)
    with mx.config.scope(MXNET_CPU_PARALLEL_COPY_SIZE=100, MXNET_GPU_COPY_NTHREADS=3):
        a = mx.np.array(small, dtype="float64")
        assert not jobs
        b = mx.np.array(large, dtype="float64")
        assert len(jobs) == 3
        large[:] = 0  # it is a copy
        c = mx.np.array(np.asfortranarray(np.arange(400.0).reshape(100, 4)), dtype="float64")
        jobs.clear()
    with mx.config.scope(MXNET_GPU_COPY_NTHREADS=4):
        mx.np.array(np.zeros(199_999), dtype="float64")
        assert not jobs
        mx.np.array(np.zeros(200_000), dtype="float64")
        assert len(jobs) == 4
    assert a.asnumpy().tolist() == small.tolist()
    np.testing.assert_array_equal(b.asnumpy(), np.arange(400.0).reshape(100, 4))
    np.testing.assert_array_equal(c.asnumpy(), b.asnumpy())


@pytest.mark.observes
def test_weights_are_arguments_of_programs_or_constants_in_them(programs):
    net = hybrid(nn.Dense(16, in_units=16, activation="relu"), nn.Dense(4, in_units=16))
    x = mx.np.array(np.random.uniform(size=(2, 16)))
    expected = net(x).asnumpy()

    def bytes_given():
        programs.clear()
        out = net(x).asnumpy()
        return out, [c.memory_analysis().argument_size_in_bytes for c, _ in programs]

    with mx.config.scope(external_weight=0):
        out, [given] = bytes_given()
        assert given == x.nbytes  # no count of random calls: it draws none
        np.testing.assert_allclose(out, expected, rtol=1e-6)
        assert bytes_given()[1] == []  # the same program again
        net[1].bias.set_data(mx.np.ones(4))
        mx.waitall()
        out, [given] = bytes_given()
        assert given == x.nbytes
        np.testing.assert_allclose(out, expected + 1, rtol=1e-6)
        with mx.autograd.record():  # training takes weights as arguments
            loss = net(x).sum()
        loss.backward()
        assert net[1].bias.grad().asnumpy().tolist() == [2] * 4
    mx.core.drop_programs()
    out, [given] = bytes_given()
    assert given >= x.nbytes + 4 * (16 * 16 + 16 * 4)


@pytest.mark.observes
@pytest.mark.parametrize(("tier", "compiled", "interpreted"), [
    ("auto", 1, 900), ("compile", 1, 0), ("interpret", 0, 1000),
])  # fmt: skip
def test_cold_code_runs_before_it_is_compiled(tier, compiled, interpreted):
    with mx.config.scope({"engine.cold": tier, "engine.compile_price": 0.1}):
        scheduler.forget()
        x = mx.np.array([[1.0, 2.0], [3.0, 4.0]])
        before = mx.engine.stats()
        for _ in range(1000):
            np.testing.assert_allclose(
                (mx.np.tanh(x) + 1).asnumpy(), np.tanh([[1, 2], [3, 4]]) + 1, rtol=1e-6
            )
        found = {name: n - before[name] for name, n in mx.engine.stats().items()}
    assert found["compiled"] == compiled
    assert 0 < found["interpreted"] <= interpreted or found["interpreted"] == interpreted
