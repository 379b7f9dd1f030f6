"""Every row of the operator table, on the samples it carries.

What a row does is the same alone, in a segment with many others and inside jax.jit; it agrees with the
NumPy function it names, and its gradient with finite differences. tests/ops/test_recorded.py holds it to MXNet.
"""

import warnings
import zlib
from functools import cache

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax.array.classes import NDArray, ndarray
from mxjax.array.invoke import call
from mxjax.core.graph.jaxprs import bodies
from mxjax.ops import TABLE
from mxjax.ops.samples import Body, Given

ROWS = [pytest.param(op, id=name) for name, op in sorted(TABLE.items())]


def kind(op):
    """The class of arrays that the row's front end works on."""
    fronts = set(op.names.fronts)
    return NDArray if op.legacy or (fronts and all(f.startswith("nd") for f in fronts)) else ndarray


def draw(op, case, number, wide=False):
    """The case's arguments as NumPy arrays; ``wide`` makes floats float64."""
    rng = np.random.RandomState(zlib.crc32(f"{op.name}{number}".encode()) & 0x7FFFFFFF)
    args = [a.draw(rng) if hasattr(a, "draw") else a for a in case.args]
    return [a.astype("float64") if wide and is_float(a) else a for a in args]


def is_float(a):
    return isinstance(a, np.ndarray) and a.dtype.kind == "f"


def live(op, args):
    make = mx.nd.array if kind(op) is NDArray else mx.np.array
    return [make(a, dtype=a.dtype) if isinstance(a, np.ndarray) else a for a in args]


def run(op, args, attrs):
    """The results as a list of arrays; random rows start from the same seed each time."""
    if op.keyed:
        mx.random.seed(3)
    attrs = {k: v.graph() if isinstance(v, Body) else v for k, v in attrs.items()}
    out = call(op, kind(op), tuple(args), attrs)
    return list(out) if isinstance(out, (list, tuple)) else [out]


def numbers(outs):
    return [o.asnumpy() for o in outs]


def same(got, want, what):
    assert len(got) == len(want), what
    for g, w in zip(got, want, strict=True):
        assert g.shape == np.shape(w) and g.dtype == w.dtype, what
        g, w = np.asarray(g, "float64"), np.asarray(w, "float64")
        atol = 2e-6
        if (
            what.startswith("quantized_elemwise") and w.size
        ):  # codes of 32 bits, summed in float32: 1e9 may cancel
            atol = max(atol, float(np.finfo("float32").eps * np.abs(w).max()))
        np.testing.assert_allclose(g, w, rtol=2e-5, atol=atol, err_msg=what)


@cache
def alone(op):
    """The results of the row's samples, in a segment of its own."""
    mx.waitall()
    try:
        outs = [run(op, live(op, draw(op, c, k)), c.attrs) for k, c in enumerate(op.tests.samples)]
        return [numbers(o) for o in outs]
    except Exception as error:
        error.add_note(f"the row {op.name!r} alone")
        raise


def test_all_have_samples_and_a_docstring():
    """The samples are run by the test of their group, alone first."""
    without = [op.name for op in TABLE.values() if not op.tests.samples]
    assert not without, "these rows name no samples; see mxjax/ops/samples.py"
    assert not [op.name for op in TABLE.values() if not op.doc]


GROUP = 40
GROUPS = [ROWS[k : k + GROUP] for k in range(0, len(ROWS), GROUP)]


@pytest.mark.parametrize("rows", GROUPS, ids=lambda rows: rows[0].id)
def test_bulk_and_jit_agree_with_single_calls(rows):
    """Many rows in one segment, and many rows inside one jax.jit of the user."""
    rows = [p.values[0] for p in rows]
    want = {op.name: alone(op) for op in rows}
    for op in rows:
        for c, results in zip(op.tests.samples, want[op.name], strict=True):
            attrs = {k: v.graph() if isinstance(v, Body) else v for k, v in c.attrs.items()}
            assert op.count_outputs(attrs, len(c.args)) == len(results), op.name
    given = {
        op.name: [live(op, draw(op, c, k)) for k, c in enumerate(op.tests.samples)] for op in rows
    }
    outs = {
        op.name: [
            run(op, x, c.attrs) for x, c in zip(given[op.name], op.tests.samples, strict=True)
        ]
        for op in rows
    }
    for op in rows:
        for got, w in zip(outs[op.name], want[op.name], strict=True):
            same(numbers(got), w, op.name)

    rows = [
        op
        for op in rows
        if not op.keyed and any(is_float(a) for a in draw(op, op.tests.samples[0], 0))
    ]
    # Made anew: some rows wrote new states into theirs.
    fresh = {op.name: live(op, draw(op, op.tests.samples[0], 0)) for op in rows}
    arrays = [[a.jax if isinstance(a, NDArray) else None for a in fresh[op.name]] for op in rows]

    def traced(arrays):
        made = []
        for op, xs in zip(rows, arrays, strict=True):
            make = mx.nd.from_jax if kind(op) is NDArray else mx.np.from_jax
            args = [g if x is None else make(x) for g, x in zip(fresh[op.name], xs, strict=True)]
            made.append([o.jax for o in run(op, args, op.tests.samples[0].attrs)])
        return made

    with jax.enable_x64(True):
        program = jax.jit(traced).trace(arrays)
        for op, got in zip(rows, program.lower().compile()(arrays), strict=True):
            same([np.asarray(o) for o in got], want[op.name][0], op.name)
    loops = {str(name).partition("/")[0] for name in scopes_of_loops(program.jaxpr.jaxpr)}
    assert loops <= {op.display for op in rows if op.loops}, "these rows have to say loops=True"


