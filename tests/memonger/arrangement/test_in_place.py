"""Results in the place of what they are made of: which, over what, and their values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import mxjax as mx
from benchmarks import memory_networks as networks
from mxjax.core import MeshDevice, aval, compiler, keep_barriers
from mxjax.gluon import nn
from mxjax.memonger import rehearse
from mxjax.memonger.arrangement import in_place as writing
from mxjax.memonger.arrangement import late
from mxjax.memonger.arrangement.in_place import in_place, overwritten
from mxjax.memonger.arrangement.parts import Part, lower
from mxjax.memonger.model.price import _backward
from mxjax.ops.lowering.convolution import convolution
from mxjax.ops.lowering.convolution_plan import Plan
from mxjax.ops.nn import batch_norm

RNG = np.random.default_rng(11)
SHAPES = [(8, 64, 64), (64, 1, 257, 3), (1, 509, 48), (521, 127), (16384,), (0, 5), (), (3,)]
N = 512
MATRIX = jax.ShapeDtypeStruct((N, N), "float32")

only_on_cpu = pytest.mark.skipif(
    jax.devices()[0].platform != "cpu", reason="other backends of XLA reuse the place of an operand themselves"
)


@pytest.fixture
def all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small arrays are written in place, and wait, too."""
    monkeypatch.setattr(writing, "WORTH", 0)
    monkeypatch.setattr(late, "WORTH", 0)
    monkeypatch.setattr(writing, "SHARE", 0)


def _writes(fn: Callable[..., Any], *structs: Any, own: Any = frozenset()) -> dict[int, Any]:
    jaxpr = writing._flat(jax.make_jaxpr(fn)(*structs)).jaxpr
    return writing._Writes(jaxpr, own).found


def _temp(fn: Callable[..., Any], *structs: Any) -> int:
    compiled = jax.jit(fn).lower(*structs).compile(keep_barriers("cpu"))
    return int(compiled.memory_analysis().temp_size_in_bytes)


# ---- values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_of_two_readers(shape: tuple[int, ...], all_sizes: None) -> None:
    x, w = (jnp.asarray(RNG.normal(size=shape), jnp.float32) for _ in range(2))

    def twice(x: Any, w: Any) -> Any:
        a = lax.optimization_barrier(x * w)
        return (a * a * w).sum() + (jnp.maximum(a, x) / (1 + w * w)).sum()

    def gradients(form: Callable[..., Any]) -> Any:
        first = form(jax.grad(twice, (0, 1)))
        return jax.jit(lambda x, w: (first(x, w), jax.grad(lambda x: first(x, w)[0].sum())(x)))(x, w)

    found = gradients(partial(in_place, own=frozenset(), residuals=2)), gradients(lambda fn: fn)
    for got, expected in zip(*map(jax.tree_util.tree_leaves, found), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)


def _program(rng: np.random.Generator) -> Callable[..., tuple[Any, ...]]:
    """Twenty random equations of arrays, rows, columns and numbers."""
    plan = [(int(rng.integers(11)), *(int(k) for k in rng.integers(0, 1 << 30, 3))) for _ in range(20)]
    results = [int(k) for k in rng.integers(0, 1 << 30, 3)]

    def run(*args: Any) -> tuple[Any, ...]:
        arrays, rows, one = list(args[:3]), [args[3]], args[4]
        for kind, i, j, k in plan:
            x, y, row = arrays[i % len(arrays)], arrays[j % len(arrays)], rows[k % len(rows)]
            if kind == 0:
                arrays.append(x * row + y)
            elif kind == 1:
                arrays.append(jnp.where(x > 0, y, x * one))
            elif kind == 2:
                rows.append((x * y).sum(0, keepdims=True) / 8)
            elif kind == 3:
                arrays.append(jnp.tanh(x @ y.T @ x / 64))
            elif kind == 4:
                arrays.append(lax.optimization_barrier((x, y))[k % 2])
            elif kind == 5:
                arrays.append((x.reshape(-1) + y.reshape(-1)).reshape(x.shape) / 2)
            elif kind == 6:
                arrays.append(jnp.maximum(x, 0) - jnp.exp(-y * y))
            elif kind == 7:
                arrays.append(jax.checkpoint(lambda a, b: jnp.sin(a) * b - a)(x, y))
            elif kind == 8:
                arrays.append(x + y @ jnp.cos(jnp.arange(36.0).reshape(6, 6)) / 6)
            elif kind == 9:
                arrays.append(jnp.pad(x[2:], ((1, 1), (0, 0))) * y)
            else:
                arrays.append(jax.jit(lambda a, b, r: (a - b) * r.mean())(x, y, row))
        return (*(arrays[k % len(arrays)] for k in results), arrays[-1], rows[-1])

    return run


