"""`mx.nd.random`, where MXNet 1 and 2 mean different things by one name."""

from __future__ import annotations

import mxjax as mx


def test_multinomial_of_mxnet1_gives_outcomes():
    sure = mx.nd.array([[0.0, 1.0], [1.0, 0.0]])
    assert mx.nd.random.multinomial(sure).asnumpy().tolist() == [1, 0]
    drawn, logs = mx.nd.random.multinomial(sure, shape=3, get_prob=True)
    assert drawn.asnumpy().tolist() == [[1] * 3, [0] * 3] and drawn.asnumpy().dtype == "int32"
    assert logs.asnumpy().tolist() == [[0] * 3] * 2
    assert mx.random.multinomial(data=sure, shape=(2,), dtype="float32").asnumpy().tolist() == [
        [1, 1],
        [0, 0],
    ]
    symbol = mx.sym.random.multinomial(mx.sym.var("p"), shape=2)
    assert symbol.eval(p=sure)[0].asnumpy().tolist() == [[1, 1], [0, 0]]
    # MXNet 2: how often each comes.
    assert mx.nd.random.multinomial(
        n=mx.nd.array([4.0]), p=mx.nd.array([[0.0, 1.0]])
    ).asnumpy().tolist() == [[0, 4]]
