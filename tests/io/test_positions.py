"""Where an iterator is, told to another one in the middle of an epoch: the batches that follow are the same."""

from __future__ import annotations

import random

import numpy as np
import pytest

import mxjax as mx
from mxjax import recordio
from mxjax.errors import FormatError
from mxjax.gluon.data import ArrayDataset, DataLoader


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Seven pictures of one colour each as records, the fifth one damaged; rows of numbers; digits."""
    found = tmp_path_factory.mktemp("positions")
    for name in ("whole", "damaged"):
        with recordio.MXIndexedRecordIO(
            str(found / f"{name}.idx"), str(found / f"{name}.rec"), "w"
        ) as writer:
            for n in range(7):
                picture = recordio.pack_img(
                    (0, float(n), n, 0), np.full((6, 8, 3), 10 * n, np.uint8), 9, ".png"
                )
                writer.write_idx(n, picture[:40] if (name, n) == ("damaged", 4) else picture)
    np.savetxt(found / "rows.csv", np.arange(14).reshape(7, 2), delimiter=",")
    (found / "rows.svm").write_text("".join(f"{n} 0:{n} 2:1\n" for n in range(7)))
    (found / "images").write_bytes(
        bytes([0, 0, 8, 3, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 2, *range(14)])
    )
    (found / "labels").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 7, *range(7)]))
    return found


def records(folder, name="whole", **more):
    more = {"rand_crop": True, "rand_mirror": True, "seed": 5, "preprocess_threads": 2, **more}
    return mx.io.ImageRecordIter(
        path_imgrec=str(folder / f"{name}.rec"), data_shape=(3, 4, 5), batch_size=2, **more
    )


def pictures(folder, **more):
    return mx.image.ImageIter(2, (3, 4, 4), path_imgrec=str(folder / "whole.rec"), **more)


def rows(handle="pad", **more):
    given = {"data": np.arange(7), "b": mx.nd.arange(7) * 2}
    return mx.io.NDArrayIter(given, np.arange(7), 2, last_batch_handle=handle, **more)


MAKERS = {
    "arrays": lambda f: rows(),
    "arrays mixed": lambda f: rows(shuffle=True),
    "arrays rolled over": lambda f: rows("roll_over", shuffle=True),
    "arrays cut": lambda f: rows("discard", shuffle=True),
    "resized": lambda f: mx.io.ResizeIter(rows(shuffle=True), 5),
    "ahead": lambda f: mx.io.PrefetchingIter([rows("discard"), mx.io.ResizeIter(rows(), 3)]),
    "csv": lambda f: mx.io.CSVIter(data_csv=str(f / "rows.csv"), data_shape=(2,), batch_size=2),
    "libsvm": lambda f: mx.io.LibSVMIter(data_libsvm=str(f / "rows.svm"), data_shape=(4,), batch_size=2),
    "digits": lambda f: mx.io.MNISTIter(image=str(f / "images"), label=str(f / "labels"), batch_size=2, seed=3),
    "records": lambda f: records(f, shuffle=True),
    "records that are cut off": lambda f: records(f, shuffle=True, round_batch=False),
    "damaged records": lambda f: records(f, "damaged", shuffle=True, corrupt_records="skip"),
    "pictures in order": lambda f: pictures(f),
    "pictures mixed": lambda f: pictures(
        f, shuffle=True, path_imgidx=str(f / "whole.idx"), last_batch_handle="roll_over", rand_mirror=True
    ),
    "loader": lambda f: mx.contrib.io.DataLoaderIter(
        DataLoader(ArrayDataset(np.arange(7), np.arange(7)), 2, shuffle=True)
    ),
}  # fmt: skip


def taken(it, count):
    """So many batches, over the ends of epochs."""
    found = []
    while len(found) < count:
        for batch in it:
            arrays = [each.asnumpy().tolist() for each in (*batch.data, *batch.label)]
            found.append((arrays, batch.pad))
            if len(found) == count:
                return found
        it.reset()
    return found


@pytest.mark.filterwarnings("ignore:.*left out")
@pytest.mark.parametrize("given", [1, 4, 6])  # within an epoch, at the end of one, in the next
@pytest.mark.parametrize("name", MAKERS)
def test_goes_on_where_it_was(folder, name, given):
    np.random.seed(1)
    random.seed(1)
    it = MAKERS[name](folder)
    taken(it, given)
    state, numpy, python = it.state_dict(), np.random.get_state(), random.getstate()
    expected = taken(it, 9)
    other = MAKERS[name](folder)
    taken(other, 2)
    other.load_state_dict(state)
    np.random.set_state(numpy)
    random.setstate(python)
    assert taken(other, 9) == expected


@pytest.mark.parametrize("name", MAKERS)
def test_positions_of_something_else(folder, name):
    it = MAKERS[name](folder)
    spoilt = {**it.state_dict(), "epoch": 3, "cur": -5, "order": [], "places": 0}
    for bad in ({}, {"cur": -1, "cursor": 99}, None, spoilt):
        if name in ("resized", "ahead") and bad and "inner" in bad:
            bad = {"cur": 0, "ended": False, "inner": [{}, {}]}
        with pytest.raises(FormatError, match="no position of this"):
            it.load_state_dict(bad)


def test_who_does_not_say_where_it_is():
    class Own(mx.io.DataIter):
        provide_data = provide_label = [mx.io.DataDesc("x", (1, 1))]

        def next(self):
            raise StopIteration

    with pytest.raises(
        NotImplementedError, match="Own does not say where it is.*defines state_dict"
    ):
        Own().state_dict()
    with pytest.raises(NotImplementedError, match="Own does not say where it is"):
        mx.io.PrefetchingIter(Own()).state_dict()


def test_how_many_batches_there_are_changes_no_order(folder):
    one, other = records(folder, shuffle=True), records(folder, shuffle=True)
    assert len(one) == 4
    assert taken(one, 4) == taken(other, 4)


def test_a_file_without_records_is_told(folder):
    (folder / "empty.rec").write_bytes(b"")
    with pytest.warns(
        UserWarning, match="empty.rec has no records: ImageRecordIter gives no batch"
    ):
        assert not list(records(folder, "empty"))


@pytest.mark.parametrize("handle", ["pad", "discard", "roll_over"])
def test_labels_for_fewer_samples_than_the_data_are_an_error_where_they_end(handle):
    """As in MXNet 1.9.1, at the batch that lacks some: it was given with fewer labels, or with those of others."""
    batches = mx.io.NDArrayIter(np.zeros((7, 2)), np.arange(5), 3, last_batch_handle=handle)
    assert next(batches).label[0].asnumpy().tolist() == [0, 1, 2]
    with pytest.raises(mx.MXNetError, match="'softmax_label' has 5 samples and 'data' 7"):
        next(batches)
