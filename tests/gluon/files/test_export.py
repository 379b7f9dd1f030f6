"""Networks to files and back: MXNet's files run here, and real MXNet ran ours."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax.gluon import HybridBlock, SymbolBlock, nn, rnn

from .exported import network

FORMATS = Path(__file__).parents[2] / "data" / "formats"


@pytest.mark.parametrize("version", ["mxnet191", "mxnet200"])
@pytest.mark.parametrize(("name", "epoch"), [("conv", 3), ("lstm", 0)])
def test_models_of_mxnet_run(version, name, epoch):
    path = FORMATS / version / name
    expected = np.load(f"{path}.expected.npz")
    net = SymbolBlock.imports(f"{path}-symbol.json", ["data"], f"{path}-{epoch:04d}.params")
    x = mx.np.array(expected["data"], dtype=expected["data"].dtype)
    np.testing.assert_allclose(net(x).asnumpy(), expected["output"], rtol=1e-4, atol=1e-6)
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), expected["output"], rtol=1e-4, atol=1e-6)
    # Another number of samples than it was exported with.
    np.testing.assert_allclose(net(x[:1]).asnumpy(), expected["output"][:1], rtol=1e-4, atol=1e-6)


def test_a_checkpoint_of_module():
    path = FORMATS / "mxnet191" / "module"
    expected = np.load(f"{path}.expected.npz")
    symbol, args, states = mx.model.load_checkpoint(str(path), 2)
    run = symbol.simple_bind(mx.cpu(), data=expected["data"].shape, grad_req="null")
    run.copy_params_from(args, states)
    got = run.forward(data=mx.nd.array(expected["data"]))[0]
    np.testing.assert_allclose(got.asnumpy(), expected["output"], rtol=1e-4, atol=1e-6)


def test_the_names_of_the_files_are_given_back_since_mxnet_2(tmp_path):
    net, x = network()
    net.hybridize()
    net(x)
    names = net.export(tmp_path / "net", epoch=2)
    assert names == (f"{tmp_path}/net-symbol.json", f"{tmp_path}/net-0002.params")
    with mx.config.scope(compat_version="1.9"):
        assert net.export(tmp_path / "old") is None and (tmp_path / "old-0000.params").exists()


def test_a_model_of_mxnet_is_trained_further():
    path = FORMATS / "mxnet191" / "conv"
    net = SymbolBlock.imports(f"{path}-symbol.json", "data", f"{path}-0003.params")
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    x = mx.np.array(np.load(f"{path}.expected.npz")["data"])
    y = mx.np.array([1, 3])
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    losses = []
    for _ in range(4):
        with mx.autograd.record():
            each = loss(net(x), y)
        each.backward()
        trainer.step(2)
        losses.append(each.mean().item())
    assert losses[-1] < losses[0]
    assert {p.grad_req for n, p in net.collect_params().items() if "running" in n} == {"null"}


def test_what_mxnet_computed_of_our_files():
    expected = np.load(FORMATS / "exported" / "attention.expected.npz")
    path = FORMATS / "exported" / "attention"
    net, x = network()
    again = SymbolBlock.imports(f"{path}-symbol.json", ["data"], f"{path}-0000.params")
    for run in (net, again):
        for k, out in enumerate(run(x)):
            np.testing.assert_allclose(out.asnumpy(), expected[f"output{k}"], rtol=1e-4, atol=1e-5)


def test_the_file_that_mxnet_ran_is_what_is_written(tmp_path):
    net, x = network()
    net(x)
    files = net.export(tmp_path / "net")
    assert files == (f"{tmp_path}/net-symbol.json", f"{tmp_path}/net-0000.params")
    assert (
        Path(files[0]).read_text() == (FORMATS / "exported" / "attention-symbol.json").read_text()
    )


def layers():
    return [
        nn.Conv2D(4, 3, padding=1),
        nn.BatchNorm(),
        nn.PReLU(),
        nn.MaxPool2D(),
        nn.Conv2D(4, 3, groups=2),
        nn.GroupNorm(2),
        nn.Conv2DTranspose(3, 2),
        nn.InstanceNorm(),
        nn.GELU(),
        nn.AvgPool2D(2),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.LayerNorm(),
        nn.Dense(3, activation="softrelu"),
    ]


def test_layers_come_back_and_go_out_again(tmp_path):
    net = nn.HybridSequential()
    net.add(*layers())
    net.initialize(mx.init.Xavier())
    x = mx.np.random.uniform(size=(2, 3, 12, 12))
    want = net(x).asnumpy()
    net.hybridize()
    net(x)
    net.export(tmp_path / "one", epoch=7)
    again = SymbolBlock.imports(
        tmp_path / "one-symbol.json", ["data"], tmp_path / "one-0007.params"
    )
    np.testing.assert_allclose(again(x).asnumpy(), want, rtol=1e-5, atol=1e-6)
    again.hybridize()
    again(x)
    symbol, params = again.export(None)
    assert sorted(symbol.list_inputs()) == sorted(["data", *again.collect_params()])
    assert {k for k in params if k.startswith("aux:")} == {
        "aux:1.running_mean",
        "aux:1.running_var",
    }
    other = nn.HybridSequential()
    other.add(*layers())
    other.load_parameters(tmp_path / "one-0007.params")
    np.testing.assert_allclose(other(x).asnumpy(), want, rtol=1e-5, atol=1e-6)


def test_stablehlo_runs_without_mxjax_at_any_batch_size(tmp_path):
    export = pytest.importorskip("jax.export", reason="part of JAX")
    pytest.importorskip("flatbuffers", reason="an extra: mxjax[export]")
    net = nn.HybridSequential()
    net.add(nn.Conv2D(2, 3), nn.BatchNorm(), nn.Flatten(), nn.Dropout(0.5), nn.Dense(3))
    net.initialize()
    net.hybridize()
    x = mx.np.random.uniform(size=(4, 1, 6, 6))
    want = net(x).asnumpy()
    file = net.export(tmp_path / "net", format="stablehlo")
    made = export.deserialize(bytearray(Path(file).read_bytes()))
    assert made.platforms == ("cpu", "cuda", "tpu")
    np.testing.assert_allclose(made.call(x.asnumpy()[:1])[0], want[:1], rtol=1e-5, atol=1e-6)


def test_symbol_blocks_of_symbols():
    data = mx.sym.var("data")
    fc = mx.sym.FullyConnected(data, num_hidden=4, name="fc")
    net = SymbolBlock([fc, mx.sym.relu(fc)], [data])
    net.initialize(mx.init.One())
    outs = net(mx.np.array([[1.0, -3.0]]))
    assert [o.asnumpy().tolist() for o in outs] == [[[-1.0] * 4], [[0.0] * 4]]
    assert type(outs[0]) is mx.np.ndarray and type(net(mx.nd.ones((1, 2)))[0]) is mx.nd.NDArray
    shared = SymbolBlock(fc, data, params=net.collect_params())
    assert shared.collect_params()["fc_weight"] is net.collect_params()["fc_weight"]
    made = net(mx.sym.var("other"))
    assert made[0].list_arguments() == ["other", "fc_weight", "fc_bias"]
    assert repr(shared) == "SymbolBlock(\n<Symbol fc> : 1 -> 1\n)"
    with pytest.raises(AssertionError, match="must be variable"):
        SymbolBlock(fc, fc)
    with pytest.raises(ValueError, match="unused by the model"):
        SymbolBlock(fc, data, params={"fc2_weight": mx.gluon.Parameter("fc2_weight")})
    with pytest.raises(ValueError, match="the inputs are data"):
        net(mx.np.ones((1, 2)), mx.np.ones((1, 2)))


def test_what_cannot_be_exported(tmp_path):
    net = nn.Dense(3)
    net.initialize()
    net(mx.np.ones((2, 3)))
    with pytest.raises(RuntimeError, match="Please first call block.hybridize"):
        net.export(tmp_path / "x")
    net.hybridize()
    net(mx.np.ones((2, 3)))
    with pytest.raises(ValueError, match="'symbol' .* or 'stablehlo'"):
        net.export(tmp_path / "x", format="onnx")
    with pytest.raises(OSError, match="No such file"):
        SymbolBlock.imports(tmp_path / "none-symbol.json", ["data"])
    net.export(tmp_path / "x")
    with pytest.raises(ValueError, match="no input 'dta'; did you mean 'data'"):
        SymbolBlock.imports(tmp_path / "x-symbol.json", ["dta"])


def test_summary_counts_operations_and_bytes(capsys):
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, use_bias=False), nn.Flatten(), nn.Dense(5, use_bias=False))
    net.initialize()
    net.summary(mx.np.ones((2, 3, 6, 6)), flops=True)
    lines = {
        line.split()[0]: line.split()
        for line in capsys.readouterr().out.splitlines()
        if line.strip()
    }
    products = 2 * (2 * 4 * 4 * 4) * (3 * 3 * 3)
    assert lines["Conv2D-1"][-2:] == [f"{products / 1000:.4g}", "k"] or "k" in lines["Conv2D-1"]
    assert float(lines["Conv2D-1"][-4]) == pytest.approx(products / 1000, rel=1e-3)
    assert float(lines["Dense-3"][-4]) == pytest.approx(2 * 2 * 64 * 5 / 1000, rel=1e-3)
    assert lines["Total"][-1] == str(4 * 27 + 5 * 64)
    assert lines["Forward:"][2:4] == ["k", "FLOPs,"]


def test_moving_statistics_of_several_devices_are_saved_as_their_mean(tmp_path):
    net = nn.HybridSequential()
    net.add(nn.BatchNorm(in_channels=2), nn.Dense(1, in_units=2))
    net.initialize(device=[mx.cpu(0), mx.cpu(1)])
    net.hybridize()
    x = np.arange(8, dtype="float32").reshape(4, 2)
    for device in (mx.cpu(0), mx.cpu(1)):
        with mx.autograd.record():
            net(mx.np.array(x * (1 + device.device_id), device=device)).backward()
    means = [a.asnumpy() for a in net[0].running_mean.list_data()]
    np.testing.assert_allclose(means, 0.1 * np.array([x.mean(0), 2 * x.mean(0)]), rtol=1e-6)
    net.save_parameters(str(tmp_path / "net.params"))
    files = net.export(tmp_path / "net")
    net(mx.np.array(x))
    exported = mx.npx.load(files[1])
    for saved in (
        mx.npx.load(str(tmp_path / "net.params"))["0.running_mean"],
        exported["aux:0.running_mean"],
    ):
        np.testing.assert_allclose(saved.asnumpy(), np.mean(means, axis=0), rtol=1e-6)


def test_a_weight_that_is_broadcast_keeps_its_shape(tmp_path):
    class Scaled(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.scale = mx.gluon.Parameter("scale", shape=(1, 3, 1), init=mx.init.One())

        def forward(self, x):
            return x * self.scale.data()

    net = Scaled()
    net.initialize()
    net.hybridize()
    net(mx.np.ones((2, 3, 4)))
    symbol, args, states = mx.model.load_checkpoint(
        net.export(tmp_path / "net")[0].removesuffix("-symbol.json"), 0
    )
    module = mx.mod.Module(symbol, label_names=None)
    module.bind([("data", (5, 3, 4))], for_training=False)
    module.set_params(args, states)
    module.forward(mx.io.DataBatch([mx.nd.ones((5, 3, 4))]))
    np.testing.assert_array_equal(module.get_outputs()[0].asnumpy(), np.ones((5, 3, 4)))


class Unrolled(HybridBlock):
    """A cell over four steps."""

    def __init__(self):
        super().__init__()
        self.cell = rnn.GRUCell(3, input_size=5)

    def forward(self, x):
        return self.cell.unroll(4, x, merge_outputs=True)[0]


class Loops(HybridBlock):
    """A loop and a branch that share a layer's parameters."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Dense(3, in_units=3)

    def forward(self, x):
        def step(i, v):
            return self.layer(v), (i + 1, v + self.layer(v))

        outs, (_, last) = mx.npx.while_loop(
            lambda i, v: i.sum() < 2, step, (mx.np.zeros(1), x), max_iterations=3
        )
        return outs, mx.npx.cond(
            lambda v: v.sum() > 0, lambda v: self.layer(v) * 2, lambda v: v - 1, last
        )


