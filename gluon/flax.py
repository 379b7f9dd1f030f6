"""Flax modules as blocks."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from mxjax import errors, initializer
from mxjax.array.classes import NDArray
from mxjax.core import TRACED, Call, Row, default_device, local, read, record, rng

from .hybrid import flatten
from .hybrid_block import HybridBlock
from .parameter import Parameter

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
    """A ``flax.linen`` module as a block: its variables are Parameters, its calls are recorded.

    ``examples`` are shapes (float32), arrays or ``jax.ShapeDtypeStruct`` of the module's inputs, by which
    the parameters are known at once. Without them they are made at the first call: create the Trainer
    after it. They are filled by the module's own initializers from mxjax's random numbers; those of the
    collection ``params`` are trained, all others (``batch_stats``) are states, updated in training. An
    argument of the module's ``__call__`` named ``train``, ``training``, ``is_training``, ``deterministic``
    or ``use_running_average`` is given by autograd's mode. ``rngs`` names the random streams beside
    ``params``.

    A ``flax.nnx`` class comes in as ``flax.nnx.bridge.to_linen(Class, ...)``; autograd's mode does not
    reach into those.

    Raises ``TypeError`` for anything but a linen module.

    >>> import flax.linen as linen, mxjax as mx
    >>> net = mx.gluon.FlaxBlock(linen.Dense(3), (2, 4))
    >>> net.initialize()
    >>> net(mx.np.ones((2, 4))).shape, sorted(net.collect_params())
    ((2, 3), ['bias', 'kernel'])
    """

    def __init__(self, module: Any, *examples: Any, rngs: Sequence[str] = ("dropout",)):
        super().__init__()
        from flax import linen  # takes a second: imported when used

        if not isinstance(module, linen.Module):
            raise errors.MXNetTypeError(
                f"FlaxBlock takes a flax.linen.Module, got {type(module).__name__}; of an nnx class make "
                "one: flax.nnx.bridge.to_linen(Class, ...)"
            )
        self._module = module
        self._rngs = tuple(rngs)
        known = inspect.signature(type(module).__call__).parameters
        self._mode = next((name for name in _MODES if name in known), None)
        self._paths: list[tuple[str, ...]] = []
        self._trained = 0
        self._filled: dict[str, Any] = {}
        self._calls: dict[Any, tuple[Call, list[Any]]] = {}
        self._unsettled = True
        if examples:
            self._structure([_example(e) for e in examples])

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_calls": {}}

    def __repr__(self) -> str:
        return f"FlaxBlock({type(self._module).__name__})"

    # ---- variables -----------------------------------------------------------------------------------

    def _variables(self, key: Any, inputs: Sequence[Any]) -> Any:
        from flax.core import meta

        given = dict(zip(("params", *self._rngs), jax.random.split(key, 1 + len(self._rngs)), strict=True))
        mode: dict[str, Any] = {} if self._mode is None else {self._mode: not _MODES[self._mode]}
        return meta.unbox(self._module.init(given, *inputs, **mode))

    def _structure(self, inputs: Sequence[Any]) -> None:
        """Make the Parameters: the module's variables for these inputs, without computing them."""
        self._inputs = inputs
        key = jax.eval_shape(lambda: jax.random.key(0))
        shapes = jax.eval_shape(self._variables, key, inputs)
        leaves = {_path(p): leaf for p, leaf in jax.tree_util.tree_leaves_with_path(shapes)}
        # Trained ones first.
        self._paths = sorted(leaves, key=lambda path: path[0] != "params")
        self._trained = sum(path[0] == "params" for path in self._paths)
        for path in self._paths:
            name = _name(path)
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

    def _initial(self, name: str) -> Any:
        """A first value by the module's own rule; one run gives each parameter's once."""
        if name not in self._filled:
            stream = rng.stream(default_device())
            inputs = [np.zeros(i.shape, i.dtype) for i in self._inputs]
            with jax.ensure_compile_time_eval():
                key = jax.random.wrap_key_data(read(stream.key))
                made = jax.jit(self._variables)(jax.random.fold_in(key, stream.take()), inputs)
            leaves = jax.tree_util.tree_leaves_with_path(made)
            self._filled = {_name(_path(p)): np.asarray(leaf) for p, leaf in leaves}
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
        held = [self._reg_params[_name(path)].data(device) for path in self._paths]
        values = [a._value() for a in (*held, *arrays)]
        training = local.st.training
        constants = tuple(None if isinstance(a, NDArray) else (a,) for a in leaves)
        key = (training, tree, repr(constants), tuple([v.aval for v in values]))
        found = self._calls.get(key)
        if found is None:
            found = self._calls[key] = self._bind(training, tree, constants, values)
        call, out_tree = found
        outs = record(call, (*rng.operands(values[0].aval.device), *values))
        made = len(outs) - (len(self._paths) - self._trained if training else 0)
        for a, v in zip(held[self._trained :], outs[made:], strict=False):
            if v.seg is not TRACED:
                v.tape = None
                a._set(v)
        wrapped = [type(arrays[0])._wrap(v) for v in outs[:made]]
        return jax.tree_util.tree_unflatten(out_tree[0], wrapped)

    def _bind(
        self, training: bool, tree: Any, constants: tuple[Any, ...], values: Sequence[Any]
    ) -> tuple[Call, list[Any]]:
        """The call of one signature: (key words, count, offset, variables, inputs) -> (outputs, states)."""
        n, trained, paths = len(self._paths), self._trained, self._paths
        collections = sorted({path[0] for path in paths[trained:]})
        mode: dict[str, Any] = {} if self._mode is None else {self._mode: _MODES[self._mode] == training}
        wide = any(v.aval.dtype.itemsize == 8 for v in values[:n])
        out_tree: list[Any] = [None]

        def run(words: Any, count: Any, offset: Any, *given: Any) -> tuple[Any, ...]:
            key = rng.key_of(words, count, offset)
            # A module is written for JAX's own defaults: jnp.zeros(n) in it is float32.
            with jax.enable_x64(wide):
                rest = iter(given[n:] if wide else [g.astype(_narrow(g.dtype)) for g in given[n:]])
                leaves = [next(rest) if c is None else c[0] for c in constants]
                variables: dict[str, Any] = {}
                for path, leaf in zip(paths, given, strict=False):
                    _put(variables, path, leaf)
                keys = {name: jax.random.fold_in(key, k) for k, name in enumerate(self._rngs)}
                out = self._module.apply(
                    variables,
                    *jax.tree_util.tree_unflatten(tree, leaves),
                    rngs=keys,
                    mutable=collections if training else False,
                    **mode,
                )
                states: list[Any] = []
                if training:
                    out, changed = out
                    states = [_get(changed, path) for path in paths[trained:]]
            made, out_tree[0] = jax.tree_util.tree_flatten(out)
            return (*made, *states)

        return Call(Row(type(self._module).__name__.lower(), run)), out_tree


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


def _name(path: tuple[str, ...]) -> str:
    return ".".join(path[1:] if path[0] == "params" else path)


def _put(tree: dict[str, Any], path: tuple[str, ...], leaf: Any) -> None:
    for key in path[:-1]:
        tree = tree.setdefault(key, {})
    tree[path[-1]] = leaf


def _get(tree: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree
