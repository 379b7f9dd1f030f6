"""Products of 8-bit integers, on whose exactness quantized layers rely."""

import jax
import numpy as np
import pytest

from mxjax.core import compiler
from mxjax.ops.lowering.product import of_bytes


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("n", [0, 1, 256, 700])
def test_whatever_they_add_up_to(platform: str, dtype: str, n: int) -> None:
    draw = np.random.RandomState(n)
    a, b = (
        draw.randint(0, 256, (2, 3, n)).astype(dtype),
        draw.randint(-128, 128, (5, n)).astype("int8"),
    )
    a[0, 0], b[0] = np.iinfo(dtype).max, 127
    with compiler.for_platform(platform):
        made = jax.jit(lambda a, b: of_bytes(a, b))(a, b)
    assert made.dtype == np.int32
    np.testing.assert_array_equal(made, a.astype("int64") @ b.T.astype("int64"))
