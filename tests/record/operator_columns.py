"""Records what MXNet says of operators: their registered names, what it writes into symbol files, shapes.

Three steps, for the calls are the samples of our table:

1. ``PYTHONPATH=../.. python operator_columns.py samples FILE`` with a Python that has mxjax;
2. ``python operator_columns.py names FILE1`` with a Python that has Apache MXNet 1.9.1;
3. ``python operator_columns.py record FILE FILE1`` with one that has Apache MXNet 2.0.0b1 (NumPy 1.23).

Writes ``../data/operator_columns.json``:

- ``names``: every operator that the registry has, with its aliases (``names_1``: 1.9.1's, where 2.0 has
  another or none);
- ``seen``: by row and function, the operator that the symbol of a recorded call has, where it is one alone;
- ``composed``: the functions that made several of at least one of the samples;
- ``scalars``: by row and function, the operators with a number on the right and on the left;
- ``amp``: the lists of mixed precision in float16;
- ``shapes``: which shapes follow from that of the first array: of the others, in order (null: none).
"""

import ctypes
import json
import os
import sys
import tempfile
import zlib

# Rows that functions written by hand call, with an example of these functions' arguments.
BY_HAND = {
    "where": ("np.where", [[True, False], [1.0, 2.0], [3.0, 4.0]], {}),
    "full": ("np.full", [(2, 3), 7], {}),
    "einsum": ("np.einsum", ["ij,jk->ik", [[1.0]], [[2.0]]], {}),
    "random_choice": ("np.random.choice", [5, (2,)], {}),
    "random_multinomial": ("np.random.multinomial", [5, (0.5, 0.5)], {}),
    "linalg_lstsq": ("np.linalg.lstsq", [[[1.0], [2.0]], [1.0, 2.0]], {"rcond": "warn"}),
}

# Shapes of the first array and attributes of which the table has no sample.
SHAPES = [
    ("FullyConnected", (4, 2, 3), {"num_hidden": 5}),
    ("FullyConnected", (4, 3), {"num_hidden": 5, "no_bias": True, "flatten": False}),
    ("Convolution", (2, 6, 9), {"kernel": (3,), "num_filter": 4, "num_group": 2}),
    ("Convolution", (2, 3, 5, 6, 7), {"kernel": (1, 2, 3), "num_filter": 4, "layout": "NCDHW"}),
    ("Convolution", (2, 5, 6, 3), {"kernel": (1, 2), "num_filter": 4, "layout": "NHWC"}),
    (
        "Deconvolution",
        (2, 6, 9),
        {"kernel": (3,), "num_filter": 4, "num_group": 2, "no_bias": False},
    ),
    ("Deconvolution", (2, 3, 5, 6, 7), {"kernel": (1, 2, 3), "num_filter": 4}),
    ("BatchNorm", (2, 3, 4, 5), {"axis": -1}),
    ("BatchNorm", (2, 3, 4, 5), {"axis": 3, "output_mean_var": True}),
    ("_contrib_BatchNormWithReLU", (2, 3, 4, 5), {"axis": 2}),
    ("_contrib_SyncBatchNorm", (2, 3, 4, 5), {"key": "a"}),
    ("LayerNorm", (2, 3, 4, 5), {"axis": 1}),
    ("LayerNorm", (2, 3, 4, 5), {}),
    ("GroupNorm", (2, 6, 4), {"num_groups": 3}),
    ("InstanceNorm", (2, 6, 4, 5), {}),
    ("Embedding", (7,), {"input_dim": 10, "output_dim": 2}),
    ("LeakyReLU", (2, 6), {"act_type": "prelu"}),
    ("LeakyReLU", (5,), {"act_type": "prelu"}),
    (
        "RNN",
        (4, 2, 5),
        {"mode": "rnn_relu", "state_size": 3, "num_layers": 2, "bidirectional": True},
    ),
    ("RNN", (4, 2, 5), {"mode": "gru", "state_size": 3, "num_layers": 3, "state_outputs": True}),
    (
        "RNN",
        (4, 2, 5),
        {
            "mode": "lstm",
            "state_size": 3,
            "num_layers": 2,
            "bidirectional": True,
            "projection_size": 2,
        },
    ),
    ("SoftmaxOutput", (2, 3, 4, 5), {}),
    ("SoftmaxOutput", (2, 3, 4, 5), {"multi_output": True}),
    ("SoftmaxOutput", (2, 3, 4, 5), {"preserve_shape": True}),
    ("LinearRegressionOutput", (4, 1), {}),
    ("LogisticRegressionOutput", (4, 2, 1), {}),
    ("MAERegressionOutput", (4,), {}),
    ("SVMOutput", (4, 3, 2), {}),
    ("softmax", (2, 3, 4), {"use_length": True, "axis": 1}),
    ("pick", (2, 3, 4), {"axis": 1}),
    ("elemwise_add", (2, 3, 4), {}),
    ("SequenceMask", (2, 3, 4), {"use_sequence_length": True}),
    ("_slice_assign", (6, 5), {"begin": (4, None), "end": (0, 3), "step": (-2, 1)}),
]


