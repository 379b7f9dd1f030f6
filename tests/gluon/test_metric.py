"""Metrics against what MXNet 2.0 answered, and what they cost."""

import json
import math
from pathlib import Path

import numpy as onp
import pytest

import mxjax as mx
from mxjax.core.run.scheduler import forget
from mxjax.gluon import metric

ROWS = json.loads((Path(__file__).parents[1] / "data" / "metrics.json").read_text())
# MXNet's own pick refuses these shapes; taking them is more.
WIDER = [r for r in ROWS if r.get("error") == "MXNetError"]
GOOD = [r for r in ROWS if r.get("one")]
BAD = [r for r in ROWS if r.get("error") in ("ValueError", "AssertionError")]


def case_id(row):
    shapes = [str(x["shape"]) for x in row["updates"][0]["preds"]]
    return "-".join([row["metric"], *(f"{k}={v}" for k, v in row["kwargs"].items()), *shapes])


def to_array(recorded):
    data = onp.array(recorded["data"], recorded["dtype"]).reshape(recorded["shape"])
    return mx.np.array(data, dtype=data.dtype)


def feed(row):
    return [
        ([to_array(x) for x in u["labels"]], [to_array(x) for x in u["preds"]])
        for u in row["updates"]
    ]


def make(row):
    if row["metric"].islower():
        return metric.create(row["metric"], **row["kwargs"])
    return getattr(metric, row["metric"])(**row["kwargs"])


@pytest.mark.parametrize("row", GOOD, ids=case_id)
def test_values(row):
    m, updates = make(row), feed(row)
    name, value = m.get()
    assert f"('{name}', {value})" == row["empty"]
    for (labels, preds), want in zip(updates, row["get"], strict=True):
        m.update(labels, preds)
        assert m.get()[0] == want[0]
        assert m.get()[1] == pytest.approx(want[1], rel=1e-6, abs=1e-7)
    m.reset()
    m.update(*updates[0])
    assert m.get()[1] == pytest.approx(row["one"][1], rel=1e-6, abs=1e-7)


def test_a_mean_is_the_quotient_to_its_last_digit():
    m = metric.Accuracy()
    m.update(mx.np.array([1] * 73 + [0] * 247), mx.np.array([[0, 1]] * 320))
    assert m.get()[1] == 73 / 320


@pytest.mark.parametrize("row", BAD, ids=case_id)
def test_errors(row):
    with pytest.raises({"ValueError": ValueError, "AssertionError": AssertionError}[row["error"]]):
        m = make(row)
        for labels, preds in feed(row):
            m.update(labels, preds)
            m.get()


def test_every_recorded_case_was_used():
    assert len(GOOD) + len(BAD) + len(WIDER) == len(ROWS)


@pytest.mark.parametrize("row", WIDER, ids=case_id)
def test_more_dimensions_count_as_more_samples(row):
    m, probabilities, labels = make(row), [], []
    for ls, ps in feed(row):
        m.update(ls, ps)
        labels.append(ls[0].asnumpy().reshape(-1))
        probabilities.append(ps[0].asnumpy().reshape(-1, ps[0].shape[-1]))
    rows, chosen = onp.concatenate(probabilities), onp.concatenate(labels)
    cross = -onp.log(rows[onp.arange(len(chosen)), chosen]).mean()
    want = math.exp(cross) if row["metric"] == "Perplexity" else cross
    assert m.get()[1] == pytest.approx(want, rel=1e-6)


def test_a_count_that_was_read_compiles_nothing():
    """How many samples are not ignored is known to the device alone: a number it was read as is an input again."""
    m = metric.CrossEntropy(ignore_label=0)
    preds = mx.np.array(onp.full((4, 3), 1 / 3))
    compiled = []
    with mx.config.scope(engine_cold="compile"):
        for k in range(6):
            m.update([mx.np.array([1, 2, 1 + k % 2, 0])], [preds])
            assert m.get()[1] == pytest.approx(math.log(3))
            assert m.num_inst == 3 * (k + 1)
            compiled.append(mx.engine.stats()["compiled"])
    assert compiled[1] == compiled[-1]


