"""Operators of detection and segmentation networks: resizing, boxes, regions of interest, sampling grids."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.interpret.dims import is_symbolic
from .numbers import half_away
from .samples import Given, case, f
from .sorting import in_order
from .table import constant, op

_FLAT = dict(smooth=False)


def _resizer(size: int, new: int, align: bool) -> np.ndarray:
    """The (new, size) matrix of linear interpolation."""
    if new == size:
        return np.eye(size)
    if new == 1:  # as in MXNet, whether or not corners are aligned
        return np.eye(1, size)
    if align:
        at = np.arange(new) * ((size - 1) / (new - 1) if new > 1 else 0.0)
    else:
        at = np.maximum((np.arange(new) + 0.5) * size / new - 0.5, 0)
    low = np.minimum(at.astype(int), size - 1)
    share = at - low
    weights = np.zeros((new, size))
    weights[np.arange(new), low] += 1 - share
    weights[np.arange(new), np.minimum(low + 1, size - 1)] += share
    return weights


@op(
    nd_contrib="BilinearResize2D",
    samples=[
        case(f(1, 2, 4, 5), height=7, width=3),
        case(f(1, 2, 4, 5), scale_height=2.0, scale_width=2.0, align_corners=False),
        case(f(1, 2, 4, 5), f(1, 2, 6, 3), mode="like"),
    ],
    onnx="bilinear_resize",
)
def bilinear_resize(
    data: Any,
    like: Any = None,
    *,
    height: int = 1,
    width: int = 1,
    scale_height: float | None = None,
    scale_width: float | None = None,
    mode: str = "size",
    align_corners: bool = True,
) -> Any:
    """Images (N, C, H, W) in another size by bilinear interpolation.

    ``mode``: ``size`` (height and width, or factors), ``odd_scale`` (factors), ``like`` (the size of the second
    array), ``to_even_down to_even_up to_odd_down to_odd_up``.
    """
    h, w = data.shape[2:]
    if mode == "like":
        new = like.shape[2:]
    elif mode == "size" and scale_height is None and scale_width is None:
        new = (height, width)
    elif mode == "size":
        new = (int(h * (scale_height or 1)), int(w * (scale_width or 1)))
    elif mode == "odd_scale":
        new = tuple(
            int(n * s) if n % 2 == 0 else int((n - 1) * s) + 1
            for n, s in ((h, scale_height), (w, scale_width))
        )
    elif mode.startswith("to_"):
        odd, step = int("odd" in mode), -1 if mode.endswith("down") else 1
        new = tuple(n if n % 2 == odd else n + step for n in (h, w))
    else:
        raise ValueError(f"unknown mode {mode}: size, odd_scale, like and to_even_down ... exist")
    rows = _resizer(h, int(new[0]), align_corners).astype(data.dtype)
    columns = _resizer(w, int(new[1]), align_corners).astype(data.dtype)
    return jnp.einsum("nchw,yh,xw->ncyx", data, rows, columns)


# ---------------------------------------------------------------------------------------- boxes


def _corners(boxes: Any, form: str) -> tuple[Any, Any, Any, Any]:
    a, b, c, d = (boxes[..., k] for k in range(4))
    if form == "corner":
        return a, b, c, d
    if form == "center":
        return a - c / 2, b - d / 2, a + c / 2, b + d / 2
    raise ValueError(f"unknown box format {form}: corner and center exist")


def _area(left: Any, top: Any, right: Any, bottom: Any) -> Any:
    return jnp.maximum(right - left, 0) * jnp.maximum(bottom - top, 0)


def _overlap(a: Any, b: Any, areas: Any) -> Any:
    """Intersection over union of boxes (4, ...) and others, with the sum of both areas."""
    l1, t1, r1, b1 = a
    l2, t2, r2, b2 = b
    both = _area(jnp.maximum(l1, l2), jnp.maximum(t1, t2), jnp.minimum(r1, r2), jnp.minimum(b1, b2))
    union = areas - both
    some = union > 0
    return jnp.where(some, both / jnp.where(some, union, 1), 0)


def _iou(a: Any, b: Any, form: str) -> Any:
    """Intersection over union of all pairs: (..., 4) and (..., 4) give both leading shapes."""
    a, b = [x.reshape(x.shape + (1,) * (b.ndim - 1)) for x in _corners(a, form)], _corners(b, form)
    return _overlap(a, b, _area(*a) + _area(*b))


_BOXES = Given([[0.1, 0.1, 0.5, 0.6], [0.2, 0.2, 0.6, 0.7], [0.7, 0.7, 0.9, 0.9]])


@op(
    npx="box_iou",
    nd_contrib="box_iou",
    samples=[case(_BOXES, _BOXES)],
    amp="widest",
    **_FLAT,
    onnx="box_iou",
)
@constant
def box_iou(lhs: Any, rhs: Any, *, format: str = "corner") -> Any:  # noqa: A002  (MXNet's name)
    """Intersection over union of all pairs of boxes."""
    return _iou(lhs, rhs, format)


_NMS = Given(
    [[[0, 0.9, 0.1, 0.1, 0.5, 0.6], [0, 0.8, 0.12, 0.1, 0.5, 0.6], [1, 0.7, 0.7, 0.7, 0.9, 0.9]]]
)


@op(
    npx="box_nms",
    nd_contrib=("box_nms", "box_non_maximum_suppression"),
    samples=[case(_NMS), case(_NMS, id_index=0, overlap_thresh=0.3)],
    **_FLAT,
    amp="widest",
    numbers=("overlap_thresh", "valid_thresh"),
    loops=True,
    onnx="box_nms",
    results=("output0",),
)
def box_nms(
    data: Any,
    *,
    overlap_thresh: float = 0.5,
    valid_thresh: float = 0.0,
    topk: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = -1,
    background_id: int = -1,
    force_suppress: bool = False,
    in_format: str = "corner",
    out_format: str = "corner",
) -> Any:
    """Boxes (..., N, K) by falling score, those that a better one of their class overlaps at the end as -1.

    With ``topk=0`` they stay as they are.
    """
    if topk == 0 or data.size == 0:
        return data
    n, width = data.shape[-2:]
    if width < coord_start + 4:
        raise ValueError(
            f"box_nms: coord_start={coord_start} needs rows of at least {coord_start + 4} numbers, got {width}"
        )
    flat = data.reshape(math.prod(data.shape[:-2]), n, width)
    score = flat[:, :, score_index]
    valid = score > valid_thresh
    if id_index >= 0:
        valid &= flat[:, :, id_index] != background_id
    order = in_order(jnp.where(valid, -score, jnp.inf), 1, False)
    flat, valid = _rows(flat, order), _rows(valid, order)
    m = min(n, topk) if topk > 0 else n  # the others are dropped, and need not be compared
    best = lax.slice_in_dim(flat, 0, m, axis=1)
    kinds = best[:, :, id_index] if id_index >= 0 and not force_suppress else None
    boxes = lax.slice_in_dim(best, coord_start, coord_start + 4, axis=2)
    keep = unsuppressed(
        boxes, kinds, lax.slice_in_dim(valid, 0, m, axis=1), overlap_thresh, in_format
    )
    if in_format != out_format:
        boxes = lax.slice_in_dim(flat, coord_start, coord_start + 4, axis=2)
        turned = _convert(boxes, in_format)
        flat = lax.dynamic_update_slice_in_dim(flat, turned, coord_start, axis=2)
    if m != n:
        keep = jnp.pad(keep, ((0, 0), (0, n - m)))
    kept = jnp.where(keep[:, :, None], flat, -1)
    return _rows(kept, in_order(~keep, 1, False)).reshape(data.shape)


def _rows(x: Any, order: Any) -> Any:
    """Each sample's rows (B, N, ...) in its own order (B, N)."""
    count, n = order.shape
    at = order + (jnp.arange(count, dtype=order.dtype) * n)[:, None]
    flat = x.reshape(count * n, *x.shape[2:])
    found = flat.at[at.reshape(-1)].get(mode="promise_in_bounds", unique_indices=True)
    return found.reshape(x.shape)


