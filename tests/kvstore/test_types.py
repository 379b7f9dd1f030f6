"""Types of stores, compression, rows, trees and the settings: values from MXNet 2.0, NumPy or mathematics."""

from __future__ import annotations

import itertools
import logging
import sys
import threading
import types
from typing import Any

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax import errors
from mxjax.kvstore import _collective, _compression, _host, _tree

DEVICES = [mx.cpu(i) for i in range(4)]

# What MXNet 2.0.0b1's kvstore "device" stored after each of four pushes from three devices.
COMPRESSED: dict[tuple[str, float | None], list[list[float]]] = {
    ("2bit", None): [
        [0, 0, 0, 0, 0, 0.5, 0, -0.5, 0, 0.5, 0],
        [0, 0.5, 0, -0.5, 0, 0.5, 0.5, 0, 0, -0.5, 0],
        [-0.5, 0.5, 0, 0, 0, -0.5, -0.5, 0.5, 0.5, 0, -0.5],
        [0.5, -0.5, -0.5, 0, 0.5, 0, -0.5, -0.5, 0.5, 0, 0],
    ],
    ("2bit", 0.7): [
        [0, 0, 0, 0, -0.7, 0, 0, -0.7, 0, 0, -0.7],
        [0, 0.7, 0, -0.7, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 0.7, 0, -0.7],
        [0, 0, -0.7, 0, 0.7, 0.7, 0, 0, 0, 0, 0.7],
    ],
    ("1bit", 0): [
        [-1, 1, -1, -1, 1, 1, -1, -1, -1, 1, 1],
        [-1, 1, 1, -1, -1, 1, 1, 1, 1, -1, -1],
        [-1, -1, -1, 1, 1, -1, -1, -1, 1, 1, -1],
        [1, -1, 1, 1, -1, -1, 1, 1, 1, -1, -1],
    ],
    ("1bit", 0.3): [
        [-1, -1, -1, -1, 1, 1, -1, -1, -1, 1, 1],
        [-1, 1, 1, -1, -1, -1, -1, 1, 1, -1, -1],
        [-1, -1, -1, 1, 1, -1, -1, -1, 1, 1, -1],
        [1, 1, -1, -1, -1, -1, 1, 1, -1, -1, -1],
    ],
}


def _gradient(step: int, worker: int) -> np.ndarray:
    k = np.arange(11, dtype="float32")
    return (np.sin(k * 1.7 + step * 0.9 + worker * 2.3) * 1.3).astype("float32")


@pytest.mark.parametrize(("kind", "threshold"), COMPRESSED)
def test_compressed_sums_are_mxnets_to_the_bit(kind: str, threshold: float | None) -> None:
    kv = mx.kv.create("device")
    params: dict[str, Any] = {"type": kind}
    if threshold is not None:
        params["threshold"] = threshold
    kv.set_gradient_compression(params)
    kv.init("w", mx.np.zeros(11))
    out = mx.np.zeros(11)
    for step, expected in enumerate(COMPRESSED[kind, threshold]):
        kv.push("w", [mx.np.array(_gradient(step, w), device=DEVICES[w]) for w in range(3)])
        kv.pull("w", out=out)
        np.testing.assert_array_equal(out.asnumpy(), np.array(expected, "float32"))


@pytest.mark.parametrize(("kind", "bits"), [("fp16", 11), ("bf16", 8)])
def test_halves_lose_nothing_in_the_long_run(kind: str, bits: int) -> None:
    kv = mx.kv.create("device")
    kv.set_gradient_compression({"type": kind})
    kv.init("w", mx.np.zeros(11))
    given = _gradient(0, 0)
    total, out = np.zeros(11), mx.np.zeros(11)
    for _ in range(8):
        kv.push("w", mx.np.array(given))
        kv.pull("w", out=out)
        total += out.asnumpy()
    # Error feedback: what is owed in the end is one rounding, not eight.
    assert (np.abs(out.asnumpy() - given) > 0).any()
    np.testing.assert_allclose(total, 8 * given.astype("float64"), atol=2 * 1.3 * 2.0**-bits)


