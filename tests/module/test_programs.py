"""Programs that train symbols, unchanged: as MXNet 1.9.1 (`record/module_programs.py`)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx

DATA = json.loads((Path(__file__).parents[1] / "data" / "module_programs.json").read_text())


def alike(found, wanted, where="found"):
    if isinstance(wanted, dict):
        assert sorted(found) == sorted(wanted), where
        for key in wanted:
            alike(found[key], wanted[key], f"{where}[{key!r}]")
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), f"{where}: {found} {wanted}"
        for place, (one, other) in enumerate(zip(found, wanted, strict=True)):
            alike(one, other, f"{where}[{place}]")
    elif isinstance(wanted, float):
        np.testing.assert_allclose(float(found), wanted, rtol=1e-4, atol=1e-4, err_msg=where)
    else:
        assert found == wanted, where


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", DATA["programs"])
def test_as_mxnet(name, caplog):
    program, wanted = DATA["programs"][name]
    caplog.set_level("INFO")
    scope = {"mx": mx}
    with mx.name.NameManager():  # names are counted from 0, whatever ran before
        exec(DATA["code"], scope)
        exec(program, scope)
    alike(scope["found"], wanted)