def again(net, x, path):
    net.initialize(mx.init.One())
    net.hybridize()
    net(x)
    return SymbolBlock.imports(net.export(path)[0], ["data"], f"{path}-0000.params")


def test_an_unrolled_cell(tmp_path):
    """Real MXNet 2.0.0b1 read this file with these results."""
    made = again(Unrolled(), mx.np.ones((2, 4, 5)), tmp_path / "cell")
    want = np.tile(
        np.array([0.00669222, 0.01320848, 0.01955745, 0.02574732])[None, :, None], (2, 1, 3)
    )
    np.testing.assert_allclose(made(mx.np.ones((2, 4, 5))).asnumpy(), want, rtol=1e-5)
    nodes = json.loads((tmp_path / "cell-symbol.json").read_text())["nodes"]
    (loop,) = [n for n in nodes if n["op"] == "_foreach"]
    assert len(loop["subgraphs"]) == 1 and loop["attrs"]["num_out_data"] == "1"


def test_loops_and_branches(tmp_path):
    x = np.array([[0.5, 1.0, -2.0]], "float32")
    made = again(Loops(), mx.np.array(x), tmp_path / "loops")
    rows = [np.full((1, 3), x.sum())]
    last = x + rows[0]
    rows.append(np.full((1, 3), last.sum()))
    last = last + rows[1]
    chosen = np.full((1, 3), 2 * last.sum()) if last.sum() > 0 else last - 1
    outs, got = made(mx.np.array(x))
    np.testing.assert_allclose(outs.asnumpy()[:2], rows, rtol=1e-6)
    np.testing.assert_allclose(got.asnumpy(), chosen, rtol=1e-6)
