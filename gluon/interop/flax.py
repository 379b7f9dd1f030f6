"""Flax modules as blocks."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from mxjax import errors, initializer
from mxjax.array.classes import NDArray
from mxjax.core import TRACED, Call, Row, default_device, jaxprs, local, read, record, rng

from ..graphs.cached_graph import flatten
from ..hybrid_block import HybridBlock
from ..parameter import Parameter

__all__ = ["FlaxBlock"]

# What modules call the argument that tells training from prediction, and its value in training.
_MODES = {
    "train": True,
    "training": True,
    "is_training": True,
    "deterministic": False,
    "use_running_average": False,
}


class FlaxBlock(HybridBlock):
    """A module of ``flax.linen`` or ``flax.nnx`` as a block: its variables are Parameters, its calls are recorded.

    Of linen, ``examples`` are shapes (float32), arrays or ``jax.ShapeDtypeStruct`` of the module's inputs, by which
    the parameters are known at once. Without them they are made at the first call: create the Trainer
    after it. They are filled by the module's own initializers from mxjax's random numbers; those of the
    collection ``params`` are trained, all others (``batch_stats``) are states, updated in training. ``rngs`` names the
    random streams beside ``params``.

    Of nnx, a module is an object that has its values: `initialize` takes those (the object keeps its own),
    ``nnx.Param`` are trained, other variables are states. Its random streams are mxjax's, and its `train()` or `eval()`
    is called by autograd's mode.

    An argument of the module's ``__call__`` named ``train``, ``training``, ``is_training``, ``deterministic``
    or ``use_running_average`` is given by autograd's mode.

    Raises ``TypeError`` for anything but a module of linen or nnx.

    Args:
      rngs: the streams of random numbers.

    >>> import flax.linen as linen, mxjax as mx
    >>> net = mx.gluon.FlaxBlock(linen.Dense(3), (2, 4))
    >>> net.initialize()
    >>> net(mx.np.ones((2, 4))).shape, sorted(net.collect_params())
    ((2, 3), ['bias', 'kernel'])
    """

    def __init__(self, module: Any, *examples: Any, rngs: Sequence[str] = ("dropout",)):
        super().__init__()
        self._module = module
        self._side: Any = _side_of(module, tuple(rngs))
        known = inspect.signature(type(module).__call__).parameters
        self._mode = next((name for name in _MODES if name in known), None)
        self._paths: list[tuple[str, ...]] = []
        self._trained = 0
        self._filled: dict[str, Any] = {}
        self._calls: dict[Any, tuple[Call, list[Any]]] = {}
        self._unsettled = True
        if self._side.knows_shapes:
            self._structure([])
        elif examples:
            self._structure([_example(e) for e in examples])

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_calls": {}}

    def __repr__(self) -> str:
        return f"FlaxBlock({type(self._module).__name__})"

    # ---- variables -----------------------------------------------------------------------------------

    def _structure(self, inputs: Sequence[Any]) -> None:
        """Make the Parameters: the module's variables for these inputs, without computing them."""
        self._inputs = inputs
        leaves = self._side.shapes(inputs, self._told(False))
        # Trained ones first.
        self._paths = sorted(leaves, key=lambda path: path[0] != "params")
        self._trained = sum(path[0] == "params" for path in self._paths)
        for path in self._paths:
            name = self._side.name(path)
            leaf, trained = leaves[path], path[0] == "params"
            self._reg_params[name] = Parameter(
                name,
                shape=leaf.shape,
                dtype=leaf.dtype,
                init=_OwnInit(self, name),
                grad_req="write" if trained else "null",
                differentiable=trained,
            )
        self._unsettled = False

    def _told(self, training: bool) -> dict[str, Any]:
        """The argument of the module that tells the mode."""
        return {} if self._mode is None else {self._mode: _MODES[self._mode] == training}

    def _initial(self, name: str) -> Any:
        """A first value by the module's own rule; one run gives each parameter's once."""
        if name not in self._filled:
            made = self._side.values(self._inputs, self._told(False))
            self._filled = {self._side.name(path): np.asarray(leaf) for path, leaf in made.items()}
        return self._filled.pop(name)

    def _settle(self, args: tuple[Any, ...]) -> None:
        self._prepare(args)
        super()._settle(args)

    def _prepare(self, args: tuple[Any, ...]) -> None:
        """Make and fill the parameters of a block that had no examples."""
        if not self._unsettled:
            return
        leaves, tree = flatten(args)
        if not all(isinstance(a, NDArray) for a in leaves) or tree != flatten(tuple(leaves))[1]:
            raise errors.MXNetTypeError(
                "the first call of a FlaxBlock without examples takes plain arrays; give examples of the "
                "module's inputs: FlaxBlock(module, *shapes)"
            )
        values = [a._value().aval for a in leaves]
        self._structure([jax.ShapeDtypeStruct(v.shape, _narrow(v.dtype)) for v in values])
        self.initialize(device=leaves[0].device)

    # ---- running -------------------------------------------------------------------------------------

    def forward(self, *args: Any) -> Any:
        """The module's output for arrays, and nested lists and dicts of them."""
        self._prepare(args)
        leaves, tree = flatten(args)
        arrays = [a for a in leaves if isinstance(a, NDArray)]
        if not arrays:
            raise errors.MXNetValueError("a FlaxBlock takes at least one array")
        device = arrays[0].device
        held = [self._reg_params[self._side.name(path)].data(device) for path in self._paths]
        values = [a._value() for a in (*held, *arrays)]
        training = local.st.training
        constants = tuple(None if isinstance(a, NDArray) else (a,) for a in leaves)
        key = (training, tree, repr(constants), tuple([v.aval for v in values]))
        found = self._calls.get(key)
        if found is None:
            found = self._calls[key] = self._bind(training, tree, constants, values)
        call, out_tree = found
        drawn = rng.operands(values[0].aval.device, 1, lambda: self._draws(call, values))
        outs = record(call, (*drawn, *values))
        made = len(outs) - (len(self._paths) - self._trained if training else 0)
        for a, v in zip(held[self._trained :], outs[made:], strict=False):
            # A trace of the user's must leave nothing behind in arrays from outside it.
            if v.seg is not TRACED or a._value().seg is TRACED:
                v.tape = None
                a._set(v)
        wrapped = [type(arrays[0])._wrap(v) for v in outs[:made]]
        return jax.tree_util.tree_unflatten(out_tree[0], wrapped)

    def _draws(self, call: Call, values: Sequence[Any]) -> bool:
        """Whether the module draws random numbers in this mode."""
        words = rng.own_stream(values[0].aval.device).key.aval
        count = jax.ShapeDtypeStruct((), np.int64)
        with jax.enable_x64(True):
            return jaxprs.are_used(call.fn, [words, count, count, *[v.aval for v in values]], 3)

    def _bind(
        self, training: bool, tree: Any, constants: tuple[Any, ...], values: Sequence[Any]
    ) -> tuple[Call, list[Any]]:
        """The call of one signature: (key words, count, offset, variables, inputs) -> (outputs, states)."""
        n, trained, paths = len(self._paths), self._trained, self._paths
        apply, mode = self._side.apply, self._told(training)
        wide = any(v.aval.dtype.itemsize == 8 for v in values[:n])
        out_tree: list[Any] = [None]

        def run(words: Any, count: Any, offset: Any, *given: Any) -> tuple[Any, ...]:
            key = rng.key_of(words, count, offset)
            # A module is written for JAX's own defaults: jnp.zeros(n) in it is float32.
            with jax.enable_x64(wide):
                rest = iter(given[n:] if wide else [g.astype(_narrow(g.dtype)) for g in given[n:]])
                leaves = [next(rest) if c is None else c[0] for c in constants]
                held = dict(zip(paths, given, strict=False))
                inputs = jax.tree_util.tree_unflatten(tree, leaves)
                out, states = apply(held, inputs, key, training, mode, paths[trained:])
            made, out_tree[0] = jax.tree_util.tree_flatten(out)
            return (*made, *states)

        return Call(Row(type(self._module).__name__.lower(), run)), out_tree


