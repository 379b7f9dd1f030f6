"""Files of symbols: of every version, with unknown operators, and damaged ones."""

from __future__ import annotations

import copy
import json
import random
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax.errors import FormatError

FORMATS = Path(__file__).parents[1] / "data" / "formats"
MODELS = [p.read_text() for p in sorted(FORMATS.glob("*/*-symbol.json"))]
#: What a file may hold in the place of something else.
ODD = [
    None,
    True,
    -1,
    0,
    3,
    1 << 40,
    1e308,
    "",
    "null",
    "(",
    "(1, 2",
    "[[[",
    "nan",
    "-1",
    "9" * 50,
    "(0,)",
    "()",
    [],
    [[]],
    {},
    {"a": 1},
    [0, 0, 0],
    "Convolution",
    "RNN",
    "SliceChannel",
    "_npi_zeros",
    "x" * 5000,
    "(" * 3000,
    "\ud800",
    "__import__('os').system('true')",
    {"num_outputs": "100000000000"},
    {"shape": "(1000000000000,)"},
]


def places(found, path=()):
    """The paths of everything in a JSON value."""
    yield path
    items = (
        found.items()
        if isinstance(found, dict)
        else enumerate(found)
        if isinstance(found, list)
        else ()
    )
    for key, value in items:
        yield from places(value, (*path, key))


def mutated(text, rng):
    """A file with a few things changed, in its text or in what it says."""
    if rng.random() < 0.3:
        raw = list(text)
        for _ in range(rng.randint(1, 8)):
            at = rng.randrange(len(raw))
            raw[at : at + rng.randint(0, 20)] = rng.choice(
                ["", "0", '"', "{", "[", "9" * 30, "-", "\x00", ",", "é"]
            )
        return "".join(raw)
    found = json.loads(text)
    for _ in range(rng.randint(1, 4)):
        path = rng.choice([p for p in places(found) if p])
        owner = found
        for key in path[:-1]:
            owner = owner[key]
        if rng.random() < 0.2:
            del owner[path[-1]]
        else:
            owner[path[-1]] = copy.deepcopy(
                rng.choice(ODD)
            )  # what stands in two places may come to hold itself
        if not found:
            break
    return json.dumps(found)


def load_mutations(count, seed):
    rng = random.Random(seed)
    loaded = 0
    for _ in range(count):
        text = mutated(rng.choice(MODELS), rng)
        try:
            symbol = mx.sym.load_json(text)
        except FormatError:
            continue
        loaded += 1
        symbol.list_arguments(), symbol.list_outputs(), symbol.get_internals(), symbol.attr_dict()
        assert mx.sym.load_json(symbol.tojson()).list_inputs() == symbol.list_inputs()
    return loaded


def test_damaged_files_are_format_errors():
    assert 50 < load_mutations(500, seed=1) < 450


@pytest.mark.slow  # a minute: 20,000 files
def test_many_damaged_files_are_format_errors():
    load_mutations(20_000, seed=2)


def test_a_file_takes_no_more_memory_than_it_should():
    big = {
        "nodes": [{"op": "null", "name": f"n{k}", "inputs": []} for k in range(20_000)],
        "heads": [[0, 0, 0]],
    }
    text = json.dumps(big)
    tracemalloc.start()
    try:
        mx.sym.load_json(text)
        for hostile in ODD:
            with pytest.raises(FormatError):
                mx.sym.load_json(json.dumps({"nodes": hostile, "heads": [[0, 0, 0]]}))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * len(text) + (64 << 20)


def test_what_is_no_symbol():
    for text in (
        "",
        "{}",
        "[]",
        "3",
        '{"nodes": []}',
        "[" * 100_000,
        '{"nodes": [{"op": "null"}]}',
    ):
        with pytest.raises(FormatError):
            mx.sym.load_json(text)
    with pytest.raises(TypeError, match="to be string"):
        mx.sym.load_json(3)
    node = {"op": "FullyConnected", "name": "fc", "attrs": {"num_hidden": "2"}, "inputs": []}
    with pytest.raises(FormatError, match="node 0 .*'fc'.*no input for data"):
        mx.sym.load_json(json.dumps({"nodes": [node], "heads": [[0, 0, 0]]}))


