"""Methods against NumPy's, and against what each kind of array has in MXNet."""

import numpy as onp
import pytest

import mxjax as mx

A = onp.array([[1.5, -2.0, 3.0], [0.0, 5.0, -6.5]], "float32")

NUMPY = """x.sum() x.sum(0) x.sum(axis=1,keepdims=True) x.mean() x.mean(axis=0) x.std() x.var(axis=0) x.max()
x.min(1) x.argmax() x.argmin(1) x.prod() x.cumsum(0) x.clip(-1,2) x.clip(min=0) x.clip(max=1)
x.round() x.T x.transpose() x.transpose(1,0) x.transpose((1,0)) x.swapaxes(0,1) x.reshape(3,2)
x.reshape((3,-1)) x.reshape(-1) x.flatten() x.ravel() x.repeat(2) x.repeat(2,0) x.take([0,2],axis=1)
x.dot(x.T) x[None].squeeze() x.squeeze() x.diagonal() x.trace() x.argsort(1) x.nonzero()[1]
x.tolist() x.item(4) x[0,0].item() abs(x) -x (x>0).any() (x>0).all(0) x.size x.ndim x.nbytes
x.itemsize x.copy() x.astype('int32') divmod(x,2)[1] float(x[0,0]) int(x[0,0]) bool(x[0,0])
complex(x[0,0]) len(x) 5.0.in.x""".split()


@pytest.mark.parametrize("expression", [e.replace(".in.", " in ") for e in NUMPY])
def test_as_numpy(expression):
    want = eval(expression, {"x": A.copy()})
    got = eval(expression, {"x": mx.np.array(A)})
    if isinstance(got, mx.np.ndarray):
        got = got.asnumpy()
    onp.testing.assert_allclose(got, want, rtol=1e-5)


def test_fill():
    for x in (mx.np.array(A), mx.nd.array(A)):
        x[0].fill(7)
        assert x.asnumpy()[0].tolist() == [7, 7, 7]


def test_sort_gives_a_new_array():
    x = mx.np.array(A)
    onp.testing.assert_array_equal(x.sort(1).asnumpy(), onp.sort(A, 1))
    onp.testing.assert_array_equal(x.asnumpy(), A)


def test_matrix_transpose():
    assert mx.np.ones((2, 3, 4)).mT.shape == (2, 4, 3)
    with pytest.raises(ValueError, match="at least 2-dimensional"):
        mx.np.ones(2).mT  # noqa: B018


def test_errors_of_reshape():
    x = mx.np.ones((2, 3))
    with pytest.raises(mx.MXNetError, match=r"Cannot reshape array of shape \[2, 3\]"):
        x.reshape(4, 2)
    with pytest.raises(mx.MXNetError, match="one unknown dimension"):
        x.reshape(-1, -1)
    with pytest.raises(NotImplementedError, match="C-order"):
        x.reshape(3, 2, order="F")
    with pytest.raises(mx.MXNetError):
        mx.np.ones((2, 0)).reshape(0, -1)
    with pytest.raises(ValueError, match="must set either max or min"):
        x.clip()


CODES = [
    ((2, 3, 4), (0, -1), (2, 12)),
    ((2, 3, 4), (4, 0, 2), (4, 3, 2)),
    ((2, 3, 4), (-2,), (2, 3, 4)),
    ((2, 3, 4), (2, -2), (2, 3, 4)),
    ((2, 3, 4), (-2, 1, 1), (2, 3, 4, 1, 1)),
    ((2, 3, 4), (-3, 4), (6, 4)),
    ((2, 3, 4, 5), (-3, -3), (6, 20)),
    ((2, 3, 4), (0, -3), (2, 12)),
    ((2, 3, 4), (-3, -2), (6, 4)),
    ((2, 3, 4), (-4, 1, 2, -2), (1, 2, 3, 4)),
    ((2, 3, 4), (2, -4, -1, 3, -2), (2, 1, 3, 4)),
]


@pytest.mark.parametrize("old, codes, new", CODES)
def test_codes_of_reshape(old, codes, new):
    """The examples of MXNet's documentation."""
    x = mx.nd.ones(old)
    assert x.reshape(codes).shape == new
    assert x.reshape(shape=codes).shape == new


def test_codes_from_the_right():
    x = mx.nd.ones((10, 5, 4))
    assert x.reshape((-1, 0)).shape == (40, 5)
    assert x.reshape((-1, 0), reverse=True).shape == (50, 4)
    assert mx.nd.ones((2, 3, 64)).reshape((-3, 16, -1, -4), reverse=True).shape == (
        6,
        16,
        4,
    )  # as MXNet gives it
    with pytest.raises(mx.MXNetError, match="Cannot reshape"):
        mx.nd.ones((64,)).reshape((-4, 16, 4), reverse=True)
    with pytest.raises(mx.MXNetError, match="Cannot reshape"):
        x.reshape((0, 0, 0, 0))