# ------------------------------------------------------------------------------- 1: the samples


def encode(a, rng):
    if hasattr(a, "draw"):
        v = a.draw(rng)
        return {"array": v.ravel().tolist(), "shape": list(v.shape), "dtype": str(v.dtype)}
    if isinstance(a, (list, tuple)):
        return {"tuple": [encode(x, rng) for x in a]}
    return a if a is None or isinstance(a, (int, float, str)) else str(a)


def samples():
    import numpy as onp

    from mxjax.ops import TABLE

    rows = []
    for op in TABLE.values():
        rng = onp.random.RandomState(zlib.crc32(op.name.encode()) & 0x7FFFFFFF)
        cases = [
            {
                "args": [encode(a, rng) for a in c.args],
                "attrs": {k: encode(v, rng) for k, v in c.attrs.items()},
            }
            for c in op.tests.samples or ()
        ]
        rows.append(
            {
                "name": op.name,
                "names": op.names.fronts,
                "variadic": op.variadic,
                "cases": cases,
                "params": op.array_params,
                "numbers": op.names.internal_scalar is not None,
                "internal": op.names.internal,
            }
        )
    return rows


# ----------------------------------------------------------------------------------- 2: the names


def names():
    """{operator: its aliases}, without those that only gradients use."""
    import mxnet as mx

    lib, check = mx.base._LIB, mx.base.check_call
    size, listed = ctypes.c_uint(), ctypes.POINTER(ctypes.c_char_p)()
    check(lib.MXListAllOpNames(ctypes.byref(size), ctypes.byref(listed)))
    found = {}
    for k in range(size.value):
        handle, primary = ctypes.c_void_p(), ctypes.c_char_p()
        check(lib.NNGetOpHandle(listed[k], ctypes.byref(handle)))
        check(lib.MXSymbolGetAtomicSymbolName(handle, ctypes.byref(primary)))
        aliases = found.setdefault(primary.value.decode(), [])
        if listed[k] != primary.value:
            aliases.append(listed[k].decode())
    return {
        name: sorted(a)
        for name, a in sorted(found.items())
        if not name.startswith("_backward_") or name == "_backward_gather_nd"
    }


# ------------------------------------------------------------------------------ 3: what MXNet writes


class Writer:
    """Calls functions under deferred compute and reads the operators of the symbol."""

    def __init__(self, mx):
        self.mx = mx

    def find(self, path):
        found = self.mx
        for part in path.split("."):
            found = getattr(found, part)
        return found

    def decode(self, a, legacy):
        import numpy as onp

        if not isinstance(a, dict):
            return a
        if "tuple" in a:
            return tuple(self.decode(x, legacy) for x in a["tuple"])
        value = onp.array(a["array"], dtype=a["dtype"]).reshape(a["shape"])
        module = self.mx.nd if legacy else self.mx.np
        return module.array(value, dtype=value.dtype)

    def flat(self, out):
        if type(out).__name__ == "ADT":
            out = [out[k] for k in range(len(out))]
        return [x for o in out for x in self.flat(o)] if isinstance(out, (list, tuple)) else [out]

    def operators(self, fn, args, kwargs, legacy):
        """The operators of one call's symbol; none where the result is not MXNet's."""
        mx, dc = self.mx, self.mx._deferred_compute
        arrays = [a for a in self.flat([*args, *kwargs.values()]) if isinstance(a, mx.nd.NDArray)]
        for k, a in enumerate(arrays):
            variable = mx.sym.var(f"in{k}")
            variable = (
                variable if legacy else variable.as_np_ndarray()
            )  # held: set_variable does not
            dc.set_variable(a, variable)
        with dc.context():
            outs = self.flat(fn(*args, **kwargs))
        if not all(isinstance(o, mx.nd.NDArray) for o in outs):
            return []
        symbol = dc.get_symbol(outs, sym_cls=mx.sym.Symbol if legacy else mx.sym.numpy._Symbol)
        return [n["op"] for n in json.loads(symbol.tojson())["nodes"] if n["op"] != "null"]

    def forms(self, row, case, legacy):
        """The ways in which a sample may be given to MXNet's function."""
        args = [self.decode(a, legacy) for a in case["args"]]
        attrs = {k: self.decode(v, legacy) for k, v in case["attrs"].items()}
        if row["variadic"]:
            forms = [((args,), attrs), (tuple(args), attrs)]
            yield from reversed(forms) if legacy else forms
            return
        yield tuple(args), attrs
        given = {k: v for k, v in zip(row["params"], args) if v is not None}  # noqa: B905 (Python 3.9)
        yield (), {**given, **attrs}

    def sample(self, row, path, case):
        """The operators of a sample's call: those of the first form that MXNet takes."""
        legacy = path.startswith("nd")
        fn = self.find(path)
        for args, attrs in self.forms(row, case, legacy):
            try:
                return self.operators(fn, args, attrs, legacy)
            except Exception:  # noqa: S112 - MXNet takes it in another form, or not at all
                continue
        return []

    def beside_numbers(self, row, path):
        legacy = path.startswith("nd")
        fn, found = self.find(path), []
        for turned in (False, True):
            x = self.decode(row["cases"][0]["args"][0], legacy)
            try:
                found += self.operators(fn, (2, x) if turned else (x, 2), {}, legacy)
            except Exception:
                return None
        return found if len(found) == 2 else None

    def by_hand(self, path, args, kwargs):
        arrays = [self.mx.np.array(a) if isinstance(a, list) else a for a in args]
        return self.operators(self.find(path), arrays, kwargs, legacy=False)

    def shapes(self, operator, shape, attrs):
        """The shapes that follow from the first array's, or None where MXNet asks for more."""
        mx = self.mx
        for module, prefix in ((mx.sym, ""), (mx.sym._internal, ""), (mx.sym.contrib, "_contrib_")):
            fn = operator.startswith(prefix) and getattr(module, operator[len(prefix) :], None)
            if fn:
                break
        else:
            return None
        try:
            symbol = fn(mx.sym.var("first"), name="op", **attrs)
            arguments, _, states = symbol.infer_shape_partial(first=shape)
        except Exception:
            return None
        return [list(s) if s and all(s) else None for s in (*arguments[1:], *states)]


