"""Operators of detectors: targets and detections of anchor boxes (SSD), proposals (Faster R-CNN), and pooling of regions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .contrib import _bilinear, _iou, cell_weights, samples_a_cell, unsuppressed
from .lowering.suppression import kept
from .numbers import half_away
from .samples import Given, case, f
from .table import constant, op

_FLAT = dict(smooth=False, amp="full")
_WIDE = dict(smooth=False, amp="widest")
_VARIANCES = (0.1, 0.1, 0.2, 0.2)
_ANCHORS = Given(
    [[[0.1, 0.1, 0.3, 0.3], [0.2, 0.2, 0.6, 0.6], [0.5, 0.5, 0.9, 0.9], [0.0, 0.0, 0.2, 0.2]]]
)
_LABELS = Given(
    [
        [[0, 0.1, 0.1, 0.35, 0.3], [1, 0.5, 0.45, 0.9, 0.8]],
        [[1, 0.2, 0.3, 0.6, 0.6], [-1, -1, -1, -1, -1]],
    ]
)


@op(
    npx="multibox_target",
    nd_contrib="MultiBoxTarget",
    loss=True,
    samples=[
        case(_ANCHORS, _LABELS, f(2, 3, 4)),
        case(_ANCHORS, _LABELS, f(2, 3, 4), negative_mining_ratio=1.0, overlap_threshold=0.3),
    ],
    outputs=3,
    results=("loc_target", "loc_mask", "cls_target"),
    **_FLAT,
    loops=True,
)
@constant
def multibox_target(
    anchor: Any,
    label: Any,
    cls_pred: Any,
    *,
    overlap_threshold: float = 0.5,
    ignore_label: float = -1.0,
    negative_mining_ratio: float = -1.0,
    negative_mining_thresh: float = 0.5,
    minimum_negative_samples: int = 0,
    variances: Any = _VARIANCES,
) -> Any:
    """What a single-shot detector learns (Liu et al. 2016): box offsets, which of them count, and classes.

    anchor: (1, N, 4) corners; label: (B, L, 5 or more), class and corners, rows after the last object -1;
    cls_pred: (B, classes + 1, N), from which negatives are chosen. Gives (B, 4 N), (B, 4 N) and (B, N), where class 0
    is the background. Every object takes its best free anchor, then each anchor that overlaps one by more than
    ``overlap_threshold`` joins it. ``negative_mining_ratio`` times as many of the rest, those
    least sure to be background, are negatives; the others are ``ignore_label``. ``minimum_negative_samples`` is not
    looked at, as in MXNet.
    """
    boxes, n = anchor.reshape(-1, 4), anchor.shape[1]
    labels = label.shape[1]

    def one(rows: Any, scores: Any) -> Any:
        real = jnp.cumprod((rows[:, 0] != -1).astype("int32")).astype(bool)
        overlaps = jnp.where(real[None], _iou(boxes, rows[:, 1:5], "corner"), -1)

        def take_best(_: Any, state: Any) -> Any:
            match, overlap, free_anchor, free_object = state
            left = jnp.where(free_anchor[:, None] & free_object[None], overlaps, -1)
            at = jnp.argmax(left)
            j, k = at // labels, at % labels
            good = left[j, k] > 1e-6
            return (
                match.at[j].set(jnp.where(good, k.astype("int32"), match[j])),
                overlap.at[j].set(jnp.where(good, left[j, k], overlap[j])),
                free_anchor.at[j].set(free_anchor[j] & ~good),
                free_object.at[k].set(free_object[k] & ~good),
            )

        start = (jnp.full(n, -1, "int32"), jnp.full(n, -1, overlaps.dtype), jnp.ones(n, bool), real)
        match, overlap, free, _ = lax.fori_loop(0, labels, take_best, start)
        positive = ~free
        best, most = jnp.argmax(overlaps, 1).astype("int32"), jnp.max(overlaps, 1)
        if overlap_threshold > 0:
            match = jnp.where(positive, match, best)
            overlap = jnp.where(positive, overlap, most)
            positive |= most > overlap_threshold
        if negative_mining_ratio > 0:
            count = positive.sum()
            asked = jnp.floor(count * negative_mining_ratio).astype("int32")
            asked = jnp.minimum(asked, n - count.astype("int32"))
            eligible = ~positive & (jnp.where(overlap < 0, most, overlap) < negative_mining_thresh)
            background = jax.nn.softmax(scores, axis=0)[0]
            order = jnp.argsort(jnp.where(eligible, background, jnp.inf), stable=True)
            rank = jnp.zeros(n, "int32").at[order].set(jnp.arange(n, dtype="int32"))
            negative = eligible & (rank < asked)
        else:
            negative = ~positive
        mine = rows[jnp.maximum(match, 0)]
        ax, ay = (boxes[:, 0] + boxes[:, 2]) / 2, (boxes[:, 1] + boxes[:, 3]) / 2
        aw, ah = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
        gx, gy = (mine[:, 1] + mine[:, 3]) / 2, (mine[:, 2] + mine[:, 4]) / 2
        gw, gh = mine[:, 3] - mine[:, 1], mine[:, 4] - mine[:, 2]
        v = variances
        offsets = [
            (gx - ax) / aw / v[0],
            (gy - ay) / ah / v[1],
            jnp.log(gw / aw) / v[2],
            jnp.log(gh / ah) / v[3],
        ]
        some = real.any()
        hit = (positive & some)[:, None]
        where = jnp.where(hit, jnp.stack(offsets, -1), 0).reshape(-1)
        counts = jnp.broadcast_to(hit, (n, 4)).reshape(-1)
        classes = jnp.where(positive, mine[:, 0] + 1, jnp.where(negative, 0, ignore_label))
        return where, counts, jnp.where(some, classes, ignore_label)

    where, counts, classes = jax.vmap(one)(lax.stop_gradient(label), lax.stop_gradient(cls_pred))
    dtype = cls_pred.dtype
    return where.astype(dtype), counts.astype(dtype), classes.astype(dtype)


@op(
    npx="multibox_detection",
    nd_contrib="MultiBoxDetection",
    loss=True,
    samples=[
        case(f(2, 3, 4, low=0.1, high=1.0), f(2, 16, low=-0.5, high=0.5), _ANCHORS),
        case(
            f(2, 3, 4, low=0.1, high=1.0),
            f(2, 16),
            _ANCHORS,
            nms_topk=2,
            force_suppress=True,
            nms_threshold=0.1,
        ),
    ],
    **_FLAT,
    loops=True,
    onnx="multibox_detection",
)
def multibox_detection(
    cls_prob: Any,
    loc_pred: Any,
    anchor: Any,
    *,
    clip: bool = True,
    threshold: float = 0.01,
    background_id: int = 0,
    nms_threshold: float = 0.5,
    force_suppress: bool = False,
    variances: Any = _VARIANCES,
    nms_topk: int = -1,
) -> Any:
    """Detections of a single-shot detector (Liu et al. 2016): (B, N, 6) of class, score and corners, best first.

    cls_prob: (B, classes + 1, N), the background first; loc_pred: (B, 4 N); anchor: (1, N, 4). What a better one of its
    class overlaps has class -1; rows without a detection are -1 throughout.
    """
    boxes, n = anchor.reshape(-1, 4), anchor.shape[1]
    ax, ay = (boxes[:, 0] + boxes[:, 2]) / 2, (boxes[:, 1] + boxes[:, 3]) / 2
    aw, ah = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    v = variances
    suppresses = 0 < nms_threshold <= 1

    def one(scores: Any, offsets: Any) -> Any:
        p = offsets.reshape(n, 4)
        x, y = p[:, 0] * v[0] * aw + ax, p[:, 1] * v[1] * ah + ay
        w, h = jnp.exp(p[:, 2] * v[2]) * aw / 2, jnp.exp(p[:, 3] * v[3]) * ah / 2
        corners = jnp.stack([x - w, y - h, x + w, y + h], -1)
        if clip:
            corners = jnp.clip(corners, 0, 1)
        kind, score = jnp.argmax(scores[1:], 0), jnp.max(scores[1:], 0)
        valid = score >= threshold
        order = jnp.argsort(jnp.where(valid, -score if suppresses else 0, jnp.inf), stable=True)
        if (
            suppresses and nms_topk > 0
        ):  # what is beyond stays in the order of the anchors, as in MXNet
            order = jnp.where(jnp.arange(n) < nms_topk, order, jnp.argsort(~valid, stable=True))
            count = valid.sum()
            valid = jnp.arange(n) < count
            kind, score, corners = kind[order], score[order], corners[order]
        else:
            kind, score, corners, valid = kind[order], score[order], corners[order], valid[order]
        return kind, score, corners, valid

    kind, score, corners, valid = jax.vmap(one)(
        lax.stop_gradient(cls_prob), lax.stop_gradient(loc_pred)
    )
    kept = valid
    if suppresses:
        if nms_topk > 0:
            kept &= jnp.arange(n) < nms_topk
        kept = unsuppressed(
            corners, None if force_suppress else kind, kept, nms_threshold, "corner", or_equal=True
        )
    named = jnp.where(kept, kind, -1).astype(corners.dtype)
    made = jnp.concatenate([named[..., None], score[..., None], corners], -1)
    return lax.stop_gradient(jnp.where(valid[..., None], made, -1))


# ------------------------------------------------------------------------------------- proposals


def _rpn_anchors(stride: int, scales: Any, ratios: Any) -> np.ndarray:
    """Anchors (A, 4) of a region proposal network around the first cell, ratios before scales."""
    made = []
    centre = 0.5 * (stride - 1)
    scales, ratios = [
        v if isinstance(v, tuple) else (v,) for v in (scales, ratios)
    ]  # a number is a tuple of one
    for ratio in ratios:
        width = np.floor(np.sqrt(np.floor(stride * stride / ratio)) + 0.5)
        height = np.floor(width * ratio + 0.5)
        for scale in scales:
            w, h = width * scale, height * scale
            made.append(
                [
                    centre - 0.5 * (w - 1),
                    centre - 0.5 * (h - 1),
                    centre + 0.5 * (w - 1),
                    centre + 0.5 * (h - 1),
                ]
            )
    return np.array(made)


def _proposals(
    scores: Any, deltas: Any, info: Any, *, before: int, rpn_min_size: int, scales: Any, ratios: Any,
    feature_stride: int, iou_loss: bool,
) -> tuple[Any, Any]:  # fmt: skip
    """The boxes (n, 4) and scores (n,) of one image, the best first."""
    dtype = scores.dtype
    base = _rpn_anchors(feature_stride, scales, ratios)
    a, (h, w) = len(base), scores.shape[1:]
    y, x = np.meshgrid(np.arange(h) * feature_stride, np.arange(w) * feature_stride, indexing="ij")
    # Corners are small differences of large numbers: in float64, so that they and the order of boxes that overlap by
    # about the threshold are the same in every program.
    anchors = jnp.asarray(base[None, None] + np.stack([x, y, x, y], -1)[:, :, None])  # (h, w, A, 4)
    d = deltas.reshape(a, 4, h, w).transpose(2, 3, 0, 1).astype("float64")
    x1, y1, x2, y2 = (anchors[..., k] for k in range(4))
    if iou_loss:
        x1, y1, x2, y2 = (c + d[..., k] for k, c in enumerate((x1, y1, x2, y2)))
    else:
        width, height = x2 - x1 + 1, y2 - y1 + 1
        cx = d[..., 0] * width + x1 + 0.5 * (width - 1)
        cy = d[..., 1] * height + y1 + 0.5 * (height - 1)
        pw, ph = jnp.exp(d[..., 2]) * width, jnp.exp(d[..., 3]) * height
        x1, y1 = cx - 0.5 * (pw - 1), cy - 0.5 * (ph - 1)
        x2, y2 = cx + 0.5 * (pw - 1), cy + 0.5 * (ph - 1)
    x1, x2 = (jnp.clip(c, 0, info[1] - 1).astype(dtype) for c in (x1, x2))
    y1, y2 = (jnp.clip(c, 0, info[0] - 1).astype(dtype) for c in (y1, y2))
    inside = (jnp.arange(h) < jnp.floor(info[0] / feature_stride))[:, None] & (
        jnp.arange(w) < jnp.floor(info[1] / feature_stride)
    )
    score = jnp.where(inside[..., None], scores.transpose(1, 2, 0), -1)
    smallest = rpn_min_size * info[2]
    small = (x2 - x1 + 1 < smallest) | (y2 - y1 + 1 < smallest)
    grow = jnp.where(small, smallest / 2, 0)
    score = jnp.where(small, -1, score).reshape(-1)
    boxes = jnp.stack([x1 - grow, y1 - grow, x2 + grow, y2 + grow], -1).reshape(-1, 4)
    n = min(before, boxes.shape[0]) if before > 0 else boxes.shape[0]
    order = jnp.argsort(-score, stable=True)[:n]
    boxes, score = boxes[order], score[order]
    return boxes, score


def _proposal_row(name: str) -> Any:
    info = [[48, 48, 1.0], [40, 44, 1.5]][: 1 if name == "Proposal" else 2]
    n = len(info)
    return op(
        name,
        nd_contrib=name,
        samples=[
            case(f(n, 4, 3, 3, low=0.0, high=1.0), f(n, 8, 3, 3, low=-0.3, high=0.3), Given(info),
                 scales=(1.0, 2.0), ratios=(1.0,), rpn_post_nms_top_n=5, output_score=True),
        ],
        outputs=lambda attrs, n: 2 if attrs["output_score"] else 1,
        results=lambda attrs: ("output", "score") if attrs.get("output_score") else (),
        loops=True, onnx="proposal",
        **_WIDE,
    )  # fmt: skip


def _proposing(
    cls_prob: Any, bbox_pred: Any, im_info: Any, output_score: bool, after: int, threshold: float, **how: Any
) -> Any:  # fmt: skip
    def one(scores: Any, deltas: Any, info: Any) -> Any:
        return _proposals(scores[scores.shape[0] // 2 :], deltas, info, **how)

    def chosen(boxes: Any, scores: Any, keep: Any) -> Any:
        found = jnp.minimum(keep.sum(), count)
        at = jnp.argsort(~keep, stable=True)[jnp.arange(after) % jnp.maximum(found, 1)]
        return boxes[at], scores[at][:, None]

    boxes, scores = jax.vmap(one)(*map(lax.stop_gradient, (cls_prob, bbox_pred, im_info)))
    count = min(after, boxes.shape[1])
    boxes, scores = jax.vmap(chosen)(boxes, scores, kept(boxes, threshold, count))
    n = len(boxes)
    which = np.repeat(np.arange(n), after).astype(cls_prob.dtype)[:, None]
    rois = jnp.concatenate([which, boxes.reshape(-1, 4)], 1)
    return (rois, scores.reshape(-1, 1)) if output_score else rois


@_proposal_row("Proposal")
def proposal(
    cls_prob: Any,
    bbox_pred: Any,
    im_info: Any,
    *,
    rpn_pre_nms_top_n: int = 6000,
    rpn_post_nms_top_n: int = 300,
    threshold: float = 0.7,
    rpn_min_size: int = 16,
    scales: Any = (4.0, 8.0, 16.0, 32.0),
    ratios: Any = (0.5, 1.0, 2.0),
    feature_stride: int = 16,
    output_score: bool = False,
    iou_loss: bool = False,
) -> Any:
    """Regions that a region proposal network (Ren et al. 2015) proposes for one image: (R, 5), image number and corners.

    cls_prob: (1, 2 A, H, W), the backgrounds first; bbox_pred: (1, 4 A, H, W); im_info: (1, 3) of height, width and
    scale. With fewer than ``rpn_post_nms_top_n`` they come again from the first.
    """
    if cls_prob.shape[0] != 1:
        raise ValueError(
            f"Proposal takes one image, got {cls_prob.shape[0]}; MultiProposal takes several"
        )
    return _proposing(
        cls_prob, bbox_pred, im_info, output_score, before=rpn_pre_nms_top_n, after=rpn_post_nms_top_n,
        threshold=threshold, rpn_min_size=rpn_min_size, scales=scales, ratios=ratios, feature_stride=feature_stride,
        iou_loss=iou_loss,
    )  # fmt: skip


@_proposal_row("MultiProposal")
def multi_proposal(
    cls_prob: Any,
    bbox_pred: Any,
    im_info: Any,
    *,
    rpn_pre_nms_top_n: int = 6000,
    rpn_post_nms_top_n: int = 300,
    threshold: float = 0.7,
    rpn_min_size: int = 16,
    scales: Any = (4.0, 8.0, 16.0, 32.0),
    ratios: Any = (0.5, 1.0, 2.0),
    feature_stride: int = 16,
    output_score: bool = False,
    iou_loss: bool = False,
) -> Any:
    """Regions that a region proposal network proposes for a batch of images: (N R, 5), those of the first image first."""
    return _proposing(
        cls_prob, bbox_pred, im_info, output_score, before=rpn_pre_nms_top_n, after=rpn_post_nms_top_n,
        threshold=threshold, rpn_min_size=rpn_min_size, scales=scales, ratios=ratios, feature_stride=feature_stride,
        iou_loss=iou_loss,
    )  # fmt: skip


# ------------------------------------------------------------------------------ pooling of regions

_ROIS = Given([[0, 0.0, 0.0, 3.0, 3.0], [0, 1.0, 1.0, 4.0, 5.0]])


@op(
    nd_contrib="PSROIPooling",
    samples=[
        case(f(1, 8, 6, 6), _ROIS, spatial_scale=1.0, output_dim=2, pooled_size=2, group_size=2)
    ],
    **_WIDE,
)
def psroi_pooling(
    data: Any,
    rois: Any,
    *,
    spatial_scale: float,
    output_dim: int,
    pooled_size: int,
    group_size: int = 0,
) -> Any:
    """Means of the cells of regions, each cell from channels of its own (R-FCN, Dai et al. 2016): (R, output_dim, p, p)."""
    h, w = data.shape[2:]
    p, groups = pooled_size, group_size or pooled_size
    cell = np.floor(np.arange(p) * groups / p).astype("int64").clip(0, groups - 1)

    def cells(start: Any, stop: Any, size: int) -> Any:
        length = jnp.maximum(stop - start, 0.1) / p
        k = jnp.arange(p)
        lo = jnp.clip(jnp.floor(k * length + start), 0, size)
        hi = jnp.clip(jnp.ceil((k + 1) * length + start), 0, size)
        at = jnp.arange(size)
        return ((at >= lo[:, None]) & (at < hi[:, None])).astype(data.dtype)

    def one(roi: Any) -> Any:
        image = data[jnp.clip(roi[0].astype("int32"), 0, data.shape[0] - 1)]
        image = image[
            : output_dim * groups * groups
        ]  # as in MXNet further channels are not looked at
        image = image.reshape(output_dim, groups, groups, h, w)[:, cell][:, :, cell]
        x0, y0 = half_away(roi[1]) * spatial_scale, half_away(roi[2]) * spatial_scale
        x1, y1 = (half_away(roi[3]) + 1) * spatial_scale, (half_away(roi[4]) + 1) * spatial_scale
        rows, columns = cells(y0, y1, h), cells(x0, x1, w)
        total = jnp.einsum("dijyx,iy,jx->dij", image, rows, columns)
        area = rows.sum(1)[:, None] * columns.sum(1)
        return jnp.where(area > 0, total / jnp.maximum(area, 1), 0)

    return jax.vmap(one)(lax.stop_gradient(rois))


@op(
    nd_contrib="DeformablePSROIPooling",
    samples=[
        case(f(1, 8, 6, 6), _ROIS, spatial_scale=1.0, output_dim=2, pooled_size=2, group_size=2, no_trans=True, sample_per_part=2),
        case(f(1, 8, 6, 6), _ROIS, f(2, 2, 2, 2), spatial_scale=1.0, output_dim=2, pooled_size=2, group_size=2, part_size=2,
             sample_per_part=2, trans_std=0.1),
    ],
    **_FLAT,
)  # fmt: skip
def deformable_psroi_pooling(
    data: Any,
    rois: Any,
    trans: Any = None,
    *,
    spatial_scale: float,
    output_dim: int,
    group_size: int,
    pooled_size: int,
    part_size: int = 0,
    sample_per_part: int = 1,
    trans_std: float = 0.0,
    no_trans: bool = False,
) -> Any:
    """Position-sensitive pooling whose cells are moved by learned offsets (Dai et al. 2017): (R, output_dim, p, p).

    trans: (R, 2 classes, part_size, part_size), offsets in parts of the region, times ``trans_std``.
    """
    h, w = data.shape[2:]
    p, groups, s = pooled_size, group_size, sample_per_part
    parts = part_size or p
    cell = np.floor(np.arange(p) * groups / p).astype("int64").clip(0, groups - 1)
    part = np.floor(np.arange(p) / p * parts).astype("int64")
    classes = 1 if no_trans or trans is None else trans.shape[1] // 2
    each = output_dim // classes

    def one(roi: Any, offset: Any) -> Any:
        image = data[jnp.clip(roi[0].astype("int32"), 0, data.shape[0] - 1)]
        image = image.reshape(output_dim, groups, groups, h, w)[:, cell][
            :, :, cell
        ]  # (d, p, p, h, w)
        x0, y0 = (half_away(roi[k]) * spatial_scale - 0.5 for k in (1, 2))
        x1, y1 = ((half_away(roi[k]) + 1) * spatial_scale - 0.5 for k in (3, 4))
        width, height = jnp.maximum(x1 - x0, 0.1), jnp.maximum(y1 - y0, 0.1)
        moved = offset[:, :, part][:, :, :, part] * trans_std  # (classes, 2, p, p)
        k = jnp.arange(p, dtype=data.dtype)
        left = x0 + k[None, None, :] * (width / p) + moved[:, 0] * width  # (classes, p, p)
        top = y0 + k[None, :, None] * (height / p) + moved[:, 1] * height
        step = jnp.arange(s, dtype=data.dtype)
        x = left[..., None, None] + step[None, :] * (width / p / s)
        y = top[..., None, None] + step[:, None] * (height / p / s)
        x, y = jnp.broadcast_arrays(x, y)  # (classes, p, p, s, s)
        inside = (x >= -0.5) & (x <= w - 0.5) & (y >= -0.5) & (y <= h - 0.5)
        x, y = jnp.clip(x, 0, w - 1), jnp.clip(y, 0, h - 1)

        def of_cell(channels: Any, y: Any, x: Any) -> Any:  # (each, h, w) at (s, s)
            return _bilinear(channels, y, x)

        by_class = image.reshape(classes, each, p, p, h, w).transpose(0, 2, 3, 1, 4, 5)
        values = jax.vmap(jax.vmap(jax.vmap(of_cell)))(
            by_class, y, x
        )  # (classes, p, p, each, s, s)
        weight = inside[:, :, :, None].astype(data.dtype)
        count = weight.sum((-2, -1))
        mean = jnp.where(count > 0, (values * weight).sum((-2, -1)) / jnp.maximum(count, 1), 0)
        return mean.transpose(0, 3, 1, 2).reshape(output_dim, p, p)

    if no_trans or trans is None:
        still = jnp.zeros((1, 2, parts, parts), data.dtype)
        return jax.vmap(lambda roi: one(roi, still))(lax.stop_gradient(rois))
    return jax.vmap(one)(lax.stop_gradient(rois), trans.reshape(-1, classes, 2, parts, parts))


@op(
    nd_contrib="RROIAlign",
    samples=[
        case(
            f(1, 2, 6, 6),
            Given([[0, 3.0, 3.0, 4.0, 3.0, 30.0]]),
            pooled_size=(2, 2),
            spatial_scale=1.0,
            sampling_ratio=2,
        )
    ],
    **_WIDE,
    loops=True,
)
def rroi_align(
    data: Any, rois: Any, *, pooled_size: Any, spatial_scale: float, sampling_ratio: int = -1
) -> Any:
    """Means of bilinear samples in the cells of turned regions: (R, C, *pooled_size).

    rois: (R, 6), image number, centre, width, height, and the angle in degrees. ``sampling_ratio`` below 1 takes about a
    sample for each pixel of a cell. No gradient flows through it, as in MXNet.
    """
    ph, pw = pooled_size

    def one(roi: Any) -> Any:
        image = data[jnp.clip(roi[0].astype("int32"), 0, data.shape[0] - 1)]
        cx, cy = roi[1] * spatial_scale, roi[2] * spatial_scale
        width, height = (
            jnp.maximum(roi[3] * spatial_scale, 1),
            jnp.maximum(roi[4] * spatial_scale, 1),
        )
        turn = roi[5] * (np.pi / 180)
        rows = samples_a_cell(height / ph, sampling_ratio)
        columns = samples_a_cell(width / pw, sampling_ratio)
        top = jnp.arange(ph, dtype=data.dtype)[:, None] * (height / ph) - height / 2
        left = jnp.arange(pw, dtype=data.dtype)[None] * (width / pw) - width / 2

        def add(k: Any, total: Any) -> Any:
            yy = top + ((k // columns) + 0.5) * (height / ph / rows)
            xx = left + ((k % columns) + 0.5) * (width / pw / columns)
            x = xx * jnp.cos(turn) + yy * jnp.sin(turn) + cx
            y = yy * jnp.cos(turn) - xx * jnp.sin(turn) + cy
            return total + _bilinear(image, y, x).astype(total.dtype)

        start = jnp.zeros((data.shape[1], ph, pw), data.dtype)
        return lax.fori_loop(0, rows * columns, add, start) / (rows * columns).astype(data.dtype)

    data, rois = lax.stop_gradient(data), lax.stop_gradient(rois)
    return jax.vmap(one)(rois)


@op(
    nd_contrib="mrcnn_mask_target",
    samples=[
        case(
            Given([[[2.3, 4.3, 2.2, 3.3], [1.5, 2.5, 5.9, 5.4]]]),
            f(1, 3, 6, 6),
            Given([[2, 0]]),
            Given([[2, 1]]),
            num_rois=2,
            num_classes=3,
            mask_size=(2, 2),
        ),
    ],
    outputs=2,
    results=("mask_targets", "mask_cls"),
    differentiable=False,
    smooth=False,
    loops=True,
)
def mrcnn_mask_target(
    rois: Any,
    gt_masks: Any,
    matches: Any,
    cls_targets: Any,
    *,
    num_rois: int,
    num_classes: int,
    mask_size: Any,
    sample_ratio: int = 2,
    aligned: bool = False,
) -> Any:
    """What the mask branch of a Mask R-CNN learns (He et al. 2017): masks of the regions, and which classes count.

    rois: (B, N, 4) corners in pixels; gt_masks: (B, M, H, W); matches: (B, N), the mask of each region; cls_targets:
    (B, N), its class from 0, the background left out. Gives (B, N, num_classes, *mask_size) twice: the means of
    bilinear samples in the cells of the region, the same for each class, and 1 for the region's class, 0 for others.
    MXNet has it in its builds for GPUs alone.
    """
    if rois.shape[1] != num_rois:
        raise ValueError(
            f"num_rois={num_rois}, but rois has shape {rois.shape}: expected (B, {num_rois}, 4)"
        )
    size = (mask_size, mask_size) if isinstance(mask_size, int) else tuple(mask_size)

    def one(roi: Any, match: Any, masks: Any) -> Any:
        mask = masks[jnp.clip(match.astype("int32"), 0, masks.shape[0] - 1)]
        rows, columns = cell_weights(roi, size, mask.shape, sample_ratio, aligned)
        return jnp.einsum("yx,iy,jx->ij", mask, rows, columns).astype(rois.dtype)

    sampled = jax.vmap(jax.vmap(one, (0, 0, None)))(rois, matches, gt_masks)
    own = cls_targets[..., None] == jnp.arange(num_classes, dtype=cls_targets.dtype)
    shape = (*own.shape, *size)
    return (
        jnp.broadcast_to(sampled[:, :, None], shape),
        jnp.broadcast_to(own[..., None, None], shape).astype(rois.dtype),
    )
