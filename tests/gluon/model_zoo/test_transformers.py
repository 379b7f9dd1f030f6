"""ViT and BERT give what PyTorch's libraries give with the same weights (tests/record/torch_transformers.py)."""

import re
from pathlib import Path

import numpy as onp
import pytest

import mxjax as mx
from mxjax import autograd, gluon, np
from mxjax.gluon import model_zoo
from mxjax.gluon.model_zoo import transformers

RECORDED = onp.load(Path(__file__).parents[2] / "data" / "torch_transformers.npz")
VIT = {
    "image_size": 8,
    "patch_size": 4,
    "units": 8,
    "layers": 2,
    "heads": 2,
    "hidden": 12,
    "classes": 3,
}
BERT = {"words": 20, "units": 8, "layers": 2, "heads": 2, "hidden": 12, "length": 6}


def state(name):
    return {k.partition("/")[2]: RECORDED[k] for k in RECORDED.files if k.startswith(f"{name}/")}


def vit(name):
    return transformers.ViT(**VIT)


def of_transformers_4(arrays):
    """The names that Hugging Face's files have, which its newer releases convert."""
    made = {}
    for name, a in arrays.items():
        name = re.sub(r"^vit\.layers", "vit.encoder.layer", name)
        for short, long in (("q", "query"), ("k", "key"), ("v", "value")):
            name = name.replace(f"attention.{short}_proj", f"attention.attention.{long}")
        name = name.replace("attention.o_proj", "attention.output.dense")
        made[name.replace("mlp.fc1", "intermediate.dense").replace("mlp.fc2", "output.dense")] = a
    return made


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("name", ["hugging_face_vit", "torchvision_vit", "timm_vit"])
def test_vit_gives_their_scores(name, hybrid):
    net = vit(name).load_torch(state(name))
    if hybrid:
        net.hybridize()
    out = net(np.array(RECORDED["pictures"]))
    onp.testing.assert_allclose(out, RECORDED[f"{name}:scores"], rtol=1e-4, atol=1e-4)


def test_the_older_names_of_hugging_face():
    arrays = of_transformers_4(state("hugging_face_vit"))
    assert "vit.encoder.layer.1.attention.attention.query.weight" in arrays
    out = vit("hugging_face_vit").load_torch(arrays)(np.array(RECORDED["pictures"]))
    onp.testing.assert_allclose(out, RECORDED["hugging_face_vit:scores"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("prefix", ["", "bert."])
def test_bert_gives_their_tokens(hybrid, prefix):
    arrays = {prefix + k: v for k, v in state("hugging_face_bert").items()}
    arrays |= {"cls.predictions.bias": onp.zeros(20)} if prefix else {}
    net = transformers.BERT(**BERT).load_torch(arrays)
    if hybrid:
        net.hybridize()
    words, kinds, lengths = (
        np.array(RECORDED[k], dtype="int32") for k in ("words", "kinds", "lengths")
    )
    tokens, text = net(words, kinds, lengths)
    onp.testing.assert_allclose(text, RECORDED["hugging_face_bert:text"], rtol=1e-4, atol=1e-5)
    for row, length in enumerate(RECORDED["lengths"]):  # what does not count is nobody's
        expected = RECORDED["hugging_face_bert:tokens"][row, :length]
        onp.testing.assert_allclose(tokens[row, : int(length)], expected, rtol=1e-4, atol=1e-4)


def test_files_are_loaded_by_name(tmp_path):
    arrays = {k: mx.nd.array(v) for k, v in state("timm_vit").items()}
    mx.nd.save(str(tmp_path / "w.params"), arrays)
    net = transformers.vit_b_16(pretrained=str(tmp_path / "w.params"), **VIT)
    out = net(np.array(RECORDED["pictures"]))
    onp.testing.assert_allclose(out, RECORDED["timm_vit:scores"], rtol=1e-4, atol=1e-4)
    by_name = mx.gluon.model_zoo.vision.get_model(
        "ViT_B_16", pretrained=str(tmp_path / "w.params"), **VIT
    )
    onp.testing.assert_array_equal(by_name(np.array(RECORDED["pictures"])), out)
    net.save_parameters(str(tmp_path / "own.params"))
    again = transformers.vit_b_16(pretrained=str(tmp_path / "own.params"), **VIT)
    onp.testing.assert_array_equal(again(np.array(RECORDED["pictures"])), out)


def test_texts_have_a_network_by_name(tmp_path):
    arrays = {f"bert.{k}": mx.nd.array(v) for k, v in state("hugging_face_bert").items()}
    mx.nd.save(str(tmp_path / "w.params"), arrays)
    net = model_zoo.get_model("bert_base", pretrained=str(tmp_path / "w.params"), **BERT)
    words = np.array(RECORDED["words"], dtype="int32")
    expected = transformers.BERT(**BERT).load_torch(state("hugging_face_bert"))
    onp.testing.assert_array_equal(net(words)[1], expected(words)[1])


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("google/vit-base-patch16-224", "vit_b_16"), ("vit_large_patch16_224", "vit_l_16"),
        ("google-bert/bert-base-uncased", "bert_base"), ("microsoft/resnet-50", "resnet50_v1b"),
    ],
)  # fmt: skip
def test_names_of_other_libraries_say_what_they_are_here(name, here):
    with pytest.raises(ValueError, match=f"Model {name} is not supported; here it is {here!r}"):
        model_zoo.get_model(name)
    if here == "bert_base":  # texts are no pictures
        with pytest.raises(ValueError, match="Available options are alexnet"):
            model_zoo.vision.get_model(name)
    with pytest.raises(TypeError, match="the name of a network is expected"):
        model_zoo.get_model(transformers.BERT)