def unsuppressed(
    boxes: Any, kinds: Any, valid: Any, threshold: Any, form: str, or_equal: bool = False
) -> Any:
    """Which of the valid boxes (B, N, 4), best first, no better one that stays overlaps, of the same kind (B, N) if any.

    A round for each box that stays: as many as there are would compare all pairs.
    """
    n = valid.shape[1]
    if n == 0:
        return valid
    # (5, B, N): corners, and areas, which MXNet, too, rounds before boxes are compared.
    corners = _corners(lax.stop_gradient(boxes), form)
    corners = jnp.stack([*corners, _area(*corners)])
    at = jnp.arange(n)
    rows = jnp.arange(valid.shape[0]) * n

    def of(here: Any, table: Any) -> Any:
        flat = table.reshape(*table.shape[:-2], -1)
        return flat.at[..., here].get(mode="promise_in_bounds")[..., None]

    def first(left: Any) -> Any:
        return jnp.min(jnp.where(left, at, n), 1)

    def one_more(state: Any) -> Any:
        k, keep = state
        here = jnp.minimum(k, n - 1) + rows
        one = of(here, corners)
        overlap = _overlap(one[:4], corners[:4], one[4] + corners[4])
        near = overlap >= threshold if or_equal else overlap > threshold
        if kinds is not None:
            near &= of(here, kinds) == kinds
        later = at > k[:, None]
        keep &= ~(near & later)
        return first(keep & later), keep

    return lax.while_loop(lambda state: jnp.any(state[0] < n), one_more, (first(valid), valid))[1]


