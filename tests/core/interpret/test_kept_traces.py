"""Traces of calls for the next process: the same shapes, conditions and numbers, to the bit, as those JAX makes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax import core
from mxjax.core.compile import kept
from mxjax.core.interpret import kept_traces, symbolic, trace_bytes
from mxjax.core.interpret.numpy_rules import NotHere
from mxjax.ops import TABLE
from tests.core.interpret.test_symbolic import GROUPS, ROWS, operands, recorded

ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of traces, with nothing in it."""
    for name in ("_said", "_closed", "_counted"):
        monkeypatch.setattr(kept, name, type(getattr(kept, name))())
    monkeypatch.setattr(kept_traces, "_files", {})
    monkeypatch.setattr(kept_traces, "_now", None)
    mx.config.set(cache_dir=str(tmp_path))
    yield tmp_path / "programs"
    kept_traces._files.clear()
    kept_traces._now = None


@pytest.fixture
def traced(monkeypatch):
    """The calls that JAX traced."""
    seen, trace = [], symbolic._traced
    monkeypatch.setattr(
        symbolic, "_traced", lambda call, *rest: [seen.append(call), trace(call, *rest)][1]
    )
    return seen


def next_process(todo):
    """What a process that begins now has of these calls."""
    kept_traces.write()
    kept_traces._files.clear()
    kept_traces._now = None
    for call, avals, _ in todo:
        (call.forward or call).row.tries.clear()
        call.traces.clear()
        call.general(avals)[0].traces.clear()


def found(call, avals, arrays):
    """Everything that is asked of a trace."""
    b = symbolic.trace(call, avals, core.default_device())
    asked = [b.shapes(), b.many, tuple(b.size)]
    try:
        return [*asked, b.work(), b.library(), b.patches(), b.steps()], b.run(arrays)
    except NotHere as error:
        return [*asked, str(error)], []


def has_graphs(call):
    """Whether graphs that the user's Python made are among the attributes, as of loops and branches."""
    return any(hasattr(v, "steps") for _, v in call.attrs)


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def derivative(call, avals, arrays, results):
    """The call of its gradients by the operands that are floats, with operands; None where there is none."""
    wants = tuple(not isinstance(a, str) and a.dtype.kind == "f" for a in avals)
    if not any(wants) or any(r.aval.dtype.kind != "f" for r in results) or not results:
        return None
    many = symbolic.trace(call, avals, core.default_device()).many
    given = [np.asarray(core.read(r)) for r in results]
    made = call.vjp(wants, (True,) * len(results), many)
    return made, (*avals, *[r.aval for r in results]), [*arrays, *given]


@pytest.mark.parametrize(
    "names",
    [
        ROWS[::12],
        *(pytest.param(g, marks=pytest.mark.slow) for g in GROUPS),
    ],
    ids=lambda names: names[0],
)
def test_kept_traces_of_rows_are_those_of_jax(names, folder, traced):
    todo = []
    for call, inputs, results in recorded(names)[0]:
        given = operands(inputs)
        if given is None or call.graph is not None or call.effect:
            continue
        avals, arrays = given
        todo.append((call, avals, arrays))
        try:
            of = derivative(call, avals, arrays, results)
            if of is not None:
                symbolic.trace(of[0], of[1], core.default_device())
                todo.append(of)
        except Exception:  # it has none
            pass
    next_process(todo)
    before = [found(*each) for each in todo]
    assert not todo or traced
    next_process(todo)
    traced.clear()
    for each, (facts, numbers) in zip(todo, before, strict=True):
        again, got = found(*each)
        assert again == facts, each[0]
        assert len(got) == len(numbers) and all(map(same, got, numbers)), each[0]
    assert [c for c in traced if not has_graphs(c.forward or c)] == []


def test_kept_traces_of_derivatives_of_derivatives(folder, traced):
    (call, inputs, results), *_ = recorded(["tanh"])[0]
    todo = [(call, *operands(inputs))]
    for shown in (results, inputs):  # a gradient has its operand's shape
        todo.append(derivative(*todo[-1], shown))
    next_process(todo)
    before = [found(*each) for each in todo]
    next_process(todo)
    traced.clear()
    assert [found(*each)[0] for each in todo] == [facts for facts, _ in before]
    assert traced == []


PROGRAM = """
import numpy as onp
import mxjax as mx
from mxjax.core.interpret import symbolic
count, trace = [], symbolic._traced  # names: a derivative may be traced twice
symbolic._traced = lambda call, *rest: [count.append(call.name), trace(call, *rest)][1]
x = mx.nd.array(onp.arange(12.0).reshape(3, 4) / 12)
x.attach_grad()
with mx.autograd.record():
    y = mx.nd.softmax(mx.nd.FullyConnected(x, mx.nd.ones((2, 4)), num_hidden=2, no_bias=True)).log()
    z = (y * mx.nd.tanh(y) + mx.nd.erf(y)).sum()
z.backward()
print(len(set(count)), z.asnumpy().tobytes().hex(), x.grad.asnumpy().tobytes().hex())
"""


def run(folder, program=PROGRAM, **env):
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT,
        env={**os.environ, "MXJAX_ENGINE_COLD": "auto", "MXJAX_CACHE_DIR": str(folder), **env},
    )  # fmt: skip
    assert done.stderr == ""
    count, *numbers = done.stdout.split()
    return int(count), numbers


