"""Pictures in the host's memory: the same numbers as the operators', at once, without a program."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax.errors import MXNetError, MXNetValueError
from mxjax.gluon.data import ArrayDataset, DataLoader, SimpleDataset
from mxjax.gluon.data.vision import transforms as T
from mxjax.ops import TABLE, image
from mxjax.ops.draws import HostKey, bernoulli, normal, permutation, split, uniform

FACTORS = {"min_factor": 0.5, "max_factor": 1.5}
CASES = [
    ("to_tensor", {}),
    ("normalize", {"mean": (0.1, 0.2, 0.3), "std": 2.0}),
    ("normalize", {"mean": 0.5, "std": (1.0, 2.0, 3.0)}),
    ("crop", {"x": 1, "y": 0, "width": 2, "height": 1}),
    ("flip_left_right", {}),
    ("flip_top_bottom", {}),
    ("random_flip_left_right", {}),
    ("random_flip_top_bottom", {"p": 0.3}),
    *[("resize", {"size": (5, 3), "interp": interp}) for interp in range(5)],
    *[("resize", {"size": (13, 14), "interp": interp}) for interp in range(5)],
    ("resize", {"size": 4, "keep_ratio": True}),
    ("random_crop", {"width": 3, "height": 4}),
    ("random_crop", {"width": 20, "height": 9}),
    ("random_resized_crop", {"width": 5, "height": 4}),
    ("random_resized_crop", {"width": 9, "height": 9, "interp": 0}),
    ("random_resized_crop", {"width": 5, "height": 4, "area": (1.0, 1.0), "ratio": (1.0, 1.0)}),
    ("random_brightness", FACTORS),
    ("random_contrast", FACTORS),
    ("random_saturation", FACTORS),
    ("random_hue", FACTORS),
    ("random_color_jitter", {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.3}),
    ("random_color_jitter", {"hue": 0.2}),
    ("adjust_lighting", {"alpha": (0.1, -0.2, 0.3)}),
    ("random_lighting", {"alpha_std": 0.3}),
]
RECORDED = [  # operator, factor, sum of the result, its first two pixels
    ("saturation", 0.1, 150498, [29, 16, 23, 44, 32, 50]),
    ("saturation", 0.37, 332765, [72, 25, 51, 89, 42, 110]),
    ("saturation", 1.2, 871825, [203, 53, 137, 224, 74, 255]),
    ("contrast", 0.1, 762853, [132, 119, 126, 134, 121, 140]),
    ("contrast", 0.37, 761568, [144, 97, 123, 151, 105, 173]),
    ("contrast", 1.2, 758293, [180, 30, 114, 204, 54, 255]),
    ("brightness", 0.1, 73424, [17, 4, 11, 19, 6, 25]),
    ("brightness", 0.37, 278640, [63, 17, 43, 71, 24, 92]),
    ("brightness", 1.2, 885997, [206, 56, 140, 230, 80, 255]),
]
SIZES = [(1, 1, 3), (7, 9, 3), (6, 5, 1)]


def picture(height, width, channels=3, dtype="uint8"):
    return (
        np.random.RandomState(height + channels)
        .randint(0, 256, (height, width, channels))
        .astype(dtype)
    )


def on_host(name, data, attributes, seed):
    """A row's function of NumPy's array and key; an error stands for itself."""
    key = (HostKey((0, seed), 5),) if TABLE["image_" + name].keyed else ()
    try:
        with jax.enable_x64(True):
            return np.asarray(partial(getattr(image, name), **attributes)(*key, data))
    except Exception as error:
        return error


def by_operator(name, pictures, attributes, seeds):
    """What one program of JAX's gives, as operators are run; an error stands for itself."""

    def of(data, words):
        key = jax.random.fold_in(jax.random.wrap_key_data(words), 5)
        keys = (key,) if TABLE["image_" + name].keyed else ()
        return partial(getattr(image, name), **attributes)(*keys, data)

    words = [np.array([0, seed], np.uint32) for seed in seeds]
    refused = {}
    with jax.enable_x64(True):
        for k, (data, word) in enumerate(zip(pictures, words, strict=True)):
            try:
                jax.eval_shape(of, data, word)
            except Exception as error:
                refused[k] = error
        taken = [k for k in range(len(pictures)) if k not in refused]
        made = jax.jit(lambda xs, ws: [of(x, w) for x, w in zip(xs, ws, strict=True)])(
            [pictures[k] for k in taken], [words[k] for k in taken]
        )
    given = iter(made)
    return [refused[k] if k in refused else np.asarray(next(given)) for k in range(len(pictures))]


