"""`mx.nd.random`, where MXNet 1 and 2 mean different things by one name."""

from __future__ import annotations

import numpy as onp
import pytest

import mxjax as mx

DRAWS = {
    "uniform": (0, 1),
    "normal": (0, 1),
    "randn": (2,),
    "randint": (3, 4),
    "gamma": (2, 1),
    "exponential": (2,),
    "poisson": (2,),
    "negative_binomial": (2, 0.5),
    "generalized_negative_binomial": (2, 0.5),
    "binomial": (2, 0.5),
}


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


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("arrays", [False, True])
def test_an_unknown_keyword_is_refused(name, arrays):
    """It was taken and ignored: MXNet names the arguments that there are, too."""
    args = DRAWS[name]
    if arrays and name not in ("randn", "randint", "binomial"):
        args = tuple(mx.nd.array([float(a)]) for a in args)
    with pytest.raises(mx.MXNetError, match="shap.*Possible Arguments"):
        getattr(mx.nd.random, name)(*args, shap=(2, 3))


@pytest.mark.parametrize("name", DRAWS)
def test_what_is_written_into_gives_the_shape(name):
    out = mx.nd.full((2,), -5, dtype="int32" if name == "randint" else "float32")
    assert getattr(mx.nd.random, name)(*DRAWS[name], out=out) is out
    if name == "randint":
        assert out.asnumpy().tolist() == [3, 3]
    elif name != "normal" and name != "randn":
        assert (out.asnumpy() >= 0).all()
    else:
        assert (out.asnumpy() != -5).all()


def test_trials_are_written_into_an_array():
    out = mx.nd.zeros((1, 2), dtype="float32")
    n, p = mx.nd.array([4.0]), mx.nd.array([[0.0, 1.0]])
    assert mx.nd.random.multinomial(n=n, p=p, out=out) is out
    onp.testing.assert_array_equal(out.asnumpy(), [[0, 4]])


@pytest.mark.parametrize("word", ["ctx", "device"])
def test_npx_takes_the_place_by_both_of_its_names(word):
    drawn = []
    for _ in range(2):
        mx.npx.random.seed(3, **{word: mx.cpu()})
        drawn.append(mx.np.random.uniform(size=2).tolist())
    assert drawn[0] == drawn[1]
