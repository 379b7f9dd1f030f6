"""One part of the bench, in a process of its own; prints one JSON object. `run.py` starts it.

    python benchmarks/bench_ours.py small|lenet|shares|python|churn-shapes|churn-lengths|import [option]

Works that are compared take turns in one process (A B A B), and each keeps its least time: a ratio
then says the same on a busy machine as on a quiet one. ``cpu`` is process CPU time, ``wall`` wall time,
both in milliseconds per call.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from typing import Any

Work = tuple[Callable[[], Any], Callable[[], Any]]  # a step, and what waits for it


def take_turns(works: dict[str, Work], calls: int, repeats: int) -> dict[str, dict[str, float]]:
    """Least milliseconds per call of each work."""
    best = {name: {"cpu": float("inf"), "wall": float("inf")} for name in works}
    for step, sync in works.values():
        for _ in range(4):
            step()
        sync()
        for _ in range(STEADY):  # what runs for long is optimised
            if not waiting():
                break
            step()
            sync()
    for _ in range(repeats):
        for name, (step, sync) in works.items():
            cpu, wall = time.process_time(), time.perf_counter()
            for _ in range(calls):
                step()
            sync()
            now = (time.process_time() - cpu, time.perf_counter() - wall)
            found = best[name]
            found["cpu"] = min(found["cpu"], now[0] / calls * 1e3)
            found["wall"] = min(found["wall"], now[1] / calls * 1e3)
    return best


STEADY = 1000


def waiting() -> bool:
    """Whether a quick program has not been optimised yet; other frameworks' turns have none."""
    mx = sys.modules.get("mxjax")
    return mx is not None and any("quick, " in line for line in mx.engine.explain()[-1:])


def nothing() -> None:
    return None


def small() -> dict[str, Any]:
    """Chains of thirty operators, and one operator, against JAX."""
    import jax
    import jax.numpy as jnp
    from lenet_jax import chain_of

    import mxjax as mx

    def ours(x: Any) -> Callable[[], Any]:
        def step() -> None:
            y = x
            for _ in range(10):
                y = mx.np.tanh(y * 1.01 + 0.1)
            y.wait_to_read()

        return step

    few, many = jnp.full(16, 0.5), jnp.full(1_000_000, 0.5)
    own_few, own_many = mx.np.full((16,), 0.5), mx.np.full((1_000_000,), 0.5)
    square, own_square = jnp.ones((8, 8)), mx.np.ones((8, 8))
    jitted, one = jax.jit(chain_of), jax.jit(jnp.multiply)
    out = {"jax": jax.__version__}
    for key, calls, repeats, own, theirs in (
        ("chain_30_small", 100, 25, ours(own_few), lambda: chain_of(few).block_until_ready()),
        ("chain_30_million", 2, 25, ours(own_many), lambda: jitted(many).block_until_ready()),
        (
            "one_operator_sync", 500, 25,
            lambda: (own_square * own_square).wait_to_read(),
            lambda: one(square, square).block_until_ready(),
        ),
    ):  # fmt: skip
        works = {key: (own, nothing), f"{key}_jax": (theirs, nothing)}
        out |= take_turns(works, calls, repeats)
    return out


def own_lenet(batch: int, hybridize: bool, optimizer: str) -> Callable[[], None]:
    """One LeNet training step as a function without arguments."""
    import mxjax as mx
    from mxjax.gluon import nn

    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(channels=20, kernel_size=5, activation="relu"),
        nn.MaxPool2D(pool_size=2, strides=2),
        nn.Conv2D(channels=50, kernel_size=5, activation="relu"),
        nn.MaxPool2D(pool_size=2, strides=2),
        nn.Flatten(),
        nn.Dense(512, activation="relu"),
        nn.Dense(10),
    )
    net.initialize(mx.init.Xavier())
    x = mx.np.random.uniform(size=(batch, 1, 28, 28))
    return training(net, x, hybridize, optimizer)


def training(net: Any, x: Any, hybridize: bool, optimizer: str = "sgd") -> Callable[[], None]:
    """One training step of a classifier as a function without arguments."""
    import mxjax as mx
    from mxjax import autograd, gluon

    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
    if hybridize:
        net.hybridize()
        loss_fn.hybridize()
    batch = len(x)
    y = mx.np.zeros(batch, dtype="int32")
    trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 1e-3})

    def step() -> None:
        with autograd.record():
            loss = loss_fn(net(x), y)
        loss.backward()
        trainer.step(batch)

    return step


