"""Where trained weights come from: a folder, a repository of MXNet's layout, or one on Hugging Face."""

from __future__ import annotations

import logging
import os
import re
import tempfile
from typing import Any

from mxjax import base, errors, serialization, settings

from ...files.downloading import check_sha1, fetch
from ...files.unpacking import unpack
from . import hugging_face

__all__ = ["get_model_file", "load_pretrained", "purge", "short_hash"]

_url_format = "{repo_url}gluon/models/{file_name}.zip"
apache_repo_url = next(row.default for row in settings.table() if row.name == "data.repo")

#: The most bytes of a published file: VGG's have 600 MB.
_LARGEST = 2 << 30
#: SHA-1 of the files that MXNet published; programs add those of their own files, under MXNet's name of this table.
_model_sha1 = {
    "alexnet": "44335d1f0046b328243b32a26a4fbd62d9057b45",
    "densenet121": "f27dbf2dbd5ce9a80b102d89c7483342cd33cb31",
    "densenet161": "b6c8a95717e3e761bd88d145f4d0a214aaa515dc",
    "densenet169": "2603f878403c6aa5a71a124c4a3307143d6820e9",
    "densenet201": "1cdbc116bc3a1b65832b18cf53e1cb8e7da017eb",
    "inceptionv3": "ed47ec45a937b656fcc94dabde85495bbef5ba1f",
    "mobilenet0.25": "9f83e440996887baf91a6aff1cccc1c903a64274",
    "mobilenet0.5": "8e9d539cc66aa5efa71c4b6af983b936ab8701c3",
    "mobilenet0.75": "529b2c7f4934e6cb851155b22c96c9ab0a7c4dc2",
    "mobilenet1.0": "6b8c5106c730e8750bcd82ceb75220a3351157cd",
    "mobilenetv2_1.0": "36da4ff1867abccd32b29592d79fc753bca5a215",
    "mobilenetv2_0.75": "e2be7b72a79fe4a750d1dd415afedf01c3ea818d",
    "mobilenetv2_0.5": "aabd26cd335379fcb72ae6c8fac45a70eab11785",
    "mobilenetv2_0.25": "ae8f9392789b04822cbb1d98c27283fc5f8aa0a7",
    "resnet18_v1": "a0666292f0a30ff61f857b0b66efc0228eb6a54b",
    "resnet34_v1": "48216ba99a8b1005d75c0f3a0c422301a0473233",
    "resnet50_v1": "0aee57f96768c0a2d5b23a6ec91eb08dfb0a45ce",
    "resnet101_v1": "d988c13d6159779e907140a638c56f229634cb02",
    "resnet152_v1": "671c637a14387ab9e2654eafd0d493d86b1c8579",
    "resnet18_v2": "a81db45fd7b7a2d12ab97cd88ef0a5ac48b8f657",
    "resnet34_v2": "9d6b80bbc35169de6b6edecffdd6047c56fdd322",
    "resnet50_v2": "ecdde35339c1aadbec4f547857078e734a76fb49",
    "resnet101_v2": "18e93e4f48947e002547f50eabbcc9c83e516aa6",
    "resnet152_v2": "f2695542de38cf7e71ed58f02893d82bb409415e",
    "squeezenet1.0": "264ba4970a0cc87a4f15c96e25246a1307caf523",
    "squeezenet1.1": "33ba0f93753c83d86e1eb397f38a667eaf2e9376",
    "vgg11": "dd221b160977f36a53f464cb54648d227c707a05",
    "vgg11_bn": "ee79a8098a91fbe05b7a973fed2017a6117723a8",
    "vgg13": "6bc5de58a05a5e2e7f493e2d75a580d83efde38c",
    "vgg13_bn": "7d97a06c3c7a1aecc88b6e7385c2b373a249e95e",
    "vgg16": "e660d4569ccb679ec68f1fd3cce07a387252a90a",
    "vgg16_bn": "7f01cf050d357127a73826045c245041b0df7363",
    "vgg19": "ad2f660d101905472b83590b59708b71ea22b2e5",
    "vgg19_bn": "f360b758e856f1074a85abd5fd873ed1d98297c3",
}


def short_hash(name: str) -> str:
    """The first digits of the hash of a published file, which its name has.

    Raises:
      ValueError: MXNet published no weights of this name.

    >>> short_hash("resnet50_v1")
    '0aee57f9'
    """
    if name not in _model_sha1:
        raise errors.MXNetValueError(
            f"Pretrained model for {name} is not available{errors.did_you_mean(name, _model_sha1)}"
        )
    return _model_sha1[name][:8]


