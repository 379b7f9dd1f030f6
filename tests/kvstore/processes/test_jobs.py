"""Stores of several processes, and what happens when one of them goes."""

from __future__ import annotations

import os
import re
import signal
import socket
from pathlib import Path

import pytest

import mxjax as mx

HERE = Path(__file__).parent
#: Nothing waits for it to pass, and it is no cause of failure on a busy machine.
PATIENT = ("--heartbeat", 120)


def test_everything_that_two_processes_do(jobs):
    status, output = jobs.run("-n", 2, *PATIENT, HERE / "everything.py", "--an", "argument")
    assert status == 0, output
    checks = re.findall(r"^    (\w+(?:, \w+)*),$", (HERE / "everything.py").read_text(), re.M)
    names = [name for line in checks for name in line.split(", ")]
    assert len(names) == 13
    for rank in (0, 1):
        done = re.findall(rf"^\[{rank}\] done (\w+)$", output, re.M)
        assert done == names, output


def test_programs_of_horovod(jobs):
    status, output = jobs.run("-n", 2, *PATIENT, HERE / "with_horovod.py")
    assert status == 0, output
    for rank in (0, 1):
        done = re.findall(rf"^\[{rank}\] done check_(\w+)$", output, re.M)
        assert done == ["arrays", "objects", "training", "module"], output


def test_a_killed_process_is_named_to_the_others(jobs):
    status, output = jobs.run("-n", 2, *PATIENT, HERE / "faults.py", "kill", 1)
    assert status == 128 + 9, output
    assert "[0] heard: rank 1 of 2 has ended" in output
    assert "mxjax.launch: rank 1 ended with status 137" in output


def test_a_process_of_no_job_is_told_how_to_start_one(monkeypatch):
    for name in ("DMLC_PS_ROOT_URI", "DMLC_ROLE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(mx.MXNetError, match=r"python -m mxjax\.launch -n 2 script\.py"):
        mx.kv.create("dist_sync")


def heard(output: str) -> dict[int, str]:
    """What each rank was told, by rank."""
    return {int(rank): text for rank, text in re.findall(r"^\[(\d+)\] heard: (.*)$", output, re.M)}


@pytest.mark.slow
@pytest.mark.parametrize("where", [0, 2])
@pytest.mark.parametrize(
    ("fault", "status", "told"),
    [
        ("kill", 137, "rank {} of 4 has ended"),
        ("raise", 1, "rank {} of 4 has failed: ValueError: no more data"),
        ("exit", 5, "rank {} of 4 has failed: sys.exit(5)"),
        ("leave", 1, "rank {} of 4 has ended its script while rank"),
    ],
)
def test_every_survivor_hears_who_is_missing(jobs, fault, where, status, told):
    got, output = jobs.run("-n", 4, *PATIENT, HERE / "faults.py", fault, where)
    assert got == status, output
    found = heard(output)
    assert sorted(found) == [rank for rank in range(4) if rank != where], output
    assert all(told.format(where) in text for text in found.values()), output


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["order", "shape"])
def test_ranks_that_do_different_things_all_hear_of_it(jobs, fault):
    got, output = jobs.run("-n", 3, *PATIENT, HERE / "faults.py", fault, 1)
    assert got == 7, output
    wrong = {
        "order": "push of key 'bias' (shape (1000,), float32)",
        "shape": "init of key 'more' (shape (3,), float32)",
    }[fault]
    found = heard(output)
    assert sorted(found) == ([0, 1, 2] if fault == "order" else [0, 2]), output
    for text in found.values():
        assert f"rank 1: {wrong}" in text, output
        assert "rank 0: push of key 'weight' (shape (1000,), float32)" in text, output


@pytest.mark.observes("timeout.heartbeat")
@pytest.mark.slow
@pytest.mark.parametrize("where", [0, 1])
def test_a_stopped_process_is_named_within_the_heartbeat(jobs, where):
    got, output = jobs.run("-n", 3, "--heartbeat", 8, HERE / "faults.py", "stop", where)
    assert got != 0, output
    found = heard(output)
    others = {rank for rank in range(3) if rank != where}
    assert others <= set(found), output
    for rank in others:
        assert f"rank {where} of 3" in found[rank] and "no sign of life" in found[rank], output


@pytest.mark.observes
@pytest.mark.slow
def test_a_rank_that_does_not_come_is_named_after_the_option_s_time(jobs):
    got, output = jobs.run(
        "-n", 2, "--heartbeat", 20, HERE / "faults.py", "late", 1, HCCL_EXEC_TIMEOUT="3"
    )
    assert got != 0, output
    assert "rank 1 of 2 did not come to a collective" in heard(output)[0], output


@pytest.mark.slow
@pytest.mark.parametrize("number", ["SIGKILL", "SIGSTOP"])
def test_a_launcher_that_goes_takes_the_processes_with_it(jobs, number):
    job = jobs.start("-n", 2, "--heartbeat", 6, HERE / "faults.py", "none", 0)
    while "summing" not in job.stdout.readline():
        pass
    # Each is the only one of its group, whose number nobody gets while one of it runs.
    workers = jobs.workers(job)
    assert len(workers) == 2
    os.kill(job.pid, getattr(signal, number))
    jobs.wait_until_gone(workers)


