"""Errors: at the statement, or at the synchronisation point with the statement's line."""

from __future__ import annotations

import inspect

import numpy as onp
import pytest

import mxjax as mx
from mxjax import core
from mxjax.core.run.callback import guarded


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
