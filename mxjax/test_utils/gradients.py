"""Checks of gradients: against finite differences, and hybridized against imperative."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import MXNetTypeError
from .compare import Tolerance, _host, assert_almost_equal, default_numeric_eps
from .symbols import check_symbol_numeric_gradient


def check_numeric_gradient(
    sym: Callable[..., Any],
    location: Sequence[Any] | Mapping[str, Any],
    aux_states: Any = None,
    numeric_eps: float | None = None,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    grad_nodes: Sequence[Any] | None = None,
    use_forward_train: bool = True,
    ctx: Any = None,
    grad_stype_dict: Any = None,
    dtype: Any = np.float32,
) -> None:
    """Compare the gradients that `backward` gives with central finite differences.

    The outputs are weighted with random numbers and added up, and each element of each input is
    moved by plus and minus `numeric_eps`.

    Args:
      sym: a symbol, or a function or a Block of mxjax arrays; several outputs are a list or tuple.
      location: its inputs, as a list, or as a dict of keyword arguments.
      numeric_eps: the step; that of `dtype` if None.
      rtol, atol: the tolerances; 1e-4 for rtol if None, and `dtype`'s own for atol.
      aux_states: a symbol's auxiliary states.
      grad_nodes: the inputs to check, by position or name; all if None. For a symbol also a dictionary from names to
        "write", "add" or "null".
      use_forward_train: differentiate in training mode.
      ctx: the device.
      dtype: float16, float32 or float64; the smaller it is, the larger the errors of both sides.

    Raises:
      MXNetAssertionError: they differ; the message shows the worst elements.

    >>> import mxjax as mx
    >>> check_numeric_gradient(lambda x: mx.np.exp(x) * x, [np.ones((2, 3))], dtype='float64')
    """
    if hasattr(sym, "list_arguments"):
        check_symbol_numeric_gradient(
            sym,
            location,
            aux_states,
            numeric_eps,
            rtol,
            atol,
            grad_nodes,
            use_forward_train,
            ctx,
            dtype,
        )
        return
    if not callable(sym):
        raise MXNetTypeError(
            f"check_numeric_gradient takes a symbol, a function or a Block, got {type(sym).__name__}"
        )
    from .. import autograd
    from .. import np as mxnp

    dtype = np.dtype(dtype)
    eps = numeric_eps or default_numeric_eps()[dtype]
    by_name = isinstance(location, Mapping)
    keys: list[Any] = list(location) if by_name else list(range(len(location)))
    given = {key: np.asarray(_host(location[key]), dtype) for key in keys}
    checked = keys if grad_nodes is None else list(grad_nodes)
    weights: list[Any] = []

    def total(arrays: Mapping[Any, Any]) -> Any:
        outputs = sym(**arrays) if by_name else sym(*arrays.values())
        outputs = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
        if not weights:
            weights.extend(
                mxnp.array(np.random.uniform(0.5, 1.5, out.shape), dtype=dtype, device=ctx)
                for out in outputs
            )
        parts = [
            mxnp.sum(out.astype(dtype) * weight)
            for out, weight in zip(outputs, weights, strict=True)
        ]
        return sum(parts[1:], parts[0])

    arrays = {key: mxnp.array(value, dtype=dtype, device=ctx) for key, value in given.items()}
    for key in checked:
        arrays[key].attach_grad()
    with autograd.record(train_mode=use_forward_train):
        loss = total(arrays)
    loss.backward()

    def value_at(key: Any, changed: np.ndarray) -> float:
        moved = dict(arrays)
        moved[key] = mxnp.array(changed, dtype=dtype, device=ctx)
        # The forward pass in the mode that was differentiated, but without a tape.
        with autograd.train_mode() if use_forward_train else autograd.predict_mode():
            return float(total(moved).asnumpy())

    for key in checked:
        numeric = np.zeros(given[key].shape, np.float64)
        for place in np.ndindex(given[key].shape):
            up, down = given[key].copy(), given[key].copy()
            up[place] += eps
            down[place] -= eps
            step = float(up[place]) - float(down[place])
            numeric[place] = (value_at(key, up) - value_at(key, down)) / step
        grad = arrays[key].grad
        assert grad is not None
        assert_almost_equal(
            grad.asnumpy(),
            numeric.astype(dtype),
            1e-4 if rtol is None else rtol,
            atol,
            (f"backward of {key}", f"differences of {key}"),
        )


def check_gluon_hybridize_consistency(
    net_builder: Callable[..., Any],
    data_l: Sequence[Any],
    numpy_func: Callable[..., np.ndarray] | None = None,
    test_grad: bool = True,
    rtol: float = 1e-4,
    atol: float = 1e-4,
) -> None:
    """Check that a block gives the same outputs and gradients hybridized as it does imperatively.

    Args:
      net_builder: makes the block; one that takes a `prefix=`, as in MXNet 1.9, gets one.
      data_l: its inputs.
      numpy_func: gives the expected output for NumPy inputs.
      test_grad: compare the gradients of inputs and parameters as well.
      rtol, atol: the tolerances.
    """
    from .. import autograd
    from .. import np as mxnp

    saved: list[np.ndarray] | None = None
    prefixed = "prefix" in inspect.signature(net_builder).parameters
    expected: list[Any] | None = None
    for hybridize in (False, True):
        net = net_builder(prefix="net_") if prefixed else net_builder()
        net.initialize()
        if hybridize:
            net.hybridize()
        inputs = [mxnp.array(_host(data), dtype=data.dtype) for data in data_l]
        net(*inputs)  # finishes deferred initialization
        parameters = list(net.collect_params().values())  # another network's long names may differ
        if saved is None:
            saved = [p.data().asnumpy() for p in parameters]
        for value, parameter in zip(saved, parameters, strict=True):
            parameter.set_data(mxnp.array(value, dtype=value.dtype))
        for data in inputs:
            data.attach_grad()
        with autograd.record(train_mode=test_grad):
            out = net(*inputs)
        found: list[Any] = [out.asnumpy()]
        if test_grad:
            out.backward()
            found += [data.grad.asnumpy() for data in inputs if data.grad is not None]
            found += [p.grad().asnumpy() for p in parameters if p.grad_req != "null"]
        if expected is None:
            expected = found
        for got, want in zip(found, expected, strict=True):
            assert_almost_equal(got, want, rtol, atol, ("hybridized", "imperative"))
        if numpy_func is not None:
            assert_almost_equal(found[0], numpy_func(*map(_host, data_l)), rtol, atol)
