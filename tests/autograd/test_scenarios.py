"""autograd answers as real MXNet does: scenarios.py's programs against their recorded answers."""

import json
from pathlib import Path

import pytest

import mxjax as mx

from . import scenarios

DATA = json.loads((Path(__file__).parent.parent / "data" / "autograd.json").read_text())


def same(got, want):
    """Equal, floats within rounding; an error may be any MXNetError or the recorded builtin."""
    if isinstance(want, list):
        return (
            isinstance(got, (list, tuple))
            and len(got) == len(want)
            and all(same(g, w) for g, w in zip(got, want, strict=True))
        )
    if isinstance(want, float) and isinstance(got, (int, float)):
        return got == pytest.approx(want, rel=2e-5, abs=1e-6, nan_ok=True)
    if want == "MXNetError":
        kind = getattr(mx.errors, str(got), None)
        return isinstance(kind, type) and issubclass(kind, mx.errors.MXNetError)
    return got == want


@pytest.mark.parametrize("name", scenarios.SCENARIOS)
def test_scenario(name):
    got, want = scenarios.SCENARIOS[name](mx), DATA["scenarios"][name]
    assert same(got, want), f"want {want}\n got {got}"


@pytest.mark.parametrize("expression", scenarios.expressions())
def test_gradient(expression):
    got, want = scenarios.gradient(mx, expression), DATA["gradients"][expression]
    assert same(got, want), f"want {want}\n got {got}"


# Integers are differentiated by the same formulas, in their own dtype; bools, indices and masks have zeros.
WHOLE = {
    "x * z": ([[1, 2], [2, 5]], [[1, 2], [3, 5]]),
    "x ** z": ([[1, 4], [6, 3125]], [[0, 2], [9, 5029]]),
    "np.copysign(x, z)": ([[1, 1], [1, 1]], [[0, 0], [0, 0]]),
    "x == z": ([[0, 0], [0, 0]], [[0, 0], [0, 0]]),
    "np.lcm(x, z)": ([[0, 0], [0, 0]], [[0, 0], [0, 0]]),
    "np.bitwise_and(x, z)": ([[0, 0], [0, 0]], [[0, 0], [0, 0]]),
    "np.sum(x) + np.prod(z)": ([[1, 1], [1, 1]], [[20, 10], [10, 4]]),
    'np.argsort(x).astype("int32") + z': ([[0, 0], [0, 0]], [[1, 1], [1, 1]]),
    'x.astype("float32") * 3 + z.astype("float32")': ([[3, 3], [3, 3]], [[1, 1], [1, 1]]),
}


@pytest.mark.parametrize("expression", WHOLE)
def test_gradient_of_whole_numbers(expression):
    np = mx.np
    x, z = np.array([[1, 2], [3, 5]], dtype="int32"), np.array([[1, 2], [2, 5]], dtype="int32")
    x.attach_grad()
    z.attach_grad()
    with mx.autograd.record():
        y = eval(expression, {"np": np, "x": x, "z": z})
    y.backward()
    assert (x.grad.tolist(), z.grad.tolist()) == WHOLE[expression]
    assert x.grad.dtype == "int32"


@pytest.mark.parametrize("shape", [(3, 2), (0, 2)])
def test_what_a_mask_picks_follows_from_the_mask(shape):
    """As in MXNet 2.0.0b1 (of an empty array it has no history): with a gradient of zeros."""
    x = mx.np.ones(shape)
    x.attach_grad()
    x.grad[:] = 7
    other = mx.np.ones(shape)
    with mx.autograd.record():
        mask = x * 2 >= other
        picked = other[mask], other[mask[:, 0]], other[mask[:, 0], 1]
    for y in picked:
        y.backward(retain_graph=True)
        assert x.grad.tolist() == [[0, 0]] * shape[0]


def test_a_mask_costs_its_selection_nothing():
    """Only where nothing else is differentiated does a gradient reach what a mask was made of."""
    x = mx.np.array([1.0, 2.0, 3.0])
    x.attach_grad()
    with mx.autograd.record():
        y = mx.np.where(x > 1.5, x * x, 0.0)
    y.backward()
    assert x.grad.tolist() == [0, 4, 6]
    with mx.autograd.record():
        y = x.astype("int32")
    y.backward()
    assert x.grad.tolist() == [1, 1, 1]
    with mx.autograd.record():
        y = x > 1.5
    y.backward()
    assert x.grad.tolist() == [0, 0, 0]
