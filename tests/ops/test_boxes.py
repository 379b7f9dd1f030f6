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


def test_anchors_that_overlap_an_object_alike_are_told_apart_by_mxnets_last_bits():
    # of MXNet 1.9.1 and 2.0.0b1: anchors 113 and 117 overlap the second object alike, but for rounding
    kinds = {"sizes": (0.2, 0.272), "ratios": (1, 2, 0.5)}
    anchors = mx.nd.concat(
        *[mx.nd.contrib.MultiBoxPrior(mx.nd.zeros((2, 3, n, n)), **kinds) for n in (8, 4)], dim=1
    )
    found = anchors.asnumpy()[0, [113, 117]]
    expected = [
        [0.4265, 0.3015, 0.69850004, 0.57350004],
        [0.55149996, 0.3015, 0.82350004, 0.57350004],
    ]
    np.testing.assert_array_equal(found, np.array(expected, "float32"))
    labels = mx.nd.array([[[0, 0.1, 0.1, 0.5, 0.5]], [[0, 0.4, 0.3, 0.9, 0.8]]])
    target = mx.nd.contrib.MultiBoxTarget(anchors, labels, mx.nd.zeros((2, 2, 320)))[2].asnumpy()
    assert [np.flatnonzero(row).tolist() for row in target] == [[73], [117]]


def test_a_region_without_an_image_is_zero():
    x = mx.nd.arange(9).reshape((1, 1, 3, 3))
    x.attach_grad()
    regions = mx.nd.array([[-1, 0, 0, 2, 2], [0, 0, 0, 1, 1]])
    with mx.autograd.record():
        got = mx.nd.ROIPooling(x, regions, pooled_size=(1, 1), spatial_scale=1.0)
    got.backward()
    assert got.asnumpy().ravel().tolist() == [0, 4]
    assert x.grad.asnumpy().ravel().tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0]


@pytest.mark.parametrize("height, width, want", [(1, 1, [0]), (1, 2, [0.5, 6.5]), (2, 1, [4, 52])])
def test_a_single_row_is_the_first_one(height, width, want):
    x = mx.nd.arange(12).reshape((1, 1, 3, 4)) ** 2
    got = mx.nd.contrib.BilinearResize2D(x, height=height, width=width, align_corners=False)
    np.testing.assert_allclose(got.asnumpy().ravel(), want, rtol=1e-6)


def test_channels_beyond_the_groups_are_not_looked_at():
    got = mx.nd.contrib.PSROIPooling(
        mx.nd.arange(36).reshape((1, 4, 3, 3)), mx.nd.array([[0, 0, 0, 2, 2]]),
        spatial_scale=1.0, output_dim=2, pooled_size=2, group_size=1,
    )  # fmt: skip
    assert got.asnumpy().ravel().tolist() == [2, 3, 5, 6, 11, 12, 14, 15]


def test_a_mask_has_a_number_for_each_row():
    with pytest.raises(mx.MXNetError, match="a number for each of the 4 rows"):
        mx.nd.contrib.boolean_mask(mx.nd.ones((4, 2)), mx.nd.array([1, 0]))


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
def test_regions_with_infinities_and_nan(number):
    """What MXNet 1.9.1 and 2.0.0b1 give."""
    x = mx.nd.arange(9).reshape((1, 1, 3, 3))
    x[0, 0, 1, 1] = number
    x.attach_grad()
    regions = mx.nd.array([[0, 0, 0, 2, 2], [0, 1, 1, 1, 1], [0, 2, 2, 1, 1], [0, 5, 5, 9, 9]])
    with mx.autograd.record():
        got = mx.nd.ROIPooling(x, regions, pooled_size=(1, 1), spatial_scale=1.0)
    got.backward()
    infinite = number == np.inf
    want = [number, number, 8, 0] if infinite else [8, np.finfo("float32").min, 8, 0]
    assert got.asnumpy().ravel().tolist() == want
    want = [0, 0, 0, 0, 2, 0, 0, 0, 1] if infinite else [0, 0, 0, 0, 0, 0, 0, 0, 2]
    assert x.grad.asnumpy().ravel().tolist() == want


def bilinear(mask, y, x):
    """A picture's value between its pixels; nothing more than a pixel outside."""
    h, w = mask.shape
    if not (-1 <= y <= h and -1 <= x <= w):
        return 0.0
    y, x = min(max(y, 0.0), h - 1.0), min(max(x, 0.0), w - 1.0)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, h - 1), min(left + 1, w - 1)
    upper = mask[top, left] * (1 - (x - left)) + mask[top, right] * (x - left)
    lower = mask[bottom, left] * (1 - (x - left)) + mask[bottom, right] * (x - left)
    return upper * (1 - (y - top)) + lower * (y - top)


@pytest.mark.parametrize(("ratio", "aligned"), [(2, False), (3, True), (0, False)])
def test_mrcnn_mask_target(ratio, aligned):
    rng = np.random.RandomState(3)
    masks = rng.rand(2, 3, 7, 9)
    rois = rng.rand(2, 2, 4) * 3 + [0, -2, 4, 3]
    matches, classes, size = np.array([[2, 0], [1, 1]]), np.array([[0, 3], [2, 1]]), (3, 2)
    sampled, own = mx.nd.contrib.mrcnn_mask_target(
        *[mx.nd.array(a) for a in (rois, masks, matches, classes)],
        num_rois=2, num_classes=4, mask_size=size, sample_ratio=ratio, aligned=aligned,
    )  # fmt: skip
    assert sampled.shape == own.shape == (2, 2, 4, *size)
    for b, n in np.ndindex(2, 2):
        x0, y0, x1, y1 = rois[b, n] - (0.5 if aligned else 0)
        cell = np.array([y1 - y0, x1 - x0])
        cell = (cell if aligned else np.maximum(cell, 1)) / size
        counts = [ratio] * 2 if ratio else np.ceil(cell).astype(int)
        for i, j in np.ndindex(size):
            values = [
                bilinear(
                    masks[b, matches[b, n]],
                    y0 + (i + (p + 0.5) / counts[0]) * cell[0],
                    x0 + (j + (q + 0.5) / counts[1]) * cell[1],
                )
                for p, q in np.ndindex(*counts)
            ]
            np.testing.assert_allclose(
                sampled.asnumpy()[b, n, :, i, j], [np.mean(values)] * 4, rtol=1e-5, atol=1e-6
            )
        np.testing.assert_array_equal(own.asnumpy()[b, n, :, 0, 0], np.eye(4)[classes[b, n]])


def test_mrcnn_mask_target_takes_as_many_regions_as_it_says():
    with pytest.raises(ValueError, match=r"num_rois=3.*\(1, 2, 4\)"):
        mx.nd.contrib.mrcnn_mask_target(
            mx.nd.zeros((1, 2, 4)), mx.nd.zeros((1, 1, 5, 5)), mx.nd.zeros((1, 2)), mx.nd.zeros((1, 2)),
            num_rois=3, num_classes=2, mask_size=(2, 2),
        )  # fmt: skip


@pytest.mark.parametrize("name", ["ROIAlign", "ROIPooling"])
def test_regions_without_the_number_of_an_image_are_refused(name):
    fn = getattr(mx.nd.contrib, name, None) or getattr(mx.nd, name)
    with pytest.raises(ValueError, match=r"expected \(R, 5\).*got \(2, 4\)"):
        fn(mx.nd.ones((1, 2, 8, 8)), mx.nd.ones((2, 4)), (2, 2), 1.0).asnumpy()
