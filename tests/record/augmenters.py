"""Records what MXNet's augmenters make of small images and boxes: `python augmenters.py`, with MXNet 2.0.0b1 or 1.9.1.

Writes ``../data/augmenters.npz``: results, what the given image and label hold afterwards where they have changed, and
the next random numbers, named ``<case>|<input>|<seed>|<what>``; and what augmenters say of themselves, as JSON. Both
versions give the same.
"""

import json
import os
import random
import warnings

import numpy as np

MEAN, STD = np.array([1.0, 2, 3]), np.array([4.0, 5, 6])
EIGVAL = np.array([55.46, 4.794, 1.148])
EIGVEC = np.array(
    [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]]
)
SEEDS = (1, 2)
#: Augmenters of images, by name, and the kinds of images that they are given.
OF_IMAGES = {
    "resize": ("ResizeAug", (5, 1), {}), "resize nearest": ("ResizeAug", (5, 0), {}), "cubic": ("ResizeAug", (12,), {}),
    "area": ("ResizeAug", (5, 3), {}), "Lanczos": ("ResizeAug", (12, 4), {}), "chosen": ("ResizeAug", (12, 9), {}),
    "drawn": ("ResizeAug", (12, 10), {}), "force": ("ForceResizeAug", ((5, 8), 1), {}),
    "force chosen": ("ForceResizeAug", ((5, 4), 9), {}), "part": ("RandomCropAug", ((4, 3),), {}),
    "large part": ("RandomCropAug", ((20, 9), 1), {}),
    "sized part": ("RandomSizedCropAug", ((4, 5), 0.08, (0.75, 1.33), 1), {}),
    "sized parts": ("RandomSizedCropAug", ((4, 5), (0.3, 0.5), (0.5, 2), 1), {}),
    "no such part": ("RandomSizedCropAug", ((4, 5), (1.5, 2.0), (5, 6), 1), {}),
    "middle": ("CenterCropAug", ((4, 5),), {}), "large middle": ("CenterCropAug", ((20, 5), 1), {}),
    "flip": ("HorizontalFlipAug", (0.5,), {}), "cast": ("CastAug", (), {}),
    "cast to half": ("CastAug", ("float16",), {}),
}  # fmt: skip
OF_FLOATS = {
    "brightness": ("BrightnessJitterAug", (0.5,), {}), "contrast": ("ContrastJitterAug", (0.5,), {}),
    "saturation": ("SaturationJitterAug", (0.5,), {}), "hue": ("HueJitterAug", (0.5,), {}),
    "color": ("ColorJitterAug", (0.3, 0.2, 0.1), {}), "less color": ("ColorJitterAug", (0.3, 0, 0.1), {}),
    "lighting": ("LightingAug", (0.2, EIGVAL, EIGVEC), {}), "gray": ("RandomGrayAug", (0.5,), {}),
    "normalize": ("ColorNormalizeAug", (MEAN, STD), {}), "mean": ("ColorNormalizeAug", (MEAN, None), {}),
    "deviation": ("ColorNormalizeAug", (None, STD[:1]), {}), "lists": ("ColorNormalizeAug", ([1, 2, 3], [4, 5, 6]), {}),
}  # fmt: skip
CHAINS = {
    "plain": {}, "usual": {"resize": 8, "rand_crop": True, "rand_mirror": True, "mean": True, "std": True},
    "all": {
        "rand_crop": True, "rand_resize": True, "brightness": 0.2, "contrast": 0.3, "saturation": 0.1, "hue": 0.1,
        "pca_noise": 0.1, "rand_gray": 0.5, "mean": MEAN, "std": STD, "rand_mirror": True,
    },
    "one mean": {"mean": np.array([5.0]), "contrast": 0.3}, "lights": {"pca_noise": 0.3, "rand_gray": 1},
}  # fmt: skip
OF_BOXES = {
    "flip": ("DetHorizontalFlipAug", (0.5,), {}), "crop": ("DetRandomCropAug", (), {}),
    "wide crop": ("DetRandomCropAug", (0.5, (0.5, 2), (0.1, 0.9), 0.1, 20), {}),
    "covering crop": ("DetRandomCropAug", (), {"min_object_covered": 0.9, "max_attempts": 100}),
    "fixed crop": ("DetRandomCropAug", (), {"aspect_ratio_range": 1.0, "area_range": 0.3}),
    "pad": ("DetRandomPadAug", (), {}), "wide pad": ("DetRandomPadAug", ((0.5, 2), (1.2, 4), 20, (1, 2, 3)), {}),
    "several crops": ("CreateMultiRandCropAugmenter", (), {"min_object_covered": [0.1, 0.5, 0.9], "skip_prob": 0.2}),
}  # fmt: skip
BOX_CHAINS = {
    "plain": {}, "usual": {"resize": 9, "rand_crop": 0.5, "rand_pad": 0.5, "rand_mirror": True, "mean": True},
    "all": {
        "rand_crop": 1, "rand_pad": 1, "rand_gray": 0.4, "brightness": 0.2, "contrast": 0.2, "saturation": 0.2,
        "hue": 0.1, "pca_noise": 0.1, "mean": MEAN, "std": STD,
    },
}  # fmt: skip


