"""A graph prints itself, is read back, and runs at another batch size.

Expected values are what the same code gives without a graph, which other tests hold to MXNet.
"""

import re

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax import core
from mxjax.array.classes import NDArray
from mxjax.array.invoke import call
from mxjax.core.graph.graph import again
from mxjax.core.run import scheduler
from mxjax.gluon import HybridBlock, nn
from mxjax.ops import TABLE
from mxjax.ops.samples import Body
from tests.memonger import networks
from tests.ops.test_table import draw, kind

DEVICE = mx.cpu().jax_device


def recorded(op, args, attrs):
    """One call of a row as a graph, and its arrays."""
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    with core.recording("one", DEVICE) as rec:
        given = iter([rec.placeholder(core.aval(a.shape, a.dtype, DEVICE)) for a in arrays])
        live = [kind(op)._wrap(next(given)) if isinstance(a, np.ndarray) else a for a in args]
        attrs = {k: v.graph() if isinstance(v, Body) else v for k, v in attrs.items()}
        out = call(op, kind(op), tuple(live), attrs)
        outs = list(out) if isinstance(out, (list, tuple)) else [out]
        outs = outs or [a for a in live if isinstance(a, NDArray)]  # no results: what it wrote to
        graph = rec.finish([o._value() for o in outs])
    return graph, [*arrays, *(np.asarray(core.read(v)) for v in graph.captured), *graph.scalars]


def same(graph, other):
    """Both have the very same calls, on the same operands as the text tells them."""
    assert all(a.call is b.call for a, b in zip(graph.steps, other.steps, strict=True))
    assert [s.avals for s in graph.steps] == [s.avals for s in other.steps]
    assert graph.avals == other.avals and repr(graph) == repr(other)


def primitives(graph, arrays):
    """What a graph computes, as text."""
    with jax.enable_x64(True):
        return re.sub("0x[0-9a-f]+", "", str(jax.make_jaxpr(graph.run)(*arrays)))


NAMES = sorted(TABLE)
GROUPS = [NAMES[k : k + 60] for k in range(0, len(NAMES), 60)]


@pytest.mark.parametrize("names", GROUPS, ids=lambda names: names[0])
def test_every_row_is_read_back(names):
    """Every sample of every row: text and back, to the very same calls on the same operands.

    Such graphs compute the same; of a group's first row the primitives of JAX show it (tracing all of them shows no
    more: a run goes by calls and operands alone).
    """
    for name in names:
        op = TABLE[name]
        for k, case in enumerate(op.tests.samples):
            graph, given = recorded(op, draw(op, case, k), case.attrs)
            assert len(graph.steps) == 1 and graph.steps[0].call.row is op, name
            back = core.Graph.read(repr(graph), DEVICE)
            same(graph, back)
            same(graph, graph.replay())
            assert [s.args for s in graph.steps] == [s.args for s in back.steps], name
            assert (graph.outputs, graph.fmt) == (back.outputs, back.fmt), name
            if not k and name is names[0]:
                assert primitives(graph, given) == primitives(back, given), name


def test_the_engine_s_rows_are_there():
    """Rows outside the table, of the tape, are read back as well."""
    assert {"_grad_add", "_ones_like"} <= set(core.ROWS)
    assert set(TABLE) <= set(core.ROWS)


class Written(HybridBlock):
    """A forward out of what users write: numbers on both sides, constants, slices, reshapes."""

    def __init__(self, of):
        super().__init__()
        self.of = of

    def forward(self, x):
        return self.of(x)


