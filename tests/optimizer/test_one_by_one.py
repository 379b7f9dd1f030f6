"""Updates of many weights, which NumPy computes one by one: the numbers of the whole, to the bit, by few traces."""

import numpy as np
import pytest

import mxjax as mx
from mxjax.core import platform_of
from mxjax.core.interpret import kept_traces, symbolic
from mxjax.optimizer import rules
from mxjax.optimizer.one_by_one import Each

# Weights of several ranks, one of them empty; no two lengths are equal.
SHAPES = ((5, 3), (5,), (4, 7), (1,), (2, 3, 6, 5), (), (0, 3))
NAMES = ("sgd", "nag", "adam", "adamw", "adamax", "nadam", "rmsprop", "adagrad", "adadelta", "ftrl", "ftml", "lamb",
         "lars", "lans", "signum", "dcasgd")  # fmt: skip


def recorded(name, dtype="float32", monkeypatch=None, **options):
    """The call of an optimizer's update of weights of `SHAPES`, its operands' avals, and numbers for them."""
    optimizer = mx.optimizer.create(name, learning_rate=0.1, **options)
    rng = np.random.RandomState(0)
    weights = [mx.np.array(rng.uniform(-1, 1, s).astype(dtype)) for s in SHAPES]
    grads = [mx.np.array(rng.uniform(-1, 1, s).astype(dtype)) for s in SHAPES]
    found = []
    from mxjax.optimizer import optimizer as module

    def record(call, inputs):
        found.append(
            (
                call,
                tuple(v.aval for v in inputs),
                [np.asarray(mx.np.ndarray._wrap(v)) for v in inputs],
            )
        )
        return recording(call, inputs)

    recording = module.record
    monkeypatch.setattr(module, "record", record)
    indices = list(range(len(SHAPES)))
    states = [optimizer.create_state_multi_precision(i, w) for i, w in enumerate(weights)]
    for _ in range(2):  # the first states are zeros
        optimizer.update_multi_precision(indices, weights, grads, states)
    return found[-1]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "options", [{}, {"wd": 0.1, "clip_gradient": 0.5, "rescale_grad": 0.25}], ids=str
)
def test_one_by_one_is_the_whole_to_the_bit(name, options, monkeypatch):
    call, avals, numbers = recorded(name, monkeypatch=monkeypatch, **options)
    device = avals[0].device
    got = symbolic.trace(call, avals, device)
    assert type(got) is Each and got.runs and not got.why
    whole = symbolic._bound(call, avals, device)  # as it was: a trace of all weights at once
    assert got.shapes() == whole.shapes()
    for a, b in zip(got.run(numbers), whole.run(numbers), strict=True):
        np.testing.assert_array_equal(a, b)
    attrs = dict(call.attrs)
    by_jax = rules.many(
        *numbers, rule=attrs["rule"], statics=attrs["statics"], layout=attrs["layout"]
    )
    for a, b in zip(got.run(numbers), by_jax, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
    # The price of a program is that of the whole, but for taking the numbers apart.
    assert 0 <= whole.size.equations - got.size.equations <= 2 * numbers[0].size
    assert got.work() > 0 and got.steps() > len(SHAPES) and got.library() == 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("master", [False, True])
def test_other_dtypes_and_master_copies(dtype, master, monkeypatch):
    call, avals, numbers = recorded("adam", dtype, monkeypatch, multi_precision=master)
    got = symbolic.trace(call, avals, avals[0].device)
    whole = symbolic._bound(call, avals, avals[0].device)
    assert type(got) is Each and got.shapes() == whole.shapes()
    for a, b in zip(got.run(numbers), whole.run(numbers), strict=True):
        np.testing.assert_array_equal(a, b)


def test_weights_of_equal_ranks_share_a_trace(monkeypatch):
    made = []
    traced = symbolic._traced
    monkeypatch.setattr(
        symbolic, "_traced", lambda *args: made.append(args[0].name) or traced(*args)
    )
    rules.row.cache_clear()
    call, avals, _ = recorded("sgd", monkeypatch=monkeypatch)
    symbolic.trace(call, avals, avals[0].device)
    forms = {
        tuple(n if n < 2 else -1 for n in s) for s in SHAPES
    }  # lengths of 0 and 1 are constants
    assert made.count("sgd_update") == len(forms) == 6


def test_a_rule_of_a_programs_own_is_traced_as_a_whole(monkeypatch):
    """It may ask how long a weight is."""

    @mx.optimizer.register
    class Ours(mx.optimizer.SGD):
        @staticmethod
        def rule_fn(weight, grad, states, rescale, lr, wd, **_):
            return weight - (lr if weight.size > 6 else 2 * lr) * grad, states

    call, avals, numbers = recorded("ours", monkeypatch=monkeypatch)
    got = symbolic.trace(call, avals, avals[0].device)
    assert type(got) is not Each
    n = len(SHAPES)
    for w, g, new in zip(numbers[1 : 1 + n], numbers[1 + n :], got.run(numbers)[:n], strict=False):
        lr = np.float32(0.1 if w.size > 6 else 0.2)
        np.testing.assert_allclose(new, w - lr * g, rtol=1e-6)


def test_traces_of_rules_have_names_for_the_next_process(monkeypatch):
    call, avals, _ = recorded("adam", monkeypatch=monkeypatch)
    assert platform_of(avals[0].device) == "cpu"
    of_one = call.row.direct.call.args[0]
    entry = dict(call.attrs)["layout"][0]
    attrs = dict(call.attrs)

    def name(rule):
        return kept_traces.name_of(
            of_one.bind((("entry", entry), ("rule", rule), ("statics", attrs["statics"]))), "form"
        )

    assert name(attrs["rule"]) is not None
    assert name(attrs["rule"]) != name(rules_of_sgd())
    assert name(lambda *args: args) is None


def rules_of_sgd():
    from mxjax.optimizer.sgd import sgd_rule

    return sgd_rule
