"""Every form of a convolution and of pooling: derivatives of all kinds, vmap, dtypes, errors."""

from __future__ import annotations

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.test_util import check_grads

from mxjax.core.compile.compiler_options import default_options, keep_barriers
from mxjax.ops.lowering.convolution import convolution
from mxjax.ops.lowering.convolution_plan import PLAIN, Plan, choose
from mxjax.ops.lowering.pooling import avg_pool, lp_pool, max_pool, sum_pool

RNG = np.random.default_rng(3)
PLANS = [Plan("cols", "cols", "cols"), Plan("lax", "lax", "cols"), Plan("cols", "lax", "lax")]


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def normal(*shape, dtype="float64"):
    return jax.device_put(RNG.normal(size=shape).astype(jnp.dtype(dtype)))  # compiles nothing


def distinct(*shape):
    return jnp.asarray(RNG.permutation(int(np.prod(shape))).reshape(shape) / 7.0)


WINDOWS = [((3, 3), (1, 1), (1, 1), (1, 1)), ((3, 2), (2, 3), (1, 1), (0, 1)),
           ((2, 3), (1, 2), (2, 1), (1, 0)), ((1, 1), (2, 2), (1, 1), (0, 0))]  # fmt: skip


def some(rows, always):
    """Those numbered so are always run, the others with the slow tests: each is a program or two."""
    return [r if k in always else slowly(*r) for k, r in enumerate(rows)]


def slowly(*row):
    return pytest.param(*row, marks=pytest.mark.slow)


@pytest.mark.parametrize("plan", PLANS, ids="-".join)
@pytest.mark.parametrize("kernel,stride,dilate,pad", some(WINDOWS, {1, 2}))
def test_every_plan_equals_lax(plan, kernel, stride, dilate, pad):
    equals_lax(plan, (8, 9), 4, kernel, stride, dilate, pad)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NCW"])
def test_kernels_that_cover_their_image_are_one_product(layout):
    sizes = {"N": 2, "C": 3, "H": 4, "W": 5}
    x = normal(*(sizes[k] for k in layout))
    w, b = normal(*({**sizes, "N": 6}[k] for k in layout)), normal(6)

    def plain(x, w, b):
        return convolution(x, w, b, layout=layout, platform="gpu")

    def here(x, w, b):
        return convolution(x, w, b, layout=layout)

    weights = normal(*jax.eval_shape(plain, x, w, b).shape)
    for got, want in zip(
        jax.jit(jax.value_and_grad(lambda *a: (here(*a) * weights).sum(), (0, 1, 2)))(x, w, b),
        jax.jit(jax.value_and_grad(lambda *a: (plain(*a) * weights).sum(), (0, 1, 2)))(x, w, b),
        strict=True,
    ):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), got, want)
    assert "conv_general_dilated" not in str(jax.make_jaxpr(here)(x, w, b))
    shapes = [jax.eval_shape(fn, np.asarray(x)[:0], w, b).shape for fn in (here, plain)]
    assert shapes[0] == shapes[1]


def test_patches_that_lie_as_the_weight_does_equal_lax():
    # As many filters as there are pixels: then the patches change their order, not the weight.
    equals_lax(PLANS[0], (4, 5), 40, (3, 2), (2, 1), (1, 1), (1, 0))


@pytest.mark.parametrize(
    "size,kernel,pad",
    [((8, 9), (2, 3), (0, 0)), ((7, 8), (3, 2), (1, 2)), slowly((1, 1), (2, 2), (1, 1))],
)
def test_patches_side_by_side_are_the_image_in_another_order(size, kernel, pad):
    """As in transposed convolutions that double an image, and in the first layer of a network of patches."""
    shapes = (3, *size, 5), (4, *kernel, 5)
    assert choose("cpu", "float64", *shapes, kernel, (1, 1), pad) == PLANS[0]
    equals_lax(PLANS[0], size, 4, kernel, kernel, (1, 1), pad)
    x, w = normal(3, 5, *size), normal(4, 5, *kernel)
    out, pull = jax.vjp(partial(convolution, stride=kernel, pad=pad, plan=PLANS[0]), x, w)
    text = jax.jit(pull).lower(out).as_text()
    assert "gather" not in text and "convolution" not in text


