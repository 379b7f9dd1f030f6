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
        return (isinstance(got, (list, tuple)) and len(got) == len(want)
                and all(same(g, w) for g, w in zip(got, want, strict=True)))
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


# Integers and bools have no gradient: where they are all that is differentiated, an error says so.
NO_GRADIENT = {
    *("np.argmax(x)", "x>1", "np.argsort(x)", "np.isnan(x)", "np.nonzero(x)[0]"),
    *("np.logical_not(x)", 'x.astype("int32")*2', "np.where(x>1,1.,0.)"),
}


@pytest.mark.parametrize("expression", scenarios.expressions())
def test_gradient(expression):
    if expression in NO_GRADIENT:
        with pytest.raises(mx.MXNetError, match="Cannot differentiate"):
            scenarios.gradient(mx, expression)
        return
    got, want = scenarios.gradient(mx, expression), DATA["gradients"][expression]
    assert same(got, want), f"want {want}\n got {got}"
