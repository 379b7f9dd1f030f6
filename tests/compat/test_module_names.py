"""Names that MXNet's modules hold: those they import from elsewhere, private ones, and those that are left out."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import mxjax as mx
from mxjax import settings
from mxjax.compat import left_out, module_names

ROOT = Path(__file__).parents[2]
NAMES = json.loads((ROOT / "tests" / "data" / "module_names.json").read_text())
#: How many of the names of modules that programs import from are here; a smaller number is a loss.
LEAST = {"1.9": 0.97, "2.0": 0.97}


def missing(generation: str) -> list[str]:
    lost = []
    for module, names in NAMES[generation].items():
        try:
            here = importlib.import_module(f"mxjax.{module}".rstrip("."))
        except ImportError:
            here = None
        lost += [f"{module}.{name}" for name in names.split() if not hasattr(here, name)]
    return lost


@pytest.mark.parametrize("generation", NAMES)
def test_the_share_of_names_does_not_fall(generation):
    lost = missing(generation)
    count = sum(len(names.split()) for names in NAMES[generation].values())
    assert 1 - len(lost) / count >= LEAST[generation], sorted(lost)


@pytest.mark.parametrize("module", module_names.HELD)
def test_each_name_of_the_table_lives_where_it_says(module):
    holder = importlib.import_module(f"mxjax.{module}".rstrip("."))
    for name, home in module_names.homes_of(module).items():
        found = module_names.resolve(module, name)
        assert getattr(holder, name) is found, f"{module}.{name} is not what the table says"
        assert home != f"{module}:{name}", f"{module}.{name} is its own name"


def test_names_are_the_objects_themselves():
    from mxjax.gluon.block import DeferredInitializationError, Symbol, is_np_array
    from mxjax.metric import ndarray, string_types  # an alias of gluon.metric

    assert Symbol is mx.sym.Symbol and is_np_array is mx.util.is_np_array
    assert DeferredInitializationError is mx.gluon.parameter.DeferredInitializationError
    assert ndarray is mx.nd and string_types == (str,)
    assert mx.gluon.nn.basic_layers.HybridBlock is mx.gluon.HybridBlock
    assert mx.nd.gen_op is mx.nd and mx.optimizer.optimizer.SGD is mx.optimizer.SGD


def test_a_name_is_only_where_mxnet_has_it():
    assert not hasattr(mx.monitor, "is_np_array") and not hasattr(mx.gluon.loss, "Context")


def test_what_is_left_out_says_what_serves_instead():
    names = ["_LIB", "c2pyerror", "_init_op_module"]
    code = "import traceback\n" + "".join(
        f"try:\n    from mxjax.base import {name}\nexcept ImportError:\n    print(traceback.format_exc(), chr(0))\n"
        for name in names
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=settings.child_environment(PYTHONPATH=str(ROOT)),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    *said, _ = done.stdout.split(chr(0))
    for name, text in zip(names, said, strict=True):
        words = rf"mxjax.base.{name} is not here, on purpose .docs/exclusions.md.: "
        with pytest.raises(AttributeError, match=words):
            getattr(mx.base, name)
        assert "ImportError" in text and left_out.why_excluded(name) in text


def test_the_documents_have_a_line_for_each_kind():
    text = (ROOT / "docs" / "exclusions.md").read_text()
    for why, names in left_out.EXCLUDED.items():
        listed = ", ".join(f"`{name}`" for name in names.split())
        assert f"| {why} | {listed} |" in text


def test_what_is_left_out_is_not_there():
    for names in NAMES.values():
        for module, held in names.items():
            for name in set(held.split()) & set(" ".join(left_out.EXCLUDED.values()).split()):
                try:
                    here = importlib.import_module(f"mxjax.{module}".rstrip("."))
                except ImportError:
                    continue
                assert not hasattr(here, name), (
                    f"{module}.{name} is there now: take it out of EXCLUDED"
                )


def test_an_import_reads_no_table():
    code = (
        "import sys, mxjax, mxjax.gluon, mxjax.gluon.nn, mxjax.optimizer\n"
        "assert 'mxjax.compat.module_names' not in sys.modules\n"
        "mxjax.gluon.block.Symbol\n"
        "assert 'mxjax.compat.module_names' in sys.modules and 'multiprocessing' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=settings.child_environment(PYTHONPATH=str(ROOT)), capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
