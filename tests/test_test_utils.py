"""The helpers for tests."""

from __future__ import annotations

import os
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax import test_utils as tu
from mxjax.errors import MXNetAssertionError, MXNetTypeError, MXNetValueError


def test_the_tolerances_are_mxnets():
    assert tu.default_rtols()[np.dtype("float16")] == 1e-2
    assert tu.default_atols()[np.dtype("float32")] == 1e-3
    assert tu.get_tols(np.float32(1), np.float64(1), None, None) == (1e-4, 1e-3)
    assert tu.get_tols(np.int32(1), np.int64(1), None, None) == (0, 0)
    assert tu.get_tols(np.ones(1), np.ones(1), 0.5, {np.dtype("float64"): 0.25}) == (0.5, 0.25)


def test_almost_equal_arrays_pass():
    tu.assert_almost_equal(np.float32([1, 2]), np.float32([1.0005, 2]))
    tu.assert_almost_equal(1.0, 1.0)
    tu.assert_almost_equal(np.ones((2, 2)), 1.0)
    tu.assert_almost_equal(np.array([np.nan]), np.array([np.nan]), equal_nan=True)
    tu.assert_almost_equal(np.array([np.inf, -np.inf]), np.array([np.inf, -np.inf]))
    tu.assert_almost_equal(np.array([True]), np.array([True]))
    tu.assert_almost_equal(np.zeros((0, 3)), np.zeros((0, 3)))
    tu.assert_almost_equal(mx.np.array([1.0, 2.0]), np.float32([1, 2]))


def test_differences_are_shown_worst_first():
    a = np.zeros((2, 3), "float32")
    b = a.copy()
    b[1, 2], b[0, 1] = 5, 1
    with pytest.raises(MXNetAssertionError) as caught:
        tu.assert_almost_equal(a, b, names=("got", "want"))
    text = str(caught.value)
    assert "got and want differ in 2 of 6 elements (33.3 %)" in text
    assert "rtol=0.0001, atol=0.001" in text
    first, second = (line for line in text.splitlines() if line.startswith("  "))
    # |0 - 1| / (0.001 + 0.0001 * 1) against 5 / (0.001 + 0.0005)
    assert first.startswith("  got[1, 2] = 0.0, want[1, 2] = 5.0: 3333 times")
    assert second.startswith("  got[0, 1] = 0.0, want[0, 1] = 1.0: 909.1 times")


@pytest.mark.parametrize(
    "a, b",
    [
        (np.array([1.0]), np.array([np.nan])),
        (np.array([np.nan]), np.array([np.nan])),
        (np.array([np.inf]), np.array([-np.inf])),
        (np.uint8([0]), np.uint8([255])),
        (np.array([True]), np.array([False])),
        (np.ones(2), np.ones(3)),
    ],
)
def test_different_arrays_fail(a, b):
    with pytest.raises(AssertionError):
        tu.assert_almost_equal(a, b)


def test_broadcasting_can_be_refused():
    tu.assert_almost_equal(np.ones((2, 2)), np.ones(2))
    with pytest.raises(MXNetAssertionError, match=r"shapes differ: \(2, 2\) and \(2,\)"):
        tu.assert_almost_equal(np.ones((2, 2)), np.ones(2), use_broadcast=False)


def test_a_part_of_the_elements_may_differ():
    a, b = np.zeros(10), np.zeros(10)
    b[3] = 1
    tu.assert_almost_equal_with_err(a, b, etol=0.1)
    with pytest.raises(AssertionError, match="1 of 10"):
        tu.assert_almost_equal_with_err(a, b, etol=0.05)


def test_ignoring_nan():
    tu.assert_almost_equal_ignore_nan(np.array([1, np.nan]), np.array([1, 7.0]))
    with pytest.raises(AssertionError):
        tu.assert_almost_equal_ignore_nan(np.array([1, np.nan]), np.array([2, 7.0]))


def test_same_and_almost_equal():
    assert tu.same(np.ones(2), np.ones(2)) and not tu.same(np.ones(2), np.ones(3))
    assert tu.almost_equal(np.ones(2), np.ones(2) + 1e-6)
    assert not tu.almost_equal(np.ones(2), np.ones(2) + 1e-4)