def test_one_device_compresses_too_as_mxnet_does() -> None:
    kv = mx.kv.create("device")
    kv.set_gradient_compression({"type": "2bit", "threshold": 0.5})
    kv.init("w", mx.np.zeros(3))
    kv.push("w", mx.np.array([0.2, 0.6, -3]))
    out = mx.np.zeros(3)
    kv.pull("w", out=out)
    assert out.tolist() == [0, 0.5, -0.5]


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"type": "2bit", "threshold": 0}, "greater than 0"),
        ({"type": "2bit", "threshold": "a"}, "expect float"),
        ({"type": "3bit"}, "Unknown type for gradient compression 3bit"),
        ({"threshold": 1}, "type of string is not presented"),
    ],
)
def test_compression_that_is_refused(params: dict[str, Any], match: str) -> None:
    with pytest.raises(errors.MXNetError, match=match):
        mx.kv.create("device").set_gradient_compression(params)


@pytest.mark.parametrize("kind", ["1bit", "2bit"])
def test_codes_on_the_wire(kind: str) -> None:
    bits = int(kind[0])
    codes = np.array([1, 0, 1, 1, 0, 0, 1, 0, 1] if bits == 1 else [3, 0, 2, 3, 2], "uint8")
    packed = np.asarray(_compression.pack(jax.numpy.asarray(codes), kind))
    expected = [0b10110010, 0b10000000] if bits == 1 else [0b11001011, 0b10000000]
    assert packed.tolist() == expected
    again = _compression.unpack(jax.numpy.asarray(packed), kind, codes.size)
    np.testing.assert_array_equal(np.asarray(again), codes)


def test_rows() -> None:
    kv = mx.kv.create()
    kv.init(["a", "b"], [mx.np.arange(9).reshape(3, 3), mx.np.ones((4, 2))])
    a = mx.np.full((3, 3), 5.0)
    kv.row_sparse_pull("a", out=a, row_ids=mx.np.array([2, 0, 2], dtype="int64"))
    assert a.tolist() == [[0, 1, 2], [0, 0, 0], [6, 7, 8]]  # MXNet's answer
    kv.row_sparse_pull("a", out=a, row_ids=mx.np.array([7], dtype="int64"))
    assert not a.asnumpy().any()  # MXNet's, too
    kv.row_sparse_pull("a", out=a, row_ids=mx.np.array([-1, 1], dtype="int64"))
    assert a.tolist() == [[0, 0, 0], [3, 4, 5], [0, 0, 0]]
    kv.init("number", mx.np.ones(()))
    with pytest.raises(ValueError, match="'number' holds a single number, which has no rows"):
        kv.row_sparse_pull("number", out=mx.np.ones(()), row_ids=mx.np.array([0]))
    outs = [mx.np.zeros((4, 2), device=d) for d in DEVICES[:2]]
    kv.row_sparse_pull("b", out=outs, row_ids=[mx.np.array([0]), mx.np.array([3, 1])])
    assert [o.asnumpy()[:, 0].tolist() for o in outs] == [[1, 0, 0, 0], [0, 1, 0, 1]]
    assert [o.device for o in outs] == DEVICES[:2]
    with pytest.raises(AssertionError, match="row_ids"):
        kv.row_sparse_pull("a", out=a)
    with pytest.raises(AssertionError, match="doesn't match"):
        kv.row_sparse_pull("b", out=outs, row_ids=[mx.np.array([0])] * 3)


@pytest.mark.parametrize("lazy", [True, False])
def test_a_lazy_update_of_dense_gradients_is_an_update(lazy: bool) -> None:
    """Rows of zeros are updated, too: MXNet 2.0.0b1's numbers with either value."""
    expected = {
        "sgd": [-1.2288750410079956, 0.797374963760376],
        "adam": [-0.49724051356315613, -0.33590826392173767],
    }
    options = {"sgd": {"momentum": 0.5}, "adam": {}}
    for name, numbers in expected.items():
        kv = mx.kv.create("local")
        kv.init("w", mx.np.ones((2, 2)))
        kv.set_optimizer(
            mx.optimizer.create(name, learning_rate=0.5, wd=0.1, lazy_update=lazy, **options[name])
        )
        out = mx.np.zeros((2, 2))
        for _ in range(3):
            kv.push("w", mx.np.array([[1.0, 1.0], [0.0, 0.0]]))
        kv.pull("w", out=out)
        np.testing.assert_allclose(out.asnumpy(), np.repeat(numbers, 2).reshape(2, 2), rtol=2e-7)