np_ = mx.np
EXPRESSIONS = {
    "number on the left": lambda x: 2 - x,
    "number on the right": lambda x: x - 2,
    "power of a number": lambda x: 2**x,
    "divided by": lambda x: 1.5 / (x + 3),
    "constant": lambda x: np_.where(x > 0, x, 1.0),
    "no array": lambda x: np_.clip(x, None, 1),
    "reshape": lambda x: x.reshape((-1, 12)),
    "reshape nd": lambda x: x.as_nd_ndarray().reshape((0, -1)).as_np_ndarray(),
    "reshape view": lambda x: x.reshape_view((-1, 2)),
    "ravel": lambda x: x.ravel(),
    "slice": lambda x: x[:, :2],
    "all axes": lambda x: x[..., ::-2, None],
    "element": lambda x: x[:, -1, 0],
    "first row": lambda x: x[0],
    "last rows": lambda x: x[-1:],
    "list": lambda x: x[:, [2, 0]],
    "list and int": lambda x: x[:, [2, 0], 1],
    "cast": lambda x: x.astype("float64"),
    "copy": lambda x: x.copy() + x.detach(),
    "split": lambda x: np_.concatenate(np_.split(x, 2, axis=2), axis=1),
    "mean": lambda x: x.mean(axis=(1, 2), keepdims=True) * x,
    "transpose": lambda x: x.transpose((0, 2, 1)),
    "expand": lambda x: np_.expand_dims(x, -1) + x.swapaxes(0, 1)[:, :1].sum(),
    "flatten": lambda x: mx.npx.batch_flatten(x),
    "like": lambda x: np_.ones_like(x) + np_.zeros_like(x, dtype="int32") + np_.full_like(x, 3),
    "softmax": lambda x: mx.npx.softmax(x, axis=-1) * np_.max(x),
    "inf": lambda x: np_.where(x > 0, x, -np_.inf).max(axis=-1),
}


def array(batch, seed=3):
    return mx.np.array(np.random.RandomState(seed).uniform(-2, 2, (batch, 3, 4)), dtype="float32")


def resized(graph, batch, other):
    """The graph's avals with a first length of ``batch`` in its arguments made another."""
    return [
        core.aval((other, *a.shape[1:]), a.dtype, a.device) if name.startswith(("x", "data")) else a
        for name, a in zip(graph.inputs, graph.avals, strict=True)
    ]


@pytest.mark.programs
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_what_users_write_serves_every_batch_size(name):
    block = Written(EXPRESSIONS[name])
    graph = core.Graph.read(repr(block.graph(array(2))), DEVICE)
    other = graph.replay(avals=resized(graph, 2, 5))
    x = array(5)
    want = block(x).asnumpy()
    given = [x.jax if n == "x" else np.asarray(0) for n in graph.inputs]
    assert graph.inputs == ("x", "random_count")  # nothing of the batch was captured
    with jax.enable_x64(True):
        for g in (graph, other):
            (got,) = jax.jit(g.run)(*given, *g.scalars)
            np.testing.assert_array_equal(np.asarray(got), want)
    assert other.steps[-1].avals[0].shape == want.shape


def test_sides_and_constants_are_told_apart():
    """What printed alike before calls were data."""
    left, right, constant = (
        repr(Written(EXPRESSIONS[k]).graph(array(2)))
        for k in ("number on the left", "number on the right", "constant")
    )
    assert "rsubtract_scalar(x, scalar=2)" in left
    assert " subtract_scalar(x, scalar=2)" in right
    assert "where(%0, x, 1.0)" in constant
    text = repr(Written(EXPRESSIONS["reshape"]).graph(array(2)))
    assert "reshape(x, newshape=(-1, 12))" in text


