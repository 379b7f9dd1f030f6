"""Row_sparse values in a store of one process: what MXNet 2's store gives."""

from __future__ import annotations

import numpy as np
import pytest

import mxjax as mx
from mxjax import nd

DEVICES = [mx.cpu(0), mx.cpu(1)]


def rows(data, indices, shape=(4, 2), device=None):
    return nd.sparse.row_sparse_array((np.array(data, "float32"), indices), shape=shape, ctx=device)


def test_sums_of_rows_are_rows():
    kv = mx.kv.create("local")
    kv.init("w", nd.ones((4, 2)))
    kv.push(
        "w",
        [rows([[1, 2]], [1], device=DEVICES[0]), rows([[1, 1], [3, 3]], [1, 3], device=DEVICES[1])],
    )
    out = nd.sparse.zeros("row_sparse", (4, 2))
    kv.pull("w", out=out, ignore_sparse=False)
    assert out.indices.asnumpy().tolist() == [1, 3]
    assert out.data.asnumpy().tolist() == [[2, 3], [3, 3]]
    dense = nd.zeros((4, 2))
    kv.pull("w", out=dense)
    np.testing.assert_array_equal(dense.asnumpy(), out.asnumpy())
    kept = rows([[7, 7]], [0])
    kv.pull("w", out=kept)  # sparse arrays are left out unless one says otherwise
    assert kept.indices.asnumpy().tolist() == [0]


@pytest.mark.parametrize("stype", ["default", "row_sparse"])
def test_rows_that_are_asked_for(stype):
    kv = mx.kv.create("local")
    kv.init("e", nd.array(np.arange(8).reshape(4, 2)).tostype(stype))
    outs = [nd.sparse.zeros("row_sparse", (4, 2), ctx=d) for d in DEVICES]
    kv.row_sparse_pull("e", out=outs, row_ids=[nd.array([[3, 1], [3, 9]]), nd.array([2])])
    assert [o.indices.asnumpy().tolist() for o in outs] == [[1, 3], [2]]
    assert outs[0].data.asnumpy().tolist() == [[2, 3], [6, 7]]
    kv.row_sparse_pull("e", out=outs[0], row_ids=nd.array([77]))
    assert outs[0].indices.size == 0
    with pytest.raises(mx.MXNetError, match="row_sparse"):
        kv.row_sparse_pull("e", out=nd.zeros((4, 2)), row_ids=nd.array([1]))


def test_updaters_get_rows():
    kv = mx.kv.create("local")
    kv.init(3, nd.zeros((4, 2)))
    seen = []

    def updater(key, received, stored):
        seen.append(received.stype)
        stored += received

    kv.set_updater(updater)
    for _ in range(2):
        kv.push(3, [rows([[1, 1]], [0], device=d) for d in DEVICES])
    out = nd.zeros((4, 2))
    kv.pull(3, out=out)
    assert seen == ["row_sparse"] * 2
    assert out.asnumpy()[:, 0].tolist() == [4, 0, 0, 0]
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=1.0, lazy_update=True, wd=0.5))
    kv.push(3, rows([[1, 1]], [0]))
    kv.pull(3, out=out)
    assert out.asnumpy()[:, 0].tolist() == [4 - 1 - 2, 0, 0, 0]