@pytest.mark.parametrize(
    "m", [metric.Accuracy(), metric.TopKAccuracy(2), metric.Loss(), metric.CrossEntropy()],
    ids=lambda m: m.name,
)  # fmt: skip
def test_updates_wait_for_nothing(m):
    labels, preds = mx.np.array([0, 1, 2]), mx.np.array(onp.eye(3, 4) + 0.1)
    mx.npx.waitall()
    forget()
    before = mx.engine.stats()["segments"]
    for _ in range(5):
        m.update([labels], [preds])
    assert mx.engine.stats()["segments"] == before
    assert m.get()[1] == m.get()[1]  # a number, not NaN


def test_equal_scores_count_by_class_number():
    m = metric.TopKAccuracy(2)
    m.update([mx.np.array([0, 1, 2, 3])], [mx.np.zeros((4, 4))])
    assert m.get()[1] == 0.5
    m.reset()
    m.update([mx.np.array([-1, 9])], [mx.np.zeros((2, 4))])
    assert m.get()[1] == 0.0


def test_composite_gives_lists():
    m = metric.create(["acc", metric.Loss()])
    m.add("mse")
    labels, preds = mx.np.array([0.0, 1.0]), mx.np.array([0.0, 0.5])
    m.update([labels], [preds])
    names, values = m.get()
    assert names == ["accuracy", "loss", "mse"]
    assert values == pytest.approx([0.5, 0.25, 0.125])
    assert isinstance(m.get_metric(1), metric.Loss)
    with pytest.raises(IndexError):
        m.get_metric(3)
    m.reset()
    assert all(math.isnan(v) for v in m.get()[1])


def test_names_choose_arrays():
    m = metric.Accuracy(output_names=["scores"], label_names=["y"])
    other = mx.np.zeros(1)
    m.update_dict(
        {"x": other, "y": mx.np.array([1])}, {"scores": mx.np.array([[0.1, 0.9]]), "z": other}
    )
    assert m.get() == ("accuracy", 1.0)


def test_custom_functions():
    def worst(label, pred):
        return abs(label - pred).max()

    labels, preds = mx.np.array([1.0, 2.0]), mx.np.array([1.5, 1.0])
    for m in (metric.create(worst), metric.np(worst)):
        m.update([labels], [preds])
        assert m.get() == ("worst", 1.0)
    m = metric.CustomMetric(lambda label, pred: (3.0, 2))
    m.update([labels], [preds])
    assert m.get() == ("custom(<lambda>)", 1.5)
    with pytest.raises(NotImplementedError):
        m.get_config()


def test_configurations_make_equal_metrics():
    config = metric.TopKAccuracy(top_k=3).get_config()
    config.pop("name")
    made = metric.create(config)
    assert made.top_k == 3
    assert made.name == "top_k_accuracy_3"


def test_correlation_over_batches_is_that_of_all_samples():
    rng = onp.random.RandomState(0)
    a, b = rng.normal(3, 2, 40), rng.normal(-1, 1, 40)
    m = metric.PearsonCorrelation()
    for at in range(0, 40, 8):
        part = slice(at, at + 8)
        m.update([mx.np.array(a[part])], [mx.np.array(b[part])])
    want = onp.corrcoef(onp.float32(a), onp.float32(b))[0, 1]
    assert m.get()[1] == pytest.approx(want, rel=1e-6)


def test_numpy_arrays_and_legacy_arrays_are_taken():
    for labels, preds in (
        (onp.array([1, 0]), onp.array([[0.2, 0.8], [0.1, 0.9]], "float32")),
        (mx.nd.array([1, 0]), mx.nd.array([[0.2, 0.8], [0.1, 0.9]])),
    ):
        m = metric.Accuracy()
        m.update([labels], [preds])
        assert m.get()[1] == 0.5


def test_inside_record_the_sum_keeps_no_history():
    m = metric.Loss()
    x = mx.np.ones(3)
    x.attach_grad()
    with mx.autograd.record():
        loss = x * 2
        m.update(None, loss)
    assert m.sum_metric._value().tape is None
    loss.backward()
    assert m.get()[1] == 2.0
    assert x.grad.asnumpy().tolist() == [2.0] * 3


