"""Iterators, descriptions, metrics over an epoch, old schedules: as MXNet 1.9.1 (`record/training_parts.py`)."""

from __future__ import annotations

import builtins
import gc
import json
import threading
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx

DATA = json.loads((Path(__file__).parent / "data" / "training_parts.json").read_text())
SCOPE = {"mx": mx, "np": np}
exec(DATA["code"], SCOPE)


@pytest.mark.parametrize("expression", DATA["answers"])
def test_as_recorded(expression):
    wanted = DATA["answers"][expression]
    with mx.config.scope(compat_version="1.9"):
        if isinstance(wanted, list):
            with pytest.raises(getattr(builtins, wanted[0])):
                eval(expression, SCOPE)
        else:
            assert repr(eval(expression, SCOPE)) == wanted


class Numbers(mx.io.DataIter):
    """An iterator of one's own: `iter_next` and the parts."""

    def __init__(self, fail_at=None):
        super().__init__(2)
        self.fail_at = fail_at
        self.provide_data = [mx.io.DataDesc("data", (2,))]
        self.provide_label = []
        self.reset()

    def reset(self):
        self.place = -1

    def iter_next(self):
        self.place += 1
        if self.place == self.fail_at:
            raise OSError("the disk is gone")
        return self.place < 3

    def getdata(self):
        return [mx.nd.array([self.place, self.place])]

    def getlabel(self):
        return []

    def getpad(self):
        return 0


def test_an_iterator_of_ones_own():
    it = Numbers()
    assert [batch.data[0].asnumpy().tolist() for batch in it] == [[0, 0], [1, 1], [2, 2]]
    with pytest.raises(StopIteration):
        it.next()
    it.reset()
    assert len(list(it)) == 3


def test_reading_ahead_raises_where_the_batch_is_asked_for():
    ahead = mx.io.PrefetchingIter(Numbers(fail_at=1))
    assert ahead.next().data[0].asnumpy().tolist() == [0, 0]
    with pytest.raises(OSError, match="the disk is gone"):
        ahead.next()


def test_reading_ahead_notices_iterators_of_other_lengths():
    short = mx.io.NDArrayIter(np.arange(4), batch_size=2)
    ahead = mx.io.PrefetchingIter([Numbers(), short], rename_data=[{"data": "a"}, {"data": "b"}])
    with pytest.raises(AssertionError, match="mismatches"):
        list(ahead)


def test_reading_ahead_ends_with_its_iterator():
    before = set(threading.enumerate())
    ahead = mx.io.PrefetchingIter(Numbers())
    ahead.next()
    (thread,) = set(threading.enumerate()) - before
    del ahead
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()


def test_batches_of_a_file_like_hdf5():
    class Dataset:  # h5py is not needed: what counts is the module of the class, the shape, and ascending rows
        shape, dtype = (5, 2), np.dtype("float32")
        rows = np.arange(10, dtype="float32").reshape(5, 2)

        def __getitem__(self, rows):
            assert (np.diff(rows) > 0).all()
            return self.rows[rows]

    Dataset.__module__ = "h5py._hl.dataset"
    it = mx.io.NDArrayIter(Dataset(), np.arange(5), 2, shuffle=True)
    order = [batch.label[0].asnumpy() for batch in it]
    it.reset()
    assert it.idx.tolist() != list(range(5)) or order
    for batch in it:
        data, label = batch.data[0].asnumpy(), batch.label[0].asnumpy()
        np.testing.assert_array_equal(
            data,
            Dataset.rows[it.idx][it.cursor : it.cursor + 2][: len(data)]
            if not batch.pad
            else Dataset.rows[np.r_[it.idx[4:], it.idx[:1]]],
        )
        assert len(label) == 2
