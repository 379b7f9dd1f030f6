"""The scripts in the folder `tools` of the package: MXNet's names and options."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import mxjax
from mxjax import recordio, settings
from mxjax.tools import launch, parse_log

TOOLS = Path(mxjax.__path__[0]) / "tools"
LOG = """\
INFO:root:Epoch[0] Batch [20]\tSpeed: 1000.00 samples/sec\tmse=0.500000
INFO:root:Epoch[0] Train-mse=0.700000
INFO:root:Epoch[0] Time cost=12.500
INFO:root:Epoch[0] Validation-mse=0.650000
INFO:root:Epoch[1] Train-mse=0.800000
INFO:root:Epoch[1] Time cost=11.500
INFO:root:Epoch[1] Validation-mse=0.750000
"""
#: What MXNet 1.9.1's script prints of it.
TABLE = """\
| epoch | train-mse | val-mse | time |
| --- | --- | --- | --- |
|  1 | 0.700000 | 0.650000 | 12.5 |
|  2 | 0.800000 | 0.750000 | 11.5 |
"""


def run(name, *arguments):
    environment = settings.child_environment(PYTHONPATH=str(Path(mxjax.__path__[0]).parent))
    command = [sys.executable, os.path.join(mxjax.__path__[0], "tools", name), *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_parse_log(tmp_path):
    (tmp_path / "log").write_text(LOG)
    done = run("parse_log.py", tmp_path / "log", "--metric-names", "mse")
    assert done.stdout == TABLE, done.stderr
    found = parse_log.epochs(LOG.splitlines())
    assert parse_log.table(found, ["mse"], False).splitlines()[1] == " 1\t0.700000\t0.650000\t12.5"


def test_rec2idx(tmp_path):
    """The index is that which `MXIndexedRecordIO` writes."""
    writer = recordio.MXIndexedRecordIO(str(tmp_path / "a.idx"), str(tmp_path / "a.rec"), "w")
    for k in range(5):
        writer.write_idx(k, b"x" * (3 * k + 1))
    writer.close()
    done = run("rec2idx.py", tmp_path / "a.rec", tmp_path / "b.idx")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "b.idx").read_text() == (tmp_path / "a.idx").read_text()
    assert (
        recordio.MXIndexedRecordIO(str(tmp_path / "b.idx"), str(tmp_path / "a.rec"), "r").read_idx(
            3
        )
        == b"x" * 10
    )


def test_im2rec_has_its_own_options(tmp_path):
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "a.jpg").write_bytes(b"")
    assert run("im2rec.py", "--list", tmp_path / "all", tmp_path / "pictures").returncode == 0
    assert (tmp_path / "all.lst").read_text().split() == ["0", "0.000000", "a.jpg"]


def test_diagnose_tells_of_this_machine():
    told = run("diagnose.py", "--network", "0", "--pip", "0").stdout
    assert sys.version.split()[0] in told and str(TOOLS.parent) in told and "-- pip --" not in told


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["-n", "2", "--launcher", "local", "python", "a.py", "-n", "9"],
         ["-n", "2", "--", "python", "a.py", "-n", "9"]),
        (["-n", "2", "-s", "1", "--env-worker", "A:b:c", "python", "a.py"],
         ["-n", "2", "-s", "1", "--env", "A=b:c", "--", "python", "a.py"]),
        (["--num-workers", "3", "--launcher", "mpi", "./a"], ["-n", "3", "--engine", "mpi", "--", "./a"]),
    ],
)  # fmt: skip
def test_launch_takes_mxnets_options(given, expected):
    assert launch.translated(given) == expected


@pytest.mark.parametrize(
    "given", [["-n2", "-H", "hosts", "a"], ["-n2", "--launcher", "yarn", "a"], ["-n2"]]
)
def test_launch_says_what_to_do_instead(given, capsys):
    with pytest.raises(SystemExit):
        launch.translated(given)
    assert "error:" in capsys.readouterr().err


def test_launch_starts_processes_that_know_mxnet():
    code = "import mxnet, os; print(mxnet.__version__, os.environ['A'])"
    done = run(
        "launch.py",
        "-n",
        "1",
        "--launcher",
        "local",
        "--env-worker",
        "A:5",
        sys.executable,
        "-c",
        code,
    )
    assert done.stdout == "[0] 2.0.0 5\n", done.stderr
