"""Augmenters, and the iterators over pictures in files and records."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import mxjax as mx
from mxjax.errors import FormatError

DATA = Path(__file__).parents[1] / "data" / "recordio"
BOX = [2, 5, 1, 0.25, 0.25, 0.75, 0.75]  # header of 2, objects of 5 numbers, one of class 1


@pytest.fixture(autouse=True)
def seeded():
    random.seed(4)
    np.random.seed(4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("pictures")
    for n in range(7):
        Image.fromarray(np.full((20 + n, 24, 3), 10 * n, np.uint8)).save(path / f"{n}.png")
    with mx.recordio.MXIndexedRecordIO(path / "a.idx", path / "a.rec", "w") as writer:
        for n in range(7):
            writer.write_idx(
                n, mx.recordio.pack((0, float(n), n, 0), (path / f"{n}.png").read_bytes())
            )
    return path


def files(folder, label=lambda n: [n]):
    return [[*label(n), f"{n}.png"] for n in range(7)]


def values(batch):
    return (batch.data[0].asnumpy()[:, 0, 0, 0] / 10).tolist()


def test_augmenters_by_their_definitions():
    pixels = np.random.RandomState(0).rand(4, 5, 3).astype(np.float32) * 255
    gray = pixels @ np.array([0.299, 0.587, 0.114], np.float32)
    for kind, wanted in (
        (mx.image.BrightnessJitterAug, lambda a: pixels * a),
        (mx.image.ContrastJitterAug, lambda a: pixels * a + (1 - a) * gray.mean()),
        (mx.image.SaturationJitterAug, lambda a: pixels * a + (1 - a) * gray[..., None]),
    ):
        random.seed(9)
        factor = 1 + random.uniform(-0.4, 0.4)
        random.seed(9)
        found = kind(0.4)(mx.nd.array(pixels))
        np.testing.assert_allclose(found.asnumpy(), wanted(factor), rtol=1e-4, atol=1e-3)
    # In YIQ a turn leaves the first part alone: gray stays as it is.
    turned = mx.image.HueJitterAug(0.5)(pixels)
    np.testing.assert_allclose(turned @ np.array([0.299, 0.587, 0.114]), gray, atol=0.6)
    np.testing.assert_allclose(mx.image.HueJitterAug(0)(pixels), pixels, atol=1.0)
    flipped = mx.image.HorizontalFlipAug(1)(mx.nd.array(pixels)).asnumpy()
    np.testing.assert_array_equal(flipped, pixels[:, ::-1])
    grays = mx.image.RandomGrayAug(1)(pixels)
    np.testing.assert_allclose(grays[..., 2], pixels @ [0.21, 0.72, 0.07], rtol=1e-5)
    noisy = mx.image.LightingAug(0.1, np.ones(3), np.eye(3))(pixels) - pixels
    assert np.ptp(noisy[..., 0]) < 1e-3 and abs(noisy).max() > 1e-3


def test_augmenters_say_what_they_are():
    made = mx.image.CreateAugmenter(
        (3, 8, 9), resize=10, rand_crop=True, rand_resize=True, rand_mirror=True, mean=True, std=np.ones(3),
        brightness=0.1, hue=0.2, pca_noise=0.3, rand_gray=0.4,
    )  # fmt: skip
    names = [type(each).__name__.removesuffix("Aug") for each in made]
    expected = "Resize RandomSizedCrop HorizontalFlip Cast ColorJitter HueJitter Lighting RandomGray ColorNormalize"
    assert names == expected.split()
    assert json.loads(made[0].dumps()) == ["resizeaug", {"size": 10, "interp": 2}]
    assert made[4].dumps() == ["colorjitteraug", ['["brightnessjitteraug", {"brightness": 0.1}]']]
    assert mx.image.DetBorrowAug(made[0]).dumps() == ["detborrowaug", made[0].dumps()]
    out = mx.image.SequentialAug(made)(np.zeros((20, 30, 3), np.uint8))
    assert out.shape == (8, 9, 3) and out.dtype == np.float32
    with pytest.raises(AssertionError, match="rand_crop"):
        mx.image.CreateAugmenter((3, 8, 9), rand_resize=True)


@pytest.mark.parametrize(
    ("handle", "epochs"),
    [
        ("pad", [[[0, 1, 2], [3, 4, 5], [6, 0, 1]]] * 2),
        ("discard", [[[0, 1, 2], [3, 4, 5]]] * 2),
        (
            "roll_over",
            [[[0, 1, 2], [3, 4, 5]], [[6, 0, 1], [2, 3, 4]], [[5, 6, 0], [1, 2, 3], [4, 5, 6]]],
        ),
    ],
)
@pytest.mark.parametrize("source", ["imglist", "path_imglist", "record", "record with index"])
def test_last_batches(folder, tmp_path, handle, epochs, source):
    (tmp_path / "a.lst").write_text("".join(f"{n}\t{n}\t{n}.png\n" for n in range(7)))
    given = {
        "imglist": {"imglist": files(folder), "path_root": str(folder)},
        "path_imglist": {"path_imglist": str(tmp_path / "a.lst"), "path_root": str(folder)},
        "record": {"path_imgrec": str(folder / "a.rec")},
        "record with index": {
            "path_imgrec": str(folder / "a.rec"),
            "path_imgidx": str(folder / "a.idx"),
        },
    }[source]
    it = mx.image.ImageIter(3, (3, 8, 8), last_batch_handle=handle, **given)
    assert it.provide_data == [("data", (3, 3, 8, 8))] and it.provide_label == [
        ("softmax_label", (3,))
    ]
    for epoch in epochs:
        found = [(values(batch), batch.label[0].asnumpy().tolist()) for batch in it]
        assert found == [(each, each) for each in epoch]
        it.reset()


def test_parts_and_order(folder):
    record = {"path_imgrec": str(folder / "a.rec"), "path_imgidx": str(folder / "a.idx")}
    part = mx.image.ImageIter(3, (3, 8, 8), part_index=1, num_parts=2, **record)
    assert [values(batch) for batch in part] == [[3, 4, 5]]
    shuffled = mx.image.ImageIter(7, (3, 8, 8), shuffle=True, **record)
    orders = []
    for _ in range(2):
        shuffled.reset()
        orders.append(values(next(shuffled)))
    assert orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1]) == list(range(7))
    with pytest.raises(AssertionError, match="path_imgidx"):
        mx.image.ImageIter(3, (3, 8, 8), shuffle=True, path_imgrec=str(folder / "a.rec"))
    with pytest.raises(ValueError, match="channels"):
        mx.image.ImageIter(3, (1, 8, 8), **record)


def test_augmenters_of_the_user_get_arrays_of_mxjax(folder):
    class Half(mx.image.Augmenter):
        def __call__(self, src):
            assert isinstance(src, mx.nd.NDArray)
            return src / 2

    augmenters = [mx.image.ForceResizeAug((8, 8)), mx.image.CastAug(), Half()]
    it = mx.image.ImageIter(
        2, (3, 8, 8), imglist=files(folder), path_root=str(folder), aug_list=augmenters
    )
    assert values(next(it)) == [0, 0.5]


def test_a_broken_picture_is_named(folder, tmp_path):
    good = (folder / "3.png").read_bytes()
    (tmp_path / "good.png").write_bytes(good)
    (tmp_path / "bad.png").write_bytes(good[:-20])
    it = mx.image.ImageIter(
        1, (3, 8, 8), imglist=[[0, "good.png"], [0, "bad.png"]], path_root=str(tmp_path)
    )
    next(it)
    with pytest.raises(FormatError, match=r"bad\.png"):
        next(it)
    (tmp_path / "bad.lst").write_text("1\t2\tx.png\n1 2 x.png\n")
    with pytest.raises(FormatError, match="line 2"):
        mx.image.ImageIter(
            1, (3, 8, 8), path_imglist=str(tmp_path / "bad.lst"), path_root=str(tmp_path)
        )


def test_boxes_follow_the_picture():
    pixels = np.zeros((40, 40, 3), np.uint8)
    pixels[10:30, 10:30] = 255
    label = np.array([[1, 0.25, 0.25, 0.75, 0.75]])
    seen = set()
    for aug in (
        mx.image.DetRandomCropAug(0.9, (0.8, 1.2), (0.5, 0.9)),
        mx.image.DetRandomPadAug((0.8, 1.2), (1.5, 3.0)),
        mx.image.DetHorizontalFlipAug(1),
    ):
        for _ in range(8):
            out, (box,) = aug(pixels, label)
            seen.add(out.shape[:2])
            ys, xs = np.nonzero(out[..., 0] == 255)
            size = np.array([out.shape[1], out.shape[0]] * 2)
            np.testing.assert_allclose(
                box[1:] * size, [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1], atol=1e-6
            )
    assert len(seen) > 5
    assert label.tolist() == [[1, 0.25, 0.25, 0.75, 0.75]]


def test_image_det_iter(folder):
    def label(n):
        return BOX + [2, 0, 0, 0.5, 0.5] * (n == 3)

    it = mx.image.ImageDetIter(3, (3, 16, 16), imglist=files(folder, label), path_root=str(folder))
    assert it.label_shape == (2, 5)
    batches = [each.label[0].asnumpy() for each in it]
    assert batches[0][0].tolist() == [BOX[2:], [-1] * 5]
    assert batches[1][0].tolist() == [BOX[2:], [2, 0, 0, 0.5, 0.5]]
    other = mx.image.ImageDetIter(
        3, (3, 16, 16), imglist=files(folder, lambda n: BOX), path_root=str(folder)
    )
    assert it.sync_label_shape(other) is other
    assert other.provide_label == [("label", (3, 2, 5))]
    assert next(other).label[0].shape == (3, 2, 5)
    with pytest.raises(ValueError, match="reduce"):
        other.reshape(label_shape=(1, 5))
    with pytest.raises(FormatError, match=r"0\.png"):
        mx.image.ImageDetIter(
            3, (3, 16, 16), imglist=files(folder, lambda n: BOX[:-1]), path_root=str(folder)
        )
    varied = mx.image.ImageDetIter(
        3, (3, 16, 16), imglist=files(folder, label), path_root=str(folder), rand_crop=0.5, rand_pad=0.5, hue=0.1,
        rand_gray=0.1, rand_mirror=True, mean=True, std=True, brightness=0.1, contrast=0.1, saturation=0.1,
        pca_noise=0.1, inter_method=10,
    )  # fmt: skip
    for batch in varied:
        boxes = batch.label[0].asnumpy()
        assert (
            batch.data[0].shape == (3, 3, 16, 16)
            and ((boxes >= 0) & (boxes <= 2) | (boxes == -1)).all()
        )


def test_a_wrong_root_is_named(folder):
    it = mx.image.ImageIter(1, (3, 4, 4), imglist=[[1.0, "nowhere.png"]], path_root=str(folder))
    with pytest.raises(FileNotFoundError, match=r"no picture .*nowhere\.png: path_root, .* is "):
        it.next()


def test_pictures_without_boxes_are_told_from_those_with(folder):
    with pytest.raises(
        FormatError, match="Label shape is invalid.*ImageIter reads records of one label"
    ):
        mx.image.ImageDetIter(1, (3, 4, 4), imglist=files(folder), path_root=str(folder))