ND = """x.sum():(1,) x.sum(axis=0):(3,) x.sum(axis=0,exclude=True):(2,) x.mean():(1,) x.norm():(1,) x.flatten():(2,3)
x.expand_dims(0):(1,2,3) x.split(3)[0]:(2,1) x.slice_axis(1,0,2):(2,2) x.slice((0,1),(2,3)):(2,2) x.tile((2,1)):(4,3)
x.softmax():(2,3) x.one_hot(4):(2,3,4) x.topk(k=2):(2,2) x.transpose(axes=(1,0)):(3,2) x.broadcast_like(x):(2,3)
x.reshape_like(x.T):(3,2) x.zeros_like():(2,3) x.tostype('default'):(2,3) x.shape_array():(2,) x.swapaxes(0,1):(3,2)
x.squeeze():(2,3) x.diag():(2,) x.argmax(axis=1):(2,) x.pick(x[:,0]*0):(2,) x.exp():(2,3)""".split()


@pytest.mark.parametrize("case", ND)
def test_shapes_of_nd(case):
    expression, shape = case.rsplit(":(", 1)
    got = eval(expression, {"x": mx.nd.array(A)})
    assert type(got) is mx.nd.NDArray
    assert got.shape == eval("(" + shape)


IN_PLACE = [
    ("int32", "x += 1.5"),
    ("int32", "x += y"),
    ("int32", "x /= 2"),
    ("float32", "x += y.astype('float64')"),
]


@pytest.mark.parametrize("dtype, statement", IN_PLACE)
def test_in_place_keeps_the_dtype(dtype, statement):
    x = mx.np.array([1, 2], dtype=dtype)
    with pytest.raises(mx.MXNetError, match="Type inconsistent"):
        exec(statement, {"x": x, "y": mx.np.ones(2)})
    assert x.asnumpy().tolist() == [1, 2]


def test_in_place_keeps_the_shape_and_the_object():
    x = y = mx.np.ones((1, 3))
    with pytest.raises(mx.MXNetError, match="shape"):
        x += mx.np.ones((2, 3))
    x += mx.np.ones(3)
    x -= 1
    x *= 6
    x /= 2
    x //= 2
    x **= 2
    assert x is y and y.asnumpy().tolist() == [[1, 1, 1]]


@pytest.mark.parametrize("version, changes", [("1.9", ""), ("2.0", "np")])
def test_a_power_in_place_names_another_array_but_in_np_of_mxnet_2(version, changes):
    with mx.config.scope(compat_version=version):
        for kind in ("nd", "np", "csr", "row_sparse"):
            x = mx.np.array([[2.0, 0]]) if kind == "np" else mx.nd.array([[2, 0]])
            x = y = x.tostype(kind) if kind in ("csr", "row_sparse") else x
            x **= 2
            assert x.asnumpy().tolist() == [[4, 0]]
            assert y.asnumpy().tolist() == ([[4, 0]] if kind == changes else [[2, 0]])


def test_operands_that_are_no_arrays():
    x = mx.np.ones(2)
    for wrong in (None, "a"):
        with pytest.raises(mx.MXNetError, match="expected float but get"):
            x + wrong
    with pytest.raises(TypeError):
        x + object()
    assert (x == None) is False  # noqa: E711
    assert ([1, 2] + x).asnumpy().tolist() == [2, 3]


def test_copyto():
    x = mx.np.array([1.7, 2.7])
    i = mx.np.zeros(2, dtype="int32")
    assert x.copyto(i) is i and i.asnumpy().tolist() == [1, 2]
    with pytest.warns(RuntimeWarning, match="itself"):
        assert x.copyto(x) is False
    with pytest.raises(mx.MXNetError, match="shape"):
        x.copyto(mx.np.zeros(3))
    with pytest.raises(TypeError, match="does not support type"):
        x.copyto("x")


def test_an_array_given_by_its_name_counts_at_every_call():
    x, lengths = mx.np.ones((4, 2)), mx.np.array([1, 3])
    for _ in range(3):
        cut = mx.npx.sequence_mask(x, sequence_length=lengths, use_sequence_length=True)
        assert cut.asnumpy().tolist() == [[1, 1], [0, 1], [0, 1], [0, 0]]


def test_lists_stand_for_tuples_among_arguments():
    for _ in range(2):
        assert mx.np.transpose(mx.np.ones((2, 3)), [1, 0]).shape == (3, 2)


@pytest.mark.parametrize("name", ["split", "array_split", "hsplit", "vsplit", "dsplit"])
def test_one_part_is_a_list_of_one(name):
    for _ in range(2):  # the second call is the remembered one
        (part,) = getattr(mx.np, name)(mx.np.ones((2, 3, 4)), 1)
        assert part.shape == (2, 3, 4)
    assert mx.nd.split(mx.nd.ones((2, 3)), 1).shape == (2, 3)


def test_an_operator_of_nd_without_arguments_ignores_what_it_is_given():
    made = mx.nd.broadcast_maximum(mx.nd.array([0]), mx.nd.array([-1, 2]), axis=1)
    assert made.asnumpy().tolist() == [0, 2]
    with pytest.raises(TypeError, match="axis"):
        mx.np.maximum(mx.np.zeros(1), mx.np.zeros(1), axis=1)
