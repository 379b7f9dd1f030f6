"""Blocks that run as cached graphs."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mxjax import errors, settings
from mxjax.array.ndarray import NDArray
from mxjax.core import apart, is_recording, local, mirroring, varying
from mxjax.library import check_backend
from mxjax.modes import generation

from .block import _TAKE_ANY, Block
from .graphs.breaks import GraphBreak, Opened, give_up, in_opened, run_opened, stays_open
from .graphs.buckets import Buckets, CallsPython
from .graphs.cached_graph import (
    AsksForNumber,
    CachedGraph,
    NoArrays,
    at_work,
    constant,
    flatten,
    parts_of,
    unflatten,
)
from .graphs.newcomers import Newcomers, is_within, run_once
from .graphs.served import served_next
from .graphs.shapes import gated, serve_new_shape, tell_of_shapes
from .graphs.state import OF_CACHED_OP, HybridState, through_cached_op
from .graphs.static_alloc import remember
from .legacy import (
    first_array,
    follow_assigned,
    follow_hybrid_forward,
    hybrid_forward_of_layer,
    infer_shapes,
    run_hybrid_forward,
    symbols_in,
    writes_hybrid_forward,
)
from .parameter import DeferredInitializationError, Layout

__all__ = ["HybridBlock"]

_KIND = type  # mx.np's arrays and mx.nd's have graphs of their own
_MOVES = "a number that changes"
_jit = settings.snapshot("engine.jit")
_parallel = settings.snapshot("engine.parallel_executions")


class HybridBlock(HybridState, Block):
    """A block that can be hybridized: its forward is then recorded once per input signature and runs as
    one compiled call.

    A forward that looks at numbers (``asnumpy``, ``if x.sum() > 0``, ``np.nonzero``, ``x[mask]``) cannot be
    recorded: such a block, and those around it, run imperatively from the first call on, which is said once;
    the blocks in it are still recorded. The recording that was given up ran the forward up to there, so what
    it does in Python (printing, counting) happens twice in that call. Layers whose parameter shapes depend on
    the input define ``infer_shape``.

    Args:
      prefix: the beginning of names.
      params: parameters to share, or the arrays of parameters by name.
    """

    _is_hybrid_block = True  # for modules below this one, which do not import it

    def __init__(self, prefix: str | None = None, params: Any = None) -> None:
        super().__init__(prefix, params)
        self._active = False
        self._op_hook: tuple[Any, bool] | None = None
        self._mirror: Any = None
        self._graphs: dict[Any, CachedGraph] = {}
        self._numbers = (
            varying.Numbers()
        )  # among the arguments, those that change from call to call
        self._buckets: Buckets | None = None  # how calls of changing lengths share graphs
        self._newcomers = Newcomers()  # shapes that came once, and have no graph
        self._optimizing = False  # its graph is compiled at its first call, however small
        self._unsettled = False  # its parameters are not there yet (FlaxBlock)
        # A step takes zeros where the loss does not depend on a parameter (graphs/static_alloc.py).
        self._static_alloc = False
        self._static_shape = False  # asking for a number is an error
        self._opened: Opened | None = None  # it gave up its graph: the forward asks for a number
        self._checked_layout = -1  # the Layout.version the graphs were last checked against

    def __getstate__(self) -> dict[str, Any]:
        # A copy, in this process or another, records its own graphs.
        return {
            **self.__dict__,
            "_graphs": {},
            "_numbers": varying.Numbers(),
            "_buckets": None,
            "_newcomers": Newcomers(),
            "_opened": None,
            "_served": None,
        }

    def register_child(self, block: Block, name: str | None = None) -> None:
        if not isinstance(block, HybridBlock):
            raise errors.MXNetValueError(
                f"Children of HybridBlock must also be HybridBlock, but {block} has type {type(block)}. If you "
                "are using Sequential, please try HybridSequential instead."
            )
        super().register_child(block, name)

    def hybridize(
        self,
        active: bool = True,
        partition_if_dynamic: bool = True,
        static_alloc: bool = False,
        static_shape: bool = False,
        inline_limit: int = 2,
        forward_bulk_size: int | None = None,
        backward_bulk_size: int | None = None,
        mirror: bool | str | Any = None,
        dynamic_batch: bool | Sequence[int] | None = None,
        backend: str | None = None,
        clear: bool = True,
        **kwargs: Any,
    ) -> None:
        """Run as cached graphs from now on (or no longer).

        ``mirror=True`` recomputes cheap activations in the backward pass instead of keeping them; a name of
        ``memonger.policies()`` ("sublinear", "nested", ...) or a plan of memonger's recomputes more; a block's
        ``force_mirroring`` says otherwise for that block. ``static_shape=True`` makes it an error that the forward
        asks for a number (``if x.sum() > 0``), where else it runs imperatively; operators whose results are as long as
        the numbers say (a mask, ``nonzero``) stay allowed. ``dynamic_batch=True`` fills axis 0 of all inputs up to a
        power of two, or to one of the given lengths, where that changes no result, so that many lengths share few
        programs, in training, too; False does not; by default the setting ``compiler.dynamic_batch`` decides. XLA plans
        memory and fuses by itself: ``inline_limit``, ``partition_if_dynamic``, ``clear``, the bulk
        sizes and a ``backend`` that there is change nothing. With ``static_alloc`` a Trainer's
        step takes zeros for gradients of parameters on which the loss does not depend, as in MXNet.
        """
        if kwargs:
            known = [
                "active",
                "static_alloc",
                "static_shape",
                "inline_limit",
                "mirror",
                "dynamic_batch",
            ]
            name = next(iter(kwargs))
            raise errors.MXNetValueError(
                f"hybridize has no option {name!r}{errors.did_you_mean(name, known)}"
            )
        if backend:
            check_backend(backend)
        if isinstance(mirror, str):
            from mxjax import memonger

            memonger.policy(mirror)  # an unknown name is refused here, not when the block is called
        elif not (
            mirror is None or isinstance(mirror, bool) or callable(getattr(mirror, "lower", None))
        ):
            raise errors.MXNetTypeError(
                "mirror is True, False, a name of memonger.policies() or a plan of memonger's, got "
                f"{mirror!r} ({type(mirror).__name__})"
            )
        if dynamic_batch is not None and not isinstance(dynamic_batch, bool):
            dynamic_batch = tuple(sorted(dynamic_batch))
            if not all(type(n) is int and n > 0 for n in dynamic_batch):
                raise errors.MXNetValueError(
                    f"dynamic_batch is True, False or lengths above 0, got {dynamic_batch}"
                )
        before = [b.hybridization() for b in _hybrids(self)]
        try:
            self._active = active
            self._mirror = mirror
            self._buckets = None if dynamic_batch is None else Buckets(dynamic_batch)
            self._static_shape = static_shape
            self._static_alloc = static_alloc
            self._opened = None
            self._graphs = {}
            self._served = None
            self._cached_graph = ()
            super().hybridize(
                active, mirror=mirror, static_shape=static_shape, static_alloc=static_alloc
            )
        except BaseException:
            for undo in before:
                undo()
            raise

    def cast(self, dtype: Any) -> None:
        self._graphs.clear()
        self._served = None
        super().cast(dtype)

    def reset_device(self, device: Any) -> None:
        self._graphs.clear()
        self._served = None
        super().reset_device(device)

    def hybridization(self) -> Callable[[], None]:
        """How this block is hybridized, with its recorded graphs: a function that makes it so again."""
        before = {
            name: vars(self)[name]
            for name in (
                "_active",
                "_buckets",
                "_mirror",
                "_opened",
                "_static_shape",
                "_static_alloc",
            )
        }
        graphs = dict(self._graphs)
        return lambda: vars(self).update(before, _graphs=dict(graphs), _served=None)

    if not TYPE_CHECKING:

        def forward(self, *args: Any) -> Any:
            """The computation; to be defined, here or as `hybrid_forward`."""
            if writes_hybrid_forward(self):
                return run_hybrid_forward(self, args)
            return super().forward(*args)

        forward.calls_hybrid_forward = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        follow_hybrid_forward(cls)
        if not OF_CACHED_OP.isdisjoint(vars(cls)):
            cls._through = through_cached_op

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N803  (MXNet's name)
        """The computation as MXNet 1 defines it: with the operators `F` (mx.nd, or mx.sym for symbols), and the block's
        own parameters by keyword; to be defined, where `forward` is not. A layer's is its forward with these
        parameters, by position as well."""
        return hybrid_forward_of_layer(self, F, (x, *args), kwargs)

    _computes: Any = hybrid_forward

    def infer_shape(self, *args: Any) -> None:
        """Set the unknown parameter shapes from the inputs.

        Layers with such parameters define it; for `hybrid_forward`, and in MXNet 1.9 for all that a block holds, the
        operators say them.

        Raises:
          ValueError: they do not.
        """
        self._infer_attrs("infer_shape", "shape", *args)

    #: Whether the shapes of its parameters have been looked for, before its first forward.
    _called_infer_shape_already = False

    def infer_type(self, *args: Any) -> None:
        """Convert the parameters to the dtype of the first input (`cast`)."""
        self._infer_attrs("infer_type", "dtype", *args)

    def _infer_attrs(self, infer_fn: str, attr: str, *args: Any) -> None:
        """What `infer_shape` and `infer_type` end in; subclasses override it."""
        if infer_fn == "infer_type":
            given = first_array(args)
            if given is not None:
                self.cast(given.dtype)
        elif writes_hybrid_forward(self) or (generation() == 1 and not self._reg_params):
            infer_shapes(self, args)

    def _infer_own(self, args: tuple[Any, ...]) -> bool:
        """Finish the deferred initialization of this block's own parameters; whether there was any."""
        waiting = [p for p in self._reg_params.values() if p._deferred is not None]
        if not waiting:
            return False
        self.infer_shape(*args)
        for p in waiting:
            p._finish_deferred_init()
        return True

    def register_op_hook(
        self, callback: Callable[[str, str, Any], Any], monitor_all: bool = False
    ) -> None:
        super().register_op_hook(callback, monitor_all)
        self._op_hook = callback, monitor_all
        self._served = None

    def optimize_for(
        self, x: Any, *args: Any, backend: str | None = None, clear: bool = False, partition_if_dynamic: bool = True,
        static_alloc: bool = False, static_shape: bool = False, inline_limit: int = 2,
        forward_bulk_size: int | None = None, backward_bulk_size: int | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        """Hybridize the block, record it for these inputs and compile it.

        XLA is the compiler of every graph: what MXNet's backends (ONEDNN, TensorRT) do to parts of one, it does to all.

        Raises:
          ValueError: a backend that is not there (`mx.library.check_backend`).
        """
        if backend:
            check_backend(backend)
        known = bool(self._graphs)
        self.hybridize(True, partition_if_dynamic, static_alloc, static_shape, inline_limit, forward_bulk_size,
                       backward_bulk_size)  # fmt: skip
        if clear:
            self._graphs.clear()
        elif known and not _takes(self.forward, (x, *args)):
            return  # as in MXNet, which looks at the inputs of a block that it has no graph of alone
        self._optimizing = True
        try:
            for a in flatten(self(x, *args))[0]:
                if isinstance(a, NDArray):
                    a.wait_to_read()
        finally:
            self._optimizing = False

    def compile(self, *inputs: Any, dtype: Any = "float32", train: bool = False) -> None:
        """Compile what calls with inputs of these shapes run, so that the first of them compiles nothing.

        The block is hybridized if it was not. Nothing is computed: parameters, statistics and random numbers stay as
        they are. It holds for calls whose inputs are there (of NumPy, of a loader): operators before the call are a
        part of its program, which then is another. A whole training step, with its loss and trainer, is compiled by
        ``memonger.rehearse(step, net, trainer)``.

        Args:
          inputs: for each the shape, ``(8, 3, 224, 224)``, or anything with a shape and a dtype.
          dtype: of inputs that are shapes.
          train: the call under ``autograd.record()``, and ``backward`` of its results, instead.

        Raises:
          MXNetError: the forward asks for numbers, so that it is no program.

        >>> import mxjax as mx
        >>> net = mx.gluon.nn.Dense(2)
        >>> net.initialize()
        >>> net.compile((8, 3))
        >>> net(mx.np.ones((8, 3))).shape
        (8, 2)
        """
        from .graphs.ahead import compile_ahead

        compile_ahead(self, inputs, dtype, train)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        if self._op_hook is not None and not kwargs:
            from .graphs.op_hooks import run_heard

            return run_heard(self, args, *self._op_hook)
        if args and args[0] is None and not any(a is not None for a in args):
            raise NothingGiven(
                "In HybridBlock, there must be one NDArray in the input. Please check the type of the args."
            )
        if (
            self._active
            and not kwargs
            and not is_recording()
            and _jit() != "false"
            and not is_within()
        ):
            if self._opened is None or not stays_open(self):
                return self._through(args)
            return run_opened(self, args)
        return self._run_forward(*args, **kwargs)

    def _run_forward(self, *args: Any, **kwargs: Any) -> Any:
        cls = type(self)
        if cls._computes is not cls.hybrid_forward:
            follow_assigned(cls)
        forward = self.forward if self._force_mirroring is None else self._scoped_forward
        if not self._called_infer_shape_already:
            self._called_infer_shape_already = True
            # A forward of MXNet 2 asks for its parameters where it likes: what comes before would run twice.
            if cls.infer_shape is not HybridBlock.infer_shape and not kwargs:
                self._infer_own(args)
        seg = local.st.seg
        if seg.graph and seg.symbols is None and self._active:
            seg.symbols = symbols_in(self)
            if seg.symbols is not None:
                try:
                    return self._run_forward(*args, **kwargs)
                finally:
                    seg.symbols = None
        try:
            return forward(*args, **kwargs)
        except DeferredInitializationError:
            if not self._infer_own(args):
                raise
        return forward(*args, **kwargs)

    def _run_cached(self, args: tuple[Any, ...], filled: bool = False) -> Any:
        """The results by a graph; `filled`: the inputs have been brought to a length that others share."""
        st = local.st
        policy = self._policy()
        around = mirroring.get()
        for a in args:
            if not isinstance(a, NDArray):
                leaves, tree = flatten(args)
                break
        else:
            leaves, tree = list(args), len(args)
        arrays = [a for a in leaves if isinstance(a, NDArray)]
        if not arrays:
            if in_opened():
                return self._run_forward(*args)
            raise errors.MXNetValueError(
                "In HybridBlock, there must be one NDArray in the input. Please check the type of the args."
            )
        key = (
            tree,
            tuple(
                [
                    (a._v or a._value()).aval
                    if isinstance(a, NDArray)
                    else (_MOVES, type(a))
                    if self._moves(tree, j, a)
                    else constant(a)
                    for j, a in enumerate(leaves)
                ]
            ),
            tuple(map(_KIND, leaves)),
            st.training,
            None if policy is None else policy.key(),
            None if around is None else around.again,
            st.taping and generation() == 1,  # a forward of MXNet 1 may ask for it
        )
        if self._checked_layout != Layout.version:
            self._check_graphs()
        graph = self._graphs.get(key)
        if graph is None:
            computing = [at_work(a) for a in arrays]
            if any(map(operator.is_not, computing, arrays)):
                whole = flatten(args)[1] if type(tree) is int else tree
                return self._run_cached(unflatten(whole, leaves, computing), filled)
            if type(tree) is int:
                tree = flatten(args)[1]
            out = None if filled else serve_new_shape(self, leaves, tree, arrays)
            if out is not None:
                return out
            if self._opened is None and not filled and self._newcomers.has(self, key):
                return run_once(self, args)
            if self._opened is None:
                self._settle(args)
                moving = [j for j, a in enumerate(key[1]) if type(a) is tuple and a[0] is _MOVES]
                try:
                    tell_of_shapes(self, arrays)
                    graph = self._recorded(args, leaves, tree, policy, moving)
                except AsksForNumber as asks:
                    for j in asks.leaves:
                        self._numbers.fix((tree, j), leaves[j])
                    return self._run_cached(args, filled)
            if graph is None:
                return run_opened(self, args)
            self._graphs[key] = graph
        elif self._buckets is not None and not filled and self._buckets.lengths is not False:
            whole = flatten(args)[1] if type(tree) is int else tree
            out = self._buckets.serve(
                self, arrays, lambda given: self._run_cached(unflatten(whole, leaves, given), True)
            )  # fmt: skip
            if out is not None:
                return out
        if filled and graph.cut is not None:
            raise CallsPython
        limit = _parallel()
        if limit is not None and not st.training:
            return gated(limit, lambda: graph(arrays, leaves))
        out = graph(arrays, leaves)
        kind = type(self)
        if not st.taping and policy is None and kind._run is _RUN and kind._through is _THROUGH:
            self._served = served_next(self, graph, args, out) or self._served
        return out

    _through: Any = _run_cached  # or `through_cached_op`

    def _moves(self, tree: Any, j: int, a: Any) -> bool:
        """Whether an argument is a number that changes: it is an input of the graph."""
        return varying.takes_operand(a) and self._numbers.varies((tree, j), a)

    def _recorded(
        self, args: tuple[Any, ...], leaves: Any, tree: Any, policy: Any, moving: Sequence[int]
    ) -> CachedGraph | None:
        """The graph, or None where the block runs imperatively from now on."""
        try:
            # A plan is asked anew in training: it says there that it does not fit.
            kin = [g for key, g in self._graphs.items() if key[3] is local.st.training]
            found = CachedGraph(self, args, leaves, tree, self._run_forward, policy, kin, moving)
            found.fresh = not self._optimizing
            if self._static_alloc and local.st.training:
                remember(self)
            return found
        except GraphBreak as broken:
            give_up(broken, args)
        except NoArrays:
            if not in_opened():
                raise
            self._opened, self._served = Opened(None, self), None
        return None

    def _check_graphs(self) -> None:
        """Drop the graphs recorded with other blocks or other arrays than there are now."""
        parts = parts_of(self)
        self._graphs = {
            key: g
            for key, g in self._graphs.items()
            if len(g.parts) == len(parts) and all(map(operator.is_, g.parts, parts))
        }
        self._served = None
        self._checked_layout = Layout.version

    def _settle(self, args: tuple[Any, ...]) -> None:
        """Finish deferred initializations before a graph is recorded, by one imperative forward."""
        if any(p._deferred is not None for p in self.collect_params().values()) or any(
            b._unsettled for b in _hybrids(self)
        ):
            from mxjax import autograd

            # Recorded apart: this forward happens once, and what comes after it comes back.
            with autograd.pause(train_mode=False), apart():
                saved = [(b, b._active) for b in _hybrids(self)]
                try:
                    for b, _ in saved:
                        b._active = False
                    self._run_forward(*args)
                    for b, was in saved:
                        b._active = was
                except BaseException:
                    for b, was in saved:
                        b._active = was
                    raise

    def export(
        self, path: Any, epoch: int = 0, remove_amp_cast: bool = True, format: str = "symbol"
    ) -> Any:  # noqa: A002
        """Write the hybridized network to files: `path-symbol.json` and `path-0000.params`, which MXNet reads as well.

        Args:
          path: the beginning of the files' paths; None gives (symbol, parameters) and writes nothing.
          epoch: the number in the second file's name.
          remove_amp_cast: without the casts that mixed precision put in.
          format: `'stablehlo'` writes `path.stablehlo` for cpu, cuda and tpu instead, with the parameters
            in it (`jax.export.deserialize` reads it).

        The inputs are called `data`, or `data0`, `data1`, ... `SymbolBlock.imports` reads what is written.

        Returns:
          The two paths (the second is None where there are no parameters); nothing under MXNet 1's meaning.

        Raises:
          RuntimeError: the block was not hybridized and called, or runs something that is no operator.
        """
        from .files.exporting import export

        return export(self, path, epoch, remove_amp_cast, format)

    def graph(self, *args: Any) -> Any:
        """The recorded graph for these inputs (``core.Graph``), as ``hybridize`` runs it."""
        self._settle(args)
        leaves, tree = flatten(args)
        return CachedGraph(self, args, leaves, tree, self._run_forward, self._policy()).call.graph


_TAKE_ANY.append(HybridBlock.forward)
_RUN, _THROUGH = HybridBlock._run, HybridBlock._run_cached


def _takes(forward: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    try:
        inspect.signature(forward).bind(*args)
    except TypeError:
        return False
    return True


class NothingGiven(errors.MXNetValueError):
    """A hybrid block was called with nothing but None."""


def _hybrids(block: Block) -> list[HybridBlock]:
    found: list[HybridBlock] = []
    block.apply(lambda b: found.append(b) if isinstance(b, HybridBlock) else None)
    return found
