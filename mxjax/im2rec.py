"""`python -m mxjax.im2rec`: lists of the pictures in a folder, and record files of the pictures in a list.

    python -m mxjax.im2rec --list --recursive train photos      writes train.lst
    python -m mxjax.im2rec --resize 256 train photos            writes train.rec and train.idx

Arguments, lists and records are those of MXNet's program of this name. Threads read and encode; whatever their number,
the records have the order of the list. A file appears under its name when it is whole.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, BinaryIO

from . import recordio
from .errors import FormatError, MXNetError, MXNetValueError
from .files import atomic, codec
from .image import imresize

__all__ = [
    "image_encode",
    "list_image",
    "main",
    "make_list",
    "make_record",
    "parse_args",
    "read_list",
    "write_list",
]

#: A picture of a list: its number, its file below the root, its labels.
Entry = tuple[int, str, list[float]]

_SEED = 100  # MXNet's, so that lists have its order
_AHEAD = 8  # pictures that wait for their turn, for each thread


def list_image(root: str, recursive: bool, exts: Iterable[str]) -> Iterator[tuple[int, str, int]]:
    """The pictures of a folder in the order of their names: number, path below the folder, label.

    Args:
      recursive: folders within it too; each folder with pictures is a label, and what label that is, is printed.
        Without it every label is 0.
      exts: the endings of pictures, as `.jpg`.
    """
    endings = set(exts)
    labels: dict[str, int] = {}
    count = 0
    for path, folders, files in _walk(root, recursive):
        folders.sort()
        for name in sorted(files):
            full = os.path.join(path, name)
            if os.path.splitext(name)[1].lower() in endings and os.path.isfile(full):
                yield (
                    count,
                    os.path.relpath(full, root),
                    labels.setdefault(path, len(labels)) if recursive else 0,
                )
                count += 1
    for path, label in labels.items() if recursive else ():
        print(os.path.relpath(path, root), label)


def _walk(root: str, recursive: bool) -> Iterable[tuple[str, list[str], list[str]]]:
    return os.walk(root, followlinks=True) if recursive else [(root, [], os.listdir(root))]


def write_list(path_out: str, image_list: Iterable[Sequence[Any]]) -> None:
    """Write a list: lines of `number <tab> label <tab> ... path` for entries (number, path, label, ...)."""

    def write(file: BinaryIO) -> None:
        for number, path, *labels in image_list:
            line = "\t".join([f"{number:d}", *(f"{label:f}" for label in labels), path])
            file.write(f"{line}\n".encode(errors="surrogateescape"))

    atomic.write_whole(path_out, write)


def make_list(args: argparse.Namespace) -> list[str]:
    """Write the lists that the arguments ask for; the names of the files."""
    found = list(list_image(args.root, args.recursive, args.exts))
    if args.shuffle:
        random.Random(_SEED).shuffle(found)
    size = -(-len(found) // args.chunks)
    train, test = int(size * args.train_ratio), int(size * args.test_ratio)
    written = []
    for number in range(args.chunks):
        chunk = found[number * size : (number + 1) * size]
        parts = {"": chunk}
        if args.train_ratio != 1.0:
            parts = {"_train": chunk[test : test + train]}
            if args.test_ratio:
                parts["_test"] = chunk[:test]
            if args.train_ratio + args.test_ratio < 1.0:
                parts["_val"] = chunk[test + train :]
        for name, entries in parts.items():
            written.append(f"{args.prefix}{f'_{number}' * (args.chunks > 1)}{name}.lst")
            write_list(written[-1], entries)
    return written


def read_list(path_in: str) -> Iterator[Entry]:
    """The pictures of a list; a line that is none is told on the error output and left out."""
    for line in recordio.list_lines(path_in):
        if isinstance(line, FormatError):
            print(f"{line}; left out", file=sys.stderr)
        elif not line[1]:
            print(f"{path_in}: picture {line[0]} has no label; left out", file=sys.stderr)
        else:
            yield line[0], line[2], line[1]


def image_encode(args: argparse.Namespace, entry: Entry) -> bytes:
    """The record of a picture.

    Raises:
      OSError: its file cannot be read.
      FormatError: it holds no picture, or a damaged one.
      MXNetValueError: the picture cannot be written in this format.
    """
    number, name, labels = entry
    path = os.path.join(args.root, name)
    header = recordio.IRHeader(
        0, labels if args.pack_label and len(labels) > 1 else labels[0], number, 0
    )
    with open(path, "rb") as file:
        data = file.read()
    if args.pass_through:
        return recordio.pack(header, data)
    pixels = codec.decode(data, args.color, to_rgb=False, where=path)
    rows, columns = pixels.shape[:2]
    if args.center_crop:
        side = min(rows, columns)
        top, left = (rows - side) // 2, (columns - side) // 2
        pixels = pixels[top : top + side, left : left + side]
        rows = columns = side
    if args.resize:
        size = args.resize
        width, height = (
            (size, rows * size // columns) if rows > columns else (columns * size // rows, size)
        )
        pixels = imresize(pixels, width, height)
    return recordio.pack_img(header, pixels, quality=args.quality, img_fmt=args.encoding)


def _encoded(
    args: argparse.Namespace, entries: Iterable[Entry]
) -> Iterator[tuple[Entry, bytes | Exception]]:
    """Each picture with its record, or with why it has none; in the order of the list."""
    waiting: deque[tuple[Entry, Future[bytes]]] = deque()

    def first() -> tuple[Entry, bytes | Exception]:
        entry, task = waiting.popleft()
        error = task.exception()
        if error is None:
            return entry, task.result()
        if not isinstance(error, OSError | MXNetError):
            raise error
        return entry, error

    with ThreadPoolExecutor(args.num_thread) as pool:
        for entry in entries:
            waiting.append((entry, pool.submit(image_encode, args, entry)))
            if len(waiting) > _AHEAD * args.num_thread:
                yield first()
        while waiting:
            yield first()


def make_record(args: argparse.Namespace, path_list: str) -> tuple[int, int]:
    """Write the record file and the index of a list; how many pictures are in it, and how many could not be.

    Those are told on the error output. Nothing is left behind where writing fails.

    Raises:
      ValueError: none of the list's pictures could be read; record files that were there stay.
    """
    base = os.path.splitext(path_list)[0]
    index, records = (f"{base}{ending}.{os.getpid()}.part" for ending in (".idx", ".rec"))
    written = failed = 0
    try:
        with recordio.MXIndexedRecordIO(index, records, "w") as writer:
            for entry, record in _encoded(args, read_list(path_list)):
                if isinstance(record, Exception):
                    print(
                        f"{os.path.join(args.root, entry[1])} is left out: {record}",
                        file=sys.stderr,
                    )
                    failed += 1
                    continue
                writer.write_idx(entry[0], record)
                written += 1
                if written % 1000 == 0:
                    print(f"{written} pictures", flush=True)
        if failed and not written:
            raise MXNetValueError(
                f"none of the {failed} pictures of {path_list} could be read, so {base}.rec is not written: ROOT is "
                f"the folder that the list's names start from, here {args.root}"
            )
        atomic.put(records, base + ".rec")
        atomic.put(index, base + ".idx")
    finally:
        for part in (index, records):
            if os.path.exists(part):
                os.remove(part)
    return written, failed


def parse_args(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The arguments of the program, those that were not given with MXNet's defaults."""
    parser = argparse.ArgumentParser(
        "python -m mxjax.im2rec",
        description="Writes lists of the pictures in a folder, or record files of the pictures in such lists.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("prefix", help="what the names of lists and record files begin with")
    parser.add_argument("root", help="the folder of the pictures")
    lists = parser.add_argument_group("to write lists")
    lists.add_argument(
        "--list",
        action="store_true",
        help="write PREFIX.lst; without it, records of all PREFIX*.lst",
    )
    lists.add_argument(
        "--exts", nargs="+", default=[".jpeg", ".jpg", ".png"], help="the endings of pictures"
    )
    lists.add_argument(
        "--chunks", type=_positive, default=1, help="how many lists the pictures are divided into"
    )
    lists.add_argument(
        "--train-ratio", type=float, default=1.0, help="the share of the pictures in _train.lst"
    )
    lists.add_argument(
        "--test-ratio", type=float, default=0, help="the share of the pictures in _test.lst"
    )
    lists.add_argument(
        "--recursive", action="store_true", help="folders within ROOT too; each is a label"
    )
    lists.add_argument(
        "--no-shuffle", dest="shuffle", action="store_false", help="keep the order of the names"
    )
    records = parser.add_argument_group("to write records")
    records.add_argument(
        "--pass-through", action="store_true", help="keep the pictures' files as they are"
    )
    records.add_argument(
        "--resize", type=int, default=0, help="the shorter side of a picture; 0: as it is"
    )
    records.add_argument("--center-crop", action="store_true", help="keep the square in the middle")
    records.add_argument(
        "--quality", type=int, default=95, help="of a JPEG 1 to 100, of a PNG the effort 0 to 9"
    )
    records.add_argument(
        "--num-thread", type=_positive, default=1, help="threads that read and encode"
    )
    records.add_argument(
        "--color",
        type=int,
        default=1,
        choices=[-1, 0, 1],
        help="1 colours, 0 gray, -1 as it is, with transparency",
    )
    records.add_argument(
        "--encoding", default=".jpg", choices=[".jpg", ".png"], help="the format of the pictures"
    )
    records.add_argument(
        "--pack-label", action="store_true", help="all labels of the list, not the first one alone"
    )
    args = parser.parse_args(arguments)
    args.prefix, args.root = os.path.abspath(args.prefix), os.path.abspath(args.root)
    return args


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"at least 1 was expected, got {number}")
    return number


def _lists(prefix: str) -> list[str]:
    """The lists whose names begin so."""
    folder = prefix if os.path.isdir(prefix) else os.path.dirname(prefix)
    names = sorted(os.path.join(folder, name) for name in os.listdir(folder))
    found = [
        name
        for name in names
        if name.startswith(prefix) and name.endswith(".lst") and os.path.isfile(name)
    ]
    if not found:
        raise MXNetValueError(
            f"there is no list {prefix}*.lst; --list writes one of the pictures in a folder"
        )
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; the result is the exit status: 1 where nothing could be done."""
    args = parse_args(arguments)
    try:
        if not os.path.isdir(args.root):
            raise MXNetValueError(
                f"there is no folder {args.root}, in which the pictures were to be"
            )
        if args.list:
            make_list(args)
            return 0
        for path in _lists(args.prefix):
            print("Creating .rec file from", path)
            written, failed = make_record(args, path)
            print(f"{written} pictures written" + f", {failed} left out" * bool(failed))
    except (OSError, MXNetError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
