"""Whether there is a card: where there is none this is the only test of the folder."""

from __future__ import annotations

from typing import Any

import mxjax as mx


def test_there_is_a_card(real_card: Any) -> None:
    assert mx.num_gpus() >= 1
    free, total = mx.gpu_memory_info(0)
    assert 0 < free <= total and total > 1 << 30
    assert real_card == mx.gpu() and str(real_card) == "gpu(0)"
    assert mx.npx.num_gpus() == mx.num_gpus()
