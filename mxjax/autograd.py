"""Automatic differentiation: record, differentiate, and own gradients."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from . import core, errors, settings
from .array.handle import cast
from .array.ndarray import NDArray, Variable, head_gradient, values
from .array.sparse import taped_value, wrap
from .core.calls.reading import asked
from .core.calls.state import ThreadState, local
from .core.calls.value import Value, traced
from .scopes import Scope

__all__ = [
    "Function",
    "NDArray",  # as in MXNet, whose users write `from mxnet.autograd import *`
    "backward",
    "get_symbol",
    "grad",
    "is_recording",
    "is_training",
    "mark_variables",
    "pause",
    "predict_mode",
    "record",
    "set_recording",
    "set_training",
    "train_mode",
]


_run_mode = settings.snapshot("engine.run_mode")
_version = settings.snapshot("compat.version")


def is_recording() -> bool:
    """Whether calls are put on the tape; in MXNet 1 also where the graph of a hybridized block is made meanwhile.

    Returns:
      bool: whether it is so.
    """
    st = local.st
    return st.taping or (st.taped_around and _version() == "1.9")


def is_training() -> bool:
    """Whether layers behave as in training (Dropout drops, BatchNorm uses the batch).

    Returns:
      bool: whether it is so.
    """
    return local.st.training


def set_recording(is_recording: bool) -> bool:
    """Switch the tape; gives the state before.

    Args:
      is_recording: whether calls are recorded.

    Returns:
      bool: what it was before.
    """
    st = local.st
    before = st.taping
    st.taping = bool(is_recording)
    st.refresh()
    return before


def set_training(train_mode: bool) -> bool:
    """Switch the training mode; gives the state before.

    Args:
      train_mode: whether layers behave as in training.

    Returns:
      bool: what it was before.
    """
    st = local.st
    before = st.training
    st.training = bool(train_mode)
    return before


def get_symbol(x: NDArray) -> Any:
    """The computation of a recorded array, as a symbol: `mx.sym`'s view of the tape.

    Args:
      x: a result of recorded calls.

    Returns:
      Symbol: what was recorded.

    Raises:
      MXNetError: the array was not recorded, or part of it ran in Python.

    >>> import mxjax as mx
    >>> x = mx.nd.ones((2,)); x.attach_grad()
    >>> with mx.autograd.record():
    ...     y = x * 2 + 1
    >>> mx.autograd.get_symbol(y).get_internals().list_outputs()
    ['var0', 'node_0_output', 'node_1_output']
    """
    found: Any = importlib.import_module(f"{__package__}.symbol.taped").symbol_of(x)
    return found


class _Scope(Scope):
    """Sets recording and training mode inside ``with``; ``None`` leaves one as it is."""

    __slots__ = ("_recording", "_training")

    def __init__(self, recording: bool | None, training: bool | None):
        self._recording = recording
        self._training = training

    def _now(self) -> tuple[ThreadState, bool, bool]:
        st = local.st
        return st, st.taping, st.training

    def _set(self) -> None:
        st = local.st
        if self._recording is not None:
            st.taping = self._recording
        if self._training is not None:
            st.training = self._training
        st.refresh()

    def _give_back(self, before: tuple[ThreadState, bool, bool], broken: bool) -> None:
        st, taping, training = before
        st.taping, st.training = taping, training
        st.refresh()


def record(train_mode: bool = True) -> _Scope:
    """A scope in which calls are recorded for ``backward``.

    Args:
      train_mode: whether layers behave as in training.

    Returns:
      context manager: within it the mode is in force.

    >>> import mxjax as mx
    >>> x = mx.np.array([1.0, 2.0]); x.attach_grad()
    >>> with mx.autograd.record():
    ...     y = (x * x).sum()
    >>> y.backward(); x.grad
    array([2., 4.])
    """
    if _run_mode() == "infer":
        raise errors.MXNetError(
            "autograd.record() in a process that only infers: engine.run_mode is 'infer' (graph_run_mode=0). "
            "mx.config.set('engine.run_mode', 'train') allows training"
        )
    return _Scope(True, train_mode)


def pause(train_mode: bool = False) -> _Scope:
    """A scope inside ``record`` whose calls are not recorded.

    Args:
      train_mode: whether layers behave as in training.

    Returns:
      context manager: within it the mode is in force.
    """
    return _Scope(False, train_mode)


def train_mode() -> _Scope:
    """A scope in which layers behave as in training, recorded or not.

    Returns:
      context manager: within it the mode is in force.
    """
    return _Scope(None, True)


def predict_mode() -> _Scope:
    """A scope in which layers behave as in prediction, recorded or not.

    Returns:
      context manager: within it the mode is in force.
    """
    return _Scope(None, False)


def mark_variables(
    variables: NDArray | Sequence[NDArray],
    gradients: NDArray | Sequence[NDArray],
    grad_reqs: str | Sequence[str] = "write",
) -> None:
    """Make arrays variables whose gradients go to the given arrays.

    Args:
      variables: the arrays that gradients are asked for.
      gradients: the arrays for the gradients.
      grad_reqs: "write", "add" or "null", for each variable.
    """
    xs = [variables] if isinstance(variables, NDArray) else list(variables)
    gs = [gradients] if isinstance(gradients, NDArray) else list(gradients)
    reqs = [grad_reqs] * len(xs) if isinstance(grad_reqs, str) else list(grad_reqs)
    if not len(xs) == len(gs) == len(reqs):
        raise errors.MXNetValueError(
            f"{len(xs)} variables, {len(gs)} gradients and {len(reqs)} grad_reqs: one each is "
            "expected"
        )
    for x, g, req in zip(xs, gs, reqs, strict=True):
        x._mark(g, req)


def _heads(
    heads: NDArray | Sequence[NDArray], head_grads: Any
) -> tuple[list[Value], list[Value | None]]:
    """Heads and their gradients as values, checked."""
    if isinstance(heads, NDArray):
        heads = [heads]
        head_grads = None if head_grads is None else [head_grads]
    if not isinstance(heads, (list, tuple)) or not all(isinstance(h, NDArray) for h in heads):
        raise errors.MXNetTypeError(
            f"an array or a list of arrays is differentiated, not {type(heads).__name__}"
        )
    if not heads:
        raise errors.MXNetError(
            "There are no inputs in computation graph that require gradients: the list of heads "
            "is empty"
        )
    if isinstance(head_grads, NDArray) or head_grads is None:
        head_grads = [head_grads] * len(heads) if head_grads is None else [head_grads]
    if len(head_grads) != len(heads):
        raise errors.MXNetAssertionError(
            f"heads and head_grads must be lists of the same length: {len(heads)} vs. "
            f"{len(head_grads)}"
        )
    vs = values(heads)
    gs = [head_gradient(v, g) for v, g in zip(vs, head_grads, strict=True)]
    return vs, gs


def backward(
    heads: NDArray | Sequence[NDArray],
    head_grads: NDArray | Sequence[NDArray | None] | None = None,
    retain_graph: bool = False,
    train_mode: bool = True,
) -> None:
    """Differentiate the heads with respect to all variables behind them and store the gradients.

    ``head_grads`` (one per head, ``None`` is ones) are the gradients of the final result with
    respect to the heads. What was recorded is let go unless ``retain_graph``. Integers have no
    gradient: such heads are left out. Raises ``MXNetError`` for a head that was not recorded.

    Args:
      heads: the outputs.
      head_grads: the gradients of the outputs; 1 without.
      retain_graph: whether the graph can be differentiated once more.
      train_mode: whether layers behave as in training.

    >>> import mxjax as mx
    >>> x = mx.np.array([3.0]); x.attach_grad()
    >>> with mx.autograd.record():
    ...     y, z = x * 2, x * x
    >>> mx.autograd.backward([y, z]); x.grad
    array([8.])
    """
    vs, gs = _heads(heads, head_grads)
    with _Scope(None, train_mode):
        core.backward(vs, gs, retain=retain_graph)


def grad(
    heads: NDArray | Sequence[NDArray],
    variables: NDArray | Sequence[NDArray],
    head_grads: NDArray | Sequence[NDArray | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    train_mode: bool = True,
) -> list[Any]:
    """The gradients of the heads with respect to ``variables``: a list of new arrays, also for one
    variable.

    With ``create_graph=True`` they can be differentiated again, as often as wanted. ``x.grad``
    stays as it is. Raises ``MXNetError`` for a variable without attach_grad, or one that the heads
    do not depend on.

    Args:
      head_grads: the gradients of the outputs; 1 without.
      retain_graph: whether the graph can be differentiated once more.
      create_graph: whether the gradients can be differentiated.
      train_mode: whether layers behave as in training.

    Returns:
      array, or a list of them: the gradients, in the variables' shapes.

    >>> import mxjax as mx
    >>> x = mx.np.array([2.0]); x.attach_grad()
    >>> with mx.autograd.record():
    ...     y = x * x * x
    ...     (dy,) = mx.autograd.grad(y, x, create_graph=True)
    >>> dy.backward(); x.grad
    array([12.])
    """
    xs: list[NDArray] = [variables] if isinstance(variables, NDArray) else list(variables)
    vs, gs = _heads(heads, head_grads)
    for k, x in enumerate(xs, 1):
        if x._var is None or x._var.req == "null":
            raise errors.MXNetError(
                f"Cannot differentiate with respect to the {k}-th variable because it does not "
                "require gradient. "
                "Call attach_grad() on it before it is used"
            )
    retain = create_graph if retain_graph is None else retain_graph
    with _Scope(None, train_mode):
        found = core.gradients(vs, gs, retain=retain, taped=create_graph)
    out = []
    for k, x in enumerate(xs, 1):
        variable: Variable = x._var  # type: ignore[assignment]
        g = found.get(variable)
        if g is None:
            raise errors.MXNetError(
                f"Cannot differentiate with respect to the {k}-th variable because it is "
                "unreachable from the "
                "outputs: they were not computed from it inside autograd.record()"
            )
        out.append(type(x)._wrap(_own(g, x._value())) if type(g) is Value else _sparse(g, x))
    return out


def _sparse(g: Any, x: Any) -> Any:
    """A sparse gradient as an array, in the dtype of its variable."""
    return wrap(g.cast(x.dtype))


def _own(g: Value, like: Value) -> Value:
    """A gradient in the dtype of its variable, and no other array's value."""
    if g.aval.dtype != like.aval.dtype:
        return core.record1(cast(like.aval.dtype), g)
    return g