def test_same_array_sees_shared_elements():
    x = mx.np.zeros((3, 2))
    assert tu.same_array(x[0], x[0])
    assert not tu.same_array(x[0], x[1])
    assert not tu.same_array(x, x.copy())
    assert x.asnumpy().sum() == 0


def test_assert_exception():
    tu.assert_exception(int, ValueError, "x")
    with pytest.raises(AssertionError, match="ValueError was not raised"):
        tu.assert_exception(int, ValueError, "1")


def test_random_arrays():
    assert tu.random_arrays((2, 3)).shape == (2, 3)
    a, b = tu.random_arrays((2,), ())
    assert a.dtype == b.dtype == np.float32 and b.shape == ()
    (u,) = tu.random_uniform_arrays((50,), low=2, high=3, dtype="float64")
    assert 2 <= u.min() and u.max() <= 3 and u.dtype == np.float64
    assert sorted(tu.random_sample([1, 2, 3], 3)) == [1, 2, 3]
    with pytest.raises(MXNetValueError, match=r"0 \.\.\. 3, got 4"):
        tu.random_sample([1, 2, 3], 4)
    shapes = [tu.rand_shape_nd(3, 4) for _ in range(50)] + [tu.rand_shape_3d(4, 4, 4)]
    assert all(1 <= side <= 4 for shape in shapes for side in shape)
    assert any(0 in tu.rand_shape_2d(1, 1, allow_zero_size=True) for _ in range(50))


def test_rand_ndarray_is_an_nd_array():
    half = tu.rand_ndarray((6, 5), "csr", density=0.5, dtype="float16")
    assert half.stype == "csr" and half.dtype == np.float16 and (half.asnumpy() != 0).sum() == 15
    x = tu.rand_ndarray((2, 3), dtype="float64")
    assert isinstance(x, mx.nd.NDArray) and not isinstance(x, mx.np.ndarray)
    assert x.shape == (2, 3) and np.dtype(x.dtype) == np.float64
    with pytest.raises(AssertionError, match="unknown storage type"):
        tu.rand_ndarray((2, 3), stype="coo")
    assert tu.create_2d_tensor(2, 2).asnumpy().tolist() == [[0, 0], [1, 1]]
    assert tu.create_vector(3).asnumpy().tolist() == [0, 1, 2]


def test_reductions():
    x = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(
        tu.np_reduce(x, (0, -1), True, np.sum), x.sum((0, 2), keepdims=True)
    )
    np.testing.assert_array_equal(tu.np_reduce(x, None, False, np.max), x.max())
    np.testing.assert_array_equal(tu.collapse_sum_like(x, (3, 1)), x.sum(0).sum(-1, keepdims=True))
    with pytest.raises(MXNetValueError, match="does not broadcast"):
        tu.collapse_sum_like(x, (2, 4))


def test_gradients_against_differences():
    tu.check_numeric_gradient(
        lambda x, y: x * y + x, [np.random.rand(2, 3), np.random.rand(3)], dtype="float64"
    )
    tu.check_numeric_gradient(
        lambda a, b: [a * a, a * b],
        {"a": np.ones(2), "b": np.zeros(2)},
        grad_nodes=["a"],
        rtol=1e-2,
    )


def test_a_wrong_gradient_is_found():
    class Wrong(mx.autograd.Function):
        def forward(self, x):
            return x * 2

        def backward(self, dy):
            return dy * 3

    with pytest.raises(AssertionError, match="backward of 0 and differences of 0 differ in 4"):
        tu.check_numeric_gradient(lambda x: Wrong()(x), [np.ones(4)], dtype="float64")
    with pytest.raises(MXNetTypeError, match="a function or a Block, got int"):
        tu.check_numeric_gradient(3, [np.ones(4)])


def test_hybridized_and_imperative_agree():
    from mxjax.gluon import nn

    def build():
        net = nn.HybridSequential()
        net.add(nn.Dense(3, activation="tanh"), nn.Dense(2))
        return net

    tu.check_gluon_hybridize_consistency(build, [mx.np.array(np.random.rand(4, 5))])
    named = []  # builders of MXNet 1.9 take a prefix, and a layer of long names has another one each time

    def dense(prefix=None):
        named.append(prefix)
        return nn.Dense(2, prefix=prefix)

    tu.check_gluon_hybridize_consistency(dense, [mx.np.array(np.random.rand(4, 5))])
    tu.check_gluon_hybridize_consistency(lambda: dense(None), [mx.np.array(np.random.rand(4, 5))])
    assert named == ["net_", "net_", None, None]