# Twelve of them always; the others compile for as long as the rest of this file together.
@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(k, marks=pytest.mark.slow) for k in range(12, 40))])
def test_random_programs(seed: int, all_sizes: None) -> None:
    rng = np.random.default_rng(seed)
    run = _program(rng)
    with jax.enable_x64(True):
        args = [jnp.asarray(rng.normal(size=s)) for s in ((8, 6), (8, 6), (8, 6), (1, 6), ())]
        for own, residuals in ((frozenset(), 5), (frozenset({0, 1, 2}), 1), (frozenset({1}), 3)):
            got = jax.jit(in_place(run, own, residuals))(*args)
            for x, y in zip(got, run(*args), strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)


def test_random_programs_have_something_written_in_place(all_sizes: None) -> None:
    structs = [jax.ShapeDtypeStruct(s, "float32") for s in ((8, 6), (8, 6), (8, 6), (1, 6), ())]
    counts = [len(_writes(_program(np.random.default_rng(seed)), *structs)) for seed in range(40)]
    assert sum(map(bool, counts)) > 30


# ---- which, over what -----------------------------------------------------------------------------------


def _made(x: Any) -> Any:
    return lax.optimization_barrier(x @ x)


def test_the_last_reader_writes_over_it() -> None:
    (write,) = _writes(lambda x, y: (_made(x) * y) @ y, MATRIX, MATRIX).values()
    assert write.pieces == writing.PIECES
    assert write.before == ()


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, y: ((a := _made(x)), (a * y) @ y)[1] @ a,
        lambda x, y: ((a := _made(x)), (a * y) @ y)[1] @ a.reshape(-1, 1).reshape(N, N),
        lambda x, y: ((a := _made(x)), (a * y) @ y)[1] @ lax.optimization_barrier(a),
        lambda x, y: ((a := _made(x)), (a * y) @ y),
        lambda x, y: (x * y) @ y,
        lambda x, y: jnp.tanh(_made(x) * y) @ y,
        lambda x, y: (_made(x)[:8] * y[:8]) @ y,
        lambda x, y: (_made(x) * x * y) @ y,
    ],
    ids=["later", "by another name", "behind a barrier", "a result", "foreign", "slow", "small", "of two that waited"],
)
def test_what_stays(fn: Callable[..., Any]) -> None:
    assert _writes(fn, MATRIX, MATRIX) == {}


@pytest.mark.parametrize("pad", [False, True])
def test_what_xla_reads_through_is_not_written_over(pad: bool) -> None:
    """Slices would all be there as arrays, for one that is saved."""

    def fn(x: Any, y: Any) -> Any:
        a, b = _made(x), _made(y)
        c = jnp.pad(b[1:], ((0, 1), (0, 0))) if pad else jnp.concatenate([b, b])[8:][:N]
        return (a * c) @ y

    assert _writes(fn, MATRIX, MATRIX) == {}


def test_what_nothing_reads_any_more_comes_before_all_the_same() -> None:
    """A weight's gradient reads what is made of an array: then that gradient comes before the array is written over."""

    def fn(x: Any, y: Any) -> Any:
        a, g = _made(x), _made(y)
        r = jnp.maximum(a, g)
        weight = r.T @ g
        return weight, (a * g) @ y, g

    (write,) = _writes(fn, MATRIX, MATRIX).values()
    assert [v.aval.shape for v in write.before] == [(N, N)]
    jaxpr = writing._flat(jax.make_jaxpr(fn)(MATRIX, MATRIX)).jaxpr
    (before,) = writing._Writes(jaxpr, ()).found.popitem()[1].before
    assert before is jaxpr.outvars[0]  # not the maximum, of which a barrier would know nothing any more


@only_on_cpu
def test_what_is_written_over_is_not_copied_first() -> None:
    def fn(x: Any, y: Any) -> Any:
        a, g = _made(x), _made(y)
        return jnp.maximum(a, g).T @ g, (a * g) @ y, g

    text = jax.jit(in_place(fn, frozenset(), 2)).lower(MATRIX, MATRIX).compile(keep_barriers("cpu")).as_text()
    assert " while(" in text or " call(" in text
    assert f"f32[{N},{N}]{{1,0}} copy(" not in text


def test_what_gives_no_result_reads_all_the_same() -> None:
    def fn(x: Any, y: Any) -> Any:
        a = _made(x)
        b = a * y
        jax.debug.callback(lambda *read: None, a, b)
        return b @ y

    assert _writes(fn, MATRIX, MATRIX) == {}


