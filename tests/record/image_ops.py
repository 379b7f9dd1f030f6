"""Records what MXNet's image operators give for small images.

Run with a Python that has Apache MXNet 2.0.0b1 installed: ``python image_ops.py``.
Writes ``../data/image_ops.npz``: the inputs ``u8`` and ``f32``, and results named
``<input>|<operator>|<attributes as JSON>``. Random operators are recorded with a range of one value.
"""

import json
import os

import mxnet as mx
import numpy as onp

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "image_ops.npz")
CASES = [
    ("to_tensor", {}),
    *(
        ("resize", {"size": size, "keep_ratio": keep, "interp": interp})
        for interp in range(5)
        for size, keep in (((3, 4), False), ((14, 10), False), ((3, 12), False))
    ),
    ("resize", {"size": 3, "keep_ratio": True, "interp": 1}),
    ("resize", {"size": 3, "keep_ratio": False, "interp": 1}),
    ("crop", {"x": 1, "y": 2, "width": 3, "height": 2}),
    ("flip_left_right", {}),
    ("flip_top_bottom", {}),
    *(
        (f"random_{change}", {"min_factor": factor, "max_factor": factor})
        for change in ("brightness", "contrast", "saturation", "hue")
        for factor in (0.3, 1.2, 1.5)
    ),
    ("adjust_lighting", {"alpha": (0.1, 0.2, 0.3)}),
    *(
        (
            "random_crop",
            {"xrange": (x, x), "yrange": (y, y), "width": w, "height": h, "interp": 1},
        )
        for x, y in ((0.5, 0.5), (1.0, 0.0), (0.3, 0.7))
        for w, h in ((3, 4), (9, 9), (9, 4), (7, 5))
    ),
]

images = {"u8": onp.random.RandomState(0).randint(0, 256, (5, 7, 3)).astype("uint8")}
images["f32"] = images["u8"].astype("float32")
images["tensor"] = images["f32"].transpose(2, 0, 1) / onp.float32(255)
found = dict(images)


def record(image, operator, attributes):
    given = mx.np.array(images[image], dtype=images[image].dtype)
    out = getattr(mx.npx.image, operator)(given, **attributes).asnumpy()
    found[f"{image}|{operator}|{json.dumps(attributes)}"] = out


for case in CASES:
    for name in ("u8", "f32"):
        record(name, *case)
# Results halfway between two bytes are common where a picture keeps its width, and the last numbers of a row are
# summed otherwise than the others.
images["columns"] = onp.random.RandomState(1).randint(0, 256, (48, 35, 3)).astype("uint8")
images["grey"] = images["columns"][:, :, :1].copy()
found |= images
for name in ("columns", "grey"):
    for size in ((35, 32), (35, 36), (35, 72), (20, 32), (40, 40), (7, 64)):
        record(name, "resize", {"size": size, "keep_ratio": False, "interp": 2})
record("tensor", "normalize", {"mean": (0.1, 0.2, 0.3), "std": (1, 2, 3)})
record("tensor", "normalize", {"mean": 0.5, "std": 0.25})
onp.savez_compressed(OUT, **found)
print(len(found), "arrays")