@pytest.mark.parametrize("name, attributes", CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_the_host_gives_the_numbers_of_the_operators(name, attributes):
    # Long programs; what they are made of meets a single pixel by itself.
    sizes = SIZES[1:] if name in ("random_color_jitter", "random_resized_crop") else SIZES
    pictures = [picture(*size, dtype) for dtype in ("uint8", "float32") for size in sizes]
    seeds = [size[1] for size in sizes] * 2
    if name == "normalize":
        pictures = [data.transpose(2, 0, 1) for data in pictures]
    results = by_operator(name, pictures, attributes, seeds)
    for data, seed, there in zip(pictures, seeds, results, strict=True):
        here = on_host(name, data, attributes, seed)
        if isinstance(there, Exception):
            assert type(here) is type(there) and str(here) == str(there)
            continue
        assert here.shape == there.shape and here.dtype == there.dtype
        if here.dtype == np.uint8:
            np.testing.assert_array_equal(here, there)
        else:  # hue divides by what other changes have made small
            rtol = 1e-4 if "hue" in attributes else 2e-6
            np.testing.assert_allclose(
                here, there, rtol=0, atol=rtol * max(1.0, np.abs(there).max())
            )


def test_changes_of_bytes_are_those_of_mxnet():
    # Recorded of MXNet 2.0.0b1: sums of the results, and their first pixels.
    data = np.random.RandomState(0).randint(0, 256, (40, 50, 3)).astype(np.uint8)
    for name, factor, total, first in RECORDED:
        made = mx.npx.image.__dict__["random_" + name](
            mx.np.array(data, dtype="uint8"), min_factor=factor, max_factor=factor
        ).asnumpy()
        assert (int(made.sum()), made[0, :2].ravel().tolist()) == (total, first), (name, factor)


def test_keys_of_the_host_draw_as_jax():
    for seed in range(3):
        with jax.enable_x64(True):
            there = jax.random.fold_in(jax.random.wrap_key_data(np.array([0, seed], np.uint32)), 7)
            here = HostKey((0, seed), 7)
            for mine, other in zip(split(here, 3), split(there, 3), strict=True):
                assert uniform(mine, 0.5, 2.0) == float(uniform(other, 0.5, 2.0))
                assert list(permutation(mine, 4)) == list(permutation(other, 4))
                np.testing.assert_allclose(normal(mine, 3), normal(other, 3), rtol=1e-5, atol=1e-6)
                many = jax.random.uniform(other, (5,), np.float32)
                assert [mine.uniform(n, 0, 1) for n in range(5)] == many.tolist()
                for p in (0.2, 0.5, 0.9):
                    assert bernoulli(mine, p) == bool(bernoulli(other, p))


def all_transforms():
    return [
        T.ToTensor(), T.Cast("float32"), T.Cast("float16"), T.Resize(6), T.Resize((5, 4), interpolation=2),
        T.CenterCrop(5), T.CropResize(1, 2, 3, 4, (5, 6)), T.RandomCrop(4),
        T.RandomCrop(8, pad=2, pad_value=3), T.RandomResizedCrop(5),
        T.RandomFlipLeftRight(), T.RandomFlipTopBottom(), T.RandomBrightness(0.3), T.RandomContrast(0.3),
        T.RandomSaturation(0.3), T.RandomHue(0.3), T.RandomColorJitter(0.2, 0.2, 0.2), T.RandomLighting(0.1),
        T.RandomGray(0.5), T.HybridRandomApply(T.RandomBrightness(0.3), 0.5), T.RandomApply(T.ToTensor(), 0.5),
        T.Compose([T.ToTensor(), T.Normalize([0.4, 0.5, 0.6], [0.2, 0.3, 0.4]), T.Rotate(30)]),
        T.Compose([T.ToTensor(), T.RandomRotation((-30.0, 30.0), zoom_out=True)]),
        T.HybridCompose([T.RandomCrop(5), T.Cast("float32"), T.RandomGray(0.3)]),
    ]  # fmt: skip


USUAL = [
    T.RandomResizedCrop(8),
    T.RandomFlipLeftRight(),
    T.RandomColorJitter(0.2, 0.2, 0.2),
    T.RandomLighting(0.1),
]
USUAL += [T.ToTensor(), T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]


class Ragged(SimpleDataset):
    """Pictures of many sizes, with labels."""

    def __init__(self):
        rng = np.random.RandomState(0)
        shapes = [(9 + n % 5, 8 + n % 7, 3) for n in range(24)]
        array = mx.np.array if mx.util.is_np_array() else mx.nd.array
        super().__init__(
            [(array(rng.randint(0, 256, s), dtype="uint8"), n) for n, s in enumerate(shapes)]
        )


def counted(run):
    """How many calls were recorded, segments run and programs compiled meanwhile."""
    before = mx.engine.stats()
    run()
    after = mx.engine.stats()
    return {
        name: after[name] - before[name]
        for name in ("operators", "segments", "programs", "interpreted", "traced")
    }


NOTHING = dict.fromkeys(("operators", "segments", "programs", "interpreted", "traced"), 0)


@pytest.mark.parametrize("hybridize", [False, True], ids=["imperative", "hybridized"])
def test_every_transform_gives_a_picture_at_once(hybridize):
    pictures = [mx.np.array(picture(9 + n, 11), dtype="uint8") for n in range(3)]
    for transform in all_transforms():
        if not isinstance(transform, T.RandomApply):
            transform.hybridize(hybridize)
        made = []
        for x in pictures:
            assert counted(lambda x=x, t=transform, made=made: made.append(t(x))) == NOTHING, (
                transform
            )
        assert counted(lambda made=made: [each.asnumpy() for each in made]) == NOTHING


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("of_np", [True, False], ids=["np", "nd"])
def test_a_loader_of_pictures_compiles_nothing(workers, of_np):
    def epoch():
        for x, y in DataLoader(data, batch_size=6, num_workers=workers, shuffle=True):
            assert (
                isinstance(x, mx.np.ndarray) == of_np
                and x.shape == (6, 3, 8, 8)
                and y.shape == (6,)
            )
            assert np.isfinite(x.asnumpy()).all()

    with mx.util.np_array(of_np):
        data = Ragged().transform_first(T.Compose(USUAL))
        data[0][0].asnumpy()
        assert counted(lambda: [epoch() for _ in range(2)]) == NOTHING


def test_seeds_repeat_and_pictures_follow_the_operators_stream():
    x = mx.np.array(picture(12, 10), dtype="uint8")
    for transform in all_transforms():
        if isinstance(transform, T.RandomApply) or "Rotation" in repr(transform):
            continue  # Python's and NumPy's generators decide there
        found = []
        for record in (False, False, True):
            mx.random.seed(11)
            transform.hybridize(False)
            with mx.autograd.record() if record else mx.autograd.pause():
                found.append([transform(x).asnumpy().astype("float32") for _ in range(4)])
        for here, again, recorded in zip(*found, strict=True):
            np.testing.assert_array_equal(here, again)
            np.testing.assert_allclose(
                here, recorded, rtol=1e-5, atol=1 if here.max() > 8 else 1e-5
            )


def test_batches_graphs_and_gradients_stay_operators():
    batch = mx.np.array(np.stack([picture(6, 5, 3, "float32")] * 2))
    assert counted(lambda: mx.npx.image.to_tensor(batch).asnumpy())["operators"] == 1
    x = mx.np.array(picture(6, 5, 3, "float32"))
    x.attach_grad()
    with mx.autograd.record():
        y = mx.npx.image.random_brightness(x, min_factor=2.0, max_factor=2.0)
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), np.full(x.shape, 2.0, "float32"))

    class Net(mx.gluon.HybridBlock):
        def forward(self, x):
            return mx.npx.image.normalize(mx.npx.image.to_tensor(x), mean=0.5, std=0.5) * 2

    net = Net()
    net.hybridize()
    want = (np.moveaxis(x.asnumpy(), -1, 0) / 255 - 0.5) / 0.5 * 2
    for _ in range(3):
        np.testing.assert_allclose(net(x).asnumpy(), want, rtol=1e-5, atol=1e-6)
    assert len(net._graphs) == 1


