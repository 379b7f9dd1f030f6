"""Custom operators inside programs of JAX: called back at each run, or traced where their authors said they may be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import io_callback

from .. import autograd, core, errors
from ..array.classes import ndarray
from ..array.invoke import wrap
from ..array.ndarray import NDArray
from ..core.calls.value import traced
from ..core.graph.cut import by_itself
from ..core.run.callback import guarded
from ..device import of as device_of

Options = tuple[tuple[str, str], ...]


def in_program(
    *xs: Any,
    op_type: str,
    options: Options,
    is_train: bool,
    legacy: bool,
    place: Any = None,
    renewed: int = 0,
) -> tuple[Any, ...]:
    """The operator as a function of tracers whose Python is called back, in order and once a run."""
    from .running import Described

    said = Described(op_type, options, xs)
    n = said.n_in
    if said.auxiliary:
        raise errors.MXNetError(
            f"the custom operator {op_type} has auxiliary states ({', '.join(said.auxiliary)}), which nobody could "
            "write to inside a transformation of JAX (jax.jit, jax.grad): use it in a hybridized block, or imperatively"
        )
    run = _Run(said, NDArray if legacy else ndarray, is_train)
    outs = tuple(
        [jax.ShapeDtypeStruct(s, t) for s, t in zip(said.out_shapes, said.out_dtypes, strict=True)]
    )

    def forward(*xs: Any) -> tuple[Any, ...]:
        return tuple(io_callback(run.forward, outs, *xs, ordered=True))

    def backward(xs: Sequence[Any], made: Sequence[Any], grads: Sequence[Any]) -> Sequence[Any]:
        structs = [
            jax.ShapeDtypeStruct(x.shape, x.dtype)
            for x in xs
            if jax.numpy.issubdtype(x.dtype, np.inexact)
        ]
        return io_callback(run.backward, tuple(structs), *xs, *made, *grads, ordered=True)

    return _with_derivative(forward, backward)(*xs[:n])


def traced_once(
    *xs: Any,
    op_type: str,
    options: Options,
    is_train: bool,
    legacy: bool,
    place: Any = None,
    renewed: int = 0,
) -> tuple[Any, ...]:
    """The operator as a function of tracers that its Python computes with."""
    from .running import Described

    run = _Run(Described(op_type, options, xs), NDArray if legacy else ndarray, is_train)
    return _with_derivative(run.trace_forward, run.trace_backward)(*xs)


def _with_derivative(
    forward: Callable[..., Any], backward: Callable[..., Any]
) -> Callable[..., Any]:
    """A function whose derivative is another one: (inputs, results, cotangents) to those of floating inputs."""

    @jax.custom_vjp
    def run(*xs: Any) -> tuple[Any, ...]:
        return tuple(forward(*xs))

    def run_fwd(*xs: Any) -> Any:
        out = run(*xs)
        return out, (xs, out)

    def run_bwd(saved: Any, grads: Any) -> Any:
        xs, out = saved
        grads = [
            jax.numpy.zeros(o.shape, o.dtype) if g.dtype == jax.dtypes.float0 else g
            for g, o in zip(grads, out, strict=True)
        ]
        found = iter(backward(xs, out, grads))
        return tuple([
            next(found) if jax.numpy.issubdtype(x.dtype, np.inexact) else np.zeros(x.shape, jax.dtypes.float0)
            for x in xs
        ])  # fmt: skip

    run.defvjp(run_fwd, run_bwd)
    return run


class _Run:
    """One operator of a trace, created when it first runs."""

    def __init__(self, said: Any, cls: Any, training: bool):
        self.said = said
        self.cls = cls
        self.training = training
        self.place = core.default_device()
        self._one: Any = None

    @property
    def one(self) -> Any:
        from .running import Instance

        if self._one is None:
            self._one = Instance(self.said, device_of(self.place), self.cls)
        return self._one

    def _split(self, given: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        n, m = self.said.n_in, len(self.said.outputs)
        return given[:n], given[n : n + m], given[n + m :]

    def _pulled(self, xs: Sequence[Any], made: Sequence[Any], grads: Sequence[Any]) -> list[Any]:
        wants = [x._value().aval.differentiable for x in xs]
        with autograd._Scope(None, True):
            found = self.one.backward(grads, xs, made, [], wants, ["default"] * len(xs))
        return [g for g in found if g is not None]

    def _host(self, arrays: Sequence[Any]) -> list[Any]:
        return [wrap(self.cls, core.host(np.asarray(a), self.place)) for a in arrays]

    @guarded
    def forward(self, *given: Any) -> tuple[Any, ...]:
        with by_itself():
            return tuple(
                [o.asnumpy() for o in self.one.forward(self._host(given), [], self.training)]
            )

    @guarded
    def backward(self, *given: Any) -> tuple[Any, ...]:
        xs, made, grads = [self._host(part) for part in self._split(given)]
        with by_itself():
            return tuple([g.asnumpy() for g in self._pulled(xs, made, grads)])

    def _tracers(self, arrays: Sequence[Any]) -> list[Any]:
        return [wrap(self.cls, traced(a, self.place)) for a in arrays]

    def trace_forward(self, *xs: Any) -> list[Any]:
        with by_itself():
            return [
                autograd._array_of(o)
                for o in self.one.forward(self._tracers(xs), [], self.training)
            ]

    def trace_backward(
        self, xs: Sequence[Any], made: Sequence[Any], grads: Sequence[Any]
    ) -> list[Any]:
        with by_itself():
            parts = [self._tracers(part) for part in (xs, made, grads)]
            return [autograd._array_of(g) for g in self._pulled(*parts)]
