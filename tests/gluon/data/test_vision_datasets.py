"""MNIST, CIFAR and folders of images, from small files of the real formats."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile

import numpy as np
import pytest

import mxjax as mx
from mxjax.errors import MXNetFileNotFoundError, MXNetTypeError, MXNetValueError
from mxjax.gluon.data import DataLoader
from mxjax.gluon.data.vision import (
    CIFAR10,
    CIFAR100,
    MNIST,
    FashionMNIST,
    ImageFolderDataset,
    ImageListDataset,
)

IMAGES = np.random.RandomState(0).randint(0, 256, (7, 28, 28)).astype("uint8")
LABELS = np.arange(7, dtype="uint8") % 10
NOWHERE = "file:///nowhere/at/all"


def idx(array):
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def write(folder, start="train", images=None, labels=None, pack=gzip.compress, suffix=".gz"):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (
        (f"{start}-images-idx3-ubyte", idx(IMAGES) if images is None else images),
        (f"{start}-labels-idx1-ubyte", idx(LABELS) if labels is None else labels),
    ):
        (folder / (name + suffix)).write_bytes(pack(content))


def check(dataset):
    assert len(dataset) == 7
    image, label = dataset[3]
    assert isinstance(image, mx.np.ndarray)
    assert image.shape == (28, 28, 1) and np.dtype(image.dtype) == np.uint8
    np.testing.assert_array_equal(image.asnumpy()[:, :, 0], IMAGES[3])
    assert np.dtype(label.dtype) == np.int32 and int(label) == 3


@pytest.mark.parametrize("start, train", [("train", True), ("t10k", False)])
@pytest.mark.parametrize("pack, suffix", [(gzip.compress, ".gz"), (bytes, "")])
def test_mnist_reads_packed_and_unpacked_files(tmp_path, start, train, pack, suffix):
    write(tmp_path, start, pack=pack, suffix=suffix)
    check(MNIST(root=str(tmp_path), train=train))


def test_labels_are_numbers_where_arrays_are_those_of_nd(tmp_path):
    write(tmp_path)
    mx.npx.reset_np()
    dataset = MNIST(root=str(tmp_path))
    image, label = dataset[3]
    assert isinstance(image, mx.nd.NDArray) and type(label) is np.int32
    for try_nopython in (False, True):
        images, labels = next(iter(mx.gluon.data.DataLoader(dataset, 4, try_nopython=try_nopython)))
        assert images.shape == (4, 28, 28, 1) and labels.shape == (4,)


@pytest.mark.observes
def test_mnist_is_found_under_the_data_home(tmp_path):
    write(tmp_path / "datasets" / "mnist")
    write(tmp_path / "datasets" / "fashion-mnist")
    with mx.config.scope(data_home=str(tmp_path)):
        check(MNIST())
        check(FashionMNIST(train=True))


def test_the_other_name_of_unpacked_files(tmp_path):
    write(tmp_path, pack=bytes, suffix="")
    for path in list(tmp_path.iterdir()):
        path.rename(path.with_name(path.name.replace("-idx", ".idx")))
    check(MNIST(root=str(tmp_path)))


def test_absent_files_are_named_with_the_ways_to_get_them(tmp_path):
    with mx.config.scope(data_repo=NOWHERE):
        with pytest.raises(MXNetFileNotFoundError) as caught:
            MNIST(root=str(tmp_path))
    text = str(caught.value)
    for word in (
        "train-images-idx3-ubyte.gz",
        "train-labels-idx1-ubyte.gz",
        str(tmp_path),
        "MXNET_HOME",
        "MXNET_GLUON_REPO",
        f"{NOWHERE}/gluon/dataset/mnist/train-images-idx3-ubyte.gz",
    ):
        assert word in text
    assert isinstance(caught.value, FileNotFoundError)
    assert list(tmp_path.iterdir()) == []  # nothing half done


@pytest.mark.observes
def test_files_come_from_a_repository_that_can_be_reached(tmp_path, monkeypatch):
    import hashlib

    repository, home = tmp_path / "repository", tmp_path / "home"
    folder = repository / "gluon" / "dataset" / "mnist"
    write(folder)
    hashes = {
        path.name.removesuffix(".gz"): hashlib.sha1(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
    }
    monkeypatch.setattr(MNIST, "_files", hashes)
    with mx.config.scope(data_repo=repository.as_uri()):
        check(MNIST(root=str(home)))
    with mx.config.scope(data_repo=NOWHERE):
        check(MNIST(root=str(home)))  # they stay


def test_a_file_of_the_repository_must_have_its_hash(tmp_path):
    folder = tmp_path / "repository" / "gluon" / "dataset" / "mnist"
    write(folder)  # ours, not the real ones
    with mx.config.scope(data_repo=(tmp_path / "repository").as_uri()):
        with pytest.raises(MXNetFileNotFoundError, match="SHA-1 is not 6c95f4b05d"):
            MNIST(root=str(tmp_path / "home"))


GOOD = idx(IMAGES)


@pytest.mark.parametrize("pack, suffix", [(gzip.compress, ".gz"), (bytes, "")])
@pytest.mark.parametrize(
    "images, words",
    [
        (b"", "no idx file"),
        (b"\0\0\x08", "no idx file"),
        (b"\0\0\x0d\x03" + GOOD[4:], "begins with 00 00 0d 03 instead of 00 00 08 03"),
        (idx(LABELS) + b"\0" * 20, "begins with 00 00 08 01"),
        (GOOD[:-1], "is damaged|is cut off"),
        (GOOD + b"\0", "goes on after 5488"),
        (struct.pack(">HBBIII", 0, 8, 3, 2**31, 2**31, 2**31) + bytes(100), "cut off.*promises"),
        (idx(IMAGES[:, :14]), "14 x 28 pixels"),
        (idx(IMAGES[:5]), "5 images, but .* 7 labels"),
    ],
)
def test_damaged_files(tmp_path, images, words, pack, suffix):
    write(tmp_path, images=images, pack=pack, suffix=suffix)
    with pytest.raises(MXNetValueError, match=words):
        MNIST(root=str(tmp_path))


def test_gzip_that_ends_early_or_lies(tmp_path):
    write(tmp_path, pack=lambda content: gzip.compress(content)[:-20])
    with pytest.raises(MXNetValueError, match="damaged .*not downloaded completely"):
        MNIST(root=str(tmp_path))
    # plausible for the packed size, so it is read, but never more than was promised
    promise = struct.pack(">HBBIII", 0, 8, 3, 500, 28, 28)
    write(tmp_path, images=promise + bytes(400_000))
    with pytest.raises(MXNetValueError, match="goes on after 392000|7 labels"):
        MNIST(root=str(tmp_path))


def test_a_transform_argument_points_to_the_methods():
    with pytest.raises(MXNetTypeError, match="dataset.transform_first"):
        MNIST(transform=lambda image, label: (image, label))


@pytest.mark.parametrize(
    "arguments",
    [{}, {"num_workers": 2}, {"num_workers": 1, "try_nopython": False}, {"try_nopython": False}],
)
def test_mnist_in_a_loader(tmp_path, arguments):
    write(tmp_path)
    seen = 0
    for data, label in DataLoader(MNIST(root=str(tmp_path)), 3, **arguments):
        np.testing.assert_array_equal(data.asnumpy()[..., 0], IMAGES[seen : seen + 3])
        np.testing.assert_array_equal(label.asnumpy(), LABELS[seen : seen + 3])
        assert np.dtype(data.dtype) == np.uint8 and np.dtype(label.dtype) == np.int32
        seen += len(data)
    assert seen == 7


def cifar_records(count, label_bytes, seed):
    rng = np.random.RandomState(seed)
    rows = rng.randint(0, 256, (count, label_bytes + 3072)).astype("uint8")
    rows[:, :label_bytes] %= 10
    return rows


def check_cifar(dataset, rows, label_bytes, label_at):
    assert len(dataset) == len(rows)
    image, label = dataset[2]
    assert image.shape == (32, 32, 3) and np.dtype(image.dtype) == np.uint8
    expected = rows[2, label_bytes:].reshape(3, 32, 32).transpose(1, 2, 0)
    np.testing.assert_array_equal(image.asnumpy(), expected)
    assert int(label) == rows[2, label_at] and np.dtype(label.dtype) == np.int32


def test_cifar10_from_files_and_from_its_archive(tmp_path):
    train = [cifar_records(2, 1, number) for number in range(5)]
    test = cifar_records(3, 1, 9)
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as tar:
        for name, rows in [
            *((f"data_batch_{number + 1}.bin", rows) for number, rows in enumerate(train)),
            ("test_batch.bin", test),
            ("../../evil.txt", test),
        ]:
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            info.size = rows.nbytes
            tar.addfile(info, io.BytesIO(rows.tobytes()))
    check_cifar(CIFAR10(root=str(tmp_path)), np.concatenate(train), 1, 0)
    (tmp_path / "test_batch.bin").write_bytes(test.tobytes())
    check_cifar(CIFAR10(root=str(tmp_path), train=False), test, 1, 0)
    assert not list(tmp_path.parent.glob("**/evil.txt"))


def test_cifar100_has_coarse_and_fine_labels(tmp_path):
    rows = cifar_records(4, 2, 0)
    (tmp_path / "train.bin").write_bytes(rows.tobytes())
    check_cifar(CIFAR100(root=str(tmp_path)), rows, 2, 0)
    check_cifar(CIFAR100(root=str(tmp_path), fine_label=True), rows, 2, 1)


def test_damaged_cifar(tmp_path):
    (tmp_path / "test.bin").write_bytes(bytes(3074 * 2 - 1))
    with pytest.raises(MXNetValueError, match="6147 bytes are no whole number of records"):
        CIFAR100(root=str(tmp_path), train=False)
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(b"no archive")
    with pytest.raises(MXNetValueError, match="is damaged"):
        CIFAR10(root=str(tmp_path))
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz"):
        pass
    with pytest.raises(MXNetValueError, match="does not hold data_batch_1.bin"):
        CIFAR10(root=str(tmp_path))


@pytest.fixture
def pictures(tmp_path):
    image = pytest.importorskip("PIL.Image", reason="images need Pillow, of the extra 'data'")
    for number, name in enumerate(["cat/1.png", "cat/0.png", "dog/2.PNG"]):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        pixels = np.zeros((4, 5, 3), "uint8") + np.uint8([10 * number, 20, 30])
        image.fromarray(pixels).save(path, format="PNG")
    return tmp_path


def test_image_folder(pictures):
    (pictures / "dog" / "notes.txt").write_text("woof")
    (pictures / "readme.md").write_text("pictures")
    with pytest.warns(UserWarning) as caught:
        dataset = ImageFolderDataset(str(pictures))
    assert sorted(str(w.message).split(" is left out")[0].split("/")[-1] for w in caught) == [
        "notes.txt",
        "readme.md",
    ]
    assert dataset.synsets == ["cat", "dog"]
    assert [(name[len(str(pictures)) + 1 :], label) for name, label in dataset.items] == [
        ("cat/0.png", 0),
        ("cat/1.png", 0),
        ("dog/2.PNG", 1),
    ]
    image, label = dataset[2]
    assert label == 1
    np.testing.assert_array_equal(image.asnumpy()[0, 0], [20, 20, 30])
    with pytest.raises(MXNetFileNotFoundError, match="there is no folder"):
        ImageFolderDataset(str(pictures / "birds"))


def test_image_folder_in_gray(pictures):
    image, _ = ImageFolderDataset(str(pictures), flag=0)[0]
    assert image.shape == (4, 5, 1)


def test_image_list(pictures):
    (pictures / "some.lst").write_text("0\t3\t1.5\tcat/1.png\n1\t4\t2.5\tdog/2.PNG\n")
    for imglist in ("some.lst", [[3, 1.5, "cat/1.png"], [[4, 2.5], "dog/2.PNG"]]):
        dataset = ImageListDataset(str(pictures), imglist)
        image, label = dataset[1]
        assert label.asnumpy().tolist() == [4, 2.5]
        assert image.asnumpy()[0, 0, 0] == 20
    with pytest.raises(MXNetTypeError, match="file name or a list"):
        ImageListDataset(str(pictures), 3)
    with pytest.raises(MXNetValueError, match="is not"):
        ImageListDataset(str(pictures), [["a", "cat/1.png"]])


def test_record_datasets(tmp_path):
    from mxjax import recordio

    pixels = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    rec, idx = str(tmp_path / "a.rec"), str(tmp_path / "a.idx")
    with recordio.MXIndexedRecordIO(idx, rec, "w") as writer:
        writer.write_idx(5, recordio.pack_img((0, 4.0, 5, 0), pixels[..., ::-1], 9, ".png"))
        writer.write_idx(9, recordio.pack((0, [1, 2], 9, 0), b"no picture"))
    records = mx.gluon.data.RecordFileDataset(rec)
    assert len(records) == 2 and records[1].endswith(b"no picture")
    images = mx.gluon.data.vision.ImageRecordDataset(rec)
    image, label = images[0]
    np.testing.assert_array_equal(image.asnumpy(), pixels)
    assert label == 4.0
    assert mx.gluon.data.vision.ImageRecordDataset(rec, 0)[0][0].shape == (2, 3, 1)
    assert mx.gluon.data.vision.ImageRecordDataset(rec, transform=lambda x, y: y + 1)[0] == 5.0
    with pytest.raises(MXNetValueError, match=r"a\.rec, record 9"):
        images[1]
