"""Infinities, zeros of both signs, halves, large numbers and singular matrices, as MXNet has them
(tests/record/edges.py), by NumPy's tier and in programs.

Subnormal numbers, which NumPy's tier keeps while XLA and MXNet take them for zero, are not among them, but as quotients
to be rounded down.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon

from ..record.edges_of import (
    BINARY,
    CALLS,
    EDGES,
    GRADIENTS,
    MATRICES,
    NUMBERS,
    PAIRS,
    UNARY,
    called,
)

#: MXNet's sum of exponentials overflows, its digamma is infinite at the poles and of -inf, and its copysign compares
#: with zero, where NumPy's and ours look at the sign, of -0 and NaN, too.
OTHERS = {"logaddexp", "digamma", "copysign"}
RECORDED = json.loads((Path(__file__).parent.parent / "data" / "edges.json").read_text())
TIERS = ["auto", "compile"]


def floats(values):
    return np.array([float(v) for v in values], "float32")


def function(name, two):
    for module in (mx.np, mx.npx) if two else (mx.nd,):
        for spelt in (name, f"broadcast_{name}", f"broadcast_{name.replace('true_divide', 'div')}"):
            if hasattr(module, spelt):
                return getattr(module, spelt)
    raise AttributeError(name)


def differing(got, want, numbers):
    """The numbers at which results differ."""
    want = floats(want)
    size = np.abs(want)
    with np.errstate(all="ignore"):
        near = np.isclose(
            got, want, rtol=2e-5, atol=1e-6 * np.where(size < 1e-3, 1, size), equal_nan=True
        )
    return [n for n, good in zip(numbers, near, strict=True) if not good]


@pytest.fixture(params=["2", "1"])
def recorded(request):
    mx.util.modes.begin()
    mx.npx.set_np() if request.param == "2" else mx.npx.reset_np()
    return request.param


@pytest.mark.parametrize("tier", TIERS)
def test_functions_and_powers(tier, recorded):
    """All in one program of each tier."""
    mx.config.set(engine_cold=tier)
    two, wanted = recorded == "2", RECORDED[recorded]["values"]
    array = (mx.np if two else mx.nd).array
    x = array(floats(EDGES), dtype="float32")
    a, b = (array(g.ravel(), dtype="float32") for g in np.meshgrid(floats(PAIRS), floats(PAIRS)))
    pairs = list(zip(a.asnumpy().tolist(), b.asnumpy().tolist(), strict=True))
    made = {name: function(name, two)(x) for name in UNARY if name in wanted}
    made.update({name: function(name, two)(a, b) for name in BINARY if name in wanted})
    for n in NUMBERS:
        v = float(n)
        made.update({f"x ** {n}": x**v, f"x % {n}": x % v, f"{n} ** x": v**x, f"{n} % x": v % x})
    wrong = {}
    for name, out in made.items():
        if name in OTHERS:
            continue
        found = differing(out.asnumpy(), wanted[name], pairs if name in BINARY else EDGES)
        if found:
            wrong[name] = found
    assert not wrong, str(wrong)


@pytest.mark.parametrize("tier", TIERS)
def test_gradients(tier, recorded):
    mx.config.set(engine_cold=tier)
    two, wanted = recorded == "2", RECORDED[recorded]["grads"]
    wrong = {}
    for name in GRADIENTS:
        x = (mx.np if two else mx.nd).array(floats(EDGES), dtype="float32")
        x.attach_grad()
        with autograd.record():
            out = function(name, two)(x)
        out.backward()
        found = differing(x.grad.asnumpy(), wanted[name], EDGES)
        found = [n for n in found if n != "nan"]  # derivatives there are nobody's concern
        if found:
            wrong[name] = found
    assert not wrong, str(wrong)


@pytest.mark.parametrize("tier", TIERS)
def test_calls(tier, recorded):
    """NaN, infinities and nothing along axes; triangles; conversions of what the dtype does not hold."""
    mx.config.set(engine_cold=tier)
    wrong = {}
    for label, (shape, numbers) in RECORDED[recorded]["calls"].items():
        got = called(mx, CALLS[label], np)
        want = np.array([float(n) for n in numbers]).reshape(shape)
        if got.shape != want.shape or not np.allclose(got, want, rtol=1e-6, atol=0, equal_nan=True):
            wrong[label] = got.tolist(), want.tolist()
    assert not wrong, str(wrong)


@pytest.mark.parametrize("tier", TIERS)
def test_signs_of_zeros_and_nan_order_nothing(tier):
    """Equal ones keep their places; NaN is the largest, as NumPy's sort has it."""
    mx.config.set(engine_cold=tier)
    given = np.array(
        [[0.0, -0.0, 0.0, -0.0], [np.nan, 1, -np.nan, 2], [-np.nan, -1, 3, np.nan]], "float32"
    )
    x = mx.np.array(given)
    down, up = (mx.npx.topk(x, k=4, ret_typ="indices", is_ascend=a) for a in (False, True))
    middle = mx.np.partition(x, 1)
    np.testing.assert_array_equal(down.asnumpy(), [[0, 1, 2, 3], [0, 2, 3, 1], [0, 3, 2, 1]])
    np.testing.assert_array_equal(up.asnumpy(), np.argsort(given, -1, kind="stable"))
    np.testing.assert_array_equal(middle.asnumpy()[:, 1], np.sort(given, -1)[:, 1])


