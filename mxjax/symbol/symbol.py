"""Symbols: results of nodes, composed before any shape is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as _np

from .. import attribute, errors
from ..base import NotImplementedForSymbol
from ..display import notebooks
from ..library import check_backend
from ..ops.texts import DTYPES
from . import attributes
from .compose import dumped, one_entry
from .declared import Declared
from .node import Entry, Node, copied, states_of, walk

if TYPE_CHECKING:
    from ..executor import Executor

__all__ = ["Group", "Symbol", "Variable", "_Symbol", "var"]


class Symbol(Declared):
    """A graph of operators with one result or several; made by `var`, the functions of ``mx.sym`` and `Group`.

    Args:
      handle: what another symbol consists of.

    >>> import mxjax as mx
    >>> net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name="fc")
    >>> net.list_arguments()
    ['data', 'fc_weight', 'fc_bias']
    >>> net.infer_shape(data=(8, 3))[1]
    [(8, 4)]
    """

    __slots__ = ("_entries",)
    __array_priority__ = 1000.0
    _is_np = False

    def __init__(self, handle: Sequence[Entry] | None = ()):
        self._entries: list[Entry] = list(handle or ())

    @classmethod
    def _of(cls, entries: Sequence[Entry]) -> Any:
        return cls(entries)

    # ---- names -------------------------------------------------------------------------------------

    @property
    def name(self) -> str | None:
        """The name; None of a group of several nodes."""
        nodes = {node for node, _ in self._entries}
        return next(iter(nodes)).name if len(nodes) == 1 else None

    @property
    def device(self) -> None:
        """None: a symbol is nowhere before it is bound."""
        return None

    def __repr__(self) -> str:
        name = self.name
        if name is None:
            return f"<{type(self).__name__} group [{', '.join(str(i.name) for i in self)}]>"
        return f"<{type(self).__name__} {name}>"

    def _repr_svg_(self) -> str | None:
        """The graph, where graphviz and its programs are there."""
        from importlib import import_module

        try:
            made = import_module("mxjax.visualization").plot_network(self)
            return str(made.pipe(format="svg").decode())
        except (ImportError, OSError, RuntimeError):
            return None

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """What a notebook shows: the graph drawn by graphviz, or else its nodes as a table."""
        drawn = self._repr_svg_()
        if drawn is not None:
            return {"text/plain": repr(self), "image/svg+xml": drawn}
        rows = [
            (
                node.name,
                "variable" if node.is_variable else node.operator,
                ", ".join(child.outputs()[k] for child, k in node.inputs),
                ", ".join(f"{k}={v}" for k, v in node.params.items()),
            )
            for node in self._nodes()
        ]
        html = notebooks.table(("node", "operator", "takes", "attributes"), rows, left=4)
        return {"text/plain": repr(self), "text/html": html}

    def _nodes(self) -> list[Node]:
        return walk(self._entries)

    def _variables(self) -> list[Node]:
        return [n for n in self._nodes() if n.is_variable]

    def _variable(self, name: str) -> Symbol:
        """The variable of this name; where there is none, one that nothing reads."""
        found = next((n for n in self._variables() if n.name == name), None)
        return var(name) if found is None else Symbol([(found, 0)])

    def list_inputs(self) -> list[str]:
        """The names of all variables, auxiliary states included."""
        return [n.name for n in self._variables()]

    def list_arguments(self) -> list[str]:
        """The names of the variables that are no auxiliary states."""
        return [n.name for n in self._arguments()]

    def list_auxiliary_states(self) -> list[str]:
        """The names of the variables that operators update (moving statistics)."""
        return [n.name for n in self._states()]

    def _arguments(self) -> list[Node]:
        nodes = self._nodes()
        states = states_of(nodes)
        return [n for n in nodes if n.is_variable and n not in states]

    def _states(self) -> list[Node]:
        nodes = self._nodes()
        states = states_of(nodes)
        return [n for n in nodes if n in states]

    def list_outputs(self) -> list[str]:
        """The names of the results."""
        names = {node: node.outputs() for node, _ in self._entries}
        return [names[node][k] for node, k in self._entries]

    @property
    def num_outputs(self) -> int:
        """How many results there are."""
        return len(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return Group([self[k] for k in range(*index.indices(len(self)))], type(self))
        if isinstance(index, str):
            places = [k for k, name in enumerate(self.list_outputs()) if name == index]
            if len(places) > 1:
                raise errors.MXNetValueError(f'There are multiple outputs with name "{index}"')
            if not places:
                meant = errors.did_you_mean(index, self.list_outputs())
                raise errors.MXNetValueError(
                    f'Cannot find output that matches name "{index}"{meant}; list_outputs() names them'
                )
            index = places[0]
        if not isinstance(index, (int, _np.integer)):
            raise errors.MXNetTypeError(
                f"Symbol only support integer index to fetch i-th output, got {type(index).__name__}"
            )
        if not -len(self) <= index < len(self):
            raise errors.MXNetIndexError(f"output {index} of a symbol with {len(self)}")
        return self._of([self._entries[index]])

    def get_internals(self) -> Any:
        """A group of the results of all nodes: ``internals["fc1_output"]`` is the network up to there."""
        return self._of([(n, k) for n in self._nodes() for k in range(n.count())])

    def get_children(self) -> Any:
        """A group of what the nodes of the results take; None of a variable."""
        inputs = [
            entry for node in dict.fromkeys(n for n, _ in self._entries) for entry in node.inputs
        ]
        return self._of(inputs) if inputs else None

    def get_inputs(self) -> Any:
        """A group of the variables."""
        return self._of([(n, 0) for n in self._variables()])

    # ---- attributes ---------------------------------------------------------------------------------

    def _own(self) -> Node:
        nodes = list(dict.fromkeys(n for n, _ in self._entries))
        if len(nodes) != 1:
            raise errors.MXNetError(
                f"{self!r} is of {len(nodes)} nodes: ask one of them, as in symbol[0]"
            )
        return nodes[0]

    def attr(self, key: str) -> str | None:
        """An attribute as text, ``"name"`` the symbol's own name; None where there is none."""
        node = self._own()
        return node.name if key == "name" else _attrs(node).get(key)

    def list_attr(self, recursive: bool = False) -> dict[str, str]:
        """The attributes of this node."""
        if recursive:
            raise errors.MXNetError(
                "Symbol.list_attr with recursive=True has been deprecated. Please use attr_dict instead."
            )
        return _attrs(self._own())

    def attr_dict(self) -> dict[str, dict[str, str]]:
        """The attributes of all nodes that have some, by the nodes' names."""
        found = {n.name: _attrs(n) for n in self._nodes()}
        return {name: attrs for name, attrs in found.items() if attrs}

    def _set_attr(self, **kwargs: str) -> None:
        node = self._own()
        kwargs = dict(kwargs)
        title = kwargs.pop("name", None)
        made = attributes.checked(kwargs)
        if title is not None:
            node.name = title
        node.attrs.update(made)

    # ---- composition ---------------------------------------------------------------------------------

    def __copy__(self) -> Any:
        return self._of(copied(self._entries))

    def __deepcopy__(self, memo: Any) -> Any:
        return self._of(copied(self._entries))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        made = self.__copy__()
        made._compose(*args, **kwargs)
        return made

    def _compose(self, *args: Any, **kwargs: Any) -> None:
        """Put symbols in the places of variables, by order or by name; changes this symbol."""
        title = kwargs.pop("name", None)
        if args and kwargs:
            raise errors.MXNetTypeError(
                "compose only accept input Symbols either as positional or keyword arguments, not both"
            )
        for given in (*args, *kwargs.values()):
            if not isinstance(given, Symbol):
                raise errors.MXNetTypeError(
                    f"Compose expect `Symbol` as arguments, got {type(given).__name__}"
                )
        variables = self._arguments()
        if len(args) > len(variables):
            raise errors.MXNetError(f"{self!r} has {len(variables)} arguments, got {len(args)}")
        names = [n.name for n in variables]
        strange = [k for k in kwargs if k not in names]
        if strange:
            raise errors.MXNetError(
                f"{self!r} has no argument {strange[0]!r}{errors.did_you_mean(strange[0], names)}: it has "
                f"{', '.join(names)}"
            )
        into = {n.name: s for n, s in zip(variables, args, strict=False)} | kwargs
        entries = {k: one_entry(s, f"Argument {k}") for k, s in into.items()}
        self._entries = copied(self._entries, lambda node: entries.get(node.name))
        if title:
            self._own().name = title

    def as_np_ndarray(self) -> Any:
        """The symbol with the operators and methods of mx.np's arrays."""
        return _Symbol(self._entries)

    def as_nd_ndarray(self) -> Any:
        """The symbol with the operators and methods of mx.nd's arrays."""
        return self if type(self) is Symbol else Symbol(self._entries)

    def _gen_atomic_symbol(self) -> Any:
        """The last node alone, with new variables for what it takes."""
        node = self._own()
        inputs = [(Node(f"{node.name}_{name}"), 0) for name in node.names]
        alone = node.on(inputs)
        return self._of([(alone, k) for k in range(alone.count())])

    def has_dynamic_shape_op(self) -> bool:
        """Whether the shape of some result depends on numbers."""
        return any(
            n.op is not None and n.op.count_outputs(n.params, len(n.inputs)) is None
            for n in self._nodes()
        )

    # ---- shapes and types -----------------------------------------------------------------------------

    def infer_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Shapes of (arguments, results, auxiliary states) from some of them; None three times if they do not suffice.

        By the arguments' order or names; a length 0 is unknown (-1 where `npx.set_np` holds).

        Raises:
          MXNetError: shapes do not fit together; it names the node.
        """
        from .infer import shapes_of

        return shapes_of(self, args, kwargs, partial=False)

    def infer_shape_partial(self, *args: Any, **kwargs: Any) -> Any:
        """`infer_shape`, with what is known where that does not suffice."""
        from .infer import shapes_of

        return shapes_of(self, args, kwargs, partial=True)

    def infer_type(self, *args: Any, **kwargs: Any) -> Any:
        """Dtypes of (arguments, results, auxiliary states) from some of them."""
        from .types import types_of

        return types_of(self, args, kwargs, partial=False)

    def infer_type_partial(self, *args: Any, **kwargs: Any) -> Any:
        """`infer_type`, with None for what is not known."""
        from .types import types_of

        return types_of(self, args, kwargs, partial=True)

    # ---- files -----------------------------------------------------------------------------------------

    def tojson(self, remove_amp_cast: bool = True) -> str:
        """The symbol as a text that MXNet reads (`load_json`)."""
        from .files import to_json

        return to_json(self, remove_amp_cast)

    def save(self, fname: str, remove_amp_cast: bool = True) -> None:
        """Write the symbol to a file that MXNet reads (`load`)."""
        from ..files.atomic import write_whole

        written = self.tojson(remove_amp_cast).encode()
        write_whole(fname, lambda out: out.write(written))

    def __reduce__(self) -> Any:
        return _restored, (type(self).__name__, self.tojson(remove_amp_cast=False))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what a pickle of MXNet holds, the symbol as JSON; those of this package need `__reduce__` alone."""
        self._entries = _restored(type(self).__name__, state["handle"])._entries

    def debug_str(self) -> str:
        """The graph node by node, for people."""
        from .files import debug_text

        return debug_text(self)

    # ---- running ----------------------------------------------------------------------------------------

    def simple_bind(
        self,
        ctx: Any = None,
        grad_req: Any = "write",
        type_dict: Any = None,
        stype_dict: Any = None,
        group2ctx: Any = None,
        shared_arg_names: Any = None,
        shared_exec: Any = None,
        shared_buffer: Any = None,
        **kwargs: Any,
    ) -> Executor:
        """An `Executor` with arrays of its own; ``kwargs`` are the shapes of some of them.

        ``group2ctx`` are the devices of nodes by their attribute ``ctx_group``. With a dictionary ``shared_buffer``
        the arguments of ``shared_arg_names``, their gradients and the auxiliary states are those of ``shared_exec``,
        and the other arrays are the buffer's, where shapes and dtypes are the same. It gets those that it has not:
        arguments by their names, gradients as ``grad of`` and the name. Without it nothing is shared.

        Raises:
          RuntimeError: the shapes do not suffice, or do not fit together.
        """
        from .simple_bind import simple_bind

        return simple_bind(
            self,
            ctx,
            grad_req,
            type_dict,
            stype_dict,
            shared_exec,
            kwargs,
            group2ctx,
            shared_buffer,
            shared_arg_names or (),
        )

    def _simple_bind(
        self,
        ctx: Any,
        grad_req: Any = "write",
        type_dict: Any = None,
        stype_dict: Any = None,
        **kwargs: Any,
    ) -> Any:
        return self.simple_bind(ctx, grad_req, type_dict, stype_dict, **kwargs)

    def bind(
        self,
        ctx: Any = None,
        args: Any = None,
        args_grad: Any = None,
        grad_req: Any = "write",
        aux_states: Any = None,
        group2ctx: Any = None,
        shared_exec: Any = None,
    ) -> Executor:
        """An `Executor` on these arrays: lists in the order of the arguments, or dictionaries by name."""
        from ..executor import Executor

        return Executor(self, ctx, args, args_grad, grad_req, aux_states, group2ctx=group2ctx)

    _bind = bind

    def eval(self, ctx: Any = None, **kwargs: Any) -> list[Any]:
        """The results for these arrays, by name."""
        return list(self.bind(ctx, kwargs, grad_req="null").forward())

    def gradient(self, wrt: Any) -> NoReturn:
        """MXNet never had it for symbols; bind and call backward, or `autograd.grad`."""
        raise errors.MXNetError(
            "Symbol.gradient is not there: MXNet never had it. Bind the symbol and call backward(), or run it on "
            "arrays inside autograd.record()"
        )

    def optimize_for(
        self,
        backend: str,
        args: Any = None,
        aux: Any = None,
        ctx: Any = None,
        shape_dict: Any = None,
        type_dict: Any = None,
        stype_dict: Any = None,
        skip_infer: bool = False,
        **kwargs: Any,
    ) -> Any:
        """The symbol for a backend: XLA takes it as it is, and does what MXNet's own backends are for.

        Raises:
          MXNetValueError: a backend that is not there (`mx.library.check_backend`).
        """
        return self.get_backend_symbol(backend)

    def get_backend_symbol(self, backend: str) -> Any:
        """`optimize_for`."""
        check_backend(backend)
        return self.__copy__()

    # ---- what only arrays have --------------------------------------------------------------------------

    def __bool__(self) -> bool:
        raise NotImplementedForSymbol(self.__bool__, "bool")

    __hash__ = object.__hash__

    def wait_to_read(self) -> NoReturn:
        raise NotImplementedForSymbol(self.wait_to_read, None)

    def asnumpy(self) -> NoReturn:
        raise NotImplementedForSymbol(self.asnumpy, None)

    def asscalar(self) -> NoReturn:
        raise NotImplementedForSymbol(self.asscalar, None)

    def copy(self) -> Any:
        raise NotImplementedForSymbol(self.copy, None)

    def as_in_context(self, context: Any = None) -> Any:
        raise NotImplementedForSymbol(self.as_in_context, None)

    def detach(self) -> Any:
        raise NotImplementedForSymbol(self.detach, None)

    def backward(self, out_grad: Any = None) -> NoReturn:
        raise NotImplementedForSymbol(self.backward, None)


