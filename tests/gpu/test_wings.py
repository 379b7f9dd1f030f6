"""What else there is, on the card: stores, sparse arrays, random numbers, other libraries, custom operators, Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("kind", ["local", "device", "nccl"])
def test_stores_of_one_process(card: Any, kind: str) -> None:
    kv = mx.kv.create(kind)
    kv.init("w", mx.np.zeros(3))
    kv.push("w", [mx.np.ones(3), mx.np.ones(3) * 2])
    out = mx.np.zeros(3)
    kv.pull("w", out=out)
    assert out.asnumpy().tolist() == [3.0] * 3 and out.device == card
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=0.5))
    kv.push("w", mx.np.ones(3) * 2)
    kv.pull("w", out=out)
    assert out.asnumpy().tolist() == [2.0] * 3


def test_a_store_of_the_cpu_and_the_card(real_card: Any) -> None:
    kv = mx.kv.create("device")
    kv.init("w", mx.np.zeros(3))
    outs = [mx.np.zeros(3), mx.np.zeros(3, device=mx.cpu())]
    kv.pushpull("w", [mx.np.ones(3), mx.np.ones(3, device=mx.cpu()) * 2], out=outs)
    assert [o.asnumpy().tolist() for o in outs] == [[3.0] * 3] * 2


DISTRIBUTED = """
    import sys
    import numpy as np
    import mxjax as mx
    from mxjax import autograd, gluon

    kv = mx.kv.create("dist_sync")
    device = mx.gpu(0) if sys.argv[1] == "gpu" else mx.cpu(0)
    with device:
        kv.init("w", mx.np.zeros(3))
        kv.push("w", mx.np.ones(3) * (kv.rank + 1))
        out = mx.np.zeros(3)
        kv.pull("w", out=out)
        assert out.asnumpy().tolist() == [3.0] * 3 and out.device == device
        for hosted in (False, True):
            mx.random.seed(1)
            net = gluon.nn.Dense(4, in_units=600)
            net.initialize(mx.init.Xavier())
            trainer = gluon.Trainer(net.collect_params(), "adam", kvstore="dist_sync", update_on_kvstore=hosted)
            x = mx.np.array(np.random.RandomState(kv.rank).randn(8, 600).astype("float32"))
            for _ in range(3):
                with autograd.record():
                    loss = (net(x) ** 2).mean()
                loss.backward()
                trainer.step(16)
            assert net.weight.data().device == device
            print(f"[{kv.rank}] sum {float(mx.np.abs(net.weight.data()).sum()):.6f}", flush=True)
