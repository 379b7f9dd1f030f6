"""Every row against what MXNet answered to its samples and to variants of them (tests/record/table.py).

Outputs, dtypes, shapes, gradients, what changed in place, and the types of errors. What differs on purpose is the rows'
column `deviates`; besides, for all rows alike:

- where MXNet refuses a call, mxjax may compute it (more dtypes, no elements, negative axes);
- where MXNet's error is that of a slip (an attribute that None lacks, an assertion), any error is right, and so is the
  refusal of unknown arguments, of text and of shapes that do not fit which MXNet lets pass;
- a number from NumPy's function on the host is an array without axes here, on the device;
- derivatives at NaN and at infinities are nobody's concern.
"""

import builtins
import json
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax import errors
from mxjax.ops import TABLE

from ..record.draws import arguments, head, unpack

DATA = Path(__file__).parent.parent / "data"
TOLERANCE = {"float16": 4e-3, "bfloat16": 2e-2, "float32": 3e-5, "float64": 1e-8}
SLIPS = (
    "AttributeError",
    "AssertionError",
    "FloatingPointError",
    "UnboundLocalError",
    "UFuncTypeError",
    "KeyError",
)


def load():
    """The recorded cases by row and front end."""
    rows = {}
    for front in ("np", "npx", "nd"):
        for line in (DATA / f"table_{front}.json").read_text().splitlines()[1:-1]:
            case = json.loads(line.rstrip(","))
            rows.setdefault((front, case["row"]), []).append(case)
    return rows


RECORDED = load()


def name_of(x):
    return np.dtype(x.dtype).name


def differs(got, want, ignored=None):
    """What is wrong with an array, in words, or None. Numbers in places that are `ignored` are not compared."""
    bf16 = want[-1] == "bfloat16"
    dtype, shape, flat, step = unpack(want[:-1] if bf16 else want)
    name = "bfloat16" if bf16 else dtype
    if not hasattr(got, "dtype"):
        return f"a {type(got).__name__} for an array"
    if name_of(got) != name:
        return f"dtype {name_of(got)} for {name}"
    if tuple(got.shape) != shape:
        return f"shape {got.shape} for {shape}"
    g = (got.asnumpy() if hasattr(got, "asnumpy") else got).astype("float64").ravel()[::step]
    w = flat.astype("float64")
    if ignored is not None and ignored.size == g.size:
        g, w = g[~ignored], w[~ignored]
    size = np.abs(w[np.isfinite(w)]).max(initial=0)
    tol = TOLERANCE.get(name, 0)
    with np.errstate(all="ignore"):
        near = np.isclose(g, w, rtol=tol, atol=min(tol * size, 1e30), equal_nan=True)
    return None if near.all() else f"numbers {g[~near][:3].tolist()} for {w[~near][:3].tolist()}"


def array_of(module):
    def make(values, dtype):
        x = module.array(values, dtype=values.dtype)
        return x.astype("bfloat16") if dtype == "bfloat16" else x

    return make


def compare(case):
    """What differs from MXNet's answer, in words, or None."""
    legacy = case["fn"].startswith("nd")
    make = array_of(mx.nd if legacy else mx.np)
    with mx.util.np_shape(True), mx.util.np_array(not legacy):
        args, kw, arrays = arguments(case, make)
        f = mx
        for part in case["fn"].split("."):
            f = getattr(f, part)
        wanted, training = case.get("grads", {}), case["what"] == "training"
        given = [a.asnumpy() for a in arrays] if case["what"] == "special" else []
        for i in wanted:
            arrays[int(i)].attach_grad()
        if wanted or training:
            with mx.autograd.record(train_mode=training):
                out = f(*args, **kw)
        else:
            out = f(*args, **kw)
        outs = list(out) if isinstance(out, (tuple, list)) else [out]
        if "out" not in case:
            [o.asnumpy() for o in outs if hasattr(o, "asnumpy")]
            return None
        wrong = outputs_differ(case, out, outs)
        for i, w in case.get("after", {}).items():
            wrong = wrong or differs(arrays[int(i)], w)
        if wrong or not wanted:
            return wrong
        floats = [
            (k, o)
            for k, o in enumerate(outs)
            if isinstance(o, mx.nd.NDArray) and name_of(o) in TOLERANCE
        ]
        heads = [
            make(
                head(o.shape, "float32" if name_of(o) == "bfloat16" else name_of(o), k), name_of(o)
            )
            for k, o in floats
        ]
        mx.autograd.backward([o for _, o in floats], heads, train_mode=training)
        for i, w in wanted.items():
            nan = ~np.isfinite(given[int(i)].astype("float64")).ravel() if given else None
            wrong = wrong or differs(arrays[int(i)].grad, w, nan)
        return wrong and f"gradient: {wrong}"