def test_weight_gradients_in_pieces_equal_lax(monkeypatch):
    monkeypatch.setattr(
        "mxjax.ops.lowering.convolution_forms.PIECE_BYTES", 1
    )  # one image's patches at a time
    equals_lax(PLANS[1], (7, 9), 2, (3, 2), (2, 1), (1, 2), (1, 0))


@pytest.mark.parametrize("piece", [1, slowly(1 << 20)])
def test_weight_gradients_of_fewer_filters_than_channels_equal_lax(monkeypatch, piece):
    """Image and gradient change places: the narrower has fewer patches; row by row where pieces are small."""
    monkeypatch.setattr("mxjax.ops.lowering.convolution_forms.PIECE_BYTES", piece)
    monkeypatch.setattr("mxjax.ops.lowering.convolution_forms.WASTE", 1 << 20)
    equals_lax(PLANS[1], (7, 9), 2, (3, 2), (1, 1), (1, 2), (1, 0))
    x, w = (
        normal(1, 6, 5, 4),
        normal(2, 6, 3, 3),
    )  # patches of the gradient: 2 * 9 numbers a pixel, of the image 6 * 9
    text = (
        jax.jit(jax.grad(lambda w: (convolution(x, w, pad=(1, 1), plan=PLANS[1]) ** 2).sum()))
        .lower(w)
        .as_text()
    )
    widths = {int(n) for n in re.findall(r"dot_general.*-> tensor<\d+x(\d+)xf64>", text)}
    assert widths == {18}


