"""The table of what was measured of convolutions: what it serves, and that every form in it is the convolution."""

from __future__ import annotations

import json
from functools import partial

import jax
import numpy as np
import pytest
from jax import lax

from benchmarks import tune_convolutions as tune
from mxjax.ops.lowering import convolution_plan as plans
from mxjax.ops.lowering import measured
from mxjax.ops.lowering.convolution_forms import primitives
from mxjax.ops.lowering.convolution_plan import PLAIN, Shape, admissible, choose

ENTRIES = json.loads(measured.FILE.read_text("utf-8"))
ONES = (1, 1), (1, 1), (1, 1)
KNOWN = {
    "lax",
    "cols",
    "abreast",
    "winograd",
    "shifts",
    "wide",
    "narrow",
    *(f"blocks{n}" for n in range(1, 9)),
}


@pytest.fixture
def rows(monkeypatch):
    """Rows in the place of the file's."""
    found = {}
    monkeypatch.setattr(measured, "rows", lambda: found)
    monkeypatch.setattr(plans, "convolves_in_one_thread", lambda: False)
    monkeypatch.setattr(plans, "cores", lambda: 1)
    measured.times.cache_clear()
    yield found
    measured.times.cache_clear()


def test_the_file_says_where_and_when_and_has_what_the_tool_writes():
    assert {measured.version(e["jaxlib"]) for e in ENTRIES} >= {(0, 10)}
    assert tune.json_of(ENTRIES) == measured.FILE.read_text("utf-8")
    for entry in ENTRIES:
        about = "platform", "features", "jaxlib", "cores", "processor", "date"
        assert all(entry[k] for k in about)
        seen = set()
        for row in entry["rows"]:
            key = json.dumps(
                [row[k] for k in ("images", "filters", "kernel", "stride", "groups", "dtype")]
            )
            assert key not in seen
            seen.add(key)
            *passes, shared = (row["ms"].get(k, {}) for k in (*plans.Plan._fields, "shared"))
            assert all(ms and set(ms) <= KNOWN for ms in passes), row
            assert all(t > 0 for ms in passes for t in ms.values()) and shared != 0


def of(features, jaxlib, cores=1):
    return {"platform": "cpu", "features": features, "jaxlib": jaxlib, "cores": cores}


def test_an_entry_is_for_its_instructions_and_the_jaxlib_before():
    entries = [of(["avx2"], "0.10.2"), of(["avx2", "avx512f"], "0.10.1"), of(["avx2"], "0.12.0")]
    both = frozenset({"avx2", "avx512f"})
    assert measured.entry(entries, both, "0.11.1", 1) is entries[1]
    assert measured.entry(entries, frozenset({"avx2"}), "0.11.1", 1) is entries[0]
    assert measured.entry(entries, both, "0.12.0.1", 1) is entries[2]
    assert measured.entry(entries, both, "0.9.0", 1) is entries[1]
    assert measured.entry(entries, frozenset(), "0.12.0", 1) is None


def test_an_entry_of_several_cores_is_for_about_as_many():
    one, two, eight = (of(["avx2"], "0.10.2", n) for n in (1, 2, 8))
    entries = [of(["avx2"], "0.11.0"), one, two, eight]
    for cores, found in ((1, one), (2, two), (3, two), (4, two), (6, eight), (16, eight)):
        assert measured.entry(entries, frozenset({"avx2"}), "0.10.2", cores) is found
    assert measured.entry([one, two], frozenset({"avx2"}), "0.10.2", 5) is None
    assert measured.entry([one], frozenset({"avx2"}), "0.10.2", 2) is None


def form(rows, ms, images=(8, 20, 20, 32), filters=32, shared=0.0, **how):
    key = (3, 3), (1, 1), "one"
    rows[key] = [((8, 32, 400, 32, 1), (ms, ms, ms, shared))]
    measured.times.cache_clear()
    own = filters, 3, 3, images[-1]
    return tuple(choose("cpu", how.pop("dtype", "float32"), images, own, *ONES, **how))


def test_what_was_measured_decides_for_shapes_like_it(rows):
    ms = {"lax": 2.0, "winograd": 1.0, "cols": 1.5}
    assert form(rows, ms) == ("winograd",) * 3
    assert form(rows, ms, (9, 22, 20, 40), 28) == ("winograd",) * 3
    # The usual form stays where another one gains little, or where it was not measured.
    usual = form(rows, {})
    assert form(rows, {"lax": 1.0, "winograd": 0.96, "cols": 0.97}) == usual
    assert form(rows, {"winograd": 1.0}) == usual
    for other in (
        form(rows, ms, (1, 20, 20, 32)),
        form(rows, ms, (8, 40, 40, 32)),
        form(rows, ms, filters=60),
        form(rows, ms, lean=True),
        form(rows, ms, dtype="float64"),
    ):
        assert "winograd" not in other
    key = (3, 3), (1, 1), "one"
    assert choose("gpu", "float32", (8, 20, 20, 32), (32, 3, 3, 32), *ONES) == PLAIN
    assert (
        choose("cpu", "float32", (8, 20, 20, 32), (32, 3, 3, 32), (1, 1), (2, 2), (1, 1))
        != ("winograd",) * 3
    )
    assert rows.keys() == {key}