def outputs_differ(case, out, outs):
    if isinstance(out, (tuple, list)) != case.get("many", False) or len(outs) != len(case["out"]):
        return f"{len(outs)} results for {len(case['out'])}"
    for k, (got, want) in enumerate(zip(outs, case["out"], strict=True)):
        packed = (
            isinstance(want, list)
            and len(want) >= 2
            and isinstance(want[0], str)
            and isinstance(want[1], list)
        )
        if case.get("random"):
            wrong = (
                packed
                and ([name_of(got), list(got.shape)] != want)
                and f"{name_of(got)}{got.shape} for {want}"
            )
        elif packed:
            wrong = differs(got, want)
        elif isinstance(want, (int, float)):
            number = got.item() if hasattr(got, "item") else got
            wrong = not np.isclose(
                float(number),
                float(want),
                rtol=4e-3 if case["what"] == "float16" else 3e-5,
                equal_nan=True,
            )
            wrong = wrong and f"{number} for {want}"
        else:
            wrong = False
        if wrong:
            return f"result {k}: {wrong}"
    return None


def is_meant(e, name):
    """Whether an error is of the kind that MXNet raises."""
    if name in SLIPS:
        return True
    if name in ("AxisError", "LinAlgError", "IndexError", "ValueError") and isinstance(
        e, (ValueError, IndexError)
    ):
        return True
    if name == "LinAlgError":
        return isinstance(e, errors.MXNetError)
    return isinstance(e, getattr(builtins, name, errors.MXNetError))


def verdict(case):
    """(the case's kind, what differs in words or None)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wrong = compare(case)
    except Exception as e:
        if case.get("crash"):
            return "crash", None
        if "error" in case:
            kind = f"{type(e).__name__} ({e}) for {case['error']} ({case['text']})"
            return "error", None if case["what"] == "text" or is_meant(e, case["error"]) else kind
        if case["what"] in ("keyword", "text", "mismatch"):
            return "strict", None
        return "refused", f"{type(e).__name__}: {e}"
    return ("wider" if "error" in case or case.get("crash") else "compared"), wrong


def deviation(case):
    """The sentence that says why the row may differ here, or None."""
    why = TABLE[case["row"]].deviates
    word = "sample" if case["what"].startswith("sample") else case["what"]
    words = ("*", word, case["what"].split()[0])
    return next((why[w] for w in words if w in why), None)


def check(case):
    kind, wrong = verdict(case)
    if wrong and not deviation(case):
        return f"{case['fn']} of {case['row']}, {case['what']}: {wrong}"
    return None


# The kinds of calls that are compared, of all that are recorded.
KINDS = "sample special empty scalar axis keepdims training float16 int32".split()


def compared(cases):
    """The recorded calls of a row that are compared, in an order that is random but always the same."""
    some = [c for c in cases if c["what"].split()[0] in KINDS]
    return sorted(some, key=lambda c: zlib.crc32(f"{c['row']} {c['what']}".encode()))


def wrong_of(rows, most=None):
    return [w for cases in rows for c in compared(cases)[:most] if (w := check(c))]


GROUP = 40
EVERY = [RECORDED[key] for key in sorted(RECORDED)]
GROUPS = [EVERY[k : k + GROUP] for k in range(0, len(EVERY), GROUP)]


@pytest.mark.parametrize("rows", GROUPS, ids=lambda rows: rows[0][0]["fn"])
def test_a_call_of_each_row(rows):
    assert not wrong_of(rows, most=1)


@pytest.mark.slow  # three minutes: each dtype and shape is traced, with its gradient
@pytest.mark.parametrize("rows", GROUPS, ids=lambda rows: rows[0][0]["fn"])
def test_all_calls_of_each_row(rows):
    assert not wrong_of(rows)


def test_compiled_programs_give_the_same():
    elementwise = [c for c in EVERY if c[0]["fn"].split(".")[0] == "np"][::29]
    with mx.config.scope(engine_cold="compile"):
        assert not wrong_of(elementwise, most=1)


def test_how_much_is_recorded():
    """At least eight calls of a row on average, in files that are no burden."""
    count = sum(len(cases) for cases in EVERY)
    assert count >= 8 * len({row for _, row in RECORDED})
    assert (
        sum((DATA / f"table_{front}.json").stat().st_size for front in ("np", "npx", "nd")) < 25e6
    )


def test_differences_are_noticed():
    case = next(c for c in RECORDED["np", "exp"] if c["what"] == "sample 0")
    assert check(case) is None
    assert "shape" in check(
        {**case, "what": "sample 9", "seed": 1, "args": [{**case["args"][0], "shape": [2, 2]}]}
    )
    assert "numbers" in check({**case, "seed": case["seed"] + 1})
