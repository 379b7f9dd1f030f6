"""Blocks: networks made of layers, with their parameters and hooks."""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Self

from mxjax import errors, initializer
from mxjax.array.invoke import symbolic
from mxjax.array.ndarray import NDArray
from mxjax.core import local
from mxjax.modes import generation

from .bases.mirroring import MirroredBlock
from .bases.naming import _block_scope as _block_scope
from .interop.foreign import OF_ARRAYS, OURS, admitted, check_array
from .legacy import Named, ParameterDict, accept_names, has_symbols, matched, run_on_symbols
from .parameter import Layout, Parameter, check_attribute
from .utils import HookHandle

if TYPE_CHECKING:  # MXNet has them in this module: `mxjax.compat.module_names` finds them
    from .hybrid_block import HybridBlock as HybridBlock
    from .symbol_block import SymbolBlock as SymbolBlock

__all__ = ["Block", "HookHandle", "HybridBlock", "SymbolBlock"]


@functools.cache
def _keywords(cls: type, init: Callable[..., None]) -> tuple[str, ...] | None:
    """The names of an ``__init__``'s options, or None where it takes any.

    What a layer of ours takes by ``**kwargs`` it hands on to the class before it.
    """
    P = inspect.Parameter
    found: list[str] = []
    for made in (init, *(vars(c)["__init__"] for c in cls.__mro__ if "__init__" in vars(c))):
        params = list(inspect.signature(made).parameters.values())[1:]
        found += [p.name for p in params if p.kind in (P.POSITIONAL_OR_KEYWORD, P.KEYWORD_ONLY)]
        if not any(p.kind is P.VAR_KEYWORD for p in params):
            return tuple(dict.fromkeys(found))
        if not str(made.__module__).startswith("mxjax."):
            return None
    return None