def test_the_file_is_named(tmp_path):
    path = tmp_path / "x-symbol.json"
    path.write_text("{")
    with pytest.raises(FormatError, match="x-symbol.json"):
        mx.sym.load(path)
    with pytest.raises(FileNotFoundError):
        mx.sym.load(tmp_path / "other")


def test_an_unknown_operator_is_named_and_the_rest_can_be_used():
    data = {"op": "null", "name": "data", "inputs": []}
    relu = {"op": "Activation", "name": "act", "attrs": {"act_type": "relu"}, "inputs": [[0, 0, 0]]}
    odd = {"op": "SomethingOfOurs", "name": "odd", "attrs": {"depth": "3"}, "inputs": [[1, 0, 0]]}
    last = {"op": "elemwise_add", "name": "sum", "inputs": [[2, 0, 0], [2, 1, 0]]}
    net = mx.sym.load_json(json.dumps({"nodes": [data, relu, odd, last], "heads": [[3, 0, 0]]}))
    assert net.list_arguments() == ["data"] and net.attr_dict()["odd"] == {"depth": "3"}
    x = mx.nd.array([-1.0, 2.0])
    with pytest.raises(mx.MXNetError, match="node 'odd' uses operator 'SomethingOfOurs'"):
        net.eval(data=x)
    assert net.get_internals()["act_output"].eval(data=x)[0].asnumpy().tolist() == [0, 2]
    assert json.loads(net.tojson())["nodes"][2]["op"] == "SomethingOfOurs"


def test_both_dialects_of_attributes():
    def node(attrs):
        nodes = [
            {"op": "null", "name": "data", "inputs": []},
            {"op": "null", "name": "w", "inputs": []},
            {"op": "Convolution", "name": "c", "attrs": attrs, "inputs": [[0, 0, 0], [1, 0, 0]]},
        ]
        return mx.sym.load_json(json.dumps({"nodes": nodes, "heads": [[2, 0, 0]]}))

    one = node(
        {
            "kernel": "(3, 3)",
            "num_filter": "2",
            "no_bias": "True",
            "pad": "(1L, 1L)",
            "workspace": "1024",
        }
    )
    two = node(
        {
            "kernel": "[3,3]",
            "num_filter": "2",
            "no_bias": "1",
            "pad": "[1,1]",
            "cudnn_tune": "None",
            "layout": "None",
        }
    )
    for net in (one, two):
        assert net.infer_shape(data=(1, 3, 5, 5)) == (
            [(1, 3, 5, 5), (2, 3, 3, 3)],
            [(1, 2, 5, 5)],
            [],
        )


def test_a_file_of_before_auxiliary_states_were_written():
    nodes = [
        {"op": "null", "param": {}, "name": "data", "inputs": [], "backward_source_id": -1},
        {"op": "null", "param": {}, "name": "bn_gamma", "inputs": [], "backward_source_id": -1},
        {"op": "null", "param": {}, "name": "bn_beta", "inputs": [], "backward_source_id": -1},
        {
            "op": "BatchNorm",
            "param": {"eps": "0.001", "momentum": "0.9", "fix_gamma": "False"},
            "name": "bn",
            "attr": {"ctx_group": "dev1", "gamma_lr_mult": "0.1"},
            "inputs": [[0, 0], [1, 0], [2, 0]],
            "backward_source_id": -1,
        },
        {
            "op": "argmax",
            "param": {"axis": "-1"},
            "name": "best",
            "inputs": [[3, 0]],
            "backward_source_id": -1,
        },
    ]
    net = mx.sym.load_json(json.dumps({"nodes": nodes, "arg_nodes": [0, 1, 2], "heads": [[4, 0]]}))
    assert net.list_arguments() == ["data", "bn_gamma", "bn_beta"]
    assert net.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]
    assert (
        net.attr_dict()["bn"]["ctx_group"] == "dev1"
        and net.attr_dict()["bn_gamma"]["lr_mult"] == "0.1"
    )
    assert net.infer_shape(data=(2, 5))[1] == [(1,)]


