"""The check reads programs and says of each name what becomes of it; nothing of theirs runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mxjax import settings
from mxjax.port import check, report, tables
from mxjax.port.__main__ import main
from mxjax.port.older_names import BY_NAME, TABLE

ROOT = Path(__file__).parents[2]


def verdicts(tmp_path, text, name="program.py"):
    (tmp_path / name).write_text(text)
    return {found.name: found for found in check(tmp_path / name)}


HEAD = "import mxnet as mx\nimport numpy as np\nfrom mxnet import gluon, nd as F, sym\nfrom mxnet.gluon import nn\n"


@pytest.mark.parametrize(
    ("line", "name", "verdict", "says"),
    [
        ("F.Convolution(x, w, num_filter=3)", "mx.nd.Convolution", "works", ""),
        (
            "F.Convolution(x, kernal=3)",
            "mx.nd.Convolution(kernal=)",
            "missing",
            "did you mean 'kernel'",
        ),
        (
            "sym.FullyConnected(data=x, num_hidden=3, name='a')",
            "mx.sym.FullyConnected",
            "works",
            "",
        ),
        ("nn.Dense(3, unitz=2)", "mx.gluon.nn.Dense(unitz=)", "missing", "did you mean 'units'"),
        ("nn.Dense(3, prefix='a_')", "mx.gluon.nn.Dense", "works", ""),
        ("mx.rtc.CudaModule('')", "mx.rtc.CudaModule", "missing", "pallas"),
        ("F.no_such_operator(x)", "mx.nd.no_such_operator", "missing", "has no attribute"),
        ("gluon.nn.HybridLambda(f)", "mx.gluon.nn.HybridLambda", "differs", "f(F, x)"),
        ("gluon.Constant('a', x)", "mx.gluon.Constant", "differs", "(name, value)"),
        ("mx.init.Constant(3)", "mx.init.Constant", "works", ""),
        ("gluon.Trainer(p, 'rmsprop')", "optimizer 'rmsprop'", "differs", "clip_gradient"),
        ("x = np.int(3)", "numpy.int", "missing", "int, or np.int64"),
        ("x = np.zeros(3).astype(np.float_)", "numpy.float_", "missing", "np.float64"),
        ("np.array([[1], [1, 2]])", "numpy.array", "missing", "dtype=object"),
        ("np.fromstring(b'ab', dtype='uint8')", "numpy.fromstring", "missing", "frombuffer"),
        ("np.linalg.nothing(3)", "numpy.linalg.nothing", "missing", "has no such name"),
        (
            "import collections; collections.Iterable",
            "collections.Iterable",
            "missing",
            "collections.abc.Iterable",
        ),
        ("import imp", "imp", "missing", "importlib"),
        ("from inspect import getargspec", "inspect.getargspec", "missing", "getfullargspec"),
        (
            "from IPython.core.display import HTML",
            "IPython.core.display.HTML",
            "missing",
            "IPython.display.HTML",
        ),
        (
            "import os; os.environ['MXNET_ENGINE_TYPE'] = 'a'",
            "MXNET_ENGINE_TYPE",
            "works",
            "engine.type",
        ),
        ("import os; os.getenv('MXNET_NOBODY')", "MXNET_NOBODY", "differs", "nothing reads"),
        (
            "class A:\n    def hybrid_forward(self, G, x):\n        G.nope(x)",
            "mx.nd.nope",
            "missing",
            "no attribute",
        ),
        ("def f():\n    act = gluon.nn\n    act.Dense(2)", "mx.gluon.nn.Dense", "works", ""),
    ],
)
def test_what_becomes_of_a_name(tmp_path, line, name, verdict, says):
    found = verdicts(tmp_path, HEAD + line)
    assert name in found, sorted(found)
    assert found[name].verdict == verdict and says in found[name].note


def test_what_works_is_not_called_missing():
    """Programs of MXNet's time that are known to run here."""
    found = check(ROOT / "benchmarks" / "jobs", ROOT / "tests" / "programs", ROOT / "notebooks")
    assert len(found) > 1000
    assert not [f for f in found if f.verdict == "missing"]


def test_names_that_mean_several_things_are_not_followed(tmp_path):
    file = tmp_path / "old.py"
    file.write_text(
        "from mxnet import npx\nimport numpy as np\n"
        "def one():\n    op = npx.batch_norm\n"
        "def other(op):\n    op(size=3)\n"
        "sole = npx.softmax\nsole(size=3)[:, np.newaxis]\n"
    )
    found = [(f.name, f.verdict) for f in check(file) if f.verdict == "missing"]
    assert found == [("mx.npx.softmax(size=)", "missing")]


def test_places_in_the_documents_are_right():
    for row in [*tables.exclusions().values(), *tables.differences().values()]:
        path, _, line = row.place.partition(":")
        written = (ROOT / path).read_text().splitlines()[int(line) - 1]
        assert all(cell in written for cell in row.cells)
    assert len(tables.exclusions()) > 20 and len(tables.differences()) > 20


def test_notebooks(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": "import nothing"},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "import mxnet as mx\n", "!ls\n"]},
        {"cell_type": "code", "source": "mx.rtc.CudaModule('')\nmx.nd.exp?"},
    ]
    (tmp_path / "book.ipynb").write_text(json.dumps({"cells": cells}))
    found = check(tmp_path)
    assert [(f.name, f.cell, f.verdict) for f in found] == [
        ("mx", 1, "works"),
        ("mx.rtc.CudaModule", 2, "missing"),
    ]


def test_code_of_python_2(tmp_path):
    (found,) = verdicts(tmp_path, "print 'a'").values()
    assert found.verdict == "missing" and "2to3" in found.note


