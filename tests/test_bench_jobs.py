"""The table of everyday jobs: what counts as a miss, and that every job stands in it."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import jobs


def _run(cpu: float, pause: float = 0.1, **found: float) -> dict[str, Any]:
    return {
        "cpu": cpu, "pause": pause, "where": "step 3", "steps": 4, "programs": 1, "compiling": 0.2, "found": found
    }  # fmt: skip


JOB = jobs.Job("some", "1.9", 2.0)


@pytest.mark.parametrize(
    ("found", "missed"),
    [
        ({"first": _run(2.9), "second": _run(2.9)}, []),
        ({"first": _run(3.1), "second": _run(2.9)}, ["first run"]),
        ({"first": _run(8.0), "second": _run(3.9)}, ["first run", "second run"]),
        ({"mxnet": _run(4.0), "first": _run(5.9), "second": _run(5.9)}, []),
        ({"first": _run(2.9, 2.1), "second": _run(2.9)}, ["pause (step 3)"]),
        ({"mxnet": _run(2.0, loss=0.1), "first": _run(2.9, loss=0.14), "second": _run(2.9)}, []),
        (
            {"mxnet": _run(2.0, loss=0.1), "first": _run(2.9, loss=0.2), "second": _run(2.9)},
            ["loss 0.2, in MXNet 0.1"],
        ),
        (
            {
                "mxnet": _run(2.0, loss=0.1),
                "first": _run(2.9, loss=float("nan")),
                "second": _run(2.9),
            },
            ["loss nan, in MXNet 0.1"],
        ),
        ({"first": _run(2.9), "second": {"failed": "an error"}}, ["second run failed: an error"]),
    ],
)
def test_what_a_job_misses(found: dict[str, Any], missed: list[str]) -> None:
    assert jobs.verdicts(JOB, found) == missed
    line = jobs.row(JOB, found)
    assert line.endswith(f"| {'miss: ' + '; '.join(missed) if missed else 'ok'} |")
    assert line.count("|") == jobs.HEAD.splitlines()[0].count("|")


def test_every_job_stands_in_the_table() -> None:
    scripts = {path.stem for path in (jobs.HERE / "jobs").glob("*.py")} - {"pace"}
    assert {job.name for job in jobs.JOBS} == scripts


def test_an_unknown_job(capsys: pytest.CaptureFixture[str]) -> None:
    assert jobs.main(["vea"]) == 2
    assert "there is no job 'vea'; there are: transforms, finetune" in capsys.readouterr().err
