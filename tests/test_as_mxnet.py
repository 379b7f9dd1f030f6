"""`import mxnet` that finds mxjax: in this process, in those it starts, in a notebook."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mxjax import settings

ROOT = Path(__file__).parents[1]

CHILD = "import mxnet, mxjax; assert mxnet is mxjax; print(mxnet.__version__, mxnet.is_np_array())"
SCRIPT = f"""
import logging, subprocess, sys
import numpy
import mxnet as mx
import mxnet.gluon.nn as layers
import mxnet.numpy as np
from mxnet import autograd, gluon, nd
from mxnet.base import MXNetError
from mxnet.ndarray import NDArray
from mxnet.ndarray.random import uniform
import mxjax

class Rows(gluon.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return numpy.full((2,), i, "float32")

def kinds(**workers):
    return type(next(iter(gluon.data.DataLoader(Rows(), 2, **workers)))).__name__

if __name__ == "__main__":
    assert mx is mxjax and layers is mxjax.gluon.nn and sys.modules["mxnet.gluon.nn"] is layers
    logging.getLogger().setLevel(logging.DEBUG)  # as MXNet's programs do; JAX stays silent
    assert not logging.getLogger("jax._src").isEnabledFor(logging.INFO)
    assert np is mxjax.np and NDArray is mxjax.nd.NDArray and mx.gluon.nn.Dense is layers.Dense
    print(mx.__version__, *sys.argv[1:])
    subprocess.run([sys.executable, "-c", {CHILD!r}], check=True)
    print(kinds(), kinds(num_workers=1), type(gluon.utils.split_and_load(numpy.ones(2), [mx.cpu()])[0]).__name__)
    mx.npx.set_np()
    print(kinds(num_workers=1, thread_pool=True))
    try:
        import mxnet.nothing
    except ImportError as error:
        print(error)
"""


def run(*arguments, cwd=None):
    environment = settings.child_environment(PYTHONPATH=str(ROOT))
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True
    )


@pytest.mark.observes("compat.version")
def test_a_program_runs_as_it_is(tmp_path):
    (tmp_path / "program.py").write_text(SCRIPT)
    done = run("-m", "mxjax", "--as", "1.9", "program.py", "--epochs", "3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "1.9.1 --epochs 3", "1.9.1 False", "NDArray NDArray NDArray", "ndarray", "No module named 'mxnet.nothing'",
    ]  # fmt: skip


def test_a_module_and_what_it_ends_with(tmp_path):
    (tmp_path / "module.py").write_text(
        "import mxnet, sys; print(mxnet.__version__, sys.argv[1:]); sys.exit(3)"
    )
    done = run("-m", "mxjax", "-m", "module", "-x", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "2.0.0 ['-x']\n")


def test_the_import_says_when_it_is_too_late(tmp_path):
    (tmp_path / "mxnet.py").write_text("")
    done = run("-c", "import mxnet\nimport mxjax.as_mxnet", cwd=tmp_path)
    assert "mxnet has been imported already" in done.stderr
    done = run("-c", f"import mxjax.as_mxnet\n{CHILD}", cwd=tmp_path)
    assert done.stdout == "2.0.0 True\n", done.stderr


def test_a_notebook_extension():
    code = "import mxjax; mxjax.load_ipython_extension(None); import mxnet.gluon; print(mxnet is mxjax)"
    done = run("-c", code)
    assert done.stdout == "True\n", done.stderr


def test_module_paths_of_mxnet():
    import importlib

    import mxjax as mx

    for path, module in {
        "ndarray.numpy": mx.np, "np.multiarray": mx.np, "nd.ndarray": mx.nd, "init": mx.init, "viz": mx.viz,
        "symbol.np": mx.sym.np, "gluon.probability.normal": mx.gluon.probability, "nd.npx": mx.npx,
    }.items():  # fmt: skip
        assert importlib.import_module(f"mxjax.{path}") is module, path


def test_other_arguments_are_refused():
    from mxjax.__main__ import main

    assert main(["--as", "3", "x.py"]) == 2 and main([]) == 2 and main(["-h"]) == 0
