"""Programs of MXNet 1.x and 2 give the losses of real MXNet 1.9.1 and 2.0.0b1, from the same initial parameters."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as onp

import mxjax as mx

TESTS = Path(__file__).parents[2]


def recorded(name):
    """The module that recorded a file of this name, and what is in it."""
    spec = importlib.util.spec_from_file_location(name, TESTS / "record" / f"{name}.py")
    programs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(programs)
    return programs, json.loads((TESTS / "data" / f"{name}.json").read_text())


def test_losses_of_twenty_steps():
    programs, wanted = recorded("gluon_mxnet1")
    with mx.config.scope(compat_version="1.9"):
        mx.modes.begin()
        found = programs.programs(mx)
    for kind, expected in wanted.items():
        assert found[kind]["names"] == expected["names"]
        onp.testing.assert_allclose(found[kind]["losses"], expected["losses"], atol=1e-4)


def test_losses_of_a_program_of_mxnet2():
    programs, wanted = recorded("gluon_mxnet2")
    found = programs.program(mx)
    assert found["names"] == wanted["names"]
    onp.testing.assert_allclose(found["losses"], wanted["losses"], atol=1e-4)
