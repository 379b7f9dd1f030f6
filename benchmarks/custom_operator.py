"""A hybridized block with one operator written in Python, forward and backward; prints one JSON object.

    python benchmarks/custom_operator.py ours|mxnet [repeats]

Dense(64), the operator, Dense(64) on 32 rows; `run.py` starts it. ``custom_arrays`` computes with operators of the
framework, ``custom_numpy`` takes its arrays to NumPy and back. Milliseconds: ``cpu`` of the process, and ``wall``.
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

ROWS, UNITS = 32, 64


def step(mx: Any, name: str, compute: Any) -> Any:
    """A forward and a backward pass whose gradients are waited for."""

    class Op(mx.operator.CustomOp):  # type: ignore[misc]
        def forward(self, is_train: Any, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
            self.assign(out_data[0], req[0], compute(in_data[0]))

        def backward(
            self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any
        ) -> None:
            self.assign(in_grad[0], req[0], compute(out_grad[0]))

    class Prop(mx.operator.CustomOpProp):  # type: ignore[misc]
        def create_operator(self, ctx: Any, shapes: Any, dtypes: Any) -> Any:
            return Op()

    mx.operator.register(name)(Prop)

    class Net(mx.gluon.HybridBlock):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = (mx.gluon.nn.Dense(UNITS, in_units=UNITS) for _ in range(2))

        def forward(self, x: Any) -> Any:
            made = mx.nd.Custom(self.first(x).as_nd_ndarray(), op_type=name)
            return self.last(made.as_np_ndarray())

    net = Net()
    net.initialize()
    net.hybridize(static_alloc=True, static_shape=True)
    x = mx.np.ones((ROWS, UNITS))

    def run() -> None:
        with mx.autograd.record():
            y = net(x)
        y.backward()
        net.first.weight.grad().wait_to_read()

    return run, mx.npx.waitall


def main() -> None:
    repeats = int(sys.argv[2]) if len(sys.argv) > 2 else 12
    mx: Any
    if sys.argv[1] == "ours":
        import mxjax as mx
    else:
        import mxnet as mx

        mx.npx.set_np()
    works = {
        "custom_arrays": step(mx, "bench_arrays", lambda x: x * 2),
        "custom_numpy": step(mx, "bench_numpy", lambda x: mx.np.array(x.asnumpy() * 2)),
    }
    take_turns(works, 60, 1)  # until what comes back is compiled
    print(json.dumps(take_turns(works, 100, repeats)))


if __name__ == "__main__":
    main()
