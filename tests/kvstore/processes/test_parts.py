"""The optimizer in the store, shared out between processes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax.optimizer import get_updater

HERE = Path(__file__).parent
PATIENT = ("--heartbeat", 120)


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "share"), [(2, 1), (4, 1), (3, 0)])
def test_everything_that_is_shared_out(jobs, workers, share, tmp_path):
    status, output = jobs.run(
        "-n", workers, *PATIENT, HERE / "parts.py", tmp_path, MXJAX_COMM_SHARED_MEMORY=str(share)
    )
    assert status == 0, output
    text = (HERE / "parts.py").read_text()
    names = re.findall(
        r"\w+", text[text.index("CHECKS = (") + 9 : text.index(")  # fmt: skip\n\n\nif")]
    )
    assert len(names) == 11
    for rank in range(workers):
        assert re.findall(rf"^\[{rank}\] done (\w+)$", output, re.M) == names, output


@pytest.mark.slow
def test_it_is_the_same_as_programs_of_the_devices(jobs, tmp_path):
    """What processes with accelerators do, on CPUs: sums, parts and wholes by XLA's collectives."""
    script = (
        "import runpy, sys; from mxjax.kvstore._processes import Processes as P\n"
        "P._through_host = P._on_devices\n"
        f"runpy.run_path({str(HERE / 'parts.py')!r}, run_name='__main__')\n"
    )
    (tmp_path / "forced.py").write_text(script)
    status, output = jobs.run(
        "-n", 2, *PATIENT, tmp_path / "forced.py", tmp_path, MXJAX_COMM_SHARED_MEMORY="0"
    )
    assert status == 0, output
    assert output.count("done a_rank_that_cannot_update_is_named_to_all") == 2, output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        ("optimizer", ["rank 0: set_optimizer with Adam", '"lr": 0.1', "rank 1: set_optimizer", '"lr": 0.5']),
        ("rate", ["rank 0: update in parts of key 'weight' (shape (1000,), float32) with lr=0.1,",
                  "rank 1: update in parts of key 'weight' (shape (1000,), float32) with lr=0.025,"]),
        ("bound", ["rank 0: update in parts of key 'weight'", "rank 1: update of key 'weight'"]),
        ("alone", ["rank 0: update in parts", "rank 1: save_optimizer_states, which all ranks have to call"]),
    ],
)  # fmt: skip
def test_ranks_that_do_not_agree_all_hear_of_it(jobs, mistake, told, tmp_path):
    status, output = jobs.run("-n", 2, *PATIENT, HERE / "disagree.py", mistake, tmp_path)
    assert status == 7, output
    found = dict(re.findall(r"^\[(\d)\] heard: (.*)$", output, re.M))
    assert sorted(found) == ["0", "1"], output
    for text in found.values():
        assert all(part in text for part in told), text
    assert not (tmp_path / "states").exists()


@pytest.mark.slow
def test_a_killed_process_is_named_to_those_that_wait_for_its_part(jobs, tmp_path):
    status, output = jobs.run("-n", 3, *PATIENT, HERE / "disagree.py", "kill", tmp_path)
    assert status == 128 + 9, output
    found = dict(re.findall(r"^\[(\d)\] heard: (.*)$", output, re.M))
    assert sorted(found) == ["0", "1"], output
    assert all("rank 2 of 3 has ended" in text for text in found.values()), output


@pytest.mark.slow
def test_training_goes_on_with_another_number_of_processes(jobs, tmp_path):
    """4, then 2, then 1, then 3 processes end where one that was never stopped does."""
    (tmp_path / "alone").mkdir()
    (tmp_path / "together").mkdir()

    def steps(where, workers, start, stop):
        status, output = jobs.run(
            "-n", workers, *PATIENT, HERE / "going_on.py", tmp_path / where, start, stop
        )
        assert status == 0, output
        found = re.findall(r"parameters (.*)$", output, re.M)
        assert len(found) == workers and len(set(found)) == 1, output
        rates = {tuple(r) for r in re.findall(r"rate (\S+) bytes (\d+)$", output, re.M)}
        assert len(rates) == 1, output
        ((rate, size),) = rates
        arrays = [np.frombuffer(bytes.fromhex(part), "float32") for part in found[0].split()]
        return arrays, float(rate), int(size)

    expected, rate, whole = steps("alone", 1, 0, 8)
    for workers, start, stop in ((4, 0, 3), (2, 3, 5), (1, 5, 6), (3, 6, 8)):
        found, now, size = steps("together", workers, start, stop)
        cut, small = 2 * 4 * (16 * 8 + 5 * 16), 2 * 4 * (16 + 5)
        assert whole == cut + small
        assert cut / workers + small <= size <= cut / workers + small + 2 * 2 * 4
    assert now == rate
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
    assert {p.name for p in (tmp_path / "together").iterdir()} == {
        "net",
        "trainer",
    }  # nothing half-written
    alone = get_updater(mx.optimizer.Adam())
    alone.set_states((tmp_path / "together" / "trainer").read_bytes())
    shapes = sorted(tuple(s.shape for s in state) for state in alone.states.values())
    assert shapes == sorted((s, s) for s in ((16, 8), (16,), (5, 16), (5,)))
