"""Weights of PyTorch's networks: names, shapes and results are torchvision's (`tests/record/torch_networks.py`)."""

import json
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax.gluon import model_zoo, nn
from mxjax.gluon.model_zoo import from_torch_state_dict, match_torch_state_dict, vision

from ...drawn import weights

NETWORKS = json.loads((Path(__file__).parents[2] / "data" / "torch_networks.json").read_text())
OURS = {
    "resnet18": "resnet18_v1", "resnet50": "resnet50_v1b", "squeezenet1_1": "squeezenet1.1", "vgg11_bn": "vgg11_bn",
    "densenet121": "densenet121", "alexnet": "alexnet", "inception_v3": "inceptionv3",
}  # fmt: skip
SLOW = ("resnet50", "densenet121")


class Shape:
    """An array of which nobody needs the numbers."""

    def __init__(self, shape):
        self.shape = tuple(shape)

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("looked at")

    ndim = property(lambda self: len(self.shape))


def shapes(network, order=list):
    each = NETWORKS[network]
    found = {
        name: np.broadcast_to(np.float32(0), s)
        for name, s in zip(each["names"], each["shapes"], strict=True)
    }
    return {name: found[name] for name in order(found)}


@pytest.mark.parametrize(
    "order", [list, sorted], ids=["as PyTorch gives them", "sorted, as files have them"]
)
@pytest.mark.parametrize("network", OURS)
def test_layers_are_matched_one_by_one(network, order):
    net = vision.get_model(OURS[network])
    state = shapes(network, order)
    if network == "inception_v3" and order is sorted:
        with pytest.raises(
            ValueError, match="the layers do not agree"
        ):  # its branches' names say no order
            match_torch_state_dict(net, state, "AuxLogits.")
        return
    found = match_torch_state_dict(net, state, "AuxLogits.")
    layers = {name.rpartition(".")[0] for name in state if not name.startswith("AuxLogits.")}
    assert set(found.values()) == layers and len(found) == len(layers)
    first, last = list(found.values())[0], list(found.values())[-1]
    assert first == next(iter(shapes(network))).rpartition(".")[0] and last in (
        "fc", "classifier.1", "classifier", "classifier.6")  # fmt: skip


def test_a_match_is_the_one_that_names_would_give():
    found = match_torch_state_dict(vision.resnet18_v1(), shapes("resnet18", sorted))
    assert (
        found["features.0"] == "conv1" and found["features.1"] == "bn1" and found["output"] == "fc"
    )
    assert (
        found["features.4.0.body.0"] == "layer1.0.conv1"
        and found["features.4.1.body.4"] == "layer1.1.bn2"
    )
    assert found["features.5.0.downsample.0"] == "layer2.0.downsample.0"
    assert found["features.7.1.body.3"] == "layer4.1.conv2"
    hugging_face = {}  # its shortcuts come before the layers beside them
    for name, a in shapes("resnet18").items():
        name = name.replace("downsample.0", "shortcut.convolution").replace(
            "downsample.1", "shortcut.normalization"
        )
        for k in ("1", "2"):
            name = name.replace(f"conv{k}", f"layer.{int(k) - 1}.convolution").replace(
                f"bn{k}", f"layer.{int(k) - 1}.normalization")  # fmt: skip
        if name.startswith("layer."):
            name = name.replace("layer.0", "embedder.embedder")
        elif name.startswith("layer"):
            stage, _, rest = name.partition(".")
            name = f"encoder.stages.{int(stage[5:]) - 1}.layers.{rest}"
        hugging_face[f"resnet.{name}".replace("resnet.fc", "classifier.1")] = a
    for order in (list, sorted):
        found = match_torch_state_dict(
            vision.resnet18_v1(), {k: hugging_face[k] for k in order(hugging_face)}
        )
        assert found["features.0"] == "resnet.embedder.embedder.convolution"
        assert (
            found["features.5.0.body.0"] == "resnet.encoder.stages.1.layers.0.layer.0.convolution"
        )
        assert (
            found["features.5.0.downsample.1"]
            == "resnet.encoder.stages.1.layers.0.shortcut.normalization"
        )


@pytest.mark.parametrize("network", [
    n if n not in SLOW else pytest.param(n, marks=pytest.mark.slow) for n in NETWORKS if "output" in NETWORKS[n]
])  # fmt: skip
def test_results_are_torchvisions(network):
    each = NETWORKS[network]
    net = vision.get_model(OURS[network])
    given = weights(each["names"], each["shapes"])
    from_torch_state_dict(net, {"state_dict": {name: given[name] for name in sorted(given)}})
    image = (
        np.random.RandomState(1)
        .standard_normal((1, 3, each["size"], each["size"]))
        .astype("float32")
    )
    out = net(mx.np.array(image)).asnumpy()[0, :8]
    np.testing.assert_allclose(out, each["output"], rtol=1e-4, atol=2e-5 * each["largest"])


