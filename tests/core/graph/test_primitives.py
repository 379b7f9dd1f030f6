"""The one table of JAX's primitives: its names are those of the JAX at hand, and nobody else classifies them."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from jax.extend.core import Primitive

import mxjax  # noqa: F401  # with the primitives of its own
from mxjax.core import primitives

ROOT = Path(__file__).parents[3]
TABLES = {
    name: set(value)
    for name, value in vars(primitives).items()
    if name.isupper() and isinstance(value, (frozenset, dict, tuple))
}
#: Names that this JAX need not have: of other versions, and of what is no primitive of JAX in all of them.
ELSEWHERE = {
    *("checkpoint", "remat", "remat2", "core_call", "pjit", "jit", "closed_call", "custom_vjp_call_jaxpr"),
    *("copy_p", "expand_dims", "stop_gradient", "custom_call", "rng_uniform", "ragged_dot_general"),
    # ours, made when asked for
    *("convolution", "convolution_input_gradient", "convolution_weight_gradient", "search"),
    *("max_pool_pick", "max_pool_pick_transpose", "row_sums"),
}  # fmt: skip


def of_jax() -> set[str]:
    modules = [m for n, m in sys.modules.items() if n.partition(".")[0] in ("jax", "mxjax")]
    values = [v for m in modules for v in list(getattr(m, "__dict__", {}).values())]
    return {v.name for v in values if isinstance(v, Primitive)}


def test_the_names_are_those_of_this_jax():
    here = of_jax()
    assert len(here) > 200
    missing = {name: sorted(names - here - ELSEWHERE) for name, names in TABLES.items()}
    assert not any(missing.values()), f"this JAX has no such primitives: {missing}"
    assert {"jit", "pjit"} & here and {"checkpoint", "remat", "remat2"} & here


def test_the_classes_fit_together():
    p = primitives
    assert p.ROUNDED < p.POINTWISE and p.ROUNDED_TOGETHER < p.POINTWISE & p.EXACT
    assert not p.ROUNDED & p.EXACT and not p.POINTWISE & p.VIEWS and p.ONCE < p.COSTLY
    assert not p.COSTLY & p.POINTWISE


def sets(tree: ast.AST) -> Iterator[tuple[int, set[str]]]:
    """The sets of texts in a program, as literals and as what `frozenset` makes of them."""
    for node in ast.walk(tree):
        made = isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("set", "frozenset")
        if made or isinstance(node, ast.Set):
            texts = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
            yield node.lineno, {word for t in texts if isinstance(t, str) for word in t.split()}


def test_primitives_are_classified_nowhere_else():
    found = []
    for part in ("mxjax/core", "memonger", "profiler"):
        for path in sorted((ROOT / part).rglob("*.py")):
            if path.name != "primitives.py" or path.parent.name != "graph":
                for line, names in sets(ast.parse(path.read_text())):
                    hlo = names & {
                        "cosine",
                        "exponential",
                    }  # XLA's operations have names of their own
                    if len(names & primitives.POINTWISE) >= 3 and not hlo:
                        found.append(f"{path.relative_to(ROOT)}:{line}")
    assert not found, f"classify primitives in mxjax/core/graph/primitives.py: {found}"
