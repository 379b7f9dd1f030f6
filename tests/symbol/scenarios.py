"""Small programs on symbols whose results MXNet recorded (`tests/record/symbols.py`); each gives JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SCENARIOS: dict[str, Callable[[Any], Any]] = {}


def scenario(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    SCENARIOS[make.__name__] = make
    return make


def _lists(s: Any) -> list[Any]:
    return [
        s.name,
        s.list_arguments(),
        s.list_auxiliary_states(),
        s.list_outputs(),
        s.get_internals().list_outputs(),
    ]


def _shapes(found: Any) -> Any:
    return [None if part is None else [list(s) for s in part] for part in found]


def _network(mx: Any) -> Any:
    data = mx.sym.var("data")
    conv = mx.sym.Convolution(data, kernel=(3, 3), num_filter=4, name="conv")
    bn = mx.sym.BatchNorm(conv, name="bn", fix_gamma=False)
    act = mx.sym.LeakyReLU(bn, act_type="prelu", name="act")
    pool = mx.sym.Pooling(act, kernel=(2, 2), stride=(2, 2), pool_type="max")
    fc = mx.sym.FullyConnected(pool, num_hidden=3)
    return mx.sym.SoftmaxOutput(mx.sym.Dropout(fc, p=0.5), name="softmax")


@scenario
def names_of_a_network(mx: Any) -> Any:
    return _lists(_network(mx))


@scenario
def shapes_of_a_network(mx: Any) -> Any:
    return _shapes(_network(mx).infer_shape(data=(2, 1, 8, 8)))


@scenario
def names_of_operators(mx: Any) -> Any:
    x, y = mx.sym.var("x"), mx.sym.var("y").as_np_ndarray()
    made = [
        x + x,
        x - x,
        x * x,
        x / x,
        x + 1,
        1 - x,
        2 / x,
        x - 1,
        3 * x,
        x**2,
        2**x,
        x**x,
        x % 2,
        -x,
    ]
    made += [x > 1, x == x, x <= 2]
    made += [
        abs(x),
        mx.sym.concat(x, x),
        mx.sym.FullyConnected(x, num_hidden=2),
        x.sum(),
        x.reshape((1, -1)),
    ]
    made += [
        y + y,
        y + 1,
        1 - y,
        y**2,
        mx.sym.np.add(y, y),
        mx.sym.np.sum(y),
        mx.sym.npx.relu(y),
        y.mean(),
    ]
    return [s.name for s in made]


@scenario
def several_results(mx: Any) -> Any:
    x = mx.sym.var("x")
    made = [
        mx.sym.split(x, num_outputs=2, name="s"),
        mx.sym.topk(x, ret_typ="both", k=2, name="t"),
        mx.sym.linalg.gelqf(x, name="g"),
        mx.sym.RNN(x, state_size=3, num_layers=1, mode="lstm", state_outputs=True, name="r"),
        mx.sym.RNN(x, state_size=3, num_layers=1, mode="gru", name="r2"),
        mx.sym.LayerNorm(x, name="l"),
        mx.sym.LayerNorm(x, name="l2", output_mean_var=True),
        mx.sym.BatchNorm(x, name="b", output_mean_var=True),
        mx.sym.SequenceMask(x, use_sequence_length=True, name="m"),
        mx.sym.Group([x, x + x]),
    ]
    return [[s.list_outputs(), s.list_arguments(), s.list_auxiliary_states(), len(s)] for s in made]


@scenario
def composition(mx: Any) -> Any:
    data = mx.sym.var("data")
    first = mx.sym.FullyConnected(data, num_hidden=10, name="fc1")
    second = mx.sym.FullyConnected(name="fc3", num_hidden=10)
    second = mx.sym.Activation(data=second, act_type="relu", name="act")
    made = second(fc3_data=first, name="composed")
    sliced = mx.sym.SliceChannel(data, num_outputs=3, name="slice")
    joined = mx.sym.Concat(*list(sliced), name="joined")
    return [
        _lists(made), _lists(second), _lists(joined), joined.get_children().list_outputs(),
        made.get_internals()["fc1_output"].list_arguments(),
        repr(made), repr(mx.sym.Group([made, first])), repr(sliced[1]),
    ]  # fmt: skip


@scenario
def attributes(mx: Any) -> Any:
    with mx.AttrScope(group="4", data="great"):
        data = mx.sym.Variable(
            "data", attr={"group": "1", "force_mirroring": "True"}, lr_mult=1, shape=(2, 0)
        )
    with mx.AttrScope(ctx_group="a", __mood__="so so"):
        op = mx.sym.FullyConnected(data, num_hidden=1, name="fc", lr_mult=2)
    keys = (
        "group",
        "data",
        "lr_mult",
        "__lr_mult__",
        "force_mirroring",
        "__force_mirroring__",
        "__shape__",
        "none",
    )
    own = ("num_hidden", "ctx_group", "__ctx_group__", "__mood__", "lr_mult", "__lr_mult__")
    of_weight = op.attr_dict()["fc_weight"]
    return [
        [data.attr(k) for k in keys],
        [op.attr(k) for k in own],
        [of_weight.get(k) for k in own[1:]],
    ]


@scenario
def names_with_a_prefix(mx: Any) -> Any:
    with mx.name.Prefix("net_"):
        x = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2)
        return _lists(mx.sym.FullyConnected(x, num_hidden=2, name="last"))


@scenario
def shapes_backwards(mx: Any) -> Any:
    found = []
    for shape, make, other in [
        ((-1, 10), lambda a: mx.sym.FullyConnected(a, num_hidden=21), (5, -1)),
        (
            (-1, 10, -1, -1),
            lambda a: mx.sym.Convolution(a, num_filter=21, kernel=(3, 3), pad=(1, 1)),
            (5, 21, 32, 32),
        ),
        (
            (-1, 10),
            lambda a: mx.sym.SliceChannel(a, num_outputs=10, axis=1, squeeze_axis=True)[1],
            (5,),
        ),
        ((-1, 15, -1), lambda a: mx.sym.SliceChannel(a, num_outputs=3)[1], (3, 5, 2)),
        ((-1, 10), lambda a: mx.sym.Concat(a, mx.sym.var("b", shape=(-1, 5)), dim=1), (2, -1)),
        ((-1, 4), lambda a: mx.sym.Activation(a, act_type="relu"), (3, -1)),
        ((-1, 10), lambda a: a + 1, (7, -1)),
    ]:
        a, c = mx.sym.var("a", shape=shape), mx.sym.var("c", shape=other)
        found.append(_shapes((make(a) + c).infer_shape()))
    return found


@scenario
def shapes_in_part(mx: Any) -> Any:
    x, y = mx.sym.var("x"), mx.sym.var("y")
    tried = [
        (mx.sym.dot(x, y), {"x": (-1, 3, 4), "y": (4, 5)}),
        (mx.sym.batch_dot(x, y), {"x": (-1, 3, 4), "y": (-1, 4, 5)}),
        (mx.sym.transpose(x, axes=(0, 3, 2, 1)), {"x": (-1, 3, 224, 224)}),
        (mx.sym.pick(x, y, axis=1), {"x": (-1, 3, 3), "y": (-1, 3)}),
        (
            mx.sym.Embedding(data=x, weight=y, input_dim=100, output_dim=10),
            {"x": (-1, 5), "y": (100, 10)},
        ),
        (mx.sym.sin(x), {}),
    ]
    found = []
    for s, shapes in tried:
        outs = s.infer_shape_partial(**shapes)[1]
        found.append([None if o is None else list(o) for o in outs])
    return found
