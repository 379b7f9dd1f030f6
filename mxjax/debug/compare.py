"""Finds the first operator in which two dumps differ."""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..errors import MXNetFileNotFoundError, MXNetValueError

_STEP = re.compile(r"step(\d{6})")
#: What one array of a dump may take: a file that says more is not read.
LARGEST = 4 << 30


class Entry(NamedTuple):
    """One array of a dump: step, place, array and how often that came before, and what is known of it."""

    step: int
    place: str
    array: str
    nth: int
    order: int
    data: np.ndarray | Mapping[str, Any]

    @property
    def key(self) -> tuple[int, str, str, int]:
        return self.step, self.place, self.array, self.nth


class Difference(NamedTuple):
    """An array that is not the same in both dumps.

    `absolute` is the largest error of one number (of the statistics, where the dumps hold those), `where` its
    index, `relative` that error beside the largest number of the second dump's array, and `words` says what differs
    where numbers cannot be compared.
    """

    step: int
    place: str
    array: str
    absolute: float
    relative: float
    where: tuple[int, ...]
    words: str

    def __str__(self) -> str:
        sizes = self.words or (
            f"absolute error {self.absolute:.6g}, relative {self.relative:.6g}"
            + (f", largest at {self.where}" if self.where else "")
        )
        return f"step {self.step}: {self.place} [{self.array}]: {sizes}"


def load(folder: str | os.PathLike[str]) -> list[Entry]:
    """The arrays (or their statistics) of a dump in the order in which they were computed.

    Raises:
      MXNetFileNotFoundError: there is no dump in the folder.
      MXNetValueError: a file in it is not what a dump holds.
    """
    folder = os.fspath(folder)
    entries: list[Entry] = []
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    for name in names:
        match = _STEP.fullmatch(name)
        if match is not None:
            entries += _step(os.path.join(folder, name), int(match[1]))
    if not entries:
        raise MXNetFileNotFoundError(
            f"{folder!r} holds no dump: a folder with step000000, ... is expected, as debug.dump writes it"
        )
    return entries


def _step(folder: str, step: int) -> Iterator[Entry]:
    found: list[tuple[int, str, str, Any]] = []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if name.endswith(".npz"):
            found += _arrays(path)
        elif name == "statistics.jsonl":
            found += _statistics(path)
    seen: dict[tuple[str, str], int] = {}
    for order, place, array, data in sorted(found, key=lambda item: item[0]):
        count = seen.get((place, array), 0)
        seen[place, array] = count + 1
        yield Entry(step, place, array, count, order, data)


def _arrays(path: str) -> list[tuple[int, str, str, Any]]:
    if os.path.getsize(path) > LARGEST:
        raise MXNetValueError(f"{path} is larger than {LARGEST} bytes")
    try:
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ValueError("one array alone")
            order, place = int(file["_order"]), str(file["_place"])
            return [
                (order, place, name, file[name]) for name in file.files if not name.startswith("_")
            ]
    except (KeyError, OSError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise MXNetValueError(f"{path} is no file of a dump: {error}") from None


def _statistics(path: str) -> list[tuple[int, str, str, Any]]:
    rows = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line)
                rows.append(
                    (int(row.pop("order")), str(row.pop("place")), str(row.pop("array")), row)
                )
            except (KeyError, ValueError, TypeError, AttributeError) as error:
                raise MXNetValueError(f"{path}:{number} is no line of a dump: {error}") from None
    return rows


def compare(
    a: str | os.PathLike[str], b: str | os.PathLike[str], *, rtol: float = 1e-5, atol: float = 1e-6
) -> tuple[list[Difference], int, list[str]]:
    """The differences of two dumps in the order of the first one, the number of arrays that both have, and
    the places that only one of them has.

    Numbers are the same when they differ by at most `atol + rtol * |b|`; NaN is the same as NaN.

    Raises:
      MXNetFileNotFoundError: one of the folders holds no dump.
    """
    first = load(a)
    second = {entry.key: entry for entry in load(b)}
    differences, common = [], 0
    alone = {entry.place for entry in first} ^ {entry.place for entry in second.values()}
    for entry in first:
        other = second.get(entry.key)
        if other is not None:
            common += 1
            found = _difference(entry, other, rtol, atol)
            if found is not None:
                differences.append(found)
    return differences, common, sorted(alone)


def _difference(a: Entry, b: Entry, rtol: float, atol: float) -> Difference | None:
    at = (a.step, a.place, a.array)
    if isinstance(a.data, np.ndarray) and isinstance(b.data, np.ndarray):
        if a.data.shape != b.data.shape:
            return Difference(*at, np.inf, np.inf, (), f"shapes {a.data.shape} and {b.data.shape}")
        return _numbers(at, a.data, b.data, rtol, atol)
    if isinstance(a.data, np.ndarray) or isinstance(b.data, np.ndarray):
        return Difference(*at, np.inf, np.inf, (), "one dump holds numbers, the other statistics")
    return _summaries(at, a.data, b.data, rtol, atol)


def _numbers(
    at: tuple[int, str, str], a: np.ndarray, b: np.ndarray, rtol: float, atol: float
) -> Difference | None:
    wide = np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
    x, y = a.astype(wide), b.astype(wide)
    if np.allclose(x, y, rtol=rtol, atol=atol, equal_nan=True):
        return None
    with np.errstate(invalid="ignore"):
        error = np.abs(x - y)
        odd = np.isnan(x) != np.isnan(y)
        error = np.where(odd, np.inf, np.where(np.isnan(error), 0, error))
    largest = float(error.max())
    # Beside the array's scale: beside a number near 0, every error is large.
    scale = float(np.abs(y[np.isfinite(y)]).max(initial=0))
    worst = np.unravel_index(int(np.argmax(error)), error.shape)
    return Difference(
        *at, largest, largest / scale if scale else np.inf, tuple(int(i) for i in worst), ""
    )


def _summaries(
    at: tuple[int, str, str], a: Mapping[str, Any], b: Mapping[str, Any], rtol: float, atol: float
) -> Difference | None:
    for name in ("shape", "nan", "inf"):
        if a.get(name) != b.get(name):
            return Difference(*at, np.inf, np.inf, (), f"{name} {a.get(name)} and {b.get(name)}")
    size = max(1, int(np.prod(a.get("shape", ()))))
    worst = None
    for name in ("min", "max", "mean", "norm"):
        x, y = a.get(name), b.get(name)
        if x is None or y is None:
            continue
        error = abs(x - y)
        scale = atol * (size**0.5 if name == "norm" else 1)
        if error > scale + rtol * abs(y) and (worst is None or error > worst.absolute):
            relative = error / abs(y) if y else np.inf
            worst = Difference(*at, error, relative, (), "")
    return worst
