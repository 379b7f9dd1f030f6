"""RecordIO: MXNet's own files are read and written to the byte, damaged ones are refused with their offset."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax import recordio
from mxjax.errors import FormatError, MXNetError, MXNetFileNotFoundError

DATA = Path(__file__).parent / "data" / "recordio"
MAGIC = bytes.fromhex("0a23d7ce")


def records(path):
    with recordio.MXRecordIO(path, "r") as reader:
        return list(iter(reader.read, None))


@pytest.fixture
def indexed(tmp_path):
    path = str(tmp_path / "a")
    with mx.recordio.MXIndexedRecordIO(path + ".idx", path + ".rec", "w") as writer:
        for key in range(10):
            writer.write_idx(key, b"%d" % key * key)
    return path + ".idx", path + ".rec"


def test_magic_numbers_within_records_as_mxnet_writes_them(tmp_path):
    expected = [
        bytes.fromhex(each) for each in json.loads((DATA / "magic.expected.json").read_text())
    ]
    assert records(DATA / "magic.rec") == expected
    with recordio.MXRecordIO(tmp_path / "again.rec", "w") as writer:
        for each in expected:
            writer.write(each)
    assert (tmp_path / "again.rec").read_bytes() == (DATA / "magic.rec").read_bytes()


def test_images_of_mxnet():
    expected = np.load(DATA / "imgs.expected.npz")
    reader = recordio.MXIndexedRecordIO(DATA / "imgs.idx", DATA / "imgs.rec", "r")
    assert reader.keys == [0, 10, 20]
    for number, key in ((2, 20), (0, 0), (1, 10)):
        header, payload = recordio.unpack(reader.read_idx(key))
        assert header.id == key
        assert payload == (DATA / f"img{number}.png").read_bytes()
        found = recordio.unpack_img(reader.read_idx(key), 1)[1]
        np.testing.assert_array_equal(found, expected[f"img{number}"][..., ::-1])


def test_order_reset_and_seek(indexed):
    reader = recordio.MXIndexedRecordIO(*indexed, "r")
    assert reader.read_idx(7) == b"7777777"
    assert reader.read() == b"88888888"
    reader.seek(2)
    assert reader.read() == b"22"
    reader.reset()
    assert reader.read() == b""
    reader.close()
    with pytest.raises(MXNetError, match="closed"):
        reader.read()
    reader.reset()
    assert len(list(iter(reader.read, None))) == 10


def test_pickled_readers_go_on_where_they_were(indexed):
    reader = recordio.MXIndexedRecordIO(*indexed, "r")
    reader.read()
    twin = pickle.loads(pickle.dumps(reader))
    assert twin.read() == reader.read() == b"1"
    assert twin.read_idx(9) == b"9" * 9
    with (
        pytest.raises(TypeError, match="pickled"),
        recordio.MXRecordIO(indexed[1] + "2", "w") as writer,
    ):
        pickle.dumps(writer)


def _in_child(reader, queue):
    queue.put([reader.read(), reader.read_idx(3), reader.read()])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_have_their_own_place(indexed, method):
    context = multiprocessing.get_context(method)
    reader = recordio.MXIndexedRecordIO(*indexed, "r")
    assert [reader.read() for _ in range(3)][-1] == b"22"
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(reader, queue))
    child.start()
    assert queue.get(timeout=60) == [b"333", b"333", b"4444"]
    child.join(60)
    assert reader.read() == b"333"


def test_a_forked_process_cannot_write(tmp_path):
    writer = recordio.MXRecordIO(tmp_path / "a.rec", "w")
    writer.write(b"one")
    child = os.fork()
    if child == 0:
        try:
            writer.write(b"two")
        except MXNetError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    writer.close()
    assert records(tmp_path / "a.rec") == [b"one"]


def test_threads_read_by_key(indexed):
    reader = recordio.MXIndexedRecordIO(*indexed, "r")
    keys = random.Random(0).choices(range(10), k=300)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(reader.read_idx, keys)) == [b"%d" % key * key for key in keys]


def test_index_is_mended(indexed):
    idx, rec = indexed
    before = Path(idx).read_bytes()
    os.remove(idx)
    with pytest.raises(MXNetFileNotFoundError, match="make_index"):
        recordio.MXIndexedRecordIO(idx, rec, "r")
    recordio.make_index(rec)
    assert Path(idx).read_bytes() == before
    Path(idx).write_text("0\t0\n1\tx\n")
    with pytest.raises(FormatError, match="line 2"):
        recordio.MXIndexedRecordIO(idx, rec, "r")
    Path(idx).write_text("0\t4\n1\t99999999\n2\t-4\n3\t2\n")
    reader = recordio.MXIndexedRecordIO(idx, rec, "r")
    for key in range(4):
        with pytest.raises(FormatError, match="offset"):
            reader.read_idx(key)
    with pytest.raises(KeyError):
        reader.read_idx(17)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"abc", "at offset 0: it ends after 3"),
        (b"abcdefgh", "0xced7230a"),
        (MAGIC + b"\xff\xff\xff\x1f", "at offset 0: a part of 536870911 bytes"),
        (MAGIC + b"\x04\0\0\0abc", "goes beyond the file's end at 11"),
        (MAGIC + b"\x04\0\0\0abcd" + MAGIC, "at offset 12"),
        (MAGIC + b"\0\0\0\x20", "ends within this record"),
        (MAGIC + b"\0\0\0\x40", "kind 2"),
        ((MAGIC + b"\0\0\0\x20") * 2, "at offset 8: a record goes on with a part of kind 1"),
    ],
)
def test_damaged_files_are_refused(tmp_path, content, message):
    (tmp_path / "bad.rec").write_bytes(content)
    with pytest.raises(FormatError, match=message) as caught:
        records(tmp_path / "bad.rec")
    assert "bad.rec" in str(caught.value)


def test_mutated_files_do_no_harm(tmp_path):
    dice = random.Random(5)
    good = (DATA / "magic.rec").read_bytes() + (DATA / "imgs.rec").read_bytes()
    path = tmp_path / "m.rec"
    refused = 0
    for _ in range(400):
        bad = bytearray(good)
        for _ in range(dice.randint(1, 4)):
            bad[dice.randrange(len(bad))] = dice.randrange(256)
        path.write_bytes(bad[: dice.randint(1, len(bad))])
        try:
            for each in records(path):
                recordio.unpack(each)
        except FormatError:
            refused += 1
    assert 200 < refused <= 400


def test_headers():
    whole = recordio.pack((5, 2.5, 7, 9), b"rest")
    assert (
        whole
        == np.uint32(0).tobytes()
        + np.float32(2.5).tobytes()
        + np.uint64([7, 9]).tobytes()
        + b"rest"
    )
    assert recordio.unpack(whole) == (recordio.IRHeader(0, 2.5, 7, 9), b"rest")
    header, rest = recordio.unpack(recordio.pack((0, np.arange(3), 1, 0), b"xy"))
    assert (header.flag, header.label.tolist(), rest) == (3, [0.0, 1.0, 2.0], b"xy")
    with pytest.raises(FormatError, match="labels"):
        recordio.unpack(np.uint32(1 << 30).tobytes() + bytes(20) + b"1234")
    with pytest.raises(FormatError, match="24"):
        recordio.unpack(b"short")


@pytest.mark.parametrize("shape", [(5, 7, 3), (5, 7)])
def test_packed_images(shape):
    image = np.random.RandomState(0).randint(0, 256, shape).astype(np.uint8)
    header, again = recordio.unpack_img(recordio.pack_img((0, 1.0, 3, 0), image, 9, ".png"))
    np.testing.assert_array_equal(again, image)
    smooth = np.linspace(0, 255, 5 * 7).reshape(5, 7).astype(np.uint8)
    smooth = smooth if len(shape) == 2 else np.repeat(smooth[..., None], 3, axis=2)
    again = recordio.unpack_img(recordio.pack_img((0, 1.0, 3, 0), smooth))[1]
    assert np.abs(again.astype(int) - smooth).max() < 12
    damaged = recordio.pack_img((0, 1.0, 3, 0), image, 9, ".png")[:-30]
    with pytest.raises(FormatError, match="record 3"):
        recordio.unpack_img(damaged)
    with pytest.raises(ValueError, match="format"):
        recordio.pack_img((0, 1.0, 3, 0), image, img_fmt=".nonsense")
