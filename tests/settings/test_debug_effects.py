"""What the settings let one see: dumps, watches, logs."""

import json
import logging
import os
import re

import numpy as np
import pytest

import mxjax as mx
from mxjax.debug import compare, load
from mxjax.debug.__main__ import main
from mxjax.errors import MXNetFloatingPointError
from mxjax.gluon import nn
from mxjax.settings import SettingError

pytestmark = pytest.mark.programs


def train(folder, hybridize=False, steps=1, scale=1.0, **config):
    mx.random.seed(0)
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=4, activation="relu"), nn.Dense(2, in_units=3))
    net.initialize(mx.init.Constant(0.5))
    if hybridize:
        net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    x = mx.np.array(np.linspace(0, 1, 8).reshape(2, 4) * scale)
    with mx.config.scope(dump_config={"enable_dump": True, "dump_path": str(folder), **config}):
        for _ in range(steps):
            with mx.autograd.record():
                loss = (net(x) ** 2).sum()
            loss.backward()
            trainer.step(1)
        mx.waitall()


@pytest.mark.observes("dump_config")
def test_a_dump_holds_the_chosen_steps_layers_and_arrays(tmp_path):
    train(tmp_path / "a", steps=4, dump_step="0|2-3", dump_mode="all", dump_layer="dense1")
    assert sorted(os.listdir(tmp_path / "a")) == ["step000000", "step000002", "step000003"]
    entries = load(tmp_path / "a")
    assert {re.sub(r".*/", "", e.place) for e in entries} >= {"FullyConnected"}
    assert all("dense1" in e.place for e in entries)
    first = {
        e.array: e.data
        for e in entries
        if e.place.endswith("dense1/FullyConnected") and e.step == 0
    }
    np.testing.assert_allclose(
        first["in0"] @ first["in1"].T + first["in2"], first["out0"], rtol=1e-5
    )


@pytest.mark.observes
def test_dump_inputs_adds_operands(tmp_path):
    train(tmp_path / "a", dump_layer="FullyConnected")
    assert {e.array for e in load(tmp_path / "a")} == {"out0"}
    with mx.config.scope(MGB_DUMP_INPUT=1):
        train(tmp_path / "b", dump_layer="FullyConnected")
    assert {e.array for e in load(tmp_path / "b")} >= {"in0", "in1", "in2", "out0"}


def test_imperative_and_hybridized_agree_and_another_input_is_found(tmp_path, capsys):
    train(tmp_path / "a")
    train(tmp_path / "b", hybridize=True)
    train(tmp_path / "c", hybridize=True, scale=1.01)
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert "arrays agree" in capsys.readouterr().out
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "c")]) == 1
    out = capsys.readouterr().out
    assert re.search(
        r"step 0: hybridsequential/dense0/FullyConnected \[out0\]: absolute error 0\.0\d+, "
        r"relative 0\.0\d+, largest at \(1, 0\)",
        out,
    ), out


def test_bfloat16_differs_by_its_rounding(tmp_path):
    train(tmp_path / "a", scale=1.3)
    with mx.config.scope(precision_amp="mixed_bfloat16"):
        train(tmp_path / "b", scale=1.3)
    differences, common, _ = compare(tmp_path / "a", tmp_path / "b")
    assert common >= 4 and differences[0].place.endswith("dense0/FullyConnected")
    assert 1e-4 < differences[0].relative < 2e-2
    assert not compare(tmp_path / "a", tmp_path / "b", rtol=0.1)[0]


def test_statistics_instead_of_numbers(tmp_path):
    train(tmp_path / "a", dump_data="stats", dump_layer="FullyConnected")
    train(tmp_path / "b", dump_data="stats", dump_layer="FullyConnected", scale=1.01)
    lines = (tmp_path / "a" / "step000000" / "statistics.jsonl").read_text().splitlines()
    row = json.loads(lines[0])
    assert (row["shape"], row["dtype"], row["nan"]) == ([2, 3], "float32", 0)
    np.testing.assert_allclose(row["max"], np.linspace(0, 1, 8)[4:].sum() * 0.5, rtol=1e-5)
    differences, _, _ = compare(tmp_path / "a", tmp_path / "b")
    assert differences and differences[0].place.endswith("FullyConnected")
    assert not compare(tmp_path / "a", tmp_path / "a")[0]


