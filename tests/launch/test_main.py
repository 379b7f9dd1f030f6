"""The command line, and processes of this machine: their output, their end."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from mxjax.launch import __main__ as command
from mxjax.launch import group, sites


def launched(capfd, *arguments):
    """Status, output and errors; the processes need no JAX."""
    status = command.main(list(map(str, arguments)))
    out, err = capfd.readouterr()
    return status, out, err


def program(text):
    return ("--", sys.executable, "-S", "-c", text)


def test_output_is_passed_on_line_by_line_with_the_rank(capfd):
    text = (
        "import os, sys; e = os.environ; print('of', e['DMLC_NUM_WORKER'], e['GIVEN'], sys.stdin.read()); "
        "print('wrong', file=sys.stderr); print('no end', end='')"
    )
    status, out, err = launched(capfd, "-n", 2, "--env", "GIVEN=a=b", *program(text))
    assert status == 0
    assert sorted(out.splitlines()) == [
        "[0] no end", "[0] of 2 a=b ", "[1] no end", "[1] of 2 a=b ",
    ]  # fmt: skip
    assert sorted(err.splitlines()) == ["[0] wrong", "[1] wrong"]


def test_the_status_is_that_of_the_rank_that_failed(capfd):
    text = "import os, time; time.sleep(600 * (os.environ['DMLC_WORKER_ID'] != '1')); os._exit(3)"
    status, _, err = launched(capfd, "-n", 2, "--heartbeat", 0.3, *program(text))
    assert status == 3 and "rank 1 ended with status 3" in err


def test_what_follows_the_module_is_its_own():
    args = command.parser().parse_args(["-n", "2", "-m", "train", "-n", "3", "--restarts"])
    assert (args.workers, args.module) == (2, ["train", "-n", "3", "--restarts"])
    args = command.parser().parse_args(["-n", "2", "train.py", "-n", "3", "-m"])
    assert (args.workers, args.command) == (2, ["train.py", "-n", "3", "-m"])


def test_all_start_again_as_often_as_allowed(capfd):
    text = "import os; n = os.environ['DMLC_NUM_ATTEMPT']; print('attempt', n); os._exit(n != '2')"
    status, out, _ = launched(capfd, "-n", 1, "--restarts", 3, "--no-prefix", *program(text))
    assert status == 0 and out.splitlines() == ["attempt 0", "attempt 1", "attempt 2"]
    status, out, err = launched(capfd, "-n", 1, "--restarts", 1, "--no-prefix", *program(text))
    assert status == 1 and out.splitlines() == ["attempt 0", "attempt 1"]
    assert "starting all again from the last checkpoint (1 of 1)" in err


def test_each_process_knows_the_job_and_the_token_is_new_each_time(capfd):
    text = (
        "import os; e = os.environ; print(e['DMLC_ROLE'], e['DMLC_WORKER_ID'], e['DMLC_PS_ROOT_URI'], "
        "e['DMLC_PS_ROOT_PORT'], e['DMLC_JOB_TOKEN'], e['DMLC_CHECKPOINTS'], e['MXJAX_TIMEOUT_HEARTBEAT'])"
    )
    seen = []
    for _ in range(2):
        status, out, _ = launched(
            capfd,
            "-n",
            1,
            "--no-prefix",
            "--checkpoints",
            "/some/where",
            "--heartbeat",
            7,
            *program(text),
        )
        role, rank, host, port, token, points, heartbeat = out.split()
        assert (status, role, rank, host) == (0, "worker", "0", "127.0.0.1")
        assert int(port) > 0 and len(token) == 32
        assert (points, float(heartbeat)) == ("/some/where", 7.0)
        seen.append(token)
    assert seen[0] != seen[1]


def test_each_process_knows_the_servers_and_a_folder_that_goes_with_the_job(capfd):
    text = "import os; e = os.environ; print(e['DMLC_NUM_SERVER'], e['DMLC_SCRATCH'], os.path.isdir(e['DMLC_SCRATCH']))"
    status, out, _ = launched(capfd, "-n", 1, "-s", 3, "--no-prefix", *program(text))
    servers, folder, there = out.split()
    assert (status, servers, there) == (0, "3", "True")
    assert not Path(folder).exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "which script"),
        (["-n", "2", "nowhere.py"], "there is no script 'nowhere.py'"),
        (["-n", "2", "--"], "needs a command"),
        (["-n", "2", "-m"], "-m needs a module"),
        (["-n", "0", "--", "true"], "-n 0: expected a number of processes, at least 1"),
        (["-n", "2", "--restarts", "-1", "--", "true"], "--restarts -1: expected how often"),
        (["-n", "2", "--port", "99999", "--", "true"], "--port 99999: expected a port, 0 to 65535"),
        (["-n", "2", "--host", "203.0.113.7", "--", "true"], "'203.0.113.7'"),
        (["-n", "2", "--of", "3", "--first", "2", "--", "true"], "not part of a job of 3"),
        (["-n", "2", "--of", "4", "--", "true"], "same DMLC_JOB_TOKEN"),
        (["-n", "2", "--env", "x", "--", "true"], "expected NAME=VALUE"),
        (["-n", "2", "-s", "-1", "--", "true"], "-s -1: expected a number of servers"),
        (["-n", "2", "--heartbeat", "0", "--", "true"], "a number of seconds > 0"),
        (["-n", "2", "--engine", "slurm", "--join", "a:1", "x.py"], "for --engine local"),
        (["--engine", "mpi", "x.py"], "-n is needed with --engine mpi"),
        (["-n", "3", "--engine", "k8s", "x.py"], "leave -n out"),
        (["--restarts", "2", "--engine", "k8s", "x.py"], "Let Kubernetes do it"),
    ],
)
def test_mistakes_are_told_before_anything_starts(capfd, monkeypatch, arguments, message):
    monkeypatch.delenv("DMLC_JOB_TOKEN", raising=False)
    status, out, err = launched(capfd, *arguments)
    assert status == 2 and message in err and not out


def test_the_command_lines_for_sites(monkeypatch, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("")
    programs = {"srun": "/s/srun", "mpiexec": "/m/mpiexec"}
    monkeypatch.setattr(sites.shutil, "which", programs.get)
    worker = [sys.executable, "-u", "-m", "mxjax.launch.worker", "--site"]
    assert sites.slurm(4, [str(script), "-x"]) == [
        "/s/srun", "--kill-on-bad-exit=1", "--label", "--ntasks=4", *worker, "slurm", str(script), "-x",
    ]  # fmt: skip
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(ValueError, match="outside an allocation"):
        sites.slurm(None, [str(script)])
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert sites.slurm(None, [str(script)])[3:] == [*worker, "slurm", str(script)]

    class Version:
        stdout = ""

    monkeypatch.setattr(sites.subprocess, "run", lambda *a, **k: Version)
    monkeypatch.setattr(sites.importlib.util, "find_spec", lambda name: None)
    for Version.stdout in ("mpiexec (OpenRTE) 4.1.4", "mpiexec (Open MPI) 5.0.3"):
        assert sites.mpi(2, [str(script)], {"A": "1"}) == [
            "/m/mpiexec", "-n", "2", "-x", "A", *worker, "ompi", str(script),
        ]  # fmt: skip
    with pytest.raises(ValueError, match="script or `-m module`"):
        sites.slurm(2, ["--", "true"])
    programs.clear()
    with pytest.raises(RuntimeError, match="no program 'srun'"):
        sites.slurm(2, [str(script)])


@pytest.mark.parametrize(("engine", "package"), [("ray", "ray"), ("k8s", "kubernetes")])
def test_a_package_that_is_not_there_is_named_with_its_extra(
    capfd, monkeypatch, tmp_path, engine, package
):
    script = tmp_path / "train.py"
    script.write_text("")
    monkeypatch.setitem(sys.modules, package, None)
    number = ["-n", "1"] if engine == "ray" else []
    status, _, err = launched(capfd, *number, "--engine", engine, script)
    assert status == 2 and f"pip install 'mxjax[{engine}]'" in err


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("DMLC_ROLE", "worke", "expected worker, scheduler or server"),
        ("DMLC_NUM_WORKER", "x", "DMLC_NUM_WORKER='x': expected a number"),
        ("DMLC_PS_ROOT_PORT", "", "DMLC_PS_ROOT_PORT='': expected a number"),
    ],
)
def test_variables_of_old_launchers_that_cannot_be_are_named(monkeypatch, name, value, message):
    given = {
        "DMLC_ROLE": "scheduler", "DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": "9", "DMLC_NUM_WORKER": "1",
    }  # fmt: skip
    for variable, text in {**given, name: value}.items():
        monkeypatch.setenv(variable, text)
    with pytest.raises(ValueError, match=message):
        group.join()


@pytest.mark.parametrize("role", ["scheduler", "worker"])
def test_old_launchers_of_several_machines_have_to_set_a_token(monkeypatch, role):
    given = {
        "DMLC_ROLE": role, "DMLC_PS_ROOT_URI": "192.0.2.1", "DMLC_PS_ROOT_PORT": "9", "DMLC_NUM_WORKER": "1",
    }  # fmt: skip
    for variable, text in given.items():
        monkeypatch.setenv(variable, text)
    monkeypatch.delenv("DMLC_JOB_TOKEN", raising=False)
    monkeypatch.setattr(group.settings, "backend_is_up", lambda: False)
    for listening in ("Coordinator", "Keeper"):
        monkeypatch.setattr(group, listening, lambda *args, **kwargs: pytest.fail("listened"))
    with pytest.raises(ValueError, match=r"192\.0\.2\.1 has no token.*set DMLC_JOB_TOKEN"):
        group.join()


def test_a_port_in_use_is_named(capfd):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        status, out, err = launched(capfd, "-n", 1, "--port", port, *program("print('ran')"))
    assert status == 2 and str(port) in err and "in use" in err and not out