@pytest.mark.parametrize(
    ("version", "kind", "options", "expected"),
    [  # of MXNet 1.9.1 and 2.0.0b1: probabilities 0.05 and 0.5, then 0
        ("1.9", "CrossEntropy", {"eps": 0.1}, (1.2039728164672852, 2.3025851249694824)),
        ("2.0", "CrossEntropy", {"eps": 0.1}, (1.497866153717041, 2.3025851249694824)),
        ("1.9", "Perplexity", {"ignore_label": None}, (6.324555433498061, 9999993660.802519)),
        ("2.0", "Perplexity", {"ignore_label": None}, (6.324555433498061, 1000000383705.3145)),
    ],
)
def test_small_probabilities(version, kind, options, expected):
    with mx.config.scope(compat_version=version):
        metric = getattr(mx.gluon.metric, kind)(**options)
        found = []
        for labels, probabilities in (([0, 1], [[0.05, 0.95], [0.5, 0.5]]), ([0], [[0.0, 1.0]])):
            metric.reset()
            metric.update([mx.nd.array(labels)], [mx.nd.array(probabilities)])
            found.append(metric.get()[1])
    onp.testing.assert_allclose(found, expected, rtol=2e-5)


@pytest.mark.parametrize(
    ("kind", "labels", "predictions", "expected"),
    [  # of 1.9.1: a column of labels meets each decision, and the larger of one number is the first
        ("F1", (8,), (8, 2), 0.8333333333333334), ("F1", (8, 1), (8, 2), 0.75), ("F1", (8, 1), (8, 1), 0.0),
        ("MCC", (8,), (8, 2), 0.3333333333333333), ("MCC", (8, 1), (8, 2), 0.0), ("MCC", (8, 1), (8, 1), 0.0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("average", ["macro", "micro"])
def test_shapes_of_binary_labels_in_mxnet_1(kind, labels, predictions, expected, average):
    rng = onp.random.RandomState(0)
    given, chances = rng.randint(0, 2, 8), rng.rand(8, 2)
    chances = (chances / chances.sum(1, keepdims=True))[:, -predictions[1] :]
    with mx.config.scope(compat_version="1.9"):
        metric = getattr(mx.gluon.metric, kind)(average=average)
        metric.update([mx.nd.array(given.reshape(labels))], [mx.nd.array(chances)])
        assert metric.get()[1] == pytest.approx(expected, abs=1e-12)
        with pytest.raises(ValueError, match=r"labels are \(N,\)"):
            metric.update([mx.nd.array(onp.eye(2)[given])], [mx.nd.array(rng.rand(8, 3))])


@pytest.mark.parametrize("average", ["micro", "macro"])
def test_f1_is_a_float_of_python(average):
    metric = mx.gluon.metric.F1(average=average)
    metric.update(
        [mx.np.array([0, 1, 1, 0])], [mx.np.array([[0.7, 0.3], [0.4, 0.6], [0.8, 0.2], [0.1, 0.9]])]
    )
    assert type(metric.get()[1]) is float
    assert "np.float64" not in str(metric)


def test_numbers_since_a_local_reset_are_no_calls_of_the_next_step():
    """Sums of what `reset_local` put aside would be recorded before the step, which would be another program."""
    loss = mx.gluon.metric.Loss()
    for value in (1.0, 3.0):
        loss.update(None, [mx.np.array([value])])
    assert loss.get()[1] == 2.0
    mx.engine.reset()
    loss.reset_local()
    assert mx.engine.stats()["operators"] == 0 and mx.core.local.st.seg.step.depth == 0
    loss.update(None, [mx.np.array([8.0])])
    assert (loss.get()[1], loss.get_global()[1]) == (8.0, 4.0)
    loss.reset_local()
    loss.update(None, [mx.np.array([4.0])])
    assert (loss.get()[1], loss.get_global()[1]) == (4.0, 4.0)


@pytest.mark.parametrize("average", ["binary", None])
def test_without_an_average_each_class_has_its_score(average):
    """The numbers of MXNet 2.0.0b1."""
    rows = onp.random.RandomState(0).rand(6, 4).astype("float32")
    metric = mx.gluon.metric.F1(class_type="multiclass", average=average)
    metric.update([mx.np.array([0, 1, 2, 3, 1, 0])], [mx.np.array(rows)])
    onp.testing.assert_allclose(metric.get()[1], [0.5, 0, 0, 0], rtol=1e-6)
