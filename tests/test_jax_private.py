"""JAX's private names: all are there in supported versions, and everything works without them, more slowly."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import mxjax as mx
from mxjax import _jax_private

ROOT = Path(__file__).parents[1]


def test_this_jax_has_them_all():
    assert _jax_private.lost() == {}
    assert mx.runtime.Features().is_enabled("JAX_PRIVATE_NAMES")
    assert _jax_private.described().endswith(
        f"has all {len(_jax_private.NAMES)} private names that mxjax looks for."
    )


#: A process in which `find` comes to no module of JAX's, through the wings.
WITHOUT = """
import importlib, sys

plain = importlib.import_module

def refusing(name, package=None):
    if name.startswith("jax._src") and "_jax_private" in sys._getframe(1).f_code.co_filename:
        raise ImportError(name)
    return plain(name, package)

importlib.import_module = refusing

import jax
import numpy as np
import mxjax as mx
from mxjax import _jax_private, autograd, gluon, memonger, profiler
from mxjax.gluon import nn

missing = {name for name, private in _jax_private.NAMES.items() if private.lost}
assert set(_jax_private.lost()) == missing and "lacks" in _jax_private.described()
assert not mx.runtime.Features().is_enabled("JAX_PRIVATE_NAMES")

def trained(hybrid, cold):
    with mx.config.scope({"engine.cold": cold}):
        mx.random.seed(7)
        net = nn.HybridSequential()
        net.add(nn.Conv2D(4, 3, activation="relu"), nn.BatchNorm(), nn.Dense(3))
        net.initialize(mx.init.Xavier())
        if hybrid:
            net.hybridize()
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9}, kvstore="local")
        x, y = mx.np.array(np.arange(96.0).reshape(2, 3, 4, 4) / 96), mx.np.array([0, 2])
        for _ in range(3):
            with autograd.record():
                loss = gluon.loss.SoftmaxCrossEntropyLoss()(net(x), y).mean()
            loss.backward()
            trainer.step(2)
        return float(loss)

losses = [trained(hybrid, cold) for hybrid in (False, True) for cold in ("auto", "compile", "interpret")]
np.testing.assert_allclose(losses, losses[0], rtol=1e-4)
with autograd.train_mode():
    kept = mx.npx.dropout(mx.np.ones((100, 100)), 0.5)
assert 0.4 < float((kept == 0).mean()) < 0.6

def body(x, state):
    return x + state, x + state

print(mx.npx.foreach(body, mx.np.ones((3, 2)), mx.np.zeros(2))[0].asnumpy().tolist())
net = nn.HybridSequential()
for _ in range(4):
    net.add(nn.Dense(64, activation="tanh"))
net.initialize()
net.hybridize()
memonger.plan(net, mx.np.ones((32, 64)), budget="1MiB")
x = mx.np.arange(6.0).reshape(2, 3)
print(jax.grad(lambda a: mx.np.sum(mx.np.tanh(a) ** 2).jax)(x.jax).shape)
profiler.set_config(profile_all=True, aggregate_stats=True)
profiler.start()
(x * 2).wait_to_read()
profiler.stop()
print("sum" in profiler.dumps() or "mul" in profiler.dumps())
mx.npx.save(sys.argv[1], x)
assert (mx.npx.load(sys.argv[1]) == x).all()
from mxjax.launch.coordinator import Coordinator
try:
    Coordinator("127.0.0.1", 1, 1.0)
except mx.MXNetError as error:
    print("support.md" in str(error))
mx.waitall()
"""


def test_everything_works_without_them(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MXJAX_CACHE_DIR": str(tmp_path / "kept")}
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT, str(tmp_path / "x.npy")]
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split("\n")[:-1] == [
        "[[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]",
        "(2, 3)",
        "True",
        "True",
    ]


#: A process that compares JAX's functions and methods before mxjax with those after a training step.
REPLACING = """
import sys
import jax, jax.numpy, jax.export, jax.experimental.serialize_executable

def functions():
    found = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in ("jax", "jaxlib"):
            continue
        for key, value in list(vars(module).items()):
            if callable(value) and getattr(value, "__module__", None) == name:
                found[f"{name}:{key}"] = value
                if isinstance(value, type):
                    parts = {f"{name}:{key}.{k}": v for k, v in vars(value).items() if callable(v)}
                    found.update(parts)
    return found

before = functions()
import mxjax as mx
from mxjax import autograd, gluon

net = gluon.nn.Dense(2)
net.initialize()
net.hybridize()
trainer = gluon.Trainer(net.collect_params(), "sgd")
for n in (3, 4):
    with autograd.record():
        loss = net(mx.np.ones((n, 5))).sum()
    loss.backward()
    trainer.step(n)
jax.grad(lambda x: (mx.np.array(x) ** 2).sum().jax)(jax.numpy.ones(3))
mx.waitall()
after = functions()
print(" ".join(sorted(name for name in before if after.get(name) is not before[name])))
"""


def test_only_what_is_said_is_replaced_in_jax():
    done = subprocess.run(
        [sys.executable, "-c", REPLACING],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found = set(done.stdout.split())
    assert "jax._src.api:_check_scalar" in found and found <= _jax_private.REPLACED.keys()
