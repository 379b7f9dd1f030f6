"""Records the steps of MXNet 2.0's optimizers: run with a Python that has MXNet 2.0.0b1.

    python tests/record/optimizer_steps.py tests/data/optimizer_steps.npz

Every case runs ten updates of two weights through ``mx.optimizer.get_updater`` and keeps, in one
float32 vector, both weights after each update and then the states after the last.  Starting weights
and gradients come from ``RandomState(7)``, so the test draws the same.  Epsilons are large, so that
their place in the rule shows.
"""

import json
import sys

import mxnet as mx
import numpy as np

STEPS = 10
COMMON = {"learning_rate": 0.05, "wd": 0.1, "rescale_grad": 0.5, "clip_gradient": 0.4}
PLAIN = {"learning_rate": 0.05}
BOTH = ("SGD NAG Adam RMSProp AdaGrad Ftrl FTML Signum LAMB LANS LARS AdamW AdaBelief").split()
VARIANTS = {
    "SGD": [{}, {"momentum": 0.9}],
    "NAG": [{}, {"momentum": 0.0}],
    "Adam": [{"epsilon": 0.05}, {}, {"begin_num_update": 7}],
    "AdamW": [{"epsilon": 0.05}, {"correct_bias": False}],
    "RMSProp": [{"epsilon": 0.05}, {"epsilon": 0.05, "centered": True}, {"clip_weights": 0.5}],
    "AdaGrad": [{"epsilon": 0.05}],
    "AdaDelta": [{"epsilon": 0.05}],
    "Adamax": [{"epsilon": 0.05}],
    "Nadam": [{"epsilon": 0.05}],
    "Ftrl": [{"lamda1": 0.02, "beta": 0.7}],
    "FTML": [{"epsilon": 0.05}],
    "Signum": [{"wd_lh": 0.05}, {"momentum": 0.0, "wd_lh": 0.05}],
    "LAMB": [
        {"epsilon": 0.05},
        {"bias_correction": False},
        {"lower_bound": 1.5, "upper_bound": 1.8},
    ],
    "LANS": [{"epsilon": 0.05}, {"lower_bound": 1.5, "upper_bound": 1.8}],
    "LARS": [{"momentum": 0.9, "eta": 0.1}, {"eta": 0.1, "aggregate_num": 4, "momentum": 0.5}],
    "DCASGD": [{}, {"momentum": 0.9}],
    "AdaBelief": [{"epsilon": 0.05}, {"correct_bias": False}],
    "GroupAdaGrad": [{"epsilon": 0.05, "wd": 0.0}],
}


def flat(state):
    if state is None:
        return []
    if isinstance(state, (tuple, list)):
        return [leaf for item in state for leaf in flat(item)]
    return [state.asnumpy()]


def run(name, kwargs, shapes, dtype):
    rng = np.random.RandomState(7)
    start = [rng.uniform(-1, 1, s).astype(dtype) for s in shapes]
    grads = [[rng.uniform(-2, 2, s).astype(dtype) for s in shapes] for _ in range(STEPS)]
    opt = mx.optimizer.create(name, param_idx2name={0: "a_weight", 1: "b_bias"}, **kwargs)
    opt.set_lr_mult({1: 0.5})
    opt.set_wd_mult({1: 2.0})
    updater = mx.optimizer.get_updater(opt)
    weights = [mx.nd.array(w, dtype=dtype) for w in start]
    trail = [[] for _ in shapes]
    for step in range(STEPS):
        if step == 3:
            opt.set_learning_rate(0.02)
        gs = [mx.nd.array(g, dtype=dtype) for g in grads[step]]
        updater([0, 1], gs, weights)
        for i, w in enumerate(weights):
            trail[i].append(w.asnumpy())
    parts = [np.stack(t) for t in trail]
    parts += [s for i in range(len(shapes)) for s in flat(updater.states[i])]
    return np.concatenate([p.astype("float32").ravel() for p in parts])


def main(path):
    cases, data = [], {}
    for name, variants in VARIANTS.items():
        for variant in variants:
            for fused in (True, False) if name in BOTH else (None,):
                for base in (COMMON, PLAIN) if variant is variants[0] else (COMMON,):
                    for dtype, mp in (("float32", False), ("float16", True)):
                        if dtype == "float16" and (base is PLAIN or name in ("GroupAdaGrad",)):
                            continue
                        kwargs = {**base, **variant}
                        if fused is not None:
                            kwargs["use_fused_step"] = fused
                        if mp:
                            kwargs["multi_precision"] = True
                        shapes = [(3, 4), (5, 2) if name == "GroupAdaGrad" else (5,)]
                        try:
                            out = run(name, kwargs, shapes, dtype)
                        except Exception as error:  # MXNet refuses some combinations
                            print("refused:", name, kwargs, dtype, repr(error)[:150])
                            continue
                        key = f"c{len(cases)}"
                        cases.append(
                            {
                                "key": key,
                                "shapes": shapes,
                                "name": name,
                                "kwargs": kwargs,
                                "dtype": dtype,
                            }
                        )
                        data[key] = out
    np.savez_compressed(path, cases=np.array(json.dumps(cases)), **data)
    print(len(cases), "cases")


if __name__ == "__main__":
    main(sys.argv[1])
