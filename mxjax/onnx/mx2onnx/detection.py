"""Boxes and regions in ONNX's words. Suppression is ONNX's own operator, on ranks, so that ties fall as in MXNet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .shape import steps
from .writer import Name, Step, Writer, writes

_F32 = np.dtype(np.float32)


def _columns(w: Writer, x: Name, which: Sequence[int]) -> list[Name]:
    """Numbers along the last axis, each without that."""
    return [w.op("Gather", x, w.constant(k, np.int64), axis=-1) for k in which]


def _joined(w: Writer, parts: Sequence[Name]) -> Name:
    """Arrays side by side along a new last axis."""
    return w.op("Concat", *[w.op("Unsqueeze", x, w.ints(-1)) for x in parts], axis=-1)


def _rows(w: Writer, x: Name, order: Name) -> Name:
    """(B, N, ...) in the order (B, M) of its rows."""
    return w.op("GatherND", x, w.op("Unsqueeze", order, w.ints(-1)), batch_dims=1)


def _by_rank(w: Writer, x: Name, count: Name) -> Name:
    """The places of the largest numbers (B, N) first, of equals the first one first."""
    return w.ops("TopK", [x, count], 2, axis=1, largest=1, sorted=1)[1]


def _first(w: Writer, holds: Name, count: Name) -> Name:
    """The places where a mask (B, N) holds, then the others, each in order."""
    return _by_rank(w, w.cast(holds, bool, _F32), count)


def kept(
    w: Writer,
    boxes: Name,
    valid: Name,
    count: Name,
    limit: float,
    classes: Name | None,
    center: bool,
) -> Name:
    """Which of the boxes (B, N, 4), best first, no better one of their class overlaps by more than the limit."""
    places = w.counting(count)
    rank = w.cast(w.op("Sub", count, places), np.int64, _F32)
    zero = w.constant(0, _F32)
    scores = w.unsqueeze(w.op("Where", valid, rank, zero), 1)
    if classes is not None:
        low = w.op("ReduceMin", classes, keepdims=0)
        high = w.op(
            "Add", w.op("Sub", w.op("ReduceMax", classes, keepdims=0), low), w.constant(1, np.int64)
        )
        numbers = w.op("Range", w.constant(0, np.int64), high, w.constant(1, np.int64))
        mine = w.op("Equal", w.unsqueeze(w.op("Sub", classes, low), 1), w.unsqueeze(numbers, 1))
        scores = w.op("Where", mine, scores, zero)
    found = w.op(
        "NonMaxSuppression", boxes, scores, count, w.constant([limit], _F32), w.constant([0], _F32),
        center_point_box=int(center),
    )  # fmt: skip
    at = w.op("Gather", found, w.ints([0, 2]), axis=1)
    number = w.op("Slice", w.op("Shape", found), w.ints(0), w.ints(1))
    ones = w.op("Expand", w.constant(1, np.int32), number)
    nothing = w.op("Mul", w.cast(valid, bool, np.int32), w.constant(0, np.int32))
    return w.cast(w.op("ScatterND", nothing, at, ones), np.int32, bool)


def _turned(w: Writer, boxes: Name, form: str, dtype: Any) -> Name:
    """Corners of centers, or the other way round."""
    a, b, c, d = _columns(w, boxes, range(4))
    half = w.constant(0.5, dtype)
    if form == "center":
        dx, dy = w.op("Mul", c, half), w.op("Mul", d, half)
        return _joined(
            w, [w.op("Sub", a, dx), w.op("Sub", b, dy), w.op("Add", a, dx), w.op("Add", b, dy)]
        )
    return _joined(w, [
        w.op("Mul", w.op("Add", a, c), half), w.op("Mul", w.op("Add", b, d), half), w.op("Sub", c, a), w.op("Sub", d, b)
    ])  # fmt: skip


@writes
def box_nms(w: Writer, s: Step) -> Name:
    p, dtype, n = s.params, s.dtype(), s.ndim()
    x = s[0]
    count = w.length(s.node.inputs[0], n - 2)
    if n == 2:
        x = w.unsqueeze(x, 0)
    elif n > 3:
        x = w.reshape(x, [-1, s.shape()[-2] or 0, s.shape()[-1] or 0])
    score = _columns(w, x, [p["score_index"]])[0]
    valid = w.op("Greater", score, w.constant(p["valid_thresh"], dtype))
    if p["id_index"] >= 0:
        ids = _columns(w, x, [p["id_index"]])[0]
        valid = w.op(
            "And", valid, w.op("Not", w.op("Equal", ids, w.constant(p["background_id"], dtype)))
        )
    lowest = w.constant(-np.inf, _F32)
    order = _by_rank(w, w.op("Where", valid, w.cast(score, dtype, _F32), lowest), count)
    x, valid = _rows(w, x, order), _rows(w, valid, order)
    if p["topk"] > 0:
        places = w.counting(count)
        valid = w.op("And", valid, w.op("Less", places, w.constant(p["topk"], np.int64)))
    start = p["coord_start"]
    boxes = w.slice(x, 2, start, start + 4)
    classes = None
    if p["id_index"] >= 0 and not p["force_suppress"]:
        classes = w.cast(_columns(w, x, [p["id_index"]])[0], dtype, np.int64)
    keep = kept(
        w,
        w.cast(boxes, dtype, _F32),
        valid,
        count,
        float(p["overlap_thresh"]),
        classes,
        p["in_format"] == "center",
    )
    if p["in_format"] != p["out_format"]:
        made = _turned(w, boxes, p["in_format"], dtype)
        width = s.shape()[-1] or 0
        parts = [w.slice(x, 2, 0, start)] if start else []
        parts.append(made)
        if start + 4 < width:
            parts.append(w.slice(x, 2, start + 4, width))
        x = w.op("Concat", *parts, axis=2)
    x = w.op("Where", w.unsqueeze(keep, 2), x, w.constant(-1, dtype))
    x = _rows(w, x, _first(w, keep, count))
    if n == 3:
        return x
    return w.squeeze(x, 0) if n == 2 else w.op("Reshape", x, w.op("Shape", s[0]))


@writes
def box_iou(w: Writer, s: Step) -> Name:
    dtype, n, m = s.dtype(), s.ndim(0), s.ndim(1)
    corners = []
    for k in (0, 1):
        boxes = w.cast(s[k], s.in_dtype(k), dtype)
        corners.append(
            _columns(
                w,
                _turned(w, boxes, "center", dtype) if s.params["format"] == "center" else boxes,
                range(4),
            )
        )
    corners[0] = [w.unsqueeze(c, *range(n - 1, n + m - 2)) for c in corners[0]]
    (l1, t1, r1, b1), (l2, t2, r2, b2) = corners
    zero = w.constant(0, dtype)

    def extent(high: Name, low: Name) -> Name:
        return w.op("Max", w.op("Sub", high, low), zero)

    both = w.op(
        "Mul",
        extent(w.op("Min", r1, r2), w.op("Max", l1, l2)),
        extent(w.op("Min", b1, b2), w.op("Max", t1, t2)),
    )
    areas = [w.op("Mul", extent(r, left), extent(b, t)) for left, t, r, b in corners]
    union = w.op("Sub", w.op("Add", *areas), both)
    some = w.op("Greater", union, zero)
    return w.op(
        "Where", some, w.op("Div", both, w.op("Where", some, union, w.constant(1, dtype))), zero
    )


def _centers(w: Writer, boxes: Name, form: str, dtype: Any) -> list[Name]:
    return _columns(w, boxes if form == "center" else _turned(w, boxes, "corner", dtype), range(4))


@writes
def box_decode(w: Writer, s: Step) -> Name:
    p, dtype = s.params, s.dtype()
    x, y, width, height = _centers(w, w.cast(s[1], s.in_dtype(1), dtype), p["format"], dtype)
    d = _columns(w, w.cast(s[0], s.in_dtype(0), dtype), range(4))
    d = [w.op("Mul", v, w.constant(p[f"std{k}"], dtype)) for k, v in enumerate(d)]
    if p["clip"] > 0:
        d[2:] = [w.op("Min", v, w.constant(p["clip"], dtype)) for v in d[2:]]
    return _decoded(w, d, (x, y, width, height), dtype)


def _decoded(w: Writer, d: Sequence[Name], anchor: Sequence[Name], dtype: Any) -> Name:
    x, y, width, height = anchor
    cx = w.op("Add", w.op("Mul", d[0], width), x)
    cy = w.op("Add", w.op("Mul", d[1], height), y)
    half = w.constant(0.5, dtype)
    dx = w.op("Mul", w.op("Mul", w.op("Exp", d[2]), width), half)
    dy = w.op("Mul", w.op("Mul", w.op("Exp", d[3]), height), half)
    return _joined(
        w, [w.op("Sub", cx, dx), w.op("Sub", cy, dy), w.op("Add", cx, dx), w.op("Add", cy, dy)]
    )


@writes
def multibox_prior(w: Writer, s: Step) -> Name:
    """The anchors follow from the feature map's size alone."""
    h, width = s.shape()[2:]
    if h is None or width is None:
        raise s.refused("the feature map's size changes, and with it the anchors")
    return w.constant(np.asarray(s.op.fn(np.zeros((1, 1, h, width), s.dtype()), **s.params)))


