"""How a row says which inputs its tests use: ``samples=[case(f(3, 4), f(4), axis=0)]``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core import Graph, aval, default_device, recording


class Array(NamedTuple):
    """Random numbers of a shape, from ``low`` to below ``high``."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    low: float = -2.0
    high: float = 2.0

    def draw(self, rng: np.random.RandomState) -> np.ndarray:
        if self.dtype == "bool":
            return rng.uniform(size=self.shape) > 0.5
        if self.dtype.startswith("float"):
            return np.asarray(rng.uniform(self.low, self.high, self.shape), self.dtype)
        return np.asarray(rng.randint(int(self.low), int(self.high), self.shape), self.dtype)


class Given(NamedTuple):
    """Exactly these numbers."""

    data: Any
    dtype: str = "float32"

    def draw(self, rng: np.random.RandomState) -> np.ndarray:
        return np.asarray(self.data, self.dtype)


class Spd(NamedTuple):
    """A symmetric positive definite matrix (or a stack of them)."""

    shape: tuple[int, ...]
    dtype: str = "float32"

    def draw(self, rng: np.random.RandomState) -> np.ndarray:
        m = rng.uniform(-1, 1, self.shape)
        return np.asarray(m @ m.swapaxes(-1, -2) + 2 * np.eye(self.shape[-1]), self.dtype)


class Body:
    """An attribute that is a graph: of a function of values, of float32 inputs of these shapes.

    ``graph()`` records it when a test asks: it needs a device.
    """

    def __init__(self, fn: Callable[..., Any], *shapes: tuple[int, ...]):
        self.fn = fn
        self.shapes = shapes

    def graph(self) -> Graph:
        device = default_device()
        with recording("body", device) as rec:
            made = self.fn(*[rec.placeholder(aval(s, "float32", device)) for s in self.shapes])
            return rec.subgraph(made)[0]


class Case(NamedTuple):
    """Arguments of one call: arrays (or numbers) and attributes."""

    args: tuple[Any, ...]
    attrs: dict[str, Any]


def f(*shape: int, low: float = -2.0, high: float = 2.0) -> Array:
    """Floats."""
    return Array(shape, "float32", low, high)


def i(*shape: int, low: int = 0, high: int = 5, dtype: str = "int32") -> Array:
    """Integers."""
    return Array(shape, dtype, low, high)


def b(*shape: int) -> Array:
    """Truth values."""
    return Array(shape, "bool")


def case(*args: Any, **attrs: Any) -> Case:
    """One call."""
    return Case(args, attrs)