def refusal(fn, given):
    """As the recorder asks."""
    try:
        out = fn(*given)
    except mx.MXNetError:
        return "call"
    try:
        for o in out if isinstance(out, (list, tuple)) else [out]:
            o.asnumpy()
    except mx.MXNetError:
        return "read"
    return None


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", RECORDED["2"]["refused"])
def test_what_solvers_refuse(name, tier):
    """MXNet 1.9.1 refuses the same but NaN, of which it makes more NaN."""
    mx.config.set(engine_cold=tier)
    front, fn = name.split(".")
    array = (mx.np if front == "np" else mx.nd).array
    solver = getattr((mx.np if front == "np" else mx.nd).linalg, fn)
    found = {}
    for matrix in RECORDED["2"]["refused"][name]:
        m = np.array(MATRICES[matrix], "float32")
        given = [array(m), array(np.ones_like(m))] if fn in ("solve", "trsm") else [array(m)]
        found[matrix] = refusal(
            (lambda a: solver(a, ind=1)) if fn == "tensorinv" else solver, given
        )
    assert found == RECORDED["2"]["refused"][name]
    older = RECORDED["1"]["refused"].get(name, {})
    assert {m: r for m, r in older.items() if m != "nan"} == {
        m: found[m] for m in older if m != "nan"
    }


class Inverse(gluon.HybridBlock):
    def forward(self, x):
        return mx.np.linalg.inv(x) * 2


def test_a_hybridized_block_refuses_singular_matrices_at_each_call():
    net = Inverse()
    net.hybridize()
    for _ in range(3):
        for m, refused in ((np.eye(2), False), (np.zeros((2, 2)), True)):
            x = mx.np.array(m, dtype="float32")
            x.attach_grad()
            with autograd.record():
                out = net(x)
            out.backward()
            for result in (out, x.grad):
                if refused:
                    with pytest.raises(mx.MXNetError, match="non-convertible"):
                        result.asnumpy()
                else:
                    np.testing.assert_array_equal(result.asnumpy().shape, (2, 2))


def test_an_exported_network_asks_nobody():
    """StableHLO has no functions of the host's."""
    net = Inverse()
    net.hybridize()
    x = mx.np.array(np.eye(2)[None], dtype="float32")
    net(x)
    assert net.export(None, format="stablehlo")
    np.testing.assert_array_equal(net(x).asnumpy()[0], 2 * np.eye(2))


def test_a_refusal_says_where_it_was_recorded_and_writes_nothing(capfd):
    mx.config.set(engine_cold="compile")
    with pytest.raises(mx.MXNetError, match=r"linalg_cholesky recorded at .*test_edges"):
        mx.np.linalg.cholesky(-mx.np.eye(3)).asnumpy()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("tier", TIERS)