@writes
def multibox_detection(w: Writer, s: Step) -> Name:
    p, dtype = s.params, s.dtype()
    n = s.shape(2)[1]
    count = w.length(s.node.inputs[2], 1)
    anchor = _centers(w, s[2], "corner", dtype)
    offsets = w.reshape(s[1], [0, -1 if n is None else n, 4])
    d = [
        w.op("Mul", v, w.constant(k, dtype))
        for v, k in zip(_columns(w, offsets, range(4)), p["variances"], strict=True)
    ]
    corners = _decoded(w, d, anchor, dtype)
    if p["clip"]:
        corners = w.op("Clip", corners, w.constant(0, dtype), w.constant(1, dtype))
    scores = w.slice(s[0], 1, 1, np.iinfo(np.int64).max)
    kind = w.op("ArgMax", scores, axis=1, keepdims=0)
    score = w.reduce("ReduceMax", scores, [1], keepdims=False)
    valid = w.op("GreaterOrEqual", score, w.constant(p["threshold"], dtype))
    suppresses = 0 < p["nms_threshold"] <= 1
    places = w.counting(count)
    if not suppresses:
        order = _first(w, valid, count)
        valid = _rows(w, valid, order)
    else:
        ranked = w.op("Where", valid, w.cast(score, dtype, _F32), w.constant(-np.inf, _F32))
        order = _by_rank(w, ranked, count)
        if p["nms_topk"] > 0:  # what is beyond stays in the order of the anchors, as in MXNet
            among = w.op("Less", places, w.constant(p["nms_topk"], np.int64))
            order = w.op("Where", among, order, _first(w, valid, count))
            number = w.reduce("ReduceSum", w.cast(valid, bool, np.int64), [1])
            valid = w.op("Less", places, number)
        else:
            valid = _rows(w, valid, order)
    kind, score, corners = (_rows(w, x, order) for x in (kind, score, corners))
    keep = valid
    if suppresses:
        alive = w.op("And", valid, among) if p["nms_topk"] > 0 else valid
        limit = float(np.nextafter(np.float32(p["nms_threshold"]), np.float32(0)))
        classes = None if p["force_suppress"] else kind
        keep = kept(w, w.cast(corners, dtype, _F32), alive, count, limit, classes, False)
    named = w.cast(w.op("Where", keep, kind, w.constant(-1, np.int64)), np.int64, dtype)
    made = w.op("Concat", w.unsqueeze(named, 2), w.unsqueeze(score, 2), corners, axis=2)
    return w.op("Where", w.unsqueeze(valid, 2), made, w.constant(-1, dtype))


