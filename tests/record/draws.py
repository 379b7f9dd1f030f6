"""Inputs of recorded calls as a few words: the same numbers wherever they are drawn (`table.py` tells the form)."""

import base64

import numpy as np

SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0)


def draw(spec, rng):
    """The NumPy array that a spec stands for: ``given`` numbers, a positive definite matrix, or random ones."""
    dtype = spec["dtype"]
    store = "float32" if dtype == "bfloat16" else dtype
    if "given" in spec:
        return np.asarray(spec["given"], store).reshape(spec["shape"])
    shape = tuple(spec["shape"])
    if spec.get("spd"):
        m = rng.uniform(-1, 1, shape)
        return np.asarray(m @ m.swapaxes(-1, -2) + 2 * np.eye(shape[-1]), store)
    low, high = spec.get("low", -2.0), spec.get("high", 2.0)
    if dtype == "bool":
        return rng.uniform(size=shape) > 0.5
    if "float" not in dtype:
        low = max(int(np.ceil(low)), 0 if dtype.startswith("u") else -100)
        made = np.asarray(rng.randint(low, max(int(high), low + 1), shape), dtype)
        return made
    made = np.asarray(
        np.round(rng.uniform(low, high, shape), 3), store
    )  # some numbers at rounding's ties are well
    if dtype == "bfloat16":
        made = (made.view("uint32") & np.uint32(0xFFFF0000)).view("float32")
    if spec.get("special"):
        flat = made.reshape(-1)
        count = min(len(SPECIAL), flat.size)
        flat[:count] = SPECIAL[:count]
        made = flat.reshape(shape)
    return made


def arguments(case, make):
    """The arguments of a recorded call, positional and by keyword, and its arrays in order; `make(numbers, dtype)`."""
    rng = np.random.RandomState(case["seed"])
    arrays = []

    def live(x):
        if not isinstance(x, dict):
            return x
        if "dtype" in x:
            arrays.append(make(draw(x, rng), x["dtype"]))
            return arrays[-1]
        ((kind, value),) = x.items()
        if kind == "slice":
            return slice(*value)
        return (tuple if kind == "tuple" else list)(live(v) for v in value)

    args = [live(a) for a in case["args"]]
    return args, {k: live(v) for k, v in case["kw"].items()}, arrays


def pack(x, most=600):
    """``[dtype, shape, bytes in base64]`` of an array; of a large one every k-th number, k behind them."""
    x = np.asarray(x)
    flat = x.ravel()
    step = -(-flat.size // most)
    if step > 1:
        flat = flat[::step]
    name = x.dtype.name
    made = [name, list(x.shape), base64.b64encode(np.ascontiguousarray(flat).tobytes()).decode()]
    return [*made, step] if step > 1 else made


def unpack(packed):
    """``(dtype, shape, flat numbers, step)``."""
    dtype, shape, text, *step = packed
    return dtype, tuple(shape), np.frombuffer(base64.b64decode(text), dtype), step[0] if step else 1


def head(shape, dtype, number=0):
    """The head gradient of output `number`: cos(0), cos(1), ... shifted by the number."""
    n = int(np.prod(shape))
    return np.cos(np.arange(n) + number).reshape(shape).astype(dtype)
