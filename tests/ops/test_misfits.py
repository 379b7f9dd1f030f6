"""Arrays that do not fit an operator are told in words of shapes, not in those of Python's unpacking or of JAX."""

from __future__ import annotations

import re

import numpy as np
import pytest

import mxjax as mx
from mxjax.ops import TABLE
from tests.ops.test_table import GROUP, draw, live, run

INNER = re.compile(
    r"to unpack|list .*index out of range|by zero|dot_general|incompatible shapes|cannot reshape array"
    r"|\bjax\b|\bjnp\b|\bvmap\b|\bscan\b|[Tt]racer|window_dimensions|[Cc]oncatenate|permutation isn't"
)
WITH_ARRAYS = sorted(
    name
    for name, op in TABLE.items()
    if op.tests.samples and any(hasattr(a, "draw") for a in op.tests.samples[0].args)
)
GROUPS = [WITH_ARRAYS[k : k + GROUP] for k in range(0, len(WITH_ARRAYS), GROUP)]


def changed(args):
    """The arguments with one array more, or less, than it should be, by an axis or an element."""
    for k, a in enumerate(args):
        if isinstance(a, np.ndarray) and a.ndim and a.size:
            for other in (a[0], np.concatenate([a, a[..., :1]], -1)):
                yield [*args[:k], np.asarray(other), *args[k + 1 :]]


@pytest.mark.parametrize("names", GROUPS, ids=lambda names: names[0])
def test_nothing_is_told_in_words_of_the_inside(names):
    told = {}
    for name in names:
        op = TABLE[name]
        case = op.tests.samples[0]
        for args in changed(draw(op, case, 0)):
            try:
                run(op, live(op, args), case.attrs)
            except mx.MXNetError as error:
                reason = str(error).rpartition("): ")[2]
                if INNER.search(reason):
                    told[name] = reason
    assert not told


ones = mx.nd.ones
SAID = [
    (lambda: mx.nd.contrib.box_nms(ones(3)), r"fewer axes than box_nms takes\. It takes data: .*\(\.\.\., N, K\)"),
    (lambda: mx.nd.contrib.interleaved_matmul_selfatt_qk(ones((5, 2, 10)), heads=4),
     r"of the shape \(5, 2, 10\) do not fill.*It takes queries_keys_values: .*shape \(T, N, heads \* 3 \* d\)"),
    (lambda: mx.nd.linalg.gemm2(ones((2, 3)), ones((2, 3))), "along axes of one length, here are 3 and 2"),
    (lambda: mx.nd.linalg.potrf(ones((2, 3))), r"\(2, 3\), \(3, 2\) do not fit .*A: The square matrices"),
    (lambda: mx.nd.linalg.potrf(ones(3)), "a matrix, of two axes or more, is expected"),
    (lambda: mx.nd.ROIPooling(ones((2, 3)), ones((2, 5)), pooled_size=(2, 2), spatial_scale=1),
     r"fewer axes than .*data: The images, shape \(N, C, H, W\); rois: .*shape \(R, 5\)"),
    (lambda: mx.np.vstack([mx.np.ones((2, 4)), mx.np.ones((2, 2))]), r"lengths on the other axes.*\(2, 4\), \(2, 2\)"),
    (lambda: mx.nd.contrib.hawkesll(*[ones((2, 3)), ones(3), ones(3), ones((2, 3)), ones((2, 4)),
                                      mx.nd.zeros((2, 5), dtype="int32"), ones(2), ones(2)]),
     "of one length, here are 4, 5"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "words"), SAID, ids=range(len(SAID)))
def test_what_an_operator_takes_is_told(wrong, words):
    with pytest.raises(ValueError, match=words):
        wrong()


# MXNet refuses these parts of an axis of three elements, and gives the last ones.
@pytest.mark.parametrize(
    ("begin", "end"),
    [(0, 9), (-9, 2), (1, 1), (2, 1), (0, -9), (3, 3), (3, None), (-1, 0), (0, -3), (5, None), (0, 0)],
)  # fmt: skip
def test_a_part_of_an_axis_lies_in_it(begin, end):
    with pytest.raises(
        ValueError, match=f"begin={begin}, end={end}: a part of axis 0, of length 3"
    ):
        mx.nd.slice_axis(mx.nd.arange(3), axis=0, begin=begin, end=end)


@pytest.mark.parametrize(
    ("begin", "end", "part"), [(-1, None, [2]), (0, -1, [0, 1]), (-3, 3, [0, 1, 2])]
)
def test_parts_of_an_axis(begin, end, part):
    found = mx.nd.slice_axis(mx.nd.arange(3), axis=0, begin=begin, end=end)
    np.testing.assert_array_equal(found.asnumpy(), part)