def images():
    numbers = np.random.RandomState(0)
    made = {"u8": numbers.randint(0, 256, (7, 10, 3)).astype("uint8")}
    made["f32"] = numbers.randint(0, 256, (7, 10, 3)).astype("float32")
    made["tall"] = numbers.randint(0, 256, (11, 6, 3)).astype("uint8")
    return made


def labels():
    two = np.array([[0, 0.1, 0.2, 0.5, 0.6], [1, 0.4, 0.3, 0.9, 0.95]])
    many = np.array([[k, 0.05 * k, 0.1 * k, 0.3 + 0.1 * k, 0.5 + 0.1 * k] for k in range(5)])
    return {
        "two": two,
        "f32": two.astype("float32"),
        "wide": np.array([[3, 0.05, 0.05, 0.4, 0.35, 7.0]]),
        "many": many,
    }


def cases(image):
    """(name, what makes the augmenter or the list of them, the kinds of images) of all that take images."""
    for name, (kind, args, more) in {**OF_IMAGES, **OF_FLOATS}.items():
        yield (
            name,
            lambda kind=kind, args=args, more=more: [getattr(image, kind)(*args, **more)],
            ("f32",) if name in OF_FLOATS else ("u8", "f32", "tall"),
        )
    for name, more in CHAINS.items():
        yield (
            f"chain {name}",
            lambda more=more: image.CreateAugmenter((3, 5, 6), inter_method=1, **more),
            ("u8", "f32"),
        )


def box_cases(image):
    for name, (kind, args, more) in OF_BOXES.items():
        yield (
            f"boxes {name}",
            lambda kind=kind, args=args, more=more: [getattr(image, kind)(*args, **more)],
        )
    for name, more in BOX_CHAINS.items():
        yield (
            f"boxes chain {name}",
            lambda more=more: image.CreateDetAugmenter((3, 5, 6), inter_method=1, **more),
        )


def record(mx):
    """What is found, by name; arrays are given and taken as of `mx.nd`."""
    found, said = {}, {}
    inputs, boxes = images(), labels()

    def run(name, augmenters, kind, *given):
        for seed in SEEDS:
            random.seed(seed)
            np.random.seed(seed)
            image = mx.nd.array(inputs[kind], dtype=inputs[kind].dtype)
            label = [each.copy() for each in given]
            made = image, *label
            for each in augmenters:
                made = each(*made) if label else (each(made[0]),)
            whats = {"image": made[0].asnumpy(), "next": [random.random(), np.random.rand()]}
            if label:
                whats["label"] = made[1]
            for what, now, before in (
                ("given", image.asnumpy(), inputs[kind]),
                ("given label", label, given),
            ):
                if not np.array_equal(now, before):
                    whats[what] = np.squeeze(now)
            found.update(
                {f"{name}|{seed}|{what}": np.asarray(value) for what, value in whats.items()}
            )

    for name, make, kinds in cases(mx.image):
        said[name] = [each.dumps() for each in make()]
        for kind in kinds:
            run(f"{name}|{kind}", make(), kind)
    for name, make in box_cases(mx.image):
        said[name] = [each.dumps() for each in make()]
        for kind, label in boxes.items():
            run(f"{name}|{kind}", make(), "u8", label)
    return found, said


def packed(found):
    """One index and one row of bytes: an archive of a thousand members is mostly their names."""
    index = [[name, str(value.dtype), value.shape] for name, value in found.items()]
    return {
        "index": np.array(json.dumps(index)),
        "numbers": np.frombuffer(b"".join(v.tobytes() for v in found.values()), "u1"),
    }


def unpacked(file):
    at, found = 0, {}
    numbers = file["numbers"].tobytes()
    for name, dtype, shape in json.loads(str(file["index"])):
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        found[name] = np.frombuffer(numbers[at : at + size], dtype).reshape(shape)
        at += size
    return found


if __name__ == "__main__":
    import mxnet

    warnings.simplefilter("ignore")
    if hasattr(mxnet, "npx"):
        mxnet.npx.reset_np()
    arrays, texts = record(mxnet)
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "augmenters.npz")
    np.savez_compressed(here, said=np.array(json.dumps(texts)), **packed(arrays))
    print(len(arrays))
