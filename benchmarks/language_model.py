"""A training step of an LSTM language model; prints one JSON object. `run.py` starts it.

    python benchmarks/language_model.py ours|mxnet|torch [repeats]

Two layers of 200 units, 20 sequences of 35 words out of 5,000, sgd. ``ours`` takes turns with the same step written in
JAX with `lax.scan`; the others run by a Python that has them. Milliseconds: ``cpu`` of the process, and ``wall``.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any

from bench_ours import take_turns

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")

WORDS, UNITS, LAYERS, LENGTH, BATCH = 5_000, 200, 2, 35, 20


def words() -> tuple[Any, Any]:
    """What is read and what comes next, (LENGTH, BATCH)."""
    import numpy

    drawn = numpy.random.RandomState(0).randint(0, WORDS, (2, LENGTH, BATCH)).astype("int32")
    return drawn[0], drawn[1]


def gluon_step(mx: Any) -> tuple[Any, Any]:
    """The step in Gluon, MXNet's or ours."""
    gluon, nn, np = mx.gluon, mx.gluon.nn, mx.np

    class Model(gluon.HybridBlock):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(WORDS, UNITS)
            self.rnn = gluon.rnn.LSTM(UNITS, LAYERS, input_size=UNITS)
            self.out = nn.Dense(WORDS, flatten=False, in_units=UNITS)

        def forward(self, x: Any, h: Any, c: Any) -> Any:
            y, state = self.rnn(self.embedding(x), [h, c])
            return self.out(y), state

    net = Model()
    net.initialize(mx.init.Uniform(0.1))
    net.hybridize(static_alloc=True, static_shape=True)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
    x, y = (np.array(a, dtype="int32") for a in words())
    h, c = (np.zeros((LAYERS, BATCH, UNITS)) for _ in range(2))

    def step() -> None:
        with mx.autograd.record():
            out, _ = net(x, h, c)
            loss = loss_fn(out.reshape(-1, WORDS), y.reshape(-1)).mean()
        loss.backward()
        trainer.step(1)

    return step, mx.npx.waitall


def jax_step() -> tuple[Any, Any]:
    """The step by hand."""
    import jax
    import jax.numpy as jnp
    import numpy

    draw = numpy.random.RandomState(1)

    def weight(*shape: int) -> Any:
        return jnp.asarray(draw.uniform(-0.1, 0.1, shape).astype("float32"))

    params = {
        "embedding": weight(WORDS, UNITS),
        "layers": [
            (weight(4 * UNITS, UNITS), weight(4 * UNITS, UNITS), weight(4 * UNITS))
            for _ in range(LAYERS)
        ],
        "out": (weight(WORDS, UNITS), weight(WORDS)),
    }

    def layer(x: Any, w: Any, r: Any, b: Any) -> Any:
        def at(carry: Any, now: Any) -> Any:
            h, cell = carry
            i, f, g, o = jnp.split(now + h @ r.T, 4, -1)
            cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(cell)
            return (h, cell), h

        zero = jnp.zeros((BATCH, UNITS))
        return jax.lax.scan(at, (zero, zero), x @ w.T + b)[1]

    def loss(params: Any, x: Any, y: Any) -> Any:
        v = params["embedding"][x]
        for w, r, b in params["layers"]:
            v = layer(v, w, r, b)
        w, b = params["out"]
        logs = jax.nn.log_softmax(v @ w.T + b)
        return -jnp.take_along_axis(logs, y[..., None], -1).mean()

    def update(params: Any, x: Any, y: Any) -> Any:
        return jax.tree_util.tree_map(
            lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params, x, y)
        )

    x, y = words()
    run = jax.jit(update, donate_argnums=0)

    def step() -> None:
        nonlocal params
        params = run(params, x, y)

    return step, lambda: jax.block_until_ready(params)


def torch_step() -> tuple[Any, Any]:
    """The step in eager PyTorch."""
    import torch

    torch.set_num_threads(1)
    embedding, rnn = torch.nn.Embedding(WORDS, UNITS), torch.nn.LSTM(UNITS, UNITS, LAYERS)
    out = torch.nn.Linear(UNITS, WORDS)
    net = torch.nn.ModuleList([embedding, rnn, out])
    rule, loss_fn = torch.optim.SGD(net.parameters(), lr=0.1), torch.nn.CrossEntropyLoss()
    x, y = (torch.from_numpy(a).long() for a in words())
    h, c = (torch.zeros(LAYERS, BATCH, UNITS) for _ in range(2))

    def step() -> None:
        rule.zero_grad()
        loss_fn(out(rnn(embedding(x), (h, c))[0]).reshape(-1, WORDS), y.reshape(-1)).backward()
        rule.step()

    return step, lambda: None


def main() -> None:
    which, repeats = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 8
    found: dict[str, Any]
    if which == "torch":
        import torch

        found = {
            "framework": "torch " + torch.__version__,
            **take_turns({"language_model": torch_step()}, 3, repeats),
        }
    elif which == "mxnet":
        import mxnet as mx  # type: ignore[import-not-found]

        mx.npx.set_np()
        found = {
            "framework": "mxnet " + mx.__version__,
            **take_turns({"language_model": gluon_step(mx)}, 3, repeats),
        }
    else:
        import mxjax as mx

        found = take_turns(
            {"language_model": gluon_step(mx), "language_model_jax": jax_step()}, 3, repeats
        )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
