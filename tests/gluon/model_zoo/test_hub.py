"""Folders in Hugging Face's manner: a network's parameters as safetensors, and what it is."""

import email.message
import io
import json
import os
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax import errors
from mxjax.files import downloading
from mxjax.gluon import nn
from mxjax.gluon.model_zoo import (
    by_name,
    from_pretrained,
    hugging_face,
    model_store,
    save_pretrained,
    vision,
)


def same(one, other):
    for (k, a), (j, b) in zip(
        one.collect_params().items(), other.collect_params().items(), strict=True
    ):
        assert k == j
        np.testing.assert_array_equal(a.data().asnumpy(), b.data().asnumpy())


def dense(units=3):
    net = nn.Dense(units, in_units=4)
    net.initialize(mx.init.Normal(1.0))
    return net


class Answer(io.BytesIO):
    """What a server answers."""

    status, headers = 200, email.message.Message()


def served(monkeypatch, answer):
    """Let downloads get what a function of the URL gives, or raises."""

    class Opener:
        def open(self, asked, timeout):
            return Answer(answer(getattr(asked, "full_url", asked)))

    monkeypatch.setattr(downloading.urllib.request, "build_opener", lambda *handlers: Opener())


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


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
    with pytest.raises(
        ValueError, match="names no network .* a Dense.*from_pretrained\\(source, net\\)"
    ):
        from_pretrained(folder)
    Path(folder, "config.json").unlink()
    same(from_pretrained(folder, dense()), net)  # a folder of somebody else's
    with pytest.raises(AssertionError, match="shape"):
        from_pretrained(folder, dense(5))


def test_from_hugging_face(tmp_path, monkeypatch):
    net = dense()
    save_pretrained(net, tmp_path / "there")
    asked = []

    def answer(url):
        asked.append(url)
        return (tmp_path / "there" / url.rpartition("/")[2]).read_bytes()

    served(monkeypatch, answer)
    for _ in range(2):  # the second time the files are there
        same(from_pretrained("hf://owner/name", dense(), root=str(tmp_path / "cache")), net)
    start = "https://huggingface.co/owner/name/resolve/main/"
    assert asked == [start + "config.json", start + "model.safetensors"]
    same(from_pretrained("hf://owner/name@v1.0", dense(), root=str(tmp_path / "cache")), net)
    start = "https://huggingface.co/owner/name/resolve/v1.0/"
    assert asked[2:] == [start + "config.json", start + "model.safetensors"]
    assert files(tmp_path / "cache") == [
        f"owner/{repository}/{file}" for repository in ("name", "name@v1.0")
        for file in ("config.json", "model.safetensors")
    ]  # fmt: skip


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


STRANGERS = [
    {"root": "HOME/.config", "pretrained": "hf://systemd/user/x.service"},
    {"pretrained": "hf://o/r/../../../x"}, {"pretrained": "/etc/passwd"}, {"pretrained": True}, {"root": "HOME"},
    {"device": "cpu"}, {"ctx": "cpu"}, {"prefix": "a"}, {"params": {}}, {"layers": [1]}, {"": 1}, {"x" * 100_000: 1},
    {"classes": 10**12}, {"classes": 0}, {"classes": -1}, {"classes": True}, {"classes": "10"}, {"classes": 10.0},
    {"classes": [10]}, {"classes": None}, {"classes": float("inf")}, {"thumbnail": 1}, {"thumbnail": "yes"},
]  # fmt: skip


@pytest.mark.parametrize("options", STRANGERS, ids=lambda options: str(options)[:40])
def test_a_stranger_s_description_says_numbers_of_a_list_alone(tmp_path, monkeypatch, options):
    home = tmp_path / "home"
    home.mkdir()
    served(monkeypatch, lambda url: pytest.fail(f"asked for {url}"))
    monkeypatch.setattr(by_name, "get_model", lambda *args, **kwargs: pytest.fail("made"))
    folder = tmp_path / "folder"
    folder.mkdir()
    said = json.dumps({"network": "resnet18_v1", "options": options}).replace("HOME", str(home))
    (folder / "config.json").write_text(said)
    with pytest.raises(errors.FormatError, match="config.json"):
        from_pretrained(folder)
    assert files(tmp_path) == ["folder/config.json"]
    if len(str(options)) < 200:
        with pytest.raises(errors.FormatError):
            save_pretrained(dense(), tmp_path / "saved", "resnet18_v1", **options)


@pytest.mark.parametrize(
    "name",
    ["os.system", "get_model", "ResNetV1", "resnet18_v1.params", "../resnet18_v1", "x" * 10_000],
)
def test_a_stranger_s_description_names_a_network_of_the_zoo(tmp_path, name):
    (tmp_path / "config.json").write_text(json.dumps({"network": name}))
    with pytest.raises(
        errors.FormatError, match="is not a network of mxjax.gluon.model_zoo"
    ) as raised:
        from_pretrained(tmp_path)
    assert len(str(raised.value)) < 500


def test_the_options_of_the_list_are_taken_by_their_networks():
    for name, options in (
        ("densenet121", {"bn_size": 2, "dropout": 0.5}), ("resnet18_v2", {"thumbnail": True}),
        ("vgg11", {"batch_norm": True}), ("squeezenet1.1", {}), ("alexnet", {}), ("mobilenet0.25", {}),
        ("mobilenetv2_0.25", {}), ("inceptionv3", {}),
        ("vit_b_32", {"image_size": 64, "dropout": 0.5, "epsilon": 1e-9}),
        ("bert_base", {"words": 9, "length": 4, "kinds": 1, "dropout": 0, "epsilon": 1e-9}),
    ):  # fmt: skip
        if name != "bert_base":
            options["classes"] = 7
        by_name.check_described(name, options, "file")
        by_name.get_model(name, **options)


