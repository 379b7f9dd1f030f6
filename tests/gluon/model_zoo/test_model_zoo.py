"""Networks of the model zoo, against MXNet's (tests/record/model_zoo.py)."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax.gluon import model_zoo
from mxjax.gluon.model_zoo import model_store, vision

FOLDER = Path(__file__).parents[2] / "data"
DATA = json.loads((FOLDER / "model_zoo.json").read_text())
OLD = json.loads((FOLDER / "model_zoo_mxnet1.json").read_text())
QUICK = ("resnet18_v1", "resnet50_v1", "resnet18_v2", "resnet50_v2", "mobilenet0.25", "mobilenetv2_1.0",
         "squeezenet1.1")  # fmt: skip


def fill(shape, number):
    """An array of a number, as the recorder made it."""
    n = int(np.prod(shape))
    return np.cos(np.arange(n) * 1.3 + number).reshape(shape).astype("float32")


def value(name, shape, number):
    v = fill(shape, number)
    if name.endswith(("var", "gamma")):
        return 1 + v / 4
    scale = 0.1 if len(shape) < 2 else (6 / np.prod(shape[1:])) ** 0.5
    return (v * scale).astype("float32")


def names():
    for name in DATA["parameters"]:
        # The others are the same code with other numbers; they draw 100 million weights.
        yield pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)


@pytest.mark.parametrize("name", names())
def test_parameters_have_the_names_and_shapes_of_both_generations(name):
    net = vision.get_model(name)
    net.initialize(mx.init.Zero())
    side = 299 if "inception" in name else 224
    net(mx.np.ones((1, 3, side, side)))  # is recorded, which infers shapes, and not computed
    lines = sorted(f"{key} {tuple(p.shape)}" for key, p in net.collect_params().items())
    made = {"count": len(lines), "sha1": hashlib.sha1("\n".join(lines).encode()).hexdigest()}
    assert made == DATA["parameters"][name] == OLD["parameters"][name]


def cases():
    for k, case in enumerate(DATA["small"]):
        # VGG's dense layers have 17 million weights however small the images are; MobileNet v2 has v1's layers.
        marks = pytest.mark.slow if case["network"] in ("VGG", "MobileNet") else ()
        yield pytest.param(case, False, id=f"{k}-{case['network']}", marks=marks)
    yield pytest.param(DATA["small"][1], True, id="ResNetV1-hybridized")
    for k, case in enumerate(DATA["large"]):  # images of 224 and 299
        yield pytest.param(case, True, id=f"{k}-{case['network']}-large", marks=pytest.mark.slow)


@pytest.mark.parametrize(("case", "hybridized"), cases())
def test_a_network_computes_what_mxnet_computes(case, hybridized):
    args = [
        getattr(vision, a) if isinstance(a, str) and hasattr(vision, a) else a for a in case["args"]
    ]
    net = getattr(vision, case["network"])(*args, **case["kwargs"])
    net.initialize(mx.init.Zero())
    x = mx.np.array(fill(case["shape"], 1))
    net(x)
    for k, (key, p) in enumerate(sorted(net.collect_params().items())):
        p.set_data(value(key, p.shape, k))
    if hybridized:
        net.hybridize()
    wanted = np.array(case["out"]["data"], "float32").reshape(case["out"]["shape"])
    made = net(x).asnumpy()
    np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-5 * max(1, np.abs(wanted).max()))


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A repository that has a file of SqueezeNet's weights, as MXNet published it."""
    net = vision.squeezenet1_1()
    net.initialize(mx.init.Constant(0.25))
    net(mx.np.ones((1, 3, 224, 224)))
    file = tmp_path / "weights.params"
    net.save_parameters(str(file))
    sha1 = hashlib.sha1(file.read_bytes()).hexdigest()
    monkeypatch.setitem(model_store._model_sha1, "squeezenet1.1", sha1)
    folder = tmp_path / "repo" / "gluon" / "models"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / f"squeezenet1.1-{sha1[:8]}.zip", "w") as packed:
        packed.write(file, f"squeezenet1.1-{sha1[:8]}.params")
    return tmp_path


