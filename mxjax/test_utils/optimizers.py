"""Two optimizers compared: the same weights, gradients and states, one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import MXNetValueError
from .compare import assert_almost_equal
from .generate import rand_ndarray
from .surroundings import default_device


def compare_ndarray_tuple(
    t1: Any, t2: Any, rtol: float | None = None, atol: float | None = None
) -> None:
    """`assert_almost_equal` of arrays in tuples, and tuples in tuples; None is not compared."""
    if t1 is None or t2 is None:
        return
    if isinstance(t1, tuple):
        for one, other in zip(t1, t2, strict=True):
            compare_ndarray_tuple(one, other, rtol, atol)
    else:
        assert_almost_equal(t1, t2, rtol=rtol, atol=atol)


def _twins(shape: tuple[int, ...], stype: str, dtype: Any, **kwargs: Any) -> tuple[Any, Any]:
    """The same random numbers twice: dense, and stored as `stype`."""
    from .. import nd

    if stype == "default":
        stored = nd.random.uniform(shape=shape, ctx=default_device(), dtype=dtype)
        return stored.copyto(default_device()), stored
    if stype not in ("row_sparse", "csr"):
        raise MXNetValueError(f"storage types are 'default', 'row_sparse' and 'csr', got {stype!r}")
    stored = rand_ndarray(shape, stype, dtype=dtype, **kwargs)
    return stored.copyto(default_device()).tostype("default"), stored


def compare_optimizer(
    opt1: Any, opt2: Any, shapes: Any = None, dtype: Any = None, w_stype: str = "default",
    g_stype: str = "default", rtol: float = 1e-4, atol: float = 1e-5, compare_states: bool = True,
    ntensors: int = 1, shape: Any = None,
) -> None:  # fmt: skip
    """Check that two optimizers make the same of the same weights, in one update of all of them.

    Args:
      opt1, opt2: the optimizers; the second gets weights and gradients stored as `w_stype` and `g_stype`.
      shapes, dtype: of the weights.
      ntensors, shape: in MXNet 1 how many weights there are, and their shapes, or that of the only one.
      rtol, atol: the tolerances.
      compare_states: the states, too.
    """
    shapes = shapes if shape is None else shape
    if not isinstance(shapes, list) and shapes and not isinstance(shapes[0], (list, tuple)):
        shapes = [shapes]  # MXNet 1's only one
    _compare(opt1, opt2, shapes, dtype, None, w_stype, g_stype, rtol, atol, compare_states)


def compare_optimizer_noise_seeded(
    opt1: Any, opt2: Any, shapes: Sequence[tuple[int, ...]], dtype: Any, noise_seed: int, w_stype: str = "default",
    g_stype: str = "default", rtol: float = 1e-4, atol: float = 1e-5, compare_states: bool = True,
) -> None:  # fmt: skip
    """`compare_optimizer` of optimizers that draw random numbers, each from the seed `noise_seed`."""
    _compare(opt1, opt2, shapes, dtype, noise_seed, w_stype, g_stype, rtol, atol, compare_states)


def _compare(
    opt1: Any, opt2: Any, shapes: Sequence[tuple[int, ...]], dtype: Any, seed: int | None, w_stype: str,
    g_stype: str, rtol: float, atol: float, compare_states: bool,
) -> None:  # fmt: skip
    from .. import random

    weights = [_twins(shape, w_stype, dtype, density=1) for shape in shapes]
    grads = [_twins(shape, g_stype, dtype) for shape in shapes]
    after = []
    begun = []
    for side, optimizer in enumerate((opt1, opt2)):
        mine = [pair[side] for pair in weights]
        states = [
            optimizer.create_state_multi_precision(i, weight) for i, weight in enumerate(mine)
        ]
        begun.append(tuple(states))
        if compare_states and side:
            compare_ndarray_tuple(begun[0], begun[1])
        after.append((mine, [pair[side] for pair in grads], states))
    for optimizer, (mine, given, states) in zip((opt1, opt2), after, strict=True):
        if seed is not None:
            random.seed(seed)
        optimizer.update_multi_precision(list(range(len(shapes))), mine, given, states)
    if compare_states:
        compare_ndarray_tuple(tuple(after[0][2]), tuple(after[1][2]), rtol, atol)
    compare_ndarray_tuple(tuple(after[0][0]), tuple(after[1][0]), rtol, atol)
