"""Sparse arrays: what MXNet 2 says of them (types, parts, errors), and NumPy's and SciPy's numbers."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, nd

sparse = nd.sparse
DENSE = np.array([[0, 0.5, 0], [0, 0, 0], [0.25, 0, 0.75], [0, 0, 0]], "float32")


@pytest.fixture
def x():
    return nd.array(DENSE)


@pytest.fixture
def rows(x):
    return x.tostype("row_sparse")


@pytest.fixture
def csr(x):
    return x.tostype("csr")


def parts(a):
    """What an array keeps, as lists."""
    found = [a.indices.asnumpy().tolist(), a.data.asnumpy().tolist()]
    return found if a.stype == "row_sparse" else [a.indptr.asnumpy().tolist(), *found]


def test_parts_of_an_array(rows, csr):
    assert parts(rows) == [[0, 2], [[0, 0.5, 0], [0.25, 0, 0.75]]]
    assert parts(csr) == [[0, 1, 1, 3, 3], [1, 0, 2], [0.5, 0.25, 0.75]]
    assert rows.indices.dtype == csr.indptr.dtype == np.int64
    assert (rows.shape, rows.ndim, len(csr), rows.dtype, csr.context) == (
        (4, 3),
        2,
        4,
        np.float32,
        mx.cpu(0),
    )
    assert repr(rows) == "\n<RowSparseNDArray 4x3 @cpu(0)>"
    assert str(csr) == "\n<CSRNDArray 4x3 @cpu(0)>"
    for a in (rows, csr):
        np.testing.assert_array_equal(a.asnumpy(), DENSE)
        with pytest.raises(NotImplementedError):
            a.size  # noqa: B018
        with pytest.raises(NotImplementedError):
            a.data = a.data
        with pytest.raises(mx.base.NotSupportedForSparseNDArray):
            a.reshape((3, 4))
        with pytest.raises(ValueError, match="ambiguous"):
            bool(a)


# What MXNet 2.0 makes of each operator on (row_sparse, csr): its storage type.
KEPT = """abs arcsin arcsinh arctan arctanh cbrt ceil degrees expm1 fix floor log1p make_loss negative radians relu rint
round sign sin sinh sqrt square stop_gradient tan tanh trunc zeros_like identity""".split()
DENSIFIED = "cos exp sigmoid gamma log arccos digamma ones_like sum".split()


@pytest.mark.parametrize("name", KEPT)
def test_functions_that_keep_zeros(name, x, rows, csr):
    want = getattr(nd, name)(x).asnumpy()
    for a in (rows, csr):
        made = getattr(nd, name)(a)
        assert made.stype == a.stype
        np.testing.assert_allclose(made.asnumpy(), want, rtol=1e-6)
        if hasattr(a, name):
            assert getattr(a, name)().stype == a.stype


@pytest.mark.parametrize("name", DENSIFIED)
def test_other_functions_work_on_dense_arrays_and_are_counted(name, x, csr):
    before = mx.engine.stats()["dense_fallbacks"]
    made = getattr(nd, name)(csr)
    assert made.stype == "default"
    assert mx.engine.stats()["dense_fallbacks"] == before + 1
    np.testing.assert_allclose(made.asnumpy(), getattr(nd, name)(x).asnumpy(), rtol=1e-5)


# (operator, storage types of both) -> that of the result, in MXNet 2.0.
BINARY = {
    "elemwise_add": {"rr": "row_sparse", "cc": "csr", "dr": "default", "rc": "default", "cd": "default"},
    "elemwise_sub": {"rr": "row_sparse", "cc": "csr", "dr": "default", "rc": "default", "cd": "default"},
    "elemwise_mul": {
        "rr": "row_sparse", "cc": "csr", "dr": "row_sparse", "rd": "row_sparse", "dc": "csr", "rc": "default",
    },
    "elemwise_div": {"rr": "default", "cc": "default", "cd": "default"},
    "broadcast_add": {"rr": "default", "cd": "default"},
    "broadcast_mul": {"rr": "default", "cd": "csr", "dc": "default", "rd": "default"},
    "add_n": {"rr": "row_sparse", "cc": "default", "rd": "default"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kinds", "stype"), [(n, k, s) for n, found in BINARY.items() for k, s in found.items()]
)
def test_functions_of_two(name, kinds, stype):
    rng = np.random.default_rng(3)
    a, b = (
        np.where(rng.random((5, 4)) < 0.4, rng.random((5, 4)), 0).astype("float32")
        for _ in range(2)
    )
    a[1] = b[2] = 0
    stypes = {"d": "default", "r": "row_sparse", "c": "csr"}
    made = getattr(nd, name)(
        *[nd.array(v).tostype(stypes[k]) for v, k in zip((a, b), kinds, strict=True)]
    )
    assert made.stype == stype
    numpy = {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "div": np.divide,
        "add_n": np.add,
    }
    with np.errstate(all="ignore"):
        want = numpy[name.removeprefix("elemwise_").removeprefix("broadcast_")](a, b)
    np.testing.assert_allclose(made.asnumpy(), want, rtol=1e-6)


def test_python_operators(rows, csr, x):
    for a in (rows, csr):
        stypes = {
            "default": [
                *(
                    a + 1,
                    a - 2,
                    1 - a,
                    2 / a,
                    a**2,
                    a % 2,
                    a == 0,
                    a != 2,
                    a < 2,
                    a >= 0,
                    a / a,
                    a == a,
                    x * a,
                    x + a,
                )
            ],
            a.stype: [
                *(
                    a + 0,
                    a - 0,
                    a * 2,
                    2 * a,
                    a / 2,
                    a == 2,
                    a != 0,
                    a < 0,
                    0 < a,
                    a > 2,
                    a + a,
                    a - a,
                    a * a,
                    a * x,
                ),
                -a,
            ],
        }
        for stype, made in stypes.items():
            assert [m.stype for m in made] == [stype] * len(made)
        np.testing.assert_array_equal((2 * a - a * x).asnumpy(), 2 * DENSE - DENSE * DENSE)
        b = a.copy()
        b += a
        b *= 2
        assert b.stype == a.stype
        np.testing.assert_array_equal(b.asnumpy(), 4 * DENSE)
        np.testing.assert_array_equal(a.asnumpy(), DENSE)


def test_sums_of_rows_keep_the_rows_of_both(rows):
    other = sparse.row_sparse_array(([[1, 1, 1.0]], [1]), shape=(4, 3))
    assert parts(rows + other)[0] == [0, 1, 2]
    assert parts(rows - rows) == [[0, 2], [[0, 0, 0], [0, 0, 0]]]
    assert parts(nd.add_n(rows, rows, other)) == [[0, 1, 2], [[0, 1, 0], [1, 1, 1], [0.5, 0, 1.5]]]


def test_retain(rows, csr, x):
    assert parts(sparse.retain(rows, nd.array([0, 1, 3]))) == [
        [0, 1, 3],
        [[0, 0.5, 0], [0, 0, 0], [0, 0, 0]],
    ]
    assert parts(rows.retain(nd.array([2], dtype="int64"))) == [[2], [[0.25, 0, 0.75]]]
    assert parts(sparse.retain(sparse.zeros("row_sparse", (4, 3)), nd.array([0, 1]))) == [[], []]
    for wrong in (x, csr):
        with pytest.raises(mx.MXNetError, match="row_sparse"):
            sparse.retain(wrong, nd.array([0]))


# dot of these storage types, transposed or not -> the result's in MXNet 2.0.
DOT = {
    ("csr", "default", False, False): "default", ("csr", "default", True, False): "row_sparse",
    ("csr", "row_sparse", False, False): "default", ("csr", "row_sparse", True, False): "row_sparse",
    ("default", "csr", False, False): "csr", ("default", "csr", False, True): "csr",
    ("default", "csr", True, False): "default", ("csr", "csr", False, False): "default",
    ("csr", "default", False, True): "default", ("row_sparse", "default", False, False): "default",
}  # fmt: skip


@pytest.mark.parametrize(("case", "stype"), DOT.items())
def test_dot(case, stype):
    a_stype, b_stype, ta, tb = case
    rng = np.random.default_rng(1)
    a = np.where(rng.random((5, 5)) < 0.4, rng.random((5, 5)), 0).astype("float32")
    b = np.where(rng.random((5, 5)) < 0.5, rng.random((5, 5)), 0).astype("float32")
    b[3] = 0
    left, right = nd.array(a).tostype(a_stype), nd.array(b).tostype(b_stype)
    want = (a.T if ta else a) @ (b.T if tb else b)
    made = nd.dot(left, right, transpose_a=ta, transpose_b=tb)
    assert made.stype == stype
    np.testing.assert_allclose(made.asnumpy(), want, rtol=1e-5)
    for asked in ("default", "row_sparse", "csr"):
        made = sparse.dot(left, right, transpose_a=ta, transpose_b=tb, forward_stype=asked)
        assert made.stype == asked
        np.testing.assert_allclose(made.asnumpy(), want, rtol=1e-5)


def test_batches_of_many_sizes_need_few_programs():
    w = nd.array(np.random.default_rng(0).random((50, 3)).astype("float32"))
    rng = np.random.default_rng(5)

    def product(stored):
        at = rng.choice(400, stored, replace=False)
        x = np.zeros(400, "float32")
        x[at] = 1 + rng.random(stored)
        x = x.reshape(8, 50)
        np.testing.assert_allclose(
            nd.dot(nd.array(x).tostype("csr"), w).asnumpy(), x @ w.asnumpy(), rtol=1e-5
        )

    product(50)
    inferred = mx.engine.stats()["inferred"]
    for stored in (49, 52, 60, 64):
        product(stored)
    assert mx.engine.stats()["inferred"] == inferred


def test_reductions(csr, rows):
    for name, fn in (("sum", np.sum), ("mean", np.mean)):
        for axis in (0, 1):
            for keepdims in (False, True):
                made = getattr(nd, name)(csr, axis=axis, keepdims=keepdims)
                assert made.stype == "default"
                np.testing.assert_allclose(
                    made.asnumpy(), fn(DENSE, axis=axis, keepdims=keepdims), rtol=1e-6
                )
    for a in (csr, rows):
        np.testing.assert_allclose(a.norm().asnumpy(), [np.linalg.norm(DENSE)], rtol=1e-6)
    made = nd._internal._square_sum(rows, axis=1, keepdims=True)
    assert parts(made) == [[0, 2], [[0.25], [0.625]]]
    assert nd._internal._square_sum(rows, axis=0).asnumpy().tolist() == [0.0625, 0.25, 0.5625]
    assert nd.contrib.getnnz(csr).asnumpy().tolist() == [3]
    assert nd.contrib.getnnz(csr, axis=1).asnumpy().tolist() == [1, 0, 2, 0]


def test_rows_of_csr(csr):
    assert parts(csr[1:3]) == [[0, 0, 2], [0, 2], [0.25, 0.75]]
    assert csr[:] is csr
    keys = {1: DENSE[1:2], -1: DENSE[3:], (-2, None): DENSE[2:], (0, 9): DENSE, 5: DENSE[:0]}
    for key, want in ((slice(*k) if isinstance(k, tuple) else k, w) for k, w in keys.items()):
        np.testing.assert_array_equal(csr[key].asnumpy(), want)
    assert parts(nd.slice(csr, begin=(1, 0), end=(3, 2))) == [[0, 0, 1], [0], [0.25]]
    assert nd.slice(csr, begin=(0,), end=(3,), step=(2,)).stype == "default"
    assert parts(nd.take(csr, nd.array([2, 0, 7]))) == [[0, 2, 3, 3], [0, 2, 1], [0.25, 0.75, 0.5]]
    both = nd.concat(csr, csr, dim=0)
    assert both.stype == "csr"
    np.testing.assert_array_equal(both.asnumpy(), np.concatenate([DENSE, DENSE]))
    for key in (None, (0, 1), slice(None, None, 2)):
        with pytest.raises(ValueError):
            csr[key]


def test_assignment(rows, csr, x):
    for a in (rows, csr):
        b = sparse.zeros(a.stype, a.shape)
        b[:] = x
        np.testing.assert_array_equal(b.asnumpy(), DENSE)
        b[:] = a * 2
        np.testing.assert_array_equal(b.asnumpy(), 2 * DENSE)
        with pytest.raises(ValueError):
            b[1:2] = x
    rows[:] = 2
    assert (rows.asnumpy() == 2).all()
    with pytest.raises(ValueError, match="numeric"):
        csr[:] = 1


def test_copies_and_types(rows, csr, x):
    assert rows.astype("int32").dtype == np.int32
    assert csr.astype("float32", copy=False) is csr
    out = nd.zeros((4, 3))
    rows.copyto(out)
    np.testing.assert_array_equal(out.asnumpy(), DENSE)
    assert x.copyto(sparse.zeros("row_sparse", (4, 3))).stype == "row_sparse"
    with pytest.raises(TypeError, match="stype csr"):
        rows.copyto(csr)
    with pytest.raises(ValueError, match="row_sparse to csr"):
        rows.tostype("csr")
    with pytest.raises(mx.MXNetError, match="foo"):
        x.tostype("foo")
    with pytest.raises(ValueError, match="2 Dimensional"):
        nd.array([1, 2]).tostype("csr")
    assert csr.as_in_context(mx.cpu(1)).context == mx.cpu(1)
    for a in (rows, csr):
        again = pickle.loads(pickle.dumps(a))
        assert type(again) is type(a)
        assert parts(again) == parts(a)


def test_creation_refuses_what_does_not_fit(x, rows, csr):
    assert parts(sparse.csr_matrix(([1, 2], [0, 2], [0, 1, 2]))) == [[0, 1, 2], [0, 2], [1, 2]]
    assert parts(sparse.row_sparse_array(([[1, 2], [3, 4]], [1, 4])))[0] == [1, 4]
    assert sparse.csr_matrix((2, 3)).shape == nd.zeros((2, 3), stype="csr").shape == (2, 3)
    assert nd.empty((2, 3), stype="row_sparse").stype == "row_sparse"
    for wrong in (
        lambda: sparse.csr_matrix((1, 2, 3, 4)), lambda: sparse.csr_matrix(rows), lambda: sparse.row_sparse_array(csr),
        lambda: sparse.csr_matrix(x, shape=(1, 2)), lambda: sparse.csr_matrix(([], [], [0])),
        lambda: sparse.row_sparse_array(([1, 2], [1, 4]), shape=(5, 2)), lambda: sparse.zeros("foo", (2, 2)),
        lambda: sparse.array(np.ones((2, 2))), lambda: sparse.empty("foo", (2, 2)),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            wrong()
    with pytest.raises(AssertionError, match="tostype"):
        sparse.array(x)


def test_check_format():
    rows = sparse.row_sparse_array
    csr = sparse.csr_matrix
    rows(([[1, 2], [3, 4]], [1, 4]), shape=(5, 2)).check_format()
    csr(([7, 8, 9], [0, 2, 1], [0, 2, 2, 3]), shape=(3, 4)).check_format()
    rows(([[1, 2], [3, 4]], [1, 7]), shape=(5, 2)).check_format(full_check=False)
    for wrong in (
        rows(([[1, 2], [3, 4]], [4, 1]), shape=(5, 2)), rows(([[1, 2], [3, 4]], [1, 7]), shape=(5, 2)),
        rows(([[1, 2], [3, 4]], [-2, 1]), shape=(5, 2)), csr(([7, 8, 9], [0, 2, 1], [0, 5, 2, 3]), shape=(3, 4)),
        csr(([7, 8, 9], [2, 1, 1], [0, 2, 2, 3]), shape=(3, 4)),
        csr(([7, 8, 9], [1, 2, 1], [0, 2, 2, 4]), shape=(3, 4)),
    ):  # fmt: skip
        with pytest.raises(mx.MXNetError, match="should"):
            wrong.check_format()


def test_scipy_in_and_out(csr):
    scipy = pytest.importorskip("scipy.sparse")
    assert (csr.asscipy() != scipy.csr_matrix(DENSE)).nnz == 0
    given = scipy.csr_matrix(
        (np.array([1, 2, 3, 4, 5, 6, 1.0]), [0, 2, 2, 0, 1, 2, 1], [0, 2, 3, 7]), shape=(3, 3)
    )
    for make in (sparse.array, nd.array, sparse.csr_matrix):
        made = make(given)
        assert made.dtype == np.float64
        made.check_format()
        np.testing.assert_array_equal(made.asnumpy(), given.toarray())


def test_results_go_to_sparse_targets(x, csr):
    out = sparse.zeros("csr", (4, 3))
    nd.broadcast_add(x, x, out=out)
    np.testing.assert_array_equal(out.asnumpy(), 2 * DENSE)
    nd.dot(csr, x, transpose_a=True, out=(out := nd.zeros((3, 3))))
    np.testing.assert_allclose(out.asnumpy(), DENSE.T @ DENSE, rtol=1e-6)


# ---- gradients


def test_the_gradient_of_an_embedding_has_its_rows():
    w = nd.array(np.arange(10.0).reshape(5, 2))
    w.attach_grad(stype="row_sparse")
    with autograd.record():
        y = nd.Embedding(nd.array([[3, 1], [3, 7]]), w, input_dim=5, output_dim=2, sparse_grad=True)
    y.backward()
    assert parts(w.grad) == [[1, 3, 4], [[1, 1], [2, 2], [1, 1]]]
    with autograd.record():
        y = nd.take(w, nd.array([3, 0, 3]))
    y.backward()
    assert parts(w.grad) == [[0, 3], [[1, 1], [2, 2]]]
    with autograd.record():  # used twice, and once densely
        y = (nd.take(w, nd.array([0])) + nd.take(w, nd.array([2]))).sum() + (w * w).sum()
    y.backward()
    want = 2 * w.asnumpy()
    want[[0, 2]] += 1
    np.testing.assert_array_equal(w.grad.asnumpy(), want)
    w.zero_grad()
    assert parts(w.grad) == [[], []]


def test_gradients_add_up_by_row():
    w = nd.ones((5, 2))
    w.attach_grad("add", stype="row_sparse")
    for ids in ([3, 1], [0, 3]):
        with autograd.record():
            y = nd.Embedding(nd.array(ids), w, input_dim=5, output_dim=2, sparse_grad=True)
        y.backward()
    assert parts(w.grad) == [[0, 1, 3], [[1, 1], [1, 1], [2, 2]]]


@pytest.mark.parametrize("stype", ["default", "row_sparse"])
def test_the_gradient_of_a_product_with_csr(stype, csr):
    w = nd.ones((3, 2)).tostype(stype)
    w.attach_grad(stype="row_sparse")
    with autograd.record():
        y = nd.dot(csr, w)
    y.backward()
    assert w.grad.stype == "row_sparse"
    np.testing.assert_allclose(w.grad.asnumpy(), DENSE.T @ np.ones((4, 2)), rtol=1e-6)


def test_rows_that_are_asked_for_where_no_form_leaves_rows():
    x, w = nd.array([[1.0, 2]]), nd.ones((3, 2))
    w.attach_grad(stype="row_sparse")
    with autograd.record():
        y = nd.dot(x, w, transpose_b=True)  # of two dense arrays
    y.backward()
    assert parts(w.grad) == [[0, 1, 2], [[1, 2]] * 3]


def test_gradients_of_sparse_variables(rows, csr):
    for a in (rows, csr):
        a.attach_grad()
        with autograd.record():
            y = nd.sin(a * 2) + a
        y.backward()
        assert a.grad.stype == a.stype
        np.testing.assert_allclose(a.grad.asnumpy(), 2 * np.cos(2 * DENSE) + 1, rtol=1e-5)
        a.attach_grad(stype="default")
        assert a.grad.stype == "default"


def test_gradients_of_sparse_gradients():
    w = nd.array(np.arange(4.0).reshape(2, 2))
    w.attach_grad(stype="row_sparse")
    with autograd.record():
        y = nd.Embedding(nd.array([1, 1]), w, input_dim=2, output_dim=2, sparse_grad=True)
        (g,) = autograd.grad((y**3).sum(), w, create_graph=True)
        z = g.sum()
    z.backward()
    np.testing.assert_allclose(
        w.grad.asnumpy(), [[0, 0], [24, 36]]
    )  # 2 * 6 * w, where a row was used


def test_what_is_refused_of_sparse_arrays(rows):
    ones = nd.ones((3,))
    with pytest.raises(mx.MXNetError, match="fix_gamma"):
        nd.BatchNorm(rows, ones, ones, ones, ones)
    assert nd.BatchNorm(rows, ones, ones, ones, ones, fix_gamma=False).stype == "default"


@pytest.mark.parametrize(
    "stype, length", [("row_sparse", 1 << 40), ("csr", 1 << 40), ("csr", 1 << 61)]
)
def test_a_sparse_array_without_room_for_its_zeros(stype, length):
    one = np.ones(1, np.float32)
    if stype == "csr":
        found = nd.sparse.csr_matrix((one, [0], [0, 1]), shape=(1, length))
    else:
        found = nd.sparse.row_sparse_array((one.reshape(1, 1), [0]), shape=(length, 1))
    with pytest.raises(mx.errors.MXNetMemoryError, match="no room"):
        found.asnumpy()


@pytest.mark.parametrize("stype", ["row_sparse", "csr"])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_nothing_is_cast_to_a_storage_type(stype, shape):
    with mx.util.np_shape(True):
        found = nd.cast_storage(nd.zeros(shape), stype)
        assert (found.stype, found.shape, found.asnumpy().shape) == (stype, shape, shape)


def test_values_at_places_have_the_dtype_that_scipy_gives_them():
    places = ([0, 0, 1], [0, 2, 1])
    for values, dtype in (
        ([1, 2, 3], "int64"),
        ([1.5, 2, 3], "float64"),
        (np.ones(3, "float16"), "float16"),
    ):
        found = mx.nd.sparse.csr_matrix((values, places), shape=(2, 3))
        assert np.dtype(found.dtype) == dtype
        assert found.asnumpy().tolist() == [[values[0], 0, values[1]], [0, values[2], 0]]
    assert mx.nd.sparse.csr_matrix(([1, 2, 3], places), dtype="int8").dtype == np.int8


@pytest.mark.parametrize(
    ("name", "stored", "sums"),  # MXNet 1.9.1
    [
        ("square", [0, 2, 3], [0, 0, 24, 0, 0]),
        ("relu", [0, 2, 3], [0, 0, 4, 0, 0]),
        ("abs", [0, 2, 3], [0, 0, 4, 0, 0]),
        ("sign", [0, 2, 3], [0, 0, 0, 0, 0]),
        ("negative", [2, 3], [0, 0, -4, -4, 0]),
    ],
)
def test_rows_of_gradients_of_functions_that_keep_zeros(name, stored, sums):
    x = sparse.row_sparse_array((np.full((2, 2), 3, "float32"), [0, 2]), shape=(5, 2))
    head = sparse.row_sparse_array((np.full((2, 2), 2, "float32"), [2, 3]), shape=(5, 2))
    x.attach_grad(stype="row_sparse")
    with autograd.record():
        y = getattr(nd, name)(x)
    y.backward(head)
    assert x.grad.indices.asnumpy().tolist() == stored
    assert x.grad.asnumpy().sum(1).tolist() == sums


def test_a_product_with_a_function_of_rows_hands_on_its_rows():
    x = nd.array([[0, 1, 0, 0], [0, 0, 0, 2.0]]).tostype("csr")
    v = nd.array(np.arange(12).reshape(4, 3) + 1.0).tostype("row_sparse")
    for function, stored in ((nd.square, [0, 1, 2, 3]), (nd.negative, [1, 3])):  # MXNet 1.9.1
        v.attach_grad(stype="row_sparse")
        with autograd.record():
            y = sparse.dot(x, function(v))
        y.backward()
        assert v.grad.indices.asnumpy().tolist() == stored


def test_the_private_parts_of_mxnet():
    """Values of MXNet 1.9.1."""
    csr = mx.nd.array([[0, 1, 0], [2, 0, 3]]).tostype("csr")
    parts = csr._aux_data(0), csr._aux_data(1), csr._data()
    assert [p.asnumpy().tolist() for p in parts] == [[0, 1, 3], [1, 0, 2], [1.0, 2.0, 3.0]]
    rows = mx.nd.array([[0, 0], [2, 0], [0, 0]]).tostype("row_sparse")
    assert [p.asnumpy().tolist() for p in (rows._aux_data(0), rows._data())] == [[1], [[2.0, 0.0]]]
    assert csr._aux_type(1) is rows._aux_type(0) is np.int64