def lenet() -> dict[str, Any]:
    """LeNet's training step: imperative, hybridized, hand-written JAX."""
    from lenet_jax import lenet as theirs

    import mxjax as mx

    out: dict[str, Any] = {}
    for optimizer in ("adam", "sgd"):
        for batch, calls, repeats in ((4, 20, 10), (64, 3, 8)):
            key = f"lenet_{optimizer}_{batch}"
            works: dict[str, Work] = {f"{key}_jax": theirs(batch, optimizer)}
            for mode in ("imperative", "hybridized"):
                step = own_lenet(batch, mode == "hybridized", optimizer)
                works[f"{key}_{mode}"] = (step, mx.npx.waitall)
            out |= take_turns(works, calls, repeats)
    return out


def shares() -> dict[str, Any]:
    """Where LeNet's step (batch 64, sgd, imperative) spends the device's time, by operator."""
    import tempfile

    import mxjax as mx
    from mxjax import profiler

    step = own_lenet(64, False, "sgd")
    for _ in range(4):
        step()
    mx.npx.waitall()
    with tempfile.TemporaryDirectory() as folder:
        profiler.set_config(
            profile_all=True,
            aggregate_stats=True,
            filename=f"{folder}/profile.json",
            log_dir=folder,
        )
        profiler.set_state("run")
        for _ in range(20):
            step()
        mx.npx.waitall()
        profiler.set_state("stop")
        table = json.loads(profiler.dumps(format="json"))["Time"]["operator"]
        exact = profiler.attribution()["exact"]
    total = sum(row["Total"] for row in table.values())
    parts = [(name, row["Total"] / total) for name, row in table.items()]
    return {"shares": sorted(parts, key=lambda part: -part[1]), "shares_exact": exact}


def python_time() -> dict[str, Any]:
    """What this thread does in the imperative step apart from executing the program."""
    from python_time import python_seconds

    out = {}
    for optimizer in ("adam", "sgd"):
        step = own_lenet(4, False, optimizer)
        for _ in range(20):
            step()
        milliseconds = python_seconds(step, 600) * 1e3
        out[f"python_{optimizer}"] = {"cpu": milliseconds, "wall": milliseconds}
    return out


def churn(kind: str, each: bool) -> dict[str, Any]:
    """Segments that hardly ever come back: random operators, synchronised after a random number."""
    import mxjax as mx

    if each:
        mx.engine.set_bulk_size(1)
    rnd = random.Random(0)
    shapes = [(rnd.randint(1, 40), rnd.randint(1, 40)) for _ in range(50)]
    operators = [
        lambda a: mx.np.tanh(a),
        lambda a: a * 0.5,
        lambda a: a - a * 0.1,
        lambda a: a + 1.5,
        lambda a: mx.np.maximum(a, 0.25),
        lambda a: mx.np.abs(a),
        lambda a: mx.np.exp(-a),
        lambda a: a * a,
    ]
    count = 3000
    if kind == "shapes":  # each operator is compiled for each shape
        operators = operators[:3]
        count = 1000
    arrays = [mx.np.ones(s) for s in shapes]
    mx.npx.waitall()
    mx.engine.reset()
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(count):
        x = arrays[rnd.randrange(50)] if kind == "shapes" else arrays[0]
        for _ in range(rnd.randint(1, 20)):
            x = rnd.choice(operators)(x)
        x.wait_to_read()
    spent = {"cpu": (time.process_time() - cpu) * 1e3, "wall": (time.perf_counter() - wall) * 1e3}
    return {f"churn_{kind}": spent, "compiled": mx.engine.stats()["compiled"]}


def importing() -> dict[str, Any]:
    """What `import mxjax` takes once JAX is there."""
    import jax  # noqa: F401

    cpu, wall = time.process_time(), time.perf_counter()
    import mxjax  # noqa: F401

    spent = {"cpu": (time.process_time() - cpu) * 1e3, "wall": (time.perf_counter() - wall) * 1e3}
    return {"import": spent}


def main() -> None:
    part = sys.argv[1]
    if part.startswith("churn-"):
        out = churn(part.removeprefix("churn-"), "each" in sys.argv[2:])
    else:
        parts = {
            "small": small, "lenet": lenet, "shares": shares, "python": python_time,
            "import": importing,
        }  # fmt: skip
        # Warm code is timed: networks begin in NumPy else, for dozens of steps.
        if part != "import":
            import mxjax as mx

            mx.config.set("engine.cold", "compile")
        out = parts[part]()
    print(json.dumps(out))


if __name__ == "__main__":
    main()