def test_integers_at_their_edges(tier):
    """NumPy's: they wrap, and by zero give zero; of powers what does not fit is the lowest, as in MXNet."""
    mx.config.set(engine_cold=tier)
    x = mx.np.array([-(2**31), 2**31 - 1, -7, 7, 0, -1, 1], dtype="int32")
    given = x.asnumpy()
    with np.errstate(all="ignore"):
        for got, want in (
            (x // 0, np.zeros_like(given)), (x // 3, given // 3), (x // -3, given // -3), (x % 3, given % 3),
            (x % -3, given % -3), (-x, -given), (abs(x), abs(given)),
            (x**3, [-(2**31), -(2**31), -343, 343, 0, -1, 1]),
            (x**-1, [0, 0, 0, 0, -(2**31), -1, 1]), (x**-2, [0, 0, 0, 0, -(2**31), 1, 1]),
            (mx.np.array([3, 7, 200], dtype="uint8") ** -1, [0, 0, 0]),  # to the power of 255
            (mx.np.array([10, 2], dtype="int64") ** 30, [-(2**63), 2**30]),
            (3 ** mx.np.array([3, 4, 7, 100], dtype="int8"), [27, 81, -117, 0]),
        ):  # fmt: skip
            np.testing.assert_array_equal(got.asnumpy(), want)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("bits", [32, 64])
def test_integer_powers_where_they_cease_to_fit(tier, bits):
    """Beside Python's integers: of each exponent the last base that fits and the first that does not, of both signs."""
    mx.config.set(engine_cold=tier)
    lowest, pairs = -(2 ** (bits - 1)), []
    for n in (2, 3, 5, bits // 2, bits - 2, bits - 1, bits, bits + 5):
        last = next(b for b in range(int(2 ** ((bits - 1) / n)) + 2, 0, -1) if b**n < -lowest)
        pairs += [(sign * (last + more), n) for sign in (1, -1) for more in (0, 1)]
    pairs += [(x, n) for x in (lowest, lowest + 1, -lowest - 1, 0, 1, -1) for n in (-2, -1, 0, 1)]

    def power(x: int, n: int) -> int:
        if n < 0:
            return {0: lowest, 1: 1, -1: 1 - 2 * (n % 2)}.get(x, 0)
        return x**n if lowest <= x**n < -lowest else lowest

    x, n = (
        mx.np.array(np.array(a, f"int{bits}"), dtype=f"int{bits}") for a in zip(*pairs, strict=True)
    )
    assert mx.np.power(x, n).asnumpy().tolist() == [power(*pair) for pair in pairs]


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8"])
def test_divmod_is_numpys(tier, dtype):
    """In MXNet it is NumPy's function: its quotient goes by the exact remainder, where 6 // 0.1 is 60."""
    mx.config.set(engine_cold=tier)
    with np.errstate(all="ignore"):
        a, b = (
            g.ravel().astype(dtype)
            for g in np.meshgrid(*[[*floats(PAIRS).astype("float64"), 6, 0.1, 127]] * 2)
        )
        wanted = np.divmod(a, b)
    found = mx.np.divmod(mx.np.array(a, dtype=dtype), mx.np.array(b, dtype=dtype))
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got.asnumpy(), want)
        if dtype != "int8":
            kept = want == want
            np.testing.assert_array_equal(np.signbit(got.asnumpy())[kept], np.signbit(want)[kept])


@pytest.mark.parametrize("tier", TIERS)
def test_quotients_below_normal_numbers_are_zero(tier):
    """Recorded: MXNet 2.0.0b1's floor_divide, whose processors take such quotients for zero, of float16 do not."""
    mx.config.set(engine_cold=tier)
    for dtype, a, b, want in (
        ("float32", -1e-30, 1e10, 0), ("float32", -1, 1e38, 0), ("float64", -1e-200, 1e150, 0),
        ("float64", -1, 1e308, 0), ("float16", -1, 60000, -1),
    ):  # fmt: skip
        assert (mx.np.array([a], dtype=dtype) // b).item() == want


@pytest.mark.parametrize("tier", TIERS)
def test_derivatives_of_powers_at_zero(tier):
    """Recorded of MXNet 2.0.0b1 and 1.9.1, which are alike: of x ** 0 it is 0 times infinity. The exponent is part of
    the program the first time, and then an operand. By the exponent of 0 it is 0 here (a deviation)."""
    mx.config.set(engine_cold=tier)
    inf, nan = np.inf, np.nan
    wanted = {
        0: [nan, 0, 0], 1: [1, 1, 1], 2: [0, 4, -4], 3: [0, 12, 12], 0.5: [inf, 0.5 * 2**-0.5, nan],
        -1: [-inf, -0.25, -0.25], 1.5: [0, 1.5 * 2**0.5, nan],
    }  # fmt: skip
    for n, want in list(wanted.items()) * 2:
        x = mx.np.array([0.0, 2, -2])
        x.attach_grad()
        with autograd.record():
            y = x**n
        y.backward()
        np.testing.assert_allclose(x.grad.asnumpy(), want, rtol=1e-6, err_msg=str(n))
    x, n = mx.np.array([0.0, 0, 0, 0, 2, -2]), mx.np.array([0.0, 1, 2, -1, 0, 2])
    x.attach_grad()
    n.attach_grad()
    with autograd.record():
        y = x**n
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [nan, 1, 0, -inf, 0, -4])
    np.testing.assert_allclose(n.grad.asnumpy(), [0, 0, 0, nan, np.log(2), nan], rtol=1e-6)


@pytest.mark.parametrize("tier", TIERS)
def test_remainders_of_many_sizes(tier):
    """fmod is exact, whatever the quotient; the derivative by the divisor is the quotient's."""
    mx.config.set(engine_cold=tier)
    rng = np.random.RandomState(5)
    a = (rng.choice([-1, 1], 400) * 10.0 ** rng.uniform(-30, 38, 400)).astype("float32")
    b = (rng.choice([-1, 1], 400) * 10.0 ** rng.uniform(-30, 38, 400)).astype("float32")
    x, y = mx.np.array(a), mx.np.array(b)
    np.testing.assert_array_equal((x % y).asnumpy(), np.mod(a, b))
    np.testing.assert_array_equal(mx.np.fmod(x, y).asnumpy(), np.fmod(a, b))
    np.testing.assert_array_equal((mx.np.array([7.5, 1e38]) // 0.3).asnumpy()[0], 24)
    p, q = mx.np.array([7.5, -7.5, 3.0]), mx.np.array([2.0, -2.0, np.inf])
    p.attach_grad()
    q.attach_grad()
    with autograd.record():
        out = p % q
    out.backward()
    np.testing.assert_array_equal(p.grad.asnumpy(), [1, 1, 1])
    np.testing.assert_array_equal(q.grad.asnumpy(), [-3, -3, 0])


WHOLE = ["int8", "uint8", "int32", "int64"]


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("dtype", WHOLE)
def test_divisors_of_the_lowest_and_highest_integers(tier, dtype):
    """NumPy's; a program once did not end where one of two was the lowest."""
    mx.config.set(engine_cold=tier)
    ends = np.iinfo(dtype)
    v = np.array([ends.min, ends.max, ends.max - 1, ends.min + 1, 0, 1, 2, 7, 12, 18], dtype)
    a, b = (g.ravel() for g in np.meshgrid(v, np.concatenate([v, -v])))
    x, y = mx.np.array(a, dtype=dtype), mx.np.array(b, dtype=dtype)
    np.testing.assert_array_equal(mx.np.gcd(x, y).asnumpy(), np.gcd(a, b))
    np.testing.assert_array_equal(mx.np.lcm(x, y).asnumpy(), np.lcm(a, b))
    np.testing.assert_array_equal(mx.np.gcd(x, 3).asnumpy(), np.gcd(a, np.array(3, dtype)))


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("dtype", [*WHOLE, "bool"])
def test_convolutions_of_whole_numbers(tier, dtype):
    """NumPy's, which wrap; they were computed of float32."""
    mx.config.set(engine_cold=tier)
    rng = np.random.RandomState(11)
    low, high = (0, 2) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    found = []
    for n, m in ((1, 1), (5, 3), (4, 4), (3, 6)):
        a, v = (rng.randint(low, high, k, "int64").astype(dtype) for k in (n, m))
        x, y = mx.np.array(a, dtype=dtype), mx.np.array(v, dtype=dtype)
        for mode in ("full", "same", "valid"):
            for name in ("convolve", "correlate"):
                found.append(
                    (getattr(mx.np, name)(x, y, mode=mode), getattr(np, name)(a, v, mode=mode))
                )
    for got, want in found:
        np.testing.assert_array_equal(got.asnumpy(), want)
        assert got.dtype == want.dtype


@pytest.mark.parametrize("tier", TIERS)
def test_functions_of_integers_are_converted_as_by_c(tier):
    """Recorded of MXNet 2.0.0b1 and 1.9.1: nd's functions give the dtype that they were given."""
    mx.config.set(engine_cold=tier)
    mx.npx.reset_np()
    least = -(2**31)
    x = mx.nd.array([least, 2**31 - 1, 0, 7, -1], dtype="int32")
    for name, want in (
        ("exp", [0, least, 1, 1096, 0]), ("arccos", [least, least, 1, least, 3]),
        ("cosh", [least, least, 1, 548, 1]), ("degrees", [least, least, 0, 401, -57]),
    ):  # fmt: skip
        np.testing.assert_array_equal(getattr(mx.nd, name)(x).asnumpy(), want, err_msg=name)
    given = [5, 7, 8, 9, 12, 13, 16, 20, 81, 125]  # computed in float64, of int8, too
    for name, dtype, want in (
        ("tanh", "int8", [0, 0, 0, 0, 0, 0, 0, 1, 1, 1]), ("tanh", "int32", [0, 0, 0, 0, 0, 0, 0, 1, 1, 1]),
        ("exp", "int8", [-108, 72, -92, -89, -62, 45, 94, -117, 0, 0]),
        ("exp", "int32", [148, 1096, 2980, 8103, 162754, 442413, 8886110, 485165195, least, least]),
        ("degrees", "int8", [30, -111, -54, 3, -81, -24, -108, 121, 32, -7]),
        ("log2", "int64", [2, 2, 3, 3, 3, 3, 4, 4, 6, 6]), ("cbrt", "int64", [1, 1, 2, 2, 2, 2, 2, 2, 4, 5]),
    ):  # fmt: skip
        found = getattr(mx.nd, name)(mx.nd.array(given, dtype=dtype))
        np.testing.assert_array_equal(found.asnumpy(), want, err_msg=name)
    large = mx.nd.array([2**31, 2**31 - 1, 2**62, 99999], dtype="int64")
    np.testing.assert_array_equal(mx.nd.log2(large).asnumpy(), [31, 30, 62, 16])
    np.testing.assert_array_equal(mx.nd.sqrt(large).asnumpy(), [46340, 46340, 2**31, 316])


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logarithms_and_roots_of_powers_are_whole(tier, dtype):
    """As C's, which MXNet calls: log2 of a tenth of all powers of two was a little less, and its floor one less."""
    mx.config.set(engine_cold=tier)
    n = np.arange(-126, 128) if dtype == "float32" else np.arange(-1022, 1024)
    twos, tens = mx.np.array(2.0**n, dtype=dtype), mx.np.array(10.0 ** np.arange(11), dtype=dtype)
    cubes = mx.np.array(np.arange(-100, 100.0) ** 3, dtype=dtype)
    with autograd.record():
        for x in (twos, tens, cubes):
            x.attach_grad()
        made = mx.np.log2(twos), mx.np.log10(tens), mx.np.cbrt(cubes)
    autograd.backward(list(made))
    for got, want in zip(made, (n, np.arange(11), np.arange(-100, 100)), strict=True):
        np.testing.assert_array_equal(got.asnumpy(), want)
    inside = slice(2, -3)  # where the derivative is a normal number
    rtol = 8 * np.finfo(dtype).eps
    for x, base in ((twos, 2), (tens, 10)):
        want = (1 / (x.asnumpy().astype("float64") * np.log(base)))[inside]
        np.testing.assert_allclose(x.grad.asnumpy()[inside], want, rtol=rtol)
    root = np.arange(1, 100.0)
    np.testing.assert_allclose(cubes.grad.asnumpy()[101:], 1 / (3 * root**2), rtol=rtol)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logarithms_and_roots_between_powers(tier, dtype):
    mx.config.set(engine_cold=tier)
    rng, tiny = np.random.RandomState(3), np.finfo(dtype).tiny
    some = [0.0, -0.0, -1, np.inf, -np.inf, np.nan, tiny, np.finfo(dtype).max]
    v = np.concatenate(
        [10.0 ** rng.uniform(-37, 38, 2000), 1 + rng.uniform(-1e-3, 1e-3, 500), some]
    ).astype(dtype)
    for name in ("log2", "log10", "cbrt"):
        with np.errstate(all="ignore"):
            want = getattr(np, name)(v.astype("longdouble"))
        got = getattr(mx.np, name)(mx.np.array(v, dtype=dtype)).asnumpy()
        np.testing.assert_allclose(
            got, want.astype("float64"), rtol=5 * np.finfo(dtype).eps, err_msg=name
        )


@pytest.mark.parametrize("tier", TIERS)
def test_bounds_in_the_wrong_order(tier, recorded):
    """Recorded of MXNet 2.0.0b1 and 1.9.1: above the upper one it is that, else below the lower one it is that."""
    mx.config.set(engine_cold=tier)
    front = mx.np if recorded == "2" else mx.nd
    given, nan = [-3, -1, -0.5, 0, 1, 1.5, 2, 3], np.nan
    for low, high, want in (
        (2, -1, [2, 2, -1, -1, -1, -1, -1, -1]), (0, -5, [-5] * 8), (np.inf, 0, [np.inf] * 4 + [0] * 4),
    ):  # fmt: skip
        x = front.array(given)
        x.attach_grad()
        with autograd.record():
            y = front.clip(x, low, high)
        y.backward()
        np.testing.assert_array_equal(y.asnumpy(), want)
        np.testing.assert_array_equal(x.grad.asnumpy(), 0)
        assert np.isnan(front.clip(front.array([nan]), low, high).asnumpy()).all()
    whole = front.clip(front.array([-7, -1, 0, 9], dtype="int64"), 2, -1)
    np.testing.assert_array_equal(whole.asnumpy(), [2, 2, -1, -1])


@pytest.mark.parametrize("tier", TIERS)
def test_reciprocals_and_means_of_integers_and_powers_of_two_of_float16(tier):
    """Recorded of MXNet 2.0.0b1 (and 1.9.1's nd)."""
    mx.config.set(engine_cold=tier)
    least = -(2**31)
    found = []
    for dtype, zero in (("int32", least), ("int8", 0)):
        given, want = np.array([-7, -2, -1, 0, 1, 2, 7], dtype), [0, 0, -1, zero, 1, 0, 0]
        found += [(mx.np.reciprocal(mx.np.array(given, dtype=dtype)), want)]
        found += [(mx.nd.reciprocal(mx.nd.array(given, dtype=dtype)), want)]
    a, b = mx.np.array([0, 3], dtype="float16"), mx.np.array([20, 15], dtype="float16")
    found += [
        (mx.np.ldexp(a, b), [0, np.inf]),
        (mx.np.ldexp(mx.np.array([2.0**-13], dtype="float16"), b[:1]), [128]),
    ]
    for given, want in (
        ([2**31 - 1, least], [0]),
        ([16777217, 5], [8388611]),
        ([16777217], [16777217]),
    ):
        found += [(mx.nd.mean(mx.nd.array(given, dtype="int32")), want)]
    for got, want in found:
        np.testing.assert_array_equal(got.asnumpy(), want)


@pytest.mark.parametrize("tier", TIERS)
def test_averages_of_integers_are_cut_off_and_of_nothing_zero(tier):
    """Recorded of MXNet 2.0.0b1, weights too; of nothing MXNet's process ends, as ours did when compiled."""
    mx.config.set(engine_cold=tier)
    for dtype in ("int8", "int32", "int64"):
        x, w = (
            mx.np.array([[1, 2, 4], [3, -4, 7]], dtype=dtype),
            mx.np.array([1, 1, 2], dtype=dtype),
        )
        for got, want in (
            (mx.np.average(x), 2), (mx.np.average(x, axis=0), [2, -1, 5]), (mx.np.average(-x[0]), -2),
            (mx.np.average(x[0], weights=w), 2), (mx.np.average(x[:0], axis=0), [0, 0, 0]),
            (mx.np.average(x[0], weights=w * 0), 0),
        ):  # fmt: skip
            np.testing.assert_array_equal(got.asnumpy(), want)
            assert got.dtype == dtype
    x = mx.np.array([100, 100, 1], dtype="int8")
    assert (mx.np.average(x).item(), mx.np.average(x, weights=x).item()) == (-18, 0)


@pytest.mark.parametrize("tier", TIERS)
def test_hypotenuses_of_float16_are_rounded_once_and_powers_of_two_leave_zero(tier):
    """Recorded of MXNet 2.0.0b1."""
    mx.config.set(engine_cold=tier)
    x = mx.np.array([1, 0, 3], dtype="float16")
    assert mx.np.hypot(x, 1).asnumpy().tolist() == [1.4140625, 1.0, 3.162109375]
    assert mx.np.hypot(x, 2.5).asnumpy().tolist() == [2.693359375, 2.5, 3.904296875]
    assert mx.np.ldexp(x, 300).asnumpy().tolist() == [np.inf, 0.0, np.inf]
    assert mx.np.ldexp(x, -300).asnumpy().tolist() == [0.0, 0.0, 0.0]
    assert mx.np.ldexp(x, 3).asnumpy().tolist() == [8.0, 0.0, 24.0]


@pytest.mark.parametrize("tier", TIERS)
def test_factors_and_eigenvalues_read_one_triangle(tier, recorded):
    """Recorded of MXNet 2.0.0b1 and 1.9.1, with the symmetric gradient: the other triangle may hold anything."""
    mx.config.set(engine_cold=tier)
    given = np.array([[4, 9, 9], [1, 3, 9], [0.5, 0.2, 6]])
    low, high = ([2.37950525, 4.43832411, 6.18217065], [-5.56172865, -3.83016708, 22.39189573])
    factor = [[2, 0, 0], [0.5, 1.6583123951777, 0], [0.25, 0.04522670168666455, 2.4362788316312534]]
    if recorded == "2":
        x, factored = mx.np.array(given, dtype="float64"), mx.np.linalg.cholesky
        np.testing.assert_allclose(mx.np.linalg.eigvalsh(x).asnumpy(), low, rtol=1e-8)
        for upper in ({"upper": True}, {"UPLO": "U"}):  # MXNet 1's name, and NumPy's
            np.testing.assert_allclose(mx.np.linalg.eigvalsh(x, **upper).asnumpy(), high, rtol=1e-8)
            np.testing.assert_allclose(mx.np.linalg.eigh(x, **upper)[0].asnumpy(), high, rtol=1e-8)
        with pytest.raises(ValueError, match="'L' or 'U'"):
            mx.np.linalg.eigvalsh(x, UPLO="u")
        above = mx.np.linalg.cholesky(mx.np.array(given.T, dtype="float64"), upper=True)
        np.testing.assert_allclose(above.asnumpy(), np.transpose(factor), rtol=1e-12)
    else:
        x, factored = mx.nd.array(given, dtype="float64"), mx.nd.linalg.potrf
        np.testing.assert_allclose(mx.nd.linalg.syevd(x)[1].asnumpy(), low, rtol=1e-8)
        with mx.config.scope(compat_version="1.9"):  # where the triangle is the second argument
            y = mx.np.array(given, dtype="float64")
            for triangle, values in (("U", high), ("L", low)):
                for got in (mx.np.linalg.eigvalsh(y, triangle), mx.np.linalg.eigh(y, triangle)[0]):
                    np.testing.assert_allclose(got.asnumpy(), values, rtol=1e-8)
            with pytest.raises(ValueError, match="'L' or 'U'"):
                mx.np.linalg.eigvalsh(y, "Q")
    x.attach_grad()
    with autograd.record():
        out = factored(x)
    head = np.arange(9.0).reshape(3, 3)
    out.backward((mx.np if recorded == "2" else mx.nd).array(head, dtype="float64"))
    np.testing.assert_allclose(out.asnumpy(), factor, rtol=1e-12)
    gradient = [
        [-0.14838, 0.20435, 0.77832],
        [0.20435, 1.14971, 2.0658],
        [0.77832, 2.0658, 1.64185],
    ]
    np.testing.assert_allclose(x.grad.asnumpy(), gradient, atol=6e-6)


@pytest.mark.parametrize("tier", TIERS)
def test_powers_of_windows_keep_signs_and_variances_of_nothing_are_infinite(tier):
    """Recorded of MXNet 2.0.0b1."""
    mx.config.set(engine_cold=tier)
    for power, want, gradient in (
        (1, [-1.5, -2.5, -1.5, -5.5], [1, 2, 1, 2, 4, 2, 1, 2, 1]),
        (3, [-1.9895287, -3.5535967, -2.7087507, -4.479329],
         [0.25263852, 1.3273093, 0.7126991, 0.38892788, 0.12948905, 2.0644534, 0.54515743, 1.6751602, 0.04983955]),
    ):  # fmt: skip
        x = mx.np.array([[[[1.0, -2, 3], [-1, 0.5, -4], [2, -3, 1]]]])
        x.attach_grad()
        with autograd.record():
            out = mx.npx.pooling(x, kernel=(2, 2), stride=(1, 1), pool_type="lp", p_value=power)
        out.backward()
        np.testing.assert_allclose(out.asnumpy().ravel(), want, rtol=1e-5)
        np.testing.assert_allclose(x.grad.asnumpy().ravel(), gradient, rtol=1e-5)
    x = mx.np.array([[1.0, 2, 4], [3, 3, 3]])
    for spread, inside in ((mx.np.var, 14 / 3), (mx.np.std, (14 / 3) ** 0.5)):
        np.testing.assert_allclose(spread(x, axis=1, ddof=2).asnumpy(), [inside, 0], rtol=1e-6)
        np.testing.assert_array_equal(spread(x, axis=1, ddof=3).asnumpy(), [np.inf, np.nan])


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_coordinates_of_negative_indices(tier, dtype, recorded):
    """Recorded of MXNet 2.0.0b1: as C divides."""
    mx.config.set(engine_cold=tier)
    front = mx.np if recorded == "2" else mx.nd
    if recorded == "2" and dtype == "float32":
        return  # np's takes integers
    x = front.array([7, -1, -7, 25, 100], dtype=dtype)
    for shape, want in (
        ((4, 5), [[1, 0, -1, 5, 20], [2, -1, -2, 0, 0]]), ((-1, 4), [[1, 0, -1, 6, 25], [3, -1, -3, 1, 0]]),
        ((2, 3, 4), [[0, 0, 0, 2, 8], [1, 0, -1, 0, 1], [3, -1, -3, 1, 0]]),
    ):  # fmt: skip
        found = front.unravel_index(x, shape=shape)
        rows = [a.asnumpy() for a in found] if recorded == "2" else found.asnumpy()
        np.testing.assert_array_equal(rows, want)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_spacing_of_zero_is_the_least_number(tier, dtype):
    """NumPy's, which MXNet calls."""
    mx.config.set(engine_cold=tier)
    given = np.array([0.0, -0.0, -20, 20, 1, -1, 1e-3, np.nan], dtype)
    np.testing.assert_array_equal(
        mx.np.spacing(mx.np.array(given, dtype=dtype)).asnumpy(), np.spacing(given)
    )


def test_a_power_of_infinity_in_a_fresh_place():
    x = mx.np.array([0.5, 2.0, -0.0])
    np.testing.assert_array_equal((x ** float("inf")).asnumpy(), [0, np.inf, 0])
    np.testing.assert_array_equal((x ** float("-inf")).asnumpy(), [np.inf, 0, np.inf])


def test_lp_pooling_of_numbers_whose_squares_are_infinite():
    x = mx.nd.full((1, 1, 4, 4), 1e30)
    x.attach_grad()
    with autograd.record():
        y = mx.nd.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="lp", p_value=3)
    y.backward()
    assert np.isinf(y.asnumpy()).all()
    assert (x.grad.asnumpy() == 0).all()  # as MXNet 1.9.1 and 2.0.0b1 have it
