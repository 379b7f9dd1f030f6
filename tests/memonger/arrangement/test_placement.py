"""Variables and the optimizer's states in the host's memory, and residuals that wait there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, core, errors, gluon, memonger, settings
from mxjax.core import SCALARS, GraphCall, memory
from mxjax.core.graph.pairs import Pair
from mxjax.gluon import nn
from tests.memonger import networks

# On a CPU, where these tests run, the memory is named and nothing is saved: one test looks at the warning.
pytestmark = [
    pytest.mark.filterwarnings("ignore:pinned_host saves no memory on a CPU"),
    pytest.mark.programs,
]
HOST, DEVICE = "pinned_host", "device"


def kind(array: Any) -> str:
    """The memory an array is in, as JAX names it."""
    return str(array.jax.sharding.memory_kind)


def network(dtype: str = "float32", device: Any = None) -> nn.HybridSequential:
    net = nn.HybridSequential()
    net.add(
        nn.Dense(6, in_units=4, activation="relu"),
        nn.BatchNorm(in_channels=6),
        nn.Dense(3, in_units=6),
    )
    mx.random.seed(5)
    net.cast(dtype)
    net.initialize(mx.init.Xavier(), device=device)
    return net


def states_of(trainer: gluon.Trainer) -> list[Any]:
    def leaves(state: Any) -> list[Any]:
        if isinstance(state, (tuple, list)):
            return [x for s in state for x in leaves(s)]
        return [] if state is None else [state]

    return [x for u in trainer._updaters for s in u.states.values() for x in leaves(s)]


class Run:
    """Steps on one batch, with what each cost."""

    def __init__(self, net: Any, optimizer: Any = "adam", dtype: str = "float32", **options: Any):
        self.net = net
        self.trainer = gluon.Trainer(net.collect_params(), optimizer, options or None)
        self.x = mx.np.array(np.random.RandomState(0).randn(8, 4).astype(dtype))
        self.losses: list[Any] = []

    def step(self) -> dict[str, int]:
        before = mx.engine.stats()
        with autograd.record():
            loss = (self.net(self.x) ** 2).mean()
        loss.backward()
        self.trainer.step(1)
        self.losses.append(loss)
        after = mx.engine.stats()
        return {k: after[k] - before[k] for k in ("programs", "compiled", "donated")}

    def arrays(self) -> list[Any]:
        return [p.data() for p in self.net.collect_params().values()]

    def numbers(self) -> list[np.ndarray]:
        return [a.asnumpy() for a in (*self.losses, *self.arrays(), *states_of(self.trainer))]


def trained(placement: str, optimizer: Any, dtype: str, hybrid: bool, **options: Any) -> Run:
    with settings.scope("memory.variable_placement", placement):
        net = network(dtype)
        if hybrid:
            net.hybridize()
        run = Run(net, optimizer, dtype, **options)
        for _ in range(3):
            run.step()
    return run


@pytest.mark.parametrize(
    ("optimizer", "dtype", "hybrid", "options"),
    [
        ("adam", "float32", True, {"learning_rate": 0.1}),
        ("sgd", "float32", False, {"learning_rate": 0.1, "momentum": 0.9}),
        ("sgd", "float16", True, {"learning_rate": 0.1, "momentum": 0.9, "multi_precision": True}),
        (
            "dcasgd",
            "float32",
            True,
            {"learning_rate": 0.1},
        ),  # its state begins as a copy of the weight
    ],
)
def test_the_numbers_are_the_same_bit_by_bit(
    optimizer: str, dtype: str, hybrid: bool, options: Any
) -> None:
    plain = trained("Device", optimizer, dtype, hybrid, **options)
    placed = trained("Host", optimizer, dtype, hybrid, **options)
    assert {kind(a) for a in (*plain.arrays(), *states_of(plain.trainer))} == {DEVICE}
    assert states_of(placed.trainer)
    assert {kind(a) for a in (*placed.arrays(), *states_of(placed.trainer))} == {HOST}
    for ours, theirs in zip(placed.numbers(), plain.numbers(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_an_optax_transformation_keeps_its_states_there_too() -> None:
    optax = pytest.importorskip("optax")
    plain = trained("Device", optax.adam(0.1), "float32", True)
    placed = trained("Host", optax.adam(0.1), "float32", True)
    assert {kind(a) for a in states_of(placed.trainer)} == {HOST}
    for ours, theirs in zip(placed.numbers(), plain.numbers(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.observes
def test_parameters_are_there_before_the_first_step_and_gradients_never() -> None:
    with settings.scope(variable_placement="Host"):  # Ascend's name
        net = network()
    for p in net.collect_params().values():
        assert kind(p.data()) == HOST
        if p.grad_req != "null":
            assert kind(p.grad()) == DEVICE
    run = Run(net)
    run.step()
    for p in net.collect_params().values():
        if p.grad_req != "null":
            assert kind(p.grad()) == DEVICE


def test_a_step_is_one_program_that_is_compiled_once_and_donates_as_ever() -> None:
    costs = {}
    for placement in ("Device", "Host"):
        with settings.scope("memory.variable_placement", placement):
            net = network()
            net.hybridize()
            run = Run(net, learning_rate=0.1)
            run.step()
            run.step()
            costs[placement] = [run.step() for _ in range(3)]
    assert [(c["programs"], c["compiled"]) for c in costs["Host"]] == [(1, 0)] * 3
    # Six weights with two states each, two moving statistics.
    assert (
        [c["donated"] for c in costs["Host"]] == [c["donated"] for c in costs["Device"]] == [20] * 3
    )


def test_the_program_takes_variables_from_the_host_and_returns_them_there() -> None:
    with settings.scope("memory.variable_placement", "Host"):
        net = network()
        net.hybridize()
        run = Run(net, learning_rate=0.1)
        run.step()
        with core.rehearsal() as found:  # compiles what a step runs, and leaves it at hand
            run.step()
    (program,) = found.programs
    taken = [s.memory_kind for s in program.compiled.input_shardings[0]]
    given = [s.memory_kind for s in program.compiled.output_shardings]
    # Six weights, their twelve states and two moving statistics; gradients and the rest elsewhere.
    assert taken.count(HOST) == given.count(HOST) == 20
    assert len(given) >= 20 + 6


def test_saving_and_loading(tmp_path: Path) -> None:
    with settings.scope("memory.variable_placement", "Host"):
        run = Run(network(), learning_rate=0.1)
        run.step()
        run.net.save_parameters(str(tmp_path / "net.params"))
        run.trainer.save_states(str(tmp_path / "states"))
        for initialized in (True, False):
            net = network() if initialized else nn.HybridSequential()
            if not initialized:
                net.add(nn.Dense(6, activation="relu"), nn.BatchNorm(), nn.Dense(3))
            net.load_parameters(str(tmp_path / "net.params"))
            other = Run(net, learning_rate=0.1)
            other.trainer.load_states(str(tmp_path / "states"))
            assert {kind(a) for a in other.arrays()} == {HOST}
            for ours, theirs in zip(other.arrays(), run.arrays(), strict=True):
                np.testing.assert_array_equal(ours.asnumpy(), theirs.asnumpy())
    run.step()
    with settings.scope("memory.variable_placement", "Host"):
        other.step()
    assert {kind(a) for a in (*other.arrays(), *states_of(other.trainer))} == {HOST}
    for ours, theirs in zip(other.arrays(), run.arrays(), strict=True):
        np.testing.assert_array_equal(ours.asnumpy(), theirs.asnumpy())


def test_writing_leaves_an_array_where_it_is() -> None:
    with settings.scope("memory.variable_placement", "Host"):
        net = nn.Dense(2, in_units=3)
        net.initialize()
    w = net.weight
    given = np.arange(6, dtype="float32").reshape(2, 3)
    w.set_data(given)
    np.testing.assert_array_equal(w.data().asnumpy(), given)
    w.set_data(mx.np.array(given + 1))
    w.data()[0] = 7
    w.data()[:] = w.data() * 2
    np.testing.assert_array_equal(w.data().asnumpy(), [[14, 14, 14], [8, 10, 12]])
    assert kind(w.data()) == HOST
    assert kind(w.data().copy()) == kind(w.data() + 0) == DEVICE  # results are the device's
    w.grad_req = "null"
    assert kind(w.data()) == HOST
    w.grad_req = "add"
    with autograd.record():
        (w.data() * 3).sum().backward()
    np.testing.assert_array_equal(w.grad().asnumpy(), np.full((2, 3), 3.0, "float32"))
    with settings.scope("memory.variable_placement", "Host"):
        w.cast("float64")
        assert kind(w.data()) == HOST
        w.reset_device(mx.cpu(1))
    assert kind(w.data()) == HOST and w.data().device == mx.cpu(1)
    np.testing.assert_array_equal(w.data().asnumpy(), [[14, 14, 14], [8, 10, 12]])


def test_a_private_copy_is_made_of_what_is_placed() -> None:
    """The program that overwrites the placed array in place must not touch the one it came from."""
    source = mx.np.arange(4.0)
    net = gluon.Parameter("weight", shape=(4,))
    net.initialize()
    net.place(HOST)
    net.set_data(source)
    other = net.data().detach()
    trainer = gluon.Trainer([net], "sgd", {"learning_rate": 1.0})
    for _ in range(3):
        with autograd.record():
            loss = net.data().sum()
        loss.backward()
        trainer.step(1)
    np.testing.assert_array_equal(source.asnumpy(), [0, 1, 2, 3])
    np.testing.assert_array_equal(net.data().asnumpy(), [-3, -2, -1, 0])
    np.testing.assert_array_equal(other.asnumpy(), [-3, -2, -1, 0])  # an alias, as ever


def test_networks_trainers_and_arrays_are_placed_one_by_one() -> None:
    run = Run(network(), learning_rate=0.1)
    run.net.hybridize()
    run.step()
    memonger.place(run.trainer, HOST)
    assert {kind(a) for a in states_of(run.trainer)} == {HOST}
    run.step()
    assert {kind(a) for a in states_of(run.trainer)} == {HOST}
    assert {kind(a) for a in run.arrays()} == {DEVICE}
    memonger.place(run.trainer, DEVICE)
    memonger.place(run.net, HOST)
    run.step()
    assert {kind(a) for a in states_of(run.trainer)} == {DEVICE}
    assert {kind(a) for a in run.arrays()} == {HOST}
    memonger.place(run.net, DEVICE)
    run.step()
    assert {kind(a) for a in run.arrays()} == {DEVICE}
    plain = Run(network(), learning_rate=0.1)
    plain.net.hybridize()
    for _ in range(4):
        plain.step()
    for ours, theirs in zip(run.numbers(), plain.numbers(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_what_is_placed_before_it_exists() -> None:
    net = nn.HybridSequential()
    net.add(nn.Dense(3), nn.Dense(2))
    memonger.place(net, HOST)
    net.initialize()
    net.hybridize()
    run = Run(net, learning_rate=0.1)
    memonger.place(run.trainer, HOST)
    run.step()  # the shapes are found here
    assert {kind(a) for a in (*run.arrays(), *states_of(run.trainer))} == {HOST}


def test_an_array_is_placed_with_its_history() -> None:
    x = mx.np.array([1.0, 2.0])
    x.attach_grad()
    memonger.place(x, HOST)
    assert kind(x) == HOST
    with autograd.record():
        y = x * x
        memonger.place(y, HOST)
        z = (y * 3).sum()
    z.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [6, 12])
    assert kind(y) == HOST and kind(x.grad) == DEVICE
    x += 1
    assert kind(x) == HOST
    np.testing.assert_array_equal(x.asnumpy(), [2, 3])
    memonger.place(x, DEVICE)
    assert kind(x) == DEVICE
    with autograd.record():
        z = (x * x).sum()
    z.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [4, 6])


def test_arrays_from_jax_keep_their_memory() -> None:
    device = jax.devices()[0]
    there = jax.sharding.SingleDeviceSharding(device, memory_kind=HOST)
    x = mx.np.from_jax(jax.device_put(np.ones(3, "float32"), there))
    assert x._value().aval.memory == HOST
    y = mx.np.ones(3)
    np.testing.assert_array_equal((x + y).asnumpy(), [2, 2, 2])
    assert kind(x.to_device(mx.cpu(1))) == DEVICE
    # Inside a transformation of the user's a call runs on tracers at once.
    doubled = jax.jit(lambda a: (mx.np.from_jax(a) * x).jax)(np.float32(2))
    np.testing.assert_array_equal(doubled, [2, 2, 2])


def test_several_devices() -> None:
    devices = [mx.cpu(0), mx.cpu(1)]
    numbers = []
    for placement in ("Device", "Host"):
        with settings.scope("memory.variable_placement", placement):
            net = network(device=devices)
            trainer = gluon.Trainer(
                net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9}
            )
            data = mx.np.array(np.random.RandomState(1).randn(8, 4).astype("float32"))
            for _ in range(2):
                with autograd.record():
                    losses = [
                        (net(x) ** 2).sum() for x in gluon.utils.split_and_load(data, devices)
                    ]
                autograd.backward(losses)
                trainer.step(8)
            arrays = [a for p in net.collect_params().values() for a in p.list_data()]
            want = HOST if placement == "Host" else DEVICE
            assert {kind(a) for a in (*arrays, *states_of(trainer))} == {want}
            numbers.append([a.asnumpy() for a in arrays])
    for ours, theirs in zip(*numbers, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_refusals() -> None:
    x = mx.np.ones((2, 2))
    with pytest.raises(errors.MXNetValueError, match="'device'.*'pinned_host'"):
        memonger.place(x, "hots")
    with pytest.raises(errors.MXNetTypeError, match="a block, a parameter, a trainer or an array"):
        memonger.place(3, HOST)
    with pytest.raises(errors.MXNetValueError, match="view"):
        memonger.place(x[0], HOST)
    with pytest.raises(ValueError, match="Device"):
        settings.set("memory.variable_placement", "Elsewhere")


def test_a_memory_the_backend_does_not_have_is_refused() -> None:
    class Poor:
        platform = "gpu"

        def addressable_memories(self) -> list[Any]:
            return [type("Memory", (), {"kind": "device"})()]

        def __repr__(self) -> str:
            return "poor:0"

    with pytest.raises(
        errors.DeviceError, match="poor:0 cannot reach memory of the kind 'pinned_host'"
    ):
        memory.check(Poor(), HOST)


def test_on_a_cpu_a_warning_says_once_that_nothing_is_saved(
    recwarn: pytest.WarningsRecorder,
) -> None:
    memory._check.cache_clear()
    memory._warn_of_cpu.cache_clear()
    with pytest.warns(UserWarning, match="pinned_host saves no memory on a CPU.*hybridize"):
        memonger.place(mx.np.ones(2), HOST)
    recwarn.clear()
    memonger.place(mx.np.ones(2), HOST)
    assert not recwarn.list


# ---- residuals


def residual_graph() -> Any:
    net = networks.residual_network(2, channels=16)
    x, _ = networks.batch(4, 32)
    with autograd.train_mode():
        return net.graph(x)


def pair_of(graph: Any, policy: Any) -> tuple[Pair, list[Any]]:
    avals = [*graph.avals, *graph.fmt]
    wants = tuple(not isinstance(a, str) and a.dtype == "float32" for a in avals)
    return Pair(GraphCall(graph, policy), avals, wants), avals


@contextmanager
def core_programs() -> Iterator[list[Any]]:
    """The programs that run inside."""
    from mxjax.core.compile import program

    found: list[Any] = []
    run = program.Program.run

    def noted(self: Any, *args: Any) -> Any:
        found.append(self)
        return run(self, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program.Program, "run", noted)
        yield found


@pytest.fixture
def as_if_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets graphs of this CPU be lowered for another backend."""
    for module in ("parts", "offload"):
        monkeypatch.setattr(
            f"mxjax.memonger.arrangement.{module}.refuse_without_host_memory", lambda device: None
        )


