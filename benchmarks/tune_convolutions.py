"""The forms of a convolution, measured on this machine: `make tune-convolutions` writes what `choose` reads.

    python -m benchmarks.tune_convolutions [--cores N] [PART ...]   # parts: the names of SHAPES; without, all of them

Each shape's three passes (value, image's gradient, weight's gradient) are compiled as mxjax's programs are, in every
form that they may take, images with their channels last, weights in MXNet's order. The forms take turns, and each keeps
its least CPU time on one core, its least wall time on several (on a machine that does nothing else).
``mxjax/ops/lowering/measured.json`` gets the rows, in the entry of this machine's instructions, jaxlib and cores,
with the processor's name and the date; rows of other shapes stay. The table printed: where the
fastest form is another one than that which mxjax takes without this table.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import time
from typing import Any, NamedTuple

from benchmarks.run import pin, processor, say

ROUNDS = 6
LEAST = 0.012  # seconds that a form's turn lasts at least
#: What a processor must have for the rows to serve it, where this one has it.
FEATURES = ("avx2", "avx512f", "amx_tile")


class Case(NamedTuple):
    """A convolution of square images."""

    images: int
    channels: int
    size: int
    filters: int
    kernel: int
    stride: int = 1
    groups: int = 1
    pad: int | None = None
    dtype: str = "float32"

    @property
    def padding(self) -> int:
        return self.kernel // 2 if self.pad is None else self.pad


_RESNET = (
    (3, 224, 64, 7, 2), (64, 56, 64, 3, 1), (64, 56, 128, 3, 2), (64, 56, 128, 1, 2), (128, 28, 128, 3, 1),
    (128, 28, 256, 3, 2), (128, 28, 256, 1, 2), (256, 14, 256, 3, 1), (256, 14, 512, 3, 2), (256, 14, 512, 1, 2),
    (512, 7, 512, 3, 1),
)  # fmt: skip
SHAPES: dict[str, list[Case]] = {
    "resnet18": [Case(8, *of) for of in _RESNET],
    "resnet18_bfloat16": [Case(8, *of, dtype="bfloat16") for of in _RESNET],
    "resnet18_1": [Case(1, *of) for of in _RESNET],
    "mobilenet": [Case(8, *of) for of in (
        (3, 224, 32, 3, 2), (32, 112, 16, 1), (16, 112, 96, 1), (96, 56, 24, 1), (24, 56, 144, 1), (144, 28, 32, 1),
        (32, 28, 192, 1), (192, 14, 64, 1), (64, 14, 384, 1), (384, 14, 96, 1), (576, 7, 160, 1), (160, 7, 960, 1),
        (960, 7, 320, 1), (320, 7, 1280, 1),
    )],
    "unet": [Case(4, *of) for of in (
        (1, 128, 16, 3), (16, 128, 16, 3), (16, 64, 32, 3), (32, 64, 32, 3), (32, 32, 64, 3), (64, 32, 64, 3),
        (64, 64, 32, 3), (32, 128, 16, 3), (16, 128, 2, 1), (32, 64, 64, 2, 2, 1, 0), (16, 128, 32, 2, 2, 1, 0),
    )],
    "ssd": [Case(4, *of) for of in (
        (3, 128, 16, 3), (64, 16, 128, 3), (128, 16, 128, 3), (128, 8, 128, 3), (64, 16, 12, 3), (64, 16, 16, 3),
        (128, 8, 12, 3), (128, 8, 16, 3), (128, 4, 12, 3), (128, 4, 16, 3),
    )],
    "dcgan": [Case(16, *of) for of in (
        (3, 32, 32, 4, 2, 1, 1), (32, 16, 64, 4, 2, 1, 1), (64, 8, 128, 4, 2, 1, 1),
    )],
    "large": [
        Case(64, 1, 28, 20, 5, pad=0), Case(64, 20, 12, 50, 5, pad=0), Case(8, 64, 27, 192, 5), Case(8, 32, 28, 32, 5),
        Case(8, 64, 56, 64, 5, 2), Case(8, 32, 28, 32, 7), Case(8, 64, 28, 64, 7, 2),
    ],
    "small": [Case(64, *of) for of in (
        (3, 32, 16, 3), (16, 32, 16, 3), (16, 32, 32, 3, 2), (32, 16, 32, 3), (64, 8, 64, 3),
    )],
    "depthwise": [Case(8, c, size, c, kernel, stride, c) for c, size, kernel, stride in (
        (32, 112, 3, 1), (96, 112, 3, 2), (144, 56, 3, 1), (144, 56, 3, 2), (192, 28, 3, 1), (192, 28, 3, 2),
        (384, 14, 3, 1), (576, 14, 3, 1), (576, 14, 3, 2), (960, 7, 3, 1),
        (240, 28, 5, 1), (96, 56, 5, 2), (64, 28, 7, 1),
    )],
    "few": [Case(8, *of) for of in (
        (32, 56, 32, 3, 1, 2), (32, 56, 32, 3, 1, 4), (32, 56, 32, 3, 1, 16), (128, 28, 128, 3, 1, 2),
        (128, 28, 128, 3, 1, 32), (128, 56, 128, 3, 2, 32), (256, 14, 256, 3, 1, 32), (64, 28, 64, 1, 1, 4),
        (48, 27, 128, 5, 1, 2), (64, 28, 64, 3, 2, 8),
    )],
}  # fmt: skip


def measure(case: Case, rounds: int = ROUNDS) -> dict[str, Any]:
    """The row of a convolution: milliseconds by pass and form."""
    import jax.numpy as jnp
    import numpy as np

    from mxjax.ops.lowering.convolution_forms import primitives
    from mxjax.ops.lowering.convolution_plan import PLAIN, Shape, admissible, blocks_in, choose

    random = np.random.RandomState(0)
    images, w_shape, stride, pad = _shapes(case)
    shape = Shape(images[1:3], w_shape[1:3], stride, (1, 1), pad, True, False, case.groups)

    def drawn(*of: int) -> Any:
        return jnp.asarray(random.uniform(-1, 1, of), case.dtype)

    x, w = drawn(*images), drawn(w_shape[0], w_shape[3], *w_shape[1:3])
    g = drawn(case.images, *shape.window.out, case.filters)
    operands = {"value": (x, w), "input_gradient": (g, w), "weight_gradient": (x, g)}
    forms = admissible(images, w_shape, stride, pad, case.groups)
    if case.dtype != "float32":
        forms = (("wide", "narrow"),) * 3
        wide = choose("cpu", "float32", images, w_shape, stride, (1, 1), pad)
    value, _, weight = primitives()
    ms: dict[str, Any] = {}
    for prim, (name, args), ways in zip(primitives(), operands.items(), forms, strict=True):
        # XLA's own loops over groups take seconds.
        ways = [form for form in ways if case.groups == 1 or form == "shifts" or blocks_in(form)]
        plans = {form: PLAIN._replace(**{name: form}) for form in ways}
        if "wide" in plans:
            plans["wide"] = wide
        ms[name] = _least(
            {
                form: _compiled(lambda a, b, p=prim, q=q: p.bind(a, b, plan=q, shape=shape), args)
                for form, q in plans.items()
            },
            args,
            rounds,
        )
    if case.kernel > 1 and case.groups == 1 and "cols" in forms[0] and "cols" in forms[2]:
        plan = PLAIN._replace(value="cols", weight_gradient="cols")

        def both(x: Any, w: Any, g: Any) -> Any:
            made = value.bind(x, w, plan=plan, shape=shape)
            return made, weight.bind(x, g, plan=plan, shape=shape)

        ms["shared"] = _least({"both": _compiled(both, (x, w, g))}, (x, w, g), rounds)["both"]
    return {
        "images": images, "filters": case.filters, "kernel": w_shape[1:3], "stride": stride, "pad": pad,
        "groups": case.groups, "dtype": case.dtype, "ms": ms,
    }  # fmt: skip


def _shapes(case: Case) -> Any:
    """Of the images and the weight, channels last; stride and padding."""
    images = case.images, case.size, case.size, case.channels
    w_shape = case.filters, case.kernel, case.kernel, case.channels // case.groups
    return images, w_shape, (case.stride,) * 2, (case.padding,) * 2


def _compiled(fn: Any, args: Any) -> Any:
    """As mxjax's programs are."""
    import jax

    from mxjax.core.compile.compiler_options import default_options
    from mxjax.core.compile.outline import ToLower

    structs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in args]
    lowered = ToLower(jax.jit(fn).trace(*structs), structs, jax.devices("cpu")[0]).whole
    return lowered.compile(default_options("cpu"))