class Block(Named, MirroredBlock):
    """The base of all layers and networks: define ``forward`` on arrays.

    Blocks and parameters assigned as attributes are found by ``collect_params``, ``initialize`` and
    ``save_parameters``.

    >>> import mxjax as mx
    >>> from mxjax.gluon import nn
    >>> class Net(mx.gluon.Block):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.hidden = nn.Dense(4, activation="relu")
    ...         self.out = nn.Dense(2)
    ...     def forward(self, x):
    ...         return self.out(self.hidden(x))
    >>> net = Net(); net.initialize(); net(mx.np.ones((3, 5))).shape
    (3, 2)

    ``prefix`` and ``params`` are MXNet 1's: the beginning of the names (`name_scope`), and another block's parameters
    to share. Every block takes them, whatever else it takes.
    """

    _is_sequence = (
        False  # its children one after the other, which have rows of their own in summaries
    )
    _served: Any = (
        None  # how the last call was, where it may be repeated by itself (`graphs/served.py`)
    )
    _operator_is_fwd = (
        False  # MXNet 1 calls its operator `fwd`; others' are called after their kind
    )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        accept_names(cls)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        if (
            kwargs
        ):  # a misspelled option, by the layer's own name and with the option that was meant
            names = _keywords(cls, cls.__init__)  # type: ignore[arg-type]
            for name in kwargs:
                if names is not None and name not in names and name not in ("prefix", "params"):
                    raise errors.MXNetTypeError(
                        f"{cls.__name__} got an unexpected keyword argument {name!r}"
                        f"{errors.did_you_mean(name, names)}. It takes {', '.join(names)}"
                    )
        return super().__new__(cls)

    def __init__(
        self, prefix: str | None = None, params: Mapping[str, Parameter] | None = None
    ) -> None:
        self._children: OrderedDict[str, Block] = OrderedDict()
        self._take_names(prefix, params)
        self._forward_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._forward_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._called = type(
            self
        ).__name__.lower()  # its name among the operators that hooks hear of

    def __setstate__(self, state: dict[str, Any]) -> None:
        if not isinstance(state.get("_called"), str):
            raise errors.FormatError(
                f"this is a {type(self).__name__} as MXNet pickles it, with its own private attributes: write its "
                "parameters there by save_parameters(), and load_parameters() them into the class here"
            )
        self.__dict__.update(state)

    def __getattr__(self, name: str) -> NoReturn:  # what there is not
        raise errors.no_attribute(self, name, "BLOCKS")

    def _shown(self) -> dict[str, Block]:
        """The blocks that its text shows: attributes. Those registered otherwise are not among them, as in MXNet."""
        return {name: block for name, block in vars(self).items() if isinstance(block, Block)}

    def __repr__(self) -> str:
        lines = [f"({key}): {block!r}" for key, block in self._shown().items()]
        return f"{type(self).__name__}(\n" + textwrap.indent("\n".join(lines), "  ", bool) + "\n)"

    def _repr_html_(self) -> str:
        """The layers as a notebook shows them: they fold, and tell the numbers of their parameters."""
        from .summary import html_of

        return html_of(self)

    def __setattr__(self, name: str, value: Any) -> None:
        existing = self.__dict__.get(name)
        if isinstance(existing, (Parameter, Block)) and not isinstance(value, type(existing)):
            if not (isinstance(value, (Parameter, Block)) and isinstance(existing, type(value))):
                raise errors.MXNetTypeError(
                    f"Changing attribute type for {name} from {type(existing)} to {type(value)} is not allowed."
                )
        if isinstance(value, (Block, Parameter)) and "_called" not in self.__dict__:
            raise errors.MXNetAttributeError(
                f"{type(self).__name__} got {name!r} before Block.__init__ ran: call super().__init__() first in "
                "its __init__"
            )
        if isinstance(value, Block):
            self.register_child(value, name)
        elif isinstance(value, Parameter):
            value = self._reg_params[name] = self._names.adopt(value)
            Layout.version += 1
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        self._children.pop(name, None)
        self._reg_params.pop(name, None)
        Layout.version += 1

    # ---- parameters ------------------------------------------------------------------------------------

    def collect_params(self, select: str | None = None) -> ParameterDict:
        """All parameters, or those whose names a regular expression matches, as a dictionary (`ParameterDict`).

        By their places (``"0.weight"``), or, where code of MXNet 1 named the block, by their long names
        (``"net0_dense0_weight"``); they are found by the other names, too.
        """
        self._warn_of_hidden_blocks()
        names = self._names
        found = ParameterDict(names.params.prefix if names.legacy else "")
        found._makes = False
        places: dict[str, Parameter] = {}
        for place, p in self._walk(""):
            if place not in places:
                places[place] = p
                p._structure = p._structure or place
        found.update(self._long_walk() if names.legacy else places)
        found._spelled = lambda: dict(self._walk("") if names.legacy else self._long_walk())
        if select is not None:
            pattern = re.compile(select)
            spelled = found._spelled()
            kept = {id(p) for name, p in found.items() if pattern.match(name)}
            if not kept and generation() != 1:  # a name of the other generation, then
                kept = {id(p) for name, p in spelled.items() if pattern.match(name)}
            for name, p in list(found.items()):
                if id(p) not in kept:
                    del found[name]
            spelled = {name: p for name, p in spelled.items() if id(p) in kept}
            found._spelled = lambda: spelled
        return found

    def _warn_of_hidden_blocks(self) -> None:
        known = set(map(id, self._children.values()))
        for name, value in self.__dict__.items():
            if (
                name != "_children"
                and type(value) in (dict, list, tuple)
                and _holds_block(value, known)
            ):
                warnings.warn(
                    f'"{type(self).__name__}.{name}" is an unregistered container with Blocks. Note that Blocks '
                    "inside the list, tuple or dict will not be registered automatically. Make sure to register "
                    "them using register_child() or switching to nn.Sequential/nn.HybridSequential instead.",
                    stacklevel=3,
                )

    def _own_params(self) -> Iterator[tuple[str, Parameter]]:
        yield from self._reg_params.items()
        yield from self._unregistered()

    def _walk(self, prefix: str) -> Iterator[tuple[str, Parameter]]:
        for name, p in self._own_params():
            yield prefix + name, p
        for name, child in self._children.items():
            yield from child._walk(f"{prefix}{name}.")

    def initialize(
        self,
        init: Any = None,
        device: Any = None,
        verbose: bool = False,
        force_reinit: bool = False,
        ctx: Any = None,
    ) -> None:
        """Initialize all parameters on a device or a list of devices."""
        init = initializer.Uniform() if init is None else init
        if verbose and hasattr(init, "set_verbosity"):
            init.set_verbosity(verbose=verbose)
        for p in self._unique_params():
            p.initialize(
                None, device if device is not None else ctx, init, force_reinit=force_reinit
            )

    def _unique_params(self) -> list[Parameter]:
        return list(dict.fromkeys(self.collect_params().values()))

    def zero_grad(self) -> None:
        """Set all gradients to zero."""
        for p in self._unique_params():
            p.zero_grad()

    def setattr(self, name: str, value: Any) -> None:
        """Set an attribute of all parameters, such as ``grad_req`` or ``lr_mult``."""
        for p in self._unique_params():
            check_attribute(p, name)
            setattr(p, name, value)

    def cast(self, dtype: Any) -> None:
        """Convert all parameters to another dtype."""
        for child in self._children.values():
            child.cast(dtype)
        for p in self._reg_params.values():
            p.cast(dtype)

    def reset_device(self, device: Any) -> None:
        """Move all parameters to other devices."""
        for p in self._unique_params():
            p.reset_device(device)

    def shard(self, mesh: Any, specs: Any = None) -> Block:
        """Place all parameters on a mesh (`mx.mesh`), sharded or replicated; returns the block.

        Args:
          mesh: the mesh.
          specs: ``None``: as each parameter's ``sharding`` says, else whole on every device (data
            parallel). ``'fsdp'``: as those say, else cut over the data axis along the longest dimension
            that can be. A dictionary from names, ``*`` standing for anything, to specs: an axis' name, or per
            dimension a name or None (tensor parallel); others as with ``None``.

        Parameters whose shapes are not known yet are cut at the first forward pass.

        Raises:
          ValueError: a parameter that is not initialized, an unknown name or axis, or a length that cannot
            be cut.

        >>> import mxjax as mx
        >>> net = mx.gluon.nn.Dense(4, in_units=2)
        >>> net.initialize()
        >>> net.shard(mx.mesh(data=1), {"weight": ("data", None)}).weight.data().device
        mesh(data=1)
        """
        mesh.shard(self.collect_params(), specs)
        return self

    def reset_ctx(self, ctx: Any) -> None:
        """The 1.x name of :meth:`reset_device`."""
        self.reset_device(ctx)

    def share_parameters(self, shared: Mapping[str, Parameter] | None) -> Block:
        """Use another block's parameters where the structural names agree (None: no others); gives the block."""
        if shared is None:
            return self
        if not isinstance(shared, Mapping):
            raise errors.MXNetValueError(
                f"'shared' should be in type of Dict. Get type {type(shared)}! Pass other.collect_params()"
            )
        absent = set(shared)
        self._shared_parameters(shared, absent)
        for name in sorted(absent):
            warnings.warn(f"Parameter name {name} is not in the current model!", stacklevel=2)
        Layout.version += 1
        return self

    def _shared_parameters(
        self, shared: Mapping[str, Parameter], shared_set: set[str], prefix: str = ""
    ) -> None:
        """Take those of `shared` that have own ones' names below `prefix`, out of `shared_set`; may be overridden."""
        prefix = prefix and f"{prefix}."
        for own in list(self._reg_params):
            p = shared.get(prefix + own)
            if p is not None:
                self._reg_params[own] = p
                super().__setattr__(own, p)
                shared_set.discard(prefix + own)
        for name, child in self._children.items():
            child._shared_parameters(shared, shared_set, prefix + name)

    def _named_blocks(self, prefix: str) -> Iterator[tuple[str, Block]]:
        yield prefix, self
        for name, child in self._children.items():
            yield from child._named_blocks(f"{prefix}{name}.")

    # ---- files ---------------------------------------------------------------------------------------

    def save_parameters(self, filename: str, deduplicate: bool = False) -> None:
        """Write all parameters to a file, readable by ``load_parameters``.

        In MXNet 2's format, or in MXNet 1's, which every MXNet reads, where `is_np_array` is False; as safetensors
        where the name ends so.
        """
        from mxjax import safetensors, serialization
        from mxjax.modes import is_np_array

        named = self._collect_params_with_prefix()  # which programs' blocks override
        if deduplicate:  # under the last of its names, as in MXNet
            named = {name: p for p, name in {p: name for name, p in named.items()}.items()}
        arrays = {name: p._reduce() for name, p in named.items()}
        if is_np_array() or safetensors.path_is(filename):
            serialization.save_parameters(filename, arrays)
        else:
            serialization.nd_save(filename, arrays)

    def load_parameters(
        self,
        filename: str,
        device: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        cast_dtype: bool = False,
        dtype_source: str = "current",
        ctx: Any = None,
    ) -> None:
        """Read parameters from a file of MXNet 1.x or 2.x or of mxjax, or a safetensors file.

        Raises ``AssertionError`` for parameters missing in the file (unless ``allow_missing``), not in the
        block (unless ``ignore_extra``) or of another shape or dtype (unless ``cast_dtype``); nothing is
        changed then.
        """
        from mxjax import serialization

        arrays = serialization.load_parameters(filename)
        self.load_dict(
            arrays,
            device if device is not None else ctx,
            allow_missing,
            ignore_extra,
            cast_dtype,
            dtype_source,
            _where=f"file '{filename}'",
        )

    def load_dict(
        self,
        param_dict: Mapping[str, Any],
        device: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        cast_dtype: bool = False,
        dtype_source: str = "current",
        _where: str = "param_dict",
    ) -> None:
        """Take parameters from a dictionary of arrays."""
        loaded = {re.sub(r"^(arg|aux):", "", k): v for k, v in param_dict.items()}
        for prefix, block in self._named_blocks(""):
            block._adopt_names(prefix, loaded)
        params = self._collect_params_with_prefix()
        chosen = matched(self, loaded)
        if not allow_missing:
            given = set(map(id, chosen.values()))
            for name, p in params.items():
                if id(p) not in given:
                    raise errors.MXNetAssertionError(
                        f"Parameter '{name}' is missing in {_where}, which contains parameters: "
                        f"{_brief(loaded)}. Set allow_missing=True to ignore missing parameters."
                    )
        for name in loaded:
            if name not in chosen and not ignore_extra:
                raise errors.MXNetValueError(
                    f"Parameter '{name}' loaded from {_where} is not present in Dict, which contains "
                    f"parameters {_brief(params)}. Set ignore_extra=True to ignore."
                )
        # All are looked at before the first one is changed.
        checked = [
            (p, p._check_load(loaded[name], cast_dtype, dtype_source, name))
            for name, p in chosen.items()
        ]
        for p, value in checked:
            p._load(value, device)

    def _adopt_names(self, prefix: str, loaded: dict[str, Any]) -> None:
        """Give what a file holds under older names, below this block's prefix, today's names, in place."""

    def save(self, prefix: str) -> None:
        """Write how the network is made and its parameters: ``prefix-model.json`` and ``prefix-model.params``.

        For a network that is made again in the same way; `HybridBlock.export` writes one that needs no code.
        """
        from .files.saving import save_model

        save_model(self, prefix)

    def load(self, prefix: str) -> None:
        """Read what `save` wrote, into a network made in the same way; its blocks are hybridized as they were.

        Raises:
          ValueError: it is that of another network.
          FormatError: the file is no structure of blocks.
        """
        from .files.saving import load_model

        load_model(self, prefix)

    # ---- structure -----------------------------------------------------------------------------------

    def register_child(self, block: Block, name: str | None = None) -> None:
        """Make a block a child; ``name`` defaults to its number."""
        key = str(len(self._children)) if name is None else name
        self._children[key] = block
        Layout.version += 1
        block._called = f"{type(block).__name__.lower()}{key}" if key.isdigit() else key

    def apply(self, fn: Callable[[Block], Any]) -> Block:
        """Call ``fn`` on every child, then on the block itself; gives the block."""
        for child in self._children.values():
            child.apply(fn)
        fn(self)
        return self

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Hybridize all hybrid children."""
        for child in self._children.values():
            child.hybridize(active, **kwargs)

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call ``hook(block, inputs)`` before each forward."""
        return _attached(self._forward_pre_hooks, hook)

    def register_forward_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call ``hook(block, inputs, outputs)`` after each forward."""
        return _attached(self._forward_hooks, hook)

    def register_op_hook(
        self, callback: Callable[[str, str, Any], Any], monitor_all: bool = False
    ) -> None:
        """Call ``callback(name, operator, array)`` with all that hybrid blocks in this one compute.

        ``monitor_all``: with what their operators take, too. Such blocks run operator by operator.
        """
        for child in self._children.values():
            child.register_op_hook(callback, monitor_all)

    # ---- running -------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        served = self._served
        if served is not None and not kwargs:
            out = served(self, args)
            if out is not None:
                return out
        if not args and not kwargs and not self._runs_on_nothing():
            return self  # in MXNet 2 `_children` holds references: `for child in self._children.values(): child()(x)`
        composed = False
        for a in args:
            if type(a) not in OURS:
                args = admitted(self, args)
                if type(self).__module__.startswith(OF_ARRAYS):
                    check_array(self, args)
                composed = bool(symbolic) and has_symbols(args)
                break
        if kwargs:
            kwargs = admitted(self, kwargs)
        if self._forward_pre_hooks:
            for hook in tuple(self._forward_pre_hooks.values()):
                hook(self, args)
        st = local.st
        outer = st.scope
        try:
            st.scope = f"{outer}/{self._called}" if outer else self._called
            out = run_on_symbols(self, args, kwargs) if composed else self._run(*args, **kwargs)
            st.scope = outer
        except BaseException:
            st.scope = outer
            raise
        if self._forward_hooks:
            for hook in tuple(self._forward_hooks.values()):
                hook(self, args, self._returned(out))
        if type(out) in _SEVERAL:
            _refuse_mixed(self, out)
        return out

    def _returned(self, out: Any) -> Any:
        """What the caller gets of the forward's results, which is what hooks hear."""
        return out

    def _runs_on_nothing(self) -> bool:
        """Whether the forward takes no argument."""
        forward = type(self).forward
        if forward in _TAKE_ANY:
            return False
        P = inspect.Parameter
        given = list(inspect.signature(forward).parameters.values())[1:]
        return not any(
            p.default is P.empty and p.kind in (P.POSITIONAL_ONLY, P.POSITIONAL_OR_KEYWORD)
            for p in given
        )

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        return (self.forward if self._force_mirroring is None else self._scoped_forward)(
            *args, **kwargs
        )

    if TYPE_CHECKING:  # each block's takes what it wants
        forward: Callable[..., Any]
    else:

        def forward(self, *args: Any) -> Any:
            """The computation; to be defined."""
            raise errors.MXNetNotImplementedError(
                f"{type(self).__name__} does not define forward()"
            )

    def summary(self, *inputs: Any, flops: bool = False) -> None:
        """Print layers, output shapes and numbers of parameters for one batch; runs the network once.

        ``flops=True``: also the operations of each layer's forward, and the bytes that it reads and writes where
        nothing is fused, as XLA counts them.
        """
        from .summary import print_summary

        print_summary(self, inputs, flops)


