"""The operators that `make bench-ops` measures, at the sizes of three networks. `ops_work.py` runs them.

ResNet-50 (8 images of 224 x 224), BERT-base (8 sequences of 128) and a language model with an LSTM (35 x 20 words out
of 10,000, 200 units). Eighty operators: what users' code calls most often (counted in GluonCV, GluonNLP and others),
and what the three networks' layers call. A row's call is the same code for mxjax and for MXNet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy


class Row(NamedTuple):
    """One operator at one size.

    ``inputs`` make its arrays; ``call(mx, *arrays)`` is the operator, ``torch(torch, *arrays)`` the same in PyTorch,
    where that has it. Gradients are taken of the first ``grads`` inputs (0: forward alone). ``classic``: of mx.nd's
    arrays. ``reason``: why it is slower than MXNet, where it is by more than a fifth.
    """

    name: str
    group: str
    inputs: list[Callable[[Any], Any]]
    call: Callable[..., Any]
    torch: Callable[..., Any] | None = None
    grads: int = 1
    classic: bool = False
    torch_inputs: list[Callable[[Any], Any]] | None = None
    reason: str = ""


def real(*shape: int) -> Callable[[Any], Any]:
    return lambda rng: rng.standard_normal(shape).astype("float32")


def positive(*shape: int) -> Callable[[Any], Any]:
    return lambda rng: (0.1 + rng.random_sample(shape)).astype("float32")


def whole(high: int, *shape: int) -> Callable[[Any], Any]:
    return lambda rng: rng.randint(0, high, shape).astype("int32")


def places(*highs: int, count: int) -> Callable[[Any], Any]:
    """Places in an array of these lengths, a column for each."""
    return lambda rng: numpy.stack([rng.randint(0, high, count) for high in highs]).astype("int32")


def boxes(*lead: int) -> Callable[[Any], Any]:
    """Class, score and corners of boxes."""

    def make(rng: Any) -> Any:
        corner, size = rng.random_sample((*lead, 2)), 0.05 + 0.2 * rng.random_sample((*lead, 2))
        kind, score = rng.randint(0, 20, (*lead, 1)), rng.random_sample((*lead, 1))
        return numpy.concatenate([kind, score, corner, corner + size], -1).astype("float32")

    return make


def weights(inputs: int, units: int, layers: int) -> int:
    """How many numbers an LSTM's parameters are."""
    return sum(4 * units * ((inputs if not k else units) + units + 2) for k in range(layers))


def lstm(t: Any, x: Any, h: Any, c: Any, *params: Any) -> Any:
    return t.lstm(x, (h, c), list(params), True, 2, 0.0, t.is_grad_enabled(), False, False)[0]


def batch_norm(t: Any, x: Any, gamma: Any, beta: Any, mean: Any, var: Any) -> Any:
    train = t.is_grad_enabled()
    return t.nn.functional.batch_norm(x, mean, var, gamma, beta, train, 0.1, 1e-5)


RES, STEM, HEAD = (8, 256, 56, 56), (8, 64, 112, 112), (8, 2048, 7, 7)
HIDDEN, FEED, HEADS, SCORES = (8, 128, 768), (8, 128, 3072), (8, 128, 12, 64), (8, 12, 128, 128)
WORDS, VOCABULARY, UNITS = 35 * 20, 10_000, 200
CLASSES = (WORDS, VOCABULARY)

# Why a row is slower than MXNet.
EDGES = "channels last inside: alone it turns images at both ends, which in a network are layouts"
PASS = "one pass over memory: XLA's loop of a single operator reaches 17 GB/s, NumPy's 22, MXNet's 30 to 37"
ROW_WISE = "XLA makes several passes over memory where MXNet goes row by row; in a loop over rows it takes longer"
GATHER = "rows gathered in 0.2 ms: between 0.3 and 0.9 from run to run"
SMALL = "0.03 ms: what recording and starting a program takes"
TOP = "XLA:CPU's TopK; the tops of blocks first: 9.4 ms by blocks of 32, 13 by blocks of 128"
BATCHED = "XLA multiplies 96 small matrices at 60 GF/s, as PyTorch does; MXNet's library at 88"

