"""The iterators over files: the batches of real MXNet on the same files, and damaged files."""

from __future__ import annotations

import colorsys
import struct

import numpy as np
import pytest

import mxjax as mx
from mxjax import recordio
from mxjax.core.compile import compiler_options
from mxjax.errors import FormatError, MXNetError
from mxjax.io import augment, native


def batches(it):
    found = [(b.data[0].asnumpy(), b.label[0].asnumpy(), b.pad) for b in it]
    it.reset()
    return found


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Five pictures of one colour each: red 10 n, green 10 n + 1, blue 10 n + 2."""
    path = str(tmp_path_factory.mktemp("records") / "a.rec")
    with recordio.MXRecordIO(path, "w") as writer:
        for n in range(5):
            blue_first = np.full((6, 8, 3), [10 * n + 2, 10 * n + 1, 10 * n], np.uint8)
            writer.write(recordio.pack_img((0, float(n), n, 0), blue_first, 9, ".png"))
    return path


@pytest.mark.parametrize("by_numpy", [True, False])
def test_batches_are_of_the_class_of_the_arrays_that_are_made(images, tmp_path, by_numpy):
    """As in MXNet 2.0.0b1 and 1.9.1."""
    (tmp_path / "a.csv").write_text("1,2\n3,4\n")
    expected = mx.np.ndarray if by_numpy else mx.nd.NDArray
    with mx.np_array(by_numpy):
        csv = mx.io.CSVIter(data_csv=str(tmp_path / "a.csv"), data_shape=(2,), batch_size=2)
        for it in (csv, records(images)):
            batch = it.next()
            assert {type(batch.data[0]), type(batch.label[0])} == {expected}
            assert type(it.getdata()) is expected


def records(path, shape=(3, 2, 2), size=2, kind="ImageRecordIter", **more):
    more = {"preprocess_threads": 2, **more}
    return getattr(mx.io, kind)(path_imgrec=path, data_shape=shape, batch_size=size, **more)


def labels(it):
    return [label.tolist() for _, label, _ in batches(it)]


def test_what_fills_a_shuffled_epoch_is_the_beginning_of_the_next_ones_order(images):
    """MXNet 1.9.1: what is read in a row, fillers of batches among it, are whole orders, a new one each time.

    Seven records, three at a time: 1 3 0 6 4 5 2 | 3 4 + 0 1 6 2 5 | 4 + 3 5 0 2 6 1 | 6 1 2 4 0 5 3.
    """
    it = records(images, shuffle=True, seed=5)
    read = np.concatenate([np.ravel(labels(it)) for _ in range(12)]).astype(int).tolist()
    orders = [tuple(read[at : at + 5]) for at in range(0, len(read) - 4, 5)]
    assert all(sorted(order) == [0, 1, 2, 3, 4] for order in orders)
    assert len(set(orders)) > 8  # of 12: the same order came two or three times


def test_an_epoch_after_a_filled_one_draws_anew(images):
    """As in MXNet, whose generator goes on: samples were mirrored and cut as in the epoch before."""
    it = records(images, (3, 2, 2), random_l=60, seed=3)
    seen = {}
    for _ in range(4):
        for data, label, _ in batches(it):
            for picture, number in zip(data, label, strict=True):
                seen.setdefault(int(number), set()).add(float(picture[0, 0, 0]))
    assert sum(map(len, seen.values())) > 12  # of 20 draws; about half when epochs repeated


def test_csv(tmp_path):
    np.savetxt(tmp_path / "a.csv", np.arange(20).reshape(5, 4), delimiter=",")
    it = mx.io.CSVIter(data_csv=str(tmp_path / "a.csv"), data_shape=(4,), batch_size=2)
    assert isinstance(it, mx.io.MXDataIter)
    assert it.provide_data[0] == ("data", (2, 4)) and it.provide_label[0] == ("softmax_label", (2,))
    assert it.provide_data[0].dtype is np.float32 is it.provide_label[0].dtype
    rows = [[(data[:, 0] / 4).tolist() for data, _, _ in batches(it)] for _ in range(3)]
    # After an epoch that was filled from the beginning the next one goes on.
    assert rows == [[[0, 1], [2, 3], [4, 0]], [[1, 2], [3, 4]], [[0, 1], [2, 3], [4, 0]]]
    next(it)
    it.reset()
    assert it.next().data[0].asnumpy()[0, 0] == 0
    short = mx.io.CSVIter(
        data_csv=str(tmp_path / "a.csv"), data_shape=(2, 2), batch_size=2, round_batch=False
    )
    assert [(each[0].shape, each[2]) for each in batches(short)] == [
        ((2, 2, 2), pad) for pad in (0, 0, 1)
    ]
    (tmp_path / "bad.csv").write_text("1,2\n3,x\n")
    with pytest.raises(FormatError, match="line 2"):
        mx.io.CSVIter(data_csv=str(tmp_path / "bad.csv"), data_shape=(2,), batch_size=1)
    near = "'data_cvs'; did you mean 'data_csv'"
    with pytest.warns(UserWarning, match=near), pytest.raises(MXNetError, match="needs"):
        mx.io.CSVIter(data_cvs="a", data_shape=(2,), batch_size=1)


@pytest.mark.parametrize(
    ("size", "last", "index"),
    [
        (3, [18, 12, 15], [6, 4, 5]),
        (4, [12, 15, 18, 9], [4, 5, 6, 3]),
        (8, [*range(0, 19, 3), 0], 0),
    ],
)
def test_a_short_batch_of_a_csv_ends_as_the_one_before_it(tmp_path, size, last, index):
    """As MXNet 1.9.1 and 2.0.0b1 fill it: each batch is written over the one before it."""
    np.savetxt(tmp_path / "a.csv", np.arange(21).reshape(7, 3), delimiter=",")
    np.savetxt(tmp_path / "b.csv", np.arange(7) * 3)
    names = {"data_csv": str(tmp_path / "a.csv"), "label_csv": str(tmp_path / "b.csv")}
    it = mx.io.CSVIter(**names, data_shape=(3,), batch_size=size, round_batch=False)
    for _ in range(2):
        *_, batch = it
        assert batch.data[0].asnumpy()[:, 0].tolist() == last
        assert batch.label[0].asnumpy().ravel().tolist() == last and batch.pad == size - 7 % size
        assert not index or batch.index.tolist() == index
        it.reset()


def test_batches_of_row_sparse_arrays_are_dense():
    rows = mx.nd.array(np.arange(14).reshape(7, 2)).tostype("row_sparse")
    it = mx.io.NDArrayIter(rows, np.arange(7), 3)
    found = [batch.data[0] for batch in it]
    assert [a.stype for a in found] == ["default"] * 3
    assert found[2].asnumpy().tolist() == [[12, 13], [0, 1], [2, 3]]  # filled from the beginning


def test_libsvm(tmp_path):
    (tmp_path / "a.t").write_text("1.0:0.5 0:0.5 2:1.2\n-2.0\n-3.0 0:0.6 1:2.4 2:1.2\n4 2:-1.2\n")
    it = mx.io.LibSVMIter(data_libsvm=str(tmp_path / "a.t"), data_shape=(3,), batch_size=3)
    assert it.next().data[0].stype == "csr"
    it.reset()
    (first, label, _), (second, _, pad) = batches(it)
    np.testing.assert_allclose(first, [[0.5, 0, 1.2], [0, 0, 0], [0.6, 2.4, 1.2]], rtol=1e-6)
    np.testing.assert_allclose(second, [[0, 0, -1.2], [0.5, 0, 1.2], [0, 0, 0]], rtol=1e-6)
    assert label.tolist() == [1, -2, -3] and pad == 2
    (tmp_path / "bad.t").write_text("1.0 0:0.5\n-3.0 -1:0.6\n")
    with pytest.raises(FormatError, match="line 2"):
        mx.io.LibSVMIter(data_libsvm=str(tmp_path / "bad.t"), data_shape=(3,), batch_size=1)


def test_mnist(tmp_path):
    pixels = np.random.RandomState(0).randint(0, 256, (5, 28, 28)).astype(np.uint8)
    (tmp_path / "i").write_bytes(struct.pack(">IIII", 0x803, 5, 28, 28) + pixels.tobytes())
    (tmp_path / "l").write_bytes(struct.pack(">II", 0x801, 5) + bytes(range(5)))
    files = {"image": str(tmp_path / "i"), "label": str(tmp_path / "l"), "batch_size": 2}
    found = batches(mx.io.MNISTIter(**files, shuffle=False))
    assert [label.tolist() for _, label, _ in found] == [[0, 1], [2, 3]]
    np.testing.assert_allclose(found[0][0][:, 0], pixels[:2] / 256)
    flat = mx.io.MNISTIter(**files, flat=True, seed=3)
    assert flat.provide_data[0].shape == (2, 784)
    assert labels(flat) == labels(flat)
    (tmp_path / "l").write_bytes(struct.pack(">II", 0x801, 6) + bytes(range(5)))
    with pytest.raises(FormatError, match="offset 4"):
        mx.io.MNISTIter(**files)


def test_image_records(images):
    it = records(images)
    found = batches(it)
    assert [label.tolist() for _, label, _ in found] == [[0, 1], [2, 3], [4, 0]]
    assert found[2][2] == 1
    assert found[0][0][1, :, 0, 0].tolist() == [10, 11, 12]
    assert labels(it) == [[1, 2], [3, 4]]
    assert labels(records(images, num_parts=2, part_index=1)) == [[3, 4]]
    gray = batches(records(images, (1, 2, 2)))
    assert gray[0][0].shape == (2, 1, 2, 2)
    normal = batches(records(images, mean_r=1, mean_g=2, mean_b=3, std_r=2, scale=0.5))
    assert normal[0][0][:, :, 0, 0].tolist() == [[-0.25, -0.5, -0.5], [2.25, 4.5, 4.5]]
    padded = batches(records(images, (3, 8, 8), pad=1, fill_value=9))[0][0]
    assert (padded[:, :, 0] == 9).all() and (padded[1, 0, 1:7] == 10).all()
    for kind, dtype in (("ImageRecordUInt8Iter", "uint8"), ("ImageRecordInt8Iter", "int8")):
        narrow = batches(records(images, kind=kind))[0][0]
        assert narrow.dtype == dtype and narrow[1, :, 0, 0].tolist() == [10, 11, 12]


def test_shuffled_and_varied_pictures_depend_on_the_seed_alone(images):
    def two(**more):
        it = records(images, (3, 4, 4), shuffle=True, seed=5, rand_crop=True, rand_mirror=True, brightness=0.5,
                     contrast=0.2, saturation=0.2, pca_noise=0.1, max_rotate_angle=20, random_resized_crop=True,
                     min_random_area=0.3, inter_method=10, max_random_contrast=0.1, **more)  # fmt: skip
        return batches(it) + batches(it)

    one, other = two(prefetch_buffer=1), two(prefetch_buffer=4)
    for (a, la, _), (b, lb, _) in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(la, lb)
    assert sorted(np.concatenate([label for _, label, _ in one[:3]])[:5]) == [0, 1, 2, 3, 4]


def test_what_is_wrong_with_records(images, tmp_path):
    with pytest.raises(MXNetError, match="data_shape"):
        records(images, (5, 2, 2))
    with pytest.raises(FormatError, match=r"a\.rec, record 0 at offset 0: it has 1 labels"):
        next(records(images, label_width=3))
    with recordio.MXRecordIO(tmp_path / "b.rec", "w") as writer:
        writer.write(recordio.pack((0, 1.0, 0, 0), b"no picture"))
    with pytest.raises(FormatError, match=r"b\.rec, record 0 at offset 0"):
        next(records(str(tmp_path / "b.rec"), size=1))
    mx.nd.save(str(tmp_path / "mean.bin"), {"mean_img": mx.nd.zeros((3, 1, 1))})
    with pytest.raises(FormatError, match="mean_img"):
        records(images, mean_img=str(tmp_path / "mean.bin"))


def test_a_mean_image_that_is_not_there_is_made(images, tmp_path):
    path = str(tmp_path / "mean.bin")
    for _ in range(2):
        data = batches(records(images, mean_img=path))[0][0]
        assert data[:, :, 0, 0].tolist() == [[-20] * 3, [-10] * 3]
    np.testing.assert_array_equal(mx.nd.load(path)["mean_img"].asnumpy()[:, 1, 1], [20, 21, 22])


def test_boxes(tmp_path):
    path = str(tmp_path / "d.rec")
    with recordio.MXRecordIO(path, "w") as writer:
        for n in range(3):
            label = [2, 5, *[n, 0.1, 0.2, 0.6, 0.7] * (n + 1)]
            writer.write(
                recordio.pack_img((0, label, n, 0), np.full((6, 8, 3), n, np.uint8), 9, ".png")
            )
    it = records(path, (3, 4, 4), kind="ImageDetRecordIter")
    assert it.provide_label[0].shape == (2, 21)
    (_, label, _), _ = batches(it)
    np.testing.assert_allclose(
        label[0], [3, 4, 4, 7, 2, 5, 0, 0.1, 0.2, 0.6, 0.7, *[-1] * 10], rtol=1e-6
    )


def damaged(images, tmp_path):
    """The file of `images` with a record that holds no picture, another without its beginning, and rubbish."""
    reader = recordio.MXRecordIO(images, "r")
    whole = list(iter(reader.read, None))
    path = tmp_path / "damaged.rec"
    with recordio.MXRecordIO(path, "w") as writer:
        for number, record in enumerate(whole):
            writer.write(record)
            if number == 1:
                writer.write(recordio.pack((0, 9.0, 9, 0), b"no picture"))
    offsets = recordio.offsets(str(path))
    data = bytearray(path.read_bytes())
    data[offsets[4] : offsets[4] + 4] = b"\0\0\0\0"  # the picture that has the label 3
    path.write_bytes(bytes(data) + b"rubbish.")
    return str(path), offsets


@pytest.mark.parametrize("threads", [1, 3])
def test_damaged_records_are_left_out_where_asked(images, tmp_path, threads):
    path, offsets = damaged(images, tmp_path)
    with pytest.raises(FormatError, match=f"offset {offsets[4]}"):
        records(path)
    with pytest.warns(UserWarning) as told:
        it = records(path, corrupt_records="skip", preprocess_threads=threads, prefetch_buffer=0)
        first = [label.tolist() for _, label, _ in batches(it)]
    said = [str(each.message) for each in told]
    assert len(said) == 3 and f"offset {offsets[4]}" in said[0] and "record 2" in said[2]
    assert first == [[0, 1], [2, 4]]
    assert [label.tolist() for _, label, _ in batches(it)] == first  # without another warning
    with pytest.raises(MXNetError, match="raise or skip"):
        records(path, corrupt_records="ignore")


def test_a_mean_image_without_damaged_records(images, tmp_path):
    path, _ = damaged(images, tmp_path)
    with pytest.warns(UserWarning):
        records(path, corrupt_records="skip", mean_img=str(tmp_path / "mean.bin"))
    mean = mx.nd.load(str(tmp_path / "mean.bin"))["mean_img"].asnumpy()
    np.testing.assert_array_equal(mean[:, 0, 0], np.array([0, 10, 20, 40]).mean() + np.arange(3))


def test_pieces_of_a_file_are_mixed(tmp_path):
    path = str(tmp_path / "big.rec")
    with recordio.MXRecordIO(path, "w") as writer:
        for n in range(40):
            picture = recordio.pack_img((0, n, n, 0), np.full((2, 2, 3), n, np.uint8), 9, ".png")
            writer.write(picture + bytes(100_000 - len(picture)))  # a PNG's reader stops at its end
    order = [
        label
        for row in labels(records(path, size=4, shuffle_chunk_size=1, round_batch=False))
        for label in row
    ]
    steps = np.diff(order)
    assert sorted(order) == list(range(40)) and order != sorted(order)
    assert (
        2 <= (steps != 1).sum() < 8
    )  # 4 MB in pieces of less than 1 MB: within each the order is kept
    one, other = (
        labels(records(path, size=4, shuffle_chunk_size=1, shuffle=True, shuffle_chunk_seed=seed))
        for seed in (3, 4)
    )
    assert one != other and sorted(sum(one, [])) == list(range(40))
    spread = np.abs(np.diff(sum(one, [])))
    assert np.median(spread) < 8  # neighbours come from the same piece


def test_hue_lightness_and_saturation_are_moved(images):
    """Gray pictures have no hue: only the lightness of theirs changes."""
    plain = batches(records(images))[2][0]
    for name, most in (("random_h", 90), ("random_s", 0)):
        np.testing.assert_allclose(batches(records(images, **{name: most}))[2][0], plain, atol=2)
    light = [batches(records(images, random_l=30, seed=seed))[2][0] for seed in range(8)]
    moved = [each[0, 0, 0, 0] - plain[0, 0, 0, 0] for each in light]
    assert min(moved) < -3 and max(moved) > 3 and np.abs(moved).max() <= 31


def test_hls_against_colorsys():
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (20, 20, 3), np.uint8)
    pixels[0, :4] = [[0, 0, 0], [255, 255, 255], [255, 0, 0], [7, 7, 7]]
    hls = augment._to_hls(pixels).astype(float)
    expected = np.array(
        [colorsys.rgb_to_hls(*(each / 255)) for each in pixels.reshape(-1, 3)]
    ).reshape(20, 20, 3)
    difference = np.abs(hls - expected * [180, 255, 255])
    difference[..., 0] = np.minimum(difference[..., 0], 180 - difference[..., 0])
    assert difference.max() <= 1
    again = augment._from_hls(augment._to_hls(pixels)).astype(int)
    assert np.abs(again - pixels).max() <= 6 and np.abs(again - pixels).mean() < 1.2


def test_memory_of_batches_serves_again_when_nobody_holds_it():
    buffers = native.Buffers(2)
    first = buffers.take((3, 5), np.float32)
    first[:] = 1
    address = first.ctypes.data
    assert address % 64 == 0
    array, part = mx.nd.from_numpy(first), first[1:]
    del first, array
    assert buffers.take((3, 5), np.float32).ctypes.data != address  # a part of it is still held
    del part
    assert buffers.take((3, 5), np.float32).ctypes.data == address


def test_batches_that_are_held_keep_their_values(images):
    it = records(images, prefetch_buffer=1)
    held = []
    for _ in range(4):
        held += [(batch.data[0], batch.label[0]) for batch in it]
        it.reset()
    for data, label in held:
        assert (data.asnumpy()[:, 0] == 10 * label.asnumpy()[:, None, None]).all()


def test_a_picture_is_moved_by_an_affine_map():
    pixels = np.random.RandomState(0).randint(0, 256, (4, 5, 3)).astype(np.uint8)
    right_and_down = augment._warped(pixels, np.array([[1.0, 0, 2], [0, 1, 1]]), 6, 5, 7)
    expected = np.full((5, 6, 3), 7, np.uint8)
    expected[1:, 2:] = pixels[:, :4]
    np.testing.assert_array_equal(right_and_down, expected)
    turned = augment._warped(pixels, np.array([[0.0, -1, 3], [1, 0, 0]]), 4, 5, 0)  # by a quarter
    np.testing.assert_array_equal(turned, np.rot90(pixels, -1))
    half = augment._warped(pixels, np.array([[1.0, 0, 0.5], [0, 1, 0]]), 6, 4, 0)
    wide = np.pad(pixels.astype(float), ((0, 0), (1, 1), (0, 0)))
    assert np.abs(half - (wide[:, 1:] + wide[:, :-1]) / 2).max() <= 1


@pytest.mark.parametrize(("side", "threads"), [(16, 2), (200, 4), (400, 6)])
def test_small_pictures_have_fewer_threads(tmp_path, side, threads, monkeypatch):
    """Python's part of each is one thread's at a time: more threads than that leaves room for wait for each other."""
    monkeypatch.setattr(compiler_options, "cores", lambda: 16)
    path = str(tmp_path / "pictures.rec")
    with recordio.MXRecordIO(path, "w") as writer:
        for n in range(9):
            picture = np.full((side, side, 3), 20 * n, np.uint8)
            writer.write(recordio.pack_img((0, n, n, 0), picture, img_fmt=".png"))
    batches = mx.io.ImageRecordUInt8Iter(
        path_imgrec=path, data_shape=(3, 16, 16), batch_size=4, preprocess_threads=6
    )
    given = [batch.label[0].asnumpy().tolist() for batch in batches]
    assert given == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 0, 1, 2]]
    assert batches.handle.threads == threads
    monkeypatch.setattr(compiler_options, "cores", lambda: 2)
    few = mx.io.ImageRecordUInt8Iter(
        path_imgrec=path, data_shape=(3, 16, 16), batch_size=4, preprocess_threads=6
    )
    assert [batch.label[0].asnumpy().tolist() for batch in few] == given
    assert few.handle.threads == 2


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_whole_numbers_are_read_of_fractions_in_csv_files(tmp_path, dtype):
    """Of MXNet 1.9.1 and 2.0.0b1: what stands before the point, or the exponent."""
    (tmp_path / "a.csv").write_text("0.25,-1.75,3\n1e3,2.5,-0.5\n")
    batch = mx.io.CSVIter(
        data_csv=str(tmp_path / "a.csv"), data_shape=(3,), batch_size=2, dtype=dtype
    ).next()
    assert batch.data[0].asnumpy().tolist() == [[0, -1, 3], [1, 2, 0]]