# ---- regions of interest -------------------------------------------------------------------------


def _size(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))


@writes
def roi_align(w: Writer, s: Step) -> Name:
    p, dtype = s.params, s.dtype()
    if p["position_sensitive"]:
        raise s.refused("position_sensitive=True")
    if p["aligned"] and w.opset < 16:
        raise s.refused("aligned=True needs opset 16: export_model(..., opset_version=16)")
    height, width = _size(p["pooled_size"])
    rois = w.cast(s[1], s.in_dtype(1), dtype)
    number = w.cast(_columns(w, rois, [0])[0], dtype, np.int64)
    mode = ("half_pixel" if p["aligned"] else "output_half_pixel") if w.opset >= 16 else None
    made = w.op(
        "RoiAlign", s[0], w.slice(rois, 1, 1, 5), w.op("Max", number, w.constant(0, np.int64)), mode="avg",
        output_height=height, output_width=width, sampling_ratio=max(p["sample_ratio"], 0),
        spatial_scale=float(p["spatial_scale"]), coordinate_transformation_mode=mode,
    )  # fmt: skip
    none = w.reshape(w.op("Less", number, w.constant(0, np.int64)), [-1, 1, 1, 1])
    return w.op("Where", none, w.constant(0, dtype), made)


@writes
def roi_pooling(w: Writer, s: Step) -> Name:
    return w.op(
        "MaxRoiPool", s[0], s[1], pooled_shape=list(_size(s.params["pooled_size"])),
        spatial_scale=float(s.params["spatial_scale"]),
    )  # fmt: skip


