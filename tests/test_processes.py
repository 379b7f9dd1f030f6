"""Processes of every kind that a program starts know `mxnet`, and what it stands for."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from pathlib import Path

import pytest

from mxjax import settings

HERE = Path(__file__).parent

PROGRAM = """
import ast, multiprocessing, subprocess, sys
import mxnet as mx
import processes_of_users as users
from mxnet import gluon

def main(kind):
    if kind == "loader":
        batches = [b.asnumpy()[:, 0].tolist() for b in gluon.data.DataLoader(users.Rows(), 2, num_workers=2)]
        return batches
    if kind == "modes":
        found = []
        for change in (mx.npx.set_np, mx.npx.reset_np):
            change()
            for threads in (False, True):
                loader = gluon.data.DataLoader(users.Modes(), 2, num_workers=1, thread_pool=threads)
                found.append([type(b).__name__ + str(b.asnumpy()[0].tolist()) for b in loader][0])
        return found
    if kind == "loky":
        import loky
        with loky.ProcessPoolExecutor(2) as pool:
            return list(pool.map(users.trained, [1, 2]))
    if kind == "joblib":
        import joblib
        return joblib.Parallel(2)(joblib.delayed(users.trained)(n) for n in (1, 2))
    if kind == "subprocess":
        code = "import processes_of_users as users; print(users.trained(1), users.trained(2), sep=', ')"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        return ast.literal_eval("[" + done.stdout + "]")
    if kind == "ray":
        import ray
        ray.init(num_cpus=2, include_dashboard=False)
        return ray.get([ray.remote(users.trained).remote(n) for n in (1, 2)])
    if kind == "fork after work":
        users.trained(3), users.drawn(1)
        pool = multiprocessing.get_context("fork").Pool(1)
        try:
            return [*pool.map_async(users.trained, [1, 2]).get(60), *pool.map_async(users.drawn, [1, 2]).get(60)]
        finally:
            pool.terminate()
    with multiprocessing.get_context(kind).Pool(2) as pool:
        return pool.map(users.trained, [1, 2])

if __name__ == "__main__":
    print(main(sys.argv[1]))
"""
TRAINED = [
    ("1.9.1", 72, 144),
    ("1.9.1", 288, 576),
]  # (2 * (1 + 2 + 3) ** 2, 2 * 2 * 6 * (1 + 2 + 3)), and twice that


def run(tmp_path, kind, version="1.9"):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "processes_of_users.py").write_text((HERE / "processes_of_users.py").read_text())
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "mxjax", "--as", version, "program.py", kind], cwd=tmp_path,
        env=settings.child_environment(PYTHONPATH=str(HERE.parent)), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


KINDS = [
    "spawn", "fork", "subprocess",
    pytest.param("forkserver", marks=pytest.mark.slow),
    pytest.param("loky", marks=pytest.mark.slow),
    pytest.param("joblib", marks=pytest.mark.slow),
    pytest.param("ray", marks=pytest.mark.slow),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_children_know_mxnet(tmp_path, kind):
    if kind in ("loky", "joblib", "ray"):
        pytest.importorskip(kind, reason=f"needs {kind}")
    elif kind != "subprocess" and kind not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {kind}")
    assert run(tmp_path, kind) == str(TRAINED)


def test_workers_of_loaders_import_the_users_modules(tmp_path):
    pytest.importorskip("loky", reason="worker processes need loky, of the extra 'data'")
    assert run(tmp_path, "loader") == "[[0.0, 1.0], [2.0, 3.0]]"


@pytest.mark.parametrize("version", ["1.9", pytest.param("2.0", marks=pytest.mark.slow)])
def test_workers_have_the_modes_of_the_thread_that_iterates(tmp_path, version):
    """As in 2.0.0b1, for worker processes and threads alike."""
    pytest.importorskip("loky", reason="worker processes need loky, of the extra 'data'")
    old = float(version == "1.9")
    on, off = f"ndarray[1.0, 1.0, {old}]", f"NDArray[0.0, 0.0, {old}]"
    assert run(tmp_path, "modes", version) == str([on, on, off, off])


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system has no fork"
)
def test_a_child_that_is_forked_after_work_computes_by_numpy(tmp_path):
    """XLA's threads are not in it: a program would wait for ever."""
    drawn = [(True, 21168), (True, 42336)]  # n * 14 * 14 * 4 sums of 27 ones
    assert run(tmp_path, "fork after work") == str([*TRAINED, *drawn])
