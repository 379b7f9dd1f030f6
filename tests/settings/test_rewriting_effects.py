"""What the settings put in an operator's place: one for several, another way, another kind of sum."""

import logging
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax.core import compiler
from mxjax.effects import convolution
from mxjax.gluon import nn
from mxjax.ops.lowering import spelled_attention


class Spelled(nn.HybridSequential):
    def __init__(self, spell):
        super().__init__()
        self.spell = spell

    def forward(self, *xs):
        return self.spell(*xs)


def normalised(x):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / mx.np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)


def clipped(x):
    return mx.np.minimum(mx.np.maximum(x * 4, 0.25), 1.5) + 1


def attended(x):
    weights = mx.npx.softmax(mx.npx.batch_dot(x, x + 1, transpose_b=True) / 8**0.5, axis=-1)
    return mx.npx.batch_dot(weights, x * 2)


SPELLINGS = {
    "ScopeLayerNormPass": normalised,
    "ScopeClipBoxesPass": clipped,
    "ScopeAttentionPass": attended,
}


@pytest.mark.observes
@pytest.mark.parametrize("name", SPELLINGS)
def test_what_is_spelled_out_becomes_one_operator(name, programs, caplog):
    block = Spelled(SPELLINGS[name])
    block.hybridize()
    x = mx.np.array(np.random.uniform(size=(2, 3, 8)))
    x.attach_grad()

    def run():
        programs.clear()
        mx.engine.reset()
        with mx.autograd.record():
            out = block(x)
            loss = (out * out).sum()
        loss.backward()
        return out.asnumpy(), x.grad.asnumpy(), mx.engine.stats()["rewritten"]

    out, grad, count = run()
    assert count == 0
    caplog.set_level(logging.INFO, "mxjax")
    with mx.config.scope(enable_scope_fusion_passes=name.lower()):
        other, other_grad, count = run()
        assert count >= 1 and any(
            f"{name} took the place" in r.getMessage() for r in caplog.records
        )
        if name == "ScopeClipBoxesPass":
            assert (
                "/maximum)" not in programs.text
            )  # one operator stands for both, under the second one's name
    np.testing.assert_allclose(other, out, rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(other_grad, grad, rtol=2e-4, atol=1e-5)
    others = ",".join(sorted(SPELLINGS.keys() - {name}))
    with mx.config.scope(enable_scope_fusion_passes=others):
        assert run()[2] == 0
        if name == "ScopeClipBoxesPass":
            assert "/maximum)" in programs.text


def test_what_only_looks_like_it_stays():
    x = mx.np.array(np.random.uniform(size=(3, 4)))
    with mx.config.scope(enable_scope_fusion_passes=",".join(SPELLINGS)):
        mx.engine.reset()
        centred = x - x.mean(axis=0, keepdims=True)
        (centred / mx.np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)).asnumpy()
        (centred / mx.np.sqrt((centred**3).mean(axis=0, keepdims=True) + 1.0)).asnumpy()
        mx.np.minimum(mx.np.maximum(x, 1.5), 0.5).asnumpy()
        mx.npx.batch_dot(mx.npx.softmax(x[None] * 2, axis=-1), x.T[None]).asnumpy()
        assert mx.engine.stats()["rewritten"] == 0
    with pytest.raises(
        mx.config.SettingError, match="ScopeRoiAlignPass.*ScopeLayerNormPass, ScopeClip"
    ):
        mx.config.set(enable_scope_fusion_passes="ScopeRoiAlignPass")


