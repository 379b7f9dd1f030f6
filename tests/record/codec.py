"""Arrays as JSON: ``{"dtype": ..., "shape": ..., "data": [flat values]}``, shared by the recorders.

Floats are written with the digits that give the same float32 (or float64) back; NaN and infinities
as
JSON's ``NaN``/``Infinity``, which Python's ``json`` reads.
"""

import json
import os

import numpy as np

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")


def array(x):
    """The JSON form of an array (of MXNet or NumPy)."""
    x = x.asnumpy() if hasattr(x, "asnumpy") else np.asarray(x)
    if x.dtype.kind == "f" and x.dtype.itemsize <= 4:
        data = [
            float(np.format_float_scientific(v, unique=True, trim="-"))
            for v in x.astype("float32").ravel()
        ]
    else:
        data = x.ravel().tolist()
    return {"dtype": x.dtype.name, "shape": list(x.shape), "data": data}


def nested(x, encode):
    """The JSON form of a tuple, list or slice, with items by ``encode``; None of anything else."""
    if isinstance(x, tuple):
        return {"tuple": [encode(v) for v in x]}
    if isinstance(x, list):
        return {"list": [encode(v) for v in x]}
    if isinstance(x, slice):
        return {"slice": [x.start, x.stop, x.step]}
    return None


def error(e):
    """``{"error": class name, "text": the line that says what is wrong}`` of an exception."""
    lines = [x.strip() for x in str(e).strip().splitlines() if x.strip()] or [""]
    text = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    return {"error": type(e).__name__, "text": text[:200]}


def save(name, data):
    """Writes ``data`` as ../data/``name``, one case per line."""
    path = os.path.join(DATA, name)
    with open(path, "w") as f:
        if isinstance(data, list):
            f.write("[\n" + ",\n".join(json.dumps(c) for c in data) + "\n]\n")
        else:
            f.write(
                "{\n"
                + ",\n".join(
                    json.dumps(k)
                    + ": "
                    + (
                        "[\n" + ",\n".join(json.dumps(c) for c in v) + "\n]"
                        if isinstance(v, list) and v and isinstance(v[0], dict)
                        else json.dumps(v)
                    )
                    for k, v in data.items()
                )
                + "\n}\n"
            )
    print(name, os.path.getsize(path), "bytes")