RESNET = [
    Row("npx.convolution", "7x7, stride 2", [real(4, 3, 224, 224), real(64, 3, 7, 7)],
        lambda m, x, w: m.npx.convolution(x, w, kernel=(7, 7), stride=(2, 2), pad=(3, 3), num_filter=64, no_bias=True),
        lambda t, x, w: t.conv2d(x, w, None, 2, 3), 2, reason=EDGES),
    Row("npx.convolution", "3x3", [real(4, 64, 56, 56), real(64, 64, 3, 3)],
        lambda m, x, w: m.npx.convolution(x, w, kernel=(3, 3), pad=(1, 1), num_filter=64, no_bias=True),
        lambda t, x, w: t.conv2d(x, w, None, 1, 1), 2, reason=EDGES),
    Row("npx.convolution", "1x1", [real(4, 256, 56, 56), real(64, 256, 1, 1)],
        lambda m, x, w: m.npx.convolution(x, w, kernel=(1, 1), num_filter=64, no_bias=True),
        lambda t, x, w: t.conv2d(x, w), 2, reason=EDGES),
    Row("npx.batch_norm", "", [real(*RES), real(256), real(256), real(256), positive(256)],
        lambda m, x, g, b, mean, var: m.npx.batch_norm(x, g, b, mean, var, fix_gamma=False, eps=1e-5), batch_norm, 3),
    Row("npx.pooling", "max 3x3, stride 2", [real(*STEM)],
        lambda m, x: m.npx.pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max"),
        lambda t, x: t.max_pool2d(x, 3, 2, 1), reason=EDGES),
    Row("nd.contrib.AdaptiveAvgPooling2D", "", [real(*HEAD)],
        lambda m, x: m.nd.contrib.AdaptiveAvgPooling2D(x, output_size=1),
        lambda t, x: t.nn.functional.adaptive_avg_pool2d(x, 1), classic=True),
    Row("npx.fully_connected", "classes", [real(64, 2048), real(1000, 2048), real(1000)],
        lambda m, x, w, b: m.npx.fully_connected(x, w, b, num_hidden=1000, no_bias=False),
        lambda t, x, w, b: t.nn.functional.linear(x, w, b), 3),
    Row("npx.relu", "", [real(*RES)], lambda m, x: m.npx.relu(x), lambda t, x: t.relu(x)),
    Row("np.add", "", [real(*RES), real(*RES)], lambda m, a, b: m.np.add(a, b), lambda t, a, b: t.add(a, b), 2,
        reason=PASS),
    Row("np.multiply", "by channel", [real(*RES), real(8, 256, 1, 1)], lambda m, a, b: m.np.multiply(a, b),
        lambda t, a, b: t.mul(a, b), 2, reason=PASS),
    Row("np.subtract", "by channel", [real(*RES), real(256, 1, 1)], lambda m, a, b: m.np.subtract(a, b),
        lambda t, a, b: t.sub(a, b), 2, reason=PASS),
    Row("np.maximum", "", [real(*RES), real(*RES)], lambda m, a, b: m.np.maximum(a, b),
        lambda t, a, b: t.maximum(a, b), 2),
    Row("np.minimum", "", [real(*RES), real(*RES)], lambda m, a, b: m.np.minimum(a, b),
        lambda t, a, b: t.minimum(a, b), 2),
    Row("np.mean", "of images", [real(*RES)], lambda m, x: m.np.mean(x, axis=(2, 3)), lambda t, x: t.mean(x, (2, 3))),
    Row("np.sum", "of channels", [real(*RES)], lambda m, x: m.np.sum(x, axis=(0, 2, 3)),
        lambda t, x: t.sum(x, (0, 2, 3))),
    Row("np.max", "of images", [real(*RES)], lambda m, x: m.np.max(x, axis=(2, 3)), lambda t, x: t.amax(x, (2, 3))),
    Row("np.min", "of channels", [real(*RES)], lambda m, x: m.np.min(x, axis=1), lambda t, x: t.amin(x, 1)),
    Row("np.clip", "", [real(*RES)], lambda m, x: m.np.clip(x, -1.0, 1.0), lambda t, x: t.clamp(x, -1, 1)),
    Row("np.abs", "", [real(*RES)], lambda m, x: m.np.abs(x), lambda t, x: t.abs(x), reason=PASS),
    Row("np.sign", "", [real(*RES)], lambda m, x: m.np.sign(x), lambda t, x: t.sign(x)),
    Row("np.square", "", [real(*RES)], lambda m, x: m.np.square(x), lambda t, x: t.square(x), reason=PASS),
    Row("np.sqrt", "", [positive(*RES)], lambda m, x: m.np.sqrt(x), lambda t, x: t.sqrt(x)),
    Row("np.linalg.norm", "of images", [real(*RES)], lambda m, x: m.np.linalg.norm(x, axis=(2, 3)),
        lambda t, x: t.linalg.norm(x, dim=(2, 3))),
    Row("np.transpose", "channels last", [real(*RES)], lambda m, x: m.np.transpose(x, (0, 2, 3, 1)),
        lambda t, x: x.permute(0, 2, 3, 1).contiguous()),
    Row("np.pad", "by one pixel", [real(*RES)], lambda m, x: m.np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))),
        lambda t, x: t.nn.functional.pad(x, (1, 1, 1, 1))),
    Row("np.flip", "mirrored", [real(*RES)], lambda m, x: m.np.flip(x, 3), lambda t, x: t.flip(x, (3,))),
    Row("np.tile", "", [real(8, 256, 1, 1)], lambda m, x: m.np.tile(x, (1, 1, 56, 56)),
        lambda t, x: t.tile(x, (1, 1, 56, 56))),
    Row("npx.broadcast_like", "", [real(8, 256, 1, 1), real(*RES)], lambda m, a, b: m.npx.broadcast_like(a, b),
        lambda t, a, b: a.expand_as(b).contiguous()),
    Row("astype", "float16", [real(*RES)], lambda m, x: x.astype("float16"), lambda t, x: x.to(t.float16)),
    Row("nd.slice_axis", "half the channels", [real(*RES)], lambda m, x: m.nd.slice_axis(x, axis=1, begin=0, end=128),
        lambda t, x: x[:, :128].contiguous(), classic=True, reason=PASS),
    Row("nd.slice", "cut out", [real(*RES)],
        lambda m, x: m.nd.slice(x, begin=(None, None, 4, 4), end=(None, None, 52, 52)),
        lambda t, x: x[:, :, 4:52, 4:52].contiguous(), classic=True, reason=PASS),
    Row("npx.batch_flatten", "", [real(64, 2048, 7, 7)], lambda m, x: m.npx.batch_flatten(x),
        lambda t, x: x.flatten(1).clone()),
    Row("nd.UpSampling", "twice", [real(8, 256, 28, 28)],
        lambda m, x: m.nd.UpSampling(x, scale=2, sample_type="nearest"),
        lambda t, x: t.nn.functional.interpolate(x, scale_factor=2), classic=True),
    Row("nd.contrib.BilinearResize2D", "twice", [real(4, 64, 56, 56)],
        lambda m, x: m.nd.contrib.BilinearResize2D(x, height=112, width=112),
        lambda t, x: t.nn.functional.interpolate(x, size=(112, 112), mode="bilinear", align_corners=True),
        classic=True),
    Row("nd.contrib.box_nms", "1,000 boxes", [boxes(8, 1000)],
        lambda m, x: m.nd.contrib.box_nms(x, overlap_thresh=0.5, valid_thresh=0.01, topk=400, coord_start=2,
                                          score_index=1, id_index=0), classic=True),
    Row("np.zeros", "", [], lambda m: m.np.zeros(RES), lambda t: t.zeros(RES), 0, reason=PASS),
    Row("np.ones", "", [], lambda m: m.np.ones(RES), lambda t: t.ones(RES), 0, reason=PASS),
    Row("np.full", "", [], lambda m: m.np.full(RES, 0.5), lambda t: t.full(RES, 0.5), 0, reason=PASS),
    Row("np.zeros_like", "", [real(*RES)], lambda m, x: m.np.zeros_like(x), lambda t, x: t.zeros_like(x), 0,
        reason=PASS),
    Row("np.ones_like", "", [real(*RES)], lambda m, x: m.np.ones_like(x), lambda t, x: t.ones_like(x), 0, reason=PASS),
    Row("np.random.uniform", "", [], lambda m: m.np.random.uniform(-1, 1, (8, 3, 224, 224)),
        lambda t: t.empty(8, 3, 224, 224).uniform_(-1, 1), 0),
    Row("np.random.normal", "", [], lambda m: m.np.random.normal(0, 1, (512, 512, 3, 3)),
        lambda t: t.randn(512, 512, 3, 3), 0),
]  # fmt: skip

