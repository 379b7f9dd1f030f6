"""Errors: at the statement, or at the synchronisation point with the statement's line."""

from __future__ import annotations

import inspect

import numpy as onp
import pytest

import mxjax as mx
from mxjax import core
from mxjax.core.run.callback import guarded, original


def test_a_wrong_shape_raises_at_its_line_and_names_everything():
    a, b = mx.np.array(onp.ones((2, 3))), mx.np.array(onp.ones((2, 4)))
    with pytest.raises(mx.MXNetError) as caught:
        a + b
    text = str(caught.value)
    for part in ("add", "float32[2, 3]", "float32[2, 4]", "cpu"):
        assert part in text
    onp.testing.assert_array_equal((a + a).asnumpy(), onp.full((2, 3), 2.0))


def test_a_wrong_operand_leaves_the_segment_as_it_was():
    a = mx.np.array([1.0, 2.0])
    y = a * 2.0
    with pytest.raises(mx.MXNetError):
        y + mx.np.array([1.0, 2.0, 3.0])
    onp.testing.assert_array_equal((y + 1.0).asnumpy(), [3.0, 5.0])


def test_an_unknown_argument_is_named_with_its_neighbour():
    with pytest.raises(TypeError, match="axs"):
        mx.np.sum(mx.np.array([1.0]), axs=0)


def test_devices_that_do_not_fit_are_named():
    a = mx.np.array([1.0], device=mx.cpu(0))
    b = mx.np.array([1.0], device=mx.cpu(1))
    with pytest.raises(mx.MXNetError, match="different devices"):
        a + b
    assert (a + b.to_device(mx.cpu(0))).item() == 2.0


def test_a_device_that_is_not_there_says_how_to_get_it():
    with pytest.raises(mx.MXNetError, match=r"no device tpu\(99\).*mxjax\[tpu\]"):
        mx.np.array([1.0], device=mx.tpu(99))


