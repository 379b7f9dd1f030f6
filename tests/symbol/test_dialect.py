"""Operators of np in files: what MXNet 2.0.0b1 writes of them is read, and what is written here it reads."""

import json

import numpy as np
import pytest

import mxjax as mx

X = np.random.RandomState(4).normal(size=(3, 4)).astype("float32")
SQUARE = X @ X.T + np.eye(3, dtype="float32")


def a_file(operator, attrs, inputs=1, results=1, np_shape=True):
    """A file of one operator as MXNet exports it."""
    nodes = [{"op": "null", "name": f"x{k}", "inputs": []} for k in range(inputs)]
    takes = [[k, 0, 0] for k in range(inputs)]
    nodes.append({"op": operator, "name": "node", "attrs": attrs, "inputs": takes})
    said = {"mxnet_version": ["int", 20000], **({"is_np_shape": ["int", 1]} if np_shape else {})}
    return json.dumps(
        {
            "nodes": nodes,
            "arg_nodes": [*range(inputs)],
            "heads": [[inputs, k, 0] for k in range(results)],
            "attrs": said,
        }
    )


def norm(ord, axis, flag, keepdims="0"):
    return {"ord": ord, "axis": axis, "flag": flag, "keepdims": keepdims}


def percentile(q, axis="None", interpolation="linear"):
    return {"q_scalar": q, "axis": axis, "interpolation": interpolation, "keepdims": "0"}


def space(kind, start, stop, endpoint="1"):
    numbers = {f"{end}_{k}": "0" for end in ("start", "stop") for k in ("int", "uint", "double")}
    numbers.update({f"start_{kind}": start, f"stop_{kind}": stop})
    which = str(("int", "uint", "double").index(kind))
    return {"num": "4", "endpoint": endpoint, "dtype": "float32", "value_type": which, **numbers}


#: Operators with the attributes that MXNet 2.0.0b1 exports, their arrays, and what NumPy has.
READ = {
    "linspace": ("_npi_linspace", space("int", "-1", "3"), [], np.linspace(-1, 3, 4)),
    "linspace_open": (
        "_npi_linspace",
        space("double", "1", "2.5", "0"),
        [],
        np.linspace(1, 2.5, 4, endpoint=False),
    ),
    "identity": ("_npi_identity", {"shape": "[3,3]", "dtype": "float32"}, [], np.eye(3)),
    "full": (
        "_npi_full",
        {
            "shape": "[2,3]",
            "dtype": "float32",
            "value_type": "2",
            "double_value": "2.5",
            "int_value": "0",
            "uint_value": "0",
        },
        [],
        np.full((2, 3), 2.5),
    ),
    "around": ("_npi_around", {"decimal": "1"}, [X], np.around(X, 1)),
    "norm_all": ("_npi_norm", norm("2", "None", "-2"), [X], np.linalg.norm(X)),
    "norm_fro": (
        "_npi_norm",
        norm("2", "[0,1]", "1", "1"),
        [X],
        np.linalg.norm(X, "fro", (0, 1), True),
    ),
    "norm_nuc": ("_npi_norm", norm("2", "None", "2"), [X], np.linalg.norm(X, "nuc")),
    "norm_rows": ("_npi_norm", norm("2", "[1]", "1"), [X], np.linalg.norm(X, axis=1)),
    "norm_1": ("_npi_norm", norm("1", "[1]", "-1"), [X], np.linalg.norm(X, 1, axis=1)),
    "norm_2": ("_npi_norm", norm("2", "[0,1]", "0"), [X], np.linalg.norm(X, 2, axis=(0, 1))),
    "percentile": ("_npi_percentile", percentile("30"), [X], np.percentile(X, 30)),
    "percentile_low": (
        "_npi_percentile",
        percentile("30", "[1]", "lower"),
        [X],
        np.percentile(X, 30, axis=1, method="lower"),
    ),
    "median": ("_npi_percentile", percentile("50", "None", "midpoint"), [X], np.median(X)),
    "cholesky": ("_npi_cholesky", {"lower": "1"}, [SQUARE], np.linalg.cholesky(SQUARE)),
    "cholesky_upper": ("_npi_cholesky", {"lower": "0"}, [SQUARE], np.linalg.cholesky(SQUARE).T),
    "det": ("_linalg_det", {}, [SQUARE], np.linalg.det(SQUARE)),
    "atleast_3d": ("_npi_atleast_3d", {"num_args": "1"}, [X], np.atleast_3d(X)),
    "interp": (
        "_npi_interp",
        {"left": "None", "right": "None", "period": "None", "x_is_scalar": "0", "x_scalar": "0"},
        [np.arange(4.0), np.arange(4.0) * 2, X.astype("float64")],
        np.interp(X, np.arange(4.0), np.arange(4.0) * 2),
    ),
    "interp_number": (
        "_npi_interp",
        {"left": "None", "right": "None", "period": "None", "x_is_scalar": "1", "x_scalar": "1.25"},
        [np.arange(4.0), np.arange(4.0) * 2],
        2.5,
    ),
}


