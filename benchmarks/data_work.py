"""Work of data pipelines, in a process of its own; prints one JSON object. `data.py` starts it.

    python benchmarks/data_work.py mxjax|mxnet FOLDER records|resized|read|loader|transforms
    python benchmarks/data_work.py mxjax FOLDER write       the file that the others read

The same lines run with mxjax and with real MXNet 2. Seconds of process CPU time, except for ``loader``: there it is
time on the wall, until the first batch of four workers.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import sys
import time
from typing import Any

import numpy

PICTURES, SIDE, CUT, BATCH = 512, 256, 224, 64
MEAN, STD = (123.68, 116.78, 103.94), (58.4, 57.1, 57.4)


def write(path: str, mx: Any) -> dict[str, Any]:
    """Pictures of coloured patches with noise, JPEG of 256 x 256."""
    from PIL import Image

    rng = numpy.random.default_rng(0)
    with mx.recordio.MXIndexedRecordIO(path + ".idx", path + ".rec", "w") as writer:
        for n in range(PICTURES):
            patches = Image.fromarray(rng.integers(0, 256, (16, 16, 3), numpy.uint8)).resize(
                (SIDE, SIDE), 3
            )
            noisy = numpy.asarray(patches).astype(int) + rng.normal(0, 8, (SIDE, SIDE, 1))
            buffer = io.BytesIO()
            Image.fromarray(numpy.clip(noisy, 0, 255).astype(numpy.uint8)).save(
                buffer, "JPEG", quality=90
            )
            writer.write_idx(n, mx.recordio.pack((0, n % 10, n, 0), buffer.getvalue()))
    return {"bytes": os.path.getsize(path + ".rec")}


def images(path: str, mx: Any, key: str, **more: Any) -> dict[str, float]:
    """CPU seconds of a picture: decoded, cut at random, mirrored, normalised, in batches; the best of three epochs."""
    it = mx.io.ImageRecordIter(
        path_imgrec=path + ".rec", data_shape=(3, CUT, CUT), batch_size=BATCH, rand_crop=True, rand_mirror=True,
        mean_r=MEAN[0], mean_g=MEAN[1], mean_b=MEAN[2], std_r=STD[0], std_g=STD[1], std_b=STD[2],
        preprocess_threads=1, prefetch_buffer=2, **more,
    )  # fmt: skip
    best = float("inf")
    for _ in range(3):
        begin, count = time.process_time(), 0
        for batch in it:
            batch.data[0].wait_to_read()
            count += BATCH - batch.pad
        best = min(best, (time.process_time() - begin) / count)
        it.reset()
    return {key: best}


def read(path: str, mx: Any) -> dict[str, float]:
    """CPU seconds of a megabyte read in order, and of a record read by its key."""
    size = os.path.getsize(path + ".rec") / 1e6
    ordered = random = float("inf")
    reader = mx.recordio.MXRecordIO(path + ".rec", "r")
    indexed = mx.recordio.MXIndexedRecordIO(path + ".idx", path + ".rec", "r")
    keys = [int(key) for key in numpy.random.RandomState(0).permutation(indexed.keys)]
    for _ in range(9):
        begin = time.process_time()
        while reader.read() is not None:
            pass
        ordered = min(ordered, (time.process_time() - begin) / size)
        reader.reset()
        begin = time.process_time()
        for key in keys:
            indexed.read_idx(key)
        random = min(random, (time.process_time() - begin) / len(keys))
    return {"sequential": ordered, "random": random}


def loader(path: str, mx: Any) -> dict[str, float]:
    """Wall seconds from a loader that has been made to its first batch."""
    gluon = mx.gluon
    dataset = gluon.data.vision.ImageRecordDataset(path + ".rec")
    made = gluon.data.DataLoader(dataset, batch_size=BATCH, num_workers=4)
    begin = time.perf_counter()
    first = next(iter(made))
    first[0].wait_to_read()
    return {"first_batch": time.perf_counter() - begin}


def transforms(mx: Any) -> dict[str, float]:
    """CPU seconds of a picture of 256 x 264 (and of 72 x 80, ``small``): each transform, and the usual six."""
    T = mx.gluon.data.vision.transforms  # noqa: N806
    mx.npx.set_np()
    each = {
        "ToTensor": T.ToTensor(), "Resize": T.Resize(224), "CenterCrop": T.CenterCrop(64),
        "RandomCrop": T.RandomCrop(64, pad=4),
        "RandomResizedCrop": T.RandomResizedCrop(64), "RandomFlipLeftRight": T.RandomFlipLeftRight(),
        "RandomFlipTopBottom": T.RandomFlipTopBottom(), "RandomBrightness": T.RandomBrightness(0.3),
        "RandomContrast": T.RandomContrast(0.3), "RandomSaturation": T.RandomSaturation(0.3),
        "RandomHue": T.RandomHue(0.3),
        "RandomColorJitter": T.RandomColorJitter(0.2, 0.2, 0.2), "RandomLighting": T.RandomLighting(0.1),
        "RandomGray": T.RandomGray(0.5), "Normalize": T.Normalize(list(MEAN), list(STD)),
        "Rotate": T.Rotate(30),
    }  # fmt: skip
    usual = [
        "RandomResizedCrop",
        "RandomFlipLeftRight",
        "RandomColorJitter",
        "RandomLighting",
        "ToTensor",
        "Normalize",
    ]
    composed = T.Compose([each[name] for name in usual])
    found = {}
    for size, suffix in ((256, ""), (72, " small")):
        pixels = numpy.random.RandomState(0).randint(0, 256, (size, size + 8, 3)).astype("uint8")
        picture = mx.np.array(pixels, dtype="uint8")
        tensor = mx.np.array(pixels.transpose(2, 0, 1) / 255, dtype="float32")
        for name, transform in {**each, "usual": composed}.items():
            given = tensor if name in ("Normalize", "Rotate") else picture
            best = float("inf")
            for _ in range(8):
                begin = time.process_time()
                for _ in range(10):
                    transform(given).wait_to_read()
                best = min(best, (time.process_time() - begin) / 10)
            found[f"transform {name}{suffix}"] = best
    return found


def main(framework: str, folder: str, work: str) -> None:
    mx = importlib.import_module(framework)
    path = os.path.join(folder, "data")
    found: dict[str, Any] = {"framework": f"{framework} {mx.__version__}"}
    if work == "write":
        found |= write(path, mx)
    elif work == "records":
        found |= images(path, mx, "records")
    elif work == "resized":
        found |= images(path, mx, "resized", resize=CUT)
    elif work == "transforms":
        found |= transforms(mx)
    elif work == "read":
        found |= read(path, mx)
    else:
        found |= loader(path, mx)
    if framework == "mxjax":
        codec = importlib.import_module("mxjax.files.codec")
        decodes = "simplejpeg and " if codec.simplejpeg() is not None else ""
        found["codec"] = decodes + ("OpenCV" if codec.opencv() is not None else "Pillow")
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
