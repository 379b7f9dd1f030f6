"""The column ``numbers``: arguments whose numbers may change from call to call without compiling anything.

A row's results with its numbers as operands are those with the numbers baked in.
"""

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax.array.classes import NDArray, ndarray
from mxjax.array.invoke import call
from mxjax.core import aval, default_device, local, rng
from mxjax.core.run import scheduler
from mxjax.ops import TABLE
from mxjax.ops.samples import Body

pytestmark = pytest.mark.programs

ROWS = [op for _, op in sorted(TABLE.items()) if op.numbers]
# Draws for another array's shape have the samplers, loops that take long to compile, of draws for a given one.
TWINS = [op for op in ROWS if op.keyed and op.name.endswith("_like")]
OTHERS = [op for op in ROWS if op not in TWINS]
GROUPS = [OTHERS[k : k + 16] for k in range(0, len(OTHERS), 16)]
LAST = 7  # the value that is compiled in when it comes first, and an operand when it comes again
# Numbers that a row's samples do not have, and steps that keep a range as long as it is.
GIVEN = {
    "clip": dict(a_min=-0.5, a_max=0.5),
    "clip@nd": dict(a_min=-0.5, a_max=0.5),
    "nan_to_num": dict(nan=0.5, posinf=3.0, neginf=-3.0),
    "arange": dict(start=1, stop=9),
    "arange@nd": dict(start=1, stop=9),
    "interp": dict(left=-1.0, right=2.0),
    "unwrap": dict(period=6.0),
    "one_hot": dict(on_value=2.0, off_value=0.5),
    "linalg_pinv": dict(rtol=1e-4),
    "linalg_matrix_rank": dict(rtol=1e-4),
    "rnn": dict(p=0.5, lstm_state_clip_min=-0.5, lstm_state_clip_max=0.5),
    "random_bernoulli": dict(prob=0.6),
    "isclose": dict(rtol=0.3, atol=0.2),
    "softmax": dict(temperature=2.0),
    "fill_diagonal": dict(val=7.0),
    "index_add": dict(val=7.0),
    "index_update": dict(val=7.0),
}


def names_of(op):
    """The parameters that ``numbers`` means: attributes, and arrays in whose place a number may stand."""
    return [n if isinstance(n, str) else op.array_params[n - 3 * op.keyed] for n in op.numbers]


def plan(op):
    """A sample's arrays, its attributes, and the first value of each number that moves."""
    names = names_of(op)
    best, most = None, -1
    for case in op.tests.samples:
        args = dict(zip(op.array_params, case.args, strict=False))
        there = {**op.defaults, **op.attr_defaults, **args, **case.attrs}
        found = {n: there[n] for n in names if type(there.get(n)) in (int, float)}
        if len(found) > most:
            best, most = (case, found), len(found)
    case, found = best
    found = {**found, **GIVEN.get(op.name, {})}
    if op.name.startswith("arange"):
        found.pop("step", None)
    if op.name.endswith("softmax") or "softm" in op.name:
        found["temperature"] = 2.0
    return case, {n: v for n, v in found.items() if n in names}


def value(first, k):
    if type(first) is int:
        return first + k
    return first * (1 - 0.03 * k) if first else 0.05 * k


def arguments(op, case, moved):
    """Arrays as NumPy's, numbers in the places of arrays, and attributes."""
    state = np.random.RandomState(3)
    args = [a.draw(state) if hasattr(a, "draw") else a for a in case.args]
    attrs = {k: v.graph() if isinstance(v, Body) else v for k, v in case.attrs.items()}
    for n, v in moved.items():
        if n in op.array_params:
            at = op.array_params.index(n)
            args += [op.defaults.get(p) for p in op.array_params[len(args) : at + 1]]
            args[at] = v
        else:
            attrs[n] = v
    return args, attrs


def baked(op, args, attrs):
    """The results of a call with its numbers in it, by a function to be compiled with others."""
    holes = tuple(
        (k + 3 * op.keyed, a) for k, a in enumerate(args) if not isinstance(a, np.ndarray)
    )
    if op.modal:
        attrs = {**attrs, "is_train": True}
    bound = op.bind(tuple(sorted((k, _hashable(v)) for k, v in attrs.items())), holes)
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    return bound, arrays


def _hashable(v):
    return tuple(_hashable(x) for x in v) if isinstance(v, (list, tuple)) else v


def front(op, args, attrs):
    """The call through its front end, in training mode; its results, without what it writes back."""
    fronts = set(op.names.fronts)
    cls = NDArray if op.legacy or (fronts and all(f.startswith("nd") for f in fronts)) else ndarray
    make = mx.nd.array if cls is NDArray else mx.np.array
    mx.random.seed(3)
    with mx.autograd.train_mode():
        out = call(
            op,
            cls,
            [make(a, dtype=a.dtype) if isinstance(a, np.ndarray) else a for a in args],
            attrs,
        )
    return out if isinstance(out, list) else [out]