def test_the_command(tmp_path, capsys):
    good, bad, page = tmp_path / "good.py", tmp_path / "bad.py", tmp_path / "page.html"
    good.write_text("import mxnet as mx\nmx.nd.exp(1)\n")
    bad.write_text("import mxnet as mx\nmx.rtc.CudaModule('<b>')\n")
    assert main(["check", str(good)]) == 0
    assert "0 missing, 0 differ, 2 work" in capsys.readouterr().out
    assert main(["check", str(bad), "--html", str(page)]) == 1
    told = capsys.readouterr().out
    assert f"{bad}:2: missing: mx.rtc.CudaModule" in told and "[docs/exclusions.md:" in told
    assert "<code>mx.rtc.CudaModule</code>" in page.read_text()
    assert main(["--as", "1.9", "check", "--json", str(tmp_path)]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["counts"] == {"missing": 1, "differs": 0, "works": 3}
    assert main(["check", str(tmp_path / "nowhere")]) == 2 and main([]) == 2
    settings.reset("compat.version")


def test_nothing_runs(tmp_path):
    verdicts(tmp_path, "import mxnet as mx\nopen('ran', 'w')\nraise SystemExit\n")
    assert not Path("ran").exists() and not (tmp_path / "ran").exists()


def run(tmp_path, *command):
    return subprocess.run(
        [sys.executable, *command], cwd=tmp_path, env=settings.child_environment(PYTHONPATH=str(ROOT)),
        capture_output=True, text=True,
    )  # fmt: skip


def test_run_explains_the_first_fault(tmp_path):
    (tmp_path / "part.py").write_text(
        "import numpy as np\ndef f():\n    return np.zeros(2, np.int)\n"
    )
    (tmp_path / "program.py").write_text("import mxnet, part\nprint(mxnet.__version__)\npart.f()\n")
    done = run(tmp_path, "-m", "mxjax.port", "--as", "1.9", "run", "program.py")
    assert (done.returncode, done.stdout) == (1, "1.9.1\n")
    assert (
        "part.py:3:" in done.stderr
        and "numpy.int (missing): gone since NumPy 1.24: int" in done.stderr
    )
    assert run(tmp_path, "-m", "mxjax.port", "run", "--compat", "program.py").returncode == 0


COMPAT = """
import asyncio, collections, imp, inspect, pickle, time
import numpy as np
import mxnet as mx
from collections import Mapping
assert np.int is int and np.bool is not None and np.float(3) == 3 and np.NaN != np.NaN and np.product([2, 3]) == 6
assert np.array([1, 2]).astype(np.float_).dtype == np.float64
assert np.array([[1], [1, 2]]).dtype == object and np.array([[1, 2], [3, 4]]).shape == (2, 2)
assert np.fromstring(b"\\1\\2", dtype=np.uint8).tolist() == [1, 2] and np.fromstring("1 2", sep=" ").tolist() == [1, 2]
assert isinstance({}, collections.Mapping) and Mapping is collections.Mapping and time.clock() > 0
assert inspect.getargspec(lambda a, b=1: 0).args == ["a", "b"]
assert mx.nd.array(np.array([1, 2]), dtype=np.float).asnumpy().sum() == 3
imp.reload(collections), asyncio.coroutine
loss = mx.nd.array([[1, 2], [3, 6]]).mean().asnumpy()
assert (loss.shape, repr(loss)) == ((1,), "array([3.], dtype=float32)") and isinstance(loss, np.ndarray)
assert float(loss) == int(loss) == 3 and "%.1f %d" % (loss, loss * 2) == "3.0 6"
assert float(mx.nd.zeros((1, 1)).asnumpy() + 2) == 2
assert type(loss.sum()) is type(loss[0]) is np.float32 and type(np.sqrt(loss).max()) is np.float32
assert type(pickle.loads(pickle.dumps(loss))) is np.ndarray and mx.nd.array(loss).asscalar() == 3
assert mx.nd.sparse.zeros("csr", (1, 1)).asnumpy().__float__() == 0
try:
    float(mx.nd.ones(2).asnumpy())
except TypeError as error:
    assert "only size-1 arrays" in str(error)
try:
    np.array([[1], [1, 2]], dtype="float32")
except ValueError:
    print("done")
"""


def test_compat_gives_names_back(tmp_path):
    (tmp_path / "program.py").write_text(COMPAT)
    done = run(tmp_path, "-m", "mxjax", "--compat", "--as=1.9", "program.py")
    assert done.stdout == "done\n", done.stderr
    assert (
        "Iterable" in run(tmp_path, "-c", "import mxjax; from collections import Iterable").stderr
    )  # unless asked


def test_run_says_what_numpy_asks_of_an_array_of_one_element(tmp_path):
    (tmp_path / "program.py").write_text(
        "import mxnet as mx\nprint(float(mx.nd.ones((1, 1)).asnumpy()))\n"
    )
    done = run(tmp_path, "-m", "mxjax.port", "run", "program.py")
    assert done.returncode == 1 and "x.item()" in done.stderr and "--compat" in done.stderr
    for how in (["run", "--compat"], ["--as", "1.9", "run"]):
        done = run(tmp_path, "-m", "mxjax.port", *how, "program.py")
        assert (done.returncode, done.stdout) == (0, "1.0\n")


def test_what_is_given_back_is_gone():
    """The table has each name once, and what it gives can be made where its package is there."""
    assert len(BY_NAME) == len(TABLE)
    for row in TABLE:
        if row.give is not None:
            try:
                made = row.give()
            except ImportError:
                continue
            assert made is not None, row


def test_the_summary_counts():
    assert report.summary([]) == "0 uses of 0 names in 0 files: 0 missing, 0 differ, 0 work"
