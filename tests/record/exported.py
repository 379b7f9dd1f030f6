"""Runs a network that mxjax exported on real MXNet 2.0.0b1 and keeps the files beside what MXNet computed.

python -c "from tests.gluon.files.exported import network; net, x = network(); net(x); net.export(PATH)"   # mxjax's
python exported.py PATH     # MXNet's: writes ../data/formats/exported/
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import mxnet as mx
import numpy as np

path = sys.argv[1]
target = Path(__file__).parents[1] / "data" / "formats" / "exported"
target.mkdir(parents=True, exist_ok=True)
net = mx.gluon.SymbolBlock.imports(f"{path}-symbol.json", ["data"], f"{path}-0000.params")
x = np.random.RandomState(3).randint(0, 10, (2, 7)).astype("float32")
outs = net(mx.np.array(x))
np.savez(
    target / "attention.expected.npz",
    data=x,
    **{f"output{k}": o.asnumpy() for k, o in enumerate(outs)},
)
for part in ("-symbol.json", "-0000.params"):
    shutil.copy(path + part, target / f"attention{part}")
