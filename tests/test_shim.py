"""mxjax-as-mxnet, the distribution by which `import mxnet` finds mxjax; `make wheel` builds and installs it."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

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


def test_it_refuses_beside_a_real_mxnet(tmp_path):
    info = tmp_path / "mxnet_cu112-1.9.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mxnet-cu112\nVersion: 1.9.1\n")
    (info / "top_level.txt").write_text("mxnet\n")
    done = run("import mxnet", tmp_path)
    assert (
        "pip uninstall mxjax-as-mxnet mxnet-cu112" in done.stderr and "ImportError" in done.stderr
    )


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
