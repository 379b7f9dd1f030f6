"""Compiled programs, read back: operations, bytes and the order of work of their instructions."""

import jax
import jax.numpy as jnp
import numpy as onp
import pytest

from mxjax.hlo import module_of, parse_module


def _instructions(fn, *args):
    return parse_module(module_of(jax.jit(fn).lower(*args).compile()))


def test_operations_and_bytes_of_products():
    program = _instructions(jnp.matmul, jnp.ones((5, 7)), jnp.ones((7, 11)))
    (dot,) = [i for i in program.instructions.values() if i.opcode == "dot"]
    assert dot.flops == 2 * 5 * 7 * 11
    assert dot.traffic == 4 * (5 * 7 + 7 * 11 + 5 * 11)
    assert dot.shape == "f32[5,11]"


@pytest.mark.parametrize(
    ("stride", "pad", "dilation", "base"), [(1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 1), (1, 1, 1, 2)]
)
def test_operations_of_convolutions(stride, pad, dilation, base):
    """Counted one by one: each product of an element of the kernel with one of the image."""
    n, c, f, size, k = 2, 3, 4, 6, 3

    def conv(x, w):
        return jax.lax.conv_general_dilated(
            x, w, (stride,), [(pad, pad)], rhs_dilation=(dilation,), lhs_dilation=(base,)
        )

    program = _instructions(conv, jnp.ones((n, c, size)), jnp.ones((f, c, k)))
    (found,) = [i for i in program.instructions.values() if i.opcode == "convolution"]
    inside = onp.zeros(2 * pad + (size - 1) * base + 1, int)
    inside[pad : pad + (size - 1) * base + 1 : base] = 1
    out = (len(inside) - (k - 1) * dilation - 1) // stride + 1
    pairs = sum(inside[o * stride + i * dilation] for o in range(out) for i in range(k))
    assert found.flops == 2 * n * f * c * pairs


def test_bytes_of_parts():
    """A row that is taken out of a matrix, and one that is put in its place."""

    def put(x, k):
        row = jax.lax.dynamic_slice(x, (k, 0), (1, 512)) * 2 + 1
        return jax.lax.dynamic_update_slice(x, row, (k + 1, 0))

    compiled = jax.jit(put, donate_argnums=0).lower(jnp.ones((100, 512)), 3).compile()
    program = parse_module(module_of(compiled))
    touched = sum(i.traffic for i in program.entry.instructions)
    assert 2 * 4 * 512 <= touched <= 6 * 4 * 512


def test_bytes_of_what_is_asked_for():
    """A row of an element-wise result asks for a row of each matrix; a sum over it for all of one."""

    def row(x, y, k):
        return jax.lax.dynamic_slice(jnp.where(x > 0, x * 2, y), (k, 0), (1, 512))

    x = jnp.ones((100, 512))
    entry = _instructions(row, x, x, 3).entry
    touched = sum(i.traffic for i in entry.instructions)
    assert 3 * 4 * 512 <= touched <= 5 * 4 * 512
    counted = sum(i.counted_traffic for i in entry.instructions)
    assert counted >= 2 * 4 * 100 * 512
    entry = _instructions(lambda x: (x * 2).sum(0)[:3], x).entry
    assert sum(i.traffic for i in entry.instructions) >= x.nbytes


def test_turns_of_loops():
    program = _instructions(
        lambda x: jax.lax.fori_loop(0, 7, lambda k, y: y @ x, x), jnp.ones((8, 8))
    )
    assert {i.turns for i in program.instructions.values() if i.opcode == "while"} == {7}
    assert {i.turns for i in program.instructions.values() if i.opcode != "while"} == {1}


def test_a_backend_that_keeps_no_modules():
    class Compiled:
        def runtime_executable(self):
            raise jax.errors.JaxRuntimeError("UNIMPLEMENTED")

    assert module_of(Compiled()) == b""
