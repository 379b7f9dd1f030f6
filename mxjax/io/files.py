"""Iterators over files of numbers: CSV, LibSVM, and MNIST's own."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from ..array.sparse.host import HostSparse
from ..errors import FormatError, MXNetFileNotFoundError, MXNetValueError
from ..files.idx import read_idx
from .native import HostBatch, MXDataIter, Source, part, take

__all__ = ["CSVIter", "LibSVMIter", "MNISTIter"]


def _shape(given: Any) -> tuple[int, ...]:
    return (
        (int(given),) if isinstance(given, int | np.integer) else tuple(int(each) for each in given)
    )


def _lines(path: str) -> list[bytes]:
    """The lines of a text file that are not empty, or of all files that `path`, with semicolons, names."""
    found: list[bytes] = []
    for name in path.split(";"):
        try:
            with open(name, "rb") as file:
                found += [line.strip() for line in file if line.strip()]
        except FileNotFoundError as error:
            raise MXNetFileNotFoundError(f"there is no file {name}") from error
    return found


class _Arrays(Source):
    """Batches of arrays in memory."""

    def __init__(self, data: np.ndarray, label: np.ndarray, batch_size: int, round_batch: bool):
        super().__init__(batch_size, round_batch)
        self.data, self.label = data, label
        self.data_shape, self.label_shape = data.shape[1:], label.shape[1:]
        self.dtype, self.label_dtype = data.dtype, label.dtype

    def count(self) -> int:
        return len(self.data)

    def order(self) -> np.ndarray:
        return np.arange(len(self.data))

    def make(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.data[numbers], self.label[numbers]

    def filler(self, order: np.ndarray, pad: int) -> np.ndarray:
        if self.round_batch or len(order) < self.batch_size:
            return super().filler(order, pad)
        # MXNet writes each batch over the one before it, which shows at the end of a shorter one.
        return order[len(order) - self.batch_size :][:pad]


def _whole(text: bytes) -> int:
    """The whole number that a text begins with: MXNet reads 2 from 2.5, and from 2e3."""
    found = re.match(rb"\s*[+-]?\d+(?=$|[\s.eE])", text)
    return int(found[0] if found else text)


def _csv(path: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    width = math.prod(shape)
    kind = dtype.type if dtype.kind == "f" else _whole
    rows = []
    for number, line in enumerate(_lines(path), 1):
        try:
            row = [kind(each) for each in line.split(b",")]
            if len(row) != width:
                raise ValueError
            rows.append(np.array(row, dtype))
        except (ValueError, OverflowError):
            raise FormatError(
                f"{path}, line {number}: {width} numbers of {dtype.name} with commas between them were expected "
                f"(shape {shape}), here is {line[:80]!r}"
            ) from None
    return np.array(rows, dtype).reshape(-1, *shape)


def CSVIter(*args: Any, **kwargs: Any) -> MXDataIter:  # noqa: N802
    """Batches of the rows of CSV files.

    Args:
      data_csv: the file, without names of columns.
      data_shape: of a row; (2, 3) takes six numbers.
      label_csv, label_shape: the same for labels; without them labels are zeros.
      batch_size: rows in a batch.
      round_batch: the last batch is filled from the beginning, and the next epoch goes on after that; otherwise the
        end of the batch before it shows there, or zeros where it is the first. `pad` counts these rows.
      dtype: float32, int32 or int64.
      part_index, num_parts: only this part of the rows, of so many.
      data_name, label_name: names of data and label.

    Returns:
      DataIter: the batches.

    Raises:
      FormatError: a line is something else; the message has its number.
    """
    names = take(
        kwargs, "CSVIter", data_csv=None, data_shape=None, label_csv="NULL", label_shape=(1,), batch_size=None,
        round_batch=True, dtype="float32", part_index=0, num_parts=1, data_name="data", label_name="softmax_label",
        prefetch_buffer=4,
    )  # fmt: skip
    if (
        args
        or names["data_csv"] is None
        or names["data_shape"] is None
        or names["batch_size"] is None
    ):
        raise MXNetValueError(
            "CSVIter needs data_csv=, data_shape= and batch_size=, by their names"
        )
    dtype = np.dtype(names["dtype"] or "float32")
    data = _csv(names["data_csv"], _shape(names["data_shape"]), dtype)
    label_shape = _shape(names["label_shape"])
    if names["label_csv"] in (None, "NULL"):
        label = np.zeros((len(data), *label_shape), dtype)
    else:
        label = _csv(names["label_csv"], label_shape, dtype)
    if len(label) != len(data):
        raise FormatError(
            f"{names['data_csv']} has {len(data)} rows, {names['label_csv']} has {len(label)} labels"
        )
    if label_shape == (1,):  # one number: MXNet's labels then have no axis of their own
        label = label[:, 0]
    mine = part(len(data), names["part_index"], names["num_parts"])
    source = _Arrays(data[mine], label[mine], names["batch_size"], bool(names["round_batch"]))
    return MXDataIter(source, names["data_name"], names["label_name"])


def _libsvm(path: str, width: int) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """First numbers of the lines, and (columns, values) of each."""
    labels, rows = [], []
    for number, line in enumerate(_lines(path), 1):
        try:
            first, *pairs = line.split(b"#")[0].split()
            columns = np.array([int(each.partition(b":")[0]) for each in pairs], np.int64)
            found = np.array([float(each.partition(b":")[2]) for each in pairs], np.float32)
            # a label may have a weight, label:weight
            labels.append(float(first.partition(b":")[0]))
        except (ValueError, OverflowError):
            raise FormatError(
                f"{path}, line {number}: label column:value ... was expected, here is {line[:80]!r}"
            ) from None
        if len(columns) and not (columns.min() >= 0 and columns.max() < width):
            raise FormatError(
                f"{path}, line {number}: columns must be from 0 to {width - 1} (columns count from 0), here are "
                f"{columns.min()} to {columns.max()}"
            )
        rows.append((columns, found))
    return np.array(labels, np.float32), rows


class _Sparse(Source):
    """Batches of rows that hold few numbers: csr matrices."""

    def __init__(
        self,
        rows: Any,
        labels: Any,
        width: int,
        label_width: int | None,
        batch_size: int,
        round_batch: bool,
    ):
        super().__init__(batch_size, round_batch)
        self.rows, self.labels, self.width, self.label_width = rows, labels, width, label_width
        self.data_shape = (width,)
        self.label_shape = () if label_width is None else (label_width,)

    def count(self) -> int:
        return len(self.rows)

    def order(self) -> np.ndarray:
        return np.arange(len(self.rows))

    def batch(self, numbers: np.ndarray, order: np.ndarray) -> HostBatch:
        pad = self.batch_size - len(numbers)
        if pad and self.round_batch:
            numbers = np.concatenate([numbers, np.resize(order, pad)])
        short = self.batch_size - len(numbers)
        data = _csr([self.rows[n] for n in numbers], short, self.width)
        label: Any = (
            np.append(self.labels[numbers], np.zeros(short, np.float32))
            if self.label_width is None
            else None
        )
        if self.label_width is not None:
            label = _csr([self.labels[n] for n in numbers], short, self.label_width)
        return data, label, pad, np.append(numbers, np.zeros(short, numbers.dtype))


def _csr(rows: list[tuple[np.ndarray, np.ndarray]], empty: int, width: int) -> HostSparse:
    """Rows, and so many empty ones after them, as a matrix; of numbers for one column the last counts."""
    sorted_rows = []
    for columns, found in rows:
        kept, last = np.unique(columns[::-1], return_index=True)
        sorted_rows.append((kept, found[::-1][last]))
    lengths = [len(columns) for columns, _ in sorted_rows] + [0] * empty
    data = np.concatenate([np.zeros(0, np.float32), *[found for _, found in sorted_rows]])
    indices = np.concatenate([np.zeros(0, np.int64), *[columns for columns, _ in sorted_rows]])
    return HostSparse(
        "csr", (len(lengths), width), (data, indices, np.append(0, np.cumsum(lengths)))
    )


def LibSVMIter(*args: Any, **kwargs: Any) -> MXDataIter:  # noqa: N802
    """Batches of the lines of LibSVM files, `label column:value ...`, whose columns count from 0.

    The data of a batch is a csr matrix (`mx.nd.sparse`), and so are labels of a file of their own.

    Args:
      data_libsvm: the file.
      data_shape: (columns,).
      label_libsvm, label_shape: a second file, whose columns are the labels; without it the first number of each line
        is the label.
      batch_size, round_batch, part_index, num_parts, data_name, label_name: as in `CSVIter`.

    Returns:
      DataIter: the batches.

    Raises:
      FormatError: a line is something else, or has a column that is not there; the message has its number.
    """
    names = take(
        kwargs, "LibSVMIter", data_libsvm=None, data_shape=None, label_libsvm="NULL", label_shape=(1,), batch_size=None,
        round_batch=True, part_index=0, num_parts=1, data_name="data", label_name="softmax_label", prefetch_buffer=4,
        dtype="float32",
    )  # fmt: skip
    if (
        args
        or names["data_libsvm"] is None
        or names["data_shape"] is None
        or names["batch_size"] is None
    ):
        raise MXNetValueError(
            "LibSVMIter needs data_libsvm=, data_shape= and batch_size=, by their names"
        )
    width = math.prod(_shape(names["data_shape"]))
    labels: Any
    labels, rows = _libsvm(names["data_libsvm"], width)
    label_width = None
    if names["label_libsvm"] not in (None, "NULL"):
        label_width = math.prod(_shape(names["label_shape"]))
        labels = _libsvm(names["label_libsvm"], label_width)[1]
        if len(labels) != len(rows):
            raise FormatError(
                f"{names['data_libsvm']} has {len(rows)} lines, {names['label_libsvm']} has {len(labels)}"
            )
    mine = part(len(rows), names["part_index"], names["num_parts"])
    source = _Sparse(
        rows[mine],
        labels[mine],
        width,
        label_width,
        names["batch_size"],
        bool(names["round_batch"]),
    )
    return MXDataIter(source, names["data_name"], names["label_name"])


class _Whole(_Arrays):
    """Only batches that are full, each epoch from the beginning."""

    def count(self) -> int:
        return len(self.data) // self.batch_size * self.batch_size

    def order(self) -> np.ndarray:
        return np.arange(self.count())


def MNISTIter(*args: Any, **kwargs: Any) -> MXDataIter:  # noqa: N802
    """Batches of MNIST's own files, values from 0 to 1; samples that fill no batch are left out.

    Args:
      image, label: the files, gzipped or not.
      batch_size: images in a batch.
      shuffle, seed: one order for all epochs, drawn from the seed.
      flat: (784,) instead of (1, 28, 28).
      part_index, num_parts: only this part of the images, of so many.

    Returns:
      DataIter: the batches.

    Raises:
      FormatError: a damaged file.
    """
    names = take(
        kwargs, "MNISTIter", image="./train-images-idx3-ubyte", label="./train-labels-idx1-ubyte", batch_size=128,
        shuffle=True, flat=False, seed=0, part_index=0, num_parts=1, data_name="data", label_name="softmax_label",
        input_shape=None, data_shape=None, prefetch_buffer=4, dtype="float32",
    )  # fmt: skip
    if args:
        raise MXNetValueError("MNISTIter takes its arguments by their names")
    images, labels = read_idx(names["image"], 3), read_idx(names["label"], 1)
    if len(images) != len(labels):
        raise FormatError(
            f"{names['image']} has {len(images)} images, {names['label']} has {len(labels)} labels"
        )
    mine = part(len(images), names["part_index"], names["num_parts"])
    order = np.arange(len(images))[mine]
    if names["shuffle"]:
        np.random.RandomState(names["seed"]).shuffle(order)
    data = images[order].astype(np.float32) * np.float32(1 / 256)
    data = data.reshape(len(data), -1) if names["flat"] else data[:, None]
    source = _Whole(data, labels[order].astype(np.float32), int(names["batch_size"]), False)
    return MXDataIter(source, names["data_name"], names["label_name"])
