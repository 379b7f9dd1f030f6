"""Scan, Loop and If as `foreach`, `while_loop` and `cond`, and what is computed with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mxjax.symbol import control_flow
from mxjax.symbol.node import Entry, Node
from mxjax.symbol.symbol import _Symbol

from .reader import Reader, Step, Value, reads, room


def _symbols(entries: Sequence[Entry]) -> list[Any]:
    return [_Symbol([e]) for e in entries]


def _entries(symbols: Sequence[Any]) -> list[Entry]:
    return [s._entries[0] for s in symbols]


def loop_over(
    body: Any, data: Sequence[Entry], states: Sequence[Entry]
) -> tuple[list[Entry], list[Entry]]:
    """`foreach` on entries: ``body(slices, states)`` gives (outputs, states), all of them lists of entries."""

    def step(xs: Any, now: Any) -> Any:
        outs, news = body(_entries(xs), _entries(now))
        return _symbols(outs), _symbols(news)

    outs, ends = control_flow.foreach(step, _symbols(data), _symbols(states))
    return _entries(outs), _entries(ends)


@reads("Scan")
def scan(r: Reader, s: Step) -> list[Value]:
    count = int(s.attrs["num_scan_inputs"])
    given = s.entries
    states, data = given[:-count], given[-count:]
    body = s.attrs["body"]
    outs_count = len(body.output) - len(states)

    def option(name: str, n: int) -> list[int]:
        return [int(k) for k in s.attrs.get(name, [0] * n)]

    axes, backwards = option("scan_input_axes", count), option("scan_input_directions", count)
    # Loops go over the first axis, forwards.
    data = [
        s.make("moveaxis", x, source=k, destination=0) if k else x
        for x, k in zip(data, axes, strict=True)
    ]
    data = [
        s.make("flip", x, axis=0) if back else x for x, back in zip(data, backwards, strict=True)
    ]

    def step(xs: list[Entry], now: list[Entry]) -> tuple[list[Entry], list[Entry]]:
        made = r.inside(body, [*now, *xs])
        return made[len(now) :], made[: len(now)]

    outs, ends = loop_over(step, data, states)
    backwards, axes = (
        option("scan_output_directions", outs_count),
        option("scan_output_axes", outs_count),
    )
    outs = [
        s.make("flip", x, axis=0) if back else x for x, back in zip(outs, backwards, strict=True)
    ]
    outs = [
        s.make("moveaxis", x, source=0, destination=k) if k else x
        for x, k in zip(outs, axes, strict=True)
    ]
    return [*ends, *outs]


@reads("Loop")
def loop(r: Reader, s: Step) -> list[Value]:
    body = s.attrs["body"]
    if not s.has(0):
        raise s.refused(
            "MXNet's while_loop needs a number of steps that it takes at most, and this has none"
        )
    limit = int(s.numbers(0, "how many steps it takes at most").reshape(()))
    if limit < 1 or limit >= 1 << 31:
        raise s.refused(f"it takes at most {limit} steps")
    before = [s[k] for k in range(2, len(s))]
    going = body.output[0].name
    always = not s.has(1) or (isinstance(s.value(1), np.ndarray) and bool(s.numbers(1)))
    counted = always and _same_as_before(body, going, body.input[1].name)
    count = s.parameter("count", np.zeros((), np.int64))
    flag = s.parameter("going", np.array(True)) if always else s.make("reshape", s[1], newshape=())

    def holds(*now: Any) -> Any:
        return now[1]

    def step(*now: Any) -> Any:
        at, going, *xs = _entries(now)
        made = r.inside(body, [at, going, *xs])
        after = s.make("add", at, 1)
        ends = [after, s.make("reshape", made[0], newshape=()), *made[1 : 1 + len(xs)]]
        return _symbols(made[1 + len(xs) :]), _symbols(ends)

    outs, ends = control_flow.while_loop(holds, step, _symbols([count, flag, *before]), limit)
    results = _entries(outs)
    if not counted and results:
        # MXNet has rows of zeros for the steps that were not taken, ONNX none.
        room(s.wish, limit)
        taken = s.make("less", s.parameter("rows", np.arange(limit)), _entries(ends)[0])
        for k, whole in enumerate(results):
            cut = Node(r.fresh(f"{s.title}_rows{k}"), None, {"axis": 0}, {}, [whole, taken], ["data", "index"],
                       registry="_contrib_boolean_mask", is_np=True), 0  # fmt: skip
            r.filled[cut] = whole, limit
            results[k] = cut
    return [*_entries(ends)[2:], *results]


def filled(r: Reader, s: Step) -> Entry | None:
    """For a Pad that does no more: a loop's result with its rows of zeros for the steps that were not taken."""
    whole, limit = r.filled.get(s[0], (None, 0)) if s.has(0) else (None, 0)
    if whole is None or s.get("mode", "constant") != "constant" or s.has(2) or s.has(3):
        return None
    parts = _made_by(r, s.node.input[1], "Concat")
    zeros = [name for name in parts if isinstance(r.values.get(name), np.ndarray)]
    rest = [name for name in parts if name not in zeros]
    if len(rest) != 1 or any(r.values[name].any() for name in zeros):  # type: ignore[union-attr]
        return None
    most, *there = _made_by(r, rest[0], "Sub") or [""]
    (shape, *_) = _made_by(r, there[0], "Slice") if there else [""]
    of = _made_by(r, shape, "Shape")
    known = r.values.get(most)
    if of == [s.node.input[0]] and isinstance(known, np.ndarray) and known.tolist() == [limit]:
        return whole
    return None


