"""The array as an object, against real MXNet's answers (tests/record/objects.py)."""

import copy
import json
import pickle
import warnings
from pathlib import Path

import numpy as onp
import pytest

import mxjax as mx

DATA = json.loads((Path(__file__).parent.parent / "data" / "objects.json").read_text())
# Answers that are accidents of the old implementation, and what stands instead.
BETTER = {
    "hash(np.ones(2))": "arrays are hashable by identity, so they can be keys",
    "nd.softmax(nd.ones(2),nothing=1)": "an unknown keyword is a TypeError as everywhere in Python",
}


@pytest.mark.parametrize("expression", DATA)
def test_object(expression):
    want = DATA[expression]
    names = {
        "mx": mx,
        "np": mx.np,
        "npx": mx.npx,
        "nd": mx.nd,
        "onp": onp,
        "copy": copy,
        "pickle": pickle,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(want, dict):
            if expression in BETTER:
                return
            with pytest.raises(Exception) as caught:  # noqa: PT011 - the class is compared below
                eval(expression, names)
            kinds = [c.__name__ for c in type(caught.value).__mro__]
            assert want["error"] in kinds, f"{want['text']}\nbut {caught.value!r}"
            return
        got = eval(expression, names)
        # NumPy 2 prints its scalars with their type and has a class for each dtype.
        text = repr(got.item() if isinstance(got, onp.generic) else got)
        assert text.replace("mxjax", "mxnet") == want[1]
        if not isinstance(got, onp.dtype):
            assert type(got).__name__ == want[0]
