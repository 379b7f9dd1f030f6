"""Errors: at the statement, or at the synchronisation point with the statement's line."""

from __future__ import annotations

import inspect

import numpy as onp
import pytest

import mxjax as mx
from mxjax import core
from mxjax.core.callback import guarded


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
    with pytest.raises(mx.MXNetError, match="xla_force_host_platform_device_count"):
        mx.np.array([1.0], device=mx.cpu(99))


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
    """Hybridized blocks do without a graph then: tests/gluon/test_breaks.py."""
    x = mx.np.array([1.0, 2.0])
    with core.recording("f", x._value().aval.device) as rec:
        inside = mx.np.ndarray._wrap(rec.placeholder(x._value().aval)) * 2
        with pytest.raises(mx.MXNetError, match=r"number.*while a graph was recorded.*np\.where"):
            float(inside.sum())
    with pytest.raises(mx.MXNetError, match="Return it from the block"):
        inside.asnumpy()
    onp.testing.assert_array_equal((x * 2).asnumpy(), [2.0, 4.0])
