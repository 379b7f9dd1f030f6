"""What MXNet's kvstores take for the work of kvstore.py; run by a Python that has MXNet 2.

/path/to/python benchmarks/kvstore_mxnet.py [repeats]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import mxnet as mx  # noqa: E402
from kvstore_work import least, resnet50, sums  # noqa: E402


def one_process(kind: str, per_key: bool, repeats: int, n: int = 4) -> dict[str, float]:
    """Gradients of `n` CPU devices summed by push and pull, and waited for."""
    kv = mx.kv.create(kind)
    shapes = resnet50()
    grads = [[mx.nd.ones(s, ctx=mx.cpu(d)) for d in range(n)] for s in shapes]
    outs = [[mx.nd.zeros(s, ctx=mx.cpu(d)) for d in range(n)] for s in shapes]
    return least(sums(kv, grads, outs, mx.nd.waitall, per_key), repeats)


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    out: dict[str, object] = {"framework": "mxnet " + mx.__version__}
    for kind in ("local", "device"):
        out[f"{kind}_call"] = one_process(kind, False, repeats)
        out[f"{kind}_keys"] = one_process(kind, True, repeats)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
