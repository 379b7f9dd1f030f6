"""Checks of symbols: values, gradients, agreement between devices and dtypes, speed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import settings
from ..core import way_of
from ..errors import MXNetAssertionError, MXNetTypeError, MXNetValueError
from .compare import (
    Tolerance,
    _host,
    assert_almost_equal,
    default_numeric_eps,
    get_tolerance,
    get_tols,
)
from .sparse import create_sparse_array
from .surroundings import default_device

Arrays = Mapping[str, Any] | Sequence[Any]


def _array(value: Any, ctx: Any, dtype: Any) -> Any:
    """An nd array of `dtype` ("asnumpy": the value's own) from NumPy's; others stay."""
    from .. import nd

    if not isinstance(value, np.ndarray):
        return value
    return nd.array(value, ctx=ctx, dtype=value.dtype if dtype == "asnumpy" else dtype)


def _by_name(
    names: Sequence[str], given: Arrays, what: str, ctx: Any, dtype: Any
) -> dict[str, Any]:
    """Arrays by name: from a dictionary, which must have all names, or from a sequence in the names' order."""
    if isinstance(given, Mapping):
        if set(given) != set(names):
            raise MXNetValueError(f"{what} must name {sorted(names)}, got {sorted(given)}")
    elif not isinstance(given, list | tuple):
        raise MXNetTypeError(f"{what} must be a dictionary or a list, got {type(given).__name__}")
    else:
        given = dict(zip(names, given, strict=False))
    return {name: _array(given[name], ctx, dtype) for name in sorted(given)}


def _location(sym: Any, location: Arrays, ctx: Any, dtype: Any) -> dict[str, Any]:
    if dtype != "asnumpy" and np.dtype(dtype).name not in ("float16", "float32", "float64"):
        raise MXNetValueError(
            f"dtype must be float16, float32, float64 or 'asnumpy', got {dtype!r}"
        )
    return _by_name(sym.list_arguments(), location, "location", ctx, dtype)


def _auxiliary(
    sym: Any, aux_states: Arrays | None, ctx: Any, dtype: Any = np.float32
) -> dict[str, Any] | None:
    if aux_states is None:
        return None
    return _by_name(sym.list_auxiliary_states(), aux_states, "aux_states", ctx, dtype)


def simple_forward(sym: Any, ctx: Any = None, is_train: bool = False, **inputs: Any) -> Any:
    """The outputs of a symbol for NumPy inputs, as NumPy: one array, or a list of several."""
    from .. import nd

    ctx = ctx or default_device()
    exe = sym.bind(ctx, args={name: nd.array(value, ctx=ctx) for name, value in inputs.items()})
    outputs = [out.asnumpy() for out in exe.forward(is_train=is_train)]
    return outputs[0] if len(outputs) == 1 else outputs


def check_symbolic_forward(
    sym: Any, location: Arrays, expected: Arrays, rtol: Tolerance = None, atol: Tolerance = None,
    aux_states: Arrays | None = None, ctx: Any = None, equal_nan: bool = False, dtype: Any = np.float32,
) -> Any:  # fmt: skip
    """Compare the outputs of a symbol with what is expected.

    Args:
      sym: the symbol.
      location: its arguments, as a list in their order or by name.
      expected: its outputs, as a list or by name.
      rtol, atol: the tolerances.
      aux_states: its auxiliary states.
      ctx: the device.
      dtype: of the arguments; "asnumpy" takes each array's own.

    Returns:
      The outputs.

    Raises:
      MXNetAssertionError: they differ; the message shows the worst elements.
    """
    ctx = ctx or default_device()
    arguments = _location(sym, location, ctx, dtype)
    if isinstance(expected, Mapping):
        expected = [expected[name] for name in sym.list_outputs()]
    executor = sym._bind(
        ctx, args=arguments, grad_req="null", aux_states=_auxiliary(sym, aux_states, ctx, dtype)
    )
    outputs = executor.forward(is_train=False)
    for name, want, got in zip(sym.list_outputs(), expected, outputs, strict=False):
        assert_almost_equal(
            want, got, rtol, atol, (f"EXPECTED_{name}", f"FORWARD_{name}"), equal_nan=equal_nan
        )
    return outputs


def check_symbolic_backward(
    sym: Any, location: Arrays, out_grads: Any, expected: Arrays, rtol: Tolerance = None, atol: Tolerance = None,
    aux_states: Arrays | None = None, grad_req: Any = "write", ctx: Any = None,
    grad_stypes: Mapping[str, str] | None = None, equal_nan: bool = False, dtype: Any = np.float32,
) -> dict[str, Any]:  # fmt: skip
    """Compare the gradients of a symbol's arguments with what is expected.

    Args:
      sym, location, aux_states, ctx, dtype: as in `check_symbolic_forward`.
      out_grads: gradients of the outputs, as a list or by name; None for losses.
      expected: gradients of the arguments, as a list or by name; arguments that are not named are not compared.
      grad_req: "write", "add" (to random numbers) or "null" (which leaves them), for all or by name.
      grad_stypes: storage types of gradients by name.

    Returns:
      The gradients by name.
    """
    from .. import nd

    ctx = ctx or default_device()
    arguments = _location(sym, location, ctx, dtype)
    names = sym.list_arguments()
    wanted = (
        dict(expected)
        if isinstance(expected, Mapping)
        else dict(zip(names, expected, strict=False))
    )
    before = {name: np.random.normal(size=value.shape) for name, value in sorted(wanted.items())}
    grads = {}
    for name, value in before.items():
        stype = (grad_stypes or {}).get(name)
        if stype not in (None, "default"):
            grads[name] = create_sparse_array(value.shape, str(stype), density=0.0)
        else:
            grads[name] = nd.array(
                value, ctx=ctx, dtype=wanted[name].dtype if dtype == "asnumpy" else dtype
            )
    if isinstance(grad_req, str):
        grad_req = dict.fromkeys(names, grad_req)
    elif isinstance(grad_req, list | tuple):
        grad_req = dict(zip(names, grad_req, strict=False))
    executor = sym._bind(
        ctx, args=arguments, args_grad=grads, grad_req=grad_req,
        aux_states=_auxiliary(sym, aux_states, ctx, dtype),
    )  # fmt: skip
    executor.forward(is_train=True)
    if isinstance(out_grads, Mapping):
        out_grads = [out_grads[name] for name in sym.list_outputs()]
    if out_grads is not None:
        out_grads = [_array(value, ctx, dtype) for value in out_grads]
    executor.backward(out_grads)
    for name, want in wanted.items():
        words = (f"EXPECTED_{name}", f"BACKWARD_{name}")
        got = _host(grads[name])
        if grad_req[name] == "null":
            want = before[name]
        elif grad_req[name] == "add":
            got = got - before[name]
        elif grad_req[name] != "write":
            raise MXNetValueError(
                f"grad_req of {name} must be 'write', 'add' or 'null', got {grad_req[name]!r}"
            )
        rt, at = get_tols(want, grads[name], rtol, atol)
        assert_almost_equal(want, got, rt, at, words, equal_nan=equal_nan)
    return grads


def numeric_grad(
    executor: Any, location: Mapping[str, Any], aux_states: Mapping[str, Any] | None = None, eps: float = 1e-4,
    use_forward_train: bool = True, dtype: Any = np.float32,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Central differences of the sum of an executor's first output, by each argument.

    Args:
      executor: a bound symbol; its arguments are moved and put back.
      location: the arguments' values by name, in NumPy.
      aux_states: values of auxiliary states, which each forward pass begins with.
      eps: the distance between the two points.
      use_forward_train: run in training mode.
    """

    def total() -> Any:
        for name, value in (aux_states or {}).items():
            executor.aux_dict[name][:] = value
        return executor.forward(is_train=use_forward_train)[0].asnumpy()

    # The two points by one and the same code: what other code rounds otherwise would be divided by eps as well.
    moved = sum(np.size(value) for value in location.values())
    with settings.scope("engine.cold", way_of(total, 2 * moved)):
        return _differences(executor, location, total, eps, dtype)


def _differences(
    executor: Any, location: Mapping[str, Any], total: Callable[[], Any], eps: float, dtype: Any
) -> dict[str, np.ndarray]:
    found = {}
    for name, value in location.items():
        executor.arg_dict[name][:] = np.asarray(value, dtype)
    for name, value in location.items():
        value = np.array(value, dtype=dtype, order="C")
        found[name] = np.zeros(value.shape, dtype)
        if not np.issubdtype(np.asarray(location[name]).dtype, np.floating):
            continue
        for place in np.ndindex(value.shape):
            sides = []
            for step in (eps / 2, -eps / 2):
                moved = value.copy()
                moved[place] += step
                executor.arg_dict[name][:] = moved
                sides.append(total())
            found[name][place] = (sides[0] - sides[1]).sum() / eps
        executor.arg_dict[name][:] = value
    return found


def check_symbol_numeric_gradient(
    sym: Any, location: Arrays, aux_states: Arrays | None, numeric_eps: float | None, rtol: Tolerance,
    atol: Tolerance, grad_nodes: Any, use_forward_train: bool, ctx: Any, dtype: Any,
) -> None:  # fmt: skip
    """`check_numeric_gradient` of a symbol with one output, which is weighted with random numbers."""
    from .. import nd
    from .. import sym as symbols

    ctx = ctx or default_device()
    arguments = _location(sym, location, ctx, dtype)
    auxiliary = _auxiliary(sym, aux_states, ctx, dtype)
    values = {name: value.asnumpy() for name, value in arguments.items()}
    fixed = (
        None if auxiliary is None else {name: value.asnumpy() for name, value in auxiliary.items()}
    )
    if isinstance(grad_nodes, Mapping):
        grad_req = dict(grad_nodes)
    else:
        grad_req = dict.fromkeys(
            sym.list_arguments() if grad_nodes is None else grad_nodes, "write"
        )
    shape = sym.infer_shape(**{name: value.shape for name, value in values.items()})[1][0]
    weights = "__random_proj"
    out = symbols.make_loss(sym.as_nd_ndarray() * symbols.Variable(weights))
    arguments[weights] = nd.array(np.random.rand(*shape) + 0.1, ctx=ctx, dtype=dtype)
    before = {name: np.random.normal(0, 0.01, values[name].shape) for name in grad_req}
    executor = out._bind(
        ctx, args=arguments, grad_req={**grad_req, weights: "null"}, aux_states=auxiliary,
        args_grad={name: nd.array(value, ctx=ctx, dtype=dtype) for name, value in before.items()},
    )  # fmt: skip
    outputs = executor.forward(is_train=True)
    eps = get_tolerance(outputs[0], numeric_eps, default_numeric_eps())
    executor.backward()
    grads = {name: executor.grad_dict[name] for name in grad_req}
    grads = {name: grad if grad is None else grad.copy() for name, grad in grads.items()}
    numeric = numeric_grad(executor, values, fixed, eps, use_forward_train, dtype)
    for name, request in grad_req.items():
        words = (f"NUMERICAL_{name}", f"BACKWARD_{name}")
        grad = grads[name]
        if request == "null":
            if grad is not None and not np.array_equal(grad.asnumpy(), before[name].astype(dtype)):
                raise MXNetAssertionError(
                    f"the gradient of {name} was written, though grad_req is 'null'"
                )
            continue
        assert grad is not None
        rt, at = get_tols(numeric[name], grad, rtol, atol)
        got = grad.asnumpy() - before[name] if request == "add" else grad.asnumpy()
        assert_almost_equal(numeric[name], got, rt, at, words)


def check_consistency(
    sym: Any, ctx_list: Sequence[dict[str, Any]], scale: float = 1.0, grad_req: str = "write",
    arg_params: dict[str, Any] | None = None, aux_params: dict[str, Any] | None = None, rtol: Tolerance = None,
    atol: Tolerance = None, raise_on_err: bool = True, ground_truth: dict[str, Any] | None = None,
    equal_nan: bool = False, use_uniform: bool = False, rand_type: Any = np.float64,
) -> dict[str, Any]:  # fmt: skip
    """Check that a symbol gives the same outputs and gradients on several devices or in several dtypes.

    Args:
      sym: a symbol, or one for each entry of `ctx_list`.
      ctx_list: dictionaries with `ctx`, shapes by name, and perhaps `type_dict`.
      scale: of the random arguments; `use_uniform` draws them evenly from -0.92 to 0.92 times it.
      grad_req: "null" compares outputs alone.
      arg_params, aux_params: values by name; what is missing is drawn (zero for auxiliary states).
      rtol, atol: the tolerances; by default those of the less precise dtype.
      raise_on_err: False prints differences.
      ground_truth: outputs and gradients by name to compare with; by default those of the most precise entry.

    Returns:
      What the others were compared with.
    """
    if len(ctx_list) < 2:
        raise MXNetAssertionError(f"ctx_list needs two entries to compare, got {len(ctx_list)}")
    symbols = list(sym) if isinstance(sym, list | tuple) else [sym] * len(ctx_list)
    exes = [
        each._simple_bind(grad_req=grad_req, **where)
        for each, where in zip(symbols, ctx_list, strict=True)
    ]
    arguments, states = dict(arg_params or {}), dict(aux_params or {})
    for name, array in sorted(exes[0].arg_dict.items()):
        if name not in arguments:
            drawn = (
                np.random.uniform(-0.92 * scale, 0.92 * scale, array.shape) if use_uniform
                else np.random.normal(size=array.shape, scale=scale)
            )  # fmt: skip
            arguments[name] = drawn.astype(rand_type)
    for exe in exes:
        for name, array in exe.arg_dict.items():
            array[:] = arguments[name]
        for name, array in exe.aux_dict.items():
            array[:] = states.get(name, 0)
        if grad_req == "add":
            for array in exe.grad_arrays:
                array[:] = 0
    names = symbols[0].list_outputs()

    def outputs_of(exe: Any) -> dict[str, Any]:
        return dict(zip(names, [out.copy() for out in exe.outputs], strict=True))

    for exe in exes:
        exe.forward(is_train=False)
    dtypes = [np.dtype(exe.outputs[0].dtype) for exe in exes]
    best = int(np.argmax([dtype.itemsize for dtype in dtypes]))

    def compare(found: list[dict[str, Any]], phase: str) -> dict[str, Any]:
        truth = found[best] if ground_truth is None else ground_truth
        for place, results in enumerate(found):
            if place == best:
                continue
            for name, array in results.items():
                if truth[name] is None and array is None:
                    continue
                tols = _tolerances(array, truth[name], dtypes[place], dtypes[best], rtol, atol)
                try:
                    assert_almost_equal(array, truth[name], *tols, equal_nan=equal_nan)
                except MXNetAssertionError as error:
                    message = f"{phase} Err: ctx {place} vs ctx {best} at {name}: {error}"
                    if raise_on_err:
                        raise MXNetAssertionError(message) from None
                    print(message)
        return truth

    truth = compare([outputs_of(exe) for exe in exes], "Predict")
    if grad_req == "null":
        return truth
    for exe in exes:
        exe.forward(is_train=True)
    from .. import nd

    # All begin with the same gradients, in the least precise dtype of each output.
    heads = [
        out.astype(
            min((exe.outputs[place].dtype for exe in exes), key=lambda d: np.dtype(d).itemsize)
        ).asnumpy()
        for place, out in enumerate(exes[0].outputs)
    ]
    for exe, where in zip(exes, ctx_list, strict=True):
        given = [
            nd.array(h, ctx=where.get("ctx"), dtype=o.dtype)
            for h, o in zip(heads, exe.outputs, strict=True)
        ]
        exe.backward(given)
    return compare([{**outputs_of(exe), **exe.grad_dict} for exe in exes], "Train")


def _tolerances(
    a: Any, b: Any, of_a: Any, of_b: Any, rtol: Tolerance, atol: Tolerance
) -> tuple[Any, Any]:
    """The tolerances of the least precise dtype that the two arrays, or the computations that made them, have."""
    least = min((a.dtype, b.dtype, of_a, of_b), key=lambda dtype: np.dtype(dtype).itemsize)
    probe = np.zeros((), least)
    return get_tols(probe, probe, rtol, atol)


def check_speed(
    sym: Any, location: Mapping[str, Any] | None = None, ctx: Any = None, N: int = 20,  # noqa: N803
    grad_req: Any = None, typ: str = "whole", **kwargs: Any,
) -> float:  # fmt: skip
    """Seconds that one pass through a symbol takes, averaged over `N` after a first one.

    Args:
      sym: the symbol.
      location: arguments by name; drawn from the normal distribution if None, with shapes from `kwargs`.
      ctx: the device.
      grad_req: as `simple_bind` takes it; "write" if None.
      typ: "whole" for forward and backward passes, "forward" for forward passes.
    """
    if typ not in ("whole", "forward"):
        raise MXNetValueError(f'typ can only be "whole" or "forward", got {typ!r}')
    from .. import nd

    ctx = ctx or default_device()
    shapes = kwargs if location is None else {name: value.shape for name, value in location.items()}
    exe = sym._simple_bind(ctx=ctx, grad_req=grad_req or "write", **shapes)
    if location is None:
        location = {
            name: np.random.normal(size=array.shape) for name, array in exe.arg_dict.items()
        }
    for name, value in location.items():
        exe.arg_dict[name][:] = _host(value).astype(exe.arg_dict[name].dtype)

    def run() -> None:
        exe.forward(is_train=typ == "whole")
        if typ == "whole":
            exe.backward(out_grads=exe.outputs)

    run()
    nd.waitall()
    begin = time.time()
    for _ in range(N):
        run()
    nd.waitall()
    return (time.time() - begin) / N


def same_symbol_structure(sym1: Any, sym2: Any) -> bool:
    """Whether two symbols have the same operators in the same order."""
    first, second = (json.loads(sym.tojson())["nodes"] for sym in (sym1, sym2))
    return [node["op"] for node in first] == [node["op"] for node in second]