def test_a_form_that_this_machine_does_not_admit_is_never_taken(rows):
    ms = {"lax": 2.0, "abreast": 0.5, "cols": 1.0}
    assert "abreast" not in form(rows, ms)  # of more channels than it is for
    many = {"lax": 2.0, "cols": 0.1}
    large = (8, 400, 400, 32)
    rows[(3, 3), (1, 1), "one"] = [((8, 32, 160_000, 32, 1), (many, many, many, 0.0))]
    measured.times.cache_clear()
    # More patches than this for the value; its weight's gradient makes them piece by piece.
    assert choose("cpu", "float32", large, (32, 3, 3, 32), *ONES) == ("lax", "lax", "cols")


def test_patches_that_two_passes_share_are_made_where_both_together_are_faster(rows):
    ms = {"lax": 1.0, "cols": 1.2, "winograd": 3.0}
    assert form(rows, ms, shared=1.5) == ("cols", "lax", "cols")
    assert form(rows, ms, shared=2.1)[0] == "lax"


def test_of_groups_the_number_of_convolutions_is_measured(rows):
    key = (3, 3), (1, 1), "few"
    ms = {"blocks1": 2.0, "blocks2": 1.0, "blocks4": 0.5}
    rows[key] = [((8, 32, 400, 32, 4), (ms, ms, ms, 0.0))]
    images, own = (8, 20, 20, 32), (32, 3, 3, 8)
    assert choose("cpu", "float32", images, own, *ONES, 4) == ("blocks4",) * 3
    # Eight are not a part of four groups.
    ms["blocks8"] = 0.1
    measured.times.cache_clear()
    assert choose("cpu", "float32", images, own, *ONES, 4) == ("blocks4",) * 3


ODD = [
    ((3, 9, 11, 5), (7, 3, 3), 1, (1, 1), 1),
    ((2, 7, 5, 3), (4, 5, 5), 2, (2, 2), 1),
    ((1, 1, 1, 6), (3, 1, 1), 1, (0, 0), 1),
    ((2, 1, 1, 4), (5, 3, 3), 1, (1, 1), 1),
    ((2, 9, 16, 12), (8, 3, 3), 1, (1, 1), 1),
    ((2, 7, 6, 12), (12, 3, 3), 2, (1, 1), 4),
    ((2, 7, 6, 6), (6, 3, 3), 1, (1, 1), 6),
    ((1, 1, 1, 4), (8, 1, 1), 1, (0, 0), 2),
]


@pytest.mark.parametrize("images,weight,stride,pad,groups", ODD)
def test_every_form_that_may_be_measured_is_the_convolution(
    rows, images, weight, stride, pad, groups
):
    """To 1e-5 of the largest number of float64's; odd sizes, one pixel."""
    filters, *kernel = weight
    own = filters, *kernel, images[-1] // groups
    stride = (stride, stride)
    shape = Shape(images[1:3], tuple(kernel), stride, (1, 1), pad, True, False, groups)
    draw = np.random.RandomState(0)
    x, w, g = (
        draw.normal(size=s).astype("f")
        for s in (images, (filters, own[-1], *kernel), (images[0], *shape.window.out, filters))
    )

    def definition(x, w):
        pads = [(p, p) for p in pad]
        numbers = ("NHWC", "OIHW", "NHWC")
        return lax.conv_general_dilated(
            x, w, stride, pads, dimension_numbers=numbers, feature_group_count=groups
        )

    @jax.jit
    def passes(x, w, g):
        y, pull = jax.vjp(definition, x, w)
        return y, *pull(g)

    with jax.enable_x64(True):
        expected = passes(*(a.astype("float64") for a in (x, w, g)))
    forms = admissible(images, own, stride, pad, groups)
    assert all(forms)
    operands = (x, w), (g, w), (x, g)
    for name, prim, args, ways, want in zip(
        plans.Plan._fields, primitives(), operands, forms, expected, strict=True
    ):
        plans_of = [PLAIN._replace(**{name: way}) for way in ways]
        made = jax.jit(lambda *a, p=prim, q=plans_of: [p.bind(*a, plan=k, shape=shape) for k in q])
        for way, got in zip(ways, made(*args), strict=True):
            close = partial(np.testing.assert_allclose, rtol=0, err_msg=way)
            close(got, want, atol=1e-5 * abs(np.asarray(want)).max())


def test_the_tool_measures_and_writes_rows_of_which_the_newest_stays():
    case = tune.Case(2, 8, 8, 8, 3)
    row = tune.measure(case, rounds=1)
    forms = admissible((2, 8, 8, 8), (8, 3, 3, 8), (1, 1), (1, 1))
    assert [set(row["ms"][k]) for k in plans.Plan._fields] == [set(ways) for ways in forms]
    assert row["ms"]["shared"] > 0
    other = {**row, "filters": 9}
    entries = json.loads(tune.written([], [row, other]))
    newer = json.loads(json.dumps({**row, "ms": {**row["ms"], "shared": 77.0}}))
    (entry,) = json.loads(tune.written(entries, [newer]))
    assert entry["rows"] == [json.loads(json.dumps(other)), newer]
    assert entry["features"] and entry["date"] and entry["processor"]
