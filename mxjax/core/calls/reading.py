"""Numbers that are asked for while a graph is recorded, which has none."""

from __future__ import annotations

from collections.abc import Iterator

from ... import errors
from ...scopes import scope, undone
from .segment import Segment, left
from .state import local


class ReadWhileRecording(errors.MXNetError):
    """A number was asked for while a graph was being recorded."""


def asked(seg: Segment) -> errors.MXNetError:
    """The error for a number that was asked for of this graph.

    While it is recorded, whoever records it hears of it first (`ThreadState.on_read`): what is raised may be caught
    by the code that asks.
    """
    if seg.closed:
        return left()
    if seg.state.on_read is not None:
        seg.state.on_read(seg)
    return ReadWhileRecording(
        "the number of an array was asked for (asnumpy, float, bool, printing, or a shape that depends on numbers) "
        "while a graph was recorded, in which arrays have no numbers yet. Choose by value instead, "
        "np.where(condition, a, b), or compute it outside of what is recorded"
    )


@scope
def trying() -> Iterator[None]:
    """Around what may ask for numbers while a graph is recorded, by one who catches `ReadWhileRecording`."""
    st = local.st
    before = st.on_read

    def undo() -> None:
        st.on_read = before

    st.on_read = None
    yield from undone(undo)