def _failing():
    import jax

    def check(x):
        if (x < 0).any():
            raise ValueError("a negative number arrived")
        return x

    def fn(x):
        return jax.pure_callback(guarded(check), jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    return core.Row("checked", fn, effect=True).bind()


def test_a_run_time_error_names_the_line_that_recorded_the_call():
    call = _failing()
    good = mx.np.array([1.0])
    bad = mx.np.array([-1.0])
    fine = type(good)._wrap(core.record(call, (good._value(),))[0])
    fine.wait_to_read()
    line = inspect.currentframe().f_lineno + 1
    y = type(bad)._wrap(core.record(call, (bad._value(),))[0])
    z = y * 2.0
    with pytest.raises(ValueError, match="a negative number arrived") as caught:
        z.asnumpy()
    assert isinstance(caught.value, mx.MXNetError)
    assert f"test_errors.py:{line}" in str(caught.value)
    with pytest.raises(ValueError, match="a negative number arrived"):
        y.asnumpy()  # and again for everybody who depends on it
    assert (good + 1.0).item() == 2.0  # the engine goes on


def test_waitall_raises_what_nobody_has_seen_once():
    y = core.record(_failing(), (mx.np.array([-3.0])._value(),))
    with pytest.raises(ValueError, match="negative"):
        mx.waitall()
    mx.waitall()
    del y


def test_reading_inside_a_recorded_graph_says_why_not():
    """Hybridized blocks do without a graph then: tests/gluon/graphs/test_breaks.py."""
    x = mx.np.array([1.0, 2.0])
    with core.recording("f", x._value().aval.device) as rec:
        inside = mx.np.ndarray._wrap(rec.placeholder(x._value().aval)) * 2
        with pytest.raises(mx.MXNetError, match=r"number.*while a graph was recorded.*np\.where"):
            float(inside.sum())
    with pytest.raises(mx.MXNetError, match="Return it from the block"):
        inside.asnumpy()
    onp.testing.assert_array_equal((x * 2).asnumpy(), [2.0, 4.0])


def _bad():
    return mx.nd.random.normal(0, -1, shape=(2, 2))


# Real MXNet 2.0.0b1 raises for each of these when the result is read, none at the call.
BAD_PARAMETERS = {
    "nd.random.normal(0, -1, shape=2)": "scale",
    "nd.random.normal(0, 0, shape=2)": "scale",
    "nd.random_normal(0, -1, 2)": "scale",
    "nd.random.randn(2, loc=0, scale=-1)": "scale",
    "nd.random.uniform(1, 0, shape=2)": "low must be less",
    "nd.random.gamma(-1, 1, shape=2)": "shape",
    "nd.random.gamma(1, -1, shape=2)": "scale",
    "nd.random.exponential(-1, shape=2)": "lam",
    "nd.random.poisson(-1, shape=2)": "lam",
    "nd.random.negative_binomial(-1, 0.5, shape=2)": "k",
    "nd.random.generalized_negative_binomial(-1, 0.5, shape=2)": "mu",
    "nd.random.randint(5, 2, shape=2)": "low",
    "np.random.normal(0, -1, 2)": "scale < 0",
    "np.random.randint(5, 2, 2)": "low",
    "np.random.gamma(-1, 1, 2)": "expect shape > 0",
    "np.random.exponential(-1, 2)": "scale",
    "np.random.logistic(0, -1, 2)": "scale < 0",
    "np.random.gumbel(0, -1, 2)": "scale < 0",
    "np.random.rayleigh(-1, 2)": "scale",
    "np.random.weibull(-1, 2)": "expect a > 0",
    "np.random.pareto(-1, 2)": "expect a > 0",
    "np.random.power(-1, 2)": "expect a > 0",
    "np.random.lognormal(0, -1, 2)": "scale < 0",
    "np.random.beta(-1, 1, 2)": "a > 0",
    "np.random.chisquare(-1, 2)": "shape > 0",
    "npx.random.bernoulli(1.5, size=2)": "prob <= 1",
}


@pytest.mark.parametrize("text", BAD_PARAMETERS)
def test_parameters_out_of_their_domain_raise_where_the_result_is_read(text, settled):
    name, _, arguments = text.partition("(")
    function = mx
    for part in name.split("."):
        function = getattr(function, part)
    args, kwargs = _arguments(arguments[:-1])
    before = mx.engine.stats()["compiled"]
    x = function(*args, **kwargs)
    assert x.shape == (2,)
    with pytest.raises(ValueError, match=BAD_PARAMETERS[text]) as caught:
        x.asnumpy()
    assert isinstance(caught.value, mx.MXNetError)
    assert mx.engine.stats()["compiled"] == before  # nothing ran
    mx.waitall()  # it was seen


# np functions with -1 for a parameter: what MXNet 2.0.0b1 says of an array of it.
BAD_ARRAYS = {
    "normal(0, x)": "scale < 0",
    "gumbel(0, x)": "scale < 0",
    "logistic(0, x)": "scale < 0",
    "exponential(x)": "scale",
    "gamma(x, 1.)": "expect shape > 0",
    "gamma(1., x)": "expect scale > 0",
    "beta(1., x)": "> 0",
    "chisquare(x)": "df > 0",
    "f(x, 1.)": "> 0",
    "pareto(x)": "expect a > 0",
    "power(x)": "expect a > 0",
    "weibull(x)": "expect a > 0",
    "rayleigh(x)": "scale",
    "lognormal(0, x)": "sigma < 0",
}


@pytest.mark.parametrize("text", BAD_ARRAYS)
def test_parameters_that_are_not_computed_yet_are_looked_at_too(text, settled):
    name, _, arguments = text.partition("(")
    pending = mx.np.ones(3) - 2
    given = [
        pending if a == "x" else float(a) if "." in a else int(a)
        for a in arguments[:-1].split(", ")
    ]
    x = getattr(mx.np.random, name)(*given)
    with pytest.raises(ValueError, match=BAD_ARRAYS[text]):
        x.asnumpy()
    assert getattr(mx.np.random, name)(*[1.0 if a is pending else a for a in given]).shape == ()
    mx.waitall()


def test_a_covariance_and_probabilities_that_cannot_be_are_refused(settled):
    """As in MXNet 2.0.0b1; numbers of laplace it does not look at."""
    with pytest.raises(mx.MXNetError, match="potrf failed"):
        mx.np.random.multivariate_normal(mx.np.zeros(2), -mx.np.eye(2)).asnumpy()
    for p in ([0.5, 0.7], mx.np.array([0.5, 0.7]), mx.np.array([0.25, 0.35]) * 2):
        with pytest.raises(mx.MXNetError, match="sum"):
            mx.np.random.multinomial(10, p).asnumpy()
    assert mx.np.random.multinomial(10, [1 / 6.0] * 6).sum() == 10
    assert onp.isfinite(mx.np.random.laplace(0, mx.np.ones(3) - 2).asnumpy()).all()


def _arguments(text):
    """The numbers of a call as it is written."""
    args, kwargs = [], {}
    for word in text.split(", "):
        name, equals, value = word.rpartition("=")
        number = float(value) if "." in value else int(value)
        if equals:
            kwargs[name] = number
        else:
            args.append(number)
    return args, kwargs


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.asnumpy(),
        lambda x: x.wait_to_read(),
        lambda x: x.sum().asscalar(),
        lambda x: bool((x > 0).sum() > 0),
        lambda x: x.copyto(mx.cpu()).asnumpy(),
        lambda x: x[0].asnumpy(),
        lambda x: mx.nd.dot(x, mx.nd.ones((2, 2))).asnumpy(),
        lambda x: mx.waitall(),
    ],
    ids="asnumpy wait_to_read asscalar bool copy view product waitall".split(),
)
def test_whatever_is_made_of_a_failed_value_raises_at_the_read_and_names_the_line(read, settled):
    line = inspect.currentframe().f_lineno + 1
    x = mx.nd.random.normal(0, -1, shape=(2, 2))
    y = (x * 2 + 1).copy()  # may be recorded
    with pytest.raises(ValueError, match=f"test_errors.py:{line}"):
        read(y)