def _made_by(r: Reader, name: str, kind: str) -> list[str]:
    """What an operator of this kind that made a name reads; nothing where another one made it."""
    node = r.makers.get(name)
    return list(node.input) if node is not None and node.op_type == kind else []


def _same_as_before(body: Any, going: str, given: str) -> bool:
    """Whether a body hands its condition on as it is, or says that it is true."""
    made = {out: node for node in body.node for out in node.output}
    while going in made and made[going].op_type == "Identity":
        going = made[going].input[0]
    if going in made and made[going].op_type == "Constant":
        return any(
            a.name == "value" and any(a.t.int32_data or a.t.raw_data) for a in made[going].attribute
        )
    return going == given


@reads("If")
def branch(r: Reader, s: Step) -> list[Value]:
    flag = s.value(0)
    if isinstance(flag, np.ndarray):
        return list(r.inside(s.attrs["then_branch" if bool(flag) else "else_branch"], []))
    (pred,) = _symbols([s.make("reshape", s[0], newshape=())])
    made = control_flow.cond(
        pred,
        lambda: _symbols(r.inside(s.attrs["then_branch"], [])),
        lambda: _symbols(r.inside(s.attrs["else_branch"], [])),
    )
    return list(_entries(made))


def gru(
    s: Step, x: Entry, weights: tuple[np.ndarray, np.ndarray, np.ndarray], first: Entry, title: str
) -> tuple[Entry, Entry]:
    """One direction of ONNX's GRU that resets before the product: all steps (T, N, H), and the last (N, H)."""
    w, recurrent, bias = weights
    hidden = recurrent.shape[1]
    put = s.parameter
    to_gates = put(f"{title}_rz", recurrent[: 2 * hidden].T.copy())
    to_new = put(f"{title}_rh", recurrent[2 * hidden :].T.copy())
    added = put(f"{title}_b", bias[: 3 * hidden] + bias[3 * hidden :])
    inputs = s.make("add", s.make("matmul", x, put(f"{title}_w", w.T.copy())), added)

    def part(a: Entry, k: int) -> Entry:
        return s.make("slice_axis", a, axis=-1, begin=k * hidden, end=(k + 1) * hidden)

    def step(xs: list[Entry], now: list[Entry]) -> tuple[list[Entry], list[Entry]]:
        gates = s.make("matmul", now[0], to_gates)
        update = s.make("sigmoid", s.make("add", part(xs[0], 0), part(gates, 0)))
        reset = s.make("sigmoid", s.make("add", part(xs[0], 1), part(gates, 1)))
        new = s.make("matmul", s.make("multiply", reset, now[0]), to_new)
        new = s.make("tanh", s.make("add", part(xs[0], 2), new))
        # (1 - z) * new + z * before
        made = s.make("add", new, s.make("multiply", update, s.make("subtract", now[0], new)))
        return [made], [made]

    outs, ends = loop_over(step, [inputs], [first])
    return outs[0], ends[0]