def test_devices():
    assert tu.default_device() == mx.current_device()
    assert list(tu.list_gpus()) == list(range(mx.num_gpus()))


def test_stderr_can_be_discarded(capfd):
    with tu.discard_stderr():
        os.write(2, b"nobody sees this")
    print("but this", file=sys.stderr)
    assert capfd.readouterr().err == "but this\n"


def test_download_of_a_file_that_is_there(tmp_path):
    source = tmp_path / "source.txt"
    source.write_text("content")
    path = tu.download(source.as_uri(), dirname=str(tmp_path / "new"))
    assert path == str(tmp_path / "new" / "source.txt")
    assert Path(path).read_text() == "content"


def test_environment_is_put_back(monkeypatch):
    from mxjax.util import getenv, setenv

    monkeypatch.setenv("MX_ONE", "1")
    monkeypatch.delenv("MX_TWO", raising=False)
    with pytest.raises(ZeroDivisionError), tu.environment({"MX_ONE": None, "MX_TWO": "2"}):
        assert getenv("MX_ONE") is None and os.environ["MX_TWO"] == "2"
        setenv("MX_TWO", None)
        1 / 0  # noqa: B018
    assert getenv("MX_ONE") == "1" and getenv("MX_TWO") is None
    with pytest.raises(TypeError, match="a dict, or a name and a value"), tu.environment("MX_ONE"):
        pass


def test_a_setting_that_is_read_at_each_use_follows_the_environment(tmp_path):
    before = mx.base.data_dir()
    with tu.environment("MXNET_HOME", str(tmp_path)):
        assert mx.base.data_dir() == str(tmp_path)
    assert mx.base.data_dir() == before


def test_checks_of_generators_tell_right_from_wrong():
    rng = np.random.RandomState(5)
    buckets, probs = tu.gen_buckets_probs_with_ppf(lambda q: q * 2 - 1, 4)
    assert buckets == [(-1.0, -0.5), (-0.5, 0.0), (0.0, 0.5), (0.5, 1.0)] and probs == [0.25] * 4

    def right(n):
        return rng.uniform(-1, 1, n)

    def wrong(n):
        return rng.uniform(-1, 1, n) ** 3

    p, observed, expected = tu.chi_square_check(right, buckets, probs, 4000)
    assert observed.sum() == 4000 and expected.tolist() == [1000] * 4 and p > 1e-4
    assert len(tu.verify_generator(right, buckets, probs, 4000)) == 5
    with pytest.raises(MXNetAssertionError, match="fails the chi-square test"):
        tu.verify_generator(wrong, buckets, probs, 4000)
    assert (
        tu.chi_square_check(lambda n: rng.randint(0, 3, n), [0, 1, 2], [1 / 3] * 3, 3000)[0] > 1e-4
    )
    assert tu.mean_check(right, 0, 3**-0.5, 4000) and not tu.mean_check(right, 0.1, 3**-0.5, 4000)
    assert tu.var_check(right, 3**-0.5, 4000) and not tu.var_check(right, 0.7, 4000)
    with pytest.raises(MXNetValueError, match="ascending"):
        tu.chi_square_check(right, [(0, 1), (-1, 0)], [0.5, 0.5], 10)


def test_optimizers_are_compared_with_their_states():
    shapes = [(2, 3), (4,)]
    tu.compare_optimizer(
        mx.optimizer.create("adam"), mx.optimizer.create("adam"), shapes, "float32"
    )
    with pytest.raises(MXNetAssertionError):
        tu.compare_optimizer(
            mx.optimizer.create("adam"), mx.optimizer.create("adam", beta1=0.8), shapes, "float32"
        )
    noisy = [mx.optimizer.create("sgld", learning_rate=0.1) for _ in range(2)]
    tu.compare_optimizer_noise_seeded(*noisy, shapes, "float32", noise_seed=3)
    with pytest.raises(MXNetAssertionError):
        tu.compare_optimizer(*noisy, shapes, "float32")  # other noise