def _convert(boxes: Any, form: str) -> Any:
    """Corner boxes as center ones, or the other way round."""
    if form == "center":
        return jnp.stack(_corners(boxes, form), -1)
    left, top, right, bottom = _corners(boxes, form)
    return jnp.stack([(left + right) / 2, (top + bottom) / 2, right - left, bottom - top], -1)


def _center(boxes: Any, form: str) -> tuple[Any, ...]:
    made = boxes if form == "center" else _convert(boxes, "corner")
    return tuple(made[..., k] for k in range(4))


@op(
    npx="box_decode",
    nd_contrib="box_decode",
    samples=[case(f(2, 3, 4), Given([[[0.1, 0.1, 0.5, 0.6]] * 3]))],
    amp="widest",
    numbers=("std0", "std1", "std2", "std3", "clip"),
    **_FLAT,
    onnx="box_decode",
)
@constant
def box_decode(
    data: Any,
    anchors: Any,
    *,
    std0: float = 1.0,
    std1: float = 1.0,
    std2: float = 1.0,
    std3: float = 1.0,
    clip: float = -1.0,
    format: str = "center",  # noqa: A002
) -> Any:
    """Corner boxes out of predicted offsets to anchors."""
    x, y, w, h = _center(anchors, format)
    dw, dh = data[..., 2] * std2, data[..., 3] * std3
    if hasattr(clip, "dtype"):
        clip = jnp.where(clip > 0, clip, jnp.inf).astype(data.dtype)
    if hasattr(clip, "dtype") or clip > 0:
        dw, dh = jnp.minimum(dw, clip), jnp.minimum(dh, clip)
    cx, cy = data[..., 0] * std0 * w + x, data[..., 1] * std1 * h + y
    half_w, half_h = jnp.exp(dw) * w / 2, jnp.exp(dh) * h / 2
    return jnp.stack([cx - half_w, cy - half_h, cx + half_w, cy + half_h], -1)


@op(
    npx="box_encode",
    nd_contrib="box_encode",
    samples=[
        case(
            Given([[1.0, -1.0]]), Given([[0.0, 1.0]]), Given([[[0.1, 0.1, 0.5, 0.6], [0.2, 0.2, 0.6, 0.7]]]),
            Given([[[0.1, 0.2, 0.5, 0.6], [0.2, 0.3, 0.6, 0.7]]]), Given([0.0] * 4), Given([0.1, 0.1, 0.2, 0.2]),
        )
    ],
    **_FLAT,
    amp="widest",
    outputs=2,
)  # fmt: skip
@constant
def box_encode(samples: Any, matches: Any, anchors: Any, refs: Any, means: Any, stds: Any) -> Any:
    """Training targets of matched boxes as offsets to anchors, and their masks."""
    matched = jnp.take_along_axis(refs, matches.astype("int32")[..., None], 1)
    gx, gy, gw, gh = _center(matched, "corner")
    ax, ay, aw, ah = _center(anchors, "corner")
    offsets = jnp.stack([(gx - ax) / aw, (gy - ay) / ah, jnp.log(gw / aw), jnp.log(gh / ah)], -1)
    hit = (samples > 0.5)[..., None]
    return jnp.where(hit, (offsets - means) / stds, 0), jnp.broadcast_to(hit, offsets.shape).astype(
        refs.dtype
    )