def test_results_are_arrays_like_others():
    x = mx.np.array(picture(6, 5), dtype="uint8")
    same = mx.npx.image.random_flip_left_right(x, p=0.0)
    x[:] = 0
    assert same.asnumpy().any(), "a picture that stays as it is shares no memory with the one given"
    part = mx.npx.image.crop(same, x=0, y=1, width=5, height=2)
    before = part.asnumpy()
    same[:] = 7
    np.testing.assert_array_equal(part.asnumpy(), before)
    wide = T.Cast("float64")(part)
    np.testing.assert_array_equal((wide * 2).asnumpy(), before.astype("float64") * 2)
    out = mx.np.zeros((3, 2, 5))
    assert mx.npx.image.to_tensor(part, out=out) is out
    np.testing.assert_allclose(
        out.asnumpy(), before.transpose(2, 0, 1) / np.float32(255), rtol=1e-6
    )
    legacy = mx.nd.image.to_tensor(part.as_nd_ndarray())
    assert type(legacy) is mx.nd.NDArray


@pytest.mark.parametrize(
    "name, attributes, words",
    [
        ("crop", {"x": 4, "y": 0, "width": 3, "height": 1}, "does not lie within"),
        ("resize", {"size": (0, 4)}, "must be positive"),
        ("resize", {"size": (3, 4), "interp": 9}, "interp must be"),
        ("normalize", {"mean": 0.5, "std": 1.0}, "npx.image.to_tensor makes one"),
        ("random_brightness", {"min_factor": 2.0, "max_factor": 1.0}, "min_factor"),
        ("random_lighting", {"alpha": 3}, "alpha"),
        ("crop", {"x": 1}, "required"),
    ],
)
def test_bad_calls_are_refused_as_operators_refuse_them(name, attributes, words):
    x = mx.np.array(picture(6, 5), dtype="uint8")
    said = []
    for record in (False, True):
        with mx.autograd.record() if record else mx.autograd.pause():
            with pytest.raises((MXNetError, MXNetValueError, TypeError), match=words) as error:
                getattr(mx.npx.image, name)(x, **attributes)
        said.append((type(error.value), str(error.value)))
    assert said[0] == said[1]


