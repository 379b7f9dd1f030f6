"""What a job tells of itself: how long it paused between two steps, and what it found; `jobs.py` reads the last line.

A pause is CPU time, which repeats on a busy machine, too; on a core of its own it is what the clock on the wall says.

A job calls `step()` after each batch, and `end(loss=...)` once. Weights that are drawn by `Drawn` and data that are
drawn by NumPy are the same in every framework, so that results can be compared.
"""

import io
import json
import os
import time

import mxnet as mx
import numpy

_STATE = {"last": time.process_time(), "pause": 0.0, "where": "", "steps": 0}


def step(what=""):
    """One step more is done; the longest time between two of them is the job's pause."""
    now = time.process_time()
    if now - _STATE["last"] > _STATE["pause"]:
        _STATE["pause"] = now - _STATE["last"]
        _STATE["where"] = what or f"step {_STATE['steps']}"
    _STATE["steps"] += 1
    _STATE["last"] = now


def end(**found):
    """The last line of a job: its figures, and what it found."""
    mx.nd.waitall()
    step("end")
    engine = mx.engine.stats() if hasattr(mx.engine, "stats") else {}
    figures = {
        "cpu": round(time.process_time(), 3),
        "pause": round(_STATE["pause"], 3),
        "where": _STATE["where"],
        "steps": _STATE["steps"],
        "programs": engine.get("compiled", 0),
        "compiling": round(sum(v for k, v in engine.items() if k.startswith("seconds_")), 3),
        "found": {name: float(value) for name, value in found.items()},
    }
    print(json.dumps(figures), flush=True)


class Drawn(mx.init.Initializer):
    """Uniform weights, drawn by NumPy; seed and width go by the size alone: recurrent weights may come flat."""

    def __init__(self, gain=1.0):
        super().__init__(gain=gain)
        self.gain = gain

    def _init_weight(self, name, arr):
        drawn = (
            numpy.random.RandomState(arr.size).uniform(-1, 1, arr.shape)
            * self.gain
            * (3 / arr.size**0.5) ** 0.5
        )
        arr[:] = drawn.astype("float32")


def digits(count, side=28, seed=0):
    """Pictures of ten kinds, each a pattern of its own, with noise, float32 (count, 1, side, side); and labels."""
    rng = numpy.random.RandomState(seed)
    patterns = numpy.random.RandomState(7).rand(10, side, side) > 0.7
    labels = rng.randint(0, 10, count)
    pictures = patterns[labels] * 0.8 + rng.rand(count, side, side) * 0.4
    return pictures.astype("float32")[:, None], labels.astype("float32")


def jpeg(picture):
    """The bytes of a picture (height, width, 3) as JPEG, by Pillow: MXNet itself writes none without OpenCV."""
    from PIL import Image

    written = io.BytesIO()
    Image.fromarray(picture).save(written, "JPEG", quality=95)
    return written.getvalue()


def photos(folder, count, kinds=("ant", "bee", "cat"), seed=0):
    """A folder of JPEG pictures, a folder for each kind."""
    rng = numpy.random.RandomState(seed)
    for c, kind in enumerate(kinds):
        os.makedirs(os.path.join(folder, kind))
        for i in range(count):
            picture = rng.randint(0, 80, (68 + i % 5, 76, 3)).astype("uint8")
            picture[:, :, c] += 120
            with open(os.path.join(folder, kind, f"{i:03d}.jpg"), "wb") as f:
                f.write(jpeg(picture))
