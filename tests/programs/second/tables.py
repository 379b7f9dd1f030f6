"""Bookkeeping beside a network: ids, counts and scores in arrays of integers, numbers in round form, draws that are refused."""

import json

import numpy as onp
from common import normal
from mxnet import np, npx

npx.set_np()
MISSING = 2**40


def ids():
    """A table of the places of words, where what is not there is marked by a number that is too large."""
    table = np.zeros((4, 3), dtype="int32")
    for k, word in enumerate([5, MISSING, 7, float("nan")]):
        table[k, 0] = word
        table[k, 1:] = k
    table[table == 2] = -MISSING
    counts = np.zeros((5,), dtype="uint8")
    counts[0], counts[1], counts[2:4] = 300, -1, 2.9
    counts[4] = MISSING + 7
    scores = np.zeros((3,), dtype="int8")
    scores[:] = onp.array([1e20, onp.nan, -2.7])
    whole = np.zeros((3,), dtype="int32")
    whole[:] = MISSING + 5
    return [*onp.ravel(table.asnumpy()), *counts.asnumpy(), *scores.asnumpy(), *whole.asnumpy()]


def rounded():
    """To the last bit: what is printed shows it."""
    made = [
        np.array(normal(1, 30)) * 30,
        npx.softmax(np.array(normal(2, 10))),
        np.array([0.83, 0.5, -0.5]),
    ]
    bits = []
    for x in made:
        for places in (0, 1, 2, 3):
            bits += x.round(places).asnumpy().view("int32").tolist()
    return bits


def refused():
    """Parameters that are not computed yet, which no distribution takes."""
    scale = np.ones((3,)) - 2
    draws = (
        lambda: np.random.normal(0, scale), lambda: np.random.gamma(1.0, scale), lambda: np.random.exponential(scale),
        lambda: np.random.beta(1.0, scale), lambda: np.random.weibull(scale), lambda: np.random.laplace(0, scale),
        lambda: np.random.multinomial(10, np.array([0.5, 0.7])),
        lambda: np.random.multivariate_normal(np.zeros(2), -np.eye(2)),
    )  # fmt: skip
    told = []
    for draw in draws:
        try:
            draw().asnumpy()
            told.append(0)
        except (ValueError, RuntimeError):  # MXNetError is one, too
            told.append(1)
    return told


def dtypes():
    """With NumPy's dtypes asked for."""
    npx.set_np(dtype=True)
    given = [
        np.array(onp.ones(2, d)).dtype.itemsize
        for d in ("float16", "float32", "float64", "int8", "int64")
    ]
    made = [np.array([1, 2]).dtype.itemsize, np.array(1.5).dtype.itemsize, np.tri(2).dtype.itemsize]
    npx.set_np(dtype=False)
    return [*given, *made]


def main():
    return [*ids(), *rounded(), *refused(), *dtypes()]


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
