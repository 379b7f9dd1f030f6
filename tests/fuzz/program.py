"""A program: a list of calls, and as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np


class Call(NamedTuple):
    """``outs = row(*ins, **attrs)``; ``ins`` are names of variables or numbers. ``body``: the calls of a block."""

    row: str
    outs: tuple[str, ...] = ()
    ins: tuple[Any, ...] = ()
    attrs: dict[str, Any] = {}  # noqa: RUF012  # nobody changes it
    body: tuple[Call, ...] = ()
    fails: bool = False


class Program(NamedTuple):
    """``seed``: of the numbers that the program draws."""

    seed: int
    calls: tuple[Call, ...]


def every(calls: tuple[Call, ...]) -> Iterator[Call]:
    """All calls, those of bodies included."""
    for c in calls:
        yield c
        yield from every(c.body)


def count(calls: tuple[Call, ...]) -> int:
    return sum(1 for _ in every(calls))


def data(shape: tuple[int, ...], dtype: str, kind: str, seed: int) -> np.ndarray:
    """The numbers that an array begins with, in float64 (of integers in int64).

    ``exact``: small whole numbers and halves, ``unit``: +-[0.25, 4], ``positive``: [0.25, 4], ``special``: with NaN,
    infinities and zeros among them, ``index``: 0, 1, 2.
    """
    rng = np.random.RandomState(seed)
    whole = np.dtype("float32" if dtype == "bfloat16" else dtype).kind in "biu"
    if kind == "index":
        return rng.randint(0, 3, shape)
    if whole:
        low = 0 if dtype in ("uint8", "bool") else -4
        return rng.randint(low, 2 if dtype == "bool" else 6, shape)
    if kind == "exact":
        return rng.randint(-8, 9, shape) / 2
    values = rng.uniform(0.25, 4, shape)
    if kind != "positive":
        values = values * rng.choice([-1.0, 1.0], shape)
    if kind == "special":
        special = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0], shape)
        values = np.where(rng.uniform(size=shape) < 0.3, special, values)
    return values


def literal(shape: tuple[int, ...], dtype: str, kind: str, seed: int) -> str:
    values = data(shape, dtype, kind, seed)
    if values.size <= 12:
        text = repr(values.tolist()).replace("nan", "float('nan')").replace("inf", "float('inf')")
        if not values.size:
            return f"np.zeros({shape}, dtype={dtype!r})"
        return f"np.array({text}, dtype={dtype!r})"
    return f"np.array(data({shape}, {dtype!r}, {kind!r}, {seed}), dtype={dtype!r})"


HEAD = """import mxjax as mx
from mxjax import np, npx, nd, autograd
npx.set_np()
"""


def text(program: Program) -> str:
    """A Python program that does the same."""
    from .calls import TABLE

    lines: list[str] = []

    def write(calls: tuple[Call, ...], indent: str) -> None:
        for c in calls:
            for line in TABLE[c.row].show(c, write_body):
                lines.append(indent + line)

    def write_body(calls: tuple[Call, ...]) -> list[str]:
        nonlocal lines
        outer, lines = lines, []
        write(calls, "    ")
        inner, lines = lines or ["    pass"], outer
        return inner

    write(program.calls, "")
    head = HEAD
    if any("data(" in line for line in lines):
        head += "from tests.fuzz.program import data\n"
    return head + f"mx.random.seed({program.seed})\n" + "\n".join(lines) + "\n"
