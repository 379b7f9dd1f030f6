"""Image datasets: the classic ones, read from their files, and folders of images."""

from __future__ import annotations

import copy
import os
import warnings
from typing import Any

import numpy as np

from mxjax import recordio
from mxjax.errors import (
    FormatError,
    MXNetError,
    MXNetFileNotFoundError,
    MXNetTypeError,
    MXNetValueError,
)
from mxjax.files import codec
from mxjax.files.idx import read_idx
from mxjax.modes import generation, is_np_array

from .._host import host_view, is_array, to_array
from ..dataset import Dataset, RecordFileDataset, _read
from ._files import read_cifar

__all__ = [
    "MNIST",
    "FashionMNIST",
    "CIFAR10",
    "CIFAR100",
    "ImageFolderDataset",
    "ImageListDataset",
    "ImageRecordDataset",
]


def _eager(transform: Any) -> Any:
    """A transform of image and label that a dataset was given: MXNet 1 takes it, MXNet 2 refuses it."""
    if transform is not None and generation() != 1:
        raise MXNetTypeError(
            "datasets take no transform any more: use dataset.transform(fn) for image and label, "
            "or dataset.transform_first(fn) for the image alone"
        )
    return transform


class _DownloadedDataset(Dataset):
    """Images and labels, held as two mxjax arrays, that come from a few files in `root`."""

    _namespace: str
    _transform: Any = None  # of classes that do not call this class's __init__

    def __init__(self, root: str | None, train: bool, transform: Any) -> None:
        self._transform = _eager(transform)
        if root is None:
            from mxjax import settings

            root = os.path.join(str(settings.get("data.home")), "datasets", self._namespace)
        self._root = os.path.expanduser(root)
        self._train = train
        made = self._get_data()
        if made is not None:
            data, label = made
            self._data = to_array(data)
            # As in MXNet: an element of an nd array would have an axis.
            self._label = to_array(label) if is_np_array() else label

    def _get_data(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Images and labels; or None, where a class puts them into `_data` and `_label` itself."""
        raise NotImplementedError

    def __getitem__(self, idx: Any) -> Any:
        sample = _read(self._data, idx), _read(self._label, idx)
        return sample if self._transform is None else self._transform(*sample)

    def __len__(self) -> int:
        return len(self._label)

    def _host_item(self, idx: Any) -> Any:
        if (
            self._transform is not None
            or type(self).__getitem__ is not _DownloadedDataset.__getitem__
        ):
            return self[idx]
        if is_array(self._data):
            return self[idx]
        return host_view(self._data[idx]), host_view(self._label[idx])

    def _columns(self) -> tuple[Any, Any] | None:
        if (
            self._transform is not None
            or type(self).__getitem__ is not _DownloadedDataset.__getitem__
        ):
            return None
        return self._data, self._label

    def _for_worker(self) -> _DownloadedDataset:
        twin = copy.copy(self)
        twin._data, twin._label = host_view(self._data), host_view(self._label)
        return twin

    def _fetch(self, name: str, sha1: str) -> str:
        """The file's path, after a download if it is not there."""
        from ...utils import _get_repo_file_url, download

        url = _get_repo_file_url(f"gluon/dataset/{self._namespace}", name)
        try:
            return download(url, path=os.path.join(self._root, name), sha1_hash=sha1, retries=1)
        except MXNetError as error:
            raise MXNetFileNotFoundError(self._absent(name, error)) from error

    def _absent(self, name: str, error: BaseException) -> str:
        wanted = ", ".join(self._wanted())
        return (
            f"{type(self).__name__} needs the files {wanted} in {self._root}; {name} is not there, "
            f"and {error}. Put the files there (root= or the setting data.home, MXNET_HOME, name "
            "another folder), or let MXNET_GLUON_REPO name a repository that can be reached; "
            "file:// addresses work"
        )

    def _wanted(self) -> list[str]:
        raise NotImplementedError


class MNIST(_DownloadedDataset):
    """Handwritten digits: 60,000 training and 10,000 test images (28, 28, 1) in uint8.

    Args:
      root: the folder of the four idx files, gzipped or not; if None `datasets/mnist` in the
        folder that the setting `data.home` (MXNET_HOME) names.
      train: training or test images.
      transform: a function of each sample; none without.

    A sample is (image, label), the label an int32 array without axes.  Files that are absent are
    fetched from the repository that `data.repo` (MXNET_GLUON_REPO) names.

    Raises:
      MXNetFileNotFoundError: files are neither there nor to be fetched; the message says which.
      MXNetValueError: a file is damaged, or is something else.

    LeCun, Cortes, Burges: The MNIST database of handwritten digits.
    """

    _namespace = "mnist"
    _image_shape = (28, 28)
    # name: SHA-1 of the gzipped file in the repository
    _files = {
        "train-images-idx3-ubyte": "6c95f4b05d2bf285e1bfb0e7960c31bd3b3f8a7d",
        "train-labels-idx1-ubyte": "2a80914081dc54586dbdf242f9805a6b8d2a15fc",
        "t10k-images-idx3-ubyte": "c3a25af1f52dad7f726cce8cacb138654b760d48",
        "t10k-labels-idx1-ubyte": "763e7fa3757d93b0cdec073cef058b2004252c17",
    }

    def __init__(self, root: str | None = None, train: bool = True, transform: Any = None) -> None:
        super().__init__(root, train, transform)

    def _get_data(self) -> tuple[np.ndarray, np.ndarray]:
        images, labels = self._wanted_names()
        image_path, label_path = self._find(images), self._find(labels)
        label = read_idx(label_path, 1)
        data = read_idx(image_path, 3)
        if data.shape[1:] != self._image_shape:
            raise MXNetValueError(
                f"{image_path} holds images of {data.shape[1]} x {data.shape[2]} pixels, "
                f"{type(self).__name__} has {self._image_shape[0]} x {self._image_shape[1]}"
            )
        if len(data) != len(label):
            raise MXNetValueError(
                f"{image_path} holds {len(data)} images, but {label_path} {len(label)} labels"
            )
        return data[..., None], label.astype(np.int32)

    def _wanted_names(self) -> list[str]:
        start = "train" if self._train else "t10k"
        return [f"{start}-images-idx3-ubyte", f"{start}-labels-idx1-ubyte"]

    def _wanted(self) -> list[str]:
        return [f"{name}.gz (or {name})" for name in self._wanted_names()]

    def _find(self, name: str) -> str:
        # The unpacked files go by two names: train-images-idx3-ubyte and train-images.idx3-ubyte.
        for variant in (f"{name}.gz", name, name.replace("-idx", ".idx")):
            path = os.path.join(self._root, variant)
            if os.path.isfile(path):
                return path
        return self._fetch(f"{name}.gz", self._files[name])


class FashionMNIST(MNIST):
    """Pictures of clothes in MNIST's format: 60,000 for training and 10,000 for tests.

    Arguments, samples and errors are those of `MNIST`; the folder is `datasets/fashion-mnist`.

    Xiao, Rasul, Vollgraf: Fashion-MNIST: a novel image dataset for benchmarking machine learning
    algorithms, 2017.

    Args:
      root: the folder where files lie, or are kept.
      train: whether the training part is meant, or the test part.
      transform: a function of each sample; none without.
    """

    _namespace = "fashion-mnist"
    _files = {
        "train-images-idx3-ubyte": "0cf37b0d40ed5169c6b3aba31069a9770ac9043d",
        "train-labels-idx1-ubyte": "236021d52f1e40852b06a4c3008d8de8aef1e40b",
        "t10k-images-idx3-ubyte": "626ed6a7c06dd17c0eec72fa3be1740f146a2863",
        "t10k-labels-idx1-ubyte": "17f9ab60e7257a1620f4ad76bbbaf857c3920701",
    }


class CIFAR10(_DownloadedDataset):
    """Small photographs of 10 classes: 50,000 for training and 10,000 for tests, (32, 32, 3).

    Args:
      root: the folder of the binary files, or of their archive `cifar-10-binary.tar.gz`; if None
        `datasets/cifar10` in the folder that the setting `data.home` (MXNET_HOME) names.
      train: training or test images.
      transform: a function of each sample; none without.

    A sample is (image, label) in uint8 and int32.  Errors are those of `MNIST`.

    Krizhevsky: Learning Multiple Layers of Features from Tiny Images, 2009.
    """

    _namespace = "cifar10"
    _archive = ("cifar-10-binary.tar.gz", "fab780a1e191a7eda0f345501ccd62d20f7ed891")
    _train_files = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
    _test_files: tuple[str, ...] = ("test_batch.bin",)
    _label_bytes = 1
    _label_at = 0

    def __init__(self, root: str | None = None, train: bool = True, transform: Any = None) -> None:
        super().__init__(root, train, transform)

    def _wanted(self) -> list[str]:
        names = self._train_files if self._train else self._test_files
        return [*names, f"or {self._archive[0]}"]

    def _get_data(self) -> tuple[np.ndarray, np.ndarray]:
        names = self._train_files if self._train else self._test_files
        if not all(os.path.isfile(os.path.join(self._root, name)) for name in names):
            archive = os.path.join(self._root, self._archive[0])
            if not os.path.isfile(archive):
                archive = self._fetch(*self._archive)
            from ....files.unpacking import unpack  # which workers need not import

            unpack(archive, {name: os.path.join(self._root, name) for name in names})
        parts = [self._read_batch(os.path.join(self._root, name)) for name in names]
        data, label = zip(*parts, strict=True)
        return np.concatenate(data), np.concatenate(label)

    def _read_batch(self, filename: str) -> tuple[np.ndarray, np.ndarray]:
        """The images and labels of one file; subclasses call it for files of their own."""
        return read_cifar(filename, self._label_bytes, self._label_at)


class CIFAR100(CIFAR10):
    """`CIFAR10`'s sister with 100 classes in 20 groups; the folder is `datasets/cifar100`.

    Args:
      root, train: as in `CIFAR10`; the archive is `cifar-100-binary.tar.gz`.
      fine_label: the class rather than its group.
      transform: a function of each sample; none without.
    """

    _namespace = "cifar100"
    _archive = ("cifar-100-binary.tar.gz", "a0bb982c76b83111308126cc779a992fa506b90b")
    _train_files = ("train.bin",)
    _test_files = ("test.bin",)
    _label_bytes = 2

    def __init__(
        self,
        root: str | None = None,
        fine_label: bool = False,
        train: bool = True,
        transform: Any = None,
    ) -> None:
        self._label_at = int(fine_label)
        super().__init__(root, train, transform)


def _read_image(path: str, flag: int) -> Any:
    """An image file as a uint8 array (H, W, 3), or (H, W, 1) in gray if `flag` is 0."""
    with open(path, "rb") as file:
        return to_array(codec.decode(file.read(), flag, where=path))


class ImageRecordDataset(RecordFileDataset):
    """The images of a record file; a sample is (image, label), the label a number, or an array where there are several.

    Args:
      filename: the record file; its index has the same name with the ending `.idx`.
      flag: 1 for colour, 0 for gray.
      transform: a function of image and label that gives the sample.

    Raises:
      FormatError: a record or its image is damaged; the message says which.
    """

    def __init__(self, filename: str, flag: int = 1, transform: Any = None) -> None:
        super().__init__(filename)
        self._flag = flag
        self._transform = transform

    def _read(self, idx: Any) -> tuple[np.ndarray, Any]:
        record = super().__getitem__(idx)
        where = f"{self.filename}, record {self._record.keys[idx]}"
        try:
            header, data = recordio.unpack(record)
        except FormatError as error:
            raise FormatError(f"{where}: {error}") from None
        return codec.decode(data, self._flag, where=where), header.label

    def __getitem__(self, idx: Any) -> Any:
        pixels, label = self._read(idx)
        image = to_array(pixels)
        return (image, label) if self._transform is None else self._transform(image, label)

    def _host_item(self, idx: Any) -> Any:
        if (
            self._transform is not None
            or type(self).__getitem__ is not ImageRecordDataset.__getitem__
        ):
            return self[idx]
        pixels, label = self._read(idx)
        return host_view(pixels), label


class ImageFolderDataset(Dataset):
    """The images of a folder whose subfolders are the classes; a sample is (image, label).

    Args:
      root: the folder; `root/cat/1.jpg` has the label of the class `cat`.
      flag: 1 for colour, 0 for gray.
      transform: a function of each sample; none without.

    Attributes:
      synsets: the names of the classes; the label is the position here.
      items: (file name, label) of every image.

    Reading needs OpenCV or Pillow: `pip install 'mxjax[data]'`.
    """

    def __init__(self, root: str, flag: int = 1, transform: Any = None) -> None:
        self._transform = _eager(transform)
        self._root = os.path.expanduser(root)
        self._flag = flag
        self._exts = [".jpg", ".jpeg", ".png"]
        self._list_images(self._root)

    def _list_images(self, root: str) -> None:
        """Find the images: `synsets` and `items`. As in MXNet, subclasses may look for others."""
        self.synsets: list[str] = []
        self.items: list[tuple[str, int]] = []
        if not os.path.isdir(root):
            raise MXNetFileNotFoundError(f"ImageFolderDataset: there is no folder {root}")
        for folder in sorted(os.listdir(root)):
            path = os.path.join(root, folder)
            if not os.path.isdir(path):
                warnings.warn(f"{path} is left out: it is not a folder", stacklevel=2)
                continue
            label = len(self.synsets)
            self.synsets.append(folder)
            for name in sorted(os.listdir(path)):
                file = os.path.join(path, name)
                if not name.lower().endswith(tuple(self._exts)):
                    warnings.warn(
                        f"{file} is left out: images end in {', '.join(self._exts)}",
                        stacklevel=2,
                    )
                    continue
                self.items.append((file, label))

    def __getitem__(self, idx: Any) -> Any:
        path, label = self.items[idx]
        sample = _read_image(path, self._flag), label
        return sample if self._transform is None else self._transform(*sample)

    def __len__(self) -> int:
        return len(self.items)


class ImageListDataset(Dataset):
    """The images that a list names; a sample is (image, label), the label a float32 array.

    Args:
      root: the folder that the file names start from.
      imglist: a file in it with lines `index <tab> label <tab> ... <tab> file name`, or a list of
        `[label, ..., file name]`.
      flag: 1 for colour, 0 for gray.

    Reading needs OpenCV or Pillow: `pip install 'mxjax[data]'`.
    """

    def __init__(self, root: str = ".", imglist: Any = None, flag: int = 1) -> None:
        self._root = os.path.expanduser(root)
        self._flag = flag
        self.items: list[tuple[str, np.ndarray]] = []
        if isinstance(imglist, str):
            entries: list[Any] = []
            for line in recordio.list_lines(os.path.join(self._root, imglist), str):
                if isinstance(line, FormatError):
                    raise line
                entries.append([*line[1], line[2]])
        elif isinstance(imglist, list):
            entries = imglist
        else:
            raise MXNetTypeError(
                "ImageListDataset: imglist must be a file name or a list of [label, ..., file "
                f"name], got {type(imglist).__name__}"
            )
        for entry in entries:
            *labels, name = entry
            if len(labels) == 1 and isinstance(labels[0], list | tuple):
                labels = list(labels[0])
            try:
                label = np.asarray([float(value) for value in labels], np.float32)
            except (TypeError, ValueError):
                raise MXNetValueError(
                    f"ImageListDataset: {entry!r} is not [label, ..., file name]"
                ) from None
            self.items.append((os.path.join(self._root, name), label))

    def __getitem__(self, idx: Any) -> Any:
        path, label = self.items[idx]
        return _read_image(path, self._flag), to_array(label)

    def __len__(self) -> int:
        return len(self.items)
