"""What programs cost."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import mxjax as mx
from mxjax import errors, memonger
from mxjax.hlo import counts, repeated

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
    assert (
        cost.accessed_bytes == program.argument_bytes + program.output_bytes
    )  # each is read or written once
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
    with pytest.raises(
        errors.MXNetTypeError, match=r"measure takes a function .*, got .* Write measure\(step, x\)"
    ):
        memonger.measure(fn)


def test_warmup_is_a_number_of_runs() -> None:
    runs: list[int] = []

    def step() -> None:
        runs.append(1)

    with pytest.raises(
        errors.MXNetValueError, match="warmup is a number of runs, 0 or more, got -1"
    ):
        memonger.measure(step, warmup=-1)
    for wrong in (1.5, "2", None, True):
        with pytest.raises(
            errors.MXNetTypeError, match=r"warmup is a number of runs \(an int\), got"
        ):
            memonger.measure(step, warmup=wrong)  # type: ignore[arg-type]
    assert not runs
    memonger.measure(step, warmup=0)
    assert len(runs) == 1


def test_blocks_of_what_is_no_network_are_refused() -> None:
    with pytest.raises(
        errors.MXNetTypeError, match=r"a HybridBlock .*, got 3 \(int\). Write blocks\(net, x\)"
    ):
        memonger.blocks(3, mx.np.ones((2, 2)))
    net = mx.gluon.nn.Dense(1, in_units=2)
    net.initialize()
    for inputs in ((), (5,)):
        with pytest.raises(errors.MXNetTypeError, match="a plan is made for a batch"):
            memonger.blocks(net, *inputs)


# ---- arithmetic that XLA counts once though a loop repeats it


def _compiled(fn: Any, *shapes: tuple[int, ...]) -> Any:
    return jax.jit(fn).lower(*[jax.ShapeDtypeStruct(s, "float32") for s in shapes]).compile()


@pytest.mark.parametrize("turns", [1, 2, 10])
def test_products(turns: int) -> None:
    found = _compiled(lambda x: lax.fori_loop(0, turns, lambda k, y: y @ x, x), (64, 64))
    assert counts(found)["flops"] + repeated(found)[0] == pytest.approx(2 * 64**3 * turns, rel=1e-3)


def test_loops_in_loops() -> None:
    def inner(y: Any, x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda k, y: y @ x, y)

    found = _compiled(lambda x: lax.fori_loop(0, 5, lambda k, y: inner(y, x), x), (64, 64))
    assert counts(found)["flops"] + repeated(found)[0] == pytest.approx(2 * 64**3 * 15, rel=1e-3)


@pytest.mark.parametrize(
    ("pads", "stride", "dilation", "base"),
    [
        ([(1, 2), (0, 1)], (1, 1), (1, 1), (1, 1)),
        ([(1, 1), (1, 1)], (2, 2), (2, 1), (1, 1)),
        ([(-1, 2), (2, 1)], (1, 1), (1, 1), (2, 2)),
    ],
    ids=["padded", "strided", "cut and spread"],
)
def test_convolutions(pads: Any, stride: Any, dilation: Any, base: Any) -> None:
    """As XLA counts one of them: what meets padding is nothing."""

    def convolution(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(
            x, w, stride, pads, base, dilation, dimension_numbers=("NHWC", "HWIO", "NHWC")
        )  # fmt: skip

    def loop(x: Any, w: Any) -> Any:
        out = convolution(x, w)
        return lax.fori_loop(
            0, 4, lambda k, out: out + convolution(lax.optimization_barrier((x, out))[0], w), out
        )

    shapes = (2, 9, 8, 5), (3, 3, 5, 7)
    once = counts(_compiled(convolution, *shapes))["flops"]
    found, _ = repeated(_compiled(loop, *shapes))
    assert found == pytest.approx(3 * once, rel=0.1) and found >= 3 * once


@pytest.mark.parametrize("turns", [2, 16])
def test_bytes_of_loops(turns: int) -> None:
    """Each turn reads its row of a matrix, not all of it, and writes its row."""

    def loop(x: Any) -> Any:
        return lax.scan(lambda sums, row: (sums + row, jnp.tanh(sums)), jnp.zeros(256), x)

    _, found = repeated(_compiled(loop, (turns, 256)))
    row = 4 * 256
    assert 4 * row * (turns - 1) <= found <= 12 * row * (turns - 1)


def test_without_loops_there_is_nothing() -> None:
    assert repeated(_compiled(lambda x: jnp.tanh(x @ x).sum(), (16, 16))) == (0, 0)


def test_bytes_that_a_fusion_does_not_read() -> None:
    """XLA counts all of an operand of which a part of an element-wise result is made."""

    def row(x: Any, y: Any) -> Any:
        return lax.dynamic_slice(jnp.where(x > 0, x * 2, y), (x.shape[0] // 2, 0), (1, 256))

    found, size = _compiled(row, (64, 256), (64, 256)), 4 * 256
    touched = counts(found)["bytes accessed"] + repeated(found)[1]
    assert 3 * size <= touched <= 6 * size < counts(found)["bytes accessed"]


def test_of_a_loop_without_end_in_sight_one_turn_counts() -> None:
    found = _compiled(lambda x: lax.while_loop(lambda y: y.sum() < 9, lambda y: y @ y, x), (8, 8))
    assert repeated(found) == (0, 0)
