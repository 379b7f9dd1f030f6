"""Records gluon's losses: values, gradients with respect to the prediction, and options.

Run with a Python that has Apache MXNet 2.0.0b1: ``python losses.py``. Writes
``../data/losses.json``: cases
``{loss, kwargs, inputs: {parameter: array}, out: array, grads: {parameter: array}}``. Inputs are
passed by
position in the order of ``forward``'s parameters (None where one is left out); the head gradient
is ones.
"""

import inspect

import mxnet as mx
import numpy as onp
from codec import array, error, save
from mxnet import autograd, gluon

np = mx.np
rng = onp.random.RandomState(3)
CASES = []


def positional(block, x):
    """``x`` in the order of the loss's parameters, None where one is left out."""
    names = list(inspect.signature(block.forward).parameters)
    last = max(names.index(n) for n in x)
    return [x.get(n) for n in names[: last + 1]]


def case(loss, inputs, grad=("pred",), **kwargs):
    x = {k: np.array(v, dtype=onp.asarray(v).dtype) for k, v in inputs.items()}
    c = {"loss": loss, "kwargs": kwargs, "inputs": {k: array(v) for k, v in x.items()}}
    for g in grad:
        x[g].attach_grad()
    try:
        block = getattr(gluon.loss, loss)(**kwargs)
        with autograd.record():
            out = block(*positional(block, x))
        out.backward()
        c["out"] = array(out)
        c["grads"] = {g: array(x[g].grad) for g in grad}
    except Exception as e:
        c.update(error(e))
        print(loss, kwargs, c["error"], c["text"])
    CASES.append(c)


def normal(*shape):
    return rng.normal(size=shape).astype("float32")


