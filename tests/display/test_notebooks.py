"""What notebooks show: tables, pictures of bytes, and text for the rest."""

import base64
import io
import re
from html.parser import HTMLParser

import numpy as onp
import pytest

import mxjax as mx
from mxjax import nd, np
from mxjax.display import notebooks
from mxjax.gluon import nn


class Cells(HTMLParser):
    """The rows of a table, and whether every element ends."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.open, self.below, self.images = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag == "img":
            self.images.append(dict(attrs)["src"])
            return
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data
        else:
            self.below.append(data)


def pixels(source):
    Image = pytest.importorskip("PIL.Image", reason="Pillow reads what is drawn")
    return onp.array(
        Image.open(io.BytesIO(base64.b64decode(source.removeprefix("data:image/png;base64,"))))
    )


@pytest.mark.parametrize("make", [np.array, nd.array])
def test_two_axes_are_a_table(make):
    shown = Cells(make([[1.5, -2.0], [float("nan"), 1e-7]])._repr_html_())
    assert shown.rows == [["", "0", "1"], ["0", "1.5", "-2"], ["1", "nan", "1e-07"]]
    assert re.fullmatch(r"(ndarray|NDArray) 2x2 float32 @cpu\(0\)", shown.below[0])


@pytest.mark.parametrize(
    "dtype, values",
    [("int64", ["9007199254740993", "-1"]), ("bool", ["True", "False"]), ("bfloat16", ["0.5", "3"])],
)  # fmt: skip
def test_numbers_of_every_dtype(dtype, values):
    given = [[{"True": True, "False": False}.get(v) if dtype == "bool" else float(v) if "." in v else int(v)
              for v in values]]  # fmt: skip
    assert Cells(np.array(given, dtype=dtype)._repr_html_()).rows[1] == ["0", *values]


def test_long_axes_show_their_ends():
    rows = Cells(np.arange(12 * 11).reshape(12, 11)._repr_html_()).rows
    assert rows[0] == ["", *"01234", "…", *"678", "9", "10"]
    assert [row[0] for row in rows[1:]] == [*"01234", "…", "7", "8", "9", "10", "11"]
    assert rows[1][-1] == "10" and rows[-1][-1] == "131" and set(rows[6]) == {"…"}


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4), (0, 3)])
def test_other_arrays_are_text(shape):
    assert np.ones(shape)._repr_html_() is None


@pytest.mark.parametrize("shape", [(9, 12), (9, 12, 1), (9, 12, 3), (9, 12, 4)])
def test_bytes_that_are_an_image_are_a_picture(shape):
    made = onp.random.default_rng(0).integers(0, 256, shape).astype("uint8")
    (image,) = Cells(np.array(made, dtype="uint8")._repr_html_()).images
    assert onp.array_equal(pixels(image).reshape(shape), made)


def test_a_batch_is_a_sheet_and_large_pictures_lose_pixels():
    made = onp.random.default_rng(0).integers(0, 256, (18, 8, 8, 3)).astype("uint8")
    shown = Cells(np.array(made, dtype="uint8")._repr_html_())
    assert len(shown.images) == 16 and shown.below[-1] == "and 2 more"
    assert onp.array_equal(pixels(shown.images[15]), made[15])
    large = onp.arange(1200 * 10, dtype="uint32").astype("uint8").reshape(1200, 10)
    assert onp.array_equal(
        pixels(Cells(nd.array(large, dtype="uint8")._repr_html_()).images[0]), large[::3, ::3]
    )


@pytest.mark.parametrize(
    "shape, dtype, is_one",
    [
        ((8, 8), "uint8", True), ((7, 8), "uint8", False), ((8, 8, 2), "uint8", False), ((3, 8, 8), "uint8", False),
        ((8, 8, 3), "float32", False), ((2, 8, 8, 3), "uint8", True), ((0, 8, 8, 3), "uint8", False),
        ((1, 2, 8, 8, 3), "uint8", False), ((8, 8), "int8", False),
    ],
)  # fmt: skip
def test_what_counts_as_a_picture(shape, dtype, is_one):
    assert notebooks.is_picture(shape, onp.dtype(dtype)) is is_one


def test_arrays_without_numbers_and_sparse_ones_are_text():
    import jax

    seen = []
    jax.eval_shape(
        lambda a: seen.append(np.array(a)._repr_html_()) or a,
        jax.ShapeDtypeStruct((2, 2), "float32"),
    )
    assert seen == [None]
    assert nd.ones((2, 2)).tostype("csr")._repr_html_() is None


def test_parameters_are_a_table():
    net = nn.HybridSequential()
    net.add(nn.Dense(4, in_units=3), nn.BatchNorm())
    shown = Cells(net.collect_params()._repr_html_())
    assert shown.rows[0] == ["parameter", "shape", "dtype", "numbers", "gradient", "on"]
    assert shown.rows[1] == ["0.weight", "4 x 3", "float32", "12", "write", "not initialized"]
    assert shown.rows[3][:4] == ["1.gamma", "?", "float32", ""]
    assert shown.below == ["16 numbers so far, 16 of them trained"]
    net.initialize()
    assert (
        Cells(net.collect_params()._repr_html_()).rows[3][-1] == "cpu(0) (once its shape is known)"
    )
    net(np.ones((2, 3)))
    shown = Cells(net.collect_params()._repr_html_())
    assert shown.rows[-1] == ["1.running_var", "4", "float32", "4", "null", "cpu(0)"]
    assert shown.below == ["32 numbers, 24 of them trained"]
    assert Cells(net[0].weight._repr_html_()).rows[1:] == [
        ["weight", "4 x 3", "float32", "12", "write", "cpu(0)"]
    ]


def test_symbols_are_their_nodes_or_a_drawing(monkeypatch):
    x = mx.sym.var("x")
    made = mx.sym.Activation(
        mx.sym.FullyConnected(x, num_hidden=3, name="f"), act_type="relu", name="a"
    )
    monkeypatch.setattr(mx.sym.Symbol, "_repr_svg_", lambda self: None)
    shown = made._repr_mimebundle_()
    assert shown["text/plain"] == "<Symbol a>"
    assert Cells(shown["text/html"]).rows == [
        ["node", "operator", "takes", "attributes"],
        ["x", "variable", "", ""],
        ["f_weight", "variable", "", ""],
        ["f_bias", "variable", "", ""],
        ["f", "FullyConnected", "x, f_weight, f_bias", "num_hidden=3"],
        ["a", "Activation", "f_output", "act_type=relu"],
    ]
    monkeypatch.setattr(mx.sym.Symbol, "_repr_svg_", lambda self: "<svg/>")
    assert made._repr_mimebundle_()["image/svg+xml"] == "<svg/>"


def test_settings_are_tables():
    rows = Cells(mx.config.describe()._repr_html_()).rows
    assert rows[0] == ["option", "value", "source", "meaning"] and len(rows) == 1 + len(
        mx.config.table()
    )
    with mx.config.scope(engine_bulk_nodes=7):
        rows = Cells(mx.config.explain("engine.bulk_nodes")._repr_html_()).rows
    assert rows[0][0] == "engine.bulk_nodes = 7" and ["variable", "MXJAX_ENGINE_BULK_NODES"] in rows


def test_plans_are_tables():
    net = nn.HybridSequential()
    for _ in range(3):
        net.add(nn.Dense(32, activation="tanh", in_units=32))
    net.initialize()
    blocks = mx.memonger.blocks(net, np.ones((64, 32)))
    rows = Cells(blocks._repr_html_()).rows
    assert len(rows) == 1 + len(blocks) and rows[0][:2] == ["block", "residuals"]
    assert [row.split()[0] for row in str(blocks).split("\n")[1:]] == [row[0] for row in rows[1:]]


def test_text_stays_text():
    shown = notebooks.table(["<i>"], [["a & b"]])
    assert Cells(shown).rows == [["<i>"], ["a & b"]] and "<i>" not in shown
