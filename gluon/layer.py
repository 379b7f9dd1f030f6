"""What type checkers know of layers: a layer of one array gives an array, of the kind that came; a loss likewise.

At run time a layer is a `HybridBlock`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from .hybrid_block import HybridBlock

if TYPE_CHECKING:
    from mxjax.array.classes import NDArray
    from mxjax.symbol.symbol import Symbol

    #: No overloads: of an argument of no known type a strict checker knows the result of none of them.
    A = TypeVar("A", bound=NDArray | Symbol)

    class Calls:
        """Calls of one array, and of what goes with it."""

        def __call__(self, x: A, *args: Any, **kwargs: Any) -> A: ...

    class CellCalls:
        """Calls of a cell: one step and its states."""

        def __call__(self, x: A, states: Any, *args: Any, **kwargs: Any) -> tuple[A, list[A]]: ...

    class Layer(Calls, HybridBlock):  # type: ignore[misc]
        """A hybrid block of one array that gives an array."""

else:

    class Calls:
        """Nothing at run time."""

        __slots__ = ()

    CellCalls = Calls
    Layer = HybridBlock
