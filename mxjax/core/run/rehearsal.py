"""Rehearsals: what recorded calls would run as, compiled but not run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..calls.state import Churn, local
from ..calls.value import Abstract
from ..hooks import observers
from .scheduler import flush_thread


class Rehearsal:
    """The programs of one rehearsal, in the order in which they would have run.

    It stands among the observers, which turns the short cuts of running off.
    """

    def __init__(self, compiles: bool) -> None:
        self.programs: list[Any] = []
        self.compiles = compiles

    def ignore(self, *_: Any) -> None:
        """What observers are told is of no interest here."""

    on_run = on_compile = on_sync = on_python = ignore

    def run(self, program: Any) -> Sequence[Abstract]:
        """Stand in for a run of this program."""
        self.programs.append(program)
        return [Abstract(a) for a in program.outs]


@contextmanager
def rehearsal(compiles: bool = True) -> Iterator[Rehearsal]:
    """Compile what this thread records, and give abstract arrays for results.

    Only programs are compiled, as a training step's are: nothing runs operator by operator. Arrays that
    are written here hold abstract values afterwards; whoever rehearses puts the earlier ones back.

    Args:
      compiles: with False nothing is compiled either, and there are no programs: for first steps, which
        make the optimizer's states and are of no interest themselves.
    """
    flush_thread()
    st = local.st
    before = st.rehearsing, st.churn
    found = st.rehearsing = Rehearsal(compiles)
    st.churn = Churn()  # calls are gathered, whatever ran before
    st.refresh()
    observers.append(found)
    try:
        yield found
        flush_thread()
    finally:
        st.rehearsing, st.churn = before
        st.refresh()
        observers.remove(found)