class _Linen:
    """What is special of modules of ``flax.linen``; paths begin with the collection."""

    knows_shapes = False

    def __init__(self, module: Any, streams: tuple[str, ...]):
        self._module, self._streams = module, streams

    def name(self, path: tuple[str, ...]) -> str:
        return ".".join(path[1:] if path[0] == "params" else path)

    def _variables(self, key: Any, inputs: Sequence[Any], mode: dict[str, Any]) -> Any:
        from flax.core import meta

        streams = ("params", *self._streams)
        given = dict(zip(streams, jax.random.split(key, len(streams)), strict=True))
        return meta.unbox(self._module.init(given, *inputs, **mode))

    def shapes(self, inputs: Sequence[Any], mode: dict[str, Any]) -> dict[tuple[str, ...], Any]:
        """What variables there are, without computing them."""
        key = jax.eval_shape(lambda: jax.random.key(0))
        return _leaves(jax.eval_shape(lambda k, i: self._variables(k, i, mode), key, inputs))

    def values(self, inputs: Sequence[Any], mode: dict[str, Any]) -> dict[tuple[str, ...], Any]:
        """First values, by the module's initializers."""
        stream = rng.stream(default_device())
        zeros = [np.zeros(i.shape, i.dtype) for i in inputs]
        with jax.ensure_compile_time_eval():
            key = jax.random.fold_in(jax.random.wrap_key_data(read(stream.key)), stream.take())
            return _leaves(jax.jit(lambda k, i: self._variables(k, i, mode))(key, zeros))

    def apply(
        self,
        held: dict[tuple[str, ...], Any],
        inputs: Any,
        key: Any,
        training: bool,
        mode: dict[str, Any],
        states: Any,
    ) -> tuple[Any, list[Any]]:
        """The output, and in training the new states."""
        variables: dict[str, Any] = {}
        for path, leaf in held.items():
            _put(variables, path, leaf)
        keys = {name: jax.random.fold_in(key, k) for k, name in enumerate(self._streams)}
        collections = sorted({path[0] for path in states})
        out = self._module.apply(
            variables, *inputs, rngs=keys, mutable=collections if training else False, **mode
        )
        if not training:
            return out, []
        return out[0], [_get(out[1], path) for path in states]


