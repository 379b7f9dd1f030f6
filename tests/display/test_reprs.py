"""What people print says what it is."""

import re

import numpy as onp
import pytest

import mxjax as mx
from mxjax import gluon, np
from mxjax.display.reprs import Shown, arguments, text
from mxjax.gluon import nn
from mxjax.gluon.data import (
    ArrayDataset,
    BatchSampler,
    DataLoader,
    SequentialSampler,
    SimpleDataset,
)


def net():
    made = nn.Dense(4, in_units=3)
    made.initialize()
    return made


def executor():
    return (mx.sym.var("x") * 2).simple_bind(mx.cpu(), x=(2, 3))


def arrays():
    return mx.io.NDArrayIter(onp.ones((4, 2)), onp.ones(4), 2)


DATA = ArrayDataset(onp.ones((6, 3)), onp.ones(6))

PRINTED = [
    (lambda: gluon.Trainer(net().collect_params(), "sgd"),
     "Trainer(SGD(learning_rate=0.1), parameters=2, kvstore='device')"),
    (lambda: DATA, "ArrayDataset(samples=6)"),
    (lambda: DATA.take(2), "SampledDataset(dataset=ArrayDataset(samples=6), samples=2)"),
    (lambda: SimpleDataset([1, 2]).transform(len), "LazyTransformDataset(data=SimpleDataset(samples=2), samples=2)"),
    (lambda: BatchSampler(SequentialSampler(4), 2, "discard"),
     "BatchSampler(sampler=SequentialSampler(length=4), batch_size=2, last_batch='discard')"),
    (lambda: DataLoader(DATA, 2), "DataLoader(dataset=ArrayDataset(samples=6), batch_sampler="
     "BatchSampler(sampler=SequentialSampler(length=6), batch_size=2))"),
    (lambda: mx.kv.create("local"), "KVStore('local')"),
    (lambda: mx.optimizer.Adam(beta1=0.8), "Adam(learning_rate=0.001, beta1=0.8)"),
    (lambda: mx.optimizer.SGD(learning_rate=0.01, lr_scheduler=mx.lr_scheduler.FactorScheduler(10)),
     "SGD(learning_rate=0.01, lr_scheduler=FactorScheduler(step=10))"),
    (lambda: mx.optimizer.get_updater(mx.optimizer.SGD()), "Updater(optimizer=SGD(learning_rate=0.1))"),
    (lambda: mx.lr_scheduler.CosineScheduler(100, final_lr=0.1), "CosineScheduler(max_update=100, final_lr=0.1)"),
    (lambda: mx.init.Xavier(magnitude=2), "Xavier(magnitude=2.0)"),
    (lambda: mx.init.Mixed([".*"], [mx.init.Zero()]), "Mixed(map={'.*': Zero()})"),
    (lambda: gluon.metric.TopKAccuracy(3), "TopKAccuracy(top_k=3, name='top_k_accuracy_3')"),
    (lambda: gluon.metric.CompositeEvalMetric([gluon.metric.MAE()]), "CompositeEvalMetric(metrics=[MAE()])"),
    (executor, "Executor(<Symbol _mulscalar0>, arguments={'x': <NDArray 2x3>}, device=cpu(0))"),
    (arrays, "NDArrayIter(data=[('data', <NDArray 4x2>)], label=[('softmax_label', <NDArray 4>)], batch_size=2)"),
    (lambda: next(arrays()), "DataBatch(data=[<NDArray 2x2>], label=[<NDArray 2>])"),
    (lambda: mx.callback.Speedometer(32), "Speedometer(batch_size=32)"),
    (lambda: mx.image.CenterCropAug((4, 4)), "CenterCropAug(size=(4, 4))"),
    (lambda: mx.AttrScope(ctx_group="a"), "AttrScope(ctx_group='a')"),
    (lambda: gluon.data.batchify.Stack(), "Stack()"),
]  # fmt: skip


@pytest.mark.parametrize("make, said", PRINTED)
def test_what_is_printed_says_what_it_is(make, said):
    with mx.name.NameManager():
        assert repr(make()) == said


def test_what_a_metric_has_measured_is_its_text():
    metric = gluon.metric.Accuracy()
    metric.update(np.array([1]), np.array([[0.1, 0.9]]))
    assert str(metric) == "EvalMetric: {'accuracy': 1.0}"


@pytest.mark.parametrize(
    "module", ["optimizer", "lr_scheduler", "gluon.metric", "initializer", "image"]
)
def test_no_address_is_printed(module):
    found = mx
    for part in module.split("."):
        found = getattr(found, part)
    printed = 0
    for name in found.__all__:
        cls = getattr(found, name)
        if isinstance(cls, type) and issubclass(cls, Shown):
            try:
                made = cls()
            except Exception:  # it needs arguments, or an optional package
                continue
            printed += 1
            assert re.match(r"\w+\(", repr(made)) and " at 0x" not in repr(made)
    assert printed > (0 if module in ("image", "lr_scheduler") else 4)


def test_the_class_s_own_default_counts():
    class Base(Shown):
        def __init__(self, rate=0.1, size=None):
            self.rate, self.size = rate, size

    class Derived(Base):
        def __init__(self, rate=0.5, **kwargs):
            super().__init__(rate, **kwargs)

    assert (
        repr(Derived()) == "Derived()" and repr(Derived(0.1, size=2)) == "Derived(rate=0.1, size=2)"
    )
    assert list(arguments(Derived)) == ["rate", "size"]


def test_a_repr_does_not_fail():
    class Half(Shown):
        @property
        def size(self):
            raise ValueError("closed")

        def __init__(self, size=1):
            pass

    assert repr(Half()) == "Half(<ValueError>)"


@pytest.mark.parametrize(
    "value, said",
    [
        (np.ones((2, 3)), "<ndarray 2x3>"), ("a" * 100, "'" + "a" * 57 + "'..."), ((1,), "(1,)"), ({1, 2}, "{1, 2}"),
        (list(range(20)), "<20 of list>"), ({"a": np.ones(2)}, "{'a': <ndarray 2>}"), (len, "len"),
    ],
)  # fmt: skip
def test_values_stay_short(value, said):
    assert text(value) == said
