"""Blocks as pure functions of their parameters, for JAX's transformations."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from mxjax import errors
from mxjax.array.handle import to_value
from mxjax.array.ndarray import NDArray
from mxjax.autograd import pause
from mxjax.core import Value, apart, concrete, jaxprs, movable, read, rng, traced
from mxjax.modes import array_class
from mxjax.scopes import scope, undone

from .block import Block
from .graphs.cached_graph import flatten
from .hybrid_block import HybridBlock
from .interop.foreign import at_home, home
from .parameter import Parameter

__all__ = ["call", "merge", "split"]

Arrays = dict[str, Any]

# A call puts its arrays into the parameters while the forward runs: one call at a time.
_running = threading.RLock()


def split(net: Block, *examples: Any) -> tuple[Arrays, Arrays]:
    """The parameters of a network and its state, as dictionaries of ``jax.Array`` by name, without copies.

    Args:
      net: an initialized network on one device, or on a mesh.
      examples: inputs (arrays, shapes or ``jax.ShapeDtypeStruct``) for a network whose shapes are not all known yet:
        it runs once for them.

    Returns:
      ``(params, state)``: what training changes, and what it does not: moving statistics, constants, and parameters
      whose ``grad_req`` is ``null``. A parameter that is used in several places is there once, by its first name.
      JAX moves the arrays to where they are used (a mesh, say) as it does its own, if they are on its default device.

    Raises:
      MXNetError: the network is not initialized.
      DeferredInitializationError: a shape is unknown, and there are no examples.
      ValueError: it is on several devices, or a parameter is stored sparse.

    >>> import mxjax as mx
    >>> net = mx.gluon.nn.HybridSequential()
    >>> net.add(mx.gluon.nn.Dense(4, in_units=3), mx.gluon.nn.BatchNorm(in_channels=4))
    >>> net.initialize()
    >>> params, state = split(net)
    >>> sorted(params), sorted(state)
    (['0.bias', '0.weight', '1.beta', '1.gamma'], ['1.running_mean', '1.running_var'])
    """
    named = _parameters(net)
    if examples and _unsettled(net, named):
        _settle(net, examples)
        named = _parameters(net)
    params: Arrays = {}
    state: Arrays = {}
    for name, p in named.items():
        (state if p.grad_req == "null" else params)[name] = _as_jax_makes(_array_of(name, p).jax)
    return params, state


def call(
    net: Block,
    params: Mapping[str, Any],
    state: Mapping[str, Any] | None,
    *inputs: Any,
    train: bool = False,
    rng: Any = None,
    **kwargs: Any,
) -> tuple[Any, Arrays]:
    """The results of a network with these parameters, and its new state: a pure function, for JAX's transformations.

    Args:
      net: the network; its own parameters are neither read nor changed. Whether it is hybridized makes no difference.
      params, state: arrays by name, as `split` gives them. A name may go from one dictionary to the other: what is in
        ``params`` is what you differentiate by; only what is in ``state`` may be written to by the forward.
      inputs, kwargs: those of the network: arrays of JAX, NumPy or mxjax, also in lists, tuples and dictionaries.
      train: whether it runs in training mode (`autograd.train_mode`): Dropout drops, BatchNorm uses the batch.
      rng: the key that random numbers are drawn from, ``jax.random.key(0)``.

    Returns:
      ``(results, state)``: results are arrays of JAX, or of mxjax where one of the inputs is; ``state`` has the names
      that were given.

    Raises:
      ValueError: names are missing or left over; the forward draws random numbers and there is no ``rng``; it writes to
        a parameter of ``params``, or to an array that is no parameter.
      MXNetError: the network is not initialized.

    Calls of several threads run one after the other, and no other thread may run the same network meanwhile.

    >>> import jax, jax.numpy as jnp, mxjax as mx
    >>> net = mx.gluon.nn.Dense(2, in_units=3)
    >>> net.initialize()
    >>> params, state = split(net)
    >>> def loss(params, x):
    ...     out, _ = call(net, params, state, x)
    ...     return jnp.sum(out ** 2)
    >>> jax.jit(jax.grad(loss))(params, jnp.ones((1, 3)))["weight"].shape
    (2, 3)
    """
    if not inputs and not kwargs and not net._runs_on_nothing():
        raise errors.MXNetTypeError(
            f"functional.call got no inputs for {type(net).__name__}: call(net, params, state, x) computes net(x)"
        )
    named = _parameters(net)
    given = _given(net, named, params, state)
    leaves = jax.tree_util.tree_leaves((params, state, inputs, kwargs, rng))
    staged = jaxprs.is_staged() or any(isinstance(a, jax.core.Tracer) for a in leaves)
    ours = any(isinstance(a, NDArray) for a in flatten((inputs, kwargs))[0])
    with _running:
        handles = {name: _array_of(name, p) for name, p in named.items()}
        kind, device = home(net)

        def value(a: Any) -> Value:
            return _value(a, device, staged)

        entered = {name: value(a) for name, a in given.items()}
        args, options = jax.tree_util.tree_map(
            lambda a: (
                kind._wrap(value(a))
                if isinstance(a, (jax.Array, np.ndarray, np.generic, NDArray))
                else a
            ),
            (inputs, kwargs),
            is_leaf=lambda a: isinstance(a, NDArray),
        )
        with (
            _swapped(handles, entered),
            _imperative(net),
            _unwritten(net),
            pause(train_mode=train),
            _keyed(net, rng),
        ):
            out = net(*args, **options)
            after = {name: h._v for name, h in handles.items()}
        new_state: Arrays = {}
        for name, v in after.items():
            if name in params:
                if v is not entered[name]:
                    raise errors.MXNetValueError(
                        f"the forward of {type(net).__name__} writes to {name!r}, which is in params: what a forward "
                        "changes is state. Move it: state[name] = params.pop(name)"
                    )
            else:
                new_state[name] = kind._wrap(v).jax if v is not entered[name] else given[name]
    if not ours:
        out = jax.tree_util.tree_map(
            lambda a: a.jax if isinstance(a, NDArray) else a,
            out,
            is_leaf=lambda a: isinstance(a, NDArray),
        )
    return out, new_state


def merge(net: Block, params: Mapping[str, Any], state: Mapping[str, Any] | None = None) -> Block:
    """Give a network the arrays of `split`, of a training of JAX's say; gives the network.

    A ``jax.Array`` that fits and lies where the parameter does is taken without a copy, and never written over.

    Args:
      net: the block.
      params: the parameters' arrays by name, as `split` gives them.
      state: the state's arrays by name, as `split` gives it.

    Returns:
      Block: the network itself.

    Raises:
      ValueError: names are missing or left over.
      AssertionError: an array has another shape or dtype than the parameter; nothing is changed then.

    >>> import mxjax as mx, jax
    >>> net = mx.gluon.nn.Dense(2, in_units=3)
    >>> net.initialize()
    >>> params, state = split(net)
    >>> merge(net, jax.tree.map(lambda a: 0 * a, params), state).weight.data().sum()
    array(0.)
    """
    named = _parameters(net)
    given = _given(net, named, params, state)
    for name, a in given.items():
        p = named[name]
        if p.shape is not None and not _fits(p.shape, tuple(np.shape(a))):
            raise errors.MXNetAssertionError(
                f"{name!r} has shape {tuple(np.shape(a))}, the parameter {p.shape}"
            )
        if np.dtype(p.dtype) != a.dtype:
            raise errors.MXNetAssertionError(
                f"{name!r} is of {a.dtype}, the parameter of {np.dtype(p.dtype)}: net.cast({str(a.dtype)!r}) first"
            )
    for name, a in given.items():
        p = named[name]
        a = a.jax if isinstance(a, NDArray) else a
        arrays = p._arrays
        if arrays is None:
            p._load(np.asarray(a))
        elif len(arrays) == 1 and _lies_there(a, p):
            h = _array_of(name, p)
            if not a.committed:  # a parameter stays on its device, which errors of devices go by
                a = jax.device_put(a, a.sharding)
            v = concrete(a, shared=True)
            if h._var is not None:
                v.tape, v.out = h._var, 0
            h._v = v  # `_set` would copy it for the variable's sake
        else:
            with pause():
                p.set_data(array_class()._wrap(to_value(a)) if isinstance(a, jax.Array) else a)
    return net


def _parameters(net: Block) -> dict[str, Parameter]:
    """A network's parameters by their places, each once."""
    if not isinstance(net, Block):
        raise errors.MXNetTypeError(f"a Block of gluon's is expected, got {type(net).__name__}")
    found: dict[str, Parameter] = {}
    known: set[int] = set()
    for name, p in net._walk(""):
        if id(p) not in known:
            known.add(id(p))
            found[name] = p
    return found


