"""Data sets and models as the files that older programs read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import MXNetValueError
from ..files.unpacking import unpack_all, unpack_one
from ..gluon.utils import download as fetch
from .surroundings import download

_LARGEST_OF_MNIST = 64 << 20
_MNIST = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def get_mnist_ubyte(path: str = "data") -> None:
    """The four files of MNIST in `path`, unpacked; those that are missing are fetched."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    for name in _MNIST:
        if (folder / name).exists():
            continue
        packed = folder / f"{name}.gz"
        if not packed.exists():
            from ..gluon.data.vision import MNIST

            MNIST(root=path, train=name.startswith("train"))
        unpack_one(str(packed), str(folder / name), _LARGEST_OF_MNIST)


def get_mnist_pkl() -> None:
    """`data/mnist.pkl.gz`, as Theano's tutorials have MNIST; fetched if it is missing."""
    if not os.path.exists("data/mnist.pkl.gz"):
        download("http://deeplearning.net/data/mnist/mnist.pkl.gz", dirname="data")


def get_mnist_iterator(
    batch_size: int,
    input_shape: tuple[int, ...],
    num_parts: int = 1,
    part_index: int = 0,
    path: str = "data",
) -> tuple[Any, Any]:
    """Iterators over MNIST for training (shuffled) and validation: images of 0 ... 1, labels.

    Args:
      batch_size: samples in a batch.
      input_shape: of an image: (1, 28, 28), or (784,).
      num_parts, part_index: use one of so many equal parts.
      path: where the files are, or go.
    """
    from ..io import NDArrayIter
    from .surroundings import get_mnist

    found = get_mnist(path)

    def part(name: str, shuffle: bool) -> NDArrayIter:
        data, label = found[f"{name}_data"], found[f"{name}_label"]
        size = len(data) // num_parts
        mine = slice(part_index * size, (part_index + 1) * size)
        images = data[mine].reshape(-1, *input_shape)
        return NDArrayIter(
            images, label[mine], batch_size, shuffle, "discard" if shuffle else "pad"
        )

    return part("train", True), part("test", False)


def get_cifar10(path: str = "data") -> None:
    """CIFAR-10 as record files, `cifar/train.rec` and others in `path`; fetched if one is missing."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    names = ("train.rec", "test.rec", "train.lst", "test.lst")
    if not all((folder / "cifar" / name).exists() for name in names):
        url = "https://repo.mxnet.io/gluon/dataset/cifar10/cifar10-b9ac2870.zip"
        unpack_all(
            fetch(url, path=path, sha1_hash="b9ac287012f2dad9dfb49d8271c39ecdd7db376c"), path
        )


def get_zip_data(data_dir: str, url: str, data_origin_name: str) -> None:
    """A zip file from `url` in `data_dir`, with its contents beside it, unless it is there.

    Raises:
      FormatError: it is damaged, or holds something else than files within a folder.
    """
    if not os.path.exists(os.path.join(data_dir, data_origin_name)):
        unpack_all(download(url, dirname=data_dir), data_dir)


def get_bz2_data(data_dir: str, data_name: str, url: str, data_origin_name: str) -> None:
    """`data_name` in `data_dir`, unpacked from `data_origin_name`, which comes from `url`, unless it is there."""
    wanted = os.path.join(data_dir, data_name)
    if os.path.exists(wanted):
        return
    packed = download(url, fname=data_origin_name, dirname=data_dir)
    unpack_one(packed, wanted)
    os.remove(packed)


def get_im2rec_path(home_env: str = "MXNET_HOME") -> str:
    """The path of the program `im2rec.py`, looked for below the folder that the variable `home_env` names.

    Raises:
      OSError: it is not there.
    """
    from .. import settings

    home = settings.variable(home_env)
    folders = [Path(home)] if home else []
    folders.append(Path(__file__).parents[1])
    for folder in folders:
        for found in (folder / "tools" / "im2rec.py", folder.parents[1] / "tools" / "im2rec.py"):
            if found.is_file():
                return str(found)
    raise OSError(
        "Could not find path to tools/im2rec.py; MXNET_HOME may say where MXNet's files are"
    )


_MODELS = "http://data.mxnet.io/models/"


def _model(folder: str, name: str, epoch: int = 0, symbol: str | None = None) -> dict[str, str]:
    base = f"{_MODELS}{folder}/"
    return {
        "symbol": f"{base}{symbol or name}-symbol.json",
        "params": f"{base}{name}-{epoch:04d}.params",
    }


def _known_models() -> dict[str, dict[str, str]]:
    known = {"imagenet1k-inception-bn": _model("imagenet/inception-bn", "Inception-BN", 126)}
    for kind, depths in (("resnet", (18, 34, 50, 101, 152)), ("resnext", (50, 101))):
        for depth in depths:
            name = f"{kind}-{depth}"
            known[f"imagenet1k-{name}"] = _model(f"imagenet/{kind}/{depth}-layers", name)
    known["imagenet1k-resnext-101-64x4d"] = _model(
        "imagenet/resnext/101-layers", "resnext-101-64x4d"
    )
    known["imagenet11k-resnet-152"] = _model("imagenet-11k/resnet-152", "resnet-152")
    for depth in (152, 50):
        known[f"imagenet11k-place365ch-resnet-{depth}"] = _model(
            "imagenet-11k-place365-ch", f"resnet-{depth}"
        )
    return known


def download_model(
    model_name: str, dst_dir: str = "./", meta_info: Mapping[str, Mapping[str, str]] | None = None
) -> tuple[str | None, int]:
    """A trained model's symbol and parameters, fetched: the prefix of the two files and the epoch, 0.

    Args:
      model_name: a name that `meta_info` has.
      dst_dir: where the files go.
      meta_info: URLs "symbol" and "params" by name; by default MXNet's models for ImageNet.

    Returns:
      The prefix and 0, as `mx.model.load_checkpoint` takes them, or (None, 0) for a name that is not known.
    """
    known = _known_models() if meta_info is None else meta_info
    if model_name not in known:
        return None, 0
    urls = known[model_name]
    for part in ("symbol", "params"):
        if part not in urls:
            raise MXNetValueError(f"meta_info of {model_name!r} lacks the URL {part!r}")
    os.makedirs(dst_dir, exist_ok=True)
    prefix = os.path.join(dst_dir, model_name)
    download(urls["symbol"], f"{prefix}-symbol.json")
    download(urls["params"], f"{prefix}-0000.params")
    return prefix, 0
