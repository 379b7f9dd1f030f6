"""Stores against what MXNet 2.0 answers to the same calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mxjax as mx
from mxjax import core, errors
from tests.kvstore.watching import Runs

SHAPE = (2, 2)
DEVICES = [mx.cpu(i) for i in range(4)]


def _ones(value: float = 1.0, device: Any = None) -> Any:
    return mx.np.ones(SHAPE, device=device) * value


def _each(value: float = 1.0) -> list[Any]:
    return [_ones(value, d) for d in DEVICES]


def _all(array: Any, value: float) -> bool:
    return bool((array.asnumpy() == value).all())


@pytest.fixture(params=["local", "device"])
def kv(request: pytest.FixtureRequest) -> Any:
    return mx.kv.create(request.param)


def test_what_it_is(kv: Any) -> None:
    assert kv.type in ("local", "device")
    assert (kv.rank, kv.num_workers) == (0, 1)
    assert kv.is_capable("optimizer")
    with pytest.raises(ValueError, match="Unknown capability"):
        kv.is_capable("foo")
    kv.barrier()


def test_push_replaces_and_sums(kv: Any) -> None:
    kv.init(3, _ones(2))
    out = mx.np.zeros(SHAPE)
    kv.pull(3, out=out)
    assert _all(out, 2)
    kv.push(3, _ones(8))
    kv.pull(3, out=out)
    assert _all(out, 8)
    kv.push(3, _each())
    kv.pull(3, out=out)
    assert _all(out, 4)


def test_init_copies(kv: Any) -> None:
    value = _ones(2)
    kv.init("w", value)
    value[:] = 7
    out = mx.np.zeros(SHAPE)
    kv.pull("w", out=out)
    assert _all(out, 2)
    out[:] = 9  # what was pulled is the caller's
    again = mx.np.zeros(SHAPE)
    kv.pull("w", out=again)
    assert _all(again, 2)


def test_lists_of_keys_and_devices(kv: Any) -> None:
    keys = [5, 7, 9]
    kv.init(keys, [_ones()] * 3)
    kv.push(keys, [_each(k) for k in keys])
    outs = [[mx.np.zeros(SHAPE, device=d) for d in DEVICES] for _ in keys]
    kv.pull(keys, out=outs)
    for key, row in zip(keys, outs, strict=True):
        assert all(_all(o, 4 * key) for o in row)
        assert [o.device for o in row] == DEVICES


def test_a_key_twice_in_one_push(kv: Any) -> None:
    kv.init([1, 2], [_ones(), _ones()])
    kv.push([1, 1, 2], [_ones(), _ones(2), _ones()])
    out = mx.np.zeros(SHAPE)
    kv.pull(1, out=out)
    assert _all(out, 3)


def test_an_updater_gets_the_sum(kv: Any) -> None:
    seen = []

    def update(key: Any, summed: Any, stored: Any) -> None:
        seen.append(key)
        stored[:] += summed * 2

    kv.init(3, _ones(4))
    kv._set_updater(update)
    kv.push(3, _each())
    out = mx.np.zeros(SHAPE, device=mx.cpu(2))
    kv.pull(3, out=out)
    assert seen == [3] and _all(out, 12)


@pytest.mark.parametrize(("key", "told"), [("w", b"w"), (3, 3)])
def test_an_updater_of_mxnet_gets_texts_as_bytes(key: Any, told: Any) -> None:
    kv, seen = mx.kv.create("local"), []
    kv._set_updater(lambda key, summed, stored: seen.append(key))
    kv.init(key, _ones())
    kv.push(key, _ones())
    kv.set_updater(lambda key, summed, stored: seen.append(key))
    kv.push(key, _ones())
    assert seen == [told, key]


def test_pushpull(kv: Any) -> None:
    kv.init("w", _ones())
    values = _each()
    kv.pushpull("w", values)
    assert all(_all(v, 4) for v in values)
    values, outs = _each(), [mx.np.zeros(SHAPE, device=d) for d in DEVICES]
    kv.pushpull("w", values, out=outs)
    assert _all(values[0], 1) and all(_all(o, 4) for o in outs)
    out = mx.np.zeros(SHAPE)
    kv.pull("w", out=out)
    assert _all(out, 4)


def test_broadcast(kv: Any) -> None:
    outs = [mx.np.zeros(SHAPE, device=d) for d in DEVICES]
    kv.broadcast("q", _ones(3), outs)
    assert all(_all(o, 3) for o in outs)
    with pytest.raises(errors.MXNetError, match="duplicate init of key q"):
        kv.broadcast("q", _ones(4), outs)


def test_an_optimizer_in_the_store(kv: Any, tmp_path: Path) -> None:
    kv.init("w", _ones())
    with pytest.raises(AssertionError, match="set_optimizer"):
        kv.save_optimizer_states(tmp_path / "states")
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=0.5, momentum=0.5))
    out = mx.np.zeros(SHAPE)
    kv.push("w", _each(0.25))
    kv.save_optimizer_states(tmp_path / "states")
    kv.pull("w", out=out)
    np.testing.assert_allclose(out.asnumpy(), 0.5)  # 1 - 0.5 * (4 * 0.25)
    kv.load_optimizer_states(tmp_path / "states")
    kv.push("w", _each(0.25))
    kv.pull("w", out=out)
    np.testing.assert_allclose(out.asnumpy(), -0.25)  # 0.5 - (0.5 * 0.5 + 0.5)


def test_mistakes(kv: Any) -> None:
    kv.init(3, _ones())
    out = mx.np.zeros(SHAPE)
    with pytest.raises(errors.MXNetError, match="duplicate init of key 3"):
        kv.init(3, _ones())
    with pytest.raises(errors.MXNetError, match="key 99 has not been inited"):
        kv.push(99, out)
    with pytest.raises(errors.MXNetError, match="key 99 has not been inited"):
        kv.pull(99, out=out)
    with pytest.raises(errors.MXNetError, match="Mixed key types are not allowed"):
        kv.init("s", _ones())
    with pytest.raises(AssertionError, match="out="):
        kv.pull(3)
    with pytest.raises(AssertionError, match="2 keys"):
        kv.push([3, 5], [out])
    with pytest.raises(ValueError, match="shape"):
        kv.push(3, mx.np.ones((3, 3)))
    with pytest.raises(errors.MXNetError, match="ompression"):
        mx.kv.create("local").set_gradient_compression({"type": "2bit"})


def test_what_is_wrong_changes_nothing(kv: Any) -> None:
    with pytest.raises(errors.MXNetError, match="duplicate init of key w"):
        kv.init(["w", "w"], [_ones(), _ones(2)])
    for wrong in (mx.np.zeros((3, 3)), None):
        with pytest.raises((ValueError, AssertionError), match=r"shape|out="):
            kv.broadcast("w", _ones(), wrong)
    kv.init("w", _ones())  # neither of these did
    for priority in ("high", None, 1.5):
        with pytest.raises(TypeError, match="priority must be an integer"):
            kv.push("w", _each(2), priority=priority)
        with pytest.raises(TypeError, match="priority must be an integer"):
            kv.pushpull("w", _each(2), priority=priority)
    with pytest.raises(TypeError, match=r"mx\.optimizer\.create\('sgd', \.\.\.\)"):
        kv.set_optimizer("sgd")
    with pytest.raises(TypeError, match="an updater is a function"):
        kv.set_updater("sgd")
    with pytest.raises(TypeError, match="compression_params is a dict"):
        kv.set_gradient_compression("2bit")
    out = mx.np.zeros(SHAPE)
    kv.pull("w", out=out)
    assert _all(out, 1)
    kv.push("w", _each(2), priority=-5)
    kv.pull("w", out=out)
    assert _all(out, 2 * len(DEVICES))


def test_an_updater_may_go(kv: Any) -> None:
    kv.init("w", _ones())
    kv.set_updater(lambda key, total, stored: None)
    kv.push("w", _ones(3))
    kv.set_updater(None)
    out = mx.np.zeros(SHAPE)
    kv.pull("w", out=out)
    assert _all(out, 1)
    kv.push("w", _ones(3))
    kv.pull("w", out=out)
    assert _all(out, 3)


def test_states_are_written_whole_or_not_at_all(
    kv: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kv.init("w", _ones())
    kv.set_optimizer(mx.optimizer.SGD(momentum=0.5))
    kv.push("w", _each(1))
    kv.save_optimizer_states(tmp_path / "states")
    before = (tmp_path / "states").read_bytes()

    def full(*paths: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr("os.replace", full)
        kv.save_optimizer_states(tmp_path / "states")
    assert (tmp_path / "states").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["states"]


def test_names() -> None:
    with pytest.raises(TypeError, match="name must be a string"):
        mx.kv.create(3)
    with pytest.raises(ValueError, match="local, device"):
        mx.kv.create("foo")

    with pytest.raises(TypeError, match="takes a class"):
        mx.kvstore.KVStoreBase.register("mine")

    @mx.kvstore.KVStoreBase.register
    class Mine(mx.kvstore.KVStoreBase):
        pass

    try:
        assert type(mx.kv.create("mine")) is Mine
        with pytest.raises(NotImplementedError, match="pushpull"):
            mx.kv.create("Mine").pushpull(1, 2)
    finally:
        del mx.kvstore.KVStoreBase.kv_registry["mine"]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "float16"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3, 4)])
def test_shapes_and_dtypes(shape: tuple[int, ...], dtype: str) -> None:
    kv = mx.kv.create("device")
    values = [np.full(shape, 2**k + 1, dtype) for k in range(4)]
    kv.init(0, mx.np.zeros(shape, dtype=dtype))
    given = [mx.np.array(v, dtype=dtype, device=d) for v, d in zip(values, DEVICES, strict=True)]
    kv.pushpull(0, given)
    for g, d in zip(given, DEVICES, strict=True):
        assert g.dtype == np.dtype(dtype) and g.shape == shape and g.device == d
        np.testing.assert_array_equal(g.asnumpy(), sum(values).astype(dtype))


def test_values_of_one_device_are_summed_there() -> None:
    kv = mx.kv.create("device")
    kv.init(0, _ones())
    mixed = [_ones(1, DEVICES[0]), _ones(2, DEVICES[0]), _ones(4, DEVICES[1])]
    kv.pushpull(0, mixed)
    assert all(_all(m, 7) for m in mixed)


def test_all_keys_of_a_call_are_one_program() -> None:
    kv = mx.kv.create("device")
    keys = list(range(6))
    kv.init(keys, [mx.np.zeros((k + 1, 2)) for k in keys])

    def values() -> list[list[Any]]:
        return [[mx.np.ones((k + 1, 2), device=d) for d in DEVICES] for k in keys]

    kv.pushpull(keys, values())
    mx.waitall()
    runs = Runs()
    core.observe(runs)
    try:
        given = values()
        mx.waitall()
        before = mx.engine.stats()["compiled"]
        kv.pushpull(keys, given)
        mx.waitall()
    finally:
        core.unobserve(runs)
    assert runs.names.count("kvstore_allreduce") == 1
    assert mx.engine.stats()["compiled"] == before
    assert all(_all(g, 4) for row in given for g in row)


def test_many_sums_nobody_waits_for() -> None:
    kv = mx.kv.create("device")
    kv.init("w", mx.np.zeros((64, 64)))
    given = [mx.np.ones((64, 64), device=d) for d in DEVICES]
    outs = [mx.np.zeros((64, 64), device=d) for d in DEVICES]
    for _ in range(200):
        kv.pushpull("w", given, out=outs)
    assert all(_all(o, 4) for o in outs)


def test_what_is_gathered_is_one_program_in_the_order_of_priorities() -> None:
    kv = mx.kv.create("device")
    kv.init([0, 1, 2], [mx.np.zeros(2)] * 3)
    order = []
    real = kv._reduce

    def reduce(requests: Any) -> Any:
        order.append([r.key for r in requests])
        return real(requests)

    kv._reduce = reduce
    outs = [[mx.np.zeros(2, device=d) for d in DEVICES] for _ in range(3)]
    for k, priority in ((0, -2), (1, 0), (2, -1)):
        kv.pushpull(
            k, [mx.np.ones(2, device=d) * (k + 1) for d in DEVICES], outs[k], priority=priority
        )
    assert order == []
    assert outs[0][3].tolist() == [4, 4]
    assert order == [[1, 2, 0]]
    assert [row[1].tolist() for row in outs] == [[4, 4], [8, 8], [12, 12]]
    # The same key again: its first sum comes first; barrier() runs what is left.
    kv.push(1, [mx.np.ones(2, device=d) for d in DEVICES])
    kv.push(1, [mx.np.ones(2, device=d) for d in DEVICES[:2]])
    assert order[1:] == [[1]]
    kv.barrier()
    assert order[1:] == [[1], [1]]
    kv.pull(1, out=outs[1])
    assert outs[1][0].tolist() == [2, 2]


def test_an_error_of_gathered_work_reaches_whoever_reads() -> None:
    kv = mx.kv.create("device")
    kv.init("w", mx.np.zeros(2))

    def fail(requests: Any) -> Any:
        raise errors.MXNetError("no link")

    kv._reduce = fail
    values = [mx.np.ones(2, device=d) for d in DEVICES]
    kv.pushpull("w", values)
    for v in values:
        with pytest.raises(errors.MXNetError, match="no link"):
            v.asnumpy()
    mx.waitall()  # it was seen
