"""Learning-rate schedules against the rates that MXNet 2.0 returned."""

import json
from pathlib import Path

import pytest

from mxjax import lr_scheduler
from mxjax.errors import MXNetError

ROWS = json.loads((Path(__file__).parent / "data" / "lr_schedulers.json").read_text())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_rates_equal_mxnet(row):
    schedule = getattr(lr_scheduler, row["name"])(**row["kwargs"])
    rates = [schedule(n) for n in row["points"]]
    assert rates == pytest.approx(row["rates"], rel=1e-14, abs=0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: lr_scheduler.FactorScheduler(0),
        lambda: lr_scheduler.FactorScheduler(1, factor=2.0),
        lambda: lr_scheduler.MultiFactorScheduler([3, 3]),
        lambda: lr_scheduler.MultiFactorScheduler([0, 3]),
        lambda: lr_scheduler.PolyScheduler(0),
        lambda: lr_scheduler.CosineScheduler(10, base_lr=0.1, warmup_begin_lr=0.2),
        lambda: lr_scheduler.CosineScheduler(10, warmup_mode="slow"),
        lambda: lr_scheduler.CosineScheduler(10, warmup_steps=-1),
    ],
)
def test_bad_arguments_are_refused(make):
    with pytest.raises(ValueError) as caught:
        make()
    assert isinstance(caught.value, MXNetError)


def test_base_class_asks_for_a_schedule():
    with pytest.raises(NotImplementedError, match="__call__"):
        lr_scheduler.LRScheduler()(1)
