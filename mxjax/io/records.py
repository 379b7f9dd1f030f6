"""Iterators over record files of images: decoded and varied by threads, ahead of their use."""

from __future__ import annotations

import math
import os
import warnings
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from .. import nd, recordio, serialization
from ..core.compile import compiler_options
from ..errors import FormatError, MXNetValueError
from ..files import codec
from ..ops.image import scratch
from .augment import AUGMENT, Augmenter, put, resized
from .native import Buffers, HostBatch, MXDataIter, Source, part, take
from .position import in_range

__all__ = [
    "ImageDetRecordIter",
    "ImageRecordInt8Iter",
    "ImageRecordIter",
    "ImageRecordIter_v1",
    "ImageRecordUInt8Iter",
    "ImageRecordUInt8Iter_v1",
]

#: Arguments about the values of the result.
_VALUES = {
    "rand_mirror": False, "mirror": False, "mean_img": "", "mean_r": 0.0, "mean_g": 0.0, "mean_b": 0.0, "mean_a": 0.0,
    "std_r": 1.0, "std_g": 1.0, "std_b": 1.0, "std_a": 1.0, "scale": 1.0, "max_random_contrast": 0.0,
    "max_random_illumination": 0.0,
}  # fmt: skip
_READ = {
    "path_imgrec": None, "path_imgidx": "", "path_imglist": "", "path_imgroot": "", "data_shape": None,
    "label_width": 1, "batch_size": None, "round_batch": True, "shuffle": False, "seed": 0, "seed_aug": None,
    "shuffle_chunk_size": 0, "shuffle_chunk_seed": 0, "part_index": 0, "num_parts": 1, "preprocess_threads": 4,
    "prefetch_buffer": 4, "dtype": None, "data_name": "data", "label_name": "softmax_label", "aug_seq": "aug_default",
    "corrupt_records": "raise",
}  # fmt: skip


_TASK = 16  # samples

#: Pixels of a picture for each thread that gains by it: Python's part of the work, 0.2 ms a picture, is one thread's at
#: a time, and threads that wait for each other take longer than fewer. Batches of 128 pictures of 256x256 on 16 cores:
#: 101 ms with one thread, 30 with 4, 25 with 6 and with 8, 38 with 14.
_PIXELS = 8192


def _held(size: int) -> np.ndarray:
    """Memory of this thread for a decoded picture: fresh memory takes as long as the picture's normalisation."""
    return scratch.take("decoded", (size,), np.uint8)