def test_gradients_of_a_failed_value_fail_and_others_do_not(settled):
    a, b = mx.nd.ones((2, 2)), mx.nd.ones((2, 2))
    a.attach_grad()
    b.attach_grad()
    with mx.autograd.record():
        y = (a * _bad()).sum()
        z = (b * 3).sum()
    y.backward()
    z.backward()
    onp.testing.assert_array_equal(b.grad.asnumpy(), onp.full((2, 2), 3.0))
    with pytest.raises(mx.MXNetError, match="scale"):
        a.grad.asnumpy()


def test_a_failed_value_written_into_another(settled):
    a = mx.nd.ones((2, 2))
    a += _bad()
    with pytest.raises(mx.MXNetError, match="scale"):
        a.asnumpy()
    a[:] = mx.nd.ones((2, 2))
    assert a.sum().asscalar() == 4


def test_a_wrong_shape_raises_at_its_line_though_the_value_has_failed(settled):
    with pytest.raises(ValueError, match="add"):
        _bad() + mx.nd.ones((3, 3))


def test_what_is_made_of_a_failed_program_fails_at_the_read(settled):
    y = core.record(_failing(), (mx.np.array([-1.0])._value(),))[0]
    x = mx.np.ndarray._wrap(y)
    with pytest.raises(ValueError, match="negative"):
        x.asnumpy()
    z = x * 2.0  # recorded as ever
    with pytest.raises(ValueError, match="negative"):
        z.asnumpy()


def test_naive_engine_and_settings_raise_at_the_line(settled):
    for change in ({"engine_type": "NaiveEngine"}, {"engine_catch_exceptions": False}):
        with mx.config.scope(**change), pytest.raises(ValueError, match="scale"):
            _bad()


def test_a_hybridized_block_raises_at_the_call(settled):
    class Net(mx.gluon.HybridBlock):
        def forward(self, x):
            return x + mx.np.random.normal(0, -1, (2,))

    net = Net()
    net.hybridize()
    with pytest.raises(ValueError, match="scale < 0"):
        net(mx.np.ones(2))


@pytest.mark.parametrize("cold", ["auto", "compile", "interpret"])
def test_an_error_reaches_what_is_made_of_it_and_nothing_else(cold):
    """As in MXNet: what was recorded beside the call that fails keeps its numbers."""
    with mx.config.scope(engine_cold=cold):
        x = mx.np.ones((2, 3))
        before = x * 3
        singular = mx.np.linalg.cholesky(-mx.np.eye(2))
        beside = before + x
        with pytest.raises(mx.MXNetError, match="not positive definite"):
            (singular + 1).asnumpy()
        onp.testing.assert_array_equal(before.asnumpy(), onp.full((2, 3), 3.0))
        onp.testing.assert_array_equal((beside * 2).asnumpy(), onp.full((2, 3), 8.0))
        with pytest.raises(mx.MXNetError, match="not positive definite"):
            singular.asnumpy()


@pytest.mark.parametrize("size", [1, 30])
@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("cold", ["auto", "compile", "interpret"])
def test_an_operator_that_cannot_be_traced_again_fails_once(cold, hybrid, size):
    """The readers of its segment get the error, with the line; nothing that is recorded later does."""
    traces = [0, 0]

    def fn(x):
        traces[0] += 1
        if traces[1]:
            raise RuntimeError("no trace")
        return x + 1

    row = core.Row("untraceable", fn)

    class Net(mx.gluon.HybridBlock):
        def forward(self, x):
            return type(x)._wrap(core.record(row.bind(), ((x * 2)._value(),))[0])

    with mx.config.scope(engine_cold=cold):
        x = mx.np.ones(size)
        x.wait_to_read()
        net = Net()
        if hybrid:
            net.hybridize()
        lines = [inspect.getsourcelines(Net.forward)[1] + 1, inspect.currentframe().f_lineno + 1]
        y = net(x)  # a hybridized block of one operator is told by its call
        z = y - 1
        traces[1] = True
        known = traces[0]
        counts = []
        for _ in range(2):
            try:
                got = z.asnumpy()
            except mx.MXNetError as error:
                assert "no trace" in str(error)
                assert any(f"test_errors.py:{n})" in str(error) for n in lines[: 1 + hybrid])
                assert traces[0] > known
                counts.append(traces[0])
            else:
                onp.testing.assert_array_equal(got, onp.full(size, 2.0))
                assert traces[0] == known and cold != "compile"
        assert len(set(counts)) <= 1  # the second reader does not try again
        onp.testing.assert_array_equal((x + 5).asnumpy(), onp.full(size, 6.0))
        mx.npx.waitall()


def test_an_error_that_was_told_is_not_found_behind_another_one():
    """Programs of a GPU hold their errors until all is waited for: one of NumPy's steps was told in their place."""
    with mx.config.scope(engine_cold="interpret"):
        bad = mx.nd.linalg.potrf(mx.nd.array([[-1.0, 0.0], [0.0, 1.0]]))
        with pytest.raises(mx.MXNetError, match="potrf failed"):
            bad.asnumpy()
    text = "INTERNAL: CpuCallback error calling callback: MXNetError: linalg.potrf: potrf failed"
    assert original(RuntimeError(text)) is None