def get_model_file(name: str, root: str | None = None) -> str:
    """The path of a published file of weights, which is fetched unless it is there.

    Args:
      name: such as "resnet50_v1".
      root: the folder; `models` in the one that the setting `data.home` (MXNET_HOME) names.

    The repository is the setting `data.repo` (MXNET_GLUON_REPO): a URL below which `gluon/models` holds zip files,
    or `hf://owner/name`, a repository on Hugging Face with the `.params` files themselves.

    It is moved to its place when its hash is that of the published file.

    Raises:
      ValueError: no weights of this name, or a file with another hash.
      OSError: it cannot be fetched; the message says where to put it.
    """
    file_name = f"{name}-{short_hash(name)}"
    root = model_folder(root)
    path = os.path.join(root, f"{file_name}.params")
    if os.path.exists(path):
        if check_sha1(path, _model_sha1[name]):
            return path
        logging.warning("%s has another hash than the published file and is fetched again", path)
    os.makedirs(root, exist_ok=True)
    repo = str(settings.get("data.repo")).rstrip("/")
    try:
        if repo.startswith("hf://"):
            url = hugging_face.address(repo).url(f"{file_name}.params")
            fetch(url, path, overwrite=True, sha1_hash=_model_sha1[name], most=_LARGEST)
        else:
            _unzipped(
                _url_format.format(repo_url=f"{repo}/", file_name=file_name),
                path,
                _model_sha1[name],
            )
    except errors.MXNetOSError as error:
        why = getattr(error.__cause__, "reason", None) or error.__cause__ or error
        raise errors.MXNetOSError(
            f"the weights of {name} are neither at {path} nor could they be fetched from {repo}: {why}. Put the file "
            f"{file_name}.params into {root} (or give root=), or let MXNET_GLUON_REPO name a repository that can be "
            "reached, such as hf://owner/name"
        ) from error
    except errors.FormatError:
        raise
    except errors.MXNetError as error:
        raise errors.MXNetValueError(
            f"what came for {name} is not the published file: {error}"
        ) from error
    return path


def load_pretrained(
    net: Any, pretrained: bool | str, name: str, root: str | None, device: Any
) -> Any:
    """The network, with trained weights if ``pretrained``: True, or the path or `hf://owner/name/file` of a file.

    ``owner/name`` is `model.safetensors` of that repository of Hugging Face. A file that has PyTorch's names, as
    torchvision's, timm's and Hugging Face's networks have them, is matched layer by layer (`match_torch_state_dict`).
    """
    if not pretrained:
        return net
    if pretrained is True:
        path = get_model_file(name, root)
    elif pretrained.startswith("hf://"):
        path = weights(hugging_face.address(pretrained), f"{name}.params", root)
    elif _REPOSITORY.fullmatch(pretrained) and not os.path.exists(pretrained):
        path = weights(hugging_face.address(f"hf://{pretrained}"), "model.safetensors", root)
    else:
        path = pretrained
    from .torch_weights import from_torch_state_dict, is_of_torch

    arrays = serialization.load_parameters(path)
    if hasattr(net, "load_torch") and not {found for found, _ in net._walk("")} <= set(arrays):
        return net.load_torch(arrays, device)
    if is_of_torch(arrays, net):
        return from_torch_state_dict(net, arrays, device=device)
    net.load_parameters(path, device=device)
    return net


#: `owner/name` of Hugging Face: no path has one slash and no ending.
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w-]*/[\w-][\w.-]*(?<!\.params)(?<!\.safetensors)", re.ASCII)


def weights(where: hugging_face.Address, file: str, root: str | None) -> str:
    """The path of a file of weights of Hugging Face, fetched unless it is there.

    Args:
      where: the repository, and which file.
      file: which one, where `where` names none.

    Raises:
      FormatError: it is damaged, or no file of weights.
      OSError: it cannot be fetched.
    """
    file = where.file or file
    path = where.path(model_folder(root), file)
    return fetch(where.url(file), path, most=hugging_face.LARGEST, read=serialization.read_arrays)


def purge(root: str | None = None) -> None:
    """Remove all weights in the folder."""
    folder = model_folder(root)
    for file in os.listdir(folder):
        if file.endswith(".params"):
            os.remove(os.path.join(folder, file))


def model_folder(root: str | None) -> str:
    """The folder of weights: `root`, or `models` in the one that the setting `data.home` names."""
    return os.path.expanduser(root if root is not None else os.path.join(base.data_dir(), "models"))


def _unzipped(url: str, path: str, sha1: str) -> None:
    """The one file of a zip file from a URL."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as folder:
        packed = fetch(url, os.path.join(folder, os.path.basename(url)), most=_LARGEST)
        member = os.path.basename(path)
        unpack(packed, {member: path}, {member: sha1}, _LARGEST)