@op(
    npx="bipartite_matching",
    nd_contrib="bipartite_matching",
    samples=[case(Given([[0.5, 0.6], [0.1, 0.2], [0.3, 0.4]]), threshold=1e-12)],
    **_FLAT,
    outputs=2,
    numbers=("threshold",),
    loops=True,
)
def bipartite_matching(
    data: Any, *, is_ascend: bool = False, threshold: float, topk: int = -1
) -> Any:
    """Greedy pairs of rows and columns of scores (..., N, M): the column of each row, the row of each column.

    As in MXNet it ends after one pair more than ``topk``.
    """
    n, m = data.shape[-2:]
    if not data.size:
        return jnp.full(data.shape[:-1], -1, data.dtype), jnp.zeros(
            (*data.shape[:-2], m), data.dtype
        )

    def one(scores: Any) -> Any:
        order = jnp.argsort((scores if is_ascend else -scores).reshape(-1))

        def step(k: Any, state: Any) -> Any:
            rows, columns, count = state
            at = order[k]
            r, c = at // m, at % m
            score = scores[r, c]
            good = score < threshold if is_ascend else score > threshold
            free = (rows[r] < 0) & (columns[c] < 0) & good & ((topk <= 0) | (count <= topk))
            rows = rows.at[r].set(jnp.where(free, c.astype(rows.dtype), rows[r]))
            columns = columns.at[c].set(jnp.where(free, r.astype(rows.dtype), columns[c]))
            return rows, columns, count + free

        start = (jnp.full(n, -1, data.dtype), jnp.full(m, -1, data.dtype), jnp.zeros((), "int32"))
        return lax.fori_loop(0, n * m, step, start)[:2]

    lead = data.shape[:-2]
    if not data.size:
        return jnp.full((*lead, n), -1, data.dtype), jnp.full((*lead, m), -1, data.dtype)
    rows, columns = jax.vmap(one)(data.reshape(-1, n, m))
    return rows.reshape(*lead, n), columns.reshape(*lead, m)


@op(
    npx="multibox_prior",
    nd_contrib="MultiBoxPrior",
    samples=[case(f(1, 3, 2, 3), sizes=(0.5, 0.25), ratios=(1.0, 2.0))],
    **_FLAT,
    amp="full",
    onnx="multibox_prior",
)
def multibox_prior(
    data: Any,
    *,
    sizes: Any = (1.0,),
    ratios: Any = (1.0,),
    clip: bool = False,
    steps: Any = (-1.0, -1.0),
    offsets: Any = (0.5, 0.5),
) -> Any:
    """Anchor boxes around each place of a feature map (N, C, H, W): (1, H * W * boxes, 4) corners."""
    # Float32 in MXNet's order: which of two anchors an object takes that it overlaps alike, the last bits decide.
    h, w = data.shape[2:]
    f = np.float32
    step_y, step_x = (f(steps[0]), f(steps[1])) if steps[0] > 0 else (f(1) / f(h), f(1) / f(w))
    cy = (np.arange(h, dtype=f) + f(offsets[0])) * step_y
    cx = (np.arange(w, dtype=f) + f(offsets[1])) * step_x
    sizes, ratios = [  # a number is a tuple of one
        np.array(v if isinstance(v, tuple) else (v,), f) for v in (sizes, ratios)
    ]
    roots = np.sqrt(ratios)
    pairs = [(s, roots[0]) for s in sizes] + [(sizes[0], r) for r in roots[1:]]
    extents = [(s * f(h) / f(w) * r / f(2), s / r / f(2)) for s, r in pairs]
    y, x = np.meshgrid(cy, cx, indexing="ij")
    boxes = np.stack(
        [np.stack([x - bw, y - bh, x + bw, y + bh], -1) for bw, bh in extents], 2
    ).reshape(1, -1, 4)
    return jnp.asarray((np.clip(boxes, 0, 1) if clip else boxes).astype(data.dtype))


