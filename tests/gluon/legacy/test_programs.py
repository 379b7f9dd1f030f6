"""Programs of MXNet 1.x give the losses of real MXNet 1.9.1, from the same initial parameters."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as onp

import mxjax as mx

TESTS = Path(__file__).parents[2]
EXPECTED = json.loads((TESTS / "data" / "gluon_mxnet1.json").read_text())


def test_losses_of_twenty_steps():
    spec = importlib.util.spec_from_file_location("gluon_mxnet1", TESTS / "record" / "gluon_mxnet1.py")
    programs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(programs)
    with mx.config.scope(compat_version="1.9"):
        mx.modes.begin()
        found = programs.programs(mx)
    for kind, expected in EXPECTED.items():
        assert found[kind]["names"] == expected["names"]
        onp.testing.assert_allclose(found[kind]["losses"], expected["losses"], atol=1e-4)
