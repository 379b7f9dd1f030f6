"""Whether sums agree: by the size of what is added, since that is what rounding goes by, never by that of the sum.

Two programs of one sum add in another order, or with fused products, on another processor. Of terms of size 6 that
cancel to -0.02 each may be off by 5e-6, which is a 4,000th of the sum, and both are right.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# What a few dozen additions, a division and a root lose, in units of the last digit of the terms.
UNITS = 32


def assert_sums_close(got: Any, want: Any, terms: float, units: float = UNITS) -> None:
    """Refuses numbers further apart than rounding of sums explains.

    got, want: arrays of one float dtype. terms: the size of the largest term that is added, of any of the sums.
    """
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype, (got.dtype, want.dtype)
    digit = float(np.finfo(got.dtype).eps)
    np.testing.assert_allclose(got, want, rtol=units * digit, atol=units * digit * terms)
