"""Random programs give the same under every tier as in NumPy; README.md says how to run more of them, and one again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mxjax as mx
from tests.fuzz import generate, machines, model, program, shrink
from tests.fuzz.__main__ import Watch, check, quick_flags, tiers_of, told
from tests.fuzz.calls import TABLE
from tests.fuzz.program import Call, Program

START, PARTS, EACH = 1000, 10, 30


@pytest.fixture(autouse=True)
def quiet() -> None:
    mx.config.set({"engine.graph_breaks": "quiet"})


#: Compiling takes most of the time: `make fuzz` does it for each program, this test for some.
SOME = ("interpret", "auto", "compile/6", "mixed/6", "naive/15")


@pytest.mark.parametrize(
    "part", [*range(2), *(pytest.param(part, marks=pytest.mark.slow) for part in range(2, PARTS))]
)
def test_programs_give_the_same_under_every_tier(part: int) -> None:
    answers = [
        check(seed, tiers_of(seed, SOME))
        for seed in range(START + part * EACH, START + (part + 1) * EACH)
    ]
    bad = [told(a) for a in answers if "found" in a]
    assert not bad, "\n\n".join(bad)
    assert sum("invalid" in a for a in answers) <= EACH // 10
    assert sum(a["calls"] for a in answers) > 10 * EACH


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_more_programs_under_all_tiers(part: int) -> None:
    answers = [check(seed, machines.TIERS) for seed in range(5000 + part * 100, 5100 + part * 100)]
    bad = [told(a) for a in answers if "found" in a]
    assert not bad, "\n\n".join(bad)


def made(*calls: Call) -> Program:
    return Program(0, calls)


def new(name: str, *shape: int, kind: str = "unit", dtype: str = "float32") -> Call:
    return Call("array", (name,), (), {"shape": shape, "dtype": dtype, "kind": kind, "seed": 1})


def test_a_wrong_operator_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tanh that is off by a part in 100,000, among other calls."""
    row = TABLE["np.tanh"]
    monkeypatch.setattr(row, "function", lambda mx: lambda x: mx.np.tanh(x) * 1.00001)
    calls = [
        new("a", 5, 3),
        new("b", 3),
        Call("+", ("c",), ("a", "b")),
        Call("np.exp", ("d",), ("b",)),
    ]
    long = made(
        *calls,
        Call("np.tanh", ("e",), ("c",)),
        Call("*", ("f",), ("e", "d")),
        Call("read", (), ("f",), {"how": "asnumpy"}),
    )
    assert machines.failures(long, mx, ("interpret",))
    short = shrink.shrunk(long, lambda p: bool(machines.failures(p, mx, ("interpret",))))
    assert [c.row for c in short.calls] == ["array", "np.tanh"]
    assert "np.tanh(" in program.text(short)


def test_wrong_gradients_dtypes_views_and_missing_errors_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def finds(row: str, function: Any, *calls: Call) -> bool:
        with monkeypatch.context() as patch:
            patch.setattr(TABLE[row], "function", lambda mx: function)
            return bool(machines.failures(made(*calls), mx, ("interpret",)))

    recorded = [new("a", 3), Call("attach_grad", (), ("a",), {"grad_req": "write"})]
    recorded += [
        Call("record", (), (), {}, (Call("np.square", ("b",), ("a",)),)),
        Call("backward", (), ("b",)),
    ]
    assert finds("np.square", lambda x: x * x.detach(), *recorded)
    assert not finds("np.square", lambda x: x * x, *recorded)
    assert finds(
        "np.exp",
        lambda x: mx.np.exp(x).astype("float64"),
        new("a", 3),
        Call("np.exp", ("b",), ("a",)),
    )
    joined = Call("+", ("c",), ("a", "b"), fails=True)
    assert finds("+", lambda x, y: x, new("a", 3), new("b", 2), joined)
    view = [new("a", 3, 2), Call("x[i]", ("b",), ("a",), {"key": (1,)}), Call("*=", (), ("b", 2.0))]
    assert not machines.failures(made(*view), mx, ("interpret",))
    with monkeypatch.context() as patch:
        patch.setattr(TABLE["x[i]"], "run", lambda m, c: m.put(c, m.get("a")[1].copy()))
        assert machines.failures(made(*view), mx, ("interpret",))


def test_bounds_are_as_large_as_rounding_and_no_larger() -> None:
    """In float32 a sum of 4,900 numbers of size 1 may be off by 1e-5 of 4,900, a sum of whole numbers by nothing."""
    x = model.array(np.random.RandomState(0).uniform(0.5, 2, 4900), "float32")
    total = TABLE["np.sum"].apply(x)
    exact = x.val.sum()
    assert (
        abs(np.float64(x.val.astype(np.float32).cumsum(dtype=np.float32)[-1]) - exact)
        <= 2 * total.err
    )
    assert 1e-7 * exact < total.err < 2e-5 * exact
    assert TABLE["np.sum"].apply(model.array(np.arange(100), "float32")).exact
    tiny = TABLE["-"].apply(TABLE["+"].apply(model.array([0.1], "float32"), 1e6), 1e6)
    assert 0.05 < tiny.err[0] < 0.3
    with pytest.raises(model.Ambiguous):
        TABLE["np.floor"].apply(TABLE["np.exp"].apply(model.array([0.0], "float32")))


def test_a_program_hangs_by_the_time_it_computes() -> None:
    """Ten hours on a busy machine are no hang; neither are many short programs."""
    watch = Watch()
    for k in range(3600):
        assert not watch.beat(0.02 * k)
    watch.ended()
    assert not watch.beat(72 + 299)
    assert watch.beat(72 + 301).startswith("it computes")
    watch.ended()
    assert not any(watch.beat(373) for _ in range(Watch.WAITS - 1))
    assert watch.beat(373).startswith("it waits")


def test_quick_programs_are_those_of_the_engine() -> None:
    assert "--xla_backend_optimization_level=0" in quick_flags().split()


def test_programs_use_most_of_the_table() -> None:
    rows = {c.row for seed in range(300) for c in program.every(generate.program(seed, mx).calls)}
    assert len(rows) > 0.9 * len(TABLE), sorted(set(TABLE) - rows)


def test_programs_of_a_seed_are_the_same() -> None:
    assert program.text(generate.program(7, mx)) == program.text(generate.program(7, mx))


def test_the_readme_names_the_files() -> None:
    folder = Path(__file__).parent
    text = (folder / "README.md").read_text()
    assert not [p.name for p in folder.glob("*.py") if p.name not in text]
