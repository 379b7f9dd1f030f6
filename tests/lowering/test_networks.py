"""Training steps, wings and meshes become programs for a GPU and for a TPU, on a machine with neither."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import mxjax as mx
from mxjax import amp, autograd, gluon, settings
from mxjax.gluon import nn
from mxjax.gluon.model_zoo import vision
from tests import lowered
from tests.gpu.test_training import IMAGES, WORDS, Language, images

ROOT = Path(__file__).parents[2]
USUAL = ("resnet18_v1",)


def step(net: Any, *inputs: Any, optimizer: str = "sgd") -> None:
    """A training step whose numbers nobody asks for."""
    trainer = gluon.Trainer(net.collect_params(), optimizer)
    with autograd.record():
        out = net(*inputs)
        loss = (out.astype("float32") ** 2).mean()
    loss.backward()
    trainer.step(1)


def ready(net: Any, *inputs: Any) -> Any:
    """Hybridized, with weights."""
    net.hybridize()
    net(*inputs)  # is recorded, which infers shapes, and not computed
    for p in net.collect_params().values():
        p.data().wait_to_read()
    return net


@pytest.fixture(params=lowered.PLATFORMS)
def lower(monkeypatch: pytest.MonkeyPatch, request: Any) -> Any:
    """Runs a function whose programs are lowered and not compiled; gives what they were lowered to."""

    def run(fn: Any, *args: Any, **options: Any) -> list[str]:
        mx.waitall()
        mx.config.set({"engine.cold": "compile"})
        with lowered.lowering(monkeypatch, request.param, only=True) as found:
            try:
                made = fn(*args, **options)
                mx.waitall()
                del made
            except mx.MXNetError as error:
                assert "NotCompiled" in str(error), error
        assert found
        return found

    return run


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("name", ["images", "language"])
def test_training_steps(lower: Any, name: str, hybridize: bool, optimizer: str) -> None:
    net, x = (images(), IMAGES) if name == "images" else (Language(), WORDS)
    net.initialize()
    if hybridize:
        net.hybridize()
    found = lower(step, net, mx.np.array(x), optimizer=optimizer)
    # The new weights take the place of the old ones.
    assert any("tf.aliasing_output" in text or "jax.buffer_donor" in text for text in found)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in USUAL else pytest.mark.slow) for n in sorted(vision._MODELS)],
)
def test_the_zoo_trains(lower: Any, name: str) -> None:
    net = vision.get_model(name, classes=10)
    net.initialize(mx.init.Zero())
    side = 299 if "inception" in name else 64 if name.startswith(("mobilenet", "resnet")) else 224
    x = mx.np.ones((2, 3, side, side))
    found = lower(step, ready(net, x), x)
    layers: list[Any] = []
    net.apply(lambda b: layers.append(b) if isinstance(b, nn.Conv2D) else None)
    # Forward, and the weights' gradients.
    assert max(text.count("stablehlo.convolution") for text in found) >= 2 * len(layers)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_mixed_precision(lower: Any, dtype: str) -> None:
    amp.init(dtype)
    try:
        net = images()
        net.initialize()
        net.hybridize()
        found = lower(step, net, mx.np.array(IMAGES))
        assert any({"float16": "xf16>", "bfloat16": "xbf16>"}[dtype] in text for text in found)
    finally:
        amp.amp.end()


@pytest.mark.parametrize("mirror", [True, "sublinear"])
def test_recomputation(lower: Any, mirror: Any) -> None:
    net = nn.HybridSequential()
    for _ in range(4):
        net.add(nn.Dense(64, activation="tanh", in_units=64))
    net.initialize()
    net.hybridize(mirror=mirror)
    found = lower(step, net, mx.np.ones((32, 64)))
    assert any("optimization_barrier" in text for text in found)


def test_quantized_layers(lower: Any) -> None:
    net = images()
    net.initialize()
    x = mx.np.array(IMAGES)
    made = mx.contrib.quantization.quantize_net(
        net, calib_data=gluon.data.DataLoader(x, 4), calib_mode="naive"
    )
    lower(made, x)


def test_sums_of_stores(lower: Any) -> None:
    kv = mx.kv.create("nccl")
    kv.init("w", mx.np.zeros(3))
    outs = [mx.np.zeros(3, device=mx.cpu(k)) for k in range(2)]
    mx.waitall()

    def summed() -> None:
        kv.pushpull("w", [mx.np.ones(3, device=mx.cpu(k)) for k in range(2)], out=outs)
        outs[0].wait_to_read()

    lower(summed)


def test_loops_and_branches(lower: Any) -> None:
    class Net(gluon.HybridBlock):
        def forward(self, x: Any) -> Any:
            outs, state = mx.npx.foreach(lambda row, s: (row * s, s + row), x, mx.np.zeros(3))
            return (
                mx.npx.cond(lambda a: a.sum() > 0, lambda a: a * 2, lambda a: a - 1, outs) + state
            )

    net = Net()
    net.hybridize()
    x = mx.np.ones((5, 3))
    x.attach_grad()

    def run() -> None:
        with autograd.record():
            out = net(x).sum()
        out.backward()

    lower(run)


MESH = """
    import sys
    sys.path.insert(0, {root!r})
    import pytest
    import mxjax as mx
    from mxjax import autograd, gluon
    from mxjax.gluon import nn
    from tests import lowered

    mesh = mx.mesh("data=4,model=2")
    net = nn.HybridSequential()
    net.add(nn.Dense(64, activation="relu", in_units=32), nn.Dense(8, in_units=64))
    net.initialize()
    net.hybridize()
    net.shard(mesh, {{"0.weight": ("model", None)}})
    trainer = gluon.Trainer(net.collect_params(), "adam", kvstore=mesh)
    x, y = mesh.split(mx.np.ones((16, 32))), mesh.split(mx.np.zeros((16, 8)))

    def step():
        with autograd.record():
            loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        trainer.step(16)
        mx.waitall()

    for platform in lowered.PLATFORMS:
        with lowered.lowering(pytest.MonkeyPatch(), platform) as found:
            step()
        assert any("num_partitions = 8" in text for text in found), [text[:200] for text in found]
        mx.config.set({{"engine.cold": "compile"}})  # forgets programs
    print("lowered")
"""


def test_steps_on_a_mesh_of_eight_devices() -> None:
    env = settings.child_environment()
    env |= {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
    }
    code = textwrap.dedent(MESH.format(root=str(ROOT)))
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0 and "lowered" in done.stdout, done.stdout + done.stderr[-3000:]
