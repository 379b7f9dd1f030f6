"""What programs cost."""

from __future__ import annotations

import mxjax as mx
from mxjax import memonger


def test_a_matrix_product() -> None:
    x = mx.np.ones((32, 48))
    y = mx.np.ones((48, 16))
    cost = memonger.measure(lambda: mx.np.dot(x, y).wait_to_read())
    (program,) = cost.programs
    assert program.runs == 1
    assert program.argument_bytes == 4 * (32 * 48 + 48 * 16)
    assert program.output_bytes == 4 * 32 * 16
    assert cost.flops == 2 * 32 * 48 * 16
    assert program.name in str(cost)


def test_runs_are_counted() -> None:
    x = mx.np.ones((8, 8))

    def three() -> None:
        for _ in range(3):
            mx.np.dot(x, x).wait_to_read()

    cost = memonger.measure(three)
    assert sum(p.runs for p in cost.programs) == 3
    assert cost.flops == 3 * 2 * 8**3


def test_numbers_as_operands_do_not_multiply_the_programs() -> None:
    x = mx.np.ones(4)

    def chain() -> None:
        y = x
        for _ in range(40):
            y = y * 1.5 + 0.5
        y.wait_to_read()

    assert len(memonger.measure(chain).programs) == 1