def test_epsilon_is_that_of_the_weights_unless_it_is_given():
    """Hugging Face's ViT has 1e-12, the others 1e-6, and programs that were recorded before know it, too."""
    x, arrays = np.array(RECORDED["pictures"]), state("hugging_face_vit")
    expected = RECORDED["hugging_face_vit:scores"]
    net = vit("timm_vit").load_torch(state("timm_vit"))
    net.hybridize()
    net(x)
    onp.testing.assert_allclose(net.load_torch(arrays)(x), expected, rtol=1e-4, atol=1e-4)
    assert [net.norm._epsilon, net.layers[1].norm2._epsilon] == [1e-12, 1e-12]
    own = transformers.ViT(**VIT, epsilon=1e-1).load_torch(arrays)
    assert own.norm._epsilon == 1e-1 and abs(own(x) - expected).max() > 1e-3


def test_what_only_looks_like_bert_is_refused():
    arrays = state("hugging_face_bert")
    name = "embeddings.token_type_embeddings.weight"
    arrays[name] = arrays[name][:1]
    with pytest.raises(ValueError, match="weights of RoBERTa or one of its kin"):
        transformers.BERT(**{**BERT, "kinds": 1}).load_torch(arrays)


def test_a_bert_of_words_alone_has_no_pooler():
    arrays = {k: v for k, v in state("hugging_face_bert").items() if "pooler" not in k}
    net = transformers.BERT(**BERT)
    with pytest.raises(AssertionError, match="pooler.*allow_missing=True"):
        net.load_torch(arrays)
    net.initialize()
    net.load_torch(arrays, allow_missing=True)
    words = np.array(RECORDED["words"], dtype="int32")
    whole = transformers.BERT(**BERT).load_torch(state("hugging_face_bert"))
    onp.testing.assert_array_equal(net(words)[0], whole(words)[0])


def test_what_does_not_fit_is_refused():
    with pytest.raises(
        AssertionError, match=r"'output\.weight'.* expected \(7, 8\) vs saved \(3, 8\)"
    ):
        transformers.ViT(**{**VIT, "classes": 7}).load_torch(state("timm_vit"))
    arrays = state("timm_vit")
    del arrays["norm.weight"]
    with pytest.raises(AssertionError, match=r"norm\.weight"):
        vit("timm_vit").load_torch(arrays)
    with pytest.raises(AssertionError, match="no place for decoder"):
        vit("timm_vit").load_torch({**state("timm_vit"), "decoder.weight": onp.ones(3)})
    with pytest.raises(ValueError, match="no multiple of heads"):
        transformers.EncoderLayer(8, 3, 4)
    with pytest.raises(ValueError, match="do not fill"):
        transformers.ViT(image_size=9, patch_size=4)


def test_they_train():
    net = vit("timm_vit").load_torch(state("timm_vit"))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01})
    x, y = np.array(RECORDED["pictures"]), np.array([0, 2])
    losses = []
    for _ in range(3):
        with autograd.record():
            loss = gluon.loss.SoftmaxCrossEntropyLoss()(net(x), y).sum()
        loss.backward()
        trainer.step(1)
        losses.append(loss.item())
    assert losses[2] < losses[0]


def test_the_usual_sizes():
    sizes = {
        "vit_b_16": 86_567_656,
        "vit_b_32": 88_224_232,
        "vit_l_16": 304_326_632,
    }  # torchvision's num_params
    for name, count in sizes.items():
        params = getattr(transformers, name)().collect_params().values()
        assert sum(onp.prod(p.shape) for p in params) == count