NETWORKS = {
    "mlp": (lambda: [nn.Dense(8, activation="relu"), nn.Dropout(0.5), nn.LayerNorm(), nn.Dense(3)], (4, 6)),
    "convolutions": (
        lambda: [
            nn.Conv2D(4, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(), nn.GroupNorm(2),
            nn.Conv2DTranspose(3, 2), nn.PReLU(), nn.AvgPool2D(), nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(2),
        ],
        (2, 3, 8, 8),
    ),
    "embedding": (lambda: [nn.Embedding(7, 5), nn.Dense(4, flatten=False), nn.SELU(), nn.InstanceNorm()], (3, 4)),
    "wide": (
        lambda: [nn.ReflectionPad2D(1), nn.Conv2D(4, 3, groups=2, in_channels=2), nn.GELU(), nn.Swish()],
        (2, 2, 5, 5),
    ),
}  # fmt: skip


def network(layers):
    net = nn.HybridSequential()
    net.add(*layers())
    net.initialize(mx.init.Xavier())
    return net


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_read_back(name, training):
    layers, shape = NETWORKS[name]
    net = network(layers)

    def data(batch):
        drawn = np.random.RandomState(batch).uniform(0, 6, (batch, *shape[1:]))
        return mx.np.array(drawn if name != "embedding" else drawn // 1, dtype="float32")

    x, other = data(shape[0]), data(shape[0] + 3)
    with mx.autograd.train_mode() if training else mx.autograd.predict_mode():
        graph = net.graph(x)
        back = core.Graph.read(repr(graph), DEVICE)
        same(graph, back)
        resized_graph = back.replay(avals=resized(back, shape[0], shape[0] + 3))
        params = {k: p.data().jax for k, p in net.collect_params().items()}
        key = core.rng.stream(DEVICE).key
        assert set(graph.inputs) <= {"x", "random_count", "random_key", *params}

        def run(g, x):
            known = {
                "x": x.jax,
                "random_count": np.asarray(5),
                "random_key": core.read(key),
                **params,
            }
            with jax.enable_x64(True):
                return [
                    np.asarray(o) for o in jax.jit(g.run)(*[known[n] for n in g.inputs], *g.scalars)
                ]

        for got, want in zip(run(back, x), run(graph, x), strict=True):
            np.testing.assert_array_equal(got, want)
        got = run(resized_graph, other)[0]
        want = run(net.graph(other), other)[0]
    np.testing.assert_array_equal(got, want)
    if training and name == "convolutions":
        assert graph.results[1:] == ("1.running_mean", "1.running_var")


def test_derivatives_inside_a_graph_are_read_back():
    """A graph whose forward differentiates: its steps are derivatives of rows."""

    class Slope(HybridBlock):
        def forward(self, x):
            x.attach_grad()
            with mx.autograd.record():
                y = np_.where(x > 0, np_.exp(x), 2.0) * mx.npx.softmax(2 - x, axis=-1)
            return mx.autograd.grad(y, x, create_graph=False)[0]

    x = array(2)
    graph = Slope().graph(x)
    text = repr(graph)
    assert "grad[" in text
    back = core.Graph.read(text, DEVICE)
    same(graph, back)
    y = array(2)
    y.attach_grad()
    with mx.autograd.record():
        head = np_.where(y > 0, np_.exp(y), 2.0) * mx.npx.softmax(2 - y, axis=-1)
    head.backward()
    with jax.enable_x64(True):
        (got,) = jax.jit(back.run)(x.jax, np.asarray(0), *back.scalars)
    np.testing.assert_allclose(np.asarray(got), y.grad.asnumpy(), rtol=1e-5, atol=1e-6)


def test_numbers_keep_their_kind():
    """1, 1.0 and True, infinities and NaN are different constants."""

    def with_(number):
        scheduler.forget()  # else the lambda's number would be one that changes
        return repr(Written(lambda x: np_.where(x > 0, x, number)).graph(array(2)))

    numbers = [1, 1.0, True, float("inf"), -float("inf"), 1e-30]
    texts = [with_(n) for n in numbers]
    assert len(set(texts)) == len(texts)
    for text, number in zip(texts, numbers, strict=True):
        ((_, constant),) = core.Graph.read(text, DEVICE).steps[-1].call.constants
        assert type(constant) is type(number) and constant == number
    ((_, nan),) = core.Graph.read(with_(float("nan")), DEVICE).steps[-1].call.constants
    assert nan != nan


def test_names_with_other_characters():
    """A name that a text could not hold is changed; one that another has gets a mark."""
    aval = core.aval((2,), "float32", DEVICE)
    with core.recording("a b(c", DEVICE) as rec:
        xs = [
            rec.placeholder(aval, n)
            for n in ("a, b", "a, b", "1.5", "inf", "", "features.0.weight")
        ]
        graph = rec.finish(xs[::-1], ["out=1"])
    assert graph.name == "a_b_c"
    assert graph.inputs == ("a_b", "a_b_", "in_1.5", "in_inf", "in4", "features.0.weight")
    assert graph.results[0] == "out_1"
    same(graph, core.Graph.read(repr(graph), DEVICE))


GOOD = """graph g(
  x: float32[2, 3],
)
  %0 = exp(x)
  return output0=%0
"""


def test_a_person_s_text_is_read():
    graph = core.Graph.read(GOOD.replace("exp(x)", "subtract_scalar(x, scalar=.5)  # head"), DEVICE)
    assert graph.steps[0].scope == "head"
    (got,) = graph.run(np.full((2, 3), 2.0, "float32"))
    np.testing.assert_array_equal(got, np.full((2, 3), 1.5))


@pytest.mark.parametrize(
    ("line", "other", "message"),
    [
        ("exp(x)", "exq(x)", "no row 'exq'; did you mean 'exp'"),
        ("exp(x)", "exp(y)", "line 4"),
        ("exp(x)", "exp(__import__('os'))", "is no literal"),
        ("exp(x)", "exp(x", "line 4"),
        ("exp(x)", "exp(x, axis=(1,)", "line 4"),
        ("exp(x)", "exp(%7)", "%7"),
        ("exp(x)", "exp(@body)", "no graph 'body'"),
        ("exp(x)", "exp(@g)", "holds itself"),
        ("exp(x)", "sum(x, axis=9)", "axis"),
        ("float32[2, 3]", "float31[2, 3]", "float31"),
        ("  return output0=%0\n", "", "without 'return'"),
        ("graph g(", "graf g(", "line 1"),
    ],
)
def test_a_wrong_text_says_where(line, other, message):
    with pytest.raises((mx.MXNetError, ValueError)) as caught:
        core.Graph.read(GOOD.replace(line, other), DEVICE)
    assert message in str(caught.value)


def test_a_visitor_puts_others_in_place():
    """What AMP conversion and export are: another call for a step."""
    net = network(lambda: [nn.Dense(3, activation="relu", in_units=4)])
    graph = net.graph(mx.np.ones((2, 4)))
    tanh = TABLE["tanh"].bind()

    def visit(step, operands):
        return (
            core.record(tanh, operands) if step.call.name == "Activation" else again(step, operands)
        )

    other = graph.replay(visit)
    assert [s.call.name for s in other.steps] == ["FullyConnected", "tanh"]
    assert [s.scope for s in other.steps] == [s.scope for s in graph.steps]
    assert other.inputs == graph.inputs

    def wrong(step, operands):
        return (*again(step, operands), operands[0])

    with pytest.raises(mx.MXNetError, match="has 1 results, and what took its place gave 2"):
        graph.replay(wrong)


LARGE = {
    "resnet18": lambda: networks.resnet18(side=32, batch=2, width=4),
    "resnet": lambda: networks.resnet((1, 1), side=16, batch=2, width=4),
    "unet": lambda: networks.unet(levels=2, width=4, side=8, batch=2),
    "transformer": lambda: networks.transformer(2, 8, 2, 4, batch=2),
    "translator": lambda: networks.translator(1, 1, 8, 2, 4, batch=2),
    "residual": lambda: (networks.residual_network(2), networks.batch(2, 8)[:1]),
    "perceptrons": lambda: (networks.perceptrons(3, 4), (mx.np.ones((2, 4)),)),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_networks_are_read_back(name):
    """The very same calls; where the forward does not ask for the batch size, at another one too."""
    net, given = LARGE[name]()
    with mx.autograd.train_mode():
        graph = net.graph(*given)
    back = core.Graph.read(repr(graph), DEVICE)
    same(graph, back)
    if name not in ("transformer", "translator"):  # these read x.shape
        other = back.replay(avals=resized(back, 2, 5))
        changed = [(a.shape, b.shape) for s, t in zip(graph.steps, other.steps, strict=True)
                   for a, b in zip(s.avals, t.avals, strict=True) if a.shape != b.shape]  # fmt: skip
        assert changed and all(a[0] == 2 and b == (5, *a[1:]) for a, b in changed)


def test_graphs_inside_a_graph_are_read_back():
    """A loop in a loop, with a parameter from outside: text, back, and another number of steps."""

    class Loop(HybridBlock):
        def __init__(self):
            super().__init__()
            self.dense = nn.Dense(3, in_units=3)

        def forward(self, x):
            def row(x, s):
                s = self.dense(x) + s * 0.5
                out, _ = mx.npx.foreach(lambda e, t: (e * t[0].sum(), t), s, [s])
                return out, s

            return mx.npx.foreach(row, x, mx.np.zeros((2, 3)))[0]

    net = Loop()
    net.initialize(mx.init.Normal(1.0))
    x = mx.np.array(np.random.RandomState(0).uniform(size=(4, 2, 3)), dtype="float32")
    graph = net.graph(x)
    text = repr(graph)
    assert text.count("graph ") == 3 and "body=@foreach" in text
    back = core.Graph.read(text, DEVICE)
    same(graph, back)
    longer = mx.np.array(np.random.RandomState(0).uniform(size=(7, 2, 3)), dtype="float32")
    params = {k: p.data().jax for k, p in net.collect_params().items()}
    given = {"x": longer.jax, "random_count": np.asarray(0), **params}
    with jax.enable_x64(True):
        (got,) = jax.jit(back.run)(*[given[n] for n in back.inputs])
    np.testing.assert_allclose(np.asarray(got), net(longer).asnumpy(), rtol=1e-5, atol=1e-6)


class Doubled(mx.operator.CustomOp):
    """Looks at numbers, so that in a graph it is a callback."""

    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], mx.np.array(in_data[0].asnumpy() * 2))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * 2)