def test_a_product_is_added_piece_by_piece() -> None:
    def fn(x: Any, y: Any) -> Any:
        return (_made(x) + y @ x) @ y

    (write,) = _writes(fn, MATRIX, MATRIX).values()
    assert [(e.primitive.name, axes) for e, axes in write.products] == [("dot_general", (0, None))]


@pytest.mark.parametrize("how", ["cols", "lax"])
def test_convolutions_of_xlas_own_are_not_made_piece_by_piece(how: str) -> None:
    """They take several times as long in a loop; products over patches do not."""
    x, w = (jax.ShapeDtypeStruct(s, "float32") for s in ((8, 32, 32, 32), (32, 3, 3, 32)))

    def fn(x: Any, g: Any, w: Any) -> Any:
        forward = partial(convolution, pad=(1, 1), layout="NHWC", plan=Plan("lax", how, "cols"))
        total = lax.optimization_barrier(x * 2) + jax.linear_transpose(lambda x: forward(x, w), x)(g)[0]
        return forward(total, w)

    (write,) = _writes(fn, x, x, w).values()
    assert len(write.products) == (how == "cols")


def test_a_product_that_is_read_twice_is_an_array() -> None:
    def fn(x: Any, y: Any) -> Any:
        product = y @ x
        return (_made(x) + product) @ y, product @ product

    (write,) = _writes(fn, MATRIX, MATRIX).values()
    assert not write.products


def test_a_product_of_what_is_written_over_is_an_array() -> None:
    def fn(x: Any, y: Any) -> Any:
        a = _made(x)
        return (a + a @ y) @ y

    (write,) = _writes(fn, MATRIX, MATRIX).values()
    assert not write.products


@only_on_cpu
def test_a_sum_with_a_product_takes_one_array_and_pieces() -> None:
    def summed(x: Any, y: Any, w: Any) -> Any:
        return (lax.optimization_barrier(_made(x) + lax.optimization_barrier(y @ w) @ w) @ w,)

    size = N * N * 4
    assert _temp(summed, *[MATRIX] * 3) >= 2 * size
    assert _temp(in_place(summed, frozenset(), 3), *[MATRIX] * 3) <= 1.6 * size


def test_all_names_of_an_array_are_its_place() -> None:
    def fn(x: Any, y: Any) -> Any:
        a = _made(x)
        return (a * y + lax.optimization_barrier(a).reshape(-1).reshape(N, N)) @ y

    (write,) = _writes(fn, MATRIX, MATRIX).values()
    assert len(write.over) == 2
    assert len(write.reads) == 1


@only_on_cpu
def test_what_xla_would_make_again_is_not_asked_for() -> None:
    """Of gelu's derivative XLA keeps two arrays or three, not all six that JAX's derivative names."""
    net = nn.HybridSequential()
    net.add(*[networks.Perceptron(256) for _ in range(4)])
    net.initialize()
    net.hybridize(mirror="sublinear")

    def step() -> None:
        with mx.autograd.record():
            loss = net(mx.np.zeros((512, 256))).sum()
        loss.backward()

    assert rehearse(step).temp_bytes <= 5 * 512 * 1024 * 4


def test_an_operand_of_its_own_is_written_over() -> None:
    def fn(x: Any, y: Any) -> Any:
        return (x * 2.0) @ y

    assert not _writes(fn, MATRIX, MATRIX)
    assert len(_writes(fn, MATRIX, MATRIX, own={0})) == 1


def test_what_else_is_made_of_it_comes_before() -> None:
    def fn(x: Any, y: Any) -> Any:
        a = _made(x)
        total = a.sum(0)
        return (a * y) @ y, total @ y

    (write,) = _writes(fn, MATRIX, MATRIX).values()
    assert [v.aval.shape for v in write.before] == [(N,)]


def test_a_result_of_what_is_there_is_made_again() -> None:
    """relu's result is made in the loop that reads it, of the operand, which is read later anyway."""

    def fn(x: Any, y: Any) -> Any:
        a, g = _made(x), _made(y)
        r = jnp.maximum(a, 0.0)
        return (g * r) @ (r @ y) @ a

    writes = _writes(fn, MATRIX, MATRIX)
    assert [[e.primitive.name for e in w.body] for w in writes.values()] == [["max", "mul"]]


