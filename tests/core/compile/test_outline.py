"""Traced programs that are known again before they are lowered: what stands for them, and what is not known."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax.core.compile import kept, outline
from mxjax.core.compile.outline import ToLower, digest
from mxjax.core.stats import stats

X = np.arange(6, dtype=np.float32).reshape(2, 3)
DEVICE = jax.local_devices(backend="cpu")[0]
AT = jax.sharding.SingleDeviceSharding(DEVICE)


@pytest.fixture(autouse=True)
def short_ones_too(monkeypatch):
    monkeypatch.setattr(outline, "SHORT", 0)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "_counted", {})
    mx.config.set(cache_dir=str(tmp_path))
    return tmp_path / "programs"


def traced(fn, *args, **jit):
    def fresh(*args):
        return fn(*args)

    fresh.__name__ = fresh.__qualname__ = "fn"
    with jax.enable_x64(True):
        return jax.jit(fresh, keep_unused=True, **jit).trace(*(args or (X,)))


def to_lower(fn, *args, **jit):
    structs = [jax.ShapeDtypeStruct(np.shape(a), a.dtype, sharding=AT) for a in args or (X,)]
    return ToLower(traced(fn, *structs, **jit), structs, DEVICE, keep_unused=True, **jit)


def build(fn, *args, **jit):
    """The compiled function, whether it was loaded, and whether it was lowered."""
    lowered = to_lower(fn, *args, **jit)
    compiled, loaded = kept.compile_or_load(lowered, {})
    return compiled, loaded, "whole" in vars(lowered)


def scoped(name, other):
    def fn(x):
        with jax.named_scope(name):
            y = x + 1
        with jax.named_scope(other):
            return y + 1

    return fn


def closing_over(constant):
    return lambda x: x + constant


@jax.custom_jvp
def halved(x):
    return x / 2


halved.defjvp(lambda primals, tangents: (halved(*primals), tangents[0] / 2))


@jax.custom_vjp
def thirded(x):
    return x / 3


thirded.defvjp(lambda x: (thirded(x), None), lambda _, g: (g / 3,))


def looped(n, body):
    return lambda x: jax.lax.scan(lambda c, _: (body(c), c.sum()), x, None, length=n)


def twice(fn):
    inner = jax.jit(fn)
    return lambda x: inner(inner(x))


def drawn(count):
    words = np.array([1, count], np.uint32)
    return lambda x: x + jax.random.uniform(jax.random.wrap_key_data(words), x.shape, "float32")


# Each is another program than all others, or the same one where it has the same name.
PROGRAMS = {
    "add": [lambda x: x + 1, lambda y: y + 1],
    "add 2": [lambda x: x + 2],
    "a whole number": [lambda x: x + np.int64(1)],
    "zero": [lambda x: x * 0.0],
    "minus zero": [lambda x: x * -0.0],
    "nan": [lambda x: x * np.nan],
    "operands": [lambda x: x - 2 * x],
    "operands turned round": [lambda x: 2 * x - x],
    "dtype": [lambda x: (x + 1).astype("float16")],
    "shape": [lambda x: (x + 1).reshape(3, 2)],
    "another shape": [lambda x: (x + 1).reshape(6)],
    "two results": [lambda x: (x + 1, x * 2)],
    "turned round": [lambda x: (x * 2, x + 1)],
    "in a list": [lambda x: [x + 1, x * 2]],
    "one twice": [lambda x: (x + 1, x + 1)],
    "axis 0": [lambda x: x.sum(0)],
    "axis 1": [lambda x: x.sum(1)],
    "of shape 3": [lambda x: x[0] + x[1]],
    "product": [lambda x: x @ x.T],
    "exact product": [lambda x: jnp.matmul(x, x.T, precision="highest")],
    "names": [scoped("a", "b"), scoped("a", "b")],
    "other names": [scoped("b", "a")],
    "a constant": [closing_over(np.ones(3, np.float32))],
    "another constant": [closing_over(np.array([1, 1, 2], np.float32))],
    "a constant of shape 2, 3": [closing_over(np.ones((2, 3), np.float32))],
    "a derivative of its own": [halved],
    "another": [thirded],
    "gradients": [jax.grad(lambda x: jnp.tanh(x).sum())],
    "a loop": [looped(3, jnp.sin), looped(3, jnp.sin)],
    "a longer loop": [looped(4, jnp.sin)],
    "another loop": [looped(3, jnp.cos)],
    "a function twice": [twice(jnp.sin)],
    "other functions twice": [twice(jnp.cos)],
    "two functions": [lambda x: jax.jit(jnp.sin)(jax.jit(lambda y: jnp.sin(y))(x))],
    "where": [lambda x: jnp.where(x > 1, x, 0)],
    "gather": [lambda x: x[np.array([1, 0])]],
    "another gather": [lambda x: x[np.array([0, 1])]],
    "scatter": [lambda x: x.at[0].set(7)],
    "branches": [lambda x: jax.lax.cond(x[0, 0] > 1, jnp.sin, jnp.cos, x)],
    "branches turned round": [lambda x: jax.lax.cond(x[0, 0] > 1, jnp.cos, jnp.sin, x)],
    "random": [drawn(2), drawn(2)],
    "random otherwise": [drawn(3)],
    "sorted": [lambda x: jnp.sort(x)],
    "checkpoint": [jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum()))],
    "barrier": [lambda x: jax.lax.optimization_barrier(x + 1)],
}


def stablehlo(fn):
    return traced(fn).lower().as_text()


def groups(of):
    """The names of `PROGRAMS` whose functions are the same by this; all functions of a name are."""
    found = {}
    for name, fns in PROGRAMS.items():
        (one,) = {of(fn) for fn in fns}
        found.setdefault(one, []).append(name)
    return sorted(found.values())


def test_a_digest_stands_for_one_program():
    """Equal digests, equal StableHLO, and the other way round; names are in locations."""
    assert None not in [digest(traced(fn).jaxpr) for fns in PROGRAMS.values() for fn in fns]
    by_text = groups(stablehlo)
    by_text.remove(["names", "other names"])
    assert groups(lambda fn: digest(traced(fn).jaxpr)) == sorted(
        [*by_text, ["names"], ["other names"]]
    )
    assert sorted(map(len, by_text))[-3:] == [1, 2, 2]


@pytest.mark.parametrize("dtype", ["int32", "float16", "bool"])
def test_operands_count(dtype):
    assert digest(traced(lambda x: x + x, X).jaxpr) != digest(
        traced(lambda x: x + x, X.astype(dtype)).jaxpr
    )
    assert digest(traced(lambda x: x + x, X).jaxpr) != digest(traced(lambda x: x + x, X[:1]).jaxpr)


def test_rules_of_lowering_read_no_settings():
    """A digest does not know them."""
    root = Path(outline.__file__).parents[2]
    rules = [*root.glob("ops/lowering/*.py"), *root.glob("core/compile/cpu_*.py")]
    assert len(rules) > 8
    assert not [path for path in rules if re.search(r"\bsettings\b", path.read_text())]


def test_flags_and_the_source_count(monkeypatch):
    jaxpr = traced(lambda x: x @ x.T).jaxpr
    plain = digest(jaxpr)
    assert digest(jaxpr) == plain
    with jax.default_matmul_precision("highest"):
        assert digest(jaxpr) != plain
    with jax.threefry_partitionable(not jax.config.jax_threefry_partitionable):
        assert digest(jaxpr) != plain
    with mx.core.compiler.for_platform("gpu"):
        assert digest(jaxpr) != plain
    monkeypatch.setattr(outline, "source", lambda: b"another")
    assert digest(jaxpr) != plain


def calls_back(x):
    return jax.pure_callback(lambda a: a, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def prints(x):
    jax.debug.print("{}", x)
    return x


def of_others(x):
    from jax.extend.core import Primitive
    from jax.interpreters import mlir

    theirs = Primitive("add")  # named like one of JAX's
    theirs.def_abstract_eval(lambda a, b: a)
    mlir.register_lowering(theirs, mlir.lower_fun(lambda a, b: a - b, multiple_results=False))
    return theirs.bind(x, x)


ON_THE_DEVICE = jnp.asarray(X)


def on_the_device(x):
    return x + ON_THE_DEVICE


def in_a_loop(x):
    return jax.lax.fori_loop(0, 3, lambda _, c: calls_back(c), x)


@pytest.mark.parametrize("fn", [calls_back, prints, of_others, on_the_device, in_a_loop])
def test_what_a_digest_does_not_know(fn):
    assert digest(traced(fn).jaxpr) is None


def test_large_constants_are_not_looked_through():
    assert digest(traced(lambda x: x.sum() + np.arange(300_000.0)).jaxpr) is None


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_second_time_it_is_not_lowered_and_computes_the_same(folder, name):
    fn = PROGRAMS[name][-1]
    first, loaded, lowered = build(PROGRAMS[name][0])
    assert not loaded and lowered
    before = stats.loaded
    second, loaded, lowered = build(fn)
    assert loaded and not lowered and stats.loaded == before + 1
    a, b = first(jnp.asarray(X)), second(jnp.asarray(X))
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for one, two in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert (
            one.dtype == two.dtype
            and one.weak_type == two.weak_type
            and one.sharding == two.sharding
        )
        assert np.asarray(one).tobytes() == np.asarray(two).tobytes()
    assert names_in(second) == names_in(first)


def names_in(compiled):
    return re.findall(r"(\w+)\(.*op_name=\"(.*?)\"", compiled.as_text())


def test_donated_inputs_orders_of_axes_and_unused_operands(folder):
    from jax.experimental.layout import Format, Layout

    turned = Format(Layout((0, 1)), AT)

    def update(w, g, unused):
        return w - g, g.T

    for expected in (False, True):
        made, loaded, lowered = build(
            update, X, X, X[:1], donate_argnums=(0,), out_shardings=(AT, turned)
        )
        assert loaded is expected and lowered is not expected
        w = jnp.asarray(X) + 0
        new, transposed = made(w, jnp.asarray(X), jnp.asarray(X[:1]))
        assert w.is_deleted() and np.array_equal(new, X - X) and np.array_equal(transposed, X.T)
        assert transposed.format.layout.major_to_minor == (0, 1)
    assert not build(update, X, X, X[:1], out_shardings=(AT, turned))[1]


def test_short_programs_and_those_over_several_devices_are_lowered(folder, monkeypatch):
    monkeypatch.setattr(outline, "SHORT", 3)
    for _ in range(2):
        assert build(PROGRAMS["add"][0])[2]  # which takes less time than an outline
    assert to_lower(PROGRAMS["gradients"][0]).digest is not None
    lowered = ToLower(traced(PROGRAMS["gradients"][0]), [X], AT, keep_unused=True)
    assert lowered.digest is None


def test_asking_lowers_nothing(folder):
    fn = PROGRAMS["a loop"][0]
    lowered = to_lower(fn)
    assert kept.load(lowered, {}) is None and "whole" not in vars(lowered)
    build(fn)
    lowered = to_lower(fn)
    assert kept.load(lowered, {}) is not None and "whole" not in vars(lowered)
    mx.config.set(cache_dir="")
    assert kept.load(to_lower(fn), {}) is None


def test_in_other_threads(folder):
    found = []

    def work():
        found.append(np.asarray(build(PROGRAMS["gather"][0])[0](jnp.asarray(X))))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 4 and all(np.array_equal(f, X[::-1]) for f in found)


def test_convolutions_and_poolings_are_known(folder, monkeypatch):
    """Primitives of mxjax's own: a step of a network is loaded without being lowered."""
    mx.config.set({"engine.cold": "compile"})
    lowered = []
    whole = ToLower.whole.func
    monkeypatch.setattr(
        ToLower, "whole", property(lambda self: lowered.append(self.jaxpr) or whole(self))
    )
    losses = []
    for _ in range(2):
        mx.core.drop_programs()
        mx.random.seed(3)
        net = mx.gluon.nn.HybridSequential()
        net.add(
            mx.gluon.nn.Conv2D(4, 3, strides=2), mx.gluon.nn.MaxPool2D(3, 2), mx.gluon.nn.Dense(2)
        )
        net.initialize()
        net.hybridize()
        trainer = mx.gluon.Trainer(net.collect_params(), "sgd")
        x = mx.np.random.uniform(size=(2, 3, 17, 17))
        lowered.clear()
        mx.engine.reset()
        for _ in range(2):
            with mx.autograd.record():
                loss = (net(x) ** 2).sum()
            loss.backward()
            trainer.step(2)
            losses.append(loss.item())
        names = {e.primitive.name for jaxpr in lowered for e in jaxpr.jaxpr.eqns}
    assert losses[:2] == losses[2:]
    assert mx.engine.stats()["compiled"] == 0 and not names, names


@pytest.mark.parametrize("stride", [(1, 1), (2, 2)])
def test_convolutions_of_a_quick_program_are_a_library_s(stride):
    """What LLVM does not optimise would take many times as long; the numbers are the same."""
    from mxjax.ops.lowering.convolution import convolution

    draw = np.random.RandomState(3)
    x, w = (draw.standard_normal(s).astype("float32") for s in ((2, 3, 13, 13), (8, 3, 3, 3)))

    def gradients(x, w):
        out = convolution(x, w, stride=stride, pad=(1, 1), platform="cpu")
        return out, *jax.vjp(
            lambda x, w: convolution(x, w, stride=stride, pad=(1, 1), platform="cpu"), x, w
        )[1](out)

    traced = jax.jit(gradients).trace(x, w)
    whole, quick = (
        ToLower(traced, (x, w), jax.devices("cpu")[0], quick=q).whole for q in (False, True)
    )
    assert quick.as_text().count("stablehlo.convolution") > whole.as_text().count(
        "stablehlo.convolution"
    )
    for one, other in zip(quick.compile()(x, w), whole.compile()(x, w), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-4)
