"""Jobs that end with their test."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("kvstore_jobs", Path(__file__).with_name("jobs.py"))
assert _spec is not None and _spec.loader is not None
_jobs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_jobs)


@pytest.fixture
def jobs() -> Iterator[_jobs.Jobs]:
    made = _jobs.Jobs()
    yield made
    made.end()