def test_what_is_no_dump_is_refused(tmp_path, capsys):
    assert main(["compare", str(tmp_path), str(tmp_path)]) == 2
    assert "holds no dump" in capsys.readouterr().err
    folder = tmp_path / "step000000"
    folder.mkdir()
    for write in (
        lambda file: np.save(file, np.ones(3)),
        lambda file: np.savez(file, x=np.ones(3)),
        lambda file: np.savez(file, x=np.array([{}])),
        lambda file: file.write(b"PK\3\4"),
    ):
        with open(folder / "x.npz", "wb") as file:
            write(file)
        assert main(["compare", str(tmp_path), str(tmp_path)]) == 2
        assert "no file of a dump" in capsys.readouterr().err
    assert main(["compare"]) == 2


def test_dump_and_the_search_for_overflows_exclude_each_other():
    with pytest.raises(SettingError, match="exclude each other"):
        mx.config.set(dump_config={"enable_dump": 1, "enable_dump_debug": 1})
    assert mx.config.get("debug.dump") == {}
    with pytest.raises(SettingError, match="dump_step: expected|expected a dict"):
        mx.config.set(dump_config={"dump_step": "a-b"})


def overflow():
    x = mx.np.array([1.0, 100.0])
    return mx.np.log(mx.np.exp(x) - mx.np.exp(x)) * 2


@pytest.mark.observes
@pytest.mark.parametrize("hybridize", [False, True])
def test_the_first_operator_that_makes_nan_is_an_error(hybridize):
    class Net(mx.gluon.HybridBlock):
        def forward(self, x):
            return mx.np.sqrt(x) + 1

    net = Net()
    if hybridize:
        net.hybridize()
    with mx.config.scope(debug_nan="raise"):
        assert net(mx.np.array([4.0])).asnumpy().tolist() == [3]
        with pytest.raises(MXNetFloatingPointError, match="net/sqrt .*made 1 numbers that are NaN"):
            net(mx.np.array([-4.0])).asnumpy()


def test_overflows_are_logged_where_they_begin(caplog):
    with mx.config.scope(dump_config={"enable_dump_debug": True, "dump_debug_mode": "overflow"}):
        overflow().asnumpy()
        mx.waitall()
    places = [r.getMessage().split(" ")[0] for r in caplog.records]
    assert places == ["exp", "exp"] or places == ["exp"]


@pytest.mark.observes
def test_a_watched_operator_is_logged_and_no_other(caplog):
    with mx.config.scope(MGB_DEBUG_VAR_SANITY_CHECK_LOG="exp"):
        x = mx.np.array([0.0, 1.0])
        (mx.np.sin(x) + mx.np.exp(x)).asnumpy()
        mx.waitall()
    assert len(caplog.records) == 1
    assert (
        caplog.records[0]
        .getMessage()
        .startswith("exp[0] shape=[2] dtype=float32 nan=0 inf=0 min=1.0 max=2.718")
    )


@pytest.mark.observes
@pytest.mark.parametrize("name", ["MGB_LOG_TRT_MEM_ALLOC", "MXNET_MEM_PLAN_VERBOSE_LOGGING"])
def test_programs_tell_their_memory(caplog, name):
    x = mx.np.ones((32, 32))
    x.wait_to_read()
    with mx.config.scope({name: 1}):
        (x * (len(name) + 0.25)).asnumpy()
    text = caplog.records[-1].getMessage()
    assert "4096 bytes of arguments, 4096 of results" in text and "of temporaries" in text