def isolated(call):
    """``call()`` in a forked child, because some calls crash MXNet itself."""
    with tempfile.TemporaryFile("w+") as out:
        pid = os.fork()
        if pid == 0:
            try:
                json.dump(call(), out)
                out.flush()
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        out.seek(0)
        text = out.read()
    return json.loads(text) if text else None


def record(rows, names_1):
    import mxnet as mx
    from codec import save
    from mxnet.amp.lists import symbol_fp16 as lists

    writer = Writer(mx)
    seen, composed, scalars = {}, [], {}

    def row_of(row, path):
        (mx.npx.reset_np if path.startswith("nd") else mx.npx.set_np)()
        made = [
            isolated(lambda case=case: writer.sample(row, path, case)) or []
            for case in row["cases"]
        ]
        numbers = isolated(lambda: writer.beside_numbers(row, path)) if row["numbers"] else None
        return made, numbers

    for row in rows:
        for front, functions in row["names"].items():
            for function in functions:
                path = f"{front}.{function}"
                try:
                    writer.find(path)
                except AttributeError:
                    continue
                made, numbers = row_of(row, path)
                if any(len(m) > 1 for m in made):
                    composed.append(path)
                alone = sorted({m[0] for m in made if len(m) == 1})
                if alone and path not in composed:
                    seen.setdefault(row["name"], {})[path] = alone
                if numbers:
                    scalars.setdefault(row["name"], {})[path] = numbers
    mx.npx.set_np()
    for name, (path, args, kwargs) in BY_HAND.items():
        seen[name] = {path: writer.by_hand(path, args, kwargs)}
    mx.npx.reset_np()
    calls = [
        (row["internal"], c["args"][0]["shape"], {k: as_tuple(v) for k, v in c["attrs"].items()})
        for row in rows
        if len(row["params"]) > 1 and row["internal"]
        for c in row["cases"]
        if c["args"] and isinstance(c["args"][0], dict) and not row["internal"].startswith("_np")
    ]
    shapes = []
    for operator, shape, attrs in [*calls, *SHAPES]:
        found = None if 0 in shape else writer.shapes(operator, tuple(shape), attrs)
        case = {"operator": operator, "shape": list(shape), "attrs": attrs, "found": found}
        if found and case not in shapes:
            shapes.append(case)
    here = names()
    save(
        "operator_columns.json",
        {
            "names": here,
            "names_1": {k: v for k, v in names_1.items() if k not in here or v != here[k]},
            "seen": seen,
            "composed": composed,
            "scalars": scalars,
            "amp": {
                "low": lists.FP16_FUNCS,
                "full": lists.FP32_FUNCS,
                "widest": lists.WIDEST_TYPE_CASTS,
            },
            "shapes": shapes,
        },
    )


def as_tuple(v):
    return tuple(as_tuple(x) for x in v["tuple"]) if isinstance(v, dict) else v


if __name__ == "__main__":
    step, path, *more = sys.argv[1:]
    if step == "record":
        with open(path) as f, open(more[0]) as g:
            record(json.load(f), json.load(g))
    else:
        with open(path, "w") as f:
            json.dump(samples() if step == "samples" else names(), f)
