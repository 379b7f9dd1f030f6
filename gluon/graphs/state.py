"""What hybrid blocks hold, under the private names that code of MXNet's users reads."""

from __future__ import annotations

from typing import Any

from mxjax.array.classes import NDArray, ndarray
from mxjax.errors import MXNetValueError


class HybridState:
    """A hybrid block's graph as symbols, and its recorded graphs."""

    _graphs: dict[Any, Any]
    _static_shape: bool
    _op_hook: Any

    _symbols: tuple[Any, ...] = ()
    _in_format: Any = None
    _out_format: Any = None
    _backend: Any = None

    @property
    def _cached_graph(self) -> tuple[Any, ...]:
        """The inputs and the outputs as symbols, once there is a graph or `_get_graph` was asked for them."""
        if not self._symbols and self._graphs:
            from ..files.exporting import symbols_of

            self._symbols = symbols_of(self)
        return self._symbols

    @_cached_graph.setter
    def _cached_graph(self, symbols: tuple[Any, ...]) -> None:
        self._symbols = symbols

    @property
    def _backend_opts(self) -> dict[str, Any]:
        return {}

    @property
    def _flags(self) -> list[tuple[str, Any]]:
        """What `hybridize` was told."""
        return [("static_shape", self._static_shape)]

    @property
    def _callback(self) -> Any:
        """The hook of operators."""
        return self._op_hook and self._op_hook[0]

    @property
    def _monitor_all(self) -> bool:
        return bool(self._op_hook and self._op_hook[1])

    @property
    def _cached_op(self) -> Any:
        """A recorded graph, if there is one."""
        return next(iter(self._graphs.values()), None)

    def _clear_cached_op(self) -> None:
        """Forget the graphs."""
        self._cached_graph = ()
        self._graphs.clear()

    def _call_cached_op(self, *args: Any) -> Any:
        """The results by a recorded graph."""
        return self._run_cached(args)  # type: ignore[attr-defined]

    _build_cache = _call_cached_op

    def _deferred_infer_shape(self, *args: Any) -> None:
        """Give the block's parameters the shapes that its inputs demand.

        Raises:
          ValueError: the inputs do not determine them.
        """
        self.infer_shape(*args)  # type: ignore[attr-defined]

    def _get_graph(self, *args: Any) -> tuple[Any, ...]:
        """The inputs and the outputs as symbols, for inputs like these.

        Raises:
          ValueError: there are no inputs but None.

        >>> import mxjax as mx
        >>> inputs, out = mx.gluon.nn.Dense(2, in_units=3)._get_graph(mx.np.ones((1, 3)))
        >>> [x.name for x in inputs], len(out.list_arguments())
        (['data'], 3)
        """
        from mxjax import symbol

        from ..legacy.helpers import _check_same_symbol_type, _flatten, _regroup

        if not self._symbols:
            leaves, structure = _flatten(args, "input")
            count = sum(leaf is not None for leaf in leaves)
            if not count:
                raise MXNetValueError(
                    f"All args are None and we do not support such a case. Received args={args}"
                )
            inputs: list[Any] = []
            given: list[Any] = []
            for leaf in leaves:
                if leaf is None:
                    given.append(None)
                    continue
                variable = symbol.var(f"data{len(inputs)}" if count > 1 else "data")
                numpy = (
                    isinstance(leaf, ndarray)
                    or not isinstance(leaf, NDArray)
                    and hasattr(leaf, "as_nd_ndarray")
                )
                inputs.append(variable.as_np_ndarray() if numpy else variable)
                given.append(inputs[-1])
            out = self(*_regroup(given, structure))  # type: ignore[operator]
            outputs, self._out_format = _flatten(out, "output")
            self._in_format = structure
            whole = symbol.Group(outputs)
            if _check_same_symbol_type(outputs) is not symbol.Symbol:
                whole = whole.as_np_ndarray()
            self._symbols = inputs, whole
        return self._symbols