# ---------------------------------------------------------------------------- regions of interest


def _bilinear(image: Any, y: Any, x: Any) -> Any:
    """Values of an image (C, H, W) at real coordinates of any shape, zero outside by more than a pixel."""
    h, w = image.shape[1:]
    inside = (y >= -1) & (y <= h) & (x >= -1) & (x <= w)
    y, x = jnp.clip(y, 0, h - 1), jnp.clip(x, 0, w - 1)
    y0, x0 = jnp.floor(y).astype("int32"), jnp.floor(x).astype("int32")
    y1, x1 = jnp.minimum(y0 + 1, h - 1), jnp.minimum(x0 + 1, w - 1)
    wy, wx = y - y0, x - x0
    value = (
        image[:, y0, x0] * (1 - wy) * (1 - wx)
        + image[:, y0, x1] * (1 - wy) * wx
        + image[:, y1, x0] * wy * (1 - wx)
        + image[:, y1, x1] * wy * wx
    )
    return jnp.where(inside, value, 0)


def _regions(data: Any, rois: Any) -> tuple[Any, list[Any], Any]:
    """The image of each region (R, C, H, W), its corners (R,) x0, y0, x1 and y1, and the batch index that it has."""
    if rois.ndim != 2 or rois.shape[1] != 5:
        raise ValueError(
            f"rois: expected (R, 5), the number of an image and two corners, got {rois.shape}"
        )
    rois = lax.stop_gradient(rois)
    batch, *corners = (lax.index_in_dim(rois, k, 1, keepdims=False) for k in range(5))
    return data[jnp.clip(batch.astype("int32"), 0, data.shape[0] - 1)], corners, batch


_ROIS = Given([[0, 0.0, 0.0, 3.0, 3.0], [0, 1.0, 1.0, 4.0, 5.0]])


#: So many samples of a cell are added up one after the other; more by a loop.
_FEW_SAMPLES = 4


def samples_a_cell(length: Any, ratio: int) -> Any:
    """How many samples a cell of this length has along an axis: as said, or one for each pixel begun."""
    return jnp.int32(ratio) if ratio > 0 else jnp.maximum(jnp.ceil(length), 1).astype("int32")


def _cell_weights(start: Any, length: Any, cells: int, size: int, ratio: int) -> Any:
    """How much each of an axis's pixels counts in the mean of each cell's samples: (..., cells, size)."""
    count = samples_a_cell(length / cells, ratio)
    step = jnp.expand_dims(length / cells / count, -1)
    pixels = jnp.arange(size, dtype=start.dtype)
    first = jnp.expand_dims(start, -1) + jnp.arange(cells, dtype=start.dtype) * jnp.expand_dims(
        length / cells, -1
    )

    def add(k: Any, total: Any) -> Any:
        at = first + (k + 0.5) * step
        inside = (at >= -1) & (at <= size)
        if ratio < 1:
            inside &= jnp.expand_dims(k < count, -1)
        at = jnp.expand_dims(jnp.clip(at, 0, size - 1), -1)
        near = jnp.maximum(1 - jnp.abs(at - pixels), 0)
        return total + jnp.where(jnp.expand_dims(inside, -1), near, 0).astype(total.dtype)

    total = jnp.zeros((*first.shape, size), start.dtype)
    if 0 < ratio <= _FEW_SAMPLES:
        for k in range(ratio):
            total = add(k, total)
    else:
        total = lax.fori_loop(0, jnp.max(count, initial=0), add, total)
    return total / jnp.expand_dims(count, (-2, -1)).astype(start.dtype)


def cell_weights(
    corners: Any, cells: tuple[int, int], size: tuple[int, int], ratio: int, aligned: bool
) -> tuple[Any, Any]:
    """How much each row and each column of an image counts in a region's cells: (..., ph, h) and (..., pw, w).

    The samples lie on a grid, so that their mean is a product of a matrix for the rows and one for the columns.
    """
    x0, y0, x1, y1 = (corners[k] - (0.5 if aligned else 0.0) for k in range(4))
    width, height = x1 - x0, y1 - y0
    if not aligned:
        width, height = jnp.maximum(width, 1.0), jnp.maximum(height, 1.0)
    rows = _cell_weights(y0, height, cells[0], size[0], ratio)
    return rows, _cell_weights(x0, width, cells[1], size[1], ratio)