def test_offloading_on_a_cpu_is_refused() -> None:
    net = nn.Dense(2, in_units=3)
    net.initialize()
    net.hybridize(mirror="offload")
    with autograd.record(), pytest.raises(errors.DeviceError, match="silently drops.*mirror"):
        net(mx.np.ones((1, 3)))


@pytest.mark.usefixtures("as_if_a_gpu")
def test_offloaded_residuals_travel_to_the_host_and_back() -> None:
    graph = residual_graph()
    pair, avals = pair_of(graph, memonger.policy("offload"))
    outs, _ = pair.forward.infer(tuple(avals), graph.avals[0].device)
    away = [a for a in outs[pair.n_outs :] if a.memory == HOST]
    # The results of the stem and of two blocks' convolutions (5), and what crosses between the blocks.
    assert {a.shape for a in away} == {(4, 32, 32, 16)}  # on a CPU images wait channels last
    assert len(away) == 6
    left = sum(a.nbytes for a in outs[pair.n_outs :] if a.memory is None)
    assert left < 1e-2 * sum(a.nbytes for a in away)

    def step(*inputs: Any) -> Any:
        made = pair.forward.fn(*inputs)
        has = (True, *[False] * (pair.n_outs - 1))
        return pair.backward(has).fn(*pair.residuals(inputs, made), made[0])

    structs = [SCALARS[a] if isinstance(a, str) else a.struct for a in avals]
    with jax.enable_x64(True):
        traced = jax.jit(step).trace(*structs)
        texts = {p: traced.lower(lowering_platforms=(p,)).as_text() for p in ("cuda", "tpu", "cpu")}
    for platform in ("cuda", "tpu"):
        assert texts[platform].count('_xla_buffer_placement = "pinned_host"') == len(away)
        assert texts[platform].count('_xla_buffer_placement = "device"') == len(away)
    # What the refusal says of CPUs.
    assert "_xla_buffer_placement" not in texts["cpu"]