def scopes_of_loops(jaxpr):
    """The scopes of a jaxpr's equations that are loops, or have them in their bodies."""
    for e in jaxpr.eqns:
        inner = [scope for body in bodies(e.params) for scope in scopes_of_loops(body)]
        if inner or e.primitive.name in ("scan", "while"):
            yield e.source_info.name_stack


@pytest.mark.parametrize("op", [p for p in ROWS if p.values[0].tests.ref is not None])
def test_agrees_with_numpy(op):
    for k, case in enumerate(op.tests.samples):
        args = draw(op, case, k)
        got = numbers(run(op, live(op, args), case.attrs))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = op.tests.ref(*args, **case.attrs)
        want = list(want) if isinstance(want, (tuple, list)) else [want]
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            assert g.shape == np.shape(w)
            np.testing.assert_allclose(
                g.astype("float64"), np.asarray(w, "float64"), rtol=2e-5, atol=2e-6
            )


def moving(case):
    """Whether the case has numbers to vary: labels and the like are given exactly."""
    return any(
        not isinstance(a, Given) and is_float(x) and x.size
        for a in case.args
        if hasattr(a, "draw")
        for x in [a.draw(np.random.RandomState(0))]
    )


def smooth_rows():
    for p in ROWS:
        op = p.values[0]
        if op.tests.smooth and op.differentiable and any(moving(c) for c in op.tests.samples or ()):
            yield p


#: These read one triangle of a symmetric matrix; their gradient is symmetric, as MXNet's, and so are the directions.
OF_TRIANGLES = ("la_potrf", "linalg_cholesky")


@pytest.mark.parametrize("op", smooth_rows())
def test_gradient(op):
    """The derivative along a random direction, against the difference quotient."""
    number, case = next((k, c) for k, c in enumerate(op.tests.samples) if moving(c))
    args = draw(op, case, number, wide=True)
    rng = np.random.RandomState(5)
    direction = [
        rng.uniform(-1, 1, a.shape) if is_float(a) and not isinstance(s, Given) else None
        for a, s in zip(args, case.args, strict=True)
    ]
    if op.name in OF_TRIANGLES:
        direction = [d + d.T for d in direction]

    def at(step):
        moved = [
            a if d is None else np.asarray(a + step * d)
            for a, d in zip(args, direction, strict=True)
        ]
        with mx.autograd.train_mode():
            return numbers(run(op, live(op, moved), case.attrs))

    xs = live(op, args)
    for x, d in zip(xs, direction, strict=True):
        if d is not None:
            x.attach_grad()
    with mx.autograd.record():
        outs = [o for o in run(op, xs, case.attrs) if np.dtype(o.dtype).kind == "f"]
    make = mx.nd.array if kind(op) is NDArray else mx.np.array
    heads = [rng.uniform(-1, 1, o.shape).astype(o.dtype) for o in outs]
    mx.autograd.backward(outs, [make(h, dtype=h.dtype) for h in heads])
    slope = sum(
        float((x.grad.asnumpy() * d).sum())
        for x, d in zip(xs, direction, strict=True)
        if d is not None
    )
    exact = all(np.dtype(o.dtype) == "float64" for o in outs)
    h = 1e-6 if exact else 1e-3
    sides = [[o for o in at(s) if o.dtype.kind == "f"] for s in (h, -h)]
    quotient = sum(
        float(((a.astype("float64") - b) * v).sum()) / (2 * h)
        for a, b, v in zip(*sides, heads, strict=True)
    )
    assert slope == pytest.approx(
        quotient, rel=1e-5 if exact else 5e-3, abs=1e-6 if exact else 5e-3
    )
