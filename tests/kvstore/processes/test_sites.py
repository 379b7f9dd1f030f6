"""Jobs that other launchers start, where they are installed: MPI, Slurm, Ray. Kubernetes: tests/launch."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
#: Open MPI starts nothing as root, and no more processes than cores, unless it is told to.
ALLOWED = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}  # fmt: skip


@pytest.fixture(params=["mpi", "slurm", "ray"])
def engine(request) -> str:
    if request.param == "mpi" and shutil.which("mpiexec") is None:
        pytest.skip("there is no mpiexec here")
    if request.param == "ray" and importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install 'mxjax[ray]'")
    if request.param == "slurm":
        if shutil.which("srun") is None:
            pytest.skip("there is no srun here")
        asked = subprocess.run(["sinfo", "--noheader"], capture_output=True, text=True, timeout=60)
        if asked.returncode or not asked.stdout.strip():
            pytest.skip(f"no Slurm controller answers: {asked.stderr.strip()}")
    return request.param


def run(jobs, engine, *arguments):
    return jobs.run("--engine", engine, "--heartbeat", 60, *arguments, **ALLOWED)


def test_a_job_of_three(jobs, engine):
    status, output = run(jobs, engine, "-n", 3, HERE / "mixed.py")
    assert status == 0, output
    assert len(re.findall(r"exact, machines \[0, 1, 2\] of \[0\]", output)) == 3, output


@pytest.mark.parametrize(
    "where", [0, 1]
)  # rank 0 keeps the job, but Ray's, which its launcher keeps
def test_a_killed_process_is_named(jobs, engine, where):
    status, output = run(jobs, engine, "-n", 3, HERE / "faults.py", "kill", where)
    assert status == 137, output
    told = (
        "rank 1 of 3 has ended"
        if where
        else "rank 0 of 3 has ended"
        if engine == "ray"
        else "in rank 0 is gone"
    )
    heard = len(
        re.findall(f"heard: [^\n]*?{told}", output)
    )  # lines of several ranks may run together
    # JAX's service ends with rank 0, and may end others before they can say so.
    assert heard == output.count("heard: "), output
    assert heard == 2 or (where == 0 and engine != "ray" and "JAX distributed service" in output), (
        output
    )


def test_a_restarted_job_goes_on(jobs, engine, tmp_path):
    status, output = run(
        jobs,
        engine,
        "-n",
        2,
        "--restarts",
        1,
        "--checkpoints",
        tmp_path,
        HERE / "training.py",
        13,
        1,
        0,
    )
    assert status == 0, output
    found = re.findall(r"start 10 parameters (\w+)", output)
    assert len(found) == 2 and len(set(found)) == 1, output
