"""Writes the calls that `table.py` records: every row of the table on its samples and on variants of them.

Run with mxjax: ``python table_inputs.py CALLS``. The variants are made by rule, so that a new row has them, too: other
dtypes, no element, one element, no axis, NaN and infinities, broadcasting, negative axes, keepdims, training, and calls
that are wrong.
"""

import json
import sys
import zlib

import numpy as np
from codec import nested

from mxjax.ops import TABLE
from mxjax.ops.samples import Array, Body, Given, Spd

DTYPES = ("float16", "float64", "int8", "int32", "int64", "uint8", "bool", "bfloat16")
SEQUENCES = ("arrays", "seq", "tup")


def spec(a):
    """An argument of a sample as JSON."""
    if isinstance(a, Array):
        return {"shape": list(a.shape), "dtype": a.dtype, "low": a.low, "high": a.high}
    if isinstance(a, Given):
        x = np.asarray(a.data, a.dtype)
        return {"shape": list(x.shape), "dtype": x.dtype.name, "given": x.ravel().tolist()}
    if isinstance(a, Spd):
        return {"shape": list(a.shape), "dtype": a.dtype, "spd": True}
    return encode(a)


def encode(x):
    found = nested(x, encode)
    if found is not None:
        return found
    if isinstance(x, Body):
        raise TypeError("a graph")
    if isinstance(x, np.dtype):
        return x.name
    if isinstance(x, np.generic):
        return x.item()
    if isinstance(x, type):
        return np.dtype(x).name
    json.dumps(x)
    return x


def is_array(s):
    return isinstance(s, dict) and "dtype" in s


def is_float(s):
    return is_array(s) and s["dtype"] == "float32"


def mapped(args, f):
    """The arguments with their arrays changed; None where nothing changes."""
    made = [f(dict(a)) if is_array(a) else a for a in args]
    return made if made != args else None


def resized(args, old, new):
    """Every axis of length `old` of the random arrays gets another length."""
    return mapped(
        args,
        lambda a: (
            a if "given" in a else {**a, "shape": [new if n == old else n for n in a["shape"]]}
        ),
    )


def variants(op, args, kw):
    """(what, arguments, keywords) made of one sample."""
    arrays = [a for a in args if is_array(a)]
    floats = [a for a in arrays if is_float(a)]
    for dtype in DTYPES:
        yield (
            dtype,
            mapped(
                args,
                lambda a, d=dtype: (
                    {**a, "dtype": d}
                    if is_float(a) and ("given" not in a or d.startswith("float"))
                    else a
                ),
            ),
            kw,
        )
    if floats:
        first = next(k for k, a in enumerate(args) if is_float(a))
        if "given" not in args[first]:
            yield (
                "special",
                [{**a, "special": True} if k == first else a for k, a in enumerate(args)],
                kw,
            )
    if arrays and arrays[0]["shape"]:
        shape = arrays[0]["shape"]
        if 0 not in shape:
            yield "empty", resized(args, shape[0], 0), kw
        yield (
            "one",
            mapped(args, lambda a: a if "given" in a else {**a, "shape": [1] * len(a["shape"])}),
            kw,
        )
        yield "scalar", mapped(args, lambda a: a if "given" in a else {**a, "shape": []}), kw
        if len(arrays) > 1 and len(arrays[1]["shape"]) == len(shape):
            yield (
                "broadcast",
                [
                    {**a, "shape": [1, *shape[1:]]} if a is arrays[0] and "given" not in a else a
                    for a in args
                ],
                kw,
            )
            other = [*shape[:-1], shape[-1] + 2]
            yield (
                "mismatch",
                [{**a, "shape": other} if a is arrays[0] and "given" not in a else a for a in args],
                kw,
            )
    axis = kw.get("axis", op.attr_defaults.get("axis"))
    if "axis" in op.attr_params and arrays:
        ndim = len(arrays[0]["shape"])
        if isinstance(axis, int) and not isinstance(axis, bool):
            yield "axis", args, {**kw, "axis": axis - ndim if axis >= 0 else axis + ndim}
        elif ndim:
            yield "axis", args, {**kw, "axis": -1}
        yield "far", args, {**kw, "axis": 7}
    if "keepdims" in op.attr_params:
        yield "keepdims", args, {**kw, "keepdims": True}
    if op.modal:
        yield "training", args, kw
    yield "keyword", args, {**kw, "bogus": 1}
    if arrays:
        yield "text", ["text", *args[1:]], kw