def _least(ways: dict[str, Any], args: Any, rounds: int) -> dict[str, float]:
    """The least milliseconds of each, which take turns."""
    import jax

    from mxjax.core.compile.compiler_options import cores

    clock = time.process_time if cores() == 1 else time.perf_counter

    def took(fn: Any, calls: int) -> float:
        start, made = clock(), None
        for _ in range(calls):
            made = fn(*args)
        jax.block_until_ready(made)
        return (clock() - start) / calls

    calls = {}
    for name, fn in ways.items():
        took(fn, 1)
        calls[name] = max(1, int(LEAST / max(took(fn, 1), 1e-6)))
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, fn in ways.items():
            best[name] = min(best[name], took(fn, calls[name]))
    return {name: float(f"{1e3 * s:.3g}") for name, s in best.items()}


def usual(case: Case) -> Any:
    """The plan without what was measured."""
    from mxjax.ops.lowering import convolution_plan, measured

    images, w_shape, stride, pad = _shapes(case)
    rows, measured.rows = measured.rows, dict  # type: ignore[assignment]
    measured.times.cache_clear()
    try:
        where = images, w_shape, stride, (1, 1), pad
        if case.dtype != "float32":
            plan = convolution_plan.in_bfloat16(case.dtype, *where) or ("wide",) * 3
            return convolution_plan.Plan(*(form if form == "narrow" else "wide" for form in plan))
        return convolution_plan.choose("cpu", case.dtype, *where, case.groups)
    finally:
        measured.rows = rows
        measured.times.cache_clear()


