"""The steps that MXNet 2.0's own optimizers took, as tests compare them."""

import json
from pathlib import Path

import numpy as np

from mxjax import optimizer

RECORDED = np.load(Path(__file__).parents[1] / "data" / "optimizer_steps.npz")
CASES = json.loads(str(RECORDED["cases"]))
STEPS = 10


def case_id(case):
    kwargs = {k: v for k, v in case["kwargs"].items() if k not in ("learning_rate", "rescale_grad")}
    return f"{case['name']}-{case['dtype']}-" + "-".join(f"{k}={v}" for k, v in kwargs.items())


def start_and_grads(case):
    """The weights and gradients that the recording drew."""
    rng = np.random.RandomState(7)
    shapes = [tuple(s) for s in case["shapes"]]
    start = [rng.uniform(-1, 1, s).astype(case["dtype"]) for s in shapes]
    grads = [[rng.uniform(-2, 2, s).astype(case["dtype"]) for s in shapes] for _ in range(STEPS)]
    return start, grads


def expected(case):
    """Both weights after every step, and the flat list of what remains: the states."""
    flat, out = RECORDED[case["key"]], []
    for shape in case["shapes"]:
        size = STEPS * int(np.prod(shape))
        out.append(flat[:size].reshape(STEPS, *shape))
        flat = flat[size:]
    return out, flat


def make(case):
    opt = optimizer.create(
        case["name"], param_idx2name={0: "a_weight", 1: "b_bias"}, **case["kwargs"]
    )
    opt.set_lr_mult({1: 0.5})
    opt.set_wd_mult({1: 2.0})
    return opt


def tolerance(case):
    if case["dtype"] == "float16":  # the recorded weights themselves have 11 bits
        return {"rtol": 2e-3, "atol": 2e-3}
    kwargs = case["kwargs"]
    if case["name"] in ("AdamW", "AdaBelief") and kwargs["use_fused_step"]:
        # Their vectorized kernels in MXNet take the root to 2e-5 only, unevenly from element to
        # element; a large epsilon hides it, and the unfused recordings agree to 1e-6.
        if kwargs.get("epsilon", 1e-6) < 1e-3:
            return {"rtol": 1e-6, "atol": 3e-5}
    if case["name"] == "FTML" and kwargs["use_fused_step"]:
        # Its kernel works out 1 - beta2**t in float32: of a number near 0.001, 5e-5 are rounding.
        return {"rtol": 5e-5, "atol": 1e-6}
    return {"rtol": 1e-6, "atol": 1e-6}
