"""A loader of Gluon as an iterator."""

from __future__ import annotations

import numpy as np
import pytest

import mxjax as mx


def test_data_loader_iter():
    data = np.arange(10, dtype=np.float64).reshape(5, 2)
    loader = mx.gluon.data.DataLoader(mx.gluon.data.ArrayDataset(data, np.arange(5)), batch_size=2)
    it = mx.contrib.io.DataLoaderIter(loader)
    assert it.provide_data == [("data", (2, 2))] and it.provide_label == [("softmax_label", (2,))]
    for _ in range(2):
        batches = list(it)
        assert [batch.pad for batch in batches] == [0, 0, 1]
        assert batches[2].data[0].asnumpy().tolist() == [[8, 9], [0, 0]]
        assert batches[2].label[0].asnumpy().tolist() == [4, 0]
        assert batches[0].data[0].dtype == np.float32
        it.reset()
    with pytest.raises(ValueError, match="no batch"):
        mx.contrib.io.DataLoaderIter([])
