"""mxjax-as-mxnet, the distribution by which `import mxnet` finds mxjax; `make wheel` builds and installs it."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import mxjax
from mxjax import settings
from mxjax._version import __version__

SHIM = Path(__file__).parents[1] / "shim"


def run(code, *paths, **variables):
    where = ":".join(map(str, (*paths, SHIM, SHIM.parent)))
    environment = settings.child_environment(PYTHONPATH=where, **variables)
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )


def test_mxnet_is_mxjax():
    code = "import mxjax, mxnet; from mxnet.gluon import nn; print(mxnet is mxjax, nn.Dense, mxnet.__version__)"
    done = run(code, MXJAX_COMPAT_VERSION="1.9")
    assert done.stdout == "True <class 'mxjax.gluon.nn.basic.Dense'> 1.9.1\n", done.stderr


def installed(folder, name, **files):
    """As pip leaves a package there, with these files of information beside its name."""
    info = folder / f"{name.replace('-', '_')}-1.9.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.9.1\n")
    for file, text in files.items():
        (info / file.replace("_txt", ".txt")).write_text(text)
    for line in files.get("RECORD", "").splitlines():  # files that are not there are none
        file = folder / line.split(",")[0]
        file.parent.mkdir(exist_ok=True)
        file.touch()


@pytest.mark.parametrize(
    "files",
    [{"top_level_txt": "mxnet\n"}, {"RECORD": "mxnet/more.py,,\n"}],
    ids=["top_level", "record"],
)
def test_it_refuses_beside_a_real_mxnet(files, tmp_path):
    installed(tmp_path, "mxnet-cu112", **files)
    done = run("import mxnet", tmp_path)
    assert (
        "pip uninstall mxjax-as-mxnet mxnet-cu112" in done.stderr and "ImportError" in done.stderr
    )


def test_packages_that_only_have_it_in_their_names_may_be_there(tmp_path):
    installed(tmp_path, "keras-mxnet", top_level_txt="keras\n", RECORD="keras/more.py,,\n")
    installed(tmp_path, "mxjax-as-mxnet", top_level_txt="mxnet\n")
    (tmp_path / "mxnet_notes.egg-info").write_text("Name: mxnet-notes\n")
    assert run("import mxnet", tmp_path, tmp_path / "nowhere").returncode == 0


def test_not_every_package_is_asked_for_its_files():
    """That took longer than all else of the import that is not JAX."""
    code = "import mxnet, sys; print('importlib.metadata' in sys.modules and mxnet.__name__)"
    code = (
        "from importlib import metadata\n"
        "metadata.packages_distributions = metadata.Distribution.files = None\n" + code
    )
    done = run(code)
    assert done.returncode == 0, done.stderr


def test_it_has_the_version_of_mxjax():
    project = tomllib.loads((SHIM / "pyproject.toml").read_text())["project"]
    assert project["version"] == __version__ and project["dependencies"] == [
        f"mxjax>={__version__}"
    ]


def test_editors_are_told_names_that_are_there():
    tree = ast.parse((SHIM / "mxnet" / "__init__.pyi").read_text())
    names = [
        a.asname
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for a in node.names
        if a.asname
    ]
    assert len(names) > 20 and not [name for name in names if not hasattr(mxjax, name)]