BERT = [
    Row("npx.fully_connected", "feed forward", [real(4, 128, 768), real(3072, 768), real(3072)],
        lambda m, x, w, b: m.npx.fully_connected(x, w, b, num_hidden=3072, no_bias=False, flatten=False),
        lambda t, x, w, b: t.nn.functional.linear(x, w, b), 3),
    Row("npx.layer_norm", "", [real(*HIDDEN), real(768), real(768)],
        lambda m, x, g, b: m.npx.layer_norm(x, g, b, axis=-1, eps=1e-12),
        lambda t, x, g, b: t.nn.functional.layer_norm(x, (768,), g, b, 1e-12), 3),
    Row("npx.leaky_relu", "gelu", [real(*FEED)], lambda m, x: m.npx.leaky_relu(x, act_type="gelu"),
        lambda t, x: t.nn.functional.gelu(x)),
    Row("npx.dropout", "", [real(*FEED)], lambda m, x: m.npx.dropout(x, p=0.1, mode="always"),
        lambda t, x: t.dropout(x, 0.1, True)),
    Row("npx.embedding", "", [real(30522, 768), whole(30522, 8, 128)],
        lambda m, w, at: m.npx.embedding(at, w, input_dim=30522, output_dim=768),
        lambda t, w, at: t.nn.functional.embedding(at, w), reason=GATHER),
    Row("npx.softmax", "attention", [real(*SCORES)], lambda m, x: m.npx.softmax(x, axis=-1),
        lambda t, x: t.softmax(x, -1), reason=ROW_WISE),
    Row("npx.batch_dot", "scores", [real(96, 128, 64), real(96, 128, 64)],
        lambda m, q, k: m.npx.batch_dot(q, k, transpose_b=True), lambda t, q, k: t.bmm(q, k.transpose(1, 2)), 2,
        reason=BATCHED),
    Row("np.matmul", "values", [real(*SCORES), real(8, 12, 128, 64)], lambda m, a, v: m.np.matmul(a, v),
        lambda t, a, v: t.matmul(a, v), 2),
    Row("np.einsum", "scores", [real(*HEADS), real(*HEADS)], lambda m, q, k: m.np.einsum("bqhd,bkhd->bhqk", q, k),
        lambda t, q, k: t.einsum("bqhd,bkhd->bhqk", q, k), 2),
    Row("np.swapaxes", "heads", [real(*HEADS)], lambda m, x: m.np.swapaxes(x, 1, 2),
        lambda t, x: x.transpose(1, 2).contiguous()),
    Row("npx.reshape", "heads", [real(*FEED)], lambda m, x: m.npx.reshape(x, (-2, -2, 12, -1)),
        lambda t, x: x.reshape(8, 128, 12, -1).clone()),
    Row("np.expand_dims", "", [real(*FEED)], lambda m, x: m.np.expand_dims(x, 1), lambda t, x: x.unsqueeze(1).clone(),
        reason=PASS),
    Row("np.squeeze", "", [real(8, 1, 128, 3072)], lambda m, x: m.np.squeeze(x, 1), lambda t, x: x.squeeze(1).clone()),
    Row("np.concatenate", "three of them", [real(*HIDDEN)] * 3, lambda m, a, b, c: m.np.concatenate([a, b, c], -1),
        lambda t, a, b, c: t.cat([a, b, c], -1), 3),
    Row("np.stack", "three of them", [real(*HIDDEN)] * 3, lambda m, a, b, c: m.np.stack([a, b, c], 2),
        lambda t, a, b, c: t.stack([a, b, c], 2), 3),
    Row("np.split", "into three", [real(8, 128, 2304)], lambda m, x: m.np.split(x, 3, -1),
        lambda t, x: [part.contiguous() for part in t.chunk(x, 3, -1)]),
    Row("np.where", "mask", [real(*SCORES), real(1), whole(2, 8, 1, 128, 128)],
        lambda m, x, low, mask: m.np.where(mask, x, low), lambda t, x, low, mask: t.where(mask != 0, x, low)),
    Row("npx.sequence_mask", "", [real(128, 8, 768), whole(128, 8)],
        lambda m, x, n: m.npx.sequence_mask(x, n, use_sequence_length=True)),
    Row("npx.arange_like", "", [real(*HIDDEN)], lambda m, x: m.npx.arange_like(x), None, 0),
    Row("np.tanh", "", [real(*FEED)], lambda m, x: m.np.tanh(x), lambda t, x: t.tanh(x)),
    Row("np.power", "", [positive(*FEED)], lambda m, x: m.np.power(x, 3.0), lambda t, x: t.pow(x, 3.0)),
    Row("np.divide", "by the deviation", [real(*FEED), positive(8, 128, 1)], lambda m, a, b: m.np.divide(a, b),
        lambda t, a, b: t.div(a, b), 2),
    Row("npx.gather_nd", "masked words", [real(32, 512, 768), places(32, 512, count=1280)],
        lambda m, x, at: m.npx.gather_nd(x, at), lambda t, x, at: x[at[0], at[1]]),
    Row("np.take", "rows", [real(16384, 768), whole(16384, 1280)], lambda m, x, at: m.np.take(x, at, axis=0),
        lambda t, x, at: t.index_select(x, 0, at), reason=GATHER),
    Row("npx.one_hot", "", [whole(3072, 8, 128)], lambda m, x: m.npx.one_hot(x, 3072),
        lambda t, x: t.nn.functional.one_hot(x, 3072).float(), 0),
    Row("np.arange", "", [], lambda m: m.np.arange(1_000_000), lambda t: t.arange(1_000_000, dtype=t.float32), 0),
    Row("np.random.randint", "masked places", [], lambda m: m.np.random.randint(0, 30522, (8, 128, 512)),
        lambda t: t.randint(0, 30522, (8, 128, 512)), 0),
]  # fmt: skip