@pytest.mark.slow
def test_one_signal_ends_all(jobs):
    job = jobs.start("-n", 3, *PATIENT, HERE / "faults.py", "none", 0)
    while "summing" not in job.stdout.readline():
        pass
    workers = jobs.workers(job)
    job.send_signal(signal.SIGINT)
    job.communicate(timeout=120)
    assert job.returncode == 128 + signal.SIGINT
    jobs.wait_until_gone(workers)


@pytest.mark.slow
@pytest.mark.parametrize("on_kvstore", [0, 1])
def test_a_restarted_job_ends_as_an_undisturbed_one(jobs, tmp_path, on_kvstore):
    def end(folder, at, *options):
        status, output = jobs.run(
            "-n", 2, *PATIENT, *options, "--checkpoints", tmp_path / folder,
            HERE / "training.py", at, 1, on_kvstore, MXNET_KVSTORE_BIGARRAY_BOUND="4",
        )  # fmt: skip
        assert status == 0, output
        found = re.findall(r"^\[\d\] start (\d+) parameters (.*)$", output, re.M)
        assert len(found) == 2 and len({numbers for _, numbers in found}) == 1, output
        return found[0]

    start, undisturbed = end("one", -1)
    assert start == "0"
    start, restarted = end("two", 13, "--restarts", 1)
    assert start == "10" and restarted == undisturbed


@pytest.mark.slow
def test_mixed_sums_with_random_delays_are_exact(jobs):
    status, output = jobs.run("-n", 4, *PATIENT, HERE / "stress.py", 4000)
    assert status == 0, output
    assert len(re.findall(r"^\[\d\] exact 4000", output, re.M)) == 4


@pytest.mark.slow
@pytest.mark.observes("comm.shared_memory")
@pytest.mark.parametrize("share", [1, 0])
def test_sums_are_exact_in_shared_memory_and_without(jobs, share):
    status, output = jobs.run(
        "-n", 3, *PATIENT, HERE / "mixed.py", MXJAX_COMM_SHARED_MEMORY=str(share)
    )
    assert status == 0, output
    machines = re.findall(r"^\[\d\] exact, machines (.*)$", output, re.M)
    alone = [f"[{rank}] of [0, 1, 2]" for rank in range(3)]
    assert sorted(machines) == (["[0, 1, 2] of [0]"] * 3 if share else alone), output


@pytest.mark.slow
@pytest.mark.parametrize("share", [1, 0])
def test_three_processes_compress_as_mxnet_does(jobs, share):
    """Two processes: everything.py."""
    status, output = jobs.run(
        "-n", 3, *PATIENT, HERE / "compressed.py", "mxnet", MXJAX_COMM_SHARED_MEMORY=str(share)
    )
    assert status == 0, output
    assert len(re.findall(r"^\[\d\] as MXNet: 13$", output, re.M)) == 3, output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "part"), [("2bit", 16), ("1bit", 32), ("fp16", 2), ("bf16", 2), ("none", 1)]
)
def test_compressed_gradients_are_fewer_bytes(jobs, kind, part):
    status, output = jobs.run("-n", 2, *PATIENT, HERE / "compressed.py", "bytes", kind)
    assert status == 0, output
    for sent, of in re.findall(r"^\[\d\] sent (\d+) of (\d+), ", output, re.M):
        assert int(sent) * part == int(of)


@pytest.mark.slow
def test_ranks_that_compress_differently_all_hear_of_it(jobs):
    status, output = jobs.run("-n", 3, *PATIENT, HERE / "compressed.py", "differs")
    assert status == 7, output
    found = heard(output)
    assert sorted(found) == [0, 1, 2], output
    for text in found.values():
        assert "rank 1: set_gradient_compression" in text and "threshold=1.0" in text, output


@pytest.mark.slow
def test_variables_of_mxnet_s_own_launcher_are_understood(jobs):
    """Scheduler, server and workers run the same script, as tools/launch.py starts them."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    job = {
        "DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": str(port), "DMLC_NUM_WORKER": "2",
        "DMLC_NUM_SERVER": "1",
    }  # fmt: skip
    script = (
        "import mxjax as mx; kv = mx.kv.create('dist_sync'); kv.init('a', mx.np.zeros(2)); "
        "out = mx.np.zeros(2); kv.push('a', mx.np.full(2, kv.rank + 1.0)); kv.pull('a', out=out); "
        "print('sum', kv.num_workers, out.tolist())"
    )
    started = [
        jobs.start_python("-c", script, DMLC_ROLE=role, **job)
        for role in ("worker", "server", "scheduler", "worker")
    ]
    ends = [(p.communicate(timeout=300)[0], p.returncode) for p in started]
    assert [status for _, status in ends] == [0, 0, 0, 0], ends
    assert ["sum 2 [3.0, 3.0]" in output for output, _ in ends] == [True, False, False, True], ends


@pytest.mark.slow
def test_a_backend_that_runs_already_is_an_error_that_says_what_to_do(jobs):
    script = "import mxjax as mx; mx.np.ones(2).asnumpy(); mx.kv.create('dist_sync')"
    process = jobs.start_python("-c", script, DMLC_PS_ROOT_URI="127.0.0.1", DMLC_PS_ROOT_PORT="1")
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 1 and "before the first array" in output