def test_matrices_with_real_eigenvalues():
    np.random.seed(1)
    one = tu.new_matrix_with_real_eigvals_nd((2, 4, 4))
    assert one.shape == (2, 4, 4) and np.abs(np.linalg.eigvals(one).imag).max() < 1e-6
    two = tu.new_sym_matrix_with_real_eigvals_nd((4, 4))
    np.testing.assert_allclose(two, two.T, atol=1e-12)
    q = tu.new_orthonormal_matrix_2d(3)
    np.testing.assert_allclose(q @ q.T, np.eye(3), atol=1e-12)


def test_a_function_of_each_element():
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(tu.assign_each(x, lambda v: v * 2), x * 2)
    np.testing.assert_array_equal(tu.assign_each2(x, x, lambda v, w: v * w), x * x)
    assert tu.assign_each(x, None) is not x
    with pytest.raises(AssertionError):
        tu.assign_each2(x, x.T, lambda v, w: v)


def test_retry_gives_a_test_of_random_numbers_more_attempts():
    attempts = []

    @tu.retry(3)
    def sometimes():
        attempts.append(1)
        assert len(attempts) > 2

    sometimes()
    assert len(attempts) == 3
    with pytest.raises(AssertionError):
        tu.retry(2)(lambda: tu.checkShapes(np.ones(1), np.ones(2)))()


def test_the_first_batch_for_ever():
    it = tu.DummyIter(mx.io.NDArrayIter(np.arange(4), batch_size=2))
    assert [next(it).data[0].asnumpy().tolist() for _ in range(3)] == [[0, 1]] * 3


def test_files_are_unpacked(tmp_path):
    import bz2
    import zipfile

    (tmp_path / "origin.bz2").write_bytes(bz2.compress(b"words"))
    tu.get_bz2_data(str(tmp_path), "words.txt", "file:///nowhere", "origin.bz2")
    assert (tmp_path / "words.txt").read_bytes() == b"words" and not (
        tmp_path / "origin.bz2"
    ).exists()
    with zipfile.ZipFile(tmp_path / "source.zip", "w") as packed:
        packed.writestr("inside.txt", "text")
    target = tmp_path / "target"
    tu.get_zip_data(str(target), (tmp_path / "source.zip").as_uri(), "source.zip")
    assert (target / "inside.txt").read_text() == "text"


def test_a_model_is_fetched_by_name(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "b.params").write_bytes(b"x")
    urls = {"symbol": (tmp_path / "a.json").as_uri(), "params": (tmp_path / "b.params").as_uri()}
    prefix, epoch = tu.download_model("small", str(tmp_path / "models"), {"small": urls})
    assert epoch == 0 and Path(f"{prefix}-symbol.json").read_text() == "{}"
    assert Path(f"{prefix}-0000.params").exists()
    assert tu.download_model("unheard of") == (None, 0)


def test_sparse_matrices_of_scipy_are_shuffled_within_rows():
    import scipy.sparse

    csr = scipy.sparse.random(6, 40, 0.5, format="csr", random_state=1)
    before = csr.copy()
    np.random.seed(2)
    tu.shuffle_csr_column_indices(csr)
    assert (csr.indices != before.indices).any()
    for begin, end in zip(csr.indptr[:-1], csr.indptr[1:], strict=True):
        assert sorted(csr.indices[begin:end]) == sorted(before.indices[begin:end])


def test_symbols_are_checked_against_values_gradients_and_differences():
    x, y = mx.sym.var("x"), mx.sym.var("y")
    net = x * y + mx.sym.exp(x)
    a, b = np.random.rand(2, 2), np.random.rand(2, 2)
    ones = [np.ones((2, 2))]
    tu.check_symbolic_forward(net, [a, b], [a * b + np.exp(a)])
    with pytest.raises(MXNetAssertionError, match="EXPECTED"):
        tu.check_symbolic_forward(net, {"x": a, "y": b}, [a * b])
    with pytest.raises(MXNetValueError, match="location must name"):
        tu.check_symbolic_forward(net, {"x": a}, [a])
    tu.check_symbolic_backward(net, [a, b], ones, {"x": b + np.exp(a), "y": a})
    tu.check_symbolic_backward(
        net, [a, b], ones, [b + np.exp(a), a], grad_req={"x": "add", "y": "null"}
    )
    with pytest.raises(MXNetAssertionError, match="BACKWARD_x"):
        tu.check_symbolic_backward(net, [a, b], ones, {"x": b})
    tu.check_numeric_gradient(net, [a, b], numeric_eps=1e-3, rtol=1e-2)
    tu.check_numeric_gradient(
        net, [a, b], numeric_eps=1e-3, rtol=1e-2, grad_nodes={"x": "add", "y": "null"}
    )
    with pytest.raises(
        MXNetAssertionError, match="NUMERICAL_x"
    ):  # the gradient of BlockGrad is no derivative
        tu.check_numeric_gradient(
            mx.sym.BlockGrad(x) * 1.0 + x * 0.5, {"x": a}, numeric_eps=1e-3, rtol=1e-2
        )
    np.testing.assert_allclose(tu.simple_forward(net, x=a, y=b), a * b + np.exp(a), rtol=1e-5)
    assert tu.same_symbol_structure(
        net, mx.sym.load_json(net.tojson())
    ) and not tu.same_symbol_structure(net, x * y)
    assert tu.check_speed(net, {"x": a, "y": b}, N=2) > 0
    assert tu.check_speed(net, N=2, typ="forward", x=(2,), y=(2,)) > 0