"""


@pytest.mark.parametrize("processes", [2])
def test_two_processes_on_one_card(card: Any, tmp_path: Path, processes: int) -> None:
    script = tmp_path / "job.py"
    script.write_text(textwrap.dedent(DISTRIBUTED))
    kind = "cpu" if card.device_type == "cpu" else "gpu"
    kept = {k: v for k, v in os.environ.items() if not k.startswith("DMLC_")}
    env = {
        **kept,
        "PYTHONPATH": str(ROOT),
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "JAX_PLATFORMS": "cpu" if kind == "cpu" else "cuda,cpu",
    }
    done = subprocess.run(
        [sys.executable, "-m", "mxjax.launch", "-n", str(processes), "--heartbeat", "120", str(script), kind],
        env=env, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    sums = sorted(line.partition("sum ")[2] for line in done.stdout.splitlines() if " sum " in line)
    assert len(sums) == 2 * processes and len(set(sums)) <= 2, done.stdout


def test_sparse_arrays(card: Any) -> None:
    rows = mx.nd.sparse.row_sparse_array((np.ones((2, 3), "float32"), [1, 3]), shape=(5, 3))
    assert rows.context == card and rows.tostype("default").asnumpy().sum() == 6
    kept = mx.nd.sparse.retain(rows, mx.nd.array([3]))
    assert kept.asnumpy().sum() == 3 and kept.context == card
    matrix = mx.nd.sparse.csr_matrix(np.array([[0, 2.0], [1, 0]], "float32"))
    made = mx.nd.sparse.dot(matrix, mx.nd.array([[1.0], [10.0]]))
    assert made.asnumpy().ravel().tolist() == [20.0, 1.0] and made.context == card
    net = gluon.nn.Embedding(1000, 4, sparse_grad=True)
    net.initialize(mx.init.One())
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0})
    with autograd.record():
        loss = net(mx.np.array([3, 3, 7])).sum()
    loss.backward()
    assert net.weight.grad().stype == "row_sparse" or net.weight.grad().shape == (1000, 4)
    trainer.step(1)
    weight = net.weight.data().asnumpy()
    assert (
        weight[3].tolist() == [-1.0] * 4
        and weight[7].tolist() == [0.0] * 4
        and weight[0].tolist() == [1.0] * 4
    )


def test_a_seed_gives_the_same_numbers_everywhere(card: Any) -> None:
    def drawn(device: Any, **settings: Any) -> list[np.ndarray]:
        with device, mx.config.scope(**settings):
            mx.random.seed(11)
            small = [
                mx.np.random.uniform(size=7),
                mx.np.random.normal(size=(3, 4)),
                mx.np.random.randint(0, 9, size=5),
            ]
            large = mx.np.random.normal(size=(1000, 300))
            net = gluon.nn.Dropout(0.5)
            net.hybridize()
            with autograd.record():
                dropped = net(mx.np.ones((50, 50)))
            return [a.asnumpy() for a in (*small, large, dropped, mx.np.random.permutation(20))]

    want = drawn(mx.cpu())
    for device, how in (
        (card, {}),
        (card, {"engine_cold": "compile"}),
        (mx.cpu(), {"engine_cold": "compile"}),
    ):
        for a, b in zip(drawn(device, **how), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_arrays_of_torch_without_a_copy(card: Any) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if card.device_type == "gpu" and not torch.cuda.is_available():
        pytest.skip("this PyTorch knows no CUDA")
    x = mx.np.arange(12).reshape(3, 4).astype("float32")
    x.wait_to_read()
    theirs = torch.from_dlpack(x)
    assert theirs.device.type == ("cuda" if card.device_type == "gpu" else "cpu")
    assert theirs.data_ptr() == x.jax.unsafe_buffer_pointer()
    assert (theirs.cpu().numpy() == x.asnumpy()).all()
    x += 1  # what others see is not written over
    mx.waitall()
    assert float(theirs.sum()) == 66.0 and float(x.sum()) == 78.0
    made = (torch.ones(5, device=theirs.device) * 3).contiguous()
    ours = mx.np.from_dlpack(made)
    assert ours.device == card and ours.jax.unsafe_buffer_pointer() == made.data_ptr()
    assert float((ours * 2).sum()) == 30.0
    again = mx.nd.from_dlpack(x.as_nd_ndarray().to_dlpack_for_read())
    assert again.context == card and float(again.sum().asscalar()) == 78.0


class Squared(mx.operator.CustomOp):
    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        assert in_data[0].context.device_type in ("gpu", "cpu")
        self.assign(out_data[0], req[0], in_data[0] * in_data[0])

    def backward(
        self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any
    ) -> None:
        self.assign(in_grad[0], req[0], 2 * in_data[0] * out_grad[0])


@mx.operator.register("squared_on_the_card")
class SquaredProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx: Any, shapes: Any, dtypes: Any) -> Squared:
        return Squared()


@pytest.mark.parametrize("hybridize", [False, True])
def test_custom_operators(card: Any, hybridize: bool) -> None:
    class Net(gluon.HybridBlock):
        def forward(self, x: Any) -> Any:
            return mx.nd.Custom(x + 1, op_type="squared_on_the_card") * 2

    net = Net()
    if hybridize:
        net.hybridize()
    x = mx.nd.array([1.0, 2.0])
    x.attach_grad()
    for _ in range(2):
        with autograd.record():
            out = net(x)
        out.backward()
        assert out.asnumpy().tolist() == [8.0, 18.0] and x.grad.asnumpy().tolist() == [8.0, 12.0]
        assert out.context == card


@pytest.mark.parametrize("cold", ["auto", "compile"])
def test_errors_of_programs_reach_whoever_reads(card: Any, cold: str) -> None:
    mx.config.set({"engine.cold": cold})
    bad = mx.nd.linalg.potrf(mx.nd.array([[-1.0, 0.0], [0.0, 1.0]]))
    with pytest.raises(mx.MXNetError, match="potrf"):
        bad.asnumpy()
    assert (mx.nd.ones((2,)) + 1).asnumpy().tolist() == [2.0, 2.0]
    mx.waitall()


def test_threads_share_the_card(card: Any) -> None:
    net = gluon.nn.Dense(8, in_units=16)
    net.initialize()
    net.hybridize()
    x = mx.np.ones((4, 16))
    want = net(x).asnumpy()
    found: list[Any] = []

    def work(k: int) -> None:
        with card:
            for _ in range(10):
                found.append(np.allclose((net(x) * k).asnumpy(), want * k, rtol=1e-4))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [True] * 60


def test_ctrl_c_while_the_card_works(card: Any) -> None:
    """It is heard, weights are whole, and the next step runs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        mx.config.set({"engine.cold": "compile"})
        w = mx.np.ones((512, 512)) / 512
        x = mx.np.ones((512, 512))
        (x @ w).wait_to_read()
        timer = threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,))
        turns = 0
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            while True:
                x = x @ w
                w += 0
                turns += 1
                if turns % 10 == 0:
                    x.wait_to_read()
        timer.join()
        mx.waitall()
        np.testing.assert_allclose(w.asnumpy(), 1 / 512, rtol=1e-6)
        np.testing.assert_allclose((mx.np.ones((512, 512)) @ w).asnumpy(), 1.0, rtol=1e-2)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_mesh_of_one_card(card: Any) -> None:
    mesh = (
        mx.mesh(data=1, devices=[card])
        if "devices" in mx.mesh.__code__.co_varnames
        else mx.mesh("data=1")
    )
    net = gluon.nn.Dense(3, in_units=4)
    net.initialize()
    net.shard(mesh, None)
    trainer = gluon.Trainer(net.collect_params(), "sgd", kvstore=mesh)
    x = mesh.split(mx.np.ones((8, 4)))
    for _ in range(2):
        with autograd.record():
            loss = (net(x) ** 2).mean()
        loss.backward()
        trainer.step(8)
    assert np.isfinite(float(loss))


def test_what_jax_takes_for_its_default_changes_nothing(card: Any) -> None:
    """Programs are for the device of their arrays, whichever backend JAX itself prefers."""
    for default in (jax.devices("cpu")[0], card.jax_device):
        with jax.default_device(default):
            x = mx.np.ones((2, 3, 8, 8))
            w = mx.np.ones((4, 3, 3, 3))
            made = mx.npx.convolution(x, w, kernel=(3, 3), num_filter=4, no_bias=True)
            pooled = mx.npx.pooling(made, kernel=(2, 2), stride=(2, 2))
            assert made.device == pooled.device == card and float(pooled.sum()) == 2 * 4 * 9 * 27
