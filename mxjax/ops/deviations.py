"""Where rows knowingly differ from MXNet: their column `deviates`, a sentence for each kind of call.

``(sentence, rows, calls)``; the calls are those that MXNet's answers are recorded of (tests/record/table.py): ``sample``
(the row's samples), a dtype, ``special`` (NaN and infinities), ``empty``, ``one``, ``scalar``, ...; ``*`` is any. tests/ops/test_recorded_table.py
holds each row to all that is not named here.
"""

from __future__ import annotations

from .table import TABLE

WHOLES = "int8 int32 int64 uint8 bool"
DEVIATIONS: tuple[tuple[str, str, str], ...] = (
    ("MXNet's derivative is zero, for it has none there; here it is the derivative.",
     "atleast_1d atleast_2d atleast_3d linalg_eigh linalg_eigvalsh percentile quantile", "*"),
)  # fmt: skip


def enter() -> None:
    """Fill the column of the rows, which are all there by then."""
    for sentence, rows, calls in DEVIATIONS:
        for row in rows.split():
            TABLE[row].deviates = {**TABLE[row].deviates, **dict.fromkeys(calls.split(), sentence)}