def test_the_program_may_say_more_than_the_file(tmp_path, network):
    save_pretrained(network, tmp_path, "mobilenet0.25", classes=3)
    with pytest.raises(AssertionError, match="shape"):
        from_pretrained(tmp_path, classes=5)


@pytest.mark.parametrize(
    "text",
    [
        "hf://owner", "hf://", "hf:///name", "hf://owner/", "hf://owner/..", "hf://../name", "hf://owner/na me",
        "hf://owner/name@", "hf://owner/name@../x", "hf://owner/name@a@b", "hf://owner/n\\me", "hf://owner/n\0me",
        "hf://C:/name", "hf://owner/" + "n" * 97, "hf://owner/nul", "hf://owner/name.", "hf://.owner/name",
        "hf://owner/na..me", "hf://owner/name/../x", "hf://owner/name//x", "hf://owner/name/C:x", "hf://owner/name/x/",
        "hf://owner/name/" + "x" * 256, "hf://owner/name/a\\..\\b", "hf://owner/name/./x", "hf://owner/n\u0430me",
        "hf://owner/name?x", "hf://owner/name#x", "https://owner/name",
    ],
)  # fmt: skip
def test_addresses_that_may_not_be(tmp_path, monkeypatch, text):
    served(monkeypatch, lambda url: pytest.fail(f"asked for {url}"))
    with pytest.raises(ValueError, match="hf://owner/name is expected"):
        hugging_face.address(text)
    if text.startswith("hf:"):
        with pytest.raises(ValueError, match="hf://owner/name is expected"):
            from_pretrained(text, dense(), root=str(tmp_path))
        with pytest.raises(ValueError, match="hf://owner/name is expected"):
            vision.get_model("squeezenet1.1", pretrained=text, root=str(tmp_path))
    assert files(tmp_path) == []


def test_a_repository_of_another_case_is_another_one(tmp_path, monkeypatch):
    """Where the system takes two names for the same, what is there is not what was asked for."""
    (tmp_path / "Owner").mkdir()
    exists = os.path.lexists
    monkeypatch.setattr(
        downloading.os.path, "lexists", lambda path: path.endswith("owner") or exists(path)
    )
    with pytest.raises(ValueError, match="differs in case"):
        hugging_face.address("hf://owner/name").path(str(tmp_path), "config.json")


BAD_FILES = {
    "config.json": [b"", b"[1]", b"{", b" " * (1 << 20) + b"{}", b"[" * 100_000, b"\xff"],
    "model.safetensors": [b"", b"<html>", b"\x10\0\0\0\0\0\0\0{}", b"\xff" * 100],
}


@pytest.mark.parametrize("file", BAD_FILES)
def test_what_is_no_such_file_is_not_kept(tmp_path, monkeypatch, file):
    net = dense()
    save_pretrained(net, tmp_path / "there")
    cache = tmp_path / "cache"
    for content in BAD_FILES[file]:
        served(monkeypatch, lambda url, content=content: (
            content if url.endswith(file) else (tmp_path / "there" / url.rpartition("/")[2]).read_bytes()
        ))  # fmt: skip
        with pytest.raises(errors.FormatError):
            from_pretrained("hf://owner/name", dense(), root=str(cache))
        assert not [path for path in files(cache) if file in path]

    def broken(url):
        raise ConnectionResetError("gone")

    served(monkeypatch, broken)
    with pytest.raises(OSError, match="gone"):
        vision.get_model("squeezenet1.1", pretrained="hf://owner/other/a/b.params", root=str(cache))
    assert not [path for path in files(cache) if "other" in path]
    served(monkeypatch, lambda url: (tmp_path / "there" / url.rpartition("/")[2]).read_bytes())
    same(from_pretrained("hf://owner/name", dense(), root=str(cache)), net)


def test_a_download_that_is_interrupted_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(url):
        raise KeyboardInterrupt

    served(monkeypatch, interrupted)
    with pytest.raises(KeyboardInterrupt):
        model_store.weights(hugging_face.address("hf://owner/name"), "a.params", str(tmp_path))
    assert files(tmp_path) == []


def test_links_that_lead_out_of_the_folder_are_not_read(tmp_path, network):
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    save_pretrained(network, outside, "mobilenet0.25", classes=3)
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / name).symlink_to(outside / name)
        with pytest.raises(errors.FormatError, match=f"{name} is a link that leads out"):
            from_pretrained(folder)
        (folder / name).unlink()
        (folder / name).write_bytes((outside / name).read_bytes())
    same(from_pretrained(folder), network)
    (tmp_path / "to the folder").symlink_to(folder)
    same(from_pretrained(tmp_path / "to the folder"), network)
    (folder / "config.json").unlink()
    (folder / "config.json").mkdir()
    with pytest.raises(errors.FormatError, match="is not a file"):
        from_pretrained(folder)


def test_the_links_of_hugging_face_s_own_cache_are(tmp_path, network):
    save_pretrained(network, tmp_path / "saved", "mobilenet0.25", classes=3)
    repository = tmp_path / "models--owner--name"
    (repository / "blobs").mkdir(parents=True)
    (repository / "snapshots" / "0123").mkdir(parents=True)
    for k, name in enumerate(("config.json", "model.safetensors")):
        (tmp_path / "saved" / name).rename(repository / "blobs" / str(k))
        (repository / "snapshots" / "0123" / name).symlink_to(f"../../blobs/{k}")
    same(from_pretrained(repository / "snapshots" / "0123"), network)