@op(
    nd_contrib="ROIAlign",
    samples=[
        case(f(1, 2, 6, 6), _ROIS, pooled_size=(2, 2), spatial_scale=1.0, sample_ratio=2),
        case(f(1, 2, 6, 6), _ROIS, pooled_size=(2, 2), spatial_scale=0.8),
    ],
    amp="widest",
    **_FLAT,
    numbers=("spatial_scale",),
    loops=True,
    typed=(0,),
    onnx="roi_align",
)
def roi_align(
    data: Any,
    rois: Any,
    *,
    pooled_size: Any,
    spatial_scale: float,
    sample_ratio: int = -1,
    position_sensitive: bool = False,
    aligned: bool = False,
) -> Any:
    """Averages of bilinear samples in the cells of regions (batch index, corners): (R, C, *pooled_size).

    ``sample_ratio`` below 1 takes one for each pixel of a cell begun. ``position_sensitive``: every cell reads a
    channel of its own, of C * ph * pw given ones (R-FCN, Dai et al. 2016). A region with a negative batch index is zero.
    """
    ph, pw = (pooled_size, pooled_size) if isinstance(pooled_size, int) else pooled_size
    if position_sensitive and data.shape[1] % (ph * pw):
        raise ValueError(
            f"position_sensitive=True needs a multiple of {ph} * {pw} channels, got {data.shape[1]}"
        )
    h, w = data.shape[2:]
    image, corners, batch = _regions(data, rois)
    rows, columns = cell_weights(
        [c * spatial_scale for c in corners], (ph, pw), (h, w), sample_ratio, aligned
    )
    rows, columns = rows.astype(data.dtype), columns.astype(data.dtype)
    if position_sensitive:
        own = image.reshape(image.shape[0], -1, ph, pw, h, w)
        means = jnp.einsum("rcijyx,riy,rjx->rcij", own, rows, columns)
    else:
        means = jnp.einsum("rcyx,riy,rjx->rcij", image, rows, columns)
    return jnp.where(jnp.expand_dims(batch < 0, (1, 2, 3)), 0, means)


@op(
    npx="roi_pooling",
    nd="ROIPooling",
    display="ROIPooling",
    samples=[case(f(1, 2, 6, 6), _ROIS, pooled_size=(2, 2), spatial_scale=1.0)],
    **_FLAT,
    numbers=("spatial_scale",),
    typed=(0,),
    onnx="roi_pooling",
)
def roi_pooling(data: Any, rois: Any, *, pooled_size: Any, spatial_scale: float) -> Any:
    """Maxima of the cells of regions (batch index, corners): (R, C, *pooled_size). A region with a negative batch index is zero."""
    ph, pw = pooled_size
    h, w = data.shape[2:]

    def cells(start: Any, stop: Any, parts: int, size: int) -> Any:
        """Which pixels (R, parts, size) belong to each part."""
        length = jnp.maximum(jnp.expand_dims(stop - start + 1, 1), 1) / parts
        start = jnp.expand_dims(start, 1)
        k = jnp.arange(parts)
        lo = jnp.clip(jnp.floor(k * length) + start, 0, size)
        hi = jnp.clip(jnp.ceil((k + 1) * length) + start, 0, size)
        at = jnp.arange(size)
        return (at >= jnp.expand_dims(lo, -1)) & (at < jnp.expand_dims(hi, -1))

    image, corners, batch = _regions(data, rois)
    x0, y0, x1, y1 = (half_away(c * spatial_scale) for c in corners)
    rows, columns = cells(y0, y1, ph, h), cells(x0, x1, pw, w)
    inside = jnp.expand_dims(rows, (2, 4)) & jnp.expand_dims(columns, (1, 3))
    image = jnp.expand_dims(image, (2, 3))
    lowest = jnp.finfo(image.dtype).min  # where MXNet begins: it passes over NaN
    top = jnp.where(jnp.expand_dims(inside, 1) & (image > lowest), image, lowest).max((-2, -1))
    there = inside.any((-2, -1)) & jnp.expand_dims(batch >= 0, (1, 2))
    return jnp.where(jnp.expand_dims(there, 1), top, 0)


