"""The optimizer shared out between devices: the numbers of one device, a quarter of the states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mxjax as mx
from mxjax import optimizer as opt
from mxjax.kvstore import _zero_devices
from tests.kvstore.watching import Runs

DEVICES = [mx.cpu(i) for i in range(4)]
SHAPES = {"big": (6, 7), "small": (3,), "scalar": ()}
BOUND = 40


def _values(step: int, part: int) -> dict[str, np.ndarray]:
    rng = np.random.RandomState(100 * step + part)
    return {k: np.asarray(rng.randn(*s), "float32") for k, s in SHAPES.items()}


def _store(optimizer: Any, n: int) -> Any:
    kv = mx.kv.create("device")
    kv.set_optimizer(optimizer)
    first = _values(99, 0)
    kv.init(list(SHAPES), [mx.np.array(first[k]) for k in SHAPES])
    return kv


def _push(kv: Any, step: int, n: int) -> None:
    """The same gradient in all, in n parts, key by key."""
    parts = [_values(step, p) for p in range(4)]
    merged = [{k: sum(parts[q][k] for q in range(p, 4, n)) for k in SHAPES} for p in range(n)]
    for at, k in enumerate(SHAPES):
        given = [mx.np.array(m[k], device=d) for m, d in zip(merged, DEVICES, strict=False)]
        kv.push(k, given, priority=-at)


def _weights(kv: Any) -> dict[str, np.ndarray]:
    outs = {k: mx.np.zeros(s) for k, s in SHAPES.items()}
    for k, o in outs.items():
        kv.pull(k, out=o)
    return {k: o.asnumpy() for k, o in outs.items()}


def _same(a: dict[str, np.ndarray], b: dict[str, np.ndarray], tolerance: float = 1e-5) -> None:
    for k in SHAPES:
        np.testing.assert_allclose(a[k], b[k], rtol=0, atol=tolerance, err_msg=k)


OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda: opt.SGD(learning_rate=0.1, momentum=0.9, wd=0.01),
    "adam": lambda: opt.Adam(learning_rate=0.05),
    "ftrl": lambda: opt.Ftrl(learning_rate=0.1),
    "lamb": lambda: opt.LAMB(learning_rate=0.05),
    "dcasgd": lambda: opt.DCASGD(learning_rate=0.1, momentum=0.9),
}
WHOLE = {"lamb"}  # they look at a whole array at a time


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_weights_are_those_of_one_device(name: str) -> None:
    mx.config.set(comm_bigarray_bound=BOUND)
    alone, together = _store(OPTIMIZERS[name](), 1), _store(OPTIMIZERS[name](), 4)
    for step in range(4):
        _push(alone, step, 1)
        _push(together, step, 4)
        if step == 1:
            _same(_weights(alone), _weights(together))
    _same(_weights(alone), _weights(together))
    kept = together._updater._kept
    assert any(kept["big"].cut) is (name not in WHOLE) and not any(kept["small"].cut)


def test_what_looks_at_whole_arrays() -> None:
    every = {n: k for n, k in opt.Optimizer.opt_registry.items() if k.rule_fn is not None}
    whole = {n for n, k in every.items() if not _zero_devices.elementwise(k())}
    assert whole == {"lamb", "lans", "lars", "groupadagrad"}


@pytest.mark.observes
def test_a_quarter_of_the_states() -> None:
    mx.config.set(comm_bigarray_bound=BOUND)
    kv = _store(opt.Adam(), 4)
    _push(kv, 0, 4)
    _weights(kv)
    for leaf in kv._updater._kept["big"].leaves:
        sizes = {s.device: s.data.size for s in leaf.addressable_shards}
        assert sizes == {d.jax_device: 11 for d in DEVICES}  # 42 elements, padded to 44
    for leaf in kv._updater._kept["small"].leaves:
        assert [s.data.shape for s in leaf.addressable_shards] == [(3,)] * 4
    (program,) = kv._updater._programs.values()
    text = program.as_text()
    assert text.count(" reduce-scatter(") == 1 and text.count(" all-gather(") == 1


@pytest.mark.observes
def test_the_bound_decides() -> None:
    for bound, cut in ((0, True), (43, False)):
        mx.config.set(comm_bigarray_bound=bound)
        kv = _store(opt.Adam(), 4)
        _push(kv, 0, 4)
        _weights(kv)
        assert any(kv._updater._kept["big"].cut) is cut
    mx.config.set(comm_bigarray_bound=BOUND)  # in the middle of training, too
    _push(kv, 1, 4)
    _weights(kv)
    assert any(kv._updater._kept["big"].cut)


@pytest.mark.parametrize(("before", "after"), [(4, 2), (4, 1), (1, 4), (2, 4)])
def test_states_go_on_with_another_number_of_devices(
    before: int, after: int, tmp_path: Path
) -> None:
    mx.config.set(comm_bigarray_bound=BOUND)
    whole = _store(opt.Adam(learning_rate=0.05), 1)
    kv = _store(opt.Adam(learning_rate=0.05), before)
    for step in range(2):
        _push(whole, step, 1)
        _push(kv, step, before)
    kv.save_optimizer_states(tmp_path / "states", dump_optimizer=True)
    weights = _weights(kv)
    other = mx.kv.create("device")
    other.set_optimizer(opt.Adam(learning_rate=0.5))  # the file knows better
    other.init(list(SHAPES), [mx.np.array(weights[k]) for k in SHAPES])
    other.load_optimizer_states(tmp_path / "states")
    assert other._updater.optimizer.lr == 0.05
    for step in (2, 3):
        _push(whole, step, 1)
        _push(other, step, after)
    _same(_weights(whole), _weights(other))
    # And what was saved is what a plain updater has.
    plain = opt.get_updater(opt.Adam())
    plain.set_states((tmp_path / "states").read_bytes())
    assert {k: [s.shape for s in v] for k, v in plain.states.items()} == {
        k: [s, s] for k, s in SHAPES.items()
    }


def test_a_learning_rate_counts_from_the_next_push_on() -> None:
    optimizer = opt.SGD(learning_rate=0.5)
    kv = mx.kv.create("device")
    kv.set_optimizer(optimizer)
    kv.init("w", mx.np.zeros(2))
    ones = [mx.np.ones(2, device=d) for d in DEVICES[:2]]
    out = mx.np.zeros(2)
    kv.push("w", ones)
    optimizer.set_learning_rate(5.0)
    kv.pull("w", out=out)
    assert out.tolist() == [-1, -1]
    assert optimizer.learning_rate == 5.0
    kv.push("w", ones)
    kv.pull("w", out=out)
    assert out.tolist() == [-11, -11]


def test_a_trainer_updates_by_one_program_per_step() -> None:
    mx.config.set(comm_bigarray_bound=20)
    nets, programs = {}, []
    for on_kvstore in (False, True):
        devices = DEVICES[:2]
        net = mx.gluon.nn.Sequential()
        net.add(
            mx.gluon.nn.Dense(8, in_units=5, activation="tanh"), mx.gluon.nn.Dense(2, in_units=8)
        )
        net.initialize(device=devices)
        rng = np.random.RandomState(5)
        for p in net.collect_params().values():
            p.set_data(mx.np.array(rng.randn(*p.shape).astype("float32")))
        trainer = mx.gluon.Trainer(
            net.collect_params(), "adam", {"learning_rate": 0.01}, update_on_kvstore=on_kvstore
        )
        data = rng.randn(8, 5).astype("float32")
        for _ in range(3):
            runs = Runs()
            mx.core.observe(runs)
            try:
                with mx.autograd.record():
                    losses = [
                        (net(x) ** 2).mean() for x in mx.gluon.utils.split_and_load(data, devices)
                    ]
                mx.autograd.backward(losses)
                trainer.step(4)
                mx.waitall()
            finally:
                mx.core.unobserve(runs)
            if on_kvstore:
                programs.append(runs.names.count("kvstore_allreduce"))
        nets[on_kvstore] = {
            k: [a.asnumpy() for a in p.list_data()] for k, p in net.collect_params().items()
        }
        assert all(
            a._fresh_grad is False for p in net.collect_params().values() for a in p.list_data()
        )
    assert programs == [1] * 3
    for name, replicas in nets[True].items():
        for replica, expected in zip(replicas, nets[False][name], strict=True):
            np.testing.assert_allclose(replica, expected, rtol=0, atol=1e-5)
