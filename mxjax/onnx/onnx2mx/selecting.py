"""Operators whose results have as many rows as the numbers say: NonZero, NonMaxSuppression."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxjax.symbol.node import Entry, Node

from .reader import Reader, Step, Value, reads, room


def _places(r: Reader, s: Step, x: Entry) -> Entry:
    """Where numbers are that are not zero: a row for each."""
    return Node(
        r.fresh(f"{s.title}_places"),
        None,
        {},
        {},
        [x],
        ["data"],
        registry="_npx_nonzero",
        is_np=True,
    ), 0


@reads("NonZero")
def nonzero(r: Reader, s: Step) -> Value:
    return s.make("transpose", _places(r, s, s[0]), axes=(1, 0))


@reads("NonMaxSuppression")
def suppression(r: Reader, s: Step) -> Value:
    boxes, classes = ((s.shape(k) or (None, None))[1] for k in (0, 1))
    if boxes is None or classes is None:
        raise s.refused("how many boxes and classes there are is not known")

    def number(k: int, default: float, what: str) -> Any:
        return s.numbers(k, what).reshape(-1)[0] if s.has(k) else default

    most = int(number(2, 0, "how many boxes of a class are taken"))
    overlap, least = (
        number(3, 0.0, "the overlap's threshold"),
        number(4, -np.inf, "the score's threshold"),
    )
    if most < 1:
        raise s.refused("it takes no boxes: max_output_boxes_per_class is 0, its default")
    corners = s[0]
    if not s.get("center_point_box", 0):
        # Two corners, whichever they are: the smaller and the larger numbers of them.
        one, two = (s.make("slice_axis", corners, axis=-1, begin=b, end=b + 2) for b in (0, 2))
        corners = s.make(
            "concatenate", s.make("minimum", one, two), s.make("maximum", one, two), axis=-1
        )
    spread = s.make("expand_dims", corners, axis=1)
    spread = s.make("repeat", spread, repeats=classes, axis=1)
    scores = s.make("expand_dims", s[1], axis=-1)
    # Each box's number goes along, so that it is known after the boxes have been sorted.
    zero = s.make("multiply", scores, 0.0)
    room(s.wish, boxes)
    own = s.make("add", zero, s.parameter("numbers", np.arange(boxes, dtype=np.float32)[:, None]))
    rows = s.make("concatenate", scores, spread, own, axis=-1)
    kept = s.several(
        "box_nms", [rows], overlap_thresh=float(overlap), valid_thresh=float(max(least, np.finfo(np.float32).min)),
        topk=-1, coord_start=1, score_index=0, id_index=-1, force_suppress=True,
        in_format="center" if s.get("center_point_box", 0) else "corner",
    )[0]  # fmt: skip
    number_of = s.make("squeeze", s.make("slice_axis", kept, axis=-1, begin=5, end=6), axis=-1)
    number_of = s.make("slice_axis", number_of, axis=2, begin=0, end=min(most, boxes))
    chosen = s.make("greater_equal", number_of, 0.0)
    places = _places(r, s, chosen)
    box = s.make("gather_nd", number_of, s.make("transpose", places, axes=(1, 0)))
    box = s.make("expand_dims", s.make("cast", box, dtype="int64"), axis=1)
    first = s.make("cast", s.make("slice_axis", places, axis=1, begin=0, end=2), dtype="int64")
    return s.make("concatenate", first, box, axis=1)
