"""Functions on symbols whose results have as many elements as the numbers say: they run node by node."""

from __future__ import annotations

from typing import Any

from .. import attribute, name
from . import attributes
from .compose import one_entry
from .node import Node
from .symbol import Symbol, _Symbol


def special(registry: str, hint: str, inputs: Any, params: dict[str, Any], count: int = 1, np: bool = False) -> Any:
    """The symbol of an operator that no row of the table is (`special.py`)."""
    title = name.current().get(params.pop("name", None), hint)
    attrs = attributes.checked(attribute.current().get(params.pop("attr", None)))
    entries = [one_entry(s, f"Argument {k}") for k, s in enumerate(inputs)]
    names = [f"arg{k}" for k in range(len(entries))]
    node = Node(title, None, params, attrs, entries, names, {"outputs": count}, registry=registry, is_np=np)
    return (_Symbol if np else Symbol)([(node, k) for k in range(count)])


def boolean_mask(data: Any, index: Any, axis: int = 0, **kwargs: Any) -> Any:
    """The rows whose number in ``index`` is not zero."""
    return special("_contrib_boolean_mask", "boolean_mask", [data, index], {"axis": axis, **kwargs})


def cast_storage(data: Any, stype: str = "default", **kwargs: Any) -> Any:
    """The symbol in a storage type: arrays are dense here, whatever is asked for."""
    return special("cast_storage", "cast_storage", [data], {"stype": stype, **kwargs})


def rand_zipfian(true_classes: Any, num_sampled: int, range_max: int) -> tuple[Any, Any, Any]:
    """Classes drawn with odds that fall like 1 / rank, and how often each of the true and of the drawn is expected.

    Gives (drawn classes, expected counts of the true ones, expected counts of the drawn ones).
    """
    import math

    from .. import symbol
    from . import random

    made: Any = symbol
    cast, exp, floor, log = made.cast, made.exp, made.floor, made.log
    scale = math.log(range_max + 1)
    drawn = cast(exp(random.uniform(0, scale, shape=(num_sampled,), dtype="float64")) - 1.0, dtype="int64")
    drawn = drawn % range_max

    def expected(classes: Any) -> Any:
        c = cast(classes, dtype="float64")
        return log((floor(c) + 2.0) / (floor(c) + 1.0)) / scale * num_sampled

    return drawn, expected(true_classes), expected(drawn)


def nonzero(x: Any, **kwargs: Any) -> Any:
    """The indices of the elements that are not zero, as rows."""
    return special("_npx_nonzero", "nonzero", [x], kwargs, np=True)


def flatnonzero(a: Any) -> Any:
    """The positions of the elements that are not zero, among all of them."""
    return special("_npi_flatnonzero", "flatnonzero", [a], {}, np=True)


def unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: Any = None
) -> Any:
    """The sorted distinct elements; if asked also where they are first, how they make the array, how many."""
    params = {"return_index": return_index, "return_inverse": return_inverse, "return_counts": return_counts}
    count = 1 + sum(params.values())
    return special("_npi_unique", "unique", [ar], {**params, "axis": axis}, count, np=True)


def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each number occurs; with ``weights`` their sums."""
    inputs = [x] if weights is None else [x, weights]
    return special("_npi_bincount", "bincount", inputs, {"minlength": minlength}, np=True)


def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """Without the elements at a place, in a slice, or at the places that a symbol says."""
    params: dict[str, Any] = {"axis": axis}
    inputs = [arr]
    if isinstance(obj, Symbol):
        inputs.append(obj)
    elif isinstance(obj, slice):
        params.update(start=obj.start, stop=obj.stop, step=obj.step)
    else:
        params["int_ind"] = int(obj)
    return special("_npi_delete", "delete", inputs, params, np=True)


def eig(a: Any) -> Any:
    """Eigenvalues and right eigenvectors of real square matrices that have real ones."""
    return special("_npi_eig", "eig", [a], {}, 2, np=True)


def eigvals(a: Any) -> Any:
    """Eigenvalues of real square matrices that have real ones."""
    return special("_npi_eigvals", "eigvals", [a], {}, np=True)