@pytest.mark.parametrize("images", [slowly(1), 3, slowly(17)])
@pytest.mark.parametrize("kernel,stride,dilate,pad", some(WINDOWS, {1, 2}))
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_where_memory_is_short_pieces_equal_lax(
    monkeypatch, images, kernel, stride, dilate, pad, layout
):
    """The value by images, the weight's gradient by bands of an image."""
    for name in ("PIECE_BYTES", "LEAN_BYTES"):
        monkeypatch.setattr(f"mxjax.ops.lowering.convolution_forms.{name}", 1)
    x, w = normal(images, 3, 8, 9), normal(2, 3, *kernel)

    def loss(x, w):
        x, w = (a if layout == "NCHW" else jnp.moveaxis(a, 1, -1) for a in (x, w))
        how = {"stride": stride, "dilate": dilate, "pad": pad, "layout": layout, "plan": PLANS[0]}
        return jnp.sin(convolution(x, w, lean=True, **how)).sum()

    def lax_loss(x, w):
        return jnp.sin(
            lax.conv_general_dilated(x, w, stride, [(p, p) for p in pad], rhs_dilation=dilate)
        ).sum()

    found, expected = (jax.jit(jax.value_and_grad(f, (0, 1)))(x, w) for f in (loss, lax_loss))
    for got, want in zip(*map(jax.tree_util.tree_leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_weight_gradients_in_blocks_of_channels_equal_lax(monkeypatch, layout):
    monkeypatch.setattr("mxjax.ops.lowering.convolution_forms.LEAN_BYTES", 1 << 17)
    x, w, g = normal(2, 128, 5, 5), normal(16, 128, 3, 3), normal(2, 16, 5, 5)

    def gradient(w, **how):
        a, b, c = (t if layout == "NCHW" else jnp.moveaxis(t, 1, -1) for t in (x, w, g))
        return (convolution(a, b, pad=(1, 1), layout=layout, plan=PLANS[0], **how) * c).sum()

    expected = jax.grad(lambda w: (lax.conv_general_dilated(x, w, (1, 1), [(1, 1)] * 2) * g).sum())(
        w
    )
    lean = jax.grad(partial(gradient, lean=True))
    np.testing.assert_allclose(lean(w), expected, rtol=1e-11, atol=1e-11)
    # 450 KiB of patches: four blocks of 32 channels, one after the other, and no loop
    text = jax.jit(lean).lower(w).as_text()
    assert text.count("stablehlo.dot_general") >= 4 and "stablehlo.while" not in text


def test_a_weight_gradient_has_patches_of_a_part_of_one_image_where_memory_is_short():
    x, w = (jax.ShapeDtypeStruct(s, "float32") for s in [(2, 64, 64, 16), (16, 3, 3, 16)])

    def gradient(x, w, g):
        pull = jax.vjp(lambda w: convolution(x, w, pad=(1, 1), layout="NHWC", lean=True), w)[1]
        return pull(g)[0]

    step = jax.jit(gradient).lower(x, w, x).compile(default_options("cpu") | keep_barriers("cpu"))
    assert step.memory_analysis().temp_size_in_bytes <= 1 << 20  # of one image they are 2.25 MiB


@pytest.mark.parametrize(
    "channels,filters,layout", [(16, 16, "NCHW"), (5, 8, "NHWC"), slowly(1, 12, "NCHW")]
)
@pytest.mark.parametrize(
    "kernel,stride,pad",
    some(
        [
            ((3, 3), (1, 1), (1, 1)),
            ((2, 5), (1, 1), (0, 3)),
            ((3, 4), (2, 2), (1, 2)),
            ((1, 3), (1, 3), (0, 0)),
        ],
        {1, 2},
    ),
)
def test_filters_for_neighbouring_pixels_equal_lax(kernel, stride, pad, channels, filters, layout):
    """The image's gradient too, where its width allows it and the stride is one."""
    wide = 24 * stride[1] + kernel[1] - stride[1] - 2 * pad[1]  # 24 pixels across
    x, w = normal(2, channels, 5, wide), normal(filters, channels, *kernel)
    fits = any(wide % k == 0 and k * channels > 16 for k in range(2, 9))
    back = "abreast" if fits and stride == (1, 1) else "lax"
    plan = Plan("abreast", back, "cols")

    def loss(x, w):
        x, w = (a if layout == "NCHW" else jnp.moveaxis(a, 1, -1) for a in (x, w))
        return jnp.sin(convolution(x, w, stride=stride, pad=pad, layout=layout, plan=plan)).sum()

    def lax_loss(x, w):
        return jnp.sin(lax.conv_general_dilated(x, w, stride, [(p, p) for p in pad])).sum()

    def twice(f, x, w):
        return jax.grad(lambda *a: sum((g * g).sum() for g in jax.grad(f, (0, 1))(*a)), (0, 1))(
            x, w
        )

    def all_of(f):
        return jax.jit(lambda x, w: (f(x, w), jax.grad(f, (0, 1))(x, w), twice(f, x, w)))(x, w)

    found, expected = all_of(loss), all_of(lax_loss)
    for got, want in zip(*map(jax.tree_util.tree_leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10 * np.abs(want).max())


@pytest.mark.parametrize("version,cores,narrow", [("0.10.1", 2, "abreast"), ("0.10.2", 1, "abreast"),
                                                  ("0.10.2", 2, "lax"), ("0.12.0.1", 8, "abreast")])  # fmt: skip
def test_narrow_convolutions_give_neighbouring_pixels(monkeypatch, version, cores, narrow):
    monkeypatch.setattr("jaxlib.__version__", version)
    monkeypatch.setattr("mxjax.core.compile.compiler_options.cores", lambda: cores)

    def form(x, w, stride=(1, 1), dilate=(1, 1), pad=(1, 1), dtype="float32"):
        return choose("cpu", dtype, x, w, stride, dilate, pad)

    assert form((64, 32, 32, 16), (16, 3, 3, 16))[:2] == (narrow, narrow)
    assert form((64, 31, 32, 16), (16, 3, 3, 16), stride=(2, 2))[:2] == (narrow, "lax")
    assert form((64, 32, 32, 16), (16, 3, 3, 16), dtype="float64")[:2] == ("lax", "lax")
    assert form((64, 32, 32, 16), (16, 3, 3, 16), dilate=(2, 2), pad=(2, 2))[:2] == ("lax", "lax")
    assert form((64, 32, 32, 16), (17, 3, 3, 16))[:2] == ("lax", "lax")  # the library's own
    assert form((64, 31, 31, 16), (16, 3, 3, 16))[:2] == ("lax", "lax")  # a prime number of pixels
    assert form((64, 8, 8, 16), (16, 3, 3, 16))[:2] == ("lax", "lax")  # measured on 0.12: slower
    # Images that a kernel reaches only with more than its own width around them: no convolution turns that.
    assert form((64, 32, 32, 16), (16, 3, 3, 16), pad=(3, 3))[1] == "lax"


@pytest.mark.parametrize("cores,form", [(1, "cols"), (2, "lax")])
def test_weight_gradients_of_few_filters_have_patches_on_one_core(monkeypatch, cores, form):
    monkeypatch.setattr("mxjax.ops.lowering.convolution_plan.cores", lambda: cores)
    monkeypatch.setattr("mxjax.ops.lowering.measured.times", lambda *_: None)  # by the rules alone
    where = (1, 1), (1, 1), (1, 1)
    assert (
        choose("cpu", "float32", (4, 128, 128, 16), (16, 3, 3, 16), *where).weight_gradient == form
    )
    assert (
        choose("cpu", "float32", (4, 128, 128, 16), (32, 3, 3, 16), *where).weight_gradient == "lax"
    )


@pytest.mark.parametrize("images", [slowly(1), slowly(2), 5, slowly(17)])
@pytest.mark.parametrize("kernel,stride,dilate,pad", some(WINDOWS, {1, 2}))
def test_input_gradients_in_pieces_equal_lax(images, kernel, stride, dilate, pad):
    x, w = normal(images, 3, 8, 9), normal(4, 3, *kernel)

    def loss(x, w, **how):
        return jnp.sin(
            convolution(x, w, stride=stride, dilate=dilate, pad=pad, plan=PLANS[0], **how)
        ).sum()

    def lax_loss(x, w):
        return jnp.sin(
            lax.conv_general_dilated(x, w, stride, [(p, p) for p in pad], rhs_dilation=dilate)
        ).sum()

    lean = jax.jit(jax.grad(partial(loss, lean=True), (0, 1)))
    for got, expected in zip(lean(x, w), jax.jit(jax.grad(lax_loss, (0, 1)))(x, w), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)
    if images == 2:
        # Differences of gradients along a direction that depends on the tests before: 1.5e-5 off once.
        check_grads(
            lambda x: loss(x, w, lean=True), (x,), order=2, modes=["rev"], atol=1e-4, rtol=1e-4
        )


def test_pieces_are_few():
    """A prime number of images is no reason for as many copies of the product in the program."""
    x, w = (jax.ShapeDtypeStruct(s, "float32") for s in [(251, 3, 8, 8), (4, 3, 3, 3)])

    def loss(x, w):
        return (convolution(x, w, stride=(2, 2), pad=(1, 1), plan=PLANS[0], lean=True) ** 2).sum()

    text = jax.jit(jax.grad(loss)).lower(x, w).as_text()
    assert (
        2 + 2 <= text.count("stablehlo.dot_general") <= 8 + 8
    )  # of the value, and of the image's gradient


def test_columns_of_an_input_gradient_take_no_more_room_than_the_image():
    g = (
        8,
        128,
        4,
        4,
    )  # of 3 x 3 columns for each of its pixels: 4 times what the image has where the stride is 2
    x, w = (jax.ShapeDtypeStruct(s, "float32") for s in [(8, 64, 8, 8), (128, 64, 3, 3)])

    def temp(lean):
        def gradient(x, w, g):
            pull = jax.vjp(
                lambda x: convolution(x, w, stride=(2, 2), pad=(1, 1), plan=PLANS[0], lean=lean), x
            )[1]
            return pull(g)[0] * 2

        step = jax.jit(gradient).lower(x, w, jax.ShapeDtypeStruct(g, "float32"))
        return (
            step.compile(default_options("cpu") | keep_barriers("cpu"))
            .memory_analysis()
            .temp_size_in_bytes
        )

    image, columns = 8 * 64 * 64 * 4, 8 * 16 * 64 * 9 * 4
    assert temp(lean=True) <= temp(lean=False) - (columns - image)


@pytest.mark.parametrize("lean", [False, True])
def test_patches_wait_for_the_weight_gradient_unless_memory_is_short(lean):
    x, w = (jax.ShapeDtypeStruct(s, "float32") for s in [(8, 3, 64, 64), (16, 3, 7, 7)])

    def loss(w, x):
        return (convolution(x, w, stride=(2, 2), pad=(3, 3), lean=lean) ** 2).sum()

    options = default_options("cpu") | (keep_barriers("cpu") if lean else {})
    text = jax.jit(jax.value_and_grad(loss)).lower(w, x).compile(options).as_text()
    # One for both; or one for each image's value, and pieces for the gradient: the first, and in a loop the others.
    assert len(re.findall(" gather[(]", text)) == (8 + 2 if lean else 1)


def test_pieces_of_a_weight_gradient_are_added_to_the_first():
    """Zeros to add them to would be one array for all loops of a program, which waits from the first to the last."""
    x, w = (jax.ShapeDtypeStruct(s, "float32") for s in [(8, 32, 32, 32), (32, 32, 3, 3)])

    def loss(w, x):
        return (convolution(x, w, pad=(1, 1)) ** 2).sum()

    text = jax.jit(jax.grad(loss)).lower(w, x).compile().as_text()
    assert " while(" in text
    assert not re.search(r"f32\[32,288\]\S* broadcast\(", text)


def test_a_weight_gradient_never_has_all_patches_at_once():
    shapes = [(8, 32, 32, 32), (32, 32, 3, 3)]
    x, w = (jax.ShapeDtypeStruct(s, "float32") for s in shapes)
    assert (
        choose("cpu", "float32", (8, 32, 32, 32), (32, 3, 3, 32), (1, 1), (1, 1), (1, 1))
        == PLANS[1]
    )

    def gradient(x, w, g):
        return jax.vjp(lambda w: convolution(x, w, pad=(1, 1)), w)[1](g)[0]

    program = (
        jax.jit(gradient)
        .lower(x, w, x)
        .compile(compiler_options={"xla_backend_optimization_level": 0})
    )
    patches = 9 * 4 * np.prod(shapes[0])
    images = 4 * np.prod(shapes[0])
    # Both images in another order, one of them padded, and no more than 2 MiB of patches.
    assert program.memory_analysis().temp_size_in_bytes < 2.6 * images + (2 << 20) < patches


@pytest.mark.parametrize(("filters", "side"), [(256, 2), (8, 16)])
def test_weight_gradients_are_made_in_their_own_order(filters, side):
    """Where barriers hold they would else be carried through these in the order of a product."""
    w = jax.ShapeDtypeStruct((filters, 64, 3, 3), "float32")
    x = jax.ShapeDtypeStruct((2, 64, side, side), "float32")

    def gradients(x, *ws):
        def loss(ws):
            return sum((convolution(x * k, w, pad=(1, 1)) ** 2).sum() for k, w in enumerate(ws))

        return lax.optimization_barrier(jax.grad(loss)(ws))

    memory = []
    for count in (1, 6):
        options = {
            **default_options("cpu"),
            **keep_barriers("cpu"),
            "xla_backend_optimization_level": 0,
        }
        compiled = jax.jit(gradients).lower(x, *[w] * count).compile(compiler_options=options)
        memory.append(compiled.memory_analysis().temp_size_in_bytes)
    assert memory[1] - memory[0] < w.size * 4


@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 2)])
def test_winners_of_max_pooling_are_found_once(kernel, stride):
    """Their index is in memory; the loop that puts the gradient there does not search again."""
    x = jax.ShapeDtypeStruct((2, 9, 9, 4), "float32")

    def loss(x):
        return (max_pool(jnp.sin(x), kernel, stride, layout="NHWC") ** 2).sum()

    text = jax.jit(jax.grad(loss)).lower(x).compile().as_text()
    entry = text[text.index("\nENTRY") :]
    assert re.search(r"= s8\[2,4,4,4\]\S* fusion\(", entry)