class _Nnx:
    """What is special of modules of ``flax.nnx``; paths begin with ``params`` or ``rest``."""

    knows_shapes = True

    def __init__(self, module: Any):
        parts = self._split(module)
        self._graph, self._random = parts[0], parts[2]
        self._states = {"params": parts[1], "rest": parts[3]}

    @staticmethod
    def _split(module: Any) -> list[Any]:
        """The structure, and the states: parameters, random streams, and what else there is."""
        from flax import nnx

        split: Any = nnx.split
        return list(split(module, nnx.Param, nnx.RngState, ...))

    def name(self, path: tuple[Any, ...]) -> str:
        return ".".join(map(str, path[1:]))

    def values(self, inputs: Sequence[Any] = (), mode: Any = None) -> dict[tuple[Any, ...], Any]:
        """The module's own values."""
        return {
            (kind, *path): leaf
            for kind, state in self._states.items()
            for path, leaf in _flat(state).items()
        }  # fmt: skip

    shapes = values

    def apply(
        self,
        held: dict[tuple[Any, ...], Any],
        inputs: Any,
        key: Any,
        training: bool,
        mode: dict[str, Any],
        states: Any,
    ) -> tuple[Any, list[Any]]:
        """The output, and in training the new states."""
        from flax import nnx

        filled = {
            kind: _with(state, {path[1:]: leaf for path, leaf in held.items() if path[0] == kind})
            for kind, state in self._states.items()
        }
        drawn = {
            path: jax.random.fold_in(key, k)
            if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
            else 0 * leaf
            for k, (path, leaf) in enumerate(_flat(self._random).items())
        }
        module = nnx.merge(
            self._graph, filled["params"], _with(self._random, drawn), filled["rest"]
        )
        module.train() if training else module.eval()
        out = module(*inputs, **mode)
        if not training:
            return out, []
        after = _flat(self._split(module)[3])
        return out, [after[path[1:]] for path in states]


def _flat(state: Any) -> dict[tuple[Any, ...], Any]:
    """The arrays of a state of nnx by their paths."""
    from flax import nnx

    return {tuple(path): variable.get_value() for path, variable in nnx.to_flat_state(state)}


def _with(state: Any, leaves: dict[tuple[Any, ...], Any]) -> Any:
    """A state of nnx with other arrays."""
    from flax import nnx

    return nnx.from_flat_state([
        (path, variable.replace(leaves[tuple(path)])) for path, variable in nnx.to_flat_state(state)
    ])  # fmt: skip


def _side_of(module: Any, streams: tuple[str, ...]) -> Any:
    from flax import linen, nnx  # takes a second: imported when used

    if isinstance(module, linen.Module):
        return _Linen(module, streams)
    if isinstance(module, nnx.Module):
        return _Nnx(module)
    raise errors.MXNetTypeError(
        "FlaxBlock takes a module of flax.linen or flax.nnx, an object: linen.Dense(3), nnx.Linear(4, 3, "
        f"rngs=nnx.Rngs(0)); got {module.__name__ if isinstance(module, type) else type(module).__name__}"
    )


class _OwnInit(initializer.Initializer):
    """Fills a parameter by its module's rule."""

    def __init__(self, block: FlaxBlock, name: str):
        super().__init__()
        self._block, self._of = block, name

    def dumps(self) -> str:
        return f"{self._block!r}.{self._of}"

    def _init_weight(self, name: str, arr: Any) -> None:
        arr[:] = self._block._initial(self._of)


def _example(given: Any) -> Any:
    if isinstance(given, (tuple, list)) and all(isinstance(n, int) for n in given):
        return jax.ShapeDtypeStruct(tuple(given), np.float32)
    if not hasattr(given, "shape") or not hasattr(given, "dtype"):
        raise errors.MXNetTypeError(
            f"an example is a shape, an array or a jax.ShapeDtypeStruct, got {type(given).__name__}"
        )
    return jax.ShapeDtypeStruct(given.shape, _narrow(given.dtype))


def _narrow(dtype: Any) -> np.dtype[Any]:
    """The dtype as JAX has it by default."""
    dtype = np.dtype(dtype)
    narrow = {"float64": "float32", "int64": "int32", "uint64": "uint32"}
    return np.dtype(narrow.get(dtype.name, dtype))


def _path(keys: Any) -> tuple[str, ...]:
    return tuple(str(getattr(k, "key", getattr(k, "name", getattr(k, "idx", k)))) for k in keys)


def _leaves(tree: Any) -> dict[tuple[str, ...], Any]:
    return {_path(p): leaf for p, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def _put(tree: dict[str, Any], path: tuple[str, ...], leaf: Any) -> None:
    for key in path[:-1]:
        tree = tree.setdefault(key, {})
    tree[path[-1]] = leaf


def _get(tree: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree
