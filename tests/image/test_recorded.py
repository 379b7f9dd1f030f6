"""Every augmenter of images and boxes, against what MXNet made of the same images with the same random numbers."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax.files import codec
from tests.record import augmenters

FILE = np.load(Path(__file__).parents[1] / "data" / "augmenters.npz")
RECORDED = augmenters.unpacked(FILE)
#: Bytes that are averages of areas may round otherwise than OpenCV's.
ROUNDED = ("area", "drawn", "force chosen")


@pytest.fixture(scope="module")
def made():
    with warnings.catch_warnings(), mx.util.np_array(False):
        warnings.simplefilter("ignore")
        return augmenters.record(mx)


@pytest.mark.parametrize("case", sorted({name.split("|")[0] for name in RECORDED}))
def test_what_augmenters_make(made, case):
    found, said = made
    assert [json.dumps(each) for each in said[case]] == [
        json.dumps(e) for e in json.loads(str(FILE["said"]))[case]
    ]
    names = [name for name in RECORDED if name.split("|")[0] == case]
    assert sorted(names) == sorted(
        name for name in found if name.split("|")[0] == case
    )  # what is written into, too
    for name in names:
        wanted, here = RECORDED[name], found[name]
        assert here.dtype == wanted.dtype and here.shape == wanted.shape, name
        if wanted.dtype == np.uint8:
            off = codec.opencv() is None and case in ROUNDED
            assert np.abs(here.astype(int) - wanted).max() <= off, name
        else:
            size = np.abs(wanted.astype(np.float64)).max()
            eps = 1e-3 if wanted.dtype == np.float16 else 1e-15 if name.endswith("next") else 2e-6
            np.testing.assert_allclose(here, wanted, rtol=eps, atol=eps * size, err_msg=name)
