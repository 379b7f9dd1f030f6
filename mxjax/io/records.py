"""Iterators over record files of images: decoded and varied by threads, ahead of their use."""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from .. import codec, nd, recordio, serialization
from ..errors import FormatError, MXNetNotImplementedError, MXNetValueError
from ..ops.image import resized_on_host
from .native import MXDataIter, Source, part, take

__all__ = [
    "ImageDetRecordIter",
    "ImageRecordInt8Iter",
    "ImageRecordIter",
    "ImageRecordIter_v1",
    "ImageRecordUInt8Iter",
    "ImageRecordUInt8Iter_v1",
]

_EIGVAL = np.array([55.46, 4.794, 1.148])
_EIGVEC = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])
_GRAY = np.array([0.299, 0.587, 0.114], np.float32)

#: Arguments about how a picture is varied, with MXNet's defaults.
_AUGMENT = {
    "resize": -1, "rand_crop": False, "random_resized_crop": False, "max_rotate_angle": 0, "max_aspect_ratio": 0.0,
    "min_aspect_ratio": None, "max_shear_ratio": 0.0, "max_crop_size": -1, "min_crop_size": -1,
    "max_random_scale": 1.0, "min_random_scale": 1.0, "max_random_area": 1.0, "min_random_area": 1.0,
    "max_img_size": 1e10, "min_img_size": 0.0, "brightness": 0.0, "contrast": 0.0, "saturation": 0.0, "pca_noise": 0.0,
    "random_h": 0, "random_s": 0, "random_l": 0, "rotate": -1, "fill_value": 255, "inter_method": 1, "pad": 0,
}  # fmt: skip
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
}  # fmt: skip


def _resized(pixels: np.ndarray, width: int, height: int, method: int, dice: Any) -> np.ndarray:
    rows, columns = pixels.shape[:2]
    if method == 9:
        larger, smaller = height > rows and width > columns, height < rows and width < columns
        method = 2 if larger else 3 if smaller else 1
    elif method == 10:
        method = int(dice.integers(0, 5))
    cv2 = codec.opencv()
    if cv2 is None:
        return resized_on_host(pixels, width, height, method)
    out = cv2.resize(pixels, (width, height), interpolation=method)
    return out[..., None] if out.ndim == 2 else out


def _warped(pixels: np.ndarray, matrix: np.ndarray, width: int, height: int, fill: float) -> np.ndarray:
    """The picture moved by an affine map (2, 3), between pixels bilinear, outside `fill`."""
    inner = np.linalg.inv(matrix[:, :2])
    y, x = np.mgrid[:height, :width].astype(np.float32)
    from_x, from_y = (row[0] * (x - matrix[0, 2]) + row[1] * (y - matrix[1, 2]) for row in inner)
    around = np.pad(pixels.astype(np.float32), ((1, 1), (1, 1), (0, 0)), constant_values=fill)
    # One step outside everything is the colour around it.
    from_x = np.clip(from_x + 1, 0, around.shape[1] - 1.001)
    from_y = np.clip(from_y + 1, 0, around.shape[0] - 1.001)
    left, top = from_x.astype(np.int64), from_y.astype(np.int64)
    right, low = (from_x - left)[..., None], (from_y - top)[..., None]
    upper = around[top, left] * (1 - right) + around[top, left + 1] * right
    lower = around[top + 1, left] * (1 - right) + around[top + 1, left + 1] * right
    return np.rint(upper * (1 - low) + lower * low).astype(pixels.dtype)