def test_weights_come_from_a_repository_a_folder_or_a_file(published):
    root = published / "models"
    with mx.config.scope(data_repo=f"file://{published / 'repo'}"):
        net = vision.get_model("squeezenet1.1", pretrained=True, root=str(root))
    assert net.features[0].weight.data()[0, 0, 0, 0] == 0.25
    (file,) = root.iterdir()
    with mx.config.scope(data_repo="file:///nowhere"):
        vision.squeezenet1_1(pretrained=True, root=str(root), ctx=mx.cpu())  # it is there
        vision.squeezenet1_1(pretrained=str(file))
        file.write_bytes(b"something else")
        with pytest.raises(
            OSError, match=r"Put the file squeezenet1.1-\w{8}.params into .*hf://owner/name"
        ):
            vision.squeezenet1_1(pretrained=True, root=str(root))
    model_store.purge(str(root))
    assert not list(root.iterdir())


def test_what_is_not_the_published_file_is_not_kept(published, tmp_path):
    """Neither another file of that name, nor one that only pretends to be in the archive, nor no archive."""
    (packed,) = (published / "repo" / "gluon" / "models").iterdir()
    root = tmp_path / "models"
    member = packed.name.replace(".zip", ".params")
    for content in (b"another file", None):
        with zipfile.ZipFile(packed, "w") as out:
            if content is not None:
                out.writestr(member, content)
        with (
            mx.config.scope(data_repo=f"file://{published / 'repo'}"),
            pytest.raises(ValueError, match=member),
        ):
            vision.squeezenet1_1(pretrained=True, root=str(root))
        assert not list(root.iterdir())
    packed.write_bytes(b"<html>")
    with (
        mx.config.scope(data_repo=f"file://{published / 'repo'}"),
        pytest.raises(ValueError, match="damaged"),
    ):
        vision.squeezenet1_1(pretrained=True, root=str(root))
    assert not list(root.iterdir())


@pytest.mark.parametrize(
    "repo", ["hf://owner", "hf://../name", "hf://owner/name/../x", "hf://owner/na me"]
)
def test_repositories_that_may_not_be(tmp_path, repo):
    with (
        mx.config.scope(data_repo=repo),
        pytest.raises(ValueError, match="hf://owner/name is expected"),
    ):
        model_store.get_model_file("squeezenet1.1", root=str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_weights_come_from_hugging_face(published, monkeypatch):
    asked = []

    def fetch(url, path, **kwargs):
        asked.append(url)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes((published / "weights.params").read_bytes())
        return path

    monkeypatch.setattr(model_store, "fetch", fetch)
    with mx.config.scope(data_repo="hf://owner/name"):
        path = model_store.get_model_file("squeezenet1.1", root=str(published / "hf"))
    vision.squeezenet1_1(pretrained="hf://owner/name/small.params", root=str(published / "hf"))
    start = "https://huggingface.co/owner/name/resolve/main/"
    assert asked == [start + Path(path).name, start + "small.params"]


def test_unknown_names():
    with pytest.raises(ValueError, match="did you mean 'resnet50_v"):
        vision.get_model("resnet50_v3")
    with pytest.raises(ValueError, match="not available"):
        model_store.short_hash("resnet51")
    with pytest.raises(AssertionError, match="Invalid number of layers"):
        vision.get_resnet(1, 19)
    with pytest.raises(AssertionError, match="Invalid resnet version"):
        vision.get_resnet(3, 18)
    with pytest.raises(AssertionError, match="SqueezeNet version"):
        vision.SqueezeNet("2.0")
    assert model_zoo.vision.resnet50_v1.__doc__.startswith("ResNet with 50 layers")


def test_subclasses_make_stages_in_their_way():
    """`_make_layer` and `_make_features` are asked for every stage, as in MXNet."""

    class Dropped(vision.ResNetV1):
        def _make_layer(self, *args, **kwargs):
            stage = super()._make_layer(*args, **kwargs)
            stage.add(mx.gluon.nn.Dropout(0.1))
            return stage

    net = Dropped(vision.BasicBlockV1, [1, 2], [8, 8, 16], thumbnail=True)
    stages = [s for s in net.features if isinstance(s, mx.gluon.nn.HybridSequential)]
    assert [[type(b).__name__ for b in s] for s in stages] == [
        ["BasicBlockV1", "Dropout"],
        ["BasicBlockV1", "BasicBlockV1", "Dropout"],
    ]
    kinds = [type(b).__name__ for b in vision.vgg11()._make_features([1, 2], [3, 4], True)]
    assert kinds == [*(["Conv2D", "BatchNorm", "Activation"] * 1), "MaxPool2D"] + [
        *(["Conv2D", "BatchNorm", "Activation"] * 2),
        "MaxPool2D",
    ]
