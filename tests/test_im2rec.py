"""`python -m mxjax.im2rec`: lists and records to the byte as MXNet's program writes them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax import im2rec, recordio
from mxjax.files import codec

from .record import im2rec as recorded

EXPECTED = json.loads((Path(__file__).parent / "data" / "recordio" / "im2rec.json").read_text())


@pytest.fixture(scope="module")
def found():
    return recorded.record(im2rec.main)


@pytest.mark.parametrize("name", EXPECTED)
def test_files_are_those_of_mxnet(found, name):
    assert found[name] == EXPECTED[name]


@pytest.fixture
def photos(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    rng = np.random.default_rng(0)
    for name, shape in (
        ("wide.png", (20, 50, 3)),
        ("high.png", (60, 30, 3)),
        ("square.png", (32, 32, 3)),
    ):
        smooth = np.kron(
            rng.integers(0, 255, (shape[0] // 10, shape[1] // 10, 3)), np.ones((10, 10, 1))
        )
        full = np.zeros(shape, np.uint8)
        full[: smooth.shape[0], : smooth.shape[1]] = smooth
        (root / name).write_bytes(codec.encode(full, ".png"))
    (root / "broken.png").write_bytes((root / "wide.png").read_bytes()[:60])
    return tmp_path


def made(folder, *arguments):
    prefix = str(folder / "a")
    assert im2rec.main(["--list", "--no-shuffle", prefix, str(folder / "root")]) == 0
    assert im2rec.main([prefix, str(folder / "root"), *arguments]) == 0
    reader = recordio.MXIndexedRecordIO(prefix + ".idx", prefix + ".rec", "r")
    assert sorted(os.listdir(folder)) == ["a.idx", "a.lst", "a.rec", "root"]
    return {key: reader.read_idx(key) for key in reader.keys}


def test_damaged_pictures_are_left_out(photos, capsys):
    records = made(photos, "--encoding", ".png")
    assert list(records) == [1, 2, 3]  # high, square, wide; broken.png was the first of the list
    assert f"{photos / 'root' / 'broken.png'} is left out" in capsys.readouterr().err
    pixels = recordio.unpack_img(records[1], 1)[1]
    expected = codec.decode((photos / "root" / "high.png").read_bytes(), to_rgb=False)
    np.testing.assert_array_equal(pixels, expected)


@pytest.mark.parametrize(
    ("arguments", "sizes"),
    [
        (["--resize", "16"], [(32, 16, 3), (16, 16, 3), (16, 40, 3)]),
        (["--center-crop"], [(30, 30, 3), (32, 32, 3), (20, 20, 3)]),
        (["--center-crop", "--resize", "8", "--color", "0", "--encoding", ".png"], [(8, 8)] * 3),
    ],
)
def test_sizes(photos, arguments, sizes):
    shapes = [recordio.unpack_img(each, -1)[1].shape for each in made(photos, *arguments).values()]
    assert shapes == sizes


def test_the_number_of_threads_changes_nothing(photos):
    one = made(photos, "--resize", "16", "--quality", "60")
    (photos / "a.rec").unlink(), (photos / "a.idx").unlink()
    assert made(photos, "--resize", "16", "--quality", "60", "--num-thread", "3") == one
    assert len(one[1]) < len(made(photos, "--resize", "16", "--quality", "95")[1])


def test_a_record_iterator_takes_what_it_writes(photos):
    made(photos, "--resize", "16")
    batch = next(
        mx.io.ImageRecordIter(
            path_imgrec=str(photos / "a.rec"), data_shape=(3, 16, 16), batch_size=3
        )
    )
    assert batch.data[0].shape == (3, 3, 16, 16) and batch.pad == 0


def test_as_a_program_without_a_list(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mxjax.im2rec", str(tmp_path / "none"), str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert (
        done.returncode == 1
        and "there is no list" in done.stderr
        and "Traceback" not in done.stderr
    )


def test_a_wrong_folder_destroys_nothing(photos, capsys):
    made(photos)
    before = (photos / "a.rec").read_bytes()
    assert im2rec.main([str(photos / "a"), str(photos / "nowhere")]) == 1
    assert f"there is no folder {photos / 'nowhere'}" in capsys.readouterr().err
    (photos / "other").mkdir()
    assert im2rec.main([str(photos / "a"), str(photos / "other")]) == 1
    assert "none of the 4 pictures" in capsys.readouterr().err
    assert (photos / "a.rec").read_bytes() == before
    assert sorted(os.listdir(photos)) == ["a.idx", "a.lst", "a.rec", "other", "root"]