@writes
def proposal(w: Writer, s: Step) -> Any:
    """Regions of a region proposal network; the network's own overlaps count pixels, so corners end one later."""
    from mxjax.ops.detection import _rpn_anchors

    p, dtype = s.params, s.dtype()
    _, _, h, width = s.shape()
    if h is None or width is None:
        raise s.refused("the feature map's size changes, and with it the anchors")
    stride = p["feature_stride"]
    base = _rpn_anchors(stride, p["scales"], p["ratios"])
    a, total = len(base), len(base) * h * width
    y, x = np.meshgrid(np.arange(h) * stride, np.arange(width) * stride, indexing="ij")
    anchors = (
        (base[None, None] + np.stack([x, y, x, y], -1)[:, :, None]).reshape(1, -1, 4).astype(dtype)
    )
    # (B, A, 4, H, W) as (B, H * W * A, 4); the foreground's scores likewise.
    turned = w.transpose(w.reshape(s[1], [0, a, 4, h * width]), [0, 3, 1, 2])
    d = _columns(w, w.reshape(turned, [0, total, 4]), range(4))
    scores = w.transpose(w.reshape(w.slice(s[0], 1, a, 2 * a), [0, a, h * width]), [0, 2, 1])
    scores = w.reshape(scores, [0, total])
    ax1, ay1, ax2, ay2 = (anchors[..., k] for k in range(4))
    if p["iou_loss"]:
        corners = [
            w.op("Add", v, w.constant(c, dtype))
            for v, c in zip(d, (ax1, ay1, ax2, ay2), strict=True)
        ]
    else:
        aw, ah = ax2 - ax1 + 1, ay2 - ay1 + 1
        half = w.constant(0.5, dtype)
        sides = []
        for at, size, off, grow in ((ax1, aw, d[0], d[2]), (ay1, ah, d[1], d[3])):
            centre = w.op(
                "Add",
                w.op("Mul", off, w.constant(size, dtype)),
                w.constant(at + 0.5 * (size - 1), dtype),
            )
            long = w.op("Mul", w.op("Exp", grow), w.constant(size, dtype))
            reach = w.op("Mul", w.op("Sub", long, w.constant(1, dtype)), half)
            sides.append((w.op("Sub", centre, reach), w.op("Add", centre, reach)))
        corners = [sides[0][0], sides[1][0], sides[0][1], sides[1][1]]
    info = [w.unsqueeze(v, 1) for v in _columns(w, w.cast(s[2], s.in_dtype(2), dtype), range(3))]
    zero, one = w.constant(0, dtype), w.constant(1, dtype)
    tops = [w.op("Sub", info[1], one), w.op("Sub", info[0], one)]
    corners = [w.op("Min", w.op("Max", c, zero), tops[k % 2]) for k, c in enumerate(corners)]
    cells = [
        np.repeat(np.indices((h, width))[k].reshape(-1), a)[None].astype(dtype) for k in (0, 1)
    ]
    inside = [
        w.op(
            "Less", w.constant(cell), w.op("Floor", w.op("Div", info[k], w.constant(stride, dtype)))
        )
        for k, cell in enumerate(cells)
    ]
    lowest = w.constant(-1, dtype)
    scores = w.op("Where", w.op("And", *inside), scores, lowest)
    smallest = w.op("Mul", info[2], w.constant(p["rpn_min_size"], dtype))
    small = w.op("Or", *[
        w.op("Less", w.op("Add", w.op("Sub", corners[k + 2], corners[k]), one), smallest) for k in (0, 1)
    ])  # fmt: skip
    grow = w.op("Where", small, w.op("Mul", smallest, w.constant(0.5, dtype)), zero)
    scores = w.op("Where", small, lowest, scores)
    boxes = _joined(w, [w.op("Sub" if k < 2 else "Add", c, grow) for k, c in enumerate(corners)])
    n = min(p["rpn_pre_nms_top_n"], total) if p["rpn_pre_nms_top_n"] > 0 else total
    after = p["rpn_post_nms_top_n"]
    order = _by_rank(w, scores, w.ints(n))
    boxes, scores = _rows(w, boxes, order), _rows(w, scores, order)
    always = w.op("Equal", scores, scores)
    wide = w.op("Add", boxes, w.constant([0, 0, 1, 1], dtype))
    keep = kept(w, w.cast(wide, dtype, _F32), always, w.ints(n), float(p["threshold"]), None, False)
    found = w.reduce("ReduceSum", w.cast(keep, bool, np.int64), [1])
    found = w.op(
        "Max", w.op("Min", found, w.constant(min(after, n), np.int64)), w.constant(1, np.int64)
    )
    turn = w.op("Mod", w.constant(np.arange(after)[None], np.int64), found)
    chosen = w.op("GatherElements", _first(w, keep, w.ints(n)), turn, axis=1)
    boxes, scores = _rows(w, boxes, chosen), _rows(w, scores, chosen)
    images = w.cast(steps(w, s, 0), np.int64, dtype)
    which = w.op("Expand", w.reshape(images, [-1, 1, 1]), w.ints([1, after, 1]))
    rois = w.reshape(w.op("Concat", which, boxes, axis=2), [-1, 5])
    return [rois, w.reshape(scores, [-1, 1])] if p["output_score"] else rois
