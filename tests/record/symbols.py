"""What real MXNet says of symbols: names, shapes, attributes.

Run with its Python: `python symbols.py > ../data/symbols.json`.
"""

from __future__ import annotations

import json
import sys

import mxnet as mx

sys.path.insert(0, __file__.rpartition("/")[0] + "/../symbol")
from scenarios import SCENARIOS  # noqa: E402  (beside the tests)

found = {}
for name, scenario in SCENARIOS.items():
    with mx.name.NameManager():
        found[name] = scenario(mx)
json.dump(found, sys.stdout, indent=1, sort_keys=True)
print()
