"""Boxes that overlap better ones are dropped as one after the other would do it."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from mxjax.ops.lowering import suppression


def one_after_the_other(boxes, threshold):
    """The places of the boxes that are kept, in float32 as they are computed there."""
    x0, y0, x1, y1 = boxes.T
    area = (x1 - x0 + 1) * (y1 - y0 + 1)
    alive, found = np.ones(len(boxes), bool), []
    for k in range(len(boxes)):
        if not alive[k]:
            continue
        found.append(k)
        width = np.minimum(x1[k], x1) - np.maximum(x0[k], x0) + 1
        height = np.minimum(y1[k], y1) - np.maximum(y0[k], y0) + 1
        both = np.maximum(width, 0) * np.maximum(height, 0)
        alive[k + 1 :] &= ~(both / (area[k] + area - both) > threshold)[k + 1 :]
    return found


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("n, count", [(1, 1), (100, 100), (128, 5), (129, 128), (700, 300)])
@pytest.mark.parametrize("threshold", [0.3, 0.7])
def test_the_first_ones_that_are_kept(images, n, count, threshold):
    r = np.random.RandomState(n + images)
    corner, size = r.rand(images, n, 2) * 100, r.rand(images, n, 2) * 60
    boxes = np.concatenate([corner, corner + size], -1).astype("float32")
    for fn in (suppression.kept, suppression._of_all):
        keep = np.asarray(jax.jit(lambda b, fn=fn: fn(b, threshold, count))(boxes))
        assert keep.shape == (images, n)
        for own, of in zip(keep, boxes, strict=True):
            want = one_after_the_other(of, threshold)[:count]
            assert np.flatnonzero(own)[:count].tolist() == want
