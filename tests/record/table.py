"""Records what MXNet answers to the calls of `table_inputs.py`: ``python table.py CALLS [ROW ...]``, with Apache MXNet
2.0.0b1. With rows only theirs are recorded anew.

Writes ``../data/table_<front>.json``, a line a call: what it was given (`draws.py` draws the numbers again) and one of

- ``out``: its results, packed (`draws.pack`), or the Python value that came back; ``many`` where they are a list or
  tuple. Of a random operator shapes and dtypes alone;
- ``grads``: {which of the call's arrays: gradient} under the head gradients `draws.head`; ``no_grads``: MXNet's error;
- ``after``: {which: value} of arrays that the call changed;
- ``error``, ``text``: MXNet's refusal; ``crash``: it ended the process, or did not end.

Functions that MXNet does not have are left out. Each row runs in a process of its own, for MXNet may crash.
"""

import json
import os
import signal
import sys
import tempfile
import warnings

os.environ["MXNET_ENGINE_TYPE"] = "NaiveEngine"
os.environ["OMP_NUM_THREADS"] = "1"
import mxnet as mx
import numpy as onp
from codec import error
from draws import arguments, head, pack

warnings.simplefilter("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
FLOATS = ("float16", "float32", "float64", "bfloat16")


def found(name):
    f = mx
    for part in name.split("."):
        f = getattr(f, part, None)
    return f


def name_of(x):
    dtype = x.dtype
    return "bfloat16" if dtype == onp.dtype([("bfloat16", onp.uint16)]) else onp.dtype(dtype).name


def numbers(x):
    """An array's numbers; those of bfloat16 as float32."""
    if name_of(x) != "bfloat16":
        return pack(x.asnumpy())
    made = pack(
        mx.nd.amp_cast(
            x.as_nd_ndarray() if hasattr(x, "as_nd_ndarray") else x, dtype="float32"
        ).asnumpy()
    )
    return [*made, "bfloat16"] if len(made) == 4 else [*made, 1, "bfloat16"]


def run(case, recording=True):
    """Adds MXNet's answer to the call."""
    nd = case["fn"].startswith("nd")
    module = mx.nd if nd else mx.np

    def make(values, dtype):
        x = module.array(values, dtype=values.dtype)
        if dtype != "bfloat16":
            return x
        cast = mx.nd.amp_cast(x if nd else x.as_nd_ndarray(), dtype="bfloat16")
        return cast if nd else cast.as_np_ndarray()

    with mx.util.np_shape(True), mx.util.np_array(not nd):
        args, kw, arrays = arguments(case, make)
        before = [numbers(a) for a in arrays]
        wanted = (
            []
            if not recording or case.get("flat") or case.get("random")
            else [(i, a) for i, a in enumerate(arrays) if name_of(a) in FLOATS]
        )
        training = recording and case["what"] == "training"
        f = found(case["fn"])
        for _, a in wanted:
            a.attach_grad()
        if training or wanted:
            with mx.autograd.record(train_mode=training):
                out = f(*args, **kw)
        else:
            out = f(*args, **kw)
        if type(out).__name__ == "ADT":
            out = [out[k] for k in range(len(out))]
        outs = list(out) if isinstance(out, (tuple, list)) else [out]
        arrays_out = [isinstance(o, mx.nd.NDArray) for o in outs]
        if isinstance(out, (tuple, list)):
            case["many"] = True
        made = [numbers(o) if y else plain(o) for o, y in zip(outs, arrays_out, strict=True)]
        if case.get("random"):
            made = [m[:2] if y else None for m, y in zip(made, arrays_out, strict=True)]
        case["out"] = made
        changed = {str(i): numbers(a) for i, a in enumerate(arrays) if numbers(a) != before[i]}
        if changed:
            case["after"] = changed
        floats = [(k, o) for k, o in enumerate(outs) if arrays_out[k] and name_of(o) in FLOATS]
        if not (wanted and floats) or not any(o.size for _, o in floats):
            return
        try:
            heads = [
                make(
                    head(o.shape, "float32" if name_of(o) == "bfloat16" else name_of(o), k),
                    name_of(o),
                )
                for k, o in floats
            ]
            mx.autograd.backward([o for _, o in floats], heads, train_mode=training)
            case["grads"] = {str(i): numbers(a.grad) for i, a in wanted}
        except Exception as e:
            case["no_grads"] = error(e)["error"]


def plain(x):
    if isinstance(x, onp.generic):
        return x.item()
    if isinstance(x, onp.ndarray):
        return {"numpy": pack(x)}
    return (
        list(x)
        if isinstance(x, tuple)
        else x
        if isinstance(x, (int, float, bool, str, list, type(None)))
        else repr(type(x))
    )


def isolated(cases):
    """The cases with their answers, run in children; one that kills its child is a crash."""
    done = []
    while len(done) < len(cases):
        with tempfile.TemporaryFile("w+") as f:
            pid = os.fork()
            if pid == 0:
                try:
                    for case in cases[len(done) :]:
                        signal.alarm(20)
                        case = dict(case)
                        try:
                            try:
                                run(case)
                            except (
                                AttributeError
                            ) as e:  # so functions of NumPy say that they have no gradient
                                if "'format'" not in str(e):
                                    raise
                                case["no_grads"] = "ValueError"
                                run(case, recording=False)
                        except Exception as e:
                            for key in ("out", "many", "after", "grads"):
                                case.pop(key, None)
                            case.update(error(e))
                            case["text"] = case["text"][:90]
                        f.write(json.dumps(case) + "\n")
                        f.flush()
                finally:
                    os._exit(0)
            os.waitpid(pid, 0)
            f.seek(0)
            lines = f.read().split("\n")[:-1]
        done += [json.loads(x) for x in lines]
        if len(done) < len(cases):
            done.append({**cases[len(done)], "crash": True})
    return done


def main(path, *only):
    with open(path) as f:
        cases = [
            c for c in json.load(f) if found(c["fn"]) is not None and (not only or c["row"] in only)
        ]
    rows = {}
    for c in cases:
        rows.setdefault(c["row"], []).append(c)
    files = {}
    for _, some in sorted(rows.items()):
        for case in isolated(some):
            if case["what"] == "bfloat16" and "out" not in case:
                continue  # MXNet has it for a few operators
            if case.get("crash") and case["what"] in ("text", "keyword"):
                continue
            files.setdefault(case["fn"].split(".")[0], []).append(case)
    for front, some in files.items():
        out = os.path.join(HERE, "..", "data", f"table_{front}.json")
        if only:
            with open(out) as f:
                some += [c for c in json.load(f) if c["row"] not in only]
            some.sort(key=lambda c: c["row"])
        with open(out, "w") as f:
            f.write(
                "[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in some) + "\n]\n"
            )
        print(
            front,
            len(some),
            "calls",
            len({c["row"] for c in some}),
            "rows",
            os.path.getsize(out),
            "bytes",
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