@pytest.mark.parametrize("name", READ)
def test_what_mxnet_writes(name):
    operator, attrs, arrays, want = READ[name]
    made = mx.sym.load_json(a_file(operator, attrs, len(arrays)))
    with mx.util.np_shape(True):
        got = made.eval(**{f"x{k}": mx.np.array(a, dtype=a.dtype) for k, a in enumerate(arrays)})[0]
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got.asnumpy(), want, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    "operator, results, want",
    [
        ("_npi_svd", 3, np.linalg.svd(X, full_matrices=False)[1]),
        ("_npi_eigh", 2, np.linalg.eigh(SQUARE)[0]),
        ("_linalg_slogdet", 2, np.linalg.slogdet(SQUARE)[1]),
    ],
)
def test_several_results(operator, results, want):
    made = mx.sym.load_json(a_file(operator, {}, 1, results))
    with mx.util.np_shape(True):
        given = X if operator == "_npi_svd" else SQUARE
        found = made.eval(x0=mx.np.array(given))
    got = found[0 if operator == "_npi_eigh" else 1]
    assert len(found) == results and got.shape == np.shape(want)
    np.testing.assert_allclose(got.asnumpy(), want, rtol=2e-5)


def test_a_determinant_has_an_axis_in_files_without_numpys_shapes():
    made = mx.sym.load_json(a_file("_linalg_det", {}, np_shape=False))
    assert made.eval(x0=mx.nd.array(SQUARE))[0].shape == (1,)


#: By the names and attributes without which MXNet 2.0.0b1 refuses what is written, or computes another thing.
WRITTEN = {
    "norm": (mx.sym.np.linalg.norm, {}, [("_npi_norm", {"flag": "-2", "ord": "2"})]),
    "norm_nuc": (mx.sym.np.linalg.norm, {"ord": "nuc"}, [("_npi_norm", {"flag": "2", "ord": "2"})]),
    "norm_rows": (
        mx.sym.np.linalg.norm,
        {"ord": 1, "axis": 1},
        [("_npi_norm", {"flag": "-1", "axis": "(1,)"})],
    ),
    "norm_inf": (
        mx.sym.np.linalg.norm,
        {"ord": np.inf, "axis": 1},
        [("_npi_absolute", {}), ("_npi_max", {"axis": "(1,)"})],
    ),
    "rot90": (mx.sym.np.rot90, {}, [("_npi_rot90", {"axes": "(0, 1)", "k": "1"})]),
    "flip": (mx.sym.np.flip, {}, [("_npi_flip", {"axis": "None"})]),
    "repeat": (
        mx.sym.np.repeat,
        {"repeats": 2, "axis": 1},
        [
            ("SwapAxis", {"dim2": "1"}),
            ("_npi_repeats", {"axis": "0", "repeats": "(2,)"}),
            ("SwapAxis", {"dim2": "1"}),
        ],
    ),
    "median": (
        mx.sym.np.median,
        {"axis": 1},
        [("_npi_percentile", {"q_scalar": "50", "axis": "(1,)", "interpolation": "midpoint"})],
    ),
    "percentile": (mx.sym.np.percentile, {"q": 30}, [("_npi_percentile", {"q_scalar": "30.0"})]),
    "quantile": (mx.sym.np.quantile, {"q": 0.25}, [("_npi_percentile", {"q_scalar": "25.0"})]),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_mxnet_reads(name):
    function, attrs, want = WRITTEN[name]
    given = dict(attrs)
    places = [given.pop(k) for k in ("q", "repeats") if k in given]
    text = function(mx.sym.var("x").as_np_ndarray(), *places, **given).tojson()
    nodes = [n for n in json.loads(text)["nodes"] if n["op"] != "null"]
    assert [n["op"] for n in nodes] == [operator for operator, _ in want]
    for node, (_, said) in zip(nodes, want, strict=True):
        assert said.items() <= node.get("attrs", {}).items()
    plain = getattr(np.linalg if "norm" in name else np, name.partition("_")[0])
    got = mx.sym.load_json(text).eval(x=mx.np.array(X))[0].asnumpy()
    np.testing.assert_allclose(got, plain(X, *places, **given), rtol=2e-5, atol=1e-6)


PRODUCTS = {
    "inner": lambda x: mx.sym.np.inner(x, x),
    "outer": lambda x: mx.sym.np.outer(x, x),
    "vdot": lambda x: mx.sym.np.vdot(x, x),
    "take": lambda x: mx.sym.np.take(x, mx.sym.np.argmax(x, axis=0)),
    "joined": lambda x: mx.sym.np.concatenate([x, x], axis=None),
    "append": lambda x: mx.sym.np.append(x, x, axis=1),
    "unbiased": lambda x: mx.sym.npx.fully_connected(x, x, x[:, 0], num_hidden=3),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_by_operators_that_mxnet_has(name):
    made = PRODUCTS[name](mx.sym.var("x").as_np_ndarray())
    text = made.tojson()
    assert "_mxjax_" not in text
    for node in json.loads(text)["nodes"]:
        if node["op"] == "Concat":
            assert node["attrs"]["num_args"] == "2"
        if node["op"] == "take":
            assert "num_args" not in node["attrs"] and node["attrs"]["axis"] != "None"
    x = mx.np.array(X)
    got, want = mx.sym.load_json(text).eval(x=x)[0], made.eval(x=x)[0]
    np.testing.assert_allclose(got.asnumpy(), want.asnumpy(), rtol=1e-6)
