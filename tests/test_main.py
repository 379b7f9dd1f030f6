"""The command line."""

import importlib.util
import pathlib
import subprocess
import sys

import jax
import pytest

from mxjax import as_mxnet, settings
from mxjax.__main__ import TOOLS, main
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


@pytest.mark.parametrize(("asked", "version"), [("1.9.1", "1.9.1"), ("2.0.0b1", "2.0.0")])
def test_a_program_runs_as_of_a_release(tmp_path, asked, version):
    (tmp_path / "program.py").write_text("import mxnet\nprint(mxnet.__version__)\n")
    command = [sys.executable, "-m", "mxjax", "--as", asked, str(tmp_path / "program.py")]
    assert (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        == version
    )


@pytest.mark.parametrize(
    ("asked", "version"),
    [
        ("1.9.1", "1.9.1"),
        ("1.9", "1.9.1"),
        ("1.6.0", "1.9.1"),
        ("1", "1.9.1"),
        ("2.0.0b1", "2.0.0"),
        ("2", "2.0.0"),
    ],
)
def test_a_release_stands_for_its_generation(asked, version):
    """What `--as` was given is the setting, from which the version follows."""
    settings.set("compat.version", asked)
    assert as_mxnet.mxnet_version() == version


@pytest.mark.parametrize("asked", ["3.0", "0.12", "1.9.1.2.3", "one", "1.x"])
def test_other_releases_are_refused(tmp_path, capsys, asked):
    assert main(["--as", asked, "program.py"]) == 2
    assert "not one of 2.0, 1.9" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "said"),
    [("train.py", "train.py': there is no such file\n"), ("port", "`python -m mxjax.port`\n")],
)
def test_a_program_that_is_not_there_is_named(tmp_path, monkeypatch, capsys, program, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(as_mxnet, "install", lambda version: None)
    assert main([program]) == 2
    assert capsys.readouterr().err.endswith(said)


@pytest.mark.parametrize("tool", TOOLS)
def test_the_tools_that_help_names_are_programs(tool):
    spec = importlib.util.find_spec(f"mxjax.{tool}")
    if spec.submodule_search_locations:
        spec = importlib.util.find_spec(f"mxjax.{tool}.__main__")
    assert "__main__" in pathlib.Path(spec.origin).read_text()