@pytest.mark.usefixtures("as_if_a_gpu")
def test_gradients_with_offloaded_residuals() -> None:
    def gradients(policy: Any, apart: bool) -> list[np.ndarray]:
        net = network()
        net.hybridize(mirror=policy)
        with autograd.record():
            loss = (
                net(mx.np.array(np.random.RandomState(0).randn(8, 4).astype("float32"))) ** 2
            ).sum()
            if (
                apart
            ):  # forward and backward are two programs: between them residuals wait on the host
                loss.asnumpy()
        loss.backward()
        return [p.grad().asnumpy() for p in net.collect_params().values() if p.grad_req != "null"]

    policy = memonger.Offload(smallest=0)
    plain, together = gradients(False, False), gradients(policy, False)
    with core_programs() as found:
        apart = gradients(policy, True)
    kinds = [[s.memory_kind for s in p.compiled.output_shardings] for p in found]
    takes = [[s.memory_kind for s in p.compiled.input_shardings[0]] for p in found]
    # The first layer's product; the last one's is the result of the network.
    assert max(k.count(HOST) for k in kinds) == max(k.count(HOST) for k in takes) == 1
    for ours, also, theirs in zip(together, apart, plain, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(also, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(
    not mx.device.num_gpus(), reason="offloading is refused on CPUs: it takes a GPU"
)
def test_on_a_gpu_residuals_wait_on_the_host() -> None:
    results = []
    for policy in ("mirror", "offload"):
        with mx.gpu():
            net = networks.residual_network(2, channels=16)
            net.hybridize(mirror=policy)
            x, y = networks.batch(4, 32)
            with autograd.record():
                out = net(x)
            out.asnumpy()  # forward and backward are two programs
            _, saved = out._value().tape.saved
            away = sum(v.aval.nbytes for v in saved if v.arr.sharding.memory_kind == HOST)
            out.backward(mx.np.ones(out.shape))
            results.append(
                [p.grad().asnumpy() for p in net.collect_params().values() if p.grad_req != "null"]
            )
    assert away == 6 * 4 * 16 * 32 * 32 * 4
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)