def equals_lax(plan, size, filters, kernel, stride, dilate, pad):
    x, w, b = normal(2, 3, *size), normal(filters, 3, *kernel), normal(filters)
    how = {"stride": stride, "dilate": dilate, "pad": pad}

    def reference(x, w, b):
        out = lax.conv_general_dilated(
            x,
            w,
            stride,
            [(p, p) for p in pad],
            rhs_dilation=dilate,
            dimension_numbers=("NCHW", "OIHW", "NCHW"),
        )
        return out + b[:, None, None]

    def ours(x, w, b):
        return convolution(x, w, b, **how, plan=plan)

    head = normal(*jax.eval_shape(reference, x, w, b).shape)

    def second(f, x, w):
        inner = jax.grad(lambda x, w: (f(x, w, b) ** 3).sum(), (0, 1))
        return jax.grad(lambda x, w: sum(jnp.sin(g).sum() for g in inner(x, w)), (0, 1))(x, w)

    def derivatives(f, x, w, b):
        first = jax.vjp(f, x, w, b)[1](head)
        return f(x, w, b), first, jax.jvp(f, (x, w, b), (w.sum() * x, w, b))[1], second(f, x, w)

    # Two programs: eagerly each of a hundred primitives is one.
    found, wanted = (jax.jit(partial(derivatives, f))(x, w, b) for f in (ours, reference))
    for got, want, rtol, atol in zip(
        found, wanted, (1e-10, 1e-9, 1e-9, 1e-6), (0, 1e-9, 0, 1e-8), strict=True
    ):
        jax.tree.map(partial(np.testing.assert_allclose, rtol=rtol, atol=atol), got, want)

    def square(f, x, w):
        return jax.grad(lambda w: (f(x, w, b) ** 2).sum())(w)

    @jax.jit
    def mapped(x, w):
        values = jax.vmap(ours, (0, None, None))(jnp.stack([x, x * 2]), w, b)[1]
        return values, jax.vmap(partial(square, ours, x))(jnp.stack([w, w * 2]))[1]

    expected = jax.jit(lambda x, w: (reference(x * 2, w, b), square(reference, x, w * 2)))(x, w)
    for got, want in zip(mapped(x, w), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(
    "platform", ["cpu", *(pytest.param(p, marks=pytest.mark.slow) for p in ("gpu", "tpu"))]
)
def test_dtypes_stay(dtype, platform):
    x, w = normal(2, 3, 8, 8, dtype=dtype), normal(4, 3, 3, 3, dtype=dtype)
    bias = np.ones(4, jnp.dtype(dtype))

    def f(x, w, b):
        out = convolution(x, w, b, pad=(1, 1), platform=platform)
        out = max_pool(out, 2, 2, platform=platform) + avg_pool(out, 2, 2, platform=platform)
        return out

    @jax.jit
    def value_and_gradients(x, w, b):
        out, pull = jax.vjp(f, x, w, b)
        return out, pull(out)

    out, gradients = value_and_gradients(x, w, bias)
    assert out.dtype == dtype and all(g.dtype == dtype for g in gradients)


@pytest.mark.parametrize("layout", ["NCW", "NWC", "NCHW", "NHWC", "NCDHW", "NDHWC"])
def test_layouts_agree(layout):
    nd = len(layout) - 2
    x, w = normal(2, 4, *(5, 6, 7)[:nd]), normal(6, 2, *(3,) * nd)

    @jax.jit
    def first(x, w):
        return convolution(x, w, num_group=2, pad=(1,) * nd), max_pool(x, 3, 2, 1)

    @jax.jit
    def last(x, w):
        if layout[-1] == "C":
            x, w = jnp.moveaxis(x, 1, -1), jnp.moveaxis(w, 1, -1)
        found = convolution(x, w, num_group=2, pad=(1,) * nd, layout=layout)
        other = max_pool(x, 3, 2, 1, layout=layout)
        if layout[-1] == "C":
            found, other = jnp.moveaxis(found, -1, 1), jnp.moveaxis(other, -1, 1)
        return found, other

    (expected, pooled), (found, other) = first(x, w), last(x, w)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    np.testing.assert_array_equal(other, pooled)


def test_accelerators_and_short_floats_go_to_lax():
    shapes = (8, 28, 28, 1), (20, 5, 5, 1), (1, 1), (1, 1), (0, 0)
    assert choose("gpu", "float32", *shapes) == PLAIN == choose("tpu", "float32", *shapes)
    assert choose("cpu", "bfloat16", *shapes) == PLAIN
    assert choose("cpu", "float16", *shapes) == PLAIN
    assert choose("cpu", "float32", *shapes) == Plan("cols", "cols", "cols")
    first = (8, 224, 224, 3), (64, 7, 7, 3), (2, 2), (1, 1), (3, 3)
    assert choose("cpu", "float32", *first) == PLANS[1]
    large = (64, 64, 64, 64), (64, 5, 5, 64), (1, 1), (1, 1), (2, 2)
    assert choose("cpu", "float32", *large).weight_gradient == "lax"
    assert (
        choose("cpu", "float32", *large, lean=True).weight_gradient == "cols"
    )  # in pieces: nothing is turned


@pytest.mark.parametrize("pool", [max_pool, avg_pool, sum_pool, lp_pool])
@pytest.mark.parametrize(
    "nd,kernel,stride,pad,convention",
    some(
        [(1, 3, 1, 1, "valid"), (2, 2, 2, 0, "full"), (2, 3, 2, 1, "valid"), (3, 2, 3, 0, "full")],
        {1, 2},
    ),
)
def test_pooling_derivatives(pool, nd, kernel, stride, pad, convention):
    x = np.asarray(distinct(2, 2, *(7, 6, 5)[:nd])) + 0.1

    def f(x, **options):
        # A window of padding alone gives the lowest number there is, whose square is infinite.
        return jnp.maximum(pool(x, kernel, stride, pad, convention=convention, **options), -100.0)

    def once(x):
        return jax.grad(lambda x: (f(x) ** 3).sum())(x)

    values = jax.jit(lambda x: (f(x), f(x, platform="gpu"), jax.vmap(once)(jnp.stack([x, x * 2]))))
    found, plain, each = values(x)
    np.testing.assert_allclose(found, plain, rtol=1e-12)
    slopes_are_differences(lambda x: f(x) ** 2, x)
    np.testing.assert_allclose(each[1], slopes_are_differences(once, x, at=x * 2), rtol=1e-9)


def slopes_are_differences(fn, x, at=None):
    """Both directions of a derivative along a random tangent, against the difference quotient; the value at ``at``.

    As `jax.test_util.check_grads`, which makes a program of each of its own sums.
    """
    x, tangent = np.asarray(x), RNG.normal(size=x.shape)
    shape = jax.eval_shape(fn, x).shape
    head, step = RNG.normal(size=shape), 1e-6

    @jax.jit
    def slopes(x):
        out, pull = jax.vjp(fn, x)
        return out, jax.jvp(fn, (x,), (tangent,))[1], pull(head)[0]

    high, low = (np.asarray(slopes(x + s * tangent)[0]) for s in (step, -step))
    _, forward, backward = slopes(x)
    quotient = (high - low) / (2 * step)
    np.testing.assert_allclose(forward, quotient, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose((head * forward).sum(), (backward * tangent).sum(), rtol=1e-9)
    return slopes(x if at is None else np.asarray(at))[0]


def test_first_maximum_takes_the_gradient():
    def gradient(shape, *args, **options):
        fn = jax.jit(jax.grad(lambda x: max_pool(x, *args, **options).sum()))
        return np.asarray(fn(np.zeros(shape)))

    grad = gradient((1, 1, 2, 4), 2, 2)
    np.testing.assert_array_equal(grad[0, 0], [[1, 0, 1, 0], [0, 0, 0, 0]])
    grad = gradient((1, 1, 3, 4), 3, 1)
    np.testing.assert_array_equal(grad[0, 0, 0], [1, 1, 0, 0])
    grad = gradient((1, 1, 2, 2), global_pool=True)
    np.testing.assert_array_equal(grad[0, 0], [[1, 0], [0, 0]])


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "int64"])
def test_integers_pool(dtype):
    x = np.arange(16, dtype=dtype).reshape(1, 1, 4, 4)
    out = np.asarray(jax.jit(lambda x: max_pool(x, 3, 2, 1))(x))
    assert out.dtype == dtype
    np.testing.assert_array_equal(out[0, 0], [[5, 7], [13, 15]])