def _as_jax_makes(array: Any) -> Any:
    """An array where JAX makes its own is one that JAX moves to where it is used, as those are (to a mesh, say)."""
    default: Any = jax.config.jax_default_device  # type: ignore[attr-defined]
    if not isinstance(default, jax.Device):
        default = jax.local_devices(backend=default)[0]
    there = jax.sharding.SingleDeviceSharding(default, memory_kind=array.sharding.memory_kind)
    return movable(array) if array.sharding == there else array


def _array_of(name: str, p: Parameter) -> Any:
    if p._stype != "default":
        raise errors.MXNetValueError(
            f"{name!r} is stored {p._stype}: JAX's arrays are dense; use stype='default'"
        )
    arrays = p.list_data()
    if len(arrays) > 1:
        raise errors.MXNetValueError(
            f"{name!r} is on {len(arrays)} devices: net.reset_device(device) puts it on one, net.shard(mesh) makes one "
            "array of them"
        )
    return arrays[0]


def _given(
    net: Block, named: Mapping[str, Any], params: Mapping[str, Any], state: Mapping[str, Any] | None
) -> dict[str, Any]:
    """All arrays by name, in the order of the network's parameters."""
    state = {} if state is None else state
    for what, one in (("params", params), ("state", state)):
        if not isinstance(one, Mapping):
            raise errors.MXNetTypeError(
                f"{what} is a dictionary of arrays by name, as functional.split gives it; got {type(one).__name__}"
            )
    twice = [name for name in params if name in state]
    if twice:
        raise errors.MXNetValueError(f"{twice[0]!r} is in params and in state")
    missing = [name for name in named if name not in params and name not in state]
    extra = [name for name in (*params, *state) if name not in named]
    if missing or extra:
        raise errors.MXNetValueError(
            f"params and state have together the parameters of {type(net).__name__}; "
            + (f"missing are {', '.join(map(repr, missing[:5]))}" if missing else "")
            + (" and " if missing and extra else "")
            + (f"left over are {', '.join(map(repr, extra[:5]))}" if extra else "")
            + (errors.did_you_mean(extra[0], missing or named) if extra else "")
        )
    return {name: params[name] if name in params else state[name] for name in named}