# ---- other stores ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["horovod", "byteps"])
def test_absent_packages(name: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=f"No module named '{name}'"):
        mx.kv.create(name)


@pytest.mark.parametrize(("name", "method"), [("horovod", "allreduce"), ("byteps", "push_pull")])
def test_adapters_sum_by_their_library(
    name: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Tensor:
        def __init__(self, array: np.ndarray):
            self.array = array

        def numpy(self) -> np.ndarray:
            return self.array

    calls = []

    def all_reduce(given: Tensor, **kwargs: Any) -> Tensor:
        calls.append(kwargs["name"])
        return Tensor(given.array * 2)  # another process with the same values

    library = types.SimpleNamespace(
        init=lambda: calls.append("init"), rank=lambda: 0, size=lambda: 2, local_rank=lambda: 0,
        Sum="sum", **{method: all_reduce},
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, f"{name}.torch", library)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(from_numpy=Tensor))
    kv = mx.kv.create(name)
    assert (kv.type, kv.rank, kv.num_workers) == (name, 0, 2)
    assert not kv.is_capable("optimizer")
    values = [mx.np.ones(3), mx.np.ones(3, device=DEVICES[1])]
    kv.pushpull("w", values)
    assert [v.tolist() for v in values] == [[4, 4, 4]] * 2
    out = mx.np.zeros(3)
    kv.pushpull("v", mx.np.ones(3), out=out)
    assert out.tolist() == [2, 2, 2] and calls == ["init", "w", "v"]


def test_teststore() -> None:
    kv = mx.kv.create("teststore")
    assert (kv.type, kv.rank, kv.num_workers, kv.is_capable("optimizer")) == (
        "teststore",
        0,
        1,
        False,
    )
    outs = [mx.np.zeros(2, device=d) for d in DEVICES]
    kv.broadcast("w", mx.np.array([1, 2]), outs)
    assert all(o.tolist() == [1, 2] for o in outs)
    kv.pushpull("w", outs)
    assert all(o.tolist() == [4, 8] and o.device == d for o, d in zip(outs, DEVICES, strict=True))
    with pytest.raises(NotImplementedError):
        kv.set_optimizer(mx.optimizer.SGD())


def test_commands_to_servers_that_are_not_there() -> None:
    kv = mx.kv.create()
    kv.send_command(0, "x")
    kv._send_command_to_servers(0, "x")
    assert (kv.rank, kv.num_workers) == (0, 1)


# ---- where sums happen -------------------------------------------------------------------------------------


def _on_each(shape: tuple[int, ...] = (5, 3), n: int = 4) -> tuple[list[Any], np.ndarray]:
    values = [np.asarray(np.random.randn(*shape), "float32") for _ in range(n)]
    given = [mx.np.array(v, device=d) for v, d in zip(values, DEVICES, strict=False)]
    return given, np.sum(np.array(values, "float64"), axis=0)


def _compiled_text(kv: Any) -> str:
    (found,) = kv._devices._programs.values()
    return str(found.compiled.as_text())


def test_nccl_always_sums_by_a_program() -> None:
    for name, programs in (("device", 0), ("local", 0), ("nccl", 1)):
        kv = mx.kv.create(name)
        given, expected = _on_each()
        kv.init("w", mx.np.zeros((5, 3)))
        kv.pushpull("w", given)
        for g in given:
            np.testing.assert_allclose(g.asnumpy(), expected, rtol=1e-6, atol=1e-6)
        assert len(kv._devices._programs) == programs
    assert "all-reduce" in _compiled_text(kv)


