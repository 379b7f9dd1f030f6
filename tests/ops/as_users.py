"""Rows that name a NumPy function, at so many numbers, compiled as users' programs are.

``python -m tests.ops.as_users 67 1003`` prints a line for each result that is not NumPy's, and how many were compared.
Vectors, what is left over of them at the end of an array, and XLA's functions for them have code only at such sizes.
Rows share programs, as far as the engine lets them.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import mxjax as mx
from mxjax.ops import TABLE
from mxjax.ops.samples import Array, Case

from .test_table import draw, live, numbers, run

GROUP = 60  # calls in a program


def enlarged(case: Case, n: int) -> Case | None:
    """The case with n numbers in each array; None where its arrays have several shapes."""
    arrays = [a for a in case.args if isinstance(a, Array)]
    if len({a.shape for a in arrays}) != 1:
        return None
    return Case(
        tuple(a._replace(shape=(n,)) if isinstance(a, Array) else a for a in case.args), case.attrs
    )


def calls(sizes: list[int]) -> Iterator[tuple[str, Any, list[Any], Any, list[Any]]]:
    """(name, row, arguments, attributes, NumPy's results) of every row that takes one axis."""
    for name, op in sorted(TABLE.items()):
        for n in sizes if op.tests.ref is not None and not op.keyed else ():
            case = enlarged(op.tests.samples[0], n)
            if case is None:
                continue
            args = draw(op, case, 0)
            try:
                want = op.tests.ref(*args, **case.attrs)
            except ValueError:  # needs two axes, or lengths that its attributes say
                continue
            yield (
                f"{name} of {n}",
                op,
                args,
                case.attrs,
                list(want) if isinstance(want, (tuple, list)) else [want],
            )


def differ(got: np.ndarray, want: Any) -> bool:
    want = np.asarray(want, "float64")
    size = np.abs(want[np.isfinite(want)]).max(initial=1)
    close = got.shape == want.shape and np.allclose(
        got.astype("float64"), want, rtol=2e-5, atol=2e-6 * size, equal_nan=True
    )
    return not close


def main(sizes: list[int]) -> int:
    """How many results differ."""
    mx.config.set({"engine.cold": "compile"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        todo, wrong = list(calls(sizes)), 0
    for k in range(0, len(todo), GROUP):
        group = todo[k : k + GROUP]
        outs = [run(op, live(op, args), attrs) for _, op, args, attrs, _ in group]
        mx.waitall()
        for (name, *_, wanted), got in zip(group, outs, strict=True):
            for g, w in zip(numbers(got), wanted, strict=True):
                if differ(g, w):
                    wrong += 1
                    print(f"{name}: {g.ravel()[:3].tolist()} for {np.ravel(w)[:3].tolist()}")
    print(f"compared {len(todo)}, programs {mx.engine.stats()['compiled']}, wrong {wrong}")
    return wrong


if __name__ == "__main__":
    sys.exit(bool(main([int(n) for n in sys.argv[1:]])))