def _value(a: Any, device: Any, staged: bool) -> Value:
    if isinstance(a, NDArray):
        a = a.jax if staged else a
    if not staged:
        if isinstance(a, jax.Array):
            return at_home(a, device)
        if isinstance(a, NDArray):
            return to_value(a)
        return to_value(np.asarray(a))
    # What is not traced has to count as traced: else a new value of it would be lost, as a trace leaves nothing behind.
    a = a if isinstance(a, jax.Array) else np.asarray(a)
    return traced(a, device)


@scope
def _swapped(handles: Mapping[str, Any], entered: Mapping[str, Value]) -> Iterator[None]:
    """The parameters hold other values."""
    before = [(h, h._v, h._var) for h in handles.values()]

    def undo() -> None:
        for h, v, var in before:
            h._v = v
            h._var = var

    try:
        for name, h in handles.items():
            h._v = entered[name]
            h._var = None
        yield from undone(undo)
    except BaseException:
        undo()
        raise


@scope
def _imperative(net: Block) -> Iterator[None]:
    """Hybridized blocks run imperatively: what they would record is part of the user's function."""
    active: list[HybridBlock] = []
    net.apply(lambda b: active.append(b) if isinstance(b, HybridBlock) and b._active else None)

    def undo() -> None:
        for b in active:
            b._active = True

    try:
        for b in active:
            b._active = False
        yield from undone(undo)
    except BaseException:
        undo()
        raise


@scope
def _unwritten(net: Block) -> Iterator[None]:
    """The forward may not leave values of a trace in arrays that the blocks keep beside their parameters."""
    kept: list[tuple[str, Any, Value]] = []

    def look(b: Block) -> None:
        for name, a in vars(b).items():
            if isinstance(a, NDArray) and a.stype == "default":
                kept.append((f"{type(b).__name__}.{name}", a, a._value()))

    net.apply(look)
    yield
    for name, a, v in kept:
        if a._value() is not v:
            a._set(v)
            raise errors.MXNetValueError(
                f"the forward writes to {name}, an array that is no parameter: make it one, "
                "Parameter(..., grad_req='null'), and it is state"
            )


def _keyed(net: Block, key: Any) -> rng.Keyed:
    return rng.Keyed(
        key,
        f"the forward of {type(net).__name__} draws random numbers: give a key, functional.call(..., "
        "rng=jax.random.key(0)), another one for each step (jax.random.fold_in(key, step))",
    )


def _unsettled(net: Block, named: Mapping[str, Parameter]) -> bool:
    found = [any(p._deferred is not None for p in named.values())]
    net.apply(lambda b: found.append(isinstance(b, HybridBlock) and b._unsettled))
    return any(found)


def _settle(net: Block, examples: tuple[Any, ...]) -> None:
    """Run the network once without numbers, so that shapes are known."""
    kind, device = home(net)

    def abstract(a: Any) -> Any:
        if isinstance(a, (tuple, list)) and all(isinstance(n, int) for n in a):
            return jax.ShapeDtypeStruct(tuple(a), np.float32)
        if hasattr(a, "shape") and hasattr(a, "dtype"):
            return jax.ShapeDtypeStruct(tuple(a.shape), a.dtype)
        return a

    def run(*args: Any) -> None:
        with pause(train_mode=False), apart(), _imperative(net), rng.Keyed(None):
            net(*jax.tree_util.tree_map(lambda a: kind._wrap(traced(a, device)), args))

    if getattr(net, "_prepare", None) is not None:  # a FlaxBlock, which takes shapes from arrays
        net._prepare(
            tuple(kind._wrap(to_value(np.zeros(a.shape, a.dtype))) for a in map(abstract, examples))
        )
        return
    with jax.enable_x64(True):  # as our dtypes are
        jax.eval_shape(run, *map(abstract, examples))


def _fits(known: tuple[int, ...], given: tuple[int, ...]) -> bool:
    return len(known) == len(given) and all(
        n in (m, 0, -1) for n, m in zip(known, given, strict=True)
    )


def _lies_there(a: Any, p: Parameter) -> bool:
    """Whether an array can be a parameter's value as it is."""
    if not isinstance(a, jax.Array) or isinstance(a, jax.core.Tracer):
        return False
    now = p.list_data()[0]._value()
    return not now.aval.memory and getattr(read(now), "sharding", None) == a.sharding