def written(entries: list[dict[str, Any]], rows: list[dict[str, Any]]) -> str:
    """The file with these rows in the entry of this machine and jaxlib."""
    import jaxlib

    from mxjax.core.compile.compiler_options import cores, cpu_features
    from mxjax.ops.lowering import measured

    facts = {
        "platform": "cpu",
        "features": [name for name in FEATURES if name in cpu_features()],
        "jaxlib": jaxlib.__version__,
        "cores": cores(),
    }

    def of(entry: dict[str, Any]) -> Any:
        last = measured.version(entry["jaxlib"])
        return entry["platform"], entry["features"], last, entry["cores"]

    def about(row: dict[str, Any]) -> Any:
        shapes = [[*row[k]] for k in ("images", "kernel", "stride")]
        return [*shapes, row["filters"], row["groups"], row["dtype"]]

    old = next((e for e in entries if of(e) == of(facts)), {"rows": []})
    new = [about(row) for row in rows]
    kept = [row for row in old["rows"] if about(row) not in new]
    facts["processor"] = processor()
    facts["date"] = datetime.date.today().isoformat()
    made = [e for e in entries if e is not old] + [{**facts, "rows": kept + rows}]
    return json_of(sorted(made, key=lambda e: of(e)[1:]))


def json_of(entries: list[dict[str, Any]]) -> str:
    """A line for each row."""
    parts = []
    for entry in entries:
        head = ",\n".join(
            f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in entry.items() if k != "rows"
        )
        body = ",\n".join(f"   {json.dumps(row)}" for row in entry["rows"])
        parts.append(f' {{\n{head},\n  "rows": [\n{body}\n  ]\n }}')
    return "[\n" + ",\n".join(parts) + "\n]\n"


def line(case: Case, row: dict[str, Any]) -> str:
    """What was found, where it is another form than the usual one."""
    from mxjax.ops.lowering import measured

    found = []
    for name, form in usual(case)._asdict().items():
        ms = row["ms"][name]
        best = measured.faster(form, tuple(ms), ms)
        if best != form:
            found.append(f"{name} {best} {ms[best]:g} for {form} {ms[form]:g}")
    return f"{tuple(case[:7])}: {'; '.join(found)}" if found else ""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Measure the forms of convolutions.")
    parser.add_argument("--cores", type=int, default=1, help="of how many cores (default: one)")
    parser.add_argument("parts", nargs="*", metavar="PART", help="without, all of them")
    options = parser.parse_args(arguments)
    unknown = [part for part in options.parts if part not in SHAPES]
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(SHAPES)}")
    pin(options.cores)
    from mxjax.ops.lowering import measured

    begin, lines = time.perf_counter(), []
    for part in options.parts or SHAPES:
        rows = []
        for case in SHAPES[part]:
            say(f"{part} {tuple(case[:7])}")
            rows.append(measure(case))
            lines.append(line(case, rows[-1]))
        measured.FILE.write_text(written(json.loads(measured.FILE.read_text("utf-8")), rows))
    print(
        "images, channels, size, filters, kernel, stride, groups: ms where another form is faster"
    )
    print("\n".join(filter(None, lines)))
    print(f"{time.perf_counter() - begin:.0f} s; {measured.FILE.name} has the rows")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
