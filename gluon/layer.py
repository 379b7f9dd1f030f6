"""What type checkers know of layers: a layer of one array gives an array, of the kind that came; a loss likewise.

At run time a layer is a `HybridBlock`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from .hybrid_block import HybridBlock

if TYPE_CHECKING:
    from mxjax.array.classes import NDArray, ndarray
    from mxjax.symbol.symbol import Symbol

    class Calls:
        """Calls of one array, and of what goes with it."""

        @overload
        def __call__(self, x: ndarray, *args: Any, **kwargs: Any) -> ndarray: ...
        @overload
        def __call__(self, x: NDArray, *args: Any, **kwargs: Any) -> NDArray: ...
        @overload
        def __call__(self, x: Symbol, *args: Any, **kwargs: Any) -> Symbol: ...
        def __call__(self, x: Any, *args: Any, **kwargs: Any) -> Any: ...

    class Layer(Calls, HybridBlock):  # type: ignore[misc]
        """A hybrid block of one array that gives an array."""

else:

    class Calls:
        """Nothing at run time."""

        __slots__ = ()

    Layer = HybridBlock