@pytest.mark.parametrize("network, ours, says", [
    ("resnet50", "resnet50_v1", r"first 2 do: ResNetV1 has features.4.0.body.0 \(weight 64x-1x1x1, bias 64\) where "
     r"these have layer1.0.conv1 \(weight 64x64x1x1\)"),
    ("resnet18", "resnet34_v1", "where these have layer2.0.conv1"),
    ("resnet18", "resnet18_v2", "where these have layer1.0.conv1"),
    ("mobilenet_v2", "mobilenetv2_1.0", "do not agree"),
    ("inception_v3", "inceptionv3", r"where these have AuxLogits.conv0.conv"),
    ("vgg11_bn", "vgg11", "do not agree, the first 1 do"),
])  # fmt: skip
def test_other_networks_are_refused(network, ours, says):
    net = vision.get_model(ours)
    with pytest.raises(ValueError, match=says):
        from_torch_state_dict(net, shapes(network))
    assert all(p._data is None for p in net.collect_params().values())


def test_what_is_left_or_missing_is_said():
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=2, use_bias=False))
    with pytest.raises(
        ValueError, match=r"from b \(weight 3x2\) on there is no place \(skip=...\?\)"
    ):
        match_torch_state_dict(net, {"a.weight": Shape((3, 2)), "b.weight": Shape((3, 2))})
    assert match_torch_state_dict(
        net, {"a.weight": Shape((3, 2)), "b.weight": Shape((3, 2))}, skip="b."
    ) == {"0": "a"}
    with pytest.raises(ValueError, match=r"there is nothing for 0 \(weight 3x2\)"):
        match_torch_state_dict(net, {})


def test_a_match_that_is_not_the_only_one_is_none():
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=3, use_bias=False), nn.Dense(3, in_units=3, use_bias=False))
    square = Shape((3, 3))
    assert match_torch_state_dict(net, {"fc1.weight": square, "fc2.weight": square}) == {
        "0": "fc1",
        "1": "fc2",
    }
    with pytest.raises(ValueError, match="more than one match: '0' may be 'query' or 'key'"):
        match_torch_state_dict(net, {"query.weight": Shape((3, 3)), "key.weight": Shape((3, 3))})


def test_it_is_shown(capsys):
    from_torch_state_dict(vision.resnet18_v1(), shapes("resnet18"), show=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 41 and lines[0] == "features.0 <- conv1 (weight 64x3x7x7)"
    assert lines[-1] == "output <- fc (weight 1000x512, bias 1000)"


def test_recurrent_layers_and_channels_last():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, in_channels=2, layout="NHWC"), mx.gluon.rnn.LSTM(5, input_size=4))
    gates = {
        "weight_ih_l0": (20, 4),
        "weight_hh_l0": (20, 5),
        "bias_ih_l0": (20,),
        "bias_hh_l0": (20,),
    }
    state = {"c.weight": (4, 2, 3, 3), "c.bias": (4,), **{f"lstm.{k}": s for k, s in gates.items()}}
    draw = np.random.RandomState(0)
    state = {k: draw.standard_normal(s).astype("float32") for k, s in state.items()}
    from_torch_state_dict(net, state)
    np.testing.assert_array_equal(
        net[0].weight.data().asnumpy(), state["c.weight"].transpose(0, 2, 3, 1)
    )
    np.testing.assert_array_equal(
        net[1].unpack_weights()["l0_h2h_weight"].asnumpy(), state["lstm.weight_hh_l0"]
    )


def small(path):
    """A file of torchvision's names for squeezenet1.1, and its numbers."""
    from mxjax import safetensors

    each = NETWORKS["squeezenet1_1"]
    given = weights(each["names"], each["shapes"])
    path.write_bytes(b"".join(safetensors.pack(given)))
    return given


def test_get_model_takes_files_of_torchs_names(tmp_path, monkeypatch):
    given = small(tmp_path / "model.safetensors")
    net = vision.get_model("squeezenet1.1", pretrained=str(tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(
        net.features[0].weight.data().asnumpy(), given["features.0.weight"]
    )
    asked = []

    def fetch(url, path, **options):
        asked.append(url)
        return str(tmp_path / "model.safetensors")

    monkeypatch.setattr(model_zoo.model_store, "fetch", fetch)
    net = vision.get_model(
        "squeezenet1.1", pretrained="timm/squeezenet1_1.tv_in1k", root=str(tmp_path / "root")
    )
    np.testing.assert_array_equal(
        net.output[0].weight.data().asnumpy(), given["classifier.1.weight"]
    )
    assert asked == [
        "https://huggingface.co/timm/squeezenet1_1.tv_in1k/resolve/main/model.safetensors"
    ]
    with pytest.raises(ValueError, match="the layers do not agree"):
        vision.get_model("resnet18_v1", pretrained=str(tmp_path / "model.safetensors"))


def test_files_of_ours_are_still_ours(tmp_path):
    for name in ("squeezenet1.1", "mobilenet0.25"):
        net = vision.get_model(name, classes=3)
        net.initialize()
        net(mx.np.zeros((1, 3, 224, 224)))
        path = str(tmp_path / f"{name}.params")
        net.save_parameters(path)
        again = vision.get_model(name, classes=3, pretrained=path)
        for key, p in net.collect_params().items():
            np.testing.assert_array_equal(
                again.collect_params()[key].data().asnumpy(), p.data().asnumpy()
            )


def test_a_resnet_that_strides_elsewhere_says_what_is_meant():
    with pytest.raises(
        ValueError, match="152 are resnet50_v1b, resnet101_v1b and resnet152_v1b here"
    ):
        match_torch_state_dict(vision.resnet50_v1(), shapes("resnet50"))
