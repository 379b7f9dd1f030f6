"""Records the learning rates of MXNet 2.0's schedulers: run with a Python that has MXNet 2.0.0b1.

python tests/record/lr_schedulers.py tests/data/lr_schedulers.json
"""

import json
import sys

from mxnet import lr_scheduler as sched

WARM = [
    {},
    {"warmup_steps": 7, "warmup_begin_lr": 0.02},
    {"warmup_steps": 5, "warmup_mode": "constant"},
]
CASES = [
    ("FactorScheduler", {"step": 10, "factor": 0.5, "base_lr": 0.4}),
    ("FactorScheduler", {"step": 3, "factor": 0.3, "base_lr": 0.4, "stop_factor_lr": 1e-3}),
    ("MultiFactorScheduler", {"step": [4, 9, 30], "factor": 0.1, "base_lr": 0.4}),
    ("PolyScheduler", {"max_update": 40, "base_lr": 0.4}),
    ("PolyScheduler", {"max_update": 40, "base_lr": 0.4, "pwr": 1.5, "final_lr": 0.01}),
    ("CosineScheduler", {"max_update": 40, "base_lr": 0.4}),
    ("CosineScheduler", {"max_update": 40, "base_lr": 0.4, "final_lr": 0.03}),
]
POINTS = [list(range(60)), [0, 1, 2, 35, 36, 100, 101]]


def main(path):
    rows = []
    for name, kwargs in CASES:
        for warm in WARM:
            for points in POINTS:
                schedule = getattr(sched, name)(**{**kwargs, **warm})
                rows.append(
                    {
                        "name": name,
                        "kwargs": {**kwargs, **warm},
                        "points": points,
                        "rates": [schedule(n) for n in points],
                    }
                )
    with open(path, "w") as out:
        json.dump(rows, out)


if __name__ == "__main__":
    main(sys.argv[1])
