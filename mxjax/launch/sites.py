"""Launchers that a site has: Slurm, MPI, Kubernetes, Ray.

They start `mxjax.launch.worker --site NAME script.py` in every process.  There JAX finds out by itself
who it is (`jax.distributed`'s detection), and rank 0 keeps the job.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import subprocess
from collections.abc import Sequence

from .. import settings
from ..errors import MXNetError, MXNetValueError, optional_import
from . import local

__all__ = ["run"]


def run(args: argparse.Namespace, environment: dict[str, str]) -> int:
    """Start a job with the engine that the launcher's arguments name; its exit status.

    Raises:
      MXNetError: what the engine needs is not there.
      MXNetValueError: the arguments do not fit it.
    """
    if args.join or args.of or args.first:
        raise MXNetValueError(
            "--join, --of and --first are for --engine local: sites know their machines"
        )
    if args.engine == "k8s" and args.restarts:
        raise MXNetValueError(
            "--restarts with --engine k8s: a pod cannot start the others again. Let Kubernetes do it: restartPolicy "
            "and backoffLimit of the Job, or failurePolicy of the JobSet"
        )
    if args.engine == "ray":
        from . import ray

        return ray.run(args, environment)
    if args.engine == "slurm":
        return local.site(slurm(args.workers, args.command), environment, args.restarts)
    if args.engine == "mpi":
        return local.site(mpi(args.workers, args.command, environment), environment, args.restarts)
    return local.site(kubernetes(args.workers, args.command), environment, args.restarts)


def _worker(site: str, command: Sequence[str]) -> list[str]:
    from .__main__ import command_of

    if command[:1] == ["--"]:
        raise MXNetValueError("an engine other than local runs a script or `-m module`")
    return command_of(command, ("--site", site))


def _program(name: str, hint: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise MXNetError(f"there is no program {name!r} on this machine: {hint}")
    return found


def slurm(workers: int | None, command: Sequence[str]) -> list[str]:
    """The command line that starts a job step with one process per task.

    Without `workers`, as many as the allocation (`sbatch`, `salloc`) has tasks.
    """
    line = [_program("srun", "run this where Slurm is"), "--kill-on-bad-exit=1", "--label"]
    if workers is not None:
        line.append(f"--ntasks={workers}")
    elif settings.env("SLURM_JOB_ID") is None:
        raise MXNetValueError("-n is needed outside an allocation of Slurm's")
    return [*line, *_worker("slurm", command)]


def mpi(workers: int | None, command: Sequence[str], environment: dict[str, str]) -> list[str]:
    """The command line that starts a process per rank, under MPICH, Intel MPI or Open MPI."""
    if workers is None:
        raise MXNetValueError("-n is needed with --engine mpi")
    program = _program("mpiexec", "install MPI, or put it into PATH")
    version = subprocess.run(
        [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True
    ).stdout
    line = [program, "-n", str(workers)]
    if "Open MPI" in version or "OpenRTE" in version:  # 5, and those before
        for name in environment:
            line += ["-x", name]
        if importlib.util.find_spec("mpi4py") is None:
            return [*line, *_worker("ompi", command)]
    optional_import("mpi4py", "mpi")
    return [*line, *_worker("mpi", command)]


def kubernetes(workers: int | None, command: Sequence[str]) -> list[str]:
    """The command line of this pod's own process: an indexed Job or a JobSet starts the pods."""
    if workers not in (None, 1):
        raise MXNetValueError(
            "--engine k8s runs in each pod of an indexed Job or a JobSet and starts one process there: "
            "the number of pods is the Job's (completions and parallelism), so leave -n out"
        )
    optional_import("kubernetes", "k8s")
    return _worker("k8s", command)