def _refuse_mixed(block: Block, out: Any) -> None:
    """Raise where a block gives arrays of mx.nd among those of mx.np."""
    kinds = {type(x) for x in out if isinstance(x, NDArray)}
    if len(kinds) > 1:
        raise errors.MXNetTypeError(
            f"Block's output ndarrays must be of one type, while {type(block).__name__} gave arrays of mx.np and of "
            "mx.nd: x.as_np_ndarray() and x.as_nd_ndarray() convert"
        )


_SEVERAL = (tuple, list)
#: The forwards of `Block` and `HybridBlock`, which say nothing of arguments.
_TAKE_ANY: list[Any] = [Block.forward]


def _holds_block(value: Any, known: set[int]) -> bool:
    """Whether a container, or one in it, has a block beside the known ones."""
    items = value.values() if type(value) is dict else value
    return any(
        id(b) not in known
        if isinstance(b, Block)
        else type(b) in (dict, list, tuple) and _holds_block(b, known)
        for b in items
    )


def _attached(hooks: OrderedDict[int, Any], hook: Callable[..., Any]) -> HookHandle:
    handle = HookHandle()
    handle.attach(hooks, hook)
    return handle


def _brief(names: Any) -> str:
    names = list(names)
    if len(names) > 10:
        names = [*names[:5], "...", *names[-5:]]
    return ", ".join(f"'{n}'" for n in names)
