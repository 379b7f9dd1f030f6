"""The command line."""

import jax
import pytest

from mxjax.__main__ import main
from mxjax._version import __version__


def test_config_prints_all_settings_or_one(capsys):
    assert main(["config"]) == 0
    assert "engine.type" in capsys.readouterr().out
    assert main(["config", "MXNET_ENGINE_TYPE"]) == 0
    assert capsys.readouterr().out.startswith("engine.type = ")


def test_it_tells_versions(capsys):
    assert main(["--version"]) == 0
    told = capsys.readouterr().out.split()
    assert told[:2] == ["mxjax", __version__] and f"{jax.__version__}," in told


@pytest.mark.parametrize(("arguments", "status"), [([], 2), (["config", "engine.typ"], 1)])
def test_what_it_does_not_know_fails(capsys, arguments, status):
    assert main(arguments) == status
    assert capsys.readouterr().err