def test_the_next_process_traces_nothing(tmp_path):
    first, numbers = run(tmp_path)
    (file,) = (tmp_path / "programs").glob("*.traces")
    assert first > 5 and file.stat().st_mode & 0o777 == 0o600
    assert run(tmp_path) == (0, numbers)
    # What is damaged is as if it were not there, and is written anew.
    data = bytearray(file.read_bytes())
    data[-20] ^= 1
    file.write_bytes(data)
    assert run(tmp_path) == (first, numbers)
    assert run(tmp_path) == (0, numbers)


def test_other_settings_and_no_folder_have_no_such_traces(tmp_path):
    first, numbers = run(tmp_path)
    assert run(tmp_path, MXJAX_COMPAT_VERSION="1.9")[0] > 5
    assert run(tmp_path, MXJAX_CACHE_MODE="off") == (first, numbers)
    assert len(list((tmp_path / "programs").glob("*.traces"))) == 2


def test_numbers_are_what_they_were_and_what_cannot_be_used_is_traced_again(
    folder, traced, monkeypatch
):
    for number in (np.int32(3), np.float32(0.5), np.bool_(True), 7, 2.5, True):
        got = trace_bytes.unpacked(trace_bytes.packed((number,), (), dict), ())[0]
        assert type(got) is type(number) and got == number
    # Of the derivative of a sort axes are numbers of JAX's own.
    sort = TABLE["sort"].bind()
    square, numbers = aval(5, 5), np.random.RandomState(0).rand(5, 5).astype("float32")
    todo = [(sort.vjp((True,), (True,), False), (square, square), [numbers, numbers])]
    next_process(todo)
    facts, want = found(*todo[0])
    assert not isinstance(facts[-1], str)
    next_process(todo)
    traced.clear()
    again, got = found(*todo[0])
    assert again == facts and all(map(same, got, want)) and not traced
    # A file may hold what rules refuse.
    read = trace_bytes.unpacked

    def without_parameters(*given):
        made = read(*given)
        for e in getattr(made.closed, "jaxpr", made.closed).eqns:
            e.params.clear()
        return made

    monkeypatch.setattr(symbolic, "unpacked", without_parameters)
    next_process(todo)
    again, got = found(*todo[0])
    assert again == facts and all(map(same, got, want)) and traced


@pytest.mark.parametrize(
    "written",
    [
        [["getcwd"], ["made", 0]],
        [["__import__", "os"], ["made", 0]],
        [["_word", "os", "open", "x"], ["made", 0]],
        [["_word", "jax.numpy", "ones", "x"], ["made", 0]],
        [["_array", ["bytes", "AAAA"], 5, ["tuple", 10**12]], ["made", 0]],
        [["made", 0]],
        [["eval", "1"]],
        [],
        {"made": 0},
        7,
    ],
    ids=str,
)
def test_what_is_read_calls_nothing_else(written):
    with pytest.raises((KeyError, ValueError, TypeError, AttributeError, IndexError)):
        trace_bytes.unpacked(json.dumps(written).encode(), ())


@pytest.mark.parametrize("damage", [b"", b"x", b"0123456789abcdef\xff\xff\xff\x7fabc"], ids=repr)
def test_a_damaged_file_has_no_traces(folder, traced, damage):
    todo = [(TABLE["tanh"].bind(), (aval(3),), [np.ones(3, "float32")])]
    next_process(todo)
    before = found(*todo[0])
    kept_traces.write()
    file = kept_traces.file()
    kept.write(file._path, file._key, damage, kept.TRACES)
    next_process(todo)
    traced.clear()
    after = found(*todo[0])
    assert after[0] == before[0] and all(map(same, after[1], before[1]))
    assert len(traced) == 1


def aval(*shape):
    return core.aval(shape, np.dtype("float32"), core.default_device())


def test_rows_of_others_and_changed_ones_are_not_kept(folder, traced):
    theirs = core.row("a row of a test", lambda x: x * 2).bind()
    assert kept_traces.name_of(theirs, ()) is None
    assert kept_traces.name_of(theirs.vjp((True,), (True,), False), ()) is None
    log = TABLE["log"]
    assert kept_traces.name_of(log.bind(), ()) is not None
    before = log.fn
    try:
        log.become(lambda x: before(x) + 1)
        assert kept_traces.name_of(log.bind(), ()) is None
    finally:
        log.become(before)
    assert kept_traces.name_of(log.bind(), ()) is not None  # it is what it was


def test_attributes_decide_and_sizes_do_not(folder, traced):
    total = TABLE["sum"]
    rows = [total.bind((("axis", a),)) for a in (0, 1)]
    todo = [(call, (aval(3, 4),), [np.ones((3, 4), "float32")]) for call in rows]
    next_process(todo)
    first = [found(*each) for each in todo]
    assert [f[0][0] for f in first] == [(((4,), "float32"),), (((3,), "float32"),)]
    count = len(traced)
    next_process(todo)
    assert symbolic.trace(rows[1], (aval(5, 7),), core.default_device()).shapes()[0][0] == (5,)
    assert len(traced) == count
    # Shapes that do not fit raise as ever.
    add = TABLE["elemwise_add"].bind()
    two = [(add, (aval(3, 4), aval(3, 4)), [np.ones((3, 4), "float32")] * 2)]
    found(*two[0])
    next_process(two)
    with pytest.raises(Exception, match="shape"):
        symbolic.trace(add, (aval(3, 4), aval(3, 5)), core.default_device())
