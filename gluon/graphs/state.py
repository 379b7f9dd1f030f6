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
    _served: Any = None

    _symbols: tuple[Any, ...] = ()
    _in_format: Any = None
    _out_format: Any = None
    _backend: Any = None
    _builds = False  # while `_call_cached_op` asks `_build_cache` for the graph
    _own_graph: Any = None  # what a `_get_graph` of the user's gave, as a function of the inputs

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
        self._own_graph = None
        self._cached_graph = ()
        self._graphs.clear()
        self._served = None

    def _call_cached_op(self, *args: Any) -> Any:
        """The results by a recorded graph, or by that of a `_get_graph` of the user's."""
        if (
            self._cached_op is None
            and self._own_graph is None
            and _overridden(self, "_build_cache")
        ):
            self._builds = True
            self._build_cache(*args)
        elif self._own_graph is None and _overridden(self, "_get_graph"):
            self._own_graph = _bound(self, args)
        if self._own_graph is None:
            return self._run_cached(args)  # type: ignore[attr-defined]
        return self._own_graph(args)

    def _build_cache(self, *args: Any) -> Any:
        """Make the graph for inputs like these; called by itself, the results by it."""
        if not self._builds:
            return self._call_cached_op(*args)
        self._builds = False  # the call that follows records it
        if _overridden(self, "_get_graph"):
            self._own_graph = _bound(self, args)
        return None

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


#: What MXNet calls when a hybridized block runs; a class that overrides one of them has it called.
OF_CACHED_OP = frozenset({"_build_cache", "_call_cached_op", "_get_graph"})


def through_cached_op(block: Any, args: tuple[Any, ...]) -> Any:
    """The results of a hybridized block, one of whose steps its class overrides."""
    return block._call_cached_op(*args)


def _overridden(block: Any, name: str) -> bool:
    return getattr(type(block), name) is not getattr(HybridState, name)


def _bound(block: Any, args: tuple[Any, ...]) -> Any:
    """The symbols that the block's `_get_graph` gives, as a function of its inputs."""
    from mxjax.symbol.cached import CachedOp

    from ..legacy.helpers import _flatten, _regroup

    block._settle(args)
    inputs, out = block._get_graph(*args)
    call, names = CachedOp(out), out.list_inputs()
    params = block.collect_params()
    held = {**{p.name: p for p in params.values()}, **params}

    def graph(given: tuple[Any, ...]) -> Any:
        leaves = [leaf for leaf in _flatten(given, "input")[0] if leaf is not None]
        fed = dict(zip([i.name for i in inputs], leaves, strict=True))
        device = leaves[0].device
        arrays = [fed[n] if n in fed else held[n].data(device) for n in names]
        made = call(*arrays)
        if block._out_format is None or not isinstance(block._out_format, list):
            return made
        return _regroup(made if isinstance(made, list) else [made], block._out_format)[0]

    return graph
