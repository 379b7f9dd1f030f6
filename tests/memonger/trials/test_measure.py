"""What programs cost."""

from __future__ import annotations

from typing import Any

import pytest

import mxjax as mx
from mxjax import errors, memonger

pytestmark = pytest.mark.programs


def test_a_matrix_product() -> None:
    x = mx.np.ones((32, 48))
    y = mx.np.ones((48, 16))
    cost = memonger.measure(lambda: mx.np.dot(x, y).wait_to_read())
    (program,) = cost.programs
    assert program.runs == 1
    assert program.argument_bytes == 4 * (32 * 48 + 48 * 16)
    assert program.output_bytes == 4 * 32 * 16
    assert cost.flops == 2 * 32 * 48 * 16
    assert cost.accessed_bytes == program.argument_bytes + program.output_bytes  # each is read or written once
    assert program.name in str(cost)


def test_runs_are_counted() -> None:
    x = mx.np.ones((8, 8))

    def three() -> None:
        for _ in range(3):
            mx.np.dot(x, x).wait_to_read()

    cost = memonger.measure(three)
    assert sum(p.runs for p in cost.programs) == 3
    assert cost.flops == 3 * 2 * 8**3
    assert cost.accessed_bytes == 3 * 2 * 4 * 8**2  # one operand, read twice, and the result


def test_numbers_as_operands_do_not_multiply_the_programs() -> None:
    x = mx.np.ones(4)

    def chain() -> None:
        y = x
        for _ in range(40):
            y = y * 1.5 + 0.5
        y.wait_to_read()

    assert len(memonger.measure(chain).programs) == 1


@pytest.mark.parametrize("fn", [5, None, "step"])
def test_what_is_no_function_is_refused(fn: Any) -> None:
    with pytest.raises(errors.MXNetTypeError, match=r"measure takes a function .*, got .* Write measure\(step, x\)"):
        memonger.measure(fn)


def test_warmup_is_a_number_of_runs() -> None:
    runs: list[int] = []

    def step() -> None:
        runs.append(1)

    with pytest.raises(errors.MXNetValueError, match="warmup is a number of runs, 0 or more, got -1"):
        memonger.measure(step, warmup=-1)
    for wrong in (1.5, "2", None, True):
        with pytest.raises(errors.MXNetTypeError, match=r"warmup is a number of runs \(an int\), got"):
            memonger.measure(step, warmup=wrong)  # type: ignore[arg-type]
    assert not runs
    memonger.measure(step, warmup=0)
    assert len(runs) == 1


def test_blocks_of_what_is_no_network_are_refused() -> None:
    with pytest.raises(errors.MXNetTypeError, match=r"a HybridBlock .*, got 3 \(int\). Write blocks\(net, x\)"):
        memonger.blocks(3, mx.np.ones((2, 2)))
    net = mx.gluon.nn.Dense(1, in_units=2)
    net.initialize()
    for inputs in ((), (5,)):
        with pytest.raises(errors.MXNetTypeError, match="a plan is made for a batch"):
            memonger.blocks(net, *inputs)