def main():
    p, y = normal(3, 4), normal(3, 4)
    w = onp.array([[0.5], [2.0], [1.0]], "float32")
    for loss in ("L2Loss", "L1Loss", "HuberLoss", "HingeLoss", "SquaredHingeLoss"):
        label = onp.sign(y) if "Hinge" in loss else y
        case(loss, {"pred": p, "label": label})
        case(loss, {"pred": p, "label": label}, weight=0.3)
        case(loss, {"pred": p, "label": label, "sample_weight": w})
        case(loss, {"pred": p, "label": label}, batch_axis=1)
        case(loss, {"pred": normal(2, 3, 2), "label": normal(2, 3, 2)})
    case("L2Loss", {"pred": normal(3, 1), "label": normal(3)})
    case("HuberLoss", {"pred": p, "label": y}, rho=0.4)
    case("HingeLoss", {"pred": p, "label": onp.sign(y)}, margin=0.5)
    case("SquaredHingeLoss", {"pred": p, "label": onp.sign(y)}, margin=0.5)

    bit = (y > 0).astype("float32")
    prob = (1 / (1 + onp.exp(-p))).astype("float32")
    pos = onp.array([[1.0, 2.0, 0.5, 1.5]], "float32")
    for loss in ("SigmoidBinaryCrossEntropyLoss", "SigmoidBCELoss"):
        case(loss, {"pred": p, "label": bit})
    case("SigmoidBCELoss", {"pred": p * 30, "label": bit})
    case("SigmoidBCELoss", {"pred": prob, "label": bit}, from_sigmoid=True)
    case("SigmoidBCELoss", {"pred": p, "label": bit, "sample_weight": w}, weight=0.5)
    case("SigmoidBCELoss", {"pred": p, "label": bit, "pos_weight": pos})
    case("SigmoidBCELoss", {"pred": prob, "label": bit, "pos_weight": pos}, from_sigmoid=True)

    label = onp.array([1, 3, 0], "int32")
    places = rng.randint(0, 4, (2, 3)).astype("int32")
    logp = (p - onp.log(onp.exp(p).sum(-1, keepdims=True))).astype("float32")
    for loss in ("SoftmaxCrossEntropyLoss", "SoftmaxCELoss"):
        case(loss, {"pred": p, "label": label})
    case("SoftmaxCELoss", {"pred": p, "label": label.astype("float32")})
    case("SoftmaxCELoss", {"pred": p, "label": label.reshape(3, 1)})
    case("SoftmaxCELoss", {"pred": logp, "label": label}, from_logits=True)
    case(
        "SoftmaxCELoss",
        {"pred": p, "label": onp.eye(4, dtype="float32")[label]},
        sparse_label=False,
    )
    case("SoftmaxCELoss", {"pred": p, "label": label, "sample_weight": w}, weight=0.5)
    case("SoftmaxCELoss", {"pred": normal(2, 4, 3), "label": places}, axis=1)
    case("SoftmaxCELoss", {"pred": normal(2, 3, 4), "label": places})
    case("SoftmaxCELoss", {"pred": p.astype("float16"), "label": label})
    case("SoftmaxCELoss", {"pred": p.astype("float64"), "label": label})
    case("SoftmaxCELoss", {"pred": p, "label": onp.array([-1, 4, 7], "int32")})

    q = onp.exp(y) / onp.exp(y).sum(-1, keepdims=True)
    case("KLDivLoss", {"pred": logp, "label": q})
    case("KLDivLoss", {"pred": p, "label": q}, from_logits=False)
    case(
        "KLDivLoss",
        {"pred": p, "label": q, "sample_weight": w},
        from_logits=False,
        weight=2.0,
        axis=1,
    )

    ctc = normal(2, 8, 5)
    seq = onp.array([[1, 2, 2, -1], [3, 0, -1, -1]], "float32")
    case("CTCLoss", {"pred": ctc, "label": seq})
    case("CTCLoss", {"pred": ctc.swapaxes(0, 1).copy(), "label": seq}, layout="TNC")
    case(
        "CTCLoss",
        {
            "pred": ctc,
            "label": onp.abs(seq),
            "pred_lengths": onp.array([8, 6], "float32"),
            "label_lengths": onp.array([3, 2], "float32"),
        },
    )

    for fmt, lab in (("signed", onp.sign(y)), ("binary", bit)):
        case("LogisticLoss", {"pred": p, "label": lab}, label_format=fmt)
    case("LogisticLoss", {"pred": p, "label": onp.sign(y), "sample_weight": w}, weight=0.5)

    tri = {"pred": p, "positive": normal(3, 4), "negative": normal(3, 4)}
    case("TripletLoss", tri)
    case("TripletLoss", tri, margin=3, weight=0.5)
    case("TripletLoss", {**tri, "sample_weight": w[:, 0]})

    count = rng.poisson(2.0, (3, 4)).astype("float32")
    case("PoissonNLLLoss", {"pred": p, "target": count})
    case("PoissonNLLLoss", {"pred": onp.exp(p), "target": count}, from_logits=False)
    case(
        "PoissonNLLLoss",
        {"pred": onp.exp(p), "target": count, "sample_weight": w},
        from_logits=False,
        compute_full=True,
        weight=0.5,
    )

    sign = onp.array([1, -1, 1], "float32")
    pair = {"input1": p, "input2": y, "label": sign}
    case("CosineEmbeddingLoss", pair, grad=("input1", "input2"))
    case("CosineEmbeddingLoss", pair, grad=("input1", "input2"), margin=0.2, weight=2.0)
    case("CosineEmbeddingLoss", {**pair, "sample_weight": w[:, 0]}, grad=("input1", "input2"))
    case("SDMLLoss", {"x1": p, "x2": y}, grad=("x1", "x2"))
    case("SDMLLoss", {"x1": p, "x2": y}, grad=("x1", "x2"), smoothing_parameter=0.1, weight=0.5)
    case("L2Loss", {"pred": p, "label": normal(2, 4)})
    save("losses.json", CASES)


if __name__ == "__main__":
    main()