@pytest.mark.observes
@pytest.mark.parametrize("threads", [1, 3])
def test_big_sums_are_shared_out_between_threads(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = []
    real = _host.add

    def add(pieces: Any) -> None:
        shares.append((threading.current_thread().name, len(pieces)))
        real(pieces)

    monkeypatch.setattr(_host, "add", add)
    mx.config.set(comm_reduce_threads=threads, comm_bigarray_bound=5 * _host.PIECE)
    small, big = (np.ones((k, _host.PIECE), "float32") for k in (4, 6))
    assert (_host.sums([[small, small]], _host.Pool())[0] == 2).all()
    assert [n for _, n in shares] == [4] and "mxjax-kvstore" not in shares[0][0]
    shares.clear()
    assert (_host.sums([[big, big, big]], _host.Pool())[0] == 3).all()
    assert sorted(n for _, n in shares) == ([6] if threads == 1 else [2, 2, 2])
    assert all(("mxjax-kvstore" in name) == (threads > 1) for name, _ in shares)


def test_memory_of_results_is_used_again_only_when_nobody_holds_it() -> None:
    pool = _host.Pool()
    parts = [[np.full(64, k, "float32") for k in range(3)]]
    (held,) = _host.sums(parts, pool)
    (other,) = _host.sums(parts, pool)
    assert held.ctypes.data != other.ctypes.data
    place = other.ctypes.data
    placed = _host.on_devices([other], [d.jax_device for d in DEVICES])[0]
    assert {p.unsafe_buffer_pointer() for p in placed} == {place}  # no copy
    del other
    (third,) = _host.sums(parts, pool)
    assert third.ctypes.data not in (place, held.ctypes.data)
    del placed, held, third
    assert _host.sums(parts, pool)[0].ctypes.data == place or len(pool._blocks) <= 3


@pytest.mark.observes
def test_without_direct_links_everything_goes_through_the_host() -> None:
    kv = mx.kv.create("device")
    kv.init("w", mx.np.ones(3))
    outs = [mx.np.zeros(3, device=DEVICES[k]) for k in (1, 2)]
    mx.waitall()
    with jax.transfer_guard_device_to_device("disallow_explicit"):
        with pytest.raises(Exception, match=r"[Dd]isallowed"):
            kv.pull("w", out=outs[0])
        mx.config.set(comm_p2p=False)
        kv.pull("w", out=outs[1])
    assert outs[1].tolist() == [1, 1, 1]
    given, expected = _on_each()
    kv.init("g", mx.np.zeros((5, 3)))
    kv.pushpull("g", given)
    np.testing.assert_allclose(given[3].asnumpy(), expected, rtol=1e-6, atol=1e-6)


# ---- trees -------------------------------------------------------------------------------------------------

# Two boards of four devices: good links on a board, bad ones between them, one pair very good.
LINKS = np.array(
    [[0 if a == b else 3 if a // 4 == b // 4 else 1 for a in range(8)] for b in range(8)]
)
LINKS[0, 1] = LINKS[1, 0] = 5


@pytest.mark.parametrize("backtrack", [False, True])
@pytest.mark.parametrize("n", [2, 3, 4, 5, 8])
def test_trees_reach_every_device_once(n: int, backtrack: bool) -> None:
    found = _tree.trees(LINKS[:n, :n], backtrack=backtrack)
    assert len(found) == n
    for root, levels in enumerate(found):
        assert len(levels) == int(np.ceil(np.log2(n)))
        reached = {root}
        for level in levels:
            parents, children = {p for p, _ in level}, {c for _, c in level}
            assert len(parents) == len(children) == len(level)  # each sends to one at a time
            assert parents <= reached and not children & reached
            reached |= children
        assert reached == set(range(n))


def _weight(levels: Any, links: np.ndarray) -> float:
    return float(sum(links[a, b] for a, b in itertools.chain.from_iterable(levels)))


@pytest.mark.parametrize("backtrack", [False, True])
def test_trees_cross_between_boards_once(backtrack: bool) -> None:
    for levels in _tree.trees(LINKS, backtrack=backtrack, penalty=1.0):
        crossing = [e for level in levels for e in level if e[0] // 4 != e[1] // 4]
        assert len(crossing) == 1


def test_backtracking_finds_the_best_tree() -> None:
    rng = np.random.RandomState(3)
    links = rng.rand(4, 4)
    links = links + links.T
    best = 0.0
    for b, c, d in itertools.permutations((1, 2, 3)):
        best = max(best, links[0, b] + links[0, c] + links[b, d])
    (levels, *_) = _tree.trees(links, backtrack=True)
    np.testing.assert_allclose(_weight(levels, links), best)


def test_a_penalty_spreads_trees() -> None:
    def links_used(penalty: float) -> set[frozenset[int]]:
        found = _tree.trees(LINKS, penalty=penalty)
        return {frozenset(e) for levels in found for level in levels for e in level}

    assert len(links_used(0.1)) > len(links_used(1.0))


@pytest.mark.observes
def test_sums_along_trees(caplog: pytest.LogCaptureFixture) -> None:
    mx.config.set(comm_tree=True, comm_tree_log=True, comm_tree_array_bound=1000)
    kv = mx.kv.create("device")
    shapes = [(5, 3), (40, 30), ()]
    kv.init([0, 1, 2], [mx.np.zeros(s) for s in shapes])
    rows = [_on_each(s) for s in shapes]
    with caplog.at_level(logging.INFO, "mxjax.kvstore"):
        kv.pushpull([0, 1, 2], [given for given, _ in rows])
        for given, expected in rows:
            for g in given:
                np.testing.assert_allclose(g.asnumpy(), expected, rtol=1e-5, atol=1e-5)
    assert len([r for r in caplog.records if "tree rooted at" in r.message]) == 4
    text = _compiled_text(kv)
    # Two levels up and two down: small arrays take one tree each, the big one all four.
    assert text.count(" collective-permute(") + text.count(" collective-permute-start(") == 4 * (
        1 + 4 + 1
    )
    assert " all-reduce(" not in text


@pytest.mark.observes
@pytest.mark.parametrize(
    "given", [{"MXNET_KVSTORE_TREE_BACKTRACK": 1}, {"MXNET_KVSTORE_TREE_LINK_USAGE_PENALTY": 0.1}]
)
def test_trees_are_found_as_the_settings_say(
    given: dict[str, Any], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = np.array([[0, 3, 2, 1], [3, 0, 3, 2], [2, 3, 0, 2], [1, 2, 2, 0]], float)
    monkeypatch.setattr(_tree, "links_of", lambda devices: links)
    _collective._trees_of.cache_clear()

    def logged() -> list[str]:
        caplog.clear()
        kv = mx.kv.create("device")
        kv.init(0, mx.np.zeros((5, 3)))
        given, expected = _on_each((5, 3))
        with caplog.at_level(logging.INFO, "mxjax.kvstore"):
            kv.pushpull(0, given)
            np.testing.assert_allclose(given[0].asnumpy(), expected, rtol=1e-5, atol=1e-5)
        return [r.message for r in caplog.records if "tree rooted at" in r.message]

    def expected_trees(**options: Any) -> list[str]:
        with caplog.at_level(logging.INFO, "mxjax.kvstore"):
            caplog.clear()
            _tree.log(_tree.trees(links, **options), links)
        return [r.message for r in caplog.records]

    mx.config.set(MXNET_KVSTORE_USETREE=1, MXNET_KVSTORE_LOGTREE=1)
    plain = logged()
    mx.config.set(given)
    changed = logged()
    backtrack, penalty = (
        mx.config.get("comm.tree_backtrack"),
        mx.config.get("comm.tree_link_penalty"),
    )
    assert (
        plain == expected_trees() != changed == expected_trees(backtrack=backtrack, penalty=penalty)
    )
    _collective._trees_of.cache_clear()


# ---- who updates -------------------------------------------------------------------------------------------


@pytest.mark.observes
@pytest.mark.parametrize(("variable", "argument", "expected"), [
    (None, None, True), ("1", None, True), ("0", None, False), ("1", False, False), ("0", True, True),
])  # fmt: skip
def test_who_updates(
    variable: str | None, argument: bool | None, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable is not None:
        monkeypatch.setenv("MXNET_UPDATE_ON_KVSTORE", variable)
    net = mx.gluon.nn.Dense(1, in_units=2)
    net.initialize(device=DEVICES[:2])
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", update_on_kvstore=argument)
    trainer._ready()
    assert trainer._update_on_kvstore is expected