LSTM = [
    Row("npx.rnn", "LSTM, two layers",
        [real(35, 20, UNITS), lambda rng: 0.05 * rng.standard_normal(weights(UNITS, UNITS, 2)).astype("float32"),
         real(2, 20, UNITS), real(2, 20, UNITS)],
        lambda m, x, w, h, c: m.npx.rnn(
            x, w, h, c, mode="lstm", state_size=UNITS, num_layers=2, state_outputs=True)[0],
        lstm, 2, torch_inputs=[real(35, 20, UNITS), real(2, 20, UNITS), real(2, 20, UNITS),
                               *[*[real(4 * UNITS, UNITS)] * 2, *[real(4 * UNITS)] * 2] * 2]),
    Row("npx.embedding", "words", [real(VOCABULARY, UNITS), whole(VOCABULARY, 35, 20)],
        lambda m, w, at: m.npx.embedding(at, w, input_dim=VOCABULARY, output_dim=UNITS),
        lambda t, w, at: t.nn.functional.embedding(at, w)),
    Row("np.dot", "classes", [real(WORDS, UNITS), real(UNITS, VOCABULARY)], lambda m, a, b: m.np.dot(a, b),
        lambda t, a, b: t.mm(a, b), 2),
    Row("npx.log_softmax", "classes", [real(*CLASSES)], lambda m, x: m.npx.log_softmax(x, axis=-1),
        lambda t, x: t.log_softmax(x, -1), reason=ROW_WISE),
    Row("npx.softmax", "classes", [real(*CLASSES)], lambda m, x: m.npx.softmax(x, axis=-1),
        lambda t, x: t.softmax(x, -1), reason=ROW_WISE),
    Row("npx.pick", "right words", [real(*CLASSES), whole(VOCABULARY, WORDS)], lambda m, x, at: m.npx.pick(x, at),
        lambda t, x, at: t.gather(x, 1, at[:, None])[:, 0], reason=SMALL),
    Row("npx.topk", "10 of 10,000", [real(*CLASSES)], lambda m, x: m.npx.topk(x, k=10, axis=-1),
        lambda t, x: t.topk(x, 10, -1)[1], 0, reason=TOP),
    Row("np.argmax", "", [real(*CLASSES)], lambda m, x: m.np.argmax(x, axis=-1), lambda t, x: t.argmax(x, -1), 0),
    Row("np.argsort", "", [real(64, VOCABULARY)], lambda m, x: m.np.argsort(x, axis=-1),
        lambda t, x: t.argsort(x, -1), 0),
    Row("npx.sigmoid", "", [real(*CLASSES)], lambda m, x: m.npx.sigmoid(x), lambda t, x: t.sigmoid(x)),
    Row("np.exp", "", [real(*CLASSES)], lambda m, x: m.np.exp(x), lambda t, x: t.exp(x)),
    Row("np.log", "", [positive(*CLASSES)], lambda m, x: m.np.log(x), lambda t, x: t.log(x)),
    Row("np.log2", "", [positive(*CLASSES)], lambda m, x: m.np.log2(x), lambda t, x: t.log2(x)),
    Row("np.sin", "", [real(*CLASSES)], lambda m, x: m.np.sin(x), lambda t, x: t.sin(x)),
    Row("np.cos", "", [real(*CLASSES)], lambda m, x: m.np.cos(x), lambda t, x: t.cos(x)),
    Row("np.random.gumbel", "", [], lambda m: m.np.random.gumbel(0, 1, (70, VOCABULARY)),
        lambda t: -t.empty(70, VOCABULARY).exponential_().log(), 0),
]  # fmt: skip

ROWS = {"ResNet-50": RESNET, "BERT-base": BERT, "LSTM": LSTM}