def test_empty_batches():
    x, w = jnp.zeros((0, 3, 8, 8)), jnp.zeros((4, 3, 3, 3))
    assert convolution(x, w).shape == (0, 4, 6, 6)
    assert max_pool(x, 2, 2).shape == (0, 3, 4, 4) == avg_pool(x, 2, 2).shape


@pytest.mark.parametrize(
    "call,words",
    [
        (lambda: convolution(jnp.ones((1, 3, 8, 8)), jnp.ones((4, 2, 3, 3))), "3 channels"),
        (lambda: convolution(jnp.ones((1, 3, 2, 2)), jnp.ones((4, 3, 3, 3))), "larger"),
        (lambda: convolution(jnp.ones((1, 3, 8, 8)), jnp.ones((4, 3, 3, 3)), layout="NWC"), "NCHW"),
        (lambda: convolution(jnp.ones((3, 8)), jnp.ones((4, 3))), "1 to 3"),
        (lambda: max_pool(jnp.ones((1, 3, 2, 2)), 3), "exceeds"),
        (lambda: max_pool(jnp.ones((1, 3, 4, 4)), 2, pad=2), "smaller"),
        (lambda: max_pool(jnp.ones((1, 3, 4, 4)), (2, 2, 2)), "2 values"),
        (lambda: max_pool(jnp.ones((1, 3, 4, 4)), 2, convention="ceil"), "valid, full, same"),
        (lambda: lp_pool(jnp.ones((1, 3, 4, 4)), 2, p_value=4), "1, 2 or 3"),
    ],
)
def test_errors_name_what_arrived(call, words):
    with pytest.raises(ValueError, match=words):
        call()