def test_functions_of_mx_image_compile_nothing():
    mx.config.set({"engine.cold": "auto"})
    x = mx.nd.array(picture(20, 24), dtype="uint8")
    augmenters = mx.image.CreateAugmenter(
        (3, 8, 8), resize=12, rand_crop=True, rand_resize=True, rand_mirror=True, mean=True, std=True, brightness=0.2,
        contrast=0.2, saturation=0.2, hue=0.1, pca_noise=0.1, rand_gray=0.3,
    )  # fmt: skip

    def run():
        for _ in range(4):
            made = x
            for each in augmenters:
                made = each(made)
            assert made.shape == (8, 8, 3) and np.isfinite(made.asnumpy()).all()
        for made in (
            mx.image.imresize(x, 7, 9), mx.image.resize_short(x, 9), mx.image.fixed_crop(x, 1, 2, 5, 6, (3, 4)),
            mx.image.random_crop(x, (5, 6))[0], mx.image.center_crop(x, (5, 6))[0],
            mx.image.random_size_crop(x, (5, 6), 0.3, (0.7, 1.3))[0],
            mx.image.color_normalize(x.astype("float32"), mx.nd.array([1.0, 2.0, 3.0]), mx.nd.array([2.0, 2.0, 2.0])),
        ):  # fmt: skip
            made.asnumpy()

    x.asnumpy()
    found = counted(run)
    assert found["programs"] == 0 and found["operators"] <= 1, found


def test_iterators_see_the_same_picture():
    data = ArrayDataset([mx.np.array(picture(9, 8), dtype="uint8")] * 4)
    made = [x.asnumpy() for x in DataLoader(data.transform(T.ToTensor()), batch_size=2)]
    np.testing.assert_allclose(
        made[0][0], picture(9, 8).transpose(2, 0, 1) / np.float32(255), rtol=1e-6
    )