@pytest.mark.parametrize(
    "rows", [*GROUPS, pytest.param(TWINS, marks=pytest.mark.slow)], ids=lambda rows: rows[0].name
)
def test_new_numbers_compile_nothing(rows, monkeypatch):
    """The third value and those after it; many rows in one program, for a program of each takes long to compile.

    The first value, which is a constant of its call, is computed by NumPy: its program would be another one."""
    scheduler.forget()  # there is room for all of these programs
    monkeypatch.setattr(
        local.st, "steady", True
    )  # each is compiled when it is there, as in a trainer's step
    for op in rows:
        op.calls.clear()  # numbers that came before are taken for constants
    plans = {op: plan(op) for op in rows}
    for op, (_, first) in plans.items():
        assert first, f"no sample of {op.name} has a number for {names_of(op)}; add one to GIVEN"

    def given(op, k):
        case, first = plans[op]
        return arguments(op, case, {n: value(v, k) for n, v in first.items()})

    got, constant = [], {}
    for at, k in enumerate((LAST, 0, 1, 2, 3, 4, 5, LAST)):
        if at == 3:
            before = mx.engine.stats()["compiled"]
        made = []
        with mx.config.scope(engine_cold="compile" if at else "interpret"):
            for op in rows:
                made.append(front(op, *given(op, k)))
                if at == 0:
                    step = local.st.seg.step.call
                    constant[op] = step is not None and step.row is op and not step.varying
            got.append([[o.asnumpy() for o in outs] for outs in made])
    assert mx.engine.stats()["compiled"] == before

    # A learning rate and the like never are constants in a call: those are compiled in by hand.
    others = [op for op in rows if not constant[op]]
    want = dict(
        zip(others, by_hand([(op, *baked(op, *given(op, LAST))) for op in others]), strict=True)
    )
    for op, first, last in zip(rows, got[0], got[-1], strict=True):
        # What is written back comes after the results.
        for a, b in zip(last, want.get(op, first), strict=False):
            assert a.dtype == b.dtype and a.shape == b.shape, op.name
            np.testing.assert_allclose(
                np.asarray(a, "float64"),
                np.asarray(b, "float64"),
                rtol=2e-5,
                atol=2e-6,
                err_msg=op.name,
            )


def by_hand(calls):
    """The results of these (row, bound call, arrays), of one program."""
    if not calls:
        return []
    mx.random.seed(3)
    key = [np.asarray(rng.stream(default_device()).key.arr), np.int64(0), np.int64(0)]

    def all_of_them(arrays):
        made = [
            bound.fn(*(key if op.keyed else ()), *x)
            for (op, bound, _), x in zip(calls, arrays, strict=True)
        ]
        return [m if isinstance(m, (tuple, list)) else [m] for m in made]

    with jax.enable_x64(True):
        return jax.jit(all_of_them)([x for _, _, x in calls])


DTYPES = ("float16", "float64", "int32")


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_do_not_change(dtype):
    """Shapes and dtypes of the results are those with the numbers baked in, ints and floats alike.

    Each row meets each dtype and each kind of number, each dtype both kinds (a row and its form of nd in turns).
    """
    seen = 0
    for at, op in enumerate(ROWS):
        case, first = plan(op)
        for number in ((int, float)[(at + DTYPES.index(dtype)) % 2],):
            moved = {n: number(v) for n, v in first.items()}
            bound, arrays = baked(op, *arguments(op, case, moved))
            free = op.bind_moving(
                bound.attrs, bound.constants, tuple(n for n in op.numbers if _in(n, bound))
            )
            device = default_device()
            avals = [
                aval(a.shape, dtype if a.dtype == "float32" else a.dtype, device) for a in arrays
            ]
            key = (rng.stream(device).key.aval, "q", "q") if op.keyed else ()
            try:
                want, _ = bound.infer((*key, *avals), device)
            except (TypeError, ValueError):
                continue  # it takes no such arrays, or no such numbers
            kinds = ["d" if number is float else "q" for _ in free.varying]
            got, _ = free.infer((*key, *avals, *kinds), device)
            assert got == want, (op.name, moved)
            seen += 1
    assert seen > 100


def _in(name, bound):
    return any(name == k for k, _ in (*bound.attrs, *bound.constants))