class Function:
    """A differentiable function written in Python: define ``forward`` and ``backward``.

    ``forward`` gets and returns arrays and is not recorded; ``backward`` gets the gradients of the
    outputs (zeros for those nobody used) and returns those of the inputs, ``None`` for an input
    without one. Both run at each call: a hybridized block whose forward calls one runs imperatively, with the blocks
    in it that do not still compiled. An instance is called once; an exception in ``backward`` arrives at the caller of
    ``y.backward()`` as it is. There is no second derivative: MXNetError, as in MXNet.

    >>> import mxjax as mx
    >>> class Double(mx.autograd.Function):
    ...     def forward(self, x):
    ...         return x * 2
    ...     def backward(self, dy):
    ...         return dy * 2
    >>> x = mx.np.array([1.0]); x.attach_grad()
    >>> with mx.autograd.record():
    ...     y = Double()(x)
    >>> y.backward(); x.grad
    array([2.])
    """

    # Of the class, for subclasses that do not call this class's __init__.
    _saved: tuple[Any, ...] = ()
    _used = False
    _title = ""  # what errors call it, where not by the class

    def save_for_backward(self, *args: Any) -> None:
        """Keep arrays for ``backward``, which finds them in ``saved_tensors``."""
        self._saved = args

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What ``save_for_backward`` kept."""
        return self._saved

    @saved_tensors.setter
    def saved_tensors(self, kept: Any) -> None:
        self._saved = kept

    if TYPE_CHECKING:  # each function's take what they want
        forward: Callable[..., Any]
        backward: Callable[..., Any]
    else:

        def forward(self, *inputs: Any) -> Any:
            """The function's value; to be defined."""
            raise errors.MXNetNotImplementedError(
                f"{type(self).__name__} does not define forward()"
            )

        def backward(self, *output_grads: Any) -> Any:
            """The inputs' gradients from the outputs' ones; to be defined."""
            raise errors.MXNetNotImplementedError(
                f"{type(self).__name__} does not define backward()"
            )

    def __call__(self, *inputs: NDArray) -> Any:
        if self._used:
            raise errors.MXNetAssertionError(
                "Each Function instance can only be called once. Please create another instance."
            )
        if core.is_recording():
            raise asked(local.st.seg)
        self._used = True
        recording = is_recording()
        if not recording and core.is_traced([taped_value(x) for x in inputs]):
            return _inside_jax(self, inputs)
        with pause(train_mode=is_training()):
            made = self.forward(*inputs)
        if not recording:
            return made
        single = isinstance(made, NDArray)
        outs = [made] if single else list(made)
        cls = type(outs[0])
        # New values: what forward returned may be an input, whose history is another one.
        with pause():
            fresh = [o.copy() for o in outs]

        def pull(given: list[Value | None]) -> list[Value | None]:
            gs = [
                cls._wrap(g) if g is not None else _zeros(o)
                for g, o in zip(given, fresh, strict=True)
            ]
            with pause(train_mode=is_training()):
                back = self.backward(*gs)
            back = [back] if isinstance(back, NDArray) or back is None else list(back)
            if len(back) != len(inputs):
                raise errors.MXNetValueError(
                    f"{type(self).__name__}.backward returned {len(back)} gradients for "
                    f"{len(inputs)} inputs"
                )
            return [None if b is None else taped_value(b) for b in back]

        pull.once = self._title or type(self).__name__  # type: ignore[attr-defined]
        core.attach_python([taped_value(x) for x in inputs], [taped_value(x) for x in fresh], pull)
        return fresh[0] if single else fresh


