"""`gluon.contrib.estimator`, against what MXNet's does with the same data and weights (tests/record/estimator.py)."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mxjax as mx
from tests.record.estimator import record

RECORDED = json.loads((Path(__file__).parents[2] / "data" / "estimator.json").read_text())


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    found = {}
    for generation in (1, 2):
        version = mx.config.scope(compat_version="1.9" if generation == 1 else "2.0")
        with version, mx.util.np_array(generation == 2), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of modes that are guessed, say
            found[str(generation)] = json.loads(json.dumps(record(mx, generation)))
    return found


def agree(found: Any, wanted: Any) -> None:
    if isinstance(wanted, list):
        assert isinstance(found, list) and len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            agree(one, other)
    elif isinstance(wanted, float):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    else:
        assert found == wanted


@pytest.mark.parametrize("name", RECORDED["1"])
@pytest.mark.parametrize("generation", RECORDED)
def test_as_in_mxnet(made: dict[str, Any], generation: str, name: str) -> None:
    agree(made[generation][name], RECORDED[generation][name])
