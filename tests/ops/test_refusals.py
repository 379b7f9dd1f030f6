"""What operators refuse, in words that say what was expected, what arrived and what to do; MXNet's kinds of errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax.ops import TABLE
from mxjax.ops.deviations import DEVIATIONS


def ones(*shape):
    return mx.np.ones(shape)


X, N = (2, 3), (2, 3)
REFUSED = {
    "a text for an axis": (
        lambda: mx.np.mean(ones(2, 3), axis="a"),
        TypeError,
        r"axis='a': an integer, or a tuple of integers",
    ),
    "a text for an axis that sorts": (
        lambda: mx.np.sort(ones(2, 3), axis="a"),
        TypeError,
        "axis='a': an integer",
    ),
    "an axis too far": (
        lambda: mx.np.sum(ones(2, 3), axis=5),
        ValueError,
        "axis 5 Exceeds input dimensions: axes -2 ... 1",
    ),
    "an affine grid without its lengths": (
        lambda: mx.nd.GridGenerator(mx.nd.ones((1, 6)), transform_type="affine"),
        ValueError,
        r"needs its lengths, such as target_shape=\(3, 4\), got \(0, 0\)",
    ),
    "a spatial transformer without lengths": (
        lambda: mx.nd.SpatialTransformer(
            mx.nd.ones((1, 1, 2, 2)),
            mx.nd.ones((1, 6)),
            transform_type="affine",
            sampler_type="bilinear",
        ),
        mx.base.MXNetError,
        "needs its lengths",
    ),
    "a text for a shape": (
        lambda: mx.np.zeros("a"),
        TypeError,
        r"shape='a': an integer, or a tuple",
    ),
    "nothing for a shape": (
        lambda: mx.np.zeros(None),
        TypeError,
        "a shape is an integer or a tuple of integers, got None",
    ),
    "a negative length": (lambda: mx.np.ones((-1, 2)), ValueError, "no negative lengths"),
    "a table that is another's": (
        lambda: mx.npx.embedding(ones(2), ones(3, 4), input_dim=5, output_dim=4),
        mx.MXNetError,
        r"Provided = \[3, 4\], inferred shape=\[5, 4\]",
    ),
    "a text to reshape to": (
        lambda: ones(6).reshape("a"),
        TypeError,
        r"made of integers, as in reshape\(2, -1\); got \('a',\)",
    ),
    "a text to fill with": (
        lambda: mx.np.full((2,), "a"),
        TypeError,
        "fill_value is a number, got 'a'",
    ),
    "a text to count to": (
        lambda: mx.np.arange("a"),
        TypeError,
        "arange: stop is a number, got 'a'",
    ),
    "a step that leads nowhere": (lambda: mx.np.arange(0, 5, 0), ValueError, "step"),
    "nothing for an array": (
        lambda: mx.np.exp(None),
        TypeError,
        "an array is expected for 'x', got None",
    ),
    "a text for an array": (
        lambda: mx.np.exp("a"),
        TypeError,
        "an array of numbers is expected, got str",
    ),
    "no array": (lambda: mx.np.exp(), TypeError, "exp needs the array 'x'"),
    "a wrong keyword": (
        lambda: mx.nd.softmax(mx.nd.ones(X), axes=1),
        TypeError,
        "did you mean 'axis'",
    ),
    "a keyword of broadcast_maximum": (
        lambda: mx.nd.maximum(mx.nd.ones(N), mx.nd.ones(N), axis=1),
        TypeError,
        "keyword argument 'axis'",
    ),
    "shapes that do not meet": (lambda: ones(2, 3) + ones(4, 5), ValueError, r"\[2,3\] \[4,5\]"),
    "how often, negative": (
        lambda: mx.np.repeat(ones(3), -1),
        ValueError,
        "repeats is how often, got -1",
    ),
    "a letter that is none": (lambda: mx.np.einsum("i?", ones(2, 3)), ValueError, r"has \['\?'\]"),
    "gamma of another width": (
        lambda: mx.npx.layer_norm(ones(2, 3), ones(4), ones(4)),
        mx.MXNetError,
        r"Provided = \[4\], inferred shape=\[3\]: gamma of data \[2, 3\]",
    ),
    "moving means of another width": (
        lambda: mx.npx.batch_norm(ones(2, 3), *[ones(2)] * 4),
        mx.MXNetError,
        r"Provided = \[2\], inferred shape=\[3\]",
    ),
    "a vector for a weight": (
        lambda: mx.npx.embedding(mx.np.array([0]), ones(4), input_dim=4, output_dim=1),
        mx.MXNetError,
        r"Provided = \[4\]",
    ),
    "a negative depth": (lambda: mx.npx.one_hot(mx.np.array([0]), -1), mx.MXNetError, "depth"),
    "too many indices": (
        lambda: mx.npx.pick(ones(2, 3), mx.np.array([0, 1, 2])),
        mx.MXNetError,
        r"Provided = \[3\], inferred shape=\[2\]",
    ),
    "lengths for other samples": (
        lambda: mx.npx.sequence_mask(ones(2, 3), ones(2), use_sequence_length=True),
        mx.MXNetError,
        r"inferred shape=\[3\]: sequence_length",
    ),
    "labels without samples": (
        lambda: mx.npx.ctc_loss(ones(2, 3), ones(4, 5)),
        mx.MXNetError,
        r"3-D \(steps, samples, classes\)",
    ),
    "ends for more axes": (
        lambda: mx.nd.slice(mx.nd.ones(X), begin=(0,), end=(9, 9, 9)),
        mx.MXNetError,
        "a number for each of the first axes",
    ),
    "a number to shuffle": (lambda: mx.np.random.shuffle(3), TypeError, "use permutation"),
    "indices of floats": (
        lambda: mx.np.take_along_axis(ones(2, 3), ones(2, 1), 1),
        IndexError,
        "takes integers as indices, got float32",
    ),
    "an element that is not there": (
        lambda: mx.np.delete(ones(3), 7),
        mx.MXNetError,
        "index 7 is out of bounds",
    ),
    "a place that is not there": (
        lambda: mx.np.insert(ones(3), 7, 1),
        mx.MXNetError,
        "index 7 is out of bounds",
    ),
    "a reflection that is not there": (
        lambda: mx.np.pad(ones(2, 3), ((1, 1), (1, 1)), "reflect", reflect_type="odd"),
        ValueError,
        "unsupported reflect_type 'odd'",
    ),
    "another order of axes": (
        lambda: mx.np.unravel_index(mx.np.array([1], dtype="int64"), (2, 3), order="F"),
        NotImplementedError,
        "in the order 'C'",
    ),
    "lengths of log_softmax": (
        lambda: mx.npx.log_softmax(ones(2, 3), length=ones(2), use_length=True),
        mx.MXNetError,
        "takes no lengths",
    ),
    "a dtype that is none": (
        lambda: mx.np.ones((2,), dtype="floaty"),
        TypeError,
        "'floaty' not understood",
    ),
    "another version of the standard": (
        lambda: ones(2).__array_namespace__(api_version="2022.12"),
        ValueError,
        "2021.12",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refusals_teach(what):
    call, kind, text = REFUSED[what]
    with pytest.raises(kind, match=text) as caught:
        call()
    assert isinstance(caught.value, mx.MXNetError)


# ------------------------------------------------------------- refused as it runs, told once


@pytest.mark.parametrize(
    "draw",
    [
        lambda: mx.np.random.normal(0, -1, size=(2,)),
        lambda: mx.np.random.normal(0, mx.np.array([-1.0, -1.0])),
        lambda: mx.np.random.gamma(-1, 1, size=(2,)),
        lambda: mx.nd.random.normal(0, -1, shape=(2,)) * 2,
        lambda: mx.np.random.exponential(-1, size=(2,)),
    ],
    ids="number array gamma product exponential".split(),
)
def test_bad_parameters_are_told_to_the_first_reader_alone(draw, settled):
    """MXNet gives later readers memory that nobody wrote: here that is NaN."""
    x = draw()
    with pytest.raises(ValueError, match="-1"):
        x.asnumpy()
    assert x.shape == (2,) and np.isnan(x.asnumpy()).all()
    mx.waitall()


def test_waiting_for_all_tells_it_too(settled):
    x = mx.np.random.normal(0, -1, size=(2,))
    with pytest.raises(ValueError, match="scale"):
        mx.waitall()
    assert np.isnan((x + 1).asnumpy()).all()


# ------------------------------------------------------------------------- what changed kind


def test_squeezing_an_nd_array_leaves_an_axis():
    assert mx.nd.ones((1, 1)).squeeze().shape == (1,)
    assert mx.nd.squeeze(mx.nd.ones((1, 3, 1))).shape == (3,)
    assert ones(1, 1).squeeze().shape == ()


def test_rounding_through_infinities():
    x = mx.np.array([np.inf, -np.inf, 1.5, -0.4])
    np.testing.assert_array_equal(mx.npx.round_ste(x).asnumpy(), [np.inf, -np.inf, 2, 0])
    assert mx.npx.round_ste(x.astype("int32")[2:]).dtype == np.int32


def test_functions_that_numpy_runs_are_counted():
    before = mx.engine.stats()["numpy_fallbacks"]
    mx.np.histogram(ones(3))
    np.histogram(ones(3).asnumpy())
    assert mx.engine.stats()["numpy_fallbacks"] == before + 1
    np.mean(ones(3))  # has a row
    assert mx.engine.stats()["numpy_fallbacks"] == before + 1


# ------------------------------------------------------ more than 2 ** 31 elements, by their shapes


LARGE = jax.ShapeDtypeStruct((2**31 + 6,), "int8")


@pytest.mark.parametrize("name, attrs, dtype", [
    ("argmax", {}, "int64"), ("argmin", {}, "int64"), ("argsort", {}, "int64"), ("sum", {"dtype": "int64"}, "int64"),
    ("cumsum", {"dtype": "int64"}, "int64"), ("count_nonzero", {}, "int64"),
])  # fmt: skip
def test_places_beyond_32_bits_are_counted_in_64(name, attrs, dtype):
    with jax.enable_x64(True):
        assert jax.eval_shape(lambda x: TABLE[name].fn(x, **attrs), LARGE).dtype == dtype


def test_indices_beyond_32_bits_stay_64_bits_wide():
    at = jax.ShapeDtypeStruct((2,), "int64")
    with jax.enable_x64(True):
        text = str(
            jax.make_jaxpr(lambda x, i: TABLE["take"].fn(x, i, axis=0, mode="clip"))(LARGE, at)
        )
        made = jax.eval_shape(lambda x: jnp.concatenate([x, x]), LARGE)
    assert "i32" not in text.split("gather")[0].split("lambda")[-1]
    assert made.shape == (2**32 + 12,)


# ---------------------------------------------------------------------------- deviations


def test_deviations_are_sentences_about_rows():
    for sentence, rows, calls in DEVIATIONS:
        assert sentence.endswith(".") and rows.split() and calls.split()
        assert not [r for r in rows.split() if r not in TABLE]


# MXNet 1.9.1 and 2.0 refuse the same ones, as they run and as they infer shapes.
@pytest.mark.parametrize(
    ("operator", "data", "label", "options"),
    [
        ("SoftmaxOutput", (4, 5), (4, 1), {}),
        ("SoftmaxOutput", (4, 5), (2, 2), {}),
        ("SoftmaxOutput", (4, 5), (7,), {}),
        ("SoftmaxOutput", (4, 5, 3), (12,), {"multi_output": True}),
        ("SoftmaxOutput", (4, 5, 3), (2, 10), {"preserve_shape": True}),
        ("SVMOutput", (4, 5), (1,), {}),
        ("SVMOutput", (4, 5), (4, 1), {}),
        ("LinearRegressionOutput", (4, 5), (2, 10), {}),
        ("LogisticRegressionOutput", (4, 5), (20,), {}),
        ("MAERegressionOutput", (4, 1), (2, 2), {}),
    ],
)
def test_losses_refuse_labels_of_other_shapes(operator, data, label, options):
    run, made = getattr(mx.nd, operator), getattr(mx.sym, operator)
    with pytest.raises(mx.MXNetError, match="Shape inconsistent, Provided = "):
        run(mx.nd.ones(data), mx.nd.ones(label), **options)
    with pytest.raises(mx.MXNetError, match="Error in operator out"):
        made(mx.sym.var("data"), name="out", **options).infer_shape(data=data, out_label=label)


@pytest.mark.parametrize(
    ("operator", "data", "label", "options"),
    [
        ("SoftmaxOutput", (4, 5), (4, 5), {}),
        ("SoftmaxOutput", (4, 5, 3), (4, 1, 3), {"multi_output": True}),
        ("SoftmaxOutput", (4, 5, 3), (4, 3), {"multi_output": True}),
        ("SoftmaxOutput", (4, 5, 3), (4, 5), {"preserve_shape": True}),
        ("LinearRegressionOutput", (4, 1), (4,), {}),
        ("LinearRegressionOutput", (4, 5), (4, 5, 1), {}),
    ],
)
def test_losses_take_labels_of_these_shapes(operator, data, label, options):
    out = getattr(mx.nd, operator)(mx.nd.ones(data), mx.nd.zeros(label), **options)
    assert out.shape == data
