"""Records gluon.metric: what ``get`` answers after two updates, and after ``reset`` and one more.

Run with a Python that has Apache MXNet 2.0.0b1: ``python metrics.py``. Writes
``../data/metrics.json``: cases
``{metric, kwargs, updates: [{labels: [array], preds: [array]}], get: [name, value] after each
update,
one: get after reset and the first update again}``.
"""

import warnings

import mxnet as mx
import numpy as onp
from codec import array, error, save

warnings.simplefilter("ignore")
np, M = mx.np, mx.gluon.metric
rng = onp.random.RandomState(5)
CASES = []


def got(metric):
    name, value = metric.get()
    return [name, [float(v) for v in value] if isinstance(value, list) else float(value)]


def case(metric, updates, **kwargs):
    c = {"metric": metric, "kwargs": kwargs}
    c["updates"] = [
        {"labels": [array(x) for x in ls], "preds": [array(x) for x in ps]} for ls, ps in updates
    ]
    feed = [tuple([np.array(x, dtype=x.dtype) for x in xs] for xs in u) for u in updates]
    try:
        m = M.create(metric, **kwargs) if metric.islower() else getattr(M, metric)(**kwargs)
        c["empty"] = str(m.get())
        c["get"] = []
        for labels, preds in feed:
            m.update(labels, preds)
            c["get"].append(got(m))
        m.reset()
        m.update(*feed[0])
        c["one"] = got(m)
    except Exception as e:
        c.update(error(e))
        print(metric, kwargs, c["error"], c["text"])
    CASES.append(c)


def soft(*shape):
    x = onp.exp(rng.normal(size=shape))
    return (x / x.sum(-1, keepdims=True)).astype("float32")


def ints(high, *shape):
    return rng.randint(0, high, shape).astype("int32")


def normal(*shape):
    return rng.normal(size=shape).astype("float32")


def pairs(label, pred, n=2):
    return [([label()], [pred()]) for _ in range(n)]


def main():
    many = pairs(lambda: ints(4, 6), lambda: soft(6, 4))
    for name in ("Accuracy", "acc", "accuracy"):
        case(name, many)
    case("Accuracy", pairs(lambda: ints(4, 6), lambda: ints(4, 6)))
    case("Accuracy", pairs(lambda: ints(4, 6).astype("float32"), lambda: soft(6, 4)))
    case("Accuracy", pairs(lambda: ints(4, 2, 3), lambda: soft(2, 3, 4)), axis=2)
    case("Accuracy", pairs(lambda: ints(4, 6, 1), lambda: soft(6, 4)))
    case("Accuracy", [([ints(4, 3), ints(4, 2)], [soft(3, 4), soft(2, 4)])])
    case("Accuracy", pairs(lambda: ints(4, 5), lambda: soft(6, 4)))
    case("Accuracy", many, name="mine")
    for k in (2, 3, 9):
        case("TopKAccuracy", many, top_k=k)
    case("TopKAccuracy", many)
    case("top_k_accuracy", many, top_k=2)
    binary = pairs(lambda: ints(2, 8), lambda: soft(8, 2))
    bits = pairs(lambda: ints(2, 8), lambda: rng.uniform(size=8).astype("float32"))
    case("BinaryAccuracy", bits)
    case("BinaryAccuracy", bits, threshold=0.3)
    for average in ("micro", "macro"):
        case("F1", binary, average=average)
        case("F1", many, class_type="multiclass", average=average)
        case("Fbeta", binary, beta=2, average=average)
    case(
        "F1",
        pairs(lambda: ints(2, 4, 3), lambda: rng.uniform(size=(4, 3)).astype("float32")),
        class_type="multilabel",
    )
    case("MCC", binary)
    case("PCC", many)
    reg = pairs(lambda: normal(6, 2), lambda: normal(6, 2))
    flat = pairs(lambda: normal(6), lambda: normal(6, 1))
    for name in ("MAE", "MSE", "RMSE"):
        case(name, reg)
        case(name, flat)
    case("MeanPairwiseDistance", reg)
    case("MeanPairwiseDistance", reg, p=1)
    case("MeanCosineSimilarity", reg)
    for name in ("CrossEntropy", "Perplexity"):
        case(name, many)
        case(name, many, ignore_label=1)
        case(name, pairs(lambda: ints(4, 2, 3), lambda: soft(2, 3, 4)))
        case(name, pairs(lambda: ints(4, 6), lambda: normal(6, 4)), from_logits=True)
    case("ce", many)
    case("PearsonCorrelation", pairs(lambda: normal(6), lambda: normal(6)))
    case("Loss", [([], [normal(6)]), ([], [normal(3)])])
    case("Loss", [([ints(2, 6)], [normal(6), normal(2)]), ([], [normal(3)])])
    save("metrics.json", CASES)


if __name__ == "__main__":
    main()