def _passes(name: str, *shapes: tuple[int, ...]) -> set[tuple[int, int]]:
    fns: dict[str, Callable[..., Any]] = {
        "relu": jax.nn.relu,
        "multiply": lambda x, y: x * y,
        "exp": jnp.exp,
    }
    structs = [jax.ShapeDtypeStruct(s, "float32") for s in shapes]
    with compiler.for_platform("cpu"):
        return overwritten(_backward(fns[name], structs, (True,) + (False,) * (len(shapes) - 1), "cpu"), {0})


def test_gradients_that_take_the_place_of_what_is_given() -> None:
    shape = (64, 1024)
    assert _passes("relu", shape) == {(0, 0)}
    assert _passes("multiply", shape, shape) == {(0, 0)}
    assert _passes("exp", shape) == set()


@pytest.mark.parametrize("devices", [1, 4])
def test_what_is_spread_over_devices_is_left_as_it_is(devices: int) -> None:
    if len(jax.devices()) < devices:
        pytest.skip(f"it takes {devices} devices")
    net = nn.Dense(4, in_units=4)
    net.initialize()
    graph = net.graph(mx.np.ones((8, 4)))
    if devices > 1:
        mesh = jax.sharding.Mesh(np.array(jax.devices()[:devices]), ("data",))
        graph.avals = tuple(aval(a.shape, a.dtype, MeshDevice.of(mesh)) for a in graph.avals)

    def fn(*args: Any) -> tuple[Any, ...]:
        return args

    for keep, alone in ((frozenset(), devices == 1), ("all", False), ("mirror", False)):
        lowered = lower(graph, [Part(len(graph.steps), keep)]).wanting([True] * len(graph.avals))
        assert (lowered.backward(fn, {0}, 1) is not fn) == alone


# ---- bytes ----------------------------------------------------------------------------------------------


@only_on_cpu
def test_a_sum_takes_no_third_place() -> None:
    """Both gradients and their sum lie between products and barriers: three arrays, or two in place."""

    def loss(x: Any, *w: Any) -> Any:
        y = lax.optimization_barrier(x @ w[0])
        a, b = lax.optimization_barrier(y), lax.optimization_barrier(y)
        return (a @ w[1] * w[2]).sum() + (b @ w[3] * w[4]).sum()

    structs = [MATRIX] * 6
    grad = jax.grad(loss)
    assert _temp(in_place(lambda *a: (grad(*a),), frozenset(), 6), *structs) <= _temp(grad, *structs) - N * N * 4 // 2


@only_on_cpu
def test_batch_norms_derivative_takes_two_arrays() -> None:
    """The gradient that it is given and its input; a third for the gradient that it gives where XLA decides."""

    def run(x: Any, g: Any, w: Any, *rest: Any) -> Any:
        x, g = lax.optimization_barrier((x @ w, g @ w))
        with compiler.short_of_memory():
            _, pull = jax.vjp(lambda x: batch_norm(x, *rest, fix_gamma=False, is_train=True)[0], x)
        return (lax.optimization_barrier(pull(g))[0] @ w[:, :8],)

    structs = [MATRIX] * 3 + [jax.ShapeDtypeStruct((N,), "float32")] * 4
    size = N * N * 4
    assert _temp(run, *structs) >= 3 * size
    assert _temp(in_place(run, frozenset(), 7), *structs) <= 2.5 * size


def test_a_strided_gradient_crosses_barriers_without_its_zeros() -> None:
    x, w = (jnp.asarray(RNG.normal(size=s), jnp.float32) for s in ((8, 16, 16, 16), (32, 1, 1, 16)))
    g = jnp.asarray(RNG.normal(size=(8, 8, 8, 32)), jnp.float32)
    layout = ("NHWC", "OHWI", "NHWC")

    def crossing(lean: bool) -> tuple[Any, int]:
        """The gradient behind a barrier, and how many numbers cross it."""

        def back(g: Any) -> Any:
            run = partial(convolution, weight=w, stride=(2, 2), layout="NHWC", platform="cpu", lean=lean)
            return lax.optimization_barrier(jax.linear_transpose(run, x)(g))

        form = in_place(back, frozenset(), 0)
        jaxpr = jax.make_jaxpr(form)(g).jaxpr
        barriers = [e for e in jaxpr.eqns if e.primitive.name == "optimization_barrier"]
        return form(g)[0], barriers[-1].invars[0].aval.size

    (expected,) = jax.linear_transpose(
        lambda x: lax.conv_general_dilated(x, w, (2, 2), "VALID", dimension_numbers=layout), x
    )(g)
    for lean, size in ((False, x.size), (True, x.size // 4)):
        got, numbers = crossing(lean)
        assert numbers == size
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
