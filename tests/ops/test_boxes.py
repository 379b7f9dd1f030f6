"""Boxes: what the recorded operators of tests/record/operators_contrib.py leave out."""

import numpy as np
import pytest

import mxjax as mx

ROWS = [
    [0, 0.9, 0.1, 0.1, 0.5, 0.5], [1, 0.8, 0.12, 0.1, 0.5, 0.52], [0, 0.7, 0.1, 0.12, 0.5, 0.5],
    [0, 0.05, 0.6, 0.6, 0.9, 0.9], [-1, 0.3, 0, 0, 1, 1],
]  # fmt: skip


@pytest.mark.parametrize(
    "given, made, first, second",  # of MXNet 1.9.1
    [("corner", "center", [0.3, 0.3, 0.4, 0.4], [0.31, 0.31, 0.38, 0.42]),
     ("center", "corner", [-0.15, -0.15, 0.35, 0.35], [-0.13, -0.16, 0.37, 0.36])],
)  # fmt: skip
def test_box_nms_turns_the_boxes_of_the_best_rows(given, made, first, second):
    found = mx.nd.contrib.box_nms(
        mx.nd.array([ROWS]),
        overlap_thresh=0.5,
        valid_thresh=0.1,
        topk=3,
        id_index=0,
        in_format=given,
        out_format=made,
    )
    expected = np.full((1, 5, 6), -1.0)
    expected[0, 0], expected[0, 1] = [0, 0.9, *first], [1, 0.8, *second]
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-5, atol=1e-6)


def test_box_nms_of_no_boxes_leaves_them():
    """Recorded of MXNet 2.0.0b1 and 1.9.1, with the gradient."""
    x = mx.nd.array(ROWS)
    x.attach_grad()
    with mx.autograd.record():
        found = mx.nd.contrib.box_nms(x, topk=0, valid_thresh=0.5)
    found.backward(mx.nd.ones((5, 6)) * 2)
    np.testing.assert_array_equal(found.asnumpy(), x.asnumpy())
    np.testing.assert_array_equal(x.grad.asnumpy(), 2)
