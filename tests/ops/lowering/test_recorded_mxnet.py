"""Convolution and pooling against what real MXNet computed: values and every gradient."""

from __future__ import annotations

import json
import pathlib

import jax
import numpy as np
import pytest

from mxjax.ops.lowering import pooling
from mxjax.ops.lowering.convolution import convolution

DATA = np.load(pathlib.Path(__file__).parents[2] / "data" / "convolution_pooling.npz")
CASES = json.loads(DATA["cases"].tobytes())


def run(kind, options, platform):
    if kind == "convolution":
        taken = {k: options[k] for k in ("kernel", "stride", "dilate", "pad", "num_group")}
        return lambda *a: convolution(*a, **taken, platform=platform)
    pool = getattr(pooling, options["pool_type"] + "_pool")
    taken = {
        k: options[k]
        for k in ("stride", "pad", "global_pool", "count_include_pad", "p_value")
        if k in options
    }
    convention = options.get("pooling_convention", "valid")
    return lambda x: pool(x, options["kernel"], convention=convention, platform=platform, **taken)


def cases():
    """Each on a CPU; every third as on a GPU, where XLA's own operations do it all (the others with the slow tests)."""
    for index in range(len(CASES)):
        yield index, "cpu"
        yield pytest.param(index, "gpu", marks=[pytest.mark.slow] if index % 3 else [])


@pytest.mark.parametrize(("index", "platform"), cases())
def test_same_as_mxnet(index, platform):
    case, name = CASES[index], f"{index:03d}"
    inputs = [DATA[f"{name}.in{i}"] for i in range(case["inputs"])]
    f = run(case["kind"], case["options"], platform)

    @jax.jit  # one program, instead of one for each of some forty primitives
    def value_and_gradients(head, *inputs):
        out, pull = jax.vjp(f, *inputs)
        return out, pull(head)

    out, gradients = value_and_gradients(DATA[f"{name}.head"], *inputs)
    np.testing.assert_allclose(out, DATA[f"{name}.out"], rtol=2e-5, atol=2e-5)
    options = case["options"]
    if (
        options.get("pool_type") == "avg"
        and options.get("pooling_convention") == "full"
        and options["count_include_pad"]
        and len(options["kernel"]) == 2
    ):
        # The forward pass divides by the part of the window inside the padded image, MXNet's
        # backward pass by the whole window: not its derivative. Ours is.
        return
    for i, grad in enumerate(gradients):
        np.testing.assert_allclose(grad, DATA[f"{name}.grad{i}"], rtol=2e-5, atol=1e-4)