def _zeros(like: Any) -> Any:
    with pause():
        return like * 0


def _inside_jax(function: Function, inputs: Sequence[NDArray]) -> Any:
    """A function of tracers whose derivative is its ``backward``."""
    vs = values(inputs)
    kinds: list[Any] = []

    def arrays_of(given: Sequence[Any], like: Sequence[Any]) -> list[Any]:
        return [
            kind._wrap(traced(a, vs[0].aval.device)) for a, kind in zip(given, like, strict=True)
        ]

    def forward(*given: Any) -> tuple[Any, ...]:
        with pause(train_mode=is_training()):
            made = function.forward(*arrays_of(given, [type(x) for x in inputs]))
        outs = [made] if isinstance(made, NDArray) else list(made)
        kinds[:] = [isinstance(made, NDArray), *map(type, outs)]
        return tuple([_array_of(o) for o in outs])

    def held(found: dict[str, Any]) -> tuple[list[Any], Any]:
        return jax.tree_util.tree_flatten(found, is_leaf=lambda x: isinstance(x, NDArray))

    run = jax.custom_vjp(forward)
    kept: list[Any] = []

    def run_fwd(*given: Any) -> Any:
        # What the function keeps for its backward are tracers of this pass alone.
        out = forward(*given)
        leaves, tree = held(vars(function))
        kept[:] = leaves, tree
        return out, [_array_of(a) for a in leaves if isinstance(a, NDArray)]

    def run_bwd(saved: Any, grads: Any) -> Any:
        leaves, tree = kept
        own = [type(a) for a in leaves if isinstance(a, NDArray)]
        fresh = iter(arrays_of(saved, own))
        vars(function).update(
            jax.tree_util.tree_unflatten(
                tree, [next(fresh) if isinstance(a, NDArray) else a for a in leaves]
            )
        )
        with pause(train_mode=True):
            back = function.backward(*arrays_of(grads, kinds[1:]))
        back = [back] if isinstance(back, NDArray) or back is None else list(back)
        return tuple([
            np.zeros(v.aval.shape, jax.dtypes.float0) if not v.aval.differentiable
            else jnp.zeros(v.aval.shape, v.aval.dtype) if b is None else _array_of(b)
            for b, v in zip(back, vs, strict=True)
        ])  # fmt: skip

    run.defvjp(run_fwd, run_bwd)
    outs = arrays_of(run(*[v.arr if v.seg is core.TRACED else core.read(v) for v in vs]), kinds[1:])
    return outs[0] if kinds[0] else outs


def _array_of(x: NDArray) -> Any:
    """An array's tracer, or its numbers where they depend on none."""
    v = x._value()
    return v.arr if v.seg is core.TRACED else core.read(v)


errors.explain_names(__name__)