@pytest.mark.observes
def test_the_faster_way_of_a_convolution_is_taken_and_slow_ones_are_given_up(
    monkeypatch, caplog, programs
):
    monkeypatch.setattr(convolution, "_quickest", {})
    conv = nn.Conv2D(6, 3, in_channels=5, padding=1)
    conv.initialize()
    x = mx.np.array(np.random.uniform(size=(1, 5, 6, 7)))
    expected = conv(x).asnumpy()
    free, asked = threading.Event(), []

    def measured(fn, structs):
        asked.append([tuple(s.shape) for s in structs])
        if "_as_product" in fn.__qualname__:
            return 1.0
        free.wait(60)
        return 0.5

    monkeypatch.setattr(convolution, "measure", measured)
    with mx.config.scope(compiler_conv_search=True, MGB_CONV_PROFILING_TIMEOUT=0.05):
        programs.clear()
        np.testing.assert_allclose(conv(x).asnumpy(), expected, rtol=1e-5, atol=1e-6)
        assert set(convolution._quickest.values()) == {"product"}
        assert [
            r
            for r in caplog.records
            if "took more than 0.05 s (compiler.autotune_timeout)" in r.getMessage()
        ]
        count = len(asked)
        (conv(x) * 2).asnumpy()
        assert len(asked) == count  # known by now
    free.set()
    monkeypatch.setattr(convolution, "_quickest", {})
    with mx.config.scope(compiler_conv_search=True):  # no limit: the faster one is waited for
        np.testing.assert_allclose(conv(x).asnumpy(), expected, rtol=1e-5, atol=1e-6)
        assert set(convolution._quickest.values()) == {"convolution"}
    monkeypatch.undo()
    with mx.config.scope(compiler_conv_search=True):
        np.testing.assert_allclose(conv(x + 1).asnumpy(), conv(x + 1).asnumpy())
    with pytest.raises(
        mx.config.SettingError, match="MGB_CONV_PROFILING_TIMEOUT=-1: expected a number >= 0"
    ):
        mx.config.set(MGB_CONV_PROFILING_TIMEOUT=-1)


ATTENTIONS = [
    ("gpu", "bfloat16", 64, "cudnn"),
    ("gpu", "float16", 8, "cudnn"),
    ("gpu", "float32", 64, None),  # cuDNN has none
    ("gpu", "bfloat16", 12, None),
    ("gpu", "bfloat16", 256, None),
    ("cpu", "bfloat16", 64, None),
    ("tpu", "bfloat16", 64, None),
]


@pytest.mark.parametrize(("platform", "dtype", "width", "how"), ATTENTIONS)
def test_attention_of_16_bits_is_cudnns_on_a_gpu(monkeypatch, platform, dtype, width, how):
    asked, own = [], jax.nn.dot_product_attention

    def watched(*args, implementation=None, **more):
        asked.append(implementation)
        if implementation == "cudnn":
            raise RuntimeError(
                "cuDNN is not detected."
            )  # as JAX says it where there is none: XLA's takes its place
        return own(*args, **more)

    monkeypatch.setattr(jax.nn, "dot_product_attention", watched)
    draw = np.random.RandomState(0)
    q, k, v = (draw.uniform(-1, 1, (4, 6, width)).astype(np.float32) for _ in range(3))
    with compiler.for_platform(platform):
        got = spelled_attention.attended(*(jnp.asarray(a, dtype) for a in (q, k, v)), scale=0.25)
    assert asked == ([how, None] if how else [None])
    scores = np.exp(np.einsum("nqd,nkd->nqk", q, k) * 0.25)
    want = np.einsum("nqk,nkd->nqd", scores / scores.sum(-1, keepdims=True), v)
    np.testing.assert_allclose(
        np.asarray(got, np.float32), want, atol=2e-2 if dtype != "float32" else 1e-5
    )


def test_attention_lowers_to_cudnn_both_ways(monkeypatch):
    # As on a machine with cuDNN 9.10, whose version JAX asks for.
    fused = pytest.importorskip("jax._src.cudnn.fused_attention_stablehlo")
    if not hasattr(fused, "check_cudnn_version"):
        pytest.skip("this JAX asks for cuDNN in another way")
    monkeypatch.setattr(fused, "check_cudnn_version", lambda: 91000)

    def loss(q, k, v):
        with compiler.for_platform("gpu"):
            return spelled_attention.attended(q, k, v, scale=0.125).astype("float32").sum()

    struct = jax.ShapeDtypeStruct((24, 128, 64), jnp.bfloat16)
    with compiler.wide_types():  # as programs are traced
        traced = jax.jit(jax.grad(loss, (0, 1, 2))).trace(struct, struct, struct)
        text = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert "__cudnn$fmhaSoftmaxBackward" in text
    assert text.count("__cudnn$fmhaSoftmax") > text.count("__cudnn$fmhaSoftmaxBackward")