def test_operators_by_the_names_of_old_files():
    x = np.array([[1.0, 4.0]], np.float32)
    for name, attrs, want in [
        ("_PlusScalar", {"scalar": "2"}, x + 2),
        ("_RMinusScalar", {"scalar": "2"}, 2 - x),
        ("_mul_scalar", {"scalar": "3"}, x * 3),
        ("_DivScalar", {"scalar": "2"}, x / 2),
        ("Flatten", {}, x),
        ("Reshape", {"target_shape": "(2, 1)"}, x.reshape(2, 1)),
        ("SwapAxis", {"dim1": "0", "dim2": "1"}, x.T),
        ("Cast", {"dtype": "float64"}, x),
    ]:
        nodes = [
            {"op": "null", "name": "x", "inputs": []},
            {"op": name, "name": "y", "attr": attrs, "inputs": [[0, 0, 0]]},
        ]
        net = mx.sym.load_json(json.dumps({"nodes": nodes, "heads": [[1, 0, 0]]}))
        np.testing.assert_allclose(net.eval(x=mx.nd.array(x))[0].asnumpy(), want)


def test_casts_of_mixed_precision_are_left_out():
    x = mx.sym.var("x")
    net = mx.sym.amp_cast(mx.sym.relu(mx.sym.amp_cast(x, dtype="float16")), dtype="float32")
    assert [n["op"] for n in json.loads(net.tojson())["nodes"]] == ["null", "relu"]
    assert [n["op"] for n in json.loads(net.tojson(remove_amp_cast=False))["nodes"]] == [
        "null",
        "amp_cast",
        "relu",
        "amp_cast",
    ]


# One call for each way in which a row's attributes are others than MXNet's; real MXNet 2.0.0b1 ran these files to the
# same numbers.
WORDS = {
    "split": lambda x: mx.sym.np.split(x, 2),
    "array_split": lambda x: mx.sym.np.array_split(x, 3),
    "hsplit": lambda x: mx.sym.np.hsplit(x, 2),
    "clip": lambda x: mx.sym.np.clip(x, None, 0.5),
    "zeros_like": lambda x: mx.sym.np.ones_like(x),
    "flipud": lambda x: mx.sym.np.flipud(x),
    "ravel": lambda x: mx.sym.np.ravel(x),
    "concatenate": lambda x: mx.sym.np.concatenate([x, x], axis=1),
    "swapaxes": lambda x: mx.sym.np.swapaxes(x, 0, 1),
    "where": lambda x: mx.sym.np.where(x > 0.3, 1.5, x),
    "tensordot": lambda x: mx.sym.np.tensordot(x, x, axes=([1], [1])),
    "argsort": lambda x: mx.sym.np.argsort(x, axis=0),
    "index": lambda x: x[1:, None, -1],
    "full": lambda x: x + mx.sym.np.full((4,), 3),
    "identity": lambda x: mx.sym.np.matmul(x, mx.sym.np.identity(4)),
}


@pytest.mark.parametrize("name", WORDS)
def test_rows_in_mxnets_words_and_back(name):
    x = mx.np.array(np.random.RandomState(4).rand(4, 4), dtype="float32")
    made = WORDS[name](mx.sym.var("x").as_np_ndarray())
    text = made.tojson()
    assert "_mxjax_" not in text
    want, got = made.eval(x=x), mx.sym.load_json(text).eval(x=x)
    assert [g.dtype for g in got] == [w.dtype for w in want]
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g.asnumpy(), w.asnumpy(), rtol=1e-6)


@pytest.mark.parametrize(
    "attribute, written",
    [("kernel", "Custom"), ("kernel", "(3, x)"), ("stride", "(0.5, 1)"), ("num_filter", "four"), ("num_group", "(a,)"),
     ("no_bias", "perhaps")],
)  # fmt: skip
def test_an_attribute_of_another_kind_is_refused_as_the_file_is_read(attribute, written):
    """MXNet: "Invalid Parameter format for kernel expect Shape(tuple) but value='Custom'"."""
    saved = json.loads(
        mx.sym.Convolution(mx.sym.var("x"), kernel=(3, 3), num_filter=4, name="conv").tojson()
    )
    node = next(each for each in saved["nodes"] if each["name"] == "conv")
    node["attrs"][attribute] = written
    with pytest.raises(
        FormatError, match=f"'conv', Convolution.*Invalid Parameter format for {attribute}"
    ):
        mx.sym.fromjson(json.dumps(saved))
