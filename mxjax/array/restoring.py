"""Arrays that are written to for a trial, and get their values back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..core import concrete, read
from .handle import Handle


@contextmanager
def restored(arrays: Sequence[Handle]) -> Iterator[None]:
    """Let these arrays be written to, in place too; afterwards each has the value that it has now.

    So it is with what a trainer asks: whether a gradient arrived that nobody has used yet.
    """
    before = [(a, a._value(), a._var and a._var.fresh) for a in arrays]
    try:
        for a, v, _ in before:
            # Another value on the same array: a program may take it for its own.
            read(v)
            stand_in = concrete(v.arr, shared=v.shared, of=v.aval)
            stand_in.tape, stand_in.out = v.tape, getattr(v, "out", 0)
            a._v = stand_in
        yield
    finally:
        for a, v, fresh in before:
            a._v = v
            if a._var is not None:
                a._var.fresh = bool(fresh)
