"""Shapes, dtypes and places of values."""

from __future__ import annotations

import numpy as np

import mxjax as mx
from mxjax import core


def test_a_dtype_is_the_machines_however_it_is_spelt():
    """h5py's dtypes say their order of bytes: equal to others, they became those of all arrays of a shape."""
    spelt = np.dtype("float64").newbyteorder("<")
    assert repr(spelt) == "dtype('<f8')" and spelt == np.dtype("float64")
    made = core.aval((3, 1, 4, 1, 5), spelt, core.default_device())
    assert repr(made.dtype) == "dtype('float64')"
    assert core.aval((3, 1, 4, 1, 5), np.dtype("float64"), core.default_device()) is made
    x = mx.np.array(np.ones((3, 1, 4, 1, 5), spelt), dtype=spelt)
    assert repr(x.dtype) in ("dtype('float64')", "<class 'numpy.float64'>")
