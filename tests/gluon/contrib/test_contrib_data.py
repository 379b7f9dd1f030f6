"""`gluon.contrib.data`: loaders of pictures with labels or boxes, and texts."""

from __future__ import annotations

import hashlib
import zipfile

import numpy as np
import pytest

import mxjax as mx
from mxjax import recordio
from mxjax.errors import FormatError, MXNetAssertionError, MXNetFileNotFoundError
from mxjax.files import codec
from mxjax.gluon import nn
from mxjax.gluon.contrib.data import text, vision


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Five pictures of 6 x 8 pixels: their pixels, and their folder."""
    folder = tmp_path_factory.mktemp("pictures")
    pixels = np.random.default_rng(0).integers(0, 256, (5, 6, 8, 3), np.uint8)
    for number, each in enumerate(pixels):
        (folder / f"{number}.png").write_bytes(codec.encode(each[..., ::-1], ".png"))
    return pixels, folder


def batches(loader):
    return [tuple(part.asnumpy() for part in batch) for batch in loader]


def test_pictures_and_labels_from_lists_and_records(pictures):
    pixels, folder = pictures
    expected = (pixels / 255).transpose(0, 3, 1, 2)
    expected = (expected - np.reshape([0.1, 0.2, 0.3], (3, 1, 1))) / np.reshape(
        [2, 3, 4], (3, 1, 1)
    )
    (folder / "a.lst").write_text("".join(f"{n}\t{n / 2}\t{n}.png\n" for n in range(5)))
    with recordio.MXIndexedRecordIO(folder / "a.idx", folder / "a.rec", "w") as writer:
        for n in range(5):
            writer.write_idx(n, recordio.pack((0, n / 2, n, 0), (folder / f"{n}.png").read_bytes()))
    sources = [
        {"path_imglist": "a.lst", "path_root": str(folder)},
        {"imglist": [[n / 2, f"{n}.png"] for n in range(5)], "path_root": str(folder)},
        {"path_imgrec": str(folder / "a.rec")},
    ]
    for source in sources:
        loader = vision.ImageDataLoader(
            2, (3, 6, 8), mean=[0.1, 0.2, 0.3], std=[2, 3, 4], last_batch="keep", **source
        )
        data, label = (np.concatenate(part) for part in zip(*batches(loader), strict=True))
        assert len(loader) == 3
        np.testing.assert_allclose(data, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(np.ravel(label), np.arange(5) / 2)
    part = vision.ImageDataLoader(
        2, (3, 6, 8), num_parts=2, part_index=1, aug_list=[nn.Identity()], **sources[2]
    )
    ((data, label),) = batches(part)
    np.testing.assert_array_equal(data, pixels[3:])


def test_boxes_become_pixels_and_are_filled(pictures):
    pixels, folder = pictures
    one, two = [3, 0.25, 0.5, 0.75, 1.0], [1, 0.0, 0.0, 0.5, 0.5]
    rows = [[2, 5, *one], [3, 5, 99, *one, *two]]
    listed = [[*row, f"{n}.png"] for n, row in enumerate(rows)]
    loader = vision.ImageBboxDataLoader(
        2, (3, 6, 8), imglist=listed, path_root=str(folder), inter_method=0
    )
    ((data, boxes),) = batches(loader)
    np.testing.assert_allclose(data, (pixels[:2] / 255).transpose(0, 3, 1, 2), rtol=1e-6)
    filled = [-1] * 5
    np.testing.assert_allclose(
        boxes, [[[2, 3, 6, 6, 3], filled], [[2, 3, 6, 6, 3], [0, 0, 4, 3, 1]]]
    )
    loader = vision.ImageBboxDataLoader(
        2, (3, 6, 8), imglist=listed, path_root=str(folder), coord_normalized=False, inter_method=0
    )
    np.testing.assert_allclose(batches(loader)[0][1][0], [[0.25, 0.5, 0.75, 1.0, 3], filled])


def test_every_augmentation_at_once(pictures):
    _, folder = pictures
    more = {
        "mean": True, "std": True, "brightness": 0.1, "contrast": 0.1, "saturation": 0.1, "hue": 0.1, "pca_noise": 0.1,
        "rand_gray": 0.5, "rand_mirror": True, "inter_method": 10, "path_root": str(folder),
    }  # fmt: skip
    image = vision.ImageDataLoader(
        1, (3, 4, 4), imglist=[[1, "0.png"]], resize=6, rand_crop=True, rand_resize=True, **more
    )
    box = vision.ImageBboxDataLoader(
        1, (3, 4, 4), imglist=[[2, 5, 0, 0, 0, 1, 1, "0.png"]], rand_crop=1, rand_pad=1, **more
    )
    for loader in (image, box):
        ((data, label),) = batches(loader)
        assert data.shape == (1, 3, 4, 4) and np.isfinite(data).all() and np.isfinite(label).all()


def test_wrong_arguments_and_labels():
    with pytest.raises(MXNetAssertionError, match="path_imgrec, path_imglist or imglist"):
        vision.ImageDataLoader(1, (3, 4, 4))
    with pytest.raises(MXNetAssertionError, match="int8 label not supported"):
        vision.ImageBboxDataLoader(1, (3, 4, 4), imglist=[], dtype="int8")
    with pytest.raises(MXNetAssertionError, match="rand_crop=True"):
        vision.create_image_augment((3, 4, 4), rand_resize=True)
    boxes = vision.dataloader.BboxLabelTransform()
    for row in (
        [],
        [2, 4, 0, 0, 0, 0],
        [2, 5, 1, 0, 0, 1],
        [2, 5, 1, 0, 0, 1, 1, 9],
        [-3, 5, 1, 0, 0, 1, 1],
    ):
        with pytest.raises(FormatError, match="a label is"):
            boxes(mx.np.zeros((2, 2, 3)), mx.np.array(row))


@pytest.fixture
def words(tmp_path, monkeypatch):
    content = b" \n = Title = \n \n a b <unk> a \n c \n"
    folder = tmp_path / "repository" / "gluon" / "dataset" / "wikitext-2"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "wikitext-2-v1.zip", "w") as archive:
        archive.writestr("wikitext-2/wiki.valid.tokens", content)
    monkeypatch.setattr(
        text.WikiText2,
        "_files",
        {"validation": ("wiki.valid.tokens", hashlib.sha1(content).hexdigest())},
    )
    packed = hashlib.sha1((folder / "wikitext-2-v1.zip").read_bytes()).hexdigest()
    monkeypatch.setattr(text.WikiText2, "_archive", ("wikitext-2-v1.zip", packed))
    with mx.config.scope(
        data_repo=f"file://{tmp_path}/repository", data_home=str(tmp_path / "home")
    ):
        yield tmp_path


def test_texts_are_rows_of_words(words):
    found = text.WikiText2(segment="validation", seq_len=4)
    stream = "= Title = <eos> a b <unk> a <eos> c <eos>".split()
    assert len(found) == 2 and found.frequencies["a"] == 2
    for row in range(2):
        data, label = found[row]
        assert found.vocabulary.to_tokens(data.asnumpy().tolist()) == stream[4 * row : 4 * row + 4]
        assert (
            found.vocabulary.to_tokens(label.asnumpy().tolist())
            == stream[4 * row + 1 : 4 * row + 5]
        )
    again = text.WikiText2(
        segment="validation", seq_len=10, vocab=mx.contrib.text.vocab.Vocabulary()
    )
    assert again[0][0].asnumpy().tolist() == [0] * 10
    assert len(mx.gluon.data.DataLoader(found, 2, num_workers=0)) == 1
    with pytest.raises(FormatError, match="not enough"):
        text.WikiText2(segment="validation", seq_len=11)


def test_texts_that_are_absent_say_what_to_do(words):
    (words / "repository" / "gluon" / "dataset" / "wikitext-2" / "wikitext-2-v1.zip").unlink()
    with pytest.raises(MXNetFileNotFoundError, match="wiki.valid.tokens.*MXNET_HOME"):
        text.WikiText2(segment="validation")