@mx.operator.register("test_graph_text_doubled")
class DoubledProp(mx.operator.CustomOpProp):
    def __init__(self, factor="2"):
        super().__init__(need_top_grad=True)

    def create_operator(self, ctx, shapes, dtypes):
        return Doubled()


def test_a_custom_operator_is_read_back():
    block = Written(lambda x: mx.nd.Custom(x, op_type="test_graph_text_doubled", factor=2) + 1)
    graph = block.graph(array(2))
    assert "Custom(x, op_type='test_graph_text_doubled', options=(('factor', '2'),)" in repr(graph)
    back = core.Graph.read(repr(graph), DEVICE)
    same(graph, back)
    x = array(5)
    (got,) = jax.jit(back.run)(x.jax, np.asarray(0))
    np.testing.assert_allclose(np.asarray(got), x.asnumpy() * 2 + 1)


def test_what_a_scope_says_of_mirroring_is_read_back():
    """Stretches are told apart: two scopes that say the same are two."""
    net = network(lambda: [nn.Dense(3, activation="relu", in_units=n) for n in (4, 3, 3)])
    net[0].force_mirroring = net[1].force_mirroring = True
    net[2].force_mirroring = False
    graph = net.graph(mx.np.ones((2, 4)))
    back = core.Graph.read(repr(graph), DEVICE)
    same(graph, back)

    def stretches(steps):
        found = {}
        return [(found.setdefault(id(s.mirroring), len(found)), s.mirroring.again) for s in steps]

    assert stretches(back.steps) == stretches(graph.steps)
    assert [again for _, again in stretches(back.steps)] == [True] * 4 + [False] * 2
    assert len({k for k, _ in stretches(back.steps)}) == 3
    assert stretches(back.replay().steps) == stretches(graph.steps)