def called(op, front, args):
    """Positional arguments as the front end's function takes them."""
    if (
        op.variadic
        and (front.startswith("np") or op.name == "concatenate@nd")
        and op.array_params[-1] in SEQUENCES
    ):
        return [{"list": args}]
    return args


def calls_of(op):
    """The calls of one row, by the front ends that have it."""
    samples = []
    for c in op.tests.samples or ():
        try:
            samples.append(([spec(a) for a in c.args], {k: encode(v) for k, v in c.attrs.items()}))
        except TypeError:
            continue
    fronts = sorted(op.names.fronts, key=lambda f: (f.startswith("nd"), f))
    seen = set()
    for front in fronts:
        kind = "nd" if front.startswith("nd") else "np"
        again = kind in seen
        if again:
            continue
        names = op.names.fronts[front]
        for at, name in enumerate(names[:2]):
            whole = not seen and at == 0
            made = [
                (f"sample {k}", a, kw) for k, (a, kw) in enumerate(samples[: 6 if whole else 1])
            ]
            base = next(
                ((a, kw) for a, kw in samples if any(is_float(x) for x in a)),
                samples[0] if samples else None,
            )
            if base is not None:
                some = list(variants(op, *base))
                made += (
                    some
                    if whole
                    else [
                        v
                        for v in some
                        if v[0] in ("float16", "int32", "special", "empty", "scalar")
                    ]
                )
            for what, args, kw in made:
                if args is None:
                    continue
                yield entry(op, front, name, what, called(op, front, args), kw)
        seen.add(kind)
    if op.scalars:
        yield from beside_numbers(op, samples[0][0])


def beside_numbers(op, args):
    """Calls of the rows of an array and a number: on the right, and on the left."""
    front = next(iter(sorted(op.names.fronts)), None)
    if front is None:
        return
    name = op.names.fronts[front][-1 if front == "nd" else 0]
    x = args[0]
    for dtype in ("float32", *DTYPES[:-1]):
        given = {**x, "dtype": dtype}
        for number in (2, -3, 1.5, True) if dtype in ("float32", "int32") else (3, 0.5):
            for side, row in zip(("right", "left"), op.scalars, strict=True):
                pair = [given, number] if side == "right" else [number, given]
                yield entry(row, front, name, f"{dtype} {number} {side}", pair, {})
    for what, given in (
        ("special", {**x, "special": True}),
        ("empty", {**x, "shape": [0, 3]}),
        ("scalar", {**x, "shape": []}),
    ):
        for side, row in zip(("right", "left"), op.scalars, strict=True):
            yield entry(
                row,
                front,
                name,
                f"{what} {side}",
                [given, 2.0] if side == "right" else [2.0, given],
                {},
            )


def entry(op, front, name, what, args, kw):
    made = {"row": op.name, "fn": f"{front}.{name}", "what": what, "args": args, "kw": kw}
    made["seed"] = zlib.crc32(f"{op.name} {what}".encode()) & 0x7FFFFFFF
    if op.keyed or "empty" in name:  # of memory that nobody wrote only shape and dtype are known
        made["random"] = True
    if op.aux or op.effect or not op.differentiable:
        made["flat"] = True
    return made


def main(path):
    every = [c for _, op in sorted(TABLE.items()) for c in calls_of(op)]
    with open(path, "w") as f:
        json.dump(every, f)
    print(len(every), "calls of", len({c["row"] for c in every}), "rows")


if __name__ == "__main__":
    main(sys.argv[1])