# --------------------------------------------------------------------------------- sampling grids


def _sample(data: Any, grid: Any) -> Any:
    h, w = data.shape[2:]
    x, y = (grid[:, 0] + 1) * (w - 1) / 2, (grid[:, 1] + 1) * (h - 1) / 2

    def one(image: Any, y: Any, x: Any) -> Any:
        padded = jnp.pad(image, ((0, 0), (1, 1), (1, 1)))  # zeros around
        inside = (y > -1) & (y < h) & (x > -1) & (x < w)
        return jnp.where(inside, _bilinear(padded, y + 1, x + 1), 0)

    return jax.vmap(one)(data, y, x)


@op(
    nd="BilinearSampler",
    display="BilinearSampler",
    samples=[case(f(1, 2, 4, 4), f(1, 2, 3, 3, low=-0.9, high=0.9))],
    onnx="bilinear_sampler",
)
def bilinear_sampler(data: Any, grid: Any, *, cudnn_off: bool = False) -> Any:
    """Images (N, C, H, W) at the places of a grid (N, 2, h, w): x and y from -1 to 1; zero outside."""
    return _sample(data, grid)


def _from_one_side_to_the_other(n: Any) -> Any:
    """``n`` numbers from -1 to 1, as `numpy.linspace` gives them, also where the number is a symbol."""
    if not is_symbolic(n):
        return np.linspace(-1, 1, n)
    k = jnp.arange(n, dtype="float64")
    return jnp.where(k == n - 1, 1.0, k * (2.0 / jnp.asarray(n - 1, "float64")) - 1.0)


def _affine_grid(theta: Any, shape: Any) -> Any:
    h, w = shape
    if any(not is_symbolic(n) and n < 1 for n in (h, w)):
        raise ValueError(
            f"an affine grid needs its lengths, such as target_shape=(3, 4), got {tuple(shape)}"
        )
    of = jnp if is_symbolic(h) or is_symbolic(w) else np
    rows, columns = _from_one_side_to_the_other(h), _from_one_side_to_the_other(w)
    y, x = of.meshgrid(rows, columns, indexing="ij")
    at = of.stack([x.ravel(), y.ravel(), of.ones(h * w)]).astype(theta.dtype)
    count = theta.shape[0]
    return (theta.reshape(count, 2, 3) @ at).reshape(count, 2, h, w)


@op(
    nd="GridGenerator",
    display="GridGenerator",
    samples=[
        case(f(2, 6), transform_type="affine", target_shape=(3, 4)),
        case(f(1, 2, 3, 4), transform_type="warp"),
    ],
    lengths={"target_shape": int},
)
def grid_generator(data: Any, *, transform_type: str, target_shape: Any = (0, 0)) -> Any:
    """Sampling grids of affine matrices (N, 6), or of flow fields (N, 2, H, W) in pixels (``warp``)."""
    if transform_type == "affine":
        return _affine_grid(data, target_shape)
    h, w = data.shape[2:]
    y, x = np.meshgrid(np.arange(h), np.arange(w), indexing="ij")
    at = data + np.stack([x, y]).astype(data.dtype)
    scale = np.array([(w - 1) / 2, (h - 1) / 2], data.dtype).reshape(1, 2, 1, 1)
    return at / scale - 1


@op(
    nd="SpatialTransformer",
    display="SpatialTransformer",
    samples=[
        case(
            f(1, 2, 4, 4),
            Given([[0.8, 0.1, 0, 0.1, 0.7, 0.1]]),
            target_shape=(3, 3),
            transform_type="affine",
            sampler_type="bilinear",
        )
    ],
    lengths={"target_shape": int},
    required=("transform_type", "sampler_type"),
)
def spatial_transformer(
    data: Any,
    loc: Any,
    *,
    target_shape: Any = (0, 0),
    transform_type: str = "affine",
    sampler_type: str = "bilinear",
    cudnn_off: bool = False,
) -> Any:
    """Images sampled on the grid of an affine matrix (N, 6)."""
    return _sample(data, _affine_grid(loc, target_shape))