@pytest.mark.observes
def test_collectives_tell_kind_bytes_and_devices():
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    from mxjax.core import compile_function
    from mxjax.effects.logs import collectives

    mesh = Mesh(np.array(jax.devices()[:4]), ("x",))
    given = jax.ShapeDtypeStruct(
        (4, 8), np.float32, sharding=NamedSharding(mesh, PartitionSpec("x"))
    )
    everywhere = NamedSharding(mesh, PartitionSpec())
    heard = []

    class Ear(logging.Handler):
        def emit(self, record):
            heard.append(record.getMessage())

    ear = Ear()
    logging.getLogger("mxjax").addHandler(ear)
    try:
        with mx.config.scope(MGE_MM_OPR_DEBUG=1):
            compiled, _ = compile_function(
                lambda x: x.sum(0),
                [given],
                donate=(),
                device=everywhere,
                out_shardings=everywhere,
                name="reduction",
                reason="a test",
            )
    finally:
        logging.getLogger("mxjax").removeHandler(ear)
    assert collectives(compiled.as_text())[0][:2] == ("all-reduce", 32)
    assert re.match(r"program reduction: all-reduce of 32 bytes among \[?\{?", heard[0])


@pytest.mark.observes
def test_kernels_are_printed_as_onednn_prints_them(capsys):
    with mx.config.scope(DNNL_VERBOSE=1):
        net = nn.Dense(2, in_units=3)
        net.initialize()
        net(mx.np.ones((4, 3))).asnumpy()
        (mx.np.ones(3) + 2.5).asnumpy()
    lines = [
        line for line in capsys.readouterr().out.splitlines() if line.startswith("dnnl_verbose")
    ]
    assert len(lines) == 1 and ",FullyConnected,dense" in lines[0] and ",4x2," in lines[0]
    x, y = mx.np.ones((3, 7)), mx.np.ones((7, 3))
    mx.waitall()
    with mx.config.scope(DNNL_VERBOSE=2):
        mx.np.dot(x, y).asnumpy()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[1] for line in lines] == ["create", "exec"]


@pytest.mark.observes
def test_what_was_rounded_is_dumped_as_it_came(tmp_path):
    def names(folder, **given):
        x = mx.np.array([[1 + 2.0**-12, 0.5]])
        with mx.config.scope(
            dump_config={"enable_dump": 1, "dump_path": str(folder)},
            precision_amp="mixed_float16",
            **given,
        ):
            (mx.np.dot(x, x.T) + mx.np.exp(x)).asnumpy()
        return sorted(p.name.split("_", 1)[1] for p in folder.rglob("*.npz"))

    plain = names(tmp_path / "a", quant_dumpable=0)
    more = names(tmp_path / "b", quant_dumpable="1")
    assert "dot.npz" in plain and not any("prequant" in name for name in plain)
    assert set(more) - set(plain) == {"dot_prequant.npz"}  # the others computed in float32
    [file] = (tmp_path / "b").rglob("*dot_prequant.npz")
    with np.load(file) as found:
        assert found["in0"].dtype == np.float32 and found["in0"][0, 0] == np.float32(1 + 2.0**-12)


@pytest.mark.observes
def test_dense_arrays_in_sparse_ones_places_are_told_once(monkeypatch, caplog):
    from scipy import sparse

    from mxjax.array import storage

    def told():
        seen = [r.getMessage() for r in caplog.records if "storage fallback" in r.getMessage()]
        caplog.clear()
        return [text.split(", so inputs")[0].split(" works")[0] for text in seen]

    monkeypatch.setattr(storage, "_told", set())
    matrix = sparse.csr_matrix(np.diag([1.0, 2.0]).astype("float32"))
    with mx.config.scope(MXNET_STORAGE_FALLBACK_LOG_VERBOSE=0):
        mx.nd.dot(matrix, mx.nd.ones((2, 1)))
    assert not told()
    for _ in range(2):
        out = mx.nd.dot(matrix, mx.nd.ones((2, 1)))
        assert out.asnumpy().tolist() == [[1], [2]]
        assert mx.np.array(matrix).asnumpy().tolist() == [[1, 0], [0, 2]]
        kept = mx.nd.zeros((2, 2), stype="row_sparse")
        assert mx.nd.sin(kept).stype == "row_sparse"
        assert mx.nd.cos(kept).stype == "default"
    assert told() == [
        *(
            f"storage fallback: {what} was given the storage type csr and"
            for what in ("dot", "array")
        ),
        "storage fallback: operator = cos, input storage types = [row_sparse], output storage types = [default], "
        "params = {}: it has no sparse implementation for these",
    ]