def test_a_symbol_in_several_dtypes():
    net = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=3, name="f")
    where = [
        {"ctx": mx.cpu(), "x": (2, 3), "type_dict": {"x": dtype}}
        for dtype in (np.float64, np.float32)
    ]
    truth = tu.check_consistency(net, where)
    assert sorted(truth) == ["f_bias", "f_output", "f_weight", "x"]
    other = mx.sym.FullyConnected(mx.sym.var("x") * 2, num_hidden=3, name="f")
    with pytest.raises(MXNetAssertionError, match="Predict Err: ctx 1 vs ctx 0 at f_output"):
        tu.check_consistency([net, other], where)


@pytest.mark.parametrize("price", [1e4, 1e-4])
def test_both_points_of_a_difference_are_computed_by_the_same_code(price):
    """Many results in float32: another program's rounding, divided by eps, would be more than the tolerance."""
    x = mx.nd.array(np.random.default_rng(3).uniform(0, 1, (3, 7, 7)), dtype="float32")
    tanh = mx.sym.tanh(mx.sym.var("data")) * 3
    shown = []

    class Watched:
        def __init__(self, executor):
            self.executor = executor
            self.arg_dict, self.aux_dict = executor.arg_dict, executor.aux_dict

        def forward(self, is_train):
            before = mx.engine.stats()["interpreted"]
            made = self.executor.forward(is_train=is_train)
            made[0].asnumpy()
            shown.append(mx.engine.stats()["interpreted"] - before)
            return made

    with mx.config.scope(engine_compile_price=price):
        executor = Watched(tanh.bind(mx.cpu(), [x]))
        numeric = tu.numeric_grad(executor, {"data": x.asnumpy()}, eps=1e-2)
    by_numpy = shown[-1]
    assert bool(by_numpy) is (price > 1)
    assert shown[2:] == [by_numpy] * 2 * x.size  # after the two that decide
    np.testing.assert_allclose(numeric["data"], 3 - 3 * np.tanh(x.asnumpy()) ** 2, atol=1e-3)


def test_differences_begin_with_all_arguments_given():
    run = (mx.sym.Variable("a") * mx.sym.Variable("b")).simple_bind(mx.cpu(), a=(2,), b=(2,))
    found = tu.numeric_grad(run, {"a": np.array([1.0, 2.0]), "b": np.array([3.0, 4.0])}, eps=1e-2)
    np.testing.assert_allclose(found["a"], [3, 4], rtol=1e-3)
    np.testing.assert_allclose(found["b"], [1, 2], rtol=1e-3)


def test_arrays_in_another_order_are_compared_block_by_block(monkeypatch):
    from mxjax.test_utils import compare

    monkeypatch.setattr(compare, "_BLOCK", 1 << 14)
    a = np.arange(1 << 20, dtype="uint8").reshape(1 << 10, 1 << 10)
    turned = np.ascontiguousarray(a.T)
    tracemalloc.start()
    try:
        tu.assert_allclose(a.T, turned)
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken < 8 * a.size  # less than one array of 64 bits
    turned[3, 5] += 1
    with pytest.raises(AssertionError, match=r"1 of 1048576 elements .*\n.*\[3, 5\]"):
        tu.assert_allclose(a.T, turned)
