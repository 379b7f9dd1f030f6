"""`ImageIter`: batches of pictures from a record file or from files that a list names."""

from __future__ import annotations

import logging
import os
import random
from typing import Any

import numpy as np

from .. import recordio
from ..array import NDArray
from ..errors import (
    FormatError,
    MXNetAssertionError,
    MXNetError,
    MXNetFileNotFoundError,
    MXNetTypeError,
    MXNetValueError,
)
from ..files import codec
from ..io import DataBatch, DataIter
from ..io.position import as_position, in_range
from .augment import Augmenter, CreateAugmenter
from .functions import as_array, on_host

__all__ = ["ImageIter"]

_LABEL_TYPES = ("int32", "float32", "int64", "float64")
_log = logging.getLogger(__name__)


def read_list(path: str, dtype: Any = np.float32) -> dict[int, tuple[np.ndarray, str]]:
    """A list file, lines of `key <tab> label ... <tab> file name`, as key -> (labels, file name).

    Raises:
      FormatError: a line is something else; the message has its number.
    """
    found = {}
    for line in recordio.list_lines(path):
        if isinstance(line, FormatError):
            raise line
        key, labels, name = line
        found[key] = np.array(labels, dtype), name
    return found


class ImageIter(DataIter):
    """Batches (batch_size, channels, height, width) of pictures with their labels.

    The pictures come from one of: a record file (`path_imgrec`), the files that a list names (`path_imglist`), the
    files of `imglist`. A record file with `path_imglist` gives the pictures, the list the labels.

    Args:
      batch_size: pictures in a batch.
      data_shape: (3, height, width).
      label_width: labels of a picture.
      path_imgrec: a record file; `path_imgidx`, its index, is needed for shuffle and parts.
      path_imglist: lines of `index <tab> label ... <tab> file name`.
      imglist: a list of [label, ..., file name].
      path_root: the folder that file names start from.
      shuffle: a new order in each epoch, drawn by Python's `random`.
      part_index, num_parts: only this part of the pictures, of so many.
      aug_list: augmenters; without it those of `CreateAugmenter` with the other arguments.
      dtype: of labels read from a list: int32, float32, int64 or float64.
      last_batch_handle: `pad` fills the last batch from the beginning, `discard` leaves it out, `roll_over` keeps its
        pictures for the next epoch.
      path_imgidx: the path of the index file.
      data_name: the name of the data.
      label_name: the name of the labels.

    Raises:
      FormatError: a damaged record or picture; the message says which.
    """

    def __init__(
        self, batch_size: int, data_shape: tuple[int, int, int], label_width: int = 1, path_imgrec: str | None = None,
        path_imglist: str | None = None, path_root: str | None = None, path_imgidx: str | None = None,
        shuffle: bool = False, part_index: int = 0, num_parts: int = 1, aug_list: list[Any] | None = None,
        imglist: list[Any] | None = None, data_name: str = "data", label_name: str = "softmax_label",
        dtype: str = "float32", last_batch_handle: str = "pad", **kwargs: Any,
    ):  # fmt: skip
        super().__init__()
        if not (path_imgrec or path_imglist or isinstance(imglist, list)):
            raise MXNetAssertionError(
                f"{type(self).__name__} needs path_imgrec, path_imglist or imglist"
            )
        if dtype not in _LABEL_TYPES:
            raise MXNetAssertionError(
                f"{dtype} label not supported; one of {', '.join(_LABEL_TYPES)} is"
            )
        if last_batch_handle not in ("pad", "discard", "roll_over"):
            raise MXNetValueError(
                f"last_batch_handle must be pad, discard or roll_over, got {last_batch_handle!r}"
            )
        self.imgrec: Any = None
        self.imgidx: list[Any] | None = None
        if path_imgrec and path_imgidx:
            self.imgrec = recordio.MXIndexedRecordIO(path_imgidx, path_imgrec, "r")
            self.imgidx = list(self.imgrec.keys)
        elif path_imgrec:
            self.imgrec = recordio.MXRecordIO(path_imgrec, "r")
        self.imglist: dict[Any, tuple[np.ndarray, str]] | None = None
        if path_imglist:
            self.imglist = read_list(path_imglist, dtype)
        elif isinstance(imglist, list):
            self.imglist = {str(n): self._entry(each, dtype) for n, each in enumerate(imglist, 1)}
        self.path_root = path_root
        self.check_data_shape(data_shape)
        self.provide_data: list[Any] = [(data_name, (batch_size, *data_shape))]
        self.provide_label: list[Any] = [
            (label_name, (batch_size, label_width) if label_width > 1 else (batch_size,))
        ]
        self.batch_size = batch_size
        self.data_shape = tuple(data_shape)
        self.label_width = label_width
        self.shuffle = shuffle
        self.seq: list[Any] | None = None
        if self.imgrec is None:
            self.seq = list(self.imglist or ())
        elif shuffle or num_parts > 1 or path_imgidx:
            if self.imgidx is None:
                raise MXNetAssertionError(
                    f"shuffle and num_parts need the index of {path_imgrec}: give path_imgidx; "
                    "mx.recordio.make_index makes one"
                )
            self.seq = self.imgidx
        if num_parts > 1:
            if not 0 <= part_index < num_parts:
                raise MXNetAssertionError(
                    f"part_index must be less than num_parts {num_parts}, got {part_index}"
                )
            assert self.seq is not None
            size = len(self.seq) // num_parts
            self.seq = self.seq[part_index * size : (part_index + 1) * size]
        self.auglist: list[Any] = (
            CreateAugmenter(data_shape, **kwargs) if aug_list is None else aug_list
        )
        self.cur = 0
        self._allow_read = True
        self.last_batch_handle = last_batch_handle
        self.num_image = None if self.seq is None else len(self.seq)
        self._kept: tuple[np.ndarray, np.ndarray, int] | None = None
        self.reset()

    @staticmethod
    def _entry(given: Any, dtype: str) -> tuple[np.ndarray, str]:
        *labels, name = given
        if len(labels) == 1:
            labels = labels[0]
        return np.atleast_1d(np.asarray(on_host(labels), dtype)), name

    def reset(self) -> None:
        """Begin anew; what `roll_over` keeps stays."""
        if self.seq is not None and self.shuffle:
            random.shuffle(self.seq)
        if self.last_batch_handle != "roll_over" or self._kept is None:
            self._rewind()

    def hard_reset(self) -> None:
        """Begin anew, without what `roll_over` kept."""
        if self.seq is not None and self.shuffle:
            random.shuffle(self.seq)
        self._kept = None
        self._rewind()

    def _rewind(self) -> None:
        if self.imgrec is not None:
            self.imgrec.reset()
        self.cur = 0
        self._allow_read = True

    def state_dict(self) -> dict[str, Any]:
        seq: Any = self.seq
        if seq is not None and all(type(key) is int for key in seq):
            seq = np.array(seq, np.int64)
        at = None if self.seq is not None or self.imgrec is None else self.imgrec.offset
        kept: Any = None
        if self._kept is not None:
            data, label, filled = self._kept
            kept = [data.copy(), label.copy(), filled]
        return {"seq": seq, "cur": self.cur, "at": at, "reads": self._allow_read, "kept": kept}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        with as_position(self):
            seq, cur, kept = state["seq"], in_range(state["cur"], 1 << 62), state["kept"]
            if seq is not None:
                seq = seq.tolist() if isinstance(seq, np.ndarray) else list(seq)
            if (seq is None) != (self.seq is None) or sorted(seq or ()) != sorted(self.seq or ()):
                raise ValueError("it is of other pictures")
            if kept is not None:
                shapes = self.provide_data[0][1], self.provide_label[0][1]
                if tuple(each.shape for each in kept[:2]) != shapes:
                    raise ValueError(f"pictures and labels of the shapes {shapes} were expected")
                kept = (
                    *(each.astype(np.float32) for each in kept[:2]),
                    in_range(kept[2], self.batch_size),
                )
            if self.seq is None:
                self.imgrec.offset = state["at"]
            else:
                self.seq[:] = seq or ()
            self.cur, self._allow_read, self._kept = cur, bool(state["reads"]), kept

    def next_sample(self) -> tuple[Any, bytes]:
        """The next picture: its label, and what its file holds.

        Raises:
          StopIteration: there is none.
        """
        if not self._allow_read:
            raise StopIteration
        if self.seq is None:
            record = self.imgrec.read()
            if record is None:
                if self.last_batch_handle != "discard":
                    self.imgrec.reset()
                raise StopIteration
            self.cur += 1
            return self._unpacked(record, self.cur - 1)
        assert self.num_image is not None
        if self.cur >= self.num_image:
            if self.last_batch_handle != "discard":
                self.cur = 0
            raise StopIteration
        idx = self.seq[self.cur]
        self.cur += 1
        if self.imgrec is not None:
            label, picture = self._unpacked(self.imgrec.read_idx(idx), idx)
            return (label if self.imglist is None else self.imglist[idx][0]), picture
        assert self.imglist is not None
        label, name = self.imglist[idx]
        return label, self.read_image(name)

    def _unpacked(self, record: bytes, idx: Any) -> tuple[Any, bytes]:
        try:
            header, picture = recordio.unpack(record)
        except FormatError as error:
            raise FormatError(f"{self.imgrec.uri}, record {idx}: {error}") from None
        return header.label, picture

    def _locate(self) -> str:
        """Which picture was read last."""
        idx: Any = self.cur - 1
        if self.seq is not None:
            idx = self.seq[(self.cur or len(self.seq)) - 1]
        if self.imgrec is None and self.imglist is not None:
            return f"filename: {self.imglist[idx][1]}"
        return f"index: {idx} of {self.imgrec.uri}"

    def _is_own(self, *names: str) -> bool:
        """Whether a subclass has left these methods alone, so that pictures may stay arrays of NumPy."""
        return all(getattr(type(self), name) is getattr(ImageIter, name) for name in names)

    def _decoded(self, data: bytes) -> Any:
        """A picture, as an array of NumPy where nobody but this package looks at it before the batch."""
        if not self._is_own("imdecode", "check_valid_image", "postprocess_data"):
            return self.imdecode(data)
        return self._pixels(data)

    def _pixels(self, data: bytes) -> np.ndarray:
        try:
            return codec.decode(data, where="it")
        except FormatError as error:
            raise FormatError(f"Broken image {self._locate()}: {error}") from None

    def _batchify(self, batch_data: np.ndarray, batch_label: np.ndarray, start: int = 0) -> int:
        """Fill a batch from a place on; how many pictures it then has."""
        at = start
        try:
            while at < self.batch_size:
                label, data = self.next_sample()
                picture = self._decoded(data)
                try:
                    self.check_valid_image([picture])
                except MXNetError as error:
                    _log.debug("Invalid image, skipping:  %s", error)
                    continue
                picture = self.augmentation_transform(self._for_augmenters(picture))
                batch_data[at] = on_host(self.postprocess_data(picture))
                batch_label[at] = self._fitting(label, batch_label[at].shape)
                at += 1
        except StopIteration:
            if not at:
                raise
        return at

    def _for_augmenters(self, picture: Any) -> Any:
        """The picture as augmenters of the user's take it: an array of mxjax."""
        ours = self._is_own("augmentation_transform") and all(
            _is_ours(each) for each in self.auglist
        )
        return picture if ours or isinstance(picture, NDArray) else as_array(picture)

    def _fitting(self, label: Any, shape: tuple[int, ...]) -> np.ndarray:
        label = on_host(label)
        try:
            return np.broadcast_to(
                label.reshape(shape) if label.size == np.prod(shape, dtype=int) else label, shape
            )
        except ValueError:
            raise FormatError(
                f"the picture with {self._locate()} has {label.size} labels, label_width says {self.label_width}"
            ) from None

    def _empty_batch(self) -> tuple[np.ndarray, np.ndarray]:
        shape = (self.batch_size, *self.data_shape)
        return np.zeros(shape, np.float32), np.zeros(self.provide_label[0][1], np.float32)

    def next(self) -> DataBatch:
        if self._kept is None:
            batch_data, batch_label = self._empty_batch()
            filled = self._batchify(batch_data, batch_label)
        else:
            batch_data, batch_label, filled = self._kept
        pad = self.batch_size - filled
        if pad:
            if self.last_batch_handle == "discard":
                raise StopIteration
            if self.last_batch_handle == "roll_over" and self._kept is None:
                self._kept = batch_data, batch_label, filled
                raise StopIteration
            self._batchify(batch_data, batch_label, filled)
            if self.last_batch_handle == "pad":
                self._allow_read = False
            self._kept = None
        return DataBatch([as_array(batch_data)], [as_array(batch_label)], pad=pad)

    def check_data_shape(self, data_shape: Any) -> None:
        """Refuse a shape that is not (3, height, width)."""
        if len(data_shape) != 3:
            raise MXNetValueError(
                f"data_shape should have length 3, with dimensions CxHxW, got {data_shape}"
            )
        if data_shape[0] != 3:
            raise MXNetValueError(
                f"This iterator expects inputs to have 3 channels, got data_shape {data_shape}"
            )

    def check_valid_image(self, data: Any) -> None:
        """Refuse a picture without axes; it is then left out."""
        if len(data[0].shape) == 0:
            raise MXNetValueError("Data shape is wrong")

    def imdecode(self, s: Any) -> Any:
        """A picture from what its file holds.

        Raises:
          FormatError: it is damaged; the message says which.
        """
        return as_array(self._pixels(s))

    def read_image(self, fname: str) -> bytes:
        """What a picture's file holds."""
        if self.path_root is None:
            raise MXNetTypeError(
                "pictures in files need path_root, the folder that their names start from"
            )
        path = os.path.join(self.path_root, fname)
        try:
            with open(path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            raise MXNetFileNotFoundError(
                f"there is no picture {path}: path_root, the folder that the list's names start from, is "
                f"{self.path_root}"
            ) from None

    def augmentation_transform(self, data: Any) -> Any:
        """A picture after all augmenters."""
        for each in self.auglist:
            data = each(data)
        return data

    def postprocess_data(self, datum: Any) -> Any:
        """A picture as it goes into the batch: channels first."""
        return datum.transpose((2, 0, 1))


def _is_ours(augmenter: Any) -> bool:
    """Whether an augmenter, with all that are in it, takes arrays of NumPy."""
    inner = (*getattr(augmenter, "ts", ()), *getattr(augmenter, "aug_list", ()))
    inner += (
        (augmenter.augmenter,)
        if isinstance(getattr(augmenter, "augmenter", None), Augmenter)
        else ()
    )
    return type(augmenter).__module__.startswith(f"{__package__}.") and all(
        _is_ours(each) for each in inner
    )
