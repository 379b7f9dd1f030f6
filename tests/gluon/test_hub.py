"""Folders in Hugging Face's manner: a network's parameters as safetensors, and what it is."""

import json
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax import errors
from mxjax.gluon import nn
from mxjax.gluon.model_zoo import from_pretrained, hub, save_pretrained, vision


def same(one, other):
    for (k, a), (j, b) in zip(one.collect_params().items(), other.collect_params().items(), strict=True):
        assert k == j
        np.testing.assert_array_equal(a.data().asnumpy(), b.data().asnumpy())


def dense(units=3):
    net = nn.Dense(units, in_units=4)
    net.initialize(mx.init.Normal(1.0))
    return net


@pytest.fixture(scope="module")
def network():
    net = vision.get_model("mobilenet0.25", classes=3)
    net.initialize(mx.init.Normal(1.0))
    net(mx.np.ones((1, 3, 32, 32)))
    return net


def test_a_network_of_the_zoo(tmp_path, network):
    save_pretrained(network, tmp_path / "there", "mobilenet0.25", classes=3)
    again = from_pretrained(tmp_path / "there")
    assert type(again) is type(network)
    same(again, network)


def test_any_network(tmp_path):
    net = dense()
    folder = save_pretrained(net, tmp_path / "a" / "b")
    same(from_pretrained(folder, dense()), net)
    assert json.loads(Path(folder, "config.json").read_text())["block"] == "Dense"
    with pytest.raises(ValueError, match="names no network .* a Dense.*from_pretrained\\(source, net\\)"):
        from_pretrained(folder)
    Path(folder, "config.json").unlink()
    same(from_pretrained(folder, dense()), net)  # a folder of somebody else's
    with pytest.raises(AssertionError, match="shape"):
        from_pretrained(folder, dense(5))


def test_from_hugging_face(tmp_path, monkeypatch):
    net = dense()
    save_pretrained(net, tmp_path / "there")
    asked = []

    def fetch(url, path):
        asked.append(url)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes((tmp_path / "there" / url.rpartition("/")[2]).read_bytes())
        return path

    monkeypatch.setattr(hub, "download", fetch)
    for _ in range(2):  # the second time the files are there
        same(from_pretrained("hf://owner/name", dense(), root=str(tmp_path / "cache")), net)
    start = "https://huggingface.co/owner/name/resolve/main/"
    assert asked == [start + "config.json", start + "model.safetensors"]
    with pytest.raises(ValueError, match="hf://owner/name is expected"):
        from_pretrained("hf://owner", dense())


def test_damaged_and_missing(tmp_path):
    with pytest.raises(OSError, match="config.json"):
        from_pretrained(tmp_path)
    with pytest.raises(OSError, match="model.safetensors"):
        from_pretrained(tmp_path, dense())
    for text in ("[1]", "{", "[" * 100_000, '{"network": 3}', '{"network": "os.system"}'):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ValueError):
            from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{}")
    with pytest.raises(errors.FormatError, match="model.safetensors"):
        from_pretrained(tmp_path, dense())
    with pytest.raises(TypeError, match="options are numbers"):
        save_pretrained(dense(), tmp_path, "net", size=object())