class _Symbol(Symbol):
    """A symbol with the operators and methods of mx.np's arrays: what functions of mx.sym.np give."""

    __slots__ = ()
    _is_np = True

    def __getitem__(self, index: Any) -> Any:
        if len(self) > 1 and (
            isinstance(index, (str, int, _np.integer)) or isinstance(index, slice)
        ):
            return super().__getitem__(index)
        from .indexing import part_of

        return part_of(self, index)

    def __iter__(self) -> Iterator[Any]:
        if len(self) == 1:
            raise errors.MXNetTypeError(
                "the rows of a symbol cannot be counted before it is bound: use mx.sym.np.split or the length you know"
            )
        return (self._of([entry]) for entry in self._entries)


def _attrs(node: Node) -> dict[str, str]:
    params = {k: attributes.text(v) for k, v in node.params.items()}
    if node.op is None:  # a loop's, whose arrays are counted in the file alone
        params.pop("num_args", None)
    elif node.counts_arrays:
        params.setdefault("num_args", str(len(node.inputs)))
    return {**params, **attributes.shown(node.attrs)}


def _restored(cls: str, written: str) -> Any:
    from .files import from_json

    made = from_json(written)
    return made.as_np_ndarray() if cls == "_Symbol" else made


def var(
    name: str,
    attr: Any = None,
    shape: Any = None,
    lr_mult: float | None = None,
    wd_mult: float | None = None,
    dtype: Any = None,
    init: Any = None,
    stype: str | None = None,
    profiler_scope: str | None = None,
    **kwargs: Any,
) -> Symbol:
    """A variable: an array that is bound later.

    ``shape``, ``dtype``, ``init``, ``lr_mult``, ``wd_mult`` are kept as attributes that shape inference, initializers
    and optimizers read; further attributes have two underscores at both ends.

    Args:
      name: the name, which texts and files have; one is made if it is left out.
      attr: a dictionary of attributes.
      shape: the shape of the result.
      lr_mult: a factor of the learning rate.
      wd_mult: a factor of the weight decay.
      dtype: the dtype of the result.
      init: the initializer.
      stype: the storage type.
      profiler_scope: what the profiler calls its memory.

    Returns:
      Symbol: the variable.

    >>> import mxjax as mx
    >>> mx.sym.var("weight", shape=(2, 0), lr_mult=2).list_attr()
    {'__shape__': '(2, 0)', '__lr_mult__': '2', 'lr_mult': '2'}
    """
    if not isinstance(name, str):
        raise errors.MXNetTypeError(
            f"Expect a string for variable `name`, got {type(name).__name__}"
        )
    attrs = attribute.current().get(attr)
    if shape is not None:
        attrs["__shape__"] = attributes.text(
            tuple(shape) if not isinstance(shape, int) else (shape,)
        )
    for key, value in (
        ("__lr_mult__", lr_mult),
        ("__wd_mult__", wd_mult),
        ("__profiler_scope__", profiler_scope),
    ):
        if value is not None:
            attrs[key] = str(value)
    if dtype is not None:
        attrs["__dtype__"] = str(DTYPES.index(_np.dtype(dtype).name))
    if init is not None:
        attrs["__init__"] = dumped(init)
    if stype is not None:
        attrs["__storage_type__"] = str(("default", "row_sparse", "csr").index(stype))
    for key, value in kwargs.items():
        if not (key.startswith("__") and key.endswith("__")):
            raise errors.MXNetValueError(
                f"Attribute name={key} is not supported. Additional attributes must start and end with double "
                f"underscores, e.g, __{key}__"
            )
        attrs[key] = str(value)
    return Symbol([(Node(name, attrs=attributes.checked(attrs)), 0)])


Variable = var


def Group(symbols: Any, create_fn: Any = Symbol) -> Any:  # noqa: N802  (MXNet's name)
    """One symbol with the results of several.

    Args:
      symbols: the symbols.
      create_fn: makes a symbol from an operator.

    Returns:
      Symbol: with all outputs.
    """
    symbols = list(symbols)
    if not symbols or any(not isinstance(s, Symbol) for s in symbols):
        raise errors.MXNetTypeError("Expected a list of symbols as input")
    cls = create_fn if isinstance(create_fn, type) and issubclass(create_fn, Symbol) else None
    entries = [entry for s in symbols for entry in s._entries]
    return cls(entries) if cls is not None else create_fn(entries)