class _Records(Source):
    """Batches of the images of a record file."""

    def __init__(self, owner: str, given: dict[str, Any], dtype: Any):
        super().__init__(
            int(given["batch_size"]), bool(given["round_batch"]), int(given["prefetch_buffer"])
        )
        self.given = given
        self.owner = owner
        shape = tuple(int(each) for each in given["data_shape"])
        if len(shape) != 3 or shape[0] not in (1, 3, 4):
            raise MXNetValueError(
                f"{owner}: data_shape must be (1, 3 or 4, height, width), got {shape}"
            )
        self.data_shape = shape
        self.dtype = np.dtype(given["dtype"] or dtype)
        self.label_width = int(given["label_width"])
        self.label_shape = () if self.label_width == 1 else (self.label_width,)
        self.reader = recordio.MXRecordIO(given["path_imgrec"], "r")
        if given["corrupt_records"] not in ("raise", "skip"):
            raise MXNetValueError(
                f"{owner}: corrupt_records is raise or skip, got {given['corrupt_records']!r}"
            )
        self.skips = given["corrupt_records"] == "skip"
        self.corrupt: set[int] = set()
        found = recordio.offsets(given["path_imgrec"], self._tell if self.skips else None)
        if not found:
            warnings.warn(
                f"{given['path_imgrec']} has no records: {owner} gives no batch",
                UserWarning,
                stacklevel=4,
            )
        self.offsets = np.array(found, np.int64)
        self.offsets = self.offsets[
            part(
                len(found),
                int(given["part_index"]),
                int(given["num_parts"]),
                equal=bool(given["path_imgidx"]),
            )
        ]
        self.labels = self._labels(given["path_imglist"])
        self.augment = Augmenter(given, shape)  # type: ignore[arg-type]
        self.mean = self._channels("mean")
        self.factor = np.float32(given["scale"]) / self._channels("std")
        self.epoch = 0
        self.buffers = Buffers(self.ahead + 3)
        self.pool: Any = None
        self.threads = max(1, int(given["preprocess_threads"]))
        if given["mean_img"]:
            self.mean = self._mean_image(given["mean_img"])
        self.centred, self.scaled = bool(self.mean.any()), bool((self.factor != 1).any())

    def _channels(self, name: str) -> np.ndarray:
        return np.array([self.given[f"{name}_{each}"] for each in "rgba"], np.float32)[
            : self.data_shape[0], None, None
        ]

    def _labels(self, path: str) -> dict[int, np.ndarray] | None:
        if not path:
            return None
        from ..image.iterator import read_list  # it needs this package

        return {key: labels for key, (labels, _) in read_list(path).items()}

    def _mean_image(self, path: str) -> np.ndarray:
        if not os.path.exists(path):
            self._save_mean(path)
        found = serialization.load(path)
        mean = found["mean_img"] if isinstance(found, dict) and "mean_img" in found else None
        if mean is None or tuple(mean.shape) != self.data_shape:
            raise FormatError(f"{path} must hold 'mean_img' of shape {self.data_shape}")
        return mean.asnumpy().astype(np.float32)

    def _save_mean(self, path: str) -> None:
        """The mean of all pictures as they are cut for a batch, in the file that was to hold it."""
        total = np.zeros(self.data_shape, np.float64)
        with ThreadPoolExecutor(self.threads) as pool:
            for at in range(0, len(self.offsets), 1024):
                total += sum(pool.map(self._plain, range(at, min(at + 1024, len(self.offsets)))))
        mean = (total / max(1, len(self.offsets) - len(self.corrupt))).astype(np.float32)
        serialization.save(path, {"mean_img": nd.array(mean)})

    def _plain(self, number: int) -> Any:
        found = self._tried(self._read, number)
        pixels = None if found is None else self._tried(self._decoded, number, found[1])
        if pixels is None:
            return 0.0
        return (
            self.augment(pixels, np.random.default_rng([0, number]))
            .transpose(2, 0, 1)
            .astype(np.float64)
        )

    def count(self) -> int:
        return len(self.offsets)

    def position(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "corrupt": sorted(self.corrupt)}

    def go_to(self, position: Any) -> None:
        self.epoch = in_range(position["epoch"], 1 << 62)
        self.corrupt.update(
            in_range(number, len(self.offsets) - 1) for number in position["corrupt"]
        )

    def left(self, order: np.ndarray, begin: int, given: int) -> tuple[np.ndarray, int]:
        if not self.corrupt:
            return super().left(order, begin, given)
        whole = ~np.isin(order, list(self.corrupt))
        return order[whole], int(whole[:begin].sum()) + given * self.batch_size

    def order(self) -> np.ndarray:
        found = self.following(np.zeros(0))
        self.epoch += 1
        return found

    def following(self, order: np.ndarray) -> np.ndarray:
        numbers = np.arange(len(self.offsets))
        chunks = self._chunks(numbers)
        if len(chunks) > 1:
            seed = int(self.given["shuffle_chunk_seed"])
            chunks = [
                chunks[n]
                for n in np.random.default_rng([seed, self.epoch]).permutation(len(chunks))
            ]
        if self.given["shuffle"]:
            dice = np.random.default_rng([int(self.given["seed"]), self.epoch])
            for chunk in chunks:
                dice.shuffle(chunk)
        found = np.concatenate(chunks)
        return found[~np.isin(found, list(self.corrupt))] if self.corrupt else found

    def _chunks(self, numbers: np.ndarray) -> list[np.ndarray]:
        """The samples in the pieces that are mixed: of about `shuffle_chunk_size` MB each, where that is given."""
        size = int(self.given["shuffle_chunk_size"]) << 20
        if size <= 0 or len(numbers) < 2:
            return [numbers]
        end = os.path.getsize(self.reader.uri)
        # MXNet makes a tenth more pieces than would fill the part.
        count = math.ceil(end * 1.1 / (int(self.given["num_parts"]) * size))
        span = max(1, int(self.offsets[-1] - self.offsets[0]))
        pieces = ((self.offsets - self.offsets[0]) * count) // (span + 1)
        return np.split(numbers, np.flatnonzero(np.diff(pieces)) + 1)

    def batches(self, order: np.ndarray, begin: int) -> Iterator[HostBatch]:
        left, without = order[begin:], 0
        ahead: Any = None  # the next batch, whose samples the threads take up while the last of this one are made
        while len(left):
            if len(self.corrupt) > without:
                order, left = (each[~np.isin(each, list(self.corrupt))] for each in (order, left))
                without, ahead = len(self.corrupt), None
                continue
            made, numbers, pad = ahead or self._begun(left, order)
            rest = left[self.batch_size :]
            ahead = self._begun(rest, order) if len(rest) and self.threads > 1 else None
            data, labels = made()
            batch = self.finished(data, labels, numbers, pad)
            if (
                len(self.corrupt) == without
            ):  # otherwise it has what is no picture, and is made anew
                yield batch
                left = rest

    def _begun(self, left: np.ndarray, order: np.ndarray) -> tuple[Any, np.ndarray, int]:
        """What waits for the next batch's data and labels, the numbers of its samples, and how many are missing."""
        numbers, pad = self.padded(left[: self.batch_size], order)
        return self._begin(numbers), numbers, pad

    def make(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._begin(numbers)()  # type: ignore[no-any-return]

    def _begin(self, numbers: np.ndarray) -> Any:
        """Have the threads make samples; what waits for their data and labels."""
        data = self.buffers.take((len(numbers), *self.data_shape), self.dtype)
        labels = np.empty((len(numbers), *self.label_shape), np.float32)
        # Several samples are one task: handing tasks over takes time, too. All threads end at about the same time.
        if self.threads > 1 and self.pool is None and len(numbers):
            self.threads = self._useful(int(numbers[0]))
            self.pool = ThreadPoolExecutor(self.threads)
        rounds = -(-len(numbers) // (self.threads * _TASK))
        size = max(1, -(-len(numbers) // (self.threads * rounds or 1)))
        tasks = [
            (
                data[at : at + size],
                labels[at : at + size],
                self.epoch,
                numbers[at : at + size].tolist(),
            )
            for at in range(0, len(numbers), size)
        ]
        if self.threads > 1:
            running: Any = self.pool.map(self._samples, tasks)
        else:
            running = map(self._samples, tasks)

        def made() -> tuple[np.ndarray, np.ndarray]:
            deque(running, 0)
            return data, labels

        return made

    def _useful(self, number: int) -> int:
        """How many of the threads gain anything, by the size of a picture and the cores; at least two."""
        try:
            pixels = self._decoded(number, self._read(number)[1])
        except FormatError:  # who makes the sample says so
            return self.threads
        by_size = pixels.shape[0] * pixels.shape[1] // _PIXELS
        return max(2, min(self.threads, by_size, compiler_options.cores()))

    def _tell(self, error: FormatError) -> None:
        warnings.warn(f"{error}; left out", UserWarning, stacklevel=2)

    def _read(self, number: int) -> tuple[Any, bytes]:
        """Header and picture, as it lies in the file, of a record."""
        at = int(self.offsets[number])
        try:
            return recordio.unpack(self.reader.read_at(at))
        except FormatError as error:
            raise self._wrong(number, error) from None

    def _wrong(self, number: int, why: Any) -> FormatError:
        return FormatError(
            f"{self.reader.uri}, record {number} at offset {int(self.offsets[number])}: {why}"
        )

    def _decoded(self, number: int, data: bytes) -> np.ndarray:
        try:
            flag = {1: 0, 3: 1, 4: -1}[self.data_shape[0]]
            pixels = codec.decode(data, flag, where="its image", memory=_held)
            if pixels.shape[2] != self.data_shape[0]:
                raise FormatError(
                    f"its image has {pixels.shape[2]} channels, data_shape is {self.data_shape}"
                )
        except FormatError as error:
            raise self._wrong(number, error) from None
        return pixels if pixels.dtype == np.uint8 else (pixels >> 8).astype(np.uint8)

    def _samples(self, task: tuple[np.ndarray, np.ndarray, int, list[int]]) -> None:
        """Make samples in their places of the batch.

        One step for all of them, then the next: so what a step needs is in the processor's cache from the second on.
        """
        data, labels, epoch, numbers = task
        pictures = scratch.take("pictures", data.shape, np.uint8)
        read = [self._tried(self._read, number) for number in numbers]
        dice = self._dice(epoch, numbers)
        for at, (number, found) in enumerate(zip(numbers, read, strict=True)):
            pixels = None if found is None else self._tried(self._decoded, number, found[1])
            if pixels is None:
                continue
            header = found[0]
            given = header.label if self.labels is None else self.labels[header.id]
            labels[at], pixels, mirror = self._finished(
                pixels, self._label(given, number), dice[at]
            )
            put(pixels, pictures[at], mirror)
        for planes, each, out in zip(pictures, dice, data, strict=True):
            self._values(planes, each, out)

    def _tried(self, work: Any, number: int, *args: Any) -> Any:
        """None where something is wrong with a record, and such are left out."""
        try:
            return work(number, *args)
        except FormatError as error:
            if not self.skips:
                raise
            self.corrupt.add(number)
            self._tell(error)
            return None

    def _dice(self, epoch: int, numbers: list[int]) -> list[Any]:
        """What draws for each sample, whoever makes it."""
        seed = int(self.given["seed" if self.given["seed_aug"] is None else "seed_aug"])
        return [np.random.default_rng([seed, epoch, number]) for number in numbers]

    def _label(self, label: Any, number: int) -> np.ndarray:
        label = np.asarray(label, np.float32).reshape(-1)
        if label.size != self.label_width:
            raise self._wrong(
                number, f"it has {label.size} labels, label_width is {self.label_width}"
            )
        return label.reshape(self.label_shape)

    def _finished(
        self, pixels: np.ndarray, label: np.ndarray, dice: Any
    ) -> tuple[np.ndarray, np.ndarray, bool]:
        """The label, the picture in its final size, and whether it is to be mirrored."""
        pixels = self.augment(pixels, dice)
        return (
            label,
            pixels,
            bool(self.given["mirror"] or self.given["rand_mirror"] and dice.random() < 0.5),
        )

    def _values(self, planes: np.ndarray, dice: Any, out: np.ndarray) -> None:
        """The values of a picture (channels, height, width) as they go into the batch."""
        if self.dtype == np.uint8:
            np.copyto(out, planes)
            return
        work = out if self.dtype == np.float32 else np.empty(out.shape, np.float32)
        contrast, light = self.given["max_random_contrast"], self.given["max_random_illumination"]
        if varied := contrast or light:
            gain = np.float32(1 + dice.uniform(-contrast, contrast))
            more = np.float32(dice.uniform(-light, light))
        # Plane by plane, so that all steps of one find it in the processor's cache.
        for plane, made, mean, factor in zip(planes, work, self.mean, self.factor, strict=True):
            np.copyto(made, plane)
            if self.centred:
                made -= mean
            if varied:
                made *= gain
                made += more
            if self.scaled:
                made *= factor
        if work is not out:
            np.copyto(
                out, np.clip(work, -128, 127) if self.dtype == np.int8 else work, casting="unsafe"
            )


def _made(
    owner: str, args: Any, kwargs: dict[str, Any], dtype: Any, kind: Any = _Records, **more: Any
) -> MXDataIter:
    given = take(kwargs, owner, **{**_READ, **AUGMENT, **_VALUES, **more})
    if args or None in (given["path_imgrec"], given["data_shape"], given["batch_size"]):
        raise MXNetValueError(
            f"{owner} needs path_imgrec=, data_shape= and batch_size=, by their names"
        )
    return MXDataIter(kind(owner, given, dtype), given["data_name"], given["label_name"])


def ImageRecordIter(*args: Any, **kwargs: Any) -> MXDataIter:  # noqa: N802
    """Batches (batch_size, channels, height, width) of the images of a record file, in float32.

    Threads decode and vary them, while the batches before are used. What is drawn depends on the seed, the epoch and
    the sample alone, not on the threads.

    Args:
      path_imgrec: the record file; an index is not needed.
      path_imglist: a list whose labels are taken instead of the records'.
      data_shape: (channels, height, width): 1 channel is gray, 4 take the picture as it is.
      label_width: labels of a picture.
      batch_size, round_batch: the last batch is filled from the beginning, and the next epoch goes on after that;
        with round_batch=False zeros fill it, and its `pad` counts them. (MXNet's `pad` is 0 there, and what fills the
        batch is what lay in its memory.)
      shuffle, seed: a new order in each epoch; seed_aug is of what varies the pictures.
      shuffle_chunk_size, shuffle_chunk_seed: pieces of the file of so many MB come in a new order in each epoch, and
        `shuffle` mixes within each of them alone, so that neighbours on the disk are read together.
      part_index, num_parts: only this part of the records, of so many.
      preprocess_threads, prefetch_buffer: how many threads, and how many batches they are ahead.
      resize: the shorter side, first of all; rand_crop, random_resized_crop with min_ and max_random_area and
        _aspect_ratio, min_ and max_crop_size, pad and fill_value: which part is taken; otherwise the middle.
      rotate, max_rotate_angle, max_shear_ratio, min_ and max_random_scale: how it is moved.
      random_h, random_s, random_l: how many steps hue (of 180), saturation and lightness (of 255) are moved at most.
      rand_mirror, mirror; brightness, contrast, saturation, pca_noise; max_random_contrast, max_random_illumination.
      mean_img (a file of `mx.nd.save`; where it is not there it is made of all pictures) or
        mean_r, mean_g, mean_b, mean_a; std_r ... std_a; scale:
        the result is (values - mean) / std * scale.
      inter_method: 0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos, 9 by size, 10 at random.
      corrupt_records: "skip" leaves a damaged record or image out, with a warning that says where it is; the next
        record takes its place.

    Returns:
      DataIter: the batches.

    Raises:
      FormatError: a damaged record or image; the message has file and offset.
    """
    return _made("ImageRecordIter", args, kwargs, np.float32)


def ImageRecordUInt8Iter(*args: Any, **kwargs: Any) -> MXDataIter:  # noqa: N802
    """`ImageRecordIter` with the values as they are, in uint8.

    Returns:
      DataIter: the batches.
    """
    return _made("ImageRecordUInt8Iter", args, kwargs, np.uint8)


def ImageRecordInt8Iter(*args: Any, **kwargs: Any) -> MXDataIter:  # noqa: N802
    """`ImageRecordIter` in int8: what lies outside -128 ... 127 is cut off.

    Returns:
      DataIter: the batches.
    """
    return _made("ImageRecordInt8Iter", args, kwargs, np.int8)


#: The first versions, which are the same here.
ImageRecordIter_v1 = ImageRecordIter
ImageRecordUInt8Iter_v1 = ImageRecordUInt8Iter


class _DetRecords(_Records):
    """Images with boxes: a label is a row of the image's channels, height and width, how many numbers follow, they, and
    `label_pad_value` up to the longest row of the file."""

    def __init__(self, owner: str, given: dict[str, Any], dtype: Any):
        super().__init__(owner, given, dtype)
        longest = max((self._raw(n).size for n in range(len(self.offsets))), default=0)
        width = int(given["label_pad_width"])
        if 0 < width < longest:
            raise MXNetValueError(
                f"{owner}: label_pad_width {width} is less than {longest}, the longest label's width"
            )
        self.label_shape = (4 + max(width, longest),)

    def _raw(self, number: int) -> np.ndarray:
        header, _ = self._read(number)
        label = header.label if self.labels is None else self.labels[header.id]
        return np.asarray(label, np.float32).reshape(-1)

    def _label(self, label: Any, number: int) -> np.ndarray:
        row = np.asarray(label, np.float32).reshape(-1)
        if row.size < 7 or row[0] < 2 or row[1] < 5 or (row.size - int(row[0])) % int(row[1]):
            raise self._wrong(
                number,
                "a label is the width of its header, the width of an object, the rest of the header, the objects; "
                f"here are {row[:8].tolist()} ...",
            )
        return row

    def _finished(
        self, pixels: np.ndarray, label: np.ndarray, dice: Any
    ) -> tuple[np.ndarray, np.ndarray, bool]:
        channels, height, width = self.data_shape
        label = label.copy()
        mirror = bool(
            self.given["rand_mirror_prob"] and dice.random() < self.given["rand_mirror_prob"]
        )
        if mirror:
            boxes = label[int(label[0]) :].reshape(-1, int(label[1]))
            boxes[:, [1, 3]] = 1 - boxes[:, [3, 1]]
        row = np.full(self.label_shape, self.given["label_pad_value"], np.float32)
        row[:4] = channels, height, width, label.size
        row[4 : 4 + label.size] = label
        return row, resized(pixels, width, height, int(self.given["inter_method"]), dice), mirror


def ImageDetRecordIter(*args: Any, **kwargs: Any) -> MXDataIter:  # noqa: N802
    """Batches of the images of a record file with their boxes, resized to `data_shape` as a whole.

    A label is a row: channels, height and width of the image, how many numbers follow, the numbers of the record (the
    width of its header, the width of an object, the rest of the header, the objects), and `label_pad_value` up to the
    longest row.

    Args:
      label_pad_width, label_pad_value: the least width of a row without its first four numbers, and what fills it.
      rand_mirror_prob: how often image and boxes are mirrored. (mx.image.ImageDetIter has parts and borders too.)
      The others are those of `ImageRecordIter` that move nothing.

    Returns:
      DataIter: the batches.

    Raises:
      FormatError: a damaged record, image or label; the message has file and offset.
    """
    return _made(
        "ImageDetRecordIter", args, kwargs, np.float32, _DetRecords,
        label_width=-1, label_pad_width=0, label_pad_value=-1.0, rand_mirror_prob=0.0,
    )  # fmt: skip