@pytest.mark.parametrize("cold", ["interpret", "compile"])
def test_whole_numbers_beyond_a_dtype_are_what_mxnet_makes_of_them(cold):
    """Its numbers are doubles, which C converts by way of int32: its lowest one beyond that (MXNet 2.0.0b1)."""
    with mx.config.scope(engine_cold=cold):
        for dtype, number, equal, less in [
            ("int32", 2**40, [0, 0, 0, 0], [0, 0, 0, 0]),
            ("int32", -(2**40), [0, 0, 0, 0], [0, 0, 0, 0]),
            ("int8", 2**40, [1, 0, 0, 0], [0, 0, 1, 0]),
            ("int8", 300, [0, 0, 0, 0], [1, 1, 1, 0]),
            ("uint8", -1, [0, 0, 1, 0], [1, 1, 0, 1]),
            ("uint8", 256, [1, 0, 0, 0], [0, 0, 0, 0]),
            ("int64", 2**40, [0, 0, 0, 0], [1, 1, 1, 1]),
        ]:
            x = mx.np.array([0, 1, 255 if dtype == "uint8" else -1, 100], dtype=dtype)
            assert (x == number).asnumpy().tolist() == equal, (dtype, number)
            assert (x < number).asnumpy().tolist() == less, (dtype, number)
        zeros = mx.np.zeros(2, dtype="int32")
        assert (zeros + 2**40).asnumpy().tolist() == [-(2**31)] * 2
        assert mx.np.full_like(zeros, 2**40).asnumpy().tolist() == [-(2**31)] * 2
        assert mx.np.full(2, 2**40 + 5, dtype="int32").asnumpy().tolist() == [5, 5]


@pytest.mark.parametrize("cold", ["interpret", "compile"])
def test_numbers_beyond_a_dtype_are_written_as_mxnet_writes_them(cold):
    """A number into a part is C's double, into all of an array and at places of an array an int (MXNet 2.0.0b1)."""
    low, pair, some = -(2**31), slice(0, 2), [0, 1]
    with mx.config.scope(engine_cold=cold):
        for dtype, key, value, expected in [
            ("int32", 0, 2**40, [low, 0, 0]),
            ("int32", 0, -(2**40) - 3, [low, 0, 0]),
            ("int32", pair, 2**33 + 5, [low, low, 0]),
            ("int32", slice(None), 2**33 + 5, [5, 5, 5]),
            ("int32", some, 2**33 + 5, [5, 5, 0]),
            ("int32", 0, 1e20, [low, 0, 0]),
            ("int32", slice(None), float("nan"), [low] * 3),
            ("int32", some, float("inf"), [low, low, 0]),
            ("int32", 0, np.int64(2**40), [low, 0, 0]),
            ("int32", slice(None), np.array([1e20, np.nan, -2.7]), [low, low, -2]),
            ("int32", slice(None), [1.5, 2e10, -3], [1, -1474836480, -3]),
            ("int32", some, np.array([3e9, -3e9], "float32"), [low, low, 0]),
            ("int8", 0, 1e3, [-24, 0, 0]),
            ("int8", pair, 2**33 + 5, [0, 0, 0]),
            ("int8", slice(None), 2**33 + 5, [5, 5, 5]),
            ("uint8", 0, 2**40 + 7, [0, 0, 0]),
            ("uint8", 0, -1, [255, 0, 0]),
            ("uint8", 0, 300, [44, 0, 0]),
            ("int64", 0, 1e30, [-(2**63), 0, 0]),
            ("int64", 0, 2**40, [2**40, 0, 0]),
        ]:
            x = mx.np.zeros(3, dtype=dtype)
            x[key] = value
            assert x.asnumpy().tolist() == expected, (dtype, key, value)
        x = mx.np.array([1, 2, 0], dtype="int32")
        x[x > 0] = 2**36 + 1
        assert x.asnumpy().tolist() == [low, low, 0]


@pytest.mark.parametrize("cold", ["interpret", "compile"])
def test_rounding_to_places_goes_place_by_place(cold):
    """MXNet 2.0.0b1's last bits, which printed arrays show: float32 times ten and by ten, rounded each time."""
    with mx.config.scope(engine_cold=cold):
        for given, places, expected in [
            (
                [0.83, 0.37, 0.89, 0.81, 0.12, 2.675],
                2,
                [1062501090, 1052602532, 1063507722, 1062165546, 1039516304, 1076593950],
            ),
            ([0.5, -0.5, 1.5, 2.5, -0.4], 0, [0.0, 0.0, 2.0, 2.0, -0.0]),
            ([15.0, 25.0, 35.0, -15.0, 4.0, 1e10], -1, [20.0, 20.0, 40.0, -20.0, 0.0, 1e10]),
        ]:
            bits = mx.np.array(given).round(places).asnumpy().view("uint32")
            if type(expected[0]) is float:
                expected = np.array(expected, "float32").view("uint32").tolist()
            assert bits.tolist() == expected