class _Augmenter:
    """MXNet's default augmenter: from a decoded picture to one of the wanted size."""

    def __init__(self, given: dict[str, Any], shape: tuple[int, int, int], owner: str):
        self.given, self.shape = given, shape
        for name in ("random_h", "random_s", "random_l"):
            if given[name]:
                raise MXNetNotImplementedError(
                    f"{owner}: {name} is not there; mx.gluon.data.vision.transforms.RandomHue and "
                    "mx.image.HueJitterAug turn colours"
                )

    def __call__(self, pixels: np.ndarray, dice: Any) -> np.ndarray:
        given, (_, height, width) = self.given, self.shape
        method = int(given["inter_method"])
        if given["resize"] > 0:
            rows, columns = pixels.shape[:2]
            side = int(given["resize"])
            new = (side, side * rows // columns) if rows > columns else (side * columns // rows, side)
            pixels = _resized(pixels, new[0], new[1], method, dice)
        pixels = self._moved(pixels, dice)
        if given["pad"] > 0:
            side = int(given["pad"])
            pixels = np.pad(pixels, ((side, side), (side, side), (0, 0)), constant_values=given["fill_value"])
        pixels = self._cut(pixels, width, height, method, dice)
        return self._coloured(pixels, dice)

    def _moved(self, pixels: np.ndarray, dice: Any) -> np.ndarray:
        """Turned, sheared and scaled, where asked for."""
        given = self.given
        shear, turn = given["max_shear_ratio"], given["max_rotate_angle"]
        aspect = 0.0 if given["random_resized_crop"] else given["max_aspect_ratio"]
        scales = given["min_random_scale"], given["max_random_scale"]
        if not (shear > 0 or turn > 0 or given["rotate"] > 0 or aspect > 0 or scales != (1.0, 1.0)):
            return pixels
        rows, columns = pixels.shape[:2]
        angle = given["rotate"] if given["rotate"] > 0 else dice.integers(-turn, turn + 1) if turn > 0 else 0
        a, b = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        s = dice.uniform(-shear, shear)
        scale = dice.uniform(*scales)
        ratio = 1 + dice.uniform(-aspect, aspect)
        hs = 2 * scale / (1 + ratio)
        ws = ratio * hs
        new_w = int(max(given["min_img_size"], min(given["max_img_size"], scale * columns)))
        new_h = int(max(given["min_img_size"], min(given["max_img_size"], scale * rows)))
        turned = np.array([[hs * a - s * b * ws, hs * b + s * a * ws], [-b * ws, a * ws]])
        shift = (np.array([new_w, new_h]) - turned @ [columns, rows]) / 2
        return _warped(pixels, np.column_stack([turned, shift]), new_w, new_h, given["fill_value"])

    def _cut(self, pixels: np.ndarray, width: int, height: int, method: int, dice: Any) -> np.ndarray:
        given = self.given
        rows, columns = pixels.shape[:2]
        if given["random_resized_crop"]:
            w, h, x, y = self._random_part(rows, columns, dice)
        elif given["max_crop_size"] != -1 or given["min_crop_size"] != -1:
            w = h = int(dice.integers(given["min_crop_size"], given["max_crop_size"] + 1))
            if w > min(rows, columns):
                raise FormatError(f"max_crop_size {w} is larger than the picture of {columns} x {rows}")
            x, y = self._place(columns - w, rows - h, dice)
        else:
            # A picture that is too small is enlarged first.
            if rows < height or columns < width:
                factor = max(height / rows, width / columns)
                new = max(width, round(columns * factor)), max(height, round(rows * factor))
                pixels = _resized(pixels, new[0], new[1], method, dice)
                rows, columns = pixels.shape[:2]
            w, h = width, height
            x, y = self._place(columns - w, rows - h, dice)
        pixels = pixels[y : y + h, x : x + w]
        return pixels if (w, h) == (width, height) else _resized(pixels, width, height, method, dice)

    def _place(self, free_x: int, free_y: int, dice: Any) -> tuple[int, int]:
        if self.given["rand_crop"]:
            return int(dice.integers(0, free_x + 1)), int(dice.integers(0, free_y + 1))
        return free_x // 2, free_y // 2

    def _random_part(self, rows: int, columns: int, dice: Any) -> tuple[int, int, int, int]:
        given = self.given
        most = given["max_aspect_ratio"] or 1.0
        least = given["min_aspect_ratio"] if given["min_aspect_ratio"] is not None else 1 / most
        for _ in range(10):
            area = dice.uniform(given["min_random_area"], given["max_random_area"]) * rows * columns
            ratio = math.exp(dice.uniform(math.log(least), math.log(most)))
            w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < w <= columns and 0 < h <= rows:
                return w, h, int(dice.integers(0, columns - w + 1)), int(dice.integers(0, rows - h + 1))
        side = min(rows, columns)
        return side, side, (columns - side) // 2, (rows - side) // 2

    def _coloured(self, pixels: np.ndarray, dice: Any) -> np.ndarray:
        """Brightness, contrast and saturation in a new order each time, and AlexNet's noise."""
        amounts = {name: self.given[name] for name in ("brightness", "contrast", "saturation")}
        if not any(amounts.values()) and not self.given["pca_noise"] or pixels.shape[2] != 3:
            return pixels
        out = pixels.astype(np.float32)
        for name in dice.permutation([name for name, amount in amounts.items() if amount > 0]):
            factor = np.float32(1 + dice.uniform(-amounts[name], amounts[name]))
            if name == "brightness":
                out = out * factor
            else:
                gray = (out @ _GRAY)[..., None]
                out = out * factor + (gray if name == "saturation" else gray.mean()) * (1 - factor)
        if self.given["pca_noise"] > 0:
            out = out + (_EIGVEC * dice.normal(0, self.given["pca_noise"], 3)) @ _EIGVAL
        return np.clip(out, 0, 255).astype(np.uint8)


class _Records(Source):
    """Batches of the images of a record file."""

    def __init__(self, owner: str, given: dict[str, Any], dtype: Any):
        super().__init__(int(given["batch_size"]), bool(given["round_batch"]), int(given["prefetch_buffer"]))
        self.given = given
        self.owner = owner
        shape = tuple(int(each) for each in given["data_shape"])
        if len(shape) != 3 or shape[0] not in (1, 3, 4):
            raise MXNetValueError(f"{owner}: data_shape must be (1, 3 or 4, height, width), got {shape}")
        self.data_shape = shape
        self.dtype = np.dtype(given["dtype"] or dtype)
        self.label_width = int(given["label_width"])
        self.label_shape = () if self.label_width == 1 else (self.label_width,)
        self.reader = recordio.MXRecordIO(given["path_imgrec"], "r")
        self.offsets = np.array(recordio.offsets(given["path_imgrec"]), np.int64)
        self.offsets = self.offsets[part(len(self.offsets), int(given["part_index"]), int(given["num_parts"]))]
        self.labels = self._labels(given["path_imglist"])
        self.augment = _Augmenter(given, shape, owner)  # type: ignore[arg-type]
        self.std = np.array([given[f"std_{each}"] for each in "rgba"], np.float32)[: shape[0], None, None]
        self.epoch = 0
        self.pool: Any = None
        self.threads = max(1, int(given["preprocess_threads"]))
        self.mean = self._mean()

    def _labels(self, path: str) -> dict[int, np.ndarray] | None:
        if not path:
            return None
        from ..image.iterator import read_list  # it needs this package

        return {key: labels for key, (labels, _) in read_list(path).items()}

    def _mean(self) -> Any:
        given = self.given
        if given["mean_img"]:
            if not os.path.exists(given["mean_img"]):
                self._save_mean(given["mean_img"])
            found = serialization.load(given["mean_img"])
            mean = found["mean_img"] if isinstance(found, dict) and "mean_img" in found else None
            if mean is None or tuple(mean.shape) != self.data_shape:
                raise FormatError(f"{given['mean_img']} must hold 'mean_img' of shape {self.data_shape}")
            return mean.asnumpy().astype(np.float32)
        return np.array([given[f"mean_{each}"] for each in "rgba"], np.float32)[: self.data_shape[0], None, None]

    def _save_mean(self, path: str) -> None:
        """The mean of all pictures as they are cut for a batch, in the file that was to hold it."""
        total = np.zeros(self.data_shape, np.float64)
        with ThreadPoolExecutor(self.threads) as pool:
            for at in range(0, len(self.offsets), 1024):
                total += sum(pool.map(self._plain, range(at, min(at + 1024, len(self.offsets)))))
        mean = (total / max(1, len(self.offsets))).astype(np.float32)
        serialization.save(path, {"mean_img": nd.array(mean)})

    def _plain(self, number: int) -> np.ndarray:
        pixels = self.augment(self._decoded(number)[1], np.random.default_rng([0, number]))
        return pixels.transpose(2, 0, 1).astype(np.float64)

    def order(self) -> np.ndarray:
        numbers = np.arange(len(self.offsets))
        if self.given["shuffle"]:
            np.random.default_rng([int(self.given["seed"]), self.epoch]).shuffle(numbers)
        self.epoch += 1
        return numbers

    def make(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self.pool is None:
            self.pool = ThreadPoolExecutor(self.threads)
        tasks = [(self.epoch, int(n)) for n in numbers]
        images, labels = zip(*self.pool.map(self._sample, tasks), strict=True)
        return np.stack(images), np.stack(labels)

    def _decoded(self, number: int) -> tuple[Any, np.ndarray]:
        """Header and picture of a record."""
        at = int(self.offsets[number])
        try:
            header, data = recordio.unpack(self.reader.read_at(at))
            flag = {1: 0, 3: 1, 4: -1}[self.data_shape[0]]
            pixels = codec.decode(data, flag, where="its image")
            if pixels.shape[2] != self.data_shape[0]:
                raise FormatError(f"its image has {pixels.shape[2]} channels, data_shape is {self.data_shape}")
        except FormatError as error:
            raise FormatError(f"{self.reader.uri}, record {number} at offset {at}: {error}") from None
        return header, pixels

    def _sample(self, task: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        epoch, number = task
        header, pixels = self._decoded(number)
        seed = self.given["seed_aug"]
        dice = np.random.default_rng([int(self.given["seed"] if seed is None else seed), epoch, number])
        label = header.label if self.labels is None else self.labels[header.id]
        return self._finished(pixels, self._label(label, number, int(self.offsets[number])), dice)

    def _label(self, label: Any, number: int, at: int) -> np.ndarray:
        label = np.asarray(label, np.float32).reshape(-1)
        if label.size != self.label_width:
            raise FormatError(
                f"{self.reader.uri}, record {number} at offset {at}: it has {label.size} labels, label_width is "
                f"{self.label_width}"
            )
        return label.reshape(self.label_shape)

    def _finished(self, pixels: np.ndarray, label: np.ndarray, dice: Any) -> tuple[np.ndarray, np.ndarray]:
        pixels = self.augment(pixels, dice)
        if self.given["mirror"] or self.given["rand_mirror"] and dice.random() < 0.5:
            pixels = pixels[:, ::-1]
        return self._values(pixels.transpose(2, 0, 1), dice), label

    def _values(self, pixels: np.ndarray, dice: Any) -> np.ndarray:
        if self.dtype == np.uint8:
            return pixels
        if self.dtype == np.int8:
            out = self._scaled(pixels, dice)
            return np.clip(out, -128, 127).astype(np.int8)
        return self._scaled(pixels, dice).astype(self.dtype)

    def _scaled(self, pixels: np.ndarray, dice: Any) -> np.ndarray:
        given = self.given
        out = pixels.astype(np.float32) - self.mean
        contrast, light = given["max_random_contrast"], given["max_random_illumination"]
        if contrast or light:
            out = out * np.float32(1 + dice.uniform(-contrast, contrast)) + np.float32(dice.uniform(-light, light))
        return out / self.std * np.float32(given["scale"])


def _made(owner: str, args: Any, kwargs: dict[str, Any], dtype: Any, kind: Any = _Records, **more: Any) -> MXDataIter:
    given = take(kwargs, owner, **{**_READ, **_AUGMENT, **_VALUES, **more})
    if args or None in (given["path_imgrec"], given["data_shape"], given["batch_size"]):
        raise MXNetValueError(f"{owner} needs path_imgrec=, data_shape= and batch_size=, by their names")
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
      batch_size, round_batch: the last batch is filled from the beginning, and the next epoch goes on after that.
      shuffle, seed: a new order in each epoch; seed_aug is of what varies the pictures.
      part_index, num_parts: only this part of the records, of so many.
      preprocess_threads, prefetch_buffer: how many threads, and how many batches they are ahead.
      resize: the shorter side, first of all; rand_crop, random_resized_crop with min_ and max_random_area and
        _aspect_ratio, min_ and max_crop_size, pad and fill_value: which part is taken; otherwise the middle.
      rotate, max_rotate_angle, max_shear_ratio, min_ and max_random_scale: how it is moved.
      rand_mirror, mirror; brightness, contrast, saturation, pca_noise; max_random_contrast, max_random_illumination.
      mean_img (a file of `mx.nd.save`; where it is not there it is made of all pictures) or
        mean_r, mean_g, mean_b, mean_a; std_r ... std_a; scale:
        the result is (values - mean) / std * scale.
      inter_method: 0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos, 9 by size, 10 at random.

    Raises:
      FormatError: a damaged record or image; the message has file and offset.
    """
    return _made("ImageRecordIter", args, kwargs, np.float32)


def ImageRecordUInt8Iter(*args: Any, **kwargs: Any) -> MXDataIter:  # noqa: N802
    """`ImageRecordIter` with the values as they are, in uint8."""
    return _made("ImageRecordUInt8Iter", args, kwargs, np.uint8)


def ImageRecordInt8Iter(*args: Any, **kwargs: Any) -> MXDataIter:  # noqa: N802
    """`ImageRecordIter` in int8: what lies outside -128 ... 127 is cut off."""
    return _made("ImageRecordInt8Iter", args, kwargs, np.int8)


#: The first versions, which are the same here.
ImageRecordIter_v1 = ImageRecordIter
ImageRecordUInt8Iter_v1 = ImageRecordUInt8Iter


class _DetRecords(_Records):
    """Images with boxes: a label is a row of the image's channels, height and width, how many numbers follow, they, and
    `label_pad_value` up to the longest row of the file."""

    def __init__(self, owner: str, given: dict[str, Any], dtype: Any):
        super().__init__(owner, given, dtype)
        longest = max((self._raw(n)[0].size for n in range(len(self.offsets))), default=0)
        width = int(given["label_pad_width"])
        if 0 < width < longest:
            raise MXNetValueError(f"{owner}: label_pad_width {width} is less than {longest}, the longest label's width")
        self.label_shape = (4 + max(width, longest),)

    def _raw(self, number: int) -> tuple[np.ndarray, bytes]:
        at = int(self.offsets[number])
        try:
            header, data = recordio.unpack(self.reader.read_at(at))
        except FormatError as error:
            raise FormatError(f"{self.reader.uri}, record {number} at offset {at}: {error}") from None
        label = header.label if self.labels is None else self.labels[header.id]
        return np.asarray(label, np.float32).reshape(-1), data

    def _label(self, label: Any, number: int, at: int) -> np.ndarray:
        row = np.asarray(label, np.float32).reshape(-1)
        if row.size < 7 or row[0] < 2 or row[1] < 5 or (row.size - int(row[0])) % int(row[1]):
            raise FormatError(
                f"{self.reader.uri}, record {number} at offset {at}: a label is the width of its header, the width of "
                f"an object, the rest of the header, the objects; here are {row[:8].tolist()} ..."
            )
        return row

    def _finished(self, pixels: np.ndarray, label: np.ndarray, dice: Any) -> tuple[np.ndarray, np.ndarray]:
        channels, height, width = self.data_shape
        label = label.copy()
        if self.given["rand_mirror_prob"] and dice.random() < self.given["rand_mirror_prob"]:
            pixels = pixels[:, ::-1]
            boxes = label[int(label[0]) :].reshape(-1, int(label[1]))
            boxes[:, [1, 3]] = 1 - boxes[:, [3, 1]]
        pixels = _resized(pixels, width, height, int(self.given["inter_method"]), dice)
        row = np.full(self.label_shape, self.given["label_pad_value"], np.float32)
        row[:4] = channels, height, width, label.size
        row[4 : 4 + label.size] = label
        return self._values(pixels.transpose(2, 0, 1), dice), row


def ImageDetRecordIter(*args: Any, **kwargs: Any) -> MXDataIter:  # noqa: N802
    """Batches of the images of a record file with their boxes, resized to `data_shape` as a whole.

    A label is a row: channels, height and width of the image, how many numbers follow, the numbers of the record (the
    width of its header, the width of an object, the rest of the header, the objects), and `label_pad_value` up to the
    longest row.

    Args:
      label_pad_width, label_pad_value: the least width of a row without its first four numbers, and what fills it.
      rand_mirror_prob: how often image and boxes are mirrored. (mx.image.ImageDetIter has parts and borders too.)
      The others are those of `ImageRecordIter` that move nothing.

    Raises:
      FormatError: a damaged record, image or label; the message has file and offset.
    """
    return _made(
        "ImageDetRecordIter", args, kwargs, np.float32, _DetRecords,
        label_width=-1, label_pad_width=0, label_pad_value=-1.0, rand_mirror_prob=0.0,
    )  # fmt: skip
