"""Transforms as blocks: shapes, dtypes, composition, datasets, labels passed through."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax.errors import MXNetTypeError, MXNetValueError
from mxjax.gluon import nn
from mxjax.gluon.data import ArrayDataset, DataLoader
from mxjax.gluon.data.vision import transforms as T

RECORDED = np.load(Path(__file__).parents[2] / "data" / "image_ops.npz")
IMAGE = RECORDED["u8"]


def image(dtype="uint8"):
    return mx.np.array(IMAGE.astype(dtype), dtype=dtype)


def recorded(name, **attributes):
    return RECORDED[f"{name}|{json.dumps(attributes)}"]


CASES = {
    "ToTensor": (T.ToTensor(), recorded("u8|to_tensor")),
    "Resize": (
        T.Resize((3, 4)),
        recorded("u8|resize", size=[3, 4], keep_ratio=False, interp=1),
    ),
    "Resize short side": (
        T.Resize(3, keep_ratio=True),
        recorded("u8|resize", size=3, keep_ratio=True, interp=1),
    ),
    "Resize bicubic": (
        T.Resize([14, 10], interpolation=2),
        recorded("u8|resize", size=[14, 10], keep_ratio=False, interp=2),
    ),
    "CropResize": (T.CropResize(1, 2, 3, 2), recorded("u8|crop", x=1, y=2, width=3, height=2)),
    "CenterCrop": (
        T.CenterCrop((3, 4)),
        recorded("u8|random_crop", xrange=[0.5] * 2, yrange=[0.5] * 2, width=3, height=4, interp=1),
    ),
    "CenterCrop enlarged": (
        T.CenterCrop(9),
        recorded("u8|random_crop", xrange=[0.5] * 2, yrange=[0.5] * 2, width=9, height=9, interp=1),
    ),
    "flip": (T.RandomFlipLeftRight(p=1), recorded("u8|flip_left_right")),
    "flip top": (T.RandomFlipTopBottom(p=1), recorded("u8|flip_top_bottom")),
    "no flip": (T.RandomFlipLeftRight(p=0), IMAGE),
    "Cast": (T.Cast("float16"), IMAGE.astype("float16")),
}


@pytest.mark.parametrize("hybridize", [False, True], ids=["imperative", "hybridized"])
@pytest.mark.parametrize("name", CASES)
def test_transforms_give_what_mxnet_gives(name, hybridize):
    transform, expected = CASES[name]
    transform.hybridize(hybridize)
    for _ in range(2):
        got = transform(image())
        assert np.dtype(got.dtype) == expected.dtype and got.shape == expected.shape
        difference = np.abs(got.asnumpy().astype("float64") - expected.astype("float64"))
        assert difference.max() <= (1 if expected.dtype == np.uint8 else 1e-6)


def test_normalize():
    tensor = mx.np.array(RECORDED["tensor"])
    got = T.Normalize((0.1, 0.2, 0.3), (1, 2, 3))(tensor)
    expected = recorded("tensor|normalize", mean=[0.1, 0.2, 0.3], std=[1, 2, 3])
    np.testing.assert_allclose(got.asnumpy(), expected, rtol=1e-6, atol=1e-7)


def test_compose_runs_in_order_and_joins_hybrid_neighbours():
    class Double(mx.gluon.Block):
        def forward(self, x):
            return x * 2

    transforms = [T.Resize(4), T.ToTensor(), Double(), T.Normalize(0.5, 0.25)]
    composed = T.Compose(transforms)
    assert len(transforms) == 4  # MXNet appends a None to the caller's list
    assert [type(block).__name__ for block in composed] == ["Neighbours", "Double", "Normalize"]
    assert repr(composed[0]).startswith("HybridSequential(\n")
    got = composed(image())
    want = image()
    for transform in transforms:
        want = transform(want)
    np.testing.assert_array_equal(got.asnumpy(), want.asnumpy())
    assert got.shape == (3, 4, 4)


def test_hybrid_compose_takes_hybrid_blocks_only():
    assert T.HybridCompose([T.Resize(4), T.ToTensor()])(image()).shape == (3, 4, 4)
    with pytest.raises(MXNetTypeError, match="got RandomApply; Compose takes any Block"):
        T.HybridCompose([T.RandomApply(T.ToTensor())])


def test_labels_pass_through():
    for label in (7, np.int32(7), "seven", mx.np.array(7)):
        for transform in (T.ToTensor(), T.Compose([T.Resize((7, 5)), T.ToTensor()])):
            x, same = transform(image(), label)
            assert x.shape == (3, 5, 7)
            assert same is label or int(same) == 7
    out = T.Cast("float32")(image(), mx.np.array([1], dtype="int32"))
    assert [np.dtype(part.dtype) for part in out] == [np.float32, np.float32]


def test_numpy_images_become_arrays():
    for transform in (T.ToTensor(), T.Compose([T.Resize((7, 5)), T.ToTensor()])):
        got = transform(IMAGE)
        assert isinstance(got, mx.np.ndarray)
        # A graph's first call is NumPy's.
        np.testing.assert_allclose(got.asnumpy(), transform(image()).asnumpy(), rtol=2e-7)


def test_random_crop_pads():
    transform = T.RandomCrop(5, pad=2, pad_value=9)
    found = [transform(image()).asnumpy() for _ in range(30)]
    padded = np.pad(IMAGE, ((2, 2), (2, 2), (0, 0)), constant_values=9)
    windows = {padded[y : y + 5, x : x + 5].tobytes(): (y, x) for y in range(5) for x in range(7)}
    places = [windows[out.tobytes()] for out in found]
    assert len(set(places)) > 8
    assert T.RandomCrop((4, 3), pad=(1, 1, 0, 0))(image()).shape == (3, 4, 3)
    with pytest.raises(MXNetValueError, match="top, bottom, left, right"):
        T.RandomCrop(3, pad=(1, 2))


RANDOM = [
    T.RandomCrop(3),
    T.RandomResizedCrop((4, 3), scale=0.2),
    T.RandomFlipLeftRight(),
    T.RandomFlipTopBottom(0.3),
    T.RandomBrightness(0.5),
    T.RandomContrast(0.5),
    T.RandomSaturation(0.9),
    T.RandomHue(0.3),
    T.RandomColorJitter(0.3, 0.3, 0.3, 0.3),
    T.RandomLighting(0.5),
    T.RandomGray(0.5),
]


@pytest.mark.parametrize("hybridize", [False, True], ids=["imperative", "hybridized"])
@pytest.mark.parametrize("transform", RANDOM, ids=lambda t: type(t).__name__)
def test_random_transforms_differ_from_call_to_call_and_follow_the_seed(transform, hybridize):
    transform.hybridize(hybridize)

    def run():
        return [transform(image("float32")).asnumpy() for _ in range(12)]

    mx.random.seed(3)
    first = run()
    mx.random.seed(3)
    second = run()
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(
            a, b, rtol=2e-6, atol=1e-4
        )  # of numbers up to 255; a graph's first call is NumPy's
    assert len({out.tobytes() for out in first}) > 1


def test_random_gray_is_gray():
    assert np.ptp(T.RandomGray(1.0)(image()).asnumpy(), axis=-1).max() < 1e-3
    np.testing.assert_array_equal(T.RandomGray(0.0)(image()).asnumpy(), IMAGE.astype("float32"))
    gray = T.RandomGray(1.0)(image()).asnumpy()[..., 0]
    np.testing.assert_allclose(gray, IMAGE @ [0.2989, 0.587, 0.114], rtol=1e-5)


@pytest.mark.parametrize("kind", [T.RandomApply, T.HybridRandomApply])
def test_random_apply(kind):
    transform = kind(T.RandomFlipLeftRight(p=1), p=0.5)
    found = {transform(image()).asnumpy().tobytes() for _ in range(30)}
    assert found == {IMAGE.tobytes(), IMAGE[:, ::-1].tobytes()}
    never, always = kind(T.Cast("uint8"), p=0.0), kind(T.RandomFlipLeftRight(p=1), p=1.0)
    np.testing.assert_array_equal(never(image()).asnumpy(), IMAGE)
    np.testing.assert_array_equal(always(image()).asnumpy(), IMAGE[:, ::-1])


def test_a_network_may_begin_with_transforms():
    net = nn.HybridSequential()
    net.add(T.ToTensor(), T.Normalize(0.5, 0.5), nn.Flatten(), nn.Dense(2))
    net.initialize()
    net.hybridize()
    batch = mx.np.array(np.stack([IMAGE, IMAGE[::-1]]), dtype="uint8")
    assert net(batch).shape == (2, 2)


AUGMENTED = T.Compose([T.RandomCrop(4), T.RandomFlipLeftRight(), T.ToTensor()])


@pytest.mark.parametrize(
    "way",
    [{}, {"num_workers": 2, "thread_pool": True}, {"num_workers": 1}],
    ids=["here", "threads", "processes"],
)
def test_augmentation_in_a_loader(way):
    dataset = ArrayDataset(
        mx.np.array(np.stack([IMAGE] * 6), dtype="uint8"), np.arange(6)
    ).transform_first(AUGMENTED)
    for data, label in DataLoader(dataset, 3, **way):
        assert data.shape == (3, 3, 4, 4) and np.dtype(data.dtype) == np.float32
        assert label.shape == (3,)
        assert data.asnumpy().max() <= 1
